//! How a rebalance of a classic group begins and ends.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use bytes::Bytes;

use super::member::Joining;
use super::{ClassicGroup, ClassicState, JoinReply, Outcome, Reply, SyncReply};
use crate::bugs::Bug;
use crate::group::config::GroupConfig;
use crate::time::Now;
use crate::wire::{ErrorCode, Str};

/// The first rebalance of an empty group waits for more members: they usually come together.
#[derive(Debug)]
pub(super) struct InitialDelay {
    /// How long the wait that is under way is, in milliseconds.
    delay_ms: u64,
    /// For how long it may still be prolonged.
    remaining_ms: u64,
    /// Whether somebody came since it began.
    pub(super) new_member: bool,
}

impl ClassicGroup {
    /// A member is gone: the others share what it had.
    pub(super) fn after_removal(
        &mut self,
        now: Now,
        config: &GroupConfig,
        reason: &'static str,
        out: &mut Outcome,
    ) {
        match self.state {
            ClassicState::Empty => {}
            ClassicState::PreparingRebalance if self.bugs.has(Bug::RebalanceNeverEnds) => {}
            ClassicState::PreparingRebalance => self.maybe_complete_join(now, out),
            ClassicState::CompletingRebalance | ClassicState::Stable => {
                self.prepare_rebalance(now, config, reason, out);
            }
        }
    }

    /// Begins a rebalance, or ends the one under way if this was the last to join.
    pub(super) fn rebalance_or_complete(
        &mut self,
        now: Now,
        config: &GroupConfig,
        reason: &'static str,
        out: &mut Outcome,
    ) {
        if self.state == ClassicState::PreparingRebalance {
            self.maybe_complete_join(now, out);
        } else {
            self.prepare_rebalance(now, config, reason, out);
        }
    }

    /// Begins a rebalance: everybody is to join again.
    pub(super) fn prepare_rebalance(
        &mut self,
        now: Now,
        config: &GroupConfig,
        reason: &'static str,
        out: &mut Outcome,
    ) {
        if self.state == ClassicState::CompletingRebalance {
            self.refuse_syncs(now, ErrorCode::REBALANCE_IN_PROGRESS, out);
        }
        self.pending_sync.clear();
        self.sync_deadline = None;
        self.join_deadline = None;
        out.reason = Some(reason);
        let is_first = self.state == ClassicState::Empty;
        self.transition(now, ClassicState::PreparingRebalance);
        if is_first {
            let delay_ms = config.initial_rebalance_delay_ms;
            self.initial_delay = Some(InitialDelay {
                delay_ms,
                remaining_ms: self.rebalance_timeout_ms().saturating_sub(delay_ms),
                new_member: false,
            });
            self.join_deadline = Some(now.mono.plus_ms(delay_ms));
        } else {
            self.maybe_complete_join(now, out);
        }
    }

    /// Everybody who waits for the leader's assignment is told that there is none.
    pub(super) fn refuse_syncs(&mut self, now: Now, error: ErrorCode, out: &mut Outcome) {
        let mut waiting = Vec::new();
        for (id, member) in &mut self.members {
            self.bytes -= member.assignment.len();
            member.assignment = Bytes::new();
            waiting.extend(member.sync.take().map(|request| (id.clone(), request)));
        }
        for (id, request) in waiting {
            self.reset_session(now, &id);
            out.answers
                .push((request, Reply::Sync(SyncReply::refusal(error))));
        }
    }

    /// Ends the joining if everybody is there; otherwise sees to it that it ends in time.
    pub(super) fn maybe_complete_join(&mut self, now: Now, out: &mut Outcome) {
        if self.state != ClassicState::PreparingRebalance || self.initial_delay.is_some() {
            return;
        }
        if self.joined == self.members.len() && self.pending.is_empty() {
            self.complete_join(now, out);
        } else if self.join_deadline.is_none() && !self.bugs.has(Bug::RebalanceNeverEnds) {
            let timeout_ms = self.rebalance_timeout_ms();
            self.join_deadline = Some(now.mono.plus_ms(timeout_ms));
        }
    }

    pub(super) fn join_deadline_passed(
        &mut self,
        now: Now,
        config: &GroupConfig,
        out: &mut Outcome,
    ) {
        if let Some(initial) = &mut self.initial_delay
            && initial.new_member
            && initial.remaining_ms > 0
        {
            // Somebody came: wait for more, but not for ever.
            initial.new_member = false;
            let waited_ms = initial.delay_ms;
            initial.delay_ms = config.initial_rebalance_delay_ms.min(initial.remaining_ms);
            initial.remaining_ms = initial.remaining_ms.saturating_sub(waited_ms);
            self.join_deadline = Some(now.mono.plus_ms(initial.delay_ms));
            return;
        }
        self.complete_join(now, out);
    }

