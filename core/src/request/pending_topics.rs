//! Requests that wait for topics or partitions to be made.

use super::find_coordinator;
use crate::broker::{State, Timers};
use crate::connection::RequestId;
use crate::time::Mono;
use crate::wire::ErrorCode;
use crate::wire::messages::create_partitions::CreatePartitionsResponse;
use crate::wire::messages::create_topics::CreateTopicsResponse;
use crate::wire::messages::find_coordinator::FindCoordinatorRequest;

/// A request that waits for some creations.
#[derive(Debug)]
pub(crate) struct PendingTopics {
    pub(super) body: PendingBody,
    /// How many creations it still waits for.
    pub(super) waiting: usize,
    pub(super) deadline: Option<Mono>,
}

/// What it answers with; a failure is entered where it belongs.
#[derive(Debug)]
pub(super) enum PendingBody {
    Create(CreateTopicsResponse),
    Partitions(CreatePartitionsResponse),
    Coordinator {
        version: i16,
        request: FindCoordinatorRequest,
    },
}

impl PendingTopics {
    /// The request is gone; its timeout goes with it.
    pub(crate) fn cancel(&self, timers: &mut Timers, request: RequestId) {
        if let Some(deadline) = self.deadline {
            timers.cancel_request(deadline, request);
        }
    }

    fn fail(&mut self, place: usize, error: ErrorCode) {
        let message = Some(error.message().into());
        match &mut self.body {
            PendingBody::Create(response) => {
                if let Some(topic) = response.topics.get_mut(place) {
                    topic.error_code = error;
                    topic.error_message = message;
                    topic.num_partitions = -1;
                    topic.replication_factor = -1;
                    topic.configs = None;
                    topic.topic_id = Default::default();
                }
            }
            PendingBody::Partitions(response) => {
                if let Some(topic) = response.results.get_mut(place) {
                    topic.error_code = error;
                    topic.error_message = message;
                }
            }
            // The answer is made from what there is in the end.
            PendingBody::Coordinator { .. } => {}
        }
    }
}

/// A creation that the request waits for has ended.
pub(crate) fn topic_created(
    state: &mut State,
    request: RequestId,
    place: usize,
    result: Result<(), ErrorCode>,
) {
    let Some(pending) = state.pending_topics.get_mut(&request) else {
        return;
    };
    if let Err(error) = result {
        pending.fail(place, error);
    }
    pending.waiting -= 1;
    if pending.waiting == 0 {
        finish(state, request);
    }
}

/// The request's timeout has come; what it asked for goes on without it.
pub(crate) fn expire(state: &mut State, request: RequestId) {
    let Some(pending) = state.pending_topics.get_mut(&request) else {
        return;
    };
    match &mut pending.body {
        PendingBody::Create(response) => {
            for topic in response
                .topics
                .iter_mut()
                .filter(|t| !t.error_code.is_error())
            {
                topic.error_code = ErrorCode::REQUEST_TIMED_OUT;
            }
        }
        PendingBody::Partitions(response) => {
            for topic in response
                .results
                .iter_mut()
                .filter(|t| !t.error_code.is_error())
            {
                topic.error_code = ErrorCode::REQUEST_TIMED_OUT;
            }
        }
        PendingBody::Coordinator { .. } => {}
    }
    state.topics.forget(request);
    finish(state, request);
}

fn finish(state: &mut State, request: RequestId) {
    let Some(pending) = state.pending_topics.remove(&request) else {
        return;
    };
    pending.cancel(&mut state.timers, request);
    match pending.body {
        PendingBody::Create(response) => state.answer(request, response),
        PendingBody::Partitions(response) => state.answer(request, response),
        PendingBody::Coordinator {
            version,
            request: body,
        } => find_coordinator::respond(state, request, version, &body),
    }
}
