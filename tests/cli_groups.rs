//! Consumer groups on the command line: `odradek consume --group` and `odradek group`.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

mod harness;
#[path = "support/serve.rs"]
mod serve;
mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use serve::Serve;
use support::{Ran, odradek, run, wait};
use tempfile::TempDir;

fn broker() -> (TempDir, Serve) {
    let dir = tempfile::tempdir().unwrap();
    let no_delay = ["--set", "group.initial.rebalance.delay.ms=0"];
    let broker = Serve::start_with(dir.path(), &no_delay);
    (dir, broker)
}

/// A topic of two partitions with five records each.
fn filled(broker: &Serve) {
    let topic = ["topic", "create", "orders", "--partitions", "2"];
    broker.run(&topic).ok();
    for partition in ["0", "1"] {
        let command = ["produce", "orders", "--partition", partition];
        let lines: String = (0..5).map(|n| format!("{partition}-{n}\n")).collect();
        broker.run_with(&command, lines.as_bytes()).ok();
    }
}

fn consume(broker: &Serve, protocol: &str, count: &str) -> Vec<String> {
    let command = [
        "consume",
        "orders",
        "--group",
        "readers",
        "--from",
        "beginning",
    ];
    let more = ["--protocol", protocol, "--count", count];
    let ran = broker.run(&[&command[..], &more].concat()).ok();
    ran.stdout.lines().map(str::to_owned).collect()
}

fn described(broker: &Serve) -> Value {
    described_once_made(broker).expect("the group is there")
}

/// The same, unless no member has made the group yet.
fn described_once_made(broker: &Serve) -> Option<Value> {
    let ran = broker.run(&["group", "describe", "readers", "--output", "json"]);
    if ran.code == Some(1) && ran.stderr.contains("GROUP_ID_NOT_FOUND") {
        return None;
    }
    Some(ran.ok().json().remove(0))
}

