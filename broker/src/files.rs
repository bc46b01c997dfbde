//! Small files, read with a limit.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads a file of at most `limit` bytes.
///
/// # Errors
/// What the system says, or that the file is too large.
pub(crate) fn read_small(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("larger than {limit} bytes"),
        ));
    }
    Ok(bytes)
}
