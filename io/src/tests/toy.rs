//! A guest of a few lines: one log file, requests of one letter.
//!
//! A frame is a number (4 bytes), a letter, and a payload; a response is the number and what the
//! letter asks for:
//!
//! - `A`: append the payload, answer with its position (8 bytes) once it is flushed; `O`: once it
//!   is written
//! - `F`: answer with the range of the log at the position (8 bytes) and length (4) of the payload
//! - `E`: answer with the payload; `S`: answer with nothing; `P`: do not answer, and keep the
//!   request until its connection closes
//! - `T`: answer after the milliseconds (4 bytes) of the payload
//! - `X`: answer, then close; `!`: panic

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use odradek_core::effect::{
    BATCH_HEADER_BYTES, Effect, Effects, FLUSHES_AT_ONCE, FileOp, FileRange, Part, Response,
    WriteData,
};
use odradek_core::ids::{ConnectionId, FileId, FilePath, OperationId, Position};
use odradek_core::input::{Completion, Input};
use odradek_core::read_job::{ReadJob, ReadOutput};
use odradek_core::report::{Level, Report};
use odradek_core::request::Codecs;
use odradek_core::time::{Mono, Now};

use crate::driver::Guest;

pub(crate) const LOG: FileId = FileId(1);

#[derive(Debug, Default)]
pub(crate) struct Toy {
    /// End of what was issued, written, flushed.
    issued: Position,
    pub(crate) written: Position,
    pub(crate) flushed: Position,
    flushing: usize,
    /// What was written when a flush was last asked for.
    asked: Position,
    failed: bool,
    /// Appends that wait, by the end of theirs.
    for_write: VecDeque<Waiting>,
    for_flush: VecDeque<Waiting>,
    delayed: Vec<(Mono, ConnectionId, u32)>,
    parked: Vec<(ConnectionId, Bytes)>,
    closed: BTreeSet<ConnectionId>,
    next_operation: u64,
    stopping: bool,
}

#[derive(Debug)]
struct Waiting {
    connection: ConnectionId,
    number: u32,
    position: Position,
    end: Position,
}

#[derive(Debug)]
pub(crate) enum ToyInput {
    Core(Input),
    Frame(ConnectionId, Bytes),
}

impl From<Input> for ToyInput {
    fn from(input: Input) -> Self {
        Self::Core(input)
    }
}

impl fmt::Display for ToyInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Core(input) => input.fmt(f),
            Self::Frame(connection, frame) => write!(f, "request {connection} {} B", frame.len()),
        }
    }
}

impl Guest for Toy {
    type Input = ToyInput;

    fn prepare(_: &Codecs, connection: ConnectionId, frame: Bytes) -> ToyInput {
        ToyInput::Frame(connection, frame)
    }

    fn handle(&mut self, now: Now, input: ToyInput, out: &mut Effects) {
        match input {
            ToyInput::Frame(connection, frame) => self.request(now, connection, &frame, out),
            ToyInput::Core(Input::Start) => self.list(out),
            ToyInput::Core(Input::Disk(completion)) => self.disk(completion, out),
            ToyInput::Core(Input::Deadline) => {
                self.delayed.sort();
                self.delayed.retain(|(at, connection, number)| {
                    let due = *at <= now.mono;
                    if due {
                        respond(*connection, *number, None, out);
                    }
                    !due
                });
            }
            ToyInput::Core(Input::Closed { connection }) => {
                self.closed.insert(connection);
                self.parked.retain(|(whose, _)| *whose != connection);
            }
            ToyInput::Core(Input::Stop) => {
                self.stopping = true;
                if self.flushing == 0 {
                    self.ask_for_flush(out);
                }
            }
            ToyInput::Core(_) => {}
        }
    }

    fn next_deadline(&self) -> Option<Mono> {
        self.delayed.iter().map(|(at, ..)| *at).min()
    }
}

impl Toy {
    fn list(&mut self, out: &mut Effects) {
        let operation = self.operation();
        let job = Box::new(ReadJob::List(FilePath::root()));
        out.push(Effect::Read { operation, job });
    }

    fn operation(&mut self) -> OperationId {
        self.next_operation += 1;
        OperationId(self.next_operation)
    }

    fn request(&mut self, now: Now, connection: ConnectionId, frame: &Bytes, out: &mut Effects) {
        assert!(
            !self.closed.contains(&connection),
            "what a connection asked for comes before its end"
        );
        let number = u32::from_be_bytes(frame[..4].try_into().unwrap());
        let payload = frame.slice(5..);
        match frame[4] {
            b'A' | b'O' => {
                let mut header = [0; BATCH_HEADER_BYTES];
                header.copy_from_slice(&payload[..BATCH_HEADER_BYTES]);
                let data = WriteData {
                    header,
                    records: payload.slice(BATCH_HEADER_BYTES..),
                };
                let position = self.issued;
                self.issued = position.plus(data.len() as u64);
                let waiting = Waiting {
                    connection,
                    number,
                    position,
                    end: self.issued,
                };
                if frame[4] == b'A' {
                    self.for_flush.push_back(waiting);
                } else {
                    self.for_write.push_back(waiting);
                }
                out.push(Effect::Write {
                    file: LOG,
                    position,
                    data,
                });
            }
            b'F' => {
                let range = FileRange {
                    file: LOG,
                    position: Position(u64::from_be_bytes(payload[..8].try_into().unwrap())),
                    length: u32::from_be_bytes(payload[8..12].try_into().unwrap()),
                };
                respond(connection, number, Some(Part::File(range)), out);
            }
            b'E' => respond(connection, number, Some(Part::Bytes(payload)), out),
            b'S' => out.push(Effect::Respond {
                connection,
                response: Response::default(),
            }),
            b'P' => self.parked.push((connection, payload)),
            b'T' => {
                let ms = u32::from_be_bytes(payload[..4].try_into().unwrap());
                let at = now.mono.plus_ms(u64::from(ms));
                self.delayed.push((at, connection, number));
            }
            b'X' => {
                respond(connection, number, None, out);
                out.push(Effect::Close { connection });
            }
            letter => panic!("the toy was told to panic by {}", char::from(letter)),
        }
    }

