//! The oracle is shown brokers that do wrong, and must say so.

use bytes::Bytes;
use odradek_core::effect::{Effect, FileOp, Part, Response, WriteData};
use odradek_core::ids::{ConnectionId, FileId, FilePath, Offset, OperationId, Position};
use odradek_core::log::config::{Durability, LogConfig};
use odradek_core::log::load_plan::LoadLog;
use odradek_core::time::{Mono, Now, Wall};
use odradek_core::wire::frame::{encode_request, encode_response};
use odradek_core::wire::messages::fetch::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, FetchableTopicResponse, PartitionData,
};
use odradek_core::wire::messages::produce::{
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse,
    TopicProduceData, TopicProduceResponse,
};
use odradek_core::wire::{Records, RequestBody, RequestHeader, ResponseBody};

use super::*;
use crate::batch::{self, HEADER_BYTES, Record};
use crate::disk::faults::DiskFault;

const LOG: &str = "t-0/00000000000000000000.log";
const PRODUCE: i16 = 9;
const FETCH: i16 = 11;

/// A broker of our own hand, with one partition.
struct Scene {
    oracle: Oracle,
    disk: Disk,
    file: FileId,
    inode: crate::disk::Inode,
    end: u64,
    next_offset: i64,
    last_request: i32,
}

impl Scene {
    fn new() -> Self {
        let mut disk = Disk::new();
        disk.create_dir(&"t-0".into()).unwrap();
        let inode = disk.create_file(&LOG.into()).unwrap();
        let ticket = disk.call_flush();
        disk.sync_dir(&"t-0".into(), ticket).unwrap();
        disk.sync_dir(&FilePath::root(), ticket).unwrap();
        let mut scene = Self {
            oracle: Oracle::new(Durability::Fsync, LogConfig::default()),
            disk,
            file: FileId(1),
            inode,
            end: 0,
            next_offset: 0,
            last_request: 0,
        };
        scene.begin();
        scene.at(1);
        scene
    }

    /// A process starts, and opens the log.
    fn begin(&mut self) {
        self.oracle.starting(&self.disk);
        self.oracle.started(&self.disk);
        self.effect(Effect::Open {
            file: FileId(1),
            path: LOG.into(),
            length: Position(0),
        });
    }

    fn at(&mut self, ms: u64) {
        self.oracle.tick(Now {
            mono: Mono(ms * 1_000_000),
            wall: Wall(ms as i64),
        });
    }

    fn effect(&mut self, effect: Effect) {
        self.oracle.effect(&effect, &self.disk);
    }

    /// Issues the write of one batch at an offset, which does nothing yet; its bytes.
    fn issue_at(&mut self, offset: i64, sent: &[u8]) -> Vec<u8> {
        let mut bytes = sent.to_vec();
        bytes[..8].copy_from_slice(&offset.to_be_bytes());
        self.effect(Effect::Write {
            file: self.file,
            position: Position(self.end),
            data: WriteData {
                header: *bytes.first_chunk::<HEADER_BYTES>().unwrap(),
                records: Bytes::copy_from_slice(&bytes[HEADER_BYTES..]),
            },
        });
        bytes
    }

    /// The log is read again as at a start, in the middle of a life.
    fn reopen(&mut self) {
        self.effect(Effect::Read {
            operation: OperationId(7),
            job: Box::new(ReadJob::LoadLog(LoadLog {
                dir: "t-0".into(),
                recovery_point: None,
                log_start: Offset(0),
                clean: false,
                gaps_end: Offset(0),
                index_interval_bytes: 4_096,
            })),
        });
        self.oracle.recovered("t-0", &self.disk);
    }

    fn manage(&mut self, op: FileOp) {
        self.effect(Effect::Manage {
            operation: OperationId(8),
            op,
        });
    }

    /// Issues and does the write of one batch at an offset; its bytes.
    fn write_at(&mut self, offset: i64, sent: &[u8]) -> Vec<u8> {
        let bytes = self.issue_at(offset, sent);
        self.disk
            .write(self.inode, self.end, bytes.clone().into())
            .unwrap();
        self.end += bytes.len() as u64;
        bytes
    }

