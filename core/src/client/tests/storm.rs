//! A broker with a real log behind a bad network: many seeds, and what must hold in each.

use std::collections::BTreeMap;
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use bytes::Bytes;
use rand_chacha::ChaCha12Rng;
use rand_core::{Rng, SeedableRng};

use super::world::{World, partition, stored, values};
use crate::client::{Command, CommandId, Outcome, Polled, StartAt};
use crate::ids::{ConnectionId, Offset};
use crate::record::Compression;
use crate::wire::messages::produce::{PartitionProduceResponse, TopicProduceResponse};
use crate::wire::messages::{Body, ProduceResponse};
use crate::wire::{ApiKey, ErrorCode, Records};

/// What the broker stores, by partition.
type Logs = BTreeMap<i32, Vec<String>>;

struct Storm {
    world: World,
    rng: ChaCha12Rng,
    logs: Logs,
    sent: BTreeMap<CommandId, (i32, String)>,
}

impl Storm {
    fn chance(&mut self, of: u64) -> bool {
        self.rng.next_u64().is_multiple_of(of)
    }

    /// Lets the broker do something with a request, if there is one.
    fn serve(&mut self) {
        let connections: Vec<ConnectionId> = self.world.connections.keys().copied().collect();
        if connections.is_empty() {
            return;
        }
        let connection = connections[(self.rng.next_u64() % connections.len() as u64) as usize];
        if self.chance(30) {
            self.world.disconnect(connection);
            return;
        }
        // Requests of one connection are answered in order.
        let Some(place) = self
            .world
            .asked
            .iter()
            .position(|asked| asked.connection == connection)
        else {
            return;
        };
        if self.world.asked[place].request.body.api() != ApiKey::Produce {
            return;
        }
        let asked = self.world.asked.remove(place).unwrap();
        let mut response = ProduceResponse::default();
        for topic in &asked.produce().topic_data {
            let mut partition_responses = Vec::new();
            for data in &topic.partition_data {
                let Some(Records::Bytes(batch)) = &data.records else {
                    panic!()
                };
                let mut answer = PartitionProduceResponse {
                    index: data.index,
                    base_offset: -1,
                    ..Default::default()
                };
                match self.rng.next_u64() % 8 {
                    0 => answer.error_code = ErrorCode::NOT_ENOUGH_REPLICAS,
                    1 => answer.error_code = ErrorCode::LEADER_NOT_AVAILABLE,
                    2 if values(batch).len() > 2 => {
                        answer.error_code = ErrorCode::MESSAGE_TOO_LARGE;
                    }
                    3 => {
                        // Appended, and yet an error.
                        answer.error_code = ErrorCode::REQUEST_TIMED_OUT;
                        self.logs
                            .entry(data.index)
                            .or_default()
                            .extend(values(batch));
                    }
                    4 if self.chance(4) => answer.error_code = ErrorCode::INVALID_RECORD,
                    _ => {
                        let log = self.logs.entry(data.index).or_default();
                        answer.base_offset = log.len() as i64;
                        log.extend(values(batch));
                    }
                }
                partition_responses.push(answer);
            }
            response.responses.push(TopicProduceResponse {
                topic_id: topic.topic_id,
                partition_responses,
                ..Default::default()
            });
        }
        if self.chance(12) {
            // Done, and nobody learns of it.
            self.world.disconnect(connection);
        } else {
            self.world.answer(&asked, response);
        }
    }
}

fn run(seed: u8) -> Storm {
    let world = World::seeded(seed, |config| {
        config.producer.batch_size = 300;
        config.producer.linger_ms = 3;
        config.producer.delivery_timeout_ms = 20_000;
    });
    let mut storm = Storm {
        world,
        rng: ChaCha12Rng::from_seed([seed; 32]),
        logs: Logs::new(),
        sent: BTreeMap::new(),
    };
    for number in 0..120 {
        let partition = (storm.rng.next_u64() % 2) as i32;
        let value = format!("{number:04}");
        let id = storm.world.produce("orders", partition, &value);
        storm.sent.insert(id, (partition, value));
        for _ in 0..storm.rng.next_u64() % 4 {
            storm.serve();
        }
        let pause = storm.rng.next_u64() % 40;
        storm.world.advance(pause);
    }
    for _ in 0..4_000 {
        storm.serve();
        storm.world.advance(10);
    }
    storm
}

