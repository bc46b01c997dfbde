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

mod member;
mod rebalance;
mod restore;
#[cfg(test)]
mod tests;

pub(crate) use member::{Member, Protocol};

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use bytes::Bytes;

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
const MAX_GROUP_BYTES: usize = 3 << 20;

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

/// What a JoinGroup asks.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub(crate) request: RequestId,
    /// Empty for a new member.
    pub(crate) member_id: Str,
    pub(crate) instance_id: Option<Str>,
    pub(crate) client_id: Str,
    pub(crate) client_host: Str,
    pub(crate) session_timeout_ms: u64,
    pub(crate) rebalance_timeout_ms: u64,
    pub(crate) protocol_type: Str,
    pub(crate) protocols: Vec<Protocol>,
    /// The id that a new member gets.
    pub(crate) new_member_id: Str,
    /// Whether the version asks a new member to come back with its id (KIP-394).
    pub(crate) requires_known_member_id: bool,
    /// Whether the version lets a leader skip its assignment (KIP-814).
    pub(crate) may_skip_assignment: bool,
}

/// What a SyncGroup asks.
#[derive(Clone, Debug)]
pub(crate) struct Sync {
    pub(crate) request: RequestId,
    pub(crate) member: MemberRef,
    pub(crate) protocol_type: Option<Str>,
    pub(crate) protocol_name: Option<Str>,
    /// What each member gets; only the leader says.
    pub(crate) assignments: Vec<(Str, Bytes)>,
}

/// How a member names itself and the generation it lives in.
#[derive(Clone, Debug)]
pub(crate) struct MemberRef {
    pub(crate) member_id: Str,
    pub(crate) instance_id: Option<Str>,
    pub(crate) generation_id: i32,
}

/// What an operation decided.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Answers that depend on no record.
    pub(crate) answers: Vec<(RequestId, Reply)>,
    /// Answers that wait until the group's record is durable.
    pub(crate) durable: Vec<(RequestId, Reply)>,
    /// Whether the group's record is to be appended now.
    pub(crate) changed: bool,
    /// Why the last rebalance began, for the log.
    pub(crate) reason: Option<&'static str>,
}

/// An answer to a request that may have waited.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Join(JoinReply),
    Sync(SyncReply),
}

/// The answer to a JoinGroup.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JoinReply {
    pub(crate) error: ErrorCode,
    pub(crate) generation_id: i32,
    pub(crate) protocol_type: Option<Str>,
    pub(crate) protocol_name: Option<Str>,
    pub(crate) leader: Str,
    pub(crate) member_id: Str,
    pub(crate) skip_assignment: bool,
    /// Everybody, for the leader: member id, instance id, metadata.
    pub(crate) members: Vec<(Str, Option<Str>, Bytes)>,
}