    /// There is a file, and all of it is on the medium.
    fn put(&mut self, path: &str, text: &str) {
        let inode = self.disk.create_file(&path.into()).unwrap();
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        self.disk.write(inode, 0, bytes).unwrap();
        let ticket = self.disk.call_flush();
        self.disk.flush(inode, ticket).unwrap();
    }

    /// The log goes on in a new segment.
    fn roll(&mut self) {
        let file = FileId(self.file.0 + 1);
        let path = FilePath::from(format!("t-0/{:020}.log", self.next_offset).as_str());
        self.inode = self.disk.create_file(&path).unwrap();
        let ticket = self.disk.call_flush();
        self.disk.sync_dir(&"t-0".into(), ticket).unwrap();
        (self.file, self.end) = (file, 0);
        let length = Position(0);
        self.effect(Effect::Open { file, path, length });
    }

    fn write(&mut self, sent: &[u8]) -> Vec<u8> {
        let bytes = self.write_at(self.next_offset, sent);
        self.next_offset += 1;
        bytes
    }

    fn flush(&mut self) {
        let ticket = self.disk.call_flush();
        self.disk.flush(self.inode, ticket).unwrap();
    }

    fn ask(&mut self, version: i16, body: impl Into<RequestBody>) {
        self.last_request += 1;
        let body = body.into();
        let header = RequestHeader {
            api_key: odradek_core::wire::messages::Body::api(&body).key(),
            api_version: version,
            correlation_id: self.last_request,
            client_id: None,
        };
        let frame = flat(&encode_request(&header, &body)).slice(4..);
        self.oracle.request(ConnectionId(1), &frame);
    }

    fn answer(&mut self, version: i16, body: impl Into<ResponseBody>) {
        let frame = flat(&encode_response(self.last_request, version, &body.into()));
        self.oracle
            .answered(ConnectionId(1), Some(&frame), &self.disk);
    }

