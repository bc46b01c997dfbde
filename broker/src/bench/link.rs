//! A connection of the bench: blocking, without retries, answers in order.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use odradek_core::wire::frame::decode_response;
use odradek_core::wire::messages::Body;
use odradek_core::wire::{ApiKey, ResponseBody};

use super::frames::request_bytes;
use crate::failure::Failure;

/// A broker that says nothing for so long is taken for dead.
const SILENCE: Duration = Duration::from_secs(60);
/// How much is read at once while nothing large is expected.
const READ_BYTES: usize = 64 << 10;

/// A connection, and what was read from it and not looked at.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) stream: TcpStream,
    pub(super) reader: AnswerReader,
}

impl Link {
    /// Connects.
    pub(super) fn connect(address: SocketAddr) -> Result<Self, Failure> {
        let connect = || {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(SILENCE))?;
            stream.set_write_timeout(Some(SILENCE))?;
            Ok(stream)
        };
        let stream = connect().map_err(|error: io::Error| {
            Failure::failed(format!(
                "no broker answers at {address} ({error}); start one with `odradek serve`, or say \
                 with --bootstrap where it is"
            ))
        })?;
        Ok(Self {
            stream,
            reader: AnswerReader::new(),
        })
    }

    /// Sends bytes.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.stream.write_all(bytes).map_err(|error| broken(&error))
    }

    /// The next whole answer with its length.
    pub(super) fn receive(&mut self) -> Result<&[u8], Failure> {
        while !self.reader.has_frame() {
            self.reader.fill(&mut self.stream)?;
        }
        self.reader.next().ok_or_else(nonsense)
    }

    /// Asks, and decodes the answer.
    pub(super) fn ask(&mut self, version: i16, body: &impl Body) -> Result<ResponseBody, Failure> {
        self.request(version, body)?;
        self.answer(body.api(), version)
    }

    /// Asks, and does not wait for the answer.
    pub(super) fn request(&mut self, version: i16, body: &impl Body) -> Result<(), Failure> {
        self.send(&request_bytes("odradek-bench", version, body))
    }

    /// Decodes the next answer, which is to such a request.
    pub(super) fn answer(&mut self, api: ApiKey, version: i16) -> Result<ResponseBody, Failure> {
        let frame = self.receive()?.get(4..).unwrap_or_default();
        let answer = decode_response(api, version, Bytes::copy_from_slice(frame));
        let (_, answer) = answer.map_err(|error| {
            Failure::failed(format!("the answer to {api} cannot be read: {error}"))
        })?;
        Ok(answer)
    }
}

/// Cuts what is read into answers.
#[derive(Debug)]
pub(super) struct AnswerReader {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl AnswerReader {
    /// Nothing is read yet.
    pub(super) fn new() -> Self {
        Self {
            buffer: vec![0; READ_BYTES],
            start: 0,
            end: 0,
        }
    }

    /// One read from a socket that blocks.
    pub(super) fn fill(&mut self, stream: &mut TcpStream) -> Result<(), Failure> {
        let read = stream.read(self.room());
        self.read(read)
    }

    /// Where to read to; [`Self::read`] takes the result.
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
        let needed = self.declared().unwrap_or(READ_BYTES).max(READ_BYTES);
        if self.buffer.len() - self.start < needed || self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.buffer.len() < needed {
                self.buffer.resize(needed, 0);
            }
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// What came of reading to [`Self::room`].
    pub(super) fn read(&mut self, read: io::Result<usize>) -> Result<(), Failure> {
        match read {
            Ok(0) => Err(Failure::failed(
                "the broker closed the connection; its log says why",
            )),
            Ok(count) => {
                self.end += count;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(broken(&error)),
        }
    }

    /// Whether a whole answer is there.
    pub(super) fn has_frame(&self) -> bool {
        self.declared()
            .is_some_and(|total| self.start + total <= self.end)
    }

    /// The next whole answer with its length.
    pub(super) fn next(&mut self) -> Option<&[u8]> {
        if !self.has_frame() {
            return None;
        }
        let frame = self.start..self.start + self.declared()?;
        self.start = frame.end;
        self.buffer.get(frame)
    }

    fn declared(&self) -> Option<usize> {
        let length = self.buffer.get(self.start..self.end)?.first_chunk()?;
        Some(4 + u32::from_be_bytes(*length) as usize)
    }
}

/// The connection does not go on.
pub(super) fn broken(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Failure::failed(format!(
            "the broker has not answered for {} s",
            SILENCE.as_secs()
        )),
        _ => Failure::failed(format!(
            "the connection broke: {error}; is the broker alive?"
        )),
    }
}

/// The answer is not one to what was asked.
pub(super) fn nonsense() -> Failure {
    Failure::failed("the broker's answer is not one to what was asked; is it a Kafka broker?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(reader: &mut AnswerReader, bytes: &[u8]) {
        let room = reader.room();
        room[..bytes.len()].copy_from_slice(bytes);
        reader.read(Ok(bytes.len())).unwrap();
    }

    #[test]
    fn answers_come_out_whole_however_they_arrive() {
        let mut reader = AnswerReader::new();
        feed(&mut reader, &[0, 0, 0, 2, 1]);
        assert_eq!(reader.next(), None);
        feed(&mut reader, &[2, 0, 0, 0, 1, 3, 0]);
        assert_eq!(reader.next(), Some(&[0, 0, 0, 2, 1, 2][..]));
        assert_eq!(reader.next(), Some(&[0, 0, 0, 1, 3][..]));
        assert_eq!(reader.next(), None);
        feed(&mut reader, &[0, 0, 0]);
        assert_eq!(reader.next(), Some(&[0, 0, 0, 0][..]));
    }

    #[test]
    fn one_that_is_larger_than_the_buffer_gets_room() {
        let mut reader = AnswerReader::new();
        let mut frame = 300_000_u32.to_be_bytes().to_vec();
        frame.resize(300_004, 7);
        for piece in frame.chunks(50_000) {
            assert!(!reader.has_frame());
            feed(&mut reader, piece);
        }
        assert_eq!(reader.next(), Some(&frame[..]));
        feed(&mut reader, &[0, 0, 0, 0]);
        assert_eq!(reader.next(), Some(&[0; 4][..]));
    }
}
