//! Reads the records of groups back, in bulk. A pure function of the files.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::record::records_of;
use crate::ids::Offset;
use crate::input::{DiskError, ReadFiles};
use crate::log::replay::ReadRecords;
use crate::wire::coordinator_records::CoordinatorRecord;

/// Which records to read: those of these batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadGroups(pub ReadRecords);

/// Records of groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupsRead {
    /// In the order of the log, and of those with the same key only the last.
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
        let mut places = BTreeMap::new();
        let mut records = Vec::new();
        let mut damage = None;
        for batch in &read.batches {
            match records_of(batch) {
                Ok(found) => {
                    for (key, record) in found {
                        if let Some(place) = places.insert(key, records.len())
                            && let Some(earlier) = records.get_mut(place)
                        {
                            *earlier = None;
                        }
                        records.push(Some(record));
                    }
                }
                Err(why) => {
                    damage = Some(why);
                    break;
                }
            }
        }
        Ok(GroupsRead {
            records: records.into_iter().flatten().collect(),
            next_offset: read.next_offset,
            offset: self.0.0.offset,
            layout: self.0.0.layout,
            damage,
        })
    }
}
