//! A member of a consumer group: it enters and leaves, is assigned partitions and gives them up, and
//! commits how far it has read.
//!
//! ```text
//! Subscribe -> Out -> (joins) -> In -> REBALANCE_IN_PROGRESS, another target
//!               ^                 |       -> gives up: tells the application, waits for its next
//!               |                 |          poll, commits what it processed
//!               +--- fenced: all is lost; joins again
//! ```
//!
//! - A partition is handed over only when the application is done with it and what it processed was
//!   committed, or could not be in time.
//! - What is committed is sent under the generation or epoch in which the member owns the partition
//!   without a break since it was read; else it is not sent at all.
//! - A member that is fenced drops everything at once, and says that it is lost, not revoked.
//! - Nothing is kept of a group but the member's own place in it.
//!
//! [`classic`] and [`consumer_protocol`] are the two ways in which a member hears what it shall own;
//! what follows from that is here.
//!
//! Absent: subscriptions by pattern, assignors of the application's own, and racks in the choice of
//! partitions.

mod assignor;
mod classic;
mod commit;
mod committed;
mod consumer_protocol;
mod coordinator;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;
use core::mem;

use self::classic::Classic;
use self::commit::{Answered, Commit, Commits, Owner, judge};
use self::committed::CommittedOffsets;
use self::consumer_protocol::ConsumerProtocol;
use self::coordinator::Coordinator;
use super::config::{ClientConfig, GroupConfig, GroupProtocol};
use super::consumer::Consumer;
use super::effect::{ClientEvent, Polled};
use super::error::{ClientError, Timeout};
use super::input::{CommandId, OffsetToCommit, StartAt, TopicName, TopicPartition};
use super::metadata::Metadata;
use super::network::{GroupRequest, Network, Purpose, Target};
use super::step::{Backoff, Step, earlier};
use crate::ids::TopicId;
use crate::report::Level;
use crate::time::Mono;
use crate::wire::messages::JoinGroupResponse;
use crate::wire::messages::leave_group::{LeaveGroupRequest, MemberIdentity};
use crate::wire::{ErrorCode, RequestBody, ResponseBody, Str, Versions};

/// A member of a group.
#[derive(Debug)]
pub(crate) struct Group {
    config: GroupConfig,
    group_id: Str,
    instance_id: Option<Str>,
    backoff: Backoff,
    request_timeout_ms: u32,
    coordinator: Coordinator,
    /// What it subscribes to; `None` for a client that assigns itself.
    topics: Option<BTreeSet<TopicName>>,
    /// It will not join before it subscribes again.
    has_failed: bool,
    member_id: Str,
    /// The generation of a classic group, or the member's epoch. -1 if it is not in.
    epoch: i32,
    phase: Phase,
    /// Counts the attempts to be in: answers to an earlier one are void.
    life: u64,
    classic: Classic,
    consumer_protocol: ConsumerProtocol,
    owned: BTreeMap<TopicPartition, Owned>,
    last_stamp: u64,
    giving_up: Option<GivingUp>,
    leaving: Option<Leaving>,
    commits: Commits,
    committed: CommittedOffsets,
    next_auto_commit: Mono,
    /// When everything was last looked at.
    looked_at: Mono,
}

/// How far the member is in.
#[derive(Debug, Default)]
enum Phase {
    #[default]
    Out,
    /// A JoinGroup, or the first ConsumerGroupHeartbeat, is in flight.
    Joining,
    /// It leads the group and does not know all topics yet.
    Assigning(JoinGroupResponse),
    /// A SyncGroup is in flight.
    Syncing,
    In,
}

/// A partition that the member owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owned {
    /// Tells one stretch of ownership from another.
    since: u64,
    /// Under which id it was assigned, if by id.
    topic_id: TopicId,
}

/// Partitions that go to somebody else.
#[derive(Debug)]
struct GivingUp {
    partitions: Vec<TopicPartition>,
    /// Whether the application is done with them, and they are being committed.
    is_committing: bool,
}

/// How far the member is in leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    /// What it processed is being committed.
    Committing,
    /// It has said so.
    Said { until: Mono },
}

/// What the rooms of the group need of a step.
struct Cx<'a, 'b> {
    step: &'a mut Step<'b>,
    metadata: &'a mut Metadata,
    network: &'a mut Network,
    consumer: &'a mut Consumer,
}

