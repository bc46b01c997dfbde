//! ConsumerGroupDescribe (KIP-848): consumer groups, their members, and what they own and shall own.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use super::authorized_operations;
use crate::broker::State;
use crate::connection::{Answer, RequestId};
use crate::group::coordinator;
use crate::group::{ConsumerGroup, ConsumerState, GroupKind, Partitions};
use crate::ids::Offset;
use crate::wire::messages::consumer_group_describe::{
    Assignment, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribedGroup,
    Member, TopicPartitions,
};
use crate::wire::{ErrorCode, Str};

/// A member that speaks the classic protocol.
const CLASSIC_MEMBER: i8 = 0;
/// A member that speaks the protocol of KIP-848 itself.
const CONSUMER_MEMBER: i8 = 1;

pub(super) fn handle(state: &mut State, id: RequestId, request: ConsumerGroupDescribeRequest) {
    let with_operations = request.include_authorized_operations;
    let mut seen = BTreeSet::new();
    let mut asked = request.group_ids;
    asked.retain(|group| seen.insert(group.clone()));
    let mut marks: Vec<(i32, Offset)> = Vec::new();
    let groups = asked.iter().map(|group_id| {
        if group_id.is_empty() {
            return DescribedGroup {
                error_code: ErrorCode::INVALID_GROUP_ID,
                ..Default::default()
            };
        }
        match coordinator::shard_of(state, group_id) {
            Ok(index) => {
                marks.push((index, state.groups.mark_of(index, group_id)));
                let mut group = describe(state, index, group_id);
                group.authorized_operations =
                    authorized_operations::of_group(with_operations, group.error_code);
                group
            }
            Err(error) => refused(group_id, error, error.message()),
        }
    });
    let response = ConsumerGroupDescribeResponse {
        groups: groups.collect(),
        ..Default::default()
    };
    coordinator::answer_when_durable(state, id, &marks, response, || {
        let error = ErrorCode::COORDINATOR_NOT_AVAILABLE;
        let groups = asked.iter().map(|id| refused(id, error, error.message()));
        Answer::from(ConsumerGroupDescribeResponse {
            groups: groups.collect(),
            ..Default::default()
        })
    });
}

fn describe(state: &State, index: i32, group_id: &Str) -> DescribedGroup {
    let not_found = ErrorCode::GROUP_ID_NOT_FOUND;
    match state.groups.group(index, group_id).map(|group| &group.kind) {
        Some(GroupKind::Consumer(consumer)) => DescribedGroup {
            group_id: group_id.clone(),
            group_state: state_name(consumer.state()).into(),
            group_epoch: consumer.epoch(),
            assignment_epoch: consumer.assignment_epoch(),
            assignor_name: consumer.assignor().name().into(),
            members: members(state, consumer),
            ..Default::default()
        },
        Some(GroupKind::Classic(_)) => {
            let words = format!("Group {group_id} is not a consumer group.");
            refused(group_id, not_found, &words)
        }
        None => refused(group_id, not_found, &format!("Group {group_id} not found.")),
    }
}

fn members(state: &State, group: &ConsumerGroup) -> Vec<Member> {
    let nothing = Partitions::new();
    let members = group.members().iter().map(|(id, member)| Member {
        member_id: id.clone(),
        instance_id: member.instance_id.clone(),
        rack_id: member.rack_id.clone(),
        member_epoch: member.epoch,
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        subscribed_topic_names: member.names.iter().cloned().collect(),
        subscribed_topic_regex: member.regex.clone(),
        assignment: assignment(state, &member.assigned),
        target_assignment: assignment(state, group.target_of(id).unwrap_or(&nothing)),
        member_type: match member.classic {
            Some(_) => CLASSIC_MEMBER,
            None => CONSUMER_MEMBER,
        },
        ..Default::default()
    });
    members.collect()
}

fn assignment(state: &State, partitions: &Partitions) -> Assignment {
    let image = state.metadata.image();
    let listed = partitions.iter().filter_map(|(topic_id, partitions)| {
        // A topic that was deleted has no name any more.
        let topic = image.topic_by_id(*topic_id)?;
        Some(TopicPartitions {
            topic_id: *topic_id,
            topic_name: topic.name.as_str().into(),
            partitions: partitions.iter().copied().collect(),
            ..Default::default()
        })
    });
    Assignment {
        topic_partitions: listed.collect(),
        ..Default::default()
    }
}

fn refused(group_id: &Str, error_code: ErrorCode, words: &str) -> DescribedGroup {
    DescribedGroup {
        error_code,
        error_message: Some(words.into()),
        group_id: group_id.clone(),
        ..Default::default()
    }
}

/// Kafka's name of a consumer group's state.
pub(super) const fn state_name(state: ConsumerState) -> &'static str {
    match state {
        ConsumerState::Empty => "Empty",
        ConsumerState::Assigning => "Assigning",
        ConsumerState::Reconciling => "Reconciling",
        ConsumerState::Stable => "Stable",
    }
}
