//! Connections: ordered streams of bytes that are delayed, stalled and cut.
//!
//! Each direction keeps the order of its bytes. A send travels in up to two pieces, so that frames
//! arrive in parts. A connection can be cut after any byte of either direction; then each side
//! learns of it some time later, the client sometimes only after seconds, or, half-open, the broker
//! never does. A connection can be refused; what is on its way can be held up for long; a client can
//! read slowly. Between connections there is no order.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use odradek_core::ids::ConnectionId;
use odradek_core::time::Mono;

use crate::choices::{Choices, Odds, Subsystem};
use crate::clock::{MICROSECOND, MILLISECOND, SECOND};

/// How often the network misbehaves, and how long it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkRates {
    /// Mean time a piece travels, in nanoseconds.
    pub latency_ns: u64,
    /// A connection is cut at some byte of its life, per connection and direction.
    pub cut: Odds,
    /// After a cut, the broker never learns of it.
    pub half_open: Odds,
    /// A piece is held up for long.
    pub stall: Odds,
    /// A connection is refused.
    pub refuse: Odds,
    /// The client reads slowly: the broker's writer is held up.
    pub slow_reader: Odds,
    /// After a cut, the client learns of it only after seconds.
    pub late_close: Odds,
}

/// The kinds of faults, as they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkFault {
    /// A connection was cut.
    Cut,
    /// A connection was cut, and the broker does not learn of it.
    HalfOpen,
    /// A connection was cut, and the client learns of it after seconds.
    LateClose,
    /// A connection was refused.
    Refused,
    /// A piece was held up for long.
    Stalled,
    /// A client read slowly.
    SlowReader,
}

impl NetworkFault {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Cut,
        Self::HalfOpen,
        Self::LateClose,
        Self::Refused,
        Self::Stalled,
        Self::SlowReader,
    ];
}

impl fmt::Display for NetworkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cut => "connection cut",
            Self::HalfOpen => "connection half-open",
            Self::LateClose => "cut learned of late",
            Self::Refused => "connection refused",
            Self::Stalled => "connection stalled",
            Self::SlowReader => "slow reader",
        })
    }
}

/// All connections of a run.
#[derive(Debug)]
pub struct Network {
    links: BTreeMap<ConnectionId, Link>,
    next_id: u64,
    /// How many connections each client had.
    by_client: BTreeMap<usize, u64>,
    rates: NetworkRates,
    /// Whether anything is cut, stalled or refused; off once the faults of a run are over.
    pub active: bool,
    /// What struck since somebody looked, and whose connection.
    pub struck: Vec<(usize, NetworkFault)>,
}

#[derive(Debug)]
struct Link {
    client: usize,
    node: usize,
    /// Whose dice are thrown: the same whatever the other clients do.
    entity: u64,
    to_broker: Direction,
    to_client: Direction,
    broker_knows: bool,
    client_knows: bool,
}

#[derive(Debug, Default)]
struct Direction {
    sent: u64,
    cut_at: Option<u64>,
    is_cut: bool,
    last_arrival: Mono,
}

/// Something that arrives at one end.
#[derive(Debug)]
pub enum Arrival {
    /// A connection reaches the broker.
    Open,
    /// Bytes reach the broker.
    AtBroker(Bytes),
    /// Bytes reach the client.
    AtClient(Bytes),
    /// The broker learns that the connection is gone.
    BrokerSeesClose,
    /// The client learns that the connection is gone, or was refused.
    ClientSeesClose,
}

/// What arrives when.
pub type Arrivals = Vec<(Mono, Arrival)>;

impl Network {
    /// A network with these rates.
    #[must_use]
    pub const fn new(rates: NetworkRates) -> Self {
        Self {
            links: BTreeMap::new(),
            next_id: 1,
            by_client: BTreeMap::new(),
            rates,
            active: true,
            struck: Vec::new(),
        }
    }

    /// Whether the faults of the network may strike now.
    const fn odds(&self, odds: Odds) -> Odds {
        if self.active { odds } else { Odds(0) }
    }

    /// A client connects to a node.
    pub fn connect(
        &mut self,
        client: usize,
        node: usize,
        now: Mono,
        choices: &mut Choices,
    ) -> (ConnectionId, Arrivals) {
        let id = ConnectionId(self.next_id);
        self.next_id += 1;
        let nth = self.by_client.entry(client).or_default();
        let entity = entity_of(client, *nth);
        *nth += 1;
        let mut directions = [Direction::default(), Direction::default()];
        for direction in &mut directions {
            let cut = self.odds(self.rates.cut);
            if let Some(mut dice) = choices.fault(Subsystem::NetworkFault, entity, cut) {
                // Mostly early, so that small exchanges are cut too.
                let mean = dice.pick(&[40, 400, 4_000, 20_000]);
                direction.cut_at = Some(dice.exponential(mean));
            }
        }
        let [to_broker, to_client] = directions;
        let refuse = self.odds(self.rates.refuse);
        let refused = choices
            .fault(Subsystem::NetworkFault, entity, refuse)
            .is_some();
        if refused {
            self.struck.push((client, NetworkFault::Refused));
        }
        let mut link = Link {
            client,
            node,
            entity,
            to_broker,
            to_client,
            broker_knows: refused,
            client_knows: false,
        };
        let mut arrivals = Vec::new();
        if refused {
            let at = self.arrival(entity, now, Mono::default(), choices);
            arrivals.push((at, Arrival::ClientSeesClose));
        } else {
            let at = self.arrival(entity, now, Mono::default(), choices);
            link.to_broker.last_arrival = at;
            arrivals.push((at, Arrival::Open));
        }
        self.links.insert(id, link);
        (id, arrivals)
    }

