//! ConsumerGroupMemberMetadata (5): what a member of a consumer group wants.

use alloc::vec::Vec;
use bytes::Bytes;

use crate::wire::text::Str;

data! {
    /// The group and the member.
    pub data ConsumerGroupMemberMetadataKey (versions [0]) {
        group_id:  Str [0],
        member_id: Str [0],
    }
}

data! {
    /// What the member said last.
    pub data ConsumerGroupMemberMetadataValue (versions [0], flexible [0+]) {
        instance_id:             Option<Str>                   [0+] nullable [0+],
        rack_id:                 Option<Str>                   [0+] nullable [0+],
        client_id:               Str                           [0+],
        client_host:             Str                           [0+],
        subscribed_topic_names:  Vec<Str>                      [0+],
        subscribed_topic_regex:  Option<Str>                   [0+] nullable [0+],
        rebalance_timeout_ms:    i32                           [0+]                     = -1,
        server_assignor:         Option<Str>                   [0+] nullable [0+],
        /// Null unless the member uses the classic protocol; begins empty, so it must be set.
        classic_member_metadata: Option<ClassicMemberMetadata> [0+] nullable [0+] tag 0,
    }

    /// What is known of a member that uses the classic protocol.
    pub struct ClassicMemberMetadata {
        session_timeout_ms:  i32                  [0+],
        supported_protocols: Vec<ClassicProtocol> [0+],
    }

    /// An assignor of the classic protocol.
    pub struct ClassicProtocol {
        name:     Str   [0+],
        metadata: Bytes [0+],
    }
}
