//! OffsetCommit (8): store how far a group has read.

use alloc::vec::Vec;

use crate::ids::TopicId;
use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Stores offsets of a group. From version 10 on topics are named by id.
    pub message OffsetCommitRequest (OffsetCommit, versions [2-10], flexible [8+]) {
        group_id:                      Str                           [0+],
        /// -1 from a consumer that is in no group.
        generation_id_or_member_epoch: i32                           [1+]                = -1,
        member_id:                     Str                           [1+],
        /// Null unless the member is static (KIP-345).
        group_instance_id:             Option<Str>                   [7+]  nullable [7+] = None,
        /// -1 for the broker's default.
        retention_time_ms:             i64                           [2-4]               = -1,
        topics:                        Vec<OffsetCommitRequestTopic> [0+],
    }

    /// What to store for one topic.
    pub struct OffsetCommitRequestTopic {
        name:       Str                               [0-9],
        topic_id:   TopicId                           [10+],
        partitions: Vec<OffsetCommitRequestPartition> [0+],
    }

    /// What to store for one partition.
    pub struct OffsetCommitRequestPartition {
        partition_index:        i32         [0+],
        /// The next record to read.
        committed_offset:       i64         [0+],
        /// That of the last record read, -1 if unknown.
        committed_leader_epoch: i32         [6+]               = -1,
        /// Anything the client wants to find again.
        committed_metadata:     Option<Str> [0+] nullable [0+],
    }
}

message! {
    /// What became of each partition's offset.
    pub message OffsetCommitResponse (OffsetCommit, versions [2-10], flexible [8+]) {
        throttle_time_ms: i32                            [3+],
        topics:           Vec<OffsetCommitResponseTopic> [0+],
    }

    /// The outcome for one topic.
    pub struct OffsetCommitResponseTopic {
        name:       Str                                [0-9],
        topic_id:   TopicId                            [10+],
        partitions: Vec<OffsetCommitResponsePartition> [0+],
    }

    /// The outcome for one partition.
    pub struct OffsetCommitResponsePartition {
        partition_index: i32       [0+],
        error_code:      ErrorCode [0+],
    }
}
