//! `kcat`, the client that most people try first, writes and reads back the same 100,000 records:
//! keys and values that are absent, empty, text and binary, with headers, plain and with each
//! compression.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use odradek_client_tests::chance::Chance;
use odradek_client_tests::dump_log::judge;
use odradek_client_tests::program::{Options, Program, is_clean_stop};
use odradek_client_tests::records::{TestRecord, binary};
use odradek_client_tests::work_dir::WorkDir;

const TOPIC: &str = "kcat";
/// Headers, and whether empty means null, hold for a whole run of `kcat`: the records come in this
/// many runs.
const RUNS: u64 = 10;
const RECORDS_A_RUN: u64 = 10_000;

/// What separates records and what separates key from value: bytes that the test's values do not
/// contain.
const RECORD_END: u8 = 0x1e;
const KEY_END: u8 = 0x1f;

#[test]
fn records_come_back_the_same() {
    round_trip("none", None);
}

#[test]
fn records_come_back_the_same_gzip() {
    round_trip("gzip", None);
}

#[test]
fn records_come_back_the_same_snappy() {
    round_trip("snappy", None);
}

#[test]
fn records_come_back_the_same_lz4() {
    round_trip("lz4", None);
}

#[test]
fn records_come_back_the_same_zstd() {
    round_trip("zstd", None);
}

#[test]
fn records_come_back_the_same_from_a_broker_that_packs_them_anew() {
    round_trip("snappy", Some("zstd"));
}

#[test]
fn records_come_back_the_same_from_a_broker_that_unpacks_them() {
    round_trip("gzip", Some("uncompressed"));
}

/// Writes and reads everything, to and from a broker that keeps the codec or, with a
/// `compression.type`, another.
fn round_trip(codec: &'static str, kept: Option<&'static str>) {
    let work = WorkDir::new(&format!("kcat-{codec}-{}", kept.unwrap_or("as-sent")));
    let options = Options::new(work.path())
        .set("log.segment.bytes", 4 << 20)
        .set("compression.type", kept.unwrap_or("producer"));
    let program = Program::start(&options).expect("the program starts");
    let stored_codec = match kept {
        None => program.codec_of_librdkafka(codec),
        Some("uncompressed") => "none",
        Some(kept) => kept,
    };

    let mut expected = Vec::new();
    for run in 0..RUNS {
        let empty_is_null = run % 2 == 1;
        let headers = headers(run);
        let records: Vec<TestRecord> = (0..RECORDS_A_RUN)
            .map(|index| record(run, index, empty_is_null, &headers))
            .collect();
        produce(program.address(), codec, empty_is_null, &headers, &records);
        for (record, offset) in records.iter().zip(run * RECORDS_A_RUN..) {
            print_as_kcat(&mut expected, offset, record);
        }
    }

    let format = "%o %K %S [%h] %k|%s\n";
    let read = kcat(
        program.address(),
        &[
            "-C",
            "-t",
            TOPIC,
            "-p",
            "0",
            "-o",
            "beginning",
            "-e",
            "-q",
            "-f",
            format,
        ],
        &[],
    );
    assert_same(&read, &expected);

    assert!(is_clean_stop(program.stop()));
    let verdict = judge(&options.data_dir);
    assert_eq!(verdict.faults, Vec::<String>::new());
    let partition = format!("{TOPIC}-0");
    assert_eq!(
        verdict.records.get(&partition),
        Some(&((RUNS * RECORDS_A_RUN) as usize))
    );
    assert!(
        verdict.is_compressed_with(&partition, stored_codec),
        "sent and stored as {:?}",
        verdict.codecs
    );
}

fn produce(
    address: SocketAddr,
    codec: &str,
    empty_is_null: bool,
    headers: &[(String, Option<Vec<u8>>)],
    records: &[TestRecord],
) {
    let mut arguments = vec![
        "-P", "-t", TOPIC, "-p", "0", "-D", "\\x1e", "-K", "\\x1f", "-X", "acks=all",
    ];
    if codec != "none" {
        arguments.extend(["-z", codec]);
    }
    if empty_is_null {
        arguments.push("-Z");
    }
    let headers: Vec<String> = headers
        .iter()
        .map(|(name, value)| match value {
            Some(value) => format!("{name}={}", String::from_utf8_lossy(value)),
            None => name.clone(),
        })
        .collect();
    for header in &headers {
        arguments.extend(["-H", header]);
    }
    let mut input = Vec::new();
    for record in records {
        if let Some(key) = &record.key {
            input.extend_from_slice(key);
            input.push(KEY_END);
        } else if record.value.as_ref().is_none_or(Vec::is_empty) {
            // A line without anything is no record to kcat; an empty key stands for null here.
            assert!(
                empty_is_null,
                "a null key and an empty value cannot be written to kcat"
            );
            input.push(KEY_END);
        }
        input.extend_from_slice(record.value.as_deref().unwrap_or_default());
        input.push(RECORD_END);
    }
    kcat(address, &arguments, &input);
}

