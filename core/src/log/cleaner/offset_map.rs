//! The newest offset of each key in the part of a log that was not cleaned yet.
//!
//! The map grows piece by piece, each piece a pure function that the host runs outside the step. So
//! it is a list of sorted runs that are never changed: a piece adds one and merges those that are not
//! much longer, which costs each key a few moves in all. Keys are kept whole, not as hashes: two keys
//! are never taken for one.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::bugs::{Bug, Bugs};
use crate::ids::{FilePath, Offset, Position};
use crate::input::{DiskError, ReadFiles};
use crate::log::batch_reader::{BatchReader, SCAN_WINDOW_BYTES};
use crate::log::error::{BadBatch, Damage, DamageKind};
use crate::log::file_names::SegmentFile;
use crate::record::batch::verify_crc;
use crate::record::check::Limits;
use crate::record::records::BatchRecords;

/// How many bytes of a segment one piece reads.
const PIECE_BYTES: u64 = 4 << 20;

/// What a key costs beside its bytes.
const ENTRY_BYTES: usize = 16;

/// The newest offset of each key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetMap {
    /// Older ones first, each longer than twice the next.
    runs: Vec<Arc<Run>>,
}

/// Keys, rising, each with an offset.
#[derive(Debug, Default, PartialEq, Eq)]
struct Run {
    /// All keys, one behind the other.
    keys: Vec<u8>,
    /// Where each key begins.
    entries: Vec<(usize, Offset)>,
}

/// Reads keys of a segment into the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildMap {
    /// The log's directory.
    pub dir: FilePath,
    /// Base offset of the segment.
    pub segment: Offset,
    /// Where to go on in it: a batch boundary.
    pub from: Position,
    /// Where it ends.
    pub end: Position,
    /// Only records at or above this offset.
    pub start: Offset,
    /// What is known already.
    pub map: OffsetMap,
    /// How large the map may become, in bytes.
    pub max_map_bytes: u64,
    /// The planted bug, if any.
    pub bugs: Bugs,
}

/// What a piece made of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The map with the keys of the piece.
    pub map: OffsetMap,
    /// Where to go on in the segment.
    pub next: Position,
    /// The offset that follows the last batch in the map; `None` if the piece had none.
    pub end: Option<Offset>,
    /// Whether the next batch has no room in the map.
    pub full: bool,
    /// A batch that does not pass its checks, which ended the piece.
    pub damage: Option<Damage>,
}

impl OffsetMap {
    /// The newest offset of a key, if the map has it.
    #[must_use]
    pub fn get(&self, key: &[u8], bugs: Bugs) -> Option<Offset> {
        if bugs.has(Bug::CleanerKeepsFirst) {
            return self.runs.iter().find_map(|run| run.get(key));
        }
        self.runs.iter().rev().find_map(|run| run.get(key))
    }

    /// Its size in memory, roughly.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes()).sum()
    }

    /// How many keys it has; one that is in two runs counts twice.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.iter().map(|run| run.entries.len()).sum()
    }

    /// Whether it has no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Adds newer keys.
    fn add(&mut self, fresh: BTreeMap<Vec<u8>, Offset>, bugs: Bugs) {
        if fresh.is_empty() {
            return;
        }
        let mut newest = Run::default();
        for (key, offset) in &fresh {
            newest.push(key, *offset);
        }
        while let Some(older) = self
            .runs
            .pop_if(|older| older.entries.len() <= 2 * newest.entries.len())
        {
            newest = merge(&older, &newest, bugs);
        }
        self.runs.push(Arc::new(newest));
    }
}

impl Run {
    fn push(&mut self, key: &[u8], offset: Offset) {
        self.entries.push((self.keys.len(), offset));
        self.keys.extend_from_slice(key);
    }

    fn key(&self, at: usize) -> &[u8] {
        let begin = self.entries.get(at).map_or(0, |(begin, _)| *begin);
        let end = self
            .entries
            .get(at + 1)
            .map_or(self.keys.len(), |(begin, _)| *begin);
        self.keys.get(begin..end).unwrap_or_default()
    }

