//! Stops and starts of the real program: what a graceful stop promises, and what the next start
//! can tell from it.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

mod harness;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use harness::Client;
use harness::client::{FETCH, PRODUCE, fetch_request, produce_request};
use harness::data_dir::{CLEAN_MARKER, checkpoint, temporary};
use harness::program::{Launch, find_line};
use harness::records::{all_values, batch, header};
use odradek_core::wire::messages::fetch::FetchResponse;
use odradek_core::wire::{ErrorCode, Records, ResponseBody};
use rustix::process::Signal;

const TOPIC: &str = "orders";

/// A producer with several requests under way, until the broker closes; the offsets that were
/// acknowledged, and how many requests were sent.
fn produce_until_closed(address: SocketAddr, who: u64) -> JoinHandle<(Vec<i64>, usize)> {
    std::thread::spawn(move || {
        let mut client = Client::named(address, &format!("producer-{who}"));
        let mut offsets = Vec::new();
        for sent in 0.. {
            let value = format!("{who}-{sent}");
            let request = produce_request(TOPIC, -1, &[(0, batch(&[value.as_bytes()]))]);
            if client.send(PRODUCE, &request).is_err() {
                // What was answered before the end is still to be read.
                while let Ok(answers) = client.produced() {
                    offsets.extend(answers.iter().map(|answer| answer.base_offset));
                }
                return (offsets, sent);
            }
            if client.outstanding() >= 5 {
                match client.produced() {
                    Ok(answers) => {
                        assert_eq!(answers[0].error_code, ErrorCode::NONE, "{answers:?}");
                        offsets.push(answers[0].base_offset);
                    }
                    Err(_) => return (offsets, sent),
                }
            }
        }
        unreachable!()
    })
}

#[test]
fn sigterm_and_sigint_answer_what_is_in_flight_and_mark_clean() {
    for signal in [Signal::TERM, Signal::INT] {
        let (_root, data) = temporary();
        let program = Launch::on(&data).start();
        let address = program.address();
        let mut client = Client::connect(address);
        client.create_topic(TOPIC, 1, &[]);
        // A consumer that would wait for much longer than a stop may take.
        let mut waiting = Client::named(address, "waiting");
        waiting.create_topic("quiet", 1, &[]);
        waiting
            .send(FETCH, &fetch_request("quiet", 0, 0, 100_000))
            .unwrap();
        let producers: Vec<_> = (0..4)
            .map(|who| produce_until_closed(address, who))
            .collect();
        std::thread::sleep(Duration::from_millis(500));

        let begun = Instant::now();
        program.send(signal);
        let answer = waiting.fetched().unwrap();
        assert_eq!(answer.error_code, ErrorCode::NONE);
        assert_eq!(answer.high_watermark, 0);
        let ended = program.wait();
        assert!(ended.status.success(), "{}\n{}", ended.status, ended.log);
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert_eq!(
            fs::read_to_string(data.join(CLEAN_MARKER)).unwrap(),
            "odradek clean shutdown v1\n"
        );
        assert!(find_line(&ended.log, &["stopping"]).is_some());

        let mut acknowledged: Vec<i64> = Vec::new();
        for producer in producers {
            acknowledged.extend(producer.join().unwrap().0);
        }
        acknowledged.sort_unstable();
        assert!(acknowledged.len() > 20, "{}", acknowledged.len());
        // Every append was answered: what is stored is what was acknowledged, no more and no less.
        let program = Launch::on(&data).start();
        let stored = Client::connect(program.address()).fetch_all(TOPIC, 0, 0);
        let stored: Vec<i64> = stored.iter().map(|b| header(b).base_offset.0).collect();
        assert_eq!(acknowledged, stored, "appended, and never answered");
    }
}

