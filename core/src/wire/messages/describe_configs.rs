//! DescribeConfigs (32): configs with their values, defaults and sources (KIP-226).

use alloc::vec::Vec;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Asks for the configs of resources.
    pub message DescribeConfigsRequest (DescribeConfigs, versions [1-4], flexible [4+]) {
        resources:             Vec<DescribeConfigsResource> [0+],
        include_synonyms:      bool                         [1+],
        include_documentation: bool                         [3+],
    }

    /// A resource and which of its configs.
    pub struct DescribeConfigsResource {
        /// 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group.
        resource_type:      i8               [0+],
        resource_name:      Str              [0+],
        /// Null for all.
        configuration_keys: Option<Vec<Str>> [0+] nullable [0+],
    }
}

message! {
    /// The configs of each resource.
    pub message DescribeConfigsResponse (DescribeConfigs, versions [1-4], flexible [4+]) {
        throttle_time_ms: i32                        [0+],
        results:          Vec<DescribeConfigsResult> [0+],
    }

    /// The configs of one resource.
    pub struct DescribeConfigsResult {
        error_code:    ErrorCode                          [0+],
        error_message: Option<Str>                        [0+] nullable [0+],
        resource_type: i8                                 [0+],
        resource_name: Str                                [0+],
        configs:       Vec<DescribeConfigsResourceResult> [0+],
    }

    /// A config.
    pub struct DescribeConfigsResourceResult {
        name:          Str                         [0+],
        value:         Option<Str>                 [0+] nullable [0+],
        read_only:     bool                        [0+],
        /// 1 topic, 2 this broker, 3 default for all brokers, 4 broker's file, 5 default, 6 broker
        /// logger, 7 client metrics, 8 group.
        config_source: i8                          [1+]               = -1,
        is_sensitive:  bool                        [0+],
        synonyms:      Vec<DescribeConfigsSynonym> [1+],
        /// 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password.
        config_type:   i8                          [3+],
        documentation: Option<Str>                 [3+] nullable [0+],
    }

    /// A place where the config could be set, the one in force first.
    pub struct DescribeConfigsSynonym {
        name:   Str         [1+],
        value:  Option<Str> [1+] nullable [0+],
        source: i8          [1+],
    }
}
