//! A member of a classic group that speaks raw frames. It joins, assigns if it leads, heartbeats and
//! commits; it also leaves, stalls past its session, dies without a word, vanishes between its join
//! and its sync, and comes back as a zombie with an identity of before.

use bytes::Bytes;
use odradek_core::ids::ConnectionId;
use odradek_core::wire::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition,
};
use odradek_core::wire::messages::heartbeat::HeartbeatRequest;
use odradek_core::wire::messages::join_group::{
    JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse,
};
use odradek_core::wire::messages::leave_group::{LeaveGroupRequest, MemberIdentity};
use odradek_core::wire::messages::sync_group::{
    SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse,
};
use odradek_core::wire::{ApiKey, ErrorCode, ResponseBody, Str, Versioned};

use super::group_requests::{
    Partition, Who, commit, fetch_offsets, find_coordinator, is_away, is_found, version_from,
};
use super::pace::Pace;
use super::seen::Seen;
use super::session::Session;
use super::{Client, ClientContext};
use crate::clock::MILLISECOND;
use crate::oracle::Mark;
use crate::swarm::GroupMix;

/// The protocol type of consumers.
const CONSUMER: &str = "consumer";
/// Version 0 of the metadata and assignments that members exchange, and those after it.
const NEWEST_INNER: u64 = 3;

/// Is a member of a classic group.
#[derive(Debug)]
pub struct GroupMember {
    mix: GroupMix,
    who: Who,
    stage: Stage,
    topics: Vec<String>,
    session_timeout_ms: i32,
    rebalance_timeout_ms: i32,
    owned: Vec<Partition>,
    /// Who it was before, oldest first.
    past: Vec<Who>,
    session: Session,
    /// The connection of its zombies.
    shadow: Session,
    commits: u64,
    /// Heartbeats in a row that said that all is well.
    beats: u32,
    pace: Pace,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It does not know the coordinator.
    Looking,
    /// It is to join.
    Out,
    /// It waits for its generation, or its assignment.
    Joining,
    /// It has an assignment.
    In,
}

impl GroupMember {
    /// A member of this mix.
    #[must_use]
    pub fn new(mix: &GroupMix) -> Self {
        Self {
            mix: mix.clone(),
            who: Who {
                epoch: -1,
                ..Who::default()
            },
            stage: Stage::Looking,
            topics: Vec::new(),
            session_timeout_ms: 0,
            rebalance_timeout_ms: 0,
            owned: Vec::new(),
            past: Vec::new(),
            session: Session::default(),
            shadow: Session::default(),
            commits: 0,
            beats: 0,
            pace: Pace::default(),
        }
    }

    fn schedule(&mut self, cx: &mut ClientContext<'_>) {
        // Told to join again, it has its rebalance timeout to do so.
        let patience_ms = self.session_timeout_ms.min(self.rebalance_timeout_ms);
        let punctual_ns = patience_ms as u64 * MILLISECOND / 4;
        self.pace.schedule(cx, self.mix.pause_ns, punctual_ns);
    }

    /// It is nobody from now on; its old identity may come back as a zombie.
    fn forget(&mut self, cx: &mut ClientContext<'_>) {
        if !self.who.member_id.is_empty() {
            cx.catalog.members.remove(&self.who.member_id);
            self.past.push(self.who.clone());
            self.who.member_id = String::new();
        }
        self.who.epoch = -1;
        self.owned.clear();
        self.beats = 0;
        self.stage = Stage::Out;
    }

    /// Its session timeouts and subscription are drawn anew.
    fn draw(&mut self, cx: &mut ClientContext<'_>) {
        self.session_timeout_ms = cx.pick(&[150, 300, 600]);
        self.rebalance_timeout_ms = cx.pick(&[100, 300, 800]);
        self.subscribe(cx);
    }

    fn subscribe(&mut self, cx: &mut ClientContext<'_>) {
        let all: Vec<String> = cx.catalog.topics.iter().map(|(t, _)| t.clone()).collect();
        self.topics.clear();
        for topic in all {
            if self.topics.is_empty() || cx.chance(700_000) {
                self.topics.push(topic);
            }
        }
    }