fn headers(run: u64) -> Vec<(String, Option<Vec<u8>>)> {
    match run % 5 {
        0 => Vec::new(),
        1 => vec![("run".to_owned(), Some(run.to_string().into_bytes()))],
        2 => vec![
            ("twice".to_owned(), Some(b"1".to_vec())),
            ("twice".to_owned(), Some(b"2".to_vec())),
        ],
        3 => vec![
            ("null".to_owned(), None),
            ("empty".to_owned(), Some(Vec::new())),
        ],
        _ => vec![("größe".to_owned(), Some("zwölf".as_bytes().to_vec()))],
    }
}

fn record(
    run: u64,
    index: u64,
    empty_is_null: bool,
    headers: &[(String, Option<Vec<u8>>)],
) -> TestRecord {
    let mut chance = Chance::of(run, index);
    let mut key = match chance.below(6) {
        0 => None,
        1 => Some(Vec::new()),
        _ => Some(format!("key-{index}").into_bytes()),
    };
    let mut value = match chance.below(8) {
        0 => Vec::new(),
        1..4 => binary(&mut chance, 200),
        _ => format!("record {index} says {index} ")
            .repeat(1 + chance.below(6) as usize)
            .into_bytes(),
    };
    value.retain(|byte| ![RECORD_END, KEY_END].contains(byte));
    if key.is_none() && value.is_empty() && !empty_is_null {
        key = Some(Vec::new());
    }
    if empty_is_null {
        key = key.filter(|key| !key.is_empty());
    }
    let value = Some(value).filter(|value| !(empty_is_null && value.is_empty()));
    TestRecord {
        key,
        value,
        headers: headers.to_vec(),
    }
}

/// The line that the reader's format makes of a record.
fn print_as_kcat(lines: &mut Vec<u8>, offset: u64, record: &TestRecord) {
    let len = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(-1, |bytes| bytes.len() as i64);
    let headers: Vec<String> = record
        .headers
        .iter()
        .map(|(name, value)| match value {
            Some(value) => format!("{name}={}", String::from_utf8_lossy(value)),
            None => format!("{name}=NULL"),
        })
        .collect();
    let head = format!(
        "{offset} {} {} [{}] ",
        len(&record.key),
        len(&record.value),
        headers.join(",")
    );
    lines.extend_from_slice(head.as_bytes());
    lines.extend_from_slice(record.key.as_deref().unwrap_or_default());
    lines.push(b'|');
    lines.extend_from_slice(record.value.as_deref().unwrap_or_default());
    lines.push(b'\n');
}

/// Runs `kcat` and gives what it printed; anything but success is a failure of the test.
fn kcat(address: SocketAddr, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut kcat = Command::new("kcat")
        .args(["-b", &address.to_string()])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("kcat is needed and cannot be run: {error}"));
    let mut to_kcat = kcat.stdin.take().expect("its input is piped");
    let output = std::thread::scope(|threads| {
        threads.spawn(move || to_kcat.write_all(input).expect("kcat reads its input"));
        kcat.wait_with_output().expect("kcat can be waited for")
    });
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "kcat {arguments:?} ended with {}: {errors}",
        output.status
    );
    output.stdout
}

/// Equality of outputs too long to print.
fn assert_same(read: &[u8], expected: &[u8]) {
    if read == expected {
        return;
    }
    let at = read
        .iter()
        .zip(expected)
        .position(|(a, b)| a != b)
        .unwrap_or(read.len().min(expected.len()));
    let excerpt = |bytes: &[u8]| {
        String::from_utf8_lossy(
            &bytes[at.saturating_sub(200).min(bytes.len())..(at + 100).min(bytes.len())],
        )
        .into_owned()
    };
    panic!(
        "{} bytes read, {} expected, the first difference at byte {at}:\nread:     {:?}\nexpected: {:?}",
        read.len(),
        expected.len(),
        excerpt(read),
        excerpt(expected),
    );
}
