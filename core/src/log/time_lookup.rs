//! Finds the first record at or after a timestamp (ListOffsets, KIP-79), inside compressed batches
//! too. A pure function of the files.

use alloc::vec::Vec;

use crate::ids::{FilePath, LeaderEpoch, Offset, Position};
use crate::input::{DiskError, ReadFiles};
use crate::record::batch::verify_crc;
use crate::record::check::Limits;
use crate::record::records::BatchRecords;

use super::batch_reader::{BatchReader, HEADER_WINDOW_BYTES};
use super::cleaner::renamed::Renamed;
use super::error::{BadBatch, Damage, DamageKind};
use super::file_names::SegmentFile;
use super::index_file;
use super::offset_index::{self, OffsetEntry};
use super::scan_segment::present;
use super::time_index::{self, TimeEntry};

/// What to look for, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeLookup {
    /// The log's directory.
    pub dir: FilePath,
    /// Which files the log has: [`Log::layout`](super::Log::layout) when this was asked.
    pub layout: u64,
    /// The segment, if any, whose files are just getting their names.
    pub swap: Option<Offset>,
    /// The timestamp; `None` looks for the first record with the largest one.
    pub timestamp: Option<i64>,
    /// Only records at or above this offset.
    pub start: Offset,
    /// Only records below this offset.
    pub limit: Offset,
    /// The segments that hold such records, rising.
    pub segments: Vec<TimeSegment>,
}

/// A segment to look into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeSegment {
    /// Its base offset.
    pub base: Offset,
    /// The offset that follows its last record.
    pub next_offset: Offset,
    /// Where what may be read of it ends.
    pub end: Position,
    /// Its largest timestamp, or -1; `None` if only its time index knows.
    pub max_timestamp: Option<i64>,
    /// Entries of the offset index that are in the file.
    pub offset_entries: u32,
    /// Entries of the time index that are in the file.
    pub time_entries: u32,
    /// Whether the files' entries are known to be in order.
    pub checked: bool,
    /// Entries that are not in the file yet.
    pub offset_tail: Vec<OffsetEntry>,
    /// Entries that are not in the file yet.
    pub time_tail: Vec<TimeEntry>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeFound {
    /// As the job has it.
    pub layout: u64,
    /// The record, if there is one.
    pub found: Option<TimestampOffset>,
    /// A batch that does not pass its checks, which ended the search.
    pub damage: Option<Damage>,
    /// Segments whose indexes were checked, and are in order.
    pub checked_indexes: Vec<Offset>,
    /// Segments whose indexes are not in order.
    pub wrong_indexes: Vec<Offset>,
}

/// A record found by its timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampOffset {
    /// The record's timestamp in milliseconds.
    pub timestamp: i64,
    /// Its offset.
    pub offset: Offset,
    /// The leader epoch of its batch.
    pub leader_epoch: LeaderEpoch,
}

impl TimeLookup {
    /// Runs the job.
    pub fn run(&self, files: &mut dyn ReadFiles) -> Result<TimeFound, DiskError> {
        let files: &mut dyn ReadFiles = &mut Renamed::new(files, self.swap);
        let mut result = TimeFound {
            layout: self.layout,
            ..TimeFound::default()
        };
        let mut maxima = Vec::new();
        for segment in &self.segments {
            let max = match segment.max_timestamp {
                Some(max) => max,
                None => self.last_indexed_timestamp(files, segment, &mut result)?,
            };
            maxima.push(max);
        }
        if self.timestamp.is_none() {
            self.leave_out_deleted(files, &mut maxima)?;
        }
        let timestamp = match self.timestamp {
            Some(timestamp) => timestamp,
            None => match maxima.iter().copied().max() {
                Some(max) if max >= 0 => max,
                _ => return Ok(result),
            },
        };
        for (segment, max) in self.segments.iter().zip(maxima) {
            if max < timestamp {
                continue;
            }
            self.look_into(files, segment, timestamp, &mut result)?;
            if result.found.is_some() || result.damage.is_some() {
                break;
            }
        }
        Ok(result)
    }

