//! The offset index of a segment: Kafka's `.index`, 8 bytes an entry.
//!
//! An entry holds the last offset of a batch, relative to the segment's base, and the position at
//! which that batch begins. Both rise strictly. The first batch of a segment has no entry: it is
//! found without one.

use alloc::vec;
use alloc::vec::Vec;

use crate::ids::{FilePath, Position};
use crate::input::{DiskError, ReadFiles};

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

/// The entry number `at` of an index file; `None` past its end.
pub(crate) fn entry_at(
    files: &mut dyn ReadFiles,
    path: &FilePath,
    at: u32,
) -> Result<Option<OffsetEntry>, DiskError> {
    let mut bytes = [0; 8];
    let read = files.read_at(path, Position(u64::from(at) * ENTRY_BYTES), &mut bytes)?;
    Ok((read == bytes.len()).then(|| OffsetEntry::decode(bytes)))
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
    let (mut low, mut high) = (0, entries);
    let mut best = None;
    while low < high {
        let middle = low + (high - low) / 2;
        match entry_at(files, path, middle)? {
            Some(entry) if u64::from(entry.relative_offset) <= relative_offset => {
                best = Some(entry);
                low = middle + 1;
            }
            _ => high = middle,
        }
    }
    Ok(best)
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
    let mut last: Option<OffsetEntry> = None;
    let mut in_order = true;
    let whole = for_each(files, path, entries, |entry| {
        in_order &= match last {
            None => entry.position > 0,
            Some(last) => {
                entry.relative_offset > last.relative_offset && entry.position > last.position
            }
        };
        in_order &=
            u64::from(entry.position) < segment_bytes && entry.relative_offset <= i32::MAX as u32;
        last = Some(entry);
    })?;
    Ok((whole && in_order).then_some(last))
}

/// Calls `visit` for the first `entries` entries; `false` if the file ends before.
fn for_each(
    files: &mut dyn ReadFiles,
    path: &FilePath,
    entries: u32,
    mut visit: impl FnMut(OffsetEntry),
) -> Result<bool, DiskError> {
    const CHUNK_ENTRIES: u32 = 8192;
    let mut buffer = vec![0; (entries.min(CHUNK_ENTRIES) as usize) * 8];
    let mut at = 0;
    while at < entries {
        let wanted = ((entries - at).min(CHUNK_ENTRIES) as usize) * 8;
        let chunk = buffer.get_mut(..wanted).unwrap_or_default();
        let read = files.read_at(path, Position(u64::from(at) * ENTRY_BYTES), chunk)?;
        if read < wanted {
            return Ok(false);
        }
        for bytes in chunk.as_chunks().0 {
            visit(OffsetEntry::decode(*bytes));
        }
        at += (wanted / 8) as u32;
    }
    Ok(true)
}

/// The bytes of entries.
pub(crate) fn encode_all<'a>(entries: impl Iterator<Item = &'a OffsetEntry>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        bytes.extend_from_slice(&entry.encode());
    }
    bytes
}
