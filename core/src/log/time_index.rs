//! The time index of a segment: Kafka's `.timeindex`, 12 bytes an entry.
//!
//! An entry holds the largest timestamp so far and the last offset of the batch that holds it,
//! relative to the segment's base. Timestamps rise strictly, offsets do not fall.

use alloc::vec::Vec;

use crate::ids::FilePath;
use crate::input::{DiskError, ReadFiles};

use super::index_file::{self, Entry};

/// Bytes of an entry.
pub(crate) const ENTRY_BYTES: u64 = 12;

/// An entry: the largest timestamp so far, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeEntry {
    /// Largest timestamp so far, in milliseconds.
    pub timestamp: i64,
    /// Last offset of the batch that holds it, relative to the segment's base.
    pub relative_offset: u32,
}

impl TimeEntry {
    /// The bytes of the entry.
    #[must_use]
    pub fn encode(self) -> [u8; 12] {
        let bits = u128::from(self.timestamp as u64) << 32 | u128::from(self.relative_offset);
        let [_, _, _, _, rest @ ..] = bits.to_be_bytes();
        rest
    }

    /// Reads an entry.
    #[must_use]
    pub const fn decode(bytes: [u8; 12]) -> Self {
        let [a, b, c, d, e, f, g, h, offset @ ..] = bytes;
        Self {
            timestamp: i64::from_be_bytes([a, b, c, d, e, f, g, h]),
            relative_offset: u32::from_be_bytes(offset),
        }
    }
}

impl Entry for TimeEntry {
    const BYTES: usize = ENTRY_BYTES as usize;

    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::decode)
    }

    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.encode());
    }
}

/// The last of the first `entries` entries whose timestamp is at most `timestamp`, by binary search
/// in the file.
pub(crate) fn floor(
    files: &mut dyn ReadFiles,
    path: &FilePath,
    entries: u32,
    timestamp: i64,
) -> Result<Option<TimeEntry>, DiskError> {
    index_file::floor(files, path, entries, |entry: &TimeEntry| {
        entry.timestamp <= timestamp
    })
}

/// Whether the first `entries` entries of the file are there and in order, with offsets below
/// `relative_end`. Returns the last entry (`Ok(Some(None))` if there is none), or `Ok(None)` if the
/// index is not in order.
pub(crate) fn check(
    files: &mut dyn ReadFiles,
    path: &FilePath,
    entries: u32,
    relative_end: u64,
) -> Result<Option<Option<TimeEntry>>, DiskError> {
    index_file::check(files, path, entries, |last: Option<TimeEntry>, entry| {
        let rises = match last {
            None => entry.timestamp >= 0,
            Some(last) => {
                entry.timestamp > last.timestamp && entry.relative_offset > last.relative_offset
            }
        };
        rises && u64::from(entry.relative_offset) < relative_end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_kafkas_twelve_bytes() {
        let entry = TimeEntry {
            timestamp: 0x0102_0304_0506_0708,
            relative_offset: 0x090a_0b0c,
        };
        assert_eq!(entry.encode(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(TimeEntry::decode(entry.encode()), entry);
    }
}
