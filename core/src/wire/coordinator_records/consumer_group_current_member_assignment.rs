//! ConsumerGroupCurrentMemberAssignment (8): what a member owns now.

use alloc::vec::Vec;

use crate::ids::TopicId;
use crate::wire::text::Str;

data! {
    /// The group and the member.
    pub data ConsumerGroupCurrentMemberAssignmentKey (versions [0]) {
        group_id:  Str [0],
        member_id: Str [0],
    }
}

data! {
    /// The member's epoch and its partitions.
    pub data ConsumerGroupCurrentMemberAssignmentValue (versions [0], flexible [0+]) {
        member_epoch:                  i32                  [0+],
        /// The epoch before the last change: a member that missed it may still use it.
        previous_member_epoch:         i32                  [0+],
        /// 0 stable, 1 unrevoked partitions, 2 unreleased partitions, 127 unknown.
        state:                         i8                   [0+],
        assigned_partitions:           Vec<TopicPartitions> [0+],
        partitions_pending_revocation: Vec<TopicPartitions> [0+],
    }

    /// Partitions of one topic.
    pub struct TopicPartitions {
        topic_id:          TopicId          [0+],
        partitions:        Vec<i32>         [0+],
        /// The member epoch at which each partition was assigned; null if
        /// unknown. Begins empty, so it must be set.
        assignment_epochs: Option<Vec<i32>> [0+] nullable [0+] tag 0,
    }
}