/// A member that goes on reading.
struct Member {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Member {
    fn start(broker: &Serve, args: &[&str]) -> Self {
        let command = [
            "consume",
            "orders",
            "--group",
            "readers",
            "--from",
            "beginning",
        ];
        let bootstrap = broker.bootstrap();
        let mut child = odradek(&[&command[..], args, &["--bootstrap", &bootstrap]].concat())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Ctrl-C, and its exit code.
    fn interrupt(mut self) -> Option<i32> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::INT).unwrap();
        wait(&mut self.child).code()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn every_group_command_has_help_with_examples_and_exit_codes() {
    for command in [
        &["group"][..],
        &["group", "list"],
        &["group", "describe"],
        &["group", "delete"],
        &["group", "reset-offsets"],
    ] {
        let ran = run(&[command, &["--help"]].concat()).ok();
        let example = format!("  odradek {}", command.join(" "));
        assert!(ran.stdout.contains("Examples:"), "{command:?}");
        assert!(ran.stdout.contains(&example), "{command:?}: {}", ran.stdout);
        assert!(ran.stdout.contains("Exit codes:"), "{command:?}");
    }
}

#[test]
fn wrong_usage_of_groups_ends_with_2() {
    let reset = ["group", "reset-offsets", "g"];
    for args in [
        &["group", "describe"][..],
        &["group", "delete"],
        &reset,
        &[&reset[..], &["--to-earliest"]].concat(),
        &[&reset[..], &["--all-topics"]].concat(),
        &[
            &reset[..],
            &["--all-topics", "--to-earliest", "--to-latest"],
        ]
        .concat(),
        &[&reset[..], &["--all-topics", "--topic", "t", "--to-latest"]].concat(),
        &[&reset[..], &["--topic", "t:x", "--to-latest"]].concat(),
        &[&reset[..], &["--topic", "t", "--to-time", "yesterday"]].concat(),
        &["consume", "t", "--protocol", "consumer"],
        &["consume", "t", "--group", "g", "--from", "7"],
        &["consume", "t", "--group", "g", "--partition", "0"],
        &["consume", "t", "--group", "g", "--assignor", "uniform"],
    ] {
        let ran = run(args).failed(2);
        assert_eq!(ran.stdout, "", "{args:?}");
        assert!(!ran.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn a_member_goes_on_where_the_one_before_it_ended() {
    for protocol in ["classic", "consumer"] {
        let (_dir, broker) = broker();
        filled(&broker);
        let mut read = consume(&broker, protocol, "3");
        assert_eq!(read.len(), 3);
        let between = described(&broker);
        assert_eq!(
            (&between["state"], &between["lag"]),
            (&json!("Empty"), &json!(7))
        );
        read.extend(consume(&broker, protocol, "7"));
        read.sort();
        let all = |partition| (0..5).map(move |n| format!("{partition}-{n}"));
        assert_eq!(read, all(0).chain(all(1)).collect::<Vec<_>>());
        let after = described(&broker);
        assert_eq!(after["lag"], 0);
        assert_eq!(after["type"], protocol);
        assert_eq!(broker.run(&["group", "list"]).ok().stdout, "readers\n");
    }
}

#[test]
fn a_member_reads_the_topics_that_an_expression_matches() {
    let (_dir, broker) = broker();
    filled(&broker);
    broker.run(&["topic", "create", "payments"]).ok();
    broker
        .run_with(&["produce", "payments"], b"not this one\n")
        .ok();
    for (group, protocol) in [("first", "classic"), ("second", "consumer")] {
        let command = ["consume", "--topic-regex", "ord.*s", "--group", group];
        let more = [
            "--from",
            "beginning",
            "--protocol",
            protocol,
            "--count",
            "10",
        ];
        let ran = broker.run(&[&command[..], &more].concat()).ok();
        let mut lines: Vec<&str> = ran.stdout.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines.len(), 10, "{protocol}");
        assert_eq!((lines[0], lines[9]), ("0-0", "1-4"), "{protocol}");
    }
    let command = ["consume", "--topic-regex", "(", "--group", "third"];
    broker.run(&command).failed(1);
}

#[test]
fn a_running_member_is_described_and_ctrl_c_commits_and_leaves() {
    for protocol in ["classic", "consumer"] {
        let (_dir, broker) = broker();
        filled(&broker);
        let mut member = Member::start(&broker, &["--protocol", protocol]);
        for _ in 0..10 {
            member.line();
        }
        let group = described(&broker);
        assert_eq!(group["state"], "Stable");
        let members = group["members"].as_array().unwrap();
        assert_eq!(members.len(), 1);
        assert_eq!(members[0]["partitions"].as_array().unwrap().len(), 2);
        assert_eq!(members[0]["client_id"], "odradek-cli");
        let text = broker.run(&["group", "describe", "readers"]).ok().stdout;
        assert!(text.starts_with("readers: Stable, "), "{text}");
        assert!(text.contains("orders 0,1"), "{text}");

        let command = ["group", "reset-offsets", "readers", "--all-topics"];
        let refused = |ran: Ran| ran.failed(1).stderr;
        let topic = ["group", "reset-offsets", "readers", "--topic", "orders"];
        for scope in [&command[..], &topic] {
            let ran = broker.run(&[scope, &["--to-earliest", "--execute"]].concat());
            let why = refused(ran);
            assert!(why.contains("has no members"), "{why}");
            assert!(why.contains("odradek group describe readers"), "{why}");
        }
        let why = refused(broker.run(&["group", "delete", "readers"]));
        assert!(why.contains("NON_EMPTY_GROUP"), "{why}");

        assert_eq!(member.interrupt(), Some(0));
        let group = described(&broker);
        assert_eq!(
            (&group["state"], &group["lag"]),
            (&json!("Empty"), &json!(0))
        );
    }
}

#[test]
fn two_members_share_the_partitions() {
    let (_dir, broker) = broker();
    filled(&broker);
    let members = ["a", "b"].map(|_| Member::start(&broker, &[]));
    let begin = Instant::now();
    let is_shared = |group: &Value| {
        let members = group["members"].as_array().unwrap();
        let shares = members
            .iter()
            .map(|m| m["partitions"].as_array().unwrap().len());
        group["state"] == "Stable" && shares.eq([1, 1])
    };
    loop {
        let group = described_once_made(&broker);
        if group.as_ref().is_some_and(is_shared) {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "{group:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    for member in members {
        assert_eq!(member.interrupt(), Some(0));
    }
}

#[test]
fn a_reset_is_shown_first_and_done_when_it_shall_be() {
    let (_dir, broker) = broker();
    filled(&broker);
    consume(&broker, "classic", "10");
    let reset = ["group", "reset-offsets", "readers", "--output", "json"];
    let plan = |args: &[&str]| {
        let ran = broker.run(&[&reset[..], args].concat()).ok();
        let plan = ran.json().remove(0);
        let partitions = plan["partitions"].as_array().unwrap().clone();
        let new = partitions
            .iter()
            .map(|one| one["new_offset"].as_i64().unwrap());
        (plan["executed"].as_bool().unwrap(), new.collect::<Vec<_>>())
    };
    assert_eq!(
        plan(&["--all-topics", "--to-earliest"]),
        (false, vec![0, 0])
    );
    assert_eq!(described(&broker)["lag"], 0, "nothing has changed");
    let done = plan(&["--topic", "orders:1", "--shift-by", "-2", "--execute"]);
    assert_eq!(done, (true, vec![3]));
    assert_eq!(described(&broker)["lag"], 2);
    assert_eq!(consume(&broker, "classic", "2"), ["1-3", "1-4"]);

    assert_eq!(
        plan(&["--all-topics", "--to-offset", "99"]).1,
        [5, 5],
        "the nearest there is"
    );
    assert_eq!(plan(&["--all-topics", "--to-time", "-1h"]).1, [0, 0]);
    assert_eq!(plan(&["--all-topics", "--to-time", "2100-01-01"]).1, [5, 5]);
    assert_eq!(plan(&["--all-topics", "--to-latest"]).1, [5, 5]);
    assert_eq!(
        plan(&["--all-topics", "--to-offset", "1", "--execute"]).1,
        [1, 1]
    );
    assert_eq!(consume(&broker, "consumer", "8").len(), 8);

    let text = broker.run(&[
        "group",
        "reset-offsets",
        "new",
        "--topic",
        "orders",
        "--to-latest",
    ]);
    assert!(text.ok().stdout.contains("--execute does it"));
    let ran = broker.run(&[
        "group",
        "reset-offsets",
        "new",
        "--topic",
        "orders",
        "--shift-by",
        "1",
    ]);
    assert!(ran.failed(1).stderr.contains("nothing to shift"));
}

#[test]
fn a_deleted_group_is_gone() {
    let (_dir, broker) = broker();
    filled(&broker);
    consume(&broker, "classic", "1");
    let deleted = broker.run(&["group", "delete", "readers"]).ok();
    assert_eq!(deleted.stdout, "readers: deleted\n");
    assert_eq!(broker.run(&["group", "list"]).ok().stdout, "");
    let ran = broker.run(&["group", "describe", "readers"]).failed(1);
    assert!(ran.stderr.contains("GROUP_ID_NOT_FOUND"), "{}", ran.stderr);
    assert!(ran.stderr.contains("odradek group list"), "{}", ran.stderr);
    broker.run(&["group", "delete", "readers"]).failed(1);
    broker
        .run(&["group", "delete", "readers", "--if-exists"])
        .ok();
}
