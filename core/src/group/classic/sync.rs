//! SyncGroup: the leader assigns, and everybody hears what is theirs.

use alloc::vec::Vec;

use bytes::Bytes;

use super::{ClassicGroup, ClassicState, MAX_GROUP_BYTES, Outcome, Reply, Sync, SyncReply};
use crate::bugs::Bug;
use crate::connection::RequestId;
use crate::group::config::GroupConfig;
use crate::time::Now;
use crate::wire::{ErrorCode, Str};

impl ClassicGroup {
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

    pub(super) fn validate_sync(&self, sync: &Sync) -> Result<(), ErrorCode> {
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
    pub(super) fn assign(
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

    pub(super) fn synced_reply(&self, member_id: &Str) -> SyncReply {
        let member = self.members.get(member_id);
        SyncReply {
            error: ErrorCode::NONE,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            assignment: member.map_or_else(Bytes::new, |member| member.assignment.clone()),
        }
    }
}
