//! ListPartitionReassignments (46): reassignments under way (KIP-455).

use alloc::vec::Vec;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Asks what is under way.
    pub message ListPartitionReassignmentsRequest (ListPartitionReassignments, versions [0-0], flexible [0+]) {
        timeout_ms: i32                                           [0+] = 60_000,
        /// Null for all.
        topics:     Option<Vec<ListPartitionReassignmentsTopics>> [0+] nullable [0+] = None,
    }

    /// A topic and which of its partitions.
    pub struct ListPartitionReassignmentsTopics {
        name:              Str      [0+],
        partition_indexes: Vec<i32> [0+],
    }
}

message! {
    /// What is under way.
    pub message ListPartitionReassignmentsResponse (ListPartitionReassignments, versions [0-0], flexible [0+]) {
        throttle_time_ms: i32                           [0+],
        error_code:       ErrorCode                     [0+],
        error_message:    Option<Str>                   [0+] nullable [0+],
        topics:           Vec<OngoingTopicReassignment> [0+],
    }

    /// The partitions of a topic.
    pub struct OngoingTopicReassignment {
        name:       Str                               [0+],
        partitions: Vec<OngoingPartitionReassignment> [0+],
    }

    /// A partition.
    pub struct OngoingPartitionReassignment {
        partition_index:   i32      [0+],
        replicas:          Vec<i32> [0+],
        adding_replicas:   Vec<i32> [0+],
        removing_replicas: Vec<i32> [0+],
    }
}
