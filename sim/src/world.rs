//! A run: nodes with the real broker in them, a network, a disk, clients, and an oracle, moved by
//! one queue of events.
//!
//! A run has phases. First faults and workload, for as long as the seed says. Then faults stop: the
//! clients finish what they have under way; a last client reads everything; the broker is stopped
//! gracefully and started once more. Each of these has a bound of virtual time.

use std::collections::BTreeMap;

use bytes::Bytes;
use odradek_core::broker::inspect::Held;
use odradek_core::client;
use odradek_core::ids::ConnectionId;
use odradek_core::time::Mono;

use crate::bugs::Planted;
use crate::choices::{Choices, Subsystem};
use crate::clock::{Clock, MILLISECOND, SECOND};
use crate::disk::Inode;
use crate::disk::faults::DiskFault;
use crate::host::files::{Report, Token};
use crate::network::{Arrival, Network};
use crate::oracle::{Check, Mark, Oracle, Violation};
use crate::swarm::{Swarm, Workload};
use crate::trace::{ChainedHash, Keep, Trace};
use crate::workload::seen::Seen;
use crate::workload::verifier::Verifier;
use crate::workload::{self, Catalog, Client, ClientContext};

use self::node::Node;

mod effects;
pub mod node;
mod process;

/// One run.
#[derive(Debug)]
pub struct World {
    clock: Clock<Event>,
    choices: Choices,
    swarm: Swarm,
    planted: Planted,
    nodes: Vec<Node>,
    network: Network,
    catalog: Catalog,
    clients: Vec<Box<dyn Client>>,
    verifier: Verifier,
    oracle: Oracle,
    trace: Trace,
    phase: Phase,
    phase_ends: Mono,
    counts: Counts,
}

/// What happens at some time.
#[derive(Debug)]
enum Event {
    /// An operation on the disk is over.
    Execute {
        node: usize,
        life: u64,
        token: Token,
    },
    /// A completion reaches the broker.
    Report {
        node: usize,
        life: u64,
        report: Report,
    },
    /// The kernel drops clean pages.
    Evict { node: usize, inode: Inode },
    /// Something arrives at one end of a connection.
    Arrive {
        connection: ConnectionId,
        arrival: Arrival,
    },
    /// The broker's writer has its turn.
    Write {
        node: usize,
        life: u64,
        connection: ConnectionId,
    },
    /// The broker may take further frames from a connection.
    Pull {
        node: usize,
        life: u64,
        connection: ConnectionId,
    },
    /// The broker learns that a connection is gone.
    Gone {
        node: usize,
        life: u64,
        connection: ConnectionId,
    },
    /// A graceful stop.
    Stop { node: usize, life: u64 },
    /// The broker's deadline has come.
    Deadline { node: usize, life: u64 },
    /// A node is to be started.
    Start { node: usize },
    /// A client's timer.
    Timer { client: usize, tag: u64 },
    /// The disk fills up, and has room again.
    Full { node: usize },
    /// The disk has room again.
    Room { node: usize },
    /// The wall clock steps.
    StepWall,
    /// Faults are over.
    FaultsOver,
    /// See whether a phase is over.
    Poll,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Faults and workload.
    Faults,
    /// Clients finish.
    Settle,
    /// Everything is read.
    Verify,
    /// The broker is stopped.
    Stop,
    /// And started once more.
    Restart,
    /// Over.
    Done,
}

/// What happened, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Inputs handled.
    pub steps: u64,
    /// Process crashes.
    pub crashes: u64,
    /// Power losses.
    pub power_losses: u64,
    /// Graceful stops.
    pub stops: u64,
    /// Starts.
    pub starts: u64,
    /// Starts that were over, after a death.
    pub recoveries: u64,
    /// Requests that reached the broker.
    pub requests: u64,
    /// Disk faults by kind.
    pub faults: BTreeMap<DiskFault, u64>,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// What did not hold, if something did not.
    pub violation: Option<Violation>,
    /// What happened.
    pub counts: Counts,
    /// What happened, by the oracle's marks.
    pub marks: BTreeMap<Mark, u64>,
    /// Batches acknowledged.
    pub acked_batches: u64,
    /// Fetches with records.
    pub full_fetches: u64,
    /// How much virtual time it covered, in nanoseconds.
    pub virtual_ns: u64,
    /// The hash over everything.
    pub hash: ChainedHash,
    /// Lines of the trace, as far as they were kept.
    pub lines: Vec<String>,
}

/// No run takes more events than this; one that would is stuck in a loop.
const MAX_EVENTS: u64 = 5_000_000;

