//! A classic group out of its record.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use super::member::{Joining, Member};
use super::{ClassicGroup, ClassicState};
use crate::time::Now;
use crate::wire::Str;
use crate::wire::coordinator_records::GroupMetadataValue;

impl ClassicGroup {
    /// The group that a record tells of. Its members' sessions begin with [`Self::begin_sessions`].
    pub(crate) fn restore(now: Now, value: GroupMetadataValue) -> Self {
        let mut group = Self::new(now);
        let text = |text: Str| (!text.is_empty()).then_some(text);
        let since = value.current_state_timestamp;
        group.state_since_ms = (since != -1).then_some(since);
        group.generation_id = value.generation;
        group.protocol_type = text(value.protocol_type);
        group.protocol_name = value.protocol;
        group.leader = value.leader;
        for stored in value.members {
            let session_timeout_ms = u64::try_from(stored.session_timeout).unwrap_or(0);
            let protocol = group.protocol_name.clone().unwrap_or_default();
            let member = Member {
                instance_id: stored.group_instance_id,
                client_id: stored.client_id,
                client_host: stored.client_host,
                rebalance_timeout_ms: u64::try_from(stored.rebalance_timeout)
                    .unwrap_or(session_timeout_ms),
                session_timeout_ms,
                protocols: vec![(protocol, stored.subscription)],
                assignment: stored.assignment,
                is_new: false,
                join: Joining::No,
                sync: None,
            };
            group.count_in(&member);
            if let Some(instance_id) = &member.instance_id {
                group
                    .static_members
                    .insert(instance_id.clone(), stored.member_id.clone());
            }
            group.members.insert(stored.member_id, member);
        }
        if group.members.is_empty() {
            group.protocol_name = None;
            group.leader = None;
        } else {
            group.state = ClassicState::Stable;
            let known = |id: &Str| group.members.contains_key(id);
            if !group.leader.as_ref().is_some_and(known) {
                group.leader = group.members.keys().next().cloned();
            }
        }
        group
    }

    /// Gives every member its session, from now on.
    pub(crate) fn begin_sessions(&mut self, now: Now) {
        let members: Vec<Str> = self.members.keys().cloned().collect();
        for member_id in &members {
            self.reset_session(now, member_id);
        }
    }

    /// The metadata of every member under the protocol in use.
    pub(crate) fn subscriptions(&self) -> impl Iterator<Item = Option<&Bytes>> {
        let protocol = self.protocol_name.as_ref().map_or("", |name| name);
        self.members
            .values()
            .map(move |member| member.metadata(protocol))
    }
}
