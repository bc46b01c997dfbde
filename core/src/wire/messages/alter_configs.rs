//! AlterConfigs (33): replace all configs of a resource (KIP-133).

use alloc::vec::Vec;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Replaces all configs of resources.
    pub message AlterConfigsRequest (AlterConfigs, versions [0-2], flexible [2+]) {
        resources:     Vec<AlterConfigsResource> [0+],
        validate_only: bool                      [0+],
    }

    /// A resource and all its configs.
    pub struct AlterConfigsResource {
        /// 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group.
        resource_type: i8                   [0+],
        resource_name: Str                  [0+],
        configs:       Vec<AlterableConfig> [0+],
    }

    /// A config to set; what is not named goes back to its default.
    pub struct AlterableConfig {
        name:  Str         [0+],
        value: Option<Str> [0+] nullable [0+],
    }
}

message! {
    /// What became of each resource.
    pub message AlterConfigsResponse (AlterConfigs, versions [0-2], flexible [2+]) {
        throttle_time_ms: i32                               [0+],
        responses:        Vec<AlterConfigsResourceResponse> [0+],
    }

    /// The outcome for one resource.
    pub struct AlterConfigsResourceResponse {
        error_code:    ErrorCode   [0+],
        error_message: Option<Str> [0+] nullable [0+],
        resource_type: i8          [0+],
        resource_name: Str         [0+],
    }
}
