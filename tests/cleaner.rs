//! The topic of groups stays small and is read back at once, however much was committed; and a
//! compacted topic of a user keeps of each key the last record, over a SIGKILL too.
//!
//! The figures of a release build with a thousand groups:
//!
//!     ODRADEK_GROUPS=1000 ODRADEK_ROUNDS=20 cargo test --release -p odradek --test cleaner -- --nocapture
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

mod harness;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use harness::Client;
use harness::data_dir::{segment_files, temporary};
use harness::program::Launch;
use odradek_core::record::BatchRecords;
use odradek_core::record::builder::{BatchBuilder, BatchFields};
use odradek_core::wire::messages::find_coordinator::FindCoordinatorRequest;
use odradek_core::wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use odradek_core::wire::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestTopic};
use odradek_core::wire::{ErrorCode, ResponseBody};

const TOPIC: &str = "orders";
/// Partitions that each group commits.
const PARTITIONS: i32 = 100;
/// Connections that commit at the same time, so that they share flushes.
const CONNECTIONS: usize = 8;

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

fn group(number: usize) -> String {
    format!("readers-{number}")
}

fn find_coordinator(client: &mut Client) {
    let request = FindCoordinatorRequest {
        key: group(0).as_str().into(),
        ..Default::default()
    };
    let begin = Instant::now();
    loop {
        match client.ask(2, &request).unwrap() {
            ResponseBody::FindCoordinator(response) if !response.error_code.is_error() => return,
            other => assert!(begin.elapsed() < Duration::from_secs(10), "{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn commit(client: &mut Client, number: usize, offset: i64) {
    let partitions = (0..PARTITIONS).map(|partition_index| OffsetCommitRequestPartition {
        partition_index,
        committed_offset: offset,
        ..Default::default()
    });
    let request = OffsetCommitRequest {
        group_id: group(number).as_str().into(),
        generation_id_or_member_epoch: -1,
        topics: vec![OffsetCommitRequestTopic {
            name: TOPIC.into(),
            partitions: partitions.collect(),
            ..Default::default()
        }],
        ..Default::default()
    };
    match client.ask(8, &request).unwrap() {
        ResponseBody::OffsetCommit(response) => {
            let answers = &response.topics[0].partitions;
            assert!(
                answers
                    .iter()
                    .all(|answer| answer.error_code == ErrorCode::NONE),
                "{answers:?}"
            );
        }
        other => panic!("{other:?}"),
    }
}

/// What a group has committed, asked for until the groups are read.
fn committed(client: &mut Client, number: usize) -> Vec<i64> {
    let request = OffsetFetchRequest {
        group_id: group(number).as_str().into(),
        topics: Some(vec![OffsetFetchRequestTopic {
            name: TOPIC.into(),
            partition_indexes: (0..PARTITIONS).collect(),
            ..Default::default()
        }]),
        ..Default::default()
    };
    loop {
        match client.ask(7, &request).unwrap() {
            ResponseBody::OffsetFetch(response)
                if response.error_code == ErrorCode::COORDINATOR_LOAD_IN_PROGRESS =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            ResponseBody::OffsetFetch(response) => {
                assert_eq!(response.error_code, ErrorCode::NONE);
                let partitions = &response.topics[0].partitions;
                return partitions
                    .iter()
                    .map(|partition| partition.committed_offset)
                    .collect();
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Every group commits all its partitions once.
fn commit_all(address: SocketAddr, groups: usize, offset: i64) {
    std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            scope.spawn(move || {
                let mut client = Client::connect(address);
                for number in (connection..groups).step_by(CONNECTIONS) {
                    commit(&mut client, number, offset);
                }
            });
        }
    });
}

fn log_bytes(data: &Path, partition: &str) -> u64 {
    let logs = segment_files(data, partition, "log");
    logs.iter()
        .map(|path| path.metadata().map_or(0, |metadata| metadata.len()))
        .sum()
}

#[test]
fn the_topic_of_groups_stays_under_ten_times_its_live_size_and_a_start_takes_under_a_second() {
    let (groups, rounds) = (
        setting("ODRADEK_GROUPS", 250),
        setting("ODRADEK_ROUNDS", 16),
    );
    let (_root, data) = temporary();
    let launch = Launch::on(&data).set("log.cleaner.backoff.ms", 50);
    let program = launch.start();
    let mut client = Client::connect(program.address());
    client.create_topic(TOPIC, PARTITIONS, &[]);
    find_coordinator(&mut client);
    let mut live = 0;
    let mut most = 0;
    for round in 0..rounds {
        commit_all(program.address(), groups, round as i64);
        let bytes = log_bytes(&data, "__consumer_offsets-0");
        if round == 0 {
            live = bytes;
        }
        most = most.max(bytes);
    }
    program.await_log(&["cleaned", "__consumer_offsets-0"]);
    let written = live * rounds as u64;
    let mut bytes = log_bytes(&data, "__consumer_offsets-0");
    let begin = Instant::now();
    // What the cleaner has not come to yet.
    while bytes > live + (8 << 20) + live && begin.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(50));
        bytes = log_bytes(&data, "__consumer_offsets-0");
    }
    assert!(
        bytes < 10 * live,
        "{bytes} of {written} bytes are left, {live} are live"
    );
    program.stop();
    let mut figures = Vec::new();
    for how in ["clean stop", "SIGKILL"] {
        let begin = Instant::now();
        let program = launch.start();
        let mut client = Client::connect(program.address());
        let expected = vec![rounds as i64 - 1; PARTITIONS as usize];
        assert_eq!(committed(&mut client, groups - 1), expected);
        let elapsed = begin.elapsed();
        figures.push(format!("{how}: {} ms", elapsed.as_millis()));
        // A debug build says nothing of a user's start.
        let most = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 1 });
        assert!(elapsed < most, "a start after a {how} takes {elapsed:?}");
        for number in (0..groups).step_by(groups / 50) {
            assert_eq!(committed(&mut client, number), expected);
        }
        program.kill();
    }
    println!(
        "{} committed offsets in {groups} groups, {rounds} times: {written} bytes written, {live} live, \
         {most} at most, {bytes} at the end; first start after a {}",
        groups * PARTITIONS as usize,
        figures.join(", after a ")
    );
}

