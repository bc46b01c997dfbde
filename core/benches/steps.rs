//! What a step costs, alone on one thread: `cargo bench -p odradek-core --features harness`.
//!
//! Each line counts nanoseconds and what is allocated. The host does nothing but to say that all is
//! done: what is left is the core. Instructions are counted by running one of the lines under
//! `valgrind --tool=callgrind` with `--sample-count 1 --sample-size N`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a measurement, where what goes wrong may stop it"
)]

use bytes::Bytes;
use divan::{AllocProfiler, Bencher, black_box};

use odradek_core::broker::harness::{Harness, fetch_request, produce_request};
use odradek_core::effect::{Effect, Effects, Part};
use odradek_core::ids::{ConnectionId, Position};
use odradek_core::input::{Completion, Input};
use odradek_core::log::Durability;
use odradek_core::metadata::config::BrokerConfig;
use odradek_core::record::compression::Tables;
use odradek_core::record::{BatchBuilder, BatchFields, Compression, Limits, check_records};
use odradek_core::request::{Codecs, prepare};
use odradek_core::wire::frame::encode_request;
use odradek_core::wire::messages::Body;
use odradek_core::wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
use odradek_core::wire::messages::find_coordinator::FindCoordinatorRequest;
use odradek_core::wire::messages::heartbeat::HeartbeatRequest;
use odradek_core::wire::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};
use odradek_core::wire::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};
use odradek_core::wire::{RequestHeader, ResponseBody};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// Records in a batch, and bytes of each value.
const BATCHES: [(usize, usize); 4] = [(1, 100), (10, 100), (1000, 100), (1000, 1024)];

/// The frame of a request to one partition, without its length.
#[divan::bench(args = BATCHES)]
fn decode_produce(bencher: Bencher<'_, '_>, (records, bytes): (usize, usize)) {
    let frame = produce_frame(records, bytes);
    let codecs = Codecs::default();
    let mut tables = Tables::default();
    bencher.bench_local(|| prepare(black_box(frame.clone()), &codecs, &mut tables));
}

/// Header, CRC, every record.
#[divan::bench(args = BATCHES)]
fn validate(bencher: Bencher<'_, '_>, (records, bytes): (usize, usize)) {
    let batch = batch(records, bytes);
    let limits = Limits::default();
    bencher.bench(|| check_records(black_box(batch.clone()), &limits));
}

/// From the request to its answer: it is appended in one step, and answered in the step that its
/// write completes (or its flush).
#[divan::bench(args = [Durability::Os, Durability::Fsync])]
fn produce(bencher: Bencher<'_, '_>, durability: Durability) {
    let mut host = Host::start(durability);
    let frame = produce_frame(1, 100);
    one_answer(bencher, &mut host, &frame);
}

/// A hundred requests of as many connections arrive together, and their write completes in one step.
#[divan::bench]
fn produce_100_together(bencher: Bencher<'_, '_>) {
    let mut host = Host::start(Durability::Os);
    let connections: Vec<ConnectionId> = (0..100).map(|_| host.harness.connect()).collect();
    let frame = produce_frame(1, 100);
    bencher
        .with_inputs(|| -> Vec<Input> {
            let of = |connection: &ConnectionId| request(*connection, frame.clone());
            connections.iter().map(of).collect()
        })
        .bench_local_values(|requests| assert_eq!(host.answers_together(requests), 100));
}

/// A fetch at the end of the log enters itself with its partition. Its connection is opened before and
/// closed behind it, which takes it out again: both are counted with it.
#[divan::bench]
fn register_long_poll(bencher: Bencher<'_, '_>) {
    let mut host = Host::start(Durability::Os);
    let frame = fetch_frame(host.end, 30_000);
    bencher.bench_local(|| {
        let connection = host.harness.connect();
        assert_eq!(host.answers(request(connection, frame.clone())), 0);
        host.answers(Input::Closed { connection })
    });
}

/// A produce wakes a fetch that waits: both are answered. The fetch's own registration is counted
/// with it.
#[divan::bench]
fn wake_long_poll(bencher: Bencher<'_, '_>) {
    let mut host = Host::start(Durability::Os);
    let reader = host.harness.connect();
    let frame = produce_frame(1, 100);
    bencher.bench_local(|| {
        let fetch = fetch_frame(host.end, 30_000);
        assert_eq!(host.answers(request(reader, fetch)), 0);
        assert_eq!(host.answers(request(WRITER, frame.clone())), 2);
        host.end += 1;
    });
}

