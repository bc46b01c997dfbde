use crate::connection::RequestId;
use crate::ids::{LeaderEpoch, Offset};
use crate::input::DiskErrorKind;
use crate::log::harness::{Harness, batch, tiny};
use crate::log::{AppendError, Durability, LogConfig, LogState};
use crate::partition::Partition;
use crate::time::Wall;
use crate::wire::ErrorCode;

#[test]
fn an_append_is_visible_once_it_is_flushed_and_not_before() {
    let mut h = Harness::new(tiny(), Durability::Fsync);
    let info = h.append(&batch(&[1, 2, 3], 10)).unwrap();
    assert_eq!((info.base_offset, info.last_offset), (Offset(0), Offset(2)));
    assert_eq!(h.log.log_end_offset(), Offset(3));
    assert!(h.complete_one());
    assert_eq!(h.trace.last().unwrap().split(' ').next(), Some("write"));
    assert_eq!(h.log.high_watermark_limit(), Offset(0));
    while !h.trace.last().unwrap().starts_with("flush") {
        assert!(h.complete_one());
    }
    assert_eq!(h.log.high_watermark_limit(), Offset(3));
}

#[test]
fn under_os_written_is_enough() {
    let mut h = Harness::new(tiny(), Durability::Os);
    h.append(&batch(&[1], 10)).unwrap();
    h.complete_disk();
    assert_eq!(h.log.high_watermark_limit(), Offset(1));
    assert!(!h.trace.iter().any(|line| line.starts_with("flush")));
}

#[test]
fn one_flush_covers_all_that_was_written_meanwhile() {
    let mut h = Harness::new(
        LogConfig {
            segment_bytes: 1 << 20,
            ..tiny()
        },
        Durability::Fsync,
    );
    h.append(&batch(&[1], 10)).unwrap();
    h.complete_one();
    for _ in 0..10 {
        h.append(&batch(&[1], 10)).unwrap();
    }
    h.complete_disk();
    assert_eq!(h.log.high_watermark_limit(), Offset(11));
    let flushes = h.trace.iter().filter(|line| line.starts_with("flush"));
    assert!(flushes.count() <= 3, "{:#?}", h.trace);
}

#[test]
fn a_roll_closes_the_old_segment_before_the_new_one_takes_writes() {
    let mut h = Harness::new(tiny(), Durability::Fsync);
    h.complete_disk();
    h.trace.clear();
    let mut appended = 0;
    while h.names().len() <= 4 {
        h.append(&batch(&[1], 900)).unwrap();
        appended += 1;
        h.complete_disk();
    }
    assert_eq!(h.log.high_watermark_limit(), Offset(appended));
    let at = |start: &str, end: &str| {
        let found = h
            .trace
            .iter()
            .rposition(|line| line.starts_with(start) && line.ends_with(end));
        found.unwrap_or_else(|| panic!("no {start}..{end} in {:#?}", h.trace))
    };
    let first_write = h
        .trace
        .iter()
        .rposition(|line| line.starts_with("open"))
        .unwrap();
    assert!(at("manage", "sync-file t-0/00000000000000000000.index") < first_write);
    assert!(at("manage", "sync-file t-0/00000000000000000000.timeindex") < first_write);
    let created = h
        .trace
        .iter()
        .position(|line| line.contains("write-file t-0/00000000000000000004.log"))
        .unwrap();
    let synced = h.trace[created..]
        .iter()
        .position(|line| line.ends_with("sync-dir t-0"))
        .unwrap();
    assert!(created + synced < first_write, "{:#?}", h.trace);
    let flushed = h
        .trace
        .iter()
        .position(|line| line.contains("write-at t-0/00000000000000000000.timeindex"))
        .unwrap();
    let last_flush_before = h.trace[..flushed]
        .iter()
        .rposition(|line| line.starts_with("flush"));
    assert!(last_flush_before.is_some());
}

/// A log in which so many bytes are worth a second flush.
fn flushing_beside(flush_beside_bytes: u64) -> Harness {
    let config = LogConfig {
        segment_bytes: 1 << 20,
        flush_beside_bytes,
        ..tiny()
    };
    Harness::new(config, Durability::Fsync)
}

