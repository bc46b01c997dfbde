//! ListOffsets (KIP-79, KIP-734, KIP-405): the ends of partitions, and offsets by timestamp.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::broker::State;
use crate::bugs::Bug;
use crate::connection::RequestId;
use crate::context::{Context, Owner};
use crate::ids::Offset;
use crate::input::DiskError;
use crate::log::ReadError;
use crate::log::time_lookup::{TimeFound, TimestampOffset};
use crate::partition::PartitionKey;
use crate::report::Level;
use crate::wire::ErrorCode;
use crate::wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
/// The first offset on local disk: without tiered storage, the earliest.
const EARLIEST_LOCAL: i64 = -4;
/// The last offset in tiered storage: there is none.
const LATEST_TIERED: i64 = -5;
/// The first offset still to be copied to tiered storage: there is none.
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// A ListOffsets that reads, one partition after another.
#[derive(Debug)]
pub(crate) struct PendingListOffsets {
    response: ListOffsetsResponse,
    /// Which partition of the response a look-up is for.
    lookups: VecDeque<Lookup>,
    /// Which files the log that is read had when the read began.
    layout: u64,
}

#[derive(Debug)]
struct Lookup {
    key: PartitionKey,
    timestamp: i64,
    topic: usize,
    partition: usize,
}

pub(super) fn handle(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    version: i16,
    request: ListOffsetsRequest,
) {
    let mut pending = PendingListOffsets {
        response: ListOffsetsResponse::default(),
        lookups: VecDeque::new(),
        layout: 0,
    };
    for topic in request.topics {
        let known = state
            .metadata
            .resolve(false, &topic.name, Default::default());
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        let twice = named_twice(&topic.partitions);
        let mut refused = BTreeSet::new();
        for partition in &topic.partitions {
            let index = partition.partition_index;
            if twice.contains(&index) {
                // One error for all of its askings, as Kafka answers.
                if refused.insert(index) {
                    partitions.push(ListOffsetsPartitionResponse {
                        partition_index: index,
                        error_code: ErrorCode::INVALID_REQUEST,
                        ..Default::default()
                    });
                }
                continue;
            }
            let key = known.map(|topic| PartitionKey { topic, index });
            let result = match key.and_then(|key| end_of(state, key, version, partition)) {
                Ok(Some(found)) => found,
                Ok(None) => {
                    if let Ok(key) = key {
                        pending.lookups.push_back(Lookup {
                            key,
                            timestamp: partition.timestamp,
                            topic: pending.response.topics.len(),
                            partition: partitions.len(),
                        });
                    }
                    ListOffsetsPartitionResponse::default()
                }
                Err(error_code) => ListOffsetsPartitionResponse {
                    error_code,
                    ..Default::default()
                },
            };
            partitions.push(ListOffsetsPartitionResponse {
                partition_index: index,
                ..result
            });
        }
        pending.response.topics.push(ListOffsetsTopicResponse {
            name: topic.name,
            partitions,
            ..Default::default()
        });
    }
    look_up_next(state, cx, id, pending);
}

fn named_twice(partitions: &[ListOffsetsPartition]) -> BTreeSet<i32> {
    let mut seen = BTreeSet::new();
    let indexes = partitions.iter().map(|asked| asked.partition_index);
    indexes.filter(|index| !seen.insert(*index)).collect()
}

