//! The data directory as the core sees it: paths below one root, log files behind ids, and errors
//! that say what kind of failure it was.
//!
//! A failed flush is reported once and never tried again here: what it means is the core's to
//! decide (promise 6 of DESIGN.md).

pub(crate) mod descriptors;
mod error;
pub(crate) mod flush;
pub(crate) mod read_files;
#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use odradek_core::effect::FileOp;
use odradek_core::ids::{FilePath, Position};
use odradek_core::input::{DiskError, DiskErrorKind};
use odradek_core::read_job::{ReadJob, ReadOutput};

use crate::hand_over::file_queue::WriteRun;
use descriptors::{Descriptors, LogFile, OpenFile};
use error::disk_error;
use read_files::DiskReader;

/// How much a rewrite holds in memory.
const REWRITE_BYTES: usize = 1 << 20;

/// The files below one directory.
#[derive(Debug)]
pub(crate) struct Disk {
    root: PathBuf,
    descriptors: Arc<Descriptors>,
}

impl Disk {
    /// The files below `root`, of which at most `max_open_files` log files are kept open.
    pub(crate) fn new(root: PathBuf, max_open_files: usize) -> Self {
        Self {
            root,
            descriptors: Arc::new(Descriptors::new(max_open_files)),
        }
    }

    /// Binds a log file; see [`odradek_core::effect::Effect::Open`].
    pub(crate) fn bind(&self, path: FilePath) -> Arc<LogFile> {
        Descriptors::bind(&self.descriptors, path)
    }

    /// An open descriptor of a log file.
    pub(crate) fn open(&self, file: &LogFile) -> Result<Arc<OpenFile>, DiskError> {
        self.descriptors
            .open(file, &self.root)
            .map_err(|error| disk_error(&file.path(), &error))
    }

    /// Writes to the page cache; see [`crate::driver::Host::write`].
    pub(crate) fn write(&self, file: &LogFile, run: &WriteRun) -> Result<(), (u64, DiskError)> {
        let failed = |written, error: io::Error| (written, disk_error(&file.path(), &error));
        let open = self.open(file).map_err(|error| (0, error))?;
        if !open.writable {
            return Err(failed(0, rustix::io::Errno::ROFS.into()));
        }
        file.dirty.store(true, Ordering::SeqCst);
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(2 * run.writes.len());
        for write in &run.writes {
            slices.push(IoSlice::new(&write.header));
            slices.push(IoSlice::new(&write.records));
        }
        write_all_vectored_at(&open.file, &mut slices, run.position.0)
            .map_err(|(written, error)| failed(written, error))
    }

    /// Flushes a log file, its length included; perhaps beside another flush of it.
    pub(crate) fn flush(&self, file: &LogFile) -> Result<(), DiskError> {
        let _under_way = file.begin_flush();
        let open = self.open(file)?;
        file.dirty.store(false, Ordering::SeqCst);
        let flushed = open.flush(|| self.descriptors.open_again(file, &self.root));
        flushed.map_err(|error| {
            file.dirty.store(true, Ordering::SeqCst);
            disk_error(&file.path(), &error)
        })
    }

    /// Carries out an operation that has the file for itself.
    pub(crate) fn run_alone(&self, file: &LogFile, op: &FileOp) -> Result<(), DiskError> {
        let fail = |error: io::Error| disk_error(&file.path(), &error);
        match op {
            FileOp::Truncate { length, .. } => {
                let open = self.open(file)?;
                file.dirty.store(true, Ordering::SeqCst);
                open.file.set_len(length.0).map_err(fail)
            }
            FileOp::Rewrite { from, to, .. } => {
                let open = self.open(file)?;
                file.dirty.store(true, Ordering::SeqCst);
                rewrite(&open.file, *from, *to).map_err(fail)
            }
            FileOp::Close(_) => {
                self.descriptors.close(file);
                Ok(())
            }
            other => Err(fail(io::Error::other(format!(
                "{other} is not about a log file"
            )))),
        }
    }

