//! ConsumerGroupDescribe (69): consumer groups and their members (KIP-848).

use alloc::vec::Vec;

use crate::ids::TopicId;
use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Asks for consumer groups.
    pub message ConsumerGroupDescribeRequest
        (ConsumerGroupDescribe, versions [0-1], flexible [0+]) {
        group_ids:                     Vec<Str> [0+],
        include_authorized_operations: bool     [0+],
    }
}

message! {
    /// The groups.
    pub message ConsumerGroupDescribeResponse
        (ConsumerGroupDescribe, versions [0-1], flexible [0+]) {
        throttle_time_ms: i32                 [0+],
        groups:           Vec<DescribedGroup> [0+],
    }

    /// A group.
    pub struct DescribedGroup {
        error_code:            ErrorCode   [0+],
        error_message:         Option<Str> [0+] nullable [0+] = None,
        group_id:              Str         [0+],
        group_state:           Str         [0+],
        group_epoch:           i32         [0+],
        assignment_epoch:      i32         [0+],
        assignor_name:         Str         [0+],
        members:               Vec<Member> [0+],
        /// A bit field, `i32::MIN` unless asked for.
        authorized_operations: i32         [0+]               = i32::MIN,
    }

    /// A member of the group.
    pub struct Member {
        member_id:              Str         [0+],
        instance_id:            Option<Str> [0+] nullable [0+] = None,
        rack_id:                Option<Str> [0+] nullable [0+] = None,
        member_epoch:           i32         [0+],
        client_id:              Str         [0+],
        client_host:            Str         [0+],
        subscribed_topic_names: Vec<Str>    [0+],
        subscribed_topic_regex: Option<Str> [0+] nullable [0+] = None,
        assignment:             Assignment  [0+],
        target_assignment:      Assignment  [0+],
        /// 0 classic, 1 consumer, -1 unknown.
        member_type:            i8          [1+]               = -1,
    }

    /// Partitions that a member owns, or shall own.
    pub struct Assignment {
        topic_partitions: Vec<TopicPartitions> [0+],
    }

    /// Partitions of one topic.
    pub struct TopicPartitions {
        topic_id:   TopicId  [0+],
        topic_name: Str      [0+],
        partitions: Vec<i32> [0+],
    }
}