    fn act(&mut self, cx: &mut ClientContext<'_>) {
        match self.stage {
            Stage::Looking => find_coordinator(&mut self.session, cx, &self.who.group),
            Stage::Out => self.join(cx),
            Stage::Joining => {}
            Stage::In if self.pace.is_finishing() => self.heartbeat(cx),
            Stage::In => match cx.between(0, 99) {
                0 | 1 => self.die(cx),
                2 => {
                    let session = self.session_timeout_ms as u64;
                    let pause = cx.between(session / 2, 2 * session);
                    self.pace.be_quiet(cx, pause);
                }
                3 | 4 => self.leave(cx),
                5 | 6 => {
                    self.subscribe(cx);
                    self.join(cx);
                }
                7..=30 if !self.owned.is_empty() => {
                    let from = cx.between(0, self.owned.len() as u64 - 1) as usize;
                    let some = self.owned[from..].to_vec();
                    let who = self.who.clone();
                    commit(&mut self.session, cx, &who, &some, &mut self.commits, 2);
                }
                31..=36 => {
                    let who = [self.who.clone()];
                    let owned = cx.chance(500_000).then(|| self.owned.clone());
                    fetch_offsets(&mut self.session, cx, &who, owned.as_deref());
                }
                _ => self.heartbeat(cx),
            },
        }
    }

    /// Gone without a word. Somebody else comes in its place, who may be a static member's new self.
    fn die(&mut self, cx: &mut ClientContext<'_>) {
        if cx.chance(500_000) {
            self.session.vanish(cx);
        } else {
            self.session.close(cx);
        }
        self.forget(cx);
        let session = self.session_timeout_ms as u64;
        let pause = cx.between(0, session + session / 2);
        self.pace.be_quiet(cx, pause);
        self.draw(cx);
        cx.saw.push(Seen::Mark(Mark::MemberDied));
    }

    fn join(&mut self, cx: &mut ClientContext<'_>) {
        let least = if self.who.instance_id.is_some() { 5 } else { 0 };
        let version = version_from(cx, ApiKey::JoinGroup, least);
        let inner = cx.between(0, NEWEST_INNER) as i16;
        let subscription = ConsumerProtocolSubscription {
            topics: self
                .topics
                .iter()
                .map(|topic| topic.as_str().into())
                .collect(),
            ..Default::default()
        };
        let metadata = subscription.to_versioned(inner);
        let mut protocols = vec![JoinGroupRequestProtocol {
            name: "range".into(),
            metadata: metadata.clone(),
            ..Default::default()
        }];
        if cx.chance(400_000) {
            let other = JoinGroupRequestProtocol {
                name: "roundrobin".into(),
                metadata,
                ..Default::default()
            };
            protocols.insert(cx.between(0, 1) as usize, other);
        }
        let body = JoinGroupRequest {
            group_id: self.who.group.as_str().into(),
            session_timeout_ms: self.session_timeout_ms,
            rebalance_timeout_ms: if version >= 1 {
                self.rebalance_timeout_ms
            } else {
                -1
            },
            member_id: self.who.member_id.as_str().into(),
            group_instance_id: self.who.instance_id.as_deref().map(Str::from),
            protocol_type: CONSUMER.into(),
            protocols,
            reason: (version >= 8).then(|| "it is a simulation".into()),
            ..Default::default()
        };
        self.beats = 0;
        self.stage = Stage::Joining;
        self.session.request(cx, version, body.into(), 0, true);
    }