#[test]
fn a_compacted_topic_keeps_of_each_key_the_last_record() {
    let (_root, data) = temporary();
    let launch = Launch::on(&data).set("log.cleaner.backoff.ms", 50);
    let program = launch.start();
    let mut client = Client::connect(program.address());
    client.create_topic(
        "table",
        1,
        &[
            ("cleanup.policy", "compact"),
            ("segment.bytes", "1048576"),
            ("min.cleanable.dirty.ratio", "0.1"),
        ],
    );
    let value = "v".repeat(1_000);
    let mut last = BTreeMap::new();
    for n in 0..60_i64 {
        let mut builder = BatchBuilder::new(1 << 20);
        for i in 0..100_i64 {
            let key = format!("key-{}", (n * 31 + i * 7) % 150);
            assert!(builder.append(1_000 + n, Some(key.as_bytes()), Some(value.as_bytes()), &[]));
            last.insert(key, n * 100 + i);
        }
        let base_offset = client.produce("table", 0, builder.build(BatchFields::default()));
        assert_eq!(base_offset, Ok(n * 100));
    }
    program.await_log(&["cleaned", "table-0"]);
    let check = |client: &mut Client| {
        let mut seen = BTreeMap::new();
        let mut records = 0;
        for batch in client.fetch_all("table", 0, 0) {
            let batch = BatchRecords::open(&batch, 1 << 20).unwrap();
            for record in &batch {
                let record = record.unwrap();
                let key = String::from_utf8(record.key.unwrap().to_vec()).unwrap();
                seen.insert(key, record.offset.0);
                records += 1;
            }
        }
        assert_eq!(seen, last);
        records
    };
    assert!(check(&mut client) < 6_000);
    program.kill();
    let program = launch.start();
    assert!(check(&mut Client::connect(program.address())) < 6_000);
    program.stop();
    let files = segment_files(&data, "table-0", "log");
    assert!(
        files
            .iter()
            .map(|path| path.metadata().unwrap().len())
            .sum::<u64>()
            < 3_500_000
    );
}
