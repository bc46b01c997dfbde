//! Work proportional to bytes on disk: pure functions that the host runs outside the step.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use crate::group::load::{GroupsRead, LoadGroups};
use crate::ids::{FilePath, Offset, Position};
use crate::input::{DirEntry, DiskError, DiskErrorKind, ReadFiles};
use crate::log::cleaner::{BuildMap, CopiedPiece, CopyPiece, Mapped};
use crate::log::fetch_scan::{FetchScan, FetchScanned};
use crate::log::load_plan::{LoadLog, LoadPlan};
use crate::log::load_producers::{LoadProducers, LoadedProducers};
use crate::log::replay::{ReadRecords, RecordsRead};
use crate::log::retention::SegmentTimes;
use crate::log::scan_segment::{ScanSegment, ScannedSegment};
use crate::log::time_lookup::{TimeFound, TimeLookup};

/// What to compute. The host runs it on a thread that may block; the step that gets the result
/// checks again that what it asked about is still there.
#[derive(Debug)]
pub enum ReadJob {
    /// List a directory.
    List(FilePath),
    /// Read whole small files.
    Files(Vec<FilePath>),
    /// Look at what a log's directory holds and decide how to load it.
    LoadLog(LoadLog),
    /// Find where the good batches of a segment end, and build its index entries.
    ScanSegment(ScanSegment),
    /// Find out what a log's producers wrote last.
    LoadProducers(LoadProducers),
    /// Find the whole batches that answer a fetch.
    FetchScan(FetchScan),
    /// Find a record by its timestamp.
    TimeLookup(TimeLookup),
    /// Read the largest timestamps of closed segments.
    SegmentTimes(SegmentTimes),
    /// Read whole batches, for a replay.
    ReadRecords(ReadRecords),
    /// Read the records of groups.
    LoadGroups(LoadGroups),
    /// Find the newest offsets of keys, for the cleaner.
    BuildMap(BuildMap),
    /// Copy what stays of a segment that is cleaned.
    CopyPiece(CopyPiece),
}

/// What a [`ReadJob`] found.
#[derive(Clone, Debug)]
pub enum ReadOutput {
    /// The entries of a directory.
    List(Vec<DirEntry>),
    /// The content of each file, `None` for one that does not exist.
    Files(Vec<Option<Bytes>>),
    /// How to load a log.
    LoadLog(Box<LoadPlan>),
    /// What a segment holds.
    ScanSegment(Box<ScannedSegment>),
    /// The producers at the end of a log.
    LoadProducers(Box<LoadedProducers>),
    /// Where the batches are.
    FetchScan(FetchScanned),
    /// The record.
    TimeLookup(TimeFound),
    /// Base offsets and largest timestamps.
    SegmentTimes(Vec<(Offset, i64)>),
    /// The batches.
    Records(RecordsRead),
    /// Records of groups.
    Groups(Box<GroupsRead>),
    /// The newest offsets of keys.
    Mapped(Box<Mapped>),
    /// What stays of a segment.
    Copied(Box<CopiedPiece>),
}

