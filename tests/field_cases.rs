//! Cases from the field that cost other brokers data or days: torn tails, broken indexes, lost
//! files, addresses that lead nowhere. Each is done to the files of the real program.
//!
//! Cases 4 and 5, of members that come back and members that do not, are in
//! `core/src/group/classic/tests.rs`; case 7, of producers in compacted logs, is in
//! `core/src/log/tests/cleaner.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

mod harness;

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use harness::Client;
use harness::client::{PRODUCE, produce_request};
use harness::data_dir::{CLEAN_MARKER, append, checkpoint, copy, flip, segment_files, temporary};
use harness::program::{Launch, Program, find_line};
use harness::records::{TIME, all_values, batch, batch_at, compressed, header};
use odradek_core::record::{BatchBuilder, BatchFields, Compression};
use odradek_core::wire::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use odradek_core::wire::messages::describe_cluster::DescribeClusterRequest;
use odradek_core::wire::{ErrorCode, ResponseBody};

const TOPIC: &str = "orders";
const DIR: &str = "orders-0";

/// Values of all sizes, some larger than what lies between two index entries.
fn value(number: usize) -> Vec<u8> {
    vec![number as u8; 1 + (number * 7919) % 30_000]
}

/// A broker's directory with a log of several segments in partition 0, cleanly stopped, and what
/// is in it. Partition 1 has a record too.
struct Log {
    _root: tempfile::TempDir,
    data: PathBuf,
    expected: Vec<Vec<u8>>,
}

impl Log {
    fn new() -> Self {
        let (root, data) = temporary();
        let program = Launch::on(&data).start();
        let mut client = Client::connect(program.address());
        client.create_topic(TOPIC, 2, &[("segment.bytes", "1048576")]);
        let mut expected = Vec::new();
        for n in 0..200 {
            // Out of order in time, so that the time index is not a copy of the offset index.
            let time = TIME + (n as i64 * 31) % 50 * 1000 + n as i64 * 100;
            let values: Vec<Vec<u8>> = (0..1 + n % 3).map(|more| value(n * 3 + more)).collect();
            let slices: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            client.produce(TOPIC, 0, batch_at(time, &slices)).unwrap();
            expected.extend(values);
        }
        client.produce(TOPIC, 1, batch(&[b"the other"])).unwrap();
        program.stop();
        let log = Self {
            _root: root,
            data,
            expected,
        };
        assert!(log.files("log").len() >= 4, "several segments");
        log
    }

    fn files(&self, ending: &str) -> Vec<PathBuf> {
        segment_files(&self.data, DIR, ending)
    }

    /// A copy, to be damaged.
    fn copy(&self) -> Self {
        let (root, data) = temporary();
        copy(&self.data, &data);
        Self {
            _root: root,
            data,
            expected: self.expected.clone(),
        }
    }

    fn launch(&self) -> Launch {
        Launch::on(&self.data)
    }

    /// Has a process serve it and die, so that the next start is an unclean one.
    fn make_unclean(&self) {
        self.launch().start().kill();
        assert!(!self.data.join(CLEAN_MARKER).exists());
    }

    #[track_caller]
    fn check_all(&self, client: &mut Client) {
        assert!(all_values(&client.fetch_all(TOPIC, 0, 0)) == self.expected);
    }
}

fn end(client: &mut Client, partition: i32) -> i64 {
    client.list_offset(TOPIC, partition, -1).offset
}

