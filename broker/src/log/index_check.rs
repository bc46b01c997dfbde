//! The indexes of a segment against its batches, as they go by.
//!
//! Both indexes rise with the log, so one walk over the batches checks them with a cursor each and
//! nothing is kept of the log. A reader goes where an entry says and then forward: an entry that
//! leads too far makes it miss records, and that is what must be found.

use std::path::{Path, PathBuf};

use odradek_core::log::offset_index::OffsetEntry;
use odradek_core::log::time_index::TimeEntry;
use odradek_core::record::BatchHeader;

use super::finding::{DERIVED, Finding, NOTHING, Severity};
use crate::files;

/// Kafka's largest index is 2 GiB by its type and 10 MiB by its default.
const LIMIT_BYTES: u64 = 256 << 20;

/// An index file, checked while the batches of its segment go by.
#[derive(Debug)]
pub(super) struct IndexCheck<E> {
    path: PathBuf,
    base: i64,
    entries: Vec<E>,
    /// The next entry that no batch has been held against.
    at: usize,
    /// Largest timestamp of the batches so far.
    max_timestamp: i64,
    found: Vec<Finding>,
}

/// An entry of either index.
pub(super) trait Entry: Copy {
    /// Its length in the file.
    const BYTES: usize;
    /// Reads it from exactly that many bytes.
    fn read(bytes: &[u8]) -> Option<Self>;
    /// Why it may not follow `last`; `None` if it may.
    fn disorder(&self, last: Option<&Self>) -> Option<String>;
    /// Whether it is all zeros, as the unused rest of a preallocated file.
    fn is_zero(&self) -> bool;
}

impl<E: Entry> IndexCheck<E> {
    /// Reads an index and checks it in itself.
    pub(super) fn open(path: &Path, base: i64) -> Self {
        let mut this = Self {
            path: path.to_owned(),
            base,
            entries: Vec::new(),
            at: 0,
            max_timestamp: -1,
            found: Vec::new(),
        };
        match read::<E>(path) {
            Ok((entries, surplus)) => {
                if surplus > 0 {
                    let problem = format!(
                        "its length is no multiple of {}: {surplus} bytes follow the last entry",
                        E::BYTES
                    );
                    this.damage(entries.len(), None, problem);
                }
                this.entries = entries;
                this.drop_padding();
                this.check_order();
            }
            Err(problem) => this.damage(0, None, problem),
        }
        this
    }

    /// Kafka preallocates the index of the active segment; after a crash the rest is zeros.
    fn drop_padding(&mut self) {
        let used = self.entries.len()
            - self
                .entries
                .iter()
                .rev()
                .take_while(|entry| entry.is_zero())
                .count();
        if used < self.entries.len() {
            let problem = format!(
                "{} unused entries at its end: the broker was not stopped cleanly",
                self.entries.len() - used
            );
            self.entries.truncate(used);
            self.push(Severity::Remark, used, None, problem);
        }
    }

    fn check_order(&mut self) {
        let mut last = None;
        for at in 0..self.entries.len() {
            let Some(entry) = self.entries.get(at).copied() else {
                return;
            };
            if let Some(problem) = entry.disorder(last.as_ref()) {
                self.damage(at, None, problem);
                // Nothing after it can be trusted to be sorted.
                self.entries.truncate(at);
                return;
            }
            last = Some(entry);
        }
    }

    fn damage(&mut self, at: usize, offset: Option<i64>, problem: String) {
        self.push(Severity::Damage, at, offset, problem);
    }

    fn push(&mut self, severity: Severity, at: usize, offset: Option<i64>, problem: String) {
        self.found.push(Finding {
            severity,
            file: self.path.clone(),
            position: (at * E::BYTES) as u64,
            offset,
            problem,
            remedy: match severity {
                Severity::Damage => DERIVED,
                Severity::Remark => NOTHING,
            },
        });
    }

    fn next(&self) -> Option<E> {
        self.entries.get(self.at).copied()
    }
}

