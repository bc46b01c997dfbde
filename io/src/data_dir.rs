//! The data directory: made if it is missing, and locked against a second process.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// The file whose lock says that the directory is in use. What it holds does not matter.
pub(crate) const LOCK_FILE: &str = ".lock";

/// The right to use a data directory; ends when it is dropped, or with the process.
#[derive(Debug)]
pub struct DataDirLock {
    _file: File,
}

/// Why a data directory cannot be used, and what to do about it.
#[derive(Debug)]
pub enum DataDirError {
    /// Another process uses it.
    InUse(PathBuf),
    /// It cannot be made or written to.
    Unusable {
        /// The directory, or the file in it.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the operating system said.
        error: io::Error,
    },
}

/// Makes the directory if it is missing and takes its lock.
///
/// # Errors
/// If another process has the lock, or rights or space are missing.
pub fn lock(directory: &Path) -> Result<DataDirLock, DataDirError> {
    let unusable = |path: &Path, action| {
        let path = path.to_owned();
        move |error| DataDirError::Unusable {
            path,
            action,
            error,
        }
    };
    fs::create_dir_all(directory).map_err(unusable(directory, "create the data directory"))?;
    let path = directory.join(LOCK_FILE);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(unusable(&path, "write to the data directory"))?;
    match file.try_lock() {
        Ok(()) => Ok(DataDirLock { _file: file }),
        Err(TryLockError::WouldBlock) => Err(DataDirError::InUse(directory.to_owned())),
        Err(TryLockError::Error(error)) => Err(unusable(&path, "lock the data directory")(error)),
    }
}

impl fmt::Display for DataDirError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(path) => write!(
                f,
                "the data directory {} is in use by another process: stop that one, or choose \
                 another directory",
                path.display()
            ),
            Self::Unusable {
                path,
                action,
                error,
            } => {
                let advice = match error.kind() {
                    io::ErrorKind::PermissionDenied => "check its owner and mode",
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
                    io::ErrorKind::ReadOnlyFilesystem => "the filesystem is read-only: remount it",
                    io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                        "a part of the path is a file: choose another directory"
                    }
                    _ => "choose another directory if this one cannot be repaired",
                };
                write!(f, "cannot {action}: {}: {error}; {advice}", path.display())
            }
        }
    }
}

impl std::error::Error for DataDirError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_made_and_locked_once() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        let held = lock(&path).unwrap();
        let error = lock(&path).unwrap_err();
        assert!(matches!(&error, DataDirError::InUse(at) if *at == path));
        assert!(error.to_string().contains("a/b"), "{error}");
        drop(held);
        lock(&path).unwrap();
    }

    #[test]
    fn a_path_through_a_file_is_refused_with_advice() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        let error = lock(&root.path().join("file/data"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("file/data"), "{error}");
        assert!(error.contains("choose another directory"), "{error}");
    }
}
