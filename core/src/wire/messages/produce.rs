//! Produce (0): append record batches.

use alloc::vec::Vec;

use crate::ids::TopicId;
use crate::wire::error_code::ErrorCode;
use crate::wire::records::Records;
use crate::wire::text::Str;

message! {
    /// Appends record batches to partitions. From version 13 on topics are named by id.
    pub message ProduceRequest (Produce, versions [3-13], flexible [9+]) {
        /// Null unless the producer is transactional.
        transactional_id: Option<Str>           [3+] nullable [3+] = None,
        /// 0: no answer; 1: once the leader has the records; -1: once all in-sync replicas have
        /// them.
        acks:             i16                   [0+],
        /// How long the answer may wait for replicas.
        timeout_ms:       i32                   [0+],
        topic_data:       Vec<TopicProduceData> [0+],
    }

    /// What goes to one topic.
    pub struct TopicProduceData {
        name:           Str                       [0-12],
        topic_id:       TopicId                   [13+],
        partition_data: Vec<PartitionProduceData> [0+],
    }

    /// What goes to one partition.
    pub struct PartitionProduceData {
        index:   i32             [0+],
        /// Exactly one record batch v2 in all versions from 3 on.
        records: Option<Records> [0+] nullable [0+] = None,
    }
}

message! {
    /// What became of each partition's batches.
    pub message ProduceResponse (Produce, versions [3-13], flexible [9+]) {
        responses:        Vec<TopicProduceResponse> [0+],
        throttle_time_ms: i32                       [1+],
        node_endpoints:   Vec<NodeEndpoint>         [10+] tag 0,
    }

    /// The outcome for one topic.
    pub struct TopicProduceResponse {
        name:                Str                           [0-12],
        topic_id:            TopicId                       [13+],
        partition_responses: Vec<PartitionProduceResponse> [0+],
    }

    /// The outcome for one partition.
    pub struct PartitionProduceResponse {
        index:              i32                            [0+],
        error_code:         ErrorCode                      [0+],
        /// The offset of the first record, -1 with an error.
        base_offset:        i64                            [0+],
        /// -1 if the topic keeps the producer's timestamps.
        log_append_time_ms: i64                            [2+]                      = -1,
        log_start_offset:   i64                            [5+]                      = -1,
        record_errors:      Vec<BatchIndexAndErrorMessage> [8+],
        /// What is wrong, for a person to read.
        error_message:      Option<Str>                    [8+]  nullable [8+]       = None,
        current_leader:     LeaderIdAndEpoch               [10+]               tag 0,
    }

    /// A record that caused its batch to be refused (KIP-467).
    pub struct BatchIndexAndErrorMessage {
        /// Its place in the batch, from 0.
        batch_index:               i32         [8+],
        batch_index_error_message: Option<Str> [8+] nullable [8+] = None,
    }

    /// The leader to send to instead (KIP-951).
    pub struct LeaderIdAndEpoch {
        leader_id:    i32 [10+] = -1,
        leader_epoch: i32 [10+] = -1,
    }

    /// Where a leader named above is (KIP-951).
    pub struct NodeEndpoint {
        node_id: i32         [10+],
        host:    Str         [10+],
        port:    i32         [10+],
        rack:    Option<Str> [10+] nullable [10+] = None,
    }
}
