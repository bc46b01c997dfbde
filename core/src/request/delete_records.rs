//! DeleteRecords (KIP-107): raise the log start, and answer when that is durable.

use alloc::vec::Vec;

use crate::broker::State;
use crate::connection::RequestId;
use crate::context::Context;
use crate::ids::Offset;
use crate::partition::PartitionKey;
use crate::wire::ErrorCode;
use crate::wire::messages::delete_records::{
    DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse,
    DeleteRecordsTopicResult,
};

/// "Up to the high watermark."
const HIGH_WATERMARK: i64 = -1;

/// A DeleteRecords whose new log starts are not durable yet.
#[derive(Debug)]
pub(crate) struct PendingDelete {
    response: DeleteRecordsResponse,
    waiting: usize,
}

pub(super) fn handle(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    request: DeleteRecordsRequest,
) {
    let mut response = DeleteRecordsResponse::default();
    let mut waiting = 0;
    let mut place = 0;
    for topic in request.topics {
        let known = state
            .metadata
            .resolve(false, &topic.name, Default::default());
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for asked in &topic.partitions {
            let key = known.map(|topic| PartitionKey {
                topic,
                index: asked.partition_index,
            });
            let result = key.and_then(|key| raise(state, key, asked.offset, id, place));
            let (low_watermark, error_code) = match result {
                Ok((start, parked)) => {
                    waiting += usize::from(parked);
                    (start.0, ErrorCode::NONE)
                }
                Err(error) => (-1, error),
            };
            partitions.push(DeleteRecordsPartitionResult {
                partition_index: asked.partition_index,
                low_watermark,
                error_code,
                ..Default::default()
            });
            place += 1;
        }
        response.topics.push(DeleteRecordsTopicResult {
            name: topic.name,
            partitions,
            ..Default::default()
        });
    }
    if waiting == 0 {
        return state.answer(id, response);
    }
    state.checkpoint.want(cx.now);
    state
        .deletes
        .insert(id, PendingDelete { response, waiting });
}

/// Wants a new log start. Returns it, and whether somebody must wait for it.
fn raise(
    state: &mut State,
    key: PartitionKey,
    offset: i64,
    id: RequestId,
    place: usize,
) -> Result<(Offset, bool), ErrorCode> {
    let is_compacted_only = state.metadata.is_compacted_only(&state.config, key.topic);
    let partition = state
        .partition(key)
        .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    if partition.holds_groups {
        return Err(ErrorCode::INVALID_TOPIC_EXCEPTION);
    }
    if is_compacted_only {
        return Err(ErrorCode::POLICY_VIOLATION);
    }
    partition.check_readable()?;
    let start = partition.log.log_start_offset();
    // What is deleted already is no error.
    if (0..=start.0).contains(&offset) {
        return Ok((start, false));
    }
    let wanted = (offset != HIGH_WATERMARK).then_some(Offset(offset));
    let offset = partition
        .log
        .delete_records(wanted, partition.high_watermark())
        .map_err(|_| ErrorCode::OFFSET_OUT_OF_RANGE)?;
    if offset <= start {
        return Ok((start, false));
    }
    partition.wanted_log_start = partition.wanted_log_start.max(offset);
    partition.park_delete(offset, id, place);
    Ok((offset, true))
}

/// One of the new log starts is durable, or never will be.
pub(crate) fn records_deleted(
    state: &mut State,
    id: RequestId,
    place: usize,
    result: Result<Offset, ErrorCode>,
) {
    let Some(pending) = state.deletes.get_mut(&id) else {
        return;
    };
    let partitions = pending
        .response
        .topics
        .iter_mut()
        .flat_map(|topic| &mut topic.partitions);
    if let Some(partition) = partitions.into_iter().nth(place) {
        match result {
            Ok(start) => partition.low_watermark = start.0,
            Err(error) => {
                partition.low_watermark = -1;
                partition.error_code = error;
            }
        }
    }
    pending.waiting -= 1;
    if pending.waiting == 0
        && let Some(pending) = state.deletes.remove(&id)
    {
        state.answer(id, pending.response);
    }
}
