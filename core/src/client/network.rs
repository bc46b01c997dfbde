//! All connections: which broker has one, when to connect again, and whom an answer is for.
//!
//! A broker answers the requests of one connection in their order, so a fetch that waits for
//! records would hold up whatever is asked behind it. Fetches therefore have a connection of their
//! own to each broker, and so has what is asked of the group's coordinator: entering a group waits for
//! all its members.
//!
//! Absent: waiting as long as `throttle_time_ms` says (a broker that throttles mutes the connection
//! anyway), and fewer connections than brokers.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use super::config::ClientConfig;
use super::connection::{Connection, Received};
use super::effect::ClientEffect;
use super::error::{ClientError, Timeout};
use super::step::{Backoff, Step, earlier};
use crate::ids::{ConnectionId, NodeId};
use crate::input::Endpoint;
use crate::report::Level;
use crate::time::Mono;
use crate::wire::messages::Body;
use crate::wire::{RequestBody, ResponseBody, Str, Versions};

/// Where a connection leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A broker, for everything but fetches.
    Node(NodeId),
    /// An address of the bootstrap list, by its place there.
    Bootstrap(usize),
    /// A broker, for fetches.
    Fetcher(NodeId),
    /// A broker, as the coordinator of the group.
    Coordinator(NodeId),
}

/// Whom an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The metadata.
    Metadata,
    /// The producer, by the number of its request.
    Produce(u64),
    /// The consumer's fetch from a broker, by the number of the fetch.
    Fetch(u64),
    /// The consumer's look-up of offsets at a broker, by the number of the request.
    ListOffsets(u64),
    /// The application, by the number of its request.
    Admin(u64),
    /// The producer, which asked for its id.
    ProducerId,
    /// The group, by what was asked, and as of when.
    Group(GroupRequest, u64),
}

/// What a group asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupRequest {
    /// Which broker its coordinator is.
    FindCoordinator,
    Join,
    Sync,
    Heartbeat,
    /// That of KIP-848.
    ConsumerHeartbeat,
    Leave,
    Commit,
    FetchOffsets,
}

/// The end of a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) purpose: Purpose,
    pub(crate) result: Result<ResponseBody, ClientError>,
}

/// All connections of a client.
#[derive(Debug)]
pub(crate) struct Network {
    client_id: Str,
    request_timeout_ms: u32,
    setup_timeout_ms: u32,
    max_idle_ms: u32,
    backoff: Backoff,
    links: BTreeMap<Target, Link>,
    connections: BTreeMap<ConnectionId, (Target, Connection)>,
    next_connection: u64,
}

/// What is known of the way to a target.
#[derive(Debug)]
struct Link {
    endpoint: Endpoint,
    connection: Option<ConnectionId>,
    failures: u32,
    /// Not to be connected to before this.
    not_before: Mono,
    /// Whether somebody waits for it.
    wanted: bool,
}

impl Network {
    pub(crate) fn new(config: &ClientConfig) -> Self {
        let mut network = Self {
            client_id: Str::from(config.client_id.as_str()),
            request_timeout_ms: config.request_timeout_ms,
            setup_timeout_ms: config.connection_setup_timeout_ms,
            max_idle_ms: config.connections_max_idle_ms,
            backoff: Backoff {
                first_ms: config.reconnect_backoff_ms,
                max_ms: config.reconnect_backoff_max_ms,
            },
            links: BTreeMap::new(),
            connections: BTreeMap::new(),
            next_connection: 0,
        };
        for (index, endpoint) in config.bootstrap.iter().enumerate() {
            network.set_endpoint(Target::Bootstrap(index), endpoint);
        }
        network
    }

    /// How long an answer may take, in milliseconds.
    pub(crate) const fn request_timeout_ms(&self) -> u32 {
        self.request_timeout_ms
    }

    /// Says which brokers there are. What leads to others, or to where a broker no longer is, is
    /// closed.
    pub(crate) fn set_brokers(
        &mut self,
        step: &mut Step<'_>,
        brokers: &BTreeMap<NodeId, Endpoint>,
        answers: &mut Vec<Answer>,
    ) {
        let stale: Vec<Target> = self
            .links
            .iter()
            .filter(|(target, link)| match target {
                Target::Bootstrap(_) => false,
                Target::Node(node) | Target::Fetcher(node) | Target::Coordinator(node) => {
                    brokers.get(node) != Some(&link.endpoint)
                }
            })
            .map(|(target, _)| *target)
            .collect();
        for target in stale {
            if let Some(id) = self.links.remove(&target).and_then(|link| link.connection) {
                self.close(step, id, None, answers);
            }
        }
        for (node, endpoint) in brokers {
            self.set_endpoint(Target::Node(*node), endpoint);
            self.set_endpoint(Target::Fetcher(*node), endpoint);
            self.set_endpoint(Target::Coordinator(*node), endpoint);
        }
    }

