//! The log of one partition: segments of record batches on disk, with their indexes.
//!
//! What it promises (the numbers are those of the design):
//!
//! - Offsets are given once and are dense (1), but for where [`cleaner`] has been. What [`Log::high_watermark_limit`] has reached stays,
//!   whatever crashes, as far as the durability in force says (2, 3).
//! - After a crash it is a prefix of what was appended (4): see [`load_plan`], [`scan_segment`].
//! - Damage below the recovery point takes it offline; a damaged batch is never served (5).
//! - After a failed flush it reopens as after a crash, without trusting the cache (6); after a
//!   failed write it takes back what was not written and goes on (7).
//!
//! A `Log` is driven by its parent: appends, reads and retention come as calls, completions by the
//! `on_` methods. It answers nothing itself: after each call the parent looks at
//! [`Log::high_watermark_limit`], [`Log::take_lost`] and [`Log::state`] and decides what they mean.
//!
//! ```text
//!              open, create
//!                   |
//!                Loading ----- damage -----> Offline
//!                   |                           ^
//!   write failed    v    flush failed           |
//!  .----------- Ready ------------> Reopening --'
//!  |              ^  ^                  |  back-off, load as after a crash
//!  v              |  '------------------'
//! StorageFailed --'  next append, once the cut is done
//! ```

mod append;
mod batch_reader;
mod checkpoint;
pub mod cleaner;
mod close;
pub mod config;
pub mod epoch_checkpoint;
pub mod error;
pub mod fetch_scan;
mod file_names;
pub mod index_builder;
mod index_file;
mod load;
pub mod load_plan;
pub mod load_producers;
pub mod offset_index;
pub mod producer_snapshot;
pub mod producer_state;
mod producers;
mod read;
mod rebuild;
mod recent;
pub mod recovery_point;
mod reopen;
pub mod replay;
pub mod retention;
mod roll;
pub mod scan_segment;
mod segment;
mod tasks;
pub mod time_index;
pub mod time_lookup;
mod undo;
pub mod verified;
mod write;

#[cfg(test)]
mod harness;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use bytes::Bytes;

use crate::bugs::Bugs;
use crate::context::{Context, LogId};
use crate::effect::FileOp;
use crate::ids::{FileId, FilePath, LeaderEpoch, Offset, OperationId};
use crate::input::DiskError;
use crate::report::Seldom;
use crate::time::Mono;

pub use cleaner::CleanerPoint;
pub use config::{Durability, LogConfig};
pub use error::{AppendError, Damage, LogError};
pub use read::{ReadError, ReadPlan, ReadRange};
pub use recovery_point::RecoveryPoint;

use cleaner::{CleanTask, Cleaner};
use close::Closing;
use epoch_checkpoint::EpochCheckpoint;
use load::Load;
use producer_state::ProducerStates;
use recent::Recent;
use reopen::Reopen;
use retention::Doomed;
use roll::IndexTask;
use segment::{Mark, Segment};
use tasks::{Progress, Sequence};
use undo::Undo;

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
    /// watermark once it was ready, takes no records.
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
    /// The time the broker stamped, if the topic says `LogAppendTime`, in milliseconds.
    pub log_append_time: Option<i64>,
    /// Where the log begins.
    pub log_start_offset: Offset,
    /// Whether the batch was in the log already (a retry of an idempotent producer) and nothing was
    /// appended. The offsets are the original's.
    pub duplicate: bool,
}

/// What was taken back or left unacknowledged: appends that wait for it must be answered with an
/// error (KAFKA_STORAGE_ERROR).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Every append whose last offset is at or above it fails.
    pub from: Offset,
    /// Why.
    pub error: DiskError,
}

