//! SyncGroup (14): the leader hands out the assignment, everybody gets theirs.

use alloc::vec::Vec;
use bytes::Bytes;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Asks for the assignment; the leader brings it.
    pub message SyncGroupRequest (SyncGroup, versions [0-5], flexible [4+]) {
        group_id:          Str                             [0+],
        generation_id:     i32                             [0+],
        member_id:         Str                             [0+],
        /// Null unless the member is static (KIP-345).
        group_instance_id: Option<Str>                     [3+] nullable [3+] = None,
        protocol_type:     Option<Str>                     [5+] nullable [5+] = None,
        /// Checked against the group's if not null (KIP-559).
        protocol_name:     Option<Str>                     [5+] nullable [5+] = None,
        /// Empty from all but the leader.
        assignments:       Vec<SyncGroupRequestAssignment> [0+],
    }

    /// What one member gets.
    pub struct SyncGroupRequestAssignment {
        member_id:  Str   [0+],
        assignment: Bytes [0+],
    }
}

message! {
    /// What this member got.
    pub message SyncGroupResponse (SyncGroup, versions [0-5], flexible [4+]) {
        throttle_time_ms: i32         [1+],
        error_code:       ErrorCode   [0+],
        protocol_type:    Option<Str> [5+] nullable [5+] = None,
        protocol_name:    Option<Str> [5+] nullable [5+] = None,
        assignment:       Bytes       [0+],
    }
}