    fn get(&self, key: &[u8]) -> Option<Offset> {
        let (mut low, mut high) = (0, self.entries.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.key(middle).cmp(key) {
                core::cmp::Ordering::Equal => {
                    return self.entries.get(middle).map(|(_, offset)| *offset);
                }
                core::cmp::Ordering::Less => low = middle + 1,
                core::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    const fn bytes(&self) -> u64 {
        (self.keys.len() + self.entries.len() * ENTRY_BYTES) as u64
    }
}

/// One run of two: of a key that both have, the newer offset.
fn merge(older: &Run, newer: &Run, bugs: Bugs) -> Run {
    let mut merged = Run {
        keys: Vec::with_capacity(older.keys.len() + newer.keys.len()),
        entries: Vec::with_capacity(older.entries.len() + newer.entries.len()),
    };
    let (mut left, mut right) = (0, 0);
    loop {
        let old = older.entries.get(left).map(|(_, offset)| *offset);
        let new = newer.entries.get(right).map(|(_, offset)| *offset);
        let order = match (old, new) {
            (None, None) => return merged,
            (Some(_), None) => core::cmp::Ordering::Less,
            (None, Some(_)) => core::cmp::Ordering::Greater,
            (Some(_), Some(_)) => older.key(left).cmp(newer.key(right)),
        };
        if let (Some(offset), true) = (old, order.is_lt()) {
            merged.push(older.key(left), offset);
        }
        if let (Some(offset), true) = (new, order.is_ge()) {
            let first = old.filter(|_| order.is_eq() && bugs.has(Bug::CleanerKeepsFirst));
            merged.push(newer.key(right), first.unwrap_or(offset));
        }
        left += usize::from(order.is_le());
        right += usize::from(order.is_ge());
    }
}

impl BuildMap {
    /// Runs the job.
    pub fn run(&self, files: &mut dyn ReadFiles) -> Result<Mapped, DiskError> {
        let log = SegmentFile::Log.path(&self.dir, self.segment);
        let mut reader = BatchReader::new(files, log.clone(), SCAN_WINDOW_BYTES);
        let mut result = Mapped {
            map: self.map.clone(),
            next: self.from,
            end: None,
            full: false,
            damage: None,
        };
        let mut fresh: BTreeMap<Vec<u8>, Offset> = BTreeMap::new();
        let mut size = self.map.bytes();
        let mut position = self.from.0;
        let mut expected = self.segment;
        let damage = |position: u64, offset: Offset, bad: BadBatch| {
            Some(Damage {
                file: log.clone(),
                position: Position(position),
                offset,
                kind: DamageKind::Batch(bad),
            })
        };
        while position < self.end.0 && position - self.from.0 < PIECE_BYTES {
            let header = match reader.header_at(position, self.end.0)? {
                Ok(header) => header,
                Err(bad) => {
                    result.damage = damage(position, expected, bad);
                    break;
                }
            };
            if header.next_offset() > self.start {
                let bytes = reader.batch(position, &header)?;
                let records = BatchRecords::open(&bytes, Limits::default().max_decompressed_bytes);
                let (true, Ok(records)) = (verify_crc(&bytes), records) else {
                    result.damage = damage(position, header.base_offset, BadBatch::Crc);
                    break;
                };
                let keys: Vec<(&[u8], Offset)> = records
                    .iter()
                    .map_while(Result::ok)
                    .filter(|record| record.offset >= self.start)
                    .filter_map(|record| Some((record.key?, record.offset)))
                    .collect();
                let more: usize = keys.iter().map(|(key, _)| key.len() + ENTRY_BYTES).sum();
                let some = !self.map.is_empty() || !fresh.is_empty();
                if some && size + more as u64 > self.max_map_bytes {
                    result.full = true;
                    break;
                }
                for (key, offset) in keys {
                    if let Some(known) = fresh.get_mut(key) {
                        if !self.bugs.has(Bug::CleanerKeepsFirst) {
                            *known = offset;
                        }
                    } else {
                        size += (key.len() + ENTRY_BYTES) as u64;
                        fresh.insert(key.to_vec(), offset);
                    }
                }
            }
            position += header.size_bytes();
            expected = header.next_offset();
            result.end = Some(expected);
        }
        result.next = Position(position);
        result.map.add(fresh, self.bugs);
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the pieces, the map says what a plain one would.
        #[test]
        fn it_knows_the_newest_offset_of_each_key(
            pieces in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(0..3_u8, 0..4), 0..20), 0..20),
        ) {
            let mut map = OffsetMap::default();
            let mut plain = BTreeMap::new();
            let mut offset = 0;
            for piece in pieces {
                let mut fresh = BTreeMap::new();
                for key in piece {
                    fresh.insert(key.clone(), Offset(offset));
                    plain.insert(key, Offset(offset));
                    offset += 1;
                }
                map.add(fresh, Bugs::NONE);
                for pair in map.runs.windows(2) {
                    prop_assert!(pair[0].entries.len() > 2 * pair[1].entries.len());
                }
            }
            for (key, offset) in &plain {
                prop_assert_eq!(map.get(key, Bugs::NONE), Some(*offset));
            }
            prop_assert_eq!(map.get(&[9], Bugs::NONE), None);
            prop_assert!(map.len() >= plain.len());
        }
    }
}
