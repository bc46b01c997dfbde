//! The records of a batch, read one by one.

use bytes::Bytes;

use super::batch::{BatchError, BatchHeader};
use super::check::RecordsError;
use super::compression::{Tables, decompress_with};
use super::varint::{take_i32, take_i64};
use super::walk::{RecordError, RecordFault};
use crate::effect::BATCH_HEADER_BYTES;
use crate::ids::Offset;

/// A batch with its records unpacked.
#[derive(Clone, Debug)]
pub struct BatchRecords {
    header: BatchHeader,
    payload: Bytes,
}

/// A record, borrowed from its batch. To keep a key or value beyond it without copying, take
/// [`BatchRecords::payload`]`.slice_ref(..)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp in milliseconds, or -1; the batch's time of append where that is in force.
    pub timestamp: i64,
    /// The key; `None` is null, which is not the empty key.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is null (a tombstone, in a compacted topic).
    pub value: Option<&'a [u8]>,
    /// Its headers, in order, duplicates and all (KIP-82).
    pub headers: RecordHeaders<'a>,
}

/// The headers of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeaders<'a> {
    count: usize,
    /// Known to hold `count` whole headers and nothing else.
    bytes: &'a [u8],
}

/// A header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader<'a> {
    /// Its key: UTF-8 by convention, which nobody checks.
    pub key: &'a [u8],
    /// Its value; `None` is null.
    pub value: Option<&'a [u8]>,
}

/// Reads the records of a batch in their order; ends after the first that is not valid.
#[derive(Clone, Debug)]
pub struct RecordIter<'a> {
    header: &'a BatchHeader,
    rest: &'a [u8],
    index: i32,
}

/// A place between two records of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordCursor {
    index: i32,
    position: usize,
}

impl BatchRecords {
    /// Unpacks the records of the batch at the front of `batch`, which may hold more. The CRC is
    /// not checked here. Without compression nothing is copied.
    ///
    /// # Errors
    /// If the header makes no sense, the batch is cut short, or its records cannot be unpacked or
    /// hold more than `max_decompressed_bytes`.
    pub fn open(batch: &Bytes, max_decompressed_bytes: usize) -> Result<Self, RecordsError> {
        Self::open_with(batch, max_decompressed_bytes, &mut Tables::default())
    }

    /// The same with tables that are there.
    ///
    /// # Errors
    /// As of [`open`](Self::open).
    pub fn open_with(
        batch: &Bytes,
        max_decompressed_bytes: usize,
        tables: &mut Tables,
    ) -> Result<Self, RecordsError> {
        let header = BatchHeader::parse(batch)?;
        let end = usize::try_from(header.size_bytes())
            .ok()
            .filter(|end| *end <= batch.len())
            .ok_or(BatchError::Truncated {
                needed: header.size_bytes(),
                found: batch.len() as u64,
            })?;
        let compression = header
            .compression()
            .ok_or(RecordsError::UnknownCompression(header.attributes & 7))?;
        let packed = batch.slice(BATCH_HEADER_BYTES..end);
        // What the cleaner emptied need not even hold the frame of its compression.
        let payload = if header.record_count == 0 {
            Bytes::new()
        } else {
            decompress_with(compression, &packed, max_decompressed_bytes, tables)
                .map_err(RecordsError::Compression)?
        };
        Ok(Self { header, payload })
    }

    /// The batch's header.
    #[must_use]
    pub const fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The records' bytes, unpacked.
    #[must_use]
    pub const fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// The records in their order.
    #[must_use]
    pub fn iter(&self) -> RecordIter<'_> {
        RecordIter {
            header: &self.header,
            rest: &self.payload,
            index: 0,
        }
    }

    /// The records from `cursor` on, which an earlier iteration over this batch left off at.
    #[must_use]
    pub fn iter_from(&self, cursor: RecordCursor) -> RecordIter<'_> {
        RecordIter {
            header: &self.header,
            rest: self.payload.get(cursor.position..).unwrap_or_default(),
            index: cursor.index,
        }
    }

    /// Where an iteration over this batch has come to.
    #[must_use]
    pub fn cursor(&self, iter: &RecordIter<'_>) -> RecordCursor {
        RecordCursor {
            index: iter.index,
            position: self.payload.len().saturating_sub(iter.rest.len()),
        }
    }

    /// The first record whose timestamp is at or after `timestamp` (ListOffsets by time).
    ///
    /// # Errors
    /// If a record before it is not valid.
    pub fn first_at_or_after(&self, timestamp: i64) -> Result<Option<Record<'_>>, RecordError> {
        self.iter()
            .find(|record| !matches!(record, Ok(record) if record.timestamp < timestamp))
            .transpose()
    }

    /// The first record that has the batch's largest timestamp (ListOffsets by -3).
    ///
    /// # Errors
    /// If a record is not valid.
    pub fn first_with_max_timestamp(&self) -> Result<Option<Record<'_>>, RecordError> {
        let mut best: Option<Record<'_>> = None;
        for record in self {
            let record = record?;
            if best.is_none_or(|best| best.timestamp < record.timestamp) {
                best = Some(record);
            }
        }
        Ok(best)
    }
}

