//! A consumer group (KIP-848): the broker assigns, and brings each member to its assignment step by
//! step, so that no partition has two owners.
//!
//! Three epochs: the **group epoch** rises with everything that may change who owns what; the
//! **assignment epoch** is the group epoch for which the target assignment was made; the **member
//! epoch** is the target that a member has reached. A member first gives up what is not in its
//! target (`Unrevoked` until it says that it has), then moves to the new epoch and takes what others
//! have given up (`Unreleased` while some of that is not free).
//!
//! A member may speak the classic protocol while a group moves from one protocol to the other: its
//! epoch is its generation then, and it is told to join again whenever it is to give something up or
//! may take something ([`classic_member`]). How a group changes its kind is in [`migration`].
//!
//! Everything here is said by records: each change is a record that is [applied](ConsumerGroup::apply)
//! at once, live or when the log is read back. Only sessions, and the version of the topics that the
//! group has seen, are not.

mod classic_member;
mod heartbeat;
mod migration;
mod reconcile;
mod replay;
mod target;
#[cfg(test)]
mod tests;
mod topics;

pub(crate) use classic_member::ClassicMember;
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
    /// Classic members that were told to join again, and have not yet.
    joins: Sessions,
    /// Classic members that have joined, and not asked for their assignment yet.
    syncs: Sessions,
    /// Bytes of what members said of themselves.
    said_bytes: usize,
    /// How many members speak the classic protocol.
    classic_members: usize,
    /// How many of those offer each of its protocols.
    offers: BTreeMap<Str, usize>,
    /// The version of the topics that it has seen.
    seen_topics: Option<u64>,
    /// Whether it becomes a classic group when only classic members are left; each call brings it.
    pub(crate) may_downgrade: bool,
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
    /// Of a member that speaks the classic protocol.
    pub(crate) classic: Option<ClassicMember>,
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

    /// Bytes that it holds, roughly. Every heartbeat asks, so it is counted as members change.
    pub(crate) fn bytes(&self) -> usize {
        384 * self.members.len() + self.said_bytes + 96 * self.owners.len()
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
        if version < 9 && member.classic.is_none() {
            return Err(ErrorCode::UNSUPPORTED_VERSION);
        }
        member.validate_epoch(epoch)
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
        member.validate_epoch(epoch)
    }

    /// Does what is due: members that were silent, or did not give up in time, are fenced.
    pub(crate) fn on_deadline(&mut self, now: Now, id: &Str, records: &mut Records) {
        loop {
            let expired = [
                &mut self.sessions,
                &mut self.revocations,
                &mut self.joins,
                &mut self.syncs,
            ]
            .into_iter()
            .find_map(|timers| timers.expired(now.mono));
            let Some(member_id) = expired else {
                return;
            };
            if self.members.contains_key(&member_id) && !self.bugs.has(Bug::DeadMemberStays) {
                self.fence(id, &member_id, records);
            }
        }
    }

    /// When `on_deadline` wants to be called, or a little before.
    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        [
            self.sessions.next(),
            self.revocations.next(),
            self.joins.next(),
            self.syncs.next(),
        ]
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
        let member = self.members.get(member_id);
        let classic = member.and_then(|member| member.classic.as_ref());
        let session_ms = classic.map_or(config.consumer_session_timeout_ms, |classic| {
            classic.session_timeout_ms
        });
        self.sessions.set(member_id, now.mono.plus_ms(session_ms));
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
        // A classic member has until its join timeout, from when it hears of it.
        if member.state != MemberState::Unrevoked || member.classic.is_some() {
            self.revocations.cancel(member_id);
        } else if is_news {
            let timeout_ms = u64::try_from(member.rebalance_timeout_ms).unwrap_or(0);
            self.revocations.cancel(member_id);
            self.revocations
                .set(member_id, now.mono.plus_ms(timeout_ms.max(1)));
        }
    }
}

impl ConsumerMember {
    /// Bytes of what it said of itself, roughly.
    fn said_bytes(&self, member_id: &str) -> usize {
        let names: usize = self.names.iter().map(|name| 48 + name.len()).sum();
        let classic = self.classic.as_ref().map_or(0, ClassicMember::bytes);
        let texts = [
            &self.instance_id,
            &self.rack_id,
            &self.regex,
            &self.server_assignor,
        ];
        let texts = texts.into_iter().flatten().map(|text| text.len());
        // Its id and its name stand in several places.
        let instance_id = self.instance_id.as_ref().map_or(0, |id| id.len());
        names
            + texts.sum::<usize>()
            + 4 * member_id.len()
            + instance_id
            + self.client_id.len()
            + self.client_host.len()
            + classic
    }

    fn validate_epoch(&self, epoch: i32) -> Result<(), ErrorCode> {
        match self.classic {
            _ if self.epoch == epoch => Ok(()),
            // What a classic member calls its generation is its epoch.
            Some(_) => Err(ErrorCode::ILLEGAL_GENERATION),
            None => Err(ErrorCode::STALE_MEMBER_EPOCH),
        }
    }
}
