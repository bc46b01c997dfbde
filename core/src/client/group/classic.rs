//! The classic protocol: JoinGroup, SyncGroup, Heartbeat. One of the members assigns for all.
//!
//! ```text
//! Out -> Joining -> Syncing -> In -> REBALANCE_IN_PROGRESS -> Joining ...
//!             \-> Assigning (the leader waits until it knows the topics)
//! ```
//!
//! An eager member gives everything up before it joins; a cooperative one keeps what it has and gives
//! up what the new assignment takes from it, then joins again so that others can have that (KIP-429).
//!
//! What members tell each other has Kafka's own bytes, so that clients of every kind can share a group.

use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec::Vec;

use bytes::Bytes;

use super::assignor::{MemberInfo, Partitions};
use super::{Cx, Group, Phase, Sent};
use crate::client::config::Assignor;
use crate::client::error::ClientError;
use crate::client::input::{TopicName, TopicPartition};
use crate::client::metadata::Metadata;
use crate::client::network::{GroupRequest, Target};
use crate::client::step::earlier;
use crate::ids::TopicId;
use crate::time::Mono;
use crate::wire::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition as WirePartitions,
};
use crate::wire::messages::join_group::JoinGroupRequestProtocol;
use crate::wire::messages::sync_group::SyncGroupRequestAssignment;
use crate::wire::messages::{
    HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, SyncGroupRequest,
};
use crate::wire::versioned::Versioned;
use crate::wire::{ErrorCode, ResponseBody, Str};

/// What the protocol needs beside the member's place.
#[derive(Debug, Default)]
pub(super) struct Classic {
    /// Whether the member is to join again.
    pub(super) rejoin: bool,
    heartbeat_at: Mono,
    is_heartbeating: bool,
    not_before: Mono,
    failures: u32,
    /// What the group chose.
    protocol: Option<Str>,
    /// Of the leader: the topics it assigned, each with the number of partitions it saw. If one has
    /// another number later, all join again.
    watched: BTreeMap<TopicName, i32>,
    watched_as_of: u64,
}

/// The newest version of what members tell each other. Older readers ignore what is new.
const SUBSCRIPTION_VERSION: i16 = 3;
const ASSIGNMENT_VERSION: i16 = 3;
const PROTOCOL_TYPE: &str = "consumer";

/// How much longer than the group may take to gather its members an answer may take.
const JOIN_SLACK_MS: u32 = 5_000;

impl Classic {
    /// The member is out.
    pub(super) fn reset(&mut self) {
        *self = Self {
            not_before: self.not_before,
            failures: self.failures,
            ..Self::default()
        };
    }
}

impl Group {
    pub(super) fn settle_classic(&mut self, cx: &mut Cx<'_, '_>) {
        match &self.phase {
            Phase::Out if self.giving_up.is_none() => self.join(cx),
            Phase::Out | Phase::Joining | Phase::Syncing => {}
            Phase::Assigning(_) => {
                if let Phase::Assigning(response) = core::mem::take(&mut self.phase) {
                    self.assign(cx, response);
                }
            }
            Phase::In => {
                self.watch(cx.metadata);
                // It stays a member for as long as it takes to give partitions up.
                if self.classic.rejoin && self.giving_up.is_none() {
                    self.join(cx);
                }
                self.heartbeat(cx);
            }
        }
    }

    fn assignors(&self) -> &[Assignor] {
        match &*self.config.assignors {
            [] => &Assignor::DEFAULT,
            list => list,
        }
    }

    /// Whether the member keeps its partitions while the group rebalances: only if every assignor
    /// that may be chosen can deal with that.
    fn is_cooperative(&self) -> bool {
        self.assignors()
            .iter()
            .all(|assignor| assignor.is_cooperative())
    }

