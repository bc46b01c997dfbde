//! The time index of a segment: Kafka's `.timeindex`, 12 bytes an entry.
//!
//! An entry holds the largest timestamp so far and the last offset of the batch that holds it,
//! relative to the segment's base. Timestamps rise strictly, offsets do not fall.

use alloc::vec;
use alloc::vec::Vec;

use crate::ids::{FilePath, Position};
use crate::input::{DiskError, ReadFiles};

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

/// The entry number `at` of an index file; `None` past its end.
pub(crate) fn entry_at(
    files: &mut dyn ReadFiles,
    path: &FilePath,
    at: u32,
) -> Result<Option<TimeEntry>, DiskError> {
    let mut bytes = [0; 12];
    let read = files.read_at(path, Position(u64::from(at) * ENTRY_BYTES), &mut bytes)?;
    Ok((read == bytes.len()).then(|| TimeEntry::decode(bytes)))
}

/// The last of the first `entries` entries whose timestamp is at most `timestamp`, by binary search
/// in the file.
pub(crate) fn floor(
    files: &mut dyn ReadFiles,
    path: &FilePath,
    entries: u32,
    timestamp: i64,
) -> Result<Option<TimeEntry>, DiskError> {
    let (mut low, mut high) = (0, entries);
    let mut best = None;
    while low < high {
        let middle = low + (high - low) / 2;
        match entry_at(files, path, middle)? {
            Some(entry) if entry.timestamp <= timestamp => {
                best = Some(entry);
                low = middle + 1;
            }
            _ => high = middle,
        }
    }
    Ok(best)
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
    const CHUNK_ENTRIES: u32 = 8192;
    let mut buffer = vec![0; (entries.min(CHUNK_ENTRIES) as usize) * 12];
    let mut last: Option<TimeEntry> = None;
    let mut at = 0;
    while at < entries {
        let wanted = ((entries - at).min(CHUNK_ENTRIES) as usize) * 12;
        let chunk = buffer.get_mut(..wanted).unwrap_or_default();
        let read = files.read_at(path, Position(u64::from(at) * ENTRY_BYTES), chunk)?;
        if read < wanted {
            return Ok(None);
        }
        for bytes in chunk.as_chunks().0 {
            let entry = TimeEntry::decode(*bytes);
            let in_order = match last {
                None => entry.timestamp >= 0,
                Some(last) => {
                    entry.timestamp > last.timestamp && entry.relative_offset > last.relative_offset
                }
            };
            if !in_order || u64::from(entry.relative_offset) >= relative_end {
                return Ok(None);
            }
            last = Some(entry);
        }
        at += (wanted / 12) as u32;
    }
    Ok(Some(last))
}

/// The bytes of entries.
pub(crate) fn encode_all<'a>(entries: impl Iterator<Item = &'a TimeEntry>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        bytes.extend_from_slice(&entry.encode());
    }
    bytes
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
