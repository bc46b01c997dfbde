//! IncrementalAlterConfigs (44): change single configs of a resource (KIP-339).

use alloc::vec::Vec;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Changes single configs of resources.
    pub message IncrementalAlterConfigsRequest (IncrementalAlterConfigs, versions [0-1], flexible [1+]) {
        resources:     Vec<AlterConfigsResource> [0+],
        validate_only: bool                      [0+],
    }

    /// A resource and the changes to its configs.
    pub struct AlterConfigsResource {
        /// 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group.
        resource_type: i8                   [0+],
        resource_name: Str                  [0+],
        configs:       Vec<AlterableConfig> [0+],
    }

    /// A change to a config.
    pub struct AlterableConfig {
        name:             Str         [0+],
        /// 0 set, 1 delete, 2 append, 3 subtract.
        config_operation: i8          [0+],
        value:            Option<Str> [0+] nullable [0+],
    }
}

message! {
    /// What became of each resource.
    pub message IncrementalAlterConfigsResponse (IncrementalAlterConfigs, versions [0-1], flexible [1+]) {
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
