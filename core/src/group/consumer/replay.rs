//! A consumer group out of its records, and its records.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{ClassicMember, ConsumerGroup, ConsumerMember, LEAVE, MemberState, Records};
use crate::group::assignor::Partitions;
use crate::ids::TopicId;
use crate::time::Wall;
use crate::wire::Str;
use crate::wire::coordinator_records::consumer_group_current_member_assignment::TopicPartitions;
use crate::wire::coordinator_records::consumer_group_target_assignment_member::TopicPartition;
use crate::wire::coordinator_records::{
    ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue, ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue, ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue, ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue, CoordinatorRecord,
};

/// The group that a record of a consumer group is about.
pub(crate) const fn group_of(record: &CoordinatorRecord) -> Option<&Str> {
    match record {
        CoordinatorRecord::ConsumerGroupMetadata(key, _) => Some(&key.group_id),
        CoordinatorRecord::ConsumerGroupMemberMetadata(key, _) => Some(&key.group_id),
        CoordinatorRecord::ConsumerGroupTargetAssignmentMetadata(key, _) => Some(&key.group_id),
        CoordinatorRecord::ConsumerGroupTargetAssignmentMember(key, _) => Some(&key.group_id),
        CoordinatorRecord::ConsumerGroupCurrentMemberAssignment(key, _) => Some(&key.group_id),
        CoordinatorRecord::ConsumerGroupRegularExpression(key, _) => Some(&key.group_id),
        _ => None,
    }
}

/// Whether a record says that something is, and not that something is no more.
pub(crate) const fn has_value(record: &CoordinatorRecord) -> bool {
    match record {
        CoordinatorRecord::ConsumerGroupMetadata(_, value) => value.is_some(),
        CoordinatorRecord::ConsumerGroupMemberMetadata(_, value) => value.is_some(),
        CoordinatorRecord::ConsumerGroupTargetAssignmentMetadata(_, value) => value.is_some(),
        CoordinatorRecord::ConsumerGroupTargetAssignmentMember(_, value) => value.is_some(),
        CoordinatorRecord::ConsumerGroupCurrentMemberAssignment(_, value) => value.is_some(),
        CoordinatorRecord::ConsumerGroupRegularExpression(_, value) => value.is_some(),
        _ => false,
    }
}

impl ConsumerGroup {
    /// Applies a record and notes it.
    pub(super) fn say(&mut self, record: CoordinatorRecord, records: &mut Records) {
        self.apply(&record);
        records.push(record);
    }

    /// Applies a record.
    pub(crate) fn apply(&mut self, record: &CoordinatorRecord) {
        match record {
            CoordinatorRecord::ConsumerGroupMetadata(_, Some(value)) => {
                self.epoch = value.epoch;
                self.metadata_hash = value.metadata_hash;
            }
            CoordinatorRecord::ConsumerGroupMemberMetadata(key, Some(value)) => {
                self.apply_member(&key.member_id, value);
            }
            CoordinatorRecord::ConsumerGroupMemberMetadata(key, None) => {
                self.set_assignment(&key.member_id, Partitions::new(), Partitions::new());
                if let Some(member) = self.members.remove(&key.member_id) {
                    self.said_bytes -= member.said_bytes(&key.member_id);
                    self.count_classic(member.classic.as_ref(), None);
                    if let Some(instance_id) = &member.instance_id
                        && self.static_members.get(instance_id) == Some(&key.member_id)
                    {
                        self.static_members.remove(instance_id);
                    }
                }
            }
            CoordinatorRecord::ConsumerGroupTargetAssignmentMetadata(_, value) => {
                self.assignment_epoch = value.as_ref().map_or(0, |value| value.assignment_epoch);
            }
            CoordinatorRecord::ConsumerGroupTargetAssignmentMember(key, Some(value)) => {
                let target = value.topic_partitions.iter();
                let target = target.map(|given| (given.topic_id, &given.partitions));
                self.target.insert(key.member_id.clone(), collect(target));
            }
            CoordinatorRecord::ConsumerGroupTargetAssignmentMember(key, None) => {
                self.target.remove(&key.member_id);
            }
            CoordinatorRecord::ConsumerGroupCurrentMemberAssignment(key, Some(value)) => {
                let of = |given: &[TopicPartitions]| {
                    collect(
                        given
                            .iter()
                            .map(|given| (given.topic_id, &given.partitions)),
                    )
                };
                let assigned = of(&value.assigned_partitions);
                let revoking = of(&value.partitions_pending_revocation);
                let member = self.member_or_new(&key.member_id);
                member.epoch = value.member_epoch;
                member.previous_epoch = value.previous_member_epoch;
                member.state = state_of(value.state);
                self.set_assignment(&key.member_id, assigned, revoking);
            }
            CoordinatorRecord::ConsumerGroupCurrentMemberAssignment(key, None) => {
                self.set_assignment(&key.member_id, Partitions::new(), Partitions::new());
                if let Some(member) = self.members.get_mut(&key.member_id) {
                    member.epoch = LEAVE;
                    member.previous_epoch = LEAVE;
                    member.state = MemberState::Stable;
                }
            }
            CoordinatorRecord::ConsumerGroupRegularExpression(key, Some(value)) => {
                let matched = value.topics.iter().cloned().collect();
                self.regexes.insert(key.regular_expression.clone(), matched);
            }
            CoordinatorRecord::ConsumerGroupRegularExpression(key, None) => {
                self.regexes.remove(&key.regular_expression);
            }
            _ => {}
        }
    }

