//! ListConfigResources (74): which resources have configs (KIP-1142).

use alloc::vec::Vec;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Asks which resources have configs. Version 0 asks for client metrics only.
    pub message ListConfigResourcesRequest (ListConfigResources, versions [0-1], flexible [0+]) {
        /// Empty for all.
        resource_types: Vec<i8> [1+],
    }
}

message! {
    /// The resources.
    pub message ListConfigResourcesResponse (ListConfigResources, versions [0-1], flexible [0+]) {
        throttle_time_ms: i32                 [0+],
        error_code:       ErrorCode           [0+],
        config_resources: Vec<ConfigResource> [0+],
    }

    /// A resource.
    pub struct ConfigResource {
        resource_name: Str [0+],
        resource_type: i8  [1+] = 16,
    }
}
