//! ListOffsets (2): find offsets by timestamp, and the ends of partitions.

use alloc::vec::Vec;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Asks for offsets by timestamp.
    pub message ListOffsetsRequest (ListOffsets, versions [1-11], flexible [6+]) {
        /// -1 for a consumer, else the id of the follower.
        replica_id:      i32                   [0+],
        /// 0: read uncommitted; 1: read committed.
        isolation_level: i8                    [2+],
        topics:          Vec<ListOffsetsTopic> [0+],
        /// How long to wait for tiered storage.
        timeout_ms:      i32                   [10+],
    }

    /// What to look up in one topic.
    pub struct ListOffsetsTopic {
        name:       Str                       [0+],
        partitions: Vec<ListOffsetsPartition> [0+],
    }

    /// What to look up in one partition.
    pub struct ListOffsetsPartition {
        partition_index:      i32 [0+],
        /// The epoch the client knows, -1 if none.
        current_leader_epoch: i32 [4+] = -1,
        /// Milliseconds, or -1 latest, -2 earliest, -3 largest timestamp, -4 earliest local, -5
        /// latest tiered, -6 earliest pending upload.
        timestamp:            i64 [0+],
    }
}

message! {
    /// The offsets that were found.
    pub message ListOffsetsResponse (ListOffsets, versions [1-11], flexible [6+]) {
        throttle_time_ms: i32                           [2+],
        topics:           Vec<ListOffsetsTopicResponse> [0+],
    }

    /// What was found in one topic.
    pub struct ListOffsetsTopicResponse {
        name:       Str                               [0+],
        partitions: Vec<ListOffsetsPartitionResponse> [0+],
    }

    /// What was found in one partition.
    pub struct ListOffsetsPartitionResponse {
        partition_index: i32       [0+],
        error_code:      ErrorCode [0+],
        /// That of the record found, -1 if none was, or if an end was asked for.
        timestamp:       i64       [1+] = -1,
        /// -1 if no record was found.
        offset:          i64       [1+] = -1,
        leader_epoch:    i32       [4+] = -1,
    }
}
