//! `odradek log dump` and `odradek log verify` on files as a broker leaves them, sound and damaged.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod support;

use std::fs;
use std::path::PathBuf;

use odradek_core::bugs::Bugs;
use odradek_core::ids::{LeaderEpoch, Offset};
use odradek_core::log::index_builder::{IndexState, IndexedBatch};
use odradek_core::record::{BatchBuilder, BatchFields, BatchHeader, Compression};
use support::{Ran, run, text};
use tempfile::TempDir;

/// A log that the test writes as a broker would.
struct Log {
    root: TempDir,
    dir: PathBuf,
}

/// Bytes between index entries: few, so that small logs have some.
const INTERVAL: u64 = 200;

impl Log {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("orders-0");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("leader-epoch-checkpoint"), "0\n1\n3 0\n").unwrap();
        Self { root, dir }
    }

    /// A log of two segments: offsets 0 to 59 and 60 to 119, in batches of 3.
    fn sound() -> Self {
        let log = Self::new();
        log.segment(0, 20, Compression::None);
        log.segment(60, 20, Compression::Lz4);
        log
    }

    /// Writes a segment of `batches` batches of three records each, with its indexes.
    fn segment(&self, base: i64, batches: i64, compression: Compression) {
        let mut log = Vec::new();
        let (mut index, mut time_index) = (Vec::new(), Vec::new());
        let mut state = IndexState::start_of(Offset(base));
        for number in 0..batches {
            let offset = base + 3 * number;
            let bytes = batch(offset, 3, compression);
            let header = BatchHeader::parse(&bytes).unwrap();
            let indexed = IndexedBatch {
                position: log.len() as u64,
                last_offset: header.last_offset(),
                max_timestamp: header.max_timestamp,
            };
            let (entry, time) = state.add(Offset(base), INTERVAL, indexed, Bugs::NONE);
            index.extend(entry.into_iter().flat_map(|entry| entry.encode()));
            time_index.extend(time.into_iter().flat_map(|entry| entry.encode()));
            log.extend(bytes);
        }
        let last = state.add_time_entry(Offset(base));
        time_index.extend(last.into_iter().flat_map(|entry| entry.encode()));
        fs::write(self.file(base, "log"), log).unwrap();
        fs::write(self.file(base, "index"), index).unwrap();
        fs::write(self.file(base, "timeindex"), time_index).unwrap();
    }

    fn file(&self, base: i64, extension: &str) -> PathBuf {
        self.dir.join(format!("{base:020}.{extension}"))
    }

    /// Changes a file.
    fn change(&self, base: i64, extension: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.file(base, extension);
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
    }

    fn verify(&self, args: &[&str]) -> Ran {
        run(&[&["log", "verify", text(&self.dir)], args].concat())
    }

    fn dump(&self, args: &[&str]) -> Ran {
        run(&[&["log", "dump", text(&self.dir)], args].concat())
    }
}

/// A batch whose records have offsets from `base` on and timestamps of 1000 per offset.
fn batch(base: i64, records: i64, compression: Compression) -> Vec<u8> {
    let mut builder = BatchBuilder::new(1 << 20);
    for offset in base..base + records {
        let key = format!("k{offset}");
        let headers: [(&[u8], Option<&[u8]>); 1] = [(b"h", Some(b"x"))];
        assert!(builder.append(
            1000 * offset,
            Some(key.as_bytes()),
            Some(b"value"),
            &headers
        ));
    }
    finish(builder, base, compression)
}

fn finish(builder: BatchBuilder, base: i64, compression: Compression) -> Vec<u8> {
    let fields = BatchFields {
        compression,
        base_offset: Offset(base),
        leader_epoch: LeaderEpoch(3),
        ..BatchFields::default()
    };
    builder.build(fields).to_vec()
}

/// Where the batch with this number begins, in a segment of equal batches.
fn position(bytes: &[u8], number: usize) -> usize {
    (0..number).fold(0, |at, _| {
        at + BatchHeader::parse(&bytes[at..]).unwrap().size_bytes() as usize
    })
}

