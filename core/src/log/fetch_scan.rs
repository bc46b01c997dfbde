//! Finds the whole batches that answer a fetch, and checks the CRCs of those that were not checked
//! in this process. A pure function of the files.

use crate::ids::{FilePath, Offset, Position};
use crate::input::{DiskError, ReadFiles};
use crate::record::batch::BatchHeader;

use super::batch_reader::{BatchReader, HEADER_WINDOW_BYTES, SCAN_WINDOW_BYTES};
use super::cleaner::renamed::Renamed;
use super::error::{BadBatch, Damage, DamageKind};
use super::file_names::SegmentFile;
use super::offset_index;
use super::scan_segment::present;
use super::verified::Verified;

/// What to look for, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchScan {
    /// The log's directory.
    pub dir: FilePath,
    /// Base offset of the segment that holds `offset`.
    pub segment: Offset,
    /// A batch boundary at or before the batch that holds `offset`, if one is known without the
    /// index.
    pub from: Option<Position>,
    /// Entries of the offset index that are in the file.
    pub index_entries: u32,
    /// `index.interval.bytes`.
    pub index_interval_bytes: u64,
    /// Where the fetch begins: maybe inside a batch.
    pub offset: Offset,
    /// Only batches that end at or below this offset.
    pub limit: Offset,
    /// Where what may be read of the segment ends.
    pub end: Position,
    /// Whether `end` is the end of a closed segment, which must hold `offset`.
    pub whole_segment: bool,
    /// How many bytes at most.
    pub max_bytes: u32,
    /// Whether the first batch is taken even if it is larger.
    pub min_one_batch: bool,
    /// What was checked in this process already.
    pub verified: Verified,
    /// Whether offsets are dense; a cleaned segment has gaps.
    pub dense: bool,
    /// Which files the log has: [`Log::layout`](super::Log::layout) when this was asked.
    pub layout: u64,
    /// Whether the segment's files are just getting their names.
    pub is_swap: bool,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchScanned {
    /// Base offset of the segment.
    pub segment: Offset,
    /// As the job has it.
    pub layout: u64,
    /// The offset that was asked for.
    pub offset: Offset,
    /// Where the batches begin.
    pub position: Position,
    /// Their bytes; 0 if there are none, or if the first does not fit.
    pub length: u32,
    /// Base offset of the first.
    pub first_offset: Offset,
    /// The offset that follows the last.
    pub next_offset: Offset,
    /// A batch that does not pass its checks, behind those that were found.
    pub damage: Option<Damage>,
    /// Whether the offset index led to a wrong place, or lacks an entry.
    pub index_wrong: bool,
}

/// A batch and where it is.
type Located = (u64, BatchHeader);

impl FetchScan {
    /// Runs the job.
    pub fn run(&self, files: &mut dyn ReadFiles) -> Result<FetchScanned, DiskError> {
        let files: &mut dyn ReadFiles =
            &mut Renamed::new(files, self.is_swap.then_some(self.segment));
        let mut found = FetchScanned {
            segment: self.segment,
            layout: self.layout,
            offset: self.offset,
            position: Position(0),
            length: 0,
            first_offset: self.offset,
            next_offset: self.offset,
            damage: None,
            index_wrong: false,
        };
        let from = match self.from {
            Some(from) => from.0,
            None => self.index_floor(files, &mut found)?,
        };
        let log = SegmentFile::Log.path(&self.dir, self.segment);
        let mut reader = BatchReader::new(files, log, HEADER_WINDOW_BYTES);
        let mut first = self.find(&mut reader, from, &mut found)?;
        if first.is_err() && from > 0 {
            // The place was wrong, not the log: walk from the segment's beginning.
            found.index_wrong |= self.from.is_none();
            first = self.find(&mut reader, 0, &mut found)?;
        }
        match first {
            Ok(Some((position, header))) => {
                let log = SegmentFile::Log.path(&self.dir, self.segment);
                let unchecked =
                    self.verified.end_of(position) < position + u64::from(self.max_bytes);
                let mut reader = if unchecked {
                    BatchReader::new(files, log, SCAN_WINDOW_BYTES)
                } else if header.size_bytes() > HEADER_WINDOW_BYTES as u64 {
                    // A window would show no second header.
                    BatchReader::new(files, log, 0)
                } else {
                    reader
                };
                self.collect(&mut reader, position, header, &mut found)?;
            }
            Ok(None) => {}
            Err((position, offset, bad)) => {
                found.damage = Some(self.damage(position, offset, DamageKind::Batch(bad)));
            }
        }
        Ok(found)
    }

