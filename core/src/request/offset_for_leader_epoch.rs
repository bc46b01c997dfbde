//! OffsetForLeaderEpoch (KIP-101, KIP-320): where a leader epoch ends.

use crate::broker::State;
use crate::bugs::Bug;
use crate::connection::RequestId;
use crate::ids::LeaderEpoch;
use crate::partition::PartitionKey;
use crate::wire::ErrorCode;
use crate::wire::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition, OffsetForLeaderTopicResult,
};

pub(super) fn handle(state: &mut State, id: RequestId, request: OffsetForLeaderEpochRequest) {
    let topics = request.topics.into_iter().map(|topic| {
        let known = state
            .metadata
            .resolve(false, &topic.topic, Default::default());
        let partitions = topic.partitions.iter().map(|asked| {
            let found = known
                .and_then(|topic| end_of_epoch(state, topic, asked))
                .unwrap_or_else(|error_code| EpochEndOffset {
                    error_code,
                    ..Default::default()
                });
            EpochEndOffset {
                partition: asked.partition,
                ..found
            }
        });
        OffsetForLeaderTopicResult {
            partitions: partitions.collect(),
            topic: topic.topic.clone(),
            ..Default::default()
        }
    });
    let topics = topics.collect();
    state.answer(
        id,
        OffsetForLeaderEpochResponse {
            topics,
            ..Default::default()
        },
    );
}

fn end_of_epoch(
    state: &State,
    topic: crate::ids::TopicId,
    asked: &OffsetForLeaderPartition,
) -> Result<EpochEndOffset, ErrorCode> {
    let key = PartitionKey {
        topic,
        index: asked.partition,
    };
    let partition = state
        .partitions
        .get(&key)
        .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    partition.check_epoch(asked.current_leader_epoch)?;
    partition.check_readable()?;
    // The current epoch ends where the log does, whether or not it holds a record yet.
    let found = if asked.leader_epoch == partition.leader_epoch().0 {
        Some((partition.leader_epoch(), partition.high_watermark()))
    } else {
        partition
            .log
            .end_offset_for_epoch(LeaderEpoch(asked.leader_epoch))
    };
    let off = i64::from(state.bugs.has(Bug::EpochEndOff));
    Ok(
        found.map_or_else(EpochEndOffset::default, |(epoch, end)| EpochEndOffset {
            leader_epoch: epoch.0,
            end_offset: end.0 - off,
            ..Default::default()
        }),
    )
}
