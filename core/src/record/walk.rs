//! A walk over the records of a batch that only validates: the hot loop of every produce.
//!
//! What it promises of a batch that passes: the records fill their payload to the last byte, every
//! key, value and header lies inside its record, there are as many records as the header says, and
//! their offset deltas are 0, 1, 2, ... (what Kafka's `LogValidator` asks of producers) or at least
//! rising and within the batch (what the cleaner leaves).
//!
//! Nothing is allocated, whatever the size of a record: of one that a decompression window cut in
//! two only the place where the cut was is remembered.

mod cut_record;

use core::fmt;

use self::cut_record::CutRecord;
use super::batch::{BatchHeader, RecordFacts, WithoutKey};
use super::varint::{take_i32, take_i64};

/// Walks over the records of a batch, given all at once.
///
/// # Errors
/// The first record that is not valid, and why.
pub fn walk_records(
    header: &BatchHeader,
    deltas: OffsetDeltas,
    records: &[u8],
) -> Result<RecordFacts, RecordError> {
    let mut walker = RecordWalker::new(header, deltas);
    walker.feed(records)?;
    walker.finish()
}

/// What the offset deltas of a batch's records may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetDeltas {
    /// 0, 1, 2, ...: what producers must send.
    Dense,
    /// Rising, none beyond the header's last: what a compacted log may hold.
    Rising,
}

/// The record that made a walk fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordError {
    /// Which record, from 0; the index after the last if the fault is in how many there are.
    pub index: i32,
    /// What is wrong with it.
    pub fault: RecordFault,
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFault {
    /// A variable-length number is cut short or does not fit its type.
    Varint,
    /// The record's length is negative.
    NegativeLength(i32),
    /// The payload ends inside the record.
    Truncated,
    /// The offset delta is not the next one, or not above the one before, or past the last.
    OffsetDelta {
        /// What the record says.
        found: i32,
        /// The least it may be.
        expected: i32,
    },
    /// The timestamp does not fit 64 bits.
    Timestamp,
    /// The key is longer than what is left of the record.
    Key(i32),
    /// The value is longer than what is left of the record.
    Value(i32),
    /// The number of headers is negative, or more than what is left of the record can hold.
    HeaderCount(i32),
    /// A header's key is missing or longer than what is left of the record.
    HeaderKey(i32),
    /// A header's value is longer than what is left of the record.
    HeaderValue(i32),
    /// The record is longer than its fields, by so many bytes.
    Surplus(usize),
    /// The payload ends where this record should begin.
    Missing,
    /// There is data after the last record.
    Unexpected,
}

/// A walk that takes its payload in pieces, cut anywhere.
#[derive(Debug)]
pub struct RecordWalker {
    deltas: OffsetDeltas,
    count: i32,
    last_offset_delta: i32,
    base_timestamp: i64,
    /// How many records were seen.
    index: i32,
    /// The least that the next offset delta may be.
    next_delta: i32,
    min_timestamp: i64,
    max_timestamp: i64,
    without_key: WithoutKey,
    bytes: u64,
    /// A record whose rest is in the next piece.
    cut: Option<CutRecord>,
}

/// A record without a timestamp has this one.
const NO_TIMESTAMP: i64 = -1;

impl RecordWalker {
    /// A walk over the records of the batch with this header.
    #[must_use]
    pub const fn new(header: &BatchHeader, deltas: OffsetDeltas) -> Self {
        Self {
            deltas,
            count: header.record_count,
            last_offset_delta: header.last_offset_delta,
            base_timestamp: header.base_timestamp,
            index: 0,
            next_delta: 0,
            min_timestamp: i64::MAX,
            max_timestamp: NO_TIMESTAMP,
            without_key: WithoutKey::NONE,
            bytes: 0,
            cut: None,
        }
    }

    /// Walks over the next piece of the payload.
    ///
    /// # Errors
    /// The first record that is not valid, after which the walk is over.
    pub fn feed(&mut self, mut piece: &[u8]) -> Result<(), RecordError> {
        self.bytes += piece.len() as u64;
        if let Some(cut) = self.cut.take() {
            self.go_on(cut, &mut piece)?;
        }
        while !piece.is_empty() {
            if self.index == self.count {
                return Err(self.error(RecordFault::Unexpected));
            }
            match whole_body(&mut piece) {
                Some(body) => self.body(body)?,
                None => self.go_on(CutRecord::default(), &mut piece)?,
            }
        }
        Ok(())
    }

    /// Goes on with a record that one piece does not hold.
    #[cold]
    fn go_on(&mut self, mut cut: CutRecord, piece: &mut &[u8]) -> Result<(), RecordError> {
        match cut.feed(self, piece) {
            Ok(true) => self.index += 1,
            Ok(false) => self.cut = Some(cut),
            Err(fault) => return Err(self.error(fault)),
        }
        Ok(())
    }

    /// Ends the walk: all records must have been there.
    ///
    /// # Errors
    /// The record that is missing or cut short.
    pub fn finish(self) -> Result<RecordFacts, RecordError> {
        if self.cut.is_some() {
            return Err(self.error(RecordFault::Truncated));
        }
        if self.index != self.count {
            return Err(self.error(RecordFault::Missing));
        }
        Ok(RecordFacts {
            without_key: self.without_key,
            min_timestamp: if self.min_timestamp == i64::MAX {
                NO_TIMESTAMP
            } else {
                self.min_timestamp
            },
            max_timestamp: self.max_timestamp,
            uncompressed_bytes: self.bytes,
        })
    }

