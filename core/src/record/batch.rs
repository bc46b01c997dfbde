//! The header of a record batch, and a batch that has been checked as a whole.
//!
//! ```text
//!  0 base offset            i64   \
//!  8 batch length           i32    | outside the CRC: the broker patches base offset and leader
//! 12 partition leader epoch i32    | epoch without touching the rest
//! 16 magic (2)              i8     |
//! 17 CRC-32C                u32   /
//! 21 attributes             i16   \
//! 23 last offset delta      i32    |
//! 27 base timestamp         i64    |
//! 35 max timestamp          i64    | covered by the CRC, to the end of the batch
//! 43 producer id            i64    |
//! 51 producer epoch         i16    |
//! 53 base sequence          i32    |
//! 57 record count           i32    |
//! 61 records, as one compressed block if the attributes say so
//! ```

use core::fmt;

use bytes::Bytes;

use super::crc::change_past;
use crate::effect::{BATCH_HEADER_BYTES, WriteData};
use crate::ids::{LeaderEpoch, Offset};
use crate::time::Wall;

/// The fields of a batch header, in the order of the format. Parsing checks that they make sense
/// among themselves, not the CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Bytes that follow this field: the whole batch is 12 longer.
    pub batch_length: u32,
    /// Epoch of the leader that appended it; -1 in what a producer sends.
    pub leader_epoch: LeaderEpoch,
    /// CRC-32C of everything from the attributes on.
    pub crc: u32,
    /// Compression (bits 0-2), timestamp type (3), transactional (4), control (5), whether the base
    /// timestamp is the delete horizon (6, KIP-534).
    pub attributes: i16,
    /// Offset of the last record, relative to the base.
    pub last_offset_delta: i32,
    /// Timestamp of the first record, or -1.
    pub base_timestamp: i64,
    /// Largest timestamp, or -1.
    pub max_timestamp: i64,
    /// Producer id, or -1.
    pub producer_id: i64,
    /// Producer epoch, or -1.
    pub producer_epoch: i16,
    /// Sequence number of the first record, or -1.
    pub base_sequence: i32,
    /// Number of records. Below `last_offset_delta + 1` only where the cleaner removed some.
    pub record_count: i32,
}

/// A batch that was checked outside the step: header, CRC, every record.
#[derive(Clone, Debug)]
pub struct CheckedBatch {
    /// Its header.
    pub header: BatchHeader,
    /// The whole batch, sliced from the frame unless it was compressed anew.
    pub bytes: Bytes,
    /// Bytes of the batch as it came.
    pub arrived_bytes: u64,
    /// What the walk over the records found.
    pub facts: RecordFacts,
}

/// What a walk over the records of a batch finds out; judged against configs in the step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordFacts {
    /// Which records have no key.
    pub without_key: WithoutKey,
    /// Smallest timestamp among the records that have one; -1 if none has.
    pub min_timestamp: i64,
    /// Largest timestamp of a record; -1 if none has one.
    pub max_timestamp: i64,
    /// Bytes of the records once decompressed; without compression, of what follows the header.
    pub uncompressed_bytes: u64,
}

/// Which records of a batch have no key. The first 127 are told apart, which costs neither memory
/// nor time on the way of a batch that is accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WithoutKey(u128);

impl WithoutKey {
    /// Every record has a key.
    pub const NONE: Self = Self(0);

    /// The bit that stands for all records from its number on.
    const LATER: i32 = 127;

    /// The record of this number, from 0, has no key.
    pub const fn insert(&mut self, index: i32) {
        let bit = if index < Self::LATER {
            index
        } else {
            Self::LATER
        };
        self.0 |= 1 << bit;
    }

    /// Whether each record has a key.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The numbers of those that are told apart.
    pub fn iter(self) -> impl Iterator<Item = i32> {
        (0..Self::LATER).filter(move |bit| self.0 >> bit & 1 == 1)
    }
}

/// How the records of a batch are compressed: bits 0-2 of the attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// RFC 1952.
    Gzip,
    /// Snappy, unframed or in xerial's framing.
    Snappy,
    /// The LZ4 frame format.
    Lz4,
    /// Zstandard, since Produce 7 and Fetch 10 (KIP-110).
    Zstd,
}

/// Why bytes are not a batch. Says what was found and, where it is not plain, what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchError {
    /// Fewer bytes than the header, or than the header's length says.
    Truncated {
        /// Bytes needed, as far as known.
        needed: u64,
        /// Bytes there.
        found: u64,
    },
    /// The magic byte is not 2.
    Magic(i8),
    /// `batch_length` is below 49, which a header alone needs.
    Length(i32),
    /// The base offset is negative, or so large that the batch would run past the last offset.
    BaseOffset(i64),
    /// `last_offset_delta` is negative.
    LastOffsetDelta(i32),
    /// The record count is negative or more than the offsets have room for.
    RecordCount {
        /// What the header says.
        count: i32,
        /// The last offset delta beside it.
        last_offset_delta: i32,
    },
    /// The CRC does not hold.
    Crc {
        /// In the header.
        stored: u32,
        /// Of the bytes.
        computed: u32,
    },
}