/// How far a step of a protocol came.
type Sent = Result<(), ClientError>;

impl Group {
    pub(crate) fn new(config: &ClientConfig, group: &GroupConfig) -> Self {
        let backoff = Backoff {
            first_ms: config.retry_backoff_ms,
            max_ms: config.retry_backoff_max_ms,
        };
        let group_id = Str::from(group.group_id.as_str());
        Self {
            coordinator: Coordinator::new(group_id.clone(), backoff),
            instance_id: group.instance_id.as_deref().map(Str::from),
            config: group.clone(),
            group_id,
            backoff,
            request_timeout_ms: config.request_timeout_ms,
            topics: None,
            has_failed: false,
            member_id: Str::default(),
            epoch: -1,
            phase: Phase::Out,
            life: 0,
            classic: Classic::default(),
            consumer_protocol: ConsumerProtocol::default(),
            owned: BTreeMap::new(),
            last_stamp: 0,
            giving_up: None,
            leaving: None,
            commits: Commits::new(backoff),
            committed: CommittedOffsets::default(),
            next_auto_commit: Mono(0),
            looked_at: Mono(0),
        }
    }

    /// Is, or will be, a member that reads these topics.
    pub(crate) fn subscribe(
        &mut self,
        step: &mut Step<'_>,
        metadata: &mut Metadata,
        consumer: &mut Consumer,
        topics: Vec<TopicName>,
    ) {
        if self.topics.is_none() {
            // What the application assigned itself is no part of the group's assignment.
            consumer.clear();
        }
        for topic in &topics {
            metadata.want(topic);
        }
        let topics: BTreeSet<TopicName> = topics.into_iter().collect();
        if self.topics.as_ref() != Some(&topics) {
            self.classic.rejoin = true;
            self.consumer_protocol.say_everything();
        }
        self.topics = Some(topics);
        self.has_failed = false;
        consumer.expect_poll(step.now.mono);
        self.next_auto_commit = self.auto_commit_after(step.now.mono);
    }

    /// Commits what was processed and leaves; reads nothing any more.
    pub(crate) fn unsubscribe(&mut self, step: &mut Step<'_>, consumer: &mut Consumer) {
        let now = step.now.mono;
        consumer.processed_all();
        if self.config.enable_auto_commit {
            self.push_processed(now, consumer, Owner::GivingUp, |_| true);
        }
        if self.topics.take().is_some() && self.leaving.is_none() {
            self.leaving = Some(Leaving::Committing);
        }
        self.giving_up = None;
        consumer.forget_revocation();
        consumer.clear();
    }

    /// Whether nothing is left to be done before the connections are closed.
    pub(crate) fn is_settled(&self) -> bool {
        self.leaving.is_none() && self.commits.is_empty()
    }

    /// Ends what the application waits for.
    pub(crate) fn abort(&mut self, step: &mut Step<'_>) {
        let mut left = self.commits.drop_waiting(|_| true);
        left.extend(self.commits.take_overdue(Mono(u64::MAX)));
        for commit in left {
            let error = ClientError::TimedOut {
                what: Timeout::Close,
                last: commit.last_error,
            };
            end_commit(step, &commit, Err(error));
        }
        self.leaving = None;
    }

    /// The member's id and generation or epoch, if it is in.
    pub(crate) fn membership(&self) -> Option<(&str, i32)> {
        matches!(self.phase, Phase::In).then(|| (self.member_id.as_str(), self.epoch))
    }

    /// What the group assigned and did not take back yet.
    pub(crate) fn assignment(&self) -> impl Iterator<Item = &TopicPartition> {
        self.owned.keys()
    }

    /// Stores how far the group has read, for the application.
    pub(crate) fn commit(
        &mut self,
        step: &mut Step<'_>,
        consumer: &Consumer,
        id: CommandId,
        offsets: Option<Vec<(TopicPartition, OffsetToCommit)>>,
        timeout_ms: u32,
    ) {
        let offsets: BTreeMap<TopicPartition, OffsetToCommit> = match offsets {
            Some(offsets) => offsets.into_iter().collect(),
            None => consumer.positions().collect(),
        };
        let until = step.now.mono.plus_ms(timeout_ms.into());
        self.push_commit(step, offsets, Owner::Application(id), until);
    }

