use crate::ids::Offset;
use crate::log::harness::{Harness, batch, tiny};
use crate::log::tests::indexes::assert_indexes;
use crate::log::{AppendError, Durability, LogConfig, LogState};
use crate::report::Level;

fn roomy() -> LogConfig {
    LogConfig {
        segment_bytes: 1 << 20,
        ..tiny()
    }
}

#[test]
fn a_full_disk_takes_back_what_was_not_written_and_the_next_append_tries_again() {
    let mut h = Harness::new(roomy(), Durability::Fsync);
    h.append(&batch(&[1, 2], 100)).unwrap();
    h.complete_disk();
    let size = h.file("00000000000000000000.log").len();
    // The second batch fits, the third is torn, the fourth is not begun.
    for _ in 0..3 {
        h.append(&batch(&[1, 2], 100)).unwrap();
    }
    h.faults.space = Some(size as u64 + 30);
    h.complete_disk();

    let lost = h.log.take_lost().unwrap();
    assert_eq!(lost.from, Offset(4));
    assert_eq!(h.log.log_end_offset(), Offset(4));
    assert_eq!(h.log.high_watermark_limit(), Offset(4));
    assert!(matches!(h.log.state(), LogState::StorageFailed(_)));
    assert_eq!(h.file("00000000000000000000.log").len(), 2 * size);
    assert_eq!(h.told(Level::Error).len(), 1);
    assert_eq!(h.replay().len(), 2, "it stays readable");

    h.append(&batch(&[1], 100)).unwrap();
    h.complete_disk();
    assert!(h.log.take_lost().is_some(), "the disk is still full");

    h.faults.space = None;
    let info = h.append(&batch(&[1], 100)).unwrap();
    assert_eq!(info.base_offset, Offset(4), "the offsets were given back");
    h.complete_disk();
    assert_eq!(*h.log.state(), LogState::Ready);
    assert_eq!(h.log.high_watermark_limit(), Offset(5));
    assert_eq!(h.log.take_lost(), None);
    h.cut_power();
    h.open(false);
    assert_eq!(h.replay().len(), 3);
}

#[test]
fn a_log_that_keeps_failing_to_reopen_says_so_once_and_stays_readable() {
    let mut h = Harness::new(roomy(), Durability::Fsync);
    h.append(&batch(&[1], 100)).unwrap();
    h.complete_disk();
    h.append(&batch(&[1], 100)).unwrap();
    h.faults.flushes = 100;
    h.complete_disk();
    for _ in 0..3 {
        h.advance_ms(2_000);
    }
    assert_eq!(h.told(Level::Error).len(), 1, "{:?}", h.reports);
    assert!(matches!(h.log.state(), LogState::Reopening(_)));
    assert_eq!(h.log.high_watermark_limit(), Offset(1));
    assert!(h.log.is_readable());

    // Once it went well, the next failure is news.
    h.faults.flushes = 0;
    h.advance_ms(30_000);
    assert_eq!(*h.log.state(), LogState::Ready);
    h.append(&batch(&[1], 100)).unwrap();
    h.complete_disk();
    h.append(&batch(&[1], 100)).unwrap();
    h.faults.flushes = 1;
    h.complete_disk();
    assert_eq!(h.told(Level::Error).len(), 2, "{:?}", h.reports);
}

#[test]
fn while_a_failed_write_is_undone_appends_are_refused() {
    let mut h = Harness::new(roomy(), Durability::Fsync);
    h.append(&batch(&[1], 100)).unwrap();
    h.faults.space = Some(10);
    h.complete_one();
    assert!(matches!(h.log.state(), LogState::StorageFailed(_)));
    assert_eq!(h.append(&batch(&[1], 100)), Err(AppendError::Storage));
    h.faults.space = None;
    h.complete_disk();
    assert!(h.append(&batch(&[1], 100)).is_ok());
}

