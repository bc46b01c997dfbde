//! The phases of a run after its faults, and when each of them is over.

use odradek_core::broker::inspect::Held;
use odradek_core::time::Mono;

use super::node::Node;
use super::{Event, PHASE_BOUND_NS, Phase, VERIFIER, World};
use crate::clock::{MILLISECOND, SECOND};
use crate::network::Arrival;
use crate::oracle::Check;
use crate::oracle::retention::Overdue;
use crate::workload::Client;
use crate::workload::absent::Absent;

/// How long clients may take to finish where something is damaged.
const PATIENCE_NS: u64 = 10 * SECOND;

impl World {
    pub(super) fn faults_over(&mut self) {
        self.say_all("faults are over");
        self.network.active = false;
        for node in &mut self.nodes {
            node.disk_faults.active = false;
            node.disk.set_free_bytes(None);
            node.disk.read_again();
            node.stalled_until = Mono::default();
            node.crash = None;
        }
        for number in 0..self.nodes.len() {
            self.mount_again(number);
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
            self.finish(client);
        }
        self.enter(Phase::Settle);
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.phase_ends = Mono(self.clock.mono().0 + PHASE_BOUND_NS);
        self.clock.after(0, Event::Poll);
    }

    /// Whether a phase is over, and then the next one.
    pub(super) fn poll(&mut self) {
        let serving = self.nodes.iter().all(Node::is_serving);
        let done = self.phase == Phase::Settle && serving && self.clients_are_done();
        let is_over = self.phase == Phase::Expire && serving && self.overdue().is_none();
        match self.phase {
            Phase::Settle if done => {
                self.say_all("all clients are done; reading everything");
                self.catalog.unreadable = self.oracle.unreadable();
                self.enter(Phase::Verify);
                self.with_client(VERIFIER, |client, cx| client.start(cx));
                return;
            }
            Phase::Verify if self.verifier.is_idle() => {
                let read = std::mem::take(&mut self.verifier.read);
                let refused = std::mem::take(&mut self.verifier.refused);
                self.oracle.everything_was_read(&read, &refused);
                self.enter(Phase::Expire);
                return;
            }
            Phase::Expire if is_over => {
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
                self.say_all("done");
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

    /// Whether all clients have finished. Those that wait for what is damaged never do, and are
    /// ended.
    fn clients_are_done(&mut self) -> bool {
        if self.clients.iter().all(|client| client.is_idle()) {
            return true;
        }
        let waited = self.clock.mono().0 - self.faults_end.0;
        if waited < PATIENCE_NS || !self.oracle.has_damage() {
            return false;
        }
        for client in &mut self.clients {
            if !client.is_idle() {
                *client = Box::new(Absent);
            }
        }
        true
    }

    /// What is expired and still there.
    fn overdue(&mut self) -> Option<Overdue> {
        let node = &self.nodes[0];
        let broker = node.broker.as_ref()?;
        self.oracle.overdue(broker, &node.disk)
    }

    fn why_stuck(&mut self) -> String {
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
            Phase::Expire => self.overdue().map_or_else(String::new, |it| it.to_string()),
            Phase::Stop => "the broker does not stop".to_owned(),
            Phase::Restart => "the broker does not start after a graceful stop".to_owned(),
            Phase::Faults | Phase::Done => "the run does not end".to_owned(),
        }
    }

    /// All clients leave. What was held up on its way to the broker arrives, and is over too.
    fn close_clients(&mut self) {
        for connection in self.network.open_at_broker() {
            let now = self.clock.mono();
            let arrivals = self
                .network
                .close_by_client(connection, now, &mut self.choices);
            self.travel(connection, arrivals);
        }
    }
}
