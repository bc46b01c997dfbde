//! What a client reacts to: its connections, the time, and the application's commands.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use crate::ids::{ConnectionId, LeaderEpoch, NodeId, Offset};
use crate::wire::RequestBody;
use crate::wire::messages::Body;

/// A topic's name.
pub type TopicName = Arc<str>;

/// A partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: TopicName,
    /// Its number in the topic, from 0.
    pub partition: i32,
}

/// Names a command in the event that answers it. The application chooses them; the client only
/// gives them back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u64);

/// One thing that happened.
#[derive(Debug)]
pub enum ClientInput {
    /// A connection that [`Connect`](super::ClientEffect::Connect) asked for is there.
    Connected {
        /// Which.
        connection: ConnectionId,
    },
    /// A connection that was asked for did not come about.
    ConnectFailed {
        /// Which.
        connection: ConnectionId,
        /// What the system said.
        reason: String,
    },
    /// A whole frame came in.
    Received {
        /// On which connection.
        connection: ConnectionId,
        /// The frame without its length prefix.
        frame: Bytes,
    },
    /// The broker closed the connection, or it broke. Not told after a
    /// [`Close`](super::ClientEffect::Close), but harmless.
    Disconnected {
        /// Which.
        connection: ConnectionId,
    },
    /// `Client::next_deadline` has come.
    Deadline,
    /// The application wants something.
    Command {
        /// Comes back in the event that answers it.
        id: CommandId,
        /// What.
        command: Command,
    },
}

/// What an application can ask for.
#[derive(Debug)]
pub enum Command {
    /// Send a record; ends in exactly one [`Delivery`](super::ClientEvent::Delivery).
    Produce(ProducerRecord),
    /// Send everything accepted so far without lingering;
    /// [`Flushed`](super::ClientEvent::Flushed) once all of it has its outcome.
    Flush,
    /// Read exactly these partitions from now on, from these positions; what was fetched ahead is
    /// dropped. Not answered.
    Assign(Vec<(TopicPartition, StartAt)>),
    /// Go on reading a partition elsewhere. Not answered; a partition that is not assigned is
    /// an error among what is polled.
    Seek {
        /// An assigned partition.
        partition: TopicPartition,
        /// Where to.
        to: StartAt,
    },
    /// Hand out nothing of these partitions until they are resumed. Not answered.
    Pause(Vec<TopicPartition>),
    /// End a pause. Not answered.
    Resume(Vec<TopicPartition>),
    /// Hand out what was fetched; [`Polled`](super::ClientEvent::Polled) as soon as there is
    /// something, and without anything once the wait is over. Of two polls at a time the older
    /// one is answered at once, with nothing.
    Poll {
        /// Most records to hand out.
        max_records: usize,
        /// Most bytes of keys and values to hand out; one record may go beyond it.
        max_bytes: usize,
        /// How long to wait for the first.
        max_wait_ms: u32,
    },
    /// Be a member of the configured group and read what it assigns of these topics, in place of
    /// what was assigned or subscribed to before. Not answered: what is assigned and revoked is told
    /// among what is polled, so nothing happens without polls.
    Subscribe(Vec<TopicName>),
    /// The same with all topics whose whole name this regular expression matches, now or later. The
    /// broker matches it in the protocol of KIP-848, and then its own topics match too.
    SubscribePattern(String),
    /// Commit what was processed, leave the group and read nothing any more. Not answered.
    Unsubscribe,
    /// Store how far the group has read; [`Committed`](super::ClientEvent::Committed) once it is
    /// stored.
    Commit {
        /// What to store; `None` for the positions of everything that was handed out.
        offsets: Option<Vec<(TopicPartition, OffsetToCommit)>>,
        /// How long it may take.
        timeout_ms: u32,
    },
    /// Look offsets up; [`Offsets`](super::ClientEvent::Offsets) once all are found.
    ListOffsets {
        /// What to look up.
        partitions: Vec<(TopicPartition, OffsetSpec)>,
        /// How long it may take.
        timeout_ms: u32,
    },
    /// Send a request of the application's own; [`Answered`](super::ClientEvent::Answered) by what
    /// the broker says.
    Admin(Box<AdminRequest>),
    /// Finish what was accepted, then close all connections; [`Closed`](super::ClientEvent::Closed)
    /// after the last other event.
    Close {
        /// When to stop waiting for the outcome of records.
        timeout_ms: u32,
    },
}

/// A record to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerRecord {
    /// Where to.
    pub topic: TopicName,
    /// Which partition; by the hash of the key if `None`, and whichever suits if there is no key
    /// either.
    pub partition: Option<i32>,
    /// Milliseconds; the time of the send if `None`.
    pub timestamp: Option<i64>,
    /// The key; `None` is null.
    pub key: Option<Bytes>,
    /// The value; `None` is null.
    pub value: Option<Bytes>,
    /// Headers in their order: keys, and values of which `None` is null (KIP-82).
    pub headers: Vec<(Bytes, Option<Bytes>)>,
}

/// Where to begin reading a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAt {
    /// At this offset.
    Offset(Offset),
    /// Where a look-up says. One by time that finds nothing begins at the end.
    Spec(OffsetSpec),
    /// At the offset that the configured group has committed; where there is none, as
    /// `auto.offset.reset` says.
    Committed,
}

/// How far a group has read a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetToCommit {
    /// The next record to read.
    pub offset: Offset,
    /// Epoch of the leader of the last record that was read, if known.
    pub leader_epoch: Option<LeaderEpoch>,
    /// Anything the application wants to find again.
    pub metadata: String,
}