/// A segmented, append-only log.
#[derive(Debug)]
pub struct Log {
    id: LogId,
    dir: FilePath,
    config: LogConfig,
    durability: Durability,
    bugs: Bugs,
    state: LogState,
    /// Whether it was ready once: what it holds in memory is worth reading then.
    loaded: bool,
    /// By base offset. Closed ones first, then those with a tail; the last one takes appends.
    segments: BTreeMap<Offset, Segment>,
    log_start_offset: Offset,
    /// What may be acknowledged and shown. Never goes back.
    acked_end: Offset,
    recovery_point: RecoveryPoint,
    recovery_point_moved: bool,
    /// Where the recovery point moves once the epoch checkpoint is written.
    next_recovery_point: Option<(Offset, Mark)>,
    checkpoint_wanted: bool,
    /// Since when something flushed lies above the recovery point.
    flushed_since: Option<Mono>,
    /// Under `os` with `flush.ms`: since when something is unflushed.
    unflushed_since: Option<Mono>,
    /// `flush.ms` has passed for what is below: to be flushed, once it is written and the flush under way
    /// is over.
    flush_due: Option<Offset>,
    epochs: EpochCheckpoint,
    producers: ProducerStates,
    /// Producer snapshots that are durable.
    snapshots: BTreeSet<Offset>,
    /// A snapshot that is to be written once everything below it is flushed.
    wanted_snapshot: Option<(Offset, Bytes)>,
    recent: Recent,
    tasks: Vec<(Task, Sequence)>,
    /// Not before then is something derived written again that could not be written.
    retry_at: Option<Mono>,
    load: Option<Load>,
    undo: Option<Undo>,
    lost: Option<Lost>,
    reopen: Reopen,
    closing: Option<Closing>,
    doomed: VecDeque<Doomed>,
    cleaner: Cleaner,
    /// Largest timestamps of closed segments that are being read for retention.
    reading_times: Option<OperationId>,
    retention_wanted: bool,
    /// Closed segments whose indexes turned out wrong, and the one being scanned.
    wrong_indexes: BTreeSet<Offset>,
    rebuilding: Option<(OperationId, Offset)>,
    /// Damaged batches that were reported.
    reported_damage: BTreeSet<Offset>,
    /// Of failed writes: a full disk fails every append.
    told_of_writes: Seldom,
    /// Of what is derived and could not be written.
    told_of_derived: Seldom,
}

/// What a sequence of file operations is for.
#[derive(Debug)]
enum Task {
    /// Make the files of the segment with this base.
    Create(Offset),
    /// Make their names durable.
    Name(Offset),
    /// Write index entries.
    Index(IndexTask),
    /// Write the files of a closed segment's indexes, built anew: entries of both.
    Rebuilt(Offset, u32, u32),
    /// Write the epoch checkpoint.
    Epochs,
    /// Write a producer snapshot.
    Snapshot(Offset),
    /// Take back what a failed write left.
    Undo,
    /// Remove the files of a segment below the log start.
    Unlink,
    /// End file ids.
    CloseFiles(Vec<FileId>),
    /// Replace closed segments by what is left of them.
    Clean(CleanTask),
    /// A step of loading.
    Load,
}

impl Log {
    /// An empty shell, which `create` and `open` fill.
    fn new(spec: LogSpec, log_start_offset: Offset, recovery_point: RecoveryPoint) -> Self {
        Self {
            id: spec.id,
            dir: spec.dir,
            config: spec.config,
            durability: spec.durability,
            bugs: spec.bugs,
            state: LogState::Loading,
            loaded: false,
            segments: BTreeMap::new(),
            log_start_offset,
            acked_end: log_start_offset,
            recovery_point,
            recovery_point_moved: false,
            next_recovery_point: None,
            checkpoint_wanted: false,
            flushed_since: None,
            unflushed_since: None,
            flush_due: None,
            epochs: EpochCheckpoint::default(),
            producers: ProducerStates::default(),
            snapshots: BTreeSet::new(),
            wanted_snapshot: None,
            recent: Recent::default(),
            tasks: Vec::new(),
            retry_at: None,
            load: None,
            undo: None,
            lost: None,
            reopen: Reopen::default(),
            closing: None,
            doomed: VecDeque::new(),
            cleaner: Cleaner::default(),
            reading_times: None,
            retention_wanted: false,
            wrong_indexes: BTreeSet::new(),
            rebuilding: None,
            reported_damage: BTreeSet::new(),
            told_of_writes: Seldom::default(),
            told_of_derived: Seldom::default(),
        }
    }

    /// Its id in this process.
    #[must_use]
    pub const fn id(&self) -> LogId {
        self.id
    }

    /// Its directory.
    #[must_use]
    pub const fn dir(&self) -> &FilePath {
        &self.dir
    }

