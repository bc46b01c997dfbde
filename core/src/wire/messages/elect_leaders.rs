//! ElectLeaders (43): have leaders elected (KIP-183, KIP-460).

use alloc::vec::Vec;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Asks for elections.
    pub message ElectLeadersRequest (ElectLeaders, versions [0-2], flexible [2+]) {
        /// 0 for the preferred replica, 1 for the first one alive, in sync or not.
        election_type:    i8                           [1+],
        /// Null for all.
        topic_partitions: Option<Vec<TopicPartitions>> [0+] nullable [0+],
        timeout_ms:       i32                          [0+] = 60_000,
    }

    /// A topic and which of its partitions.
    pub struct TopicPartitions {
        topic:      Str      [0+],
        partitions: Vec<i32> [0+],
    }
}

message! {
    /// How the elections went.
    pub message ElectLeadersResponse (ElectLeaders, versions [0-2], flexible [2+]) {
        throttle_time_ms:         i32                        [0+],
        error_code:               ErrorCode                  [1+],
        replica_election_results: Vec<ReplicaElectionResult> [0+],
    }

    /// Those of a topic.
    pub struct ReplicaElectionResult {
        topic:            Str                  [0+],
        partition_result: Vec<PartitionResult> [0+],
    }

    /// That of a partition.
    pub struct PartitionResult {
        partition_id:  i32         [0+],
        error_code:    ErrorCode   [0+],
        error_message: Option<Str> [0+] nullable [0+],
    }
}
