//! Appending: what the settings refuse, offsets, index entries, the writes.

use crate::bugs::Bug;
use crate::context::Context;
use crate::effect::Effect;
use crate::ids::{LeaderEpoch, Offset, Position};
use crate::record::batch::CheckedBatch;
use crate::time::Wall;

use super::index_builder::IndexedBatch;
use super::recent::RecentBatch;
use super::segment::{Mark, Phase, Segment};
use super::{AppendError, AppendInfo, Log, LogState};
use super::{offset_index, time_index};

/// No position of an index entry is above it, whatever `segment.bytes` says.
const MAX_SEGMENT_BYTES: u64 = i32::MAX as u64;

impl Log {
    /// Appends batches, all or none: judges them by the settings, gives them offsets, emits their
    /// writes.
    ///
    /// # Errors
    /// An [`AppendError`]; nothing was stored and no offset was given.
    pub fn append(
        &mut self,
        cx: &mut Context<'_>,
        batches: &[CheckedBatch],
        epoch: LeaderEpoch,
    ) -> Result<AppendInfo, AppendError> {
        match self.state {
            LogState::Ready => {}
            LogState::StorageFailed(_) if self.undo.is_none() => self.state = LogState::Ready,
            _ => return Err(AppendError::Storage),
        }
        if self.closing.is_some() {
            return Err(AppendError::Storage);
        }
        for (at, batch) in batches.iter().enumerate() {
            self.judge(cx.now.wall, at, batch)?;
        }
        if let Some(duplicate) = self.check_producers(batches)? {
            return Ok(self.info_of_duplicate(duplicate));
        }
        let append_time = self.config.log_append_time.then_some(cx.now.wall);
        let mut base_offset = self.log_end_offset();
        if self.bugs.has(Bug::AnswerOffsetBefore) && base_offset > self.log_start_offset {
            base_offset = base_offset.plus(-1);
        }
        for batch in batches {
            self.append_batch(cx, batch, epoch, append_time);
        }
        if self.unflushed_since.is_none() && !batches.is_empty() {
            self.unflushed_since = Some(cx.now.mono);
        }
        self.advance(cx);
        Ok(AppendInfo {
            base_offset,
            last_offset: self.log_end_offset().plus(-1),
            log_append_time: append_time.map(|Wall(ms)| ms),
            log_start_offset: self.log_start_offset,
            duplicate: false,
        })
    }

    /// Whether the settings allow a batch.
    fn judge(&self, now: Wall, at: usize, batch: &CheckedBatch) -> Result<(), AppendError> {
        // A batch that its topic's codec made small came too large all the same, as with Kafka.
        let size_bytes = batch.arrived_bytes.max(batch.bytes.len() as u64);
        let max_bytes = self.config.max_message_bytes;
        if size_bytes > u64::from(max_bytes) {
            assert!(!self.bugs.has(Bug::PanicOnLargeMessage), "planted");
            return Err(AppendError::MessageTooLarge {
                batch: at,
                size_bytes,
                max_bytes,
            });
        }
        let size_bytes = batch.bytes.len() as u64;
        if size_bytes > self.max_segment_bytes() {
            return Err(AppendError::LargerThanSegment {
                batch: at,
                size_bytes,
            });
        }
        if self.config.compact && !batch.facts.without_key.is_empty() {
            return Err(AppendError::RecordWithoutKey { batch: at });
        }
        if self.config.log_append_time {
            return Ok(());
        }
        let before = i64::try_from(self.config.timestamp_before_max_ms).unwrap_or(i64::MAX);
        let after = i64::try_from(self.config.timestamp_after_max_ms).unwrap_or(i64::MAX);
        let allowed = now.0.saturating_sub(before)..=now.0.saturating_add(after);
        for timestamp in [batch.facts.min_timestamp, batch.facts.max_timestamp] {
            // -1 is a record without a timestamp.
            if timestamp != -1 && !allowed.contains(&timestamp) {
                return Err(AppendError::InvalidTimestamp {
                    batch: at,
                    timestamp,
                });
            }
        }
        Ok(())
    }

