//! The only place that flushes.

use std::fs::File;
use std::io;

/// Flushes a file's content and length to the disk: `fdatasync` on Linux, where the length is
/// part of the data, and the full flush of the drive's cache (`F_FULLFSYNC`) on macOS, where
/// `fsync` alone stops at the drive. The standard library chooses between them as we would.
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub(crate) fn data(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Flushes the names in a directory.
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub(super) fn directory(directory: &File) -> io::Result<()> {
    directory.sync_all()
}
