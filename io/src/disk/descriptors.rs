//! Log files and their descriptors: many files, few of them open.
//!
//! A log file is bound to its path when the core opens it and keeps its id for as long as the
//! process needs it; its descriptor comes and goes. Which one goes is decided by the clock
//! algorithm, near enough to least recently used and without a list to reorder at each use. A
//! descriptor that a response has pinned stays open until it is sent, beyond the bound if need be.
//! One with unflushed writes is passed over as long as there is another, because an error that
//! the system has found by writing back on its own is reported to those who have the file open.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use odradek_core::ids::FilePath;
use odradek_core::input::DiskErrorKind;

use super::error;
use super::flush::Flushes;

/// All log files of a disk.
#[derive(Debug)]
pub(crate) struct Descriptors {
    max_open: usize,
    next_key: AtomicU64,
    /// Every bound file by its path. Whoever renames holds it for writing, whoever opens holds it
    /// for reading, so that a file is never looked for under the name it had a moment ago.
    bound: RwLock<BTreeMap<(FilePath, u64), Weak<LogFile>>>,
    /// Those that are open, in the order in which the hand of the clock passes them.
    open: Mutex<VecDeque<Weak<LogFile>>>,
}

/// A log file.
#[derive(Debug)]
pub(crate) struct LogFile {
    key: u64,
    path: Mutex<FilePath>,
    descriptor: Mutex<Option<Arc<OpenFile>>>,
    /// Used since the hand of the clock last passed.
    used: AtomicBool,
    /// Written since it was last flushed.
    pub(super) dirty: AtomicBool,
    /// Flushes under way. Meanwhile the descriptor stays: what it is told of, another one is not.
    flushing: AtomicUsize,
    all: Weak<Descriptors>,
}

/// An open descriptor.
#[derive(Debug)]
pub(crate) struct OpenFile {
    /// The file.
    pub(crate) file: File,
    /// False where the filesystem or the rights allow only reading.
    pub(crate) writable: bool,
    flushes: Flushes,
}

impl OpenFile {
    fn new(file: File, writable: bool) -> Self {
        Self {
            file,
            writable,
            flushes: Flushes::default(),
        }
    }

    /// Flushes it, perhaps beside another flush; see [`Flushes`].
    pub(super) fn flush(&self, open_again: impl FnOnce() -> io::Result<File>) -> io::Result<()> {
        self.flushes.flush(&self.file, open_again)
    }
}

/// A flush of a log file that is under way.
pub(super) struct FlushUnderWay<'a>(&'a LogFile);

