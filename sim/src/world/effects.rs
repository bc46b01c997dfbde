//! Steps of the broker, and its effects on disk and network.

use bytes::Bytes;
use odradek_core::effect::{Effect, Effects, Response};
use odradek_core::ids::ConnectionId;
use odradek_core::input::{Endpoint, Input};
use odradek_core::request::prepare;
use odradek_core::time::Mono;

use super::{Event, World};
use crate::batch::with_tables;
use crate::choices::Subsystem;
use crate::clock::{MICROSECOND, MILLISECOND};
use crate::disk::faults::{DiskFault, Work};
use crate::fault::Fault;
use crate::host::connections::{Inbox, Sent, resolve};
use crate::host::files::{Report, Started, Token};
use crate::oracle::{Check, Mark};
use crate::trace::{Lane, Sign};

/// The largest frame that the host reads (`socket.request.max.bytes`).
const MAX_FRAME_BYTES: usize = 100 << 20;

impl World {
    /// One step of the broker, and its effects.
    pub(super) fn step(&mut self, number: usize, input: Input) {
        self.counts.steps += 1;
        self.trace.input(self.clock.mono(), &input);
        let now = self.clock.now();
        let Some(broker) = &mut self.nodes[number].broker else {
            return;
        };
        let mut out = Effects::new();
        broker.handle(now, input, &mut out);
        let life = self.nodes[number].life;
        let effects: Vec<Effect> = out.drain().collect();
        for effect in effects {
            if self.may_die(number, || effect.to_string()) {
                return;
            }
            self.issue(number, effect);
            if self.nodes[number].life != life || self.nodes[number].broker.is_none() {
                return;
            }
        }
        self.judge_recovery(number);
        self.may_pause(number);
        self.oracle.step_over(self.nodes[number].files.is_reading());
        self.schedule_deadline(number);
    }

    /// Tells the oracle of logs whose recovery is over.
    fn judge_recovery(&mut self, number: usize) {
        let node = &self.nodes[number];
        if let Some(broker) = &node.broker {
            let healthy = node.faults_in_life == 0;
            self.oracle
                .judge_recovery(broker, &node.disk, node.accepts, healthy);
        }
    }

    /// Hands one effect to the host.
    fn issue(&mut self, number: usize, effect: Effect) {
        self.trace.effect(self.clock.mono(), &effect);
        let node = &mut self.nodes[number];
        self.oracle.effect(&effect, &node.disk);
        let started = match effect {
            Effect::Open { file, path, length } => {
                node.files.open(file, &path, length, &node.disk);
                Vec::new()
            }
            Effect::Write {
                file,
                position,
                data,
            } => {
                self.trace.bytes(&data.header);
                self.trace.bytes(&data.records);
                node.files.write(file, position, data)
            }
            Effect::Flush { file } => {
                if node.files.is_flushing(file) {
                    self.oracle.mark(Mark::FlushedBeside);
                }
                node.files.flush(file)
            }
            Effect::Manage { operation, op } => node.files.manage(operation, op),
            Effect::Read { operation, job } => node.files.read(operation, job),
            Effect::Respond {
                connection,
                response,
            } => return self.respond(number, connection, &response),
            Effect::Close { connection } => {
                if node.connections.close_when_drained(connection) {
                    self.drop_connection(number, connection);
                }
                return;
            }
            Effect::Report(report) => return self.oracle.reported(&report),
            Effect::Codecs(codecs) => {
                if self.swarm.tells_codecs {
                    node.codecs = codecs;
                }
                return;
            }
            Effect::Started => {
                node.accepts = true;
                self.counts.recoveries += u64::from(std::mem::take(&mut node.died));
                return self.oracle.started(&self.nodes[number].disk);
            }
            Effect::Stopped => return self.stopped(number),
            Effect::Fatal { message } => return self.fatal(number, &message),
        };
        self.schedule(number, started);
    }

    fn respond(&mut self, number: usize, connection: ConnectionId, response: &Response) {
        let node = &mut self.nodes[number];
        let bytes = resolve(response, &node.files, &node.disk);
        if let Some(bytes) = &bytes {
            self.trace.bytes(bytes);
        }
        self.oracle.answered(connection, bytes.as_ref(), &node.disk);
        let life = node.life;
        let wake = node
            .connections
            .respond(connection, response, &node.files, bytes);
        let node = number;
        if wake {
            let delay = self.network.writer_delay(connection, &mut self.choices);
            let turn = Event::Write {
                node,
                life,
                connection,
            };
            self.clock.after(delay, turn);
        }
        let pull = Event::Pull {
            node,
            life,
            connection,
        };
        self.clock.after(0, pull);
    }

