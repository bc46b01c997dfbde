//! Members of the classic protocol: a connection for each member of a group, since a JoinGroup holds
//! its connection up until all have joined; the members of the same number of all groups share it.

use bytes::Bytes;
use odradek_core::wire::consumer_protocol::ConsumerProtocolSubscription;
use odradek_core::wire::messages::HeartbeatRequest;
use odradek_core::wire::messages::join_group::{
    JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse,
};
use odradek_core::wire::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};
use odradek_core::wire::{ApiKey, ErrorCode, ResponseBody, Str, Versioned};

use super::{Members, Plan};
use crate::bench::frames::refused;
use crate::bench::link::{Link, nonsense};
use crate::bench::schedule::{Schedule, wait_until};
use crate::failure::Failure;

// Below version 4 a new member is let in at once.
const JOIN: i16 = 3;
const SYNC: i16 = 3;
const HEARTBEAT: i16 = 3;
/// As many bytes as ten partitions of a topic take.
const ASSIGNMENT_BYTES: usize = 70;

/// The members.
pub(super) struct ClassicMembers {
    links: Vec<Link>,
    groups: Vec<Group>,
    subscription: Bytes,
}

struct Group {
    id: Str,
    /// By the number of the connection.
    members: Vec<Str>,
    generation_id: i32,
    leader: usize,
}

impl ClassicMembers {
    /// Connects, and has all groups stable.
    pub(super) fn open(plan: &Plan) -> Result<Self, Failure> {
        let connect = |_| Link::connect(plan.target.address);
        let links: Result<Vec<Link>, Failure> = (0..plan.members).map(connect).collect();
        let subscription = ConsumerProtocolSubscription {
            topics: vec![plan.topic.as_str().into()],
            ..Default::default()
        };
        let mut all = Self {
            links: links?,
            groups: Vec::new(),
            subscription: subscription.to_versioned(1),
        };
        for number in 0..plan.groups {
            let group = Group {
                id: format!("{}-{number}", plan.prefix).into(),
                members: vec![Str::new(); all.links.len()],
                generation_id: -1,
                leader: 0,
            };
            all.groups.push(group);
            for member in 0..all.links.len() {
                all.send_join(number as usize, member)?;
            }
            all.finish(number as usize)?;
        }
        Ok(all)
    }

    fn send_join(&mut self, group: usize, member: usize) -> Result<(), Failure> {
        let (Some(group), Some(link)) = (self.groups.get(group), self.links.get_mut(member)) else {
            return Ok(());
        };
        let request = JoinGroupRequest {
            group_id: group.id.clone(),
            session_timeout_ms: 60_000,
            rebalance_timeout_ms: 60_000,
            member_id: group.members.get(member).cloned().unwrap_or_default(),
            protocol_type: "consumer".into(),
            protocols: vec![JoinGroupRequestProtocol {
                name: "range".into(),
                metadata: self.subscription.clone(),
                ..Default::default()
            }],
            ..Default::default()
        };
        link.request(JOIN, &request)
    }

    /// Everybody has asked to join: takes the answers, and has the leader assign.
    fn finish(&mut self, number: usize) -> Result<(), Failure> {
        let Some(group) = self.groups.get_mut(number) else {
            return Ok(());
        };
        for (member, link) in self.links.iter_mut().enumerate() {
            let ResponseBody::JoinGroup(response) = link.answer(ApiKey::JoinGroup, JOIN)? else {
                return Err(nonsense());
            };
            let JoinGroupResponse {
                error_code,
                generation_id,
                leader,
                member_id,
                ..
            } = response;
            if error_code.is_error() {
                return Err(refused("JoinGroup", error_code));
            }
            if leader == member_id {
                group.leader = member;
            }
            group.generation_id = generation_id;
            if let Some(id) = group.members.get_mut(member) {
                *id = member_id;
            }
        }
        for (member, link) in self.links.iter_mut().enumerate() {
            let assignments = if member == group.leader {
                let ids = group.members.iter();
                ids.map(|id| SyncGroupRequestAssignment {
                    member_id: id.clone(),
                    assignment: Bytes::from_static(&[0; ASSIGNMENT_BYTES]),
                    ..Default::default()
                })
                .collect()
            } else {
                Vec::new()
            };
            let request = SyncGroupRequest {
                group_id: group.id.clone(),
                generation_id: group.generation_id,
                member_id: group.members.get(member).cloned().unwrap_or_default(),
                assignments,
                ..Default::default()
            };
            link.request(SYNC, &request)?;
        }
        for link in &mut self.links {
            match link.answer(ApiKey::SyncGroup, SYNC)? {
                ResponseBody::SyncGroup(response) if !response.error_code.is_error() => {}
                ResponseBody::SyncGroup(response) => {
                    return Err(refused("SyncGroup", response.error_code));
                }
                _ => return Err(nonsense()),
            }
        }
        Ok(())
    }

    fn heartbeat(&mut self, group: usize, member: usize) -> Result<ErrorCode, Failure> {
        let (Some(group), Some(link)) = (self.groups.get(group), self.links.get_mut(member)) else {
            return Ok(ErrorCode::NONE);
        };
        let request = HeartbeatRequest {
            group_id: group.id.clone(),
            generation_id: group.generation_id,
            member_id: group.members.get(member).cloned().unwrap_or_default(),
            ..Default::default()
        };
        match link.ask(HEARTBEAT, &request)? {
            ResponseBody::Heartbeat(response) => Ok(response.error_code),
            _ => Err(nonsense()),
        }
    }
}

impl Members for ClassicMembers {
    fn heartbeat_all(&mut self, at: Option<Schedule>) -> Result<(), Failure> {
        let mut number = 0;
        for group in 0..self.groups.len() {
            for member in 0..self.links.len() {
                if let Some(schedule) = &at {
                    wait_until(schedule.due(number));
                }
                number += 1;
                let error = self.heartbeat(group, member)?;
                if error.is_error() {
                    return Err(refused("Heartbeat", error));
                }
            }
        }
        Ok(())
    }

    /// The leader joins again; the others hear of it by their heartbeats.
    fn rebalance(&mut self) -> Result<(), Failure> {
        let leader = self.groups.first().map_or(0, |group| group.leader);
        self.send_join(0, leader)?;
        for member in (0..self.links.len()).filter(|member| *member != leader) {
            // The leader's request may still be on its way.
            while self.heartbeat(0, member)? != ErrorCode::REBALANCE_IN_PROGRESS {}
            self.send_join(0, member)?;
        }
        self.finish(0)
    }
}
