//! A classic group: its members choose a leader, which assigns; the broker keeps them in step.
//!
//! ```text
//!              first member            all joined, or timeout
//!   Empty ───────────────▶ PreparingRebalance ───────────────▶ CompletingRebalance
//!     ▲                      │     ▲      ▲   a member joins, leaves     │
//!     └──────────────────────┘     │      │   or is given up             │
//!         nobody is left           │      └──────────────────────────────┤
//!                                  │                                     │ the leader's
//!                                  └───────────── Stable ◀───────────────┘ assignment
//! ```
//!
//! This is a pure state machine: what it is told comes in as a call, what it decides goes out into an
//! [`Outcome`]. Only an `Outcome` with `changed` needs a record; the answers in `durable` wait for
//! it. What is here between two records (who joins, who waits) is lost with the process, and then the
//! members join again.

mod join;
mod member;
mod message;
mod rebalance;
mod restore;
mod sync;
#[cfg(test)]
mod tests;

pub(crate) use member::{Member, Protocol, names_of, protocol_bytes, weight_of};
pub(crate) use message::{Join, JoinReply, MemberRef, Outcome, Reply, Sync, SyncReply};

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use member::Joining;
use rebalance::InitialDelay;

use super::config::GroupConfig;
use super::sessions::Sessions;
use crate::bugs::{Bug, Bugs};
use crate::connection::RequestId;
use crate::time::{Mono, Now};
use crate::wire::{ErrorCode, Str};

/// How long a JoinGroup of a new member may wait: it knows no member id yet by which it could be
/// found again, so without a limit retries would pile up dead members (Kafka's limit).
const NEW_MEMBER_JOIN_TIMEOUT_MS: u64 = 5 * 60 * 1000;

/// What one group may hold in memory, which is also about the size of its record. Beyond it no
/// member joins.
pub(crate) const MAX_GROUP_BYTES: usize = 3 << 20;

/// Ids given out and not used yet that a group waits for. Beyond it no member joins.
const MAX_PENDING: usize = 10_000;

/// What such an id holds, roughly.
const PENDING_BYTES: usize = 256;

/// The states, by Kafka's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClassicState {
    /// No members; there may be offsets.
    Empty,
    /// Members join.
    PreparingRebalance,
    /// All have joined; the leader's assignment is awaited.
    CompletingRebalance,
    /// Everybody has an assignment, or may ask for it.
    Stable,
}

/// A classic group.
#[derive(Debug)]
pub(crate) struct ClassicGroup {
    state: ClassicState,
    /// When it got there, in milliseconds of wall time: offsets of an empty group expire by it.
    state_since_ms: Option<i64>,
    generation_id: i32,
    protocol_type: Option<Str>,
    protocol_name: Option<Str>,
    leader: Option<Str>,
    members: BTreeMap<Str, Member>,
    static_members: BTreeMap<Str, Str>,
    /// Ids that were given out and not used yet (KIP-394).
    pending: BTreeSet<Str>,
    /// Members of this generation that have not synced yet.
    pending_sync: BTreeSet<Str>,
    sessions: Sessions,
    /// How many members offer each protocol.
    offers: BTreeMap<Str, usize>,
    /// How many members have joined the rebalance under way.
    joined: usize,
    bytes: usize,
    /// When the rebalance goes on without those who have not joined.
    join_deadline: Option<Mono>,
    /// While the first rebalance of an empty group is put off.
    initial_delay: Option<InitialDelay>,
    /// When members that have not synced are given up.
    sync_deadline: Option<Mono>,
    /// What is planted, in a build that has bugs; each call brings it.
    pub(crate) bugs: Bugs,
}

impl ClassicGroup {
    /// A group without members.
    pub(crate) fn new(now: Now) -> Self {
        Self {
            state: ClassicState::Empty,
            state_since_ms: Some(now.wall.0),
            generation_id: 0,
            protocol_type: None,
            protocol_name: None,
            leader: None,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            pending: BTreeSet::new(),
            pending_sync: BTreeSet::new(),
            sessions: Sessions::default(),
            offers: BTreeMap::new(),
            joined: 0,
            bytes: 0,
            join_deadline: None,
            initial_delay: None,
            sync_deadline: None,
            bugs: Bugs::NONE,
        }
    }

    pub(crate) const fn state(&self) -> ClassicState {
        self.state
    }

    pub(crate) const fn state_since_ms(&self) -> Option<i64> {
        self.state_since_ms
    }

    pub(crate) const fn generation_id(&self) -> i32 {
        self.generation_id
    }

    pub(crate) const fn protocol_type(&self) -> Option<&Str> {
        self.protocol_type.as_ref()
    }

    pub(crate) const fn protocol_name(&self) -> Option<&Str> {
        self.protocol_name.as_ref()
    }

