//! Commits on their way to the coordinator: one at a time, so that a later one never comes first.
//!
//! A commit belongs to the stretch of time in which the member owns its partitions without a break.
//! One that waits until some of them are gone is never sent: somebody else may have read on.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::client::error::{ClientError, Timeout};
use crate::client::input::{CommandId, OffsetToCommit, TopicName, TopicPartition};
use crate::client::metadata::{Metadata, topic_of_answer};
use crate::client::step::{Backoff, Step};
use crate::ids::{Offset, TopicId};
use crate::time::Mono;
use crate::wire::messages::offset_commit::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use crate::wire::messages::{OffsetCommitRequest, OffsetCommitResponse};
use crate::wire::{ErrorCode, Str, Versions};

/// Commits on their way.
#[derive(Debug)]
pub(super) struct Commits {
    backoff: Backoff,
    waiting: VecDeque<Commit>,
    in_flight: Option<(u64, Commit)>,
    next: u64,
}

/// A commit.
#[derive(Debug)]
pub(super) struct Commit {
    pub(super) offsets: BTreeMap<TopicPartition, OffsetToCommit>,
    /// Since when each partition is owned; those of a client that is no member are not here.
    pub(super) owned_since: BTreeMap<TopicPartition, u64>,
    pub(super) owner: Owner,
    pub(super) until: Mono,
    not_before: Mono,
    failures: u32,
    pub(super) last_error: Option<ErrorCode>,
    /// Topics as the request named them.
    ids: BTreeMap<TopicName, TopicId>,
}

/// Who wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The interval is over.
    Interval,
    /// Partitions are given up, or the client leaves.
    GivingUp,
    /// The application.
    Application(CommandId),
}

/// What an answer means.
#[derive(Debug)]
pub(super) enum Answered {
    /// What is stored, and the first error of what is not.
    Done(Vec<(TopicPartition, Offset)>, Option<ErrorCode>),
    /// It should be tried again, after this error.
    Again(Option<ErrorCode>),
    /// The member is told off.
    Refused(ErrorCode),
}

impl Commit {
    pub(super) const fn new(
        offsets: BTreeMap<TopicPartition, OffsetToCommit>,
        owned_since: BTreeMap<TopicPartition, u64>,
        owner: Owner,
        until: Mono,
    ) -> Self {
        Self {
            offsets,
            owned_since,
            owner,
            until,
            not_before: Mono(0),
            failures: 0,
            last_error: None,
            ids: BTreeMap::new(),
        }
    }

    pub(super) const fn timed_out(&self) -> ClientError {
        ClientError::TimedOut {
            what: Timeout::Request,
            last: self.last_error,
        }
    }
}