    fn joined(&mut self, cx: &mut ClientContext<'_>, version: i16, response: &JoinGroupResponse) {
        match response.error_code {
            ErrorCode::NONE => {}
            ErrorCode::MEMBER_ID_REQUIRED => {
                self.stage = Stage::Out;
                self.who.member_id = response.member_id.to_string();
                if !self.pace.is_finishing() && cx.chance(100_000) {
                    // It never comes back with it, and the group waits in vain.
                    self.forget(cx);
                    return self.pace.be_quiet(cx, 100);
                }
                return self.join(cx);
            }
            error => return self.refused(cx, error),
        }
        self.who.member_id = response.member_id.to_string();
        self.who.epoch = response.generation_id;
        cx.catalog.members.insert(self.who.member_id.clone());
        self.past.push(self.who.clone());
        let leads = response.leader == response.member_id;
        if !self.pace.is_finishing() && cx.chance(60_000) {
            if leads {
                cx.saw.push(Seen::Mark(Mark::LeaderVanished));
            }
            self.session.vanish(cx);
            if cx.chance(500_000) {
                self.forget(cx);
            }
            self.stage = Stage::Out;
            let pause = cx.between(0, 2 * self.session_timeout_ms as u64);
            return self.pace.be_quiet(cx, pause);
        }
        let assignments = if leads && !(response.skip_assignment && version >= 9) {
            assign(cx, response)
        } else {
            Vec::new()
        };
        let who = self.who.clone();
        sync(
            &mut self.session,
            cx,
            &who,
            response.protocol_name.as_ref(),
            assignments,
        );
    }

    fn synced(&mut self, cx: &mut ClientContext<'_>, response: &SyncGroupResponse) {
        if response.error_code.is_error() {
            return self.refused(cx, response.error_code);
        }
        self.stage = Stage::In;
        self.owned.clear();
        if response.assignment.is_empty() {
            return;
        }
        match ConsumerProtocolAssignment::read_lenient(response.assignment.clone()) {
            Ok(assignment) => {
                for topic in assignment.assigned_partitions {
                    let name = topic.topic.to_string();
                    let partitions = topic.partitions.into_iter();
                    self.owned.extend(partitions.map(|p| (name.clone(), p)));
                }
            }
            Err(error) => cx
                .complaints
                .push(format!("an assignment does not decode: {error:?}")),
        }
    }

    fn heartbeat(&mut self, cx: &mut ClientContext<'_>) {
        let who = self.who.clone();
        heartbeat(&mut self.session, cx, &who);
    }

    fn leave(&mut self, cx: &mut ClientContext<'_>) {
        let who = self.who.clone();
        leave(&mut self.session, cx, &who);
        self.forget(cx);
        let pause = cx.between(0, 400);
        self.pace.be_quiet(cx, pause);
    }

    /// Something that it asked for itself was refused.
    fn refused(&mut self, cx: &mut ClientContext<'_>, error: ErrorCode) {
        self.beats = 0;
        match error {
            ErrorCode::REBALANCE_IN_PROGRESS => self.stage = Stage::Out,
            ErrorCode::ILLEGAL_GENERATION => self.stage = Stage::Out,
            ErrorCode::UNKNOWN_MEMBER_ID => self.forget(cx),
            // The other self is the one that counts.
            ErrorCode::FENCED_INSTANCE_ID => {
                self.forget(cx);
                self.pace.gave_up = self.pace.is_finishing();
                self.pace.be_quiet(cx, 150);
            }
            // Others have it, with the other protocol.
            ErrorCode::INCONSISTENT_GROUP_PROTOCOL | ErrorCode::GROUP_MAX_SIZE_REACHED => {
                self.forget(cx);
                self.pace.gave_up = self.pace.is_finishing();
                self.pace.be_quiet(cx, 150);
            }
            error if is_away(error) => self.stage = Stage::Looking,
            error => cx
                .complaints
                .push(format!("a member of {} is told {error:?}", self.who.group)),
        }
    }

    /// A zombie of it does something with an identity of before.
    fn haunt(&mut self, cx: &mut ClientContext<'_>) {
        if self.past.is_empty() || self.shadow.in_flight() > 0 {
            return;
        }
        let which = cx.between(0, self.past.len() as u64 - 1) as usize;
        let who = self.past[which].clone();
        match cx.between(0, 9) {
            0..=4 => {
                let (topic, partition) = cx.pick_partition();
                let one = [(topic, partition)];
                commit(&mut self.shadow, cx, &who, &one, &mut self.commits, 2);
            }
            5 | 6 => heartbeat(&mut self.shadow, cx, &who),
            7 | 8 => {
                // Everything is mine, says one who led once.
                let all: Vec<Partition> = cx
                    .catalog
                    .topics
                    .iter()
                    .flat_map(|(t, count)| (0..*count).map(move |p| (t.clone(), p)))
                    .collect();
                let mine = (who.member_id.clone(), encoded(cx, &all));
                sync(&mut self.shadow, cx, &who, None, vec![mine]);
            }
            _ => leave(&mut self.shadow, cx, &who),
        }
    }

