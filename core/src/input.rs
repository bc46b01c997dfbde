//! What the host tells the core: connections, disk completions, deadlines, and the wish to stop.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::ids::{ConnectionId, FileId, FilePath, OperationId, Position};
use crate::read_job::ReadOutput;
use crate::request::Prepared;

/// One event. Handling it is one atomic step. A recorded one can be handled again.
#[derive(Clone, Debug)]
pub enum Input {
    /// The first input of a process: load what the data directory holds.
    Start,
    /// A client connected.
    Opened {
        /// The host's name for the connection.
        connection: ConnectionId,
        /// The address the client connected to: what Metadata advertises by default.
        local: Endpoint,
        /// The client's host, as groups tell of their members.
        peer: String,
    },
    /// A client sent a frame; this is what the pure decode of it returned, valid or not.
    Request {
        /// Who sent it.
        connection: ConnectionId,
        /// What it holds.
        request: Box<Prepared>,
    },
    /// The connection is gone; what waits on its behalf is dropped.
    Closed {
        /// The connection.
        connection: ConnectionId,
    },
    /// The disk did, or failed to do, something.
    Disk(Completion),
    /// `Broker::next_deadline` has come.
    Deadline,
    /// Stop gracefully: finish what is under way, flush, mark clean, then `Effect::Stopped`.
    Stop,
}

/// A host name or address and a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Host name or address, never a wildcard.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// What the disk reports. The rules are those of [`effect`](crate::effect).
#[derive(Clone, Debug)]
pub enum Completion {
    /// Everything below `up_to` is written (to the page cache).
    Written {
        /// The file.
        file: FileId,
        /// End of the contiguous written prefix.
        up_to: Position,
    },
    /// A write failed or was short; none is in flight any more and later ones are dropped.
    WriteFailed {
        /// The file.
        file: FileId,
        /// End of the contiguous written prefix.
        written: Position,
        /// Why.
        error: DiskError,
    },
    /// Everything below `up_to` is durable.
    Flushed {
        /// The file.
        file: FileId,
        /// The written prefix when the flush was called.
        up_to: Position,
    },
    /// A flush failed. What it should have covered may be lost although it can still be read.
    FlushFailed {
        /// The file.
        file: FileId,
        /// Why.
        error: DiskError,
    },
    /// A file-management operation ended.
    Managed {
        /// Which.
        operation: OperationId,
        /// How.
        result: Result<(), DiskError>,
    },
    /// A read job ended.
    Read {
        /// Which.
        operation: OperationId,
        /// What it computed.
        result: Result<ReadOutput, DiskError>,
    },
}

/// Why the disk refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskError {
    /// What kind of failure, as far as it changes the reaction or the advice.
    pub kind: DiskErrorKind,
    /// The path concerned.
    pub path: FilePath,
    /// What the operating system said.
    pub detail: String,
}

/// Kinds of disk failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskErrorKind {
    /// No such file or directory.
    NotFound,
    /// The device or the quota is full (ENOSPC, EDQUOT).
    NoSpace,
    /// The device failed (EIO).
    Io,
    /// Rights are missing (EACCES, EPERM).
    PermissionDenied,
    /// The filesystem is read-only (EROFS).
    ReadOnly,
    /// No file descriptors are left (EMFILE, ENFILE).
    TooManyOpenFiles,
    /// Anything else.
    Other,
}

/// Positioned reads, lookups and listings, as a [`ReadJob`](crate::read_job::ReadJob) uses them
/// outside the step. It never writes.
pub trait ReadFiles {
    /// Fills as much of `buffer` as there is from `position` on; less than its length only at the
    /// end of the file.
    fn read_at(
        &mut self,
        path: &FilePath,
        position: Position,
        buffer: &mut [u8],
    ) -> Result<usize, DiskError>;

    /// The file's length.
    fn length(&mut self, path: &FilePath) -> Result<Position, DiskError>;

    /// What a directory holds, sorted by name.
    fn list(&mut self, directory: &FilePath) -> Result<Vec<DirEntry>, DiskError>;
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name, without the directory.
    pub name: String,
    /// A file's length; `None` for a directory.
    pub length: Option<Position>,
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let advice = match self.kind {
            DiskErrorKind::NotFound => "no such file or directory",
            DiskErrorKind::NoSpace => "the disk is full; free space",
            DiskErrorKind::Io => "the device failed; check the disk",
            DiskErrorKind::PermissionDenied => "permission denied; check owner and mode",
            DiskErrorKind::ReadOnly => "the filesystem is read-only; check the disk, then remount",
            DiskErrorKind::TooManyOpenFiles => {
                "no file descriptors left; raise the limit (ulimit -n)"
            }
            DiskErrorKind::Other => "unexpected error",
        };
        write!(f, "{}: {advice}", self.path)?;
        if !self.detail.is_empty() {
            write!(f, " ({})", self.detail)?;
        }
        Ok(())
    }
}

impl core::error::Error for DiskError {}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("start"),
            Self::Opened {
                connection, local, ..
            } => write!(f, "opened {connection} on {local}"),
            Self::Request {
                connection,
                request,
            } => write!(f, "request {connection} {request}"),
            Self::Closed { connection } => write!(f, "closed {connection}"),
            Self::Disk(completion) => write!(f, "disk {completion}"),
            Self::Deadline => f.write_str("deadline"),
            Self::Stop => f.write_str("stop"),
        }
    }
}

impl fmt::Display for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Written { file, up_to } => write!(f, "written {file} up to {up_to}"),
            Self::WriteFailed {
                file,
                written,
                error,
            } => {
                write!(f, "write failed {file} after {written}: {error}")
            }
            Self::Flushed { file, up_to } => write!(f, "flushed {file} up to {up_to}"),
            Self::FlushFailed { file, error } => write!(f, "flush failed {file}: {error}"),
            Self::Managed {
                operation,
                result: Ok(()),
            } => write!(f, "managed {operation}"),
            Self::Managed {
                operation,
                result: Err(error),
            } => {
                write!(f, "managed {operation} failed: {error}")
            }
            Self::Read {
                operation,
                result: Ok(output),
            } => write!(f, "read {operation}: {output}"),
            Self::Read {
                operation,
                result: Err(error),
            } => {
                write!(f, "read {operation} failed: {error}")
            }
        }
    }
}