/// `batch_length` counts from the byte after itself.
const LENGTH_OVERHEAD: u32 = 12;
/// What `batch_length` is for a batch without records.
const MIN_BATCH_LENGTH: i32 = BATCH_HEADER_BYTES as i32 - LENGTH_OVERHEAD as i32;
/// Where what the CRC covers begins.
const CRC_COVERS_FROM: usize = 21;

const COMPRESSION_MASK: i16 = 0b111;
const LOG_APPEND_TIME: i16 = 1 << 3;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
const DELETE_HORIZON: i16 = 1 << 6;

impl BatchHeader {
    /// Reads and checks the header at the front of `bytes`, of which only the first 61 are looked
    /// at. The CRC is [`verify_crc`]'s business.
    ///
    /// # Errors
    /// A [`BatchError`] other than `Crc`.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        // The magic comes first: a message of magic 0 or 1 may be shorter than our header.
        match raw::magic(bytes) {
            Some(2) => {}
            Some(magic) => return Err(BatchError::Magic(magic)),
            None => return Err(truncated(17, bytes)),
        }
        let Some(bytes) = bytes.first_chunk::<BATCH_HEADER_BYTES>() else {
            return Err(truncated(BATCH_HEADER_BYTES as u64, bytes));
        };
        let mut fields = Fields(bytes);
        let base_offset = i64::from_be_bytes(fields.take());
        let batch_length = i32::from_be_bytes(fields.take());
        let leader_epoch = LeaderEpoch(i32::from_be_bytes(fields.take()));
        let _magic: [u8; 1] = fields.take();
        let crc = u32::from_be_bytes(fields.take());
        let attributes = i16::from_be_bytes(fields.take());
        let last_offset_delta = i32::from_be_bytes(fields.take());
        let base_timestamp = i64::from_be_bytes(fields.take());
        let max_timestamp = i64::from_be_bytes(fields.take());
        let producer_id = i64::from_be_bytes(fields.take());
        let producer_epoch = i16::from_be_bytes(fields.take());
        let base_sequence = i32::from_be_bytes(fields.take());
        let record_count = i32::from_be_bytes(fields.take());

