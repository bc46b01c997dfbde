//! One connection of a bare loop: a buffer that is used again and again, and answers.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};

use super::log::FileRange;

/// What is read at once while nothing is known of the next frame.
const READ_BYTES: usize = 64 << 10;
/// Frames above this size are read alone, so that nothing behind them has to be moved.
const LARGE_BYTES: usize = 16 << 10;
/// A frame above this size is not the bench's.
const MAX_FRAME_BYTES: usize = 100 << 20;
const LENGTH_BYTES: usize = 4;

/// A client.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Arc<TcpStream>,
    buffer: Vec<u8>,
    /// What of the buffer is filled.
    filled: usize,
    /// What of it was handed out as frames.
    start: usize,
    /// Size of the last frame with its length.
    last: usize,
    answers: Vec<u8>,
}

/// What a read brought.
pub(super) enum Received {
    Bytes,
    Nothing,
    Closed,
}

/// Answers and where they go.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) stream: Arc<TcpStream>,
    pub(super) answers: Vec<u8>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream: Arc::new(stream),
            buffer: Vec::new(),
            filled: 0,
            start: 0,
            last: 0,
            answers: Vec::new(),
        }
    }

    /// One read.
    pub(super) fn receive(&mut self) -> Received {
        let until = match self.declared() {
            Some(total) if total > MAX_FRAME_BYTES => return Received::Closed,
            Some(total) if total > LARGE_BYTES => total,
            None if self.filled == 0 && self.last > LARGE_BYTES => self.last,
            _ => self.filled + READ_BYTES,
        };
        if self.buffer.len() < until {
            self.buffer.resize(until, 0);
        }
        let Some(room) = self.buffer.get_mut(self.filled..until) else {
            return Received::Closed;
        };
        match (&*self.stream).read(room) {
            Ok(0) => Received::Closed,
            Ok(count) => {
                self.filled += count;
                Received::Bytes
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Received::Nothing
            }
            Err(_) => Received::Closed,
        }
    }

    /// Where the next whole frame lies, without its length. The outer `None` is a frame that makes
    /// no sense.
    #[expect(
        clippy::option_option,
        reason = "nothing yet and nothing ever are two things"
    )]
    pub(super) fn next_frame(&mut self) -> Option<Option<Range<usize>>> {
        let Some(total) = self.declared() else {
            return Some(None);
        };
        if total > MAX_FRAME_BYTES {
            return None;
        }
        let end = self.start + total;
        if end > self.filled {
            return Some(None);
        }
        let frame = self.start + LENGTH_BYTES..end;
        self.start = end;
        self.last = total;
        Some(Some(frame))
    }

    /// Size of the next frame with its length, once that is there.
    fn declared(&self) -> Option<usize> {
        let length = self.buffer.get(self.start..self.filled)?.first_chunk()?;
        Some(LENGTH_BYTES + u32::from_be_bytes(*length) as usize)
    }

    /// Bytes of the buffer.
    pub(super) fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        self.buffer.get(range)
    }

    /// Patches the batch that starts at `at`: its offset, and a leader epoch of 0.
    pub(super) fn set_base_offset(&mut self, at: usize, offset: i64) -> Option<()> {
        let head = self.buffer.get_mut(at..at + 8)?;
        head.copy_from_slice(&offset.to_be_bytes());
        self.buffer.get_mut(at + 12..at + 16)?.fill(0);
        Some(())
    }

    /// Takes half a frame to the front; what was handed out is gone then.
    pub(super) fn move_rest(&mut self) {
        self.buffer.copy_within(self.start..self.filled, 0);
        self.filled -= self.start;
        self.start = 0;
    }

    /// Adds an answer.
    pub(super) fn answer(&mut self, answer: &[u8]) {
        self.answers.extend_from_slice(answer);
    }

    /// Sends the answers.
    pub(super) fn send_answers(&mut self) -> io::Result<()> {
        if self.answers.is_empty() {
            return Ok(());
        }
        send_all(&self.stream, &self.answers)?;
        self.answers.clear();
        Ok(())
    }

    /// Hands the answers to someone else, who sends them.
    pub(super) fn take_answers(&mut self) -> Option<Waiting> {
        (!self.answers.is_empty()).then(|| Waiting {
            stream: self.stream.clone(),
            answers: std::mem::take(&mut self.answers),
        })
    }

    /// Sends a range of a file with what frames it.
    pub(super) fn send_range(
        &mut self,
        before: &[u8],
        range: &FileRange,
        after: &[u8],
    ) -> io::Result<()> {
        self.send_answers()?;
        if range.length == 0 {
            return send_all(&self.stream, &[before, after].concat());
        }
        send_more(&self.stream, before)?;
        send_file(&self.stream, &range.file, range.position, range.length)?;
        send_all(&self.stream, after)
    }
}

/// Sends all of it, waiting for the socket if it is full.
pub(super) fn send_all(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    let mut stream = stream;
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => await_room(stream)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// As [`send_all`], and says that more follows at once.
fn send_more(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    use rustix::net::{SendFlags, send};
    while !bytes.is_empty() {
        match send(stream, bytes, SendFlags::MORE | SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
            Err(rustix::io::Errno::AGAIN) => await_room(stream)?,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn send_file(stream: &TcpStream, file: &File, position: u64, length: u64) -> io::Result<()> {
    let mut at = position;
    let end = position + length;
    while at < end {
        let rest = usize::try_from(end - at).unwrap_or(usize::MAX);
        match rustix::fs::sendfile(stream, file, Some(&mut at), rest) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => await_room(stream)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn await_room(stream: &TcpStream) -> io::Result<()> {
    let mut sockets = [PollFd::new(stream, PollFlags::OUT)];
    match poll(&mut sockets, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
