//! Idempotent producers: retries, fencing, and what a crash leaves of them.

use std::string::{String, ToString};
use std::vec::Vec;

use bytes::Bytes;

use crate::ids::{Offset, ProducerId};
use crate::log::harness::{Harness, batch, produced, produced_of, tiny};
use crate::log::producer_state::{ProducerBatch, ProducerError};
use crate::log::{AppendError, AppendInfo, Durability, LogConfig, LogState, producer_snapshot};
use crate::report::Level;

fn roomy() -> LogConfig {
    LogConfig {
        segment_bytes: 1 << 20,
        ..tiny()
    }
}

fn harness(config: LogConfig) -> Harness {
    Harness::new(config, Durability::Fsync)
}

/// Appends and flushes; the base offset.
fn append(h: &mut Harness, producer: i64, sequence: i32, records: usize) -> i64 {
    let info = h.append(&produced(producer, 0, sequence, records)).unwrap();
    assert!(!info.duplicate);
    h.complete_disk();
    info.base_offset.0
}

fn snapshots(h: &Harness) -> Vec<String> {
    let names = h.names().into_iter();
    names.filter(|name| name.ends_with(".snapshot")).collect()
}

fn snapshot_name(offset: i64) -> String {
    std::format!("{offset:020}.snapshot")
}

/// What is known of all producers, as far as it must survive.
fn known(h: &Harness) -> Vec<(ProducerId, i16, Vec<ProducerBatch>)> {
    let producers = h.log.producers().iter();
    producers
        .map(|(id, state)| (id, state.epoch.0, state.batches().to_vec()))
        .collect()
}

#[test]
fn a_retry_is_answered_with_the_offsets_of_the_original() {
    let mut h = harness(roomy());
    append(&mut h, 7, 0, 3);
    h.append(&batch(&[1], 10)).unwrap();
    append(&mut h, 7, 3, 2);
    let again = h.append(&produced(7, 0, 0, 3)).unwrap();
    assert_eq!(
        again,
        AppendInfo {
            base_offset: Offset(0),
            last_offset: Offset(2),
            log_append_time: None,
            log_start_offset: Offset(0),
            duplicate: true,
        }
    );
    assert_eq!(h.log.log_end_offset(), Offset(6), "nothing was appended");
}

#[test]
fn a_retry_of_a_batch_that_waits_for_its_flush_waits_with_it() {
    let mut h = harness(roomy());
    let batch = produced(7, 0, 0, 3);
    let first = h.append(&batch).unwrap();
    let again = h.append(&batch).unwrap();
    assert!(again.duplicate);
    assert_eq!(again.last_offset, first.last_offset);
    assert_eq!(h.log.high_watermark_limit(), Offset(0));
    h.complete_disk();
    assert_eq!(h.log.high_watermark_limit(), Offset(3));
}

#[test]
fn with_log_append_time_a_retry_has_the_time_of_the_original() {
    let config = LogConfig {
        log_append_time: true,
        ..roomy()
    };
    let mut h = harness(config);
    let first = h.append(&produced(7, 0, 0, 1)).unwrap();
    h.complete_disk();
    h.advance_ms(1_234);
    let again = h.append(&produced(7, 0, 0, 1)).unwrap();
    assert_eq!(again.log_append_time, first.log_append_time);
    assert!(first.log_append_time.is_some());
}

#[test]
fn a_gap_an_old_epoch_and_a_new_epoch_that_does_not_begin_at_0_are_refused() {
    let mut h = harness(roomy());
    h.append(&produced(7, 2, 0, 3)).unwrap();
    for (epoch, sequence) in [(2, 4), (2, 2), (3, 1)] {
        let refused = h.append(&produced(7, epoch, sequence, 1));
        assert!(
            matches!(
                refused,
                Err(AppendError::Producer(ProducerError::OutOfOrder { .. }))
            ),
            "{epoch} {sequence}: {refused:?}"
        );
    }
    let fenced = h.append(&produced(7, 1, 3, 1));
    assert!(matches!(
        fenced,
        Err(AppendError::Producer(ProducerError::StaleEpoch { .. }))
    ));
    assert_eq!(h.log.log_end_offset(), Offset(3));
    assert_eq!(
        h.append(&produced(7, 3, 0, 1)).unwrap().base_offset,
        Offset(3)
    );
}

