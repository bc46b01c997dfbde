use std::string::ToString;
use std::vec::Vec;

use crate::ids::Offset;
use crate::log::error::DamageKind;
use crate::log::harness::{Harness, batch, tiny};
use crate::log::{Durability, LogConfig, LogError, LogState};
use crate::report::Level;

const FIRST: &str = "00000000000000000000.log";
const SECOND: &str = "00000000000000000004.log";

/// Six batches, four of which fill the first segment, all flushed.
fn two_segments() -> Harness {
    let mut h = Harness::new(tiny(), Durability::Fsync);
    for i in 0..6 {
        h.append(&batch(&[1_000 + i], 900)).unwrap();
    }
    h.complete_disk();
    assert_eq!(h.log.high_watermark_limit(), Offset(6));
    h
}

#[test]
fn after_a_clean_stop_nothing_is_scanned() {
    let mut h = two_segments();
    h.close();
    h.trace.clear();
    h.open(true);
    assert_eq!(*h.log.state(), LogState::Ready);
    assert_eq!(h.log.log_end_offset(), Offset(6));
    assert_eq!(h.log.high_watermark_limit(), Offset(6));
    assert!(
        h.trace.iter().all(|line| !line.contains("scan-segment")),
        "{:#?}",
        h.trace
    );
    assert!(h.trace.iter().all(|line| !line.starts_with("manage")));
    h.append(&batch(&[9], 10)).unwrap();
    h.complete_disk();
    assert_eq!(h.replay().len(), 7);
}

#[test]
fn a_killed_process_loses_nothing_that_was_flushed() {
    let mut h = two_segments();
    h.append(&batch(&[9], 10)).unwrap();
    h.complete_one();
    h.kill();
    h.open(false);
    // The seventh was written, and so it may stay.
    assert_eq!(h.replay().len(), 7);
    assert!(h.told(Level::Warn).is_empty());
}

#[test]
fn a_tail_cut_at_any_length_is_a_prefix_of_whole_batches() {
    let mut h = two_segments();
    h.persist();
    let point = h.log.recovery_point();
    assert_eq!((point.segment_base, point.position.0), (Offset(4), 0));
    let whole = h.file(SECOND);
    let one = whole.len() / 2;
    let disk = h.disk.clone();
    for length in 0..=whole.len() {
        h.disk = disk.clone();
        h.file_mut(SECOND).truncate(length);
        h.open(false);
        let kept = length / one;
        assert_eq!(h.replay().len(), 4 + kept, "{length}");
        assert_eq!(h.file(SECOND), whole[..kept * one], "{length}");
        let cut = length - kept * one;
        let told = h.told(Level::Warn);
        assert_eq!(told.len(), usize::from(cut > 0), "{length}: {told:?}");
        if cut > 0 {
            assert!(
                told[0].contains(&std::format!("cut_bytes={cut} ")),
                "{told:?}"
            );
        }
    }
}

#[test]
fn any_flipped_byte_in_the_tail_cuts_there() {
    let mut h = two_segments();
    h.persist();
    let whole = h.file(SECOND);
    let one = whole.len() / 2;
    let disk = h.disk.clone();
    for at in one..whole.len() {
        // The leader epoch is outside the CRC, and any value of it makes sense.
        if (one + 12..one + 16).contains(&at) {
            continue;
        }
        h.disk = disk.clone();
        h.file_mut(SECOND)[at] ^= 0x10;
        h.open(false);
        assert_eq!(h.replay().len(), 5, "{at}");
        assert_eq!(h.log.log_end_offset(), Offset(5), "{at}");
        assert_eq!(h.file(SECOND), whole[..one], "{at}");
    }
}

#[test]
fn zeros_and_garbage_behind_the_end_are_cut() {
    for garbage in [[0_u8; 700].to_vec(), (0..700).map(|i| i as u8).collect()] {
        let mut h = two_segments();
        h.persist();
        let whole = h.file(SECOND);
        h.file_mut(SECOND).extend(&garbage);
        h.open(false);
        assert_eq!(h.replay().len(), 6);
        assert_eq!(h.file(SECOND), whole);
    }
}

#[test]
fn a_whole_batch_with_another_base_offset_is_cut() {
    let mut h = two_segments();
    h.persist();
    let first = h.file(FIRST);
    let one = first.len() / 4;
    // Its CRC holds: it is a batch of this log, at the wrong place.
    h.file_mut(SECOND).extend(&first[..one]);
    h.open(false);
    assert_eq!(h.log.log_end_offset(), Offset(6));
    assert!(h.told(Level::Warn)[0].contains("base offset 0 where 6 was expected"));
}

