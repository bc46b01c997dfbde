//! CreateTopics (19).

use alloc::vec::Vec;

use crate::ids::TopicId;
use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Creates topics.
    pub message CreateTopicsRequest (CreateTopics, versions [2-7], flexible [5+]) {
        topics:        Vec<CreatableTopic> [0+],
        timeout_ms:    i32                 [0+] = 60000,
        validate_only: bool                [1+],
    }

    /// A topic to create.
    pub struct CreatableTopic {
        name:               Str                             [0+],
        /// -1 for the default, or with assignments.
        num_partitions:     i32                             [0+],
        /// -1 for the default, or with assignments.
        replication_factor: i16                             [0+],
        assignments:        Vec<CreatableReplicaAssignment> [0+],
        configs:            Vec<CreatableTopicConfig>       [0+],
    }

    /// On which brokers a partition shall be.
    pub struct CreatableReplicaAssignment {
        partition_index: i32      [0+],
        broker_ids:      Vec<i32> [0+],
    }

    /// A config to set.
    pub struct CreatableTopicConfig {
        name:  Str         [0+],
        value: Option<Str> [0+] nullable [0+],
    }
}

message! {
    /// What became of each topic.
    pub message CreateTopicsResponse (CreateTopics, versions [2-7], flexible [5+]) {
        throttle_time_ms: i32                       [2+],
        topics:           Vec<CreatableTopicResult> [0+],
    }

    /// The outcome for one topic.
    pub struct CreatableTopicResult {
        name:                    Str                                [0+],
        topic_id:                TopicId                            [7+],
        error_code:              ErrorCode                          [0+],
        error_message:           Option<Str>                        [1+] nullable [0+],
        /// Why there are no configs.
        topic_config_error_code: ErrorCode                          [5+]               tag 0,
        num_partitions:          i32                                [5+]                     = -1,
        replication_factor:      i16                                [5+]                     = -1,
        /// Null if they may not be seen.
        configs:                 Option<Vec<CreatableTopicConfigs>> [5+] nullable [5+],
    }

    /// A config of the new topic (KIP-525).
    pub struct CreatableTopicConfigs {
        name:          Str         [5+],
        value:         Option<Str> [5+] nullable [5+],
        read_only:     bool        [5+],
        /// See `DescribeConfigs`.
        config_source: i8          [5+]               = -1,
        is_sensitive:  bool        [5+],
    }
}
