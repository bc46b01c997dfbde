//! Where reads find what they ask for.

use crate::bugs::Bug;
use crate::context::Context;
use crate::effect::FileRange;
use crate::ids::{Offset, OperationId, Position};
use crate::input::DiskError;
use crate::read_job::{ReadJob, ReadOutput};
use crate::report::Level;

use super::error::Damage;
use super::fetch_scan::{FetchScan, FetchScanned};
use super::replay::ReadRecords;
use super::segment::{NewFiles, Segment};
use super::time_lookup::{TimeFound, TimeLookup, TimeSegment, TimestampOffset};
use super::{Log, LogState};

/// How much a replay reads at once.
const REPLAY_BYTES: u32 = 1 << 20;
/// How many damaged batches are reported, each once.
const MAX_REPORTED: usize = 64;

/// Where to find what a fetch asks for.
#[derive(Debug)]
pub enum ReadPlan {
    /// Known without a read, and checked in this process.
    Range(ReadRange),
    /// Run this, then hand its output to [`Log::on_fetch_scanned`].
    Scan(ReadJob),
    /// Nothing: the offset is at or above the limit, or the first batch is larger than `max_bytes`
    /// and need not be sent whole.
    Empty,
    /// Below the log start or above the log end: OFFSET_OUT_OF_RANGE.
    OutOfRange,
    /// The log is loading, offline or closed: KAFKA_STORAGE_ERROR.
    Unavailable,
}

/// Whole batches of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRange {
    /// Where they are.
    pub range: FileRange,
    /// Base offset of the first batch, at most the fetch offset but where the cleaner left gaps.
    pub first_offset: Offset,
    /// The offset that follows the last batch.
    pub next_offset: Offset,
}

/// Why a read that was done cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The segment went away, or the log is not readable any more: plan again.
    Changed,
    /// Nothing but a damaged batch is there. It was reported, and is never served:
    /// KAFKA_STORAGE_ERROR.
    Corrupt(Damage),
}

impl Log {
    /// Where a fetch from `offset` finds whole batches below `limit` (the reader's high watermark),
    /// at most `max_bytes` of them, but the first one whole if `min_one_batch`.
    #[must_use]
    pub fn read_plan(
        &self,
        offset: Offset,
        limit: Offset,
        max_bytes: u32,
        min_one_batch: bool,
    ) -> ReadPlan {
        if !self.is_readable() {
            return ReadPlan::Unavailable;
        }
        let limit = if self.bugs.has(Bug::ServeBeyondHighWatermark) {
            self.written_end()
        } else {
            limit.min(self.acked_end)
        };
        if offset < self.log_start_offset || offset > self.log_end_offset() {
            return ReadPlan::OutOfRange;
        }
        if offset >= limit {
            return ReadPlan::Empty;
        }
        if let Some(plan) = self.recent_range(offset, limit, max_bytes, min_one_batch) {
            return plan;
        }
        let segment = self.segment_holding(offset);
        ReadPlan::Scan(ReadJob::FetchScan(self.fetch_scan(
            segment,
            offset,
            limit,
            max_bytes,
            min_one_batch,
        )))
    }

    /// What a [`ReadPlan::Scan`] found ([`ReadOutput::FetchScan`]). `Ok(None)`: the first batch does
    /// not fit into `max_bytes`.
    ///
    /// # Errors
    /// If it cannot be served; see [`ReadError`].
    pub fn on_fetch_scanned(
        &mut self,
        cx: &mut Context<'_>,
        output: ReadOutput,
    ) -> Result<Option<ReadRange>, ReadError> {
        match output {
            ReadOutput::FetchScan(scanned) => self.serve_scanned(cx, &scanned),
            _ => Err(ReadError::Changed),
        }
    }

