//! FindCoordinator (KIP-699): who looks after a group. Here that is always this broker.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::create_topics::pending;
use super::pending_topics::{PendingBody, PendingTopics};
use crate::broker::State;
use crate::connection::RequestId;
use crate::group::coordinator;
use crate::metadata::topics;
use crate::wire::messages::find_coordinator::{
    Coordinator, FindCoordinatorRequest, FindCoordinatorResponse,
};
use crate::wire::{ErrorCode, Str};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

/// The first version that asks for several keys.
const BATCHED: i16 = 4;

pub(super) fn handle(
    state: &mut State,
    id: RequestId,
    version: i16,
    request: FindCoordinatorRequest,
) {
    let known = state.metadata.image().topic(coordinator::OFFSETS_TOPIC);
    if request.key_type != GROUP || known.is_some() {
        return respond(state, id, version, &request);
    }
    // The first to ask has the topic made. Kafka has it ask again.
    let wanted = coordinator::offsets_topic(state);
    if state.topics.is_creating(&wanted.name) {
        state.topics.join(&wanted.name, id, 0);
    } else {
        topics::create(state, wanted, Some((id, 0)));
    }
    let body = PendingBody::Coordinator { version, request };
    let waiting = PendingTopics {
        body,
        waiting: 1,
        deadline: None,
    };
    pending(state, id, waiting);
}

/// The topic is there, or cannot be made now.
pub(super) fn respond(
    state: &mut State,
    id: RequestId,
    version: i16,
    request: &FindCoordinatorRequest,
) {
    let response = if version >= BATCHED {
        let keys = request.coordinator_keys.iter();
        let coordinators: Vec<Coordinator> = keys
            .map(|key| find(state, id, request.key_type, key))
            .collect();
        FindCoordinatorResponse {
            coordinators,
            ..Default::default()
        }
    } else {
        let found = find(state, id, request.key_type, &request.key);
        FindCoordinatorResponse {
            error_code: found.error_code,
            error_message: found.error_message,
            node_id: found.node_id,
            host: found.host,
            port: found.port,
            ..Default::default()
        }
    };
    state.answer(id, response);
}

fn find(state: &State, id: RequestId, key_type: i8, key: &Str) -> Coordinator {
    let refuse = |error_code: ErrorCode, message: &str| Coordinator {
        key: key.clone(),
        node_id: -1,
        port: -1,
        error_code,
        error_message: Some(message.into()),
        ..Default::default()
    };
    match key_type {
        GROUP => {}
        // An error that clients give up on: on a retriable one they would ask for ever.
        TRANSACTION => {
            return refuse(
                ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "There are no transactions here yet",
            );
        }
        _ => return refuse(ErrorCode::INVALID_REQUEST, "Unknown type of coordinator"),
    }
    if state
        .metadata
        .image()
        .topic(coordinator::OFFSETS_TOPIC)
        .is_none()
    {
        let error = ErrorCode::COORDINATOR_NOT_AVAILABLE;
        return refuse(error, error.message());
    }
    let endpoint = state.advertised(id);
    Coordinator {
        key: key.clone(),
        node_id: state.config.node_id.0,
        host: endpoint.host.to_string().into(),
        port: i32::from(endpoint.port),
        error_message: None,
        ..Default::default()
    }
}
