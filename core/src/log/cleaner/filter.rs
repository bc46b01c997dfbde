//! What stays of a batch: Kafka's `Cleaner.shouldRetainRecord` and `MemoryRecords.filterTo`.
//!
//! A record stays if the map knows no newer one of its key. A record without a value, a tombstone,
//! goes too once `delete.retention.ms` have passed since a cleaning saw it first; that instant is
//! the delete horizon (KIP-534), which the batch carries in place of its base timestamp. What is left of a
//! batch keeps base offset, last offset delta, producer fields and compression, and gets a new CRC.

use alloc::vec::Vec;

use bytes::Bytes;

use super::offset_map::OffsetMap;
use crate::bugs::{Bug, Bugs};
use crate::effect::BATCH_HEADER_BYTES;
use crate::ids::Offset;
use crate::record::batch::{BatchHeader, Compression, computed_crc};
use crate::record::check::Limits;
use crate::record::compression::compress;
use crate::record::records::BatchRecords;
use crate::record::varint::{len_i32, len_i64, put_i32, put_i64, take_i32, take_i64};

/// By what records are judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The newest offset of each key.
    pub map: OffsetMap,
    /// Above it the map says nothing, and everything stays.
    pub map_end: Offset,
    /// Now, in milliseconds.
    pub now_ms: i64,
    /// `delete.retention.ms`.
    pub delete_retention_ms: i64,
    /// The planted bug, if any.
    pub bugs: Bugs,
}

/// What stays of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Filtered {
    /// All of it, as it is.
    Same,
    /// This.
    Changed(Bytes),
    /// No record.
    Nothing,
}

/// The records of a batch cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

/// A record in its batch.
#[derive(Clone, Copy, Debug)]
struct Raw<'a> {
    attributes: u8,
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&'a [u8]>,
    has_value: bool,
    /// From the key's length on.
    rest: &'a [u8],
    /// With its length in front.
    whole: &'a [u8],
}

impl Retention {
    /// Filters a batch whose CRC holds.
    pub(crate) fn filter(
        &self,
        batch: &Bytes,
        header: &BatchHeader,
    ) -> Result<Filtered, Unreadable> {
        let limit = Limits::default().max_decompressed_bytes;
        let records = BatchRecords::open(batch, limit).map_err(|_| Unreadable)?;
        let mut rest: &[u8] = records.payload();
        let mut kept = Vec::new();
        for _ in 0..header.record_count {
            let raw = Raw::take(&mut rest).ok_or(Unreadable)?;
            if self.keeps(header, &raw) {
                kept.push(raw);
            }
        }
        if kept.is_empty() {
            return Ok(if header.record_count == 0 {
                Filtered::Same
            } else {
                Filtered::Nothing
            });
        }
        let all = kept.len() == usize::try_from(header.record_count).unwrap_or(0);
        let horizon = self.new_horizon(header, &kept);
        if all && horizon.is_none() {
            return Ok(Filtered::Same);
        }
        Ok(Filtered::Changed(self.rebuild(header, &kept, horizon)))
    }

    fn keeps(&self, header: &BatchHeader, record: &Raw<'_>) -> bool {
        let offset = header.base_offset.plus(i64::from(record.offset_delta));
        let Some(key) = record.key else {
            // A topic that was not compacted once may have such records. Kafka drops them too.
            return offset >= self.map_end;
        };
        let newest = self.map.get(key, self.bugs);
        if self.bugs.has(Bug::CleanerKeepsFirst) {
            return newest.is_none_or(|first| offset <= first);
        }
        if offset >= self.map_end {
            return !self.bugs.has(Bug::CleanerDropsAboveMap) || newest.is_none();
        }
        let expired = match header.delete_horizon_ms() {
            _ if self.bugs.has(Bug::DropTombstonesEarly) => true,
            Some(horizon) => horizon <= self.now_ms,
            None => false,
        };
        newest.is_none_or(|newest| offset >= newest) && (record.has_value || !expired)
    }

