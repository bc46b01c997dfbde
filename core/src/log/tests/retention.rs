use crate::ids::Offset;
use crate::log::harness::{Harness, batch, tiny};
use crate::log::{Durability, LogConfig, LogState, ReadPlan};

/// Segments of four batches; every batch has the wall time of its append.
fn aged(config: LogConfig, count: i64) -> Harness {
    let mut h = Harness::new(config, Durability::Fsync);
    for _ in 0..count {
        let now = h.now.wall.0;
        h.append(&batch(&[now], 900)).unwrap();
        h.complete_disk();
        h.advance_ms(100);
    }
    h
}

#[test]
fn old_segments_go_by_time_and_the_active_one_stays() {
    let config = LogConfig {
        retention_ms: Some(700),
        ..tiny()
    };
    let mut h = aged(config, 14);
    let start = h.retention().unwrap();
    assert_eq!(start, Offset(4));
    assert_eq!(
        h.log.log_start_offset(),
        Offset(0),
        "not before it is durable"
    );
    h.set_log_start(start);
    assert_eq!(h.log.log_start_offset(), Offset(4));
    assert_eq!(h.retention(), None);
    let limit = h.log.high_watermark_limit();
    assert!(matches!(
        h.log.read_plan(Offset(3), limit, 1, true),
        ReadPlan::OutOfRange
    ));
    assert!(h.names().contains(&"00000000000000000000.log".into()));
    h.advance_ms(1_000);
    assert!(!h.names().contains(&"00000000000000000000.log".into()));
    assert!(!h.names().contains(&"00000000000000000000.timeindex".into()));
}

/// A read that fails because files were taken away meanwhile is made anew, and nothing is wrong with the
/// disk.
#[test]
fn whoever_reads_can_see_that_files_went() {
    let config = LogConfig {
        retention_ms: Some(700),
        ..tiny()
    };
    let mut h = aged(config, 14);
    let limit = h.log.high_watermark_limit();
    let lookup = |h: &Harness| h.log.time_lookup(0, limit);
    let before = (h.log.layout(), lookup(&h));
    let start = h.retention().unwrap();
    h.set_log_start(start);
    let between = (h.log.layout(), lookup(&h));
    h.advance_ms(1_000);
    assert!(before.1.run(&mut h.disk).is_err());
    assert_ne!(h.log.layout(), before.0);
    assert!(
        between.1.run(&mut h.disk).is_ok(),
        "they were not asked for"
    );
}

#[test]
fn old_segments_go_by_size() {
    let config = LogConfig {
        retention_bytes: Some(6_000),
        retention_ms: None,
        ..tiny()
    };
    let mut h = aged(config, 14);
    let start = h.retention().unwrap();
    h.set_log_start(start);
    assert_eq!(start, Offset(4));
    assert!(h.log.size_bytes() >= 6_000);
    assert_eq!(h.retention(), None);
}

#[test]
fn what_may_be_taken_back_is_no_reason_for_anything_to_go() {
    let config = LogConfig {
        retention_bytes: Some(6_000),
        retention_ms: None,
        ..tiny()
    };
    let mut h = aged(config, 7);
    assert_eq!(h.retention(), None);
    for _ in 0..4 {
        h.append(&batch(&[h.now.wall.0], 900)).unwrap();
    }
    assert_eq!(h.retention(), None);
    h.complete_disk();
    assert_eq!(h.retention(), Some(Offset(4)));
}

#[test]
fn a_wholly_expired_log_rolls_so_that_it_can_go() {
    let config = LogConfig {
        retention_ms: Some(700),
        ..tiny()
    };
    let mut h = aged(config, 3);
    h.advance_ms(10_000);
    assert_eq!(h.retention(), None);
    h.complete_disk();
    let start = h.retention().unwrap();
    assert_eq!(start, Offset(3));
    h.set_log_start(start);
    assert_eq!(h.log.size_bytes(), 0);
    assert_eq!(h.log.log_end_offset(), Offset(3));
    h.persist();
    h.cut_power();
    h.open(false);
    assert_eq!(h.log.log_end_offset(), Offset(3));
    let now = h.now.wall.0;
    assert_eq!(h.append(&batch(&[now], 10)).unwrap().base_offset, Offset(3));
}