impl Drop for FlushUnderWay<'_> {
    fn drop(&mut self) {
        self.0.flushing.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Descriptors {
    pub(super) fn new(max_open: usize) -> Self {
        Self {
            max_open: max_open.max(1),
            next_key: AtomicU64::new(0),
            bound: RwLock::default(),
            open: Mutex::default(),
        }
    }

    pub(super) fn bind(this: &Arc<Self>, path: FilePath) -> Arc<LogFile> {
        let file = Arc::new(LogFile {
            key: this.next_key.fetch_add(1, Ordering::Relaxed),
            path: Mutex::new(path.clone()),
            descriptor: Mutex::new(None),
            used: AtomicBool::new(false),
            dirty: AtomicBool::new(false),
            flushing: AtomicUsize::new(0),
            all: Arc::downgrade(this),
        });
        write(&this.bound).insert((path, file.key), Arc::downgrade(&file));
        file
    }

    pub(super) fn open(&self, file: &LogFile, root: &Path) -> io::Result<Arc<OpenFile>> {
        file.used.store(true, Ordering::Relaxed);
        let mut descriptor = lock(&file.descriptor);
        if let Some(open) = &*descriptor {
            return Ok(open.clone());
        }
        let opened = match self.open_now(file, root) {
            Err(error)
                if error::kind(&error) == DiskErrorKind::TooManyOpenFiles
                    && self.close_idle() > 0 =>
            {
                self.open_now(file, root)
            }
            result => result,
        };
        let open = Arc::new(opened?);
        *descriptor = Some(open.clone());
        drop(descriptor);
        self.remember(file);
        Ok(open)
    }

    pub(super) fn close(&self, file: &LogFile) {
        let open = lock(&file.descriptor).take();
        // A response may still have it; otherwise it is closed here, outside the locks.
        drop(open);
        lock(&self.open).retain(|other| !std::ptr::eq(other.as_ptr(), file));
    }

    /// Closes every descriptor that can be reopened; returns how many.
    pub(super) fn close_idle(&self) -> usize {
        let open = std::mem::take(&mut *lock(&self.open));
        let mut closed = 0;
        for file in open.iter().filter_map(Weak::upgrade) {
            // One whose lock is taken is being opened or used.
            if let Ok(mut descriptor) = file.descriptor.try_lock()
                && !file.dirty.load(Ordering::SeqCst)
                && !file.is_flushing()
            {
                closed += usize::from(descriptor.take().is_some());
                continue;
            }
            lock(&self.open).push_back(Arc::downgrade(&file));
        }
        closed
    }

    /// Renames and lets the files below the old name follow.
    pub(super) fn renaming(
        &self,
        from: &FilePath,
        to: &FilePath,
        rename: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        // Dropped after the lock, since the drop of a file takes it.
        let mut alive = Vec::new();
        let mut bound = write(&self.bound);
        rename()?;
        let moved: Vec<(FilePath, u64)> = bound
            .range((from.clone(), 0)..)
            .map(|(key, _)| key)
            .take_while(|(path, _)| path.as_str().starts_with(from.as_str()))
            .filter(|(path, _)| below(path, from).is_some())
            .cloned()
            .collect();
        for old in moved {
            let Some(file) = bound.remove(&old) else {
                continue;
            };
            let path = match below(&old.0, from) {
                Some("") | None => to.clone(),
                Some(rest) => to.join(rest),
            };
            if let Some(file) = file.upgrade() {
                lock(&file.path).clone_from(&path);
                alive.push(file);
            }
            bound.insert((path, old.1), file);
        }
        drop(bound);
        drop(alive);
        Ok(())
    }

    /// A further descriptor of the file.
    pub(super) fn open_again(&self, file: &LogFile, root: &Path) -> io::Result<File> {
        Ok(self.open_now(file, root)?.file)
    }

    fn open_now(&self, file: &LogFile, root: &Path) -> io::Result<OpenFile> {
        let _no_renames = read(&self.bound);
        let path = root.join(file.path().as_str());
        match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => Ok(OpenFile::new(file, true)),
            Err(error)
                if matches!(
                    error::kind(&error),
                    DiskErrorKind::ReadOnly | DiskErrorKind::PermissionDenied
                ) =>
            {
                Ok(OpenFile::new(File::open(&path)?, false))
            }
            Err(error) => Err(error),
        }
    }

    /// Takes a newly opened file into the round and closes another one if there are too many.
    fn remember(&self, file: &LogFile) {
        let me = read_bound(self, file);
        let mut open = lock(&self.open);
        open.extend(me);
        // Each file is passed at most three times: used, dirty, at last closed whatever it is.
        let mut passes = 3 * open.len();
        while open.len() > self.max_open
            && passes > 0
            && let Some(weak) = open.pop_front()
        {
            passes -= 1;
            let Some(candidate) = weak.upgrade() else {
                continue;
            };
            let last_resort = passes < open.len();
            let spare = candidate.used.swap(false, Ordering::Relaxed)
                || (candidate.dirty.load(Ordering::SeqCst) && !last_resort);
            let closed = !spare
                && candidate.descriptor.try_lock().is_ok_and(|mut descriptor| {
                    let may_go = !candidate.is_flushing();
                    if may_go {
                        *descriptor = None;
                    }
                    may_go
                });
            if !closed {
                open.push_back(weak);
            }
        }
    }

    #[cfg(test)]
    fn open_count(&self) -> usize {
        let files: Vec<_> = lock(&self.open).iter().filter_map(Weak::upgrade).collect();
        files
            .iter()
            .filter(|file| lock(&file.descriptor).is_some())
            .count()
    }
}

fn read_bound(descriptors: &Descriptors, file: &LogFile) -> Option<Weak<LogFile>> {
    read(&descriptors.bound)
        .get(&(file.path(), file.key))
        .cloned()
}

impl LogFile {
    /// Its path at the moment.
    pub(super) fn path(&self) -> FilePath {
        lock(&self.path).clone()
    }

