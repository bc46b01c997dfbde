//! The host of one client state machine of the core: its connections are those of the simulated
//! network, its timers those of the virtual clock.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use odradek_core::bugs::Bugs;
use odradek_core::client::{
    Client, ClientConfig, ClientEffect, ClientEffects, ClientError, ClientEvent, ClientInput,
    Command, CommandId,
};
use odradek_core::ids::ConnectionId;
use odradek_core::input::Endpoint;
use odradek_core::time::Mono;
use odradek_core::wire::ApiKey;

use super::ClientContext;
use super::seen::Seen;
use crate::choices::Subsystem;
use crate::clock::MICROSECOND;

/// A client of the core and what its host keeps for it.
#[derive(Debug)]
pub struct Machine {
    /// The state machine itself, to be asked what it can be asked.
    pub client: Client,
    max_response_bytes: usize,
    effects: ClientEffects,
    /// By the client's own ids.
    links: BTreeMap<ConnectionId, Link>,
    /// From the network's ids to the client's.
    names: BTreeMap<ConnectionId, ConnectionId>,
    last_command: u64,
    /// The earliest deadline for which a timer is set.
    scheduled: Option<Mono>,
    /// How often in a row it was handed its deadline and wanted it at once again.
    spins: u32,
    events: Vec<ClientEvent>,
}

#[derive(Debug)]
struct Link {
    network: ConnectionId,
    is_connected: bool,
    inbox: BytesMut,
    /// The APIs of the requests without an answer.
    asked: VecDeque<i16>,
}

/// How often a client may want its deadline at once again: an application's thread would turn for
/// nothing.
const MOST_SPINS: u32 = 8;

/// The tag of a timer for the client's deadline.
const DEADLINE: u64 = u64::MAX;
/// What is set in the tag of a timer after which a connection is there, beside the network's id.
const CONNECTED: u64 = super::HOST_TIMERS;

/// Where every client begins.
#[must_use]
pub fn bootstrap() -> Vec<Endpoint> {
    vec![Endpoint {
        host: "sim".to_owned(),
        port: 9092,
    }]
}

impl Machine {
    /// A client with this configuration.
    pub fn new(cx: &mut ClientContext<'_>, config: &ClientConfig, bugs: Bugs) -> Self {
        let mut seed = [0; 32];
        cx.choices
            .dice(Subsystem::Client, cx.client as u64)
            .fill(&mut seed);
        Self {
            client: Client::with_bugs(config, seed, bugs),
            max_response_bytes: config.max_response_bytes,
            effects: ClientEffects::new(),
            links: BTreeMap::new(),
            names: BTreeMap::new(),
            last_command: 0,
            scheduled: None,
            spins: 0,
            events: Vec::new(),
        }
    }

    /// Hands the client a command.
    pub fn command(&mut self, cx: &mut ClientContext<'_>, command: Command) -> CommandId {
        self.last_command += 1;
        let id = CommandId(self.last_command);
        self.input(cx, ClientInput::Command { id, command });
        id
    }

    /// What the client told the application since this was last asked.
    pub fn take_events(&mut self) -> Vec<ClientEvent> {
        std::mem::take(&mut self.events)
    }

    /// A timer has come; `false` if it is none of the host's own.
    pub fn timer(&mut self, cx: &mut ClientContext<'_>, tag: u64) -> bool {
        if tag == DEADLINE {
            if self.scheduled.is_some_and(|at| at <= cx.now.mono) {
                self.scheduled = None;
            }
            let due = self.client.next_deadline();
            if due.is_some_and(|at| at <= cx.now.mono) {
                self.input(cx, ClientInput::Deadline);
                self.spins = match self.client.next_deadline() {
                    Some(at) if at <= cx.now.mono => self.spins + 1,
                    _ => 0,
                };
                if self.spins == MOST_SPINS {
                    broken(
                        cx,
                        "it wants its deadline at once, again and again".to_owned(),
                    );
                }
            } else {
                self.schedule(cx);
            }
            return true;
        }
        if tag & CONNECTED == 0 {
            return false;
        }
        let connection = self.names.get(&ConnectionId(tag & !CONNECTED)).copied();
        if let Some(connection) = connection
            && let Some(link) = self.links.get_mut(&connection)
        {
            link.is_connected = true;
            self.input(cx, ClientInput::Connected { connection });
        }
        true
    }

    /// Bytes arrived.
    pub fn bytes(&mut self, cx: &mut ClientContext<'_>, network: ConnectionId, bytes: &[u8]) {
        let Some(&connection) = self.names.get(&network) else {
            return;
        };
        if let Some(link) = self.links.get_mut(&connection) {
            link.inbox.extend_from_slice(bytes);
        }
        while let Some(frame) = self.next_frame(cx, connection) {
            self.input(cx, ClientInput::Received { connection, frame });
        }
    }

