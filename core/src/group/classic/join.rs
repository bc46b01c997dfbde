//! JoinGroup: how a member enters a classic group, comes back, or takes the place of its old self.

use bytes::Bytes;

use super::member::{Joining, Member, weight_of};
use super::{
    ClassicGroup, ClassicState, Join, JoinReply, MAX_GROUP_BYTES, MAX_PENDING,
    NEW_MEMBER_JOIN_TIMEOUT_MS, Outcome, Reply, SyncReply,
};
use crate::group::config::GroupConfig;
use crate::time::Now;
use crate::wire::{ErrorCode, Str};

impl ClassicGroup {
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
    pub(super) fn accepts(&self, config: &GroupConfig, join: &Join) -> bool {
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
        let before = known.map_or(0, Member::bytes);
        let fits =
            self.bytes.saturating_sub(before) + weight_of(&join.protocols) <= MAX_GROUP_BYTES;
        room && fits && (known.is_some() || self.pending.len() <= MAX_PENDING)
    }

    pub(super) fn supports_protocols(&self, join: &Join) -> bool {
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
    pub(super) fn join_new(
        &mut self,
        now: Now,
        config: &GroupConfig,
        join: Join,
        out: &mut Outcome,
    ) {
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
    pub(super) fn add_member(
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
        self.joined += 1;
        self.leader.get_or_insert_with(|| member_id.clone());
        self.seat(member_id.clone(), member);
        let deadline = now.mono.plus_ms(NEW_MEMBER_JOIN_TIMEOUT_MS);
        self.sessions.set(&member_id, deadline);
        self.rebalance_or_complete(now, config, "a member joined", out);
    }

    /// A member that was here before joins.
    pub(super) fn join_again(
        &mut self,
        now: Now,
        config: &GroupConfig,
        join: Join,
        out: &mut Outcome,
    ) {
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
    pub(super) fn update_member(&mut self, now: Now, join: Join, out: &mut Outcome) {
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
    pub(super) fn replace_static(
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
}