    /// Its settings.
    #[must_use]
    pub const fn config(&self) -> &LogConfig {
        &self.config
    }

    /// Takes new settings; they hold from the next append on.
    pub fn set_config(&mut self, cx: &mut Context<'_>, config: LogConfig) {
        self.config = config;
        self.advance(cx);
    }

    /// Whether it takes records, and if not, why.
    #[must_use]
    pub const fn state(&self) -> &LogState {
        match (&self.closing, &self.state) {
            (Some(_), LogState::Ready | LogState::StorageFailed(_)) => &LogState::Closed,
            _ => &self.state,
        }
    }

    /// Whether it is not known yet what is there. Once it is, it stays so.
    #[must_use]
    pub const fn is_loading(&self) -> bool {
        matches!(self.state(), LogState::Loading)
    }

    /// Whether an append would be tried now: also after a failed write, once that is undone.
    #[must_use]
    pub const fn takes_records(&self) -> bool {
        match self.state {
            LogState::Ready => self.closing.is_none(),
            LogState::StorageFailed(_) => self.undo.is_none() && self.closing.is_none(),
            _ => false,
        }
    }

    /// The first offset that may be read. Never goes back.
    #[must_use]
    pub const fn log_start_offset(&self) -> Offset {
        self.log_start_offset
    }

    /// The offset the next record gets.
    #[must_use]
    pub fn log_end_offset(&self) -> Offset {
        self.segments
            .last_key_value()
            .map_or(self.log_start_offset, |(_, segment)| segment.next_offset)
    }

    /// What is planted.
    pub(crate) const fn bugs(&self) -> Bugs {
        self.bugs
    }

    /// How far this replica lets the high watermark go: the flushed end under `fsync`, the written
    /// end under `os` (less what `flush.messages` holds back). Never goes back.
    #[must_use]
    pub const fn high_watermark_limit(&self) -> Offset {
        self.acked_end
    }

