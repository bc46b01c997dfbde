//! Reads batch headers and checks CRCs in a segment file, with a window of fixed size: what a
//! header claims never decides how much memory is taken.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::effect::BATCH_HEADER_BYTES;
use crate::ids::{FilePath, Position};
use crate::input::{DiskError, ReadFiles};
use crate::record::batch::BatchHeader;

use super::error::BadBatch;

/// Window for a walk that looks at headers only.
pub(crate) const HEADER_WINDOW_BYTES: usize = 16 << 10;
/// Window for a walk that reads every byte.
pub(crate) const SCAN_WINDOW_BYTES: usize = 256 << 10;

/// The first read of a walk; each that follows is four times as long, up to the window.
const FIRST_READ_BYTES: usize = 4 << 10;

/// Bytes of a batch before those that its CRC covers.
const BEFORE_CRC_COVERAGE: u64 = 21;

/// A segment file, seen through a window.
pub(crate) struct BatchReader<'a> {
    files: &'a mut dyn ReadFiles,
    path: FilePath,
    /// What is read at a time: little at first, so that a short segment costs little.
    window: Vec<u8>,
    most: usize,
    /// Position in the file at which the window begins.
    start: u64,
    /// How many bytes of the window are filled.
    filled: usize,
}

impl<'a> BatchReader<'a> {
    pub(crate) fn new(files: &'a mut dyn ReadFiles, path: FilePath, window_bytes: usize) -> Self {
        Self {
            files,
            path,
            window: Vec::new(),
            most: window_bytes.max(BATCH_HEADER_BYTES),
            start: 0,
            filled: 0,
        }
    }

    /// The header of the batch at `position`, which must end at or before `end`.
    pub(crate) fn header_at(
        &mut self,
        position: u64,
        end: u64,
    ) -> Result<Result<BatchHeader, BadBatch>, DiskError> {
        let there = end.saturating_sub(position);
        if there < BATCH_HEADER_BYTES as u64 {
            return Ok(Err(BadBatch::PartialHeader));
        }
        let bytes = self.at(position, BATCH_HEADER_BYTES)?;
        if bytes.len() < BATCH_HEADER_BYTES {
            return Ok(Err(BadBatch::PartialHeader));
        }
        let Ok(header) = BatchHeader::parse(bytes) else {
            return Ok(Err(BadBatch::Header));
        };
        if header.size_bytes() > there {
            return Ok(Err(BadBatch::Partial));
        }
        Ok(Ok(header))
    }

    /// Whether the CRC of the batch at `position` holds.
    pub(crate) fn crc_holds(
        &mut self,
        position: u64,
        header: &BatchHeader,
    ) -> Result<bool, DiskError> {
        let end = position + header.size_bytes();
        let mut at = position + BEFORE_CRC_COVERAGE;
        let mut crc = 0;
        while at < end {
            let wanted = (end - at).min(self.most as u64) as usize;
            let bytes = self.at(at, wanted)?;
            if bytes.is_empty() {
                return Ok(false);
            }
            // The window may hold more of the file than was asked for, or less at its end.
            let bytes = bytes.get(..wanted).unwrap_or(bytes);
            crc = crc32c::crc32c_append(crc, bytes);
            at += bytes.len() as u64;
        }
        Ok(crc == header.crc)
    }

    /// The whole batch at `position`; shorter if the file ends before.
    pub(crate) fn batch(
        &mut self,
        position: u64,
        header: &BatchHeader,
    ) -> Result<Bytes, DiskError> {
        // `header_at` has made sure that the file claims to be that long.
        let mut bytes = vec![0; usize::try_from(header.size_bytes()).unwrap_or(usize::MAX)];
        let read = self
            .files
            .read_at(&self.path, Position(position), &mut bytes)?;
        bytes.truncate(read);
        Ok(Bytes::from(bytes))
    }

    /// The bytes at `position`: at least `wanted` of them, unless the file ends before.
    fn at(&mut self, position: u64, wanted: usize) -> Result<&[u8], DiskError> {
        let inside = position
            .checked_sub(self.start)
            .and_then(|skip| usize::try_from(skip).ok())
            .filter(|skip| skip + wanted <= self.filled);
        let skip = match inside {
            Some(skip) => skip,
            None => {
                let size = FIRST_READ_BYTES.max(wanted).max(self.window.len() * 4);
                self.window.resize(size.min(self.most), 0);
                self.start = position;
                self.filled = 0;
                self.filled =
                    self.files
                        .read_at(&self.path, Position(position), &mut self.window)?;
                0
            }
        };
        Ok(self.window.get(skip..self.filled).unwrap_or_default())
    }
}
