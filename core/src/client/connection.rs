//! One connection: the handshake, the choice of versions, and answers matched to requests.
//!
//! ```text
//! Opening --connected--> Handshaking --ApiVersions--> Ready
//!    |                      |    ^                      |
//!    |                      +----+ UNSUPPORTED_VERSION  |
//!    +-------------+-------------+----------------------+
//!                  v
//!    gone: timed out, disconnected, or an answer that makes no sense
//! ```
//!
//! A broker answers the requests of a connection in their order, so an answer that is not for the
//! oldest request in flight is a fault, and nothing after it on the connection can be trusted.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use super::effect::ClientEffect;
use super::network::Purpose;
use super::step::{Step, earlier};
use crate::effect::Part;
use crate::ids::ConnectionId;
use crate::time::Mono;
use crate::wire::frame::{decode_response, encode_request, peek_correlation_id};
use crate::wire::messages::{ApiVersionsRequest, ApiVersionsResponse, Body};
use crate::wire::{
    ApiKey, DecodeError, ErrorCode, RequestBody, RequestHeader, ResponseBody, Str, Versions,
};

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    id: ConnectionId,
    client_id: Str,
    state: State,
    next_correlation_id: i32,
    in_flight: VecDeque<InFlight>,
    last_used: Mono,
}

#[derive(Debug)]
enum State {
    /// The host is connecting.
    Opening { until: Mono },
    /// ApiVersions was asked for in this version.
    Handshaking {
        correlation_id: i32,
        version: i16,
        until: Mono,
    },
    /// What the broker serves.
    Ready(BTreeMap<ApiKey, Versions>),
}

/// A request without an answer.
#[derive(Debug)]
struct InFlight {
    correlation_id: i32,
    api: ApiKey,
    version: i16,
    until: Mono,
    purpose: Purpose,
}

/// What a frame was.
#[derive(Debug)]
pub(crate) enum Received {
    /// A step of the handshake.
    Handshake,
    /// The end of the handshake: requests can be sent from now on.
    Ready,
    /// The answer to a request.
    Answer(Purpose, ResponseBody),
}

/// Why a connection cannot be used any longer.
#[derive(Debug)]
pub(crate) enum ProtocolError {
    /// The frame is not what it should be.
    Decode(DecodeError),
    /// No request waits for an answer.
    Unasked,
    /// An answer, but not to the oldest request.
    CorrelationId {
        /// What the oldest request has.
        expected: i32,
        /// What the answer has.
        found: i32,
    },
    /// The broker does not say what it serves.
    Handshake(ErrorCode),
    /// There is no version of ApiVersions that both sides know.
    NoCommonVersion,
}

impl Connection {
    /// A connection that the host was asked for.
    pub(crate) fn new(id: ConnectionId, client_id: Str, now: Mono, setup_timeout_ms: u32) -> Self {
        Self {
            id,
            client_id,
            state: State::Opening {
                until: now.plus_ms(setup_timeout_ms.into()),
            },
            next_correlation_id: 0,
            in_flight: VecDeque::new(),
            last_used: now,
        }
    }

    /// The host has connected: asks what the broker serves.
    pub(crate) fn connected(&mut self, step: &mut Step<'_>, timeout_ms: u32) {
        if matches!(self.state, State::Opening { .. }) {
            let until = step.now.mono.plus_ms(timeout_ms.into());
            self.shake_hands(step, ApiKey::ApiVersions.versions().max, until);
        }
    }

    fn shake_hands(&mut self, step: &mut Step<'_>, version: i16, until: Mono) {
        let request = ApiVersionsRequest {
            client_software_name: Str::from_static("odradek"),
            client_software_version: Str::from_static(env!("CARGO_PKG_VERSION")),
            ..Default::default()
        };
        let correlation_id = self.put(step, version, &request);
        self.state = State::Handshaking {
            correlation_id,
            version,
            until,
        };
    }