    /// Everybody has joined, or had the time to: a new generation begins.
    fn complete_join(&mut self, now: Now, out: &mut Outcome) {
        self.join_deadline = None;
        self.initial_delay = None;
        // Static members keep their place until their session ends.
        let late: Vec<Str> = self
            .members
            .iter()
            .filter(|(_, member)| !member.has_joined() && member.instance_id.is_none())
            .map(|(id, _)| id.clone())
            .collect();
        for member_id in late {
            self.remove(&member_id, ErrorCode::UNKNOWN_MEMBER_ID, out);
        }
        if !self.members.is_empty() && !self.elect_leader() {
            // Only static members are left, and none of them is back. Their sessions will end. A
            // member that allows no time at all must not make this spin.
            let timeout_ms = self.rebalance_timeout_ms().max(1_000);
            self.join_deadline = Some(now.mono.plus_ms(timeout_ms));
            return;
        }
        if self.generation_id == 0 || !self.bugs.has(Bug::KeepGeneration) {
            self.generation_id = self.generation_id.checked_add(1).unwrap_or(1);
        }
        self.pending_sync.clear();
        if self.members.is_empty() {
            self.protocol_name = None;
            self.leader = None;
            self.transition(now, ClassicState::Empty);
            out.changed = true;
            return;
        }
        self.protocol_name = self.select_protocol();
        self.transition(now, ClassicState::CompletingRebalance);
        self.joined = 0;
        let mut answered = Vec::with_capacity(self.members.len());
        for (id, member) in &mut self.members {
            member.is_new = false;
            self.pending_sync.insert(id.clone());
            match core::mem::replace(&mut member.join, Joining::No) {
                Joining::Waits(request) => answered.push((id.clone(), Some(request))),
                Joining::Gone => answered.push((id.clone(), None)),
                // A static member that is not back: its session goes on as it was.
                Joining::No => {}
            }
        }
        for (id, request) in answered {
            self.reset_session(now, &id);
            if let Some(request) = request {
                let is_leader = self.leader.as_ref() == Some(&id);
                let reply = self.joined_reply(&id, is_leader);
                out.answers.push((request, Reply::Join(reply)));
            }
        }
        let timeout_ms = self.rebalance_timeout_ms();
        self.sync_deadline = Some(now.mono.plus_ms(timeout_ms));
    }

    /// Sees to it that the leader is one who joined. False if nobody did.
    fn elect_leader(&mut self) -> bool {
        let waits = |id: &Str| {
            let member = self.members.get(id);
            member.is_some_and(|member| matches!(member.join, Joining::Waits(_)))
        };
        if self.leader.as_ref().is_some_and(waits) {
            return true;
        }
        let listening = self.members.keys().find(|id| waits(id));
        let joined = || {
            let mut members = self.members.iter();
            members
                .find(|(_, member)| member.has_joined())
                .map(|(id, _)| id)
        };
        match listening.or_else(joined).cloned() {
            Some(leader) => {
                self.leader = Some(leader);
                true
            }
            None => false,
        }
    }

    /// The protocol that everybody offers and most prefer; of equals, the one that the leader
    /// prefers.
    pub(super) fn select_protocol(&self) -> Option<Str> {
        let by_all = |name: &&Str| self.offers.get(*name) == Some(&self.members.len());
        let mut votes: BTreeMap<&Str, usize> = BTreeMap::new();
        for member in self.members.values() {
            let mut offered = member.protocols.iter().map(|(name, _)| name);
            if let Some(name) = offered.find(by_all) {
                *votes.entry(name).or_default() += 1;
            }
        }
        let most = votes.values().copied().max()?;
        let leader = self.leader.as_ref().and_then(|id| self.members.get(id));
        let preferred = leader.into_iter().flat_map(|member| &member.protocols);
        preferred
            .map(|(name, _)| name)
            .find(|name| votes.get(name) == Some(&most))
            .or_else(|| {
                votes
                    .iter()
                    .find(|(_, count)| **count == most)
                    .map(|(name, _)| *name)
            })
            .cloned()
    }

    /// What a member is told when it has joined this generation.
    pub(super) fn joined_reply(&self, member_id: &Str, with_members: bool) -> JoinReply {
        let protocol = self.protocol_name.as_ref().map_or("", |name| name);
        let members = if with_members {
            self.members
                .iter()
                .map(|(id, member)| {
                    let metadata = member.metadata(protocol).cloned().unwrap_or_default();
                    (id.clone(), member.instance_id.clone(), metadata)
                })
                .collect()
        } else {
            Vec::new()
        };
        JoinReply {
            error: ErrorCode::NONE,
            generation_id: self.generation_id,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            member_id: member_id.clone(),
            skip_assignment: false,
            members,
        }
    }

    /// The longest that a member wants for coming back.
    fn rebalance_timeout_ms(&self) -> u64 {
        let timeouts = self.members.values().map(|m| m.rebalance_timeout_ms);
        timeouts.max().unwrap_or(0)
    }

    pub(super) fn transition(&mut self, now: Now, state: ClassicState) {
        self.state = state;
        self.state_since_ms = Some(now.wall.0);
    }
}
