use std::vec::Vec;

use crate::ids::{LeaderEpoch, Offset};
use crate::log::harness::{Harness, batch, tiny};
use crate::log::{Durability, LogConfig, LogState, ReadError, ReadPlan};
use crate::record::batch::BatchHeader;
use crate::report::Level;

/// Batches of three records each.
fn with_batches(count: i64) -> Harness {
    let mut h = Harness::new(tiny(), Durability::Fsync);
    for i in 0..count {
        h.append(&batch(&[i * 10, i * 10 + 2, i * 10 + 1], 100))
            .unwrap();
    }
    h.complete_disk();
    h
}

fn offsets(bytes: &[u8]) -> Vec<(i64, i64)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let header = BatchHeader::parse(&bytes[at..]).unwrap();
        found.push((header.base_offset.0, header.last_offset().0));
        at += header.size_bytes() as usize;
    }
    assert_eq!(at, bytes.len(), "whole batches only");
    found
}

#[test]
fn a_fetch_finds_the_batch_that_holds_its_offset_wherever_it_is() {
    for reopened in [false, true] {
        let mut h = with_batches(400);
        if reopened {
            h.close();
            h.open(true);
        }
        for offset in 0..1200 {
            let (range, bytes) = h.fetch(offset, 1).unwrap().unwrap();
            let base = offset / 3 * 3;
            assert_eq!(offsets(&bytes), [(base, base + 2)]);
            assert_eq!(range.next_offset, Offset(base + 3));
        }
        assert!(h.fetch(1200, 1).unwrap().is_none());
    }
}

#[test]
fn a_fetch_is_cut_at_the_last_whole_batch_that_fits() {
    for reopened in [false, true] {
        let mut h = with_batches(8);
        if reopened {
            h.close();
            h.open(true);
        }
        let one = h.fetch(0, 1).unwrap().unwrap().1.len() as u32;
        let (_, bytes) = h.fetch(4, 3 * one - 1).unwrap().unwrap();
        assert_eq!(offsets(&bytes), [(3, 5), (6, 8)]);
        let (_, bytes) = h.fetch(4, 3 * one).unwrap().unwrap();
        assert_eq!(offsets(&bytes), [(3, 5), (6, 8), (9, 11)]);
        let limit = h.log.high_watermark_limit();
        match h.log.read_plan(Offset(0), limit, one - 1, false) {
            ReadPlan::Empty => assert!(!reopened),
            ReadPlan::Scan(job) => {
                assert!(reopened);
                let output = job.run(&mut h.disk).unwrap();
                let range = h.with(|log, cx| log.on_fetch_scanned(cx, output));
                assert_eq!(range, Ok(None));
            }
            plan => panic!("{plan:?}"),
        }
    }
}

#[test]
fn a_fetch_never_sees_what_is_not_flushed() {
    let mut h = with_batches(2);
    h.append(&batch(&[9], 100)).unwrap();
    h.complete_one();
    let (range, _) = h.fetch(0, 1 << 20).unwrap().unwrap();
    assert_eq!(range.next_offset, Offset(6));
    let limit = Offset(100);
    assert!(matches!(
        h.log.read_plan(Offset(6), limit, 1000, true),
        ReadPlan::Empty
    ));
    assert!(matches!(
        h.log.read_plan(Offset(8), limit, 1000, true),
        ReadPlan::OutOfRange
    ));
}

#[test]
fn a_fetch_at_the_tail_needs_no_read() {
    let h = with_batches(300);
    let limit = h.log.high_watermark_limit();
    assert!(matches!(
        h.log.read_plan(Offset(897), limit, 1000, true),
        ReadPlan::Range(_)
    ));
    assert!(matches!(
        h.log.read_plan(Offset(3), limit, 1000, true),
        ReadPlan::Scan(_)
    ));
    assert_eq!(h.log.available_bytes(Offset(897), limit), Some(h_one(&h)));
}

fn h_one(h: &Harness) -> u64 {
    BatchHeader::parse(&h.file("00000000000000000000.log"))
        .unwrap()
        .size_bytes()
}