#[test]
fn a_cut_in_an_older_segment_removes_the_later_ones_newest_first() {
    let mut h = Harness::new(tiny(), Durability::Fsync);
    for i in 0..14 {
        h.append(&batch(&[1_000 + i], 900)).unwrap();
    }
    h.complete_disk();
    // Nothing was persisted, so all of it is above the recovery point.
    let middle = h.file_mut(SECOND);
    middle.truncate(middle.len() - 1);
    h.trace.clear();
    h.open(false);
    assert_eq!(h.log.log_end_offset(), Offset(7));
    assert_eq!(h.replay().len(), 7);
    let removed: Vec<_> = h
        .trace
        .iter()
        .filter(|line| line.contains("remove-file") && line.ends_with(".log"))
        .map(|line| line.rsplit('/').next().unwrap().to_string())
        .collect();
    assert_eq!(
        removed,
        ["00000000000000000012.log", "00000000000000000008.log"]
    );
    h.append(&batch(&[1], 900)).unwrap();
    h.complete_disk();
    assert_eq!(h.log.high_watermark_limit(), Offset(8));
}

#[test]
fn recovery_may_be_cut_off_anywhere_and_begun_again() {
    let mut h = Harness::new(tiny(), Durability::Fsync);
    for i in 0..14 {
        h.append(&batch(&[1_000 + i], 900)).unwrap();
    }
    h.complete_disk();
    let middle = h.file_mut(SECOND);
    middle.truncate(middle.len() - 1);
    h.remove_file("00000000000000000000.index");
    let torn = h.disk.clone();
    h.open(false);
    let expected = h.replay();
    let files = |h: &Harness| -> Vec<_> {
        let contents = h.disk.files.iter();
        contents
            .map(|(path, file)| (path.clone(), file.cached.clone()))
            .collect()
    };
    let after = files(&h);

    for steps in 0.. {
        for power in [false, true] {
            h.disk = torn.clone();
            h.begin_open(false);
            let done = (0..steps).filter(|_| h.complete_one()).count();
            if power {
                // The torn file itself was never flushed in this test: a process crash it is, but
                // with what the recovery had not flushed yet written back at will.
                h.kill();
            } else {
                h.kill();
            }
            h.open(false);
            assert_eq!(h.replay(), expected, "after {steps}");
            assert_eq!(files(&h), after, "after {steps}");
            if done < steps {
                return;
            }
        }
    }
}

#[test]
fn opening_twice_changes_nothing() {
    let mut h = two_segments();
    h.file_mut(SECOND).extend([1, 2, 3]);
    h.open(false);
    let files = h.disk.files.clone();
    h.open(false);
    for (path, file) in &h.disk.files {
        assert_eq!(file.cached, files[path].cached, "{path}");
    }
    assert!(h.told(Level::Warn).is_empty());
}

#[test]
fn what_a_failed_flush_left_in_the_cache_is_written_again_at_the_start() {
    let config = LogConfig {
        segment_bytes: 1 << 20,
        ..tiny()
    };
    let mut h = Harness::new(config, Durability::Fsync);
    h.append(&batch(&[1], 100)).unwrap();
    h.faults.flushes = 1;
    h.complete_disk();
    // The process dies before it reopens the log. The bytes are cached, and count as clean.
    h.kill();
    h.open(false);
    assert_eq!(h.log.high_watermark_limit(), Offset(1));
    h.cut_power();
    h.open(false);
    assert_eq!(h.replay().len(), 1);
}

fn damage(h: &Harness) -> &crate::log::Damage {
    match h.log.state() {
        LogState::Offline(LogError::Damaged(damage)) => damage,
        state => panic!("{state:?}"),
    }
}

#[test]
fn a_file_shorter_than_what_was_flushed_is_damage() {
    let mut h = two_segments();
    h.advance_ms(6_000);
    h.persist();
    assert_eq!(h.log.recovery_point().offset, Offset(6));
    let second = h.file_mut(SECOND);
    second.truncate(second.len() - 1);
    h.open(false);
    assert!(matches!(damage(&h).kind, DamageKind::TooShort { .. }));
    assert!(h.told(Level::Error)[0].contains(SECOND));
    assert!(h.told(Level::Error)[0].contains("check the disk"));
    // Nothing was touched.
    assert!(!h.trace.last().unwrap().starts_with("manage"));
}

#[test]
fn a_missing_segment_is_damage() {
    let mut h = two_segments();
    h.persist();
    h.remove_file(FIRST);
    h.open(false);
    assert_eq!(damage(&h).kind, DamageKind::SegmentMissing);
}

#[test]
fn a_closed_segment_that_lost_its_end_is_damage() {
    let mut h = two_segments();
    h.persist();
    let one = h.file(FIRST).len() / 4;
    h.file_mut(FIRST).truncate(3 * one);
    h.open(false);
    assert!(matches!(
        damage(&h).kind,
        DamageKind::Gap { found: Offset(4) }
    ));
}

#[test]
fn a_missing_directory_is_a_typed_error() {
    let mut h = two_segments();
    h.disk = crate::log::harness::Disk::default();
    h.open(false);
    assert!(matches!(
        h.log.state(),
        LogState::Offline(LogError::DirectoryMissing(_))
    ));
}

