//! The clients of a run. They speak real frames through the core's codec and know nothing of the
//! broker but what its answers say.
//!
//! What they never produce, and why, is in [`gaps`].
//!
//! A client is a [`Client`]: a state machine that the world hands its events to. Some build their
//! frames by hand, so that every version and every odd request comes up; the `machine`s are the
//! state machines of `odradek_core::client`, as an application runs them: producers, consumers, and
//! members of groups by either protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use odradek_core::bugs::Bugs;
use odradek_core::client::GroupProtocol;
use odradek_core::ids::{ConnectionId, TopicId};
use odradek_core::time::{Mono, Now};

use crate::choices::{Choices, Odds, Subsystem};
use crate::network::{Arrival, Network};
use crate::swarm::WorkloadMix;

use self::seen::Seen;

pub mod absent;
pub mod administrator;
pub mod committer;
pub mod consumer;
pub mod consumer_member;
pub mod founder;
pub mod gaps;
pub mod group_member;
pub mod group_requests;
pub mod hostile;
pub mod idempotent;
pub mod keeper;
pub mod lister;
pub mod machine;
pub mod machine_consumer;
pub mod machine_member;
pub mod machine_producer;
pub mod machine_reader;
pub mod pace;
pub mod producer;
pub mod refused;
pub mod seen;
pub mod session;
pub mod topic_maker;
pub mod trimmer;
pub mod verifier;