    fn push_commit(
        &mut self,
        step: &mut Step<'_>,
        offsets: BTreeMap<TopicPartition, OffsetToCommit>,
        owner: Owner,
        until: Mono,
    ) {
        let mut owned_since = BTreeMap::new();
        if self.topics.is_some() {
            for partition in offsets.keys() {
                if let Some(owned) = self.owned.get(partition) {
                    owned_since.insert(partition.clone(), owned.since);
                }
            }
        }
        let foreign = self.topics.is_some() && owned_since.len() < offsets.len();
        let empty = offsets.is_empty();
        let commit = Commit::new(offsets, owned_since, owner, until);
        if empty {
            end_commit(step, &commit, Ok(()));
        } else if foreign {
            end_commit(step, &commit, Err(ClientError::NotAssigned));
        } else {
            self.commits.push(commit);
        }
    }

    /// Commits what was processed of the partitions that `of` holds for, unless the group has it.
    fn push_processed(
        &mut self,
        now: Mono,
        consumer: &Consumer,
        owner: Owner,
        of: impl Fn(&TopicPartition) -> bool,
    ) {
        let own: Vec<TopicPartition> = match &self.topics {
            Some(_) => self.owned.keys().cloned().collect(),
            None => consumer
                .positions()
                .map(|(partition, _)| partition)
                .collect(),
        };
        let offsets: BTreeMap<TopicPartition, OffsetToCommit> = own
            .into_iter()
            .filter(of)
            .filter_map(|partition| {
                let offset = consumer.to_commit(&partition)?;
                Some((partition, offset))
            })
            .collect();
        if offsets.is_empty() {
            return;
        }
        let owned_since = offsets
            .keys()
            .filter_map(|partition| Some((partition.clone(), self.owned.get(partition)?.since)))
            .collect();
        let until = now.plus_ms(self.request_timeout_ms.into());
        self.commits
            .push(Commit::new(offsets, owned_since, owner, until));
    }

    fn auto_commit_after(&self, now: Mono) -> Mono {
        now.plus_ms(self.config.auto_commit_interval_ms.max(1).into())
    }

    /// Joins, heartbeats, commits and leaves as far as that can be done now.
    pub(crate) fn settle(
        &mut self,
        step: &mut Step<'_>,
        metadata: &mut Metadata,
        network: &mut Network,
        consumer: &mut Consumer,
    ) {
        let now = step.now.mono;
        self.looked_at = now;
        let cx = &mut Cx {
            step,
            metadata,
            network,
            consumer,
        };
        self.give_up_further(cx);
        if self.leaving.is_some() {
            self.leave_further(cx);
        } else if self.wants_in(cx) {
            match self.config.protocol {
                GroupProtocol::Classic => self.settle_classic(cx),
                GroupProtocol::Consumer => self.settle_consumer_protocol(cx),
            }
        }
        if self.config.enable_auto_commit && self.next_auto_commit <= now {
            self.next_auto_commit = self.auto_commit_after(now);
            if !self.commits.has(Owner::Interval) && self.leaving.is_none() {
                let giving_up = self
                    .giving_up
                    .as_ref()
                    .map(|given| given.partitions.clone());
                self.push_processed(now, cx.consumer, Owner::Interval, |partition| {
                    giving_up
                        .as_ref()
                        .is_none_or(|given| !given.contains(partition))
                });
            }
        }
        self.send_commits(cx);
        self.ask_committed(cx);
    }

    /// Whether it is to be a member. One whose application does not poll gives its place up until it
    /// does.
    fn wants_in(&mut self, cx: &mut Cx<'_, '_>) -> bool {
        if self.topics.is_none() || self.has_failed {
            return false;
        }
        let overdue = self
            .poll_deadline(cx.consumer)
            .is_some_and(|until| until <= cx.step.now.mono);
        if overdue && (!matches!(self.phase, Phase::Out) || !self.owned.is_empty()) {
            let what = Timeout::Poll;
            let error = ClientError::TimedOut { what, last: None };
            cx.step.report(
                Level::Warn,
                format!("group {}: {error}: the member leaves", self.group_id),
            );
            self.say_goodbye(cx);
            self.drop_membership();
            self.lose_all(cx);
        }
        !overdue
    }

    fn poll_deadline(&self, consumer: &Consumer) -> Option<Mono> {
        let since = consumer.not_polled_since()?;
        Some(since.plus_ms(self.config.max_poll_interval_ms.into()))
    }

    // ---- partitions come and go ----