#[test]
fn a_full_disk_in_the_middle_of_a_roll_takes_the_roll_back() {
    for pattern in ["write-file", "write-at"] {
        let mut h = Harness::new(tiny(), Durability::Fsync);
        for _ in 0..4 {
            h.append(&batch(&[1], 900)).unwrap();
        }
        h.complete_disk();
        h.faults.op = Some(pattern);
        for _ in 0..3 {
            h.append(&batch(&[1], 900)).unwrap();
        }
        h.complete_disk();
        assert_eq!(h.log.take_lost().unwrap().from, Offset(4), "{pattern}");
        assert_eq!(h.log.log_end_offset(), Offset(4));
        assert!(!h.names().contains(&"00000000000000000004.log".into()));
        h.faults.op = None;
        let info = h.append(&batch(&[1], 900)).unwrap();
        assert_eq!(info.base_offset, Offset(4));
        h.complete_disk();
        h.advance_ms(2_000);
        assert_eq!(h.log.high_watermark_limit(), Offset(5), "{pattern}");
        h.cut_power();
        h.open(false);
        assert_eq!(h.replay().len(), 5);
    }
}

/// Seed 1057 of the simulator: the cut was never made, and the host drops what is written to a file
/// whose failed write was not cut.
#[test]
fn a_write_that_fails_while_a_failed_roll_is_taken_back_is_cut_too() {
    let mut h = Harness::new(tiny(), Durability::Fsync);
    for _ in 0..3 {
        h.append(&batch(&[1], 900)).unwrap();
    }
    h.complete_disk();
    // The fourth is under way when the fifth begins a segment whose files cannot be made.
    h.append(&batch(&[1], 900)).unwrap();
    h.append(&batch(&[1], 900)).unwrap();
    h.faults.op = Some("write-file");
    while h.complete_first("write-file") {}
    h.faults.op = None;
    h.faults.space = Some(10);
    assert!(h.complete_first("write f"));
    h.faults.space = None;
    h.complete_disk();
    assert_eq!(h.log.take_lost().unwrap().from, Offset(3));

    let info = h.append(&batch(&[1], 900)).unwrap();
    assert_eq!(info.base_offset, Offset(3));
    h.complete_disk();
    assert_eq!(h.log.high_watermark_limit(), Offset(4));
    h.cut_power();
    h.open(false);
    assert_eq!(h.replay().len(), 4);
}

