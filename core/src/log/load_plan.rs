//! Looks at what a log's directory holds and decides how to load it. A pure function of the files;
//! it changes nothing.
//!
//! After a clean stop it reads the indexes of the active segment. After an unclean one it also looks
//! at the last index entries of closed segments and walks over the batches behind them, so that a
//! missing segment or a segment that lost its end is found. What lies above the recovery point is
//! left to [`scan_segment`](super::scan_segment).

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::ids::{FilePath, LeaderEpoch, Offset, Position};
use crate::input::{DirEntry, DiskError, ReadFiles};

use super::batch_reader::{BatchReader, HEADER_WINDOW_BYTES};
use super::epoch_checkpoint::EpochCheckpoint;
use super::error::{BadBatch, Damage, DamageKind};
use super::file_names::{EPOCH_CHECKPOINT, FileName, OF_EACH_SEGMENT, SWAP, SegmentFile};
use super::index_builder::{IndexState, IndexedBatch};
use super::index_file;
use super::offset_index::{self, OffsetEntry};
use super::recovery_point::RecoveryPoint;
use super::scan_segment::present;
use super::time_index::{self, TimeEntry};
use crate::bugs::Bugs;

/// How many bytes of closed segments' indexes are read whole after an unclean stop, the newest
/// segments first. The others are checked at their first use: what an unclean start reads must not
/// grow with the log.
const FULL_CHECK_BYTES: u64 = 4 << 20;

/// What to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadLog {
    /// The log's directory.
    pub dir: FilePath,
    /// The recovery point that was persisted last.
    pub recovery_point: Option<RecoveryPoint>,
    /// The log start offset that was persisted last.
    pub log_start: Offset,
    /// Whether the last process marked a clean stop.
    pub clean: bool,
    /// Below it offsets may have gaps: segments that end there or before may have been cleaned.
    pub gaps_end: Offset,
    /// `index.interval.bytes`.
    pub index_interval_bytes: u64,
}

/// How to load it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadPlan {
    /// Cleaned segments that were taking the place of others. They do so first, and then all is
    /// looked at again: nothing else here counts.
    pub swaps: Vec<FoundSwap>,
    /// Leftovers, files of segments below the log start, index files without their log.
    pub remove: Vec<FilePath>,
    /// Segments wholly below the recovery point, rising.
    pub closed: Vec<FoundSegment>,
    /// Those of them whose indexes must be built anew.
    pub rebuild: Vec<Offset>,
    /// From where on batches are judged.
    pub start: RecoveryPoint,
    /// Base offsets of the segments that hold it and follow it, rising.
    pub scan: Vec<Offset>,
    /// Whether what is below the recovery point in the first of these must be walked over too,
    /// because the epoch checkpoint is lost.
    pub epochs_lost: bool,
    /// After a clean stop: the segment that takes appends, as it was. Nothing needs a scan then.
    pub active: Option<ActiveSegment>,
    /// Offsets of the producer snapshots there are, rising.
    pub snapshots: Vec<Offset>,
    /// The epochs and their offsets below the recovery point.
    pub epochs: Vec<(LeaderEpoch, Offset)>,
    /// What is wrong with what was flushed; the log does not load then.
    pub damage: Option<Damage>,
}

/// A cleaned segment whose files have not got their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundSwap {
    /// Its base offset.
    pub base: Offset,
    /// The offset that follows it.
    pub end: Offset,
    /// Segments that are still there and went into it, behind the one with its base: rising.
    pub merged: Vec<Offset>,
    /// Which of its files have still the names that end with `.swap`.
    pub(crate) files: Vec<SegmentFile>,
    /// Length of its log file.
    pub(crate) length: Position,
    /// Its largest timestamp, or -1.
    pub(crate) max_timestamp: i64,
    /// Entries of its offset index, as far as that is among `files`.
    pub(crate) offset_entries: u32,
    /// Entries of its time index, as far as that is among `files`.
    pub(crate) time_entries: u32,
}

/// A closed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundSegment {
    /// Its base offset.
    pub base: Offset,
    /// Length of its log file.
    pub length: Position,
    /// Entries in its offset index.
    pub offset_entries: u32,
    /// Entries in its time index.
    pub time_entries: u32,
    /// Its largest timestamp, if it was read.
    pub max_timestamp: Option<i64>,
    /// Whether its indexes were checked.
    pub checked: bool,
}