    /// What must change for the member to own exactly these. What it shall no longer own is given up
    /// first.
    fn change_to(&self, target: &BTreeMap<TopicPartition, TopicId>) -> Change {
        let gone: Vec<TopicPartition> = self
            .owned
            .iter()
            .filter(|(partition, owned)| target.get(partition) != Some(&owned.topic_id))
            .map(|(partition, _)| partition.clone())
            .collect();
        let new: Vec<(TopicPartition, TopicId)> = target
            .iter()
            .filter(|(partition, _)| !self.owned.contains_key(partition))
            .map(|(partition, id)| (partition.clone(), *id))
            .collect();
        Change { gone, new }
    }

    fn add(&mut self, cx: &mut Cx<'_, '_>, new: Vec<(TopicPartition, TopicId)>) {
        let mut told = Vec::new();
        for (partition, topic_id) in new {
            cx.metadata.want(&partition.topic);
            self.last_stamp += 1;
            let owned = Owned {
                since: self.last_stamp,
                topic_id,
            };
            self.owned.insert(partition.clone(), owned);
            cx.consumer.add(partition.clone(), StartAt::Committed);
            told.push(partition);
        }
        cx.consumer.notify(Polled::Assigned(told));
    }

    /// Begins to give partitions up.
    fn give_up(&mut self, cx: &mut Cx<'_, '_>, partitions: Vec<TopicPartition>) {
        cx.consumer.revoke(partitions.clone());
        self.giving_up = Some(GivingUp {
            partitions,
            is_committing: false,
        });
    }

    fn give_up_further(&mut self, cx: &mut Cx<'_, '_>) {
        let Some(given) = &mut self.giving_up else {
            return;
        };
        if !given.is_committing {
            if !cx.consumer.take_revoked() {
                return;
            }
            given.is_committing = true;
            if self.config.enable_auto_commit {
                let partitions = given.partitions.clone();
                let now = cx.step.now.mono;
                self.push_processed(now, cx.consumer, Owner::GivingUp, |partition| {
                    partitions.contains(partition)
                });
            }
        }
        let Some(given) = &self.giving_up else {
            return;
        };
        // Also what the application committed of them while it still could.
        let partitions = &given.partitions;
        let pending = |partition: &TopicPartition| partitions.contains(partition);
        if self.commits.have(pending) {
            return;
        }
        if let Some(given) = self.giving_up.take() {
            for partition in &given.partitions {
                cx.consumer.remove(partition);
                self.owned.remove(partition);
            }
            self.drop_useless_commits(cx.step);
        }
    }

    /// Everything that it owned may belong to somebody else already.
    fn lose_all(&mut self, cx: &mut Cx<'_, '_>) {
        self.giving_up = None;
        cx.consumer.forget_revocation();
        let lost: Vec<TopicPartition> = mem::take(&mut self.owned).into_keys().collect();
        for partition in &lost {
            cx.consumer.remove(partition);
        }
        if !lost.is_empty() {
            cx.consumer.notify(Polled::Lost(lost));
        }
        self.drop_useless_commits(cx.step);
    }

    /// Commits of what is no longer owned must not be sent.
    fn drop_useless_commits(&mut self, step: &mut Step<'_>) {
        let owned = &self.owned;
        let useless = self
            .commits
            .drop_waiting(|commit| !still_holds(commit, owned));
        for commit in useless {
            end_commit(step, &commit, Err(ClientError::NotAssigned));
        }
    }

    // ---- the member's place ----

    /// The member is told off: what it owned is lost, and it joins again.
    fn fenced(&mut self, cx: &mut Cx<'_, '_>, code: ErrorCode) {
        cx.step.report(
            Level::Warn,
            format!("group {}: the member is fenced: {code}", self.group_id),
        );
        self.drop_membership();
        if code == ErrorCode::UNKNOWN_MEMBER_ID && self.config.protocol == GroupProtocol::Classic {
            self.member_id = Str::default();
        }
        self.lose_all(cx);
    }

    /// It cannot be a member, and no time will heal that.
    fn fail(&mut self, cx: &mut Cx<'_, '_>, error: ClientError) {
        self.drop_membership();
        self.member_id = Str::default();
        self.has_failed = true;
        self.lose_all(cx);
        cx.consumer.notify(Polled::GroupFailed(error));
    }

    fn drop_membership(&mut self) {
        self.life += 1;
        self.phase = Phase::Out;
        self.epoch = -1;
        self.classic.reset();
        self.consumer_protocol.reset();
    }

