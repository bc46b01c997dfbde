//! What a [`ReadJob`](odradek_core::read_job::ReadJob) sees of the disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use odradek_core::ids::{FilePath, Position};
use odradek_core::input::{DirEntry, DiskError, ReadFiles};

use super::Disk;
use super::error::disk_error;
use crate::data_dir::LOCK_FILE;

/// How much a reader takes from the page cache on a thread that has other things to do.
const WARM_BYTES: usize = 2 << 20;

/// Reads by path. A job nearly always stays with one file, so the last one is kept open.
#[derive(Debug)]
pub(super) struct DiskReader<'a> {
    disk: &'a Disk,
    last: Option<(FilePath, File)>,
    may_block: bool,
    /// What may still be read without blocking.
    warm_bytes: usize,
    /// Something was not in the page cache, or too much was.
    cold: bool,
}

impl<'a> DiskReader<'a> {
    pub(super) fn new(disk: &'a Disk) -> Self {
        Self {
            disk,
            last: None,
            may_block: true,
            warm_bytes: 0,
            cold: false,
        }
    }

    /// Reads only what is in the page cache, and not too much of it. What a job found counts only
    /// if [`Self::is_cold`] says no afterwards.
    pub(super) fn warm(disk: &'a Disk) -> Self {
        Self {
            may_block: false,
            warm_bytes: WARM_BYTES,
            ..Self::new(disk)
        }
    }

    /// Whether a read failed that would have had to wait for the disk.
    pub(super) const fn is_cold(&self) -> bool {
        self.cold
    }

    fn with<T>(
        &mut self,
        path: &FilePath,
        read: impl FnOnce(&File) -> io::Result<T>,
    ) -> Result<T, DiskError> {
        let result = match &self.last {
            Some((last, file)) if last == path => read(file),
            _ => self
                .disk
                .retry(|| File::open(self.disk.path(path)))
                .and_then(|file| {
                    let (_, file) = self.last.insert((path.clone(), file));
                    read(file)
                }),
        };
        result.map_err(|error| disk_error(path, &error))
    }
}

impl ReadFiles for DiskReader<'_> {
    fn read_at(
        &mut self,
        path: &FilePath,
        position: Position,
        buffer: &mut [u8],
    ) -> Result<usize, DiskError> {
        if self.may_block {
            return self.with(path, |file| read_full_at(file, buffer, position.0));
        }
        let Some(rest) = self.warm_bytes.checked_sub(buffer.len()) else {
            self.cold = true;
            return Err(disk_error(path, &io::ErrorKind::WouldBlock.into()));
        };
        self.warm_bytes = rest;
        let mut would_block = false;
        let result = self.with(path, |file| {
            read_full_with(buffer, position.0, |buffer, at| read_now(file, at, buffer))
                .inspect_err(|error| would_block = is_cold(error))
        });
        self.cold |= would_block;
        result
    }

    fn length(&mut self, path: &FilePath) -> Result<Position, DiskError> {
        self.with(path, |file| Ok(Position(file.metadata()?.len())))
    }

    fn list(&mut self, directory: &FilePath) -> Result<Vec<DirEntry>, DiskError> {
        let list = || -> io::Result<Vec<DirEntry>> {
            let mut entries = Vec::new();
            for entry in self.disk.path(directory).read_dir()? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                if directory.as_str().is_empty() && name == LOCK_FILE {
                    // The host's own.
                    continue;
                }
                let metadata = match entry.metadata() {
                    // Removed since it was listed.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    metadata => metadata?,
                };
                entries.push(DirEntry {
                    name,
                    length: (!metadata.is_dir()).then_some(Position(metadata.len())),
                });
            }
            entries.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(entries)
        };
        list().map_err(|error| disk_error(directory, &error))
    }
}

/// Reads until the buffer is full or the file ends.
pub(super) fn read_full_at(file: &File, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    read_full_with(buffer, position, |buffer, at| file.read_at(buffer, at))
}

fn read_full_with(
    buffer: &mut [u8],
    position: u64,
    mut read_at: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..)
        && !rest.is_empty()
    {
        match read_at(rest, position + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads what is in the page cache; [`is_cold`] says of an error whether that was nothing.
#[cfg(target_os = "linux")]
pub(crate) fn read_now(file: &File, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut slices = [io::IoSliceMut::new(buffer)];
    let flags = rustix::io::ReadWriteFlags::NOWAIT;
    Ok(rustix::io::preadv2(file, &mut slices, position, flags)?)
}

/// Elsewhere nothing can be known without waiting.
#[cfg(not(target_os = "linux"))]
pub(crate) fn read_now(_: &File, _: u64, _: &mut [u8]) -> io::Result<usize> {
    Err(io::ErrorKind::WouldBlock.into())
}

/// The page is not there, or the filesystem cannot say.
pub(crate) fn is_cold(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Unsupported
    )
}
