//! DescribeGroups (15): classic groups and their members.

use alloc::vec::Vec;
use bytes::Bytes;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Asks for groups.
    pub message DescribeGroupsRequest (DescribeGroups, versions [0-6], flexible [5+]) {
        groups:                        Vec<Str> [0+],
        include_authorized_operations: bool     [3+],
    }
}

message! {
    /// The groups.
    pub message DescribeGroupsResponse (DescribeGroups, versions [0-6], flexible [5+]) {
        throttle_time_ms: i32                 [1+],
        groups:           Vec<DescribedGroup> [0+],
    }

    /// A group.
    pub struct DescribedGroup {
        error_code:            ErrorCode                 [0+],
        error_message:         Option<Str>               [6+] nullable [6+] = None,
        group_id:              Str                       [0+],
        group_state:           Str                       [0+],
        protocol_type:         Str                       [0+],
        protocol_data:         Str                       [0+],
        members:               Vec<DescribedGroupMember> [0+],
        /// A bit field, `i32::MIN` unless asked for.
        authorized_operations: i32                       [3+]               = i32::MIN,
    }

    /// A member of the group.
    pub struct DescribedGroupMember {
        member_id:         Str         [0+],
        group_instance_id: Option<Str> [4+] nullable [4+] = None,
        client_id:         Str         [0+],
        client_host:       Str         [0+],
        /// What the member told the leader, for the assignor in use.
        member_metadata:   Bytes       [0+],
        member_assignment: Bytes       [0+],
    }
}