#[test]
fn the_recovery_point_never_passes_what_is_flushed() {
    let mut h = Harness::new(tiny(), Durability::Fsync);
    for i in 0..30 {
        h.append(&batch(&[i], 500)).unwrap();
        for _ in 0..3 {
            h.complete_one();
            assert!(h.log.recovery_point().offset <= h.log.high_watermark_limit());
            h.persist();
            let disk = h.disk.clone();
            // A power cut here loses nothing below it.
            let mut cut = Harness::new(tiny(), Durability::Fsync);
            cut.disk = disk;
            cut.persisted = h.persisted;
            cut.cut_power();
            cut.open(false);
            assert_eq!(*cut.log.state(), LogState::Ready, "{i}");
            assert!(cut.log.log_end_offset() >= h.log.high_watermark_limit());
        }
    }
}

#[test]
fn a_checkpoint_moves_the_recovery_point_after_five_seconds() {
    let config = LogConfig {
        segment_bytes: 1 << 20,
        index_interval_bytes: 0,
        ..tiny()
    };
    let mut h = Harness::new(config, Durability::Fsync);
    for i in 0..5 {
        h.append(&batch(&[i], 500)).unwrap();
    }
    h.complete_disk();
    assert_eq!(h.log.recovery_point().offset, Offset(0));
    h.log.take_recovery_point_moved();
    h.advance_ms(4_999);
    assert_eq!(h.log.recovery_point().offset, Offset(0));
    h.advance_ms(1);
    assert_eq!(h.log.recovery_point().offset, Offset(5));
    assert!(h.log.take_recovery_point_moved());
    assert_eq!(h.log.recovery_point().offset_index_entries, 4);
    h.persist();
    h.cut_power();
    h.trace.clear();
    h.open(false);
    assert!(
        h.trace.iter().any(|line| line.contains("scan-segment")
            && line.ends_with(&std::format!("from {}", h.log.recovery_point().position))),
        "{:#?}",
        h.trace
    );
}

#[test]
fn under_os_a_power_cut_may_take_the_tail_but_the_rest_is_a_prefix() {
    let mut h = Harness::new(tiny(), Durability::Os);
    for i in 0..14 {
        h.append(&batch(&[1_000 + i], 900)).unwrap();
    }
    h.complete_disk();
    assert_eq!(h.log.high_watermark_limit(), Offset(14));
    h.persist();
    h.cut_power();
    h.open(false);
    assert_eq!(*h.log.state(), LogState::Ready);
    let left = h.replay().len();
    assert_eq!(
        left, 12,
        "the closed segments were flushed in the background"
    );
    h.append(&batch(&[1], 10)).unwrap();
    h.complete_disk();
    assert_eq!(h.replay().len(), left + 1);
}

#[test]
fn leftovers_and_strays_are_removed() {
    let mut h = two_segments();
    let file = h.disk.files.values().next().unwrap().clone();
    for name in [
        "00000000000000000000.log.deleted",
        "00000000000000000099.index",
        "leader-epoch-checkpoint.tmp",
    ] {
        let path = crate::ids::FilePath::from("t-0").join(name);
        h.disk.files.insert(path, file.clone());
    }
    h.open(false);
    let names = h.names();
    assert_eq!(names.len(), 8, "{names:?}");
}

#[test]
fn the_epoch_checkpoint_is_rebuilt_when_it_is_lost() {
    let mut h = two_segments();
    h.advance_ms(6_000);
    h.persist();
    let known = h.file("leader-epoch-checkpoint");
    assert_eq!(known, b"0\n1\n3 0\n");
    for clean in [true, false] {
        h.remove_file("leader-epoch-checkpoint");
        h.open(clean);
        assert_eq!(h.log.latest_epoch(), Some(crate::ids::LeaderEpoch(3)));
        assert_eq!(h.file("leader-epoch-checkpoint"), known);
    }
}

#[test]
fn an_empty_log_survives_everything() {
    let mut h = Harness::new(tiny(), Durability::Fsync);
    h.cut_power();
    h.open(false);
    assert_eq!(*h.log.state(), LogState::Ready);
    h.close();
    h.open(true);
    assert_eq!(*h.log.state(), LogState::Ready);
    assert_eq!(h.log.log_end_offset(), Offset(0));
}

#[cfg(feature = "bugs")]
#[test]
fn without_the_crc_recovery_keeps_a_torn_batch() {
    use crate::bugs::{Bug, Bugs};
    let bug = Bugs::plant(Bug::SkipCrcAtRecovery);
    let mut h = Harness::with_bugs(tiny(), Durability::Fsync, bug);
    h.append(&batch(&[1], 900)).unwrap();
    h.complete_disk();
    h.file_mut(FIRST)[500] ^= 1;
    h.open(false);
    assert_eq!(h.log.log_end_offset(), Offset(1));
}