impl IndexCheck<OffsetEntry> {
    /// Takes the next batch of the segment.
    pub(super) fn batch(&mut self, position: u64, header: &BatchHeader) {
        while let Some(entry) = self.next()
            && u64::from(entry.position) <= position
        {
            let offset = self.base + i64::from(entry.relative_offset);
            let place = u64::from(entry.position);
            if place < position {
                let problem = format!("position {place} is inside of a batch");
                self.damage(self.at, Some(offset), problem);
            } else if offset < header.base_offset.0 {
                let problem = format!(
                    "offset {offset} is said to be at position {place}, where the batch of {} to \
                     {} begins: a reader misses it",
                    header.base_offset,
                    header.last_offset()
                );
                self.damage(self.at, Some(offset), problem);
            } else if offset != header.last_offset().0 {
                // Before 4.0, Kafka wrote the last offset of the whole append.
                let problem = format!(
                    "offset {offset} is said to be at position {place}, where a batch ends with \
                     {}: right for old versions of Kafka, and found by readers",
                    header.last_offset()
                );
                self.push(Severity::Remark, self.at, Some(offset), problem);
            }
            self.at += 1;
        }
    }

    /// The batches are over; `complete` if the segment was readable to its end.
    pub(super) fn finish(mut self, end: u64, complete: bool) -> Vec<Finding> {
        if complete && let Some(entry) = self.next() {
            let problem = format!(
                "{} entries lead past the end of the log at {end}, the first to {}",
                self.entries.len() - self.at,
                entry.position
            );
            self.damage(self.at, None, problem);
        }
        self.found
    }
}

impl IndexCheck<TimeEntry> {
    /// Takes the next batch of the segment.
    pub(super) fn batch(&mut self, header: &BatchHeader) {
        while let Some(entry) = self.next() {
            let offset = self.base + i64::from(entry.relative_offset);
            if offset > header.last_offset().0 {
                break;
            }
            if offset >= header.base_offset.0 && entry.timestamp != header.max_timestamp {
                let problem = format!(
                    "timestamp {} is said to be at offset {offset}, in whose batch the largest is \
                     {}",
                    entry.timestamp, header.max_timestamp
                );
                self.damage(self.at, Some(offset), problem);
            } else if entry.timestamp < self.max_timestamp {
                let problem = format!(
                    "timestamp {} at offset {offset} is not the largest so far: {} comes before",
                    entry.timestamp, self.max_timestamp
                );
                self.damage(self.at, Some(offset), problem);
            }
            self.at += 1;
        }
        self.max_timestamp = self.max_timestamp.max(header.max_timestamp);
    }

    /// The batches are over; `complete` if the segment was readable to its end.
    pub(super) fn finish(mut self, complete: bool) -> Vec<Finding> {
        if complete && let Some(entry) = self.next() {
            let offset = self.base + i64::from(entry.relative_offset);
            let problem = format!(
                "{} entries name offsets past the end of the log, the first {offset}",
                self.entries.len() - self.at
            );
            self.damage(self.at, Some(offset), problem);
        }
        self.found
    }
}

impl Entry for OffsetEntry {
    const BYTES: usize = 8;

    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::decode)
    }

    fn disorder(&self, last: Option<&Self>) -> Option<String> {
        let last = last?;
        let rises = self.relative_offset > last.relative_offset && self.position > last.position;
        (!rises).then(|| {
            format!(
                "out of order: relative offset {} at {} follows {} at {}",
                self.relative_offset, self.position, last.relative_offset, last.position
            )
        })
    }

    fn is_zero(&self) -> bool {
        self.relative_offset == 0 && self.position == 0
    }
}

impl Entry for TimeEntry {
    const BYTES: usize = 12;

    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::decode)
    }

    fn disorder(&self, last: Option<&Self>) -> Option<String> {
        let last = last?;
        let rises = self.timestamp > last.timestamp && self.relative_offset >= last.relative_offset;
        (!rises).then(|| {
            format!(
                "out of order: timestamp {} at relative offset {} follows {} at {}",
                self.timestamp, self.relative_offset, last.timestamp, last.relative_offset
            )
        })
    }

    fn is_zero(&self) -> bool {
        self.timestamp == 0 && self.relative_offset == 0
    }
}

/// The entries of an index file, and how many bytes follow the last.
///
/// # Errors
/// Why it cannot be read, in words.
pub(super) fn read<E: Entry>(path: &Path) -> Result<(Vec<E>, usize), String> {
    let bytes = files::read_small(path, LIMIT_BYTES).map_err(|error| error.to_string())?;
    let chunks = bytes.chunks_exact(E::BYTES);
    let surplus = chunks.remainder().len();
    Ok((chunks.filter_map(E::read).collect(), surplus))
}