    /// The client and the node of a connection.
    #[must_use]
    pub fn ends(&self, id: ConnectionId) -> Option<(usize, usize)> {
        self.links.get(&id).map(|link| (link.client, link.node))
    }

    /// Whether the broker's end is open.
    #[must_use]
    pub fn broker_is_open(&self, id: ConnectionId) -> bool {
        self.links.get(&id).is_some_and(|link| !link.broker_knows)
    }

    /// Whether the client's end is open.
    #[must_use]
    pub fn client_is_open(&self, id: ConnectionId) -> bool {
        self.links.get(&id).is_some_and(|link| !link.client_knows)
    }

    /// The client sends.
    pub fn send_to_broker(
        &mut self,
        id: ConnectionId,
        bytes: Bytes,
        now: Mono,
        choices: &mut Choices,
    ) -> Arrivals {
        self.send(id, bytes, now, choices, true)
    }

    /// The broker sends.
    pub fn send_to_client(
        &mut self,
        id: ConnectionId,
        bytes: Bytes,
        now: Mono,
        choices: &mut Choices,
    ) -> Arrivals {
        self.send(id, bytes, now, choices, false)
    }

    fn send(
        &mut self,
        id: ConnectionId,
        mut bytes: Bytes,
        now: Mono,
        choices: &mut Choices,
        to_broker: bool,
    ) -> Arrivals {
        let Some(link) = self.links.get_mut(&id) else {
            return Vec::new();
        };
        let entity = link.entity;
        let direction = if to_broker {
            &mut link.to_broker
        } else {
            &mut link.to_client
        };
        if direction.is_cut {
            // Nothing more gets through, also once the faults of the run are over.
            return Vec::new();
        }
        let before = direction.sent;
        direction.sent += bytes.len() as u64;
        let mut last = direction.last_arrival;
        let cut_at = direction.cut_at.filter(|at| *at < direction.sent);
        let cut_at = cut_at.filter(|_| self.active);
        if let Some(at) = cut_at {
            direction.is_cut = true;
            bytes.truncate(at.saturating_sub(before) as usize);
        }
        let mut arrivals = Vec::new();
        let split = if bytes.len() > 1
            && choices.chance(Subsystem::NetworkLatency, entity, Odds(200_000))
        {
            choices.between(Subsystem::NetworkLatency, entity, 1, bytes.len() as u64 - 1) as usize
        } else {
            0
        };
        let first = bytes.split_to(split);
        for piece in [first, bytes] {
            if piece.is_empty() {
                continue;
            }
            last = self.arrival(entity, now, last, choices);
            arrivals.push((
                last,
                if to_broker {
                    Arrival::AtBroker(piece)
                } else {
                    Arrival::AtClient(piece)
                },
            ));
        }
        if let Some(link) = self.links.get_mut(&id) {
            let direction = if to_broker {
                &mut link.to_broker
            } else {
                &mut link.to_client
            };
            direction.last_arrival = last;
        }
        if cut_at.is_some() {
            arrivals.extend(self.cut(id, now, choices));
        }
        arrivals
    }

    /// Something in between cuts the connection: what is on its way arrives, then each side may
    /// learn of it.
    fn cut(&mut self, id: ConnectionId, now: Mono, choices: &mut Choices) -> Arrivals {
        let Some(link) = self.links.get(&id) else {
            return Vec::new();
        };
        let entity = link.entity;
        let (to_broker, to_client) = (link.to_broker.last_arrival, link.to_client.last_arrival);
        let half_open = self.odds(self.rates.half_open);
        let half_open = choices
            .fault(Subsystem::NetworkFault, entity, half_open)
            .is_some();
        let late = self.odds(self.rates.late_close);
        let late = choices.fault(Subsystem::LateClose, entity, late);
        let fault = match (&late, half_open) {
            (_, true) => NetworkFault::HalfOpen,
            (Some(_), false) => NetworkFault::LateClose,
            (None, false) => NetworkFault::Cut,
        };
        self.struck.push((client_of(entity), fault));
        let mut arrivals = Vec::new();
        if !half_open {
            let at = self.arrival(entity, now, to_broker, choices);
            arrivals.push((at, Arrival::BrokerSeesClose));
        }
        let mut at = self.arrival(entity, now, to_client, choices);
        if let Some(mut dice) = late {
            at.0 += dice.between(500 * MILLISECOND, 3 * SECOND);
        }
        arrivals.push((at, Arrival::ClientSeesClose));
        arrivals
    }

