//! The consumer protocol of KIP-848: the member says what it wants and has by heartbeats, and the
//! broker answers with what it shall have.
//!
//! A member that is told to own something else first gives up what it must, then takes what is new,
//! and says so at once: only then does the broker let others have what it gave up.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use rand_core::Rng;

use super::{Cx, Group, Phase};
use crate::client::error::ClientError;
use crate::client::input::TopicPartition;
use crate::client::network::GroupRequest;
use crate::client::step::{Step, earlier};
use crate::ids::TopicId;
use crate::time::Mono;
use crate::wire::messages::consumer_group_heartbeat::TopicPartitions;
use crate::wire::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use crate::wire::{ErrorCode, ResponseBody, Str};

/// What the protocol needs beside the member's place.
#[derive(Debug, Default)]
pub(super) struct ConsumerProtocol {
    /// When to say something; at once if it is past.
    pub(super) beat_at: Mono,
    is_heartbeating: bool,
    interval_ms: u32,
    /// Whether to say everything, since the broker may not know it.
    says_everything: bool,
    /// Whether the broker may know an expression: it must be told when there is none any more.
    has_said_pattern: bool,
    /// Whether to say what is owned.
    says_owned: bool,
    /// What it shall own, if that was not brought about yet.
    target: Option<BTreeMap<TopicId, Vec<i32>>>,
    /// When the names of topics were last looked for.
    looked_up_as_of: Option<u64>,
    not_before: Mono,
    failures: u32,
}

/// How a member says that it joins, leaves, or as a static one leaves for a while.
const JOIN: i32 = 0;
const LEAVE: i32 = -1;
const LEAVE_STATIC: i32 = -2;

impl ConsumerProtocol {
    /// The member is out.
    pub(super) fn reset(&mut self) {
        *self = Self {
            not_before: self.not_before,
            failures: self.failures,
            has_said_pattern: self.has_said_pattern,
            ..Self::default()
        };
    }

    /// The next heartbeat, which comes at once, says everything.
    pub(super) const fn say_everything(&mut self) {
        self.says_everything = true;
        self.beat_at = Mono(0);
    }
}

impl Group {
    pub(super) fn settle_consumer_protocol(&mut self, cx: &mut Cx<'_, '_>) {
        if matches!(self.phase, Phase::In) {
            self.reconcile(cx);
        }
        let state = &self.consumer_protocol;
        let now = cx.step.now.mono;
        let due = !state.is_heartbeating && state.beat_at <= now && state.not_before <= now;
        if due {
            self.consumer_heartbeat(cx);
        }
    }

    fn consumer_heartbeat(&mut self, cx: &mut Cx<'_, '_>) {
        let Some(target) = self.coordinator.target(cx.step, cx.metadata, cx.network) else {
            return;
        };
        if self.member_id.is_empty() {
            self.member_id = uuid(cx.step).into();
        }
        let joins = self.epoch < 0;
        let all = joins || self.consumer_protocol.says_everything;
        let owned = if joins {
            Some(Vec::new())
        } else {
            (all || self.consumer_protocol.says_owned).then(|| self.owned_by_id())
        };
        // The broker finds out what an expression matches.
        let pattern = self
            .pattern
            .as_ref()
            .map(|known| known.pattern.expression());
        let names = self.topics.iter().flatten().filter(|_| pattern.is_none());
        let said_before = self.consumer_protocol.has_said_pattern;
        let says_pattern = all && (pattern.is_some() || said_before);
        let request = ConsumerGroupHeartbeatRequest {
            group_id: self.group_id.clone(),
            member_id: self.member_id.clone(),
            member_epoch: if joins { JOIN } else { self.epoch },
            instance_id: self.instance_id.clone(),
            rack_id: self.config.rack.as_deref().filter(|_| all).map(Str::from),
            rebalance_timeout_ms: if all {
                i32::try_from(self.config.max_poll_interval_ms).unwrap_or(i32::MAX)
            } else {
                -1
            },
            subscribed_topic_names: all.then(|| names.map(|topic| Str::from(&**topic)).collect()),
            subscribed_topic_regex: says_pattern.then(|| pattern.unwrap_or_default().into()),
            server_assignor: self
                .config
                .remote_assignor
                .as_deref()
                .filter(|_| all)
                .map(Str::from),
            topic_partitions: owned,
            ..Default::default()
        };
        if joins {
            self.life += 1;
            self.phase = Phase::Joining;
        }
        self.consumer_protocol.has_said_pattern |= says_pattern;
        // Below version 1 there are no expressions.
        let min_version = i16::from(says_pattern);
        let what = GroupRequest::ConsumerHeartbeat;
        match self.send(cx, target, what, request, min_version, 0) {
            Ok(()) => {
                self.consumer_protocol.is_heartbeating = true;
                self.consumer_protocol.says_everything = false;
                self.consumer_protocol.says_owned = false;
            }
            Err(ClientError::Disconnected) => self.heartbeat_failed(cx),
            Err(error) => self.fail(cx, error),
        }
    }

    fn owned_by_id(&self) -> Vec<TopicPartitions> {
        let mut by_id: BTreeMap<TopicId, Vec<i32>> = BTreeMap::new();
        for (partition, owned) in &self.owned {
            let numbers = by_id.entry(owned.topic_id).or_default();
            numbers.push(partition.partition);
        }
        by_id
            .into_iter()
            .map(|(topic_id, partitions)| TopicPartitions {
                topic_id,
                partitions,
                ..Default::default()
            })
            .collect()
    }

