//! The log of one partition: segments of record batches on disk, with their indexes.
#![allow(clippy::todo, unused_variables, missing_docs, dead_code)]

pub mod config;
pub mod error;
pub mod recovery_point;

use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

use crate::bugs::Bugs;
use crate::context::{Context, LogId};
use crate::effect::FileRange;
use crate::ids::{FileId, FilePath, LeaderEpoch, Offset, OperationId, Position};
use crate::input::DiskError;
use crate::read_job::{ReadJob, ReadOutput};
use crate::record::batch::CheckedBatch;
use crate::time::{Mono, Now};
pub use config::{Durability, LogConfig};
pub use error::{AppendError, Damage, LogError};
pub use recovery_point::RecoveryPoint;

/// How to open or create a log.
#[derive(Clone, Debug)]
pub struct LogSpec {
    /// Its id in this process.
    pub id: LogId,
    /// Its directory.
    pub dir: FilePath,
    /// Its settings.
    pub config: LogConfig,
    /// When an append counts as acknowledged.
    pub durability: Durability,
    /// The planted bug, if any.
    pub bugs: Bugs,
}

/// Whether the log takes records, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogState {
    /// Being created or recovered. Neither readable nor writable.
    Loading,
    /// Readable and writable.
    Ready,
    /// A write failed and is being, or was, undone (promise 7). Readable; the next append after
    /// that tries again.
    StorageFailed(DiskError),
    /// A flush failed; the log reopens after a back-off (promise 6). Readable below the high
    /// watermark, takes no records.
    Reopening(DiskError),
    /// Out of service until a person does something. Neither readable nor writable.
    Offline(LogError),
    /// Closing or closed: takes no records.
    Closed,
}

/// What an append was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendInfo {
    /// Offset of the first record of the first batch.
    pub base_offset: Offset,
    /// Offset of the last record of the last batch. Acknowledge once
    /// `high_watermark_limit() > last_offset`.
    pub last_offset: Offset,
    /// The time the broker stamped, if the topic says `LogAppendTime`.
    pub log_append_time: Option<i64>,
    /// Where the log begins.
    pub log_start_offset: Offset,
}

/// Where to find what a fetch asks for.
#[derive(Debug)]
pub enum ReadPlan {
    /// Known without a read.
    Range(ReadRange),
    /// Run this, then hand its output to `on_fetch_scanned`.
    Scan(ReadJob),
    /// Nothing there yet (at the limit).
    Empty,
    /// Below the log start or above the limit: OFFSET_OUT_OF_RANGE.
    OutOfRange,
    /// The log is loading or offline: KAFKA_STORAGE_ERROR.
    Unavailable,
}

/// Whole batches of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRange {
    /// Where they are.
    pub range: FileRange,
    /// Base offset of the first batch, at most the fetch offset.
    pub first_offset: Offset,
    /// The offset that follows the last batch.
    pub next_offset: Offset,
}

/// Why a scanned range cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The segment went away, or the log is not readable any more: plan again.
    Changed,
    /// Nothing but a damaged batch is there. It was reported; never served.
    Corrupt(Damage),
}

/// What was taken back or left unacknowledged: appends that wait for it must be answered with an
/// error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Every append whose last offset is at or above it fails.
    pub from: Offset,
    /// Why.
    pub error: DiskError,
}

/// A segmented, append-only log.
#[derive(Debug)]
pub struct Log {}

impl Log {
    /// Creates an empty log that starts at offset 0: its directory, its first segment and
    /// `extra_files` (name, content), all durable, the parent directory's entry too, before it is
    /// `Ready`. Existing files are replaced: a crash in between makes it start again.
    pub fn create(cx: &mut Context<'_>, spec: LogSpec, extra_files: Vec<(String, Bytes)>) -> Self {
        todo!()
    }

    /// Opens what is on the disk, `Loading` until recovery is over. `recovery_point` and
    /// `log_start_offset` are what was persisted last; `clean` says that the last process closed
    /// this log and then marked so.
    pub fn open(
        cx: &mut Context<'_>,
        spec: LogSpec,
        recovery_point: Option<RecoveryPoint>,
        log_start_offset: Offset,
        clean: bool,
    ) -> Self {
        todo!()
    }

    pub fn id(&self) -> LogId {
        todo!()
    }
    pub fn dir(&self) -> &FilePath {
        todo!()
    }
    pub fn config(&self) -> &LogConfig {
        todo!()
    }
    /// Takes new settings; they hold from the next append on.
    pub fn set_config(&mut self, cx: &mut Context<'_>, config: LogConfig) {
        todo!()
    }
    pub fn state(&self) -> &LogState {
        todo!()
    }
    /// First offset that may be read.
    pub fn log_start_offset(&self) -> Offset {
        todo!()
    }
    /// The offset the next record gets.
    pub fn log_end_offset(&self) -> Offset {
        todo!()
    }
    /// How far this replica lets the high watermark go: the flushed end under `fsync`, the written
    /// end under `os`. Never goes back.
    pub fn high_watermark_limit(&self) -> Offset {
        todo!()
    }
    /// Bytes of all segments.
    pub fn size_bytes(&self) -> u64 {
        todo!()
    }
    /// What waited and will not be acknowledged, since the last call. Ask after every completion.
    pub fn take_lost(&mut self) -> Option<Lost> {
        todo!()
    }

