//! What the core asks of its host. Together with [`input`](crate::input) this is the whole
//! interface; both hosts, the real one and the simulator, carry out exactly this.
//!
//! # Rules of execution
//!
//! - **Order.** The host moves effects into queues, one a file and one a connection, while it still
//!   holds the lock of the step. The order within a queue is the order of execution, except that
//!   positioned writes of one file may overlap each other in time. [`FileOp`]s that name a path
//!   have no order among themselves but that the core issues the next of a sequence only after the
//!   completion of the one before.
//! - **Writes** complete by cumulative position: the host reports the contiguous written prefix
//!   ([`Completion::Written`](crate::input::Completion)). After a failed or short write it waits
//!   until all writes in flight on that file have ended, drops those still queued, and reports
//!   `WriteFailed` with the written prefix; it drops every later write and flush of that file
//!   until the core truncates it.
//! - **Flushes** complete with the written prefix taken when the flush was called. The core issues
//!   a flush only for bytes already reported written, and never more than [`FLUSHES_AT_ONCE`] on one
//!   file before one has completed. Two may end in either order; a success vouches for its whole
//!   prefix whatever becomes of the other, so an error of the disk is reported by every flush that
//!   should have covered the bytes.
//! - **Truncate, rewrite and close** wait for everything before them in their file's queue.
//! - **Responses** leave in the order of their connection's queue. A [`FileRange`] in a response is
//!   pinned when the response enters its queue: the file stays readable until the response is sent,
//!   whatever is removed or closed meanwhile. A range that turns out short closes the connection.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use crate::ids::{ConnectionId, FileId, FilePath, OperationId, Position};
use crate::report::Report;
use crate::request::Codecs;

/// How many flushes of one log file may be under way.
pub const FLUSHES_AT_ONCE: usize = 2;

/// One thing the host must do.
#[derive(Debug)]
pub enum Effect {
    /// Send a response. With no parts there is nothing to send, but the request counts as answered
    /// (a produce with acks=0), which gives the connection its place back.
    Respond {
        /// The connection that asked.
        connection: ConnectionId,
        /// The whole frame, its length first.
        response: Response,
    },
    /// Close a connection once the responses already queued on it are sent.
    Close {
        /// The connection.
        connection: ConnectionId,
    },
    /// Bind `file` to an existing log file. No completion; a file that cannot be opened shows at
    /// its first use. The host may close and reopen the descriptor as it likes.
    Open {
        /// The id from now on.
        file: FileId,
        /// Where the file is.
        path: FilePath,
        /// Its length: what counts as written already.
        length: Position,
    },
    /// Write at a position of a log file.
    Write {
        /// The file.
        file: FileId,
        /// Where the bytes go: always the end of what was issued before.
        position: Position,
        /// The bytes.
        data: WriteData,
    },
    /// Flush what is written of a log file to the disk, its length included. Perhaps beside another
    /// flush of it.
    Flush {
        /// The file.
        file: FileId,
    },
    /// A file-management operation; completes as `Managed`.
    Manage {
        /// Names it in the completion.
        operation: OperationId,
        /// What to do.
        op: FileOp,
    },
    /// Run a pure function over file contents, outside the step; completes as `Read`.
    Read {
        /// Names it in the completion.
        operation: OperationId,
        /// What to compute, by `ReadJob::run`.
        job: Box<crate::read_job::ReadJob>,
    },
    /// From now on prepare frames with these. No completion.
    Codecs(Arc<Codecs>),
    /// Something an operator should see.
    Report(Report),
    /// Loading is over: connections may be accepted.
    Started,
    /// A graceful stop is over: everything is flushed and marked clean.
    Stopped,
    /// The broker cannot start or go on; the host ends the process with this message.
    Fatal {
        /// What happened, where, and what to do about it.
        message: String,
    },
}

/// A response frame, in parts.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// In the order in which they go out.
    pub parts: Vec<Part>,
}

/// A piece of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A range of a log file, which the host sends without copying where it can.
    File(FileRange),
}

/// A range of a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRange {
    /// The file.
    pub file: FileId,
    /// Its first byte.
    pub position: Position,
    /// How many bytes.
    pub length: u32,
}

/// What a write carries: bytes never copied since they left the socket, behind the batch header
/// that the broker patched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteData {
    /// The batch header with base offset and leader epoch in place.
    pub header: [u8; BATCH_HEADER_BYTES],
    /// What follows the header, sliced from the request's frame.
    pub records: Bytes,
}

/// Length of the header of a record batch v2, up to and including the record count.
pub const BATCH_HEADER_BYTES: usize = 61;

impl WriteData {
    /// How many bytes the write covers.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a write always carries a header"
    )]
    pub fn len(&self) -> usize {
        BATCH_HEADER_BYTES + self.records.len()
    }
}

