//! A run: nodes with the real broker in them, a network, a disk, clients, and an oracle, moved by
//! one queue of events.
//!
//! A run has phases. First faults and workload, for as long as the seed says. Then faults stop: the
//! clients finish what they have under way; a last client reads everything; the broker is stopped
//! gracefully and started once more. Each of these has a bound of virtual time.

use std::collections::BTreeMap;

use bytes::Bytes;
use odradek_core::client;
use odradek_core::ids::ConnectionId;
use odradek_core::time::Mono;

use crate::bugs::Planted;
use crate::choices::Choices;
use crate::clock::{Clock, SECOND};
use crate::decisions::{Decided, Decisions, FullDisk, WallStep};
use crate::disk::Inode;
use crate::disk::faults::DiskFault;
use crate::fault::{Fault, Stage};
use crate::host::files::{Report, Token};
use crate::network::{Arrival, Network};
use crate::oracle::codes::Codes;
use crate::oracle::{Check, Mark, Oracle, Violation};
use crate::story;
use crate::swarm::{Swarm, Workload};
use crate::trace::{ChainedHash, Keep, Lane, Sign, Step, Trace};
use crate::workload::absent::Absent;
use crate::workload::seen::Seen;
use crate::workload::verifier::Verifier;
use crate::workload::{self, Catalog, Client, ClientContext};

use self::node::Node;
pub(crate) use self::process::{KILLED, POWER_GOES};
pub use self::script::Plan;
use self::script::Script;

mod effects;
mod mishaps;
pub mod node;
mod phases;
mod process;
mod script;

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
    faults_end: Mono,
    script: Script,
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
    /// The disk of a node fills up.
    Full(usize, FullDisk),
    /// The disk has room again.
    Room { node: usize },
    /// The wall clock steps.
    StepWall(WallStep),
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
    /// What is expired goes.
    Expire,
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
    /// Completions of the disk.
    pub completions: u64,
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
    /// Requests that clients sent, without routine ones (see [`story::is_routine`]) and without
    /// those of the last reader, who is the oracle's.
    pub operations: u64,
    /// Requests of clients that are routine.
    pub routine: u64,
    /// Faults by kind, and by what the broker was doing when they struck.
    pub faults: BTreeMap<(Fault, Stage), u64>,
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
    /// The error codes that were answered.
    pub codes: Codes,
    /// Batches acknowledged.
    pub acked_batches: u64,
    /// Fetches with records.
    pub full_fetches: u64,
    /// How much virtual time it covered, in nanoseconds.
    pub virtual_ns: u64,
    /// The hash over everything.
    pub hash: ChainedHash,
    /// The steps, as far as they were kept.
    pub steps: Vec<Step>,
    /// What it decided, from which it can be done again.
    pub decisions: Decisions,
    /// How many clients it had, those that were left out included.
    pub clients: usize,
    /// It was over before the faults were.
    pub in_faults: bool,
    /// What the logs are like at its end, if steps were kept.
    pub state: Vec<String>,
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
    run_plan(&Plan::of_seed(seed, workload, planted, keep))
}

/// Runs what is planned: a seed, or given decisions.
#[must_use]
pub fn run_plan(plan: &Plan<'_>) -> Outcome {
    let mut world = World::new(plan);
    let result = crate::panics::catch(|| world.run(plan));
    if let Err(message) = result {
        world.oracle.violate(Check::Panic, message);
    }
    world.outcome(plan)
}

impl Outcome {
    /// Faults that struck: of disk and network, ends of processes, phases of a full disk, steps of the
    /// wall clock.
    #[must_use]
    pub fn faults(&self) -> u64 {
        let events = self.decisions.events.iter();
        events.filter(|event| event.is_fault()).count() as u64
    }
}

impl World {
    fn new(plan: &Plan<'_>) -> Self {
        let planted = plan.planted;
        let mut choices = plan.choices();
        let swarm = Swarm::draw(&mut choices, plan.workload);
        let faults_end = plan
            .decisions
            .map_or(Mono(SECOND + swarm.duration_ns), |given| given.faults_end);
        let mut clients = workload::clients(&swarm.workload, planted.core);
        if let Some(given) = plan.decisions {
            for (number, client) in clients.iter_mut().enumerate() {
                if given.absent.contains(&number) {
                    *client = Box::new(Absent);
                }
            }
        }
        let mut oracle = Oracle::new(swarm.broker.durability, swarm.broker.log.clone());
        oracle.groups_have(&swarm.broker.groups);
        oracle.wall_drifts(swarm.wall_drift_ppm);
        let mut clock = Clock::new();
        clock.drift_wall(swarm.wall_drift_ppm);
        let catalog = Catalog {
            topics: workload::topics(&swarm.workload),
            ..Catalog::default()
        };
        Self {
            clock,
            nodes: vec![Node::new(&swarm, planted)],
            network: Network::new(swarm.network),
            clients,
            verifier: Verifier::default(),
            oracle,
            trace: Trace::new(plan.keep),
            phase: Phase::Faults,
            phase_ends: Mono(u64::MAX),
            faults_end,
            script: Script::new(plan.decisions),
            counts: Counts::default(),
            catalog,
            choices,
            swarm,
            planted,
        }
    }