#[test]
fn a_batch_is_dumped_as_kafkas_tool_does() {
    let log = Log::new();
    let mut builder = BatchBuilder::new(1 << 20);
    assert!(builder.append(
        1000,
        Some(b"key"),
        Some(b"a\tb\xff"),
        &[(b"h1", None), (b"h2", None)]
    ));
    assert!(builder.append(2000, None, None, &[]));
    fs::write(log.file(7, "log"), finish(builder, 7, Compression::None)).unwrap();

    let ran = run(&["log", "dump", text(&log.file(7, "log"))]).ok();
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(lines[0], format!("Dumping {}", text(&log.file(7, "log"))));
    assert_eq!(lines[1], "Log starting offset: 7");
    assert!(
        lines[2].starts_with(
            "baseOffset: 7 lastOffset: 8 count: 2 baseSequence: -1 lastSequence: -1 \
             producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 3 isTransactional: false \
             isControl: false position: 0 CreateTime: 2000 size: "
        ),
        "{}",
        lines[2]
    );
    assert!(lines[2].ends_with(" isvalid: true"), "{}", lines[2]);
    assert_eq!(
        lines[3],
        "| offset: 7 CreateTime: 1000 keySize: 3 valueSize: 4 sequence: -1 headerKeys: [h1,h2] \
         key: key payload: a\\tb\\xff"
    );
    assert_eq!(
        lines[4],
        "| offset: 8 CreateTime: 2000 keySize: -1 valueSize: -1 sequence: -1 headerKeys: []"
    );
}

#[test]
fn a_dump_as_json_loses_nothing() {
    let log = Log::new();
    let mut builder = BatchBuilder::new(1 << 20);
    assert!(builder.append(
        1000,
        Some("schlüssel".as_bytes()),
        Some(b"\xff\x00"),
        &[(b"h", None)]
    ));
    fs::write(log.file(0, "log"), finish(builder, 0, Compression::Zstd)).unwrap();

    let lines = log.dump(&["--output", "json"]).ok().json();
    assert_eq!(lines[0]["type"], "batch");
    assert_eq!(lines[0]["compression"], "zstd");
    assert_eq!(lines[0]["valid"], true);
    assert_eq!(lines[1]["type"], "record");
    assert_eq!(lines[1]["key"], "schlüssel");
    assert_eq!(lines[1]["value_base64"], "/wA=");
    assert_eq!(lines[1]["headers"][0]["value"], serde_json::Value::Null);
}

#[test]
fn a_dump_begins_and_ends_where_it_is_told() {
    let log = Log::sound();
    let offsets = |args: &[&str]| -> Vec<i64> {
        let lines = log
            .dump(&[&["--output", "json"], args].concat())
            .ok()
            .json();
        let records = lines.iter().filter(|line| line["type"] == "record");
        records
            .map(|line| line["offset"].as_i64().unwrap())
            .collect()
    };
    assert_eq!(offsets(&[]), (0..120).collect::<Vec<_>>());
    assert_eq!(offsets(&["--from", "58", "--count", "4"]), [58, 59, 60, 61]);
    assert_eq!(offsets(&["--from", "119"]), [119]);
    assert_eq!(offsets(&["--from", "120"]), [0; 0]);
    let batches = log.dump(&["--no-records", "--count", "5"]).ok().stdout;
    assert_eq!(batches.matches("baseOffset:").count(), 5);
    assert_eq!(batches.matches("| offset:").count(), 0);
}

#[test]
fn indexes_and_epochs_are_dumped_with_absolute_offsets() {
    let log = Log::sound();
    let index = run(&["log", "dump", text(&log.file(60, "index"))]).ok();
    let first = index.stdout.lines().nth(1).unwrap();
    assert!(first.starts_with("offset: 6"), "{first}");
    let times = run(&["log", "dump", text(&log.file(60, "timeindex"))]).ok();
    let last = times.stdout.lines().last().unwrap();
    assert_eq!(last, "timestamp: 119000 offset: 119");
    let epochs = run(&[
        "log",
        "dump",
        text(&log.dir.join("leader-epoch-checkpoint")),
    ])
    .ok();
    assert_eq!(epochs.stdout, "epoch: 3 startOffset: 0\n");
}