    /// Joins, once what must not be kept is given up.
    fn join(&mut self, cx: &mut Cx<'_, '_>) {
        let keeps = |partition: &&TopicPartition| {
            self.is_cooperative()
                && self
                    .topics
                    .as_ref()
                    .is_some_and(|topics| topics.contains(&partition.topic))
        };
        let gone: Vec<TopicPartition> = self
            .owned
            .keys()
            .filter(|partition| !keeps(partition))
            .cloned()
            .collect();
        if !gone.is_empty() {
            return self.give_up(cx, gone);
        }
        if self.classic.not_before > cx.step.now.mono {
            return;
        }
        let Some(target) = self.coordinator.target(cx.step, cx.metadata, cx.network) else {
            return;
        };
        let protocols = self.assignors().iter().map(|assignor| {
            let metadata = self
                .subscription(*assignor)
                .to_versioned(SUBSCRIPTION_VERSION);
            JoinGroupRequestProtocol {
                name: Str::from_static(assignor.name()),
                metadata,
                ..Default::default()
            }
        });
        let wait_ms = self.config.max_poll_interval_ms;
        let request = JoinGroupRequest {
            group_id: self.group_id.clone(),
            session_timeout_ms: milliseconds(self.config.session_timeout_ms),
            rebalance_timeout_ms: milliseconds(wait_ms),
            member_id: self.member_id.clone(),
            group_instance_id: self.instance_id.clone(),
            protocol_type: Str::from_static(PROTOCOL_TYPE),
            protocols: protocols.collect(),
            ..Default::default()
        };
        self.life += 1;
        self.classic.rejoin = false;
        self.classic.is_heartbeating = false;
        self.phase = Phase::Joining;
        let min_version = if self.instance_id.is_some() { 5 } else { 0 };
        let extra_ms = wait_ms.saturating_add(JOIN_SLACK_MS);
        let what = GroupRequest::Join;
        let sent = self.send(cx, target, what, request, min_version, extra_ms);
        self.check_sent(cx, sent);
    }

    fn check_sent(&mut self, cx: &mut Cx<'_, '_>, sent: Sent) {
        match sent {
            Ok(()) => {}
            Err(ClientError::Disconnected) => self.join_later(cx),
            Err(error) => self.fail(cx, error),
        }
    }

    fn subscription(&self, assignor: Assignor) -> ConsumerProtocolSubscription {
        let mut owned: BTreeMap<&TopicName, Vec<i32>> = BTreeMap::new();
        for partition in self.owned.keys() {
            let numbers = owned.entry(&partition.topic).or_default();
            numbers.push(partition.partition);
        }
        // Where Kafka's own sticky assignor looks if the members of the group are old ones.
        let user_data = assignor
            .is_cooperative()
            .then(|| Bytes::copy_from_slice(&self.epoch.to_be_bytes()));
        ConsumerProtocolSubscription {
            topics: self
                .topics
                .iter()
                .flatten()
                .map(|topic| Str::from(&**topic))
                .collect(),
            user_data,
            owned_partitions: owned
                .into_iter()
                .map(|(topic, partitions)| WirePartitions {
                    topic: Str::from(&**topic),
                    partitions,
                    ..Default::default()
                })
                .collect(),
            generation_id: self.epoch,
            rack_id: self.config.rack.as_deref().map(Str::from),
            ..Default::default()
        }
    }

    /// The answer to JoinGroup.
    pub(super) fn joined(
        &mut self,
        cx: &mut Cx<'_, '_>,
        result: Result<ResponseBody, ClientError>,
    ) {
        let Ok(ResponseBody::JoinGroup(response)) = result else {
            self.coordinator.lost(cx.step);
            return self.join_later(cx);
        };
        match response.error_code {
            ErrorCode::NONE => {
                self.member_id = response.member_id.detach();
                self.epoch = response.generation_id;
                self.classic.protocol = response.protocol_name.as_ref().map(Str::detach);
                if response.leader == response.member_id {
                    self.assign(cx, response);
                } else {
                    self.classic.watched.clear();
                    self.sync(cx, Vec::new());
                }
            }
            ErrorCode::MEMBER_ID_REQUIRED => {
                self.member_id = response.member_id.detach();
                self.phase = Phase::Out;
                self.join(cx);
            }
            code => self.classic_error(cx, code),
        }
    }

    /// The leader divides the partitions, once it knows how many there are.
    fn assign(&mut self, cx: &mut Cx<'_, '_>, response: JoinGroupResponse) {
        let members: BTreeMap<Str, MemberInfo> = response
            .members
            .iter()
            .map(|member| {
                let info = member_info(member.group_instance_id.as_ref(), &member.metadata);
                (member.member_id.clone(), info)
            })
            .collect();
        let mut counts = BTreeMap::new();
        let mut unknown = false;
        for topic in members.values().flat_map(|member| &member.topics) {
            cx.metadata.want(topic);
            match partition_count(cx.metadata, topic) {
                Some(count) => {
                    counts.insert(topic.clone(), count);
                }
                None => unknown = true,
            }
        }
        if unknown {
            self.phase = Phase::Assigning(response);
            return;
        }
        self.classic.watched.clone_from(&counts);
        self.classic.watched_as_of = cx.metadata.generation();
        if response.skip_assignment {
            // A static leader that is back: what was assigned before still holds.
            return self.sync(cx, Vec::new());
        }
        let name = response.protocol_name.as_deref().unwrap_or_default();
        let Some(assignor) = Assignor::from_name(name) else {
            return self.fail(
                cx,
                ClientError::Malformed {
                    reason: alloc::format!("the group chose the assignor '{name}'"),
                },
            );
        };
        counts.retain(|_, count| *count > 0);
        let assignments = assignor
            .assign(&members, &counts)
            .into_iter()
            .map(|(member_id, given)| SyncGroupRequestAssignment {
                member_id,
                assignment: assignment_bytes(given),
                ..Default::default()
            })
            .collect();
        self.sync(cx, assignments);
    }

