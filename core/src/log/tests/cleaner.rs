use std::collections::BTreeMap;
use std::string::{String, ToString};
use std::vec::Vec;

use crate::ids::Offset;
use crate::log::harness::{Harness, keyed, keyed_by, tiny};
use crate::log::{Durability, LogConfig, LogState, ReadPlan};
use crate::record::batch::{BatchHeader, CheckedBatch, Compression, verify_crc};
use crate::record::builder::ProducerFields;
use crate::record::check::{Limits, check_own_batch};
use crate::record::records::BatchRecords;
use crate::report::Level;

/// Compacted, and cleaned as soon as anything is dirty.
pub(super) fn compacted() -> LogConfig {
    LogConfig {
        compact: true,
        delete: false,
        min_cleanable_dirty_ppm: 0,
        delete_retention_ms: 10_000,
        ..tiny()
    }
}

/// A record: offset, timestamp, key, value.
pub(super) type Seen = (i64, i64, String, Option<String>);

/// Everything that a consumer gets from the beginning on, batch after batch as a fetch gives it.
pub(super) fn consume(h: &mut Harness) -> Vec<Seen> {
    let mut offset = h.log.log_start_offset().0;
    let mut seen = Vec::new();
    while let Some((range, bytes)) = h.fetch(offset, 1_000).unwrap() {
        let mut rest = bytes;
        while !rest.is_empty() {
            let header = BatchHeader::parse(&rest).unwrap();
            let batch = rest.split_to(usize::try_from(header.size_bytes()).unwrap());
            assert!(
                verify_crc(&batch),
                "the CRC of the batch at {}",
                header.base_offset
            );
            seen.extend(records(&batch));
        }
        assert!(range.next_offset.0 > offset);
        offset = range.next_offset.0;
    }
    assert_eq!(offset, h.log.high_watermark_limit().0);
    seen
}

fn records(batch: &bytes::Bytes) -> Vec<Seen> {
    check_own_batch(batch.clone(), &Limits::default()).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let records = BatchRecords::open(batch, 1 << 20).unwrap();
    let seen = records.iter().map(|record| {
        let record = record.unwrap();
        assert_eq!(record.headers.len(), 1);
        let (key, value) = (text(record.key.unwrap()), record.value.map(text));
        (record.offset.0, record.timestamp, key, value)
    });
    seen.collect()
}

/// The last of each key, and everything from `end` on.
pub(super) fn last_of_each_key(all: &[Seen], end: i64) -> Vec<Seen> {
    let mut last = BTreeMap::new();
    for (offset, _, key, _) in all.iter().filter(|(offset, ..)| *offset < end) {
        last.insert(key.clone(), *offset);
    }
    let stays = |(offset, _, key, _): &&Seen| *offset >= end || last[key] == *offset;
    all.iter().filter(stays).cloned().collect()
}

pub(super) fn append(h: &mut Harness, batch: &CheckedBatch) {
    h.append(batch).unwrap();
    h.complete_disk();
}

/// Appends batches of four records under keys that come again, until so many more segments are closed.
pub(super) fn fill(h: &mut Harness, closed: usize) {
    let value = "v".repeat(200);
    let mut n = h.log.log_end_offset().0;
    let logs = |h: &Harness| {
        h.names()
            .iter()
            .filter(|name| name.ends_with(".log"))
            .count()
    };
    let wanted = logs(h) + closed;
    while logs(h) < wanted {
        let keys: Vec<String> = (0..4)
            .map(|i| std::format!("k{}", (n * 7 + i * 3) % 11))
            .collect();
        let batch: Vec<(&str, Option<&str>)> = keys
            .iter()
            .map(|key| (key.as_str(), Some(value.as_str())))
            .collect();
        append(h, &keyed(1_000 + n, &batch));
        n += 4;
    }
}

/// Base offset of the active segment: below it everything is closed.
pub(super) fn active_base(h: &Harness) -> i64 {
    h.log.recovery_point().segment_base.0
}

#[test]
fn of_each_key_the_last_record_stays_and_all_that_is_not_closed() {
    let mut h = Harness::new(compacted(), Durability::Fsync);
    fill(&mut h, 2);
    let all = consume(&mut h);
    let before = h.log.size_bytes();
    let end = active_base(&h);
    assert!(h.clean());
    assert!(
        h.log.size_bytes() < before / 2,
        "{} of {before}",
        h.log.size_bytes()
    );
    let expected = last_of_each_key(&all, end);
    assert_eq!(consume(&mut h), expected);
    assert_eq!(h.log.cleaner_point().first_dirty, Offset(end));
    assert_eq!(h.told(Level::Warn), Vec::<&str>::new());
    assert!(
        !h.names()
            .iter()
            .any(|name| name.ends_with(".swap") || name.ends_with(".cleaned"))
    );
    assert!(!h.clean(), "nothing is dirty");

    // What comes later makes what is there go, and small segments become one.
    fill(&mut h, 2);
    let all: Vec<Seen> = consume(&mut h);
    let end = active_base(&h);
    let names = h.names().len();
    assert!(h.clean());
    assert_eq!(consume(&mut h), last_of_each_key(&all, end));
    assert!(h.names().len() < names);

    for clean in [false, true] {
        if clean {
            h.close();
        }
        let seen = last_of_each_key(&all, end);
        h.open(clean);
        assert_eq!(*h.log.state(), LogState::Ready);
        assert_eq!(consume(&mut h), seen);
    }
}