    fn disk(&mut self, completion: Completion, out: &mut Effects) {
        match completion {
            Completion::Read { result, .. } => {
                let entries = match result.unwrap() {
                    ReadOutput::List(entries) => entries,
                    #[allow(unreachable_patterns)]
                    other => panic!("{other} was not asked for"),
                };
                let path = FilePath::from("log");
                match entries.iter().find(|entry| entry.name == "log") {
                    Some(entry) => self.open(path, entry.length.unwrap(), out),
                    None => {
                        let op = FileOp::WriteFile {
                            path,
                            bytes: Bytes::new(),
                        };
                        let operation = self.operation();
                        out.push(Effect::Manage { operation, op });
                    }
                }
            }
            Completion::Managed { result, .. } => {
                result.unwrap();
                if self.failed {
                    self.failed = false;
                } else {
                    self.open(FilePath::from("log"), Position(0), out);
                }
            }
            Completion::Written { up_to, .. } => {
                assert!(up_to > self.written, "the prefix goes forward");
                assert!(up_to <= self.issued);
                self.written = up_to;
                answer(&mut self.for_write, up_to, out);
                self.flush(out);
            }
            Completion::Flushed { up_to, .. } => {
                assert!(self.flushing > 0, "a flush was asked for");
                assert!(up_to <= self.written, "written is reported before flushed");
                self.flushing -= 1;
                // Two may end in either order.
                self.flushed = self.flushed.max(up_to);
                answer(&mut self.for_flush, up_to, out);
                if !self.stopping {
                    self.flush(out);
                } else if self.flushing == 0 {
                    out.push(Effect::Stopped);
                }
            }
            Completion::WriteFailed { written, .. } => {
                self.issued = written;
                self.written = written;
                self.asked = self.asked.min(written);
                for lost in self.for_write.drain(..).chain(self.for_flush.drain(..)) {
                    // Position 2^64-1 says that it failed.
                    let failed = Part::Bytes(Bytes::from_static(&[0xff; 8]));
                    respond(lost.connection, lost.number, Some(failed), out);
                }
                self.failed = true;
                let op = FileOp::Truncate {
                    file: LOG,
                    length: written,
                };
                let operation = self.operation();
                out.push(Effect::Manage { operation, op });
            }
            Completion::FlushFailed { error, .. } => out.push(Effect::Fatal {
                message: error.to_string(),
            }),
        }
    }

    fn open(&mut self, path: FilePath, length: Position, out: &mut Effects) {
        self.issued = length;
        self.written = length;
        self.flushed = length;
        let file = LOG;
        out.push(Effect::Open { file, path, length });
        out.push(Effect::Report(Report {
            level: Level::Info,
            room: "log",
            message: format!("opened at {length}"),
        }));
        out.push(Effect::Started);
    }

    /// Group commit: as many flushes at a time as there may be, each for whatever is written by then.
    fn flush(&mut self, out: &mut Effects) {
        let new = self.asked..self.written;
        let waits = |w: &Waiting| w.end > new.start && w.end <= new.end;
        if self.flushing < FLUSHES_AT_ONCE && self.for_flush.iter().any(waits) {
            self.ask_for_flush(out);
        }
    }

    fn ask_for_flush(&mut self, out: &mut Effects) {
        self.flushing += 1;
        self.asked = self.written;
        out.push(Effect::Flush { file: LOG });
    }
}

fn answer(waiting: &mut VecDeque<Waiting>, up_to: Position, out: &mut Effects) {
    while let Some(first) = waiting.pop_front_if(|first| first.end <= up_to) {
        let position = Bytes::copy_from_slice(&first.position.0.to_be_bytes());
        respond(
            first.connection,
            first.number,
            Some(Part::Bytes(position)),
            out,
        );
    }
}

fn respond(connection: ConnectionId, number: u32, part: Option<Part>, out: &mut Effects) {
    let length = 4 + part.as_ref().map_or(0, Part::len);
    let mut head = BytesMut::with_capacity(8);
    head.put_u32(u32::try_from(length).unwrap());
    head.put_u32(number);
    let mut parts = vec![Part::Bytes(head.freeze())];
    parts.extend(part);
    out.push(Effect::Respond {
        connection,
        response: Response { parts },
    });
}

/// A frame for the toy, its length first.
pub(crate) fn request(number: u32, letter: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(9 + payload.len());
    frame.put_u32(u32::try_from(5 + payload.len()).unwrap());
    frame.put_u32(number);
    frame.put_u8(letter);
    frame.extend_from_slice(payload);
    frame
}