    /// Tells once that its group does not come to rest.
    fn complain(&mut self, cx: &mut ClientContext<'_>) {
        if self.is_idle() {
            return;
        }
        self.pace.complain(cx, &self.who.group, || {
            format!("member {:?} is {:?}", self.who.member_id, self.stage)
        });
    }
}

/// Gives every partition that anybody subscribes to, to one of its subscribers.
fn assign(cx: &mut ClientContext<'_>, response: &JoinGroupResponse) -> Vec<(String, Bytes)> {
    let mut given: Vec<(String, Vec<String>, Vec<Partition>)> = Vec::new();
    for member in &response.members {
        let Ok(subscription) = ConsumerProtocolSubscription::read_lenient(member.metadata.clone())
        else {
            cx.complaints
                .push("a member's metadata does not decode".to_owned());
            continue;
        };
        let topics = subscription
            .topics
            .iter()
            .map(ToString::to_string)
            .collect();
        given.push((member.member_id.to_string(), topics, Vec::new()));
    }
    let topics = cx.catalog.topics.clone();
    let mut turn = cx.between(0, 5) as usize;
    for (topic, partitions) in topics {
        for partition in 0..partitions {
            let mut takers: Vec<&mut (String, Vec<String>, Vec<Partition>)> = given
                .iter_mut()
                .filter(|(_, topics, _)| topics.contains(&topic))
                .collect();
            turn += 1;
            let count = takers.len().max(1);
            if let Some((_, _, taken)) = takers.get_mut(turn % count) {
                taken.push((topic.clone(), partition));
            }
        }
    }
    given
        .into_iter()
        .map(|(member, _, partitions)| (member, encoded(cx, &partitions)))
        .collect()
}

fn encoded(cx: &mut ClientContext<'_>, partitions: &[Partition]) -> Bytes {
    let mut assigned: Vec<TopicPartition> = Vec::new();
    for (topic, partition) in partitions {
        match assigned.iter_mut().find(|known| *known.topic == **topic) {
            Some(known) => known.partitions.push(*partition),
            None => assigned.push(TopicPartition {
                topic: topic.as_str().into(),
                partitions: vec![*partition],
                ..Default::default()
            }),
        }
    }
    let assignment = ConsumerProtocolAssignment {
        assigned_partitions: assigned,
        ..Default::default()
    };
    assignment.to_versioned(cx.between(0, NEWEST_INNER) as i16)
}

