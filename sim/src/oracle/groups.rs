//! Groups and committed offsets, judged from the frames that reach the broker and those that leave it.
//! Nothing of the broker's own groups is looked at.
//!
//! A request takes effect at some time between its start, when it is the first of its connection, and
//! its answer, or, if it gets none, the end of its connection or process. What is known "before" a
//! request is what was told before its start.
//!
//! Some of what a broker tells is lost with its process: who has joined, who has left, which generation
//! was begun and never became stable. Such facts hold in one life, and only while no fault has struck
//! the disk: after a failed write the groups are read again, as at a start. What is durable (commits,
//! assignments that were handed out, all of KIP-848) holds for ever.

use std::collections::{BTreeMap, BTreeSet};

use odradek_core::group::config::GroupConfig;
use odradek_core::ids::{ConnectionId, TopicId};
use odradek_core::log::config::Durability;
use odradek_core::time::Mono;
use odradek_core::wire::{ErrorCode, Records, Request, RequestBody, ResponseBody};

use self::classic::Classic;
use self::commits::{By, Commits};
use self::consumer::{Consumer, Subscriptions};
use self::mixed::Mixed;
use super::connections::Exchange;
use super::{Check, Death, Mark, Oracle};
use crate::clock::MILLISECOND;
use crate::workload::seen::Restless;

mod classic;
mod commits;
mod consumer;
mod mixed;

/// All groups.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    config: GroupConfig,
    /// Counts the processes.
    life: u64,
    /// A fault struck the disk in this life.
    is_doubtful: bool,
    /// When the run began, as far as groups are concerned.
    began: Option<Mono>,
    /// The steps of the wall clock, in milliseconds.
    wall_steps: Vec<(Mono, i64)>,
    /// How much faster the wall clock runs than the monotonic one, in parts per million.
    wall_drift_ppm: i64,
    /// How many partitions a topic may have at most.
    partitions: BTreeMap<String, i32>,
    commits: Commits,
    classic: BTreeMap<String, Classic>,
    consumer: BTreeMap<String, Consumer>,
    subscriptions: BTreeMap<String, Subscriptions>,
    /// What is known of a group whatever its kind.
    mixed: BTreeMap<String, Mixed>,
    /// Groups that members of the classic protocol asked to join, and those of the consumer protocol.
    asked_by: [BTreeSet<String>; 2],
    /// When a group may have become another of the same name: what was asked before says nothing.
    anew: BTreeMap<String, Mono>,
    /// Deletions of groups that are under way: until they are answered nobody knows whether a group
    /// is still the same.
    ending: BTreeSet<(String, By)>,
}

/// No run takes as long, by the clock that does not step.
const HOUR_MS: u64 = 3_600_000;

/// Refusals that fence whoever does not belong to the group, or not any more.
const FENCED: &[ErrorCode] = &[
    ErrorCode::ILLEGAL_GENERATION,
    ErrorCode::UNKNOWN_MEMBER_ID,
    ErrorCode::FENCED_INSTANCE_ID,
    ErrorCode::STALE_MEMBER_EPOCH,
];

impl Groups {
    /// The longest that has passed between any two instants since `since`, by the wall clock.
    fn passed_ms(&self, since: Mono, now: Mono) -> i64 {
        let by_clock = now.0.saturating_sub(since.0).div_ceil(MILLISECOND) as i64;
        let by_clock = by_clock + by_clock * self.wall_drift_ppm.max(0) / 1_000_000 + 1;
        let steps = self.wall_steps.iter().filter(|(at, _)| *at >= since);
        let (mut sum, mut most) = (0, 0);
        for (_, step) in steps {
            sum = (sum + step).max(0);
            most = most.max(sum);
        }
        by_clock + most
    }

    /// Whether groups without members and offsets end by themselves in this run. Then nobody here
    /// knows whether a group is still the same.
    const fn end_by_themselves(&self) -> bool {
        self.config.offsets_retention_check_interval_ms < HOUR_MS
    }

    /// Whether offsets may have expired with their groups: nobody here knows since when they are
    /// empty.
    fn may_have_expired(&self, now: Mono) -> bool {
        if !self.end_by_themselves() {
            return false;
        }
        let retention_ms = i64::try_from(self.config.offsets_retention_ms).unwrap_or(i64::MAX);
        self.began
            .is_some_and(|began| self.passed_ms(began, now) >= retention_ms)
    }

    /// Whether members of both protocols may meet in a group. What is said of groups of one kind need
    /// not hold there; [`mixed`] has what does.
    fn both_meet_in(&self, group: &str) -> bool {
        self.asked_by.iter().all(|asked| asked.contains(group))
    }