/// The recovery point is at most what the log holds, at any time; a clean marker is never beside a
/// log that grows.
#[test]
fn case_1_the_recovery_point_stays_behind_the_log() {
    for durability in ["fsync", "os"] {
        let (_root, data) = temporary();
        let program = Launch::on(&data)
            .arg("--durability")
            .arg(durability)
            .start();
        let address = program.address();
        let mut client = Client::connect(address);
        client.create_topic(TOPIC, 2, &[("segment.bytes", "1048576")]);
        let writer = std::thread::spawn(move || {
            let begun = Instant::now();
            let value = vec![9; 100 << 10];
            for n in 0.. {
                client.produce(TOPIC, n % 2, batch(&[&value])).unwrap();
                if begun.elapsed() > Duration::from_secs(4) {
                    return;
                }
            }
        });
        let mut moved = 0;
        let mut last = Vec::new();
        while !writer.is_finished() {
            let points = checkpoint(&data);
            for point in &points {
                if point.position == 0 || point.topic.contains("metadata") {
                    continue;
                }
                let name = format!("{:020}.log", point.segment_base);
                // The file has only grown since.
                let lengths = (0..2).filter_map(|partition| {
                    let dir = data.join(format!("{TOPIC}-{partition}"));
                    fs::metadata(dir.join(&name)).ok().map(|m| m.len())
                });
                let longest = lengths.max();
                if let Some(longest) = longest {
                    assert!(point.position <= longest, "{point:?} is beyond {longest}");
                }
            }
            moved += usize::from(points != last);
            last = points;
            assert!(!data.join(CLEAN_MARKER).exists());
            std::thread::sleep(Duration::from_millis(3));
        }
        writer.join().unwrap();
        assert!(moved > 3, "{moved}");
        program.kill();
        assert!(!data.join(CLEAN_MARKER).exists());
    }
}

/// Tails as a crash leaves them. Each is cut, the start says how much, and appends go on at the
/// next offset.
#[test]
fn case_2_a_torn_tail_with_a_plausible_length_is_cut_and_reported() {
    let log = Log::new();
    log.make_unclean();
    let active = log.files("log").pop().unwrap();
    let name = format!("{DIR}/{}", active.file_name().unwrap().to_str().unwrap());
    let length = fs::metadata(&active).unwrap().len();
    let next = log.expected.len() as i64;

    // The batch that would follow, complete and right but for what each case does to it.
    let follower = |base_offset: i64| -> Vec<u8> {
        let mut bytes = batch(&[&[5; 3000], &[6; 3000]]).to_vec();
        bytes[..8].copy_from_slice(&base_offset.to_be_bytes());
        bytes[12..16].copy_from_slice(&0_i32.to_be_bytes());
        bytes
    };
    let whole = follower(next);
    let half = whole[..whole.len() / 2].to_vec();
    let mut bad_crc = whole.clone();
    bad_crc[4000] ^= 1;
    let mut zero_filled = half.clone();
    zero_filled.resize(whole.len(), 0);
    let tails: Vec<(&str, Vec<u8>, &str)> = vec![
        (
            "half a header",
            whole[..30].to_vec(),
            "inside a batch header",
        ),
        (
            "a header and no records",
            whole[..61].to_vec(),
            "inside a batch",
        ),
        ("half a batch", half, "inside a batch"),
        ("a whole batch, half of it zeros", zero_filled, "CRC"),
        ("a flipped bit", bad_crc, "CRC"),
        ("a batch of long ago", follower(3), "base offset 3"),
        ("a batch too far", follower(next + 1), "was expected"),
        ("zeros", vec![0; 8192], "not a batch header"),
        ("garbage", harness::dice::Dice::new(1).bytes(5000), ""),
    ];
    for (what, tail, reason) in tails {
        let torn = log.copy();
        append(&torn.files("log").pop().unwrap(), &tail);
        let program = torn.launch().start();
        let line = program.await_log(&["cut_bytes", &name]);
        for part in [
            format!("cut_bytes={}", tail.len()),
            format!("position={length}"),
            format!("offset={next}"),
            reason.to_owned(),
        ] {
            assert!(line.contains(&part), "{what}: no {part} in {line}");
        }
        let mut client = Client::connect(program.address());
        torn.check_all(&mut client);
        assert_eq!(
            client.produce(TOPIC, 0, batch(&[b"next"])),
            Ok(next),
            "{what}"
        );
        program.kill();
        // Once more: what was cut stays cut, and what followed is there.
        let program = torn.launch().start();
        let mut client = Client::connect(program.address());
        let mut expected = torn.expected.clone();
        expected.push(b"next".to_vec());
        assert!(
            all_values(&client.fetch_all(TOPIC, 0, 0)) == expected,
            "{what}"
        );
        assert!(
            find_line(&program.log(), &["cut_bytes", &name]).is_none(),
            "{what}"
        );
    }
}

