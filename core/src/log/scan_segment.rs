//! Reads a segment from the recovery point on, finds where its good batches end, and builds its
//! index entries on the way. A pure function of the files; it changes nothing.

use alloc::vec::Vec;

use crate::bugs::{Bug, Bugs};
use crate::ids::{FilePath, LeaderEpoch, Offset, Position};
use crate::input::{DiskError, DiskErrorKind, ReadFiles};
use crate::record::batch::BatchHeader;

use super::batch_reader::{BatchReader, HEADER_WINDOW_BYTES, SCAN_WINDOW_BYTES};
use super::error::{BadBatch, Damage, DamageKind};
use super::file_names::SegmentFile;
use super::index_builder::{IndexState, IndexedBatch};
use super::recovery_point::RecoveryPoint;
use super::{offset_index, time_index};

/// Which segment to scan, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanSegment {
    /// The log's directory.
    pub dir: FilePath,
    /// The segment's base offset.
    pub base: Offset,
    /// What is below was flushed: batches there are only walked over, and a bad one is damage.
    /// From there on a bad one is where the log ends.
    pub from: RecoveryPoint,
    /// Whether the whole file counts as flushed: a closed segment whose indexes are to be rebuilt.
    pub all_flushed: bool,
    /// Whether to build the indexes from the first byte on, whatever the files hold.
    pub rebuild: bool,
    /// Base offset of the segment that follows.
    pub next_base: Option<Offset>,
    /// `index.interval.bytes`.
    pub index_interval_bytes: u64,
    /// Whether offsets are dense; a cleaned segment has gaps.
    pub dense: bool,
    /// The planted bug, if any.
    pub bugs: Bugs,
}

/// What a scan found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedSegment {
    /// The segment's base offset.
    pub base: Offset,
    /// Length of the file.
    pub length: Position,
    /// Where its good batches end.
    pub end: Position,
    /// The offset that follows them.
    pub next_offset: Offset,
    /// Why they end before the file does.
    pub bad: Option<BadBatch>,
    /// What is wrong with what was flushed; nothing else here counts then.
    pub damage: Option<Damage>,
    /// Whether the next segment follows without a gap: the segment stays closed, and its time index
    /// got its last entry.
    pub closed: bool,
    /// The offset index.
    pub offset_index: IndexTail,
    /// The time index.
    pub time_index: IndexTail,
    /// The state of both at the end.
    pub index: IndexState,
    /// Each leader epoch above those before, and the first offset it has here.
    pub epochs: Vec<(LeaderEpoch, Offset)>,
    /// Largest timestamp of the first batch, by which the segment's age counts.
    pub first_timestamp: Option<i64>,
}

/// What an index file should hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexTail {
    /// Bytes of the file that are right as they are.
    pub kept_bytes: u64,
    /// What follows them.
    pub bytes: Vec<u8>,
}

impl ScanSegment {
    /// Runs the scan.
    pub fn run(&self, files: &mut dyn ReadFiles) -> Result<ScannedSegment, DiskError> {
        let log = SegmentFile::Log.path(&self.dir, self.base);
        let length = files.length(&log)?.0;
        let prefix = if self.rebuild {
            None
        } else {
            self.index_prefix(files)?
        };
        let mut scan = self.start(prefix, length);
        if !self.all_flushed && length < self.from.position.0 {
            scan.damage = Some(self.damage(
                length,
                self.from.offset,
                DamageKind::TooShort {
                    expected: self.from.position,
                },
            ));
            return Ok(scan);
        }
        let window = if self.all_flushed {
            HEADER_WINDOW_BYTES
        } else {
            SCAN_WINDOW_BYTES
        };
        let mut reader = BatchReader::new(files, log, window);
        if scan.end.0 > 0 {
            let first = reader.header_at(0, length)?;
            scan.first_timestamp = first.ok().map(|header| header.max_timestamp);
        }
        let mut before = None;
        while scan.end.0 < length {
            let position = scan.end.0;
            let judged = !self.all_flushed && position >= self.from.position.0;
            let next = match self.next_batch(&mut reader, &scan, judged) {
                Err(_) if judged && self.bugs.has(Bug::UnreadableIsTorn) => Err(BadBatch::Partial),
                next => next?,
            };
            match next {
                Ok(header) => {
                    if judged && self.bugs.has(Bug::CutOneBatchMore) {
                        before = Some(scan.clone());
                    }
                    scan.take(self, &header);
                }
                Err(bad) if judged => {
                    scan = before.unwrap_or(scan);
                    scan.bad = Some(bad);
                    break;
                }
                Err(bad) => {
                    let kind = DamageKind::Batch(bad);
                    scan.damage = Some(self.damage(position, scan.next_offset, kind));
                    return Ok(scan);
                }
            }
        }
        scan.closed = scan.bad.is_none() && self.next_base == Some(scan.next_offset);
        if scan.closed {
            let last = scan.index.add_time_entry(self.base);
            scan.time_index
                .bytes
                .extend(last.into_iter().flat_map(time_index::TimeEntry::encode));
        }
        if let (true, false, Some(found)) = (self.all_flushed, scan.closed, self.next_base) {
            let kind = DamageKind::Gap { found };
            scan.damage = Some(self.damage(length, scan.next_offset, kind));
        }
        Ok(scan)
    }