        if batch_length < MIN_BATCH_LENGTH {
            return Err(BatchError::Length(batch_length));
        }
        if last_offset_delta < 0 {
            return Err(BatchError::LastOffsetDelta(last_offset_delta));
        }
        if base_offset < 0
            || base_offset
                .checked_add(i64::from(last_offset_delta) + 1)
                .is_none()
        {
            return Err(BatchError::BaseOffset(base_offset));
        }
        if record_count < 0 || i64::from(record_count) > i64::from(last_offset_delta) + 1 {
            return Err(BatchError::RecordCount {
                count: record_count,
                last_offset_delta,
            });
        }
        Ok(Self {
            base_offset: Offset(base_offset),
            batch_length: batch_length as u32,
            leader_epoch,
            crc,
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            record_count,
        })
    }

    /// The header's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; BATCH_HEADER_BYTES] {
        let mut bytes = [0; BATCH_HEADER_BYTES];
        let mut rest = bytes.as_mut_slice();
        let mut put = |field: &[u8]| {
            let (head, tail) = core::mem::take(&mut rest)
                .split_at_mut_checked(field.len())
                .expect("the fields below are 61 bytes together");
            head.copy_from_slice(field);
            rest = tail;
        };
        put(&self.base_offset.0.to_be_bytes());
        put(&self.batch_length.to_be_bytes());
        put(&self.leader_epoch.0.to_be_bytes());
        put(&[2]);
        put(&self.crc.to_be_bytes());
        put(&self.attributes.to_be_bytes());
        put(&self.last_offset_delta.to_be_bytes());
        put(&self.base_timestamp.to_be_bytes());
        put(&self.max_timestamp.to_be_bytes());
        put(&self.producer_id.to_be_bytes());
        put(&self.producer_epoch.to_be_bytes());
        put(&self.base_sequence.to_be_bytes());
        put(&self.record_count.to_be_bytes());
        bytes
    }

    /// Length of the whole batch in bytes.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.batch_length as u64 + LENGTH_OVERHEAD as u64
    }

    /// Offset of the last record.
    #[must_use]
    pub const fn last_offset(&self) -> Offset {
        self.base_offset.plus(self.last_offset_delta as i64)
    }

    /// The offset that follows the batch.
    #[must_use]
    pub const fn next_offset(&self) -> Offset {
        self.base_offset.plus(self.last_offset_delta as i64 + 1)
    }

    /// How the records are compressed; `None` if it is a way that does not exist.
    #[must_use]
    pub const fn compression(&self) -> Option<Compression> {
        Compression::from_attributes(self.attributes)
    }

    /// Whether all records carry `max_timestamp`, the time of their append, instead of their own.
    #[must_use]
    pub const fn is_log_append_time(&self) -> bool {
        self.attributes & LOG_APPEND_TIME != 0
    }

    /// Whether the batch belongs to a transaction.
    #[must_use]
    pub const fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    /// Whether its records are a coordinator's markers instead of data.
    #[must_use]
    pub const fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    /// Whether an idempotent producer wrote it.
    #[must_use]
    pub const fn has_producer_id(&self) -> bool {
        self.producer_id >= 0
    }

    /// Sequence number of the last record; numbers wrap from 2^31-1 to 0. -1 if there is none.
    #[must_use]
    pub const fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return -1;
        }
        ((self.base_sequence as u32).wrapping_add(self.last_offset_delta as u32) & 0x7fff_ffff)
            as i32
    }

    /// When the batch's tombstones may go, in milliseconds, once the cleaner has seen them (KIP-534).
    #[must_use]
    pub const fn delete_horizon_ms(&self) -> Option<i64> {
        if self.attributes & DELETE_HORIZON != 0 {
            Some(self.base_timestamp)
        } else {
            None
        }
    }

    /// Puts the delete horizon in the place of the base timestamp.
    pub(crate) const fn set_delete_horizon(&mut self, horizon_ms: i64) {
        self.attributes |= DELETE_HORIZON;
        self.base_timestamp = horizon_ms;
    }

    /// The header of the batch without its records: not compressed, and without a delete horizon.
    pub(crate) const fn without_records(&self) -> Self {
        Self {
            attributes: self.attributes & !(COMPRESSION_MASK | DELETE_HORIZON),
            record_count: 0,
            ..*self
        }
    }

    /// Sets the length of the whole batch, which holds at least its header.
    pub(crate) const fn set_size_bytes(&mut self, size: usize) {
        self.batch_length = size as u32 - LENGTH_OVERHEAD;
    }

    /// Says that the records are compressed in this way.
    pub(super) const fn set_compression(&mut self, compression: Compression) {
        self.attributes = self.attributes & !COMPRESSION_MASK | compression as i16;
    }

    pub(crate) const fn attributes_of(
        compression: Compression,
        transactional: bool,
        control: bool,
    ) -> i16 {
        compression as i16
            | if transactional { TRANSACTIONAL } else { 0 }
            | if control { CONTROL } else { 0 }
    }

    /// CRC of the part of the header that the batch's CRC covers.
    fn covered_crc(encoded: &[u8; BATCH_HEADER_BYTES]) -> u32 {
        crc32c::crc32c(encoded.get(CRC_COVERS_FROM..).unwrap_or_default())
    }
}

/// Splits a header into its fields, whose lengths are known when it is compiled.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self
            .0
            .split_first_chunk()
            .expect("the fields of a header are 61 bytes together");
        self.0 = rest;
        *field
    }
}

fn truncated(needed: u64, bytes: &[u8]) -> BatchError {
    BatchError::Truncated {
        needed,
        found: bytes.len() as u64,
    }
}

/// Whether the CRC of a whole batch holds. `batch` must end where the batch ends; one that is too
/// short to have a CRC has none that holds.
#[must_use]
pub fn verify_crc(batch: &[u8]) -> bool {
    match (raw::crc(batch), computed_crc(batch)) {
        (Some(stored), Some(computed)) => stored == computed,
        _ => false,
    }
}

pub(crate) fn computed_crc(batch: &[u8]) -> Option<u32> {
    batch.get(CRC_COVERS_FROM..).map(crc32c::crc32c)
}

impl CheckedBatch {
    /// Largest timestamp of the batch once it is stored: what its stamped header will say.
    #[must_use]
    pub fn stored_max_timestamp(&self, append_time: Option<Wall>) -> i64 {
        append_time.map_or(self.facts.max_timestamp, |Wall(ms)| ms)
    }