#[test]
fn a_sound_log_verifies_whatever_its_compression() {
    let log = Log::new();
    for (at, compression) in Compression::ALL.into_iter().enumerate() {
        log.segment(60 * at as i64, 20, compression);
    }
    let ran = log.verify(&[]).ok();
    assert!(
        ran.stdout
            .starts_with("orders-0: 5 segments, 100 batches, 300 records, "),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.ends_with("bytes: ok\n"), "{}", ran.stdout);
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_data_directory_is_verified_log_by_log() {
    let log = Log::sound();
    let other = log.root.path().join("users-3");
    fs::create_dir(&other).unwrap();
    fs::write(
        other.join(format!("{:020}.log", 0)),
        b"garbage that is no batch",
    )
    .unwrap();
    let ran = run(&["log", "verify", text(log.root.path())]).failed(1);
    assert!(
        ran.stdout.contains("orders-0: 2 segments"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("users-3: 1 segment,"), "{}", ran.stdout);
    assert!(
        ran.stdout.ends_with("2 logs: 1 sound, 1 damaged\n"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_flipped_bit_is_found_with_its_place_and_what_to_do() {
    let log = Log::sound();
    let mut at = 0;
    log.change(0, "log", |bytes| {
        at = position(bytes, 7);
        let last = position(bytes, 8) - 1;
        bytes[last] ^= 0x10;
    });
    let ran = log.verify(&[]).failed(1);
    let place = format!(
        "DAMAGE {} at byte {at}, offset 21: ",
        text(&log.file(0, "log"))
    );
    assert!(ran.stdout.contains(&place), "{}", ran.stdout);
    assert!(ran.stdout.contains("CRC"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("restore the file from a copy"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains(": 1 damaged place\n"), "{}", ran.stdout);

    let json = log.verify(&["--output", "json"]).failed(1).json();
    assert_eq!(json[0]["type"], "damage");
    assert_eq!(json[0]["position"], at);
    assert_eq!(json[0]["offset"], 21);
    assert_eq!(json[1]["type"], "log");
    assert_eq!(json[1]["ok"], false);

    let dump = log.dump(&["--no-records"]).failed(1);
    assert_eq!(dump.stdout.matches("isvalid: false").count(), 1);
    assert!(
        dump.stderr.contains("odradek log verify"),
        "{}",
        dump.stderr
    );
}

#[test]
fn a_torn_tail_is_told_from_lost_data() {
    let log = Log::sound();
    log.change(60, "log", |bytes| bytes.truncate(bytes.len() - 5));
    let torn = log.verify(&[]).failed(1).stdout;
    assert!(torn.contains("torn tail"), "{torn}");
    let log = Log::sound();
    log.change(0, "log", |bytes| bytes.truncate(bytes.len() - 5));
    let lost = log.verify(&[]).failed(1).stdout;
    assert!(lost.contains("this was flushed once"), "{lost}");
    assert!(!lost.contains("torn tail"), "{lost}");
}

#[test]
fn a_wrong_base_offset_is_found_although_its_crc_holds() {
    let log = Log::sound();
    log.change(0, "log", |bytes| {
        let at = position(bytes, 5);
        bytes[at..at + 8].copy_from_slice(&3_i64.to_be_bytes());
    });
    let ran = log.verify(&[]).failed(1);
    assert!(
        ran.stdout.contains("base offset 3 where 15 was expected"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains(": 1 damaged place\n"), "{}", ran.stdout);
}

#[test]
fn gaps_are_damage_unless_the_topic_is_compacted() {
    let log = Log::new();
    log.segment(0, 20, Compression::None);
    log.segment(90, 20, Compression::None);
    let ran = log.verify(&[]).failed(1);
    assert!(
        ran.stdout.contains("30 offsets are missing"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("--compacted"), "{}", ran.stdout);
    log.verify(&["--compacted"]).ok();
    // Kafka's own topics are known to be compacted.
    let offsets = log.root.path().join("__consumer_offsets-4");
    fs::rename(&log.dir, &offsets).unwrap();
    run(&["log", "verify", text(&offsets)]).ok();
}

#[test]
fn an_index_that_leads_past_records_is_found() {
    let log = Log::sound();
    let entry = |offset: u32, position: u32| -> Vec<u8> {
        [offset.to_be_bytes(), position.to_be_bytes()].concat()
    };
    let two = |bytes: &[u8]| (position(bytes, 2), position(bytes, 3));
    let (second, third) = two(&fs::read(log.file(0, "log")).unwrap());
    for (problem, bytes) in [
        // The last offset of batch 2 is 8; batch 3 begins after it.
        ("a reader misses it", entry(8, third as u32)),
        ("inside of a batch", entry(8, second as u32 + 1)),
        ("past the end of the log", entry(1000, 1 << 30)),
        (
            "out of order",
            [entry(11, third as u32), entry(8, second as u32)].concat(),
        ),
        ("no multiple of 8", entry(8, second as u32)[..7].to_vec()),
    ] {
        fs::write(log.file(0, "index"), bytes).unwrap();
        let ran = log.verify(&[]).failed(1);
        assert!(ran.stdout.contains(problem), "{problem}: {}", ran.stdout);
        assert!(
            ran.stdout.contains("delete the file"),
            "{problem}: {}",
            ran.stdout
        );
    }
    fs::write(log.file(0, "index"), entry(8, second as u32)).unwrap();
    log.verify(&[]).ok();
}

#[test]
fn a_time_index_that_lies_is_found() {
    let log = Log::sound();
    let entry = |timestamp: i64, offset: u32| -> Vec<u8> {
        [&timestamp.to_be_bytes()[..], &offset.to_be_bytes()].concat()
    };
    for (problem, bytes) in [
        ("in whose batch the largest is 8000", entry(9000, 8)),
        ("past the end of the log", entry(500_000, 500)),
        ("out of order", [entry(11_000, 11), entry(8000, 8)].concat()),
    ] {
        fs::write(log.file(0, "timeindex"), bytes).unwrap();
        let ran = log.verify(&[]).failed(1);
        assert!(ran.stdout.contains(problem), "{problem}: {}", ran.stdout);
    }
    fs::write(log.file(0, "timeindex"), entry(8000, 8)).unwrap();
    log.verify(&[]).ok();
}

#[test]
fn what_an_unclean_kafka_leaves_in_an_index_is_no_damage() {
    let log = Log::sound();
    log.change(60, "index", |bytes| bytes.resize(10 << 20, 0));
    log.change(60, "timeindex", |bytes| bytes.resize(12 << 10, 0));
    let ran = log.verify(&[]).ok();
    assert!(ran.stdout.contains("unused entries"), "{}", ran.stdout);
}

#[test]
fn epochs_must_be_those_of_the_batches() {
    let log = Log::sound();
    fs::write(log.dir.join("leader-epoch-checkpoint"), "0\n2\n3 0\n4 60\n").unwrap();
    let ran = log.verify(&[]).failed(1);
    assert!(
        ran.stdout
            .contains("says that epoch 4 begins at 60, but the batch at 60 has epoch 3"),
        "{}",
        ran.stdout
    );
    fs::write(log.dir.join("leader-epoch-checkpoint"), "1\nnonsense\n").unwrap();
    log.verify(&[]).failed(1);
}

#[test]
fn the_first_bytes_that_are_no_batch_end_a_segment_and_not_the_check() {
    let log = Log::sound();
    log.change(0, "log", |bytes| {
        let at = position(bytes, 10);
        bytes[at + 16] = 9;
    });
    let ran = log.verify(&[]).failed(1);
    assert!(ran.stdout.contains("magic 9, expected 2"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("bytes from here on are unread"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains("2 segments, 30 batches"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains(": 1 damaged place\n"), "{}", ran.stdout);
}

#[test]
fn hostile_bytes_end_in_a_finding_and_never_in_a_panic() {
    let log = Log::sound();
    let sound = fs::read(log.file(60, "log")).unwrap();
    let mut seed = 0x9e37_79b9_u32;
    for _ in 0..40 {
        let mut bytes = sound.clone();
        for _ in 0..3 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = seed as usize % bytes.len();
            bytes[at] = (seed >> 24) as u8;
        }
        if bytes == sound {
            continue;
        }
        fs::write(log.file(60, "log"), &bytes).unwrap();
        for ran in [log.verify(&[]), log.dump(&[])] {
            assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
            assert!(!ran.stderr.contains("panicked"), "{ran:?}");
        }
    }
}

#[test]
fn what_is_no_log_is_wrong_usage_and_what_is_not_there_a_failure() {
    let log = Log::sound();
    let empty = log.root.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let ran = run(&["log", "verify", text(&empty)]).failed(2);
    assert!(ran.stderr.contains("no log is there"), "{}", ran.stderr);
    let other = log.root.path().join("notes.txt");
    fs::write(&other, "x").unwrap();
    run(&["log", "dump", text(&other)]).failed(2);
    let ran = run(&["log", "verify", text(&log.file(0, "index"))]).failed(2);
    assert!(ran.stderr.contains("name the .log file"), "{}", ran.stderr);
    let ran = run(&["log", "verify", "/nonexistent/path"]).failed(1);
    assert!(ran.stderr.contains("/nonexistent/path"), "{}", ran.stderr);
}

#[test]
fn a_reader_that_has_enough_ends_a_dump_quietly() {
    let log = Log::new();
    log.segment(0, 5000, Compression::None);
    let mut child = support::odradek(&["log", "dump", text(&log.dir)])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