/// An offset to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// That of the first record there is.
    Earliest,
    /// The one after the last record there is.
    Latest,
    /// That of the record with the largest timestamp (KIP-734).
    MaxTimestamp,
    /// That of the first record whose timestamp is at least this, in milliseconds.
    Timestamp(i64),
}

/// A request of the application's own.
#[derive(Debug)]
pub struct AdminRequest {
    /// Whom to ask.
    pub to: AdminTarget,
    /// What.
    pub body: RequestBody,
    /// When to give up. Until it is sent, a request waits for connections to come back; once it
    /// is, it is never sent again.
    pub timeout_ms: u32,
}

/// Whom to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminTarget {
    /// Any broker.
    Any,
    /// The controller.
    Controller,
    /// This broker.
    Broker(NodeId),
    /// The leader of this partition.
    Leader(TopicPartition),
}

impl TopicPartition {
    /// Partition `partition` of `topic`.
    #[must_use]
    pub fn new(topic: &str, partition: i32) -> Self {
        Self {
            topic: Arc::from(topic),
            partition,
        }
    }
}

impl ProducerRecord {
    /// A record with a value and nothing else, to be changed.
    #[must_use]
    pub fn new(topic: &TopicName, value: impl Into<Bytes>) -> Self {
        Self {
            topic: topic.clone(),
            partition: None,
            timestamp: None,
            key: None,
            value: Some(value.into()),
            headers: Vec::new(),
        }
    }

    /// What the record counts for in `buffer.memory` and against `max.request.size`: its bytes and
    /// room for their lengths.
    #[must_use]
    pub fn size(&self) -> usize {
        let nullable = |bytes: &Option<Bytes>| 5 + bytes.as_ref().map_or(0, Bytes::len);
        let headers: usize = self
            .headers
            .iter()
            .map(|(key, value)| 5 + key.len() + nullable(value))
            .sum();
        RECORD_OVERHEAD_BYTES + nullable(&self.key) + nullable(&self.value) + headers
    }
}

/// Length, attributes, timestamp and offset delta, and header count of a record, at their longest.
const RECORD_OVERHEAD_BYTES: usize = 5 + 1 + 10 + 5 + 5;

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for StartAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(offset) => offset.fmt(f),
            Self::Spec(spec) => spec.fmt(f),
            Self::Committed => f.write_str("committed"),
        }
    }
}

impl fmt::Display for OffsetSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Earliest => f.write_str("earliest"),
            Self::Latest => f.write_str("latest"),
            Self::MaxTimestamp => f.write_str("max timestamp"),
            Self::Timestamp(ms) => write!(f, "timestamp {ms}"),
        }
    }
}

impl fmt::Display for AdminTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any broker"),
            Self::Controller => f.write_str("the controller"),
            Self::Broker(node) => write!(f, "broker {node}"),
            Self::Leader(partition) => write!(f, "the leader of {partition}"),
        }
    }
}

impl fmt::Display for ClientInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected { connection } => write!(f, "connected {connection}"),
            Self::ConnectFailed { connection, reason } => {
                write!(f, "connect failed {connection}: {reason}")
            }
            Self::Received { connection, frame } => {
                write!(f, "received {connection} {} B", frame.len())
            }
            Self::Disconnected { connection } => write!(f, "disconnected {connection}"),
            Self::Deadline => f.write_str("deadline"),
            Self::Command { id, command } => write!(f, "command {id} {command}"),
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Produce(record) => {
                write!(f, "produce {}", record.topic)?;
                if let Some(partition) = record.partition {
                    write!(f, "-{partition}")?;
                }
                write!(f, " {} B", record.size())
            }
            Self::Flush => f.write_str("flush"),
            Self::Assign(partitions) => {
                f.write_str("assign")?;
                for (partition, start) in partitions {
                    write!(f, " [{partition} {start}]")?;
                }
                Ok(())
            }
            Self::Seek { partition, to } => write!(f, "seek {partition} {to}"),
            Self::Subscribe(topics) => {
                f.write_str("subscribe")?;
                topics.iter().try_for_each(|topic| write!(f, " {topic}"))
            }
            Self::SubscribePattern(expression) => write!(f, "subscribe /{expression}/"),
            Self::Unsubscribe => f.write_str("unsubscribe"),
            Self::Commit {
                offsets,
                timeout_ms,
            } => {
                write!(f, "commit within {timeout_ms} ms")?;
                offsets
                    .iter()
                    .flatten()
                    .try_for_each(|(partition, to)| write!(f, " [{partition} {}]", to.offset))
            }
            Self::Pause(partitions) => list(f, "pause", partitions),
            Self::Resume(partitions) => list(f, "resume", partitions),
            Self::Poll {
                max_records,
                max_bytes,
                max_wait_ms,
            } => write!(
                f,
                "poll {max_records} records {max_bytes} B within {max_wait_ms} ms"
            ),
            Self::ListOffsets {
                partitions,
                timeout_ms,
            } => {
                write!(f, "list offsets within {timeout_ms} ms")?;
                for (partition, spec) in partitions {
                    write!(f, " [{partition} {spec}]")?;
                }
                Ok(())
            }
            Self::Admin(request) => write!(
                f,
                "admin {} to {} within {} ms",
                request.body.api(),
                request.to,
                request.timeout_ms
            ),
            Self::Close { timeout_ms } => write!(f, "close within {timeout_ms} ms"),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, verb: &str, partitions: &[TopicPartition]) -> fmt::Result {
    f.write_str(verb)?;
    for partition in partitions {
        write!(f, " {partition}")?;
    }
    Ok(())
}