    fn member_or_new(&mut self, member_id: &Str) -> &mut ConsumerMember {
        let said_bytes = &mut self.said_bytes;
        self.members.entry(member_id.clone()).or_insert_with(|| {
            let member = ConsumerMember::default();
            *said_bytes += member.said_bytes(member_id);
            member
        })
    }

    fn apply_member(&mut self, member_id: &Str, value: &ConsumerGroupMemberMetadataValue) {
        let member = self.member_or_new(member_id);
        let said_before = member.said_bytes(member_id);
        member.instance_id.clone_from(&value.instance_id);
        member.rack_id.clone_from(&value.rack_id);
        member.client_id.clone_from(&value.client_id);
        member.client_host.clone_from(&value.client_host);
        member.names = value.subscribed_topic_names.iter().cloned().collect();
        let regex = value.subscribed_topic_regex.clone();
        member.regex = regex.filter(|regex| !regex.is_empty());
        member.rebalance_timeout_ms = value.rebalance_timeout_ms;
        member.server_assignor.clone_from(&value.server_assignor);
        let classic = value.classic_member_metadata.as_ref();
        let classic = classic.map(ClassicMember::from);
        let before = core::mem::replace(&mut member.classic, classic.clone());
        let said = member.said_bytes(member_id);
        self.said_bytes = self.said_bytes - said_before + said;
        self.count_classic(before.as_ref(), classic.as_ref());
        if let Some(instance_id) = &value.instance_id {
            self.static_members
                .insert(instance_id.clone(), member_id.clone());
        }
    }

    fn set_assignment(&mut self, member_id: &Str, assigned: Partitions, revoking: Partitions) {
        let Some(member) = self.members.get_mut(member_id) else {
            return;
        };
        for partition in each(&member.assigned).chain(each(&member.revoking)) {
            // It may have gone on to another already.
            if self.owners.get(&partition) == Some(member_id) {
                self.owners.remove(&partition);
            }
        }
        for partition in each(&assigned).chain(each(&revoking)) {
            self.owners.insert(partition, member_id.clone());
        }
        member.assigned = assigned;
        member.revoking = revoking;
    }
}

/// Every partition.
pub(super) fn each(partitions: &Partitions) -> impl Iterator<Item = (TopicId, i32)> {
    partitions
        .iter()
        .flat_map(|(topic, indexes)| indexes.iter().map(move |index| (*topic, *index)))
}

pub(crate) fn collect<'a>(given: impl Iterator<Item = (TopicId, &'a Vec<i32>)>) -> Partitions {
    let mut partitions = Partitions::new();
    for (topic, indexes) in given.filter(|(_, indexes)| !indexes.is_empty()) {
        let owned: &mut BTreeSet<i32> = partitions.entry(topic).or_default();
        owned.extend(indexes);
    }
    partitions
}

const fn state_of(code: i8) -> MemberState {
    match code {
        1 => MemberState::Unrevoked,
        2 => MemberState::Unreleased,
        _ => MemberState::Stable,
    }
}

const fn code_of(state: MemberState) -> i8 {
    match state {
        MemberState::Stable => 0,
        MemberState::Unrevoked => 1,
        MemberState::Unreleased => 2,
    }
}

pub(super) fn epoch_record(id: &Str, epoch: i32, metadata_hash: i64) -> CoordinatorRecord {
    CoordinatorRecord::ConsumerGroupMetadata(
        ConsumerGroupMetadataKey {
            group_id: id.clone(),
            ..Default::default()
        },
        Some(ConsumerGroupMetadataValue {
            epoch,
            metadata_hash,
            ..Default::default()
        }),
    )
}

