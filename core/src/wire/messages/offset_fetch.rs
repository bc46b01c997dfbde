//! OffsetFetch (9): how far groups have read.

use alloc::vec::Vec;

use crate::ids::TopicId;
use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Asks for offsets: of one group, from version 8 on of several (KIP-709). From version 10 on
    /// topics are named by id.
    pub message OffsetFetchRequest (OffsetFetch, versions [1-10], flexible [6+]) {
        group_id:       Str                                  [0-7],
        /// Null for all.
        topics:         Option<Vec<OffsetFetchRequestTopic>> [0-7] nullable [2-7],
        groups:         Vec<OffsetFetchRequestGroup>         [8+],
        /// Whether to refuse offsets that an open transaction may still change (KIP-447).
        require_stable: bool                                 [7+],
    }

    /// Which partitions of one topic, below version 8.
    pub struct OffsetFetchRequestTopic {
        name:              Str      [0-7],
        partition_indexes: Vec<i32> [0-7],
    }

    /// Which topics of one group.
    pub struct OffsetFetchRequestGroup {
        group_id:     Str                                   [8+],
        /// Null from a client that is no member.
        member_id:    Option<Str>                           [9+] nullable [9+] = None,
        /// -1 from a client that is no member, or of a classic group.
        member_epoch: i32                                   [9+]               = -1,
        /// Null for all.
        topics:       Option<Vec<OffsetFetchRequestTopics>> [8+] nullable [8+],
    }

    /// Which partitions of one topic.
    pub struct OffsetFetchRequestTopics {
        name:              Str      [8-9],
        topic_id:          TopicId  [10+],
        partition_indexes: Vec<i32> [8+],
    }
}

message! {
    /// The offsets.
    pub message OffsetFetchResponse (OffsetFetch, versions [1-10], flexible [6+]) {
        throttle_time_ms: i32                           [3+],
        topics:           Vec<OffsetFetchResponseTopic> [0-7],
        error_code:       ErrorCode                     [2-7],
        groups:           Vec<OffsetFetchResponseGroup> [8+],
    }

    /// The offsets of one topic, below version 8.
    pub struct OffsetFetchResponseTopic {
        name:       Str                               [0-7],
        partitions: Vec<OffsetFetchResponsePartition> [0-7],
    }

    /// The offset of one partition, below version 8.
    pub struct OffsetFetchResponsePartition {
        partition_index:        i32         [0-7],
        /// -1 if there is none.
        committed_offset:       i64         [0-7],
        /// -1 if unknown.
        committed_leader_epoch: i32         [5-7]                = -1,
        metadata:               Option<Str> [0-7] nullable [0-7],
        error_code:             ErrorCode   [0-7],
    }

    /// The offsets of one group.
    pub struct OffsetFetchResponseGroup {
        group_id:   Str                            [8+],
        topics:     Vec<OffsetFetchResponseTopics> [8+],
        error_code: ErrorCode                      [8+],
    }

    /// The offsets of one topic.
    pub struct OffsetFetchResponseTopics {
        name:       Str                                [8-9],
        topic_id:   TopicId                            [10+],
        partitions: Vec<OffsetFetchResponsePartitions> [8+],
    }

    /// The offset of one partition.
    pub struct OffsetFetchResponsePartitions {
        partition_index:        i32         [8+],
        /// -1 if there is none.
        committed_offset:       i64         [8+],
        /// -1 if unknown.
        committed_leader_epoch: i32         [8+]               = -1,
        metadata:               Option<Str> [8+] nullable [8+],
        error_code:             ErrorCode   [8+],
    }
}