type Damage = fn(&Path, &[u8], u64);

/// What is done to an index file, given its bytes and the length of its log.
const INDEX_DAMAGES: &[(&str, Damage)] = &[
    ("missing", |path, _, _| fs::remove_file(path).unwrap()),
    ("empty", |path, _, _| fs::write(path, []).unwrap()),
    ("zero-padded", |path, _, _| append(path, &[0; 4096])),
    ("misaligned", |path, _, _| append(path, &[1, 2, 3])),
    ("cut to a part of an entry", |path, bytes, _| {
        fs::write(path, &bytes[..bytes.len().saturating_sub(5)]).unwrap();
    }),
    ("out of order", |path, bytes, _| {
        // Entries are of 8 bytes, or of 12 in a time index; 24 is a whole number of both.
        let mut swapped = bytes.to_vec();
        if swapped.len() >= 48 {
            let (first, second) = swapped.split_at_mut(24);
            first.swap_with_slice(&mut second[..24]);
        } else {
            swapped.reverse();
        }
        fs::write(path, swapped).unwrap();
    }),
    ("longer than its log", |path, bytes, log_length| {
        let mut longer = bytes.to_vec();
        if path.extension().unwrap() == "index" {
            longer.extend(u32::MAX.to_be_bytes().map(|b| b & 0x7f));
            longer.extend((log_length as u32 + 4096).to_be_bytes());
        } else {
            longer.extend(i64::MAX.to_be_bytes());
            longer.extend((i32::MAX as u32).to_be_bytes());
        }
        fs::write(path, longer).unwrap();
    }),
    ("of zeros", |path, bytes, _| {
        fs::write(path, vec![0; bytes.len()]).unwrap();
    }),
];

/// The bytes of all index files of a log.
fn indexes(log: &Log) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for ending in ["index", "timeindex"] {
        for path in log.files(ending) {
            let relative = path.strip_prefix(&log.data).unwrap().to_owned();
            found.insert(relative, fs::read(&path).unwrap());
        }
    }
    found
}

/// Whatever happens to an index, look-ups are right at once, and after the next unclean start it is
/// again what it was. (After a clean stop nothing is scanned: an index then comes back when it has
/// misled a look-up.)
#[test]
fn case_3_a_broken_index_is_rebuilt_to_the_same_bytes() {
    let original = Log::new();
    let whole = indexes(&original);
    assert!(whole.len() >= 8);
    let entries = whole.values().filter(|bytes| bytes.len() > 48).count();
    assert!(entries >= 4, "indexes with entries");

    let mut differ = Vec::new();
    for unclean in [true, false] {
        let base = original.copy();
        if unclean {
            base.make_unclean();
        }
        for (what, damage) in INDEX_DAMAGES {
            let what = &format!("{what}, {}", if unclean { "unclean" } else { "clean" });
            let log = base.copy();
            for (relative, bytes) in &whole {
                let path = log.data.join(relative);
                let length = fs::metadata(path.with_extension("log")).unwrap().len();
                damage(&path, bytes, length);
            }
            let program = log.launch().start();
            let mut client = Client::connect(program.address());
            // Every segment is searched by offset, from the middle of batches, and by time.
            for offset in (0..log.expected.len() as i64).step_by(7) {
                let found = client.fetch(TOPIC, 0, offset);
                assert_eq!(found.error_code, ErrorCode::NONE, "{what}: offset {offset}");
                let records = found.records.unwrap_or_default();
                let odradek_core::wire::Records::Bytes(records) = records else {
                    panic!("{what}: no bytes");
                };
                let first = header(&records);
                assert!(
                    first.base_offset.0 <= offset && offset <= first.last_offset().0,
                    "{what}: offset {offset} gives {first:?}"
                );
            }
            let by_time = look_up_times(&mut client);
            log.check_all(&mut client);
            assert_eq!(by_time, look_up_times_in(&log), "{what}");
            program.stop();
            if !unclean {
                log.make_unclean();
                log.launch().start().stop();
            }
            for (path, bytes) in indexes(&log) {
                if bytes != whole[&path] {
                    differ.push(format!("{what}: {}", path.display()));
                }
            }
        }
    }
    assert!(differ.is_empty(), "{differ:#?}");
}