#[test]
fn compression_stays_and_a_batch_says_where_it_began_and_ended() {
    for compression in Compression::ALL {
        let mut h = Harness::new(compacted(), Durability::Fsync);
        let batch = keyed_by(
            compression,
            Some(ProducerFields {
                producer_id: 7,
                producer_epoch: 1,
                base_sequence: 0,
            }),
            1_000,
            &[
                ("a", Some("1")),
                ("b", Some("2")),
                ("c", Some("3")),
                ("a", Some("4")),
            ],
        );
        append(&mut h, &batch);
        append(&mut h, &keyed(1_001, &[("c", Some("5"))]));
        let before = BatchHeader::parse(&h.replay()[0]).unwrap();
        fill(&mut h, 1);
        assert!(h.clean());
        let first = h.replay().remove(0);
        let header = BatchHeader::parse(&first).unwrap();
        let expected = BatchHeader {
            crc: header.crc,
            batch_length: header.batch_length,
            record_count: 2,
            ..before
        };
        assert_eq!(header, expected);
        let seen: Vec<(i64, String)> = records(&first)
            .into_iter()
            .map(|(offset, _, key, _)| (offset, key))
            .collect();
        assert_eq!(seen, [(1, "b".to_string()), (3, "a".to_string())]);
    }
}

#[test]
fn a_tombstone_goes_once_its_time_has_passed_since_a_cleaning_saw_it_first() {
    let mut h = Harness::new(compacted(), Durability::Fsync);
    append(&mut h, &keyed(1_000, &[("x", Some("1")), ("y", Some("1"))]));
    append(&mut h, &keyed(1_001, &[("x", None), ("z", Some("1"))]));
    fill(&mut h, 1);
    // However old it is: nobody may have read it who has read what it deletes.
    h.advance_ms(60_000);
    assert!(h.clean());
    let has_tombstone = |h: &mut Harness| {
        let seen = consume(h);
        assert!(
            seen.contains(&(3, 1_001, "z".into(), Some("1".into()))),
            "{seen:?}"
        );
        assert!(!seen.iter().any(|(offset, ..)| *offset == 0));
        seen.contains(&(2, 1_001, "x".into(), None))
    };
    assert!(has_tombstone(&mut h));
    let horizon = |h: &mut Harness| {
        let headers: Vec<_> = h
            .replay()
            .iter()
            .map(|batch| BatchHeader::parse(batch).unwrap())
            .collect();
        headers
            .iter()
            .find(|header| header.base_offset == Offset(2))
            .unwrap()
            .delete_horizon_ms()
    };
    assert_eq!(horizon(&mut h), Some(h.now.wall.0 + 10_000));

    h.advance_ms(9_000);
    fill(&mut h, 1);
    assert!(h.clean());
    assert!(has_tombstone(&mut h), "its time has not passed");
    h.advance_ms(1_000);
    fill(&mut h, 1);
    assert!(h.clean());
    assert!(!has_tombstone(&mut h));
}

#[test]
fn batches_by_which_a_producer_is_known_stay_as_headers() {
    let mut h = Harness::new(compacted(), Durability::Fsync);
    let produced = |sequence: i32| {
        let producer = ProducerFields {
            producer_id: 7,
            producer_epoch: 0,
            base_sequence: sequence,
        };
        keyed_by(
            Compression::Zstd,
            Some(producer),
            1_000,
            &[("k1", Some("1"))],
        )
    };
    for sequence in 0..7 {
        append(&mut h, &produced(sequence));
    }
    fill(&mut h, 1);
    assert!(h.clean());
    let kept: Vec<_> = h
        .replay()
        .iter()
        .map(|batch| BatchHeader::parse(batch).unwrap())
        .filter(BatchHeader::has_producer_id)
        .collect();
    assert_eq!(
        kept.iter()
            .map(|header| header.base_sequence)
            .collect::<Vec<_>>(),
        [2, 3, 4, 5, 6]
    );
    assert!(
        kept.iter()
            .all(|header| header.record_count == 0 && header.size_bytes() == 61)
    );
    h.persist();
    h.kill();
    h.open(false);
    // A retry is known, whatever became of its record.
    let again = h.append(&produced(2)).unwrap();
    assert!(again.duplicate);
    assert_eq!(again.base_offset, Offset(2));
    assert!(h.append(&produced(8)).is_err());
}

