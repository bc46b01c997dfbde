//! DescribeLogDirs (35): sizes of partitions on disk (KIP-113).

use alloc::vec::Vec;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Asks what lies in the broker's log directories.
    pub message DescribeLogDirsRequest (DescribeLogDirs, versions [1-5], flexible [2+]) {
        /// Null for all.
        topics: Option<Vec<DescribableLogDirTopic>> [0+] nullable [0+],
    }

    /// A topic and which of its partitions.
    pub struct DescribableLogDirTopic {
        topic:      Str      [0+],
        partitions: Vec<i32> [0+],
    }
}

message! {
    /// The log directories.
    pub message DescribeLogDirsResponse (DescribeLogDirs, versions [1-5], flexible [2+]) {
        throttle_time_ms: i32                        [0+],
        error_code:       ErrorCode                  [3+],
        results:          Vec<DescribeLogDirsResult> [0+],
    }

    /// A log directory.
    pub struct DescribeLogDirsResult {
        error_code:   ErrorCode                 [0+],
        /// Its absolute path.
        log_dir:      Str                       [0+],
        topics:       Vec<DescribeLogDirsTopic> [0+],
        /// Size of the volume, -1 if unknown.
        total_bytes:  i64                       [4+] = -1,
        /// Free bytes of the volume, -1 if unknown.
        usable_bytes: i64                       [4+] = -1,
        is_cordoned:  bool                      [5+],
    }

    /// A topic in the directory.
    pub struct DescribeLogDirsTopic {
        name:       Str                           [0+],
        partitions: Vec<DescribeLogDirsPartition> [0+],
    }

    /// A partition in the directory.
    pub struct DescribeLogDirsPartition {
        partition_index: i32  [0+],
        /// Bytes of its segments.
        partition_size:  i64  [0+],
        /// How far the log end is ahead of the high watermark.
        offset_lag:      i64  [0+],
        /// Whether it is a copy under way to another directory.
        is_future_key:   bool [0+],
    }
}