const TIMES: [i64; 6] = [
    0,
    TIME,
    TIME + 15_000,
    TIME + 30_000,
    TIME + 55_500,
    TIME + 90_000,
];

fn look_up_times(client: &mut Client) -> Vec<(i64, i64)> {
    let found = TIMES.map(|time| {
        let found = client.list_offset(TOPIC, 0, time);
        assert_eq!(found.error_code, ErrorCode::NONE);
        (found.timestamp, found.offset)
    });
    found.to_vec()
}

/// The same from the log's own bytes: the first record at or after each time.
fn look_up_times_in(log: &Log) -> Vec<(i64, i64)> {
    let mut batches = Vec::new();
    for path in log.files("log") {
        harness::records::split(fs::read(path).unwrap().into(), &mut batches);
    }
    let find = |time: i64| {
        let records = batches.iter().flat_map(|batch: &Bytes| {
            let records = odradek_core::record::BatchRecords::open(batch, 1 << 24).unwrap();
            let facts = records.iter().map(|record| record.unwrap());
            facts
                .map(|record| (record.timestamp, record.offset.0))
                .collect::<Vec<_>>()
        });
        let mut later = records.filter(|(timestamp, _)| *timestamp >= time);
        later.next().unwrap_or((-1, -1))
    };
    TIMES.map(find).to_vec()
}

#[test]
#[cfg(target_os = "linux")]
fn case_6_a_consumer_that_opens_a_session_at_every_fetch_does_not_grow_the_broker() {
    use harness::client::{FETCH, fetch_request};
    use odradek_core::wire::messages::fetch::FetchRequest;

    const FETCHES: usize = 12_000;
    let (_root, data) = temporary();
    let program = Launch::on(&data).start();
    let mut client = Client::connect(program.address());
    client.create_topic(TOPIC, 1, &[]);
    client.produce(TOPIC, 0, batch(&[b"a record"])).unwrap();
    // Session id 0 and epoch 0 ask for a new session (KIP-227); the request has no other.
    let new_session = FetchRequest {
        session_id: 0,
        session_epoch: 0,
        ..fetch_request(TOPIC, 0, 0, 0)
    };
    let mut fetch = |times: usize| {
        for _ in 0..times {
            match client.ask(FETCH, &new_session).unwrap() {
                ResponseBody::Fetch(response) => {
                    assert_eq!(response.error_code, ErrorCode::NONE);
                    assert_eq!(response.session_id, 0, "no session is kept");
                }
                other => panic!("{other:?}"),
            }
        }
    };
    fetch(1_000);
    let before = program.memory_kib("VmRSS");
    fetch(FETCHES);
    let grown = program.memory_kib("VmRSS").saturating_sub(before);
    // A session would hold the topic's id and the partition's state, 100 bytes at the least.
    assert!(grown < 1_024, "{grown} KiB after {FETCHES} fetches");
}

#[test]
fn a_topic_keeps_the_codec_that_it_is_told_to_whatever_the_producers_send() {
    let (_root, data) = temporary();
    let program = Launch::on(&data).start();
    let mut client = Client::connect(program.address());
    client.create_topic(TOPIC, 1, &[("compression.type", "zstd")]);
    for codec in Compression::ALL {
        client
            .produce(TOPIC, 0, compressed(codec, codec.name().as_bytes()))
            .unwrap();
    }
    let batches = client.fetch_all(TOPIC, 0, 0);
    let sent = Compression::ALL.map(|codec| codec.name().as_bytes().to_vec());
    assert_eq!(all_values(&batches), sent);
    for batch in &batches {
        assert_eq!(header(batch).compression(), Some(Compression::Zstd));
    }
    program.stop();
    // What a start finds on the disk.
    let program = Launch::on(&data).start();
    let mut client = Client::connect(program.address());
    assert_eq!(client.fetch_all(TOPIC, 0, 0), batches);
}