#[test]
fn after_a_clean_stop_the_epoch_stays_and_after_an_unclean_one_it_rises() {
    let (_root, data) = temporary();
    let launch = Launch::on(&data);
    let program = launch.start();
    let mut client = Client::connect(program.address());
    client.create_topic(TOPIC, 2, &[]);
    let first = client.leader_epoch(TOPIC);
    assert_eq!(client.produce(TOPIC, 0, batch(&[b"a"])), Ok(0));
    program.stop();
    assert!(data.join(CLEAN_MARKER).exists());

    let program = launch.start();
    assert!(
        !data.join(CLEAN_MARKER).exists(),
        "while it runs it is not clean"
    );
    program.await_log(&["serving", "clean=true"]);
    let mut client = Client::connect(program.address());
    assert_eq!(client.leader_epoch(TOPIC), first);
    assert_eq!(client.produce(TOPIC, 0, batch(&[b"b"])), Ok(1));
    program.kill();
    assert!(!data.join(CLEAN_MARKER).exists());

    let program = launch.start();
    program.await_log(&["serving", "clean=false"]);
    let mut client = Client::connect(program.address());
    assert_eq!(client.leader_epoch(TOPIC), first + 1);
    assert_eq!(client.produce(TOPIC, 0, batch(&[b"c"])), Ok(2));
    let stored = client.fetch_all(TOPIC, 0, 0);
    let epochs: Vec<i32> = stored.iter().map(|b| header(b).leader_epoch.0).collect();
    assert_eq!(epochs, [first, first, first + 1]);

    // A consumer that still believes in the old leader is told so (KIP-320).
    let mut stale = fetch_request(TOPIC, 0, 0, 0);
    stale.topics[0].partitions[0].current_leader_epoch = first;
    assert_eq!(
        error_of(&mut client, &stale),
        ErrorCode::FENCED_LEADER_EPOCH
    );
    stale.topics[0].partitions[0].current_leader_epoch = first + 2;
    assert_eq!(
        error_of(&mut client, &stale),
        ErrorCode::UNKNOWN_LEADER_EPOCH
    );
    stale.topics[0].partitions[0].current_leader_epoch = first + 1;
    assert_eq!(error_of(&mut client, &stale), ErrorCode::NONE);
    // Kept soon after the first append, beside it: it can be made again from the log.
    let kept = || fs::read_to_string(data.join("orders-0/leader-epoch-checkpoint")).unwrap();
    let expected = format!("0\n2\n{first} 0\n{} 2\n", first + 1);
    let begun = Instant::now();
    while kept() != expected {
        let waited = begun.elapsed();
        assert!(waited < Duration::from_secs(10), "{:?}", kept());
        std::thread::sleep(Duration::from_millis(10));
    }
    program.stop();
    assert_eq!(kept(), expected);
}

fn error_of(
    client: &mut Client,
    request: &odradek_core::wire::messages::fetch::FetchRequest,
) -> ErrorCode {
    match client.ask(FETCH, request).unwrap() {
        ResponseBody::Fetch(FetchResponse { responses, .. }) => {
            responses[0].partitions[0].error_code
        }
        other => panic!("{other:?}"),
    }
}

/// Both starts find the same 24 MiB; only one of them reads them.
#[cfg(target_os = "linux")]
#[test]
fn after_a_clean_stop_nothing_is_scanned() {
    const BYTES: u64 = 24 << 20;
    let (_root, data) = temporary();
    // Acknowledged from the page cache: the recovery point then trails as far as it may.
    let launch = Launch::on(&data).arg("--durability").arg("os");
    let program = launch.start();
    let mut client = Client::connect(program.address());
    client.create_topic(TOPIC, 1, &[]);
    let value = vec![7; 512 << 10];
    for _ in 0..BYTES / value.len() as u64 {
        client.produce(TOPIC, 0, batch(&[&value])).unwrap();
    }
    let (_copy_root, killed) = temporary();
    program.kill();
    // The killed process may have kept a recovery point by chance of timing: without one, all of
    // the log lies above it.
    harness::data_dir::copy(&data, &killed);
    fs::remove_file(killed.join("log.checkpoint")).unwrap();

    let program = Launch::on(&killed).arg("--durability").arg("os").start();
    let scanned = program.bytes_read();
    assert!(scanned > BYTES, "the measure works: {scanned}");
    program.stop();

    let program = Launch::on(&killed).arg("--durability").arg("os").start();
    let read = program.bytes_read();
    assert!(read < BYTES / 16, "{read} bytes read after a clean stop");
    program.await_log(&["serving", "clean=true"]);
    let end = Client::connect(program.address()).list_offset(TOPIC, 0, -1);
    assert_eq!(end.offset, (BYTES / value.len() as u64) as i64);
    println!("bytes read by a start: {scanned} unclean, {read} clean");
}