    fn set_endpoint(&mut self, target: Target, endpoint: &Endpoint) {
        self.links.entry(target).or_insert_with(|| Link {
            endpoint: endpoint.clone(),
            connection: None,
            failures: 0,
            not_before: Mono(0),
            wanted: false,
        });
    }

    /// Whether requests can be sent to `target`. If not, it is connected to as soon as its back-off
    /// allows; the caller asks again after the next input.
    pub(crate) fn ready(&mut self, step: &mut Step<'_>, target: Target) -> bool {
        let Some(link) = self.links.get_mut(&target) else {
            return false;
        };
        if let Some(id) = link.connection {
            return self
                .connections
                .get(&id)
                .is_some_and(|(_, connection)| connection.is_ready());
        }
        if link.not_before <= step.now.mono {
            self.open(step, target);
        } else {
            link.wanted = true;
        }
        false
    }

    /// Whether the last attempt to reach `target` failed, or nothing is known of it.
    pub(crate) fn has_failed(&self, target: Target) -> bool {
        self.links
            .get(&target)
            .is_none_or(|link| link.failures > 0 && link.connection.is_none())
    }

    /// A target that requests can be sent to, whichever: the one with the fewest requests in
    /// flight. If there is none, one is connected to, brokers before bootstrap addresses.
    pub(crate) fn any_ready(&mut self, step: &mut Step<'_>) -> Option<Target> {
        let least_loaded = self
            .connections
            .values()
            .filter(|(target, connection)| is_for_all(*target) && connection.is_ready())
            .min_by_key(|(target, connection)| (connection.in_flight(), *target))
            .map(|(target, _)| *target);
        if least_loaded.is_some() {
            return least_loaded;
        }
        let opening = self
            .connections
            .values()
            .any(|(target, _)| is_for_all(*target));
        if opening {
            return None;
        }
        let now = step.now.mono;
        let mut candidates: Vec<(u32, Target)> = self
            .links
            .iter()
            .filter(|(target, link)| is_for_all(**target) && link.not_before <= now)
            .map(|(target, link)| (link.failures, *target))
            .collect();
        let Some(least) = candidates.iter().map(|(failures, _)| *failures).min() else {
            for (target, link) in &mut self.links {
                link.wanted |= is_for_all(*target);
            }
            return None;
        };
        // Those that failed least go first; among equals chance decides, so that clients that
        // start together do not all ask the same broker.
        candidates.retain(|(failures, _)| *failures == least);
        let (_, target) = *candidates.get(step.draw(candidates.len()))?;
        self.open(step, target);
        None
    }

    fn open(&mut self, step: &mut Step<'_>, target: Target) {
        let Some(link) = self.links.get_mut(&target) else {
            return;
        };
        self.next_connection += 1;
        let id = ConnectionId(self.next_connection);
        link.connection = Some(id);
        link.wanted = false;
        let connection = Connection::new(
            id,
            self.client_id.clone(),
            step.now.mono,
            self.setup_timeout_ms,
        );
        self.connections.insert(id, (target, connection));
        step.out.push(ClientEffect::Connect {
            connection: id,
            endpoint: link.endpoint.clone(),
        });
    }

    /// Sends a request to a target that is [`ready`](Self::ready), in the highest version within
    /// `within` that both sides know. Without a purpose no answer is expected.
    ///
    /// # Errors
    /// If there is no such version; then nothing is sent.
    pub(crate) fn send(
        &mut self,
        step: &mut Step<'_>,
        target: Target,
        purpose: Option<Purpose>,
        body: &RequestBody,
        within: Versions,
        extra_timeout_ms: u32,
    ) -> Result<(), ClientError> {
        let connection = self
            .links
            .get(&target)
            .and_then(|link| link.connection)
            .and_then(|id| self.connections.get_mut(&id))
            .map(|(_, connection)| connection)
            .ok_or(ClientError::Disconnected)?;
        let version = connection
            .version(body.api(), within)
            .ok_or(ClientError::UnsupportedVersion { api: body.api() })?;
        let timeout_ms = self.request_timeout_ms.saturating_add(extra_timeout_ms);
        connection.send(step, version, body, timeout_ms, purpose);
        Ok(())
    }

    /// The host has connected.
    pub(crate) fn connected(&mut self, step: &mut Step<'_>, id: ConnectionId) {
        if let Some((_, connection)) = self.connections.get_mut(&id) {
            connection.connected(step, self.request_timeout_ms);
        }
    }

