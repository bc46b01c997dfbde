//! DescribeTopicPartitions (75): topics page by page (KIP-966).

use alloc::vec::Vec;

use crate::ids::TopicId;
use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Asks for topics, page by page.
    pub message DescribeTopicPartitionsRequest (DescribeTopicPartitions, versions [0], flexible [0+]) {
        /// Empty for all.
        topics:                   Vec<TopicRequest> [0+],
        response_partition_limit: i32               [0+]               = 2000,
        /// Null for the first page.
        cursor:                   Option<Cursor>    [0+] nullable [0+] = None,
    }

    /// A topic, by name.
    pub struct TopicRequest {
        name: Str [0+],
    }

    /// Where a page begins.
    pub struct Cursor {
        topic_name:      Str [0+],
        partition_index: i32 [0+],
    }
}

message! {
    /// A page of topics.
    pub message DescribeTopicPartitionsResponse (DescribeTopicPartitions, versions [0], flexible [0+]) {
        throttle_time_ms: i32                                       [0+],
        topics:           Vec<DescribeTopicPartitionsResponseTopic> [0+],
        /// Null if this is the last page.
        next_cursor:      Option<Cursor>                            [0+] nullable [0+] = None,
    }

    /// A topic, or the part of it that is on this page.
    pub struct DescribeTopicPartitionsResponseTopic {
        error_code:                  ErrorCode                                     [0+],
        name:                        Option<Str>                                   [0+] nullable [0+],
        topic_id:                    TopicId                                       [0+],
        is_internal:                 bool                                          [0+],
        partitions:                  Vec<DescribeTopicPartitionsResponsePartition> [0+],
        /// A bit field, `i32::MIN` unless asked for.
        topic_authorized_operations: i32                                           [0+]               = i32::MIN,
    }

    /// A partition, its leader and its replicas.
    pub struct DescribeTopicPartitionsResponsePartition {
        error_code:               ErrorCode        [0+],
        partition_index:          i32              [0+],
        leader_id:                i32              [0+],
        leader_epoch:             i32              [0+]               = -1,
        replica_nodes:            Vec<i32>         [0+],
        isr_nodes:                Vec<i32>         [0+],
        eligible_leader_replicas: Option<Vec<i32>> [0+] nullable [0+] = None,
        last_known_elr:           Option<Vec<i32>> [0+] nullable [0+] = None,
        offline_replicas:         Vec<i32>         [0+],
    }
}