    /// Bytes of the log files of all segments.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.segments.values().map(|segment| segment.size).sum()
    }

    /// What waited and will not be acknowledged, since the last call. Ask after every completion.
    pub const fn take_lost(&mut self) -> Option<Lost> {
        self.lost.take()
    }

    /// The epoch of the newest record.
    #[must_use]
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.epochs.latest()
    }

    /// The epoch of the record at `offset`, or of the next one to come; `None` below the first known.
    #[must_use]
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let entries = self.epochs.entries();
        let at_or_below = entries.partition_point(|(_, start)| *start <= offset);
        let found = entries.get(at_or_below.checked_sub(1)?);
        found.map(|(epoch, _)| *epoch)
    }

    /// OffsetForLeaderEpoch (KIP-101, KIP-279): the largest epoch at or below `epoch` and the
    /// offset at which it ends; `None` if unknown. Judged against the visible end of the log: a
    /// record that may yet be taken back is not promised.
    #[must_use]
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        self.epochs
            .end_offset_for(epoch, self.log_start_offset, self.acked_end)
    }

    /// When `on_deadline` wants to be called.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        if self.is_closed() {
            return None;
        }
        let unlink = self.doomed.front().map(|doomed| doomed.at);
        [
            unlink,
            self.reopen.at,
            self.retry_at,
            self.flush_deadline(),
            self.checkpoint_deadline(),
            self.producers
                .next_expiry(self.config.producer_id_expiration_ms),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Does what is due; harmless when nothing is.
    pub fn on_deadline(&mut self, cx: &mut Context<'_>) {
        let now = cx.now.mono;
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
        }
        if self.flush_deadline().is_some_and(|at| at <= now) {
            self.unflushed_since = None;
            self.flush_due = Some(self.log_end_offset());
        }
        if self.checkpoint_wanted(cx.now) {
            self.checkpoint_wanted = true;
        }
        self.producers
            .expire(now, self.config.producer_id_expiration_ms);
        self.unlink_doomed(cx);
        self.reopen_if_due(cx);
        self.advance(cx);
    }

    /// A file-management operation of this log has ended.
    pub fn on_managed(
        &mut self,
        cx: &mut Context<'_>,
        operation: OperationId,
        result: Result<(), DiskError>,
    ) {
        let found = self
            .tasks
            .iter()
            .position(|(_, sequence)| sequence.waits_for(operation));
        let Some(at) = found else {
            return;
        };
        if let Some((_, sequence)) = self.tasks.get_mut(at) {
            sequence.complete(cx, self.id, operation, result);
        }
        self.settle(cx, at);
        self.advance(cx);
    }

    /// Starts a sequence; one without operations is done at once.
    fn start_task(&mut self, cx: &mut Context<'_>, task: Task, stages: Vec<Vec<FileOp>>) {
        let sequence = Sequence::start(cx, self.id, stages);
        self.tasks.push((task, sequence));
        self.settle(cx, self.tasks.len() - 1);
    }

    /// Ends the task number `at` if its sequence has ended.
    fn settle(&mut self, cx: &mut Context<'_>, at: usize) {
        let Some((_, sequence)) = self.tasks.get(at) else {
            return;
        };
        let result = match sequence.progress() {
            Progress::Running => return,
            Progress::Done => Ok(()),
            Progress::Failed(failure) => Err(failure),
        };
        let (task, _) = self.tasks.remove(at);
        match task {
            Task::Create(base) => self.created(cx, base, result),
            Task::Name(base) => self.named(cx, base, result),
            Task::Index(task) => self.index_written(cx, &task, result),
            Task::Rebuilt(base, offsets, times) => {
                self.index_rebuilt(cx, base, offsets, times, result);
            }
            Task::Epochs => self.epochs_written(cx, result),
            Task::Snapshot(at) => self.snapshot_written(cx, at, result),
            Task::Undo => self.undone(cx, result),
            Task::Unlink => self.unlinked(cx, result),
            Task::CloseFiles(files) => {
                for file in files {
                    cx.routes.forget_file(file);
                }
            }
            Task::Clean(task) => self.clean_task_done(cx, task, result),
            Task::Load => self.load_ops_done(cx, result),
        }
    }

    /// Ends file ids, once everything before in their queues is done.
    fn close_files(&mut self, cx: &mut Context<'_>, files: Vec<FileId>) {
        if files.is_empty() {
            return;
        }
        let stage = files.iter().map(|file| FileOp::Close(*file)).collect();
        self.start_task(cx, Task::CloseFiles(files), [stage].into());
    }

    fn has_task(&self, is: impl Fn(&Task) -> bool) -> bool {
        self.tasks.iter().any(|(task, _)| is(task))
    }

    /// Looks at where everything is and starts what can start. Called at the end of every event, so
    /// that no event has to know what it makes possible.
    fn advance(&mut self, cx: &mut Context<'_>) {
        if self.load.is_some() {
            return;
        }
        match self.state {
            LogState::Ready | LogState::StorageFailed(_) => {
                self.start_flushes(cx);
                self.advance_undo(cx);
                self.write_indexes(cx);
                self.open_next_segment(cx);
                self.write_epochs(cx);
                self.write_wanted_snapshot(cx);
                self.rebuild_wrong_index(cx);
                self.update_acked();
            }
            LogState::Reopening(_) => self.advance_reopen(cx),
            LogState::Loading | LogState::Offline(_) | LogState::Closed => {}
        }
        self.advance_close(cx);
    }

    /// The first segment that is not closed, if any: everything below it is flushed.
    fn first_open(&self) -> Option<&Segment> {
        let closed = self.segments.values().rev();
        closed.take_while(|segment| segment.tail.is_some()).last()
    }

    /// The segment that is not closed and follows this one, or the first of them: to look at each in
    /// turn at every event, without a list of them.
    fn next_open(&self, before: Option<Offset>) -> Option<Offset> {
        match before {
            None => self.first_open().map(|segment| segment.base),
            Some(base) => self.base_after(base),
        }
    }

    /// The segment that follows.
    fn base_after(&self, base: Offset) -> Option<Offset> {
        use core::ops::Bound::{Excluded, Unbounded};
        self.segments
            .range((Excluded(base), Unbounded))
            .next()
            .map(|(base, _)| *base)
    }

    /// The open segment with this file id.
    fn segment_of(&mut self, file: FileId) -> Option<&mut Segment> {
        self.segments
            .values_mut()
            .rev()
            .take_while(|segment| segment.tail.is_some())
            .find(|segment| segment.file == Some(file))
    }
}
