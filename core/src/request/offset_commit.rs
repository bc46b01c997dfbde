//! OffsetCommit (KIP-98, KIP-345, KIP-848): stores how far a group has read.

use alloc::vec::Vec;

use crate::broker::State;
use crate::bugs::Bug;
use crate::connection::{Answer, RequestId};
use crate::context::Context;
use crate::group::coordinator;
use crate::group::{CommittedOffset, MemberRef};
use crate::ids::TopicId;
use crate::wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitResponse,
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use crate::wire::{ErrorCode, Str};

/// The first version that names topics by id.
const BY_ID: i16 = 10;

pub(super) fn handle(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    version: i16,
    request: OffsetCommitRequest,
) {
    let expire_timestamp_ms = (request.retention_time_ms >= 0)
        .then(|| cx.now.wall.0.saturating_add(request.retention_time_ms));
    let mut response = OffsetCommitResponse::default();
    let mut offsets = Vec::new();
    for topic in request.topics {
        let known = name_and_id(state, version, &topic.name, topic.topic_id);
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in topic.partitions {
            let checked = known.clone().and_then(|(name, topic_id)| {
                check(state, &name, topic_id, &partition)?;
                Ok((name, topic_id))
            });
            let error_code = match checked {
                Ok((name, topic_id)) => {
                    let offset = CommittedOffset {
                        offset: partition.committed_offset,
                        leader_epoch: partition.committed_leader_epoch,
                        metadata: partition.committed_metadata.unwrap_or_default(),
                        commit_timestamp_ms: cx.now.wall.0,
                        expire_timestamp_ms,
                        topic_id,
                    };
                    offsets.push((name, partition.partition_index, offset));
                    ErrorCode::NONE
                }
                Err(error) => error,
            };
            partitions.push(OffsetCommitResponsePartition {
                partition_index: partition.partition_index,
                error_code,
                ..Default::default()
            });
        }
        response.topics.push(OffsetCommitResponseTopic {
            name: topic.name,
            topic_id: topic.topic_id,
            partitions,
            ..Default::default()
        });
    }
    if offsets.is_empty() {
        return state.answer(id, response);
    }
    let member = MemberRef {
        member_id: request.member_id,
        instance_id: request.group_instance_id,
        generation_id: request.generation_id_or_member_epoch,
    };
    let group_id = request.group_id;
    match coordinator::commit(state, cx, &group_id, &member, version, &offsets) {
        Ok(index) => {
            if state.bugs.has(Bug::CommitBeforeDurable) {
                return state.answer(id, response);
            }
            let mark = state.groups.mark_of(index, &group_id);
            let lost = refused(&response, ErrorCode::COORDINATOR_NOT_AVAILABLE);
            let failed = || Answer::from(lost);
            coordinator::answer_when_durable(state, id, &[(index, mark)], response, failed);
        }
        Err(error) => {
            let response = refused(&response, error);
            state.answer(id, response);
        }
    }
}

/// A topic's name and id, however the request names it.
fn name_and_id(
    state: &State,
    version: i16,
    name: &Str,
    id: TopicId,
) -> Result<(Str, TopicId), ErrorCode> {
    let topic = state.metadata.resolve(version >= BY_ID, name, id)?;
    if version < BY_ID {
        return Ok((name.clone(), topic));
    }
    let known = state.metadata.image().topic_by_id(topic);
    let known = known.ok_or(ErrorCode::UNKNOWN_TOPIC_ID)?;
    Ok((known.name.as_str().into(), topic))
}

fn check(
    state: &State,
    topic: &str,
    topic_id: TopicId,
    partition: &OffsetCommitRequestPartition,
) -> Result<(), ErrorCode> {
    let index = partition.partition_index;
    let known = state.metadata.image().topic(topic);
    let exists = known.is_some_and(|topic| (0..topic.partitions).contains(&index));
    // What is not durable yet may be lost, and then a commit that was acknowledged would go with it.
    if !exists || state.topics.is_making(topic_id, index) {
        return Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    }
    let metadata = partition.committed_metadata.as_ref();
    if metadata.map_or(0, |text| text.len()) > state.config.groups.offset_metadata_max_bytes {
        return Err(ErrorCode::OFFSET_METADATA_TOO_LARGE);
    }
    Ok(())
}

/// The same answer with `error` where all was well.
fn refused(response: &OffsetCommitResponse, error: ErrorCode) -> OffsetCommitResponse {
    let mut refused = response.clone();
    for partition in refused.topics.iter_mut().flat_map(|t| &mut t.partitions) {
        if !partition.error_code.is_error() {
            partition.error_code = error;
        }
    }
    refused
}
