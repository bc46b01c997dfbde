//! The cleaner: keeps of each key in a compacted log the last record.
//!
//! A round begins where the one before ended ([`CleanerPoint::first_dirty`]):
//!
//! 1. **Map.** The newest offset of each key is read from the closed segments that were not cleaned
//!    yet, up to a bound of memory; what does not fit is for the next round (`offset_map`).
//! 2. **Persist.** That offsets may have gaps below the end of what is about to be cleaned, and with it
//!    a recovery point that is not below it, are durable before the first file is replaced.
//! 3. **Copy.** From the log's start on, groups of segments that fit into one are copied, less what
//!    the map knows a newer record of (`filter`), to files whose names end with `.cleaned`
//!    (`copy`).
//! 4. **Swap.** The new files take the place of the old ones (`swap`).
//!
//! Only closed segments are read or replaced: they lie below the recovery point. All that is
//! proportional to bytes is done in pieces outside the step, so no request waits for it. A segment
//! that comes out ends at the offset at which the segments ended that went in, by a batch without
//! records if need be: that the next segment follows stays checkable.
//!
//! A round can be given up at any time before a swap, and a crash at any time leaves what the next
//! load removes (`.cleaned`) or completes (`.swap`).

mod cleanable;
pub(crate) mod copy;
pub(crate) mod filter;
pub(crate) mod offset_map;
pub(crate) mod renamed;
mod swap;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::context::{Context, Owner};
use crate::effect::FileOp;
use crate::ids::{Offset, OperationId, Position};
use crate::input::DiskError;
use crate::read_job::{ReadJob, ReadOutput};
use crate::report::Level;
use crate::time::Wall;

use super::error::Damage;
use super::file_names::{CLEANED, OF_EACH_SEGMENT, SegmentFile};
use super::index_builder::IndexState;
use super::tasks::Failure;
use super::{Log, Task};

pub use cleanable::Dirt;
pub use copy::{CopiedPiece, CopyPiece};
pub use filter::Retention;
pub use offset_map::{BuildMap, Mapped, OffsetMap};
pub(in crate::log) use swap::take_over;

/// How far a log is cleaned. The broker persists it, keyed by topic id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CleanerPoint {
    /// Below it offsets may have gaps. Durable before there is one.
    pub gaps_end: Offset,
    /// The first offset whose key may have a newer record in the log although it was cleaned.
    pub first_dirty: Offset,
}

/// The cleaner of one log.
#[derive(Debug, Default)]
pub(crate) struct Cleaner {
    pub(crate) point: CleanerPoint,
    /// The [`CleanerPoint::gaps_end`] that is durable.
    durable_gaps_end: Offset,
    round: Option<Round>,
    /// A segment cannot be cleaned: nothing is, before the next start.
    gave_up: bool,
    /// Files are being replaced, or it is not known whether they are.
    is_swapping: bool,
    /// How often files were replaced or taken away.
    layout: u64,
}

/// A cleaning under way.
#[derive(Debug)]
struct Round {
    began: Wall,
    stage: Stage,
    max_map_bytes: u64,
    map: OffsetMap,
    /// The first offset that the map is about.
    start: Offset,
    /// The offset that follows what is in the map.
    end: Offset,
    /// Segments that are still to be read into the map, and where to go on in the first.
    to_map: VecDeque<Offset>,
    position: Position,
    /// By what records are judged, once the map is complete.
    retention: Arc<Retention>,
    producers: Arc<[Offset]>,
    /// Segments that are still to be copied, those together that become one.
    groups: VecDeque<Vec<Offset>>,
    copy: Option<Copying>,
    bytes_before: u64,
    bytes_after: u64,
}

/// What a round waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A piece of the map.
    Mapping(OperationId),
    /// The checkpoint that says where gaps may be.
    Persisting,
    /// A piece of a segment.
    Copying(OperationId),
    /// A file operation.
    Task,
}

/// A group that is being copied.
#[derive(Debug)]
struct Copying {
    group: Vec<Offset>,
    /// Which segment of the group, and where to go on in it.
    at: usize,
    from: Position,
    /// The new segment: its length, its indexes.
    length: u64,
    index: IndexState,
    offset_entries: Vec<u8>,
    time_entries: Vec<u8>,
    /// Whether its file is there.
    begun: bool,
    changed: bool,
}