/// The active segment after a clean stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveSegment {
    /// Its indexes, all of them on disk.
    pub index: IndexState,
    /// Largest timestamp of its first batch.
    pub first_timestamp: Option<i64>,
}

/// Lengths of the files of a segment that has a log file.
#[derive(Clone, Copy, Debug, Default)]
struct Lengths {
    log: u64,
    index: Option<u64>,
    time_index: Option<u64>,
}

impl LoadLog {
    /// Runs the job.
    pub fn run(&self, files: &mut dyn ReadFiles) -> Result<LoadPlan, DiskError> {
        let mut plan = LoadPlan::default();
        let listed = files.list(&self.dir)?;
        let mut segments = self.classify(&listed, &mut plan);
        if self.find_swaps(files, &listed, &segments, &mut plan)? {
            return Ok(plan);
        }
        let first = self.drop_below_log_start(&mut segments, &mut plan);

        let start = match (self.recovery_point, first) {
            (Some(point), Some(first)) if point.segment_base >= first => point,
            (Some(point), None) => point,
            // No recovery point, or one in a segment that retention removed since.
            (_, Some(first)) if first <= self.log_start => RecoveryPoint::start_of(first),
            _ => RecoveryPoint::start_of(self.log_start),
        };
        plan.start = start;
        if let Some(damage) = self.missing(&segments, first, start) {
            plan.damage = Some(damage);
            return Ok(plan);
        }
        plan.scan = segments
            .range(start.segment_base..)
            .map(|(base, _)| *base)
            .collect();

        let epochs = self.read_epochs(files)?;
        plan.epochs_lost = epochs.is_none() && first.is_some_and(|first| start.offset > first);
        plan.epochs = epochs.unwrap_or_default();

        self.look_at_closed(files, &segments, &mut plan)?;
        if self.clean && !plan.epochs_lost && plan.scan == [start.segment_base] {
            let lengths = segments.get(&start.segment_base).copied();
            plan.active = self.clean_active(files, start, lengths.unwrap_or_default())?;
        }
        if plan.active.is_none() {
            plan.epochs.retain(|(_, at)| *at < start.offset);
        }
        Ok(plan)
    }

    /// Sorts the files; what has no place goes on the list of removals.
    fn classify(&self, listed: &[DirEntry], plan: &mut LoadPlan) -> BTreeMap<Offset, Lengths> {
        let mut segments: BTreeMap<Offset, Lengths> = BTreeMap::new();
        let named = || {
            listed.iter().filter_map(|entry| {
                let length = entry.length?.0;
                Some((FileName::parse(&entry.name), &entry.name, length))
            })
        };
        for (name, _, length) in named() {
            if let FileName::Segment(base, SegmentFile::Log) = name {
                segments.entry(base).or_default().log = length;
            }
        }
        for (name, text, length) in named() {
            let FileName::Segment(base, file) = name else {
                if name == FileName::Leftover {
                    plan.remove.push(self.dir.join(text));
                }
                continue;
            };
            if file == SegmentFile::Snapshot {
                plan.snapshots.push(base);
                continue;
            }
            let Some(lengths) = segments.get_mut(&base) else {
                plan.remove.push(self.dir.join(text));
                continue;
            };
            match file {
                SegmentFile::Log | SegmentFile::Snapshot => {}
                SegmentFile::Index => lengths.index = Some(length),
                SegmentFile::TimeIndex => lengths.time_index = Some(length),
            }
        }
        plan.snapshots.sort_unstable();
        segments
    }