#[test]
fn batches_of_one_append_follow_each_other() {
    let mut h = harness(roomy());
    let good = [
        produced(7, 0, 0, 2),
        produced(7, 0, 2, 1),
        produced(8, 0, 9, 1),
    ];
    h.append_all(&good).unwrap();
    let gap = [produced(7, 0, 3, 1), produced(7, 0, 5, 1)];
    assert!(h.append_all(&gap).is_err());
    assert_eq!(h.log.log_end_offset(), Offset(4), "all or nothing");
}

#[test]
fn what_a_full_disk_takes_back_was_never_sent() {
    let mut h = harness(roomy());
    for sequence in 0..7 {
        append(&mut h, 7, sequence, 1);
    }
    let before = known(&h);
    let first_lost = produced(7, 0, 7, 1);
    h.append(&first_lost).unwrap();
    h.append(&produced(7, 1, 0, 1)).unwrap();
    h.append(&produced(9, 0, 0, 1)).unwrap();
    h.faults.space = Some(40);
    h.complete_disk();
    assert_eq!(h.log.log_end_offset(), Offset(7));
    assert_eq!(
        known(&h),
        before,
        "with all that the lost ones had displaced"
    );
    h.faults.space = None;
    let info = h.append(&first_lost).unwrap();
    assert_eq!((info.base_offset, info.duplicate), (Offset(7), false));
}

#[test]
fn after_a_failed_flush_the_producers_are_those_of_what_was_kept() {
    let mut h = harness(roomy());
    append(&mut h, 7, 0, 1);
    h.append(&produced(7, 0, 1, 1)).unwrap();
    h.faults.flushes = 1;
    h.complete_disk();
    assert!(matches!(h.log.state(), LogState::Reopening(_)));
    h.advance_ms(200);
    assert_eq!(*h.log.state(), LogState::Ready);
    // The second was written, and is kept.
    let again = h.append(&produced(7, 0, 1, 1)).unwrap();
    assert_eq!((again.base_offset, again.duplicate), (Offset(1), true));
    assert!(h.append(&produced(7, 0, 3, 1)).is_err());
}

#[test]
fn each_roll_and_a_clean_stop_leave_a_snapshot_and_only_the_newest_stop_counts() {
    let mut h = harness(tiny());
    for sequence in 0..9 {
        h.append(&produced_of(7, 0, sequence, 1, 900)).unwrap();
        h.complete_disk();
    }
    assert_eq!(snapshots(&h), [4, 8].map(snapshot_name));
    h.close();
    assert_eq!(snapshots(&h), [4, 8, 9].map(snapshot_name));
    h.open(true);
    append(&mut h, 7, 9, 1);
    h.close();
    assert_eq!(snapshots(&h), [4, 8, 9, 10].map(snapshot_name));
    h.open(true);
    assert_eq!(snapshots(&h), [4, 8, 10].map(snapshot_name));
    let content = Bytes::from(h.file(&snapshot_name(8)));
    let read = producer_snapshot::decode(&content).unwrap();
    let (id, state) = &read[0];
    assert_eq!((read.len(), *id), (1, ProducerId(7)));
    assert_eq!(state.last().unwrap().last_offset, Offset(7));
}

/// Three producers, one of which has been idle since the first segment, in many segments.
fn three_producers() -> Harness {
    let mut h = harness(tiny());
    for sequence in [0, 2, 4] {
        append(&mut h, 1, sequence, 2);
    }
    h.append(&produced(3, 0, i32::MAX - 2, 4)).unwrap();
    h.append(&produced(3, 0, 1, 1)).unwrap();
    for sequence in 0..20 {
        h.append(&produced_of(2, 4, sequence, 1, 700)).unwrap();
        h.complete_disk();
    }
    h.append(&produced(2, 5, 0, 1)).unwrap();
    h.append(&produced(2, 5, 1, 1)).unwrap();
    h.complete_disk();
    assert!(snapshots(&h).len() >= 4);
    h
}

