//! Heartbeat (12): a member of a classic group is alive.

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Keeps a member alive.
    pub message HeartbeatRequest (Heartbeat, versions [0-4], flexible [4+]) {
        group_id:          Str         [0+],
        generation_id:     i32         [0+],
        member_id:         Str         [0+],
        /// Null unless the member is static (KIP-345).
        group_instance_id: Option<Str> [3+] nullable [3+] = None,
    }
}

message! {
    /// Whether all is well, or what to do.
    pub message HeartbeatResponse (Heartbeat, versions [0-4], flexible [4+]) {
        throttle_time_ms: i32       [1+],
        error_code:       ErrorCode [0+],
    }
}
