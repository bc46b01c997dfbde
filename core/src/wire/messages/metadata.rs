//! Metadata (3): brokers, topics and the leaders of partitions.

use alloc::vec::Vec;

use crate::ids::TopicId;
use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Asks for brokers and topics.
    pub message MetadataRequest (Metadata, versions [0-13], flexible [9+]) {
        /// Null for all topics; in version 0 empty for all.
        topics:                                Option<Vec<MetadataRequestTopic>> [0+]   nullable [1+],
        allow_auto_topic_creation:             bool                              [4+]                 = true,
        include_cluster_authorized_operations: bool                              [8-10],
        include_topic_authorized_operations:   bool                              [8+],
    }

    /// A topic, by name or by id.
    pub struct MetadataRequestTopic {
        /// Zero if the topic is named.
        topic_id: TopicId     [10+],
        name:     Option<Str> [0+]  nullable [10+],
    }
}

message! {
    /// The cluster as this broker knows it.
    pub message MetadataResponse (Metadata, versions [0-13], flexible [9+]) {
        throttle_time_ms:              i32                         [3+],
        brokers:                       Vec<MetadataResponseBroker> [0+],
        cluster_id:                    Option<Str>                 [2+]   nullable [2+] = None,
        /// -1 if unknown.
        controller_id:                 i32                         [1+]                 = -1,
        topics:                        Vec<MetadataResponseTopic>  [0+],
        /// A bit field, `i32::MIN` unless asked for.
        cluster_authorized_operations: i32                         [8-10]               = i32::MIN,
        error_code:                    ErrorCode                   [13+],
    }

    /// A broker and where it is.
    pub struct MetadataResponseBroker {
        node_id: i32         [0+],
        host:    Str         [0+],
        port:    i32         [0+],
        rack:    Option<Str> [1+] nullable [1+] = None,
    }

    /// A topic.
    pub struct MetadataResponseTopic {
        error_code:                  ErrorCode                      [0+],
        /// Null for an unknown id.
        name:                        Option<Str>                    [0+]  nullable [12+],
        topic_id:                    TopicId                        [10+],
        is_internal:                 bool                           [1+],
        partitions:                  Vec<MetadataResponsePartition> [0+],
        /// A bit field, `i32::MIN` unless asked for.
        topic_authorized_operations: i32                            [8+]                 = i32::MIN,
    }

    /// A partition, its leader and its replicas.
    pub struct MetadataResponsePartition {
        error_code:       ErrorCode [0+],
        partition_index:  i32       [0+],
        /// -1 if there is none.
        leader_id:        i32       [0+],
        leader_epoch:     i32       [7+] = -1,
        replica_nodes:    Vec<i32>  [0+],
        isr_nodes:        Vec<i32>  [0+],
        offline_replicas: Vec<i32>  [5+],
    }
}