#[test]
fn the_last_five_batches_of_each_producer_are_known_after_every_kind_of_end() {
    let mut h = three_producers();
    let before = known(&h);
    let counts: Vec<usize> = before.iter().map(|(_, _, batches)| batches.len()).collect();
    assert_eq!(counts, [3, 2, 2]);
    h.persist();
    h.kill();
    h.open(false);
    assert_eq!(known(&h), before, "killed");
    h.cut_power();
    h.open(false);
    assert_eq!(known(&h), before, "power cut");
    h.close();
    h.open(true);
    assert_eq!(known(&h), before, "clean stop");
    let again = h.append(&produced(1, 0, 2, 2)).unwrap();
    assert_eq!((again.base_offset, again.duplicate), (Offset(2), true));
    let again = h.append(&produced(3, 0, i32::MAX - 2, 4)).unwrap();
    assert_eq!((again.base_offset, again.duplicate), (Offset(6), true));
}

#[test]
fn without_or_with_damaged_snapshots_the_whole_log_is_read() {
    for damage in [false, true] {
        let mut h = three_producers();
        let before = known(&h);
        h.close();
        for name in snapshots(&h) {
            if damage {
                h.file_mut(&name)[9] ^= 1;
            } else {
                h.remove_file(&name);
            }
        }
        h.open(true);
        assert_eq!(known(&h), before);
        let told = h.told(Level::Warn).len();
        assert_eq!(told > 0, damage);
        assert_eq!(snapshots(&h), Vec::<String>::new());
    }
}

#[test]
fn a_snapshot_is_the_same_when_it_is_made_from_the_log_alone() {
    let mut h = three_producers();
    h.close();
    let end = snapshot_name(h.log.log_end_offset().0);
    let original = h.file(&end);
    for name in snapshots(&h) {
        h.remove_file(&name);
    }
    h.open(true);
    h.close();
    assert_eq!(h.file(&end), original);
}

#[test]
fn a_torn_tail_takes_its_sequences_along() {
    let mut h = harness(roomy());
    append(&mut h, 7, 0, 1);
    h.persist();
    append(&mut h, 7, 1, 1);
    let file = h.file_mut("00000000000000000000.log");
    let length = file.len();
    file.truncate(length - 1);
    h.open(false);
    assert_eq!(h.log.log_end_offset(), Offset(1));
    assert_eq!(append(&mut h, 7, 1, 1), 1);
}

#[test]
fn retention_leaves_the_snapshot_that_says_what_it_deleted() {
    let mut h = three_producers();
    let before = known(&h);
    let start = h.log.high_watermark_limit();
    h.set_log_start(start.plus(-1));
    h.advance_ms(2_000);
    let kept = snapshots(&h);
    let first = h.names().into_iter().find(|name| name.ends_with(".log"));
    let base = first.unwrap().replace(".log", ".snapshot");
    assert_eq!(kept, [base], "that of the one segment left");
    h.kill();
    h.open(false);
    // What the snapshot has is each producer's last batch; the others were deleted.
    for ((id, epoch, batches), (id_now, epoch_now, now)) in before.iter().zip(&known(&h)) {
        assert_eq!((id, epoch, batches.last()), (id_now, epoch_now, now.last()));
    }
    let again = h.append(&produced(1, 0, 4, 2)).unwrap();
    assert_eq!((again.base_offset, again.duplicate), (Offset(4), true));
}

#[test]
fn segments_without_a_snapshot_behind_them_wait_for_one() {
    let mut h = three_producers();
    h.close();
    for name in snapshots(&h) {
        h.remove_file(&name);
    }
    h.open(true);
    h.faults.op = Some("snapshot");
    let before = known(&h);
    let end = h.log.log_end_offset();
    h.set_log_start(end.plus(-1));
    h.advance_ms(500);
    let first = "00000000000000000000.log".to_string();
    assert!(h.names().contains(&first), "no snapshot, no deletion");
    h.faults.op = None;
    h.advance_ms(5_000);
    assert!(!h.names().contains(&first));
    assert_eq!(snapshots(&h), [snapshot_name(end.0)]);
    h.kill();
    h.open(false);
    assert_eq!(known(&h).len(), before.len());
}

#[test]
fn an_idle_producer_is_forgotten_and_may_begin_anywhere() {
    let config = LogConfig {
        producer_id_expiration_ms: 10_000,
        ..roomy()
    };
    let mut h = harness(config);
    append(&mut h, 7, 0, 1);
    h.advance_ms(9_999);
    assert_eq!(h.log.producers().len(), 1);
    append(&mut h, 8, 0, 1);
    h.advance_ms(1);
    assert_eq!(
        known(&h).iter().map(|(id, ..)| id.0).collect::<Vec<_>>(),
        [8]
    );
    assert_eq!(append(&mut h, 7, 55, 1), 2);
}
