//! Kafka's own tool finds nothing wrong in the files that the program leaves, after a clean stop
//! and after a kill; and it does find damage, which shows that it was asked in the right way.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use odradek_client_tests::chance::Chance;
use odradek_client_tests::dump_log::{self, Verdict, judge};
use odradek_client_tests::program::{Options, Program, is_clean_stop};
use odradek_client_tests::records::{TestRecord, odd_record};
use odradek_client_tests::wire::{Connection, LATEST};
use odradek_client_tests::work_dir::WorkDir;

const TOPIC: &str = "judged";
const PARTITIONS: i32 = 3;

#[test]
fn what_a_clean_stop_leaves_is_as_kafka_would_have_written_it() {
    let work = WorkDir::new("dump-log-stop");
    let options = small_segments(&work);
    let program = Program::start(&options).expect("the program starts");
    let sent = fill(&program, 0, 700);
    assert!(is_clean_stop(program.stop()));

    let verdict = judge(&options.data_dir);
    assert_eq!(verdict.faults, Vec::<String>::new());
    assert_eq!(
        records_of_topic(&verdict),
        sent,
        "every record is in a segment, and once"
    );
    assert!(
        verdict.files > 3 * 3 * PARTITIONS as usize,
        "segments rolled: {} files",
        verdict.files
    );
}

#[test]
fn what_recovery_leaves_is_as_kafka_would_have_written_it() {
    let work = WorkDir::new("dump-log-kill");
    let options = small_segments(&work);
    let program = Program::start(&options).expect("the program starts");
    let mut sent = fill(&program, 0, 250);
    program.kill();
    let program = Program::start(&options).expect("the program starts after a kill");
    sent += fill(&program, 1, 100);
    assert!(is_clean_stop(program.stop()));

    let verdict = judge(&options.data_dir);
    assert_eq!(verdict.faults, Vec::<String>::new());
    assert_eq!(
        records_of_topic(&verdict),
        sent,
        "every record is in a segment, and once"
    );
}

#[test]
fn what_the_cleaner_leaves_is_as_kafka_would_have_written_it() {
    const GROUPS: u64 = 6;
    let work = WorkDir::new("dump-log-cleaned");
    let options = small_segments(&work).set("log.cleaner.backoff.ms", 50);
    let program = Program::start(&options).expect("the program starts");
    let mut connection =
        Connection::open(program.address()).expect("the program accepts connections");
    connection
        .create_topic(TOPIC, PARTITIONS, &[])
        .expect("a topic can be created");
    connection
        .create_topic(
            "table",
            1,
            &[
                ("cleanup.policy", "compact"),
                ("min.cleanable.dirty.ratio", "0.1"),
            ],
        )
        .expect("a compacted topic can be created");
    until("the topic of groups is there", || {
        connection.find_coordinator("group-0").is_ok()
    });
    let metadata = "m".repeat(4_000);
    let mut last = 0;
    for round in 0..1_200 {
        let group = format!("group-{}", round % GROUPS);
        connection
            .commit(&group, TOPIC, PARTITIONS, round as i64, &metadata)
            .expect("offsets are committed");
        let records: Vec<TestRecord> = (0..20)
            .map(|index| TestRecord {
                key: Some(format!("key-{}", (round + index * 3) % 50).into_bytes()),
                ..odd_record(round, index)
            })
            .collect();
        last = connection
            .produce_at(1_700_000_000_000 + round as i64, "table", 0, &records)
            .expect("records are accepted");
    }
    let bytes = |partition: &str| -> u64 {
        let entries = fs::read_dir(options.data_dir.join(partition)).expect("a partition's folder");
        entries
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
            .map(|path| path.metadata().map_or(0, |metadata| metadata.len()))
            .sum()
    };
    // 14 MB were committed, of which 72 kB are live; the active segment has up to 8 MiB.
    until("the topic of groups is cleaned", || {
        bytes("__consumer_offsets-0") < (8 << 20) + 200_000
    });
    until("the table is cleaned", || {
        bytes("table-0") < (1 << 20) + 200_000
    });
    assert!(is_clean_stop(program.stop()));
    assert_eq!(last, 1_199 * 20);

    let verdict = judge(&options.data_dir);
    let faults: Vec<&String> = verdict
        .faults
        .iter()
        // What the cleaner took is missing: the tool only notes it.
        .filter(|fault| !fault.contains("is followed by"))
        .collect();
    assert_eq!(faults, Vec::<&String>::new());
    let keys = dump_log::committed_keys(&options.data_dir, "__consumer_offsets-0");
    assert_eq!(keys.len() as u64, GROUPS * PARTITIONS as u64, "{keys:?}");
}