/// A client, as the world drives it.
pub trait Client: fmt::Debug {
    /// The run begins.
    fn start(&mut self, cx: &mut ClientContext<'_>);
    /// A timer that it set has come.
    fn timer(&mut self, tag: u64, cx: &mut ClientContext<'_>);
    /// Bytes arrived.
    fn bytes(&mut self, connection: ConnectionId, bytes: Bytes, cx: &mut ClientContext<'_>);
    /// A connection is gone, or was refused.
    fn closed(&mut self, connection: ConnectionId, cx: &mut ClientContext<'_>);
    /// Faults are over: finish what is under way, begin nothing new.
    fn finish(&mut self, cx: &mut ClientContext<'_>);
    /// Whether nothing is under way.
    fn is_idle(&self) -> bool;
}

/// The tags of timers from this one on belong to the host of a client's state machine. All others
/// are a client's turns: it decides to do something, and a run can be done again without that.
pub const HOST_TIMERS: u64 = 1 << 62;

/// What a client may do, and what it knows.
#[derive(Debug)]
pub struct ClientContext<'a> {
    /// Its place among the clients of the run.
    pub client: usize,
    /// The time.
    pub now: Now,
    /// Its decisions.
    pub choices: &'a mut Choices,
    /// What all clients know of topics.
    pub catalog: &'a mut Catalog,
    /// The network.
    pub network: &'a mut Network,
    /// What will arrive because of what it did.
    pub arrivals: &'a mut Vec<(Mono, ConnectionId, Arrival)>,
    /// The frames it sent.
    pub sent: &'a mut Vec<(ConnectionId, Bytes)>,
    /// The timers it set: delay in nanoseconds, and tag.
    pub timers: &'a mut Vec<(u64, u64)>,
    /// What it has to complain about: an answer that breaks the protocol.
    pub complaints: &'a mut Vec<String>,
    /// What it tells the oracle.
    pub saw: &'a mut Vec<Seen>,
}

/// What clients know of topics.
#[derive(Debug, Default)]
pub struct Catalog {
    /// The topics that are there from the beginning, with their numbers of partitions.
    pub topics: Vec<(String, i32)>,
    /// Ids, where an answer has told.
    pub ids: BTreeMap<String, TopicId>,
    /// The largest high watermark that an answer has told, by topic and partition.
    pub high_watermarks: BTreeMap<(String, i32), i64>,
    /// What the last reader cannot read, by the directory of the partition: first and last offsets.
    pub unreadable: BTreeMap<String, Vec<(i64, i64)>>,
    /// The ids of members of groups whose clients live.
    pub members: BTreeSet<String>,
}

impl ClientContext<'_> {
    /// Connects to the first node.
    pub fn connect(&mut self) -> ConnectionId {
        let (id, arrivals) = self
            .network
            .connect(self.client, 0, self.now.mono, self.choices);
        self.arrive(id, arrivals);
        id
    }

    /// Sends bytes.
    pub fn send(&mut self, connection: ConnectionId, bytes: Bytes) {
        self.sent.push((connection, bytes.clone()));
        let arrivals = self
            .network
            .send_to_broker(connection, bytes, self.now.mono, self.choices);
        self.arrive(connection, arrivals);
    }

    /// Closes a connection.
    pub fn close(&mut self, connection: ConnectionId) {
        let arrivals = self
            .network
            .close_by_client(connection, self.now.mono, self.choices);
        self.arrive(connection, arrivals);
    }

    /// Leaves a connection without a word.
    pub fn vanish(&mut self, connection: ConnectionId) {
        self.network.vanish(connection);
    }

    /// Sets a timer.
    pub fn after(&mut self, delay_ns: u64, tag: u64) {
        self.timers.push((delay_ns, tag));
    }

    /// Whether something happens.
    pub fn chance(&mut self, odds: u32) -> bool {
        self.choices
            .chance(Subsystem::Client, self.client as u64, Odds(odds))
    }

    /// A number from `low` up to and including `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        self.choices
            .between(Subsystem::Client, self.client as u64, low, high)
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        self.choices
            .pick(Subsystem::Client, self.client as u64, from)
    }

    /// A pause around `mean`.
    pub fn pause(&mut self, mean_ns: u64) -> u64 {
        self.choices
            .exponential(Subsystem::Client, self.client as u64, mean_ns)
    }

    /// One of the partitions that are there from the beginning.
    pub fn pick_partition(&mut self) -> (String, i32) {
        let all: Vec<(usize, i32)> = self
            .catalog
            .topics
            .iter()
            .enumerate()
            .flat_map(|(i, (_, partitions))| (0..*partitions).map(move |p| (i, p)))
            .collect();
        let (topic, partition) = self.pick(&all);
        (self.catalog.topics[topic].0.clone(), partition)
    }

    fn arrive(&mut self, id: ConnectionId, arrivals: crate::network::Arrivals) {
        self.arrivals
            .extend(arrivals.into_iter().map(|(at, arrival)| (at, id, arrival)));
    }
}

/// The clients of a mix, in a fixed order.
#[must_use]
pub fn clients(mix: &WorkloadMix, bugs: Bugs) -> Vec<Box<dyn Client>> {
    let mut clients: Vec<Box<dyn Client>> = vec![Box::new(founder::Founder::default())];
    for _ in 0..mix.producers {
        clients.push(Box::new(producer::Producer::new(mix)));
    }
    for _ in 0..mix.idempotent {
        clients.push(Box::new(idempotent::Idempotent::new(mix)));
    }
    for _ in 0..mix.consumers {
        clients.push(Box::new(consumer::Consumer::new(mix)));
    }
    for _ in 0..mix.machine_producers {
        clients.push(Box::new(machine_producer::MachineProducer::new(mix, bugs)));
    }
    for _ in 0..mix.machine_consumers {
        clients.push(Box::new(machine_consumer::MachineConsumer::new(mix, bugs)));
    }
    for _ in 0..mix.listers {
        clients.push(Box::new(lister::Lister::default()));
    }
    for _ in 0..mix.topic_makers {
        clients.push(Box::new(topic_maker::TopicMaker::default()));
    }
    for _ in 0..mix.administrators {
        clients.push(Box::new(administrator::Administrator::default()));
    }
    for _ in 0..mix.trimmers {
        clients.push(Box::new(trimmer::Trimmer::default()));
    }
    for _ in 0..mix.hostile {
        clients.push(Box::new(hostile::Hostile::default()));
    }
    let groups = &mix.groups;
    for _ in 0..groups.classic {
        clients.push(Box::new(group_member::GroupMember::new(groups)));
    }
    for _ in 0..groups.consumer {
        clients.push(Box::new(consumer_member::ConsumerMember::new(groups)));
    }
    for _ in 0..groups.committers {
        clients.push(Box::new(committer::Committer::new(groups)));
    }
    for _ in 0..mix.keepers {
        clients.push(Box::new(keeper::Keeper::new(mix)));
    }
    for _ in 0..mix.refused {
        clients.push(Box::new(refused::Refused::default()));
    }
    // Last, so that they move nobody else.
    for (members, protocol) in [
        (groups.machine_classic, GroupProtocol::Classic),
        (groups.machine_consumer, GroupProtocol::Consumer),
    ] {
        for _ in 0..members {
            clients.push(Box::new(machine_member::MachineMember::new(protocol, bugs)));
        }
    }
    clients
}

/// The topics of a mix.
#[must_use]
pub fn topics(mix: &WorkloadMix) -> Vec<(String, i32)> {
    mix.topics
        .iter()
        .enumerate()
        .map(|(i, partitions)| (format!("topic{i}"), *partitions))
        .collect()
}