    /// How the member says that it leaves.
    pub(super) fn last_heartbeat(&self) -> ConsumerGroupHeartbeatRequest {
        ConsumerGroupHeartbeatRequest {
            group_id: self.group_id.clone(),
            member_id: self.member_id.clone(),
            instance_id: self.instance_id.clone(),
            member_epoch: if self.instance_id.is_some() {
                LEAVE_STATIC
            } else {
                LEAVE
            },
            ..Default::default()
        }
    }

    /// The answer to ConsumerGroupHeartbeat.
    pub(super) fn told(&mut self, cx: &mut Cx<'_, '_>, result: Result<ResponseBody, ClientError>) {
        self.consumer_protocol.is_heartbeating = false;
        let Ok(ResponseBody::ConsumerGroupHeartbeat(response)) = result else {
            self.coordinator.lost(cx.step);
            return self.heartbeat_failed(cx);
        };
        match response.error_code {
            ErrorCode::NONE => self.take_heartbeat(cx, response),
            ErrorCode::FENCED_MEMBER_EPOCH | ErrorCode::UNKNOWN_MEMBER_ID => {
                self.fenced(cx, response.error_code);
            }
            ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => {
                self.coordinator.lost(cx.step);
                self.coordinator.last_error = Some(response.error_code);
                self.heartbeat_failed(cx);
            }
            code if code.is_retriable() => self.heartbeat_failed(cx),
            code => {
                let words = response.error_message.as_deref().unwrap_or_default();
                let message = String::from(words);
                self.fail(cx, ClientError::Broker { code, message });
            }
        }
    }

    fn take_heartbeat(&mut self, cx: &mut Cx<'_, '_>, response: ConsumerGroupHeartbeatResponse) {
        let now = cx.step.now.mono;
        if !matches!(self.phase, Phase::In) {
            self.next_auto_commit = self.auto_commit_after(now);
        }
        self.phase = Phase::In;
        self.epoch = response.member_epoch;
        let state = &mut self.consumer_protocol;
        state.failures = 0;
        state.interval_ms = u32::try_from(response.heartbeat_interval_ms).unwrap_or(0);
        // What became known to be said while this one was under way is said at once.
        let at_once = state.says_everything || state.says_owned;
        state.beat_at = if at_once {
            now
        } else {
            now.plus_ms(state.interval_ms.max(1).into())
        };
        if let Some(assignment) = response.assignment {
            let mut target: BTreeMap<TopicId, Vec<i32>> = BTreeMap::new();
            for topic in assignment.topic_partitions {
                let numbers = target.entry(topic.topic_id).or_default();
                numbers.extend(topic.partitions);
            }
            state.target = Some(target);
            state.looked_up_as_of = None;
        }
    }

    /// Whether the broker took what was said is not known: all of it is said again.
    fn heartbeat_failed(&mut self, cx: &mut Cx<'_, '_>) {
        if matches!(self.phase, Phase::Joining) {
            self.phase = Phase::Out;
            self.life += 1;
        }
        let state = &mut self.consumer_protocol;
        state.say_everything();
        state.failures = state.failures.saturating_add(1);
        state.not_before = self.backoff.after(state.failures, cx.step);
    }

    /// Brings about what the broker wants, as far as that can be done now.
    fn reconcile(&mut self, cx: &mut Cx<'_, '_>) {
        if self.giving_up.is_some() {
            return;
        }
        let Some(target) = &self.consumer_protocol.target else {
            return;
        };
        let mut wanted: BTreeMap<TopicPartition, TopicId> = BTreeMap::new();
        let mut all_known = true;
        for (id, numbers) in target {
            let named = self.topics.iter().flatten().find(|name| {
                let known = cx.metadata.topic(name);
                known.is_some_and(|topic| topic.id == *id)
            });
            let Some(name) = named else {
                all_known = false;
                continue;
            };
            for partition in numbers {
                let topic = name.clone();
                let partition = *partition;
                wanted.insert(TopicPartition { topic, partition }, *id);
            }
        }
        if !all_known {
            let generation = Some(cx.metadata.generation());
            if self.consumer_protocol.looked_up_as_of != generation {
                self.consumer_protocol.looked_up_as_of = generation;
                cx.metadata.request_update();
            }
        }
        let change = self.change_to(&wanted);
        if !change.gone.is_empty() {
            return self.give_up(cx, change.gone);
        }
        let is_new = !change.new.is_empty();
        if is_new {
            self.add(cx, change.new);
        }
        let done = all_known;
        if done {
            self.consumer_protocol.target = None;
        }
        if done || is_new {
            self.consumer_protocol.says_owned = true;
            self.consumer_protocol.beat_at = cx.step.now.mono;
        }
    }

    pub(super) fn consumer_protocol_deadline(&self) -> Option<Mono> {
        let state = &self.consumer_protocol;
        if state.is_heartbeating {
            return None;
        }
        let at = state.beat_at.max(state.not_before);
        earlier(Some(at), None)
    }
}

/// A member's id, as Kafka's clients make it (version 4 of RFC 9562).
fn uuid(step: &mut Step<'_>) -> String {
    let mut id = [0; 16];
    step.rng.fill_bytes(&mut id);
    let mut text = String::with_capacity(36);
    for (place, byte) in id.iter().enumerate() {
        let byte = match place {
            6 => byte & 0x0f | 0x40,
            8 => byte & 0x3f | 0x80,
            _ => *byte,
        };
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for nibble in [byte >> 4, byte & 0xf] {
            text.extend(char::from_digit(u32::from(nibble), 16));
        }
    }
    text
}
