//! The offset index of a segment: Kafka's `.index`, 8 bytes an entry.
//!
//! An entry holds the last offset of a batch, relative to the segment's base, and the position at
//! which that batch begins. Both rise strictly. The first batch of a segment has no entry: it is
//! found without one.

use alloc::vec::Vec;

use crate::ids::FilePath;
use crate::input::{DiskError, ReadFiles};

use super::index_file::{self, Entry};

/// Bytes of an entry.
pub(crate) const ENTRY_BYTES: u64 = 8;

/// An entry: where the batch with this last offset begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetEntry {
    /// Last offset of the batch, relative to the segment's base.
    pub relative_offset: u32,
    /// Position of the batch in the segment.
    pub position: u32,
}

impl OffsetEntry {
    /// The bytes of the entry.
    #[must_use]
    pub fn encode(self) -> [u8; 8] {
        let bits = u64::from(self.relative_offset) << 32 | u64::from(self.position);
        bits.to_be_bytes()
    }

    /// Reads an entry.
    #[must_use]
    pub const fn decode(bytes: [u8; 8]) -> Self {
        let bits = u64::from_be_bytes(bytes);
        Self {
            relative_offset: (bits >> 32) as u32,
            position: bits as u32,
        }
    }
}

impl Entry for OffsetEntry {
    const BYTES: usize = ENTRY_BYTES as usize;

    fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::decode)
    }

    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.encode());
    }
}

/// The last of the first `entries` entries whose offset is at most `relative_offset`, by binary
/// search in the file. On an index that is out of order it finds some entry; whoever goes to its
/// position checks that it makes sense.
pub(crate) fn floor(
    files: &mut dyn ReadFiles,
    path: &FilePath,
    entries: u32,
    relative_offset: u64,
) -> Result<Option<OffsetEntry>, DiskError> {
    index_file::floor(files, path, entries, |entry: &OffsetEntry| {
        u64::from(entry.relative_offset) <= relative_offset
    })
}

/// Whether the first `entries` entries of the file are there, rise strictly, and lie inside a
/// segment of `segment_bytes`. Zero padding fails, since no entry has position 0. Returns the last
/// entry (`Ok(Some(None))` if there is none), or `Ok(None)` if the index is not in order.
pub(crate) fn check(
    files: &mut dyn ReadFiles,
    path: &FilePath,
    entries: u32,
    segment_bytes: u64,
) -> Result<Option<Option<OffsetEntry>>, DiskError> {
    index_file::check(files, path, entries, |last: Option<OffsetEntry>, entry| {
        let rises = match last {
            None => entry.position > 0,
            Some(last) => {
                entry.relative_offset > last.relative_offset && entry.position > last.position
            }
        };
        rises
            && u64::from(entry.position) < segment_bytes
            && entry.relative_offset <= i32::MAX as u32
    })
}