/// A large batch rolls the segment, and these files of its successor cannot be made. What the full one
/// still has to write is on its way.
fn fail_a_roll(h: &mut Harness, files: [&'static str; 3]) {
    h.append(&batch(&[1], 2_000)).unwrap();
    for file in files {
        h.faults.op = Some(file);
        assert!(h.complete_first(file));
    }
    h.faults.op = None;
    while h.complete_first("remove-file") || h.complete_first("sync-dir") {}
}

/// Found by the simulator: the next segment was opened before the end of the one before was flushed,
/// and what lay there was acknowledged.
#[test]
fn what_a_failed_roll_wrote_does_not_close_the_segment_for_the_next_roll() {
    let mut h = Harness::new(tiny(), Durability::Fsync);
    for _ in 0..3 {
        h.append(&batch(&[1], 900)).unwrap();
    }
    h.complete_disk();
    // The index entries of the full segment are on their way when its successor cannot be made.
    fail_a_roll(&mut h, ["03.log", "03.index", "03.timeindex"]);
    // There is room for a small batch; a large one rolls again, and this time the files are made.
    h.append(&batch(&[1], 10)).unwrap();
    assert!(h.complete_first("write f"));
    h.append(&batch(&[1], 2_000)).unwrap();
    while h.complete_first("write-file") || h.complete_first("sync-dir") {}
    assert!(
        h.complete_first("write-at"),
        "the entries are still on their way"
    );
    let left = ["write-at", "sync-file", "sync-dir"];
    while left.iter().any(|op| h.complete_first(op)) {}
    assert_eq!(h.log.high_watermark_limit(), Offset(3), "no flush is over");
    h.complete_disk();
    assert_eq!(h.log.high_watermark_limit(), Offset(5));
    h.cut_power();
    h.open(false);
    assert_eq!(h.replay().len(), 5);
}

/// Found by the simulator (compaction 965): the closing time entry of a segment was on its way when its
/// successor could not be made. What the next append had in its place counted as written.
#[test]
fn an_entry_in_the_place_of_one_that_a_failed_roll_wrote_is_written() {
    let mut h = Harness::new(tiny(), Durability::Fsync);
    for _ in 0..2 {
        h.append(&batch(&[1], 900)).unwrap();
    }
    h.append(&batch(&[2], 900)).unwrap();
    h.complete_disk();
    for timestamp in [3, 4] {
        h.append(&batch(&[timestamp], 100)).unwrap();
    }
    h.complete_disk();
    fail_a_roll(&mut h, ["05.log", "05.index", "05.timeindex"]);
    // There is room for a small batch, far enough from the last entry for one of its own.
    h.append(&batch(&[5], 100)).unwrap();
    h.complete_disk();
    h.append(&batch(&[1], 2_000)).unwrap();
    h.complete_disk();
    h.close();
    assert_indexes(&h, 300);
}

#[test]
fn a_failed_flush_acknowledges_nothing_and_the_log_reopens() {
    let mut h = Harness::new(roomy(), Durability::Fsync);
    h.append(&batch(&[1], 100)).unwrap();
    h.complete_disk();
    h.append(&batch(&[2], 100)).unwrap();
    h.faults.flushes = 1;
    h.complete_disk();
    assert_eq!(h.log.take_lost().unwrap().from, Offset(1));
    assert!(matches!(h.log.state(), LogState::Reopening(_)));
    assert_eq!(h.append(&batch(&[3], 100)), Err(AppendError::Storage));
    assert_eq!(h.log.high_watermark_limit(), Offset(1));
    assert_eq!(h.replay().len(), 1, "readable below the high watermark");

    h.trace.clear();
    h.advance_ms(100);
    assert_eq!(*h.log.state(), LogState::Ready);
    assert_eq!(h.log.high_watermark_limit(), Offset(2));
    let rewritten = h.trace.iter().position(|line| line.contains("rewrite"));
    let flushed = h.trace.iter().position(|line| line.starts_with("flush"));
    assert!(rewritten.unwrap() < flushed.unwrap(), "{:#?}", h.trace);

    // What is visible now is really on the disk.
    h.cut_power();
    h.open(false);
    assert_eq!(h.replay().len(), 2);
}

#[test]
fn pages_dropped_between_the_scan_and_the_rewriting_are_not_taken_for_records() {
    let mut h = Harness::new(roomy(), Durability::Fsync);
    h.append(&batch(&[1], 100)).unwrap();
    h.complete_disk();
    h.append(&batch(&[2], 100)).unwrap();
    h.faults.flushes = 1;
    h.complete_disk();
    h.trace.clear();
    h.wait_ms(100);
    h.complete_up_to("rewrite");
    // The cache forgets what the failed flush did not write.
    h.evict_clean_pages();
    h.complete_disk();
    assert!(matches!(h.log.state(), LogState::Reopening(_)));
    assert_eq!(h.log.high_watermark_limit(), Offset(1), "nothing counts");

    h.advance_ms(200);
    assert_eq!(*h.log.state(), LogState::Ready);
    assert_eq!(
        h.log.high_watermark_limit(),
        Offset(1),
        "none was acknowledged"
    );
    h.append(&batch(&[3], 100)).unwrap();
    h.complete_disk();
    h.cut_power();
    h.open(false);
    assert_eq!(h.replay().len(), 2);
}

#[test]
fn a_failed_flush_is_never_simply_called_again() {
    let mut h = Harness::new(roomy(), Durability::Fsync);
    h.append(&batch(&[1], 100)).unwrap();
    h.faults.flushes = 1;
    h.complete_disk();
    h.trace.clear();
    h.advance_ms(99);
    assert!(h.trace.is_empty(), "{:#?}", h.trace);
}

#[test]
fn the_back_off_doubles_while_flushes_fail() {
    let mut h = Harness::new(roomy(), Durability::Fsync);
    h.append(&batch(&[1], 100)).unwrap();
    h.faults.flushes = 4;
    h.complete_disk();
    for back_off in [100, 200, 400, 800] {
        assert!(matches!(h.log.state(), LogState::Reopening(_)));
        h.advance_ms(back_off - 1);
        assert!(
            matches!(h.log.state(), LogState::Reopening(_)),
            "{back_off}"
        );
        h.advance_ms(1);
    }
    assert_eq!(*h.log.state(), LogState::Ready);
    assert_eq!(h.log.high_watermark_limit(), Offset(1));
}

#[test]
fn a_failed_directory_flush_reopens_too() {
    let mut h = Harness::new(tiny(), Durability::Fsync);
    for _ in 0..4 {
        h.append(&batch(&[1], 900)).unwrap();
    }
    h.complete_disk();
    h.faults.op = Some("sync-dir");
    h.append(&batch(&[1], 900)).unwrap();
    h.complete_disk();
    assert!(matches!(h.log.state(), LogState::Reopening(_)));
    h.faults.op = None;
    h.advance_ms(200);
    assert_eq!(*h.log.state(), LogState::Ready);
    assert_eq!(h.log.log_end_offset(), Offset(4));
    h.append(&batch(&[1], 900)).unwrap();
    h.complete_disk();
    h.cut_power();
    h.open(false);
    assert_eq!(h.replay().len(), 5);
}

#[test]
fn index_entries_that_cannot_be_written_wait() {
    let config = LogConfig {
        index_interval_bytes: 0,
        ..roomy()
    };
    let mut h = Harness::new(config, Durability::Fsync);
    h.faults.op = Some("write-at");
    for _ in 0..600 {
        h.append(&batch(&[1], 10)).unwrap();
    }
    h.complete_disk();
    assert_eq!(*h.log.state(), LogState::Ready);
    assert_eq!(h.told(Level::Warn).len(), 1);
    assert_eq!(h.file("00000000000000000000.index").len(), 0);
    for _ in 0..10 {
        h.advance_ms(1_000);
    }
    assert_eq!(h.told(Level::Warn).len(), 1, "what goes on is said once");
    h.faults.op = None;
    h.advance_ms(1_000);
    assert_eq!(h.file("00000000000000000000.index").len(), 599 * 8);
}

#[cfg(feature = "bugs")]
mod planted {
    use super::*;
    use crate::bugs::{Bug, Bugs};

    #[test]
    fn a_flush_that_is_called_again_loses_what_was_acknowledged() {
        let bug = Bugs::plant(Bug::RetryFailedFlush);
        let mut h = Harness::with_bugs(roomy(), Durability::Fsync, bug);
        h.append(&batch(&[1], 100)).unwrap();
        h.faults.flushes = 1;
        h.complete_disk();
        assert_eq!(h.log.high_watermark_limit(), Offset(1));
        h.cut_power();
        h.open(false);
        assert_eq!(h.replay().len(), 0);
    }

    #[test]
    fn an_early_acknowledgement_is_lost() {
        let bug = Bugs::plant(Bug::AckBeforeFlush);
        let mut h = Harness::with_bugs(roomy(), Durability::Fsync, bug);
        h.append(&batch(&[1], 100)).unwrap();
        h.complete_one();
        assert_eq!(h.log.high_watermark_limit(), Offset(1));
        h.cut_power();
        h.open(false);
        assert_eq!(h.replay().len(), 0);
    }

    #[test]
    fn a_forgotten_directory_loses_a_segment() {
        let bug = Bugs::plant(Bug::ForgetDirectorySync);
        let mut h = Harness::with_bugs(tiny(), Durability::Fsync, bug);
        for _ in 0..5 {
            h.append(&batch(&[1], 900)).unwrap();
        }
        h.complete_disk();
        assert_eq!(h.log.high_watermark_limit(), Offset(5));
        h.cut_power();
        h.open(false);
        assert_eq!(h.replay().len(), 4);
    }
}
