//! OffsetCommit (1): how far a group has read a partition.

use crate::ids::TopicId;
use crate::wire::text::Str;

data! {
    /// The group and the partition.
    pub data OffsetCommitKey (versions [0]) {
        group:     Str [0],
        topic:     Str [0],
        partition: i32 [0],
    }
}

data! {
    /// The offset. Without a value, there is none any more.
    pub data OffsetCommitValue (versions [0-4], flexible [4+]) {
        offset:           i64     [0+],
        /// -1 if unknown.
        leader_epoch:     i32     [3+]       = -1,
        metadata:         Str     [0+],
        /// Milliseconds.
        commit_timestamp: i64     [0+],
        /// Milliseconds; -1 if the broker's retention holds.
        expire_timestamp: i64     [1]        = -1,
        /// Zero if unknown.
        topic_id:         TopicId [4+] tag 0,
    }
}