    /// The client closes its end; what it sent before still arrives.
    pub fn close_by_client(
        &mut self,
        id: ConnectionId,
        now: Mono,
        choices: &mut Choices,
    ) -> Arrivals {
        let Some(link) = self.links.get_mut(&id) else {
            return Vec::new();
        };
        link.client_knows = true;
        if link.broker_knows {
            return Vec::new();
        }
        let (entity, last) = (link.entity, link.to_broker.last_arrival);
        let at = self.arrival(entity, now, last, choices);
        vec![(at, Arrival::BrokerSeesClose)]
    }

    /// The client is gone without a word: the broker learns nothing.
    pub fn vanish(&mut self, id: ConnectionId) {
        if let Some(link) = self.links.get_mut(&id) {
            link.client_knows = true;
        }
    }

    /// The broker closes its end, or its process died; what it sent before still arrives.
    pub fn close_by_broker(
        &mut self,
        id: ConnectionId,
        now: Mono,
        choices: &mut Choices,
    ) -> Arrivals {
        let Some(link) = self.links.get_mut(&id) else {
            return Vec::new();
        };
        link.broker_knows = true;
        if link.client_knows {
            return Vec::new();
        }
        let (entity, last) = (link.entity, link.to_client.last_arrival);
        let at = self.arrival(entity, now, last, choices);
        vec![(at, Arrival::ClientSeesClose)]
    }

    /// The client's end has learned that the connection is gone; whether that is news.
    pub fn client_saw_close(&mut self, id: ConnectionId) -> bool {
        match self.links.get_mut(&id) {
            Some(link) if !link.client_knows => {
                link.client_knows = true;
                true
            }
            _ => false,
        }
    }

    /// The broker's end has learned that the connection is gone; whether that is news.
    pub fn broker_saw_close(&mut self, id: ConnectionId) -> bool {
        match self.links.get_mut(&id) {
            Some(link) if !link.broker_knows => {
                link.broker_knows = true;
                true
            }
            _ => false,
        }
    }

    /// The connections whose broker does not know that their client is gone.
    #[must_use]
    pub fn half_open(&self) -> Vec<ConnectionId> {
        self.links
            .iter()
            .filter(|(_, link)| link.client_knows && !link.broker_knows)
            .map(|(id, _)| *id)
            .collect()
    }

    /// The connections whose end at the broker is not closed, those that did not reach it yet included.
    #[must_use]
    pub fn open_at_broker(&self) -> Vec<ConnectionId> {
        let open = self.links.iter().filter(|(_, link)| !link.broker_knows);
        open.map(|(id, _)| *id).collect()
    }

    /// How long the broker's writer waits before it sends the next response, in nanoseconds.
    pub fn writer_delay(&mut self, id: ConnectionId, choices: &mut Choices) -> u64 {
        let entity = self.links.get(&id).map_or(0, |link| link.entity);
        let slow = self.odds(self.rates.slow_reader);
        match choices.fault(Subsystem::NetworkFault, entity, slow) {
            Some(mut dice) => {
                self.struck
                    .push((client_of(entity), NetworkFault::SlowReader));
                dice.exponential(200 * MILLISECOND)
            }
            None => choices.exponential(Subsystem::NetworkLatency, entity, 5 * MICROSECOND),
        }
    }

    /// When something arrives that is sent now over the connection of an entity.
    fn arrival(&mut self, entity: u64, now: Mono, last: Mono, choices: &mut Choices) -> Mono {
        let mean = self.rates.latency_ns;
        let mut delay = choices.exponential(Subsystem::NetworkLatency, entity, mean);
        let stall = self.odds(self.rates.stall);
        if let Some(mut dice) = choices.fault(Subsystem::NetworkFault, entity, stall) {
            self.struck.push((client_of(entity), NetworkFault::Stalled));
            delay += dice.exponential(400 * MILLISECOND);
        }
        // Never before what was sent earlier.
        Mono(now.0 + delay).max(Mono(last.0 + 1))
    }
}

/// The address of a client's connection, which small numbers keep near.
const fn entity_of(client: usize, nth: u64) -> u64 {
    if client < 64 && nth < 64 {
        (client as u64) << 6 | nth
    } else {
        (client as u64 + 1) << 32 | nth
    }
}

/// Whose address this is.
const fn client_of(entity: u64) -> usize {
    let client = if entity < 1 << 32 {
        entity >> 6
    } else {
        (entity >> 32) - 1
    };
    client as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_its_way_to_the_broker_can_be_ended_too() {
        let mut network = Network::new(NetworkRates::default());
        let mut choices = Choices::new(1);
        let (refused, _) = network.connect(1, 0, Mono(0), &mut choices);
        let (coming, arrivals) = network.connect(1, 0, Mono(0), &mut choices);
        assert!(matches!(arrivals[..], [(_, Arrival::Open)]));
        network.broker_saw_close(refused);
        assert_eq!(network.open_at_broker(), [coming]);
    }

    #[test]
    fn an_address_says_whose_it_is() {
        for client in [0, 5, 63, 64, 1_000] {
            for nth in [0, 63, 64, 70_000] {
                assert_eq!(client_of(entity_of(client, nth)), client, "{client} {nth}");
            }
        }
    }
}