impl ReadJob {
    /// Runs the job. A pure function of what the files hold.
    ///
    /// # Errors
    /// If the disk refuses. What the files hold is never an error here, but part of the output.
    pub fn run(&self, files: &mut dyn ReadFiles) -> Result<ReadOutput, DiskError> {
        Ok(match self {
            Self::List(path) => ReadOutput::List(files.list(path)?),
            Self::Files(paths) => {
                let contents = paths.iter().map(|path| whole_file(files, path));
                ReadOutput::Files(contents.collect::<Result<_, _>>()?)
            }
            Self::LoadLog(job) => ReadOutput::LoadLog(Box::new(job.run(files)?)),
            Self::ScanSegment(job) => ReadOutput::ScanSegment(Box::new(job.run(files)?)),
            Self::LoadProducers(job) => ReadOutput::LoadProducers(Box::new(job.run(files)?)),
            Self::FetchScan(job) => ReadOutput::FetchScan(job.run(files)?),
            Self::TimeLookup(job) => ReadOutput::TimeLookup(job.run(files)?),
            Self::SegmentTimes(job) => ReadOutput::SegmentTimes(job.run(files)?),
            Self::ReadRecords(job) => ReadOutput::Records(job.run(files)?),
            Self::LoadGroups(job) => ReadOutput::Groups(Box::new(job.run(files)?)),
            Self::BuildMap(job) => ReadOutput::Mapped(Box::new(job.run(files)?)),
            Self::CopyPiece(job) => ReadOutput::Copied(Box::new(job.run(files)?)),
        })
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
            Self::LoadLog(job) => {
                let how = if job.clean { "clean" } else { "unclean" };
                write!(f, "load-log {} start {} {how}", job.dir, job.log_start)
            }
            Self::ScanSegment(job) => write!(
                f,
                "scan-segment {}/{} from {}",
                job.dir, job.base, job.from.position
            ),
            Self::LoadProducers(job) => write!(f, "load-producers {} end {}", job.dir, job.end),
            Self::FetchScan(job) => write!(
                f,
                "fetch-scan {}/{} offset {} limit {} max {} B",
                job.dir, job.segment, job.offset, job.limit, job.max_bytes
            ),
            Self::TimeLookup(job) => match job.timestamp {
                Some(timestamp) => write!(f, "time-lookup {} {timestamp}", job.dir),
                None => write!(f, "time-lookup {} max", job.dir),
            },
            Self::SegmentTimes(job) => {
                write!(f, "segment-times {} {}", job.dir, job.segments.len())
            }
            Self::ReadRecords(ReadRecords(job)) => {
                write!(
                    f,
                    "read-records {}/{} offset {}",
                    job.dir, job.segment, job.offset
                )
            }
            Self::LoadGroups(LoadGroups(ReadRecords(job))) => {
                write!(
                    f,
                    "load-groups {}/{} offset {}",
                    job.dir, job.segment, job.offset
                )
            }
            Self::BuildMap(job) => {
                write!(f, "build-map {}/{} from {}", job.dir, job.segment, job.from)
            }
            Self::CopyPiece(job) => write!(
                f,
                "copy-piece {}/{} from {} to {} at {}",
                job.dir, job.segment, job.from, job.target, job.target_position
            ),
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
            Self::LoadLog(plan) => write!(
                f,
                "{} closed, {} to scan, {} to rebuild{}",
                plan.closed.len(),
                if plan.active.is_some() {
                    0
                } else {
                    plan.scan.len()
                },
                plan.rebuild.len(),
                if plan.damage.is_some() {
                    ", damaged"
                } else {
                    ""
                }
            ),
            Self::ScanSegment(scan) => {
                write!(f, "good to {} of {}", scan.end, scan.length)?;
                match (&scan.damage, scan.bad) {
                    (Some(damage), _) => write!(f, ", damaged: {}", damage.kind),
                    (None, Some(bad)) => write!(f, ": {bad}"),
                    (None, None) => Ok(()),
                }
            }
            Self::LoadProducers(found) => write!(f, "{} producers", found.states.len()),
            Self::FetchScan(found) => {
                write!(
                    f,
                    "{}+{} offsets {}..{}",
                    found.position, found.length, found.first_offset, found.next_offset
                )?;
                match &found.damage {
                    Some(damage) => write!(f, ", damaged: {}", damage.kind),
                    None => Ok(()),
                }
            }
            Self::TimeLookup(found) => match found.found {
                Some(record) => write!(f, "offset {} at {}", record.offset, record.timestamp),
                None => f.write_str("no such record"),
            },
            Self::SegmentTimes(times) => write!(f, "{} segments", times.len()),
            Self::Records(records) => write!(
                f,
                "{} batches up to {}",
                records.batches.len(),
                records.next_offset
            ),
            Self::Groups(read) => write!(
                f,
                "{} records of groups up to {}",
                read.records.len(),
                read.next_offset
            ),
            Self::Mapped(mapped) => {
                let full = if mapped.full { ", full" } else { "" };
                write!(f, "{} keys up to {}{full}", mapped.map.len(), mapped.next)
            }
            Self::Copied(piece) => {
                write!(f, "{} B up to {}", piece.bytes.len(), piece.next)?;
                match &piece.damage {
                    Some(damage) => write!(f, ", damaged: {}", damage.kind),
                    None => Ok(()),
                }
            }
        }
    }
}