/// How long each phase after the faults may take.
const PHASE_BOUND_NS: u64 = 120 * SECOND;

/// The client number of the one that reads everything.
const VERIFIER: usize = 1_000;

/// Runs a seed. A panic of the core is a violation like any other.
#[must_use]
pub fn run(seed: u64, workload: Workload, planted: Planted, keep: Keep) -> Outcome {
    let mut world = World::new(seed, workload, planted, keep);
    let result = crate::panics::catch(|| world.run());
    if let Err(message) = result {
        world.oracle.violate(Check::Panic, message);
    }
    world.outcome(seed)
}

impl World {
    fn new(seed: u64, workload: Workload, planted: Planted, keep: Keep) -> Self {
        let mut choices = Choices::new(seed);
        let swarm = Swarm::draw(&mut choices, workload);
        let mut oracle = Oracle::new(swarm.broker.durability, swarm.broker.log.clone());
        oracle.groups_have(&swarm.broker.groups);
        let catalog = Catalog {
            topics: workload::topics(&swarm.workload),
            ..Catalog::default()
        };
        Self {
            clock: Clock::new(),
            nodes: vec![Node::new(&swarm, planted)],
            network: Network::new(swarm.network),
            clients: workload::clients(&swarm.workload, planted.core),
            verifier: Verifier::default(),
            oracle,
            trace: Trace::new(keep),
            phase: Phase::Faults,
            phase_ends: Mono(u64::MAX),
            counts: Counts::default(),
            catalog,
            choices,
            swarm,
            planted,
        }
    }

    fn run(&mut self) {
        let line = format!("{:?}", self.swarm);
        self.say(format_args!("swarm {line}"));
        self.clock.after(0, Event::Start { node: 0 });
        self.clock.after(self.swarm.duration_ns, Event::FaultsOver);
        if let Some(mean) = self.swarm.full_disk_every_ns {
            let after = self.choices.exponential(Subsystem::FullDisk, 0, mean);
            self.clock.after(after, Event::Full { node: 0 });
        }
        if let Some(mean) = self.swarm.wall_steps_every_ns {
            let after = self.choices.exponential(Subsystem::WallClock, 0, mean);
            self.clock.after(after, Event::StepWall);
        }
        for client in 0..self.clients.len() {
            self.with_client(client, |client, cx| client.start(cx));
        }
        let mut events = 0;
        while self.phase != Phase::Done && self.oracle.violation().is_none() {
            let Some(event) = self.clock.next_event() else {
                self.oracle.stuck("nothing happens any more");
                break;
            };
            self.oracle.tick(self.clock.mono());
            self.dispatch(event);
            events += 1;
            if events > MAX_EVENTS {
                self.oracle.stuck("the run does not end");
            }
        }
    }

    fn outcome(self, seed: u64) -> Outcome {
        Outcome {
            seed,
            violation: self.oracle.violation().cloned(),
            marks: self.oracle.marks,
            acked_batches: self.oracle.acked_batches,
            full_fetches: self.oracle.full_fetches,
            virtual_ns: self.clock.mono().0 - SECOND,
            counts: self.counts,
            hash: self.trace.hash(),
            lines: self.trace.into_lines(),
        }
    }