fn advertised(client: &mut Client) -> (String, i32) {
    let metadata = client.metadata(&[]);
    let broker = &metadata.brokers[0];
    let from_metadata = (broker.host.to_string(), broker.port);
    let cluster = DescribeClusterRequest {
        endpoint_type: 1,
        ..Default::default()
    };
    match client.ask(1, &cluster).unwrap() {
        ResponseBody::DescribeCluster(answer) => {
            let broker = &answer.brokers[0];
            assert_eq!((broker.host.to_string(), broker.port), from_metadata);
        }
        other => panic!("{other:?}"),
    }
    from_metadata
}

#[test]
fn case_8_clients_are_told_an_address_that_leads_back() {
    // On all interfaces: each client is told the address that it came by.
    let (_root, data) = temporary();
    let program = Launch::on(&data).listen("0.0.0.0:0").start();
    let port = program.address().port();
    for host in ["127.0.0.1", "127.0.0.2"] {
        let address: SocketAddr = format!("{host}:{port}").parse().unwrap();
        let Ok(mut client) = Client::try_named(address, "visitor") else {
            // macOS has only the first.
            assert_ne!(host, "127.0.0.1");
            continue;
        };
        assert_eq!(advertised(&mut client), (host.to_owned(), i32::from(port)));
    }
    program.stop();

    // What is configured wins, whether or not this machine can resolve it: its clients must.
    let program = Launch::on(&data)
        .listen("0.0.0.0:0")
        .arg("--advertise")
        .arg("broker.example:19092")
        .start();
    let address = SocketAddr::from(([127, 0, 0, 1], program.address().port()));
    let mut client = Client::connect(address);
    assert_eq!(
        advertised(&mut client),
        ("broker.example".to_owned(), 19092)
    );
    program.stop();

    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        let program = Launch::on(&data).listen("[::]:0").start();
        let port = program.address().port();
        for host in ["::1", "127.0.0.1"] {
            let address = SocketAddr::new(host.parse().unwrap(), port);
            let Ok(mut client) = Client::try_named(address, "visitor") else {
                // Where sockets of IPv6 do not take IPv4.
                assert_ne!(host, "::1");
                continue;
            };
            assert_eq!(advertised(&mut client), (host.to_owned(), i32::from(port)));
        }
        program.stop();
    }
}

#[test]
fn case_8_a_wildcard_is_not_advertised() {
    let (_root, data) = temporary();
    for wildcard in ["0.0.0.0:9092", "[::]:9092", ":9092"] {
        let refused = Launch::on(&data)
            .arg("--advertise")
            .arg(wildcard)
            .try_start()
            .unwrap_err();
        assert_eq!(
            refused.status.code(),
            Some(2),
            "{wildcard}: {}",
            refused.log
        );
        assert!(refused.log.contains("--advertise"), "{}", refused.log);
    }
}

