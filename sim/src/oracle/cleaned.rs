//! CleanedKeepsLatest: what the cleaner makes of a compacted log, judged when it gives a cleaned
//! segment the name under which a start would complete its work.
//!
//! Of each key the last record stays. One that is not the last may go, and so may a last one without a
//! value, a tombstone, if an earlier cleaning has put a delete horizon into its batch and no older
//! record of the key is left. What stays is what it was, at the same offset, in a batch with the same
//! first and last offset and producer.

use std::collections::BTreeMap;

use bytes::Bytes;
use odradek_core::ids::FilePath;

use super::model::{Cleaned, LogModel};
use super::{Check, Mark, Oracle};
use crate::batch;
use crate::disk::Disk;

/// Where a batch says by whom it was written: producer id, epoch, first sequence number.
const PRODUCER: std::ops::Range<usize> = 43..57;
/// Where a batch has its attributes.
const ATTRIBUTES: std::ops::Range<usize> = 21..23;
/// The attribute that says that the base timestamp is a delete horizon.
const DELETE_HORIZON: i16 = 1 << 6;

/// A record of a batch, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OwnRecord {
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
}

impl Oracle {
    /// A file of the cleaner gets the name that makes it count.
    pub(super) fn swap_named(&mut self, from: &FilePath, disk: &Disk) {
        let directory = from.parent();
        self.recovered(directory.as_str(), disk);
        let Some(base) = from.name().split('.').next().and_then(|n| n.parse().ok()) else {
            return;
        };
        let Some(log) = self.models.get_mut(directory.as_str()) else {
            return;
        };
        let content = disk.cached(from).unwrap_or_default();
        let mut fresh = BTreeMap::new();
        let mut size = 0;
        for found in batch::all(content) {
            size += found.bytes.len();
            fresh.insert(found.base_offset, Bytes::copy_from_slice(found.bytes));
        }
        let end = fresh
            .last_key_value()
            .and_then(|(_, bytes)| batch::first(bytes).ok())
            .map_or(base, |last| last.last_offset + 1);
        let mut wrong = log.judge_cleaned(base, end, &fresh);
        if size != content.len() {
            wrong = Some(format!(
                "only {size} of {} bytes are batches",
                content.len()
            ));
        }
        log.take_cleaned(&directory, base, end, &fresh);
        self.mark(Mark::SegmentCleaned);
        if let Some(wrong) = wrong {
            self.violate(
                Check::CleanedKeepsLatest,
                format!("{directory}: cleaned from {base} to {end}: {wrong}"),
            );
        }
    }
}

impl LogModel {
    /// What is wrong with a cleaned segment, if anything.
    fn judge_cleaned(&self, base: i64, end: i64, fresh: &BTreeMap<i64, Bytes>) -> Option<String> {
        let newest = self.newest_segment().cloned();
        // The last offset of each key in what is closed.
        let mut last: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
        for (_, batch) in self.batches.iter() {
            if Some(&batch.segment) == newest.as_ref() {
                break;
            }
            let Some(bytes) = batch.content() else {
                continue;
            };
            for (offset, record) in records(bytes)? {
                last.extend(record.key.map(|key| (key, offset)));
            }
        }
        // What is left of the keys below, once this is in place.
        let mut left: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
        for (_, batch) in self.batches.range(..base) {
            for (offset, record) in batch.content().and_then(records).unwrap_or_default() {
                left.extend(record.key.map(|key| (key, offset)));
            }
        }
        for (at, batch) in self.batches.range(base..end) {
            let Some(before) = batch.content() else {
                if fresh.contains_key(at) {
                    return Some(format!("the batch at {at} was gone, and comes back"));
                }
                continue;
            };
            let Some(old) = records(before) else {
                return Some(format!("the batch at {at} does not read"));
            };
            let mut kept = BTreeMap::new();
            if let Some(bytes) = fresh.get(at) {
                let ends = |bytes: &[u8]| batch::first(bytes).ok().map(|found| found.last_offset);
                if ends(bytes) != ends(before) {
                    return Some(format!("the batch at {at} ends at another offset"));
                }
                if bytes.get(PRODUCER) != before.get(PRODUCER) {
                    return Some(format!("the batch at {at} says another producer"));
                }
                match records(bytes) {
                    Some(records) => kept = records,
                    None => {
                        return Some(format!("what is left of the batch at {at} does not read"));
                    }
                }
                if let Some((offset, _)) = kept.iter().find(|(o, r)| old.get(o) != Some(r)) {
                    return Some(format!("the record at {offset} is not what it was"));
                }
            }
            for (offset, record) in old {
                let Some(key) = record.key else {
                    continue;
                };
                if kept.contains_key(&offset) {
                    left.insert(key, offset);
                    continue;
                }
                let is_last = last.get(&key).is_none_or(|last| *last <= offset);
                if !is_last {
                    continue;
                }
                if record.value.is_some() {
                    return Some(format!("the last record of a key is gone, at {offset}"));
                }
                if !has_delete_horizon(before) {
                    return Some(format!(
                        "a tombstone is gone that no cleaning saw, at {offset}"
                    ));
                }
                if let Some(older) = left.get(&key) {
                    return Some(format!(
                        "the tombstone at {offset} is gone, and what it deletes is there, at {older}"
                    ));
                }
            }
        }
        let unknown = fresh.keys().find(|at| !self.batches.contains_key(at));
        unknown.map(|at| format!("there is a batch at {at} that was never written"))
    }

    /// From now on both may be there: what was, and what the cleaner made of it.
    fn take_cleaned(
        &mut self,
        directory: &FilePath,
        base: i64,
        end: i64,
        fresh: &BTreeMap<i64, Bytes>,
    ) {
        self.gaps_end = self.gaps_end.max(end);
        let segment = directory.join(&format!("{base:020}.log"));
        for (at, batch) in self.batches.range_mut(base..end) {
            let was_gone = batch.may_be_gone();
            batch.segment = segment.clone();
            // A cleaning begins when the one before is in place.
            if let Some(Cleaned::To(before)) = batch.cleaned.take() {
                batch.bytes = before;
            } else if was_gone {
                batch.bytes = Bytes::new();
            }
            batch.cleaned = Some(match fresh.get(at) {
                Some(bytes) => Cleaned::To(bytes.clone()),
                None => Cleaned::Gone,
            });
        }
    }
}

fn has_delete_horizon(batch: &[u8]) -> bool {
    let attributes = batch
        .get(ATTRIBUTES)
        .and_then(|bytes| bytes.try_into().ok());
    attributes.is_some_and(|bytes| i16::from_be_bytes(bytes) & DELETE_HORIZON != 0)
}

/// The records of a batch, by offset.
fn records(batch: &Bytes) -> Option<BTreeMap<i64, OwnRecord>> {
    let records = batch::open_by_core(batch).ok()?;
    let mut found = BTreeMap::new();
    for record in records.iter() {
        let record = record.ok()?;
        let own = OwnRecord {
            timestamp: record.timestamp,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
        };
        found.insert(record.offset.0, own);
    }
    Some(found)
}