/// A fetch of what is there, at the end of the log.
#[divan::bench]
fn fetch_newest(bencher: Bencher<'_, '_>) {
    let mut host = Host::start(Durability::Os);
    let frame = fetch_frame(host.end - 1, 0);
    one_answer(bencher, &mut host, &frame);
}

/// A heartbeat of a member of a classic group.
#[divan::bench]
fn heartbeat_classic(bencher: Bencher<'_, '_>) {
    let mut host = Host::start(Durability::Os);
    let frame = host.join_classic();
    one_answer(bencher, &mut host, &frame);
}

/// A heartbeat that says nothing, of a member of a group of KIP-848.
#[divan::bench]
fn heartbeat_consumer(bencher: Bencher<'_, '_>) {
    let mut host = Host::start(Durability::Os);
    let frame = host.join_consumer();
    one_answer(bencher, &mut host, &frame);
}

/// Measures a request that is answered once.
fn one_answer(bencher: Bencher<'_, '_>, host: &mut Host, frame: &Bytes) {
    bencher
        .with_inputs(|| request(WRITER, frame.clone()))
        .bench_local_values(|request| assert_eq!(host.answers(request), 1));
}

/// The first connection.
const WRITER: ConnectionId = ConnectionId(1);
const TOPIC: &str = "measured";

/// A broker with one topic of one partition, which holds a record, and a host for it.
struct Host {
    harness: Harness,
    effects: Effects,
    done: Vec<Effect>,
    completions: Vec<Completion>,
    /// Of the partition's one segment.
    written: Position,
    /// The end of the partition.
    end: i64,
}

impl Host {
    fn start(durability: Durability) -> Self {
        let mut config = BrokerConfig {
            durability,
            ..BrokerConfig::default()
        };
        config.groups.initial_rebalance_delay_ms = 0;
        let mut harness = Harness::start(config);
        let connection = harness.connect();
        assert_eq!(connection, WRITER);
        harness.create_topic(connection, TOPIC);
        let mut host = Self {
            harness,
            effects: Effects::new(),
            done: Vec::new(),
            completions: Vec::new(),
            written: Position(0),
            end: 1,
        };
        assert_eq!(host.answers(request(WRITER, produce_frame(1, 100))), 1);
        host
    }

    /// Hands over an input and what it leads to. Returns how many answers that brought.
    fn answers(&mut self, input: Input) -> usize {
        self.answers_together([input])
    }

    /// The same with several inputs, whose writes complete together.
    fn answers_together(&mut self, inputs: impl IntoIterator<Item = Input>) -> usize {
        let mut answers = 0;
        for input in inputs {
            self.step(input);
        }
        loop {
            let mut effects = std::mem::take(&mut self.done);
            for effect in effects.drain(..) {
                answers += usize::from(matches!(effect, Effect::Respond { .. }));
                self.carry_out(effect);
            }
            self.done = effects;
            if self.completions.is_empty() {
                return answers;
            }
            let mut completions = std::mem::take(&mut self.completions);
            for completion in completions.drain(..) {
                self.step(Input::Disk(completion));
            }
            self.completions = completions;
        }
    }

    fn step(&mut self, input: Input) {
        self.harness
            .broker
            .handle(self.harness.now, input, &mut self.effects);
        self.done.extend(self.effects.drain());
    }