    fn serve_scanned(
        &mut self,
        cx: &mut Context<'_>,
        scanned: &FetchScanned,
    ) -> Result<Option<ReadRange>, ReadError> {
        if !self.is_readable() || scanned.offset < self.log_start_offset {
            return Err(ReadError::Changed);
        }
        let Some(segment) = self.segments.get_mut(&scanned.segment) else {
            return Err(ReadError::Changed);
        };
        if segment.since > scanned.layout {
            // The files that were read are not the ones that are there now.
            return Err(ReadError::Changed);
        }
        let from = scanned.position.0;
        let to = from + u64::from(scanned.length);
        if to > segment.size {
            return Err(ReadError::Changed);
        }
        segment.verified.add(from, to);
        let file = segment.file(cx, self.id, &self.dir);
        if scanned.index_wrong && segment.tail.is_none() {
            segment.checked_indexes = false;
            self.wrong_indexes.insert(scanned.segment);
        }
        if let Some(damage) = &scanned.damage {
            self.report_damage(cx, damage);
        }
        self.advance(cx);
        if scanned.length == 0 {
            return match &scanned.damage {
                Some(damage) => Err(ReadError::Corrupt(damage.clone())),
                None => Ok(None),
            };
        }
        self.recent.note(scanned.next_offset, scanned.segment, to);
        Ok(Some(ReadRange {
            range: FileRange {
                file,
                position: scanned.position,
                length: scanned.length,
            },
            first_offset: scanned.first_offset,
            next_offset: scanned.next_offset,
        }))
    }

    /// Bytes from the batch that holds `offset` up to `limit`, in the segment that holds it. `None`
    /// if that is not known without a read.
    #[must_use]
    pub fn available_bytes(&self, offset: Offset, limit: Offset) -> Option<u64> {
        let limit = limit.min(self.acked_end);
        if offset >= limit || !self.is_readable() {
            return Some(0);
        }
        let segment = self.segment_holding(offset);
        let recent = self.recent.from(offset).and_then(|mut b| b.next());
        let position = match recent {
            Some(batch) => batch.position,
            None if offset == segment.base => 0,
            None => self.recent.hint(offset, segment.base)?,
        };
        Some(segment.visible_bytes(limit).saturating_sub(position))
    }

    /// Bytes from the beginning of a range up to `limit`, in the range's segment.
    #[must_use]
    pub fn bytes_from(&self, range: &ReadRange, limit: Offset) -> u64 {
        self.segment_of_range(range).map_or(0, |segment| {
            segment
                .visible_bytes(limit.min(self.acked_end))
                .saturating_sub(range.range.position.0)
        })
    }

    /// The segment of a range. The first batch may begin below the log start, which can lie inside
    /// it.
    fn segment_of_range(&self, range: &ReadRange) -> Option<&Segment> {
        let (_, segment) = self.segments.range(..=range.first_offset).next_back()?;
        Some(segment)
    }

    /// Whether a range that was found in an earlier step is still there to be sent: its file may
    /// have been closed since, by a reopening or by retention.
    #[must_use]
    pub fn holds(&self, range: &ReadRange) -> bool {
        self.is_readable()
            && self
                .segment_of_range(range)
                .is_some_and(|segment| segment.file == Some(range.range.file))
    }

    /// Whether `offset` lies in an older segment than the visible end: a waiting fetch then answers
    /// at once. A segment whose files nobody has begun to make is none yet.
    #[must_use]
    pub fn is_on_older_segment(&self, offset: Offset) -> bool {
        let mut newest = self.segments.range(..=self.acked_end).rev();
        let is_begun = |segment: &Segment| {
            let tail = segment.tail.as_ref();
            tail.is_none_or(|tail| tail.files != NewFiles::Missing)
        };
        newest
            .find(|(_, segment)| is_begun(segment))
            .is_some_and(|(base, _)| offset < *base)
    }

    /// The job that finds the first record below `limit` with a timestamp at or after `timestamp`;
    /// hand its output to [`Log::on_time_found`].
    #[must_use]
    pub fn time_lookup(&self, timestamp: i64, limit: Offset) -> ReadJob {
        ReadJob::TimeLookup(self.look_up(Some(timestamp), limit))
    }