/// What a sequence of the cleaner's file operations is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CleanTask {
    /// Write a piece of the new segment.
    Write,
    /// Write its indexes and flush all of it.
    Flush,
    /// Give it the names that a load completes.
    Commit,
    /// Remove the old segments and give it theirs.
    Swap,
    /// Remove what was written of it.
    Discard,
}

impl Copying {
    fn of(group: Vec<Offset>) -> Self {
        let base = group.first().copied().unwrap_or_default();
        Self {
            group,
            at: 0,
            from: Position(0),
            length: 0,
            index: IndexState::start_of(base),
            offset_entries: Vec::new(),
            time_entries: Vec::new(),
            begun: false,
            changed: false,
        }
    }

    fn base(&self) -> Offset {
        self.group.first().copied().unwrap_or_default()
    }
}

impl Cleaner {
    /// As it was persisted.
    pub(crate) fn at(point: CleanerPoint) -> Self {
        Self {
            point,
            durable_gaps_end: point.gaps_end,
            ..Self::default()
        }
    }
}

impl Log {
    /// How far it is cleaned: what to persist.
    #[must_use]
    pub const fn cleaner_point(&self) -> CleanerPoint {
        self.cleaner.point
    }

    /// Whether a cleaning is under way.
    #[must_use]
    pub const fn is_cleaning(&self) -> bool {
        self.cleaner.round.is_some()
    }

    /// Counts how often files were replaced or taken away: what was read of closed segments before may
    /// not be what is there now, and a read that began before may fail for no other reason.
    #[must_use]
    pub const fn layout(&self) -> u64 {
        self.cleaner.layout
    }

    /// Files of closed segments go.
    pub(super) const fn layout_changes(&mut self) {
        self.cleaner.layout += 1;
    }

    /// Whether the segment that ends at `next_offset` has every offset.
    pub(super) fn is_dense(&self, next_offset: Offset) -> bool {
        next_offset > self.cleaner.point.gaps_end
    }

    /// Begins to clean, with a map of keys of at most `max_map_bytes`. Does nothing if there is nothing
    /// to do.
    pub fn clean(&mut self, cx: &mut Context<'_>, max_map_bytes: u64) {
        if self.is_cleaning() || self.dirt(cx.now.wall).is_none() {
            return;
        }
        let start = self.first_dirty();
        let limit = self.uncleanable_from(cx.now.wall);
        let to_map = self
            .segments
            .values()
            .filter(|segment| segment.next_offset > start && segment.next_offset <= limit)
            .map(|segment| segment.base)
            .collect();
        let retention = Retention {
            map: OffsetMap::default(),
            map_end: start,
            now_ms: cx.now.wall.0,
            delete_retention_ms: i64::try_from(self.config.delete_retention_ms).unwrap_or(i64::MAX),
            bugs: self.bugs,
        };
        self.cleaner.round = Some(Round {
            began: cx.now.wall,
            stage: Stage::Task,
            max_map_bytes,
            map: OffsetMap::default(),
            start,
            end: start,
            to_map,
            position: Position(0),
            retention: Arc::new(retention),
            producers: Arc::from([]),
            groups: VecDeque::new(),
            copy: None,
            bytes_before: 0,
            bytes_after: 0,
        });
        self.map_next(cx);
    }

    /// The round that is under way, if it may go on.
    fn live_round(&mut self) -> Option<&mut Round> {
        if !self.config.compact || !self.is_running() || self.closing.is_some() {
            return None;
        }
        self.cleaner.round.as_mut()
    }

