//! Reading a segment whose files are just getting their names.
//!
//! Between the instant at which a cleaned segment counts and the one at which its files are known to
//! have their last names, a read cannot know which they have: it tries the one that ends with `.swap`
//! first. Once that is gone, the other is the same file.

use alloc::format;
use alloc::vec::Vec;

use crate::ids::{FilePath, Offset, Position};
use crate::input::{DirEntry, DiskError, DiskErrorKind, ReadFiles};
use crate::log::file_names::SWAP;

/// Files of which those of one segment have one of two names.
pub(crate) struct Renamed<'a> {
    files: &'a mut dyn ReadFiles,
    /// The segment.
    base: Option<Offset>,
}

impl<'a> Renamed<'a> {
    pub(crate) fn new(files: &'a mut dyn ReadFiles, base: Option<Offset>) -> Self {
        Self { files, base }
    }

    fn try_both<R>(
        &mut self,
        path: &FilePath,
        mut read: impl FnMut(&mut dyn ReadFiles, &FilePath) -> Result<R, DiskError>,
    ) -> Result<R, DiskError> {
        let is_renamed = self.base.is_some_and(|base| {
            let digits = path.name().split('.').next().unwrap_or_default();
            digits.parse() == Ok(base.0)
        });
        if !is_renamed {
            return read(self.files, path);
        }
        let swap = path.parent().join(&format!("{}.{SWAP}", path.name()));
        match read(self.files, &swap) {
            Err(error) if error.kind == DiskErrorKind::NotFound => read(self.files, path),
            result => result,
        }
    }
}

impl ReadFiles for Renamed<'_> {
    fn read_at(
        &mut self,
        path: &FilePath,
        position: Position,
        buffer: &mut [u8],
    ) -> Result<usize, DiskError> {
        self.try_both(path, |files, path| files.read_at(path, position, buffer))
    }

    fn length(&mut self, path: &FilePath) -> Result<Position, DiskError> {
        self.try_both(path, |files, path| files.length(path))
    }

    fn list(&mut self, directory: &FilePath) -> Result<Vec<DirEntry>, DiskError> {
        self.files.list(directory)
    }
}
