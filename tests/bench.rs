//! `odradek bench`: every load for a fraction of a second, against the real program and against
//! the bare loops. Nothing here judges a figure.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

mod harness;
#[path = "support/serve.rs"]
mod serve;
mod support;

use std::fs;

use serde_json::Value;
use serve::Serve;
use support::{run, text};

const SHORT: [&str; 8] = [
    "--rounds",
    "2",
    "--seconds",
    "0.1",
    "--warm-up",
    "0.02",
    "--output",
    "json",
];

/// Runs a bench against a broker; what it found.
#[track_caller]
fn bench(broker: &Serve, args: &[&str]) -> Value {
    let ran = broker.run(&[&["bench"], args, &SHORT[..]].concat()).ok();
    let mut rows = ran.json();
    assert_eq!(rows.len(), 1, "{ran:?}");
    rows.remove(0)
}

/// Both rounds of a metric must have found something.
#[track_caller]
fn assert_found(row: &Value, metrics: &[&str]) {
    for metric in metrics {
        let rounds = row["rounds"][metric].as_array();
        let rounds = rounds.unwrap_or_else(|| panic!("no {metric} in {row}"));
        assert_eq!(rounds.len(), 2, "{row}");
        for value in rounds {
            assert!(value.as_f64().unwrap() > 0.0, "{metric} in {row}");
        }
        assert!(row["median"][metric].is_number(), "{row}");
    }
}

#[test]
fn every_load_finds_something_on_a_broker_and_leaves_no_topic_behind() {
    let (_dir, broker) = Serve::on_a_new_directory();
    let rates = ["mb_per_s", "records_per_s", "p50_us"];
    let row = bench(&broker, &["produce", "--records", "50"]);
    assert_found(&row, &rates);
    let row = bench(
        &broker,
        &[
            "produce",
            "--records",
            "900",
            "--bytes",
            "1000",
            "--connections",
            "2",
            "--partitions",
            "2",
        ],
    );
    assert_found(&row, &rates);
    let row = bench(&broker, &["fetch", "--fill-mib", "2"]);
    assert_found(&row, &rates);
    let row = bench(
        &broker,
        &["commit", "--connections", "20", "--partitions", "3"],
    );
    assert_found(&row, &["records_per_s", "p99_us"]);
    let row = bench(&broker, &["latency", "--rate", "500"]);
    assert_found(&row, &["records_per_s", "p50_us", "p999_us"]);
    assert_eq!(row["median"]["lost_records"], 0.0, "{row}");
    let row = bench(&broker, &["latency", "--rate", "500", "--ping"]);
    assert_found(&row, &["p50_us"]);
    let row = bench(&broker, &["connections", "--connections", "50"]);
    assert_found(&row, &["seconds"]);
    let row = bench(
        &broker,
        &[
            "mixed",
            "--rate",
            "5000",
            "--records",
            "10",
            "--partitions",
            "2",
            "--segment-mib",
            "1",
        ],
    );
    assert_found(&row, &["records_per_s", "p999_us"]);
    assert_eq!(row["median"]["lost_records"], 0.0, "{row}");
    assert_eq!(broker.run(&["topic", "list"]).ok().stdout, "");
}

#[test]
fn a_row_says_all_that_is_needed_to_judge_it_and_can_be_drawn() {
    let (dir, broker) = Serve::on_a_new_directory();
    let rows = dir.path().join("rows.jsonl");
    let keep = ["--rows", text(&rows), "--durability", "fsync"];
    for records in ["1", "100"] {
        let produce = ["produce", "--records", records];
        bench(&broker, &[&produce[..], &keep[..]].concat());
    }
    let written = fs::read_to_string(&rows).unwrap();
    assert_eq!(written.lines().count(), 2);
    let row: Value = serde_json::from_str(written.lines().next().unwrap()).unwrap();
    for field in [
        "machine",
        "kernel",
        "commit",
        "load_average",
        "command",
        "durability",
    ] {
        assert!(!row[field].is_null(), "no {field} in {row}");
    }
    assert!(
        row["command"]
            .as_str()
            .unwrap()
            .starts_with("odradek bench produce")
    );

    let plots = dir.path().join("plots");
    let draw = ["bench", "plot", "--rows", text(&rows), "--to", text(&plots)];
    let drawn = run(&draw).ok().stdout;
    assert!(drawn.contains("throughput-batch.svg"), "{drawn}");
    let svg = fs::read_to_string(plots.join("throughput-batch.svg")).unwrap();
    assert_eq!(svg.matches("<circle").count(), 2, "{svg}");
}