    /// A frame came in.
    pub(crate) fn received(
        &mut self,
        step: &mut Step<'_>,
        id: ConnectionId,
        frame: Bytes,
        answers: &mut Vec<Answer>,
    ) {
        let Some((target, connection)) = self.connections.get_mut(&id) else {
            return;
        };
        match connection.receive(step, frame) {
            Ok(Received::Handshake) => {}
            Ok(Received::Ready) => {
                if let Some(link) = self.links.get_mut(target) {
                    link.failures = 0;
                }
            }
            Ok(Received::Answer(purpose, body)) => answers.push(Answer {
                purpose,
                result: Ok(body),
            }),
            Err(error) => {
                let reason = error.to_string();
                self.fail(step, id, &reason);
                self.close(step, id, Some(&reason), answers);
            }
        }
    }

    /// A connection did not come about, or is gone; whether it still mattered.
    pub(crate) fn lost(
        &mut self,
        step: &mut Step<'_>,
        id: ConnectionId,
        reason: &str,
        answers: &mut Vec<Answer>,
    ) -> bool {
        self.fail(step, id, reason);
        let Some((_, connection)) = self.connections.remove(&id) else {
            return false;
        };
        end(connection, step.now.mono, None, answers);
        true
    }

    /// Closes what has timed out or was not used for long.
    pub(crate) fn expire(&mut self, step: &mut Step<'_>, answers: &mut Vec<Answer>) {
        let now = step.now.mono;
        let over: Vec<(ConnectionId, bool)> = self
            .connections
            .iter()
            .filter(|(_, (_, connection))| {
                connection
                    .deadline(self.max_idle_ms)
                    .is_some_and(|deadline| deadline <= now)
            })
            .map(|(id, (_, connection))| (*id, connection.is_idle()))
            .collect();
        for (id, idle) in over {
            if idle {
                self.unlink(id);
            } else {
                self.fail(step, id, "timed out");
            }
            self.close(step, id, None, answers);
        }
        // Whoever still wants a connection asks again in this step.
        for link in self.links.values_mut() {
            if link.not_before <= now {
                link.wanted = false;
            }
        }
    }

    /// Closes everything, for good.
    pub(crate) fn close_all(&mut self, step: &mut Step<'_>, answers: &mut Vec<Answer>) {
        while let Some((&id, _)) = self.connections.first_key_value() {
            self.unlink(id);
            self.close(step, id, None, answers);
        }
        self.links.clear();
    }

    /// When [`Self::expire`] has something to do, or a back-off that somebody waits for is over.
    pub(crate) fn deadline(&self) -> Option<Mono> {
        let connections = self
            .connections
            .values()
            .map(|(_, connection)| connection.deadline(self.max_idle_ms));
        let links = self
            .links
            .values()
            .filter(|link| link.wanted && link.connection.is_none())
            .map(|link| Some(link.not_before));
        connections.chain(links).fold(None, earlier)
    }

    fn unlink(&mut self, id: ConnectionId) -> Option<&mut Link> {
        let (target, _) = self.connections.get(&id)?;
        let link = self.links.get_mut(target)?;
        link.connection = None;
        Some(link)
    }

    /// Notes that a connection failed: the next one has to wait.
    fn fail(&mut self, step: &mut Step<'_>, id: ConnectionId, reason: &str) {
        let backoff = self.backoff;
        let Some((target, _)) = self.connections.get(&id) else {
            return;
        };
        let target = *target;
        let Some(link) = self.unlink(id) else {
            return;
        };
        link.failures = link.failures.saturating_add(1);
        link.not_before = backoff.after(link.failures, step);
        let message = format!("connection {id} to {target} at {}: {reason}", link.endpoint);
        step.report(Level::Warn, message);
    }

    fn close(
        &mut self,
        step: &mut Step<'_>,
        id: ConnectionId,
        malformed: Option<&str>,
        answers: &mut Vec<Answer>,
    ) {
        if let Some((_, connection)) = self.connections.remove(&id) {
            step.out.push(ClientEffect::Close { connection: id });
            end(connection, step.now.mono, malformed, answers);
        }
    }
}

/// Answers the requests that get no other answer. A malformed answer was meant for the oldest.
fn end(connection: Connection, now: Mono, malformed: Option<&str>, answers: &mut Vec<Answer>) {
    for (index, (purpose, timed_out)) in connection.end(now).enumerate() {
        let error = match malformed {
            Some(reason) if index == 0 => ClientError::Malformed {
                reason: String::from(reason),
            },
            _ if timed_out => ClientError::TimedOut {
                what: Timeout::Request,
                last: None,
            },
            _ => ClientError::Disconnected,
        };
        answers.push(Answer {
            purpose,
            result: Err(error),
        });
    }
}

const fn is_for_all(target: Target) -> bool {
    matches!(target, Target::Node(_) | Target::Bootstrap(_))
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "broker {node}"),
            Self::Bootstrap(index) => write!(f, "bootstrap server {index}"),
            Self::Fetcher(node) => write!(f, "broker {node} for fetches"),
            Self::Coordinator(node) => write!(f, "coordinator {node}"),
        }
    }
}