    fn leave_further(&mut self, cx: &mut Cx<'_, '_>) {
        let now = cx.step.now.mono;
        match self.leaving {
            Some(Leaving::Committing) => {
                // Nobody holds them any more, but the commits must still be what they were.
                if !self.commits.is_empty() {
                    return;
                }
                let said = self.say_goodbye(cx);
                self.drop_membership();
                self.owned.clear();
                self.member_id = Str::default();
                let until = now.plus_ms(self.request_timeout_ms.into());
                self.leaving = said.then_some(Leaving::Said { until });
            }
            Some(Leaving::Said { until }) if until <= now => self.leaving = None,
            _ => {}
        }
    }

    /// Tells the coordinator that the member leaves, if it can be told; whether an answer will come.
    ///
    /// A static member of a classic group says nothing: its place is kept until its session ends.
    fn say_goodbye(&mut self, cx: &mut Cx<'_, '_>) -> bool {
        if self.member_id.is_empty() || matches!(self.phase, Phase::Out) {
            return false;
        }
        let body = match self.config.protocol {
            GroupProtocol::Classic if self.instance_id.is_some() => return false,
            GroupProtocol::Classic => RequestBody::from(LeaveGroupRequest {
                group_id: self.group_id.clone(),
                member_id: self.member_id.clone(),
                members: alloc::vec![MemberIdentity {
                    member_id: self.member_id.clone(),
                    ..Default::default()
                }],
                ..Default::default()
            }),
            GroupProtocol::Consumer => RequestBody::from(self.last_heartbeat()),
        };
        let Some(target) = self.bypass(cx) else {
            return false;
        };
        // Answers of the life that ends are void, and this one is of the next.
        let purpose = Some(Purpose::Group(GroupRequest::Leave, self.life + 1));
        let any = Versions::new(0, i16::MAX);
        let sent = cx.network.send(cx.step, target, purpose, &body, any, 0);
        sent.is_ok()
    }

    /// Where something can be sent that must not wait for what the coordinator was asked before.
    fn bypass(&mut self, cx: &mut Cx<'_, '_>) -> Option<Target> {
        if matches!(self.phase, Phase::Joining | Phase::Syncing) {
            let target = Target::Node(self.coordinator.node()?);
            return cx.network.ready(cx.step, target).then_some(target);
        }
        self.coordinator.target(cx.step, cx.metadata, cx.network)
    }

    // ---- commits ----

    fn send_commits(&mut self, cx: &mut Cx<'_, '_>) {
        let now = cx.step.now.mono;
        let mut overdue = self.commits.drop_waiting(|commit| commit.until <= now);
        overdue.extend(self.commits.take_overdue(now));
        for mut commit in overdue {
            commit.last_error = commit.last_error.or(self.coordinator.last_error);
            let error = commit.timed_out();
            end_commit(cx.step, &commit, Err(error));
        }
        self.drop_useless_commits(cx.step);
        if !self.commits.is_due(now) {
            return;
        }
        let is_member = self.topics.is_some() || self.leaving.is_some();
        let between = !matches!(self.phase, Phase::In | Phase::Out);
        // A commit behind a JoinGroup would wait as long as that does.
        if between && self.leaving.is_none() {
            return;
        }
        let Some(target) = self.bypass(cx) else {
            return;
        };
        let member = if is_member && self.epoch >= 0 {
            let (id, instance) = (self.member_id.clone(), self.instance_id.clone());
            (self.group_id.clone(), id, instance, self.epoch)
        } else {
            (self.group_id.clone(), Str::default(), None, -1)
        };
        if let Some((number, request, within)) = self.commits.next_request(cx.metadata, member) {
            let purpose = Some(Purpose::Group(GroupRequest::Commit, number));
            let body = RequestBody::from(request);
            if let Err(error) = cx.network.send(cx.step, target, purpose, &body, within, 0)
                && let Some(commit) = self.commits.take(number)
            {
                end_commit(cx.step, &commit, Err(error));
            }
        }
    }