    /// Finds what the cleaner was replacing. `true` if nothing else can be said before that is
    /// completed.
    fn find_swaps(
        &self,
        files: &mut dyn ReadFiles,
        listed: &[DirEntry],
        segments: &BTreeMap<Offset, Lengths>,
        plan: &mut LoadPlan,
    ) -> Result<bool, DiskError> {
        let mut found: BTreeMap<Offset, BTreeMap<SegmentFile, u64>> = BTreeMap::new();
        for entry in listed {
            if let (FileName::Swap(base, file), Some(length)) =
                (FileName::parse(&entry.name), entry.length)
            {
                found.entry(base).or_default().insert(file, length.0);
            }
        }
        for (base, swap) in found {
            let Some(length) = swap.get(&SegmentFile::Log).copied() else {
                // The log has its name already: an index without it is derived data.
                let path = |file: &SegmentFile| file.path_with(&self.dir, base, SWAP);
                plan.remove.extend(swap.keys().map(path));
                continue;
            };
            let path = SegmentFile::Log.path_with(&self.dir, base, SWAP);
            let mut reader = BatchReader::new(files, path.clone(), HEADER_WINDOW_BYTES);
            let (mut position, mut end, mut max_timestamp) = (0, base, -1);
            while position < length {
                match reader.header_at(position, length)? {
                    Ok(header) if header.base_offset >= end => {
                        position += header.size_bytes();
                        end = header.next_offset();
                        max_timestamp = max_timestamp.max(header.max_timestamp);
                    }
                    // It was flushed before it got this name.
                    other => {
                        let bad = other.err().unwrap_or(BadBatch::Header);
                        plan.damage = Some(Damage {
                            file: path,
                            position: Position(position),
                            offset: end,
                            kind: DamageKind::Batch(bad),
                        });
                        return Ok(true);
                    }
                }
            }
            plan.swaps.push(FoundSwap {
                base,
                end,
                merged: segments
                    .range(base.plus(1)..end.max(base.plus(1)))
                    .map(|(merged, _)| *merged)
                    .collect(),
                files: swap.keys().copied().collect(),
                length: Position(length),
                max_timestamp,
                offset_entries: entries(
                    swap.get(&SegmentFile::Index).copied().unwrap_or(0),
                    offset_index::ENTRY_BYTES,
                ),
                time_entries: entries(
                    swap.get(&SegmentFile::TimeIndex).copied().unwrap_or(0),
                    time_index::ENTRY_BYTES,
                ),
            });
        }
        Ok(!plan.swaps.is_empty())
    }

    /// Takes out the segments that end at or below the log start. Returns the first one left.
    fn drop_below_log_start(
        &self,
        segments: &mut BTreeMap<Offset, Lengths>,
        plan: &mut LoadPlan,
    ) -> Option<Offset> {
        loop {
            let mut bases = segments.keys().copied();
            let first = bases.next()?;
            // The recovery point's own segment stays even if the log start lies at its end.
            let next = bases.next();
            if next.is_none_or(|next| next > self.log_start) {
                return Some(first);
            }
            segments.remove(&first);
            plan.remove
                .extend(OF_EACH_SEGMENT.map(|file| file.path(&self.dir, first)));
        }
    }

    /// A segment that must be there and is not, or that is shorter than what was flushed.
    fn missing(
        &self,
        segments: &BTreeMap<Offset, Lengths>,
        first: Option<Offset>,
        start: RecoveryPoint,
    ) -> Option<Damage> {
        let damage = |base: Offset, position: Position, offset: Offset, kind: DamageKind| {
            Some(Damage {
                file: SegmentFile::Log.path(&self.dir, base),
                position,
                offset,
                kind,
            })
        };
        // If something between the log start and the recovery point was flushed, what holds the log
        // start must be there.
        let flushed = self
            .recovery_point
            .map_or(self.log_start, |point| point.offset);
        if flushed > self.log_start && first.is_none_or(|first| first > self.log_start) {
            let base = if first.is_none() {
                start.segment_base
            } else {
                self.log_start
            };
            return damage(
                base,
                Position(0),
                self.log_start,
                DamageKind::SegmentMissing,
            );
        }
        if start.position.0 == 0 || start.offset <= self.log_start && first.is_none() {
            return None;
        }
        let Some(lengths) = segments.get(&start.segment_base) else {
            let kind = DamageKind::SegmentMissing;
            return damage(start.segment_base, Position(0), start.segment_base, kind);
        };
        if lengths.log < start.position.0 {
            let kind = DamageKind::TooShort {
                expected: start.position,
            };
            return damage(
                start.segment_base,
                Position(lengths.log),
                start.offset,
                kind,
            );
        }
        None
    }