    /// Carries out an operation by path.
    pub(crate) fn manage(&self, op: &FileOp) -> Result<(), DiskError> {
        match op {
            FileOp::CreateDir(path) => self.named(path, |at| match fs::create_dir(at) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && at.is_dir() => Ok(()),
                result => result,
            }),
            FileOp::WriteFile { path, bytes } => {
                self.named(path, |at| self.retry(|| File::create(at))?.write_all(bytes))
            }
            FileOp::WriteAt {
                path,
                position,
                bytes,
            } => self.named(path, |at| self.edit(at)?.write_all_at(bytes, position.0)),
            FileOp::SetLength { path, length } => {
                self.named(path, |at| self.edit(at)?.set_len(length.0))
            }
            FileOp::SyncFile(path) => self.named(path, |at| flush::data(&self.edit(at)?)),
            FileOp::SyncDir(path) => {
                self.named(path, |at| flush::directory(&self.retry(|| File::open(at))?))
            }
            FileOp::Rename { from, to } => self.named(from, |at| {
                self.descriptors
                    .renaming(from, to, || fs::rename(at, self.path(to)))
            }),
            FileOp::RemoveFile(path) => self.named(path, |at| missing_is_fine(fs::remove_file(at))),
            FileOp::RemoveTree(path) => {
                self.named(path, |at| missing_is_fine(fs::remove_dir_all(at)))
            }
            FileOp::Truncate { .. } | FileOp::Rewrite { .. } | FileOp::Close(_) => self
                .named(&FilePath::root(), |_| {
                    Err(io::Error::other(format!("{op} is not about a path")))
                }),
        }
    }

    /// Runs a read job.
    pub(crate) fn read(&self, job: &ReadJob) -> Result<ReadOutput, DiskError> {
        job.run(&mut DiskReader::new(self))
    }

    /// Runs a read job whose reads are few if the page cache has all of them; `None` if it has not,
    /// or if the job is one that may take long.
    pub(crate) fn read_warm(&self, job: &ReadJob) -> Option<Result<ReadOutput, DiskError>> {
        if !matches!(job, ReadJob::FetchScan(_)) {
            return None;
        }
        let mut reader = DiskReader::warm(self);
        let result = job.run(&mut reader);
        (!reader.is_cold()).then_some(result)
    }

    /// Where a path of the core is.
    pub(crate) fn path(&self, path: &FilePath) -> PathBuf {
        if path.as_str().is_empty() {
            self.root.clone()
        } else {
            self.root.join(path.as_str())
        }
    }

    fn named(
        &self,
        path: &FilePath,
        act: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<(), DiskError> {
        act(&self.path(path)).map_err(|error| disk_error(path, &error))
    }

    fn edit(&self, path: &Path) -> io::Result<File> {
        self.retry(|| OpenOptions::new().read(true).write(true).open(path))
    }

    /// Opens a file; if no descriptor is left, closes what can be reopened and tries once more.
    fn retry(&self, open: impl Fn() -> io::Result<File>) -> io::Result<File> {
        open().or_else(|error| {
            if error::kind(&error) == DiskErrorKind::TooManyOpenFiles
                && self.descriptors.close_idle() > 0
            {
                open()
            } else {
                Err(error)
            }
        })
    }
}

fn missing_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Writes all of `slices` from `position` on. On failure: how many bytes are written.
pub(crate) fn write_all_vectored_at(
    file: &File,
    slices: &mut [IoSlice<'_>],
    position: u64,
) -> Result<(), (u64, io::Error)> {
    let mut rest = slices;
    let mut written = 0;
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match write_vectored_at(file, rest, position + written) {
            Ok(0) => return Err((written, io::ErrorKind::WriteZero.into())),
            Ok(n) => {
                written += n as u64;
                IoSlice::advance_slices(&mut rest, n);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((written, error)),
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn write_vectored_at(file: &File, slices: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
    Ok(rustix::io::pwritev(file, slices, position)?)
}

#[cfg(not(target_os = "linux"))]
fn write_vectored_at(file: &File, slices: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
    slices
        .first()
        .map_or(Ok(0), |slice| file.write_at(slice, position))
}

fn rewrite(file: &File, from: Position, to: Position) -> io::Result<()> {
    let mut buffer = vec![
        0;
        REWRITE_BYTES.min(
            usize::try_from(to.0.saturating_sub(from.0)).unwrap_or(REWRITE_BYTES)
        )
    ];
    let mut at = from.0;
    while at < to.0 {
        let want = usize::try_from(to.0 - at)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let (chunk, _) = buffer.split_at_mut(want);
        file.read_exact_at(chunk, at)?;
        file.write_all_at(chunk, at)?;
        at += want as u64;
    }
    Ok(())
}