    fn run(&mut self, plan: &Plan<'_>) {
        let (now, swarm) = (self.clock.mono(), &self.swarm);
        self.trace.note(now, Sign::Event, Lane::Broker, || {
            format!("swarm {swarm:?}")
        });
        self.clock.after(0, Event::Start { node: 0 });
        self.clock.at(self.faults_end, Event::FaultsOver);
        self.schedule_phases();
        for client in 0..self.clients.len() {
            self.with_client(client, |client, cx| client.start(cx));
        }
        let mut events = 0;
        while self.phase != Phase::Done
            && self.oracle.violation().is_none()
            && plan.last_step.is_none_or(|last| self.trace.count() < last)
            && plan.last_time.is_none_or(|last| self.clock.mono() <= last)
        {
            let Some(event) = self.clock.next_event() else {
                self.oracle.stuck("nothing happens any more");
                break;
            };
            self.oracle.tick(self.clock.now());
            self.dispatch(event);
            self.count_network_faults();
            events += 1;
            if events > MAX_EVENTS {
                self.oracle.stuck("the run does not end");
            }
        }
    }

    fn outcome(self, plan: &Plan<'_>) -> Outcome {
        let state = match plan.keep {
            Keep::None => Vec::new(),
            _ => self.state(),
        };
        let hash = self.trace.hash();
        let mut steps = self.trace.into_steps();
        if let Some(last) = plan.last_step {
            steps.retain(|step| step.number <= last);
        }
        for step in &mut steps {
            if let Lane::Connection(connection) = step.lane {
                let ends = self.network.ends(connection);
                step.lane = ends.map_or(Lane::Broker, |(client, _)| Lane::Client(client));
            }
        }
        let mut decisions = plan.decisions.cloned().unwrap_or_default();
        decisions.mix = self.choices.mix().clone();
        decisions.faults_end = self.faults_end;
        decisions
            .absent
            .retain(|client| *client < self.clients.len());
        decisions.events = self.script.into_taken();
        let strikes = self.choices.strikes().iter().copied();
        decisions.events.extend(strikes.map(Decided::Strike));
        Outcome {
            seed: plan.seed,
            violation: self.oracle.violation().cloned(),
            marks: self.oracle.marks,
            codes: self.oracle.codes,
            acked_batches: self.oracle.acked_batches,
            full_fetches: self.oracle.full_fetches,
            virtual_ns: self.clock.mono().0 - SECOND,
            counts: self.counts,
            hash,
            steps,
            decisions,
            clients: self.clients.len(),
            in_faults: self.phase == Phase::Faults,
            state,
        }
    }

    /// What the logs are like, in words.
    fn state(&self) -> Vec<String> {
        let brokers = self.nodes.iter().filter_map(|node| node.broker.as_ref());
        brokers
            .flat_map(|broker| {
                broker.partitions().map(|(_, partition)| {
                    let log = partition.log();
                    format!(
                        "{}: {:?}, from {} to {}, high watermark {}, {} wait",
                        log.dir(),
                        log.state(),
                        log.log_start_offset(),
                        log.log_end_offset(),
                        partition.high_watermark(),
                        partition.waiting(),
                    )
                })
            })
            .collect()
    }

    /// Adds a step to the trace.
    fn say(&mut self, sign: Sign, lane: Lane, what: std::fmt::Arguments<'_>) {
        self.trace.happened(self.clock.mono(), sign, lane, what);
    }

    /// Adds a step of the run as a whole.
    fn say_all(&mut self, what: &str) {
        self.say(Sign::Event, Lane::Broker, format_args!("{what}"));
    }

    fn dispatch(&mut self, event: Event) {
        let Some(event) = self.unless_paused(event) else {
            return;
        };
        match event {
            Event::Execute { node, life, token } => self.execute(node, life, token),
            Event::Report { node, life, report } => self.report(node, life, report),
            Event::Evict { node, inode } => {
                self.say(
                    Sign::Fault,
                    Lane::Disk,
                    format_args!("evict clean pages of inode {}", inode.0),
                );
                self.struck(node, Fault::Disk(DiskFault::Evicted));
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
            Event::Timer { client, tag } => self.timer(client, tag),
            Event::Full(node, full) => self.fill_disk(node, full),
            Event::Room { node } => {
                let what = format_args!("the disk has room again");
                self.say(Sign::Event, Lane::Disk, what);
                self.nodes[node].disk.set_free_bytes(None);
            }
            Event::StepWall(step) => self.step_wall(step),
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
        let mut sent = Vec::new();
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
            sent: &mut sent,
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
        for (connection, frame) in sent {
            self.client_sent(number, connection, &frame);
        }
        for seen in saw {
            self.client_saw(number, seen);
        }
        for complaint in complaints {
            let detail = format!("client {number}: {complaint}");
            self.oracle.violate(Check::AnswersWellFormed, detail);
        }
    }

    fn client_sent(&mut self, number: usize, connection: ConnectionId, frame: &Bytes) {
        if number < self.clients.len() {
            if story::is_routine(frame) {
                self.counts.routine += 1;
            } else {
                self.counts.operations += 1;
            }
        }
        self.trace
            .note(self.clock.mono(), Sign::Sent, Lane::Client(number), || {
                let words = story::request(frame);
                format!("client {number} sends on {connection}: {words}")
            });
    }

    fn client_saw(&mut self, number: usize, seen: Seen) {
        let lane = Lane::Client(number);
        match &seen {
            Seen::Outcome { id, outcome } if !matches!(outcome, client::Outcome::Ok { .. }) => {
                self.say(Sign::Event, lane, format_args!("{id}: {outcome}"));
            }
            Seen::Abandoned { .. } => {
                self.say(Sign::Event, lane, format_args!("client {number} dies"));
            }
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
                    let what = format_args!("client {client} sees {connection} closed");
                    self.say(Sign::Event, Lane::Client(client), what);
                    self.with_client(client, |client, cx| client.closed(connection, cx));
                }
            }
        }
    }

    fn client_receives(&mut self, client: usize, connection: ConnectionId, bytes: Bytes) {
        self.trace.bytes(&bytes);
        self.with_client(client, |client, cx| client.bytes(connection, bytes, cx));
    }
}

#[cfg(test)]
mod tests;
