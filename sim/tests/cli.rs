//! The simulator's program, as a person or a script calls it.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// Calls the program in an empty folder of its own.
fn call(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_odradek-sim"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the program starts")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("it prints text")
}

fn error(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("it prints text")
}

fn hash(output: &Output) -> String {
    let lines = out(output);
    let line = lines.lines().find_map(|line| line.strip_prefix("hash "));
    line.expect("a replay prints its hash").to_owned()
}

/// A case without any client and any fault: the broker starts, stops and starts.
const QUIET: &str = "\
odradek-case 1
# nothing
seed 5
workload mixed
faults-end 1.100000000
absent 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20
end of case
";

#[test]
fn a_case_is_replayed_from_a_file_and_from_standard_input() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("quiet"), QUIET).unwrap();
    let from_file = call(folder.path(), &["replay", "quiet"]);
    assert!(from_file.status.success(), "{}", error(&from_file));
    assert!(out(&from_file).ends_with("no violation\n"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_odradek-sim"))
        .args(["replay", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(QUIET.as_bytes()).unwrap();
    drop(stdin);
    let from_input = child.wait_with_output().unwrap();
    assert_eq!(hash(&from_input), hash(&from_file));
}

#[test]
fn a_damaged_case_is_an_error_that_says_where() {
    let folder = TempDir::new().unwrap();
    let damaged = [
        (QUIET.replace("case 1", "case 9"), "version \"9\""),
        (QUIET.replace("seed 5", "seed five"), "line 3"),
        (QUIET.replace("end of case", ""), "cut short"),
        ("hello\n".to_owned(), "no case"),
    ];
    for (text, says) in damaged {
        fs::write(folder.path().join("broken"), text).unwrap();
        for command in ["replay", "shrink"] {
            let output = call(folder.path(), &[command, "broken"]);
            assert_eq!(output.status.code(), Some(2), "{command}: {says}");
            assert!(error(&output).contains(says), "{}", error(&output));
        }
        let corpus = call(folder.path(), &["corpus", "."]);
        assert_eq!(corpus.status.code(), Some(2), "{says}");
    }
    let missing = call(folder.path(), &["replay", "nowhere"]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn a_corpus_is_seeds_by_their_names_and_cases() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("README.md"), "what is here\n").unwrap();
    fs::write(folder.path().join("7"), "It found something.\n").unwrap();
    fs::write(folder.path().join("quiet"), QUIET).unwrap();
    let planted = QUIET.replace("workload mixed", "workload mixed\nbug ack-before-flush");
    fs::write(folder.path().join("planted"), planted).unwrap();
    let output = call(folder.path(), &["corpus", "."]);
    assert!(output.status.success(), "{}", error(&output));
    let said = out(&output);
    assert!(said.contains("2 seeds and cases of . replayed"), "{said}");
    assert!(said.contains("1 more are of planted bugs"), "{said}");
}

#[test]
fn a_replay_stops_at_a_step_and_says_what_the_logs_are_like() {
    let folder = TempDir::new().unwrap();
    let output = call(folder.path(), &["replay", "8", "--until", "900"]);
    let said = out(&output);
    let (_, state) = said.split_once("up to step 900\nlogs:\n").unwrap();
    assert!(state.contains("topic0-0: Ready, from 0 to "), "{state}");
    let whole = call(folder.path(), &["replay", "8", "--trace"]);
    let whole = out(&whole);
    assert!(whole.lines().count() > 900);
    let last = said
        .lines()
        .take_while(|line| *line != "up to step 900")
        .last();
    assert_eq!(last, whole.lines().nth(899));
}

#[test]
fn a_replay_for_programs_is_json_line_by_line() {
    let folder = TempDir::new().unwrap();
    let output = call(folder.path(), &["replay", "7", "--json"]);
    let lines = out(&output);
    let mut steps = 0;
    for line in lines.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("each line is JSON");
        if let Some(step) = value.get("step") {
            steps += 1;
            assert_eq!(step.as_u64(), Some(steps));
            assert!(value["lane"].is_string() && value["at_ns"].is_u64());
        } else {
            assert!(value["violation"].is_null());
        }
    }
    assert!(steps > 400);
}

#[test]
fn a_timeline_is_one_page() {
    let folder = TempDir::new().unwrap();
    let output = call(folder.path(), &["replay", "7", "--timeline", "7.html"]);
    assert!(output.status.success(), "{}", error(&output));
    let page = fs::read_to_string(folder.path().join("7.html")).unwrap();
    let (_, rest) = page.split_once("const run = ").unwrap();
    let (json, _) = rest.split_once(";\nconst [NUMBER").unwrap();
    let run: serde_json::Value = serde_json::from_str(json).expect("the run in it is JSON");
    assert_eq!(run["title"], "Odradek, seed 7");
    assert!(run["steps"].as_array().unwrap().len() > 400);
}

#[test]
fn what_does_not_fail_cannot_be_made_small() {
    let folder = TempDir::new().unwrap();
    let output = call(folder.path(), &["shrink", "7"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(error(&output).contains("seed 7 does not fail"));
}

#[test]
fn whoever_stops_reading_ends_the_program_quietly() {
    let folder = TempDir::new().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_odradek-sim"))
        .args(["replay", "1", "--trace"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(error(&output), "");
    assert_eq!(output.status.code(), Some(141));
}

#[test]
fn a_campaign_ends_when_its_time_is_over() {
    let folder = TempDir::new().unwrap();
    let over = call(folder.path(), &["run", "--for", "1s"]);
    assert!(over.status.success(), "{}", error(&over));
    let words = out(&over);
    let schedules = words.split(' ').next().and_then(|word| word.parse().ok());
    assert!(schedules > Some(0_u64), "{words}");
    assert!(words.ends_with("no violation\n"), "{words}");
    let without_unit = call(folder.path(), &["run", "--for", "5"]);
    assert_eq!(without_unit.status.code(), Some(2));
    assert!(error(&without_unit).contains("write it as 90s, 10m or 1h"));
}
