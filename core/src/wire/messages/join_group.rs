//! JoinGroup (11): enter a classic group, or take part in its rebalance.

use alloc::vec::Vec;
use bytes::Bytes;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Enters a group.
    pub message JoinGroupRequest (JoinGroup, versions [0-9], flexible [6+]) {
        group_id:             Str                           [0+],
        /// After how long without a heartbeat the member is taken for dead.
        session_timeout_ms:   i32                           [0+],
        /// How long the others wait for it; version 0 means the session timeout.
        rebalance_timeout_ms: i32                           [1+]               = -1,
        /// Empty at first; then what MEMBER_ID_REQUIRED or the last answer said.
        member_id:            Str                           [0+],
        /// Null unless the member is static (KIP-345).
        group_instance_id:    Option<Str>                   [5+] nullable [5+] = None,
        /// `consumer`, or `connect`, or anything: the broker only compares.
        protocol_type:        Str                           [0+],
        /// In order of preference.
        protocols:            Vec<JoinGroupRequestProtocol> [0+],
        /// Why, for a person to read (KIP-800).
        reason:               Option<Str>                   [8+] nullable [8+] = None,
    }

    /// An assignor the member can work with, and what it tells the leader.
    pub struct JoinGroupRequestProtocol {
        name:     Str   [0+],
        metadata: Bytes [0+],
    }
}

message! {
    /// The new generation, once all members have joined.
    pub message JoinGroupResponse (JoinGroup, versions [0-9], flexible [6+]) {
        throttle_time_ms: i32                          [2+],
        error_code:       ErrorCode                    [0+],
        generation_id:    i32                          [0+]               = -1,
        protocol_type:    Option<Str>                  [7+] nullable [7+] = None,
        /// The assignor chosen. Empty, and from version 7 on null, with an error.
        protocol_name:    Option<Str>                  [0+] nullable [7+],
        leader:           Str                          [0+],
        /// Whether the leader shall keep the assignment as it is (KIP-814).
        skip_assignment:  bool                         [9+],
        member_id:        Str                          [0+],
        /// Empty for all but the leader.
        members:          Vec<JoinGroupResponseMember> [0+],
    }

    /// A member, as the leader sees it.
    pub struct JoinGroupResponseMember {
        member_id:         Str         [0+],
        group_instance_id: Option<Str> [5+] nullable [5+] = None,
        metadata:          Bytes       [0+],
    }
}
