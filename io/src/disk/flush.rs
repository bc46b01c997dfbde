//! The only place that flushes.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, RwLock};

use super::descriptors::{lock, read, write};

/// Flushes a file's content and length to the disk: `fdatasync` on Linux, where the length is
/// part of the data, and the full flush of the drive's cache (`F_FULLFSYNC`) on macOS, where
/// `fsync` alone stops at the drive. The standard library chooses between them as we would.
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub(crate) fn data(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Two flushes of one file beside each other.
///
/// The system tells each descriptor once of an error that it found when it wrote back: of two flushes
/// through one descriptor, the other one could succeed although bytes that it should cover are lost.
/// So each goes through a descriptor of its own. And a descriptor is not told what others were told
/// before it was opened: so the second is opened while no flush is under way, and only if none has
/// failed.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    /// Whoever flushes through the file's own descriptor.
    first: Mutex<()>,
    /// The second descriptor, once it was needed.
    second: RwLock<Option<Mutex<File>>>,
    failed: AtomicBool,
}

impl Flushes {
    /// Flushes `file`, which `open_again` opens once more where that is needed.
    pub(super) fn flush(
        &self,
        file: &File,
        open_again: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<()> {
        let first = match self.first.try_lock() {
            Ok(first) => Some(first),
            // Without a second descriptor one flush waits for the other.
            Err(_) if !self.has_second(open_again)? => Some(lock(&self.first)),
            Err(_) => None,
        };
        let second = read(&self.second);
        let flushed = match (&first, &*second) {
            (None, Some(second)) => data(&lock(second)),
            _ => data(file),
        };
        if flushed.is_err() {
            self.failed.store(true, Ordering::SeqCst);
        }
        flushed
    }

    fn has_second(&self, open_again: impl FnOnce() -> io::Result<File>) -> io::Result<bool> {
        if read(&self.second).is_some() {
            return Ok(true);
        }
        let mut second = write(&self.second);
        if self.failed.load(Ordering::SeqCst) {
            return Err(io::Error::other("a flush beside this one failed"));
        }
        if second.is_none() {
            *second = open_again().ok().map(Mutex::new);
        }
        Ok(second.is_some())
    }
}

/// Flushes the names in a directory.
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub(super) fn directory(directory: &File) -> io::Result<()> {
    directory.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn no_descriptor() -> io::Result<File> {
        Err(io::Error::other("there are no more"))
    }

    #[test]
    fn a_flush_beside_another_has_a_descriptor_of_its_own_that_is_opened_once() {
        let file = tempfile::tempfile().unwrap();
        let flushes = Flushes::default();
        let opened = Cell::new(0);
        let again = || {
            opened.set(opened.get() + 1);
            file.try_clone()
        };
        flushes.flush(&file, again).unwrap();
        assert_eq!(opened.get(), 0, "none is needed for one at a time");
        let _under_way = lock(&flushes.first);
        flushes.flush(&file, again).unwrap();
        flushes.flush(&file, again).unwrap();
        assert_eq!(opened.get(), 1);
    }

    #[test]
    fn no_second_descriptor_is_opened_after_a_flush_has_failed() {
        let file = tempfile::tempfile().unwrap();
        let flushes = Flushes::default();
        // What cannot be flushed: a pipe.
        let (pipe, _writer) = io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(pipe));
        flushes.flush(&pipe, no_descriptor).unwrap_err();
        let _under_way = lock(&flushes.first);
        flushes.flush(&file, || file.try_clone()).unwrap_err();
    }

    #[test]
    fn without_descriptors_one_flush_waits_for_the_other() {
        let file = tempfile::tempfile().unwrap();
        let flushes = Flushes::default();
        let under_way = lock(&flushes.first);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| flushes.flush(&file, no_descriptor));
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!waits.is_finished());
            drop(under_way);
            waits.join().unwrap().unwrap();
        });
    }
}