    fn commit_answered(
        &mut self,
        cx: &mut Cx<'_, '_>,
        number: u64,
        result: Result<ResponseBody, ClientError>,
    ) {
        let Some(mut commit) = self.commits.take(number) else {
            return;
        };
        let answered = match result {
            Ok(ResponseBody::OffsetCommit(response)) => judge(&commit, &response),
            _ => {
                self.coordinator.lost(cx.step);
                Answered::Again(None)
            }
        };
        match answered {
            Answered::Done(stored, failed) => {
                for (partition, offset) in stored {
                    cx.consumer.is_committed(&partition, offset);
                }
                let result = failed.map_or(Ok(()), |code| Err(ClientError::broker(code)));
                end_commit(cx.step, &commit, result);
            }
            Answered::Again(code) => {
                commit.last_error = code.or(commit.last_error);
                self.commits.retry(cx.step, commit);
            }
            Answered::Refused(code) => self.commit_refused(cx, commit, code),
        }
    }

    fn commit_refused(&mut self, cx: &mut Cx<'_, '_>, mut commit: Commit, code: ErrorCode) {
        commit.last_error = Some(code);
        match code {
            ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => {
                self.coordinator.lost(cx.step);
                return self.commits.retry(cx.step, commit);
            }
            ErrorCode::STALE_MEMBER_EPOCH => {
                // The next heartbeat brings the new one.
                self.consumer_protocol.beat_at = Mono(0);
                return self.commits.retry(cx.step, commit);
            }
            _ => {}
        }
        let holds = still_holds(&commit, &self.owned);
        end_commit(cx.step, &commit, Err(ClientError::broker(code)));
        if commit.owned_since.is_empty() || !holds || self.leaving.is_some() {
            // Of a client that is no member, or of a membership that is over.
            return;
        }
        match code {
            ErrorCode::REBALANCE_IN_PROGRESS => self.classic.rejoin = true,
            ErrorCode::FENCED_INSTANCE_ID => self.fail(cx, ClientError::broker(code)),
            _ => self.fenced(cx, code),
        }
    }

    // ---- where to begin ----

    fn ask_committed(&mut self, cx: &mut Cx<'_, '_>) {
        if self.committed.is_asking() || self.committed.not_before > cx.step.now.mono {
            return;
        }
        let partitions = cx.consumer.without_committed();
        if partitions.is_empty() || (self.topics.is_some() && !matches!(self.phase, Phase::In)) {
            return;
        }
        let Some(target) = self.coordinator.target(cx.step, cx.metadata, cx.network) else {
            return;
        };
        let member = match self.config.protocol {
            GroupProtocol::Consumer if self.topics.is_some() => {
                Some((self.member_id.clone(), self.epoch))
            }
            _ => None,
        };
        let (number, request, within) =
            self.committed
                .ask(cx.metadata, &self.group_id, member, partitions);
        let purpose = Some(Purpose::Group(GroupRequest::FetchOffsets, number));
        let body = RequestBody::from(request);
        if let Err(error) = cx.network.send(cx.step, target, purpose, &body, within, 0) {
            self.committed_answered(cx, number, Err(error));
        }
    }

    fn committed_answered(
        &mut self,
        cx: &mut Cx<'_, '_>,
        number: u64,
        result: Result<ResponseBody, ClientError>,
    ) {
        let Some(question) = self.committed.take(number) else {
            return;
        };
        let Ok(ResponseBody::OffsetFetch(response)) = result else {
            self.coordinator.lost(cx.step);
            return self.ask_committed_later(cx.step);
        };
        match question.read(&response) {
            Ok(found) => {
                let mut again = false;
                for (partition, generation, committed) in found {
                    match committed {
                        Ok(offset) => {
                            let consumer = &mut *cx.consumer;
                            consumer.begin_at_committed(&partition, generation, offset);
                        }
                        Err(code) => {
                            again = true;
                            if code.is_retriable() {
                                cx.metadata.request_update();
                            } else {
                                cx.consumer.complain(&partition, ClientError::broker(code));
                            }
                        }
                    }
                }
                if again {
                    self.ask_committed_later(cx.step);
                } else {
                    self.committed.failures = 0;
                }
            }
            Err(code) => {
                match code {
                    ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => {
                        self.coordinator.lost(cx.step);
                    }
                    ErrorCode::STALE_MEMBER_EPOCH => self.consumer_protocol.beat_at = Mono(0),
                    // The next heartbeat is told what is wrong with the member.
                    ErrorCode::UNKNOWN_MEMBER_ID => self.consumer_protocol.beat_at = Mono(0),
                    code if code.is_retriable() => {}
                    code => {
                        for (partition, _) in cx.consumer.without_committed() {
                            cx.consumer.complain(&partition, ClientError::broker(code));
                        }
                    }
                }
                self.ask_committed_later(cx.step);
            }
        }
    }

