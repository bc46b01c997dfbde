//! ListConfigResources (KIP-1142): what has configs. Version 0 asks for client metrics only, of
//! which there are none.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::describe_configs::{BROKER, GROUP, TOPIC};
use crate::broker::State;
use crate::connection::RequestId;
use crate::wire::ErrorCode;
use crate::wire::messages::list_config_resources::{
    ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse,
};

/// Kafka's codes of the other kinds of resource, of which there are none here.
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;

pub(super) fn handle(
    state: &mut State,
    id: RequestId,
    version: i16,
    request: &ListConfigResourcesRequest,
) {
    let all = [TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP];
    let asked: Vec<i8> = match version {
        0 => alloc::vec![CLIENT_METRICS],
        _ if request.resource_types.is_empty() => all.to_vec(),
        _ => request.resource_types.clone(),
    };
    if asked.iter().any(|kind| !all.contains(kind)) {
        let response = ListConfigResourcesResponse {
            error_code: ErrorCode::UNSUPPORTED_VERSION,
            ..Default::default()
        };
        return state.answer(id, response);
    }
    let mut config_resources = Vec::new();
    let mut push = |resource_name: &str, resource_type| {
        config_resources.push(ConfigResource {
            resource_name: resource_name.into(),
            resource_type,
            ..Default::default()
        });
    };
    if asked.contains(&TOPIC) {
        state
            .metadata
            .image()
            .topics()
            .for_each(|topic| push(&topic.name, TOPIC));
    }
    if asked.contains(&BROKER) {
        push(&state.config.node_id.to_string(), BROKER);
    }
    if asked.contains(&BROKER_LOGGER) {
        push(&state.config.node_id.to_string(), BROKER_LOGGER);
    }
    if asked.contains(&GROUP) {
        let image = state.metadata.image();
        image
            .groups_with_configs()
            .for_each(|group| push(group, GROUP));
    }
    let response = ListConfigResourcesResponse {
        config_resources,
        ..Default::default()
    };
    state
        .metadata
        .answer_when_durable(id, response, crate::connection::Answer::Close);
}