    /// The batch as the leader writes it: base offset and leader epoch in place, nothing copied
    /// but the header.
    ///
    /// With an append time, the timestamp type says so and the largest timestamp is that time
    /// (`message.timestamp.type=LogAppendTime`). Without one, a largest timestamp that is not the
    /// records' own is put right, as Kafka does: the time index and retention believe the header.
    /// Only in these two cases is there a new CRC, and the records are not walked for it.
    #[must_use]
    pub fn stamp(&self, base: Offset, epoch: LeaderEpoch, append_time: Option<Wall>) -> WriteData {
        let records = self.bytes.slice(BATCH_HEADER_BYTES..);
        let mut header = BatchHeader {
            base_offset: base,
            leader_epoch: epoch,
            max_timestamp: self.stored_max_timestamp(append_time),
            ..self.header
        };
        if append_time.is_some() {
            header.attributes |= LOG_APPEND_TIME;
        }
        let mut encoded = header.encode();
        if header.max_timestamp != self.header.max_timestamp
            || header.attributes != self.header.attributes
        {
            // Of the bytes that the CRC covers only the header's changed.
            let change = BatchHeader::covered_crc(&self.header.encode())
                ^ BatchHeader::covered_crc(&encoded);
            header.crc ^= change_past(change, records.len());
            encoded = header.encode();
        }
        WriteData {
            header: encoded,
            records,
        }
    }
}

/// Single fields of a batch that is known, or about to be found, to be one. `None` where the bytes
/// end before the field does.
pub mod raw {
    /// Offset of the first record.
    #[must_use]
    pub fn base_offset(batch: &[u8]) -> Option<i64> {
        field(batch, 0).map(i64::from_be_bytes)
    }

    /// Bytes after the length field: 12 fewer than the whole batch.
    #[must_use]
    pub fn batch_length(batch: &[u8]) -> Option<i32> {
        field(batch, 8).map(i32::from_be_bytes)
    }

    /// Length of the whole batch; `None` also if it would be negative.
    #[must_use]
    pub fn size_bytes(batch: &[u8]) -> Option<u64> {
        let length = u64::try_from(batch_length(batch)?).ok()?;
        Some(length + u64::from(super::LENGTH_OVERHEAD))
    }

    /// Epoch of the leader that appended it.
    #[must_use]
    pub fn leader_epoch(batch: &[u8]) -> Option<i32> {
        field(batch, 12).map(i32::from_be_bytes)
    }

    /// The version of the format.
    #[must_use]
    pub fn magic(batch: &[u8]) -> Option<i8> {
        field(batch, 16).map(i8::from_be_bytes)
    }

    /// The CRC as it is stored.
    #[must_use]
    pub fn crc(batch: &[u8]) -> Option<u32> {
        field(batch, 17).map(u32::from_be_bytes)
    }

    /// Compression, timestamp type, transactional, control.
    #[must_use]
    pub fn attributes(batch: &[u8]) -> Option<i16> {
        field(batch, 21).map(i16::from_be_bytes)
    }

    /// Offset of the last record, relative to the base.
    #[must_use]
    pub fn last_offset_delta(batch: &[u8]) -> Option<i32> {
        field(batch, 23).map(i32::from_be_bytes)
    }

    /// Largest timestamp, or -1.
    #[must_use]
    pub fn max_timestamp(batch: &[u8]) -> Option<i64> {
        field(batch, 35).map(i64::from_be_bytes)
    }

    /// Number of records.
    #[must_use]
    pub fn record_count(batch: &[u8]) -> Option<i32> {
        field(batch, 57).map(i32::from_be_bytes)
    }

    fn field<const N: usize>(batch: &[u8], at: usize) -> Option<[u8; N]> {
        batch.get(at..)?.first_chunk().copied()
    }
}

impl Compression {
    /// Every way there is.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    const fn from_attributes(attributes: i16) -> Option<Self> {
        match attributes & COMPRESSION_MASK {
            0 => Some(Self::None),
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The name in Kafka's `compression.type`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// The compression of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == name)
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { needed, found } => {
                write!(f, "the batch needs {needed} bytes, {found} are there")
            }
            Self::Magic(magic) => write!(f, "the batch has magic {magic}, expected 2"),
            Self::Length(length) => {
                write!(
                    f,
                    "batch length {length} is below {MIN_BATCH_LENGTH}, the least of a batch"
                )
            }
            Self::BaseOffset(offset) => write!(f, "base offset {offset} is out of range"),
            Self::LastOffsetDelta(delta) => write!(f, "last offset delta {delta} is negative"),
            Self::RecordCount {
                count,
                last_offset_delta,
            } => write!(
                f,
                "record count {count} does not fit last offset delta {last_offset_delta}"
            ),
            Self::Crc { stored, computed } => {
                write!(
                    f,
                    "the CRC is {stored:#010x} but the bytes have {computed:#010x}"
                )
            }
        }
    }
}

impl core::error::Error for BatchError {}
