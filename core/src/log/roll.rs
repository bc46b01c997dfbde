//! Rolling: the files of a new segment, and the closing of the one before.
//!
//! Under `fsync` the new segment takes writes only once the one before is closed: flushed, its
//! indexes complete and flushed, and once the names of the new files are durable: data in a file whose
//! name is lost is lost. Under `os` it takes writes once the one before is written and the files are
//! there. Nothing in it counts as flushed before the names are durable, which may take long: the
//! filesystem may first write what the segment before left in the page cache.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::bugs::Bug;
use crate::context::Context;
use crate::effect::{Effect, FileOp};
use crate::ids::{FilePath, Offset, Position};

use super::file_names::SegmentFile;
use super::segment::{Mark, NewFiles, Phase, Segment};
use super::tasks::Failure;
use super::{Durability, Log, LogState, RecoveryPoint, Task};
use super::{index_file, offset_index, producer_snapshot, time_index};

/// Entries of an index that are kept in memory before they are written: at most 10 KiB a log.
const SPILL_ENTRIES: usize = 512;

/// Index entries on their way to the files.
#[derive(Debug)]
pub(crate) struct IndexTask {
    base: Offset,
    offset_entries: u32,
    time_entries: u32,
    /// Whether the last of the time entries is there only since the segment is being closed.
    has_closing_entry: bool,
    purpose: Purpose,
}

/// Why index entries are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To free memory. Not flushed.
    Spill,
    /// So that the recovery point can move here.
    Checkpoint(Mark),
    /// A next segment has begun.
    CloseSegment,
    /// The log is being closed.
    CleanStop,
}

/// What makes the files of a segment.
fn new_files(dir: &FilePath, base: Offset) -> Vec<FileOp> {
    [SegmentFile::Log, SegmentFile::Index, SegmentFile::TimeIndex]
        .map(|file| FileOp::WriteFile {
            path: file.path(dir, base),
            bytes: Bytes::new(),
        })
        .to_vec()
}

/// The stages that make a segment's files and their names durable.
pub(super) fn create_segment(dir: &FilePath, base: Offset) -> Vec<Vec<FileOp>> {
    vec![new_files(dir, base), vec![FileOp::SyncDir(dir.clone())]]
}

impl Log {
    /// Moves the next segment that is not open yet towards its first write.
    pub(super) fn open_next_segment(&mut self, cx: &mut Context<'_>) {
        if self.undo.is_some() {
            return;
        }
        let mut before: Option<&Segment> = None;
        let mut at = None;
        while let Some(base) = self.next_open(at) {
            at = Some(base);
            let segment = self.segments.get(&base).expect("it was just listed");
            let tail = segment.tail.as_ref().expect("an open segment has a tail");
            let Phase::Opening { held } = &tail.phase else {
                before = Some(segment);
                continue;
            };
            if held.is_empty() && matches!(self.state, LogState::StorageFailed(_)) {
                // It failed once; the next append tries again.
                return;
            }
            let before = before.and_then(|before| Some((before, before.tail.as_ref()?)));
            let ready = match (self.durability, before) {
                (_, None) => true,
                (Durability::Fsync, Some(_)) => false,
                (Durability::Os, Some((before, tail))) => tail.written.position == before.size,
            };
            match tail.files {
                // Only the last name of a log is not durable: no crash leaves a gap between two.
                NewFiles::Missing if before.is_none_or(|(_, tail)| tail.is_named()) => {
                    self.set_files(base, NewFiles::Creating);
                    self.start_task(cx, Task::Create(base), vec![new_files(&self.dir, base)]);
                }
                NewFiles::Made if ready && self.durability == Durability::Os => {
                    self.open_segment(cx, base);
                }
                NewFiles::Durable if ready => self.open_segment(cx, base),
                NewFiles::Missing | NewFiles::Creating | NewFiles::Made | NewFiles::Durable => {}
            }
            return;
        }
    }

    /// Notes how far the files of a new segment are. False if it was taken back meanwhile.
    fn set_files(&mut self, base: Offset, files: NewFiles) -> bool {
        let tail = self.segments.get_mut(&base).and_then(|s| s.tail.as_mut());
        tail.map(|tail| tail.files = files).is_some()
    }

    /// Lets the held writes go.
    fn open_segment(&mut self, cx: &mut Context<'_>, base: Offset) {
        let segment = self.segments.get_mut(&base).expect("the caller has it");
        let file = segment.file(cx, self.id, &self.dir);
        let tail = segment
            .tail
            .as_mut()
            .expect("an opening segment has a tail");
        let phase = core::mem::replace(&mut tail.phase, Phase::Open);
        if let Phase::Opening { held, .. } = phase {
            for (position, data) in held {
                cx.out.push(Effect::Write {
                    file,
                    position,
                    data,
                });
            }
        }
    }

