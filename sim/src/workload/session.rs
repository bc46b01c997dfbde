//! One connection of a client that speaks in frames: correlation ids, answers in order, and what
//! was lost when the connection went.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use odradek_core::effect::{Part, Response};
use odradek_core::ids::ConnectionId;
use odradek_core::wire::frame::{decode_response, encode_request};
use odradek_core::wire::{ApiKey, RequestBody, RequestHeader, ResponseBody, Str};

use super::ClientContext;
use crate::choices::Subsystem;

/// A client's connection, opened when it is needed.
#[derive(Debug, Default)]
pub struct Session {
    connection: Option<ConnectionId>,
    inbox: BytesMut,
    waiting: VecDeque<Waiting>,
    last_correlation_id: i32,
}

#[derive(Debug)]
struct Waiting {
    correlation_id: i32,
    api: ApiKey,
    version: i16,
    tag: u64,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// What the request was tagged with.
    pub tag: u64,
    /// The version of the request.
    pub version: i16,
    /// What it says.
    pub body: ResponseBody,
}

impl Session {
    /// How many requests wait for their answers.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    /// The connection, if there is one.
    #[must_use]
    pub const fn connection(&self) -> Option<ConnectionId> {
        self.connection
    }

    /// Sends a request in a version, over a new connection if there is none. `answered` says
    /// whether an answer will come.
    pub fn request(
        &mut self,
        cx: &mut ClientContext<'_>,
        version: i16,
        body: RequestBody,
        tag: u64,
        answered: bool,
    ) {
        let api = odradek_core::wire::messages::Body::api(&body);
        self.last_correlation_id += 1;
        let header = RequestHeader {
            api_key: api.key(),
            api_version: version,
            correlation_id: self.last_correlation_id,
            client_id: Some(Str::from(format!("client-{}", cx.client))),
        };
        let frame = flat(&encode_request(&header, &body));
        let connection = *self.connection.get_or_insert_with(|| cx.connect());
        cx.send(connection, frame);
        if answered {
            self.waiting.push_back(Waiting {
                correlation_id: self.last_correlation_id,
                api,
                version,
                tag,
            });
        }
    }

    /// A version of an API, out of those that are served.
    pub fn version(cx: &mut ClientContext<'_>, api: ApiKey) -> i16 {
        let versions = api.versions();
        let span = (versions.max - versions.min) as u64;
        versions.min
            + cx.choices
                .between(Subsystem::Client, cx.client as u64, 0, span) as i16
    }

    /// Takes bytes and gives the answers that are complete.
    pub fn receive(
        &mut self,
        cx: &mut ClientContext<'_>,
        connection: ConnectionId,
        bytes: &[u8],
    ) -> Vec<Answer> {
        let mut answers = Vec::new();
        if self.connection != Some(connection) {
            return answers;
        }
        self.inbox.extend_from_slice(bytes);
        while let Some(prefix) = self.inbox.first_chunk::<4>() {
            let size = i32::from_be_bytes(*prefix) as usize;
            if self.inbox.len() < 4 + size {
                break;
            }
            let frame = self.inbox.split_to(4 + size).freeze().slice(4..);
            let Some(waiting) = self.waiting.pop_front() else {
                cx.complaints
                    .push("an answer that nobody waits for".to_owned());
                break;
            };
            match decode_response(waiting.api, waiting.version, frame) {
                Ok((correlation_id, body)) if correlation_id == waiting.correlation_id => {
                    answers.push(Answer {
                        tag: waiting.tag,
                        version: waiting.version,
                        body,
                    });
                }
                Ok((found, _)) => cx.complaints.push(format!(
                    "an answer to request {found} where {} is next",
                    waiting.correlation_id
                )),
                Err(error) => cx.complaints.push(format!(
                    "an answer to {} v{} does not decode: {error:?}",
                    waiting.api, waiting.version
                )),
            }
        }
        answers
    }

    /// A connection is gone: the tags of the requests whose outcome is unknown. Empty if it is not
    /// this session's.
    pub fn lost(&mut self, connection: ConnectionId) -> Vec<u64> {
        if self.connection != Some(connection) {
            return Vec::new();
        }
        self.forget()
    }

    /// Closes the connection, if there is one; the tags of the requests whose outcome is unknown.
    pub fn close(&mut self, cx: &mut ClientContext<'_>) -> Vec<u64> {
        if let Some(connection) = self.connection {
            cx.close(connection);
        }
        self.forget()
    }

    /// Leaves the connection without a word.
    pub fn vanish(&mut self, cx: &mut ClientContext<'_>) -> Vec<u64> {
        if let Some(connection) = self.connection {
            cx.vanish(connection);
        }
        self.forget()
    }

    fn forget(&mut self) -> Vec<u64> {
        self.connection = None;
        self.inbox.clear();
        self.waiting.drain(..).map(|waiting| waiting.tag).collect()
    }
}

/// A frame in one piece.
#[must_use]
pub fn flat(response: &Response) -> Bytes {
    match response.parts.as_slice() {
        [Part::Bytes(bytes)] => bytes.clone(),
        parts => {
            let mut frame = BytesMut::with_capacity(response.len());
            for part in parts {
                match part {
                    Part::Bytes(bytes) => frame.extend_from_slice(bytes),
                    Part::File(_) => unreachable!("a client has no log files"),
                }
            }
            frame.freeze()
        }
    }
}