    fn sync(&mut self, cx: &mut Cx<'_, '_>, assignments: Vec<SyncGroupRequestAssignment>) {
        let request = SyncGroupRequest {
            group_id: self.group_id.clone(),
            generation_id: self.epoch,
            member_id: self.member_id.clone(),
            group_instance_id: self.instance_id.clone(),
            protocol_type: Some(Str::from_static(PROTOCOL_TYPE)),
            protocol_name: self.classic.protocol.clone(),
            assignments,
            ..Default::default()
        };
        self.phase = Phase::Syncing;
        let Some(target) = self.coordinator.target(cx.step, cx.metadata, cx.network) else {
            return self.join_later(cx);
        };
        let min_version = if self.instance_id.is_some() { 3 } else { 0 };
        let extra_ms = self.config.max_poll_interval_ms;
        let what = GroupRequest::Sync;
        let sent = self.send(cx, target, what, request, min_version, extra_ms);
        self.check_sent(cx, sent);
    }

    /// The answer to SyncGroup.
    pub(super) fn synced(
        &mut self,
        cx: &mut Cx<'_, '_>,
        result: Result<ResponseBody, ClientError>,
    ) {
        let Ok(ResponseBody::SyncGroup(response)) = result else {
            self.coordinator.lost(cx.step);
            return self.join_later(cx);
        };
        if response.error_code.is_error() {
            return self.classic_error(cx, response.error_code);
        }
        let target = match read_assignment(&response.assignment) {
            Ok(target) => target,
            Err(error) => return self.fail(cx, error),
        };
        self.classic.failures = 0;
        self.phase = Phase::In;
        self.classic.heartbeat_at = self.next_heartbeat(cx.step.now.mono);
        self.next_auto_commit = self.auto_commit_after(cx.step.now.mono);
        let subscribed: BTreeMap<TopicPartition, TopicId> = target
            .iter()
            .filter(|partition| {
                let topics = self.topics.as_ref();
                topics.is_some_and(|topics| topics.contains(&partition.topic))
            })
            .map(|partition| (partition.clone(), TopicId::ZERO))
            .collect();
        // It was assigned by what the member no longer says.
        self.classic.rejoin |= subscribed.len() < target.len();
        let change = self.change_to(&subscribed);
        if !change.gone.is_empty() {
            // What it gives up is for somebody else, in the next generation.
            self.classic.rejoin = true;
            self.give_up(cx, change.gone);
        }
        if !change.new.is_empty() || !self.is_cooperative() {
            self.add(cx, change.new);
        }
    }

    /// Whether the leader must have all join again, since topics have other partitions now.
    fn watch(&mut self, metadata: &Metadata) {
        let generation = metadata.generation();
        if self.classic.watched_as_of == generation {
            return;
        }
        self.classic.watched_as_of = generation;
        self.classic.rejoin |= self.classic.watched.iter().any(|(topic, seen)| {
            partition_count(metadata, topic).is_some_and(|count| count != *seen)
        });
    }

    fn next_heartbeat(&self, now: Mono) -> Mono {
        now.plus_ms(self.config.heartbeat_interval_ms.max(1).into())
    }

    fn heartbeat(&mut self, cx: &mut Cx<'_, '_>) {
        let due = matches!(self.phase, Phase::In)
            && !self.classic.is_heartbeating
            && self.classic.heartbeat_at <= cx.step.now.mono;
        if !due {
            return;
        }
        let Some(target) = self.coordinator.target(cx.step, cx.metadata, cx.network) else {
            return;
        };
        self.beat(cx, target);
    }

    fn beat(&mut self, cx: &mut Cx<'_, '_>, target: Target) {
        let request = HeartbeatRequest {
            group_id: self.group_id.clone(),
            generation_id: self.epoch,
            member_id: self.member_id.clone(),
            group_instance_id: self.instance_id.clone(),
            ..Default::default()
        };
        let min_version = if self.instance_id.is_some() { 3 } else { 0 };
        self.classic.heartbeat_at = self.next_heartbeat(cx.step.now.mono);
        let what = GroupRequest::Heartbeat;
        if self.send(cx, target, what, request, min_version, 0).is_ok() {
            self.classic.is_heartbeating = true;
        }
    }

