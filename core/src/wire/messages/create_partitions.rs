//! CreatePartitions (37): add partitions to topics (KIP-195).

use alloc::vec::Vec;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Adds partitions to topics.
    pub message CreatePartitionsRequest (CreatePartitions, versions [0-3], flexible [2+]) {
        topics:        Vec<CreatePartitionsTopic> [0+],
        timeout_ms:    i32                        [0+],
        validate_only: bool                       [0+],
    }

    /// A topic and how many partitions it shall have.
    pub struct CreatePartitionsTopic {
        name:        Str                                     [0+],
        /// The new total.
        count:       i32                                     [0+],
        /// Null to let the broker choose.
        assignments: Option<Vec<CreatePartitionsAssignment>> [0+] nullable [0+],
    }

    /// On which brokers a new partition shall be.
    pub struct CreatePartitionsAssignment {
        broker_ids: Vec<i32> [0+],
    }
}

message! {
    /// What became of each topic.
    pub message CreatePartitionsResponse (CreatePartitions, versions [0-3], flexible [2+]) {
        throttle_time_ms: i32                              [0+],
        results:          Vec<CreatePartitionsTopicResult> [0+],
    }

    /// The outcome for one topic.
    pub struct CreatePartitionsTopicResult {
        name:          Str         [0+],
        error_code:    ErrorCode   [0+],
        error_message: Option<Str> [0+] nullable [0+] = None,
    }
}