    fn next_frame(
        &mut self,
        cx: &mut ClientContext<'_>,
        connection: ConnectionId,
    ) -> Option<Bytes> {
        let link = self.links.get_mut(&connection)?;
        let size = i32::from_be_bytes(*link.inbox.first_chunk()?) as usize;
        if size > self.max_response_bytes {
            broken(cx, format!("{connection}: an answer of {size} bytes"));
            return None;
        }
        if link.inbox.len() < 4 + size {
            return None;
        }
        link.asked.pop_front();
        Some(link.inbox.split_to(4 + size).freeze().slice(4..))
    }

    /// A connection is gone, or was refused; whether the answer to a Produce is lost with it.
    pub fn closed(&mut self, cx: &mut ClientContext<'_>, network: ConnectionId) -> bool {
        let Some(connection) = self.names.remove(&network) else {
            return false;
        };
        let Some(link) = self.links.remove(&connection) else {
            return false;
        };
        if link.is_connected {
            self.input(cx, ClientInput::Disconnected { connection });
        } else {
            let reason = "refused".to_owned();
            self.input(cx, ClientInput::ConnectFailed { connection, reason });
        }
        link.asked.contains(&ApiKey::Produce.key())
    }

    /// The process of the client is gone, and its connections with it, with or without a word.
    pub fn die(self, cx: &mut ClientContext<'_>) {
        let silent = cx.chance(500_000);
        for network in self.names.into_keys() {
            if silent {
                cx.vanish(network);
            } else {
                cx.close(network);
            }
        }
    }

    fn input(&mut self, cx: &mut ClientContext<'_>, input: ClientInput) {
        self.client.handle(cx.now, input, &mut self.effects);
        let effects: Vec<ClientEffect> = self.effects.drain().collect();
        for effect in effects {
            match effect {
                ClientEffect::Connect {
                    connection,
                    endpoint,
                } => self.connect(cx, connection, &endpoint),
                ClientEffect::Send { connection, frame } => self.send(cx, connection, &frame),
                ClientEffect::Close { connection } => {
                    if let Some(link) = self.links.remove(&connection) {
                        self.names.remove(&link.network);
                        cx.close(link.network);
                    }
                }
                ClientEffect::Event(event) => self.events.push(event),
                ClientEffect::Report(_) => {}
            }
        }
        self.schedule(cx);
    }

    fn connect(
        &mut self,
        cx: &mut ClientContext<'_>,
        connection: ConnectionId,
        endpoint: &Endpoint,
    ) {
        if !bootstrap().contains(endpoint) {
            broken(cx, format!("{connection}: nobody is at {endpoint}"));
        }
        let network = cx.connect();
        let link = Link {
            network,
            is_connected: false,
            inbox: BytesMut::new(),
            asked: VecDeque::new(),
        };
        self.links.insert(connection, link);
        self.names.insert(network, connection);
        let delay = cx.pause(200 * MICROSECOND);
        cx.after(delay, CONNECTED | network.0);
    }

    fn send(&mut self, cx: &mut ClientContext<'_>, connection: ConnectionId, frame: &[Bytes]) {
        let Some(link) = self
            .links
            .get_mut(&connection)
            .filter(|link| link.is_connected)
        else {
            return broken(cx, format!("{connection}: sent where nothing is connected"));
        };
        let frame = Bytes::from(frame.concat());
        let api = frame.get(4..6).and_then(<[u8]>::first_chunk);
        link.asked
            .push_back(api.map_or(-1, |api| i16::from_be_bytes(*api)));
        let network = link.network;
        cx.send(network, frame);
    }

    fn schedule(&mut self, cx: &mut ClientContext<'_>) {
        let Some(at) = self.client.next_deadline() else {
            return;
        };
        if self.scheduled.is_some_and(|scheduled| scheduled <= at) {
            return;
        }
        self.scheduled = Some(at);
        // A host's timers are late, never early.
        let late = cx.pause(100 * MICROSECOND);
        cx.after(at.0.saturating_sub(cx.now.mono.0) + late, DEADLINE);
    }
}

/// Whether an error can only come of bytes that no sound broker sends, or of a fault of the client.
/// (The simulated network cuts connections; it changes no byte.)
#[must_use]
pub const fn is_inexcusable(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Malformed { .. }
            | ClientError::UnsupportedVersion { .. }
            | ClientError::Corrupt { .. }
            | ClientError::UnknownBroker(_)
    )
}

/// Says that the client broke a promise.
pub fn broken(cx: &mut ClientContext<'_>, what: String) {
    cx.saw.push(Seen::Broken(what));
}