    /// The answer to Heartbeat.
    pub(super) fn beaten(
        &mut self,
        cx: &mut Cx<'_, '_>,
        result: Result<ResponseBody, ClientError>,
    ) {
        self.classic.is_heartbeating = false;
        match result {
            Ok(ResponseBody::Heartbeat(response)) => match response.error_code {
                ErrorCode::NONE => {}
                code => self.classic_error(cx, code),
            },
            _ => {
                self.coordinator.lost(cx.step);
                self.classic.heartbeat_at = cx.step.now.mono;
            }
        }
    }

    fn classic_error(&mut self, cx: &mut Cx<'_, '_>, code: ErrorCode) {
        let is_in = matches!(self.phase, Phase::In);
        match code {
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION => self.fenced(cx, code),
            ErrorCode::REBALANCE_IN_PROGRESS if is_in => self.classic.rejoin = true,
            ErrorCode::REBALANCE_IN_PROGRESS => self.phase = Phase::Out,
            ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => {
                self.coordinator.lost(cx.step);
                self.coordinator.last_error = Some(code);
                if is_in {
                    self.classic.heartbeat_at = cx.step.now.mono;
                } else {
                    self.join_later(cx);
                }
            }
            code if code.is_retriable() => {
                if !is_in {
                    self.join_later(cx);
                }
            }
            code => self.fail(cx, ClientError::broker(code)),
        }
    }

    fn join_later(&mut self, cx: &mut Cx<'_, '_>) {
        self.life += 1;
        self.phase = Phase::Out;
        self.classic.failures = self.classic.failures.saturating_add(1);
        self.classic.not_before = self.backoff.after(self.classic.failures, cx.step);
    }

    pub(super) fn classic_deadline(&self) -> Option<Mono> {
        let classic = &self.classic;
        let joins = matches!(self.phase, Phase::Out) || classic.rejoin;
        let beats = matches!(self.phase, Phase::In) && !classic.is_heartbeating;
        earlier(
            joins.then_some(classic.not_before),
            beats.then_some(classic.heartbeat_at),
        )
    }
}

/// How many partitions a topic has, if it was asked for: none, if there is no such topic.
fn partition_count(metadata: &Metadata, topic: &TopicName) -> Option<i32> {
    let known = metadata.topic(topic)?;
    match known.error {
        Some(code) if code.is_retriable() && code != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => None,
        Some(_) => Some(0),
        None => i32::try_from(known.partitions.len()).ok(),
    }
}

/// What a member says of itself. One that cannot be understood gets nothing.
fn member_info(instance_id: Option<&Str>, metadata: &Bytes) -> MemberInfo {
    let Ok(said) = ConsumerProtocolSubscription::read_lenient(metadata.clone()) else {
        return MemberInfo::default();
    };
    let mut owned = Partitions::new();
    for topic in &said.owned_partitions {
        let numbers = owned.entry(TopicName::from(&*topic.topic)).or_default();
        numbers.extend(&topic.partitions);
    }
    // Before the field there was, members said it where only their assignor looks.
    let in_user_data = said
        .user_data
        .as_ref()
        .and_then(|bytes| bytes.first_chunk())
        .map(|bytes| i32::from_be_bytes(*bytes));
    let generation = match said.generation_id {
        -1 => in_user_data.unwrap_or(-1),
        known => known,
    };
    MemberInfo {
        instance_id: instance_id.cloned(),
        topics: said
            .topics
            .iter()
            .map(|name| TopicName::from(&**name))
            .collect(),
        owned,
        generation,
    }
}

fn assignment_bytes(given: Partitions) -> Bytes {
    let assignment = ConsumerProtocolAssignment {
        assigned_partitions: given
            .into_iter()
            .map(|(topic, numbers)| WirePartitions {
                topic: Str::from(&*topic),
                partitions: numbers.into_iter().collect(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    assignment.to_versioned(ASSIGNMENT_VERSION)
}

/// What the leader gave. No bytes at all are nothing: it forgot the member.
fn read_assignment(bytes: &Bytes) -> Result<Vec<TopicPartition>, ClientError> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let read = ConsumerProtocolAssignment::read_lenient(bytes.clone());
    let given = read.map_err(|error| ClientError::Malformed {
        reason: error.to_string(),
    })?;
    let mut partitions = Vec::new();
    for topic in given.assigned_partitions {
        let name = TopicName::from(&*topic.topic);
        partitions.extend(
            topic
                .partitions
                .into_iter()
                .map(|partition| TopicPartition {
                    topic: name.clone(),
                    partition,
                }),
        );
    }
    partitions.sort();
    partitions.dedup();
    Ok(partitions)
}

fn milliseconds(ms: u32) -> i32 {
    i32::try_from(ms).unwrap_or(i32::MAX)
}
