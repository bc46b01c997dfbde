//! Why something that was asked of the client did not happen.

use alloc::string::String;
use core::fmt;

use crate::ids::{NodeId, Offset};
use crate::wire::{ApiKey, ErrorCode};

/// Why something that was asked of the client did not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// A broker said so.
    Broker {
        /// Kafka's code.
        code: ErrorCode,
        /// What the broker added for a person to read; empty if nothing.
        message: String,
    },
    /// It took too long.
    TimedOut {
        /// What did.
        what: Timeout,
        /// The last error on the way, if there was one.
        last: Option<ErrorCode>,
    },
    /// The connection ended before the answer came.
    Disconnected,
    /// The broker does not serve the API in a version that can say what was asked.
    UnsupportedVersion {
        /// The API.
        api: ApiKey,
    },
    /// The broker's answer makes no sense.
    Malformed {
        /// What is wrong with it.
        reason: String,
    },
    /// `buffer.memory` is full; there is room again once outcomes were reported.
    BufferFull,
    /// The record is larger than `max.request.size` or `buffer.memory` allow.
    RecordTooLarge {
        /// Its size in bytes.
        size: usize,
        /// The most it may have.
        limit: usize,
    },
    /// The topic has no partition of this number.
    UnknownPartition {
        /// The partition asked for.
        partition: i32,
        /// How many partitions the topic has.
        partitions: usize,
    },
    /// No broker of this id is known.
    UnknownBroker(NodeId),
    /// A batch that was fetched is damaged.
    Corrupt {
        /// The offset at which the partition's records cannot be read.
        offset: Offset,
        /// What is wrong.
        reason: String,
    },
    /// The position is out of range and `auto.offset.reset` is `none`.
    OffsetOutOfRange {
        /// The position.
        offset: Offset,
    },
    /// The partition is not assigned to this consumer.
    NotAssigned,
    /// The group has committed no offset and `auto.offset.reset` is `none`.
    NoCommittedOffset,
    /// No group is configured.
    NoGroup,
    /// The client is closed or closing.
    Closed,
}

/// Which limit on time was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// `delivery.timeout.ms`.
    Delivery,
    /// `max.block.ms`: the topic did not become known.
    Metadata,
    /// `request.timeout.ms`, or the limit that came with the command.
    Request,
    /// The limit that came with the close.
    Close,
    /// `max.poll.interval.ms`.
    Poll,
}

impl ClientError {
    /// The error that a broker's code stands for.
    #[must_use]
    pub const fn broker(code: ErrorCode) -> Self {
        Self::Broker {
            code,
            message: String::new(),
        }
    }

    /// Kafka's code for the error, where a broker said one.
    #[must_use]
    pub const fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Broker { code, .. } => Some(*code),
            Self::TimedOut { last, .. } => *last,
            _ => None,
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broker { code, message } if message.is_empty() => code.fmt(f),
            Self::Broker { code, message } => write!(f, "{code:?} ({}): {message}", code.0),
            Self::TimedOut { what, last } => {
                f.write_str(match what {
                    Timeout::Delivery => "not delivered within delivery.timeout.ms",
                    Timeout::Metadata => "the topic did not become known within max.block.ms",
                    Timeout::Request => "not answered in time",
                    Timeout::Close => "not done when the time to close was over",
                    Timeout::Poll => "not polled within max.poll.interval.ms",
                })?;
                match last {
                    Some(code) => write!(f, "; the last error was {code}"),
                    None => Ok(()),
                }
            }
            Self::Disconnected => f.write_str("the connection ended before the answer came"),
            Self::UnsupportedVersion { api } => {
                write!(
                    f,
                    "the broker does not serve {api} in a version that can do this"
                )
            }
            Self::Malformed { reason } => write!(f, "the broker's answer makes no sense: {reason}"),
            Self::BufferFull => f.write_str("buffer.memory is full"),
            Self::RecordTooLarge { size, limit } => {
                write!(
                    f,
                    "the record has {size} bytes, at most {limit} are allowed"
                )
            }
            Self::UnknownPartition {
                partition,
                partitions,
            } => write!(
                f,
                "there is no partition {partition}, the topic has {partitions}"
            ),
            Self::UnknownBroker(node) => write!(f, "no broker {node} is known"),
            Self::Corrupt { offset, reason } => {
                write!(f, "the records at offset {offset} cannot be read: {reason}")
            }
            Self::OffsetOutOfRange { offset } => write!(
                f,
                "offset {offset} is out of range and auto.offset.reset is none"
            ),
            Self::NotAssigned => f.write_str("the partition is not assigned"),
            Self::NoCommittedOffset => {
                f.write_str("the group has committed no offset and auto.offset.reset is none")
            }
            Self::NoGroup => f.write_str("no group is configured"),
            Self::Closed => f.write_str("the client is closed"),
        }
    }
}

impl core::error::Error for ClientError {}