    fn index_floor(
        &self,
        files: &mut dyn ReadFiles,
        found: &mut FetchScanned,
    ) -> Result<u64, DiskError> {
        let path = SegmentFile::Index.path(&self.dir, self.segment);
        let relative = (self.offset.0 - self.segment.0).unsigned_abs();
        let floor = present(offset_index::floor(
            files,
            &path,
            self.index_entries,
            relative,
        ))?;
        let Some(entry) = floor else {
            found.index_wrong = true;
            return Ok(0);
        };
        let Some(entry) = entry else {
            return Ok(0);
        };
        let position = u64::from(entry.position);
        let log = SegmentFile::Log.path(&self.dir, self.segment);
        let mut reader = BatchReader::new(files, log, 0);
        let named = reader.header_at(position, self.end.0)?;
        let expected = self.segment.plus(i64::from(entry.relative_offset));
        if named.is_ok_and(|header| header.last_offset() == expected) {
            return Ok(position);
        }
        found.index_wrong = true;
        Ok(0)
    }

    /// The batch that holds the offset, by walking over headers.
    #[expect(
        clippy::type_complexity,
        reason = "a place and why it is bad, used once"
    )]
    fn find(
        &self,
        reader: &mut BatchReader<'_>,
        from: u64,
        found: &mut FetchScanned,
    ) -> Result<Result<Option<Located>, (u64, Offset, BadBatch)>, DiskError> {
        let mut position = from;
        let mut expected = (from == 0).then_some(self.segment);
        while position < self.end.0 {
            let at = expected.unwrap_or(self.segment);
            let header = match reader.header_at(position, self.end.0)? {
                Ok(header) => header,
                Err(bad) => return Ok(Err((position, at, bad))),
            };
            let in_place = expected.is_none_or(|expected| {
                header.base_offset == expected || (!self.dense && header.base_offset > expected)
            });
            // Where a reader left off, or at an entry of the index, a cleaned segment may have a gap.
            let beyond = self.dense && expected.is_none() && header.base_offset > self.offset;
            if !in_place || beyond {
                let bad = BadBatch::Offset {
                    expected: expected.unwrap_or(self.offset),
                    found: header.base_offset,
                };
                return Ok(Err((position, at, bad)));
            }
            if header.next_offset() > self.offset {
                return Ok(Ok(Some((position, header))));
            }
            // A batch so far behind the index's floor has an entry of its own.
            found.index_wrong |= self.from.is_none() && position - from > self.index_interval_bytes;
            position += header.size_bytes();
            expected = Some(header.next_offset());
        }
        if self.whole_segment {
            let at = expected.unwrap_or(self.segment);
            return Ok(Err((position, at, BadBatch::PartialHeader)));
        }
        Ok(Ok(None))
    }

    /// Takes whole batches from `position` on, as many as fit.
    fn collect(
        &self,
        reader: &mut BatchReader<'_>,
        mut position: u64,
        mut header: BatchHeader,
        found: &mut FetchScanned,
    ) -> Result<(), DiskError> {
        found.position = Position(position);
        found.first_offset = header.base_offset;
        found.next_offset = header.base_offset;
        let mut total = 0;
        loop {
            let size = header.size_bytes();
            let first = total == 0 && self.min_one_batch;
            let fits = total + size <= u64::from(self.max_bytes) || first;
            if header.base_offset >= self.limit || !fits {
                break;
            }
            // A limit is the end of a batch, so one that lies across it says something wrong. Were it
            // passed over, a reader would wait there for ever.
            let across = header.next_offset() > self.limit;
            let checked = !across && self.verified.end_of(position) >= position + size;
            if !checked && !reader.crc_holds(position, &header)? {
                let kind = DamageKind::Batch(BadBatch::Crc);
                found.damage = Some(self.damage(position, header.base_offset, kind));
                break;
            }
            if across {
                break;
            }
            total += size;
            position += size;
            found.next_offset = header.next_offset();
            if position >= self.end.0 {
                break;
            }
            let expected = found.next_offset;
            let bad = match reader.header_at(position, self.end.0)? {
                Ok(next) if next.base_offset == expected => {
                    header = next;
                    continue;
                }
                Ok(next) if !self.dense && next.base_offset > expected => {
                    header = next;
                    continue;
                }
                Ok(next) => BadBatch::Offset {
                    expected,
                    found: next.base_offset,
                },
                Err(bad) => bad,
            };
            found.damage = Some(self.damage(position, expected, DamageKind::Batch(bad)));
            break;
        }
        found.length = u32::try_from(total).unwrap_or(u32::MAX);
        Ok(())
    }

    fn damage(&self, position: u64, offset: Offset, kind: DamageKind) -> Damage {
        Damage {
            file: SegmentFile::Log.path(&self.dir, self.segment),
            position: Position(position),
            offset,
            kind,
        }
    }
}