/// File management. Those that name a [`FileId`] take their turn in that file's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileOp {
    /// Make a directory; one that exists already is no error.
    CreateDir(FilePath),
    /// Create a file, or cut an existing one to nothing, and write these bytes. Not flushed.
    WriteFile {
        /// Where.
        path: FilePath,
        /// Its whole content.
        bytes: Bytes,
    },
    /// Write into an existing file. Not flushed.
    WriteAt {
        /// Where.
        path: FilePath,
        /// From which byte on.
        position: Position,
        /// What.
        bytes: Bytes,
    },
    /// Cut or extend a file by path.
    SetLength {
        /// Which file.
        path: FilePath,
        /// Its new length.
        length: Position,
    },
    /// Flush a file's content and length.
    SyncFile(FilePath),
    /// Flush a directory's names.
    SyncDir(FilePath),
    /// Rename a file or directory, replacing what is there.
    Rename {
        /// From.
        from: FilePath,
        /// To.
        to: FilePath,
    },
    /// Unlink a file; one that is not there is no error.
    RemoveFile(FilePath),
    /// Unlink a directory and all below it; one that is not there is no error. Not atomic.
    RemoveTree(FilePath),
    /// Cut a log file to this length, and take it out of the state a failed write put it in.
    Truncate {
        /// The file.
        file: FileId,
        /// Its new length, which then counts as written.
        length: Position,
    },
    /// Read a range of a log file and write the same bytes back at the same positions, so that the
    /// next flush covers them (promise 6).
    Rewrite {
        /// The file.
        file: FileId,
        /// First byte.
        from: Position,
        /// End, exclusive.
        to: Position,
    },
    /// End a log file's id, once everything before it in its queue is done.
    Close(FileId),
}

/// The buffer a step writes its effects to.
#[derive(Debug, Default)]
pub struct Effects {
    list: Vec<Effect>,
}

impl Effects {
    /// An empty buffer, to be reused from step to step.
    #[must_use]
    pub const fn new() -> Self {
        Self { list: Vec::new() }
    }

    /// Adds an effect.
    pub fn push(&mut self, effect: Effect) {
        self.list.push(effect);
    }

    /// Takes the effects out in order and keeps the buffer's memory.
    pub fn drain(&mut self) -> impl Iterator<Item = Effect> + '_ {
        self.list.drain(..)
    }

    /// Whether the step asked for nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The effects so far.
    #[must_use]
    pub fn as_slice(&self) -> &[Effect] {
        &self.list
    }
}

impl Response {
    /// Length of the whole frame in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.iter().map(Part::len).sum()
    }

    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

impl Part {
    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(range) => range.length as usize,
        }
    }

    /// Whether the part has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Respond {
                connection,
                response,
            } => {
                write!(f, "respond {connection} {response}")
            }
            Self::Close { connection } => write!(f, "close {connection}"),
            Self::Open { file, path, length } => write!(f, "open {file} {path} at {length}"),
            Self::Write {
                file,
                position,
                data,
            } => {
                write!(f, "write {file} {position}+{}", data.len())
            }
            Self::Flush { file } => write!(f, "flush {file}"),
            Self::Manage { operation, op } => write!(f, "manage {operation} {op}"),
            Self::Read { operation, job } => write!(f, "read {operation} {job}"),
            Self::Codecs(codecs) => write!(f, "codecs of {} topics", codecs.len()),
            Self::Report(report) => write!(f, "report {report}"),
            Self::Started => f.write_str("started"),
            Self::Stopped => f.write_str("stopped"),
            Self::Fatal { message } => write!(f, "fatal {message}"),
        }
    }
}

impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.len())?;
        for part in &self.parts {
            if let Part::File(FileRange {
                file,
                position,
                length,
            }) = part
            {
                write!(f, " [{file} {position}+{length}]")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for FileOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateDir(path) => write!(f, "create-dir {path}"),
            Self::WriteFile { path, bytes } => write!(f, "write-file {path} {} B", bytes.len()),
            Self::WriteAt {
                path,
                position,
                bytes,
            } => {
                write!(f, "write-at {path} {position}+{}", bytes.len())
            }
            Self::SetLength { path, length } => write!(f, "set-length {path} {length}"),
            Self::SyncFile(path) => write!(f, "sync-file {path}"),
            Self::SyncDir(path) => write!(f, "sync-dir {path}"),
            Self::Rename { from, to } => write!(f, "rename {from} -> {to}"),
            Self::RemoveFile(path) => write!(f, "remove-file {path}"),
            Self::RemoveTree(path) => write!(f, "remove-tree {path}"),
            Self::Truncate { file, length } => write!(f, "truncate {file} {length}"),
            Self::Rewrite { file, from, to } => write!(f, "rewrite {file} {from}..{to}"),
            Self::Close(file) => write!(f, "close {file}"),
        }
    }
}