    /// The group of that name may be another one from now on.
    fn begin_anew(&mut self, group: &str, now: Mono) {
        self.classic.remove(group);
        self.consumer.remove(group);
        if let Some(mixed) = self.mixed.get_mut(group) {
            mixed.begin_anew(now);
        }
        self.anew.insert(group.to_owned(), now);
    }

    /// Whether what an exchange says is about the group as it is now.
    fn is_current(&self, group: &str, exchange: &Exchange) -> bool {
        let ends = self.ending.iter().any(|(ending, _)| ending == group);
        if ends || self.end_by_themselves() {
            return false;
        }
        let anew = self.anew.get(group).copied().unwrap_or_default();
        exchange.first_since.is_some_and(|since| since > anew)
    }
}

impl Oracle {
    /// Tells which limits of groups are in force.
    pub fn groups_have(&mut self, config: &GroupConfig) {
        self.groups.config = config.clone();
        let offsets = "__consumer_offsets".to_owned();
        let partitions = config.topic_partitions;
        self.groups.partitions.insert(offsets, partitions);
    }

    /// The wall clock steps.
    pub(super) fn group_clock_steps(&mut self, by_ms: i64) {
        self.groups.wall_steps.push((self.now, by_ms));
    }

    /// The wall clock runs so much faster than the monotonic one, in parts per million.
    pub const fn wall_drifts(&mut self, ppm: i64) {
        self.groups.wall_drift_ppm = ppm;
    }

    /// A fault struck the disk: from now on a group may be read again at any time in this life.
    pub(super) const fn groups_in_doubt(&mut self) {
        self.groups.is_doubtful = true;
    }

    /// Faults are long over, and a group does not come to rest.
    pub(super) fn restless(&mut self, restless: &Restless) {
        let Restless {
            group,
            is_about_the_dead,
            what,
        } = restless;
        let check = if *is_about_the_dead {
            Check::DeadMemberEvicted
        } else {
            Check::RebalanceTerminates
        };
        let detail = format!("{group} should be stable by now, without the dead, and {what}");
        self.violate(check, detail);
    }

    /// Something about the members of a group is wrong. That a partition has two owners is so whatever
    /// the protocols of the others.
    fn violate_in(&mut self, group: &str, check: Check, detail: String) {
        if check == Check::NoDoubleAssignment || !self.groups.both_meet_in(group) {
            self.violate(check, detail);
        }
    }

    /// A member of the classic protocol takes the place of one of the other, if there is one of that
    /// name or instance.
    fn consumer_replaced(&mut self, group: &str, at: Mono, member: &str, instance: Option<&str>) {
        let mixed = self.groups.mixed.entry(group.to_owned()).or_default();
        mixed.classic_comes(at, member, instance);
        if let Some(known) = self.groups.consumer.get_mut(group) {
            known.replaced(member, instance);
        }
    }

