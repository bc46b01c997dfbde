//! GroupMetadata (2): a classic group.

use alloc::vec::Vec;
use bytes::Bytes;

use crate::wire::text::Str;

data! {
    /// The group.
    pub data GroupMetadataKey (versions [0]) {
        group: Str [0],
    }
}

data! {
    /// Its generation and its members.
    pub data GroupMetadataValue (versions [0-4], flexible [4+]) {
        protocol_type:           Str                 [0+],
        generation:              i32                 [0+],
        /// The assignor chosen; null while the group has no members.
        protocol:                Option<Str>         [0+] nullable [0+],
        /// Null while the group has no members.
        leader:                  Option<Str>         [0+] nullable [0+],
        /// When the group came into its state, in milliseconds; -1 if unknown.
        current_state_timestamp: i64                 [2+]               = -1,
        members:                 Vec<MemberMetadata> [0+],
    }

    /// A member.
    pub struct MemberMetadata {
        member_id:         Str         [0+],
        group_instance_id: Option<Str> [3+] nullable [3+] = None,
        client_id:         Str         [0+],
        client_host:       Str         [0+],
        /// Milliseconds; -1 for the session timeout.
        rebalance_timeout: i32         [1+]               = -1,
        /// Milliseconds.
        session_timeout:   i32         [0+],
        subscription:      Bytes       [0+],
        assignment:        Bytes       [0+],
    }
}