/// A client that does not take its answer keeps a stop waiting for some seconds.
#[test]
fn a_second_signal_ends_it_at_once() {
    let (_root, data) = temporary();
    let launch = Launch::on(&data).arg("--durability").arg("os");
    let mut program = launch.start();
    let mut client = Client::connect(program.address());
    client.create_topic(TOPIC, 1, &[]);
    let value = vec![1; 900 << 10];
    for _ in 0..30 {
        client.produce(TOPIC, 0, batch(&[&value])).unwrap();
    }
    let mut slow = Client::named(program.address(), "slow");
    for _ in 0..8 {
        slow.send(FETCH, &fetch_request(TOPIC, 0, 0, 0)).unwrap();
    }
    std::thread::sleep(Duration::from_millis(300));
    program.send(Signal::TERM);
    program.await_log(&["SIGTERM", "stopping"]);
    std::thread::sleep(Duration::from_millis(500));
    assert!(program.is_running(), "it waits for the slow client");
    let begun = Instant::now();
    program.send(Signal::TERM);
    let ended = program.wait();
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(ended.status.code(), Some(1), "{}", ended.log);
    assert!(find_line(&ended.log, &["SIGTERM again"]).is_some());

    let program = launch.start();
    let stored = Client::connect(program.address()).fetch_all(TOPIC, 0, 0);
    assert_eq!(all_values(&stored), vec![value; 30]);
}

#[test]
fn a_slow_client_does_not_keep_a_stop_waiting_for_long() {
    let (_root, data) = temporary();
    let program = Launch::on(&data).arg("--durability").arg("os").start();
    let mut client = Client::connect(program.address());
    client.create_topic(TOPIC, 1, &[]);
    let value = vec![1; 900 << 10];
    for _ in 0..10 {
        client.produce(TOPIC, 0, batch(&[&value])).unwrap();
    }
    for _ in 0..8 {
        client.send(FETCH, &fetch_request(TOPIC, 0, 0, 0)).unwrap();
    }
    std::thread::sleep(Duration::from_millis(200));
    let begun = Instant::now();
    program.stop();
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    assert!(data.join(CLEAN_MARKER).exists());
}

#[test]
fn a_second_process_on_the_same_directory_is_refused() {
    let (_root, data) = temporary();
    let launch = Launch::on(&data);
    let program = launch.start();
    let mut client = Client::connect(program.address());
    client.create_topic(TOPIC, 1, &[]);
    let before = lasting_names(&data);

    let refused = launch.try_start().unwrap_err();
    assert_eq!(refused.status.code(), Some(1));
    let path = data.display().to_string();
    let line = find_line(&refused.log, &[&path, "in use by another process"]);
    assert!(line.is_some(), "{}", refused.log);

    assert_eq!(lasting_names(&data), before);
    assert_eq!(client.produce(TOPIC, 0, batch(&[b"a"])), Ok(0));
    program.stop();
    // The lock ends with its holder, even one that is killed.
    launch.start().kill();
    launch.start();
}

/// What is in a folder, without the checkpoint, which the running program writes when it is time
/// to, and without files that are about to replace others.
fn lasting_names(folder: &Path) -> BTreeSet<OsString> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| {
            let extension = Path::new(name).extension();
            extension.is_none_or(|e| e != "tmp" && e != "checkpoint")
        })
        .collect()
}

/// What the format file does not name is left as it is.
#[test]
fn a_directory_of_another_format_or_of_something_else_is_refused_untouched() {
    let (_root, data) = temporary();
    let launch = Launch::on(&data);
    let program = launch.start();
    Client::connect(program.address()).create_topic(TOPIC, 1, &[]);
    program.stop();
    fs::write(data.join("odradek.format"), "odradek data directory v9\n").unwrap();
    let before = listing(&data);
    let refused = launch.try_start().unwrap_err();
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.log.contains("v9"), "{}", refused.log);
    assert!(
        refused.log.contains("nothing was touched"),
        "{}",
        refused.log
    );
    assert_eq!(listing(&data), before);

    let (_root, other) = temporary();
    fs::create_dir(&other).unwrap();
    fs::write(other.join("thesis.tex"), "years of work").unwrap();
    let refused = Launch::on(&other).try_start().unwrap_err();
    assert!(refused.log.contains("thesis.tex"), "{}", refused.log);
    assert_eq!(listing(&other).len(), 1);
}