#[test]
fn what_has_no_room_in_the_map_is_cleaned_in_the_next_round() {
    let mut h = Harness::new(compacted(), Durability::Fsync);
    fill(&mut h, 2);
    let all = consume(&mut h);
    let end = active_base(&h);
    h.max_map_bytes = 5 * 18;
    assert!(h.clean());
    let first = h.log.cleaner_point().first_dirty.0;
    assert!(first > 0 && first < end, "{first} of {end}");
    assert_eq!(consume(&mut h), last_of_each_key(&all, first));
    let mut rounds = 0;
    while h.clean() {
        rounds += 1;
        let dirty = h.log.cleaner_point().first_dirty.0;
        assert_eq!(
            last_of_each_key(&consume(&mut h), dirty),
            last_of_each_key(&all, dirty)
        );
    }
    assert!(rounds > 1);
    assert_eq!(consume(&mut h), last_of_each_key(&all, end));
}

#[test]
fn a_crash_at_any_point_loses_nothing_and_the_next_start_ends_what_was_begun() {
    let mut h = Harness::new(compacted(), Durability::Fsync);
    fill(&mut h, 2);
    assert!(h.clean());
    fill(&mut h, 2);
    let all = consume(&mut h);
    let end = active_base(&h);
    h.persist();
    let (disk, persisted, persisted_cleaner) = (h.disk.clone(), h.persisted, h.persisted_cleaner);
    let mut outcomes = BTreeMap::new();
    for cut in 0.. {
        let mut over = false;
        for power in 0..7_u64 {
            h.kill();
            (h.disk, h.persisted, h.persisted_cleaner) =
                (disk.clone(), persisted, persisted_cleaner);
            h.open(false);
            h.begin_cleaning();
            over = (0..cut).any(|_| !h.complete_one());
            match power {
                0 => h.kill(),
                1 => h.cut_power(),
                seed => h.cut_power_harshly(seed * 7_919 + cut),
            }
            for start in ["first", "second"] {
                h.open(false);
                let state = h.log.state();
                assert_eq!(
                    *state,
                    LogState::Ready,
                    "cut {cut}, power {power}, {start} start"
                );
                let seen = consume(&mut h);
                // Each segment is as it was, or clean.
                assert_eq!(
                    last_of_each_key(&seen, end),
                    last_of_each_key(&all, end),
                    "cut {cut}, power {power}, {start} start"
                );
                let names = h.names();
                assert!(
                    !names
                        .iter()
                        .any(|name| name.ends_with(".swap") || name.ends_with(".cleaned")),
                    "{names:?}"
                );
                *outcomes.entry(seen.len()).or_insert(0) += 1;
                h.persist();
                h.kill();
            }
            h.open(false);
            h.clean();
            assert_eq!(
                consume(&mut h),
                last_of_each_key(&all, end),
                "cut {cut}, power {power}"
            );
        }
        if over {
            break;
        }
    }
    assert!(outcomes.len() > 2, "{outcomes:?}");
}

#[test]
fn a_disk_that_refuses_at_any_point_delays_a_cleaning_and_loses_nothing() {
    for op in [
        "cleaned",
        "sync-file",
        "rename",
        "sync-dir",
        ".swap ->",
        "remove-file",
    ] {
        let mut h = Harness::new(compacted(), Durability::Fsync);
        fill(&mut h, 3);
        let all = consume(&mut h);
        let end = active_base(&h);
        h.faults.op = Some(op);
        h.begin_cleaning();
        h.complete_disk();
        assert!(!h.log.is_cleaning());
        h.faults.op = None;
        h.advance_ms(1_000);
        assert_eq!(*h.log.state(), LogState::Ready, "{op}");
        assert_eq!(
            last_of_each_key(&consume(&mut h), end),
            last_of_each_key(&all, end),
            "{op}"
        );
        h.clean();
        assert_eq!(consume(&mut h), last_of_each_key(&all, end), "{op}");
        append(&mut h, &keyed(9, &[("new", Some("1"))]));
    }
}

