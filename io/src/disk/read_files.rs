//! What a [`ReadJob`](odradek_core::read_job::ReadJob) sees of the disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use odradek_core::ids::{FilePath, Position};
use odradek_core::input::{DirEntry, DiskError, ReadFiles};

use super::Disk;
use super::error::disk_error;
use crate::data_dir::LOCK_FILE;

/// Reads by path. A job nearly always stays with one file, so the last one is kept open.
#[derive(Debug)]
pub(super) struct DiskReader<'a> {
    disk: &'a Disk,
    last: Option<(FilePath, File)>,
}

impl<'a> DiskReader<'a> {
    pub(super) fn new(disk: &'a Disk) -> Self {
        Self { disk, last: None }
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
        self.with(path, |file| read_full_at(file, buffer, position.0))
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
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..)
        && !rest.is_empty()
    {
        match file.read_at(rest, position + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