    /// A request reached the broker.
    pub(super) fn note_group_request(&mut self, connection: ConnectionId) {
        let Some(request) = self.exchanges.last(connection) else {
            return;
        };
        self.groups.began.get_or_insert(self.now);
        let Request { header, body } = request;
        let by = (connection, header.correlation_id);
        match body {
            RequestBody::OffsetCommit(_)
            | RequestBody::OffsetDelete(_)
            | RequestBody::DeleteGroups(_)
            | RequestBody::SyncGroup(_)
            | RequestBody::LeaveGroup(_)
            | RequestBody::JoinGroup(_)
            | RequestBody::CreateTopics(_)
            | RequestBody::CreatePartitions(_)
            | RequestBody::ConsumerGroupHeartbeat(_) => {}
            _ => return,
        }
        let body = body.clone();
        let now = self.now;
        match &body {
            RequestBody::OffsetCommit(commit) => self.commit_came(by, commit),
            RequestBody::OffsetDelete(delete) => self.groups.commits.delete_came(by, now, delete),
            RequestBody::DeleteGroups(delete) => {
                self.groups.commits.end_came(by, now, delete);
                let names = delete.groups_names.iter();
                let ending = names.map(|group| (group.to_string(), by));
                self.groups.ending.extend(ending);
            }
            RequestBody::SyncGroup(sync) => {
                let group = self.groups.classic.entry(sync.group_id.to_string());
                group.or_default().sync_came(sync);
            }
            RequestBody::LeaveGroup(leave) => {
                if let Some(group) = self.groups.classic.get_mut(leave.group_id.as_str()) {
                    group.somebody_leaves();
                }
                if let Some(group) = self.groups.mixed.get_mut(leave.group_id.as_str()) {
                    group.forget_classic();
                }
            }
            RequestBody::JoinGroup(join) => {
                let group = join.group_id.to_string();
                let instance = join.group_instance_id.as_deref();
                self.groups.asked_by[0].insert(group.clone());
                self.consumer_replaced(&group, now, &join.member_id, instance);
                let mixed = self.groups.mixed.entry(group).or_default();
                mixed.join_comes(now, &join.member_id, instance);
                if let Some(group) = self.groups.classic.get_mut(join.group_id.as_str()) {
                    group.joins_again(&join.member_id);
                }
            }
            RequestBody::CreateTopics(create) => {
                for topic in &create.topics {
                    let most = self.groups.partitions.entry(topic.name.to_string());
                    let most = most.or_default();
                    *most = (*most).max(topic.num_partitions);
                }
            }
            RequestBody::CreatePartitions(create) => {
                for topic in &create.topics {
                    let most = self.groups.partitions.entry(topic.name.to_string());
                    let most = most.or_default();
                    *most = (*most).max(topic.count);
                }
            }
            RequestBody::ConsumerGroupHeartbeat(beat) => {
                let group = beat.group_id.to_string();
                self.groups.asked_by[1].insert(group.clone());
                if beat.member_epoch == 0 {
                    let mixed = self.groups.mixed.entry(group.clone()).or_default();
                    let instance = beat.instance_id.as_deref();
                    mixed.join_comes(now, &beat.member_id, instance);
                }
                if !beat.member_id.is_empty() {
                    let subscriptions = self.groups.subscriptions.entry(group.clone());
                    subscriptions.or_default().hear(&beat.member_id, beat);
                }
                let group = self.groups.consumer.entry(group);
                group.or_default().beat_came(by, now, beat);
            }
            _ => {}
        }
    }

    /// Requests end without an answer: those of a connection, or all.
    pub(super) fn group_requests_lost(&mut self, connection: Option<ConnectionId>) {
        let now = self.now;
        let mut lost = Vec::new();
        for (id, exchange) in self.exchanges.all() {
            if connection.is_none_or(|connection| connection == id)
                && let Some(request) = &exchange.request
            {
                let since = exchange.first_since.unwrap_or(exchange.arrived);
                let by = (id, request.header.correlation_id);
                lost.push((by, since, request.body.clone()));
            }
        }
        for (by, since, body) in lost {
            let joined = match &body {
                RequestBody::JoinGroup(join) => Some(&join.group_id),
                RequestBody::ConsumerGroupHeartbeat(beat) => Some(&beat.group_id),
                _ => None,
            };
            // It may have made another group of one that was empty.
            if let Some(mixed) = joined.and_then(|group| self.groups.mixed.get_mut(&**group)) {
                mixed.begin_anew(now);
            }
            match &body {
                RequestBody::OffsetCommit(_) | RequestBody::OffsetDelete(_) => {
                    self.groups.commits.lost(by, now);
                }
                RequestBody::DeleteGroups(delete) => {
                    self.groups.commits.lost(by, now);
                    for group in &delete.groups_names {
                        self.groups.ending.remove(&(group.to_string(), by));
                        self.groups.begin_anew(group, now);
                    }
                }
                RequestBody::JoinGroup(join)
                    if self.groups.consumer.contains_key(join.group_id.as_str()) =>
                {
                    self.groups.begin_anew(&join.group_id, now);
                }
                RequestBody::ConsumerGroupHeartbeat(beat) => {
                    if beat.member_epoch == 0
                        && self.groups.classic.contains_key(beat.group_id.as_str())
                    {
                        self.groups.begin_anew(&beat.group_id, now);
                    } else if let Some(group) = self.groups.consumer.get_mut(beat.group_id.as_str())
                    {
                        group.beat_lost(since, beat);
                    }
                }
                _ => {}
            }
        }
    }

    /// A process ends; its exchanges are still known.
    pub(super) fn groups_process_ended(&mut self, death: Option<Death>) {
        if death.is_some() {
            self.mark_crashes();
        }
        self.group_requests_lost(None);
        self.groups.life += 1;
        self.groups.is_doubtful = false;
        for group in self.groups.classic.values_mut() {
            group.life_ended();
        }
        for group in self.groups.mixed.values_mut() {
            group.begin_anew(self.now);
        }
        if death == Some(Death::Power) {
            self.groups_lost_power();
        }
    }