fn sync(
    session: &mut Session,
    cx: &mut ClientContext<'_>,
    who: &Who,
    protocol: Option<&Str>,
    assignments: Vec<(String, Bytes)>,
) {
    let least = if who.instance_id.is_some() { 3 } else { 0 };
    let version = version_from(cx, ApiKey::SyncGroup, least);
    let assignments = assignments.into_iter();
    let body = SyncGroupRequest {
        group_id: who.group.as_str().into(),
        generation_id: who.epoch,
        member_id: who.member_id.as_str().into(),
        group_instance_id: who.instance_id.as_deref().map(Str::from),
        protocol_type: (version >= 5).then(|| CONSUMER.into()),
        protocol_name: protocol.filter(|_| version >= 5).cloned(),
        assignments: assignments
            .map(|(member, assignment)| SyncGroupRequestAssignment {
                member_id: member.into(),
                assignment,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    session.request(cx, version, body.into(), 0, true);
}

fn heartbeat(session: &mut Session, cx: &mut ClientContext<'_>, who: &Who) {
    let least = if who.instance_id.is_some() { 3 } else { 0 };
    let version = version_from(cx, ApiKey::Heartbeat, least);
    let body = HeartbeatRequest {
        group_id: who.group.as_str().into(),
        generation_id: who.epoch,
        member_id: who.member_id.as_str().into(),
        group_instance_id: who.instance_id.as_deref().map(Str::from),
        ..Default::default()
    };
    session.request(cx, version, body.into(), 0, true);
}

fn leave(session: &mut Session, cx: &mut ClientContext<'_>, who: &Who) {
    let version = Session::version(cx, ApiKey::LeaveGroup);
    let mut body = LeaveGroupRequest {
        group_id: who.group.as_str().into(),
        ..Default::default()
    };
    if version >= 3 {
        body.members = vec![MemberIdentity {
            member_id: who.member_id.as_str().into(),
            group_instance_id: who.instance_id.as_deref().map(Str::from),
            ..Default::default()
        }];
    } else {
        body.member_id = who.member_id.as_str().into();
    }
    session.request(cx, version, body.into(), 0, true);
}

impl Client for GroupMember {
    fn start(&mut self, cx: &mut ClientContext<'_>) {
        self.who.group = self.mix.classic_group(cx);
        if cx.chance(self.mix.static_members.0) {
            self.who.instance_id = Some(format!("instance{}", cx.between(0, 1)));
        }
        self.draw(cx);
        self.schedule(cx);
    }

    fn timer(&mut self, _: u64, cx: &mut ClientContext<'_>) {
        if !self.pace.timer_came() {
            return;
        }
        self.complain(cx);
        if !self.pace.is_finishing() && cx.chance(60_000) {
            self.haunt(cx);
        }
        if self.session.in_flight() > 0 {
            // It waits, and at times it does not want to any more.
            if !self.pace.is_finishing() && cx.chance(20_000) {
                self.session.vanish(cx);
                self.stage = Stage::Looking;
            }
        } else if self.pace.may_speak(cx) {
            self.act(cx);
        }
        self.schedule(cx);
    }

    fn bytes(&mut self, connection: ConnectionId, bytes: Bytes, cx: &mut ClientContext<'_>) {
        // What a zombie is told is the oracle's affair.
        self.shadow.receive(cx, connection, &bytes);
        for answer in self.session.receive(cx, connection, &bytes) {
            match &answer.body {
                body @ ResponseBody::FindCoordinator(_)
                    if is_found(body) && self.stage == Stage::Looking =>
                {
                    self.stage = Stage::Out;
                }
                ResponseBody::JoinGroup(response) => self.joined(cx, answer.version, response),
                ResponseBody::SyncGroup(response) => self.synced(cx, response),
                ResponseBody::Heartbeat(response) if response.error_code.is_error() => {
                    self.refused(cx, response.error_code);
                }
                ResponseBody::Heartbeat(_) => self.beats += 1,
                ResponseBody::OffsetCommit(response) => {
                    let results = response.topics.iter().flat_map(|t| &t.partitions);
                    let refusal = results.map(|p| p.error_code).find(|error| {
                        matches!(
                            *error,
                            ErrorCode::ILLEGAL_GENERATION
                                | ErrorCode::UNKNOWN_MEMBER_ID
                                | ErrorCode::REBALANCE_IN_PROGRESS
                                | ErrorCode::FENCED_INSTANCE_ID
                        )
                    });
                    if let Some(error) = refusal
                        && self.stage == Stage::In
                    {
                        self.refused(cx, error);
                    }
                }
                _ => {}
            }
        }
    }

    fn closed(&mut self, connection: ConnectionId, _: &mut ClientContext<'_>) {
        self.shadow.lost(connection);
        let was_ours = self.session.connection() == Some(connection);
        self.session.lost(connection);
        if was_ours && self.stage != Stage::In {
            self.stage = Stage::Looking;
        }
    }

    fn finish(&mut self, cx: &mut ClientContext<'_>) {
        self.pace.finish(cx);
        self.beats = 0;
        self.schedule(cx);
    }

    fn is_idle(&self) -> bool {
        self.pace.gave_up || (self.stage == Stage::In && self.beats >= 2)
    }
}