    /// The record with the largest timestamp may lie below the log start, in the segment that holds that:
    /// then what is left of the segment decides.
    fn leave_out_deleted(
        &self,
        files: &mut dyn ReadFiles,
        maxima: &mut [i64],
    ) -> Result<(), DiskError> {
        let (Some(segment), [max, others @ ..]) = (self.segments.first(), maxima) else {
            return Ok(());
        };
        if segment.base < self.start && others.iter().all(|other| *other < *max) {
            *max = self.largest_timestamp(files, segment)?;
        }
        Ok(())
    }

    /// The largest timestamp of a closed segment is in the last entry of its time index, if that
    /// entry is right: an index is not worth a wrong answer.
    fn last_indexed_timestamp(
        &self,
        files: &mut dyn ReadFiles,
        segment: &TimeSegment,
        result: &mut TimeFound,
    ) -> Result<i64, DiskError> {
        let Some(last) = segment.time_entries.checked_sub(1) else {
            return Ok(-1);
        };
        let path = SegmentFile::TimeIndex.path(&self.dir, segment.base);
        let entry = present(index_file::entry_at::<TimeEntry>(files, &path, last))?.flatten();
        if let Some(entry) = entry
            && self.names_its_batch(files, segment, entry)?
        {
            return Ok(entry.timestamp);
        }
        result.wrong_indexes.push(segment.base);
        self.largest_timestamp(files, segment)
    }

    /// Whether the batch that an entry of the time index names is there, and has its timestamp.
    fn names_its_batch(
        &self,
        files: &mut dyn ReadFiles,
        segment: &TimeSegment,
        entry: TimeEntry,
    ) -> Result<bool, DiskError> {
        let offsets = SegmentFile::Index.path(&self.dir, segment.base);
        let relative = u64::from(entry.relative_offset);
        let floor = offset_index::floor(files, &offsets, segment.offset_entries, relative);
        let floor = present(floor)?.flatten();
        let mut position = floor.map_or(0, |entry| u64::from(entry.position));
        let named = segment.base.plus(i64::from(entry.relative_offset));
        let log = SegmentFile::Log.path(&self.dir, segment.base);
        let mut reader = BatchReader::new(files, log, HEADER_WINDOW_BYTES);
        while position < segment.end.0 {
            let Ok(header) = reader.header_at(position, segment.end.0)? else {
                return Ok(false);
            };
            if header.last_offset() >= named {
                return Ok(header.last_offset() == named && header.max_timestamp == entry.timestamp);
            }
            position += header.size_bytes();
        }
        Ok(false)
    }

    /// The largest timestamp at or above the log start in a segment, as far as its batches can be walked
    /// over.
    fn largest_timestamp(
        &self,
        files: &mut dyn ReadFiles,
        segment: &TimeSegment,
    ) -> Result<i64, DiskError> {
        let log = SegmentFile::Log.path(&self.dir, segment.base);
        let mut reader = BatchReader::new(files, log, HEADER_WINDOW_BYTES);
        let (mut position, mut largest) = (0, -1);
        while position < segment.end.0 {
            let Ok(header) = reader.header_at(position, segment.end.0)? else {
                // Whatever lies behind, the segment has to be looked into.
                return Ok(i64::MAX);
            };
            if header.base_offset < self.start && header.next_offset() > self.start {
                let bytes = reader.batch(position, &header)?;
                let records = BatchRecords::open(&bytes, Limits::default().max_decompressed_bytes);
                let (true, Ok(records)) = (verify_crc(&bytes), records) else {
                    return Ok(i64::MAX);
                };
                let left = records.iter().map_while(Result::ok);
                let left = left.filter(|record| record.offset >= self.start);
                largest = left.map(|record| record.timestamp).fold(largest, i64::max);
            } else if header.base_offset >= self.start {
                largest = largest.max(header.max_timestamp);
            }
            position += header.size_bytes();
        }
        Ok(largest)
    }

