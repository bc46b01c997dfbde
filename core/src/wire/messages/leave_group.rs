//! LeaveGroup (13): members leave a classic group, or are removed from it.

use alloc::vec::Vec;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Takes members out: the sender, from version 3 on any (KIP-345).
    pub message LeaveGroupRequest (LeaveGroup, versions [0-5], flexible [4+]) {
        group_id:  Str                 [0+],
        member_id: Str                 [0-2],
        members:   Vec<MemberIdentity> [3+],
    }

    /// A member to take out.
    pub struct MemberIdentity {
        member_id:         Str         [3+],
        /// Null unless the member is static.
        group_instance_id: Option<Str> [3+] nullable [3+] = None,
        /// Why, for a person to read (KIP-800).
        reason:            Option<Str> [5+] nullable [5+] = None,
    }
}

message! {
    /// What became of each member.
    pub message LeaveGroupResponse (LeaveGroup, versions [0-5], flexible [4+]) {
        throttle_time_ms: i32                 [1+],
        error_code:       ErrorCode           [0+],
        members:          Vec<MemberResponse> [3+],
    }

    /// The outcome for one member.
    pub struct MemberResponse {
        member_id:         Str         [3+],
        group_instance_id: Option<Str> [3+] nullable [3+],
        error_code:        ErrorCode   [3+],
    }
}