    /// To be called before the descriptor is asked for.
    pub(super) fn begin_flush(&self) -> FlushUnderWay<'_> {
        self.flushing.fetch_add(1, Ordering::SeqCst);
        FlushUnderWay(self)
    }

    /// To be asked under the lock of the descriptor.
    fn is_flushing(&self) -> bool {
        self.flushing.load(Ordering::SeqCst) > 0
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        if let Some(all) = self.all.upgrade() {
            let mut bound = write(&all.bound);
            let path = self.path();
            bound.remove(&(path, self.key));
        }
    }
}

/// The part of `path` below `directory`: empty if it is the directory itself.
fn below<'a>(path: &'a FilePath, directory: &FilePath) -> Option<&'a str> {
    let rest = path.as_str().strip_prefix(directory.as_str())?;
    if rest.is_empty() {
        Some(rest)
    } else {
        rest.strip_prefix('/')
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(root: &Path, names: &[&str]) -> (Arc<Descriptors>, Vec<Arc<LogFile>>) {
        let descriptors = Arc::new(Descriptors::new(2));
        let files = names
            .iter()
            .map(|name| {
                std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
                std::fs::write(root.join(name), name).unwrap();
                Descriptors::bind(&descriptors, FilePath::from(*name))
            })
            .collect();
        (descriptors, files)
    }

    fn content(open: &OpenFile) -> String {
        io::read_to_string(&open.file).unwrap()
    }

    #[test]
    fn no_more_stay_open_than_allowed_and_those_in_use_stay() {
        let root = tempfile::tempdir().unwrap();
        let (descriptors, files) = files(root.path(), &["a", "b", "c", "d"]);
        let open = |n: usize| descriptors.open(&files[n], root.path()).unwrap();
        open(0);
        for n in 1..4 {
            let kept = open(0);
            open(n);
            assert!(descriptors.open_count() <= 2);
            drop(kept);
        }
        assert_eq!(content(&open(2)), "c", "reopened on demand");
    }

    #[test]
    fn a_pinned_file_stays_readable_after_it_is_closed_and_removed() {
        let root = tempfile::tempdir().unwrap();
        let (descriptors, files) = files(root.path(), &["a", "b", "c"]);
        let pinned = descriptors.open(&files[0], root.path()).unwrap();
        descriptors.close(&files[0]);
        std::fs::remove_file(root.path().join("a")).unwrap();
        assert_eq!(content(&pinned), "a");
    }

    #[test]
    fn a_file_follows_the_renaming_of_its_directory() {
        let root = tempfile::tempdir().unwrap();
        let (descriptors, files) = files(root.path(), &["t-1/a", "t-10/a", "t-1.x"]);
        let (from, to) = (FilePath::from("t-1"), FilePath::from("t-1.id-delete"));
        descriptors
            .renaming(&from, &to, || {
                std::fs::rename(root.path().join("t-1"), root.path().join("t-1.id-delete"))
            })
            .unwrap();
        for (file, text) in files.iter().zip(["t-1/a", "t-10/a", "t-1.x"]) {
            assert_eq!(content(&descriptors.open(file, root.path()).unwrap()), text);
        }
        assert_eq!(files[0].path().as_str(), "t-1.id-delete/a");
        drop(files);
        assert!(descriptors.bound.read().unwrap().is_empty());
    }

    #[test]
    fn unflushed_files_are_the_last_to_be_closed() {
        let root = tempfile::tempdir().unwrap();
        let (descriptors, files) = files(root.path(), &["a", "b", "c"]);
        files[0].dirty.store(true, Ordering::SeqCst);
        for file in &files {
            descriptors.open(file, root.path()).unwrap();
        }
        assert!(lock(&files[0].descriptor).is_some());
        assert_eq!(descriptors.open_count(), 2);
    }

    #[test]
    fn a_file_that_is_being_flushed_is_not_closed() {
        let root = tempfile::tempdir().unwrap();
        let (descriptors, files) = files(root.path(), &["a", "b", "c", "d"]);
        let flush = files[0].begin_flush();
        for file in &files {
            descriptors.open(file, root.path()).unwrap();
        }
        descriptors.close_idle();
        assert!(lock(&files[0].descriptor).is_some());
        drop(flush);
        descriptors.close_idle();
        assert!(lock(&files[0].descriptor).is_none());
    }
}
