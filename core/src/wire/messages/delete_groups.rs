//! DeleteGroups (42): delete empty groups and their offsets (KIP-229).

use alloc::vec::Vec;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Deletes groups.
    pub message DeleteGroupsRequest (DeleteGroups, versions [0-2], flexible [2+]) {
        groups_names: Vec<Str> [0+],
    }
}

message! {
    /// What became of each group.
    pub message DeleteGroupsResponse (DeleteGroups, versions [0-2], flexible [2+]) {
        throttle_time_ms: i32                       [0+],
        results:          Vec<DeletableGroupResult> [0+],
    }

    /// The outcome for one group.
    pub struct DeletableGroupResult {
        group_id:   Str       [0+],
        error_code: ErrorCode [0+],
    }
}