/// Waits until something holds, but not for ever.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "not in time: {what}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_judge_notices_damage() {
    let work = WorkDir::new("dump-log-damage");
    let options = small_segments(&work);
    let program = Program::start(&options).expect("the program starts");
    fill(&program, 0, 150);
    assert!(is_clean_stop(program.stop()));
    assert_eq!(judge(&options.data_dir).faults, Vec::<String>::new());

    damage_and_judge(&work, &options.data_dir, "log", "isvalid: false", |bytes| {
        // The last byte of a segment belongs to the last record of its last batch.
        *bytes.last_mut().expect("the first segment has records") ^= 1;
    });
    damage_and_judge(&work, &options.data_dir, "index", "Mismatches", |bytes| {
        // The second entry's position, four bytes after its offset: the one of the entry before.
        bytes.copy_within(4..8, 12);
    });
    damage_and_judge(
        &work,
        &options.data_dir,
        "timeindex",
        "timestamp mismatch",
        |bytes| {
            // The first entry's timestamp, its first eight bytes: one millisecond later than any
            // record says.
            let timestamp = i64::from_be_bytes(bytes[..8].try_into().expect("eight bytes")) + 1;
            bytes[..8].copy_from_slice(&timestamp.to_be_bytes());
        },
    );
}

/// Damages one file of a copy of the data directory and sees that the judge says so, about that
/// file.
fn damage_and_judge(
    work: &WorkDir,
    data_dir: &Path,
    extension: &str,
    sign: &str,
    damage: impl FnOnce(&mut Vec<u8>),
) {
    let copy = work.join(format!("damaged-{extension}"));
    copy_folder(data_dir, &copy);
    let file = first_segment(&copy).with_extension(extension);
    let mut bytes = fs::read(&file).expect("the first segment has this file");
    damage(&mut bytes);
    fs::write(&file, bytes).expect("the copy can be written");

    let verdict = judge(&copy);
    let is_noticed = verdict.faults.iter().any(|fault| fault.contains(sign));
    assert!(
        is_noticed,
        "damage to {} goes unnoticed: {:?}",
        file.display(),
        verdict.faults
    );
}

fn small_segments(work: &WorkDir) -> Options {
    Options::new(work.path()).set("log.segment.bytes", 1 << 20)
}

/// Sends batches of several records, small and large ones mixed, with timestamps that go back and
/// forth. Gives the number of records sent.
fn fill(program: &Program, round: u64, batches: u64) -> usize {
    let mut connection =
        Connection::open(program.address()).expect("the program accepts connections");
    if !connection
        .topic_exists(TOPIC)
        .expect("metadata is answered")
    {
        connection
            .create_topic(TOPIC, PARTITIONS, &[])
            .expect("a topic can be created");
    }
    let mut sent = 0;
    for batch in 0..batches {
        let mut chance = Chance::of(round, batch);
        let partition = chance.below(PARTITIONS as u64) as i32;
        let count = if chance.below(20) == 0 {
            600
        } else {
            1 + chance.below(60)
        };
        let records: Vec<TestRecord> = (0..count).map(|index| odd_record(batch, index)).collect();
        let timestamp = 1_700_000_000_000 + chance.below(1_000_000) as i64;
        connection
            .produce_at(timestamp, TOPIC, partition, &records)
            .expect("records are accepted");
        sent += records.len();
    }
    let ends = (0..PARTITIONS).map(|partition| {
        connection
            .list_offset(TOPIC, partition, LATEST)
            .expect("the end of a partition is known") as usize
    });
    if round == 0 {
        assert_eq!(ends.sum::<usize>(), sent, "the broker counts as we do");
    }
    sent
}

fn records_of_topic(verdict: &Verdict) -> usize {
    (0..PARTITIONS)
        .map(|partition| {
            verdict
                .records
                .get(&format!("{TOPIC}-{partition}"))
                .copied()
                .unwrap_or(0)
        })
        .sum()
}

/// The first segment of the first partition.
fn first_segment(data_dir: &Path) -> PathBuf {
    data_dir
        .join(format!("{TOPIC}-0"))
        .join("00000000000000000000.log")
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the copy can be created");
    for entry in fs::read_dir(from).expect("the data directory can be listed") {
        let path = entry.expect("the data directory can be listed").path();
        let target = to.join(path.file_name().expect("an entry has a name"));
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            fs::copy(&path, &target).expect("a file can be copied");
        }
    }
}