impl Commits {
    pub(super) const fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            waiting: VecDeque::new(),
            in_flight: None,
            next: 0,
        }
    }

    pub(super) fn push(&mut self, commit: Commit) {
        self.waiting.push_back(commit);
    }

    /// Whether a commit of this owner is under way.
    pub(super) fn has(&self, owner: Owner) -> bool {
        self.all().any(|commit| commit.owner == owner)
    }

    /// Whether a commit of such a partition is under way.
    pub(super) fn have(&self, partition: impl Fn(&TopicPartition) -> bool) -> bool {
        self.all()
            .any(|commit| commit.offsets.keys().any(&partition))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.in_flight.is_none()
    }

    fn all(&self) -> impl Iterator<Item = &Commit> {
        let in_flight = self.in_flight.as_ref().map(|(_, commit)| commit);
        self.waiting.iter().chain(in_flight)
    }

    /// Takes out those that wait and that `over` holds for.
    pub(super) fn drop_waiting(&mut self, mut over: impl FnMut(&Commit) -> bool) -> Vec<Commit> {
        let (dropped, kept): (Vec<Commit>, Vec<Commit>) =
            self.waiting.drain(..).partition(|commit| over(commit));
        self.waiting = kept.into();
        dropped
    }

    /// Forgets the one in flight if it is overdue.
    pub(super) fn take_overdue(&mut self, now: Mono) -> Option<Commit> {
        let (_, commit) = self.in_flight.take_if(|(_, commit)| commit.until <= now)?;
        Some(commit)
    }

    /// Whether there is one to send now.
    pub(super) fn is_due(&self, now: Mono) -> bool {
        self.in_flight.is_none()
            && self
                .waiting
                .front()
                .is_some_and(|first| first.not_before <= now)
    }

    /// The request of the next one, the number its answer will have, and the versions it may be sent
    /// in.
    pub(super) fn next_request(
        &mut self,
        metadata: &mut Metadata,
        member: (Str, Str, Option<Str>, i32),
    ) -> Option<(u64, OffsetCommitRequest, Versions)> {
        let mut commit = self.waiting.pop_front()?;
        let (group_id, member_id, group_instance_id, generation_id_or_member_epoch) = member;
        let mut topics: Vec<OffsetCommitRequestTopic> = Vec::new();
        commit.ids.clear();
        for (partition, to) in &commit.offsets {
            let data = OffsetCommitRequestPartition {
                partition_index: partition.partition,
                committed_offset: to.offset.0,
                committed_leader_epoch: to.leader_epoch.map_or(-1, |epoch| epoch.0),
                committed_metadata: Some(Str::from(to.metadata.as_str())),
                ..Default::default()
            };
            match topics.last_mut() {
                Some(last) if last.name == *partition.topic => last.partitions.push(data),
                _ => {
                    metadata.want(&partition.topic);
                    let id = metadata
                        .topic(&partition.topic)
                        .map_or(TopicId::ZERO, |topic| topic.id);
                    commit.ids.insert(partition.topic.clone(), id);
                    topics.push(OffsetCommitRequestTopic {
                        name: Str::from(&*partition.topic),
                        topic_id: id,
                        partitions: alloc::vec![data],
                        ..Default::default()
                    });
                }
            }
        }
        // Topics are named by id from version 10 on. A static member is one from version 7 on.
        let all_have_ids = commit.ids.values().all(|id| *id != TopicId::ZERO);
        let within = Versions::new(
            if group_instance_id.is_some() { 7 } else { 2 },
            if all_have_ids { i16::MAX } else { 9 },
        );
        let request = OffsetCommitRequest {
            group_id,
            generation_id_or_member_epoch,
            member_id,
            group_instance_id,
            topics,
            ..Default::default()
        };
        self.next += 1;
        self.in_flight = Some((self.next, commit));
        Some((self.next, request, within))
    }

    /// The answer to a request came, or none will: which commit it was for.
    pub(super) fn take(&mut self, number: u64) -> Option<Commit> {
        let (_, commit) = self.in_flight.take_if(|(of, _)| *of == number)?;
        Some(commit)
    }

    /// A commit is tried again after a while, before those behind it.
    pub(super) fn retry(&mut self, step: &mut Step<'_>, mut commit: Commit) {
        commit.failures = commit.failures.saturating_add(1);
        commit.not_before = self.backoff.after(commit.failures, step);
        self.waiting.push_front(commit);
    }

    /// When there is something to do after `now`.
    pub(super) fn deadline(&self, now: Mono) -> Option<Mono> {
        let starts = self.waiting.front().map(|first| first.not_before);
        self.all()
            .map(|commit| commit.until)
            .chain(starts)
            .filter(|at| *at > now)
            .min()
    }
}

/// What the broker's answer to a commit means.
pub(super) fn judge(commit: &Commit, response: &OffsetCommitResponse) -> Answered {
    let mut stored = Vec::new();
    let mut failed = None;
    let mut again = None;
    for topic in &response.topics {
        let Some(name) = topic_of_answer(&commit.ids, &topic.name, topic.topic_id) else {
            continue;
        };
        for partition in &topic.partitions {
            let key = TopicPartition {
                topic: name.clone(),
                partition: partition.partition_index,
            };
            let Some(asked) = commit.offsets.get(&key) else {
                continue;
            };
            match partition.error_code {
                ErrorCode::NONE => stored.push((key, asked.offset)),
                code if is_of_the_member(code) => return Answered::Refused(code),
                // The topic may be gone for good, and then nothing is left to be committed.
                code @ (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID) => {
                    failed = Some(code);
                }
                code if code.is_retriable() => again = Some(code),
                code => failed = Some(code),
            }
        }
    }
    match again {
        Some(code) => Answered::Again(Some(code)),
        None => Answered::Done(stored, failed),
    }
}

/// Whether an error is about the member, not about what it committed.
const fn is_of_the_member(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::UNKNOWN_MEMBER_ID
            | ErrorCode::ILLEGAL_GENERATION
            | ErrorCode::FENCED_INSTANCE_ID
            | ErrorCode::REBALANCE_IN_PROGRESS
            | ErrorCode::STALE_MEMBER_EPOCH
            | ErrorCode::FENCED_MEMBER_EPOCH
            | ErrorCode::NOT_COORDINATOR
            | ErrorCode::COORDINATOR_NOT_AVAILABLE
    )
}