    /// The state of the indexes at the recovery point, if the files hold it.
    fn index_prefix(&self, files: &mut dyn ReadFiles) -> Result<Option<IndexState>, DiskError> {
        let from = &self.from;
        let path = SegmentFile::Index.path(&self.dir, self.base);
        let offsets = present(offset_index::check(
            files,
            &path,
            from.offset_index_entries,
            from.position.0,
        ))?;
        let path = SegmentFile::TimeIndex.path(&self.dir, self.base);
        let relative_end = (from.offset.0 - self.base.0).unsigned_abs();
        let times = present(time_index::check(
            files,
            &path,
            from.time_index_entries,
            relative_end,
        ))?;
        let (Some(last_offset), Some(last_time)) = (offsets.flatten(), times.flatten()) else {
            return Ok(None);
        };
        if let Some(entry) = last_offset {
            let log = SegmentFile::Log.path(&self.dir, self.base);
            let mut reader = BatchReader::new(files, log, HEADER_WINDOW_BYTES);
            let named = reader.header_at(u64::from(entry.position), from.position.0)?;
            let expected = self.base.plus(i64::from(entry.relative_offset));
            if named.map(|header| header.last_offset()) != Ok(expected) {
                return Ok(None);
            }
        }
        let state = IndexState {
            offset_entries: from.offset_index_entries,
            time_entries: from.time_index_entries,
            last_indexed_position: last_offset.map_or(0, |entry| u64::from(entry.position)),
            last_indexed_timestamp: last_time.map_or(-1, |entry| entry.timestamp),
            max_timestamp: from.max_timestamp,
            offset_of_max_timestamp: from.offset_of_max_timestamp,
            ..IndexState::start_of(self.base)
        };
        Ok((state.max_timestamp >= state.last_indexed_timestamp).then_some(state))
    }

    fn start(&self, prefix: Option<IndexState>, length: u64) -> ScannedSegment {
        let (end, next_offset) = match prefix {
            Some(_) => (self.from.position, self.from.offset),
            None => (Position(0), self.base),
        };
        let index = prefix.unwrap_or(IndexState::start_of(self.base));
        let kept = |entries: u32, entry_bytes: u64| IndexTail {
            kept_bytes: u64::from(entries) * entry_bytes,
            bytes: Vec::new(),
        };
        ScannedSegment {
            base: self.base,
            length: Position(length),
            end,
            next_offset,
            bad: None,
            damage: None,
            closed: false,
            offset_index: kept(index.offset_entries, offset_index::ENTRY_BYTES),
            time_index: kept(index.time_entries, time_index::ENTRY_BYTES),
            index,
            epochs: Vec::new(),
            first_timestamp: None,
        }
    }

    /// The next batch, if it passes its checks.
    fn next_batch(
        &self,
        reader: &mut BatchReader<'_>,
        scan: &ScannedSegment,
        judged: bool,
    ) -> Result<Result<BatchHeader, BadBatch>, DiskError> {
        let position = scan.end.0;
        let header = match reader.header_at(position, scan.length.0)? {
            Ok(header) => header,
            Err(bad) => return Ok(Err(bad)),
        };
        let expected = scan.next_offset;
        let in_place =
            header.base_offset == expected || (!self.dense && header.base_offset > expected);
        let fits = header.last_offset().0 - self.base.0 <= i64::from(i32::MAX)
            && self
                .next_base
                .is_none_or(|next| header.next_offset() <= next)
            && position + header.size_bytes() <= u64::from(u32::MAX >> 1);
        if !in_place || !fits {
            return Ok(Err(BadBatch::Offset {
                expected,
                found: header.base_offset,
            }));
        }
        if !judged && !self.all_flushed && position + header.size_bytes() > self.from.position.0 {
            // A batch runs across the recovery point, which lay between two batches.
            return Ok(Err(BadBatch::Header));
        }
        if judged
            && !self.bugs.has(Bug::SkipCrcAtRecovery)
            && !reader.crc_holds(position, &header)?
        {
            return Ok(Err(BadBatch::Crc));
        }
        Ok(Ok(header))
    }

    fn damage(&self, position: u64, offset: Offset, kind: DamageKind) -> Damage {
        Damage {
            file: SegmentFile::Log.path(&self.dir, self.base),
            position: Position(position),
            offset,
            kind,
        }
    }
}

impl ScannedSegment {
    fn take(&mut self, job: &ScanSegment, header: &BatchHeader) {
        if self.end.0 == 0 {
            self.first_timestamp = Some(header.max_timestamp);
        }
        let batch = IndexedBatch {
            position: self.end.0,
            last_offset: header.last_offset(),
            max_timestamp: header.max_timestamp,
        };
        let (offset, time) = self
            .index
            .add(self.base, job.index_interval_bytes, batch, job.bugs);
        let offset = offset
            .into_iter()
            .flat_map(offset_index::OffsetEntry::encode);
        self.offset_index.bytes.extend(offset);
        let time = time.into_iter().flat_map(time_index::TimeEntry::encode);
        self.time_index.bytes.extend(time);
        if self
            .epochs
            .last()
            .is_none_or(|(last, _)| header.leader_epoch > *last)
        {
            self.epochs.push((header.leader_epoch, header.base_offset));
        }
        self.end = self.end.plus(header.size_bytes());
        self.next_offset = header.next_offset();
    }
}

/// What was read of a file, or `None` if it is not there.
pub(crate) fn present<T>(read: Result<T, DiskError>) -> Result<Option<T>, DiskError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind == DiskErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
