//! ListGroups (16): the groups of a broker.

use alloc::vec::Vec;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Asks which groups there are.
    pub message ListGroupsRequest (ListGroups, versions [0-5], flexible [3+]) {
        /// Empty for all (KIP-518).
        states_filter: Vec<Str> [4+],
        /// Empty for all (KIP-848).
        types_filter:  Vec<Str> [5+],
    }
}

message! {
    /// The groups.
    pub message ListGroupsResponse (ListGroups, versions [0-5], flexible [3+]) {
        throttle_time_ms: i32              [1+],
        error_code:       ErrorCode        [0+],
        groups:           Vec<ListedGroup> [0+],
    }

    /// A group.
    pub struct ListedGroup {
        group_id:      Str [0+],
        /// Empty for a group without members that only stores offsets.
        protocol_type: Str [0+],
        group_state:   Str [4+],
        group_type:    Str [5+],
    }
}