    /// The delete horizon of a batch that gets one now: the first time that it is cleaned with a
    /// tombstone in it.
    fn new_horizon(&self, header: &BatchHeader, kept: &[Raw<'_>]) -> Option<i64> {
        let wants = header.delete_horizon_ms().is_none() && kept.iter().any(|raw| !raw.has_value);
        let horizon = self.now_ms.saturating_add(self.delete_retention_ms);
        // Where the records' own times could not be said any more, the tombstones stay.
        let fits = |raw: &Raw<'_>| {
            let timestamp = header.base_timestamp.checked_add(raw.timestamp_delta);
            timestamp.is_some_and(|timestamp| timestamp.checked_sub(horizon).is_some())
        };
        (wants && kept.iter().all(fits)).then_some(horizon)
    }

    fn rebuild(&self, header: &BatchHeader, kept: &[Raw<'_>], horizon: Option<i64>) -> Bytes {
        let mut payload = Vec::new();
        for raw in kept {
            match horizon {
                None => payload.extend_from_slice(raw.whole),
                Some(horizon) => {
                    let timestamp = header.base_timestamp.wrapping_add(raw.timestamp_delta);
                    raw.put(timestamp.wrapping_sub(horizon), &mut payload);
                }
            }
        }
        let timestamps = kept
            .iter()
            .map(|raw| header.base_timestamp.saturating_add(raw.timestamp_delta));
        let mut fresh = *header;
        fresh.record_count = kept.len() as i32;
        if !header.is_log_append_time() {
            fresh.max_timestamp = timestamps.max().unwrap_or(-1);
        }
        if let Some(horizon) = horizon {
            fresh.set_delete_horizon(horizon);
        }
        if self.bugs.has(Bug::CleanedBatchEndMoves) {
            fresh.last_offset_delta = kept.last().map_or(0, |raw| raw.offset_delta);
        }
        let compression = header.compression().unwrap_or(Compression::None);
        whole_batch(fresh, &compress(compression, &payload))
    }
}

/// What is left of a batch without records that is kept for its producer, or as the end of a segment:
/// a header.
pub(crate) fn emptied(header: &BatchHeader) -> Bytes {
    let mut fresh = header.without_records();
    fresh.base_timestamp = -1;
    if !header.has_producer_id() {
        // No index names a time that no record has.
        fresh.max_timestamp = -1;
    }
    whole_batch(fresh, &[])
}

fn whole_batch(mut header: BatchHeader, payload: &[u8]) -> Bytes {
    header.set_size_bytes(BATCH_HEADER_BYTES + payload.len());
    let mut bytes = Vec::with_capacity(BATCH_HEADER_BYTES + payload.len());
    bytes.extend_from_slice(&header.encode());
    bytes.extend_from_slice(payload);
    header.crc = computed_crc(&bytes).expect("the header is there");
    if let Some(front) = bytes.first_chunk_mut() {
        *front = header.encode();
    }
    Bytes::from(bytes)
}

impl<'a> Raw<'a> {
    fn take(input: &mut &'a [u8]) -> Option<Self> {
        let before = *input;
        let length = usize::try_from(take_i32(input)?).ok()?;
        let (mut body, rest) = input.split_at_checked(length)?;
        *input = rest;
        let whole = before.get(..before.len() - rest.len())?;
        let (attributes, after) = body.split_first()?;
        body = after;
        let timestamp_delta = take_i64(&mut body)?;
        let offset_delta = take_i32(&mut body)?;
        let fields = body;
        let key = match usize::try_from(take_i32(&mut body)?) {
            Ok(length) => {
                let (key, after) = body.split_at_checked(length)?;
                body = after;
                Some(key)
            }
            Err(_) => None,
        };
        let has_value = take_i32(&mut body)? >= 0;
        Some(Self {
            attributes: *attributes,
            timestamp_delta,
            offset_delta,
            key,
            has_value,
            rest: fields,
            whole,
        })
    }

    fn put(&self, timestamp_delta: i64, out: &mut Vec<u8>) {
        let body = 1 + len_i64(timestamp_delta) + len_i32(self.offset_delta) + self.rest.len();
        put_i32(out, i32::try_from(body).unwrap_or(i32::MAX));
        out.push(self.attributes);
        put_i64(out, timestamp_delta);
        put_i32(out, self.offset_delta);
        out.extend_from_slice(self.rest);
    }
}
