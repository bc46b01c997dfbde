//! SIGKILL in the middle of everything, again and again on one data directory: what was
//! acknowledged is there, once, in order, byte for byte, and so is what a reader has seen.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

mod harness;

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use harness::Client;
use harness::client::{PRODUCE, produce_request};
use harness::data_dir::{CLEAN_MARKER, temporary};
use harness::dice::Dice;
use harness::program::Launch;
use harness::records::{TIME, header, immutable, split};
use odradek_core::record::{BatchBuilder, BatchFields, Compression};
use odradek_core::wire::{ErrorCode, Records};

const TOPIC: &str = "killed";
const PARTITIONS: i32 = 4;
const PRODUCERS: u64 = 3;
/// Requests that a producer has under way.
const PIPELINE: usize = 6;
const CONFIGS: &[(&str, &str)] = &[("segment.bytes", "1048576")];

/// Who sent a batch, and which of its batches for that partition it was: the key of its first
/// record, so that any stored batch says whose it is.
type Name = [u8; 24];

/// A batch that was sent, and what became of it.
#[derive(Clone, Debug)]
struct Sent {
    partition: i32,
    batch: Bytes,
    /// The base offset, once acknowledged.
    acknowledged: Option<i64>,
}

type AllSent = HashMap<Name, Sent>;
/// Batches that a reader was shown: partition, base offset, bytes.
type Seen = BTreeMap<(i32, i64), Bytes>;

#[test]
fn what_was_acknowledged_survives_twenty_kills() {
    survive("fsync", 22);
}

#[test]
fn so_it_does_with_acknowledgements_out_of_the_page_cache() {
    survive("os", 6);
}

fn survive(durability: &str, kills: u64) {
    let begun = Instant::now();
    let (_root, data) = temporary();
    let launch = Launch::on(&data).arg("--durability").arg(durability);
    let mut dice = Dice::new(kills);
    let mut sent = AllSent::new();
    let mut seen = Seen::new();
    let mut last_epoch = -1;

    for round in 0..kills {
        let program = launch.start();
        let mut client = Client::connect(program.address());
        if round == 0 {
            client.create_topic(TOPIC, PARTITIONS, CONFIGS);
        }
        let epoch = client.leader_epoch(TOPIC);
        assert!(epoch > last_epoch, "an unclean start raises the epoch");
        last_epoch = epoch;
        check(&mut client, &sent, &seen, &format!("start {round}"));

        let producers: Vec<_> = (0..PRODUCERS)
            .map(|producer| produce_until_killed(program.address(), round, producer))
            .collect();
        let reader = read_until_killed(program.address());
        std::thread::sleep(Duration::from_millis(dice.within(100..700) as u64));
        assert!(
            !data.join(CLEAN_MARKER).exists(),
            "the marker is gone before the first append"
        );
        program.kill();

        for producer in producers {
            sent.extend(producer.join().unwrap());
        }
        seen.extend(reader.join().unwrap());
        // Now and then the next process does not get through its recovery either.
        for _ in 0..round % 3 {
            launch.start_and_kill(Duration::from_millis(dice.below(60) as u64));
        }
    }

    let program = launch.start();
    let mut client = Client::connect(program.address());
    check(&mut client, &sent, &seen, "the end");
    drop(client);
    program.stop();
    let program = launch.start();
    check(
        &mut Client::connect(program.address()),
        &sent,
        &seen,
        "a clean stop",
    );

    let acknowledged = sent.values().filter(|sent| sent.acknowledged.is_some());
    let acknowledged = acknowledged.count();
    let segments = harness::data_dir::segment_files(&data, &format!("{TOPIC}-0"), "log").len();
    println!(
        "{durability}: {kills} kills, {acknowledged} of {} batches acknowledged, {} seen by a \
         reader, {segments} segments in partition 0, {:?}",
        sent.len(),
        seen.len(),
        begun.elapsed()
    );
    // The test must not pass for want of load.
    assert!(acknowledged > 20 * kills as usize, "{acknowledged}");
    assert!(sent.len() > acknowledged, "some were cut off");
    assert!(seen.len() > 10 * kills as usize, "{}", seen.len());
    assert!(segments > 1, "{segments}");
}

/// Reads everything there is and compares it with what was sent, acknowledged and shown.
fn check(client: &mut Client, sent: &AllSent, seen: &Seen, when: &str) {
    let mut stored: HashMap<Name, (i32, i64)> = HashMap::new();
    for partition in 0..PARTITIONS {
        let mut next = 0;
        let mut last_epoch = 0;
        // The sequence that each producer, in each round, has got to.
        let mut got_to: HashMap<[u8; 16], u64> = HashMap::new();
        for batch in client.fetch_all(TOPIC, partition, 0) {
            let head = header(&batch);
            let place = format!("{when}: {TOPIC}-{partition} offset {}", head.base_offset);
            assert_eq!(head.base_offset.0, next, "{place}: offsets are dense");
            assert!(head.leader_epoch.0 >= last_epoch, "{place}: epochs rise");
            next = head.next_offset().0;
            last_epoch = head.leader_epoch.0;

            let name = name_of(&batch);
            let origin = sent
                .get(&name)
                .unwrap_or_else(|| panic!("{place}: nobody sent it"));
            assert_eq!(origin.partition, partition, "{place}");
            assert!(
                immutable(&origin.batch) == immutable(&batch),
                "{place}: other bytes than were sent"
            );
            let before = stored.insert(name, (partition, head.base_offset.0));
            assert_eq!(before, None, "{place}: it is there twice");
            let sequence = u64::from_be_bytes(name[16..].try_into().unwrap());
            let before = got_to.insert(name[..16].try_into().unwrap(), sequence);
            assert!(
                before.is_none_or(|before| before < sequence),
                "{place}: sent before what it follows"
            );
            if let Some(shown) = seen.get(&(partition, head.base_offset.0)) {
                assert!(*shown == batch, "{place}: a reader saw something else");
            }
        }
        let beyond = seen.range((partition, next)..(partition + 1, 0)).next();
        assert_eq!(
            beyond, None,
            "{when}: a reader saw what is gone; the log ends at {next}"
        );
    }
    for (name, sent) in sent {
        if let Some(offset) = sent.acknowledged {
            assert_eq!(
                stored.get(name),
                Some(&(sent.partition, offset)),
                "{when}: acknowledged at {TOPIC}-{} offset {offset}",
                sent.partition
            );
        }
    }
}

