//! The files of a bare loop: rolled at a size, deleted when another one has been filled.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::write_all_vectored_at;
use crate::sync;

/// Slices of one call: the system's limit.
const MAX_SLICES: usize = 1024;
/// Full files that are kept.
const KEPT: usize = 1;

/// A log of several files.
#[derive(Debug)]
pub(super) struct RollingLog {
    directory: PathBuf,
    segment_bytes: u64,
    segments: VecDeque<Segment>,
    next_offset: i64,
    next_number: u64,
}

#[derive(Debug)]
struct Segment {
    file: Arc<File>,
    path: PathBuf,
    /// Base offset and position of each batch.
    batches: Vec<(i64, u64)>,
    /// End of what is reserved, and of what is written.
    end: u64,
    written: u64,
}

/// A part of a file.
#[derive(Debug)]
pub(super) struct FileRange {
    pub(super) file: Arc<File>,
    pub(super) position: u64,
    pub(super) length: u64,
}

impl RollingLog {
    pub(super) fn create(directory: PathBuf, segment_bytes: u64) -> io::Result<Self> {
        let mut log = Self {
            directory,
            segment_bytes,
            segments: VecDeque::new(),
            next_offset: 0,
            next_number: 0,
        };
        log.roll()?;
        Ok(log)
    }

    /// The base offset of a batch that [`Self::write`] is about to get.
    pub(super) fn reserve(&mut self, records: i64, bytes: u64) -> i64 {
        let base_offset = self.next_offset;
        self.next_offset += records;
        if let Some(segment) = self.segments.back_mut() {
            segment.batches.push((base_offset, segment.end));
            segment.end += bytes;
        }
        base_offset
    }

    /// Writes all batches that were reserved, in their order; the file they went to, if there were
    /// any.
    pub(super) fn write<'a>(
        &mut self,
        batches: impl Iterator<Item = &'a [u8]>,
    ) -> io::Result<Option<Arc<File>>> {
        let mut slices: Vec<IoSlice<'_>> = batches.map(IoSlice::new).collect();
        let Some(segment) = self.segments.back_mut() else {
            return Ok(None);
        };
        if slices.is_empty() {
            return Ok(None);
        }
        for chunk in slices.chunks_mut(MAX_SLICES) {
            let bytes: usize = chunk.iter().map(|slice| slice.len()).sum();
            write_all_vectored_at(&segment.file, chunk, segment.written)
                .map_err(|(_, error)| error)?;
            segment.written += bytes as u64;
        }
        assert!(
            segment.written == segment.end,
            "what was reserved is written"
        );
        let file = segment.file.clone();
        if segment.end >= self.segment_bytes {
            self.roll()?;
        }
        Ok(Some(file))
    }

    /// Whole batches from `offset` on, as many as fit, at least one if there is one.
    pub(super) fn range(&self, offset: i64, max_bytes: u64) -> Option<FileRange> {
        let begins_before = |segment: &&Segment| {
            segment
                .batches
                .first()
                .is_some_and(|first| first.0 <= offset)
        };
        let segment = self.segments.iter().rev().find(begins_before)?;
        let first = segment.batches.partition_point(|batch| batch.0 <= offset) - 1;
        let position = segment.batches.get(first)?.1;
        let position = if offset >= self.next_offset {
            segment.written
        } else {
            position
        };
        let limit = position + max_bytes;
        let next = segment
            .batches
            .partition_point(|batch| batch.1 <= limit)
            .max(first + 2);
        // The last batch that begins within the limit ends beyond it, unless it is the last of all.
        let end = if segment.written <= limit {
            segment.written
        } else {
            segment
                .batches
                .get(next - 1)
                .map_or(segment.written, |batch| batch.1)
        };
        Some(FileRange {
            file: segment.file.clone(),
            position,
            length: end - position,
        })
    }

    fn roll(&mut self) -> io::Result<()> {
        let path = self.directory.join(format!("{:06}.bare", self.next_number));
        self.next_number += 1;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        self.segments.push_back(Segment {
            file: Arc::new(file),
            path,
            batches: Vec::new(),
            end: 0,
            written: 0,
        });
        if self.segments.len() > KEPT + 1
            && let Some(old) = self.segments.pop_front()
        {
            // Freeing a gigabyte of pages takes long; brokers do it beside their work too.
            sync::spawn("bare-delete".to_owned(), move || {
                if let Err(error) = fs::remove_file(&old.path) {
                    tracing::warn!("cannot remove {}: {error}", old.path.display());
                }
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(segment_bytes: u64) -> (tempfile::TempDir, RollingLog) {
        let directory = tempfile::tempdir().unwrap();
        let mut log = RollingLog::create(directory.path().to_owned(), segment_bytes).unwrap();
        for _ in 0..6 {
            log.reserve(5, 100);
            log.write([&[1; 100][..]].into_iter()).unwrap();
        }
        (directory, log)
    }

    #[test]
    fn a_range_holds_whole_batches() {
        let (_directory, log) = filled(1 << 20);
        let range = |offset, max| {
            let range = log.range(offset, max).unwrap();
            (range.position, range.length)
        };
        assert_eq!(range(0, 250), (0, 200));
        assert_eq!(range(7, 300), (100, 300));
        assert_eq!(range(0, 10), (0, 100), "one is always whole");
        assert_eq!(range(25, 10_000), (500, 100));
        assert_eq!(range(0, 600), (0, 600));
        assert_eq!(range(30, 100), (600, 0), "the end");
    }

    #[test]
    fn old_files_go() {
        let (directory, log) = filled(200);
        assert_eq!(log.segments.len(), 2);
        assert!(log.range(0, 100).is_none());
        for _ in 0..1000 {
            if fs::read_dir(directory.path()).unwrap().count() == 2 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("old files are still there");
    }
}
