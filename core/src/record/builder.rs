//! Writes a batch record by record: for the producer, for the logs that the broker keeps for
//! itself, and for tests.

use alloc::vec::Vec;

use bytes::Bytes;

use super::batch::{BatchHeader, Compression, computed_crc};
use super::compression::{Tables, compress_with};
use super::varint::{len_i32, len_i64, put_i32, put_i64};
use crate::effect::BATCH_HEADER_BYTES;
use crate::ids::{LeaderEpoch, Offset};

/// A batch under construction.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    max_bytes: usize,
    /// Room for the header, then the records.
    bytes: Vec<u8>,
    count: i32,
    base_timestamp: i64,
    max_timestamp: i64,
}

/// What a batch says beside its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchFields {
    /// How to compress the records.
    pub compression: Compression,
    /// Offset of the first record: 0 in what a producer sends.
    pub base_offset: Offset,
    /// Epoch of the leader: -1 in what a producer sends.
    pub leader_epoch: LeaderEpoch,
    /// The idempotent producer that writes it.
    pub producer: Option<ProducerFields>,
    /// Whether it is part of a transaction.
    pub transactional: bool,
    /// Whether its records are markers.
    pub control: bool,
}

/// What an idempotent producer says of a batch (KIP-98).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerFields {
    /// Its id.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
    /// Sequence number of the first record.
    pub base_sequence: i32,
}

impl Default for BatchFields {
    /// As a producer without idempotence sends it.
    fn default() -> Self {
        Self {
            compression: Compression::None,
            base_offset: Offset(0),
            leader_epoch: LeaderEpoch(-1),
            producer: None,
            transactional: false,
            control: false,
        }
    }
}

impl BatchBuilder {
    /// A batch without records, which may grow to `max_bytes` before compression, its header
    /// included.
    #[must_use]
    pub const fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            bytes: Vec::new(),
            count: 0,
            base_timestamp: -1,
            max_timestamp: -1,
        }
    }

    /// Adds a record with a timestamp in milliseconds, or -1 for none. `false` if it does not fit,
    /// and then nothing is added. The first record fits whatever its size, as far as the format
    /// goes: a batch of one cannot be made smaller, and what is too large is the broker's to say.
    #[must_use]
    pub fn append(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> bool {
        let base_timestamp = if self.is_empty() {
            timestamp
        } else {
            self.base_timestamp
        };
        let Some(timestamp_delta) = timestamp.checked_sub(base_timestamp) else {
            return false;
        };
        let body = 1
            + len_i64(timestamp_delta)
            + len_i32(self.count)
            + len_nullable(key)
            + len_nullable(value)
            + len_i32(headers.len() as i32)
            + headers
                .iter()
                .map(|(key, value)| len_nullable(Some(key)) + len_nullable(*value))
                .sum::<usize>();
        let size = self.estimated_size() + body + 5;
        // The batch's length is a 32-bit number, and so is all that is inside.
        if size > i32::MAX as usize || (size > self.max_bytes && !self.is_empty()) {
            return false;
        }

        if self.is_empty() {
            self.bytes.resize(BATCH_HEADER_BYTES, 0);
        }
        let out = &mut self.bytes;
        put_i32(out, body as i32);
        out.push(0);
        put_i64(out, timestamp_delta);
        put_i32(out, self.count);
        put_nullable(out, key);
        put_nullable(out, value);
        put_i32(out, headers.len() as i32);
        for (key, value) in headers {
            put_nullable(out, Some(key));
            put_nullable(out, *value);
        }
        self.base_timestamp = base_timestamp;
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.count += 1;
        true
    }

    /// How many records it has.
    #[must_use]
    pub const fn record_count(&self) -> i32 {
        self.count
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Size of the batch before compression, in bytes.
    #[must_use]
    pub const fn estimated_size(&self) -> usize {
        if self.is_empty() {
            BATCH_HEADER_BYTES
        } else {
            self.bytes.len()
        }
    }

    /// Ends the batch: the whole of it, with its CRC.
    ///
    /// # Panics
    /// If it has no records: there is no such batch.
    #[must_use]
    pub fn build(self, fields: BatchFields) -> Bytes {
        self.build_with(fields, &mut Tables::default())
    }

    /// The same with tables that are there.
    ///
    /// # Panics
    /// As [`build`](Self::build).
    #[must_use]
    pub fn build_with(self, fields: BatchFields, tables: &mut Tables) -> Bytes {
        assert!(!self.is_empty(), "a batch has a record");
        let mut bytes = self.bytes;
        if fields.compression != Compression::None {
            let records = bytes.get(BATCH_HEADER_BYTES..).unwrap_or_default();
            let packed = compress_with(fields.compression, records, tables);
            bytes.truncate(BATCH_HEADER_BYTES);
            bytes.extend_from_slice(&packed);
        }
        let mut header = BatchHeader {
            base_offset: fields.base_offset,
            batch_length: 0,
            leader_epoch: fields.leader_epoch,
            crc: 0,
            attributes: BatchHeader::attributes_of(
                fields.compression,
                fields.transactional,
                fields.control,
            ),
            last_offset_delta: self.count - 1,
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            producer_id: fields.producer.map_or(-1, |p| p.producer_id),
            producer_epoch: fields.producer.map_or(-1, |p| p.producer_epoch),
            base_sequence: fields.producer.map_or(-1, |p| p.base_sequence),
            record_count: self.count,
        };
        seal(&mut bytes, &mut header);
        Bytes::from(bytes)
    }
}

/// Puts the header of a batch into its place, with the batch's length and CRC.
///
/// # Panics
/// If there is no place for it.
pub(super) fn seal(bytes: &mut [u8], header: &mut BatchHeader) {
    header.set_size_bytes(bytes.len());
    set_header(bytes, header);
    header.crc = computed_crc(bytes).expect("the header is there");
    set_header(bytes, header);
}

fn set_header(batch: &mut [u8], header: &BatchHeader) {
    *batch
        .first_chunk_mut()
        .expect("a batch with a record has room for its header") = header.encode();
}

fn len_nullable(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |bytes| {
        // A length that does not fit is longer than any batch, and refused for that.
        len_i32(i32::try_from(bytes.len()).unwrap_or(i32::MAX)) + bytes.len()
    })
}

fn put_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => put_i32(out, -1),
        Some(bytes) => {
            put_i32(out, bytes.len() as i32);
            out.extend_from_slice(bytes);
        }
    }
}
