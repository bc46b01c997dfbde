//! InitProducerId (KIP-98, KIP-360): an id for an idempotent producer.

use crate::broker::State;
use crate::bugs::Bug;
use crate::connection::RequestId;
use crate::context::Context;
use crate::wire::ErrorCode;
use crate::wire::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};

/// What a request names to say that it has no id, or no epoch.
const NONE: i64 = -1;

pub(super) fn handle(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    request: &InitProducerIdRequest,
) {
    let refused = |error_code| InitProducerIdResponse {
        error_code,
        producer_epoch: -1,
        ..Default::default()
    };
    if let Err(error) = check(request) {
        return state.answer(id, refused(error));
    }
    // A producer that is not transactional and wants its next epoch gets a new id, as in Kafka.
    let producer_id = match state.metadata.new_producer_id(cx) {
        Ok(producer_id) => producer_id,
        Err(error) => return state.answer(id, refused(error)),
    };
    let response = InitProducerIdResponse {
        producer_id: producer_id.0,
        producer_epoch: 0,
        ..Default::default()
    };
    if state.bugs.has(Bug::ProducerIdBeforeDurable) {
        return state.answer(id, response);
    }
    let lost = refused(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    state.metadata.answer_when_durable(id, response, lost);
}

fn check(request: &InitProducerIdRequest) -> Result<(), ErrorCode> {
    if let Some(transactional_id) = &request.transactional_id {
        // Empty is refused as in Kafka. For any other there are no transactions here, and the error
        // is one that no client takes for passing.
        return Err(if transactional_id.is_empty() {
            ErrorCode::INVALID_REQUEST
        } else {
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        });
    }
    let (id, epoch) = (request.producer_id, i64::from(request.producer_epoch));
    if (id == NONE) == (epoch == NONE) {
        Ok(())
    } else {
        Err(ErrorCode::INVALID_REQUEST)
    }
}
