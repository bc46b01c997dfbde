//! ConsumerGroupTargetAssignmentMember (7): what a member shall own in the end.

use alloc::vec::Vec;

use crate::ids::TopicId;
use crate::wire::text::Str;

data! {
    /// The group and the member.
    pub data ConsumerGroupTargetAssignmentMemberKey (versions [0]) {
        group_id:  Str [0],
        member_id: Str [0],
    }
}

data! {
    /// The partitions.
    pub data ConsumerGroupTargetAssignmentMemberValue (versions [0], flexible [0+]) {
        topic_partitions: Vec<TopicPartition> [0+],
    }

    /// Partitions of one topic.
    pub struct TopicPartition {
        topic_id:   TopicId  [0+],
        partitions: Vec<i32> [0+],
    }
}
