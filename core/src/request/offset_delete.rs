//! OffsetDelete (KIP-496): takes back what a group has committed.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::broker::State;
use crate::connection::{Answer, RequestId};
use crate::context::Context;
use crate::group::coordinator;
use crate::group::{ClassicState, GroupKind, subscribed_topics};
use crate::wire::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
};
use crate::wire::{ErrorCode, Str};

pub(super) fn handle(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    request: OffsetDeleteRequest,
) {
    let refuse = |error_code| OffsetDeleteResponse {
        error_code,
        ..Default::default()
    };
    let (index, subscribed) = match may_delete(state, &request.group_id) {
        Ok(found) => found,
        Err(error) => return state.answer(id, refuse(error)),
    };
    let mut doomed = Vec::new();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let partitions = topic.partitions.iter().map(|asked| {
            let partition_index = asked.partition_index;
            let known = state.metadata.image().topic(&topic.name);
            let exists =
                known.is_some_and(|topic| (0..topic.partitions).contains(&partition_index));
            let error_code = if subscribed.contains(&topic.name) {
                ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC
            } else if exists {
                doomed.push((topic.name.clone(), partition_index));
                ErrorCode::NONE
            } else {
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            };
            OffsetDeleteResponsePartition {
                partition_index,
                error_code,
                ..Default::default()
            }
        });
        let partitions = partitions.collect();
        topics.push(OffsetDeleteResponseTopic {
            name: topic.name,
            partitions,
            ..Default::default()
        });
    }
    let group_id = request.group_id;
    if let Err(error) = coordinator::delete_offsets(state, cx, index, &group_id, &doomed) {
        return state.answer(id, refuse(error));
    }
    let response = OffsetDeleteResponse {
        topics,
        ..Default::default()
    };
    let mark = state.groups.mark_of(index, &group_id);
    coordinator::answer_when_durable(state, id, &[(index, mark)], response, || {
        Answer::from(refuse(ErrorCode::COORDINATOR_NOT_AVAILABLE))
    });
}

/// The group's shard, and the topics whose offsets it still needs.
fn may_delete(state: &State, group_id: &Str) -> Result<(i32, BTreeSet<Str>), ErrorCode> {
    if group_id.is_empty() {
        return Err(ErrorCode::INVALID_GROUP_ID);
    }
    let index = coordinator::shard_of(state, group_id)?;
    let group = state.groups.group(index, group_id);
    let group = group.ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?;
    match &group.kind {
        GroupKind::Classic(classic) if classic.state() == ClassicState::Empty => {
            Ok((index, BTreeSet::new()))
        }
        // Of a group that is no consumers' nobody knows what it needs.
        GroupKind::Classic(classic) => subscribed_topics(classic)
            .map(|topics| (index, topics))
            .ok_or(ErrorCode::NON_EMPTY_GROUP),
        GroupKind::Consumer(consumer) => {
            let topics = group.offsets.topics().map(|(topic, _)| topic);
            let subscribed = topics.filter(|topic| consumer.subscribes_to(topic));
            Ok((index, subscribed.cloned().collect()))
        }
    }
}
