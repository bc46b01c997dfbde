//! `odradek serve` on the command line: what it says, what it refuses, how it stops.
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
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serve::Serve;
use support::{Ran, odradek, run, text};

/// A start on a directory that it must refuse.
#[track_caller]
fn refused(data: &Path) -> Ran {
    let listen = ["--listen", "127.0.0.1:0"];
    run(&[&["serve"], &listen[..], &["--data-dir", text(data)]].concat()).failed(1)
}

#[test]
fn the_start_up_line_says_address_directory_and_durability() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let broker = Serve::start(&data);
    let expected = format!(
        "odradek listening on {}, data in {}, durability fsync",
        broker.address,
        text(&data)
    );
    assert_eq!(broker.line, expected);
    assert_ne!(broker.address.port(), 0);
    TcpStream::connect(broker.address).unwrap();
    let (code, logs) = broker.stop();
    assert_eq!(code, Some(0));
    assert!(logs.contains("INFO odradek::"), "{logs}");

    let broker = Serve::start_with(&data, &["--durability", "os"]);
    assert!(broker.line.ends_with(", durability os"), "{}", broker.line);
}

#[test]
fn the_data_directory_is_odradek_data_where_nothing_else_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = odradek(&["serve", "--listen", "127.0.0.1:0"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.contains("/odradek-data, "), "{line}");
    assert!(dir.path().join("odradek-data/odradek.format").exists());
}

#[test]
fn an_unknown_config_is_refused_with_the_nearest_known_one() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let ran = run(&[
        "serve",
        "--data-dir",
        text(&data),
        "--set",
        "num.partition=3",
    ])
    .failed(2);
    assert!(ran.stderr.contains("'num.partition'"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("did you mean 'num.partitions'?"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.stdout, "");

    let file = dir.path().join("server.properties");
    fs::write(&file, "# mine\nnode.id=0\nauto.create.topic.enable=false\n").unwrap();
    let ran = run(&["serve", "--data-dir", text(&data), "--config", text(&file)]).failed(2);
    assert!(
        ran.stderr.contains(&format!("{}:3", text(&file))),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("'auto.create.topics.enable'"),
        "{}",
        ran.stderr
    );

    let ran = run(&[
        "serve",
        "--data-dir",
        text(&data),
        "--set",
        "log.segment.bytes=14",
    ])
    .failed(2);
    assert!(ran.stderr.contains("log.segment.bytes"), "{}", ran.stderr);
    assert!(
        !data.exists(),
        "nothing is made before the configuration is right"
    );
}

#[test]
fn kafkas_own_properties_file_is_understood() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("kraft-logs");
    let file = dir.path().join("server.properties");
    let properties = format!(
        "process.roles=broker,controller\nnode.id=7\ncontroller.quorum.voters=7@localhost:9093\n\
         listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n\
         inter.broker.listener.name=PLAINTEXT\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n\
         num.network.threads=3\nlog.dirs={}\nnum.partitions=4\nlog.retention.hours=168\n",
        text(&data)
    );
    fs::write(&file, properties).unwrap();
    let mut child = odradek(&["serve", "--config", text(&file)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let address = line
        .split([' ', ','])
        .find(|word| word.contains(':'))
        .unwrap();
    let created = run(&["topic", "create", "t", "--bootstrap", address]).ok();
    let described = run(&[
        "topic",
        "describe",
        "t",
        "--output",
        "json",
        "--bootstrap",
        address,
    ]);
    child.kill().unwrap();
    let mut logs = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut logs)
        .unwrap();
    child.wait().unwrap();
    assert!(line.contains(text(&data)), "{line}");
    assert!(
        created.stdout.contains("4 partitions"),
        "{}",
        created.stdout
    );
    assert_eq!(described.ok().json()[0]["partitions"][0]["leader"], 7);
    assert!(
        logs.contains("num.network.threads"),
        "what has no effect is a warning: {logs}"
    );
    assert!(logs.contains("CONTROLLER"), "{logs}");
}

#[test]
fn a_second_process_on_the_same_directory_is_refused() {
    let (dir, broker) = Serve::on_a_new_directory();
    let ran = refused(dir.path());
    assert!(ran.stderr.contains(text(dir.path())), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("in use by another process"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.stdout, "");
    broker.run(&["topic", "list"]).ok();
}

#[test]
fn an_unknown_format_version_is_refused_and_nothing_is_touched() {
    let (dir, broker) = Serve::on_a_new_directory();
    broker.run(&["topic", "create", "orders"]).ok();
    assert_eq!(broker.stop().0, Some(0));
    let format = dir.path().join("odradek.format");
    fs::write(&format, "odradek data directory v99\n").unwrap();
    let before = contents(dir.path());
    let ran = refused(dir.path());
    assert!(ran.stderr.contains("v99"), "{}", ran.stderr);
    assert!(ran.stderr.contains("nothing was touched"), "{}", ran.stderr);
    assert_eq!(contents(dir.path()), before);
}

/// Every file below a directory with its bytes.
fn contents(dir: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            let bytes = fs::read(&path).unwrap();
            found.push((path, bytes));
        }
    }
    found.sort();
    found
}

#[test]
fn a_directory_of_somebody_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.tex"), "x").unwrap();
    let ran = refused(dir.path());
    assert!(ran.stderr.contains("thesis.tex"), "{}", ran.stderr);
    assert!(ran.stderr.contains("empty directory"), "{}", ran.stderr);
}

