//! Reads whole batches in bulk, for a log whose records are replayed into a state. A pure function
//! of the files.

use alloc::string::ToString;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::ids::Offset;
use crate::input::{DiskError, DiskErrorKind, ReadFiles};

use super::batch_reader::{BatchReader, HEADER_WINDOW_BYTES};
use super::cleaner::renamed::Renamed;
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
}

impl ReadRecords {
    /// Runs the job. A damaged batch ends it; if nothing comes before, it is an error.
    pub fn run(&self, files: &mut dyn ReadFiles) -> Result<RecordsRead, DiskError> {
        let files: &mut dyn ReadFiles =
            &mut Renamed::new(files, self.0.is_swap.then_some(self.0.segment));
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
        match found.damage {
            Some(damage) if batches.is_empty() => Err(DiskError {
                kind: DiskErrorKind::Other,
                path: damage.file.clone(),
                detail: damage.to_string(),
            }),
            _ => Ok(RecordsRead {
                batches,
                next_offset: found.next_offset,
            }),
        }
    }
}