    /// Whether requests can be sent.
    pub(crate) const fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready(_))
    }

    /// How many requests have no answer yet.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The highest version of `api` within `within` that both sides know. `None` also before the
    /// handshake is over.
    pub(crate) fn version(&self, api: ApiKey, within: Versions) -> Option<i16> {
        let State::Ready(served) = &self.state else {
            return None;
        };
        let (ours, theirs) = (api.versions(), served.get(&api)?);
        let max = ours.max.min(theirs.max).min(within.max);
        let min = ours.min.max(theirs.min).max(within.min);
        (min <= max).then_some(max)
    }

    /// Sends a request in a version that [`Self::version`] chose. Without a purpose no answer is
    /// expected.
    pub(crate) fn send(
        &mut self,
        step: &mut Step<'_>,
        version: i16,
        body: &RequestBody,
        timeout_ms: u32,
        purpose: Option<Purpose>,
    ) {
        self.last_used = step.now.mono;
        let correlation_id = self.put(step, version, body);
        if let Some(purpose) = purpose {
            self.in_flight.push_back(InFlight {
                correlation_id,
                api: body.api(),
                version,
                until: step.now.mono.plus_ms(timeout_ms.into()),
                purpose,
            });
        }
    }

    fn put(&mut self, step: &mut Step<'_>, version: i16, body: &impl Body) -> i32 {
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id = correlation_id.checked_add(1).unwrap_or(0);
        let header = RequestHeader {
            api_key: body.api().key(),
            api_version: version,
            correlation_id,
            client_id: Some(self.client_id.clone()),
        };
        let frame = encode_request(&header, body)
            .parts
            .into_iter()
            .map(|part| match part {
                Part::Bytes(bytes) => bytes,
                Part::File(_) => unreachable!("a client has no log files to send from"),
            })
            .collect();
        step.out.push(ClientEffect::Send {
            connection: self.id,
            frame,
        });
        correlation_id
    }

    /// Takes a frame. After an error the connection must be closed.
    pub(crate) fn receive(
        &mut self,
        step: &mut Step<'_>,
        frame: Bytes,
    ) -> Result<Received, ProtocolError> {
        self.last_used = step.now.mono;
        let found = peek_correlation_id(&frame)?;
        match self.state {
            State::Opening { .. } => Err(ProtocolError::Unasked),
            State::Handshaking {
                correlation_id,
                version,
                until,
            } => {
                check_correlation_id(correlation_id, found)?;
                self.answer_handshake(step, version, until, frame)
            }
            State::Ready(_) => {
                let oldest = self.in_flight.front().ok_or(ProtocolError::Unasked)?;
                check_correlation_id(oldest.correlation_id, found)?;
                let (_, body) = decode_response(oldest.api, oldest.version, frame)?;
                let oldest = self
                    .in_flight
                    .pop_front()
                    .expect("the oldest request was just looked at");
                Ok(Received::Answer(oldest.purpose, body))
            }
        }
    }

    /// A broker that does not know the version of ApiVersions answers in the form of version 0,
    /// whatever was asked; it lists the versions it does know since KIP-511, and before that
    /// version 0 is all one can count on.
    fn answer_handshake(
        &mut self,
        step: &mut Step<'_>,
        version: i16,
        until: Mono,
        frame: Bytes,
    ) -> Result<Received, ProtocolError> {
        let refused = version > 0 && error_code_of_version_0(&frame) == Some(UNSUPPORTED);
        let form = if refused { 0 } else { version };
        let (_, ResponseBody::ApiVersions(response)) =
            decode_response(ApiKey::ApiVersions, form, frame)?
        else {
            unreachable!("a response decodes to its own API");
        };
        if refused {
            let next = listed(&response)
                .get(&ApiKey::ApiVersions)
                .map_or(0, |theirs| theirs.max.min(version - 1));
            if !ApiKey::ApiVersions.versions().contains(next) {
                return Err(ProtocolError::NoCommonVersion);
            }
            self.shake_hands(step, next, until);
            return Ok(Received::Handshake);
        }
        if response.error_code.is_error() {
            return Err(ProtocolError::Handshake(response.error_code));
        }
        self.state = State::Ready(listed(&response));
        Ok(Received::Ready)
    }

    /// When something times out here, or the connection has been idle for long enough.
    pub(crate) fn deadline(&self, max_idle_ms: u32) -> Option<Mono> {
        match &self.state {
            State::Opening { until } | State::Handshaking { until, .. } => Some(*until),
            State::Ready(_) if self.in_flight.is_empty() => {
                Some(self.last_used.plus_ms(max_idle_ms.into()))
            }
            State::Ready(_) => self
                .in_flight
                .iter()
                .fold(None, |first, request| earlier(first, Some(request.until))),
        }
    }

    /// Whether what ended at [`Self::deadline`] was merely use.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_ready() && self.in_flight.is_empty()
    }

    /// The requests that get no answer any more, in their order, and whether each had its time.
    pub(crate) fn end(self, now: Mono) -> impl Iterator<Item = (Purpose, bool)> {
        self.in_flight
            .into_iter()
            .map(move |request| (request.purpose, request.until <= now))
    }
}

const UNSUPPORTED: ErrorCode = ErrorCode::UNSUPPORTED_VERSION;

/// The error code that stands behind the correlation id in every version of ApiVersions.
fn error_code_of_version_0(frame: &Bytes) -> Option<ErrorCode> {
    let code = frame.get(4..6)?.first_chunk()?;
    Some(ErrorCode(i16::from_be_bytes(*code)))
}

fn check_correlation_id(expected: i32, found: i32) -> Result<(), ProtocolError> {
    if expected == found {
        Ok(())
    } else {
        Err(ProtocolError::CorrelationId { expected, found })
    }
}

/// What the broker lists, as far as this codec knows the APIs.
fn listed(response: &ApiVersionsResponse) -> BTreeMap<ApiKey, Versions> {
    let known: Vec<_> = response
        .api_keys
        .iter()
        .filter_map(|listed| {
            let versions = Versions::new(listed.min_version, listed.max_version);
            Some((ApiKey::from_key(listed.api_key)?, versions))
        })
        .collect();
    known.into_iter().collect()
}

impl From<DecodeError> for ProtocolError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(error) => error.fmt(f),
            Self::Unasked => f.write_str("an answer came that nobody asked for"),
            Self::CorrelationId { expected, found } => {
                write!(f, "an answer to request {found} came, {expected} was next")
            }
            Self::Handshake(code) => write!(f, "the handshake was refused: {code}"),
            Self::NoCommonVersion => f.write_str("no version of ApiVersions is common"),
        }
    }
}