#[test]
fn what_is_worth_it_is_flushed_beside_a_flush_that_is_under_way() {
    let mut h = flushing_beside(2_000);
    let mut write = |flushes_waiting: usize| {
        h.append(&batch(&[1], 900)).unwrap();
        h.complete_first("open");
        assert!(h.complete_first("write f"));
        let waiting = h.waiting().filter(|effect| effect.starts_with("flush"));
        assert_eq!(waiting.count(), flushes_waiting);
    };
    write(1);
    // 1 KB is not worth a second flush, 3 KB are, and there is never a third.
    write(1);
    write(1);
    write(2);
    for _ in 0..5 {
        write(2);
    }
    // What a flush covers is what is written when it is done, here all.
    h.complete_disk();
    assert_eq!(h.log.high_watermark_limit(), Offset(9));
    let flushes = h.trace.iter().filter(|line| line.starts_with("flush"));
    assert_eq!(flushes.count(), 2, "{:#?}", h.trace);
}

#[test]
fn of_two_flushes_the_later_one_may_end_first_and_covers_both() {
    let mut h = flushing_beside(1);
    h.append(&batch(&[1], 10)).unwrap();
    while h.complete_first("open") || h.complete_first("write f") {}
    let (file, first_end) = h.written();
    h.append(&batch(&[1], 10)).unwrap();
    assert!(h.complete_first("write f"));
    let (_, second_end) = h.written();
    h.with(|log, cx| log.on_flushed(cx, file, second_end));
    assert_eq!(h.log.high_watermark_limit(), Offset(2));
    h.with(|log, cx| log.on_flushed(cx, file, first_end));
    assert_eq!(h.log.high_watermark_limit(), Offset(2));
}

#[test]
fn a_flush_that_fails_beside_another_is_final_whatever_the_other_says() {
    let mut h = flushing_beside(1);
    for _ in 0..2 {
        h.append(&batch(&[1], 10)).unwrap();
        while h.complete_first("open") || h.complete_first("write f") {}
    }
    h.faults.flushes = 1;
    assert!(h.complete_first("flush"));
    assert_eq!(h.log.take_lost().map(|lost| lost.from), Some(Offset(0)));
    assert!(h.complete_first("flush"));
    assert_eq!(h.log.high_watermark_limit(), Offset(0));
}

/// Four batches fill a segment; the fifth is appended, and the disk does all but flush the directory.
fn roll_without_flushing_the_directory(flush_messages: Option<u64>) -> Harness {
    let config = LogConfig {
        flush_messages,
        ..tiny()
    };
    let mut h = Harness::new(config, Durability::Os);
    for _ in 0..4 {
        h.append(&batch(&[1], 900)).unwrap();
        h.complete_disk();
    }
    h.append(&batch(&[1], 900)).unwrap();
    while ["open", "write", "flush", "sync-file"]
        .iter()
        .any(|what| h.complete_first(what))
    {}
    h
}

#[test]
fn under_os_a_new_segment_takes_writes_before_its_name_is_durable() {
    let h = roll_without_flushing_the_directory(None);
    assert_eq!(h.log.high_watermark_limit(), Offset(5));
}

#[test]
fn what_lies_in_a_segment_whose_name_is_not_durable_does_not_count_as_flushed() {
    let mut h = roll_without_flushing_the_directory(Some(1));
    assert_eq!(h.log.high_watermark_limit(), Offset(4), "{:#?}", h.trace);
    while h.complete_first("sync-dir") {}
    assert_eq!(h.log.high_watermark_limit(), Offset(4), "{:#?}", h.trace);
    assert!(h.complete_first("flush"), "{:#?}", h.trace);
    assert_eq!(h.log.high_watermark_limit(), Offset(5));
}

#[test]
fn a_name_that_cannot_be_made_durable_takes_back_what_was_not_acknowledged() {
    let mut h = roll_without_flushing_the_directory(Some(1));
    h.faults.op = Some("sync-dir");
    assert!(h.complete_first("sync-dir"));
    h.faults.op = None;
    assert_eq!(h.log.take_lost().map(|lost| lost.from), Some(Offset(4)));
    h.complete_disk();
    h.advance_ms(1_000);
    h.append(&batch(&[1], 900)).unwrap();
    h.complete_disk();
    assert!(h.log.high_watermark_limit() > Offset(4));
}