    /// Says that writes and flushes are done, and leaves the rare rest to the harness.
    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Write {
                file,
                position,
                data,
            } => {
                let up_to = Position(position.0 + data.len() as u64);
                // Writes that follow each other complete as one.
                match self.completions.last_mut() {
                    Some(Completion::Written {
                        file: last,
                        up_to: end,
                    }) if *last == file => *end = up_to,
                    _ => self.completions.push(Completion::Written { file, up_to }),
                }
                self.written = up_to;
            }
            Effect::Flush { file } => self.completions.push(Completion::Flushed {
                file,
                up_to: self.written,
            }),
            Effect::Respond { .. } => {}
            effect => self.completions.extend(self.harness.carry_out(effect)),
        }
    }

    /// A member of a classic group; returns the frame of its heartbeat.
    fn join_classic(&mut self) -> Bytes {
        self.find_coordinator("classic");
        let join = JoinGroupRequest {
            group_id: "classic".into(),
            session_timeout_ms: 30_000,
            rebalance_timeout_ms: 30_000,
            protocol_type: "consumer".into(),
            protocols: vec![JoinGroupRequestProtocol {
                name: "range".into(),
                ..Default::default()
            }],
            ..Default::default()
        };
        self.harness.send(WRITER, 2, &join);
        self.harness.advance(1);
        let Some(ResponseBody::JoinGroup(joined)) = self.harness.receive(WRITER) else {
            panic!("another answer");
        };
        let sync = SyncGroupRequest {
            group_id: "classic".into(),
            generation_id: joined.generation_id,
            member_id: joined.member_id.clone(),
            assignments: vec![SyncGroupRequestAssignment {
                member_id: joined.member_id.clone(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let ResponseBody::SyncGroup(synced) = self.harness.ask(WRITER, 2, &sync) else {
            panic!("another answer");
        };
        assert!(!synced.error_code.is_error(), "{synced:?}");
        let heartbeat = HeartbeatRequest {
            group_id: "classic".into(),
            generation_id: joined.generation_id,
            member_id: joined.member_id,
            ..Default::default()
        };
        frame(4, &heartbeat)
    }

    /// Makes the topic of offsets.
    fn find_coordinator(&mut self, group: &str) {
        let find = FindCoordinatorRequest {
            key: group.into(),
            ..Default::default()
        };
        self.harness.ask(WRITER, 2, &find);
    }

    /// A member of a consumer group; returns the frame of a heartbeat that says nothing.
    fn join_consumer(&mut self) -> Bytes {
        self.find_coordinator("consumer");
        let mut heartbeat = ConsumerGroupHeartbeatRequest {
            group_id: "consumer".into(),
            member_id: "a-member".into(),
            rebalance_timeout_ms: 30_000,
            subscribed_topic_names: Some(vec![TOPIC.into()]),
            topic_partitions: Some(Vec::new()),
            ..Default::default()
        };
        let ResponseBody::ConsumerGroupHeartbeat(joined) = self.harness.ask(WRITER, 1, &heartbeat)
        else {
            panic!("another answer");
        };
        assert!(!joined.error_code.is_error(), "{joined:?}");
        heartbeat = ConsumerGroupHeartbeatRequest {
            group_id: "consumer".into(),
            member_id: "a-member".into(),
            member_epoch: joined.member_epoch,
            rebalance_timeout_ms: -1,
            ..Default::default()
        };
        frame(1, &heartbeat)
    }
}

fn request(connection: ConnectionId, frame: Bytes) -> Input {
    let request = Box::new(prepare(frame, &Codecs::default(), &mut Tables::default()));
    Input::Request {
        connection,
        request,
    }
}

/// The frame of a request, without its length.
fn frame(version: i16, body: &impl Body) -> Bytes {
    let header = RequestHeader {
        api_version: version,
        client_id: Some("steps".into()),
        ..RequestHeader::default()
    };
    let mut frame = Vec::new();
    for part in encode_request(&header, body).parts {
        if let Part::Bytes(bytes) = part {
            frame.extend_from_slice(&bytes);
        }
    }
    Bytes::from(frame).slice(4..)
}

fn produce_frame(records: usize, bytes: usize) -> Bytes {
    frame(9, &produce_request(TOPIC, -1, batch(records, bytes)))
}

fn fetch_frame(offset: i64, max_wait_ms: i32) -> Bytes {
    frame(12, &fetch_request(TOPIC, offset, 1, max_wait_ms))
}

fn batch(records: usize, bytes: usize) -> Bytes {
    let mut builder = BatchBuilder::new(usize::MAX);
    let value = vec![b'x'; bytes];
    for _ in 0..records {
        assert!(builder.append(1_700_000_000_000, None, Some(&value), &[]));
    }
    builder.build(BatchFields {
        compression: Compression::None,
        ..BatchFields::default()
    })
}