    /// The power went, with a process or after it.
    pub(super) fn groups_lost_power(&mut self) {
        if self.durability == Durability::Os {
            // What was acknowledged may be gone, and so may anything that was built on it.
            self.groups.commits.forget_promises();
            let classic = self.groups.classic.keys();
            let groups: Vec<String> = classic
                .chain(self.groups.consumer.keys())
                .cloned()
                .collect();
            for group in &groups {
                self.groups.begin_anew(group, self.now);
            }
        }
    }

    fn mark_crashes(&mut self) {
        let mut marks = Vec::new();
        for (_, exchange) in self.exchanges.all() {
            let body = exchange.request.as_ref().map(|request| &request.body);
            marks.extend(match body {
                Some(RequestBody::JoinGroup(_) | RequestBody::SyncGroup(_)) => {
                    Some(Mark::CrashedInRebalance)
                }
                Some(RequestBody::ConsumerGroupHeartbeat(_)) => Some(Mark::CrashedInHeartbeat),
                Some(RequestBody::OffsetCommit(_)) => Some(Mark::CrashedInCommit),
                Some(RequestBody::Produce(produce)) => {
                    let mut batches = produce.topic_data.iter().flat_map(|t| &t.partition_data);
                    let has_producer = batches.any(|data| match &data.records {
                        Some(Records::Bytes(bytes)) => {
                            let id = bytes.get(43..51).and_then(|id| id.first_chunk::<8>());
                            id.is_some_and(|id| i64::from_be_bytes(*id) >= 0)
                        }
                        _ => false,
                    });
                    has_producer.then_some(Mark::CrashedInIdempotentProduce)
                }
                _ => None,
            });
        }
        if self.groups.classic.values().any(Classic::is_rebalancing) {
            marks.push(Mark::CrashedInRebalance);
        }
        for mark in marks {
            self.mark(mark);
        }
    }

    /// The broker answers a request of a group's client.
    pub(super) fn judge_groups(
        &mut self,
        exchange: &Exchange,
        version: i16,
        request: &RequestBody,
        response: &ResponseBody,
    ) {
        match (request, response) {
            (RequestBody::JoinGroup(asked), ResponseBody::JoinGroup(told)) => {
                self.judge_join(exchange, asked, told);
                self.judge_mixed_join(exchange, asked, told);
            }
            (RequestBody::SyncGroup(asked), ResponseBody::SyncGroup(told)) => {
                self.judge_sync(exchange, asked, told);
                self.judge_mixed_sync(exchange, asked, told);
            }
            (RequestBody::Heartbeat(asked), ResponseBody::Heartbeat(told)) => {
                self.judge_heartbeat(exchange, asked, told.error_code);
            }
            (RequestBody::LeaveGroup(asked), ResponseBody::LeaveGroup(told)) => {
                self.judge_leave(exchange, version, asked, told);
                if let Some(group) = self.groups.mixed.get_mut(asked.group_id.as_str()) {
                    group.forget_classic();
                }
            }
            (RequestBody::OffsetCommit(asked), ResponseBody::OffsetCommit(told)) => {
                self.judge_commit(exchange, asked, told);
            }
            (RequestBody::OffsetDelete(asked), ResponseBody::OffsetDelete(told)) => {
                self.judge_offset_delete(exchange, asked, told);
            }
            (RequestBody::DeleteGroups(_), ResponseBody::DeleteGroups(told)) => {
                self.judge_delete_groups(exchange, told);
            }
            (RequestBody::OffsetFetch(asked), ResponseBody::OffsetFetch(told)) => {
                self.judge_offset_fetch(exchange, version, asked, told);
            }
            (
                RequestBody::ConsumerGroupHeartbeat(asked),
                ResponseBody::ConsumerGroupHeartbeat(told),
            ) => {
                self.judge_beat(exchange, asked, told);
                self.judge_mixed_beat(exchange, asked, told);
            }
            (_, ResponseBody::ConsumerGroupDescribe(told)) => self.judge_description(told),
            (RequestBody::DescribeGroups(asked), ResponseBody::DescribeGroups(told))
                if asked.groups.len() != told.groups.len() =>
            {
                let detail = format!(
                    "{} groups are described, of {}",
                    told.groups.len(),
                    asked.groups.len()
                );
                self.violate(Check::AnswersWellFormed, detail);
            }
            _ => {}
        }
    }

    /// The name of the topic that is meant.
    fn name_of(&self, name: &str, id: TopicId) -> Option<String> {
        if name.is_empty() {
            self.topic_ids.get(&id).cloned()
        } else {
            Some(name.to_owned())
        }
    }
}

/// Whether nobody deletes a topic of this name.
fn lasts(topic: &str) -> bool {
    topic.starts_with("topic")
}