/// The key of a batch's first record.
fn name_of(batch: &Bytes) -> Name {
    let records = odradek_core::record::BatchRecords::open(batch, 1 << 24).unwrap();
    let first = records.iter().next().unwrap().unwrap();
    first.key.unwrap().try_into().unwrap()
}

fn name(round: u64, producer: u64, sequence: u64) -> Name {
    let mut name = [0; 24];
    name[..8].copy_from_slice(&round.to_be_bytes());
    name[8..16].copy_from_slice(&producer.to_be_bytes());
    name[16..].copy_from_slice(&sequence.to_be_bytes());
    name
}

/// A batch of a few records, with nulls and empties and headers, perhaps compressed.
fn make_batch(dice: &mut Dice, name: &Name) -> Bytes {
    let mut builder = BatchBuilder::new(1 << 20);
    let fits = builder.append(TIME, Some(name), None, &[(b"null", None)]);
    assert!(fits);
    for place in 0..dice.within(1..6) as i64 {
        let length = dice.below(6000);
        let value = dice.bytes(length);
        let headers: &[(&[u8], Option<&[u8]>)] = &[(b"a", Some(b"")), (b"a", None)];
        let headers = &headers[..dice.below(3)];
        let key: Option<&[u8]> = (place % 2 == 0).then_some(b"");
        assert!(builder.append(TIME + place, key, Some(&value), headers));
    }
    let compression = *dice.one_of(&[
        Compression::None,
        Compression::None,
        Compression::None,
        Compression::Lz4,
        Compression::Zstd,
    ]);
    builder.build(BatchFields {
        compression,
        ..BatchFields::default()
    })
}

/// Full rate, acks=all, several requests under way, one or two partitions in each.
fn produce_until_killed(
    address: SocketAddr,
    round: u64,
    producer: u64,
) -> JoinHandle<Vec<(Name, Sent)>> {
    std::thread::spawn(move || {
        let mut dice = Dice::new(round * 1000 + producer);
        let mut client = Client::named(address, &format!("producer-{producer}"));
        let mut all: Vec<(Name, Sent)> = Vec::new();
        // Which of them wait, request by request.
        let mut waiting = std::collections::VecDeque::new();
        loop {
            let first = dice.below(PARTITIONS as usize) as i32;
            let mut partitions = vec![first];
            if dice.below(3) == 0 {
                partitions.push((first + 1) % PARTITIONS);
            }
            let mut request = Vec::new();
            let mut places = Vec::new();
            for partition in partitions {
                let name = name(round, producer, all.len() as u64);
                let batch = make_batch(&mut dice, &name);
                request.push((partition, batch.clone()));
                places.push(all.len());
                let acknowledged = None;
                all.push((
                    name,
                    Sent {
                        partition,
                        batch,
                        acknowledged,
                    },
                ));
            }
            waiting.push_back(places);
            let request = produce_request(TOPIC, -1, &request);
            if client.send(PRODUCE, &request).is_err() {
                return all;
            }
            if waiting.len() < PIPELINE {
                continue;
            }
            let Ok(answers) = client.produced() else {
                return all;
            };
            let places = waiting.pop_front().unwrap();
            assert_eq!(answers.len(), places.len());
            for (answer, place) in answers.iter().zip(places) {
                assert_eq!(answer.error_code, ErrorCode::NONE, "{answer:?}");
                assert_eq!(answer.index, all[place].1.partition);
                all[place].1.acknowledged = Some(answer.base_offset);
            }
        }
    })
}

/// Follows all partitions from where they are and keeps what it is shown.
fn read_until_killed(address: SocketAddr) -> JoinHandle<Seen> {
    std::thread::spawn(move || {
        let seen = Arc::new(Mutex::new(Seen::new()));
        let readers: Vec<_> = (0..PARTITIONS)
            .map(|partition| {
                let seen = seen.clone();
                std::thread::spawn(move || follow(address, partition, &seen))
            })
            .collect();
        for reader in readers {
            reader.join().unwrap();
        }
        std::mem::take(&mut *seen.lock().unwrap())
    })
}

fn follow(address: SocketAddr, partition: i32, seen: &Mutex<Seen>) {
    let Ok(mut client) = Client::try_named(address, "reader") else {
        return;
    };
    let Ok(end) = client.try_list_offset(TOPIC, partition, -1) else {
        return;
    };
    let mut offset = end.offset;
    while let Ok(found) = client.try_fetch(TOPIC, partition, offset, 500) {
        assert_eq!(found.error_code, ErrorCode::NONE);
        let Some(Records::Bytes(bytes)) = found.records else {
            panic!("no records in {found:?}");
        };
        let mut batches = Vec::new();
        split(bytes, &mut batches);
        for batch in batches {
            let head = header(&batch);
            assert!(head.next_offset().0 <= found.high_watermark);
            offset = head.next_offset().0;
            seen.lock()
                .unwrap()
                .insert((partition, head.base_offset.0), batch);
        }
    }
}
