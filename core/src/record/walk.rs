//! A walk over the records of a batch that only validates: the hot loop of every produce.
//!
//! What it promises of a batch that passes: the records fill their payload to the last byte, every
//! key, value and header lies inside its record, there are as many records as the header says, and
//! their offset deltas are 0, 1, 2, ... (what Kafka's `LogValidator` asks of producers) or at least
//! rising and within the batch (what the cleaner leaves).
//!
//! Nothing is allocated, but for a record that a decompression window cut in two: that one is
//! put together in a buffer which grows with what was really decompressed.

use alloc::vec::Vec;
use core::fmt;

use super::batch::{BatchHeader, RecordFacts};
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
    record_without_key: bool,
    bytes: u64,
    /// The first part of a record whose rest is in the next piece.
    cut: Vec<u8>,
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
            record_without_key: false,
            bytes: 0,
            cut: Vec::new(),
        }
    }

    /// Walks over the next piece of the payload.
    ///
    /// # Errors
    /// The first record that is not valid, after which the walk is over.
    pub fn feed(&mut self, mut piece: &[u8]) -> Result<(), RecordError> {
        self.bytes += piece.len() as u64;
        if !self.cut.is_empty() && !self.complete_cut(&mut piece)? {
            return Ok(());
        }
        while !piece.is_empty() {
            let record = piece;
            match self.split_body(&mut piece)? {
                Some(body) => self.body(body)?,
                None => {
                    self.cut.extend_from_slice(record);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Ends the walk: all records must have been there.
    ///
    /// # Errors
    /// The record that is missing or cut short.
    pub fn finish(self) -> Result<RecordFacts, RecordError> {
        if !self.cut.is_empty() {
            return Err(self.error(RecordFault::Truncated));
        }
        if self.index != self.count {
            return Err(self.error(RecordFault::Missing));
        }
        Ok(RecordFacts {
            record_without_key: self.record_without_key,
            min_timestamp: if self.min_timestamp == i64::MAX {
                NO_TIMESTAMP
            } else {
                self.min_timestamp
            },
            max_timestamp: self.max_timestamp,
            uncompressed_bytes: self.bytes,
        })
    }

    /// Moves bytes of `piece` to the cut record until that is whole and walked over; `false` if
    /// the piece did not suffice.
    fn complete_cut(&mut self, piece: &mut &[u8]) -> Result<bool, RecordError> {
        let mut cut = core::mem::take(&mut self.cut);
        loop {
            // How much is missing is known once the length is there; until then, byte by byte.
            let mut rest = cut.as_slice();
            let missing = match self.body_length(&mut rest)? {
                None => 1,
                Some(length) if length > rest.len() => length - rest.len(),
                Some(_) => {
                    self.body(rest)?;
                    return Ok(true);
                }
            };
            let Some((head, tail)) = piece.split_at_checked(missing) else {
                cut.extend_from_slice(piece);
                self.cut = cut;
                return Ok(false);
            };
            cut.extend_from_slice(head);
            *piece = tail;
        }
    }

    /// Takes a whole record's body off the front; `None` if the piece ends before the record.
    #[inline]
    fn split_body<'a>(&self, piece: &mut &'a [u8]) -> Result<Option<&'a [u8]>, RecordError> {
        let Some(length) = self.body_length(piece)? else {
            return Ok(None);
        };
        let Some((body, rest)) = piece.split_at_checked(length) else {
            return Ok(None);
        };
        *piece = rest;
        Ok(Some(body))
    }

    /// Takes the length of the next record off the front; `None` if the piece ends inside it.
    #[inline]
    fn body_length(&self, piece: &mut &[u8]) -> Result<Option<usize>, RecordError> {
        if self.index == self.count {
            return Err(self.error(RecordFault::Unexpected));
        }
        match take_i32(piece) {
            Some(length) => match usize::try_from(length) {
                Ok(length) => Ok(Some(length)),
                Err(_) => Err(self.error(RecordFault::NegativeLength(length))),
            },
            // Five bytes hold any 32-bit number: with as many there, it is not merely cut.
            None if piece.len() >= 5 => Err(self.error(RecordFault::Varint)),
            None => Ok(None),
        }
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
        let timestamp_delta = take_i64(body).ok_or(RecordFault::Varint)?;
        let timestamp = self
            .base_timestamp
            .checked_add(timestamp_delta)
            .ok_or(RecordFault::Timestamp)?;
        if timestamp != NO_TIMESTAMP {
            self.min_timestamp = self.min_timestamp.min(timestamp);
            self.max_timestamp = self.max_timestamp.max(timestamp);
        }

        let offset_delta = take_i32(body).ok_or(RecordFault::Varint)?;
        let in_order = match self.deltas {
            OffsetDeltas::Dense => offset_delta == self.next_delta,
            OffsetDeltas::Rising => {
                offset_delta >= self.next_delta && offset_delta <= self.last_offset_delta
            }
        };
        if !in_order {
            return Err(RecordFault::OffsetDelta {
                found: offset_delta,
                expected: self.next_delta,
            });
        }
        self.next_delta = offset_delta.wrapping_add(1);

        let key = take_i32(body).ok_or(RecordFault::Varint)?;
        self.record_without_key |= key < 0;
        skip(body, key).ok_or(RecordFault::Key(key))?;
        let value = take_i32(body).ok_or(RecordFault::Varint)?;
        skip(body, value).ok_or(RecordFault::Value(value))?;

        let headers = take_i32(body).ok_or(RecordFault::Varint)?;
        if headers == 0 {
            return Ok(());
        }
        // Two bytes are the least a header takes.
        if headers < 0 || headers as usize > body.len() / 2 {
            return Err(RecordFault::HeaderCount(headers));
        }
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

    #[cold]
    fn error(&self, fault: RecordFault) -> RecordError {
        RecordError {
            index: self.index,
            fault,
        }
    }
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