    fn append_batch(
        &mut self,
        cx: &mut Context<'_>,
        batch: &CheckedBatch,
        epoch: LeaderEpoch,
        append_time: Option<Wall>,
    ) {
        let size = batch.bytes.len() as u64;
        let max_timestamp = batch.stored_max_timestamp(append_time);
        let last_delta = i64::from(batch.header.last_offset_delta);
        if self.must_roll(cx.now.wall, size, last_delta, max_timestamp) {
            self.roll(cx.now.wall);
        }
        let interval = self.config.index_interval_bytes;
        let bugs = self.bugs;
        let segment = self.active_mut();
        let (base, position) = (segment.base, segment.size);
        let skips = position == 0 && base.0 > 0 && bugs.has(Bug::SkipAnOffset);
        let base_offset = segment.next_offset.plus(i64::from(skips));
        let next_offset = base_offset.plus(last_delta + 1);
        let data = batch.stamp(base_offset, epoch, append_time);
        debug_assert_eq!(
            data.len() as u64,
            size,
            "a stamp does not change the length"
        );

        segment.size += size;
        segment.next_offset = next_offset;
        segment.verified.add(position, position + size);
        let file = segment.file;
        let tail = segment
            .tail
            .as_mut()
            .expect("the active segment has a tail");
        if position == 0 {
            tail.first_timestamp = Some(max_timestamp);
        }
        let indexed = IndexedBatch {
            position,
            last_offset: next_offset.plus(-1),
            max_timestamp,
        };
        let (offset_entry, time_entry) = tail.index.add(base, interval, indexed, bugs);
        tail.offset_tail.extend(offset_entry);
        tail.time_tail.extend(time_entry);
        tail.marks.push_back(Mark {
            position: position + size,
            next_offset,
            index: tail.index,
        });
        match &mut tail.phase {
            Phase::Opening { held, .. } => held.push((Position(position), data)),
            Phase::Open => cx.out.push(Effect::Write {
                file: file.expect("an open segment has its file"),
                position: Position(position),
                data,
            }),
        }

        self.epochs.assign(epoch, base_offset);
        self.note_producer(cx.now.mono, batch, base_offset, max_timestamp);
        self.recent.push(RecentBatch {
            segment: base,
            position,
            end: position + size,
            base_offset,
            next_offset,
        });
    }

    /// Whether the active segment has no place for this batch.
    fn must_roll(&self, now: Wall, size: u64, last_delta: i64, max_timestamp: i64) -> bool {
        let (_, segment) = self
            .segments
            .last_key_value()
            .expect("a log that takes appends has a segment");
        let tail = segment
            .tail
            .as_ref()
            .expect("the active segment has a tail");
        if segment.size == 0 {
            return false;
        }
        // By the records' own time if they have one, as Kafka does: a replay of old records rolls as
        // it did the first time.
        let age_ms = match tail.first_timestamp {
            Some(first) if first >= 0 => max_timestamp.saturating_sub(first),
            _ => now.0.saturating_sub(tail.created.0),
        };
        let segment_ms = i64::try_from(self.segment_ms()).unwrap_or(i64::MAX);
        let max_offsets = self.config.segment_index_bytes / offset_index::ENTRY_BYTES;
        // One place is kept for the entry that a roll adds.
        let max_times =
            (self.config.segment_index_bytes / time_index::ENTRY_BYTES).saturating_sub(1);
        segment.size + size > self.max_segment_bytes()
            || age_ms > segment_ms
            || u64::from(tail.index.offset_entries) >= max_offsets.max(1)
            || u64::from(tail.index.time_entries) >= max_times.max(1)
            || segment.next_offset.0 + last_delta - segment.base.0 > i64::from(i32::MAX)
    }

    /// Begins a new segment at the log's end. The writes to it are held back until its files are
    /// there and the segment before is as safe as the durability in force asks.
    pub(super) fn roll(&mut self, now: Wall) {
        let snapshot = self.producer_snapshot();
        let active = self.active_mut();
        let base = active.next_offset;
        let tail = active.tail.as_mut().expect("the active segment has a tail");
        tail.full = true;
        tail.snapshot = Some(snapshot);
        self.segments.insert(base, Segment::new(base, now));
    }

    pub(super) fn active_mut(&mut self) -> &mut Segment {
        self.segments
            .last_entry()
            .expect("a log that takes appends has a segment")
            .into_mut()
    }

    /// The age at which a segment is full: nothing of the active one is compacted, so that it ends in
    /// time for `max.compaction.lag.ms`.
    fn segment_ms(&self) -> u64 {
        match self.config.max_compaction_lag_ms {
            Some(lag) if self.config.compact => self.config.segment_ms.min(lag),
            _ => self.config.segment_ms,
        }
    }

    pub(super) fn max_segment_bytes(&self) -> u64 {
        self.config.segment_bytes.min(MAX_SEGMENT_BYTES)
    }

    /// The end of what is flushed.
    pub(super) fn flushed_end(&self) -> Offset {
        self.first_open()
            .and_then(|segment| segment.tail.as_ref())
            .map_or(self.log_start_offset, |tail| tail.flushed.next_offset)
    }
}