    pub(crate) const fn leader(&self) -> Option<&Str> {
        self.leader.as_ref()
    }

    /// The members, by id.
    pub(crate) const fn members(&self) -> &BTreeMap<Str, Member> {
        &self.members
    }

    /// Whether nothing is left of it that a record would not say: no member, and no id given out.
    pub(crate) fn is_vacant(&self) -> bool {
        self.state == ClassicState::Empty && self.pending.is_empty()
    }

    /// Bytes that its members hold, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + PENDING_BYTES * self.pending.len()
    }

    /// A Heartbeat.
    pub(crate) fn heartbeat(&mut self, now: Now, member: &MemberRef) -> Result<(), ErrorCode> {
        self.validate(member)?;
        match self.state {
            ClassicState::Empty => Err(ErrorCode::UNKNOWN_MEMBER_ID),
            ClassicState::PreparingRebalance => {
                self.touch(now, &member.member_id);
                Err(ErrorCode::REBALANCE_IN_PROGRESS)
            }
            ClassicState::CompletingRebalance | ClassicState::Stable => {
                self.touch(now, &member.member_id);
                Ok(())
            }
        }
    }

    /// Members of a LeaveGroup, each as it is named: with a result each.
    pub(crate) fn leave(
        &mut self,
        now: Now,
        config: &GroupConfig,
        leaving: &[(Str, Option<Str>)],
        out: &mut Outcome,
    ) -> Vec<Result<(), ErrorCode>> {
        let results: Vec<_> = leaving
            .iter()
            .map(|(member_id, instance_id)| self.leave_one(member_id, instance_id.as_ref(), out))
            .collect();
        if results.iter().any(Result::is_ok) {
            self.after_removal(now, config, "a member left", out);
        }
        results
    }

    fn leave_one(
        &mut self,
        member_id: &Str,
        instance_id: Option<&Str>,
        out: &mut Outcome,
    ) -> Result<(), ErrorCode> {
        // An administrator removes a static member by its instance id alone (KIP-345).
        let member_id = if member_id.is_empty() {
            let known = instance_id.and_then(|id| self.static_members.get(id));
            known.ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?.clone()
        } else if self.pending.remove(member_id) {
            self.sessions.cancel(member_id);
            return Ok(());
        } else {
            self.validate_member(member_id, instance_id)?;
            member_id.clone()
        };
        self.remove(&member_id, ErrorCode::UNKNOWN_MEMBER_ID, out);
        Ok(())
    }

    /// Whether a commit may be stored: the fencing of promise 10.
    pub(crate) fn validate_commit(
        &mut self,
        now: Now,
        member: &MemberRef,
    ) -> Result<(), ErrorCode> {
        let is_empty = self.state == ClassicState::Empty;
        if (member.generation_id < 0 && is_empty) || self.bugs.has(Bug::CommitWithoutFencing) {
            // An administrator, or a consumer without a group's membership.
            return Ok(());
        }
        if member.generation_id < 0 && member.member_id.is_empty() && member.instance_id.is_none() {
            // Somebody who is no member, while there are members.
            return Err(ErrorCode::UNKNOWN_MEMBER_ID);
        }
        self.validate(member)?;
        match self.state {
            // It joined this generation, and has no assignment of it yet.
            ClassicState::CompletingRebalance => Err(ErrorCode::REBALANCE_IN_PROGRESS),
            _ => {
                self.touch(now, &member.member_id);
                Ok(())
            }
        }
    }

    /// Does what is due.
    pub(crate) fn on_deadline(&mut self, now: Now, config: &GroupConfig, out: &mut Outcome) {
        while let Some(member_id) = self.sessions.expired(now.mono) {
            if self.pending.remove(&member_id) {
                self.maybe_complete_join(now, out);
            } else if self.members.contains_key(&member_id) && !self.bugs.has(Bug::DeadMemberStays)
            {
                self.remove(&member_id, ErrorCode::UNKNOWN_MEMBER_ID, out);
                self.after_removal(now, config, "a member's session ended", out);
            }
        }
        if self.join_deadline.is_some_and(|at| at <= now.mono) {
            self.join_deadline_passed(now, config, out);
        }
        if self.sync_deadline.is_some_and(|at| at <= now.mono) {
            self.sync_deadline = None;
            let late = core::mem::take(&mut self.pending_sync);
            if !late.is_empty() {
                for member_id in late {
                    self.remove(&member_id, ErrorCode::UNKNOWN_MEMBER_ID, out);
                }
                self.after_removal(now, config, "members did not sync in time", out);
            }
        }
    }

    /// When `on_deadline` wants to be called, or a little before.
    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        [self.sessions.next(), self.join_deadline, self.sync_deadline]
            .into_iter()
            .flatten()
            .min()
    }

    /// The connection on which a request of this group waited is closed: from now on its member has
    /// a session to lose.
    pub(crate) fn forget(&mut self, now: Now, gone: RequestId) {
        let found = self.members.iter_mut().find_map(|(id, member)| {
            if member.join == Joining::Waits(gone) {
                member.join = Joining::Gone;
                return Some(id.clone());
            }
            member
                .sync
                .take_if(|request| *request == gone)
                .map(|_| id.clone())
        });
        if let Some(member_id) = found {
            self.reset_session(now, &member_id);
        }
    }

    /// Everybody who waits is sent away: the group's state is thrown away.
    pub(crate) fn evict(&mut self, error: ErrorCode) -> Vec<(RequestId, Reply)> {
        let mut answers = Vec::new();
        for (id, member) in &mut self.members {
            if let Joining::Waits(request) = core::mem::replace(&mut member.join, Joining::No) {
                let reply = JoinReply::refusal(error, id.clone());
                answers.push((request, Reply::Join(reply)));
            }
            if let Some(request) = member.sync.take() {
                answers.push((request, Reply::Sync(SyncReply::refusal(error))));
            }
        }
        answers
    }

    /// Holds how a member names itself against who there is.
    fn validate(&self, member: &MemberRef) -> Result<(), ErrorCode> {
        self.validate_member(&member.member_id, member.instance_id.as_ref())?;
        if member.generation_id == self.generation_id {
            Ok(())
        } else {
            Err(ErrorCode::ILLEGAL_GENERATION)
        }
    }

    fn validate_member(&self, id: &Str, instance_id: Option<&Str>) -> Result<(), ErrorCode> {
        if let Some(instance_id) = instance_id {
            match self.static_members.get(instance_id) {
                None => return Err(ErrorCode::UNKNOWN_MEMBER_ID),
                Some(known) if known != id && self.bugs.has(Bug::OldSelfNotFenced) => {
                    return Ok(());
                }
                Some(known) if known != id => return Err(ErrorCode::FENCED_INSTANCE_ID),
                Some(_) => {}
            }
        }
        if self.members.contains_key(id) {
            Ok(())
        } else {
            Err(ErrorCode::UNKNOWN_MEMBER_ID)
        }
    }

    /// A sign of life. Whoever waits for others has no session to lose.
    fn touch(&mut self, now: Now, member_id: &Str) {
        let Some(member) = self.members.get(member_id) else {
            return;
        };
        if !matches!(member.join, Joining::Waits(_)) && member.sync.is_none() {
            let deadline = now.mono.plus_ms(member.session_timeout_ms);
            self.sessions.set(member_id, deadline);
        }
    }

    fn reset_session(&mut self, now: Now, member_id: &Str) {
        if let Some(member) = self.members.get(member_id) {
            let deadline = now.mono.plus_ms(member.session_timeout_ms);
            // A session that was put off for a new member's join is taken back too.
            self.sessions.cancel(member_id);
            self.sessions.set(member_id, deadline);
        }
    }

    /// A member goes; the one who waits on its behalf is told `error`.
    fn remove(&mut self, member_id: &Str, error: ErrorCode, out: &mut Outcome) {
        let Some(member) = self.members.remove(member_id) else {
            return;
        };
        self.sessions.cancel(member_id);
        self.pending_sync.remove(member_id);
        if let Some(instance_id) = &member.instance_id {
            self.static_members.remove(instance_id);
        }
        if member.has_joined() {
            self.joined -= 1;
        }
        self.count_out(&member);
        if let Joining::Waits(request) = member.join {
            let reply = JoinReply::refusal(error, Str::new());
            out.answers.push((request, Reply::Join(reply)));
        }
        if let Some(request) = member.sync {
            out.answers
                .push((request, Reply::Sync(SyncReply::refusal(error))));
        }
        if self.leader.as_ref() == Some(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
    }

    /// A member takes its place, and its name if it has one.
    fn seat(&mut self, member_id: Str, member: Member) {
        self.count_in(&member);
        if let Some(instance_id) = &member.instance_id {
            self.static_members
                .insert(instance_id.clone(), member_id.clone());
        }
        self.members.insert(member_id, member);
    }

    fn count_in(&mut self, member: &Member) {
        self.bytes += member.bytes();
        for name in names_of(&member.protocols) {
            *self.offers.entry(name.clone()).or_default() += 1;
        }
    }

    fn count_out(&mut self, member: &Member) {
        self.bytes = self.bytes.saturating_sub(member.bytes());
        for name in names_of(&member.protocols) {
            if let Some(count) = self.offers.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    self.offers.remove(name);
                }
            }
        }
    }
}