#[test]
fn the_comparison_puts_each_load_on_each_system() {
    let dir = tempfile::tempdir().unwrap();
    let rows = dir.path().join("rows.jsonl");
    let ran = run(&[
        "bench",
        "compare",
        "--quick",
        "--rounds",
        "1",
        "--seconds",
        "0.1",
        "--only",
        "produce",
        "--only",
        "commit",
        "--only",
        "fetch",
        "--only",
        "latency",
        "--only",
        "start",
        "--dir",
        text(dir.path()),
        "--rows",
        text(&rows),
    ])
    .ok();
    for words in [
        "produce 1000 x 100 B",
        "flushed",
        "fetch 1024 KiB",
        "500 connections",
        "goal",
    ] {
        assert!(ran.stdout.contains(words), "no {words} in\n{}", ran.stdout);
    }
    let written = fs::read_to_string(&rows).unwrap();
    let of = |system: &str| written.matches(&format!(r#""system":"{system}""#)).count();
    // Two lines have no bare loop beside them, and the start is not theirs.
    assert_eq!((of("bare"), of("odradek")), (10, 13));
    assert!(run(&["bench", "compare", "--only", "nothing"]).code == Some(2));
}

#[test]
fn the_limits_need_no_broker() {
    let dir = tempfile::tempdir().unwrap();
    let ran = run(&[
        "bench",
        "limits",
        "--rounds",
        "1",
        "--seconds",
        "0.05",
        "--only",
        "produce-small",
        "--only",
        "commit-flushed",
        "--dir",
        text(dir.path()),
        "--output",
        "json",
    ])
    .ok();
    let systems: Vec<Value> = ran.json().iter().map(|row| row["system"].clone()).collect();
    assert_eq!(systems.iter().filter(|system| *system == "bare").count(), 2);
    assert!(!systems.contains(&"odradek".into()));
}

#[test]
fn a_start_is_measured_with_what_it_finds() {
    let ran = run(&[
        "bench",
        "start",
        "--rounds",
        "2",
        "--log-mib",
        "1",
        "--crash",
        "--output",
        "json",
    ])
    .ok();
    let row = &ran.json()[0];
    assert_found(row, &["start_ms", "resident_mb"]);
    assert_eq!(row["parameters"]["crash"], true);
}

#[test]
fn groups_are_measured_in_both_protocols() {
    let few = ["--groups", "3", "--members", "2", "--large", "4"];
    let short = ["--interval", "0.1", "--seconds", "0.2", "--rounds", "2"];
    let output = ["--output", "json"];
    let ran = run(&[&["bench", "groups"][..], &few, &short, &output].concat()).ok();
    let rows = ran.json();
    assert_eq!(rows.len(), 2, "{rows:?}");
    for (row, protocol) in rows.iter().zip(["classic", "consumer"]) {
        assert_eq!(row["parameters"]["protocol"], protocol);
        let metrics = [
            "heartbeats_per_s",
            "heartbeat_cores",
            "rebalance_ms",
            "rebalance_cpu_ms",
        ];
        assert_found(row, &metrics[..1]);
        for metric in &metrics[1..] {
            let rounds = row["rounds"][metric].as_array().unwrap();
            assert_eq!(rounds.len(), 2, "{metric} in {row}");
        }
    }
}

#[test]
fn help_has_examples_and_a_missing_broker_is_a_plain_failure() {
    for command in [
        &["bench"][..],
        &["bench", "produce"],
        &["bench", "fetch"],
        &["bench", "latency"],
        &["bench", "commit"],
        &["bench", "connections"],
        &["bench", "start"],
        &["bench", "mixed"],
        &["bench", "groups"],
        &["bench", "limits"],
        &["bench", "compare"],
        &["bench", "plot"],
        &["bench", "bare"],
    ] {
        let ran = run(&[command, &["--help"]].concat()).ok();
        let example = format!("  odradek {}", command.join(" "));
        assert!(ran.stdout.contains("Examples:"), "{command:?}");
        assert!(ran.stdout.contains(&example), "{command:?}: {}", ran.stdout);
        assert!(ran.stdout.contains("Exit codes:"), "{command:?}");
    }
    let ran = run(&["bench", "produce", "--bootstrap", "127.0.0.1:1"]).failed(1);
    assert!(ran.stderr.contains("no broker answers"), "{}", ran.stderr);
}