/// Found by the simulator (idempotence 6892): a segment waited for the name of the one before, and whoever
/// fetched from the end was answered at once, as somebody who is behind.
#[test]
fn a_segment_that_nobody_has_begun_to_make_leaves_no_reader_behind() {
    let mut h = roll_without_flushing_the_directory(None);
    for _ in 0..4 {
        h.append(&batch(&[1], 900)).unwrap();
        while h.complete_first("write") {}
    }
    assert_eq!(h.log.high_watermark_limit(), Offset(8), "the ninth waits");
    assert!(h.log.is_on_older_segment(Offset(3)));
    assert!(!h.log.is_on_older_segment(Offset(7)));
    h.complete_disk();
    assert!(h.log.is_on_older_segment(Offset(7)));
}

#[test]
fn appends_during_a_roll_get_offsets_at_once_and_wait_for_the_disk() {
    let mut h = Harness::new(tiny(), Durability::Fsync);
    // Twelve batches of which four fill a segment, before the disk does anything.
    for i in 0..12 {
        let info = h.append(&batch(&[1], 900)).unwrap();
        assert_eq!(info.base_offset, Offset(i));
    }
    assert_eq!(h.log.high_watermark_limit(), Offset(0));
    h.complete_disk();
    assert_eq!(h.log.high_watermark_limit(), Offset(12));
    assert_eq!(h.replay().len(), 12);
}

#[test]
fn a_segment_rolls_by_the_records_own_time() {
    let config = LogConfig {
        segment_ms: 1_000,
        segment_bytes: 1 << 20,
        ..tiny()
    };
    let mut h = Harness::new(config, Durability::Fsync);
    for timestamp in [5_000, 6_000, 5_500] {
        h.append(&batch(&[timestamp], 10)).unwrap();
        h.complete_disk();
    }
    assert!(!h.names().contains(&"00000000000000000003.log".into()));
    h.append(&batch(&[6_001], 10)).unwrap();
    h.complete_disk();
    assert!(h.names().contains(&"00000000000000000003.log".into()));
}

#[test]
fn a_segment_rolls_before_its_index_is_full() {
    let config = LogConfig {
        segment_index_bytes: 24,
        index_interval_bytes: 0,
        segment_bytes: 1 << 20,
        ..tiny()
    };
    let mut h = Harness::new(config, Durability::Fsync);
    for timestamp in 1..20 {
        h.append(&batch(&[timestamp], 10)).unwrap();
        h.complete_disk();
    }
    for name in h.names() {
        if name.ends_with("index") {
            assert!(h.file(&name).len() <= 24, "{name}: {:?}", h.file(&name));
        }
    }
    assert_eq!(h.replay().len(), 19);
}

#[test]
fn the_settings_refuse_what_they_say() {
    let config = LogConfig {
        max_message_bytes: 200,
        timestamp_before_max_ms: 500,
        timestamp_after_max_ms: 100,
        compact: true,
        ..tiny()
    };
    let mut h = Harness::new(config, Durability::Fsync);
    let now = h.now.wall.0;
    assert!(matches!(
        h.append(&batch(&[now], 300)),
        Err(AppendError::MessageTooLarge { batch: 0, .. })
    ));
    for timestamp in [now - 501, now + 101] {
        assert_eq!(
            h.append(&batch(&[now, timestamp], 10)),
            Err(AppendError::InvalidTimestamp {
                batch: 0,
                timestamp
            })
        );
    }
    let mut keyless = batch(&[now], 10);
    keyless.facts.without_key.insert(0);
    assert_eq!(
        h.append_all(&[batch(&[now], 10), keyless]),
        Err(AppendError::RecordWithoutKey { batch: 1 })
    );
    assert_eq!(h.log.log_end_offset(), Offset(0), "all or nothing");
    h.append(&batch(&[now - 500, now + 100, -1], 10)).unwrap();
}

#[test]
fn log_append_time_is_stamped_and_believed() {
    let config = LogConfig {
        log_append_time: true,
        ..tiny()
    };
    let mut h = Harness::new(config, Durability::Fsync);
    h.now.wall = Wall(77_000);
    let info = h.append(&batch(&[5, 1], 10)).unwrap();
    assert_eq!(info.log_append_time, Some(77_000));
    h.complete_disk();
    let found = h.find_time(None).unwrap().unwrap();
    assert_eq!((found.timestamp, found.offset), (77_000, Offset(0)));
}