    /// The files of a new segment are there, or not.
    pub(super) fn created(
        &mut self,
        cx: &mut Context<'_>,
        base: Offset,
        result: Result<(), Failure>,
    ) {
        match result {
            Ok(()) if self.is_running() && self.set_files(base, NewFiles::Made) => {
                let mut stages = vec![vec![FileOp::SyncDir(self.dir.clone())]];
                if self.bugs.has(Bug::ForgetDirectorySync) {
                    stages.clear();
                }
                self.start_task(cx, Task::Name(base), stages);
            }
            Ok(()) => {}
            Err(failure) => self.roll_failed(cx, failure.error),
        }
    }

    /// The names of a new segment's files are durable, or not.
    pub(super) fn named(
        &mut self,
        cx: &mut Context<'_>,
        base: Offset,
        result: Result<(), Failure>,
    ) {
        match result {
            Ok(()) => {
                self.set_files(base, NewFiles::Durable);
            }
            Err(failure) => self.begin_reopen(cx, failure.error),
        }
    }

    /// Writes index entries where that is due, one segment at a time.
    pub(super) fn write_indexes(&mut self, cx: &mut Context<'_>) {
        if self.retry_at.is_some() || self.has_task(|task| matches!(task, Task::Index(_))) {
            return;
        }
        let mut first = true;
        let mut at = None;
        while let Some(base) = self.next_open(at) {
            at = Some(base);
            let segment = self.segments.get_mut(&base).expect("it was just listed");
            let flushed = segment
                .tail
                .as_ref()
                .map(|tail| (tail.flushed, tail.full, tail.written));
            let (flushed, full, written) = flushed.expect("an open segment has a tail");
            let all_flushed = flushed.position == segment.size;
            if core::mem::take(&mut first) {
                if full && all_flushed {
                    return self.start_index_task(cx, base, flushed, Purpose::CloseSegment);
                }
                if self.closing.is_some() && all_flushed && self.wants_final_index(base) {
                    return self.start_index_task(cx, base, flushed, Purpose::CleanStop);
                }
                if self.checkpoint_wanted && !self.epochs_pending() {
                    self.checkpoint_wanted = false;
                    if flushed.next_offset > self.recovery_point.offset {
                        let purpose = Purpose::Checkpoint(flushed);
                        return self.start_index_task(cx, base, flushed, purpose);
                    }
                    self.flushed_since = None;
                }
            }
            let limit = match self.durability {
                Durability::Fsync => flushed,
                Durability::Os => written,
            };
            let segment = self.segments.get(&base).expect("it was just listed");
            let entries = limit.index.offset_entries - segment.offset_entries;
            if entries as usize >= SPILL_ENTRIES {
                return self.start_index_task(cx, base, limit, Purpose::Spill);
            }
        }
    }

    fn start_index_task(
        &mut self,
        cx: &mut Context<'_>,
        base: Offset,
        up_to: Mark,
        purpose: Purpose,
    ) {
        let dir = self.dir.clone();
        let segment = self.segments.get_mut(&base).expect("the caller has it");
        let tail = segment.tail.as_mut().expect("an open segment has a tail");
        let mut time_entries = up_to.index.time_entries;
        // The entry of a clean stop is not counted: the next append may replace it, so that the
        // file stays a function of the log's bytes.
        let mut provisional = None;
        let mut has_closing_entry = false;
        match purpose {
            Purpose::CloseSegment => {
                tail.is_closing = true;
                let last = tail.index.add_time_entry(base);
                has_closing_entry = last.is_some();
                tail.time_tail.extend(last);
                time_entries = tail.index.time_entries;
            }
            Purpose::CleanStop if self.bugs.has(Bug::StopWithoutTimeEntry) => {}
            Purpose::CleanStop => provisional = tail.index.clone().add_time_entry(base),
            Purpose::Spill | Purpose::Checkpoint(_) => {}
        }
        let end = segment.next_offset;
        let snapshot = match purpose {
            Purpose::CloseSegment => tail.snapshot.clone(),
            Purpose::CleanStop if !self.snapshots.contains(&end) => {
                Some(producer_snapshot::encode(&self.producers))
            }
            Purpose::CleanStop | Purpose::Spill | Purpose::Checkpoint(_) => None,
        };
        let task = IndexTask {
            base,
            offset_entries: up_to.index.offset_entries - segment.offset_entries,
            time_entries: time_entries - segment.time_entries,
            has_closing_entry,
            purpose,
        };
        let offsets = tail.offset_tail.iter().take(task.offset_entries as usize);
        let offsets = index_file::encode_all(offsets);
        let times = tail.time_tail.iter().take(task.time_entries as usize);
        let times = index_file::encode_all(times.chain(&provisional));

        let index = SegmentFile::Index.path(&dir, base);
        let time_index = SegmentFile::TimeIndex.path(&dir, base);
        let mut writes = Vec::new();
        for (path, entries, entry_bytes, bytes) in [
            (
                &index,
                segment.offset_entries,
                offset_index::ENTRY_BYTES,
                offsets,
            ),
            (
                &time_index,
                segment.time_entries,
                time_index::ENTRY_BYTES,
                times,
            ),
        ] {
            if !bytes.is_empty() {
                writes.push(FileOp::WriteAt {
                    path: path.clone(),
                    position: Position(u64::from(entries) * entry_bytes),
                    bytes: Bytes::from(bytes),
                });
            }
        }
        let mut syncs = Vec::new();
        let mut dir_syncs = Vec::new();
        if purpose == Purpose::Spill {
            tail.indexes_unsynced = true;
        } else if !writes.is_empty() || tail.indexes_unsynced {
            syncs.extend([FileOp::SyncFile(index), FileOp::SyncFile(time_index)]);
        }
        if let Some(bytes) = snapshot {
            let path = SegmentFile::Snapshot.path(&dir, end);
            writes.push(FileOp::WriteFile {
                path: path.clone(),
                bytes,
            });
            syncs.push(FileOp::SyncFile(path));
            dir_syncs.push(FileOp::SyncDir(dir));
        }
        let stages = vec![writes, syncs, dir_syncs];
        self.start_task(cx, Task::Index(task), stages);
    }

