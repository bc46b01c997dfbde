//! Work proportional to bytes on disk: pure functions that the host runs outside the step.

use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use crate::ids::{FilePath, LeaderEpoch, Offset, Position};
use crate::input::{DirEntry, DiskError, DiskErrorKind, ReadFiles};

/// What to compute. The host runs it on a thread that may block; the step that gets the result
/// checks again that what it asked about is still there.
#[derive(Debug)]
pub enum ReadJob {
    /// List a directory.
    List(FilePath),
    /// Read whole small files.
    Files(Vec<FilePath>),
}

/// What a [`ReadJob`] found.
#[derive(Debug)]
pub enum ReadOutput {
    /// The entries of a directory.
    List(Vec<DirEntry>),
    /// The content of each file, `None` for one that does not exist.
    Files(Vec<Option<Bytes>>),
    /// What a look-up by time found.
    TimeLookup(Option<TimestampOffset>),
    /// Batches for a replay.
    Records(ReadRecords),
}

/// A record found by its timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampOffset {
    /// The record's timestamp in milliseconds.
    pub timestamp: i64,
    /// Its offset.
    pub offset: Offset,
    /// The leader epoch of its batch.
    pub leader_epoch: LeaderEpoch,
}

/// Whole batches, each checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRecords {
    /// In the order of the log.
    pub batches: Vec<Bytes>,
    /// Where to go on.
    pub next_offset: Offset,
}

impl ReadJob {
    /// Runs the job. A pure function of what the files hold.
    pub fn run(&self, files: &mut dyn ReadFiles) -> Result<ReadOutput, DiskError> {
        match self {
            Self::List(path) => files.list(path).map(ReadOutput::List),
            Self::Files(paths) => {
                let contents = paths.iter().map(|path| whole_file(files, path));
                contents.collect::<Result<_, _>>().map(ReadOutput::Files)
            }
        }
    }
}

/// A whole file, or `None` if there is none of that name.
fn whole_file(files: &mut dyn ReadFiles, path: &FilePath) -> Result<Option<Bytes>, DiskError> {
    let length = match files.length(path) {
        Ok(length) => length,
        Err(error) if error.kind == DiskErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut content = alloc::vec![0; usize::try_from(length.0).unwrap_or(usize::MAX)];
    let read = files.read_at(path, Position(0), &mut content)?;
    content.truncate(read);
    Ok(Some(Bytes::from(content)))
}

impl fmt::Display for ReadJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(path) => write!(f, "list {path}"),
            Self::Files(paths) => write!(f, "{} files", paths.len()),
        }
    }
}

impl fmt::Display for ReadOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(entries) => write!(f, "{} entries", entries.len()),
            Self::Files(contents) => {
                write!(
                    f,
                    "{} of {} files",
                    contents.iter().flatten().count(),
                    contents.len()
                )
            }
            Self::TimeLookup(found) => write!(f, "{found:?}"),
            Self::Records(records) => write!(f, "{} batches", records.batches.len()),
        }
    }
}