#[test]
fn what_keeps_it_from_starting_is_named_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let data = dir.path().join("data");
    let ran = run(&["serve", "--listen", &address, "--data-dir", text(&data)]).failed(1);
    assert!(ran.stderr.contains(&address), "{}", ran.stderr);
    assert!(ran.stderr.contains("choose another port"), "{}", ran.stderr);

    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let through = file.join("data");
    let ran = refused(&through);
    assert!(ran.stderr.contains(text(&file)), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("choose another directory"),
        "{}",
        ran.stderr
    );
}

#[test]
fn failures_are_json_too_where_logs_are() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.tex"), "x").unwrap();
    let args = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--log-format",
        "json",
        "--data-dir",
    ];
    let ran = run(&[&args[..], &[text(dir.path())]].concat()).failed(1);
    let lines: Vec<serde_json::Value> = ran
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{line}: {why}")))
        .collect();
    let last = lines.last().unwrap();
    assert_eq!(last["level"], "ERROR");
    assert!(last["message"].as_str().unwrap().contains("thesis.tex"));
}

#[test]
fn log_levels_are_by_module() {
    let dir = tempfile::tempdir().unwrap();
    let quiet = Serve::start_with(dir.path(), &["--log", "off"]);
    assert_eq!(quiet.stop().1, "");
    let some = Serve::start_with(dir.path(), &["--log", "off,odradek::serve=info"]);
    let logs = some.stop().1;
    assert!(logs.contains("odradek::serve"), "{logs}");
    assert!(!logs.contains("odradek::start"), "{logs}");
}

#[test]
fn sigterm_and_sigint_leave_a_clean_marker_and_a_kill_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let marker = dir.path().join("clean.shutdown");
    for signal in [Signal::TERM, Signal::INT] {
        let broker = Serve::start(dir.path());
        assert!(
            !marker.exists(),
            "it is removed before anything is appended"
        );
        broker.run_with(&["produce", "t"], b"x\n").ok();
        let (code, logs) = broker.end(signal);
        assert_eq!(code, Some(0), "{logs}");
        assert!(marker.exists(), "{signal:?}");
        let verified = run(&["log", "verify", text(dir.path())]).ok();
        assert!(verified.stdout.contains("t-0: "), "{}", verified.stdout);
    }
    let broker = Serve::start(dir.path());
    broker.run_with(&["produce", "t"], b"x\n").ok();
    assert_eq!(broker.end(Signal::KILL).0, None);
    assert!(!marker.exists());
    let broker = Serve::start(dir.path());
    let ran = broker
        .run(&["consume", "t", "--from", "beginning", "--exit-at-end"])
        .ok();
    assert_eq!(ran.stdout, "x\nx\nx\n");
}

#[test]
fn a_stop_does_not_wait_for_idle_or_long_polling_clients() {
    let (_dir, broker) = Serve::on_a_new_directory();
    broker.run(&["topic", "create", "t"]).ok();
    let _idle = TcpStream::connect(broker.address).unwrap();
    let mut waiting = odradek(&["consume", "t", "--bootstrap", &broker.bootstrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let begin = Instant::now();
    let (code, logs) = broker.stop();
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    assert_eq!(code, Some(0), "{logs}");
    assert!(begin.elapsed() < Duration::from_secs(10), "{logs}");
}

#[test]
fn a_second_signal_ends_it_at_once_and_what_was_acknowledged_is_there() {
    let (dir, broker) = Serve::on_a_new_directory();
    let lines = format!("{}\n", "x".repeat(100_000)).repeat(200);
    broker.run_with(&["produce", "t"], lines.as_bytes()).ok();
    // Somebody who asks for much and takes nothing keeps a graceful stop waiting for a while.
    let mut stuck = harness::Client::connect(broker.address);
    for _ in 0..8 {
        let request = harness::client::fetch_request("t", 0, 0, 100);
        stuck.send(11, &request).unwrap();
    }
    std::thread::sleep(Duration::from_millis(500));
    broker.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(500));
    let begin = Instant::now();
    let (code, logs) = broker.end(Signal::INT);
    assert_eq!(code, Some(1), "{logs}");
    assert!(begin.elapsed() < Duration::from_millis(1500), "{logs}");
    assert!(logs.contains("SIGINT again: ending at once"), "{logs}");
    let broker = Serve::start(dir.path());
    let all = broker.run(&["consume", "t", "--from", "beginning", "--exit-at-end"]);
    assert!(all.ok().stdout == lines);
}

#[test]
fn the_advertised_address_is_what_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let ran = run(&[
        "serve",
        "--data-dir",
        text(&dir.path().join("d")),
        "--advertise",
        "0.0.0.0:9092",
    ])
    .failed(2);
    assert!(
        ran.stderr.contains("no client can connect to"),
        "{}",
        ran.stderr
    );

    // Listening on all interfaces, clients are told the address that they connected to.
    let broker = Serve::start_everywhere(&dir.path().join("w"));
    let port = broker.address.port();
    let bootstrap = format!("127.0.0.1:{port}");
    let args = ["produce", "t", "--bootstrap", &bootstrap];
    support::run_with(&args, b"x\n").ok();
}