    fn read_epochs(
        &self,
        files: &mut dyn ReadFiles,
    ) -> Result<Option<Vec<(LeaderEpoch, Offset)>>, DiskError> {
        const MAX_BYTES: u64 = 16 << 20;
        let path = self.dir.join(EPOCH_CHECKPOINT);
        let Some(length) = present(files.length(&path))? else {
            return Ok(None);
        };
        let mut bytes = vec![0; usize::try_from(length.0.min(MAX_BYTES)).unwrap_or(0)];
        let read = files.read_at(&path, Position(0), &mut bytes)?;
        bytes.truncate(read);
        Ok(String::from_utf8(bytes)
            .ok()
            .and_then(|text| EpochCheckpoint::parse(&text)))
    }

    fn look_at_closed(
        &self,
        files: &mut dyn ReadFiles,
        segments: &BTreeMap<Offset, Lengths>,
        plan: &mut LoadPlan,
    ) -> Result<(), DiskError> {
        // The last closed one ends where the recovery point's segment begins, be its file there or
        // not.
        let mut next = plan.start.segment_base;
        let mut budget = FULL_CHECK_BYTES;
        for (&base, lengths) in segments.range(..plan.start.segment_base).rev() {
            let index = lengths.index.unwrap_or(0);
            let time_index = lengths.time_index.unwrap_or(0);
            let mut found = FoundSegment {
                base,
                length: Position(lengths.log),
                offset_entries: entries(index, offset_index::ENTRY_BYTES),
                time_entries: entries(time_index, time_index::ENTRY_BYTES),
                max_timestamp: None,
                checked: false,
            };
            let mut whole = lengths.index.is_some()
                && lengths.time_index.is_some()
                && index.is_multiple_of(offset_index::ENTRY_BYTES)
                && time_index.is_multiple_of(time_index::ENTRY_BYTES)
                && !plan.epochs_lost;
            if whole && !self.clean {
                found.checked = index + time_index <= budget;
                if found.checked {
                    budget -= index + time_index;
                }
                whole = self.check_closed(files, &mut found, next)?;
            }
            if !whole {
                plan.rebuild.push(base);
            }
            plan.closed.push(found);
            next = base;
        }
        plan.closed.reverse();
        plan.rebuild.reverse();
        Ok(())
    }

    /// Whether the indexes of a closed segment are in order, and the batches from their last entry
    /// on lead to the next segment and ask for no entry that is not there.
    fn check_closed(
        &self,
        files: &mut dyn ReadFiles,
        found: &mut FoundSegment,
        next_base: Offset,
    ) -> Result<bool, DiskError> {
        let base = found.base;
        let Some((last_offset, last_time)) = self.last_entries(files, found, next_base)? else {
            return Ok(false);
        };
        let max_timestamp = last_time.map_or(-1, |entry| entry.timestamp);
        let mut position = last_offset.map_or(0, |entry| u64::from(entry.position));
        let mut state = IndexState {
            last_indexed_position: position,
            last_indexed_timestamp: max_timestamp,
            max_timestamp,
            ..IndexState::start_of(base)
        };
        let log = SegmentFile::Log.path(&self.dir, base);
        let mut reader = BatchReader::new(files, log, HEADER_WINDOW_BYTES);
        let mut named = last_offset.map(|entry| base.plus(i64::from(entry.relative_offset)));
        let mut expected = None;
        while position < found.length.0 {
            let Ok(header) = reader.header_at(position, found.length.0)? else {
                return Ok(false);
            };
            let in_place = match (named.take(), expected) {
                (Some(named), _) => header.last_offset() == named,
                (None, expected) => {
                    let expected = expected.unwrap_or(base);
                    header.base_offset == expected
                        || (next_base <= self.gaps_end && header.base_offset > expected)
                }
            };
            // Whoever builds index entries relies on offsets and positions that fit into one.
            let fits = header.last_offset().0 - base.0 <= i64::from(i32::MAX)
                && position <= u64::from(u32::MAX >> 1);
            if !in_place || !fits || header.next_offset() > next_base {
                return Ok(false);
            }
            let batch = IndexedBatch {
                position,
                last_offset: header.last_offset(),
                max_timestamp: header.max_timestamp,
            };
            let (offset, _) = state.add(base, self.index_interval_bytes, batch, Bugs::NONE);
            if offset.is_some() || header.max_timestamp > max_timestamp {
                return Ok(false);
            }
            position += header.size_bytes();
            expected = Some(header.next_offset());
        }
        found.max_timestamp = Some(max_timestamp);
        Ok(expected.unwrap_or(base) == next_base)
    }

