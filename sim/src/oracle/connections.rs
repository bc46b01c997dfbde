//! Requests and their answers, paired in order, and ClosedConnectionLeaksNothing.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use odradek_core::ids::ConnectionId;
use odradek_core::time::Mono;
use odradek_core::wire::frame::decode_request;
use odradek_core::wire::{Request, RequestBody};

/// Requests that wait for their answers, by connection, in order.
#[derive(Clone, Debug, Default)]
pub struct Exchanges {
    open: BTreeMap<ConnectionId, VecDeque<Exchange>>,
}

/// A request that reached the broker.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Where it came.
    pub connection: ConnectionId,
    /// What it says; `None` if it says nothing that can be served.
    pub request: Option<Request>,
    /// When it reached the broker.
    pub arrived: Mono,
    /// When it became the first of its connection: when it may start.
    pub first_since: Option<Mono>,
    /// Whether the broker had to let it wait at the end of a step.
    pub waited: bool,
    /// For a fetch: the state of [`Oracle::told`](super::Oracle) in which there was too little for it.
    pub too_little_at: Option<u64>,
}

impl Exchanges {
    /// A frame reached the broker.
    pub fn request(&mut self, now: Mono, connection: ConnectionId, frame: &Bytes) {
        let queue = self.open.entry(connection).or_default();
        queue.push_back(Exchange {
            connection,
            request: decode_request(frame.clone()).ok(),
            arrived: now,
            first_since: queue.is_empty().then_some(now),
            waited: false,
            too_little_at: None,
        });
    }

    /// The request that came last.
    #[must_use]
    pub fn last(&self, connection: ConnectionId) -> Option<&Request> {
        self.open.get(&connection)?.back()?.request.as_ref()
    }

    /// The request that is answered next.
    pub fn answer(&mut self, now: Mono, connection: ConnectionId) -> Option<Exchange> {
        let queue = self.open.get_mut(&connection)?;
        let exchange = queue.pop_front()?;
        if let Some(next) = queue.front_mut() {
            next.first_since = Some(now);
        }
        Some(exchange)
    }

    /// A connection is gone, and what waits on it.
    pub fn close(&mut self, connection: ConnectionId) {
        self.open.remove(&connection);
    }

    /// The process is gone, and everything that waits.
    pub fn clear(&mut self) {
        self.open.clear();
    }

    /// All that wait.
    pub fn all(&self) -> impl Iterator<Item = (ConnectionId, &Exchange)> {
        self.open.iter().flat_map(|(connection, queue)| {
            queue.iter().map(move |exchange| (*connection, exchange))
        })
    }

    /// The fetches that are first on their connection, so that nothing but themselves keeps them
    /// waiting.
    pub fn fetches(&mut self) -> impl Iterator<Item = (ConnectionId, &mut Exchange)> {
        self.open.iter_mut().filter_map(|(connection, queue)| {
            let first = queue.front_mut()?;
            let is_fetch = matches!(
                first.request,
                Some(Request {
                    body: RequestBody::Fetch(_),
                    ..
                })
            );
            is_fetch.then_some((*connection, first))
        })
    }

    /// How many requests wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.open.values().map(VecDeque::len).sum()
    }
}
