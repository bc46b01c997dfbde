//! Fetch (1): read record batches, waiting for them if there are none.

use alloc::vec::Vec;

use crate::ids::TopicId;
use crate::wire::error_code::ErrorCode;
use crate::wire::records::Records;
use crate::wire::text::Str;

message! {
    /// Reads record batches. From version 13 on topics are named by id; from version 7 on a session
    /// may be kept (KIP-227).
    pub message FetchRequest (Fetch, versions [4-18], flexible [12+]) {
        /// Null if the fetcher does not know it.
        cluster_id:            Option<Str>         [12+]  nullable [12+] tag 0 = None,
        /// -1 for a consumer, else the id of the follower.
        replica_id:            i32                 [0-14]                      = -1,
        replica_state:         ReplicaState        [15+]                 tag 1,
        /// How long to wait for `min_bytes`.
        max_wait_ms:           i32                 [0+],
        min_bytes:             i32                 [0+],
        /// Limit for all partitions; the first batch of the first non-empty one ignores it
        /// (KIP-74).
        max_bytes:             i32                 [3+]                        = i32::MAX,
        /// 0: read uncommitted; 1: read committed.
        isolation_level:       i8                  [4+],
        /// 0 if there is none.
        session_id:            i32                 [7+],
        /// 0 opens a session, -1 closes it or wants none.
        session_epoch:         i32                 [7+]                        = -1,
        topics:                Vec<FetchTopic>     [0+],
        forgotten_topics_data: Vec<ForgottenTopic> [7+],
        /// Empty if unknown.
        rack_id:               Str                 [11+],
    }

    /// Who a follower is, from version 15 on (KIP-903).
    pub struct ReplicaState {
        /// -1 for a consumer, else the id of the follower.
        replica_id:    i32 [15+] = -1,
        /// -1 if not known.
        replica_epoch: i64 [15+] = -1,
    }

    /// What to read of one topic.
    pub struct FetchTopic {
        topic:      Str                 [0-12],
        topic_id:   TopicId             [13+],
        partitions: Vec<FetchPartition> [0+],
    }

    /// What to read of one partition.
    pub struct FetchPartition {
        partition:            i32     [0+],
        /// The epoch the client knows, -1 if none; fences it against a newer leader.
        current_leader_epoch: i32     [9+]        = -1,
        fetch_offset:         i64     [0+],
        /// The epoch of the last record the fetcher has, -1 if none.
        last_fetched_epoch:   i32     [12+]       = -1,
        /// The follower's log start offset; -1 for a consumer.
        log_start_offset:     i64     [5+]        = -1,
        partition_max_bytes:  i32     [0+],
        replica_directory_id: TopicId [17+] tag 0,
        /// What the follower knows, -1 if nothing, `i64::MAX` if it does not send it (KIP-1166).
        high_watermark:       i64     [18+] tag 1 = i64::MAX,
    }

    /// Partitions that the session no longer reads.
    pub struct ForgottenTopic {
        topic:      Str      [7-12],
        topic_id:   TopicId  [13+],
        partitions: Vec<i32> [7+],
    }
}

message! {
    /// Record batches of each partition.
    pub message FetchResponse (Fetch, versions [4-18], flexible [12+]) {
        throttle_time_ms: i32                         [1+],
        error_code:       ErrorCode                   [7+],
        /// 0 if there is no session.
        session_id:       i32                         [7+],
        responses:        Vec<FetchableTopicResponse> [0+],
        node_endpoints:   Vec<NodeEndpoint>           [16+] tag 0,
    }

    /// What one topic has.
    pub struct FetchableTopicResponse {
        topic:      Str                [0-12],
        topic_id:   TopicId            [13+],
        partitions: Vec<PartitionData> [0+],
    }

    /// What one partition has.
    pub struct PartitionData {
        partition_index:        i32                             [0+],
        error_code:             ErrorCode                       [0+],
        high_watermark:         i64                             [0+],
        /// The end of what transactions have decided, -1 if unknown.
        last_stable_offset:     i64                             [4+]                      = -1,
        log_start_offset:       i64                             [5+]                      = -1,
        diverging_epoch:        EpochEndOffset                  [12+]               tag 0,
        current_leader:         LeaderIdAndEpoch                [12+]               tag 1,
        snapshot_id:            SnapshotId                      [12+]               tag 2,
        /// Null if the request was to read uncommitted.
        aborted_transactions:   Option<Vec<AbortedTransaction>> [4+]  nullable [4+],
        /// -1 if it is the leader (KIP-392).
        preferred_read_replica: i32                             [11+]                     = -1,
        /// Whole batches. Clients take null for a fault: nothing to read is an empty range.
        records:                Option<Records>                 [0+]  nullable [0+]       = None,
    }

    /// Where the logs of follower and leader part (KIP-595).
    pub struct EpochEndOffset {
        epoch:      i32 [12+] = -1,
        /// Its end, exclusive, -1 if there is none.
        end_offset: i64 [12+] = -1,
    }

    /// The leader to read from instead.
    pub struct LeaderIdAndEpoch {
        leader_id:    i32 [12+] = -1,
        leader_epoch: i32 [12+] = -1,
    }

    /// The snapshot to read instead of the log (KIP-630).
    pub struct SnapshotId {
        end_offset: i64 [0+] = -1,
        epoch:      i32 [0+] = -1,
    }

    /// An aborted transaction among the records (KIP-98).
    pub struct AbortedTransaction {
        producer_id:  i64 [4+],
        first_offset: i64 [4+],
    }

    /// Where a leader named above is (KIP-951).
    pub struct NodeEndpoint {
        node_id: i32         [16+],
        host:    Str         [16+],
        port:    i32         [16+],
        rack:    Option<Str> [16+] nullable [16+] = None,
    }
}
