//! ApiVersions (KIP-35, KIP-511): what is served here.

use alloc::vec::Vec;

use crate::broker::State;
use crate::connection::RequestId;
use crate::wire::messages::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};
use crate::wire::{ApiKey, ErrorCode};

pub(super) fn handle(state: &mut State, id: RequestId, version: i16, request: &ApiVersionsRequest) {
    let valid = version < 3
        || is_valid_software(&request.client_software_name)
            && is_valid_software(&request.client_software_version);
    let response = if valid {
        ApiVersionsResponse {
            api_keys: served(),
            ..Default::default()
        }
    } else {
        ApiVersionsResponse {
            error_code: ErrorCode::INVALID_REQUEST,
            ..Default::default()
        }
    };
    state.answer(id, response);
}

/// The answer to a version that is not served, in the form of version 0: which versions are.
pub(super) fn unsupported_version() -> ApiVersionsResponse {
    let supported = ApiKey::ApiVersions.versions();
    ApiVersionsResponse {
        error_code: ErrorCode::UNSUPPORTED_VERSION,
        api_keys: alloc::vec![ApiVersion {
            api_key: ApiKey::ApiVersions.key(),
            min_version: supported.min,
            max_version: supported.max,
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn served() -> Vec<ApiVersion> {
    let entry = |api: &ApiKey| {
        let advertised = api.advertised();
        ApiVersion {
            api_key: api.key(),
            min_version: advertised.min,
            max_version: advertised.max,
            ..Default::default()
        }
    };
    ApiKey::ALL.iter().map(entry).collect()
}

/// KIP-511: letters, digits, dots and dashes, beginning and ending with a letter or digit.
fn is_valid_software(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}
