//! A plain client: one connection, one request at a time, the answer in hand before anything else
//! happens. A test that counts acknowledgements wants no queue, no retry and no background thread
//! between itself and the program.
//!
//! It speaks the newest versions of Kafka's protocol that need no flexible encoding, written out by
//! hand: the program under test shares no code with it. Layouts:
//! <https://kafka.apache.org/protocol>.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::batch::{self, Stored};
use crate::program::is_kafka;
use crate::records::TestRecord;

/// Longer than anything here may take, and short enough for a test that hangs.
const TIMEOUT: Duration = Duration::from_secs(30);
const TIMEOUT_MS: i32 = 30_000;

/// `ListOffsets` for the log start offset.
pub const EARLIEST: i64 = -2;
/// `ListOffsets` for the high watermark.
pub const LATEST: i64 = -1;

/// Why a request has no useful answer.
#[derive(Debug)]
pub enum WireError {
    /// The connection ended or was silent: the outcome is unknown.
    Connection(std::io::Error),
    /// A Kafka error code.
    Code(i16),
    /// An answer that does not parse, or answers something else.
    Answer(String),
}

impl From<std::io::Error> for WireError {
    fn from(error: std::io::Error) -> Self {
        Self::Connection(error)
    }
}

/// What one partition gave to one fetch.
#[derive(Debug)]
pub struct Fetched {
    /// Only below this may readers see records.
    pub high_watermark: i64,
    /// In the order of the log, from the fetch offset on.
    pub records: Vec<Stored>,
}