#[test]
fn flush_messages_holds_the_answer_back_until_the_flush() {
    let config = LogConfig {
        flush_messages: Some(3),
        ..tiny()
    };
    let mut h = Harness::new(config, Durability::Os);
    let first = batch(&[1, 2], 10);
    h.append(&first).unwrap();
    h.complete_disk();
    assert_eq!(h.log.high_watermark_limit(), Offset(2));
    h.append(&batch(&[1, 2], 10)).unwrap();
    h.complete_one();
    assert_eq!(h.log.high_watermark_limit(), Offset(2));
    assert_eq!(
        h.log.available_bytes(Offset(0), Offset(2)),
        Some(first.bytes.len() as u64),
        "what was acknowledged counts while the flush of the rest is under way"
    );
    h.complete_disk();
    assert_eq!(h.log.high_watermark_limit(), Offset(4));
    assert!(h.trace.last().unwrap().starts_with("flush"));
}

#[test]
fn flush_ms_flushes_in_the_background() {
    let config = LogConfig {
        flush_ms: Some(50),
        ..tiny()
    };
    let mut h = Harness::new(config, Durability::Os);
    h.append(&batch(&[1], 10)).unwrap();
    h.complete_disk();
    assert_eq!(h.log.high_watermark_limit(), Offset(1));
    h.advance_ms(49);
    assert!(!h.trace.iter().any(|line| line.starts_with("flush")));
    h.advance_ms(1);
    assert!(h.trace.iter().any(|line| line.starts_with("flush")));
    let flushes = h.trace.len();
    h.advance_ms(4_000);
    assert_eq!(h.trace.len(), flushes, "nothing new, nothing to flush");
}

#[test]
fn flush_ms_comes_back_to_what_was_not_written_yet_or_came_during_a_flush() {
    let config = LogConfig {
        flush_ms: Some(50),
        ..tiny()
    };
    let mut h = Harness::new(config, Durability::Os);
    let flushes = |h: &Harness| {
        let lines = h.trace.iter().filter(|line| line.starts_with("flush"));
        lines.count()
    };
    // The write takes longer than that.
    h.append(&batch(&[1], 10)).unwrap();
    h.wait_ms(50);
    h.complete_disk();
    assert_eq!(flushes(&h), 1);
    // And so does a flush, while another record's time comes that is still being written.
    h.append(&batch(&[2], 10)).unwrap();
    h.complete_one();
    h.wait_ms(50);
    h.append(&batch(&[3], 10)).unwrap();
    h.wait_ms(50);
    assert_eq!(flushes(&h), 1);
    h.complete_disk();
    assert_eq!(flushes(&h), 3);
    h.advance_ms(4_000);
    assert_eq!(flushes(&h), 3);
}

/// A log that could not be created, and its harness.
fn offline() -> Harness {
    let mut h = Harness::new(tiny(), Durability::Fsync);
    h.faults.op = Some("sync-dir");
    let spec = crate::log::LogSpec {
        id: h.log.id(),
        dir: "u-0".into(),
        config: tiny(),
        durability: Durability::Fsync,
        bugs: crate::bugs::Bugs::NONE,
    };
    let log = h.with(|_log, cx| {
        crate::log::Log::create(
            cx,
            spec,
            [("partition.metadata".into(), "version: 0\n".into())].into(),
        )
    });
    h.log = log;
    h.complete_disk();
    h
}

#[test]
fn a_log_that_could_not_be_created_is_offline() {
    match offline().log.state() {
        LogState::Offline(crate::log::LogError::Disk(error)) => {
            assert_eq!(error.kind, DiskErrorKind::NoSpace);
        }
        state => panic!("{state:?}"),
    }
}

/// No checkpoint names such a log, so nothing would ever end the wait.
#[test]
fn who_waits_for_deleted_records_is_refused_when_the_log_is_offline() {
    let mut partition = Partition::new("u-0".into(), offline().log, LeaderEpoch(0));
    partition.park_delete(Offset(5), RequestId(1), 2);
    let refused = Err(ErrorCode::KAFKA_STORAGE_ERROR);
    assert_eq!(partition.settle().deletes, [(RequestId(1), 2, refused)]);
    assert_eq!(partition.settle().deletes, []);
}
