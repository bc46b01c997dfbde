//! Inputs and effects as numbers for the hash, which takes a small part of the time that their words
//! would take. What is rare is hashed by its words.

use odradek_core::effect::{Effect, FileOp};
use odradek_core::ids::FilePath;
use odradek_core::input::{Completion, DiskError, Input};

use super::ChainedHash;

/// Something that goes into the hash.
pub(super) trait Fact {
    /// Adds all that tells it from another of its kind.
    fn feed(&self, hash: &mut ChainedHash);
}

impl Fact for Input {
    /// The bytes of a request are added by who has them.
    fn feed(&self, hash: &mut ChainedHash) {
        match self {
            Self::Start => hash.word(1),
            Self::Opened { connection, .. } => words(hash, [2, connection.0]),
            Self::Request { connection, .. } => words(hash, [3, connection.0]),
            Self::Closed { connection } => words(hash, [4, connection.0]),
            Self::Disk(completion) => completion.feed(hash),
            Self::Deadline => hash.word(5),
            Self::Stop => hash.word(6),
        }
    }
}

impl Fact for Completion {
    fn feed(&self, hash: &mut ChainedHash) {
        match self {
            Self::Written { file, up_to } => words(hash, [10, file.0, up_to.0]),
            Self::WriteFailed {
                file,
                written,
                error,
            } => {
                words(hash, [11, file.0, written.0]);
                error.feed(hash);
            }
            Self::Flushed { file, up_to } => words(hash, [12, file.0, up_to.0]),
            Self::FlushFailed { file, error } => {
                words(hash, [13, file.0]);
                error.feed(hash);
            }
            Self::Managed { operation, result } => {
                words(hash, [14, operation.0]);
                if let Err(error) = result {
                    error.feed(hash);
                }
            }
            Self::Read { .. } => hash.text(format_args!("{self}")),
        }
    }
}

impl Fact for DiskError {
    fn feed(&self, hash: &mut ChainedHash) {
        hash.text(format_args!("{self}"));
    }
}

impl Fact for Effect {
    /// The bytes of a write or a response are added by who has them.
    fn feed(&self, hash: &mut ChainedHash) {
        match self {
            Self::Respond {
                connection,
                response,
            } => words(hash, [20, connection.0, response.len() as u64]),
            Self::Close { connection } => words(hash, [21, connection.0]),
            Self::Open { file, path, length } => {
                words(hash, [22, file.0, length.0]);
                path.feed(hash);
            }
            Self::Write {
                file,
                position,
                data,
            } => words(hash, [23, file.0, position.0, data.len() as u64]),
            Self::Flush { file } => words(hash, [24, file.0]),
            Self::Manage { operation, op } => {
                words(hash, [25, operation.0]);
                op.feed(hash);
            }
            Self::Started => hash.word(26),
            Self::Stopped => hash.word(27),
            Self::Read { .. } | Self::Codecs(_) | Self::Report(_) | Self::Fatal { .. } => {
                hash.text(format_args!("{self}"));
            }
        }
    }
}

impl Fact for FileOp {
    fn feed(&self, hash: &mut ChainedHash) {
        match self {
            Self::CreateDir(path) => named(hash, 40, path),
            Self::WriteFile { path, bytes } => {
                named(hash, 41, path);
                hash.bytes(bytes);
            }
            Self::WriteAt {
                path,
                position,
                bytes,
            } => {
                named(hash, 42, path);
                hash.word(position.0);
                hash.bytes(bytes);
            }
            Self::SetLength { path, length } => {
                named(hash, 43, path);
                hash.word(length.0);
            }
            Self::SyncFile(path) => named(hash, 44, path),
            Self::SyncDir(path) => named(hash, 45, path),
            Self::Rename { from, to } => {
                named(hash, 46, from);
                to.feed(hash);
            }
            Self::RemoveFile(path) => named(hash, 47, path),
            Self::RemoveTree(path) => named(hash, 48, path),
            Self::Truncate { file, length } => words(hash, [49, file.0, length.0]),
            Self::Rewrite { file, from, to } => words(hash, [50, file.0, from.0, to.0]),
            Self::Close(file) => words(hash, [51, file.0]),
        }
    }
}

impl Fact for FilePath {
    fn feed(&self, hash: &mut ChainedHash) {
        hash.bytes(self.as_str().as_bytes());
    }
}

fn named(hash: &mut ChainedHash, kind: u64, path: &FilePath) {
    hash.word(kind);
    path.feed(hash);
}

fn words<const N: usize>(hash: &mut ChainedHash, words: [u64; N]) {
    for word in words {
        hash.word(word);
    }
}
