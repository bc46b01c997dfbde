//! The program's own commands at work on Apache Kafka: they are clients like any other, and its log
//! files are in the same format.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use odradek_client_tests::program::{Options, Program, odradek};
use odradek_client_tests::work_dir::WorkDir;

const LINES_A_CODEC: usize = 60_000;
const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

#[test]
fn its_commands_write_to_kafka_read_from_it_and_check_its_files() {
    let work = WorkDir::new("apache-kafka");
    let options = Options::new(work.path());
    let kafka = Program::start_apache_kafka(&options).expect("Kafka starts");
    let bootstrap = kafka.address().to_string();
    let on_kafka = |arguments: &[&str], input: &str| {
        let output = run(&[arguments, &["--bootstrap", &bootstrap]].concat(), input);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("lines of text")
    };

    let segments = ["--config", "segment.bytes=1048576"];
    let create = ["topic", "create", "lines", "--partitions", "2"];
    on_kafka(&[&create[..], &segments].concat(), "");
    let mut expected = Vec::new();
    for codec in CODECS {
        let lines: Vec<String> = (0..LINES_A_CODEC)
            .map(|i| {
                format!("line {i} of {codec}, long enough that a segment is soon full of them")
            })
            .collect();
        let text = lines.join("\n") + "\n";
        on_kafka(&["produce", "lines", "--compression", codec], &text);
        expected.extend(lines);
    }
    let count = expected.len().to_string();
    let read = on_kafka(
        &["consume", "lines", "--from", "beginning", "--count", &count],
        "",
    );
    let mut read: Vec<&str> = read.lines().collect();
    read.sort_unstable();
    expected.sort_unstable();
    assert!(read == expected, "what was read is what was written");
    kafka.kill();

    let folder = options.data_dir.join("lines-0");
    let files = options.data_dir.to_str().expect("a path of text");
    let verified = run(&["log", "verify", files], "");
    assert!(verified.status.success(), "{verified:?}");
    let said = String::from_utf8_lossy(&verified.stdout).into_owned();
    let segments = names(&folder, ".log").len();
    assert!(segments > 1, "its segments are small");
    let sound = format!("lines-0: {segments} segments, ");
    assert!(
        said.lines()
            .any(|line| line.starts_with(&sound) && line.ends_with(": ok")),
        "{said}"
    );

    let first = folder.join(&names(&folder, ".log")[0]);
    let mut bytes = fs::read(&first).expect("a segment can be read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&first, bytes).expect("a segment can be written");
    let verified = run(&["log", "verify", files], "");
    assert_eq!(verified.status.code(), Some(1), "{verified:?}");
}

/// The names in a folder that end so, in order.
fn names(folder: &Path, end: &str) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("the partition is there")
        .map(|entry| entry.expect("it can be listed").file_name())
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.ends_with(end))
        .collect();
    names.sort_unstable();
    names
}

fn run(arguments: &[&str], input: &str) -> Output {
    let mut child = odradek()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ODRADEK_BIN can be run");
    // Both ends of it are small enough, or end by themselves, to be done one after the other.
    let mut stdin = child.stdin.take().expect("its input is piped");
    stdin
        .write_all(input.as_bytes())
        .expect("it reads its input");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}