pub(super) fn member_record(
    id: &Str,
    member_id: &Str,
    member: Option<&ConsumerMember>,
) -> CoordinatorRecord {
    CoordinatorRecord::ConsumerGroupMemberMetadata(
        ConsumerGroupMemberMetadataKey {
            group_id: id.clone(),
            member_id: member_id.clone(),
            ..Default::default()
        },
        member.map(|member| ConsumerGroupMemberMetadataValue {
            instance_id: member.instance_id.clone(),
            rack_id: member.rack_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            subscribed_topic_names: member.names.iter().cloned().collect(),
            subscribed_topic_regex: member.regex.clone(),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            server_assignor: member.server_assignor.clone(),
            classic_member_metadata: member.classic.as_ref().map(ClassicMember::to_value),
            ..Default::default()
        }),
    )
}

pub(super) fn assignment_epoch_record(id: &Str, reached: Option<(i32, Wall)>) -> CoordinatorRecord {
    CoordinatorRecord::ConsumerGroupTargetAssignmentMetadata(
        ConsumerGroupTargetAssignmentMetadataKey {
            group_id: id.clone(),
            ..Default::default()
        },
        reached.map(
            |(assignment_epoch, at)| ConsumerGroupTargetAssignmentMetadataValue {
                assignment_epoch,
                assignment_timestamp: at.0,
                ..Default::default()
            },
        ),
    )
}

pub(super) fn target_record(
    id: &Str,
    member_id: &Str,
    target: Option<&Partitions>,
) -> CoordinatorRecord {
    CoordinatorRecord::ConsumerGroupTargetAssignmentMember(
        ConsumerGroupTargetAssignmentMemberKey {
            group_id: id.clone(),
            member_id: member_id.clone(),
            ..Default::default()
        },
        target.map(|target| ConsumerGroupTargetAssignmentMemberValue {
            topic_partitions: target
                .iter()
                .map(|(topic_id, partitions)| TopicPartition {
                    topic_id: *topic_id,
                    partitions: partitions.iter().copied().collect(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }),
    )
}

pub(super) fn current_record(
    id: &Str,
    member_id: &Str,
    member: Option<&ConsumerMember>,
) -> CoordinatorRecord {
    let listed = |partitions: &Partitions| {
        let each = partitions.iter();
        each.map(|(topic_id, partitions)| TopicPartitions {
            topic_id: *topic_id,
            partitions: partitions.iter().copied().collect(),
            ..Default::default()
        })
        .collect()
    };
    CoordinatorRecord::ConsumerGroupCurrentMemberAssignment(
        ConsumerGroupCurrentMemberAssignmentKey {
            group_id: id.clone(),
            member_id: member_id.clone(),
            ..Default::default()
        },
        member.map(|member| ConsumerGroupCurrentMemberAssignmentValue {
            member_epoch: member.epoch,
            previous_member_epoch: member.previous_epoch,
            state: code_of(member.state),
            assigned_partitions: listed(&member.assigned),
            partitions_pending_revocation: listed(&member.revoking),
            ..Default::default()
        }),
    )
}

pub(super) fn regex_record(
    id: &Str,
    expression: &Str,
    matched: Option<(&BTreeSet<Str>, u64, Wall)>,
) -> CoordinatorRecord {
    CoordinatorRecord::ConsumerGroupRegularExpression(
        ConsumerGroupRegularExpressionKey {
            group_id: id.clone(),
            regular_expression: expression.clone(),
            ..Default::default()
        },
        matched.map(
            |(topics, version, at)| ConsumerGroupRegularExpressionValue {
                topics: topics.iter().cloned().collect(),
                version: i64::try_from(version).unwrap_or(i64::MAX),
                timestamp: at.0,
                ..Default::default()
            },
        ),
    )
}

impl ConsumerGroup {
    /// The records that delete everything of the group but its offsets.
    pub(crate) fn tombstones(&self, id: &Str) -> Records {
        let mut records = Records::new();
        for member_id in self.members.keys() {
            records.push(current_record(id, member_id, None));
        }
        for member_id in self.target.keys() {
            records.push(target_record(id, member_id, None));
        }
        records.push(assignment_epoch_record(id, None));
        for member_id in self.members.keys() {
            records.push(member_record(id, member_id, None));
        }
        for expression in self.regexes.keys() {
            records.push(regex_record(id, expression, None));
        }
        let key = ConsumerGroupMetadataKey {
            group_id: id.clone(),
            ..Default::default()
        };
        records.push(CoordinatorRecord::ConsumerGroupMetadata(key, None));
        records
    }
}
