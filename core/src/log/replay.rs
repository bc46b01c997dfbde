//! Reads whole batches in bulk, for a log whose records are replayed into a state. A pure function
//! of the files.

use alloc::vec::Vec;

use bytes::Bytes;

use crate::ids::Offset;
use crate::input::{DiskError, ReadFiles};

use super::batch_reader::{BatchReader, HEADER_WINDOW_BYTES};
use super::error::Damage;
use super::fetch_scan::FetchScan;
use super::file_names::SegmentFile;

/// Which batches to read: those that answer this fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRecords(pub FetchScan);

/// Whole batches, each checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordsRead {
    /// In the order of the log. The first may begin below the offset asked for.
    pub batches: Vec<Bytes>,
    /// Where to go on.
    pub next_offset: Offset,
    /// A batch that does not pass its checks, behind these.
    pub damage: Option<Damage>,
}

impl ReadRecords {
    /// Runs the job.
    pub fn run(&self, files: &mut dyn ReadFiles) -> Result<RecordsRead, DiskError> {
        let found = self.0.run(files)?;
        let log = SegmentFile::Log.path(&self.0.dir, self.0.segment);
        let mut reader = BatchReader::new(files, log, HEADER_WINDOW_BYTES);
        let mut position = found.position.0;
        let end = position + u64::from(found.length);
        let mut batches = Vec::new();
        while position < end {
            let Ok(header) = reader.header_at(position, end)? else {
                break;
            };
            batches.push(reader.batch(position, &header)?);
            position += header.size_bytes();
        }
        Ok(RecordsRead {
            batches,
            next_offset: found.next_offset,
            damage: found.damage,
        })
    }
}
