//! A group with members in it changes its protocol (KIP-848): a classic group becomes a consumer
//! group when a member of that protocol joins, and a consumer group a classic one when only classic
//! members are left.
//!
//! What members own stays theirs across the change. Generation and epoch are one number, and go on.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::classic_member::{CONSUMER, ClassicMember, by_id, cannot_upgrade};
use super::replay::{
    assignment_epoch_record, current_record, each, epoch_record, member_record, target_record,
};
use super::{ConsumerGroup, ConsumerMember, Records, Refusal, Topics};
use crate::bugs::Bug;
use crate::group::assignor::Partitions;
use crate::group::classic::ClassicGroup;
use crate::group::config::GroupConfig;
use crate::ids::TopicId;
use crate::time::Now;
use crate::wire::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
use crate::wire::{ErrorCode, Str, Versioned};

/// What the assignments of a classic group may take in its record; a group with more does not become
/// one.
const MAX_ASSIGNMENT_BYTES: usize = 3 << 20;

impl ConsumerGroup {
    /// A classic group's members as those of a consumer group, if it can be one. Everybody who waits
    /// in the classic group is to be sent away with REBALANCE_IN_PROGRESS.
    ///
    /// # Errors
    /// In Kafka's words, why it cannot.
    pub(crate) fn from_classic(
        now: Now,
        config: &GroupConfig,
        id: &Str,
        classic: &ClassicGroup,
        topics: &Topics<'_>,
        records: &mut Records,
    ) -> Result<Self, Refusal> {
        if !config.migration_policy.upgrades() {
            return Err(cannot_upgrade(id, "online upgrade is disabled"));
        }
        if classic.protocol_type().is_none_or(|kind| kind != CONSUMER) {
            let why = "the group does not use the consumer embedded protocol";
            return Err(cannot_upgrade(id, why));
        }
        // Whoever makes this happen must find room too.
        if classic.members().len() >= config.consumer_max_size {
            let (_, words) =
                cannot_upgrade(id, "the group size exceeds the consumer group maximum size");
            return Err((ErrorCode::GROUP_MAX_SIZE_REACHED, words));
        }
        let mut members = members_of(classic, topics)
            .ok_or_else(|| cannot_upgrade(id, "the embedded consumer protocol is malformed"))?;
        settle_owners(&mut members);
        let mut group = Self::default();
        let epoch = if classic.bugs.has(Bug::UpgradeBeginsAnew) {
            0
        } else {
            classic.generation_id()
        };
        group.say(epoch_record(id, epoch, 0), records);
        for (member_id, (member, _)) in &members {
            group.say(member_record(id, member_id, Some(member)), records);
        }
        for (member_id, (member, _)) in &members {
            let target = Some(&member.assigned);
            group.say(target_record(id, member_id, target), records);
        }
        group.say(
            assignment_epoch_record(id, Some((epoch, now.wall))),
            records,
        );
        for (member_id, (member, _)) in &members {
            group.say(current_record(id, member_id, Some(member)), records);
        }
        group.begin_sessions(now, config);
        Ok(group)
    }

    /// Whether it is to become a classic group: nobody is left who needs it.
    pub(crate) fn is_to_downgrade(&self) -> bool {
        self.may_downgrade
            && self.is_all_classic()
            && self.assignment_bytes() <= MAX_ASSIGNMENT_BYTES
    }

    /// What the assignments of a classic group would take.
    fn assignment_bytes(&self) -> usize {
        // The longest name that a topic can have, and a partition's number.
        let of_one = |member: &ConsumerMember| {
            let topics = member.assigned.len() + member.revoking.len();
            64 + 256 * topics
        };
        4 * self.owners.len() + self.members.values().map(of_one).sum::<usize>()
    }
}

/// The members, and what each may still own beside its assignment. `None` if one of them says
/// something that is not understood.
fn members_of(
    classic: &ClassicGroup,
    topics: &Topics<'_>,
) -> Option<BTreeMap<Str, (ConsumerMember, Partitions)>> {
    let mut members = BTreeMap::new();
    let protocol = classic.protocol_name().map_or("", |name| name);
    for (member_id, member) in classic.members() {
        let first = member.protocols.first().map(|(_, metadata)| metadata);
        let metadata = member.metadata(protocol).or(first)?.clone();
        let subscription = ConsumerProtocolSubscription::read_lenient(metadata).ok()?;
        let assigned = if member.assignment.is_empty() {
            Partitions::new()
        } else {
            let assignment = member.assignment.clone();
            let assignment = ConsumerProtocolAssignment::read_lenient(assignment).ok()?;
            by_id(&assignment.assigned_partitions, topics)
        };
        let owned = by_id(&subscription.owned_partitions, topics);
        let as_member = ConsumerMember {
            instance_id: member.instance_id.clone(),
            rack_id: subscription.rack_id.map(|rack| rack.detach()),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            names: subscription.topics.iter().map(Str::detach).collect(),
            rebalance_timeout_ms: i32::try_from(member.rebalance_timeout_ms).unwrap_or(i32::MAX),
            epoch: classic.generation_id(),
            previous_epoch: classic.generation_id(),
            assigned,
            classic: Some(ClassicMember {
                session_timeout_ms: member.session_timeout_ms,
                protocols: member.protocols.clone(),
            }),
            ..ConsumerMember::default()
        };
        members.insert(member_id.clone(), (as_member, owned));
    }
    Some(members)
}

/// Gives each partition one owner: the first to whom it is assigned; of those that are assigned to
/// nobody, who said in its JoinGroup that it owned them. (When a rebalance is interrupted, the
/// assignment is forgotten, but a cooperative member still reads what it had.)
fn settle_owners(members: &mut BTreeMap<Str, (ConsumerMember, Partitions)>) {
    let mut owners: BTreeMap<(TopicId, i32), Str> = BTreeMap::new();
    for (member_id, (member, _)) in members.iter() {
        for partition in each(&member.assigned) {
            owners.entry(partition).or_insert_with(|| member_id.clone());
        }
    }
    for (member_id, (_, owned)) in members.iter() {
        for partition in each(owned) {
            owners.entry(partition).or_insert_with(|| member_id.clone());
        }
    }
    for (member, _) in members.values_mut() {
        member.assigned = Partitions::new();
    }
    for ((topic, index), owner) in owners {
        if let Some((member, _)) = members.get_mut(&owner) {
            member.assigned.entry(topic).or_default().insert(index);
        }
    }
}

impl ClassicGroup {
    /// A consumer group of which all members speak the classic protocol, as a classic group. A
    /// rebalance is to follow: nobody leads it yet.
    pub(crate) fn from_consumer(now: Now, group: &ConsumerGroup, topics: &Topics<'_>) -> Self {
        let members: Vec<_> = group
            .members
            .iter()
            .filter_map(|(member_id, member)| {
                let classic = member.classic.as_ref()?;
                let assignment = classic.assignment(&member.assigned, topics);
                Some((member_id.clone(), member, classic, assignment))
            })
            .collect();
        Self::with_members(now, group.epoch, members)
    }
}
