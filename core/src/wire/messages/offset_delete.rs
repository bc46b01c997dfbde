//! OffsetDelete (47): delete single offsets of a group (KIP-496).

use alloc::vec::Vec;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Deletes offsets of a group.
    pub message OffsetDeleteRequest (OffsetDelete, versions [0]) {
        group_id: Str                           [0+],
        topics:   Vec<OffsetDeleteRequestTopic> [0+],
    }

    /// What to delete of one topic.
    pub struct OffsetDeleteRequestTopic {
        name:       Str                               [0+],
        partitions: Vec<OffsetDeleteRequestPartition> [0+],
    }

    /// A partition whose offset to delete.
    pub struct OffsetDeleteRequestPartition {
        partition_index: i32 [0+],
    }
}

message! {
    /// What became of each partition's offset.
    pub message OffsetDeleteResponse (OffsetDelete, versions [0]) {
        error_code:       ErrorCode                      [0+],
        throttle_time_ms: i32                            [0+],
        topics:           Vec<OffsetDeleteResponseTopic> [0+],
    }

    /// The outcome for one topic.
    pub struct OffsetDeleteResponseTopic {
        name:       Str                                [0+],
        partitions: Vec<OffsetDeleteResponsePartition> [0+],
    }

    /// The outcome for one partition.
    pub struct OffsetDeleteResponsePartition {
        partition_index: i32       [0+],
        error_code:      ErrorCode [0+],
    }
}
