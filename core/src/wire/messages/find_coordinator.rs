//! FindCoordinator (10): which broker looks after a group or a transactional id.

use alloc::vec::Vec;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Asks for coordinators: for one key, from version 4 on for several (KIP-699).
    pub message FindCoordinatorRequest (FindCoordinator, versions [0-6], flexible [3+]) {
        key:              Str      [0-3],
        /// 0 group, 1 transaction, 2 share group partition.
        key_type:         i8       [1+],
        coordinator_keys: Vec<Str> [4+],
    }
}

message! {
    /// The coordinators.
    pub message FindCoordinatorResponse (FindCoordinator, versions [0-6], flexible [3+]) {
        throttle_time_ms: i32              [1+],
        error_code:       ErrorCode        [0-3],
        error_message:    Option<Str>      [1-3] nullable [1-3],
        node_id:          i32              [0-3],
        host:             Str              [0-3],
        port:             i32              [0-3],
        coordinators:     Vec<Coordinator> [4+],
    }

    /// The coordinator of one key.
    pub struct Coordinator {
        key:           Str         [4+],
        node_id:       i32         [4+],
        host:          Str         [4+],
        port:          i32         [4+],
        error_code:    ErrorCode   [4+],
        error_message: Option<Str> [4+] nullable [4+],
    }
}