    /// The last entries of both indexes; `None` if they cannot be right. Reads all entries before
    /// them only if `found.checked` asks for it.
    #[expect(clippy::type_complexity, reason = "an entry of each index, used once")]
    fn last_entries(
        &self,
        files: &mut dyn ReadFiles,
        found: &FoundSegment,
        next_base: Offset,
    ) -> Result<Option<(Option<OffsetEntry>, Option<TimeEntry>)>, DiskError> {
        let index = SegmentFile::Index.path(&self.dir, found.base);
        let time_index = SegmentFile::TimeIndex.path(&self.dir, found.base);
        if found.checked {
            let relative_end = (next_base.0 - found.base.0).unsigned_abs();
            let offset = offset_index::check(files, &index, found.offset_entries, found.length.0)?;
            let time = time_index::check(files, &time_index, found.time_entries, relative_end)?;
            return Ok(offset.zip(time));
        }
        let offset = match found.offset_entries.checked_sub(1) {
            Some(last) => index_file::entry_at::<OffsetEntry>(files, &index, last)?,
            None => None,
        };
        let time = match found.time_entries.checked_sub(1) {
            Some(last) => index_file::entry_at::<TimeEntry>(files, &time_index, last)?,
            None => None,
        };
        let possible = offset.is_none_or(|entry| entry.position > 0)
            && time.is_none_or(|entry| entry.timestamp >= 0);
        Ok(possible.then_some((offset, time)))
    }

    /// The active segment, if it is as the clean stop left it.
    fn clean_active(
        &self,
        files: &mut dyn ReadFiles,
        start: RecoveryPoint,
        lengths: Lengths,
    ) -> Result<Option<ActiveSegment>, DiskError> {
        let index_bytes = u64::from(start.offset_index_entries) * offset_index::ENTRY_BYTES;
        let time_bytes = u64::from(start.time_index_entries) * time_index::ENTRY_BYTES;
        // The time index ends with the entry of the close, which the recovery point leaves out: the
        // next append may replace it.
        let time_index_as_left = lengths.time_index == Some(time_bytes)
            || lengths.time_index == Some(time_bytes + time_index::ENTRY_BYTES);
        if lengths.log != start.position.0
            || lengths.index != Some(index_bytes)
            || !time_index_as_left
        {
            return Ok(None);
        }
        // The active segment's indexes are the ones that appends go on with, so they are read whole;
        // those of closed segments are checked when they are first used.
        let index = SegmentFile::Index.path(&self.dir, start.segment_base);
        let checked =
            offset_index::check(files, &index, start.offset_index_entries, start.position.0)?;
        let Some(last_offset) = checked else {
            return Ok(None);
        };
        let time_index = SegmentFile::TimeIndex.path(&self.dir, start.segment_base);
        let relative_end = (start.offset.0 - start.segment_base.0).unsigned_abs();
        let checked =
            time_index::check(files, &time_index, start.time_index_entries, relative_end)?;
        let Some(last_time) = checked else {
            return Ok(None);
        };
        let position = last_offset.map_or(0, |entry| u64::from(entry.position));
        let timestamp = last_time.map_or(-1, |entry| entry.timestamp);
        if timestamp > start.max_timestamp {
            return Ok(None);
        }
        let mut first_timestamp = None;
        if lengths.log > 0 {
            let log = SegmentFile::Log.path(&self.dir, start.segment_base);
            let mut reader = BatchReader::new(files, log, 0);
            match reader.header_at(0, lengths.log)? {
                Ok(header) if header.base_offset == start.segment_base => {
                    first_timestamp = Some(header.max_timestamp);
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(ActiveSegment {
            index: IndexState {
                offset_entries: start.offset_index_entries,
                time_entries: start.time_index_entries,
                last_indexed_position: position,
                last_indexed_timestamp: timestamp,
                max_timestamp: start.max_timestamp,
                offset_of_max_timestamp: start.offset_of_max_timestamp,
                ..IndexState::start_of(start.segment_base)
            },
            first_timestamp,
        }))
    }
}

fn entries(bytes: u64, entry_bytes: u64) -> u32 {
    u32::try_from(bytes / entry_bytes).unwrap_or(u32::MAX)
}