    /// Walks over one record, given without its length.
    #[inline]
    fn body(&mut self, mut body: &[u8]) -> Result<(), RecordError> {
        match self.fields(&mut body) {
            Ok(()) if body.is_empty() => {
                self.index += 1;
                Ok(())
            }
            Ok(()) => Err(self.error(RecordFault::Surplus(body.len()))),
            Err(fault) => Err(self.error(fault)),
        }
    }

    #[inline]
    fn fields(&mut self, body: &mut &[u8]) -> Result<(), RecordFault> {
        let (_attributes, rest) = body.split_first().ok_or(RecordFault::Truncated)?;
        *body = rest;
        self.timestamp_delta(take_i64(body).ok_or(RecordFault::Varint)?)?;
        self.offset_delta(take_i32(body).ok_or(RecordFault::Varint)?)?;
        let key = take_i32(body).ok_or(RecordFault::Varint)?;
        self.key(key);
        skip(body, key).ok_or(RecordFault::Key(key))?;
        let value = take_i32(body).ok_or(RecordFault::Varint)?;
        skip(body, value).ok_or(RecordFault::Value(value))?;

        let headers = take_i32(body).ok_or(RecordFault::Varint)?;
        if headers == 0 {
            return Ok(());
        }
        check_header_count(headers, body.len())?;
        for _ in 0..headers {
            let key = take_i32(body).ok_or(RecordFault::Varint)?;
            if key < 0 {
                return Err(RecordFault::HeaderKey(key));
            }
            skip(body, key).ok_or(RecordFault::HeaderKey(key))?;
            let value = take_i32(body).ok_or(RecordFault::Varint)?;
            skip(body, value).ok_or(RecordFault::HeaderValue(value))?;
        }
        Ok(())
    }

    #[inline]
    fn timestamp_delta(&mut self, delta: i64) -> Result<(), RecordFault> {
        let timestamp = self
            .base_timestamp
            .checked_add(delta)
            .ok_or(RecordFault::Timestamp)?;
        if timestamp != NO_TIMESTAMP {
            self.min_timestamp = self.min_timestamp.min(timestamp);
            self.max_timestamp = self.max_timestamp.max(timestamp);
        }
        Ok(())
    }

    #[inline]
    fn offset_delta(&mut self, found: i32) -> Result<(), RecordFault> {
        let in_order = match self.deltas {
            OffsetDeltas::Dense => found == self.next_delta,
            OffsetDeltas::Rising => found >= self.next_delta && found <= self.last_offset_delta,
        };
        if !in_order {
            return Err(RecordFault::OffsetDelta {
                found,
                expected: self.next_delta,
            });
        }
        self.next_delta = found.wrapping_add(1);
        Ok(())
    }

    #[inline]
    fn key(&mut self, length: i32) {
        if length < 0 {
            self.without_key.insert(self.index);
        }
    }

    #[cold]
    fn error(&self, fault: RecordFault) -> RecordError {
        RecordError {
            index: self.index,
            fault,
        }
    }
}

/// Takes a whole record off the front and gives it without its length; `None` if the piece ends
/// inside it, or its length is no length.
#[inline]
fn whole_body<'a>(piece: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut rest = *piece;
    let length = usize::try_from(take_i32(&mut rest)?).ok()?;
    let (body, rest) = rest.split_at_checked(length)?;
    *piece = rest;
    Some(body)
}

fn check_header_count(count: i32, left: usize) -> Result<(), RecordFault> {
    // Two bytes are the least a header takes.
    if count < 0 || count as usize > left / 2 {
        return Err(RecordFault::HeaderCount(count));
    }
    Ok(())
}

/// Skips a field of that length; a negative one is null and takes no bytes, as Kafka reads it.
#[inline]
fn skip(body: &mut &[u8], length: i32) -> Option<()> {
    if length > 0 {
        *body = body.get(length as usize..)?;
    }
    Some(())
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}: {}", self.index, self.fault)
    }
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Varint => f.write_str("a number is cut short or too large"),
            Self::NegativeLength(length) => write!(f, "its length is {length}"),
            Self::Truncated => f.write_str("it is cut short"),
            Self::OffsetDelta { found, expected } => {
                write!(f, "its offset delta is {found}, expected {expected}")
            }
            Self::Timestamp => f.write_str("its timestamp does not fit 64 bits"),
            Self::Key(length) => write!(f, "a key of {length} bytes is longer than the record"),
            Self::Value(length) => write!(f, "a value of {length} bytes is longer than the record"),
            Self::HeaderCount(count) => write!(f, "it cannot have {count} headers"),
            Self::HeaderKey(length) => write!(f, "a header key cannot have {length} bytes"),
            Self::HeaderValue(length) => {
                write!(
                    f,
                    "a header value of {length} bytes is longer than the record"
                )
            }
            Self::Surplus(bytes) => write!(f, "{bytes} bytes follow its fields"),
            Self::Missing => f.write_str("it is missing"),
            Self::Unexpected => f.write_str("data follows the last record"),
        }
    }
}

impl core::error::Error for RecordError {}