#[test]
fn a_sequential_reader_goes_on_where_it_left_off() {
    let mut h = with_batches(400);
    h.close();
    h.open(true);
    let (range, _) = h.fetch(0, 1_000).unwrap().unwrap();
    let scan = match h
        .log
        .read_plan(range.next_offset, h.log.high_watermark_limit(), 1_000, true)
    {
        ReadPlan::Scan(crate::read_job::ReadJob::FetchScan(scan)) => scan,
        plan => panic!("{plan:?}"),
    };
    assert_eq!(scan.from.unwrap().0, u64::from(range.range.length));
}

#[test]
fn a_damaged_batch_is_never_served_and_what_comes_before_is() {
    let mut h = with_batches(8);
    h.close();
    let one = h_one(&h) as usize;
    h.file_mut("00000000000000000000.log")[2 * one + 70] ^= 1;
    h.open(true);
    let (range, bytes) = h.fetch(0, 1 << 20).unwrap().unwrap();
    assert_eq!(offsets(&bytes), [(0, 2), (3, 5)]);
    assert_eq!(range.next_offset, Offset(6));
    for _ in 0..3 {
        match h.fetch(7, 1 << 20) {
            Err(ReadError::Corrupt(damage)) => assert_eq!(damage.offset, Offset(6)),
            found => panic!("{found:?}"),
        }
    }
    h.complete_disk();
    assert_eq!(h.told(Level::Error).len(), 1, "told once");
    assert!(
        h.fetch(9, 1 << 20).unwrap().is_some(),
        "what is behind is served"
    );
    assert!(matches!(h.find_time(Some(21)), Err(ReadError::Corrupt(_))));
}

#[test]
fn a_batch_that_says_it_ends_beyond_what_may_be_read_is_damaged() {
    let mut h = with_batches(8);
    h.close();
    let one = h_one(&h) as usize;
    // The last offset delta: 65,536 more.
    h.file_mut("00000000000000000000.log")[2 * one + 24] ^= 1;
    h.open(true);
    let (_, bytes) = h.fetch(0, 1 << 20).unwrap().unwrap();
    assert_eq!(offsets(&bytes), [(0, 2), (3, 5)]);
    match h.fetch(6, 1 << 20) {
        Err(ReadError::Corrupt(damage)) => assert_eq!(damage.offset, Offset(6)),
        found => panic!("{found:?}"),
    }
    let limit = h.log.high_watermark_limit();
    let replay = h.log.replay_job(Offset(6), limit).unwrap();
    assert!(replay.run(&mut h.disk).is_err(), "and nobody replays it");
}

#[test]
fn a_range_is_checked_once_a_process() {
    let mut h = with_batches(8);
    h.close();
    h.open(true);
    assert_eq!(h.scan(0).damage, None);
    h.fetch(0, 1 << 20).unwrap();
    let one = h_one(&h) as usize;
    h.file_mut("00000000000000000000.log")[2 * one + 70] ^= 1;
    assert!(h.fetch(7, 1).is_ok(), "later rot is the client's to find");
}

#[test]
fn a_time_finds_its_first_record() {
    for reopened in [false, true] {
        let mut h = with_batches(100);
        if reopened {
            h.close();
            h.open(true);
        }
        for timestamp in 0..1000 {
            let found = h.find_time(Some(timestamp)).unwrap();
            let mut all = (0..100).flat_map(|i| {
                [
                    (i * 10, i * 3),
                    (i * 10 + 2, i * 3 + 1),
                    (i * 10 + 1, i * 3 + 2),
                ]
            });
            let expected = all.find(|(at, _)| *at >= timestamp);
            assert_eq!(
                found.map(|f| (f.timestamp, f.offset.0)),
                expected,
                "{timestamp}"
            );
        }
        let found = h.find_time(None).unwrap().unwrap();
        assert_eq!((found.timestamp, found.offset), (992, Offset(298)));
        assert_eq!(found.leader_epoch, LeaderEpoch(3));
    }
}

