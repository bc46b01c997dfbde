//! A consumer group (KIP-848): the broker assigns, and brings each member to its assignment step by
//! step, so that no partition has two owners.
//!
//! Three epochs: the **group epoch** rises with everything that may change who owns what; the
//! **assignment epoch** is the group epoch for which the target assignment was made; the **member
//! epoch** is the target that a member has reached. A member first gives up what is not in its
//! target (`Unrevoked` until it says that it has), then moves to the new epoch and takes what others
//! have given up (`Unreleased` while some of that is not free).
//!
//! Everything here is said by records: each change is a record that is [applied](ConsumerGroup::apply)
//! at once, live or when the log is read back. Only sessions, and the version of the topics that the
//! group has seen, are not.

mod heartbeat;
mod reconcile;
mod replay;
mod target;
#[cfg(test)]
mod tests;
mod topics;

pub(crate) use heartbeat::{Beat, BeatReply, Refusal};
pub(crate) use replay::{collect, group_of, has_value};
pub(crate) use topics::Topics;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::assignor::{Assignor, Partitions};
use super::config::GroupConfig;
use super::sessions::Sessions;
use crate::bugs::{Bug, Bugs};
use crate::ids::TopicId;
use crate::time::{Mono, Now};
use crate::wire::coordinator_records::CoordinatorRecord;
use crate::wire::{ErrorCode, Str};

/// The member epoch of one who leaves.
pub(crate) const LEAVE: i32 = -1;
/// The member epoch of a static member that leaves for a while.
pub(crate) const LEAVE_STATIC: i32 = -2;

/// A consumer group.
#[derive(Debug, Default)]
pub(crate) struct ConsumerGroup {
    epoch: i32,
    /// Over the topics it subscribes to: whether one of them has changed.
    metadata_hash: i64,
    assignment_epoch: i32,
    members: BTreeMap<Str, ConsumerMember>,
    static_members: BTreeMap<Str, Str>,
    target: BTreeMap<Str, Partitions>,
    /// Who has each partition, also while it is giving it up.
    owners: BTreeMap<(TopicId, i32), Str>,
    /// What the regular expressions that members subscribe with match.
    regexes: BTreeMap<Str, BTreeSet<Str>>,
    sessions: Sessions,
    /// Members that are to give partitions up.
    revocations: Sessions,
    /// The version of the topics that it has seen.
    seen_topics: Option<u64>,
    /// What is planted, in a build that has bugs; each call brings it.
    pub(crate) bugs: Bugs,
}

/// A member.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ConsumerMember {
    pub(crate) instance_id: Option<Str>,
    pub(crate) rack_id: Option<Str>,
    pub(crate) client_id: Str,
    pub(crate) client_host: Str,
    pub(crate) names: BTreeSet<Str>,
    pub(crate) regex: Option<Str>,
    pub(crate) rebalance_timeout_ms: i32,
    pub(crate) server_assignor: Option<Str>,
    pub(crate) epoch: i32,
    pub(crate) previous_epoch: i32,
    pub(crate) state: MemberState,
    /// What it owns, or may take.
    pub(crate) assigned: Partitions,
    /// What it is to give up.
    pub(crate) revoking: Partitions,
}

/// How far a member is with its assignment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MemberState {
    /// It has the target of its epoch.
    #[default]
    Stable,
    /// It is to give partitions up first.
    Unrevoked,
    /// It waits for partitions that others have.
    Unreleased,
}

/// The states, by Kafka's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConsumerState {
    Empty,
    Assigning,
    Reconciling,
    Stable,
}

/// Records, in the order in which they are to be appended.
pub(crate) type Records = Vec<CoordinatorRecord>;

impl ConsumerGroup {
    pub(crate) fn state(&self) -> ConsumerState {
        let reached = |member: &ConsumerMember| {
            member.state == MemberState::Stable && member.epoch == self.assignment_epoch
        };
        if self.members.is_empty() {
            ConsumerState::Empty
        } else if self.epoch > self.assignment_epoch {
            ConsumerState::Assigning
        } else if self.members.values().all(reached) {
            ConsumerState::Stable
        } else {
            ConsumerState::Reconciling
        }
    }

    pub(crate) const fn epoch(&self) -> i32 {
        self.epoch
    }

    pub(crate) const fn assignment_epoch(&self) -> i32 {
        self.assignment_epoch
    }

    pub(crate) const fn members(&self) -> &BTreeMap<Str, ConsumerMember> {
        &self.members
    }

    /// What a member shall own in the end.
    pub(crate) fn target_of(&self, member: &str) -> Option<&Partitions> {
        self.target.get(member)
    }