impl<'a> IntoIterator for &'a BatchRecords {
    type Item = Result<Record<'a>, RecordError>;
    type IntoIter = RecordIter<'a>;
    fn into_iter(self) -> RecordIter<'a> {
        self.iter()
    }
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = Result<Record<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        let index = self.index;
        if index >= self.header.record_count {
            return None;
        }
        let record = take_record(self.header, &mut self.rest);
        self.index = match record {
            Ok(_) => index + 1,
            Err(_) => self.header.record_count,
        };
        Some(record.map_err(|fault| RecordError { index, fault }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // A header's count is a claim; every record takes seven bytes at least.
        let left = usize::try_from(self.header.record_count - self.index).unwrap_or(0);
        (0, Some(left.min(self.rest.len())))
    }
}

fn take_record<'a>(header: &BatchHeader, rest: &mut &'a [u8]) -> Result<Record<'a>, RecordFault> {
    if rest.is_empty() {
        return Err(RecordFault::Missing);
    }
    let length = take_i32(rest).ok_or(RecordFault::Varint)?;
    let length = usize::try_from(length).map_err(|_| RecordFault::NegativeLength(length))?;
    let mut body = take(rest, length).ok_or(RecordFault::Truncated)?;
    let _attributes = take(&mut body, 1).ok_or(RecordFault::Truncated)?;
    let timestamp_delta = take_i64(&mut body).ok_or(RecordFault::Varint)?;
    let offset_delta = take_i32(&mut body).ok_or(RecordFault::Varint)?;
    if offset_delta < 0 || offset_delta > header.last_offset_delta {
        return Err(RecordFault::OffsetDelta {
            found: offset_delta,
            expected: 0,
        });
    }
    let key = take_nullable(&mut body, RecordFault::Key)?;
    let value = take_nullable(&mut body, RecordFault::Value)?;
    Ok(Record {
        offset: header.base_offset.plus(i64::from(offset_delta)),
        timestamp: if header.is_log_append_time() {
            header.max_timestamp
        } else {
            header
                .base_timestamp
                .checked_add(timestamp_delta)
                .ok_or(RecordFault::Timestamp)?
        },
        key,
        value,
        headers: RecordHeaders::parse(body)?,
    })
}

impl<'a> RecordHeaders<'a> {
    /// Checks that `body` holds a count and so many headers to its end.
    fn parse(mut body: &'a [u8]) -> Result<Self, RecordFault> {
        let count = take_i32(&mut body).ok_or(RecordFault::Varint)?;
        let headers = Self {
            count: usize::try_from(count)
                .ok()
                .filter(|count| *count <= body.len() / 2)
                .ok_or(RecordFault::HeaderCount(count))?,
            bytes: body,
        };
        for _ in 0..count {
            take_header(&mut body)?;
        }
        if body.is_empty() {
            Ok(headers)
        } else {
            Err(RecordFault::Surplus(body.len()))
        }
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The headers in their order.
    pub fn iter(&self) -> impl Iterator<Item = RecordHeader<'a>> + use<'a> {
        let mut rest = self.bytes;
        (0..self.count).map_while(move |_| take_header(&mut rest).ok())
    }
}

fn take_header<'a>(rest: &mut &'a [u8]) -> Result<RecordHeader<'a>, RecordFault> {
    let key = take_nullable(rest, RecordFault::HeaderKey)?;
    Ok(RecordHeader {
        key: key.ok_or(RecordFault::HeaderKey(-1))?,
        value: take_nullable(rest, RecordFault::HeaderValue)?,
    })
}

fn take_nullable<'a>(
    rest: &mut &'a [u8],
    fault: impl FnOnce(i32) -> RecordFault,
) -> Result<Option<&'a [u8]>, RecordFault> {
    let length = take_i32(rest).ok_or(RecordFault::Varint)?;
    // Any negative length is null, as Kafka reads it.
    let Ok(bytes) = usize::try_from(length) else {
        return Ok(None);
    };
    take(rest, bytes).map(Some).ok_or_else(|| fault(length))
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}
