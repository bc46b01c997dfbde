//! AlterPartitionReassignments (45): say which brokers hold partitions (KIP-455).

use alloc::vec::Vec;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Says who shall hold what.
    pub message AlterPartitionReassignmentsRequest (AlterPartitionReassignments, versions [0-1], flexible [0+]) {
        timeout_ms:                      i32                    [0+] = 60_000,
        allow_replication_factor_change: bool                   [1+] = true,
        topics:                          Vec<ReassignableTopic> [0+],
    }

    /// The partitions of a topic.
    pub struct ReassignableTopic {
        name:       Str                        [0+],
        partitions: Vec<ReassignablePartition> [0+],
    }

    /// A partition.
    pub struct ReassignablePartition {
        partition_index: i32              [0+],
        /// Null to take back a reassignment that is under way.
        replicas:        Option<Vec<i32>> [0+] nullable [0+] = None,
    }
}

message! {
    /// Whether they will.
    pub message AlterPartitionReassignmentsResponse (AlterPartitionReassignments, versions [0-1], flexible [0+]) {
        throttle_time_ms:                i32                            [0+],
        allow_replication_factor_change: bool                           [1+] = true,
        error_code:                      ErrorCode                      [0+],
        error_message:                   Option<Str>                    [0+] nullable [0+],
        responses:                       Vec<ReassignableTopicResponse> [0+],
    }

    /// The partitions of a topic.
    pub struct ReassignableTopicResponse {
        name:       Str                                [0+],
        partitions: Vec<ReassignablePartitionResponse> [0+],
    }

    /// A partition.
    pub struct ReassignablePartitionResponse {
        partition_index: i32         [0+],
        error_code:      ErrorCode   [0+],
        error_message:   Option<Str> [0+] nullable [0+],
    }
}