/// Names, sizes and contents of all files but the lock.
fn listing(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(listing(&path));
        } else if path.file_name().unwrap() != ".lock" {
            found.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// Many restarts of both kinds; what was appended in between is all there.
#[test]
fn restarts_in_any_order_keep_everything() {
    let (_root, data) = temporary();
    let launch = Launch::on(&data);
    let mut expected = Vec::new();
    for round in 0..8_i64 {
        let program = launch.start();
        let mut client = Client::connect(program.address());
        if round == 0 {
            client.create_topic(TOPIC, 1, &[("segment.bytes", "1048576")]);
        }
        assert_eq!(all_values(&client.fetch_all(TOPIC, 0, 0)), expected);
        for n in 0..4 {
            let value = vec![(round * 4 + n) as u8; 200 << 10];
            assert_eq!(
                client.produce(TOPIC, 0, batch(&[&value])),
                Ok(round * 4 + n)
            );
            expected.push(value);
        }
        if round % 3 == 0 {
            program.kill();
        } else {
            program.stop();
            let points = checkpoint(&data);
            let ours = points.iter().find(|p| p.offset == (round + 1) * 4);
            assert!(ours.is_some(), "a clean stop keeps the end: {points:?}");
        }
    }
    let program = launch.start();
    let mut client = Client::connect(program.address());
    assert_eq!(all_values(&client.fetch_all(TOPIC, 0, 0)), expected);
    let found = client.fetch(TOPIC, 0, 32);
    assert_eq!(found.records.unwrap_or_default(), Records::default());
}

/// A batch of an idempotent producer with one record.
fn produced_by(producer_id: i64, base_sequence: i32) -> bytes::Bytes {
    let mut builder = odradek_core::record::BatchBuilder::new(1 << 20);
    assert!(builder.append(1_700_000_000_000, None, Some(b"once"), &[]));
    builder.build(odradek_core::record::BatchFields {
        producer: Some(odradek_core::record::builder::ProducerFields {
            producer_id,
            producer_epoch: 0,
            base_sequence,
        }),
        ..Default::default()
    })
}

fn new_producer_id(client: &mut Client) -> i64 {
    let request = odradek_core::wire::messages::InitProducerIdRequest {
        transactional_id: None,
        ..Default::default()
    };
    match client.ask(4, &request).unwrap() {
        ResponseBody::InitProducerId(response) => {
            assert_eq!(response.error_code, ErrorCode::NONE);
            response.producer_id
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_killed_broker_answers_a_retried_batch_with_the_original_offset() {
    let (_root, data) = temporary();
    let mut program = Launch::on(&data).start();
    let mut client = Client::connect(program.address());
    client.create_topic(TOPIC, 1, &[]);
    let id = new_producer_id(&mut client);
    let send = |client: &mut Client, sequence: i32| {
        let request = produce_request(TOPIC, -1, &[(0, produced_by(id, sequence))]);
        client.send(PRODUCE, &request).unwrap();
        client.produced().unwrap().remove(0)
    };
    for sequence in 0..7 {
        let answer = send(&mut client, sequence);
        assert_eq!(answer.base_offset, i64::from(sequence));
    }
    for killed in [true, false, true] {
        if killed {
            program.kill();
        } else {
            program.stop();
        }
        program = Launch::on(&data).start();
        client = Client::connect(program.address());
        // The last five are known, the ones before are out of order, nothing is there twice.
        for sequence in 0..7 {
            let answer = send(&mut client, sequence);
            if sequence < 2 {
                assert_eq!(answer.error_code, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
            } else {
                assert_eq!(answer.error_code, ErrorCode::NONE);
                assert_eq!(answer.base_offset, i64::from(sequence));
            }
        }
        assert_eq!(client.list_offset(TOPIC, 0, -1).offset, 7);
        assert_ne!(new_producer_id(&mut client), id, "no id is given twice");
    }
}