#[test]
fn a_time_is_not_looked_for_below_the_log_start_or_above_the_high_watermark() {
    let mut h = with_batches(10);
    h.delete_records(Offset(7));
    // Record 6 is the first at or after 20, but it is deleted; 7 has 22.
    assert_eq!(h.find_time(Some(20)).unwrap().unwrap().offset, Offset(7));
    h.append(&batch(&[5_000], 10)).unwrap();
    h.complete_one();
    assert_eq!(h.find_time(Some(1_000)).unwrap(), None);
    assert_eq!(h.find_time(None).unwrap().unwrap().timestamp, 92);
    h.complete_disk();
    assert_eq!(h.find_time(None).unwrap().unwrap().timestamp, 5_000);
}

/// KIP-734: the largest timestamp is that of a record that is there.
#[test]
fn the_largest_timestamp_is_not_that_of_a_deleted_record() {
    let mut h = Harness::new(tiny(), Durability::Fsync);
    h.append(&batch(&[900, 7, 950, 8, 6], 10)).unwrap();
    h.append(&batch(&[3], 10)).unwrap();
    h.complete_disk();
    let newest = |h: &mut Harness| {
        let found = h.find_time(None).unwrap();
        found.map(|found| (found.timestamp, found.offset.0))
    };
    assert_eq!(newest(&mut h), Some((950, 2)));
    for (start, expected) in [(1, (950, 2)), (3, (8, 3)), (4, (6, 4)), (5, (3, 5))] {
        h.delete_records(Offset(start));
        for _ in 0..2 {
            assert_eq!(newest(&mut h), Some(expected), "from {start} on");
            h.close();
            h.open(true);
        }
    }
    h.delete_records(Offset(6));
    assert_eq!(newest(&mut h), None);
}

#[test]
fn records_without_timestamps_are_not_found_by_time() {
    let mut h = Harness::new(tiny(), Durability::Fsync);
    for _ in 0..10 {
        h.append(&batch(&[-1, -1], 900)).unwrap();
    }
    h.complete_disk();
    assert_eq!(h.find_time(Some(0)).unwrap(), None);
    assert_eq!(h.find_time(None).unwrap(), None);
}

#[test]
fn an_epoch_ends_where_the_next_begins() {
    let mut h = with_batches(2);
    let next = batch(&[1], 10);
    h.with(|log, cx| log.append(cx, core::slice::from_ref(&next), LeaderEpoch(5)))
        .unwrap();
    h.complete_disk();
    let end = |h: &Harness, epoch| h.log.end_offset_for_epoch(LeaderEpoch(epoch));
    assert_eq!(end(&h, 3), Some((LeaderEpoch(3), Offset(6))));
    assert_eq!(end(&h, 4), Some((LeaderEpoch(3), Offset(6))));
    assert_eq!(end(&h, 5), Some((LeaderEpoch(5), Offset(7))));
    assert_eq!(end(&h, 6), None);
    assert_eq!(h.log.epoch_at(Offset(5)), Some(LeaderEpoch(3)));
    assert_eq!(h.log.epoch_at(Offset(6)), Some(LeaderEpoch(5)));
    h.cut_power();
    h.open(false);
    assert_eq!(end(&h, 3), Some((LeaderEpoch(3), Offset(6))));
}

#[test]
fn a_fetch_on_an_older_segment_is_told_apart() {
    let h = with_batches(20);
    assert!(h.log.is_on_older_segment(Offset(0)));
    assert!(!h.log.is_on_older_segment(h.log.log_end_offset()));
    assert_eq!(*h.log.state(), LogState::Ready);
}

#[test]
fn a_large_config_reads_the_same() {
    let mut h = Harness::new(LogConfig::default(), Durability::Os);
    h.now.wall.0 = 1 << 40;
    for i in 0..50 {
        h.append(&batch(&[i; 20], 1_000)).unwrap();
    }
    h.complete_disk();
    h.close();
    h.open(true);
    let (_, bytes) = h.fetch(500, 1 << 20).unwrap().unwrap();
    assert_eq!(offsets(&bytes).len(), 25);
}
