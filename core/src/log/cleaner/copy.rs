//! Copies what stays of a segment, a piece at a time. A pure function of the files: the step writes
//! the bytes that come out to the `.cleaned` file.

use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;

use super::filter::{Filtered, Retention, emptied};
use crate::ids::{FilePath, Offset, Position};
use crate::input::{DiskError, ReadFiles};
use crate::log::batch_reader::{BatchReader, HEADER_WINDOW_BYTES};
use crate::log::error::{BadBatch, Damage, DamageKind};
use crate::log::file_names::SegmentFile;
use crate::log::index_builder::{IndexState, IndexedBatch};
use crate::record::batch::verify_crc;

/// How many bytes of a segment one piece reads; the last batch may go beyond.
const PIECE_BYTES: u64 = 1 << 20;

/// Which part of which segment to copy, and to where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyPiece {
    /// The log's directory.
    pub dir: FilePath,
    /// Base offset of the segment that is read.
    pub segment: Offset,
    /// Where to go on in it: a batch boundary.
    pub from: Position,
    /// Where it ends.
    pub end: Position,
    /// Whether no other segment of the group follows: then its last batch stays, if only as a header,
    /// so that the new segment ends where the old ones did.
    pub last_of_group: bool,
    /// Base offset of the segment that comes out.
    pub target: Offset,
    /// Bytes it has so far.
    pub target_position: Position,
    /// Its indexes so far.
    pub index: IndexState,
    /// `index.interval.bytes`.
    pub index_interval_bytes: u64,
    /// What stays.
    pub retention: Arc<Retention>,
    /// Last offsets, rising, of batches that stay as headers at least: those by which the log's
    /// producers are known.
    pub producers: Arc<[Offset]>,
}

/// A piece of the new segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedPiece {
    /// What follows in the new segment.
    pub bytes: Bytes,
    /// Entries of its offset index, as bytes.
    pub offset_entries: Vec<u8>,
    /// Entries of its time index, as bytes.
    pub time_entries: Vec<u8>,
    /// Its indexes now.
    pub index: IndexState,
    /// Where to go on in the old segment.
    pub next: Position,
    /// Whether anything is other than it was.
    pub changed: bool,
    /// A batch that does not pass its checks, which ended the piece.
    pub damage: Option<Damage>,
    /// Whether the new segment would become too large for its index.
    pub too_large: bool,
}

impl CopyPiece {
    /// Runs the job.
    pub fn run(&self, files: &mut dyn ReadFiles) -> Result<CopiedPiece, DiskError> {
        let log = SegmentFile::Log.path(&self.dir, self.segment);
        let mut reader = BatchReader::new(files, log.clone(), HEADER_WINDOW_BYTES);
        let mut out = Vec::new();
        let mut piece = CopiedPiece {
            bytes: Bytes::new(),
            offset_entries: Vec::new(),
            time_entries: Vec::new(),
            index: self.index,
            next: self.from,
            changed: false,
            damage: None,
            too_large: false,
        };
        let damage = |position: Position, offset: Offset, bad: BadBatch| {
            Some(Damage {
                file: log.clone(),
                position,
                offset,
                kind: DamageKind::Batch(bad),
            })
        };
        let mut expected = self.segment;
        while piece.next < self.end && piece.next.0 - self.from.0 < PIECE_BYTES {
            let header = match reader.header_at(piece.next.0, self.end.0)? {
                Ok(header) => header,
                Err(bad) => {
                    piece.damage = damage(piece.next, expected, bad);
                    break;
                }
            };
            let batch = reader.batch(piece.next.0, &header)?;
            if !verify_crc(&batch) {
                // With a new CRC, damage would look sound.
                piece.damage = damage(piece.next, header.base_offset, BadBatch::Crc);
                break;
            }
            let after = piece.next.plus(header.size_bytes());
            let is_last = self.last_of_group && after >= self.end;
            let wanted = is_last || self.producers.binary_search(&header.last_offset()).is_ok();
            let stays = match self.retention.filter(&batch, &header) {
                Ok(Filtered::Same) if header.record_count > 0 || wanted => Some(batch.clone()),
                Ok(Filtered::Changed(changed)) => Some(changed),
                Ok(Filtered::Same | Filtered::Nothing) if wanted => Some(emptied(&header)),
                Ok(Filtered::Same | Filtered::Nothing) => None,
                Err(_) => {
                    piece.damage = damage(piece.next, header.base_offset, BadBatch::Crc);
                    break;
                }
            };
            piece.changed |= stays.as_ref() != Some(&batch);
            if let Some(stays) = stays {
                let position = self.target_position.0 + out.len() as u64;
                if position + stays.len() as u64 > i32::MAX as u64 {
                    piece.too_large = true;
                    break;
                }
                self.index(&mut piece, position, &stays);
                out.extend_from_slice(&stays);
            }
            piece.next = after;
            expected = header.next_offset();
        }
        piece.bytes = Bytes::from(out);
        Ok(piece)
    }

    fn index(&self, piece: &mut CopiedPiece, position: u64, batch: &[u8]) {
        let Ok(header) = crate::record::batch::BatchHeader::parse(batch) else {
            return;
        };
        let batch = IndexedBatch {
            position,
            last_offset: header.last_offset(),
            max_timestamp: header.max_timestamp,
        };
        let (offset, time) = piece.index.add(
            self.target,
            self.index_interval_bytes,
            batch,
            self.retention.bugs,
        );
        let offset = offset.into_iter().flat_map(|entry| entry.encode());
        piece.offset_entries.extend(offset);
        let time = time.into_iter().flat_map(|entry| entry.encode());
        piece.time_entries.extend(time);
    }
}
