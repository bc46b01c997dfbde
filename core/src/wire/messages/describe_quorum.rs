//! DescribeQuorum (55): the quorum behind the metadata log (KIP-595, KIP-836, KIP-853).

use alloc::vec::Vec;

use crate::ids::TopicId;
use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Asks about logs that are kept by a quorum, of which there is one: `__cluster_metadata`.
    pub message DescribeQuorumRequest (DescribeQuorum, versions [0-2], flexible [0+]) {
        topics: Vec<TopicRequest> [0+],
    }

    /// A topic and which of its partitions.
    pub struct TopicRequest {
        topic_name: Str                   [0+],
        partitions: Vec<PartitionRequest> [0+],
    }

    /// A partition.
    pub struct PartitionRequest {
        partition_index: i32 [0+],
    }
}

message! {
    /// Who keeps them.
    pub message DescribeQuorumResponse (DescribeQuorum, versions [0-2], flexible [0+]) {
        error_code:    ErrorCode      [0+],
        error_message: Option<Str>    [2+] nullable [2+],
        topics:        Vec<TopicData> [0+],
        nodes:         Vec<Node>      [2+],
    }

    /// The partitions of a topic.
    pub struct TopicData {
        topic_name: Str                [0+],
        partitions: Vec<PartitionData> [0+],
    }

    /// A partition's quorum.
    pub struct PartitionData {
        partition_index: i32               [0+],
        error_code:      ErrorCode         [0+],
        error_message:   Option<Str>       [2+] nullable [2+],
        /// -1 if nobody knows.
        leader_id:       i32               [0+],
        leader_epoch:    i32               [0+],
        high_watermark:  i64               [0+],
        current_voters:  Vec<ReplicaState> [0+],
        observers:       Vec<ReplicaState> [0+],
    }

    /// How far a replica is.
    pub struct ReplicaState {
        replica_id:               i32     [0+],
        /// A UUID like a topic's.
        replica_directory_id:     TopicId [2+],
        /// -1 if unknown.
        log_end_offset:           i64     [0+],
        /// When it fetched last, by the leader's wall clock; -1 if unknown.
        last_fetch_timestamp:     i64     [1+] = -1,
        /// When what it has fetched was appended, by the leader's wall clock; -1 if unknown.
        last_caught_up_timestamp: i64     [1+] = -1,
    }

    /// A node of the quorum.
    pub struct Node {
        node_id:   i32           [2+],
        listeners: Vec<Listener> [2+],
    }

    /// Where it listens.
    pub struct Listener {
        name: Str [2+],
        host: Str [2+],
        port: u16 [2+],
    }
}