#[test]
fn a_read_that_a_swap_overtakes_is_made_again() {
    let mut h = Harness::new(compacted(), Durability::Fsync);
    fill(&mut h, 2);
    let all = consume(&mut h);
    let end = active_base(&h);
    // Where the newest batches are is forgotten: reads have to look.
    h.persist();
    h.open(false);
    let limit = h.log.high_watermark_limit();
    // A reader that left off in the middle knows where to go on.
    let scan = |h: &Harness| match h.log.read_plan(Offset(8), limit, 500, true) {
        ReadPlan::Scan(job) => job,
        plan => panic!("{plan:?}"),
    };
    let before = scan(&h);
    let found = before.run(&mut h.disk).unwrap();
    h.begin_cleaning();
    let mut reads = 0;
    loop {
        // At every point of the swap a new read finds the right files.
        let seen = consume(&mut h);
        assert_eq!(last_of_each_key(&seen, end), last_of_each_key(&all, end));
        reads += 1;
        if !h.complete_one() {
            break;
        }
    }
    assert!(reads > 20);
    let layout = h.log.layout();
    assert!(layout > 0);
    assert!(h.with(|log, cx| log.on_fetch_scanned(cx, found)).is_err());
    let found = scan(&h).run(&mut h.disk).unwrap();
    assert!(h.with(|log, cx| log.on_fetch_scanned(cx, found)).is_ok());
}

#[test]
fn times_are_found_in_a_cleaned_log() {
    let mut h = Harness::new(compacted(), Durability::Fsync);
    fill(&mut h, 2);
    assert!(h.clean());
    let seen = consume(&mut h);
    for timestamp in 990..=1_000 + h.log.log_end_offset().0 {
        let expected = seen
            .iter()
            .find(|(_, time, ..)| *time >= timestamp)
            .map(|seen| seen.0);
        let found = h
            .find_time(Some(timestamp))
            .unwrap()
            .map(|found| found.offset.0);
        assert_eq!(found, expected, "at {timestamp}");
    }
}

#[test]
fn indexes_of_a_cleaned_segment_are_what_a_rebuild_makes_of_it() {
    let mut h = Harness::new(compacted(), Durability::Fsync);
    fill(&mut h, 3);
    assert!(h.clean());
    let indexes: Vec<(String, Vec<u8>)> = h
        .names()
        .into_iter()
        .filter(|name| name.ends_with("index"))
        .map(|name| (name.clone(), h.file(&name)))
        .collect();
    let closed = indexes
        .iter()
        .filter(|(_, bytes)| !bytes.is_empty())
        .count();
    assert!(closed > 1);
    h.close();
    for (name, _) in &indexes {
        h.remove_file(name);
    }
    h.open(false);
    for (name, bytes) in indexes {
        if name[..20].parse::<i64>().unwrap() < active_base(&h) {
            assert_eq!(h.file(&name), bytes, "{name}");
        }
    }
}

#[test]
fn damage_is_not_given_a_new_checksum() {
    let mut h = Harness::new(compacted(), Durability::Fsync);
    fill(&mut h, 2);
    let content = h.file_mut("00000000000000000000.log");
    content[200] ^= 1;
    let damaged = content.clone();
    assert!(h.clean());
    assert_eq!(h.file("00000000000000000000.log"), damaged);
    assert_eq!(h.told(Level::Error).len(), 1);
    assert!(!h.clean(), "it is not tried again and again");
}

#[test]
fn young_records_are_not_cleaned_and_old_ones_are_whatever_the_ratio() {
    let mut h = Harness::new(
        LogConfig {
            min_compaction_lag_ms: 100_000,
            ..compacted()
        },
        Durability::Fsync,
    );
    h.now.wall.0 = 50_000;
    fill(&mut h, 2);
    assert!(!h.clean(), "all are younger than 100 s");
    h.advance_ms(100_000);
    assert!(h.clean());

    let lazy = LogConfig {
        min_cleanable_dirty_ppm: 1_000_000,
        max_compaction_lag_ms: Some(100_000),
        ..compacted()
    };
    let mut h = Harness::new(lazy, Durability::Fsync);
    h.now.wall.0 = 50_000;
    fill(&mut h, 2);
    assert!(
        !h.clean(),
        "all of it is dirty, and that is not more than all"
    );
    h.advance_ms(100_000);
    assert!(h.clean());
}

#[test]
fn what_retention_takes_away_meanwhile_stays_away() {
    let config = LogConfig {
        delete: true,
        ..compacted()
    };
    for steps in 0..40 {
        let mut h = Harness::new(config.clone(), Durability::Fsync);
        fill(&mut h, 4);
        let all = consume(&mut h);
        let end = active_base(&h);
        h.begin_cleaning();
        for _ in 0..steps {
            h.complete_one();
        }
        let start = end / 2;
        h.set_log_start(Offset(start));
        h.complete_disk();
        h.advance_ms(5_000);
        h.clean();
        let left: Vec<Seen> = consume(&mut h)
            .into_iter()
            .filter(|seen| seen.0 >= start)
            .collect();
        let expected: Vec<Seen> = last_of_each_key(&all, end)
            .into_iter()
            .filter(|seen| seen.0 >= start)
            .collect();
        assert_eq!(left, expected, "after {steps} steps");
        h.persist();
        h.open(false);
        assert_eq!(*h.log.state(), LogState::Ready);
    }
}
