//! The program's command line, as people and scripts use it: the real program, its pipes, its
//! signals, its exit codes. `odradek serve` is in `cli_serve.rs`, groups are in `cli_groups.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

mod harness;
#[path = "support/serve.rs"]
mod serve;
mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serve::Serve;
use support::{Ran, finish, odradek, run, text, wait};

// ---- help and usage ----

#[test]
fn every_command_has_help_with_examples_and_exit_codes() {
    for command in [
        &["serve"][..],
        &["topic", "create"],
        &["topic", "list"],
        &["topic", "describe"],
        &["topic", "alter"],
        &["topic", "delete"],
        &["produce"],
        &["consume"],
        &["topic"],
        &["log"],
        &["log", "dump"],
        &["log", "verify"],
        &[],
    ] {
        let ran = run(&[command, &["--help"]].concat()).ok();
        let example = format!("  odradek {}", command.join(" "));
        assert!(ran.stdout.contains("Examples:"), "{command:?}");
        assert!(ran.stdout.contains(&example), "{command:?}: {}", ran.stdout);
        assert!(ran.stdout.contains("Exit codes:"), "{command:?}");
        assert_eq!(ran.stderr, "");
    }
    assert!(run(&["--version"]).ok().stdout.starts_with("odradek "));
}

#[test]
fn wrong_usage_ends_with_2() {
    for args in [
        &[][..],
        &["frobnicate"],
        &["serve", "--durability", "maybe"],
        &["serve", "--set", "num.partitions"],
        &["serve", "--log", "odradek=loud"],
        &["topic", "create"],
        &["topic", "create", "a", "--partitions", "0"],
        &["topic", "alter", "a"],
        &["produce"],
        &["produce", "t", "--compression", "rar"],
        &["produce", "t", "--key", "a", "--key-separator", ":"],
        &["produce", "t", "--bootstrap", "nowhere"],
        &["consume", "t", "--from", "yesterday"],
        &["consume", "t", "--format", "xml"],
        &["log", "verify"],
    ] {
        let ran = run(args).failed(2);
        assert_eq!(ran.stdout, "", "{args:?}");
        assert!(!ran.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn a_command_without_a_broker_says_so_at_once() {
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    for command in [&["topic", "list"][..], &["produce", "t"], &["consume", "t"]] {
        let begin = Instant::now();
        let ran = run(&[command, &["--bootstrap", &address]].concat()).failed(1);
        assert!(ran.stderr.contains(&address), "{}", ran.stderr);
        assert!(ran.stderr.contains("odradek serve"), "{}", ran.stderr);
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
}

// ---- topic ----

#[test]
fn topics_are_created_listed_described_altered_and_deleted() {
    let (_dir, broker) = Serve::on_a_new_directory();
    let ran = broker
        .run(&[
            "topic",
            "create",
            "a",
            "b",
            "--partitions",
            "3",
            "--config",
            "retention.ms=1000",
        ])
        .ok();
    assert_eq!(
        ran.stdout,
        "a: created, 3 partitions\nb: created, 3 partitions\n"
    );
    assert_eq!(broker.run(&["topic", "list"]).ok().stdout, "a\nb\n");

    broker
        .run_with(&["produce", "a", "--partition", "1"], b"x\ny\n")
        .ok();
    let described = broker
        .run(&["topic", "describe", "a", "--output", "json"])
        .ok()
        .json();
    let topic = &described[0];
    assert_eq!(topic["topic"], "a");
    assert_eq!(topic["id"].as_str().unwrap().len(), 22);
    assert_eq!(topic["partitions"].as_array().unwrap().len(), 3);
    assert_eq!(topic["partitions"][1]["start_offset"], 0);
    assert_eq!(topic["partitions"][1]["end_offset"], 2);
    assert_eq!(topic["configs"][0]["name"], "retention.ms");
    assert_eq!(topic["configs"][0]["value"], "1000");
    assert_eq!(topic["configs"].as_array().unwrap().len(), 1);
    let all = broker
        .run(&["topic", "describe", "a", "--all-configs"])
        .ok()
        .stdout;
    assert!(all.contains("segment.bytes=1073741824  (default)"), "{all}");

    let args = [
        "topic",
        "alter",
        "a",
        "--partitions",
        "5",
        "--config",
        "max.message.bytes=99",
    ];
    broker
        .run(&[&args[..], &["--unset", "retention.ms"]].concat())
        .ok();
    let altered = broker
        .run(&["topic", "describe", "a", "--output", "json"])
        .ok()
        .json();
    assert_eq!(altered[0]["partitions"].as_array().unwrap().len(), 5);
    assert_eq!(altered[0]["configs"][0]["name"], "max.message.bytes");
    assert_eq!(altered[0]["configs"].as_array().unwrap().len(), 1);

    assert_eq!(
        broker.run(&["topic", "delete", "a"]).ok().stdout,
        "a: deleted\n"
    );
    let list = broker
        .run(&["topic", "list", "--output", "json"])
        .ok()
        .json();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0]["topic"], "b");
    assert_eq!(list[0]["partitions"], 3);
}

#[test]
fn what_a_topic_command_cannot_do_is_said_with_the_next_step() {
    let (_dir, broker) = Serve::on_a_new_directory();
    broker.run(&["topic", "create", "a"]).ok();
    let refused = |args: &[&str], words: &[&str]| {
        let ran = broker.run(args).failed(1);
        for word in words {
            assert!(
                ran.stderr.contains(word),
                "{args:?}: {word}: {}",
                ran.stderr
            );
        }
        ran
    };
    refused(
        &["topic", "create", "a"],
        &["'a'", "TOPIC_ALREADY_EXISTS", "--if-not-exists"],
    );
    refused(&["topic", "create", "b/c"], &["INVALID_TOPIC"]);
    refused(
        &["topic", "create", "c", "--config", "retention.mss=1"],
        &["retention.ms"],
    );
    refused(
        &["topic", "alter", "a", "--partitions", "1"],
        &["cannot give 'a' 1 partitions"],
    );
    refused(
        &["topic", "alter", "a", "--config", "segment.bytes=1"],
        &["segment.bytes"],
    );
    refused(
        &["topic", "describe", "nope"],
        &["'nope'", "odradek topic list"],
    );
    refused(&["topic", "delete", "nope"], &["'nope'", "UNKNOWN_TOPIC"]);
    // One that works is done although another does not.
    let ran = refused(&["topic", "create", "a", "new"], &["TOPIC_ALREADY_EXISTS"]);
    assert_eq!(ran.stdout, "new: created, 1 partition\n");

    broker
        .run(&["topic", "create", "a", "--if-not-exists"])
        .ok();
    broker.run(&["topic", "delete", "nope", "--if-exists"]).ok();
    broker
        .run(&["topic", "create", "dry", "--validate-only"])
        .ok();
    assert_eq!(broker.run(&["topic", "list"]).ok().stdout, "a\nnew\n");
}

// ---- produce and consume ----

fn from_beginning(broker: &Serve, topic: &str, args: &[&str]) -> Ran {
    let consume = ["consume", topic, "--from", "beginning", "--exit-at-end"];
    broker.run(&[&consume[..], args].concat()).ok()
}

#[test]
fn lines_go_in_and_come_out_through_pipes() {
    let (_dir, broker) = Serve::on_a_new_directory();
    let lines: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
    let ran = broker
        .run_with(&["produce", "t", "--output", "json"], lines.as_bytes())
        .ok();
    let told = &ran.json()[0];
    assert_eq!(told["records"], 20_000);
    assert_eq!(told["failed"], 0);
    assert_eq!(told["partitions"][0]["last_offset"], 19_999);
    assert!(
        from_beginning(&broker, "t", &[]).stdout == lines,
        "the same lines in their order"
    );
    // In text, a pipe gets nothing but records.
    let ran = broker.run_with(&["produce", "t"], b"more\n").ok();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
}

#[test]
fn every_compression_comes_back_the_same() {
    let (_dir, broker) = Serve::on_a_new_directory();
    let lines: String = (0..500)
        .map(|n| format!("{n} {}\n", "abc".repeat(n % 50)))
        .collect();
    for compression in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let args = ["produce", compression, "--compression", compression];
        broker.run_with(&args, lines.as_bytes()).ok();
        assert!(
            from_beginning(&broker, compression, &[]).stdout == lines,
            "{compression}"
        );
    }
}

#[test]
fn keys_headers_nulls_and_bytes_survive_the_way_through_json() {
    let (_dir, broker) = Serve::on_a_new_directory();
    let args = [
        "produce",
        "t",
        "--key-separator",
        r"\t",
        "--null-marker",
        "NULL",
    ];
    let headers = ["--header", "source=test", "--header", "empty"];
    let input = b"k1\tv1\nNULL\tv2\nk3\tNULL\n\t\nno separator\nk\xff\tv\x00\xfe\n";
    broker.run_with(&[&args[..], &headers].concat(), input).ok();
    let json = from_beginning(&broker, "t", &["--format", "json"]);
    let lines = json.json();
    assert_eq!(lines[0]["key"], "k1");
    assert_eq!(lines[0]["value"], "v1");
    assert_eq!(lines[0]["headers"][0]["key"], "source");
    assert_eq!(lines[0]["headers"][0]["value"], "test");
    assert_eq!(lines[0]["headers"][1]["value"], serde_json::Value::Null);
    assert_eq!(lines[1]["key"], serde_json::Value::Null);
    assert_eq!(lines[2]["value"], serde_json::Value::Null);
    assert_eq!(
        (&lines[3]["key"], &lines[3]["value"]),
        (&"".into(), &"".into())
    );
    assert_eq!(lines[4]["key"], serde_json::Value::Null);
    assert_eq!(lines[4]["value"], "no separator");
    assert_eq!(lines[5]["key_base64"], "a/8=");
    assert_eq!(lines[5]["value_base64"], "dgD+");

    // A copy by way of JSON is the same but for its topic.
    broker
        .run_with(
            &["produce", "copy", "--format", "json"],
            json.stdout.as_bytes(),
        )
        .ok();
    let copy = from_beginning(&broker, "copy", &["--format", "json"]).stdout;
    assert_eq!(copy.replace("\"copy\"", "\"t\""), json.stdout);
}

#[test]
fn records_of_a_key_stay_together_and_partitions_can_be_chosen() {
    let (_dir, broker) = Serve::on_a_new_directory();
    broker
        .run(&["topic", "create", "t", "--partitions", "4"])
        .ok();
    let lines: String = (0..40).map(|n| format!("k{}:{n}\n", n % 5)).collect();
    broker
        .run_with(&["produce", "t", "-K", ":"], lines.as_bytes())
        .ok();
    let found = from_beginning(&broker, "t", &["--format", r"%k %p %s\n"]).stdout;
    for key in 0..5 {
        let prefix = format!("k{key} ");
        let of_key: Vec<_> = found
            .lines()
            .filter_map(|l| l.strip_prefix(&prefix))
            .collect();
        let partition = of_key[0].split(' ').next().unwrap();
        let expected: Vec<_> = (0..8)
            .map(|n| format!("{partition} {}", 5 * n + key))
            .collect();
        assert_eq!(of_key, expected);
    }
    broker
        .run_with(&["produce", "t", "--partition", "3"], b"here\n")
        .ok();
    let of_three = from_beginning(&broker, "t", &["--partition", "3"]).stdout;
    assert!(of_three.ends_with("here\n"), "{of_three}");
    let ran = broker
        .run_with(&["produce", "t", "--partition", "9"], b"x\n")
        .failed(1);
    assert!(ran.stderr.contains("line 1: "), "{}", ran.stderr);
    assert!(ran.stderr.contains("partition 9"), "{}", ran.stderr);
    let ran = broker.run(&["consume", "t", "--partition", "9"]).failed(1);
    assert!(ran.stderr.contains("no partition 9"), "{}", ran.stderr);
}

#[test]
fn reading_begins_where_it_is_told() {
    let (_dir, broker) = Serve::on_a_new_directory();
    let line = |n: i64| format!("{{\"value\":\"{n}\",\"timestamp\":{}}}\n", 1000 * n);
    let lines: String = (1..=10).map(line).collect();
    // Timestamps of 1970 are fine.
    broker
        .run_with(&["produce", "t", "--format", "json"], lines.as_bytes())
        .ok();
    let read = |args: &[&str]| -> Vec<i64> {
        let consume = ["consume", "t", "--exit-at-end"];
        let stdout = broker.run(&[&consume[..], args].concat()).ok().stdout;
        stdout.lines().map(|line| line.parse().unwrap()).collect()
    };
    assert_eq!(read(&["--from", "beginning", "--count", "3"]), [1, 2, 3]);
    assert_eq!(read(&["--from", "7"]), [8, 9, 10]);
    assert_eq!(read(&["--from", "-2"]), [9, 10]);
    assert_eq!(read(&["--from", "-200"]).len(), 10);
    assert_eq!(read(&["--from", "@8000"]), [8, 9, 10]);
    assert_eq!(read(&["--from", "@1970-01-01T00:00:09.500Z"]), [10]);
    assert_eq!(read(&["--from", "@1970-01-02"]), [0; 0]);
    assert_eq!(read(&["--from", "10"]), [0; 0]);
    assert_eq!(read(&["--from", "end"]), [0; 0]);
    assert_eq!(read(&[]), [0; 0]);
    let ran = broker
        .run(&["consume", "t", "--from", "11", "--exit-at-end"])
        .failed(1);
    assert!(ran.stderr.contains("out of range"), "{}", ran.stderr);
    assert!(ran.stderr.contains("--from beginning"), "{}", ran.stderr);
}

#[test]
fn an_empty_topic_is_read_to_its_end_at_once() {
    let (_dir, broker) = Serve::on_a_new_directory();
    broker
        .run(&["topic", "create", "t", "--partitions", "3"])
        .ok();
    let begin = Instant::now();
    assert_eq!(from_beginning(&broker, "t", &[]).stdout, "");
    assert!(begin.elapsed() < Duration::from_secs(5));
    let ran = broker
        .run(&["consume", "nope", "--from", "beginning"])
        .failed(1);
    assert!(ran.stderr.contains("'nope'"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("odradek topic create"),
        "{}",
        ran.stderr
    );
    assert_eq!(
        broker.run(&["topic", "list"]).ok().stdout,
        "t\n",
        "reading creates nothing"
    );
}

#[test]
fn a_waiting_reader_gets_each_record_as_it_comes() {
    let (_dir, broker) = Serve::on_a_new_directory();
    broker.run(&["topic", "create", "t"]).ok();
    let mut consumer = odradek(&["consume", "t", "--from", "beginning", "--count", "2"])
        .args(["--bootstrap", &broker.bootstrap()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(consumer.stdout.take().unwrap()).lines();
    broker.run_with(&["produce", "t"], b"first\n").ok();
    assert_eq!(lines.next().unwrap().unwrap(), "first");
    broker.run_with(&["produce", "t"], b"second\n").ok();
    assert_eq!(lines.next().unwrap().unwrap(), "second");
    assert!(lines.next().is_none());
    assert_eq!(wait(&mut consumer).code(), Some(0));
}

#[test]
fn a_typed_line_is_sent_before_the_next_one() {
    let (_dir, broker) = Serve::on_a_new_directory();
    let mut producer = odradek(&["produce", "t", "--bootstrap", &broker.bootstrap()])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = producer.stdin.take().unwrap();
    stdin.write_all(b"typed\n").unwrap();
    // The pipe stays open: nothing but the line itself says that it is over.
    let begin = Instant::now();
    while broker.run(&["topic", "list"]).ok().stdout != "t\n" {
        assert!(begin.elapsed() < Duration::from_secs(30));
    }
    let ran = broker
        .run(&["consume", "t", "--from", "beginning", "--count", "1"])
        .ok();
    assert_eq!(ran.stdout, "typed\n");
    drop(stdin);
    assert_eq!(wait(&mut producer).code(), Some(0));
}

#[test]
fn a_reader_that_is_gone_ends_consume_quietly() {
    let (_dir, broker) = Serve::on_a_new_directory();
    let lines: String = (0..50_000).map(|n| format!("{n}\n")).collect();
    broker.run_with(&["produce", "t"], lines.as_bytes()).ok();
    // As a shell runs `odradek consume ... | head -1`, with the exit code of consume.
    let script = format!(
        "set -o pipefail; '{}' consume t --from beginning --bootstrap {} | head -1",
        env!("CARGO_BIN_EXE_odradek"),
        broker.bootstrap()
    );
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]);
    let ran = finish(shell, b"");
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (Some(0), "0\n", "")
    );
    // One that waits for records notices without another record.
    let mut waiting = odradek(&["consume", "t", "--bootstrap", &broker.bootstrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(waiting.stdout.take());
    assert_eq!(wait(&mut waiting).code(), Some(0));
}

#[test]
fn a_record_that_is_refused_is_named_by_its_line() {
    let (_dir, broker) = Serve::on_a_new_directory();
    broker
        .run(&[
            "topic",
            "create",
            "small",
            "--config",
            "max.message.bytes=200",
        ])
        .ok();
    let long = format!("short\n{}\n", "x".repeat(1000));
    // Each in a batch of its own, so that the first is not refused with the second.
    let ran = broker.run_with(&["produce", "small"], b"short\n").ok();
    assert_eq!(ran.stderr, "");
    let ran = broker
        .run_with(&["produce", "small"], long.as_bytes())
        .failed(1);
    assert!(ran.stderr.contains("MESSAGE_TOO_LARGE"), "{}", ran.stderr);
    assert!(ran.stderr.contains("max.message.bytes"), "{}", ran.stderr);

    let ran = broker.run_with(&["produce", "t", "--max-bytes", "10"], b"ok\n12345678901\n");
    let ran = ran.failed(1);
    assert!(
        ran.stderr.contains("line 2: longer than 10 bytes"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("1 record"), "{}", ran.stderr);
    let ran = broker
        .run_with(&["produce", "t", "--format", "json"], b"{}\nnonsense\n")
        .failed(1);
    assert!(
        ran.stderr.contains("line 2: not a JSON object"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_topic_is_not_created_where_the_broker_must_not() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Serve::start_with(dir.path(), &["--set", "auto.create.topics.enable=false"]);
    let ran = broker
        .run_with(&["produce", "t", "--timeout", "2"], b"x\n")
        .failed(1);
    assert!(
        ran.stderr.contains("odradek topic create"),
        "{}",
        ran.stderr
    );
}

#[test]
fn every_acks_is_accepted() {
    let (_dir, broker) = Serve::on_a_new_directory();
    for acks in ["all", "1", "0"] {
        broker
            .run_with(&["produce", "t", "--acks", acks], b"x\n")
            .ok();
    }
    let begin = Instant::now();
    while from_beginning(&broker, "t", &[]).stdout != "x\nx\nx\n" {
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn what_a_broker_wrote_dumps_and_verifies() {
    let (dir, broker) = Serve::on_a_new_directory();
    let args = [
        "--set",
        "log.segment.bytes=1048576",
        "--set",
        "log.index.interval.bytes=1024",
    ];
    drop(broker);
    let broker = Serve::start_with(dir.path(), &args);
    let lines: String = (0..30_000)
        .map(|n| format!("k{n}:{}\n", "v".repeat(100)))
        .collect();
    broker
        .run_with(&["produce", "t", "-K", ":"], lines.as_bytes())
        .ok();
    let while_running = run(&["log", "verify", text(dir.path())]);
    assert!(
        while_running.stderr.contains("a broker is running"),
        "{while_running:?}"
    );
    assert_eq!(broker.stop().0, Some(0));
    let ran = run(&["log", "verify", text(dir.path()), "--output", "json"]).ok();
    let log = ran
        .json()
        .into_iter()
        .find(|line| line["log"] == "t-0")
        .unwrap();
    assert_eq!(log["records"], 30_000);
    assert_eq!(log["ok"], true);
    assert!(log["segments"].as_i64().unwrap() > 2, "{log}");
    let dump = run(&[
        "log",
        "dump",
        text(&dir.path().join("t-0")),
        "--output",
        "json",
    ])
    .ok();
    let records = dump
        .json()
        .into_iter()
        .filter(|line| line["type"] == "record");
    assert!(
        records
            .map(|line| line["offset"].as_i64().unwrap())
            .eq(0..30_000)
    );
    let metadata = run(&[
        "log",
        "dump",
        text(&dir.path().join("__cluster_metadata-0")),
    ])
    .ok();
    assert!(
        metadata.stdout.contains("name: \"t\""),
        "{}",
        metadata.stdout
    );
}
