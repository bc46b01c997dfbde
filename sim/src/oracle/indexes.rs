//! IndexAgreesWithLog and RebuiltEqualsOriginal: the bytes of `.index` and `.timeindex` are a pure
//! function of the segment and the interval, worked out here a second time.

use odradek_core::ids::FilePath;

use super::recovery::read_log;
use super::{Check, Oracle};
use crate::batch;
use crate::disk::Disk;

/// What a segment's index files should hold.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Indexes {
    /// Content of `.index`.
    pub offsets: Vec<u8>,
    /// Content of `.timeindex`, without the entry that a roll or close adds.
    pub times: Vec<u8>,
    /// That entry, if it says anything new.
    pub last_time: Vec<u8>,
}

impl Oracle {
    /// Compares the index files on the disk with what they should be. After a clean stop those of
    /// the active segment are complete too; before, they may lag behind.
    pub(super) fn check_indexes(&mut self, disk: &Disk, stopped: bool) {
        let directories: Vec<String> = self
            .models
            .all()
            .filter(|log| !log.may_vanish && (stopped || !log.is_loading))
            .map(|log| log.directory.clone())
            .collect();
        for directory in directories {
            // The metadata log has settings of its own.
            if directory.starts_with("__") {
                continue;
            }
            let Some(log) = self.models.get(&directory) else {
                continue;
            };
            let start = log.log_start.max(log.log_start_asked);
            let segments = read_log(&directory, disk, log.gaps_end, Some(log)).segments;
            for (i, segment) in segments.iter().enumerate() {
                let is_active = i + 1 == segments.len();
                let base = base_of(segment);
                if base < start {
                    // It may be on its way out, some of its files ahead of others.
                    continue;
                }
                self.check_segment(segment, base, is_active && !stopped, disk);
            }
        }
    }

    fn check_segment(&mut self, segment: &FilePath, base: i64, may_lag: bool, disk: &Disk) {
        if self.may_be_damaged(segment) {
            return;
        }
        let bytes = disk.cached(segment).unwrap_or_default();
        let expected = rebuild(bytes, base, self.log_config.index_interval_bytes);
        let files = [
            (".index", &expected.offsets, Vec::new()),
            (".timeindex", &expected.times, expected.last_time.clone()),
        ];
        for (extension, entries, last) in files {
            let stem = segment.name().trim_end_matches(".log");
            let path = segment.parent().join(&format!("{stem}{extension}"));
            if self.may_be_damaged(&path) {
                continue;
            }
            let found = disk.cached(&path);
            if may_lag {
                // What is there must be a beginning of what should be.
                let whole = [&entries[..], &last[..]].concat();
                if let Some(found) = found
                    && !whole.starts_with(found)
                {
                    self.violate(
                        Check::IndexAgreesWithLog,
                        format!("{path}: {}", difference(found, &whole)),
                    );
                }
                continue;
            }
            let whole = [&entries[..], &last[..]].concat();
            let Some(found) = found else {
                if !whole.is_empty() {
                    self.violate(
                        Check::RebuiltEqualsOriginal,
                        format!("{path} is missing and should have {} bytes", whole.len()),
                    );
                }
                continue;
            };
            if found != whole {
                self.violate(
                    Check::RebuiltEqualsOriginal,
                    format!("{path}: {}", difference(found, &whole)),
                );
            }
        }
    }
}

fn base_of(segment: &FilePath) -> i64 {
    segment
        .name()
        .trim_end_matches(".log")
        .parse()
        .unwrap_or_default()
}

fn difference(found: &[u8], expected: &[u8]) -> String {
    let at = found
        .iter()
        .zip(expected)
        .position(|(a, b)| a != b)
        .unwrap_or(found.len().min(expected.len()));
    format!(
        "{} bytes where {} are expected; they part at byte {at}",
        found.len(),
        expected.len()
    )
}

/// Works out both indexes from a segment's bytes.
///
/// An offset entry comes at the first batch boundary more than `interval` bytes after the last batch
/// that has one (the segment's beginning counts as one): last offset of the batch, relative, and its
/// position. With it comes a time entry if the largest timestamp so far, this batch included, has
/// grown since the last: that timestamp, and the last offset of the first batch that holds it.
#[must_use]
pub fn rebuild(segment: &[u8], base: i64, interval: u64) -> Indexes {
    let mut indexes = Indexes::default();
    let (mut position, mut indexed_at) = (0_u64, 0_u64);
    let (mut max_timestamp, mut max_offset) = (-1_i64, base);
    let mut last_time = -1_i64;
    let entry = |timestamp: i64, offset: i64| {
        let mut bytes = timestamp.to_be_bytes().to_vec();
        bytes.extend_from_slice(&((offset - base) as u32).to_be_bytes());
        bytes
    };
    for found in batch::all(segment) {
        if found.max_timestamp > max_timestamp {
            max_timestamp = found.max_timestamp;
            max_offset = found.last_offset;
        }
        if position - indexed_at > interval {
            indexed_at = position;
            let relative = (found.last_offset - base) as u32;
            indexes.offsets.extend_from_slice(&relative.to_be_bytes());
            indexes
                .offsets
                .extend_from_slice(&(position as u32).to_be_bytes());
            if max_timestamp > last_time {
                last_time = max_timestamp;
                indexes.times.extend(entry(max_timestamp, max_offset));
            }
        }
        position += found.bytes.len() as u64;
    }
    if max_timestamp > last_time {
        indexes.last_time = entry(max_timestamp, max_offset);
    }
    indexes
}
