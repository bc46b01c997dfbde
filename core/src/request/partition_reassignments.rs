//! AlterPartitionReassignments and ListPartitionReassignments (KIP-455): a partition can only be
//! where it is, on the one broker, so a reassignment is over when it begins.

use super::create_topics::{Refusal, check_brokers};
use crate::broker::State;
use crate::connection::RequestId;
use crate::ids::TopicId;
use crate::wire::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ReassignablePartition,
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use crate::wire::messages::list_partition_reassignments::ListPartitionReassignmentsResponse;
use crate::wire::{ErrorCode, Str};

pub(super) fn alter(state: &mut State, id: RequestId, request: AlterPartitionReassignmentsRequest) {
    let topics = request.topics.into_iter().map(|topic| {
        let known = state
            .metadata
            .resolve(false, &topic.name, Default::default());
        let partitions = topic.partitions.iter().map(|asked| {
            let (error_code, error_message) = match reassign(state, known, asked) {
                Ok(()) => (ErrorCode::NONE, None),
                Err((error, words)) => (error, Some(Str::from(words))),
            };
            ReassignablePartitionResponse {
                partition_index: asked.partition_index,
                error_code,
                error_message,
                ..Default::default()
            }
        });
        ReassignableTopicResponse {
            partitions: partitions.collect(),
            name: topic.name,
            ..Default::default()
        }
    });
    let response = AlterPartitionReassignmentsResponse {
        error_message: None,
        allow_replication_factor_change: request.allow_replication_factor_change,
        responses: topics.collect(),
        ..Default::default()
    };
    state.answer(id, response);
}

pub(super) fn list(state: &mut State, id: RequestId) {
    let response = ListPartitionReassignmentsResponse {
        error_message: None,
        ..Default::default()
    };
    state.answer(id, response);
}

fn reassign(
    state: &State,
    topic: Result<TopicId, ErrorCode>,
    asked: &ReassignablePartition,
) -> Result<(), Refusal> {
    topic
        .and_then(|topic| state.existing(topic, asked.partition_index))
        .map_err(|error| (error, error.message().into()))?;
    let Some(replicas) = &asked.replicas else {
        let error = ErrorCode::NO_REASSIGNMENT_IN_PROGRESS;
        return Err((error, error.message().into()));
    };
    check_brokers(state, replicas)
}
