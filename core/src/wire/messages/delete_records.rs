//! DeleteRecords (21): raise the log start offset.

use alloc::vec::Vec;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Raises the log start offset of partitions (KIP-107).
    pub message DeleteRecordsRequest (DeleteRecords, versions [0-2], flexible [2+]) {
        topics:     Vec<DeleteRecordsTopic> [0+],
        timeout_ms: i32                     [0+],
    }

    /// What to delete of one topic.
    pub struct DeleteRecordsTopic {
        name:       Str                         [0+],
        partitions: Vec<DeleteRecordsPartition> [0+],
    }

    /// What to delete of one partition.
    pub struct DeleteRecordsPartition {
        partition_index: i32 [0+],
        /// The new log start offset, -1 for the high watermark.
        offset:          i64 [0+],
    }
}

message! {
    /// What became of each partition.
    pub message DeleteRecordsResponse (DeleteRecords, versions [0-2], flexible [2+]) {
        throttle_time_ms: i32                           [0+],
        topics:           Vec<DeleteRecordsTopicResult> [0+],
    }

    /// The outcome for one topic.
    pub struct DeleteRecordsTopicResult {
        name:       Str                               [0+],
        partitions: Vec<DeleteRecordsPartitionResult> [0+],
    }

    /// The outcome for one partition.
    pub struct DeleteRecordsPartitionResult {
        partition_index: i32       [0+],
        /// The new log start offset, -1 with an error.
        low_watermark:   i64       [0+],
        error_code:      ErrorCode [0+],
    }
}
