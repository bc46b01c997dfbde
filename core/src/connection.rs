//! Connections: which request may start, and in which order the answers leave.
//!
//! Answers leave in the order of the requests. Only Produce requests overlap, and only with each
//! other: any other request starts when everything before it on its connection is answered, so a
//! client that fetches what it just produced, on one connection, finds it.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::effect::{Effect, Effects, Response};
use crate::ids::ConnectionId;
use crate::input::Endpoint;
use crate::request::Prepared;
use crate::wire::ResponseBody;
use crate::wire::frame::encode_response;

/// A request of this process, numbered as it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What a request ends with.
#[derive(Debug)]
pub enum Answer {
    /// A response.
    Body(Box<ResponseBody>),
    /// Nothing: a produce with acks=0.
    Nothing,
    /// The end of the connection: the protocol has no way to say what is wrong.
    Close,
}

impl<T: Into<ResponseBody>> From<T> for Answer {
    fn from(body: T) -> Self {
        Self::Body(Box::new(body.into()))
    }
}

/// All connections and the requests on them.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    connections: BTreeMap<ConnectionId, Connection>,
    running: BTreeMap<RequestId, ConnectionId>,
    last_request: u64,
}

#[derive(Debug)]
struct Connection {
    local: Endpoint,
    peer: String,
    slots: VecDeque<Slot>,
}

/// A request and its place in the order of answers.
#[derive(Debug)]
struct Slot {
    id: RequestId,
    correlation_id: i32,
    version: i16,
    overlaps: bool,
    state: SlotState,
}

#[derive(Debug)]
enum SlotState {
    Waiting(Box<Prepared>),
    Running,
    Answered(Answer),
}

impl Connections {
    pub(crate) fn opened(&mut self, connection: ConnectionId, local: Endpoint, peer: String) {
        self.connections.insert(
            connection,
            Connection {
                local,
                peer,
                slots: VecDeque::new(),
            },
        );
    }

    /// Forgets a connection; the requests that were running on it are returned, to be dropped.
    pub(crate) fn closed(&mut self, connection: ConnectionId) -> Vec<RequestId> {
        let Some(closed) = self.connections.remove(&connection) else {
            return Vec::new();
        };
        let running = closed.slots.iter().map(|slot| slot.id);
        running
            .filter(|id| self.running.remove(id).is_some())
            .collect()
    }

    /// Takes its place in the queue.
    pub(crate) fn received(&mut self, connection: ConnectionId, request: Box<Prepared>) {
        let Some(open) = self.connections.get_mut(&connection) else {
            return;
        };
        self.last_request += 1;
        open.slots.push_back(Slot {
            id: RequestId(self.last_request),
            correlation_id: request.header().map_or(0, |header| header.correlation_id),
            version: request.answer_version(),
            overlaps: request.is_produce(),
            state: SlotState::Waiting(request),
        });
    }

    /// The next request of the connection that may start now; it counts as running from here on.
    pub(crate) fn start_next(
        &mut self,
        connection: ConnectionId,
    ) -> Option<(RequestId, Box<Prepared>)> {
        let open = self.connections.get_mut(&connection)?;
        let mut only_produces_before = true;
        for (place, slot) in open.slots.iter_mut().enumerate() {
            if let SlotState::Waiting(_) = slot.state {
                if place > 0 && !(slot.overlaps && only_produces_before) {
                    return None;
                }
                let state = core::mem::replace(&mut slot.state, SlotState::Running);
                self.running.insert(slot.id, connection);
                let SlotState::Waiting(request) = state else {
                    return None;
                };
                return Some((slot.id, request));
            }
            only_produces_before &= slot.overlaps;
        }
        None
    }

    /// Ends a request: it and whatever waited behind it in the order leaves. Returns the
    /// connection, on which a further request may now start.
    pub(crate) fn answer(
        &mut self,
        request: RequestId,
        answer: Answer,
        out: &mut Effects,
    ) -> Option<ConnectionId> {
        let connection = self.running.remove(&request)?;
        let open = self.connections.get_mut(&connection)?;
        // Ids rise along the queue.
        let place = open
            .slots
            .binary_search_by_key(&request, |slot| slot.id)
            .ok()?;
        open.slots.get_mut(place)?.state = SlotState::Answered(answer);
        while let Some(Slot {
            state: SlotState::Answered(_),
            ..
        }) = open.slots.front()
        {
            let slot = open.slots.pop_front()?;
            let SlotState::Answered(answer) = slot.state else {
                return None;
            };
            let response = match answer {
                Answer::Body(body) => encode_response(slot.correlation_id, slot.version, &*body),
                Answer::Nothing => Response::default(),
                Answer::Close => {
                    out.push(Effect::Close { connection });
                    // The host closes it; requests behind this one never start.
                    for slot in open.slots.drain(..) {
                        self.running.remove(&slot.id);
                    }
                    return None;
                }
            };
            out.push(Effect::Respond {
                connection,
                response,
            });
        }
        Some(connection)
    }

    /// The address the client of a running request connected to.
    pub(crate) fn local_endpoint(&self, request: RequestId) -> Option<&Endpoint> {
        Some(&self.connections.get(self.running.get(&request)?)?.local)
    }

    /// The host of the client of a running request.
    pub(crate) fn peer(&self, request: RequestId) -> Option<&str> {
        Some(&self.connections.get(self.running.get(&request)?)?.peer)
    }

    /// The connection of a running request.
    pub(crate) fn connection_of(&self, request: RequestId) -> Option<ConnectionId> {
        self.running.get(&request).copied()
    }

    /// How many requests are running.
    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    /// How many connections are open.
    pub(crate) fn open(&self) -> usize {
        self.connections.len()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}
