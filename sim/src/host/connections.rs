//! The broker's side of its connections: frames put together, responses waiting to be written.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use odradek_core::effect::{Part, Response};
use odradek_core::ids::ConnectionId;

use super::files::Files;
use crate::disk::{Disk, Inode};

/// The connections of one life of a process.
#[derive(Debug, Default)]
pub struct Connections {
    open: BTreeMap<ConnectionId, Connection>,
}

/// One connection, as the host sees it.
#[derive(Debug, Default)]
struct Connection {
    inbox: BytesMut,
    /// Requests handed to the broker and not answered.
    unanswered: usize,
    outbox: VecDeque<Outgoing>,
    writing: bool,
    /// Nothing more is read; closed once the outbox is empty.
    closing: bool,
}

/// A response that waits for the writer.
#[derive(Debug)]
struct Outgoing {
    parts: Vec<Pinned>,
    /// What it was when it was queued.
    promised: Option<Bytes>,
}

/// A part of a response whose file cannot go away.
#[derive(Debug)]
enum Pinned {
    Bytes(Bytes),
    Range {
        inode: Option<Inode>,
        position: u64,
        length: usize,
    },
}

/// What is next in a connection's inbox.
#[derive(Debug, PartialEq, Eq)]
pub enum Inbox {
    /// Not a whole frame yet, or too many requests are waiting for their answers.
    Nothing,
    /// A frame without its length.
    Frame(Bytes),
    /// A length that no frame may have.
    Bad(i32),
}

/// What became of the response whose turn it was.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent {
    /// These bytes went out, and another response waits.
    More(Bytes),
    /// These bytes went out, and they were the last.
    Drained(Bytes),
    /// These bytes went out, and the broker wanted the connection closed after them.
    Closed(Bytes),
    /// A range was short: the connection must be closed.
    Short,
    /// A range cannot be read: the connection must be closed.
    Unreadable,
    /// A range holds other bytes than when the response was queued.
    Changed,
    /// The connection is gone.
    Gone,
}

/// How many requests of one connection the host hands over before it waits for answers.
const MAX_UNANSWERED: usize = 64;

impl Connections {
    /// A client connected.
    pub fn open(&mut self, connection: ConnectionId) {
        self.open.insert(connection, Connection::default());
    }

    /// Forgets a connection; whether it was there.
    pub fn close(&mut self, connection: ConnectionId) -> bool {
        self.open.remove(&connection).is_some()
    }

    /// Which connections there are.
    pub fn ids(&self) -> impl Iterator<Item = ConnectionId> {
        self.open.keys().copied()
    }

    /// Bytes arrived.
    pub fn receive(&mut self, connection: ConnectionId, bytes: &[u8]) {
        if let Some(connection) = self.open.get_mut(&connection)
            && !connection.closing
        {
            connection.inbox.extend_from_slice(bytes);
        }
    }

    /// Takes the next frame from the inbox. A frame may have `max_frame_bytes`.
    pub fn next_frame(&mut self, connection: ConnectionId, max_frame_bytes: usize) -> Inbox {
        let Some(connection) = self.open.get_mut(&connection) else {
            return Inbox::Nothing;
        };
        if connection.closing || connection.unanswered >= MAX_UNANSWERED {
            return Inbox::Nothing;
        }
        let Some(prefix) = connection.inbox.first_chunk::<4>() else {
            return Inbox::Nothing;
        };
        let length = i32::from_be_bytes(*prefix);
        let Ok(size) = usize::try_from(length) else {
            return Inbox::Bad(length);
        };
        if size > max_frame_bytes {
            return Inbox::Bad(length);
        }
        if connection.inbox.len() < 4 + size {
            return Inbox::Nothing;
        }
        let mut frame = connection.inbox.split_to(4 + size).freeze();
        connection.unanswered += 1;
        Inbox::Frame(frame.split_off(4))
    }

    /// Queues a response. Whether the writer has to be woken; an empty response only gives the
    /// connection its place back.
    pub fn respond(
        &mut self,
        connection: ConnectionId,
        response: &Response,
        files: &Files,
        promised: Option<Bytes>,
    ) -> bool {
        let Some(connection) = self.open.get_mut(&connection) else {
            return false;
        };
        connection.unanswered = connection.unanswered.saturating_sub(1);
        if response.is_empty() {
            return false;
        }
        let parts = response
            .parts
            .iter()
            .map(|part| match part {
                Part::Bytes(bytes) => Pinned::Bytes(bytes.clone()),
                Part::File(range) => Pinned::Range {
                    inode: files.pin(range.file),
                    position: range.position.0,
                    length: range.length as usize,
                },
            })
            .collect();
        connection.outbox.push_back(Outgoing { parts, promised });
        !std::mem::replace(&mut connection.writing, true)
    }

    /// The broker wants a connection closed once its outbox is empty. Whether that is now.
    pub fn close_when_drained(&mut self, connection: ConnectionId) -> bool {
        match self.open.get_mut(&connection) {
            Some(connection) => {
                connection.closing = true;
                !connection.writing
            }
            None => false,
        }
    }

    /// The writer's turn: resolves and sends the response at the head.
    pub fn send(&mut self, id: ConnectionId, disk: &Disk) -> Sent {
        let Some(connection) = self.open.get_mut(&id) else {
            return Sent::Gone;
        };
        let Some(Outgoing { parts, promised }) = connection.outbox.pop_front() else {
            connection.writing = false;
            return Sent::Gone;
        };
        let mut bytes = BytesMut::new();
        for part in parts {
            match part {
                Pinned::Bytes(part) => bytes.extend_from_slice(&part),
                Pinned::Range {
                    inode,
                    position,
                    length,
                } => {
                    let from = position as usize;
                    let file = inode.and_then(|inode| disk.file(inode));
                    let end = position + length as u64;
                    if file.is_some_and(|file| !file.is_readable(position, end)) {
                        connection.writing = false;
                        return Sent::Unreadable;
                    }
                    let Some(range) = file.and_then(|file| file.cached().get(from..from + length))
                    else {
                        return Sent::Short;
                    };
                    bytes.extend_from_slice(range);
                }
            }
        }
        let bytes = bytes.freeze();
        if promised.is_some_and(|promised| promised != bytes) {
            return Sent::Changed;
        }
        if !connection.outbox.is_empty() {
            return Sent::More(bytes);
        }
        connection.writing = false;
        if connection.closing {
            Sent::Closed(bytes)
        } else {
            Sent::Drained(bytes)
        }
    }
}

/// A response as it would be sent now; `None` if a range is short.
#[must_use]
pub fn resolve(response: &Response, files: &Files, disk: &Disk) -> Option<Bytes> {
    let mut bytes = BytesMut::with_capacity(response.len());
    for part in &response.parts {
        match part {
            Part::Bytes(part) => bytes.extend_from_slice(part),
            Part::File(range) => {
                let from = range.position.0 as usize;
                let file = disk.file(files.pin(range.file)?)?;
                bytes.extend_from_slice(file.cached().get(from..from + range.length as usize)?);
            }
        }
    }
    Some(bytes.freeze())
}