    fn produce(&mut self, sent: &[u8]) {
        self.ask(
            PRODUCE,
            ProduceRequest {
                acks: -1,
                topic_data: vec![TopicProduceData {
                    name: "t".into(),
                    partition_data: vec![PartitionProduceData {
                        index: 0,
                        records: Some(Records::Bytes(Bytes::copy_from_slice(sent))),
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            },
        );
    }

    fn acknowledge(&mut self, base_offset: i64) {
        self.answer(
            PRODUCE,
            ProduceResponse {
                responses: vec![TopicProduceResponse {
                    name: "t".into(),
                    partition_responses: vec![PartitionProduceResponse {
                        index: 0,
                        base_offset,
                        log_start_offset: 0,
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            },
        );
    }

    fn fetch(&mut self, offset: i64, max_wait_ms: i32) {
        self.ask(
            FETCH,
            FetchRequest {
                max_wait_ms,
                min_bytes: 1,
                max_bytes: 1 << 20,
                topics: vec![FetchTopic {
                    topic: "t".into(),
                    partitions: vec![FetchPartition {
                        partition: 0,
                        fetch_offset: offset,
                        partition_max_bytes: 1 << 20,
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            },
        );
    }

    fn serve(&mut self, high_watermark: i64, records: &[u8]) {
        self.answer(
            FETCH,
            FetchResponse {
                responses: vec![FetchableTopicResponse {
                    topic: "t".into(),
                    partitions: vec![PartitionData {
                        high_watermark,
                        log_start_offset: 0,
                        records: Some(Records::Bytes(Bytes::copy_from_slice(records))),
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            },
        );
    }

    /// A batch that was produced, written, flushed and acknowledged.
    fn acknowledged(&mut self, value: &str) -> Vec<u8> {
        let sent = one(value);
        let offset = self.next_offset;
        self.produce(&sent);
        let bytes = self.write(&sent);
        self.flush();
        self.acknowledge(offset);
        self.assert_fine();
        bytes
    }

    fn restart(&mut self) {
        self.oracle.ended(Some(Death::Process));
        self.oracle.starting(&self.disk);
        self.oracle.started(&self.disk);
        self.oracle.recovered("t-0", &self.disk);
    }

    fn assert_fine(&self) {
        assert_eq!(self.oracle.violation(), None);
    }

    fn assert_violates(&self, check: Check) {
        assert_eq!(self.oracle.violation().map(|v| v.check), Some(check));
    }
}

fn one(value: &str) -> Vec<u8> {
    batch::build(&[Record {
        timestamp: 7,
        key: None,
        value: Some(value.as_bytes().to_vec()),
    }])
}

fn flat(response: &Response) -> Bytes {
    response
        .parts
        .iter()
        .flat_map(|part| match part {
            Part::Bytes(bytes) => bytes.to_vec(),
            Part::File(_) => unreachable!("all in memory here"),
        })
        .collect::<Vec<u8>>()
        .into()
}

#[test]
fn an_acknowledgement_before_the_flush() {
    let mut scene = Scene::new();
    let sent = one("a");
    scene.produce(&sent);
    scene.write(&sent);
    scene.acknowledge(0);
    scene.assert_violates(Check::AckedDurable);
}

#[test]
fn an_acknowledgement_that_only_a_failed_flush_would_have_covered() {
    let mut scene = Scene::new();
    let sent = one("a");
    scene.produce(&sent);
    scene.write(&sent);
    let ticket = scene.disk.call_flush();
    scene.disk.fail_flush(scene.inode, ticket, false);
    scene
        .oracle
        .fault(DiskFault::FlushErrorKeepsNew, Some(&LOG.into()));
    // The flush is called again, and succeeds.
    scene.flush();
    scene.acknowledge(0);
    scene.assert_violates(Check::FailedFlushNeverAcked);
}

#[test]
fn an_acknowledgement_of_what_was_not_written_whole() {
    let mut scene = Scene::new();
    let sent = one("a");
    scene.produce(&sent);
    scene.write(&sent);
    scene.disk.set_length(scene.inode, 20).unwrap();
    scene.flush();
    scene.acknowledge(0);
    scene.assert_violates(Check::NoPartialAckOnFullDisk);
}

#[test]
fn a_gap_between_offsets_and_an_offset_given_twice() {
    let mut scene = Scene::new();
    scene.acknowledged("a");
    scene.write_at(2, &one("b"));
    scene.assert_violates(Check::OffsetDense);

    let mut scene = Scene::new();
    scene.acknowledged("a");
    scene.write_at(0, &one("b"));
    scene.assert_violates(Check::OffsetNeverReused);
}

/// Seed 2231: a write that failed stored nothing, so it is not cut either.
#[test]
fn after_a_reopening_the_log_ends_where_its_files_end() {
    let mut scene = Scene::new();
    scene.acknowledged("a");
    scene.issue_at(1, &one("b"));
    scene.reopen();
    scene.write_at(1, &one("c"));
    scene.assert_fine();
}

#[test]
fn a_reopening_that_loses_what_was_acknowledged() {
    let mut scene = Scene::new();
    scene.acknowledged("a");
    scene.disk.set_length(scene.inode, 0).unwrap();
    scene.reopen();
    scene.assert_violates(Check::AckedDurable);
}

/// Seed 1567.
#[test]
fn the_newest_segment_is_known_although_it_is_empty() {
    let mut scene = Scene::new();
    scene.acknowledged("a");
    let segment = |base: u32| FilePath::from(format!("t-0/{base:020}.log").as_str());
    for base in [1, 2] {
        scene.manage(FileOp::WriteFile {
            path: segment(base),
            bytes: Bytes::new(),
        });
    }
    scene.manage(FileOp::RemoveFile(segment(2)));
    let log = scene.oracle.models.get("t-0").unwrap();
    assert_eq!(log.newest_segment(), Some(&segment(1)));
}

#[test]
fn a_cut_below_what_was_acknowledged() {
    let mut scene = Scene::new();
    scene.acknowledged("a");
    scene.effect(Effect::Manage {
        operation: OperationId(1),
        op: FileOp::Truncate {
            file: FileId(1),
            length: Position(0),
        },
    });
    scene.assert_violates(Check::AckedDurable);
}

#[test]
fn records_that_changed_or_are_damaged_or_are_not_to_be_seen_yet() {
    let mut scene = Scene::new();
    scene.acknowledged("a");
    let mut other = one("z");
    other[..8].copy_from_slice(&0_i64.to_be_bytes());
    scene.fetch(0, 0);
    scene.serve(1, &other);
    scene.assert_violates(Check::BatchBytesImmutable);

    let mut scene = Scene::new();
    let mut damaged = scene.acknowledged("a");
    *damaged.last_mut().unwrap() ^= 1;
    scene.fetch(0, 0);
    scene.serve(1, &damaged);
    scene.assert_violates(Check::CorruptNotServed);

    let mut scene = Scene::new();
    scene.acknowledged("a");
    let second = scene.acknowledged("b");
    scene.fetch(1, 0);
    scene.serve(1, &second);
    scene.assert_violates(Check::NeverBeyondHighWatermark);
}

#[test]
fn a_high_watermark_that_goes_back_or_stands_too_high() {
    let mut scene = Scene::new();
    let bytes = scene.acknowledged("a");
    scene.fetch(0, 0);
    scene.serve(1, &bytes);
    scene.at(2);
    scene.fetch(0, 0);
    scene.serve(0, &[]);
    scene.assert_violates(Check::HighWatermarkMonotonic);

    let mut scene = Scene::new();
    scene.acknowledged("a");
    scene.fetch(1, 0);
    scene.serve(2, &[]);
    scene.assert_violates(Check::HighWatermarkAtMostLogEnd);

    let mut scene = Scene::new();
    scene.write(&one("a"));
    scene.fetch(1, 0);
    scene.serve(1, &[]);
    scene.assert_violates(Check::NothingVisibleThenLost);
}

#[test]
fn an_answer_that_was_true_while_the_request_waited() {
    let mut scene = Scene::new();
    scene.fetch(0, 0);
    scene.at(2);
    scene.acknowledged_elsewhere();
    scene.at(3);
    scene.serve(0, &[]);
    scene.assert_fine();
}

impl Scene {
    /// Another client is shown a record meanwhile.
    fn acknowledged_elsewhere(&mut self) {
        let bytes = self.write(&one("a"));
        self.flush();
        let _ = bytes;
        self.oracle
            .showed_high_watermark("t-0", None, 1, &self.disk);
        self.assert_fine();
    }
}

#[test]
fn a_fetch_that_is_forgotten() {
    let mut scene = Scene::new();
    scene.fetch(0, 500);
    scene.oracle.step_over(false);
    scene.assert_fine();
    scene.acknowledged_elsewhere();
    scene.oracle.step_over(false);
    scene.assert_violates(Check::NoLostWakeup);
}

#[test]
fn a_fetch_that_is_answered_too_late_or_too_early() {
    let mut scene = Scene::new();
    scene.fetch(0, 500);
    scene.oracle.step_over(false);
    scene.at(550);
    scene.oracle.step_over(false);
    scene.assert_violates(Check::WakesOnMinBytesOrDeadline);

    let mut scene = Scene::new();
    scene.fetch(0, 500);
    scene.at(100);
    scene.serve(0, &[]);
    scene.assert_violates(Check::WakesOnMinBytesOrDeadline);
}

#[test]
fn a_start_that_loses_keeps_or_invents_too_much() {
    let mut scene = Scene::new();
    scene.acknowledged("a");
    scene.restart();
    scene.assert_fine();
    scene.disk.set_length(scene.inode, 0).unwrap();
    scene.restart();
    scene.assert_violates(Check::AckedDurable);

    let mut scene = Scene::new();
    scene.acknowledged("a");
    let end = scene.end;
    scene
        .disk
        .write(scene.inode, end, b"torn"[..].into())
        .unwrap();
    scene.restart();
    scene.assert_violates(Check::PrefixRecovery);

    let mut scene = Scene::new();
    scene.acknowledged("a");
    let mut invented = one("x");
    invented[..8].copy_from_slice(&1_i64.to_be_bytes());
    let end = scene.end;
    scene.disk.write(scene.inode, end, invented.into()).unwrap();
    scene.restart();
    scene.assert_violates(Check::PrefixRecovery);
}

#[test]
fn a_start_that_drops_what_was_sound() {
    let mut scene = Scene::new();
    scene.acknowledged("a");
    let before = scene.end;
    scene.write(&one("b"));
    scene.oracle.ended(Some(Death::Process));
    scene.oracle.starting(&scene.disk);
    scene.disk.set_length(scene.inode, before).unwrap();
    scene.oracle.started(&scene.disk);
    scene.oracle.recovered("t-0", &scene.disk);
    scene.assert_violates(Check::RecoveryIdempotent);
}

#[test]
fn segments_below_the_log_start_may_go_in_any_order_and_what_is_above_it_stays() {
    // Three segments of one batch each. What is below offset 2 was deleted, but so far only the
    // second segment is gone.
    let crashed = || {
        let mut scene = Scene::new();
        scene.acknowledged("a");
        for value in ["b", "c"] {
            scene.roll();
            scene.acknowledged(value);
        }
        scene.oracle.models.entry("t-0").log_start_asked = 2;
        scene.put("t-0/partition.metadata", "version: 0\ntopic_id: x\n");
        let body = "odradek log checkpoint v2\nx 0 2 0 0 2 0 2\n";
        let text = format!("{body}crc {:08x}\n", crc32c::crc32c(body.as_bytes()));
        scene.put("log.checkpoint", &text);
        let second = "t-0/00000000000000000001.log";
        scene.disk.remove_file(&second.into()).unwrap();
        scene.oracle.ended(Some(Death::Process));
        scene.oracle.starting(&scene.disk);
        scene.disk.remove_file(&LOG.into()).unwrap();
        scene
    };

    let mut scene = crashed();
    scene.oracle.started(&scene.disk);
    scene.oracle.recovered("t-0", &scene.disk);
    scene.assert_fine();

    let mut scene = crashed();
    scene.oracle.models.entry("t-0").acked_end = 2;
    scene.disk.set_length(scene.inode, 0).unwrap();
    scene.oracle.started(&scene.disk);
    scene.oracle.recovered("t-0", &scene.disk);
    scene.assert_violates(Check::RecoveryIdempotent);
}

/// Three segments of one batch each, of the time 7, in a log that keeps records for 100 ms. The scene is
/// at 50 ms.
fn aging(retention_bytes: Option<u64>) -> Scene {
    let mut scene = Scene::new();
    scene.oracle = Oracle::new(
        Durability::Fsync,
        LogConfig {
            retention_ms: Some(100),
            retention_bytes,
            ..LogConfig::default()
        },
    );
    scene.begin();
    scene.at(50);
    scene.put("t-0/partition.metadata", "version: 0\ntopic_id: x\n");
    scene.acknowledged("a");
    for value in ["b", "c"] {
        scene.roll();
        scene.acknowledged(value);
    }
    scene
}

impl Scene {
    fn checkpoint(&mut self, log_start: i64) {
        let body = format!("odradek log checkpoint v2\nx 0 {log_start} 0 0 2 0 2\n");
        let text = format!("{body}crc {:08x}\n", crc32c::crc32c(body.as_bytes()));
        self.manage(FileOp::WriteFile {
            path: "log.checkpoint.tmp".into(),
            bytes: text.into(),
        });
    }
}

#[test]
fn what_is_not_expired_stays() {
    let mut scene = aging(None);
    scene.at(107);
    scene.checkpoint(1);
    scene.assert_violates(Check::OnlyExpiredDeleted);

    let mut scene = aging(None);
    scene.at(108);
    scene.checkpoint(0);
    scene.checkpoint(2);
    scene.assert_fine();
    assert_eq!(scene.oracle.marks.get(&Mark::ExpiredByTime), Some(&1));
    scene.checkpoint(3);
    scene.assert_fine();
}

#[test]
fn what_was_expired_before_the_clock_went_back_may_still_go() {
    let mut scene = aging(None);
    scene.at(108);
    scene.oracle.wall_steps(-60, &scene.disk);
    scene.at(50);
    scene.checkpoint(2);
    scene.assert_fine();

    // The next process knows nothing of it.
    let mut scene = aging(None);
    scene.at(108);
    scene.oracle.wall_steps(-60, &scene.disk);
    scene.at(50);
    scene.restart();
    scene.checkpoint(2);
    scene.assert_violates(Check::OnlyExpiredDeleted);
}

#[test]
fn by_size_as_much_stays_as_was_asked_for() {
    let size = one("a").len() as u64;
    let mut scene = aging(Some(2 * size));
    scene.checkpoint(1);
    scene.assert_fine();
    assert_eq!(scene.oracle.marks.get(&Mark::ExpiredBySize), Some(&1));
    scene.checkpoint(2);
    scene.assert_violates(Check::OnlyExpiredDeleted);

    // What is not flushed may be taken back, and does not count.
    let mut scene = aging(Some(3 * size));
    scene.write(&one("d"));
    scene.checkpoint(1);
    scene.assert_violates(Check::OnlyExpiredDeleted);
}

#[test]
fn a_batch_that_was_cut_may_come_back_as_long_as_nobody_was_told() {
    let mut scene = Scene::new();
    scene.acknowledged("a");
    let before = scene.end;
    let cut = scene.write(&one("b"));
    scene.effect(Effect::Manage {
        operation: OperationId(1),
        op: FileOp::Truncate {
            file: FileId(1),
            length: Position(before),
        },
    });
    // The truncation was not durable: the bytes are still there.
    assert!(scene.disk.cached(&LOG.into()).unwrap().ends_with(&cut));
    scene.restart();
    scene.assert_fine();
}

#[test]
fn an_index_that_is_off_by_a_batch() {
    let mut scene = Scene::new();
    scene.oracle = Oracle::new(
        Durability::Fsync,
        LogConfig {
            index_interval_bytes: 1,
            ..LogConfig::default()
        },
    );
    scene.begin();
    scene.acknowledged("a");
    scene.acknowledged("b");
    let right = indexes::rebuild(scene.disk.cached(&LOG.into()).unwrap(), 0, 1);
    assert_eq!(right.offsets.len(), 8);
    let write = |scene: &mut Scene, name: &str, bytes: &[u8]| {
        let path = FilePath::from("t-0").join(name);
        let inode = scene.disk.create_file(&path).unwrap();
        scene
            .disk
            .write(inode, 0, Bytes::copy_from_slice(bytes))
            .unwrap();
    };
    let times = [&right.times[..], &right.last_time[..]].concat();
    write(&mut scene, "00000000000000000000.index", &right.offsets);
    write(&mut scene, "00000000000000000000.timeindex", &times);
    scene.disk.create_file(&CLEAN.into()).unwrap();
    scene.oracle.ended(None);
    scene.oracle.stopped(&scene.disk);
    scene.assert_fine();
    let mut wrong = right.offsets.clone();
    wrong[7] = 0;
    write(&mut scene, "00000000000000000000.index", &wrong);
    // Without the mark, the next start builds it anew.
    scene.disk.remove_file(&CLEAN.into()).unwrap();
    scene.oracle.stopped(&scene.disk);
    scene.assert_fine();
    scene.disk.create_file(&CLEAN.into()).unwrap();
    scene.oracle.stopped(&scene.disk);
    scene.assert_violates(Check::RebuiltEqualsOriginal);
}

#[test]
fn a_time_index_without_the_entry_of_the_close() {
    let mut scene = Scene::new();
    scene.begin();
    scene.acknowledged("a");
    for file in ["index", "timeindex"] {
        let path = FilePath::from("t-0").join(&format!("00000000000000000000.{file}"));
        scene.disk.create_file(&path).unwrap();
    }
    scene.disk.create_file(&CLEAN.into()).unwrap();
    scene.oracle.ended(None);
    scene.oracle.stopped(&scene.disk);
    scene.assert_violates(Check::RebuiltEqualsOriginal);
}
