//! A classic group out of its record.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use super::member::{Joining, Member};
use super::{ClassicGroup, ClassicState, Outcome};
use crate::group::config::GroupConfig;
use crate::group::consumer::{ClassicMember, ConsumerMember};
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
            if group.leader.as_ref().is_some_and(|leader| !known(leader)) {
                group.leader = group.members.keys().next().cloned();
            }
        }
        group
    }

    /// A group that was a consumer group until now, with what each member owned in it.
    pub(crate) fn with_members(
        now: Now,
        generation_id: i32,
        members: Vec<(Str, &ConsumerMember, &ClassicMember, Bytes)>,
    ) -> Self {
        let mut group = Self::new(now);
        group.state = ClassicState::Stable;
        group.generation_id = generation_id;
        group.protocol_type = Some("consumer".into());
        for (member_id, member, classic, assignment) in members {
            let rebalance_timeout_ms = u64::try_from(member.rebalance_timeout_ms).unwrap_or(0);
            let member = Member {
                instance_id: member.instance_id.clone(),
                client_id: member.client_id.clone(),
                client_host: member.client_host.clone(),
                rebalance_timeout_ms,
                session_timeout_ms: classic.session_timeout_ms,
                protocols: classic.protocols.clone(),
                assignment,
                is_new: false,
                join: Joining::No,
                sync: None,
            };
            group.count_in(&member);
            if let Some(instance_id) = &member.instance_id {
                group
                    .static_members
                    .insert(instance_id.clone(), member_id.clone());
            }
            group.members.insert(member_id, member);
        }
        group.protocol_name = group.select_protocol();
        group
    }

    /// Gives every member its session, from now on. A group that nobody leads was on its way from one
    /// protocol to the other: its members are to join again.
    pub(crate) fn begin_sessions(&mut self, now: Now, config: &GroupConfig, out: &mut Outcome) {
        let members: Vec<Str> = self.members.keys().cloned().collect();
        for member_id in &members {
            self.reset_session(now, member_id);
        }
        if self.state == ClassicState::Stable && self.leader.is_none() {
            let reason = "the group changed its protocol";
            self.prepare_rebalance(now, config, reason, out);
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