/// A connection to the program.
pub struct Connection {
    stream: TcpStream,
    correlation_id: i32,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// The program is not there.
    pub fn open(address: SocketAddr) -> Result<Self, WireError> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self {
            stream,
            correlation_id: 0,
        })
    }

    /// Whether the program advertises an API, by its key.
    ///
    /// # Errors
    /// As [`WireError`] says.
    pub fn serves(&mut self, api_key: i16) -> Result<bool, WireError> {
        let mut answer = self.call(18, 0, &Body::default())?;
        answer.error_code()?;
        let mut serves = false;
        for _ in 0..answer.i32()? {
            serves |= answer.i16()? == api_key;
            // The lowest and the highest version.
            answer.i32()?;
        }
        Ok(serves)
    }

    /// Creates a topic with these configs.
    ///
    /// # Errors
    /// As [`WireError`] says.
    pub fn create_topic(
        &mut self,
        name: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> Result<(), WireError> {
        let mut body = Body::default();
        body.array(1)
            .string(name)
            .i32(partitions)
            .i16(1)
            .array(0)
            .array(configs.len());
        for (key, value) in configs {
            body.string(key).string(value);
        }
        body.i32(TIMEOUT_MS).i8(0);
        let mut answer = self.call(19, 4, &body)?;
        answer.i32()?;
        answer.one()?;
        answer.string()?;
        answer.error_code()?;
        if is_kafka() {
            // Its brokers hear of a topic some time after its controller has answered.
            std::thread::sleep(Duration::from_millis(500));
        }
        Ok(())
    }

    /// Deletes a topic.
    ///
    /// # Errors
    /// As [`WireError`] says.
    pub fn delete_topic(&mut self, name: &str) -> Result<(), WireError> {
        let mut body = Body::default();
        body.array(1).string(name).i32(TIMEOUT_MS);
        let mut answer = self.call(20, 3, &body)?;
        answer.i32()?;
        answer.one()?;
        answer.string()?;
        answer.error_code()
    }

    /// Whether a topic exists; asking does not create it.
    ///
    /// # Errors
    /// As [`WireError`] says.
    pub fn topic_exists(&mut self, name: &str) -> Result<bool, WireError> {
        const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
        let mut body = Body::default();
        body.array(1).string(name).i8(0);
        let mut answer = self.call(3, 7, &body)?;
        answer.i32()?;
        for _ in 0..answer.i32()? {
            // A broker: id, host, port, rack.
            answer.i32()?;
            answer.string()?;
            answer.i32()?;
            answer.string()?;
        }
        answer.string()?;
        answer.i32()?;
        answer.one()?;
        match answer.error_code() {
            Ok(()) => Ok(true),
            Err(WireError::Code(UNKNOWN_TOPIC_OR_PARTITION)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Appends records to a partition, as one batch, with acks=all. Gives the offset of the first
    /// one.
    ///
    /// # Errors
    /// As [`WireError`] says.
    pub fn produce(
        &mut self,
        topic: &str,
        partition: i32,
        records: &[TestRecord],
    ) -> Result<i64, WireError> {
        self.produce_at(1_700_000_000_000, topic, partition, records)
    }

    /// As [`Self::produce`]; the first record has this timestamp in milliseconds, and each is one
    /// later than the last.
    ///
    /// # Errors
    /// As [`WireError`] says.
    pub fn produce_at(
        &mut self,
        timestamp_ms: i64,
        topic: &str,
        partition: i32,
        records: &[TestRecord],
    ) -> Result<i64, WireError> {
        let mut body = Body::default();
        body.null_string()
            .i16(-1)
            .i32(TIMEOUT_MS)
            .array(1)
            .string(topic)
            .array(1)
            .i32(partition);
        body.bytes(&batch::encode(timestamp_ms, records));
        let mut answer = self.call(0, 7, &body)?;
        answer.one()?;
        answer.string()?;
        answer.one()?;
        answer.i32()?;
        answer.error_code()?;
        answer.i64()
    }

    /// The offset that `timestamp` (milliseconds, or [`EARLIEST`], [`LATEST`]) stands for.
    ///
    /// # Errors
    /// As [`WireError`] says.
    pub fn list_offset(
        &mut self,
        topic: &str,
        partition: i32,
        timestamp: i64,
    ) -> Result<i64, WireError> {
        let mut body = Body::default();
        body.i32(-1)
            .i8(0)
            .array(1)
            .string(topic)
            .array(1)
            .i32(partition)
            .i32(-1)
            .i64(timestamp);
        let mut answer = self.call(2, 5, &body)?;
        answer.i32()?;
        answer.one()?;
        answer.string()?;
        answer.one()?;
        answer.i32()?;
        answer.error_code()?;
        answer.i64()?;
        answer.i64()
    }

    /// Removes the records below `offset`; gives the new log start offset.
    ///
    /// # Errors
    /// As [`WireError`] says.
    pub fn delete_records(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> Result<i64, WireError> {
        let mut body = Body::default();
        body.array(1)
            .string(topic)
            .array(1)
            .i32(partition)
            .i64(offset)
            .i32(TIMEOUT_MS);
        let mut answer = self.call(21, 1, &body)?;
        answer.i32()?;
        answer.one()?;
        answer.string()?;
        answer.one()?;
        answer.i32()?;
        let low_watermark = answer.i64()?;
        answer.error_code()?;
        Ok(low_watermark)
    }

    /// Commits `offset` for the first `partitions` partitions of a topic, as a consumer that is in no
    /// group of that name; the metadata goes with each.
    ///
    /// # Errors
    /// As [`WireError`] says.
    pub fn commit(
        &mut self,
        group: &str,
        topic: &str,
        partitions: i32,
        offset: i64,
        metadata: &str,
    ) -> Result<(), WireError> {
        let mut body = Body::default();
        body.string(group)
            .i32(-1)
            .string("")
            .array(1)
            .string(topic)
            .array(partitions as usize);
        for partition in 0..partitions {
            body.i32(partition).i64(offset).i32(-1).string(metadata);
        }
        let mut answer = self.call(8, 6, &body)?;
        answer.i32()?;
        answer.one()?;
        answer.string()?;
        for _ in 0..answer.i32()? {
            answer.i32()?;
            answer.error_code()?;
        }
        Ok(())
    }

    /// Asks for the coordinator of a group, which makes the topic of groups.
    ///
    /// # Errors
    /// As [`WireError`] says.
    pub fn find_coordinator(&mut self, group: &str) -> Result<(), WireError> {
        let mut body = Body::default();
        body.string(group).i8(0);
        let mut answer = self.call(10, 1, &body)?;
        answer.i32()?;
        answer.error_code()
    }

    /// What is there from `offset`, waiting up to `max_wait` for a first byte. Batches are checked
    /// by their CRC.
    ///
    /// # Errors
    /// As [`WireError`] says.
    pub fn fetch(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        max_wait: Duration,
    ) -> Result<Fetched, WireError> {
        const MAX_BYTES: i32 = 4 << 20;
        let mut body = Body::default();
        body.i32(-1)
            .i32(max_wait.as_millis() as i32)
            .i32(1)
            .i32(MAX_BYTES)
            .i8(0)
            .i32(0)
            .i32(-1);
        body.array(1)
            .string(topic)
            .array(1)
            .i32(partition)
            .i32(-1)
            .i64(offset)
            .i64(-1)
            .i32(MAX_BYTES);
        body.array(0).string("");
        let mut answer = self.call(1, 11, &body)?;
        answer.i32()?;
        answer.error_code()?;
        answer.i32()?;
        answer.one()?;
        answer.string()?;
        answer.one()?;
        answer.i32()?;
        answer.error_code()?;
        let high_watermark = answer.i64()?;
        answer.i64()?;
        answer.i64()?;
        for _ in 0..answer.i32()? {
            // An aborted transaction: producer id, first offset.
            answer.i64()?;
            answer.i64()?;
        }
        answer.i32()?;
        let mut records = batch::decode_all(answer.bytes()?).map_err(WireError::Answer)?;
        // A fetch inside a batch gives the whole batch.
        records.retain(|record| record.offset >= offset);
        Ok(Fetched {
            high_watermark,
            records,
        })
    }

    /// Sends one request and waits for its answer.
    fn call(&mut self, api_key: i16, version: i16, body: &Body) -> Result<Answer, WireError> {
        self.correlation_id += 1;
        let mut header = Body::default();
        header
            .i16(api_key)
            .i16(version)
            .i32(self.correlation_id)
            .string("client-tests");
        let length = (header.0.len() + body.0.len()) as u32;
        self.stream
            .write_all(&[&length.to_be_bytes(), &header.0[..], &body.0[..]].concat())?;

        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut answer = Answer {
            bytes: vec![0; u32::from_be_bytes(length) as usize],
            at: 0,
        };
        self.stream.read_exact(&mut answer.bytes)?;
        let correlation_id = answer.i32()?;
        if correlation_id != self.correlation_id {
            let sent = self.correlation_id;
            return Err(WireError::Answer(format!(
                "correlation id {correlation_id} instead of {sent}"
            )));
        }
        Ok(answer)
    }
}

/// A request being written.
#[derive(Default)]
struct Body(Vec<u8>);

impl Body {
    fn i8(&mut self, value: i8) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    fn i16(&mut self, value: i16) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    fn i32(&mut self, value: i32) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    fn i64(&mut self, value: i64) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// The head of an array of `len` elements.
    fn array(&mut self, len: usize) -> &mut Self {
        self.i32(len as i32)
    }

    fn string(&mut self, value: &str) -> &mut Self {
        self.i16(value.len() as i16).raw(value.as_bytes())
    }

    fn null_string(&mut self) -> &mut Self {
        self.i16(-1)
    }

    fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.i32(value.len() as i32).raw(value)
    }

    fn raw(&mut self, value: &[u8]) -> &mut Self {
        self.0.extend_from_slice(value);
        self
    }
}

/// An answer being read.
struct Answer {
    bytes: Vec<u8>,
    at: usize,
}

impl Answer {
    fn i16(&mut self) -> Result<i16, WireError> {
        self.array().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Result<i32, WireError> {
        self.array().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Result<i64, WireError> {
        self.array().map(i64::from_be_bytes)
    }

    /// Skips a string or a null.
    fn string(&mut self) -> Result<(), WireError> {
        let len = self.i16()?;
        self.take(usize::try_from(len).unwrap_or(0)).map(|_| ())
    }

    /// Bytes; null is empty.
    fn bytes(&mut self) -> Result<&[u8], WireError> {
        let len = self.i32()?;
        self.take(usize::try_from(len).unwrap_or(0))
    }

    /// The head of an array that must have one element, since one thing was asked.
    fn one(&mut self) -> Result<(), WireError> {
        match self.i32()? {
            1 => Ok(()),
            len => Err(WireError::Answer(format!("{len} answers to one question"))),
        }
    }

    fn error_code(&mut self) -> Result<(), WireError> {
        match self.i16()? {
            0 => Ok(()),
            code => Err(WireError::Code(code)),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        self.take(N)
            .map(|bytes| bytes.try_into().expect("as many bytes as were taken"))
    }

    fn take(&mut self, len: usize) -> Result<&[u8], WireError> {
        let bytes = self
            .bytes
            .get(self.at..self.at.saturating_add(len))
            .ok_or_else(|| {
                WireError::Answer(format!("the answer ends at {} bytes", self.bytes.len()))
            })?;
        self.at += len;
        Ok(bytes)
    }
}