    /// Writes a line of the trace.
    fn say(&mut self, what: std::fmt::Arguments<'_>) {
        self.trace.line(self.clock.mono(), what);
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Execute { node, life, token } => self.execute(node, life, token),
            Event::Report { node, life, report } => self.report(node, life, report),
            Event::Evict { node, inode } => {
                self.say(format_args!("* evict clean pages of inode {}", inode.0));
                *self.counts.faults.entry(DiskFault::Evicted).or_default() += 1;
                self.nodes[node].disk.evict(inode);
            }
            Event::Arrive {
                connection,
                arrival,
            } => self.arrive(connection, arrival),
            Event::Write {
                node,
                life,
                connection,
            } => self.write(node, life, connection),
            Event::Pull {
                node,
                life,
                connection,
            } => {
                if self.nodes[node].life == life {
                    self.pull(node, connection);
                }
            }
            Event::Gone {
                node,
                life,
                connection,
            } => self.gone(node, life, connection),
            Event::Stop { node, life } => {
                if self.nodes[node].life == life {
                    self.stop(node);
                }
            }
            Event::Deadline { node, life } => self.deadline(node, life),
            Event::Start { node } => self.start(node),
            Event::Timer { client, tag } => {
                self.with_client(client, |client, cx| client.timer(tag, cx));
            }
            Event::Full { node } => self.fill_disk(node),
            Event::Room { node } => {
                self.say(format_args!("* the disk has room again"));
                self.nodes[node].disk.set_free_bytes(None);
            }
            Event::StepWall => self.step_wall(),
            Event::FaultsOver => self.faults_over(),
            Event::Poll => self.poll(),
        }
    }

    /// Lets a client do something, and carries out what it did.
    fn with_client(
        &mut self,
        number: usize,
        act: impl FnOnce(&mut dyn Client, &mut ClientContext<'_>),
    ) {
        let mut arrivals = Vec::new();
        let mut timers = Vec::new();
        let mut complaints = Vec::new();
        let mut saw = Vec::new();
        let mut cx = ClientContext {
            client: number,
            now: self.clock.now(),
            choices: &mut self.choices,
            catalog: &mut self.catalog,
            network: &mut self.network,
            arrivals: &mut arrivals,
            timers: &mut timers,
            complaints: &mut complaints,
            saw: &mut saw,
        };
        match self.clients.get_mut(number) {
            Some(client) => act(client.as_mut(), &mut cx),
            None => act(&mut self.verifier, &mut cx),
        }
        for (at, connection, arrival) in arrivals {
            self.clock.at(
                at,
                Event::Arrive {
                    connection,
                    arrival,
                },
            );
        }
        for (delay, tag) in timers {
            let client = number;
            self.clock.after(delay, Event::Timer { client, tag });
        }
        for seen in saw {
            self.client_saw(number, seen);
        }
        for complaint in complaints {
            let detail = format!("client {number}: {complaint}");
            self.oracle.violate(Check::AnswersWellFormed, detail);
        }
    }

    fn client_saw(&mut self, number: usize, seen: Seen) {
        match &seen {
            Seen::Outcome { id, outcome } if !matches!(outcome, client::Outcome::Ok { .. }) => {
                self.say(format_args!("* {id}: {outcome}"));
            }
            Seen::Abandoned { .. } => self.say(format_args!("* client {number} dies")),
            _ => {}
        }
        self.oracle.client_saw(seen);
    }

    /// Schedules what travels on a connection.
    fn travel(&mut self, connection: ConnectionId, arrivals: crate::network::Arrivals) {
        for (at, arrival) in arrivals {
            self.clock.at(
                at,
                Event::Arrive {
                    connection,
                    arrival,
                },
            );
        }
    }

    fn arrive(&mut self, connection: ConnectionId, arrival: Arrival) {
        let Some((client, node)) = self.network.ends(connection) else {
            return;
        };
        match arrival {
            Arrival::Open => self.accept(node, connection),
            Arrival::AtBroker(bytes) => {
                if self.network.broker_is_open(connection) {
                    self.nodes[node].connections.receive(connection, &bytes);
                    self.pull(node, connection);
                }
            }
            Arrival::AtClient(bytes) => {
                if self.network.client_is_open(connection) {
                    self.client_receives(client, connection, bytes);
                }
            }
            Arrival::BrokerSeesClose => {
                if self.network.broker_saw_close(connection) {
                    self.broker_loses(node, connection);
                }
            }
            Arrival::ClientSeesClose => {
                if self.network.client_saw_close(connection) {
                    self.say(format_args!("* client {client} sees {connection} closed"));
                    self.with_client(client, |client, cx| client.closed(connection, cx));
                }
            }
        }
    }

    fn client_receives(&mut self, client: usize, connection: ConnectionId, bytes: Bytes) {
        self.trace.bytes(&bytes);
        self.with_client(client, |client, cx| client.bytes(connection, bytes, cx));
    }

    fn fill_disk(&mut self, node: usize) {
        if self.phase != Phase::Faults {
            return;
        }
        let free = self.choices.between(Subsystem::FullDisk, 0, 0, 4_000);
        let lasts = self
            .choices
            .exponential(Subsystem::FullDisk, 0, 100 * MILLISECOND);
        self.say(format_args!("* the disk has room for {free} more bytes"));
        self.nodes[node].disk.set_free_bytes(Some(free));
        self.nodes[node].faults_in_life += 1;
        self.clock.after(lasts, Event::Room { node });
        if let Some(mean) = self.swarm.full_disk_every_ns {
            let after = self.choices.exponential(Subsystem::FullDisk, 0, mean);
            self.clock.after(lasts + after, Event::Full { node });
        }
    }

    fn step_wall(&mut self) {
        if self.phase != Phase::Faults {
            return;
        }
        let by = self
            .choices
            .pick(Subsystem::WallClock, 0, &[-3_600_000, -50, 50, 3_600_000]);
        self.say(format_args!("* the wall clock steps by {by} ms"));
        self.clock.step_wall(by);
        self.oracle.wall_stepped(by);
        if let Some(mean) = self.swarm.wall_steps_every_ns {
            let after = self.choices.exponential(Subsystem::WallClock, 0, mean);
            self.clock.after(after, Event::StepWall);
        }
    }

    fn faults_over(&mut self) {
        self.say(format_args!("* faults are over"));
        self.network.active = false;
        for node in &mut self.nodes {
            node.disk_faults.active = false;
            node.disk.set_free_bytes(None);
            node.crash = None;
        }
        for connection in self.network.half_open() {
            let arrival = Arrival::BrokerSeesClose;
            self.clock.after(
                0,
                Event::Arrive {
                    connection,
                    arrival,
                },
            );
        }
        for client in 0..self.clients.len() {
            self.with_client(client, |client, cx| client.finish(cx));
        }
        self.enter(Phase::Settle);
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.phase_ends = Mono(self.clock.mono().0 + PHASE_BOUND_NS);
        self.clock.after(0, Event::Poll);
    }

    /// Whether a phase is over, and then the next one.
    fn poll(&mut self) {
        let serving = self.nodes.iter().all(Node::is_serving);
        match self.phase {
            Phase::Settle if serving && self.clients.iter().all(|c| c.is_idle()) => {
                self.say(format_args!("* all clients are done; reading everything"));
                self.enter(Phase::Verify);
                self.with_client(VERIFIER, |client, cx| client.start(cx));
                return;
            }
            Phase::Verify if self.verifier.is_idle() => {
                let read = std::mem::take(&mut self.verifier.read);
                self.oracle.everything_was_read(&read);
                self.close_clients();
                self.enter(Phase::Stop);
                return;
            }
            Phase::Stop => {
                if let Some(broker) = &self.nodes[0].broker {
                    let held = broker.held();
                    let clean = held == Held::default();
                    let late = self.clock.mono().0 + PHASE_BOUND_NS / 2 > self.phase_ends.0;
                    // A produce that timed out stays parked until its flush is over.
                    if !self.nodes[0].is_stopping && (clean || late) {
                        if !clean {
                            let parked: Vec<String> = broker
                                .partitions()
                                .filter(|(_, partition)| partition.waiting() > 0)
                                .map(|(_, partition)| {
                                    let log = partition.log();
                                    format!(
                                        "{} in {} (high watermark {}, end {})",
                                        partition.waiting(),
                                        log.dir(),
                                        partition.high_watermark(),
                                        log.log_end_offset()
                                    )
                                })
                                .collect();
                            let detail = format!(
                                "no connection is left, and there are {held:?}: {}",
                                parked.join(", ")
                            );
                            self.oracle
                                .violate(Check::ClosedConnectionLeaksNothing, detail);
                        }
                        self.stop(0);
                    }
                } else {
                    self.enter(Phase::Restart);
                    self.clock.after(0, Event::Start { node: 0 });
                    return;
                }
            }
            Phase::Restart if serving => {
                self.say(format_args!("* done"));
                self.phase = Phase::Done;
                return;
            }
            _ => {}
        }
        if self.clock.mono() > self.phase_ends {
            let what = self.why_stuck();
            self.oracle.stuck(&what);
        }
        self.clock.after(10 * MILLISECOND, Event::Poll);
    }

    fn why_stuck(&self) -> String {
        let waiting = self.oracle.waiting();
        let busy: Vec<usize> = (0..self.clients.len())
            .filter(|client| !self.clients[*client].is_idle())
            .collect();
        match self.phase {
            Phase::Settle if !self.nodes.iter().all(Node::is_serving) => {
                "the broker does not start".to_owned()
            }
            Phase::Settle => {
                format!("clients {busy:?} are not done; {waiting} requests wait for an answer")
            }
            Phase::Verify => format!("not everything can be read; {waiting} requests wait"),
            Phase::Stop => "the broker does not stop".to_owned(),
            Phase::Restart => "the broker does not start after a graceful stop".to_owned(),
            Phase::Faults | Phase::Done => "the run does not end".to_owned(),
        }
    }

    /// All clients leave.
    fn close_clients(&mut self) {
        let open: Vec<ConnectionId> = self.nodes[0].connections.ids().collect();
        for connection in open {
            let now = self.clock.mono();
            let arrivals = self
                .network
                .close_by_client(connection, now, &mut self.choices);
            self.travel(connection, arrivals);
        }
    }
}

#[cfg(test)]
mod tests;