    /// Index entries are in the files, or not.
    pub(super) fn index_written(
        &mut self,
        cx: &mut Context<'_>,
        task: &IndexTask,
        result: Result<(), Failure>,
    ) {
        if !self.is_running() {
            return;
        }
        if let Err(failure) = result {
            return self.index_failed(cx, task, failure);
        }
        let Some(segment) = self.segments.get_mut(&task.base) else {
            return;
        };
        let Some(tail) = segment.tail.as_mut() else {
            return;
        };
        // A failed roll may have taken the last entry back meanwhile, and an append may have put another in
        // its place.
        let is_taken_back = task.has_closing_entry && !tail.is_closing;
        let time_entries = task.time_entries - u32::from(is_taken_back);
        let offsets = (task.offset_entries as usize).min(tail.offset_tail.len());
        let times = (time_entries as usize).min(tail.time_tail.len());
        tail.offset_tail.drain(..offsets);
        tail.time_tail.drain(..times);
        segment.offset_entries += offsets as u32;
        segment.time_entries += times as u32;
        if task.purpose != Purpose::Spill {
            tail.indexes_unsynced = false;
        }
        match task.purpose {
            Purpose::Spill => {}
            Purpose::Checkpoint(mark) => self.move_recovery_point(task.base, mark),
            Purpose::CloseSegment if tail.is_closing => {
                self.snapshots.insert(segment.next_offset);
                self.close_segment(task.base);
                // The log start may have come past it while it took records.
                self.drop_below_log_start(cx);
            }
            Purpose::CloseSegment => {}
            Purpose::CleanStop => {
                let mark = tail.flushed;
                self.final_index_written(task.base, mark);
            }
        }
    }

    fn index_failed(&mut self, cx: &mut Context<'_>, task: &IndexTask, failure: Failure) {
        if failure.flush {
            return self.begin_reopen(cx, failure.error);
        }
        let full = self
            .segments
            .get(&task.base)
            .and_then(|segment| segment.tail.as_ref())
            .is_some_and(|tail| tail.full);
        match task.purpose {
            Purpose::CloseSegment if self.durability == Durability::Fsync && full => {
                self.roll_failed(cx, failure.error);
            }
            _ if self.closing.is_some() => self.close_failed(cx, &failure.error),
            _ => self.derived_waits(cx, "index entries wait to be written", &failure.error),
        }
    }

    /// All of a segment is flushed and another follows.
    fn close_segment(&mut self, base: Offset) {
        let segment = self.segments.get_mut(&base).expect("it was just written");
        let tail = segment.tail.take().expect("it was just written");
        segment.max_timestamp = Some(tail.index.max_timestamp);
        segment.first_timestamp = tail.first_timestamp;
        let next = segment.next_offset;
        self.move_recovery_point(next, Mark::start_of(next));
    }

    /// Everything below `mark` in the segment at `base` is flushed, indexes too.
    pub(super) fn move_recovery_point(&mut self, base: Offset, mark: Mark) {
        // A recovery point vouches for the epochs below it too.
        if self.epochs_pending() {
            self.next_recovery_point = Some((base, mark));
            return;
        }
        self.next_recovery_point = None;
        if mark.next_offset < self.recovery_point.offset {
            return;
        }
        self.recovery_point = RecoveryPoint {
            offset: mark.next_offset,
            segment_base: base,
            position: Position(mark.position),
            max_timestamp: mark.index.max_timestamp,
            offset_of_max_timestamp: mark.index.offset_of_max_timestamp,
            offset_index_entries: mark.index.offset_entries,
            time_index_entries: mark.index.time_entries,
        };
        self.recovery_point_moved = true;
        self.flushed_since = None;
    }
}
