//! Reads as the medium gives them: sectors that cannot be read, parts of what was asked for, bytes of
//! another place. See the model in [`disk`](super).

use odradek_core::ids::{FilePath, Position};
use odradek_core::input::{DirEntry, DiskError, DiskErrorKind, ReadFiles};

use super::faults::{DiskFault, DiskFaults};
use super::file::SECTOR_BYTES;
use super::{Disk, Inode, error};
use crate::choices::Choices;

/// The files of a disk, for one read job.
#[derive(Debug)]
pub struct Reader<'a> {
    disk: &'a mut Disk,
    faults: &'a DiskFaults,
    choices: &'a mut Choices,
    struck: &'a mut Vec<(DiskFault, Option<FilePath>)>,
}

impl<'a> Reader<'a> {
    /// Reads of this disk, with these faults; those that strike are added to `struck`.
    pub const fn new(
        disk: &'a mut Disk,
        faults: &'a DiskFaults,
        choices: &'a mut Choices,
        struck: &'a mut Vec<(DiskFault, Option<FilePath>)>,
    ) -> Self {
        Self {
            disk,
            faults,
            choices,
            struck,
        }
    }

    /// A sector of this range may turn out to be unreadable.
    fn find_latent_error(&mut self, path: &FilePath, inode: Inode, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let Some(mut dice) = self.faults.latent_error(self.choices, inode) else {
            return;
        };
        let sector = dice.between(from / SECTOR_BYTES, (to - 1) / SECTOR_BYTES);
        if self.disk.lose_sector(inode, sector) {
            self.struck
                .push((DiskFault::LatentError, Some(path.clone())));
        }
    }

    /// Where this read goes instead, if it is misdirected.
    fn misdirection(&mut self, path: &FilePath, inode: Inode, length: u64) -> Option<u64> {
        let mut dice = self.faults.misdirected_read(self.choices, inode)?;
        self.struck
            .push((DiskFault::MisdirectedRead, Some(path.clone())));
        Some(dice.below(length.div_ceil(SECTOR_BYTES).max(1)) * SECTOR_BYTES)
    }
}

impl ReadFiles for Reader<'_> {
    fn read_at(
        &mut self,
        path: &FilePath,
        position: Position,
        buffer: &mut [u8],
    ) -> Result<usize, DiskError> {
        let inode = self
            .disk
            .lookup(path)
            .map_err(|kind| error(kind, path, ""))?;
        let Some(length) = self.disk.file(inode).map(super::file::File::len) else {
            return Err(error(DiskErrorKind::Other, path, "is a directory"));
        };
        let from = position.0.min(length);
        let to = (from + buffer.len() as u64).min(length);
        self.find_latent_error(path, inode, from, to);
        let elsewhere = self.misdirection(path, inode, length);
        let Some(file) = self.disk.file(inode) else {
            return Err(error(DiskErrorKind::NotFound, path, ""));
        };
        if !file.is_readable(from, to) {
            return Err(error(DiskErrorKind::Io, path, "unreadable sector"));
        }
        let wanted = (to - from) as usize;
        let bytes = file.cached();
        if let Some(elsewhere) = elsewhere {
            let there = bytes.get(elsewhere as usize..).unwrap_or_default();
            let given = there.len().min(wanted);
            buffer[..given].copy_from_slice(&there[..given]);
            buffer[given..wanted].fill(0);
            return Ok(wanted);
        }
        // As the host of a real broker does: until all is there, or the file ends.
        let mut done = 0;
        while done < wanted {
            let left = wanted - done;
            let given = match self.faults.short_read(self.choices, inode, left) {
                Some(given) => {
                    self.struck.push((DiskFault::ShortRead, None));
                    given
                }
                None => left,
            };
            let at = from as usize + done;
            buffer[done..done + given].copy_from_slice(&bytes[at..at + given]);
            done += given;
            if given < left && self.faults.takes_short_reads {
                return Ok(done);
            }
        }
        Ok(wanted)
    }

    fn length(&mut self, path: &FilePath) -> Result<Position, DiskError> {
        (&*self.disk).length(path)
    }

    fn list(&mut self, directory: &FilePath) -> Result<Vec<DirEntry>, DiskError> {
        (&*self.disk).list(directory)
    }
}
