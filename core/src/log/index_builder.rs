//! Which batches get an index entry: a pure function of a segment's bytes and the interval, the
//! same for an append and for a rebuild, so that an index can be deleted at any time and comes back
//! with the same bytes.

use crate::bugs::{Bug, Bugs};
use crate::ids::Offset;

use super::offset_index::OffsetEntry;
use super::time_index::TimeEntry;

/// What the indexes need to know of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexedBatch {
    /// Where it begins in the segment.
    pub position: u64,
    /// Offset of its last record.
    pub last_offset: Offset,
    /// Its largest timestamp, or -1.
    pub max_timestamp: i64,
}

/// The indexes of a segment after some of its batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexState {
    /// Entries of the offset index so far.
    pub offset_entries: u32,
    /// Entries of the time index so far.
    pub time_entries: u32,
    /// Position of the last batch with an entry in the offset index; 0 before the first.
    pub last_indexed_position: u64,
    /// Timestamp of the last entry in the time index; -1 before the first.
    pub last_indexed_timestamp: i64,
    /// Largest timestamp so far; -1 before the first.
    pub max_timestamp: i64,
    /// Last offset of the first batch that holds it.
    pub offset_of_max_timestamp: Offset,
    /// Position of the last batch; only a planted bug needs it.
    pub(crate) last_position: u64,
}

impl IndexState {
    /// An empty segment.
    #[must_use]
    pub const fn start_of(base: Offset) -> Self {
        Self {
            offset_entries: 0,
            time_entries: 0,
            last_indexed_position: 0,
            last_indexed_timestamp: -1,
            max_timestamp: -1,
            offset_of_max_timestamp: base,
            last_position: 0,
        }
    }

    /// Takes the next batch of the segment at `base` and returns the entries it adds.
    ///
    /// An offset entry is added at the first batch boundary more than `interval` bytes after the
    /// last batch that has one. With it goes a time entry, if the largest timestamp has grown since
    /// the last, this batch included.
    pub fn add(
        &mut self,
        base: Offset,
        interval: u64,
        batch: IndexedBatch,
        bugs: Bugs,
    ) -> (Option<OffsetEntry>, Option<TimeEntry>) {
        if batch.max_timestamp > self.max_timestamp {
            self.max_timestamp = batch.max_timestamp;
            self.offset_of_max_timestamp = batch.last_offset;
        }
        let before = self.last_position;
        self.last_position = batch.position;
        if batch.position - self.last_indexed_position <= interval {
            return (None, None);
        }
        self.last_indexed_position = batch.position;
        self.offset_entries += 1;
        let position = if bugs.has(Bug::IndexEntryOff) {
            before
        } else {
            batch.position
        };
        let entry = OffsetEntry {
            relative_offset: relative(base, batch.last_offset),
            position: u32::try_from(position).expect("a segment rolls before 2 GiB"),
        };
        (Some(entry), self.add_time_entry(base))
    }

    /// The last entry of the time index, which a segment gets when it is rolled or closed. `None`
    /// if the index says it already.
    pub fn add_time_entry(&mut self, base: Offset) -> Option<TimeEntry> {
        if self.max_timestamp <= self.last_indexed_timestamp {
            return None;
        }
        self.last_indexed_timestamp = self.max_timestamp;
        self.time_entries += 1;
        Some(TimeEntry {
            timestamp: self.max_timestamp,
            relative_offset: relative(base, self.offset_of_max_timestamp),
        })
    }
}

/// An offset relative to its segment's base.
fn relative(base: Offset, offset: Offset) -> u32 {
    u32::try_from(offset.0 - base.0).expect("a segment rolls before relative offsets overflow")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn feed(batches: &[(u64, i64, i64)]) -> (Vec<OffsetEntry>, Vec<TimeEntry>, IndexState) {
        let mut state = IndexState::start_of(Offset(100));
        let (mut offsets, mut times) = (Vec::new(), Vec::new());
        for &(position, last_offset, max_timestamp) in batches {
            let batch = IndexedBatch {
                position,
                last_offset: Offset(last_offset),
                max_timestamp,
            };
            let (offset, time) = state.add(Offset(100), 4096, batch, Bugs::NONE);
            offsets.extend(offset);
            times.extend(time);
        }
        (offsets, times, state)
    }

    #[test]
    fn a_batch_gets_an_entry_only_past_the_interval() {
        let (offsets, _, _) = feed(&[
            (0, 100, 1),
            (4096, 101, 2),
            (4097, 105, 3),
            (8000, 106, 4),
            (8193, 107, 5),
            (8194, 108, 6),
        ]);
        let positions: Vec<_> = offsets
            .iter()
            .map(|e| (e.relative_offset, e.position))
            .collect();
        assert_eq!(positions, [(5, 4097), (8, 8194)]);
    }

    #[test]
    fn a_time_entry_names_the_batch_that_holds_the_largest_timestamp() {
        let (_, times, mut state) = feed(&[
            (0, 100, 50),
            (5000, 102, 40),   // entry: 50 is still the largest, in the batch before
            (10_000, 104, 45), // no new largest: no time entry
            (15_000, 106, 60), // its own timestamp counts already
            (16_000, 108, 70), // not past the interval
        ]);
        let entries: Vec<_> = times
            .iter()
            .map(|e| (e.timestamp, e.relative_offset))
            .collect();
        assert_eq!(entries, [(50, 0), (60, 6)]);
        let last = state.add_time_entry(Offset(100)).unwrap();
        assert_eq!((last.timestamp, last.relative_offset), (70, 8));
        assert_eq!(state.add_time_entry(Offset(100)), None);
    }

    #[test]
    fn records_without_timestamps_leave_the_time_index_empty() {
        let (offsets, times, mut state) = feed(&[(0, 100, -1), (5000, 101, -1)]);
        assert_eq!((offsets.len(), times.len()), (1, 0));
        assert_eq!(state.add_time_entry(Offset(100)), None);
    }
}
