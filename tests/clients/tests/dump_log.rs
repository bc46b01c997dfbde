//! Kafka's own tool finds nothing wrong in the files that the program leaves, after a clean stop
//! and after a kill; and it does find damage, which shows that it was asked in the right way.

use std::fs;
use std::path::{Path, PathBuf};

use odradek_client_tests::chance::Chance;
use odradek_client_tests::dump_log::{Verdict, judge};
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
