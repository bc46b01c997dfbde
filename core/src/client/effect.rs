//! What a client asks of its host, and what it tells the application.
//!
//! Rules for the host: sends of one connection leave in their order; a close comes after the sends
//! before it. A connection's id is never reused. After `Close` nothing of the connection matters
//! any more.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use super::error::ClientError;
use super::input::{CommandId, TopicName, TopicPartition};
use crate::ids::{ConnectionId, LeaderEpoch, Offset};
use crate::input::Endpoint;
use crate::report::Report;
use crate::wire::ResponseBody;
use crate::wire::messages::Body;

/// One thing the host must do.
#[derive(Debug)]
pub enum ClientEffect {
    /// Open a connection; completes as `Connected` or `ConnectFailed`.
    Connect {
        /// Its id from now on.
        connection: ConnectionId,
        /// Where to. A name may stand for several addresses; the host tries them all.
        endpoint: Endpoint,
    },
    /// Send a request.
    Send {
        /// On which connection.
        connection: ConnectionId,
        /// The whole frame, its length first, in parts.
        frame: Vec<Bytes>,
    },
    /// Close a connection, or give up opening it.
    Close {
        /// Which.
        connection: ConnectionId,
    },
    /// Tell the application.
    Event(ClientEvent),
    /// Tell the operator.
    Report(Report),
}

/// What an application learns.
#[derive(Debug)]
pub enum ClientEvent {
    /// What became of a record.
    Delivery {
        /// The `Produce` command.
        id: CommandId,
        /// What became of it.
        outcome: Outcome,
    },
    /// Everything before a flush has its outcome.
    Flushed {
        /// The `Flush` command.
        id: CommandId,
    },
    /// The answer to a poll.
    Polled {
        /// The `Poll` command.
        id: CommandId,
        /// What there is, each partition's in order; empty if the wait was over.
        items: Vec<Polled>,
    },
    /// The answer to a commit.
    Committed {
        /// The `Commit` command.
        id: CommandId,
        /// Whether everything is stored. An error says nothing of what is.
        result: Result<(), ClientError>,
    },
    /// The answer to a look-up.
    Offsets {
        /// The `ListOffsets` command.
        id: CommandId,
        /// One for each that was asked for, in the same order.
        offsets: Vec<(TopicPartition, Result<FoundOffset, ClientError>)>,
    },
    /// The answer to a request of the application's own.
    Answered {
        /// The `Admin` command.
        id: CommandId,
        /// What the broker said. An error says nothing of whether the request was carried out,
        /// unless it is a timeout before it could be sent.
        result: Result<Box<ResponseBody>, ClientError>,
    },
    /// The client is closed; no other event follows.
    Closed {
        /// The `Close` command.
        id: CommandId,
    },
}

/// What became of a record. Exactly one comes for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the log, or with `acks=0` on its way.
    Ok {
        /// Its partition.
        partition: i32,
        /// Its offset; `None` with `acks=0`, or if the broker knows only that it has it.
        offset: Option<Offset>,
        /// Its timestamp as it is stored, in milliseconds.
        timestamp: i64,
    },
    /// It is not in the log and will not be.
    Failed(ClientError),
    /// It may or may not be in the log: once, or without idempotence after retries more than once.
    Unknown(ClientError),
}

/// What a poll hands out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polled {
    /// A record.
    Record(ConsumerRecord),
    /// Everything that the partition had when it was last asked has been handed out. Told once for
    /// each such end.
    EndOfPartition {
        /// Which.
        partition: TopicPartition,
        /// The offset of the next record there will be.
        offset: Offset,
    },
    /// Something is wrong with a partition. It is tried again unless the error says otherwise.
    Error {
        /// Which.
        partition: TopicPartition,
        /// What.
        error: ClientError,
    },
    /// The group assigned these partitions, beside those that it assigned before. They are read from
    /// where the group has committed.
    Assigned(Vec<TopicPartition>),
    /// These partitions go to somebody else. Nothing of them is handed out any more; what was can
    /// still be committed until the next poll, which says that the application is done with them.
    Revoked(Vec<TopicPartition>),
    /// These partitions were taken away, and may belong to somebody else already: nothing of them can
    /// be committed.
    Lost(Vec<TopicPartition>),
    /// The client is no member of its group, and will not be before it subscribes again.
    GroupFailed(ClientError),
}

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerRecord {
    /// Its topic.
    pub topic: TopicName,
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: Offset,
    /// The epoch of the leader that appended it, if known.
    pub leader_epoch: Option<LeaderEpoch>,
    /// Its timestamp in milliseconds, or -1.
    pub timestamp: i64,
    /// The key; `None` is null. A slice of what was fetched, which it keeps alive.
    pub key: Option<Bytes>,
    /// The value; `None` is null. A slice, too.
    pub value: Option<Bytes>,
    /// The headers in their order. Slices, too.
    pub headers: Vec<(Bytes, Option<Bytes>)>,
}