    fn look_into(
        &self,
        files: &mut dyn ReadFiles,
        segment: &TimeSegment,
        timestamp: i64,
        result: &mut TimeFound,
    ) -> Result<(), DiskError> {
        let mut position = match self.floor(files, segment, timestamp)? {
            Some(position) => {
                if !segment.checked {
                    result.checked_indexes.push(segment.base);
                }
                position
            }
            None => {
                result.wrong_indexes.push(segment.base);
                0
            }
        };
        let log = SegmentFile::Log.path(&self.dir, segment.base);
        let mut reader = BatchReader::new(files, log, HEADER_WINDOW_BYTES);
        let mut expected = segment.base;
        let damage = |position: u64, offset: Offset, bad: BadBatch| {
            Some(Damage {
                file: SegmentFile::Log.path(&self.dir, segment.base),
                position: Position(position),
                offset,
                kind: DamageKind::Batch(bad),
            })
        };
        while position < segment.end.0 {
            let header = match reader.header_at(position, segment.end.0)? {
                Ok(header) => header,
                Err(bad) => {
                    result.damage = damage(position, expected, bad);
                    return Ok(());
                }
            };
            if header.base_offset >= self.limit {
                return Ok(());
            }
            if header.max_timestamp >= timestamp && header.next_offset() > self.start {
                let bytes = reader.batch(position, &header)?;
                let records = BatchRecords::open(&bytes, Limits::default().max_decompressed_bytes);
                let (true, Ok(records)) = (verify_crc(&bytes), records) else {
                    result.damage = damage(position, header.base_offset, BadBatch::Crc);
                    return Ok(());
                };
                let wanted = records
                    .iter()
                    .map_while(Result::ok)
                    .find(|record| record.timestamp >= timestamp && record.offset >= self.start);
                if let Some(record) = wanted.filter(|record| record.offset < self.limit) {
                    result.found = Some(TimestampOffset {
                        timestamp: record.timestamp,
                        offset: record.offset,
                        leader_epoch: header.leader_epoch,
                    });
                    return Ok(());
                }
            }
            position += header.size_bytes();
            expected = header.next_offset();
        }
        Ok(())
    }

    /// A batch boundary before which no record can be the one. `None` if the indexes make no sense.
    fn floor(
        &self,
        files: &mut dyn ReadFiles,
        segment: &TimeSegment,
        timestamp: i64,
    ) -> Result<Option<u64>, DiskError> {
        let times = SegmentFile::TimeIndex.path(&self.dir, segment.base);
        let offsets = SegmentFile::Index.path(&self.dir, segment.base);
        if !segment.checked {
            let relative_end = (segment.next_offset.0 - segment.base.0).unsigned_abs();
            let time = time_index::check(files, &times, segment.time_entries, relative_end);
            let offset =
                offset_index::check(files, &offsets, segment.offset_entries, segment.end.0);
            let in_order =
                present(time)?.flatten().is_some() && present(offset)?.flatten().is_some();
            if !in_order {
                return Ok(None);
            }
        }
        // Everything up to the batch of an entry is at most as new as the entry says.
        let tail = segment.time_tail.iter().rev();
        let time = match tail.clone().find(|entry| entry.timestamp <= timestamp) {
            Some(entry) => Some(*entry),
            None => {
                let floor = time_index::floor(files, &times, segment.time_entries, timestamp);
                let floor = present(floor)?.flatten();
                if let Some(entry) = floor
                    && !self.names_its_batch(files, segment, entry)?
                {
                    return Ok(None);
                }
                floor
            }
        };
        let by_time = time.map_or(0, |entry| u64::from(entry.relative_offset));
        let by_start = u64::try_from(self.start.0 - segment.base.0).unwrap_or(0);
        let relative = by_time.max(by_start);
        let tail = segment.offset_tail.iter().rev();
        let entry = match tail
            .clone()
            .find(|entry| u64::from(entry.relative_offset) <= relative)
        {
            Some(entry) => Some(*entry),
            None => present(offset_index::floor(
                files,
                &offsets,
                segment.offset_entries,
                relative,
            ))?
            .flatten(),
        };
        let Some(entry) = entry else {
            return Ok(Some(0));
        };
        let position = u64::from(entry.position);
        let log = SegmentFile::Log.path(&self.dir, segment.base);
        let mut reader = BatchReader::new(files, log, 0);
        let named = reader.header_at(position, segment.end.0)?;
        let expected = segment.base.plus(i64::from(entry.relative_offset));
        let right = named.is_ok_and(|header| header.last_offset() == expected);
        // Behind what may be read, the segment's beginning is as good a place.
        let beyond = position >= segment.end.0;
        Ok(if right {
            Some(position)
        } else if beyond {
            Some(0)
        } else {
            None
        })
    }
}