    /// Appends batches, all or none: judges them by the settings, gives them offsets, emits their
    /// writes.
    pub fn append(
        &mut self,
        cx: &mut Context<'_>,
        batches: &[CheckedBatch],
        epoch: LeaderEpoch,
    ) -> Result<AppendInfo, AppendError> {
        todo!()
    }

    pub fn on_written(&mut self, cx: &mut Context<'_>, file: FileId, up_to: Position) {
        todo!()
    }
    pub fn on_write_failed(
        &mut self,
        cx: &mut Context<'_>,
        file: FileId,
        written: Position,
        error: DiskError,
    ) {
        todo!()
    }
    pub fn on_flushed(&mut self, cx: &mut Context<'_>, file: FileId, up_to: Position) {
        todo!()
    }
    pub fn on_flush_failed(&mut self, cx: &mut Context<'_>, file: FileId, error: DiskError) {
        todo!()
    }
    pub fn on_managed(
        &mut self,
        cx: &mut Context<'_>,
        operation: OperationId,
        result: Result<(), DiskError>,
    ) {
        todo!()
    }
    pub fn on_read(
        &mut self,
        cx: &mut Context<'_>,
        operation: OperationId,
        result: Result<ReadOutput, DiskError>,
    ) {
        todo!()
    }
    /// When `on_deadline` wants to be called.
    pub fn next_deadline(&self) -> Option<Mono> {
        todo!()
    }
    /// Does what is due; harmless when nothing is.
    pub fn on_deadline(&mut self, cx: &mut Context<'_>) {
        todo!()
    }

    /// Where a fetch from `offset` finds whole batches below `limit` (the reader's high watermark),
    /// at most `max_bytes` of them, but the first one whole if `min_one_batch`.
    pub fn read_plan(
        &self,
        offset: Offset,
        limit: Offset,
        max_bytes: u32,
        min_one_batch: bool,
    ) -> ReadPlan {
        todo!()
    }
    /// What a `ReadPlan::Scan` found (`ReadOutput::FetchScan`). `Ok(None)`: the first batch does
    /// not fit into `max_bytes`.
    pub fn on_fetch_scanned(
        &mut self,
        cx: &mut Context<'_>,
        output: ReadOutput,
    ) -> Result<Option<ReadRange>, ReadError> {
        todo!()
    }
    /// Bytes from the batch that begins at `offset` to `limit`, when known without a read; capped
    /// by nothing. `None`: not known.
    pub fn available_bytes(&self, offset: Offset, limit: Offset) -> Option<u64> {
        todo!()
    }
    /// Whether `offset` lies in an older segment than the end: a waiting fetch then answers at once.
    pub fn is_on_older_segment(&self, offset: Offset) -> bool {
        todo!()
    }

    /// The job that finds the first record below `limit` with a timestamp at or after `timestamp`;
    /// its output is `ReadOutput::TimeLookup(Option<TimestampOffset>)`.
    pub fn time_lookup(&self, timestamp: i64, limit: Offset) -> ReadJob {
        todo!()
    }
    /// The job that finds the first record with the largest timestamp below `limit`.
    pub fn max_timestamp_lookup(&self, limit: Offset) -> ReadJob {
        todo!()
    }

    /// The epoch of the record at `offset`.
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        todo!()
    }
    /// The epoch of the newest record.
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        todo!()
    }
    /// OffsetForLeaderEpoch (KIP-101, KIP-279): the largest epoch at or below `epoch` and the
    /// offset at which it ends; `None` if unknown.
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        todo!()
    }

    /// The log start that retention wants now, never above `high_watermark`; make it durable, then
    /// call `on_log_start_durable`. Call every `log.retention.check.interval.ms`. Rolls an active
    /// segment that is wholly expired.
    pub fn retention(&mut self, cx: &mut Context<'_>, high_watermark: Offset) -> Option<Offset> {
        todo!()
    }
    /// The persisted log start has reached `offset`: it becomes visible, and segments below it go.
    pub fn on_log_start_durable(&mut self, cx: &mut Context<'_>, offset: Offset) {
        todo!()
    }

    /// Whether 64 MiB or 5 s of flushed data lie above the recovery point.
    pub fn checkpoint_wanted(&self, now: Now) -> bool {
        todo!()
    }
    /// Writes and flushes what the next recovery point needs; `recovery_point` advances when that
    /// is done.
    pub fn prepare_checkpoint(&mut self, cx: &mut Context<'_>) {
        todo!()
    }
    /// The newest recovery point that is safe to persist.
    pub fn recovery_point(&self) -> RecoveryPoint {
        todo!()
    }

    /// Flushes everything and closes; `is_closed` when done. If that fails, `closed_cleanly` is
    /// false and the clean marker must not be written.
    pub fn close(&mut self, cx: &mut Context<'_>) {
        todo!()
    }
    pub fn is_closed(&self) -> bool {
        todo!()
    }
    /// Whether the close went through: only then may the log count as clean at the next start.
    pub fn closed_cleanly(&self) -> bool {
        todo!()
    }
    /// Gives up all file ids without flushing: the directory is about to be deleted.
    pub fn abandon(&mut self, cx: &mut Context<'_>) {
        todo!()
    }

    /// The job that reads whole, checked batches from `offset` on for replay, up to `limit`:
    /// output `ReadOutput::Records(ReadRecords)`. `None` at the limit.
    pub fn replay_job(&self, offset: Offset, limit: Offset) -> Option<ReadJob> {
        todo!()
    }
}