    /// The job that finds the first record with the largest timestamp below `limit` (KIP-734); hand
    /// its output to [`Log::on_time_found`].
    #[must_use]
    pub fn max_timestamp_lookup(&self, limit: Offset) -> ReadJob {
        ReadJob::TimeLookup(self.look_up(None, limit))
    }

    /// What a look-up by time found: a record at or above the log start, or none.
    ///
    /// # Errors
    /// If it cannot be answered; see [`ReadError`].
    pub fn on_time_found(
        &mut self,
        cx: &mut Context<'_>,
        output: &TimeFound,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        if !self.is_readable() || output.layout != self.layout() {
            return Err(ReadError::Changed);
        }
        for base in &output.checked_indexes {
            if let Some(segment) = self.segments.get_mut(base) {
                segment.checked_indexes = true;
            }
        }
        for base in &output.wrong_indexes {
            if let Some(segment) = self.segments.get_mut(base)
                && segment.tail.is_none()
            {
                segment.checked_indexes = false;
                self.wrong_indexes.insert(*base);
            }
        }
        if let Some(damage) = &output.damage {
            self.report_damage(cx, damage);
        }
        self.advance(cx);
        match (&output.damage, output.found) {
            (Some(damage), _) => Err(ReadError::Corrupt(damage.clone())),
            (None, Some(found)) if found.offset < self.log_start_offset => Err(ReadError::Changed),
            (None, found) => Ok(found),
        }
    }

    /// The job that reads whole, checked batches from `offset` on, up to 1 MiB of those below
    /// `limit`, for a replay: its output is `ReadOutput::Records`. `None` at the limit, or if the
    /// log cannot be read. It sees what is written, flushed or not.
    #[must_use]
    pub fn replay_job(&self, offset: Offset, limit: Offset) -> Option<ReadJob> {
        self.replay_records(offset, limit).map(ReadJob::ReadRecords)
    }

    /// The same, for a job that does more with the records.
    #[must_use]
    pub fn replay_records(&self, offset: Offset, limit: Offset) -> Option<ReadRecords> {
        let limit = limit.min(self.written_end().max(self.acked_end));
        if !self.is_readable() || offset >= limit || offset < self.log_start_offset {
            return None;
        }
        let segment = self.segment_holding(offset);
        Some(ReadRecords(self.fetch_scan(
            segment,
            offset,
            limit,
            REPLAY_BYTES,
            true,
        )))
    }

    /// A read of this log's own has ended.
    pub fn on_read(
        &mut self,
        cx: &mut Context<'_>,
        operation: OperationId,
        result: Result<ReadOutput, DiskError>,
    ) {
        let Err(result) = self.load_read_done(cx, operation, result) else {
            return;
        };
        let Err(result) = self.cleaner_read_done(cx, operation, result) else {
            return self.advance(cx);
        };
        if self.reading_times.take_if(|op| *op == operation).is_some() {
            self.times_read(result);
        } else if let Some((_, base)) = self.rebuilding.take_if(|(op, _)| *op == operation) {
            self.wrong_index_scanned(cx, base, result);
        }
        self.advance(cx);
    }

    /// Tells of a damaged batch, once.
    pub(super) fn report_damage(&mut self, cx: &mut Context<'_>, damage: &Damage) {
        if self.bugs.has(Bug::HideDamage) {
            return;
        }
        if self.reported_damage.len() < MAX_REPORTED && self.reported_damage.insert(damage.offset) {
            cx.report(Level::Error, "log", alloc::format!("{damage}"));
        }
    }