    /// Schedules the end of operations that began.
    fn schedule(&mut self, number: usize, started: Vec<Started>) {
        let life = self.nodes[number].life;
        for Started {
            token,
            entity,
            work,
        } in started
        {
            let node = &mut self.nodes[number];
            let (mut delay, stalls) = node.disk_faults.latency(&mut self.choices, entity, work);
            let now = self.clock.mono();
            if stalls {
                let lane = Lane::Disk;
                self.trace.note(now, Sign::Fault, lane, || DiskFault::Stall);
                self.struck(number, Fault::Disk(DiskFault::Stall));
            }
            if work == Work::Device
                && let Some(stall) = self.nodes[number]
                    .disk_faults
                    .device_stall(&mut self.choices)
            {
                let what = format_args!("the device stands still for {} ms", stall / MILLISECOND);
                self.say(Sign::Fault, Lane::Disk, what);
                self.nodes[number].stalled_until = Mono(now.0 + stall);
                self.struck(number, Fault::Disk(DiskFault::DeviceStall));
            }
            delay += self.nodes[number].stalled_until.0.saturating_sub(now.0);
            let node = number;
            self.clock
                .after(delay, Event::Execute { node, life, token });
        }
    }

    /// An operation on the disk is over.
    pub(super) fn execute(&mut self, number: usize, life: u64, token: Token) {
        if self.nodes[number].life != life || self.nodes[number].broker.is_none() {
            return;
        }
        let node = &self.nodes[number];
        let what = if node.crash.is_some() && self.script.is_given() {
            node.files.what_runs(token)
        } else {
            String::new()
        };
        if self.may_die(number, || format!("do {what}")) {
            return;
        }
        let node = &mut self.nodes[number];
        let outcome =
            node.files
                .execute(token, &mut node.disk, &node.disk_faults, &mut self.choices);
        node.faults_in_life += outcome.faults.len() as u64;
        let stage = node.stage();
        for (fault, path) in &outcome.faults {
            let key = (Fault::Disk(*fault), stage);
            *self.counts.faults.entry(key).or_default() += 1;
            self.oracle.fault(*fault, path.as_ref());
            let now = self.clock.mono();
            let (sign, lane) = (Sign::Fault, Lane::Disk);
            match path {
                Some(path) => {
                    let what = format_args!("{fault}: {path}");
                    self.trace.happened(now, sign, lane, what);
                }
                None => self
                    .trace
                    .happened(now, sign, lane, format_args!("{fault}")),
            }
        }
        for damage in outcome.damages {
            self.damaged(number, damage);
        }
        let node = number;
        if let Some((inode, after)) = outcome.evicts {
            self.clock.after(after, Event::Evict { node, inode });
        }
        self.schedule(number, outcome.started);
        for report in outcome.reports {
            let delay = self
                .choices
                .exponential(Subsystem::ReportDelay, life, 2 * MICROSECOND);
            self.clock
                .after(delay, Event::Report { node, life, report });
        }
        // A crash here is a completion lost: done on the disk, never reported.
        self.may_die(number, || format!("did {what}"));
    }

    /// A completion reaches the broker.
    pub(super) fn report(&mut self, number: usize, life: u64, report: Report) {
        if self.nodes[number].life != life || self.nodes[number].broker.is_none() {
            return;
        }
        self.counts.completions += 1;
        if self.planted.loses_completion(self.counts.completions) {
            return;
        }
        if let Some(completion) = self.nodes[number].files.settle(report) {
            self.step(number, Input::Disk(completion));
        }
    }

    /// A connection reaches a node.
    pub(super) fn accept(&mut self, number: usize, connection: ConnectionId) {
        if !self.network.broker_is_open(connection) {
            // It was gone before it was there.
            return;
        }
        if !self.nodes[number].is_serving() {
            let now = self.clock.mono();
            let arrivals = self
                .network
                .close_by_broker(connection, now, &mut self.choices);
            return self.travel(connection, arrivals);
        }
        self.nodes[number].connections.open(connection);
        let local = Endpoint {
            host: "sim".to_owned(),
            port: 9092,
        };
        let peer = "sim".to_owned();
        self.step(
            number,
            Input::Opened {
                connection,
                local,
                peer,
            },
        );
    }

