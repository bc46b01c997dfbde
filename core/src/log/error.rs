//! What can go wrong in a log, in types. Which Kafka error code answers it is chosen by the
//! request that asked.

use core::fmt;

use crate::ids::{FilePath, Offset, Position};
use crate::input::DiskError;

use super::producer_state::ProducerError;

/// Why an append was refused. Nothing of it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// A batch is larger than `max.message.bytes`: MESSAGE_TOO_LARGE.
    MessageTooLarge {
        /// Which batch of the append, counted from 0.
        batch: usize,
        /// Its size in bytes.
        size_bytes: u64,
        /// The limit.
        max_bytes: u32,
    },
    /// A record's timestamp lies outside `message.timestamp.{before,after}.max.ms`:
    /// INVALID_TIMESTAMP.
    InvalidTimestamp {
        /// Which batch of the append, counted from 0.
        batch: usize,
        /// The timestamp in question, in milliseconds.
        timestamp: i64,
    },
    /// A record without a key on a compacted topic: INVALID_RECORD.
    RecordWithoutKey {
        /// Which batch of the append, counted from 0.
        batch: usize,
    },
    /// A batch is larger than a whole segment may be: RECORD_LIST_TOO_LARGE in Kafka's terms.
    LargerThanSegment {
        /// Which batch of the append, counted from 0.
        batch: usize,
        /// Its size in bytes.
        size_bytes: u64,
    },
    /// A batch of an idempotent producer is out of turn.
    Producer(ProducerError),
    /// The log does not take records now (loading, reopening, offline, closing, or a failed write
    /// is still being undone): KAFKA_STORAGE_ERROR.
    Storage,
}

/// Why a log is offline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogError {
    /// Acknowledged data is missing or changed (promise 5).
    Damaged(Damage),
    /// The directory of a known partition is not there.
    DirectoryMissing(FilePath),
    /// The disk refused while the log was loaded.
    Disk(DiskError),
}

/// Damage below the recovery point: what was found, where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: FilePath,
    /// Where in it.
    pub position: Position,
    /// The offset that should be there.
    pub offset: Offset,
    /// What is wrong.
    pub kind: DamageKind,
}

/// Kinds of damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// The file ends before data that was flushed.
    TooShort {
        /// How long it must be at least.
        expected: Position,
    },
    /// A segment that must be there is not.
    SegmentMissing,
    /// A segment ends at another offset than the one at which the next one begins.
    Gap {
        /// The offset at which the segment should begin.
        found: Offset,
    },
    /// A batch does not pass its checks.
    Batch(BadBatch),
}

/// Why a batch does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadBatch {
    /// The file ends inside its header.
    PartialHeader,
    /// The header makes no sense.
    Header,
    /// The file ends inside the batch.
    Partial,
    /// Its base offset is not the expected one.
    Offset {
        /// What was expected.
        expected: Offset,
        /// What the header says.
        found: Offset,
    },
    /// Its CRC does not hold.
    Crc,
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MessageTooLarge {
                size_bytes,
                max_bytes,
                ..
            } => write!(
                f,
                "the batch of {size_bytes} bytes is larger than max.message.bytes={max_bytes}"
            ),
            Self::InvalidTimestamp { timestamp, .. } => write!(
                f,
                "timestamp {timestamp} is outside message.timestamp.before.max.ms and \
                 message.timestamp.after.max.ms"
            ),
            Self::RecordWithoutKey { .. } => {
                f.write_str("a compacted topic takes no record without a key")
            }
            Self::LargerThanSegment { size_bytes, .. } => write!(
                f,
                "the batch of {size_bytes} bytes is larger than a segment may be"
            ),
            Self::Producer(error) => error.fmt(f),
            Self::Storage => f.write_str("the log takes no records now; see the broker's log"),
        }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(damage) => damage.fmt(f),
            Self::DirectoryMissing(path) => write!(
                f,
                "{path}: the partition's directory is missing; restore it from a copy, or delete \
                 the topic"
            ),
            Self::Disk(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at byte {}, offset {}: {}; this was flushed once, so the disk lost or changed it: \
             check the disk, then restore the file from a copy, or delete the topic",
            self.file, self.position, self.offset, self.kind
        )
    }
}

impl fmt::Display for DamageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { expected } => write!(f, "the file should hold {expected} bytes"),
            Self::SegmentMissing => f.write_str("the segment is missing"),
            Self::Gap { found } => write!(f, "the next segment begins at offset {found}"),
            Self::Batch(bad) => bad.fmt(f),
        }
    }
}

impl fmt::Display for BadBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PartialHeader => f.write_str("the file ends inside a batch header"),
            Self::Header => f.write_str("not a batch header"),
            Self::Partial => f.write_str("the file ends inside a batch"),
            Self::Offset { expected, found } => {
                write!(f, "base offset {found} where {expected} was expected")
            }
            Self::Crc => f.write_str("the CRC does not hold"),
        }
    }
}

impl core::error::Error for AppendError {}
impl core::error::Error for LogError {}
