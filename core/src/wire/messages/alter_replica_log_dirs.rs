//! AlterReplicaLogDirs (34): move partitions between the log directories of a broker (KIP-113).

use alloc::vec::Vec;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Says what shall lie where.
    pub message AlterReplicaLogDirsRequest (AlterReplicaLogDirs, versions [1-2], flexible [2+]) {
        dirs: Vec<AlterReplicaLogDir> [0+],
    }

    /// What shall lie in a directory.
    pub struct AlterReplicaLogDir {
        /// Its absolute path.
        path:   Str                          [0+],
        topics: Vec<AlterReplicaLogDirTopic> [0+],
    }

    /// A topic and which of its partitions.
    pub struct AlterReplicaLogDirTopic {
        name:       Str      [0+],
        partitions: Vec<i32> [0+],
    }
}

message! {
    /// Whether it will.
    pub message AlterReplicaLogDirsResponse (AlterReplicaLogDirs, versions [1-2], flexible [2+]) {
        throttle_time_ms: i32                                [0+],
        results:          Vec<AlterReplicaLogDirTopicResult> [0+],
    }

    /// For a topic.
    pub struct AlterReplicaLogDirTopicResult {
        topic_name: Str                                     [0+],
        partitions: Vec<AlterReplicaLogDirPartitionResult> [0+],
    }

    /// For a partition.
    pub struct AlterReplicaLogDirPartitionResult {
        partition_index: i32       [0+],
        error_code:      ErrorCode [0+],
    }
}
