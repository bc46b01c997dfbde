//! From what the operating system says to what the core tells apart.

use std::io;

use odradek_core::ids::FilePath;
use odradek_core::input::{DiskError, DiskErrorKind};
use rustix::io::Errno;

/// An error of the operating system about a path, in the core's terms.
pub(super) fn disk_error(path: &FilePath, error: &io::Error) -> DiskError {
    DiskError {
        kind: kind(error),
        path: path.clone(),
        detail: error.to_string(),
    }
}

/// What kind of failure it is.
pub(super) fn kind(error: &io::Error) -> DiskErrorKind {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) => DiskErrorKind::NotFound,
        Some(Errno::NOSPC | Errno::DQUOT) => DiskErrorKind::NoSpace,
        Some(Errno::IO) => DiskErrorKind::Io,
        Some(Errno::ACCESS | Errno::PERM) => DiskErrorKind::PermissionDenied,
        Some(Errno::ROFS) => DiskErrorKind::ReadOnly,
        Some(Errno::MFILE | Errno::NFILE) => DiskErrorKind::TooManyOpenFiles,
        _ => DiskErrorKind::Other,
    }
}