    /// Whether anything can be read: it was loaded once in this life, and is not closed or offline.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        let reopening = matches!(self.state, LogState::Reopening(_))
            && !self.bugs.has(Bug::UnreadableWhileReopening);
        let ready = matches!(self.state, LogState::Ready | LogState::StorageFailed(_));
        self.loaded && (ready || reopening)
    }

    /// The range from `offset` on, if its batches are among the newest.
    fn recent_range(
        &self,
        offset: Offset,
        limit: Offset,
        max_bytes: u32,
        min_one_batch: bool,
    ) -> Option<ReadPlan> {
        let mut batches = self.recent.from(offset)?;
        let first = *batches.next()?;
        let segment = self.segments.get(&first.segment)?;
        let file = segment.file?;
        let first_bytes = first.end - first.position;
        if first.next_offset > limit {
            return Some(ReadPlan::Empty);
        }
        if first_bytes > u64::from(max_bytes) && !min_one_batch {
            return Some(ReadPlan::Empty);
        }
        let mut last = first;
        for batch in batches {
            if batch.segment != first.segment
                || batch.next_offset > limit
                || batch.end - first.position > u64::from(max_bytes)
            {
                break;
            }
            last = *batch;
        }
        Some(ReadPlan::Range(ReadRange {
            range: FileRange {
                file,
                position: Position(first.position),
                length: u32::try_from(last.end - first.position).ok()?,
            },
            first_offset: first.base_offset,
            next_offset: last.next_offset,
        }))
    }

    /// The segment that holds a readable offset.
    fn segment_holding(&self, offset: Offset) -> &Segment {
        self.segments
            .range(..=offset)
            .next_back()
            .map(|(_, segment)| segment)
            .expect("a readable offset is at or above the log start, which a segment holds")
    }

    fn fetch_scan(
        &self,
        segment: &Segment,
        offset: Offset,
        limit: Offset,
        max_bytes: u32,
        min_one_batch: bool,
    ) -> FetchScan {
        let relative = (offset.0 - segment.base.0).unsigned_abs();
        let in_memory = segment.tail.as_ref().and_then(|tail| {
            let mut entries = tail.offset_tail.iter().rev();
            entries.find(|entry| u64::from(entry.relative_offset) <= relative)
        });
        let from = self
            .recent
            .hint(offset, segment.base)
            .or_else(|| in_memory.map(|entry| u64::from(entry.position)))
            .or_else(|| (offset == segment.base).then_some(0));
        let mut verified = segment.verified.clone();
        if self.bugs.has(Bug::SkipCrcAtFirstServe) {
            verified.add(0, segment.size);
        }
        FetchScan {
            dir: self.dir.clone(),
            segment: segment.base,
            from: from.map(Position),
            index_entries: segment.offset_entries,
            index_interval_bytes: self.config.index_interval_bytes,
            offset,
            limit,
            end: Position(segment.visible_bytes(limit)),
            whole_segment: segment.tail.is_none() && limit >= segment.next_offset,
            max_bytes,
            min_one_batch,
            verified,
            dense: self.is_dense(segment.next_offset),
            layout: self.layout(),
            is_swap: segment.is_swap,
        }
    }

    fn look_up(&self, timestamp: Option<i64>, limit: Offset) -> TimeLookup {
        let limit = limit.min(self.acked_end);
        let start = self.log_start_offset;
        let segments = self
            .segments
            .values()
            .filter(|segment| {
                self.is_readable() && segment.next_offset > start && segment.base < limit
            })
            .map(|segment| {
                let tail = segment.tail.as_ref();
                let visible = tail.map(|tail| {
                    if tail.flushed.next_offset >= limit {
                        tail.flushed
                    } else {
                        tail.written
                    }
                });
                let max = visible.map(|mark| mark.index.max_timestamp);
                TimeSegment {
                    base: segment.base,
                    next_offset: segment.next_offset,
                    end: Position(segment.visible_bytes(limit)),
                    max_timestamp: max.or(segment.max_timestamp),
                    offset_entries: segment.offset_entries,
                    time_entries: segment.time_entries,
                    checked: segment.checked_indexes,
                    offset_tail: tail
                        .into_iter()
                        .flat_map(|t| t.offset_tail.clone())
                        .collect(),
                    time_tail: tail.into_iter().flat_map(|t| t.time_tail.clone()).collect(),
                }
            })
            .collect();
        TimeLookup {
            dir: self.dir.clone(),
            layout: self.layout(),
            swap: self.swap_base(),
            timestamp,
            start,
            limit,
            segments,
        }
    }
}
