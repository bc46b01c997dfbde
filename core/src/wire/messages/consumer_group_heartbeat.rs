//! ConsumerGroupHeartbeat (68): join, stay in, and leave a consumer group (KIP-848).

use alloc::vec::Vec;

use crate::ids::TopicId;
use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// What a member wants and owns. After the first one, null means unchanged.
    pub message ConsumerGroupHeartbeatRequest
        (ConsumerGroupHeartbeat, versions [0-1], flexible [0+]) {
        group_id:               Str                          [0+],
        /// Made by the client; in version 0 empty at first, and made by the broker.
        member_id:              Str                          [0+],
        /// 0 to join, -1 to leave, -2 for a static member to leave for a while.
        member_epoch:           i32                          [0+],
        /// Null unless the member is static.
        instance_id:            Option<Str>                  [0+] nullable [0+] = None,
        rack_id:                Option<Str>                  [0+] nullable [0+] = None,
        /// How long the member may take to give up partitions; -1 for unchanged.
        rebalance_timeout_ms:   i32                          [0+]               = -1,
        subscribed_topic_names: Option<Vec<Str>>             [0+] nullable [0+] = None,
        /// In RE2/J's syntax; empty for none any more.
        subscribed_topic_regex: Option<Str>                  [1+] nullable [1+] = None,
        /// Null for the broker's choice.
        server_assignor:        Option<Str>                  [0+] nullable [0+] = None,
        /// What the member owns.
        topic_partitions:       Option<Vec<TopicPartitions>> [0+] nullable [0+] = None,
    }

    /// Partitions of one topic.
    pub struct TopicPartitions {
        topic_id:   TopicId  [0+],
        partitions: Vec<i32> [0+],
    }
}

message! {
    /// The member's epoch, and what it shall own.
    pub message ConsumerGroupHeartbeatResponse
        (ConsumerGroupHeartbeat, versions [0-1], flexible [0+]) {
        throttle_time_ms:      i32                [0+],
        error_code:            ErrorCode          [0+],
        error_message:         Option<Str>        [0+] nullable [0+] = None,
        member_id:             Option<Str>        [0+] nullable [0+] = None,
        member_epoch:          i32                [0+],
        heartbeat_interval_ms: i32                [0+],
        /// Null if it has not changed.
        assignment:            Option<Assignment> [0+] nullable [0+] = None,
    }

    /// What the member shall own.
    pub struct Assignment {
        topic_partitions: Vec<TopicPartitions> [0+],
    }
}