/// Each partition of a request stands and falls alone.
#[test]
fn case_9_one_bad_partition_of_a_request_does_not_harm_the_others() {
    let (_root, data) = temporary();
    let program = Launch::on(&data).start();
    let mut client = Client::connect(program.address());
    client.create_topic(TOPIC, 4, &[("max.message.bytes", "2000")]);
    let good = |n: u8| batch(&[&[n; 100]]);
    let mut corrupt = good(1).to_vec();
    *corrupt.last_mut().unwrap() ^= 1;
    // Of a magic of long ago, and of one that is none.
    let with_magic = |magic| {
        let mut batch = good(1).to_vec();
        batch[16] = magic;
        Bytes::from(batch)
    };
    let cases: Vec<(i32, Bytes, ErrorCode)> = vec![
        (1, corrupt.into(), ErrorCode::CORRUPT_MESSAGE),
        (1, batch(&[&[1; 5000]]), ErrorCode::MESSAGE_TOO_LARGE),
        (9, good(1), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        (-1, good(1), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        (1, Bytes::new(), ErrorCode::INVALID_RECORD),
        // A batch that is cut short is none, as Kafka sees it.
        (1, good(1).slice(..70), ErrorCode::INVALID_RECORD),
        (1, with_magic(1), ErrorCode::INVALID_RECORD),
        (1, with_magic(7), ErrorCode::CORRUPT_MESSAGE),
    ];
    for (round, (partition, bad, expected)) in cases.into_iter().enumerate() {
        let batches = [(0, good(0)), (partition, bad), (2, good(2)), (3, good(3))];
        let request = produce_request(TOPIC, -1, &batches);
        client.send(PRODUCE, &request).unwrap();
        let answers = client.produced().unwrap();
        let round = round as i64;
        let outcome: Vec<_> = answers
            .iter()
            .map(|a| (a.index, a.error_code, a.base_offset))
            .collect();
        assert_eq!(
            outcome,
            [
                (0, ErrorCode::NONE, round),
                (partition, expected, -1),
                (2, ErrorCode::NONE, round),
                (3, ErrorCode::NONE, round),
            ]
        );
    }
    for partition in [0, 2, 3] {
        assert_eq!(end(&mut client, partition), 8);
        assert_eq!(client.fetch_all(TOPIC, partition, 0).len(), 8);
    }
    assert_eq!(end(&mut client, 1), 0);
    program.kill();
    let program = Launch::on(&data).start();
    let mut client = Client::connect(program.address());
    assert_eq!(client.fetch_all(TOPIC, 2, 0).len(), 8);
    assert_eq!(end(&mut client, 1), 0);
}

/// KIP-467: librdkafka gives each record of a refused batch its own verdict by this list.
#[test]
fn records_without_a_key_are_named() {
    let (_root, data) = temporary();
    let program = Launch::on(&data).start();
    let mut client = Client::connect(program.address());
    client.create_topic("latest", 1, &[("cleanup.policy", "compact")]);
    let keyless = |count: usize, without: &[usize]| {
        let mut builder = BatchBuilder::new(1 << 20);
        for at in 0..count {
            let key = (!without.contains(&at)).then_some(&b"key"[..]);
            assert!(builder.append(TIME, key, Some(b"value"), &[]));
        }
        builder.build(BatchFields::default())
    };
    let mut at_fault = |batch: Bytes| {
        let request = produce_request("latest", -1, &[(0, batch)]);
        client.send(PRODUCE, &request).unwrap();
        let answer = client.produced().unwrap().remove(0);
        let errors = answer.record_errors.iter().map(|error| error.batch_index);
        (answer.error_code, errors.collect::<Vec<_>>())
    };
    assert_eq!(
        at_fault(keyless(100, &[0, 10, 99])),
        (ErrorCode::INVALID_RECORD, vec![0, 10, 99])
    );
    // Of a great many, the first.
    assert_eq!(
        at_fault(keyless(1_000, &[126, 127, 999])),
        (ErrorCode::INVALID_RECORD, vec![126])
    );
    assert_eq!(at_fault(keyless(3, &[])), (ErrorCode::NONE, vec![]));
    program.stop();
}

/// Checks that partition 0 is offline and says so, and that nothing else is harmed.
fn only_partition_0_is_offline(program: &Program, parts: &[&str]) {
    let line = program.await_log(&[&[DIR, "offline"], parts].concat());
    assert!(line.contains("ERROR"), "{line}");
    for remedy in ["restore", "delete the topic"] {
        assert!(line.contains(remedy), "{line}");
    }
    let mut client = Client::connect(program.address());
    let metadata = client.metadata(&[TOPIC]);
    let partitions = &metadata.topics[0].partitions;
    assert_eq!(partitions[0].error_code, ErrorCode::LEADER_NOT_AVAILABLE);
    assert_eq!(partitions[1].error_code, ErrorCode::NONE);
    let answer = client.fetch(TOPIC, 0, 0);
    assert_eq!(answer.error_code, ErrorCode::KAFKA_STORAGE_ERROR);
    assert!(answer.records.is_none_or(|records| records.is_empty()));
    assert_eq!(
        client.list_offset(TOPIC, 0, -1).error_code,
        ErrorCode::KAFKA_STORAGE_ERROR
    );
    assert_eq!(
        client.produce(TOPIC, 0, batch(&[b"lost"])),
        Err(ErrorCode::KAFKA_STORAGE_ERROR)
    );
    let before = end(&mut client, 1);
    assert_eq!(client.produce(TOPIC, 1, batch(&[b"more"])), Ok(before));
    let others = all_values(&client.fetch_all(TOPIC, 1, 0));
    assert_eq!(others[0], b"the other");
    let new = format!("made-at-{before}");
    client.create_topic(&new, 1, &[]);
    assert_eq!(client.produce(&new, 0, batch(&[b"a"])), Ok(0));
}

/// Damage to what was flushed: what, how, whether a start after a clean stop sees it (which scans
/// nothing), and words of the message.
type Wound = (&'static str, fn(&Log), bool, &'static [&'static str]);

const WOUNDS: &[Wound] = &[
    (
        "the active segment is shorter than what was flushed",
        |log| {
            let path = log.files("log").pop().unwrap();
            let bytes = fs::read(&path).unwrap();
            fs::write(&path, &bytes[..bytes.len() - 10]).unwrap();
        },
        true,
        &[".log at byte", "should hold"],
    ),
    (
        "the active segment is gone",
        |log| fs::remove_file(log.files("log").pop().unwrap()).unwrap(),
        true,
        &[".log at byte", "missing"],
    ),
    (
        "a closed segment is gone",
        |log| fs::remove_file(&log.files("log")[1]).unwrap(),
        false,
        &[".log at byte"],
    ),
    (
        "a closed segment is shorter than it was",
        |log| {
            let path = &log.files("log")[1];
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() - 10]).unwrap();
        },
        false,
        &[".log at byte"],
    ),
    (
        "the first segment is gone",
        |log| fs::remove_file(&log.files("log")[0]).unwrap(),
        true,
        &[".log at byte", "missing"],
    ),
    (
        "the whole directory is gone",
        |log| fs::remove_dir_all(log.data.join(DIR)).unwrap(),
        true,
        &["directory is missing"],
    ),
];

#[test]
fn damage_below_the_recovery_point_takes_its_partition_alone_offline() {
    let original = Log::new();
    for unclean in [false, true] {
        for (what, wound, seen_after_clean, parts) in WOUNDS {
            println!("{what}, unclean: {unclean}");
            let log = original.copy();
            if unclean {
                log.make_unclean();
            }
            let kept = log.copy();
            wound(&log);
            let program = log.launch().start();
            if unclean || *seen_after_clean {
                only_partition_0_is_offline(&program, parts);
                // Neither a clean stop nor another start makes it forget.
                program.stop();
                let program = log.launch().start();
                only_partition_0_is_offline(&program, parts);
                program.stop();
            } else {
                what_is_lost_is_missed(&log, &program, parts);
                program.stop();
            }
            // What the message says helps.
            let _ = fs::remove_dir_all(log.data.join(DIR));
            copy(&kept.data.join(DIR), &log.data.join(DIR));
            let program = log.launch().start();
            let mut client = Client::connect(program.address());
            log.check_all(&mut client);
            let next = log.expected.len() as i64;
            assert_eq!(client.produce(TOPIC, 0, batch(&[b"next"])), Ok(next));
        }
    }
}

/// Nothing was scanned, so the partition serves; but a reader who comes to the hole is told so, and
/// never led over it.
fn what_is_lost_is_missed(log: &Log, program: &Program, parts: &[&str]) {
    let mut client = Client::connect(program.address());
    let mut offset = 0;
    loop {
        let found = client.fetch(TOPIC, 0, offset);
        if found.error_code != ErrorCode::NONE {
            assert_eq!(found.error_code, ErrorCode::KAFKA_STORAGE_ERROR);
            break;
        }
        let odradek_core::wire::Records::Bytes(bytes) = found.records.unwrap() else {
            panic!("no bytes");
        };
        assert!(!bytes.is_empty(), "stuck at {offset}");
        let mut batches = Vec::new();
        harness::records::split(bytes, &mut batches);
        for batch in &batches {
            assert_eq!(header(batch).base_offset.0, offset, "led over a hole");
            offset = header(batch).next_offset().0;
        }
    }
    assert!(offset < log.expected.len() as i64);
    let line = program.await_log(&[&[DIR, "restore"], parts].concat());
    assert!(line.contains("ERROR"), "{line}");
    let others = all_values(&client.fetch_all(TOPIC, 1, 0));
    assert_eq!(others[0], b"the other");
}

/// The other remedy.
#[test]
fn a_topic_with_an_offline_partition_can_be_deleted_and_made_anew() {
    let log = Log::new();
    fs::remove_file(log.files("log").pop().unwrap()).unwrap();
    let program = log.launch().start();
    let mut client = Client::connect(program.address());
    let request = DeleteTopicsRequest {
        topics: vec![DeleteTopicState {
            name: Some(TOPIC.into()),
            ..Default::default()
        }],
        timeout_ms: 30_000,
        ..Default::default()
    };
    match client.ask(6, &request).unwrap() {
        ResponseBody::DeleteTopics(answer) => {
            assert_eq!(answer.responses[0].error_code, ErrorCode::NONE);
        }
        other => panic!("{other:?}"),
    }
    client.create_topic(TOPIC, 2, &[]);
    assert_eq!(client.produce(TOPIC, 0, batch(&[b"anew"])), Ok(0));
    program.stop();
    let program = log.launch().start();
    let stored = Client::connect(program.address()).fetch_all(TOPIC, 0, 0);
    assert_eq!(all_values(&stored), [b"anew"]);
}

/// Rot in a closed segment shows when it is first read: what is sound is served, what is not never
/// leaves, and other partitions do not notice.
#[test]
fn a_flipped_byte_in_a_closed_segment_is_never_served() {
    let log = Log::new();
    let path = &log.files("log")[1];
    let mut batches = Vec::new();
    harness::records::split(fs::read(path).unwrap().into(), &mut batches);
    // The record bytes of the third batch.
    let before: usize = batches[..2].iter().map(Bytes::len).sum();
    let bad = header(&batches[2]).base_offset.0;
    flip(path, before + 70);
    let program = log.launch().start();
    let mut client = Client::connect(program.address());
    let mut offset = 0;
    let mut sound = Vec::new();
    let error = loop {
        let found = client.fetch(TOPIC, 0, offset);
        if found.error_code != ErrorCode::NONE {
            break found.error_code;
        }
        let Some(odradek_core::wire::Records::Bytes(bytes)) = found.records else {
            panic!("no bytes");
        };
        assert!(!bytes.is_empty(), "stuck at {offset}");
        let mut batches = Vec::new();
        harness::records::split(bytes, &mut batches);
        for batch in &batches {
            let head = header(batch);
            assert!(head.base_offset.0 < bad, "the bad batch was served");
            offset = head.next_offset().0;
        }
        sound.extend(all_values(&batches));
    };
    assert_eq!(error, ErrorCode::KAFKA_STORAGE_ERROR);
    assert_eq!(offset, bad, "all that is sound before it was served");
    assert!(sound == log.expected[..offset as usize]);
    let name = format!("{DIR}/{}", path.file_name().unwrap().to_str().unwrap());
    let line = program.await_log(&[&name, "CRC", "restore"]);
    assert!(line.contains(&format!("byte {before}")), "{line}");
    let others = all_values(&client.fetch_all(TOPIC, 1, 0));
    assert_eq!(others, [b"the other"]);
}
