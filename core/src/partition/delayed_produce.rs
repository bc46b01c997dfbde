//! A produce request whose records are appended and not yet acknowledged.

use alloc::collections::BTreeSet;

use crate::broker::State;
use crate::connection::{Answer, RequestId};
use crate::time::Mono;
use crate::wire::ErrorCode;
use crate::wire::messages::produce::ProduceResponse;

/// A produce that waits. It ends when every partition is acknowledged or lost, or at its timeout.
#[derive(Debug)]
pub(crate) struct DelayedProduce {
    /// What is answered if all goes well; what went wrong is entered as it does.
    pub(crate) response: ProduceResponse,
    /// Which partitions, counted through the response, still wait.
    pub(crate) waiting: Places,
    /// When it times out.
    pub(crate) deadline: Mono,
}

/// Partitions of a request, counted through it. Nearly always there is one, which takes no memory of
/// its own.
#[derive(Debug, Default)]
pub(crate) struct Places {
    one: Option<usize>,
    others: BTreeSet<usize>,
}

impl Places {
    pub(crate) fn insert(&mut self, place: usize) {
        if self.is_empty() {
            self.one = Some(place);
        } else if self.one != Some(place) {
            self.others.insert(place);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.one.is_none() && self.others.is_empty()
    }

    fn remove(&mut self, place: usize) {
        if self.one == Some(place) {
            self.one = None;
        } else {
            self.others.remove(&place);
        }
    }

    fn into_iter(self) -> impl Iterator<Item = usize> {
        self.one.into_iter().chain(self.others)
    }
}

impl DelayedProduce {
    fn fail(&mut self, place: usize, error: ErrorCode) {
        let partitions = self
            .response
            .responses
            .iter_mut()
            .flat_map(|topic| &mut topic.partition_responses);
        if let Some(partition) = partitions.into_iter().nth(place) {
            partition.error_code = error;
            partition.base_offset = -1;
            partition.log_append_time_ms = -1;
            partition.log_start_offset = -1;
        }
    }
}

/// One partition of a produce is acknowledged, or lost.
pub(crate) fn partition_done(
    state: &mut State,
    request: RequestId,
    place: usize,
    error: Option<ErrorCode>,
) {
    let Some(produce) = state.produces.get_mut(&request) else {
        return;
    };
    if let Some(error) = error {
        produce.fail(place, error);
    }
    produce.waiting.remove(place);
    if produce.waiting.is_empty() {
        finish(state, request);
    }
}

/// The request's own timeout: what is not acknowledged by now may or may not be.
pub(crate) fn expire(state: &mut State, request: RequestId) {
    let Some(produce) = state.produces.get_mut(&request) else {
        return;
    };
    for place in core::mem::take(&mut produce.waiting).into_iter() {
        produce.fail(place, ErrorCode::REQUEST_TIMED_OUT);
    }
    finish(state, request);
}

fn finish(state: &mut State, request: RequestId) {
    if let Some(produce) = state.produces.remove(&request) {
        state.timers.cancel_request(produce.deadline, request);
        state.answer(request, Answer::from(produce.response));
    }
}