/// The answer to a SyncGroup.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SyncReply {
    pub(crate) error: ErrorCode,
    pub(crate) protocol_type: Option<Str>,
    pub(crate) protocol_name: Option<Str>,
    pub(crate) assignment: Bytes,
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

    /// A JoinGroup.
    pub(crate) fn join(&mut self, now: Now, config: &GroupConfig, join: Join, out: &mut Outcome) {
        let is_unknown = join.member_id.is_empty();
        let refuse = |error, out: &mut Outcome| {
            let reply = JoinReply::refusal(error, join.member_id.clone());
            out.answers.push((join.request, Reply::Join(reply)));
        };
        if !self.accepts(config, &join) {
            refuse(ErrorCode::GROUP_MAX_SIZE_REACHED, out);
            if self.members.contains_key(&join.member_id) {
                self.remove(&join.member_id, ErrorCode::GROUP_MAX_SIZE_REACHED, out);
                self.after_removal(now, config, "the group is full", out);
            } else if self.pending.remove(&join.member_id) {
                self.sessions.cancel(&join.member_id);
                self.maybe_complete_join(now, out);
            }
        } else if !self.supports_protocols(&join) {
            refuse(ErrorCode::INCONSISTENT_GROUP_PROTOCOL, out);
        } else if is_unknown {
            self.join_new(now, config, join, out);
        } else if self.pending.contains(&join.member_id) && join.instance_id.is_none() {
            let member_id = join.member_id.clone();
            self.add_member(now, config, member_id, join, out);
        } else if let Err(error) = self.validate_member(&join.member_id, join.instance_id.as_ref())
        {
            refuse(error, out);
        } else {
            self.join_again(now, config, join, out);
        }
    }

    /// Whether there is room for it.
    fn accepts(&self, config: &GroupConfig, join: &Join) -> bool {
        let known = self.members.get(&join.member_id);
        let room = match self.state {
            ClassicState::Empty => true,
            // Those who joined count, not those there are: so the last to come back is turned away
            // if the limit was lowered.
            ClassicState::PreparingRebalance => {
                known.is_some_and(Member::has_joined) || self.joined < config.max_size
            }
            ClassicState::CompletingRebalance | ClassicState::Stable => {
                known.is_some() || self.members.len() < config.max_size
            }
        };
        let metadata: usize = join
            .protocols
            .iter()
            .map(|(name, data)| name.len() + data.len())
            .sum();
        let before = known.map_or(0, Member::bytes);
        let fits = self.bytes.saturating_sub(before) + metadata <= MAX_GROUP_BYTES;
        room && fits && (known.is_some() || self.pending.len() <= MAX_PENDING)
    }

    fn supports_protocols(&self, join: &Join) -> bool {
        if join.protocols.is_empty() || join.protocol_type.is_empty() {
            return false;
        }
        if self.state == ClassicState::Empty {
            return true;
        }
        let by_all = |name: &Str| self.offers.get(name) == Some(&self.members.len());
        self.protocol_type.as_ref() == Some(&join.protocol_type)
            && (self.members.is_empty() || join.protocols.iter().any(|(name, _)| by_all(name)))
    }

    /// A member that has no id yet.
    fn join_new(&mut self, now: Now, config: &GroupConfig, join: Join, out: &mut Outcome) {
        let member_id = join.new_member_id.clone();
        if let Some(instance_id) = &join.instance_id {
            match self.static_members.get(instance_id).cloned() {
                Some(old) => self.replace_static(now, config, &old, join, out),
                None => self.add_member(now, config, member_id, join, out),
            }
        } else if join.requires_known_member_id {
            self.pending.insert(member_id.clone());
            let deadline = now.mono.plus_ms(join.session_timeout_ms);
            self.sessions.set(&member_id, deadline);
            let reply = JoinReply::refusal(ErrorCode::MEMBER_ID_REQUIRED, member_id);
            out.answers.push((join.request, Reply::Join(reply)));
        } else {
            self.add_member(now, config, member_id, join, out);
        }
    }

    /// A member joins for the first time.
    fn add_member(
        &mut self,
        now: Now,
        config: &GroupConfig,
        member_id: Str,
        join: Join,
        out: &mut Outcome,
    ) {
        self.pending.remove(&member_id);
        if self.members.is_empty() {
            self.protocol_type = Some(join.protocol_type.clone());
        }
        if let Some(initial) = &mut self.initial_delay {
            initial.new_member = true;
        }
        if let Some(instance_id) = &join.instance_id {
            self.static_members
                .insert(instance_id.clone(), member_id.clone());
        }
        let member = Member {
            instance_id: join.instance_id,
            client_id: join.client_id,
            client_host: join.client_host,
            rebalance_timeout_ms: join.rebalance_timeout_ms,
            session_timeout_ms: join.session_timeout_ms,
            protocols: join.protocols,
            assignment: Bytes::new(),
            is_new: true,
            join: Joining::Waits(join.request),
            sync: None,
        };
        self.count_in(&member);
        self.joined += 1;
        self.leader.get_or_insert_with(|| member_id.clone());
        self.members.insert(member_id.clone(), member);
        let deadline = now.mono.plus_ms(NEW_MEMBER_JOIN_TIMEOUT_MS);
        self.sessions.set(&member_id, deadline);
        self.rebalance_or_complete(now, config, "a member joined", out);
    }

    /// A member that was here before joins.
    fn join_again(&mut self, now: Now, config: &GroupConfig, join: Join, out: &mut Outcome) {
        let member_id = join.member_id.clone();
        let Some(member) = self.members.get(&member_id) else {
            return;
        };
        let is_leader = self.leader.as_ref() == Some(&member_id);
        let same = member.protocols == join.protocols;
        match self.state {
            ClassicState::PreparingRebalance => {
                self.update_member(now, join, out);
                self.maybe_complete_join(now, out);
            }
            // It did not get the answer to its first JoinGroup: that is what it gets again.
            ClassicState::CompletingRebalance if same => {
                let reply = self.joined_reply(&member_id, is_leader);
                out.answers.push((join.request, Reply::Join(reply)));
            }
            // A leader joins again when what it assigns has changed.
            ClassicState::Stable if same && !is_leader => {
                let reply = self.joined_reply(&member_id, false);
                out.answers.push((join.request, Reply::Join(reply)));
            }
            ClassicState::CompletingRebalance | ClassicState::Stable => {
                self.update_member(now, join, out);
                let reason = if same {
                    "the leader joined again"
                } else {
                    "a member changed its metadata"
                };
                self.rebalance_or_complete(now, config, reason, out);
            }
            ClassicState::Empty => {
                let reply = JoinReply::refusal(ErrorCode::UNKNOWN_MEMBER_ID, member_id);
                out.answers.push((join.request, Reply::Join(reply)));
            }
        }
    }

    /// Takes what a member's new JoinGroup says; the member counts as joined.
    fn update_member(&mut self, now: Now, join: Join, out: &mut Outcome) {
        let Some(member) = self.members.get(&join.member_id) else {
            return;
        };
        let mut updated = member.clone();
        self.count_out(&updated);
        updated.protocols = join.protocols;
        updated.rebalance_timeout_ms = join.rebalance_timeout_ms;
        updated.session_timeout_ms = join.session_timeout_ms;
        updated.client_id = join.client_id;
        updated.client_host = join.client_host;
        match core::mem::replace(&mut updated.join, Joining::Waits(join.request)) {
            Joining::No => self.joined += 1,
            // It asks again on another connection, or again at once.
            Joining::Waits(earlier) => {
                let reply =
                    JoinReply::refusal(ErrorCode::REBALANCE_IN_PROGRESS, join.member_id.clone());
                out.answers.push((earlier, Reply::Join(reply)));
            }
            Joining::Gone => {}
        }
        if updated.is_new {
            let deadline = now.mono.plus_ms(NEW_MEMBER_JOIN_TIMEOUT_MS);
            self.sessions.set(&join.member_id, deadline);
        } else {
            // Whoever waits for the others is alive.
            self.sessions.cancel(&join.member_id);
        }
        self.count_in(&updated);
        self.members.insert(join.member_id, updated);
    }

    /// A static member comes back without its id, in whatever state the group is: it takes the place
    /// of its old self, which is fenced.
    fn replace_static(
        &mut self,
        now: Now,
        config: &GroupConfig,
        old: &Str,
        mut join: Join,
        out: &mut Outcome,
    ) {
        let old_leader = self.leader.clone();
        let new = join.new_member_id.clone();
        let Some(mut member) = self.members.remove(old) else {
            return;
        };
        self.sessions.cancel(old);
        if self.pending_sync.remove(old) {
            self.pending_sync.insert(new.clone());
        }
        if let Joining::Waits(request) = member.join {
            let reply = JoinReply::refusal(ErrorCode::FENCED_INSTANCE_ID, old.clone());
            out.answers.push((request, Reply::Join(reply)));
            member.join = Joining::Gone;
        }
        if let Some(request) = member.sync.take() {
            let reply = SyncReply::refusal(ErrorCode::FENCED_INSTANCE_ID);
            out.answers.push((request, Reply::Sync(reply)));
        }
        if let Some(instance_id) = &member.instance_id {
            self.static_members.insert(instance_id.clone(), new.clone());
        }
        if self.leader.as_ref() == Some(old) {
            self.leader = Some(new.clone());
        }
        self.members.insert(new.clone(), member);
        let (request, may_skip) = (join.request, join.may_skip_assignment);
        join.member_id = new.clone();
        self.update_member(now, join, out);
        if self.state != ClassicState::Stable {
            let reason = "a static member joined anew";
            return self.rebalance_or_complete(now, config, reason, out);
        }
        if self.protocol_name.as_ref() != self.select_protocol().as_ref() {
            let reason = "the protocol changes with a static member that joined anew";
            return self.rebalance_or_complete(now, config, reason, out);
        }
        // Nobody else need know: it keeps its assignment, and only its new id is stored.
        if let Some(member) = self.members.get_mut(&new) {
            member.join = Joining::No;
            self.joined -= 1;
        }
        self.reset_session(now, &new);
        let is_leader = self.leader.as_ref() == Some(&new);
        let mut reply = self.joined_reply(&new, is_leader && may_skip);
        if may_skip {
            reply.skip_assignment = is_leader;
        } else if is_leader {
            // Told that it still follows its old self, it does not assign.
            reply.leader = old_leader.unwrap_or_default();
        }
        out.durable.push((request, Reply::Join(reply)));
        out.changed = true;
    }

    /// A SyncGroup: the leader's makes the group stable, all others wait for it.
    pub(crate) fn sync(&mut self, now: Now, config: &GroupConfig, sync: Sync, out: &mut Outcome) {
        let refuse = |error, out: &mut Outcome| {
            out.answers
                .push((sync.request, Reply::Sync(SyncReply::refusal(error))));
        };
        if let Err(error) = self.validate_sync(&sync) {
            return refuse(error, out);
        }
        let member_id = sync.member.member_id.clone();
        match self.state {
            ClassicState::Empty => refuse(ErrorCode::UNKNOWN_MEMBER_ID, out),
            ClassicState::PreparingRebalance => refuse(ErrorCode::REBALANCE_IN_PROGRESS, out),
            ClassicState::CompletingRebalance => {
                self.pending_sync.remove(&member_id);
                self.sessions.cancel(&member_id);
                let earlier = self
                    .members
                    .get_mut(&member_id)
                    .and_then(|member| member.sync.replace(sync.request));
                if let Some(earlier) = earlier {
                    let reply = SyncReply::refusal(ErrorCode::REBALANCE_IN_PROGRESS);
                    out.answers.push((earlier, Reply::Sync(reply)));
                }
                if self.leader.as_ref() == Some(&member_id) {
                    self.assign(now, config, sync.assignments, out);
                }
            }
            ClassicState::Stable => {
                self.pending_sync.remove(&member_id);
                self.reset_session(now, &member_id);
                let reply = self.synced_reply(&member_id);
                // The record may still be on its way.
                out.durable.push((sync.request, Reply::Sync(reply)));
            }
        }
    }

    fn validate_sync(&self, sync: &Sync) -> Result<(), ErrorCode> {
        if self.bugs.has(Bug::SyncIgnoresGeneration) {
            let instance_id = sync.member.instance_id.as_ref();
            self.validate_member(&sync.member.member_id, instance_id)?;
        } else {
            self.validate(&sync.member)?;
        }
        let differs =
            |a: &Option<Str>, b: &Option<Str>| matches!((a, b), (Some(a), Some(b)) if a != b);
        if differs(&sync.protocol_type, &self.protocol_type)
            || differs(&sync.protocol_name, &self.protocol_name)
        {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        Ok(())
    }

    /// The leader has assigned.
    fn assign(
        &mut self,
        now: Now,
        config: &GroupConfig,
        assignments: Vec<(Str, Bytes)>,
        out: &mut Outcome,
    ) {
        let assigned: usize = assignments.iter().map(|(_, bytes)| bytes.len()).sum();
        if self.bytes + assigned > 2 * MAX_GROUP_BYTES {
            self.refuse_syncs(now, ErrorCode::UNKNOWN_SERVER_ERROR, out);
            return self.prepare_rebalance(now, config, "the assignment is too large", out);
        }
        for member in self.members.values_mut() {
            self.bytes -= member.assignment.len();
            member.assignment = Bytes::new();
        }
        for (member_id, assignment) in assignments {
            if let Some(member) = self.members.get_mut(&member_id) {
                self.bytes = self.bytes - member.assignment.len() + assignment.len();
                member.assignment = assignment;
            }
        }
        self.transition(now, ClassicState::Stable);
        out.changed = true;
        let waiting: Vec<(Str, RequestId)> = self
            .members
            .iter_mut()
            .filter_map(|(id, member)| Some((id.clone(), member.sync.take()?)))
            .collect();
        for (member_id, request) in waiting {
            self.reset_session(now, &member_id);
            let reply = self.synced_reply(&member_id);
            out.durable.push((request, Reply::Sync(reply)));
        }
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

    fn count_in(&mut self, member: &Member) {
        self.bytes += member.bytes();
        for (place, (name, _)) in member.protocols.iter().enumerate() {
            if !offered_before(member, place, name) {
                *self.offers.entry(name.clone()).or_default() += 1;
            }
        }
    }

    fn count_out(&mut self, member: &Member) {
        self.bytes = self.bytes.saturating_sub(member.bytes());
        for (place, (name, _)) in member.protocols.iter().enumerate() {
            if offered_before(member, place, name) {
                continue;
            }
            if let Some(count) = self.offers.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    self.offers.remove(name);
                }
            }
        }
    }

    fn synced_reply(&self, member_id: &Str) -> SyncReply {
        let member = self.members.get(member_id);
        SyncReply {
            error: ErrorCode::NONE,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            assignment: member.map_or_else(Bytes::new, |member| member.assignment.clone()),
        }
    }
}

/// Whether a member names a protocol twice: it counts once.
fn offered_before(member: &Member, place: usize, name: &Str) -> bool {
    let mut before = member.protocols.iter().take(place);
    before.any(|(earlier, _)| earlier == name)
}

impl Reply {
    /// The same request, refused.
    pub(crate) fn refused(&self, error: ErrorCode) -> Self {
        match self {
            Self::Join(reply) => Self::Join(JoinReply::refusal(error, reply.member_id.clone())),
            Self::Sync(_) => Self::Sync(SyncReply::refusal(error)),
        }
    }
}

impl JoinReply {
    /// An answer that lets nobody in.
    pub(crate) fn refusal(error: ErrorCode, member_id: Str) -> Self {
        Self {
            error,
            generation_id: -1,
            member_id,
            ..Self::default()
        }
    }
}

impl SyncReply {
    /// An answer without an assignment.
    pub(crate) fn refusal(error: ErrorCode) -> Self {
        Self {
            error,
            ..Self::default()
        }
    }
}
