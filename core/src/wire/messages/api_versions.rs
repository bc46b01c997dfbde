//! ApiVersions (18): which APIs the broker serves, in which versions.

use alloc::vec::Vec;

use crate::wire::error_code::ErrorCode;
use crate::wire::text::Str;

message! {
    /// Asks which APIs the broker serves (KIP-35, KIP-511).
    pub message ApiVersionsRequest (ApiVersions, versions [0-4], flexible [3+]) {
        client_software_name:    Str [3+],
        client_software_version: Str [3+],
    }
}

message! {
    /// The APIs and their versions, and the cluster's features (KIP-584).
    pub message ApiVersionsResponse (ApiVersions, versions [0-4], flexible [3+]) {
        error_code:               ErrorCode                [0+],
        api_keys:                 Vec<ApiVersion>          [0+],
        throttle_time_ms:         i32                      [1+],
        /// Below version 4 without features that begin at 0 (KIP-584).
        supported_features:       Vec<SupportedFeatureKey> [3+] tag 0,
        /// -1 if unknown.
        finalized_features_epoch: i64                      [3+] tag 1 = -1,
        finalized_features:       Vec<FinalizedFeatureKey> [3+] tag 2,
        zk_migration_ready:       bool                     [3+] tag 3,
    }

    /// An API and the versions it is served in, both ends included.
    pub struct ApiVersion {
        api_key:     i16 [0+],
        min_version: i16 [0+],
        max_version: i16 [0+],
    }

    /// A feature that the broker supports.
    pub struct SupportedFeatureKey {
        name:        Str [3+],
        min_version: i16 [3+],
        max_version: i16 [3+],
    }

    /// A feature that the cluster uses.
    pub struct FinalizedFeatureKey {
        name:              Str [3+],
        max_version_level: i16 [3+],
        min_version_level: i16 [3+],
    }
}