    /// Bytes that it holds, roughly.
    pub(crate) fn bytes(&self) -> usize {
        let members = self.members.values().map(|member| {
            let names: usize = member.names.iter().map(|name| 48 + name.len()).sum();
            384 + names + member.client_id.len()
        });
        members.sum::<usize>() + 96 * self.owners.len()
    }

    /// Whether any member subscribes to a topic.
    pub(crate) fn subscribes_to(&self, topic: &str) -> bool {
        self.members
            .values()
            .any(|member| self.topics_of(member).any(|name| name == topic))
    }

    /// The names that a member subscribes to, by name or by expression.
    fn topics_of<'a>(&'a self, member: &'a ConsumerMember) -> impl Iterator<Item = &'a Str> {
        let regex = member.regex.as_ref();
        let matched = regex.and_then(|regex| self.regexes.get(regex));
        member.names.iter().chain(matched.into_iter().flatten())
    }

    /// The assignor that most members ask for; without a wish, the default.
    pub(crate) fn assignor(&self) -> Assignor {
        let mut votes: BTreeMap<Assignor, usize> = BTreeMap::new();
        for member in self.members.values() {
            let wished = member.server_assignor.as_deref();
            if let Some(assignor) = wished.and_then(Assignor::from_name) {
                *votes.entry(assignor).or_default() += 1;
            }
        }
        let most = votes.values().copied().max();
        Assignor::ALL
            .into_iter()
            .find(|assignor| most.is_some() && votes.get(assignor).copied() == most)
            .unwrap_or(Assignor::Uniform)
    }

    /// Whether a commit may be stored: the fencing of promise 10. `version` is OffsetCommit's.
    pub(crate) fn validate_commit(
        &self,
        member_id: &str,
        epoch: i32,
        version: i16,
    ) -> Result<(), ErrorCode> {
        if epoch < 0 && self.members.is_empty() {
            return Ok(());
        }
        let member = self.members.get(member_id);
        let member = member.ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        if version < 9 {
            return Err(ErrorCode::UNSUPPORTED_VERSION);
        }
        if member.epoch == epoch {
            Ok(())
        } else {
            Err(ErrorCode::STALE_MEMBER_EPOCH)
        }
    }

    /// Whether offsets may be shown to one who names itself so: not to a member that is behind.
    pub(crate) fn validate_fetch(
        &self,
        member_id: Option<&str>,
        epoch: i32,
    ) -> Result<(), ErrorCode> {
        let member_id = member_id.unwrap_or_default();
        if member_id.is_empty() && epoch < 0 {
            return Ok(());
        }
        let member = self.members.get(member_id);
        let member = member.ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        if member.epoch == epoch {
            Ok(())
        } else {
            Err(ErrorCode::STALE_MEMBER_EPOCH)
        }
    }

    /// Does what is due: members that were silent, or did not give up in time, are fenced.
    pub(crate) fn on_deadline(&mut self, now: Now, id: &Str, records: &mut Records) {
        loop {
            let silent = self.sessions.expired(now.mono);
            let Some(member_id) = silent.or_else(|| self.revocations.expired(now.mono)) else {
                return;
            };
            if self.members.contains_key(&member_id) && !self.bugs.has(Bug::DeadMemberStays) {
                self.fence(id, &member_id, records);
            }
        }
    }

    /// When `on_deadline` wants to be called, or a little before.
    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        [self.sessions.next(), self.revocations.next()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Gives every member its session, from now on.
    pub(crate) fn begin_sessions(&mut self, now: Now, config: &GroupConfig) {
        let members: Vec<Str> = self.members.keys().cloned().collect();
        for member_id in members {
            self.touch(now, config, &member_id);
            self.time_revocation(now, &member_id, None);
        }
    }

    fn touch(&mut self, now: Now, config: &GroupConfig, member_id: &Str) {
        let deadline = now.mono.plus_ms(config.consumer_session_timeout_ms);
        self.sessions.set(member_id, deadline);
    }

    /// Sets or ends the time that a member has for giving up partitions. `before` is what it was
    /// before; what it was told to give up then has its time already.
    fn time_revocation(&mut self, now: Now, member_id: &Str, before: Option<&ConsumerMember>) {
        let Some(member) = self.members.get(member_id) else {
            return;
        };
        let is_news = before.is_none_or(|before| {
            (before.state, before.epoch, &before.revoking)
                != (member.state, member.epoch, &member.revoking)
        });
        if member.state != MemberState::Unrevoked {
            self.revocations.cancel(member_id);
        } else if is_news {
            let timeout_ms = u64::try_from(member.rebalance_timeout_ms).unwrap_or(0);
            self.revocations.cancel(member_id);
            self.revocations
                .set(member_id, now.mono.plus_ms(timeout_ms.max(1)));
        }
    }
}