    fn map_next(&mut self, cx: &mut Context<'_>) {
        let dir = self.dir.clone();
        let bugs = self.bugs;
        let Some(round) = self.live_round() else {
            return self.end_round(cx);
        };
        let Some(&segment) = round.to_map.front() else {
            return self.plan_groups(cx);
        };
        let mut job = BuildMap {
            dir,
            segment,
            from: round.position,
            end: Position(0),
            start: round.start,
            map: round.map.clone(),
            max_map_bytes: round.max_map_bytes,
            bugs,
        };
        let Some(found) = self.segments.get(&segment).filter(|s| s.tail.is_none()) else {
            // Retention was faster.
            return self.end_round(cx);
        };
        job.end = Position(found.size);
        let read = cx.read(Owner::Log(self.id), ReadJob::BuildMap(job));
        self.set_stage(Stage::Mapping(read));
    }

    fn mapped(&mut self, cx: &mut Context<'_>, mapped: Mapped) {
        if let Some(damage) = mapped.damage {
            return self.give_up_cleaning(cx, &damage);
        }
        let Some(round) = self.live_round() else {
            return self.end_round(cx);
        };
        round.map = mapped.map;
        round.end = mapped.end.map_or(round.end, |end| end.max(round.end));
        round.position = mapped.next;
        if mapped.full {
            round.to_map.clear();
        }
        let Some(&segment) = round.to_map.front() else {
            return self.map_next(cx);
        };
        let found = self
            .segments
            .get(&segment)
            .map(|found| (found.size, found.next_offset));
        if let (Some((size, next_offset)), Some(round)) = (found, &mut self.cleaner.round)
            && mapped.next.0 >= size
        {
            // What the log start or a cleaning took from its end counts as read.
            round.end = round.end.max(next_offset);
            round.to_map.pop_front();
            round.position = Position(0);
        }
        self.map_next(cx);
    }

    /// The map is complete: decides which segments become one.
    fn plan_groups(&mut self, cx: &mut Context<'_>) {
        let Some(round) = &self.cleaner.round else {
            return;
        };
        let (start, end) = (round.start, round.end);
        if end <= start {
            return self.end_round(cx);
        }
        let bases: Vec<Offset> = self
            .segments
            .values()
            .filter(|segment| segment.tail.is_none() && segment.base < end)
            .map(|segment| segment.base)
            .collect();
        let groups = self.groups(&bases);
        let Some(gaps_end) = bases
            .last()
            .and_then(|base| self.segments.get(base))
            .map(|segment| segment.next_offset)
        else {
            return self.end_round(cx);
        };
        let producers = self.batches_of_producers(gaps_end);
        if let Some(round) = &mut self.cleaner.round {
            let retention = Arc::make_mut(&mut round.retention);
            retention.map = core::mem::take(&mut round.map);
            retention.map_end = end;
            round.groups = groups.into();
            round.producers = producers;
            round.stage = Stage::Persisting;
        }
        if self.cleaner.point.gaps_end < gaps_end {
            self.cleaner.point.gaps_end = gaps_end;
            self.recovery_point_moved = true;
        }
        self.persisted_far_enough(cx);
    }

    /// Batches by which the producers of the log are known.
    fn batches_of_producers(&self, below: Offset) -> Arc<[Offset]> {
        let mut offsets: Vec<Offset> = self
            .producers
            .iter()
            .flat_map(|(_, state)| state.batches())
            .map(|batch| batch.last_offset)
            .filter(|offset| *offset < below)
            .collect();
        offsets.sort_unstable();
        Arc::from(offsets)
    }

    /// What [`Log::cleaner_point`] said once is durable, and so is the recovery point of then.
    pub fn on_cleaner_point_durable(&mut self, cx: &mut Context<'_>, gaps_end: Offset) {
        self.cleaner.durable_gaps_end = self.cleaner.durable_gaps_end.max(gaps_end);
        self.persisted_far_enough(cx);
    }

    fn persisted_far_enough(&mut self, cx: &mut Context<'_>) {
        let waits = self
            .cleaner
            .round
            .as_ref()
            .is_some_and(|round| round.stage == Stage::Persisting);
        if waits && self.cleaner.durable_gaps_end >= self.cleaner.point.gaps_end {
            self.copy_next_group(cx);
        }
    }

    fn copy_next_group(&mut self, cx: &mut Context<'_>) {
        let Some(round) = self.live_round() else {
            return self.end_round(cx);
        };
        match round.groups.pop_front() {
            Some(group) => {
                round.copy = Some(Copying::of(group));
                self.copy_next(cx);
            }
            None => self.round_done(cx),
        }
    }

