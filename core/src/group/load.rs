//! Reads the records of groups back, in bulk. A pure function of the files.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::record::record_of;
use crate::ids::Offset;
use crate::input::{DiskError, ReadFiles};
use crate::log::replay::ReadRecords;
use crate::record::check::Limits;
use crate::record::records::BatchRecords;
use crate::wire::coordinator_records::CoordinatorRecord;

/// Which records to read: those of these batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadGroups(pub ReadRecords);

/// Records of groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupsRead {
    /// In the order of the log, and of those with the same key only the last. Commits hold slices of
    /// what was read.
    pub records: Vec<CoordinatorRecord>,
    /// Where to go on.
    pub next_offset: Offset,
    /// Where this began.
    pub offset: Offset,
    /// Which files the log had when this was asked for.
    pub layout: u64,
    /// What could not be read; nothing after it was.
    pub damage: Option<String>,
}

impl LoadGroups {
    /// Runs the job.
    pub fn run(&self, files: &mut dyn ReadFiles) -> Result<GroupsRead, DiskError> {
        let read = self.0.run(files)?;
        let mut damage = None;
        let mut batches = Vec::with_capacity(read.batches.len());
        for batch in &read.batches {
            match BatchRecords::open(batch, Limits::default().max_decompressed_bytes) {
                Ok(opened) => batches.push(opened),
                Err(why) => {
                    damage = Some(why.to_string());
                    break;
                }
            }
        }
        let records = last_records(&batches).unwrap_or_else(|why| {
            damage = Some(why);
            Vec::new()
        });
        Ok(GroupsRead {
            records,
            next_offset: read.next_offset,
            offset: self.0.0.offset,
            layout: self.0.0.layout,
            damage,
        })
    }
}

/// Of the records with the same key the last, in the order of the log.
fn last_records(batches: &[BatchRecords]) -> Result<Vec<CoordinatorRecord>, String> {
    let mut found = Vec::new();
    for batch in batches.iter().filter(|batch| !batch.header().is_control()) {
        for record in batch {
            let record = record.map_err(|error| error.to_string())?;
            found.push((batch, record));
        }
    }
    let superseded = superseded(
        found
            .iter()
            .map(|(_, record)| record.key.unwrap_or_default()),
    );
    let mut records = Vec::with_capacity(found.len());
    for ((batch, record), superseded) in found.into_iter().zip(superseded) {
        if !superseded {
            records.extend(record_of(batch, record)?);
        }
    }
    Ok(records)
}

/// Which of these keys come again further on.
fn superseded<'a>(keys: impl Iterator<Item = &'a [u8]>) -> Vec<bool> {
    // Keys have long beginnings in common, and most are there once: comparing checksums is quicker.
    let mut places: Vec<(u32, &[u8], usize)> = keys
        .enumerate()
        .map(|(place, key)| (crc32c::crc32c(key), key, place))
        .collect();
    places.sort_unstable();
    let mut superseded = vec![false; places.len()];
    for pair in places.windows(2) {
        if let [(_, key, place), (_, next, _)] = pair
            && key == next
            && let Some(superseded) = superseded.get_mut(*place)
        {
            *superseded = true;
        }
    }
    superseded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_keys_that_come_again_the_last_counts() {
        let keys: [&[u8]; 7] = [b"a", b"b", b"a", b"", b"c", b"a", b""];
        let expected = [true, false, true, true, false, false, false];
        assert_eq!(superseded(keys.into_iter()), expected);
        assert_eq!(superseded(core::iter::empty()), [false; 0]);
    }
}
