//! Fetch (KIP-74, KIP-320, KIP-516): ranges of partitions' logs, now or when there are enough.
//!
//! Fetch sessions (KIP-227) are declined: the session id in every answer is 0, so a client sends
//! its full list each time and nothing is remembered of it.

use alloc::vec::Vec;

use crate::broker::State;
use crate::connection::RequestId;
use crate::context::Context;
use crate::ids::{Offset, TopicId};
use crate::partition::PartitionKey;
use crate::partition::delayed_fetch::{self, DelayedFetch, FetchTarget, Found};
use crate::wire::messages::fetch::{
    EpochEndOffset, FetchRequest, FetchResponse, FetchableTopicResponse, PartitionData,
};
use crate::wire::{ErrorCode, Records, Str};

/// The topics of a fetch as the request grouped them: what the answer's shape follows.
#[derive(Debug)]
pub(crate) struct FetchShape {
    topics: Vec<(Str, TopicId, Vec<i32>)>,
}

/// Bit of READ_COMMITTED, which changes nothing before there are transactions, except that the
/// list of aborted ones is then empty and not null.
const READ_COMMITTED: i8 = 1;

/// The epoch of a fetch outside of any session, and of the one that ends a session (KIP-227).
const NO_SESSION: i32 = -1;

pub(super) fn handle(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    version: i16,
    request: FetchRequest,
) {
    // Epoch -1 wants no session, whatever session ends with it; 0 without an id asks for a new one;
    // anything else names one that cannot exist.
    if request.session_epoch != NO_SESSION && (request.session_id != 0 || request.session_epoch > 0)
    {
        return state.answer(
            id,
            FetchResponse {
                error_code: ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
                ..Default::default()
            },
        );
    }
    let mut targets = Vec::new();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let topic_id = state
            .metadata
            .resolve(version >= 13, &topic.topic, topic.topic_id);
        let indexes = topic
            .partitions
            .iter()
            .map(|partition| partition.partition)
            .collect();
        targets.extend(topic.partitions.into_iter().map(|partition| FetchTarget {
            key: topic_id.ok().map(|topic| PartitionKey {
                topic,
                index: partition.partition,
            }),
            offset: Offset(partition.fetch_offset),
            max_bytes: u32::try_from(partition.partition_max_bytes).unwrap_or(0),
            current_leader_epoch: partition.current_leader_epoch,
            last_fetched_epoch: partition.last_fetched_epoch,
            error: topic_id.err(),
            found: Found::default(),
        }));
        topics.push((topic.topic, topic.topic_id, indexes));
    }
    let max_wait = u64::try_from(request.max_wait_ms).unwrap_or(0);
    let max_bytes = u32::try_from(request.max_bytes).unwrap_or(0);
    let mut fetch = DelayedFetch::new(
        FetchShape { topics },
        targets,
        u64::try_from(request.min_bytes).unwrap_or(0),
        max_bytes.min(state.config.fetch_max_bytes),
        cx.now.mono.plus_ms(max_wait),
    );
    fetch.expired = max_wait == 0;
    fetch.committed_only = request.isolation_level == READ_COMMITTED;
    delayed_fetch::start(state, cx, id, fetch);
}

/// Builds the answer from what the last look found.
pub(crate) fn answer(fetch: DelayedFetch) -> FetchResponse {
    let committed_only = fetch.committed_only;
    let mut targets = fetch.targets.into_iter();
    let responses = fetch
        .shape
        .topics
        .into_iter()
        .map(|(topic, topic_id, indexes)| {
            let partitions = indexes
                .into_iter()
                .zip(&mut targets)
                .map(|(index, target)| partition_data(index, target.found, committed_only))
                .collect();
            FetchableTopicResponse {
                topic,
                topic_id,
                partitions,
                ..Default::default()
            }
        });
    FetchResponse {
        responses: responses.collect(),
        ..Default::default()
    }
}

fn partition_data(index: i32, found: Found, committed_only: bool) -> PartitionData {
    let high_watermark = found.high_watermark.map_or(-1, |offset| offset.0);
    let records = match found.range {
        Some(range) => Records::File(range.range),
        None => Records::default(),
    };
    PartitionData {
        partition_index: index,
        error_code: found.error.unwrap_or_default(),
        high_watermark,
        last_stable_offset: high_watermark,
        log_start_offset: found.log_start_offset.map_or(-1, |offset| offset.0),
        diverging_epoch: found
            .diverging
            .map_or_else(Default::default, |(epoch, end_offset)| EpochEndOffset {
                epoch,
                end_offset,
                ..Default::default()
            }),
        aborted_transactions: committed_only.then(Vec::new),
        records: Some(records),
        ..Default::default()
    }
}