    fn ask_committed_later(&mut self, step: &mut Step<'_>) {
        self.committed.failures = self.committed.failures.saturating_add(1);
        self.committed.not_before = self.backoff.after(self.committed.failures, step);
    }

    // ---- answers ----

    /// An answer came, or none will.
    pub(crate) fn answered(
        &mut self,
        step: &mut Step<'_>,
        metadata: &mut Metadata,
        network: &mut Network,
        consumer: &mut Consumer,
        (what, number): (GroupRequest, u64),
        result: Result<ResponseBody, ClientError>,
    ) {
        let cx = &mut Cx {
            step,
            metadata,
            network,
            consumer,
        };
        match what {
            GroupRequest::FindCoordinator => {
                let found = self.coordinator.answered(cx.step, cx.metadata, result);
                if let Err(error) = found
                    && self.topics.is_some()
                {
                    self.fail(cx, error);
                }
            }
            GroupRequest::Commit => self.commit_answered(cx, number, result),
            GroupRequest::FetchOffsets => self.committed_answered(cx, number, result),
            _ if number != self.life => {}
            GroupRequest::Leave => {
                if matches!(self.leaving, Some(Leaving::Said { .. })) {
                    self.leaving = None;
                }
            }
            GroupRequest::Join => self.joined(cx, result),
            GroupRequest::Sync => self.synced(cx, result),
            GroupRequest::Heartbeat => self.beaten(cx, result),
            GroupRequest::ConsumerHeartbeat => self.told(cx, result),
        }
    }

    /// Sends what a protocol has to say, under the life of now.
    fn send(
        &self,
        cx: &mut Cx<'_, '_>,
        target: Target,
        what: GroupRequest,
        body: impl Into<RequestBody>,
        min_version: i16,
        extra_timeout_ms: u32,
    ) -> Sent {
        let purpose = Some(Purpose::Group(what, self.life));
        let within = Versions::new(min_version, i16::MAX);
        let body = body.into();
        let extra = extra_timeout_ms;
        cx.network
            .send(cx.step, target, purpose, &body, within, extra)
    }

    /// When [`Self::settle`] has something to do.
    pub(crate) fn deadline(&self, consumer: &Consumer) -> Option<Mono> {
        let now = self.looked_at;
        let member = self.topics.is_some() && !self.has_failed && self.leaving.is_none();
        let protocol = match self.config.protocol {
            GroupProtocol::Classic => self.classic_deadline(),
            GroupProtocol::Consumer => self.consumer_protocol_deadline(),
        };
        let leaving = match self.leaving {
            Some(Leaving::Said { until }) => Some(until),
            _ => None,
        };
        let is_reading = !self.owned.is_empty() || consumer.positions().next().is_some();
        let commits = self.config.enable_auto_commit && is_reading;
        [
            protocol.filter(|_| member),
            self.poll_deadline(consumer).filter(|_| member),
            leaving,
            self.coordinator.deadline(now),
            self.commits.deadline(now),
            Some(self.committed.not_before),
            commits.then_some(self.next_auto_commit),
        ]
        .into_iter()
        .map(|at| at.filter(|at| *at > now))
        .fold(None, earlier)
    }
}

/// What must change for the member to own what it shall.
struct Change {
    gone: Vec<TopicPartition>,
    new: Vec<(TopicPartition, TopicId)>,
}

/// Whether the member still owns what it wants to commit, without a break.
fn still_holds(commit: &Commit, owned: &BTreeMap<TopicPartition, Owned>) -> bool {
    commit
        .owned_since
        .iter()
        .all(|(partition, since)| owned.get(partition).is_some_and(|own| own.since == *since))
}

/// Tells whoever wanted a commit.
fn end_commit(step: &mut Step<'_>, commit: &Commit, result: Result<(), ClientError>) {
    match (commit.owner, result) {
        (Owner::Application(id), result) => {
            step.out.event(ClientEvent::Committed { id, result });
        }
        (Owner::Interval | Owner::GivingUp, Ok(())) => {}
        (Owner::Interval | Owner::GivingUp, Err(error)) => {
            step.report(Level::Warn, format!("offsets are not committed: {error}"));
        }
    }
}