/// Answers without a read where that is possible; `None` where the log must be searched.
fn end_of(
    state: &mut State,
    key: PartitionKey,
    version: i16,
    asked: &ListOffsetsPartition,
) -> Result<Option<ListOffsetsPartitionResponse>, ErrorCode> {
    let bugs = state.bugs;
    let partition = state
        .partition(key)
        .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    partition.check_epoch(asked.current_leader_epoch)?;
    partition.check_readable()?;
    let at = |offset: Offset, epoch: Option<i32>| ListOffsetsPartitionResponse {
        offset: offset.0,
        leader_epoch: epoch.unwrap_or(-1),
        ..Default::default()
    };
    let start = partition.log.log_start_offset();
    Ok(match asked.timestamp {
        LATEST if bugs.has(Bug::LatestIsEarliest) => Some(at(start, None)),
        LATEST => Some(at(
            partition.high_watermark(),
            Some(partition.leader_epoch().0),
        )),
        EARLIEST => Some(at(
            start,
            partition.log.epoch_at(start).map(|epoch| epoch.0),
        )),
        EARLIEST_LOCAL if version >= 8 => Some(at(
            start,
            partition.log.epoch_at(start).map(|epoch| epoch.0),
        )),
        LATEST_TIERED if version >= 9 => Some(at(Offset(-1), None)),
        EARLIEST_PENDING_UPLOAD if version >= 11 => Some(at(Offset(-1), None)),
        MAX_TIMESTAMP if version >= 7 => None,
        timestamp if timestamp >= 0 => None,
        _ => return Err(ErrorCode::UNSUPPORTED_VERSION),
    })
}

fn look_up_next(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    mut pending: PendingListOffsets,
) {
    while let Some(lookup) = pending.lookups.front() {
        let partition = state.partitions.get(&lookup.key);
        if let Some(partition) = partition.filter(|partition| partition.check_readable().is_ok()) {
            let limit = partition.high_watermark();
            let job = if lookup.timestamp == MAX_TIMESTAMP {
                partition.log.max_timestamp_lookup(limit)
            } else {
                partition.log.time_lookup(lookup.timestamp, limit)
            };
            pending.layout = partition.log.layout();
            cx.read(Owner::Request(id.0), job);
            state.list_offsets.insert(id, pending);
            return;
        }
        let gone = partition.map_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, |_| {
            ErrorCode::KAFKA_STORAGE_ERROR
        });
        pending.finish(Err(gone));
    }
    state.answer(id, pending.response);
}

/// A look-up by time ended.
pub(super) fn on_read(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    result: Result<TimeFound, DiskError>,
) {
    let Some(mut pending) = state.list_offsets.remove(&id) else {
        return;
    };
    let Some(key) = pending.lookups.front().map(|lookup| lookup.key) else {
        return;
    };
    let found = match (result, state.partitions.get_mut(&key)) {
        (Ok(found), Some(partition)) => {
            let found = partition.log.on_time_found(cx, &found);
            let log = partition.log.id();
            state.touch(log);
            match found {
                Ok(found) => Ok(found),
                // The record went, or the log cannot be read now: the look-up is made anew.
                Err(ReadError::Changed) => return look_up_next(state, cx, id, pending),
                Err(ReadError::Corrupt(_)) => Err(ErrorCode::KAFKA_STORAGE_ERROR),
            }
        }
        // A file was taken away: the look-up is made anew.
        (Err(_), Some(partition)) if partition.log.layout() != pending.layout => {
            return look_up_next(state, cx, id, pending);
        }
        (Err(error), Some(partition)) => {
            let name = &partition.name;
            cx.report(
                Level::Error,
                "list_offsets",
                alloc::format!("cannot search by time: partition={name} {error}"),
            );
            Err(ErrorCode::KAFKA_STORAGE_ERROR)
        }
        (_, None) => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
    };
    pending.finish(found);
    look_up_next(state, cx, id, pending);
}

impl PendingListOffsets {
    /// Enters the result of the first look-up; finding nothing is answered with -1.
    fn finish(&mut self, found: Result<Option<TimestampOffset>, ErrorCode>) {
        let Some(lookup) = self.lookups.pop_front() else {
            return;
        };
        let Some(partition) = self
            .response
            .topics
            .get_mut(lookup.topic)
            .and_then(|topic| topic.partitions.get_mut(lookup.partition))
        else {
            return;
        };
        match found {
            Ok(Some(found)) => {
                partition.timestamp = found.timestamp;
                partition.offset = found.offset.0;
                partition.leader_epoch = found.leader_epoch.0;
            }
            Ok(None) => {}
            Err(error) => partition.error_code = error,
        }
    }
}
