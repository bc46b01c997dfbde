//! What both indexes of a segment share: files of entries of one size, read by number, searched, and
//! walked in order.

use alloc::vec;
use alloc::vec::Vec;

use crate::ids::{FilePath, Position};
use crate::input::{DiskError, ReadFiles};

/// The longest entry of any index.
const MAX_ENTRY_BYTES: usize = 12;

/// How many entries a walk reads at once.
const CHUNK_ENTRIES: u32 = 8192;

/// An entry of an index.
pub(crate) trait Entry: Copy {
    /// Its size in the file, at most [`MAX_ENTRY_BYTES`].
    const BYTES: usize;

    /// Reads it from exactly [`Self::BYTES`]; `None` if there are more or fewer.
    fn read(bytes: &[u8]) -> Option<Self>;

    /// Adds its bytes.
    fn write(self, out: &mut Vec<u8>);
}

/// The entry number `at` of an index file; `None` past its end.
pub(crate) fn entry_at<E: Entry>(
    files: &mut dyn ReadFiles,
    path: &FilePath,
    at: u32,
) -> Result<Option<E>, DiskError> {
    let mut buffer = [0; MAX_ENTRY_BYTES];
    let bytes = buffer.get_mut(..E::BYTES).unwrap_or_default();
    let read = files.read_at(path, position_of::<E>(at), bytes)?;
    Ok(bytes.get(..read).and_then(E::read))
}

/// The last of the first `entries` entries that is `low_enough`, by binary search in the file. On an
/// index that is out of order it finds some entry.
pub(crate) fn floor<E: Entry>(
    files: &mut dyn ReadFiles,
    path: &FilePath,
    entries: u32,
    low_enough: impl Fn(&E) -> bool,
) -> Result<Option<E>, DiskError> {
    let (mut low, mut high) = (0, entries);
    let mut best = None;
    while low < high {
        let middle = low + (high - low) / 2;
        match entry_at(files, path, middle)? {
            Some(entry) if low_enough(&entry) => {
                best = Some(entry);
                low = middle + 1;
            }
            _ => high = middle,
        }
    }
    Ok(best)
}

/// The last of the first `entries` entries (`Ok(Some(None))` if there is none), if all of them are
/// there and each is `in_order` behind the one before it; else `Ok(None)`.
pub(crate) fn check<E: Entry>(
    files: &mut dyn ReadFiles,
    path: &FilePath,
    entries: u32,
    in_order: impl Fn(Option<E>, E) -> bool,
) -> Result<Option<Option<E>>, DiskError> {
    let mut buffer = vec![0; entries.min(CHUNK_ENTRIES) as usize * E::BYTES];
    let mut last = None;
    let mut at = 0;
    while at < entries {
        let count = (entries - at).min(CHUNK_ENTRIES);
        let chunk = buffer
            .get_mut(..count as usize * E::BYTES)
            .unwrap_or_default();
        if files.read_at(path, position_of::<E>(at), chunk)? < chunk.len() {
            return Ok(None);
        }
        for entry in chunk.chunks_exact(E::BYTES).filter_map(E::read) {
            if !in_order(last, entry) {
                return Ok(None);
            }
            last = Some(entry);
        }
        at += count;
    }
    Ok(Some(last))
}

/// The bytes of entries.
pub(crate) fn encode_all<'a, E: Entry + 'a>(entries: impl Iterator<Item = &'a E>) -> Vec<u8> {
    let mut bytes = Vec::new();
    entries.for_each(|entry| entry.write(&mut bytes));
    bytes
}

fn position_of<E: Entry>(at: u32) -> Position {
    Position(u64::from(at) * E::BYTES as u64)
}