/// Seed 1975 of the simulator: the new segment was there in memory only, and whoever waited at the end of
/// the old one was taken for somebody who is behind.
#[test]
fn an_expired_log_rolls_after_a_failed_write_too_and_makes_the_files() {
    let config = LogConfig {
        retention_ms: Some(700),
        ..tiny()
    };
    let mut h = aged(config, 3);
    h.faults.space = Some(0);
    h.append(&batch(&[h.now.wall.0], 900)).unwrap();
    h.complete_disk();
    h.faults.space = None;
    assert!(matches!(h.log.state(), LogState::StorageFailed(_)));
    h.advance_ms(10_000);
    assert_eq!(h.retention(), None);
    h.complete_disk();
    assert!(h.names().contains(&"00000000000000000003.log".into()));
    assert_eq!(h.retention(), Some(Offset(3)));
}

#[test]
fn a_segment_that_was_deleted_while_it_took_records_goes_once_it_is_closed() {
    let mut h = aged(tiny(), 3);
    h.delete_records(Offset(3));
    assert!(h.names().contains(&"00000000000000000000.log".into()));
    h.append(&batch(&[h.now.wall.0], 2_000)).unwrap();
    h.complete_disk();
    h.advance_ms(1_000);
    assert!(!h.names().contains(&"00000000000000000000.log".into()));
    assert_eq!(h.replay().len(), 1);
}

#[test]
fn nothing_of_a_compacted_log_goes() {
    let config = LogConfig {
        retention_ms: Some(1),
        delete: false,
        compact: true,
        ..tiny()
    };
    let mut h = aged(config, 14);
    h.advance_ms(10_000);
    assert_eq!(h.retention(), None);
}

#[test]
fn after_a_clean_start_the_ages_are_read_first() {
    let config = LogConfig {
        retention_ms: Some(700),
        ..tiny()
    };
    let mut h = aged(config, 14);
    h.close();
    h.open(true);
    assert_eq!(h.retention(), None);
    assert!(!h.log.retention_wanted());
    h.complete_disk();
    assert!(h.log.retention_wanted());
    assert_eq!(h.retention(), Some(Offset(4)));
}

#[test]
fn deleted_records_stay_deleted_whenever_it_crashes() {
    let mut h = aged(tiny(), 14);
    h.delete_records(Offset(9));
    assert_eq!(h.log.log_start_offset(), Offset(9));
    assert_eq!(h.replay().len(), 5);
    for _ in 0..2 {
        h.cut_power();
        h.open(false);
        assert_eq!(h.log.log_start_offset(), Offset(9));
        assert!(!h.names().contains(&"00000000000000000000.log".into()));
        assert!(!h.names().contains(&"00000000000000000004.log".into()));
        assert!(h.names().contains(&"00000000000000000008.log".into()));
    }
    let limit = h.log.high_watermark_limit();
    assert!(h.log.delete_records(Some(Offset(15)), limit).is_err());
    assert!(h.log.delete_records(Some(Offset(8)), limit).is_err());
    assert_eq!(h.log.delete_records(None, limit), Ok(Offset(14)));
}

#[test]
fn under_os_a_log_that_lost_more_than_was_deleted_begins_at_its_start() {
    let config = LogConfig {
        segment_bytes: 1 << 20,
        ..tiny()
    };
    let mut h = Harness::new(config, Durability::Os);
    for i in 0..10 {
        h.append(&batch(&[i], 100)).unwrap();
    }
    h.complete_disk();
    h.delete_records(Offset(8));
    h.cut_power();
    h.open(false);
    assert_eq!(h.log.log_start_offset(), Offset(8));
    assert_eq!(
        h.log.log_end_offset(),
        Offset(8),
        "offsets are never given again"
    );
    h.append(&batch(&[1], 100)).unwrap();
    h.complete_disk();
    assert_eq!(h.replay().len(), 1);
}
