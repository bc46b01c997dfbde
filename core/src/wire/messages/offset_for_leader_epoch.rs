//! OffsetForLeaderEpoch (23): where a leader epoch ends (KIP-101, KIP-320).

use alloc::vec::Vec;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Asks where leader epochs end.
    pub message OffsetForLeaderEpochRequest (OffsetForLeaderEpoch, versions [2-4], flexible [4+]) {
        /// -1 for a consumer, -2 for a debugging one.
        replica_id: i32                       [3+] = -2,
        topics:     Vec<OffsetForLeaderTopic> [0+],
    }

    /// What to look up in one topic.
    pub struct OffsetForLeaderTopic {
        topic:      Str                           [0+],
        partitions: Vec<OffsetForLeaderPartition> [0+],
    }

    /// What to look up in one partition.
    pub struct OffsetForLeaderPartition {
        partition:            i32 [0+],
        /// The epoch the client knows, -1 if none.
        current_leader_epoch: i32 [2+] = -1,
        leader_epoch:         i32 [0+],
    }
}

message! {
    /// The ends that were found.
    pub message OffsetForLeaderEpochResponse (OffsetForLeaderEpoch, versions [2-4], flexible [4+]) {
        throttle_time_ms: i32                             [2+],
        topics:           Vec<OffsetForLeaderTopicResult> [0+],
    }

    /// What was found in one topic.
    pub struct OffsetForLeaderTopicResult {
        topic:      Str                 [0+],
        partitions: Vec<EpochEndOffset> [0+],
    }

    /// What was found in one partition.
    pub struct EpochEndOffset {
        error_code:   ErrorCode [0+],
        partition:    i32       [0+],
        /// The largest epoch at or below the one asked for, -1 if there is none.
        leader_epoch: i32       [1+] = -1,
        /// Its end, exclusive, -1 if there is none.
        end_offset:   i64       [0+] = -1,
    }
}