    /// Takes the frames that are complete.
    pub(super) fn pull(&mut self, number: usize, connection: ConnectionId) {
        loop {
            let node = &mut self.nodes[number];
            let life = node.life;
            match node.connections.next_frame(connection, MAX_FRAME_BYTES) {
                Inbox::Nothing => return,
                Inbox::Bad(length) => {
                    self.say(
                        Sign::Event,
                        Lane::Connection(connection),
                        format_args!("{connection} sends a frame of {length} bytes"),
                    );
                    return self.drop_connection(number, connection);
                }
                Inbox::Frame(frame) => self.request(number, connection, frame),
            }
            if self.nodes[number].life != life || self.nodes[number].broker.is_none() {
                return;
            }
        }
    }

    fn request(&mut self, number: usize, connection: ConnectionId, frame: Bytes) {
        self.counts.requests += 1;
        self.trace.bytes(&frame);
        self.oracle.request(connection, &frame);
        let request = Box::new(with_tables(|tables| {
            prepare(frame, &self.nodes[number].codecs, tables)
        }));
        let input = Input::Request {
            connection,
            request,
        };
        self.step(number, input);
    }

    /// The host closes a connection.
    fn drop_connection(&mut self, number: usize, connection: ConnectionId) {
        let now = self.clock.mono();
        let arrivals = self
            .network
            .close_by_broker(connection, now, &mut self.choices);
        self.travel(connection, arrivals);
        self.broker_loses(number, connection);
    }

    /// The broker's end of a connection is gone.
    pub(super) fn broker_loses(&mut self, number: usize, connection: ConnectionId) {
        if self.nodes[number].connections.close(connection) {
            self.oracle.mark(Mark::ConnectionGone);
            let life = self.nodes[number].life;
            let gone = Event::Gone {
                node: number,
                life,
                connection,
            };
            // As an event of its own: this may be in the middle of a step.
            self.clock.after(0, gone);
        }
    }

    /// The broker learns that a connection is gone.
    pub(super) fn gone(&mut self, number: usize, life: u64, connection: ConnectionId) {
        if self.nodes[number].life == life && self.nodes[number].broker.is_some() {
            self.oracle.closed(connection);
            self.step(number, Input::Closed { connection });
        }
    }

    /// The writer of a connection has its turn.
    pub(super) fn write(&mut self, number: usize, life: u64, connection: ConnectionId) {
        let node = &mut self.nodes[number];
        if node.life != life || node.broker.is_none() {
            return;
        }
        let (bytes, more, closes) = match node.connections.send(connection, &node.disk) {
            Sent::Gone => return,
            Sent::Unreadable => {
                let what = format_args!("{connection}: its answer cannot be read from the disk");
                self.say(Sign::Event, Lane::Connection(connection), what);
                return self.drop_connection(number, connection);
            }
            Sent::Short | Sent::Changed => {
                return self.oracle.violate(
                    Check::BatchBytesImmutable,
                    format!(
                        "{connection}: between the answer and its sending, a range of it changed"
                    ),
                );
            }
            Sent::More(bytes) => (bytes, true, false),
            Sent::Drained(bytes) => (bytes, false, false),
            Sent::Closed(bytes) => (bytes, false, true),
        };
        let now = self.clock.mono();
        let arrivals = self
            .network
            .send_to_client(connection, bytes, now, &mut self.choices);
        self.travel(connection, arrivals);
        if more {
            let delay = self.network.writer_delay(connection, &mut self.choices);
            let turn = Event::Write {
                node: number,
                life,
                connection,
            };
            self.clock.after(delay, turn);
        }
        if closes {
            self.drop_connection(number, connection);
        }
    }

    fn schedule_deadline(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        let Some(broker) = &node.broker else { return };
        let next = broker.next_deadline();
        if next == node.deadline || node.deadline.is_some() && self.planted.loses_deadlines() {
            return;
        }
        node.deadline = next;
        if let Some(at) = next {
            let life = node.life;
            // A host's timers are late, never early.
            let late = self
                .choices
                .exponential(Subsystem::Lateness, life, 100 * MICROSECOND);
            let late = late + self.planted.lateness_ns();
            let at = Mono(at.0.saturating_add(late));
            self.clock.at(at, Event::Deadline { node: number, life });
        }
    }

    /// The broker's deadline may have come.
    pub(super) fn deadline(&mut self, number: usize, life: u64) {
        let node = &mut self.nodes[number];
        if node.life != life {
            return;
        }
        let Some(broker) = &node.broker else { return };
        if broker
            .next_deadline()
            .is_some_and(|at| at <= self.clock.mono())
        {
            node.deadline = None;
            self.step(number, Input::Deadline);
        }
    }
}