/// An offset that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundOffset {
    /// The offset; `None` if there is no such record.
    pub offset: Option<Offset>,
    /// The timestamp of the record found, if a record was looked for.
    pub timestamp: Option<i64>,
    /// The epoch of the record's leader, if known.
    pub leader_epoch: Option<LeaderEpoch>,
}

/// The buffer a step writes its effects to.
#[derive(Debug, Default)]
pub struct ClientEffects {
    list: Vec<ClientEffect>,
}

impl ClientEffects {
    /// An empty buffer, to be reused from step to step.
    #[must_use]
    pub const fn new() -> Self {
        Self { list: Vec::new() }
    }

    /// Adds an effect.
    pub fn push(&mut self, effect: ClientEffect) {
        self.list.push(effect);
    }

    pub(crate) fn event(&mut self, event: ClientEvent) {
        self.push(ClientEffect::Event(event));
    }

    /// Takes the effects out in order and keeps the buffer's memory.
    pub fn drain(&mut self) -> impl Iterator<Item = ClientEffect> + '_ {
        self.list.drain(..)
    }

    /// Whether the step asked for nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The effects so far.
    #[must_use]
    pub fn as_slice(&self) -> &[ClientEffect] {
        &self.list
    }
}

impl fmt::Display for ClientEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect {
                connection,
                endpoint,
            } => write!(f, "connect {connection} to {endpoint}"),
            Self::Send { connection, frame } => {
                let bytes: usize = frame.iter().map(Bytes::len).sum();
                write!(f, "send {connection} {bytes} B")
            }
            Self::Close { connection } => write!(f, "close {connection}"),
            Self::Event(event) => write!(f, "event {event}"),
            Self::Report(report) => write!(f, "report {report}"),
        }
    }
}

impl fmt::Display for ClientEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delivery { id, outcome } => write!(f, "delivery {id} {outcome}"),
            Self::Flushed { id } => write!(f, "flushed {id}"),
            Self::Polled { id, items } => {
                write!(f, "polled {id}")?;
                // A run of records is one item of the line.
                let mut rest = items.as_slice();
                while let Some((first, after)) = rest.split_first() {
                    rest = after;
                    let Polled::Record(record) = first else {
                        write!(f, " [{first}]")?;
                        continue;
                    };
                    let mut last = record.offset;
                    while let Some((Polled::Record(next), after)) = rest.split_first() {
                        if (&next.topic, next.partition) != (&record.topic, record.partition) {
                            break;
                        }
                        last = next.offset;
                        rest = after;
                    }
                    write!(
                        f,
                        " [{}-{} {}..={last}]",
                        record.topic, record.partition, record.offset
                    )?;
                }
                Ok(())
            }
            Self::Offsets { id, offsets } => {
                write!(f, "offsets {id}")?;
                for (partition, result) in offsets {
                    match result {
                        Ok(FoundOffset {
                            offset: Some(offset),
                            ..
                        }) => write!(f, " [{partition} {offset}]")?,
                        Ok(_) => write!(f, " [{partition} none]")?,
                        Err(error) => write!(f, " [{partition} {error}]")?,
                    }
                }
                Ok(())
            }
            Self::Committed { id, result } => match result {
                Ok(()) => write!(f, "committed {id}"),
                Err(error) => write!(f, "committed {id} {error}"),
            },
            Self::Answered { id, result } => match result {
                Ok(body) => write!(f, "answered {id} {}", body.api()),
                Err(error) => write!(f, "answered {id} {error}"),
            },
            Self::Closed { id } => write!(f, "closed {id}"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok {
                partition,
                offset: Some(offset),
                ..
            } => write!(f, "ok at {offset} of partition {partition}"),
            Self::Ok { partition, .. } => write!(f, "sent to partition {partition}"),
            Self::Failed(error) => write!(f, "failed: {error}"),
            Self::Unknown(error) => write!(f, "unknown: {error}"),
        }
    }
}

impl fmt::Display for Polled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(record) => {
                write!(f, "{}-{} {}", record.topic, record.partition, record.offset)
            }
            Self::EndOfPartition { partition, offset } => {
                write!(f, "{partition} ends at {offset}")
            }
            Self::Error { partition, error } => write!(f, "{partition} {error}"),
            Self::Assigned(partitions) => list(f, "assigned", partitions),
            Self::Revoked(partitions) => list(f, "revoked", partitions),
            Self::Lost(partitions) => list(f, "lost", partitions),
            Self::GroupFailed(error) => write!(f, "group: {error}"),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, what: &str, partitions: &[TopicPartition]) -> fmt::Result {
    f.write_str(what)?;
    partitions
        .iter()
        .try_for_each(|partition| write!(f, " {partition}"))
}