#[test]
fn whatever_happens_order_and_outcomes_hold() {
    let (mut ok, mut failed, mut unknown) = (0, 0, 0);
    for seed in 0..100 {
        let storm = run(seed);
        assert_eq!(
            storm.world.outcomes().len(),
            storm.sent.len(),
            "seed {seed}"
        );
        for (id, (partition, value)) in &storm.sent {
            let log = storm.logs.get(partition).cloned().unwrap_or_default();
            match storm.world.outcome(*id) {
                Some(Outcome::Ok { offset, .. }) => {
                    ok += 1;
                    let at = log.get(offset.unwrap().0 as usize);
                    assert_eq!(at, Some(value), "seed {seed}");
                }
                Some(Outcome::Failed(error)) => {
                    failed += 1;
                    assert!(!log.contains(value), "seed {seed}: {value} failed: {error}");
                }
                Some(Outcome::Unknown(_)) => unknown += 1,
                None => panic!("seed {seed}: {value} has no outcome"),
            }
        }
        for (partition, log) in &storm.logs {
            // Retries may repeat records, but each first comes in the order of the sends.
            let mut firsts: Vec<&String> = Vec::new();
            for value in log {
                if !firsts.contains(&value) {
                    firsts.push(value);
                }
            }
            assert!(
                firsts.is_sorted(),
                "seed {seed}, partition {partition}: {log:?}"
            );
        }
    }
    assert!(
        ok > 5_000 && failed > 50 && unknown > 50,
        "each came up: {ok} {failed} {unknown}"
    );
}

#[test]
fn a_reader_behind_the_same_network_sees_every_record_once_and_in_order() {
    for seed in 0..20 {
        let mut world = World::seeded(seed, |config| {
            config.consumer.prefetch_max_bytes = 500;
            config.consumer.enable_partition_eof = true;
        });
        let mut rng = ChaCha12Rng::from_seed([seed; 32]);
        let log: Vec<Bytes> = (0..40)
            .map(|batch| {
                let compression = Compression::ALL[(rng.next_u64() % 5) as usize];
                let base = batch * 3;
                let values = [0, 1, 2].map(|delta| format!("{}", base + delta));
                let values: Vec<&str> = values.iter().map(|value| &**value).collect();
                stored(base, compression, &values)
            })
            .collect();
        world.command(Command::Assign(vec![(
            partition("single", 0),
            StartAt::Offset(Offset(4)),
        )]));
        let mut read = Vec::new();
        let mut ends = 0;
        for _ in 0..1_500 {
            if world.count(ApiKey::Fetch) > 0 {
                let asked = world.next(ApiKey::Fetch);
                let from = asked.fetch().topics[0].partitions[0].fetch_offset;
                match rng.next_u64() % 6 {
                    0 => world.disconnect(asked.connection),
                    1 => {
                        let error = ErrorCode::NOT_LEADER_OR_FOLLOWER;
                        let answer = asked.fetched(error, -1, &Bytes::new());
                        world.answer(&asked, answer);
                    }
                    _ => {
                        // Whole batches, then a piece of the next.
                        let first = (from / 3) as usize;
                        let count = 1 + (rng.next_u64() % 3) as usize;
                        let mut bytes = Vec::new();
                        for batch in log.iter().skip(first).take(count) {
                            bytes.extend_from_slice(batch);
                        }
                        if let Some(next) = log.get(first + count) {
                            let cut = (rng.next_u64() % next.len() as u64) as usize;
                            bytes.extend_from_slice(&next[..cut]);
                        }
                        let answer = asked.fetched(ErrorCode::NONE, 120, &Bytes::from(bytes));
                        world.answer(&asked, answer);
                    }
                }
            }
            let most = 1 + (rng.next_u64() % 5) as usize;
            for item in world.poll_up_to(most) {
                match item {
                    Polled::Record(record) => {
                        assert_eq!(
                            record.value.as_deref(),
                            Some(format!("{}", record.offset.0).as_bytes())
                        );
                        read.push(record.offset.0);
                    }
                    Polled::EndOfPartition { offset, .. } => {
                        assert_eq!((offset, read.len()), (Offset(120), 116), "seed {seed}");
                        ends += 1;
                    }
                    other => panic!("seed {seed}: {other}"),
                }
            }
            world.advance(rng.next_u64() % 60);
        }
        assert_eq!(read, (4..120).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(ends, 1, "seed {seed}");
    }
}