    /// Whether all segments that are being copied are there as they were.
    fn is_group_there(&self) -> bool {
        let copy = self
            .cleaner
            .round
            .as_ref()
            .and_then(|round| round.copy.as_ref());
        copy.is_some_and(|copy| {
            copy.group.iter().all(|base| {
                let segment = self.segments.get(base);
                segment.is_some_and(|segment| segment.tail.is_none())
            })
        })
    }

    fn copy_next(&mut self, cx: &mut Context<'_>) {
        if self
            .cleaner
            .round
            .as_ref()
            .is_some_and(|round| round.copy.is_none())
        {
            return self.copy_next_group(cx);
        }
        if self.live_round().is_none() || !self.is_group_there() {
            return self.discard(cx);
        }
        let Some(round) = &mut self.cleaner.round else {
            return;
        };
        let Some(copy) = &mut round.copy else {
            return;
        };
        let Some((base, size)) = copy
            .group
            .get(copy.at)
            .and_then(|base| Some((*base, self.segments.get(base)?.size)))
        else {
            return self.copied_group(cx);
        };
        if copy.from.0 >= size {
            copy.at += 1;
            copy.from = Position(0);
            round.bytes_before += size;
            return self.copy_next(cx);
        }
        let job = CopyPiece {
            dir: self.dir.clone(),
            segment: base,
            from: copy.from,
            end: Position(size),
            last_of_group: copy.at + 1 == copy.group.len(),
            target: copy.base(),
            target_position: Position(copy.length),
            index: copy.index,
            index_interval_bytes: self.config.index_interval_bytes,
            retention: round.retention.clone(),
            producers: round.producers.clone(),
        };
        let read = cx.read(Owner::Log(self.id), ReadJob::CopyPiece(job));
        self.set_stage(Stage::Copying(read));
    }

    fn copied(&mut self, cx: &mut Context<'_>, piece: CopiedPiece) {
        if let Some(damage) = piece.damage {
            return self.give_up_cleaning(cx, &damage);
        }
        if piece.too_large {
            self.cleaner.gave_up = true;
            return self.discard(cx);
        }
        let dir = self.dir.clone();
        let Some(copy) = self.live_round().and_then(|round| round.copy.as_mut()) else {
            return self.discard(cx);
        };
        let position = Position(copy.length);
        let path = SegmentFile::Log.path_with(&dir, copy.base(), CLEANED);
        copy.from = piece.next;
        copy.length += piece.bytes.len() as u64;
        copy.index = piece.index;
        copy.offset_entries.extend_from_slice(&piece.offset_entries);
        copy.time_entries.extend_from_slice(&piece.time_entries);
        copy.changed |= piece.changed;
        if piece.bytes.is_empty() {
            return self.copy_next(cx);
        }
        let bytes = piece.bytes;
        let op = if core::mem::replace(&mut copy.begun, true) {
            FileOp::WriteAt {
                path,
                position,
                bytes,
            }
        } else {
            FileOp::WriteFile { path, bytes }
        };
        self.start_clean_task(cx, CleanTask::Write, vec![vec![op]]);
    }

    /// One of the cleaner's own reads has ended; gives back what is not.
    #[expect(
        clippy::result_large_err,
        reason = "what is not this room's goes back to the caller"
    )]
    pub(super) fn cleaner_read_done(
        &mut self,
        cx: &mut Context<'_>,
        operation: OperationId,
        result: Result<ReadOutput, DiskError>,
    ) -> Result<(), Result<ReadOutput, DiskError>> {
        let reads =
            |stage: Stage| stage == Stage::Mapping(operation) || stage == Stage::Copying(operation);
        let Some(round) = self.cleaner.round.as_mut().filter(|r| reads(r.stage)) else {
            return Err(result);
        };
        round.stage = Stage::Task;
        match result {
            Ok(ReadOutput::Mapped(mapped)) => self.mapped(cx, *mapped),
            Ok(ReadOutput::Copied(piece)) => self.copied(cx, *piece),
            Ok(_) => debug_assert!(false, "a job answers with its own kind of output"),
            Err(error) => self.cleaning_failed(cx, &error),
        }
        Ok(())
    }

    fn start_clean_task(
        &mut self,
        cx: &mut Context<'_>,
        task: CleanTask,
        stages: Vec<Vec<FileOp>>,
    ) {
        self.set_stage(Stage::Task);
        self.start_task(cx, Task::Clean(task), stages);
    }

    /// File operations of the cleaner have ended.
    pub(super) fn clean_task_done(
        &mut self,
        cx: &mut Context<'_>,
        task: CleanTask,
        result: Result<(), Failure>,
    ) {
        match (task, result) {
            (CleanTask::Write, Ok(())) => self.copy_next(cx),
            (CleanTask::Flush, Ok(())) => self.commit(cx),
            (CleanTask::Commit, Ok(())) => self.committed(cx),
            (CleanTask::Swap, Ok(())) => self.swapped(cx),
            (CleanTask::Discard, _) => self.end_round(cx),
            // Nothing but a file that nobody knows is concerned, flushed or not.
            (CleanTask::Write | CleanTask::Flush, Err(failure)) => {
                self.cleaning_failed(cx, &failure.error);
            }
            // Which names the files have now only a load finds out.
            (CleanTask::Commit | CleanTask::Swap, Err(failure)) => {
                self.cleaner.round = None;
                self.cleaner.is_swapping = false;
                if self.is_running() {
                    self.begin_reopen(cx, failure.error);
                }
            }
        }
    }

    fn cleaning_failed(&mut self, cx: &mut Context<'_>, error: &DiskError) {
        cx.report(
            Level::Warn,
            "cleaner",
            alloc::format!(
                "dir={} not cleaned, the next round tries again: {error}",
                self.dir
            ),
        );
        self.discard(cx);
    }

    fn give_up_cleaning(&mut self, cx: &mut Context<'_>, damage: &Damage) {
        self.report_damage(cx, damage);
        self.cleaner.gave_up = true;
        self.discard(cx);
    }

    /// Gives a round up: what it has written of a new segment goes.
    fn discard(&mut self, cx: &mut Context<'_>) {
        let Some(round) = &mut self.cleaner.round else {
            return;
        };
        round.groups.clear();
        match round.copy.take() {
            Some(copy) if copy.begun && self.is_running() => self.remove_cleaned(cx, copy.base()),
            _ => self.end_round(cx),
        }
    }

    /// Removes the files of a new segment that is not wanted.
    fn remove_cleaned(&mut self, cx: &mut Context<'_>, base: Offset) {
        let remove = OF_EACH_SEGMENT
            .map(|file| FileOp::RemoveFile(file.path_with(&self.dir, base, CLEANED)))
            .to_vec();
        self.start_clean_task(cx, CleanTask::Discard, vec![remove]);
    }

    fn set_stage(&mut self, stage: Stage) {
        if let Some(round) = &mut self.cleaner.round {
            round.stage = stage;
        }
    }

    /// All is cleaned that was to be.
    fn round_done(&mut self, cx: &mut Context<'_>) {
        let Some(round) = &self.cleaner.round else {
            return;
        };
        cx.report(
            Level::Info,
            "cleaner",
            alloc::format!(
                "dir={} offsets={}..{} bytes_before={} bytes_after={} ms={} cleaned",
                self.dir,
                round.start,
                round.end,
                round.bytes_before,
                round.bytes_after,
                cx.now.wall.0.saturating_sub(round.began.0)
            ),
        );
        self.cleaner.point.first_dirty = self.cleaner.point.first_dirty.max(round.end);
        self.recovery_point_moved = true;
        self.end_round(cx);
    }

    fn end_round(&mut self, cx: &mut Context<'_>) {
        self.cleaner.round = None;
        self.drop_below_log_start(cx);
    }

    /// The log is being reopened, closed or given up: nothing of a round goes on, but for file
    /// operations that are under way.
    pub(super) fn abandon_cleaning(&mut self) {
        self.cleaner.round = None;
    }
}
