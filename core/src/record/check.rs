//! From a produce request's bytes to checked batches, and the checks of batches on disk.
//!
//! What is refused and with which error follows Kafka 4.3: `ProduceRequest.validateRecords`,
//! `UnifiedLog.analyzeAndValidateRecords` and `LogValidator`. Where this is stricter: bytes after
//! the one batch are refused instead of dropped, and so are a timestamp or an offset that
//! overflows, a timestamp type that only the broker may set, and checksums inside compressed
//! records that do not hold.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

use super::batch::{BatchError, BatchHeader, CheckedBatch, Compression, RecordFacts, computed_crc};
use super::compression::{CompressionError, Stop, Tables, decompress_pieces, has_linked_blocks};
use super::walk::{OffsetDeltas, RecordError, RecordWalker, walk_records};
use crate::effect::BATCH_HEADER_BYTES;

/// What a client may make a check cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes that the records of one batch may have once decompressed.
    pub max_decompressed_bytes: usize,
    /// Most records in one batch.
    pub max_records: u32,
    /// Whether zstd is allowed: from Produce 7 on (KIP-110).
    pub zstd_allowed: bool,
}

impl Default for Limits {
    /// 100 MiB, which is Kafka's default for the largest request, and four million records.
    fn default() -> Self {
        Self {
            max_decompressed_bytes: 100 << 20,
            max_records: 1 << 22,
            zstd_allowed: true,
        }
    }
}

/// Checks the records of one partition in a produce request (version 3 or later): there must be
/// exactly one batch, valid to the last record, as a client may send it.
///
/// # Errors
/// Why it is refused; [`RecordsError::kind`] is the error code to answer.
pub fn check_records(records: Bytes, limits: &Limits) -> Result<Vec<CheckedBatch>, RecordsError> {
    check_records_with(records, limits, &mut Tables::default())
}

/// The same with tables that are there.
///
/// # Errors
/// As of [`check_records`].
pub fn check_records_with(
    records: Bytes,
    limits: &Limits,
    tables: &mut Tables,
) -> Result<Vec<CheckedBatch>, RecordsError> {
    if records.is_empty() {
        return Err(RecordsError::Empty);
    }
    let header = BatchHeader::parse(&records)?;
    let there = records.len() as u64;
    if header.size_bytes() > there {
        return Err(RecordsError::Batch(BatchError::Truncated {
            needed: header.size_bytes(),
            found: there,
        }));
    }
    if header.size_bytes() < there {
        return Err(RecordsError::MoreThanOneBatch {
            surplus_bytes: there - header.size_bytes(),
        });
    }
    refuse_what_clients_may_not(&header, limits)?;
    let facts = check_whole(&header, &records, OffsetDeltas::Dense, limits, tables)?;
    Ok(vec![CheckedBatch {
        header,
        arrived_bytes: records.len() as u64,
        bytes: records,
        facts,
    }])
}

/// Checks a batch that this broker wrote, or is about to write, itself: any base offset, control
/// batches and gaps between offsets are fine, all else is as in [`check_records`].
///
/// # Errors
/// What is wrong with it.
pub fn check_own_batch(batch: Bytes, limits: &Limits) -> Result<CheckedBatch, RecordsError> {
    let header = BatchHeader::parse(&batch)?;
    if header.size_bytes() != batch.len() as u64 {
        return Err(RecordsError::Batch(BatchError::Truncated {
            needed: header.size_bytes(),
            found: batch.len() as u64,
        }));
    }
    let tables = &mut Tables::default();
    let facts = check_whole(&header, &batch, OffsetDeltas::Rising, limits, tables)?;
    Ok(CheckedBatch {
        header,
        arrived_bytes: batch.len() as u64,
        bytes: batch,
        facts,
    })
}

/// Checks the batch at the front of `bytes` as recovery does: the header is sane, the batch is
/// there to its end, and its CRC holds. The records inside are not looked at, since nobody could
/// have stored them unchecked. Whether the base offset is the expected one is the caller's to say.
///
/// # Errors
/// `Truncated` if the bytes end before the batch does, with how many it needs; else what is wrong.
pub fn check_batch_at(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
    let header = BatchHeader::parse(bytes)?;
    let batch = usize::try_from(header.size_bytes())
        .ok()
        .and_then(|size| bytes.get(..size))
        .ok_or(BatchError::Truncated {
            needed: header.size_bytes(),
            found: bytes.len() as u64,
        })?;
    check_crc(&header, batch)?;
    Ok(header)
}

fn check_crc(header: &BatchHeader, batch: &[u8]) -> Result<(), BatchError> {
    let computed = computed_crc(batch).expect("a batch whose header was parsed has 61 bytes");
    if computed == header.crc {
        return Ok(());
    }
    Err(BatchError::Crc {
        stored: header.crc,
        computed,
    })
}

/// What `LogValidator` and its callers ask of a client's batch beyond its being valid.
fn refuse_what_clients_may_not(header: &BatchHeader, limits: &Limits) -> Result<(), RecordsError> {
    if header.base_offset.0 != 0 {
        return Err(RecordsError::BaseOffset(header.base_offset.0));
    }
    if i64::from(header.record_count) != i64::from(header.last_offset_delta) + 1 {
        return Err(RecordsError::RecordCount {
            count: header.record_count,
            last_offset_delta: header.last_offset_delta,
        });
    }
    if header.is_control() {
        return Err(RecordsError::Control);
    }
    if header.has_producer_id() && header.base_sequence < 0 {
        return Err(RecordsError::Sequence(header.base_sequence));
    }
    if header.is_log_append_time() {
        return Err(RecordsError::LogAppendTime);
    }
    if header.compression() == Some(Compression::Zstd) && !limits.zstd_allowed {
        return Err(RecordsError::ZstdNotAllowed);
    }
    Ok(())
}

fn check_whole(
    header: &BatchHeader,
    batch: &[u8],
    deltas: OffsetDeltas,
    limits: &Limits,
    tables: &mut Tables,
) -> Result<RecordFacts, RecordsError> {
    if header.record_count as u32 > limits.max_records {
        return Err(RecordsError::TooManyRecords {
            count: header.record_count,
            limit: limits.max_records,
        });
    }
    check_crc(header, batch)?;
    let payload = batch
        .get(BATCH_HEADER_BYTES..)
        .expect("a batch whose header was parsed has 61 bytes");
    match header.compression() {
        Some(Compression::None) => Ok(walk_records(header, deltas, payload)?),
        Some(compression) => check_compressed(header, compression, payload, deltas, limits, tables),
        None => Err(RecordsError::UnknownCompression(header.attributes & 7)),
    }
}

/// Walks over the records as they are decompressed, piece by piece: the first one that is not
/// valid ends the decompression too.
fn check_compressed(
    header: &BatchHeader,
    compression: Compression,
    payload: &[u8],
    deltas: OffsetDeltas,
    limits: &Limits,
    tables: &mut Tables,
) -> Result<RecordFacts, RecordsError> {
    let mut walker = RecordWalker::new(header, deltas);
    // A batch that the cleaner emptied need not hold even the frame of its compression.
    if header.record_count == 0 && payload.is_empty() {
        return Ok(walker.finish()?);
    }
    if compression == Compression::Lz4 && has_linked_blocks(payload) {
        return Err(RecordsError::LinkedLz4Blocks);
    }
    let limit = limits.max_decompressed_bytes;
    let sink = |piece: &[u8]| walker.feed(piece);
    let done = decompress_pieces(compression, payload, limit, sink, tables.split().0);
    done.map_err(|stop| match stop {
        Stop::Compression(error) => RecordsError::Compression(error),
        Stop::Sink(error) => RecordsError::Record(error),
    })?;
    Ok(walker.finish()?)
}

/// Why the records of a produce request are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordsError {
    /// There is no batch.
    Empty,
    /// Something follows the first batch.
    MoreThanOneBatch {
        /// How many bytes.
        surplus_bytes: u64,
    },
    /// The batch itself is not one.
    Batch(BatchError),
    /// The base offset is not 0, as it must be before the broker assigns one.
    BaseOffset(i64),
    /// The number of records is 0 or not that of the offsets.
    RecordCount {
        /// What the header says.
        count: i32,
        /// The last offset delta beside it.
        last_offset_delta: i32,
    },
    /// More records than a batch may have.
    TooManyRecords {
        /// What the header says.
        count: i32,
        /// The most there may be.
        limit: u32,
    },
    /// Only a transaction coordinator writes control batches.
    Control,
    /// A producer id needs a sequence number.
    Sequence(i32),
    /// Only a broker says that a timestamp is the log's append time.
    LogAppendTime,
    /// zstd in a version of Produce that does not know it.
    ZstdNotAllowed,
    /// A compression that does not exist.
    UnknownCompression(i16),
    /// LZ4 blocks that refer to the ones before them, which Kafka's own readers refuse: what is
    /// stored must be readable by every consumer.
    LinkedLz4Blocks,
    /// The compressed records cannot be unpacked, or hold too much.
    Compression(CompressionError),
    /// A record is not valid.
    Record(RecordError),
    /// In the compression that its topic keeps, the batch is larger than the topic allows.
    TooLargeRecompressed {
        /// The compression.
        compression: Compression,
        /// The most bytes that a batch may have.
        max_bytes: u32,
    },
}

/// The Kafka error that a [`RecordsError`] is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordsErrorKind {
    /// CORRUPT_MESSAGE (2): the bytes are not what was sent; clients send them again.
    CorruptMessage,
    /// MESSAGE_TOO_LARGE (10): clients split the batch and send the parts.
    MessageTooLarge,
    /// INVALID_TIMESTAMP (32).
    InvalidTimestamp,
    /// UNSUPPORTED_COMPRESSION_TYPE (76).
    UnsupportedCompressionType,
    /// INVALID_RECORD (87): what was sent is wrong; sending it again is of no use.
    InvalidRecord,
}

impl RecordsError {
    /// Which error a client gets for it.
    #[must_use]
    pub const fn kind(&self) -> RecordsErrorKind {
        use RecordsErrorKind as Kind;
        match self {
            Self::Batch(error) => match error {
                // Magics 0 and 1 exist, but not in produce requests since Kafka 4.0 (KIP-896); a
                // batch that ends early does not count as one. So ProduceRequest.validateRecords.
                BatchError::Magic(0 | 1) | BatchError::Truncated { .. } => Kind::InvalidRecord,
                BatchError::Magic(_) | BatchError::Length(_) | BatchError::Crc { .. } => {
                    Kind::CorruptMessage
                }
                BatchError::BaseOffset(_)
                | BatchError::LastOffsetDelta(_)
                | BatchError::RecordCount { .. } => Kind::InvalidRecord,
            },
            Self::TooManyRecords { .. }
            | Self::TooLargeRecompressed { .. }
            | Self::Compression(CompressionError::TooLarge { .. }) => Kind::MessageTooLarge,
            Self::LogAppendTime => Kind::InvalidTimestamp,
            Self::ZstdNotAllowed | Self::UnknownCompression(_) => Kind::UnsupportedCompressionType,
            Self::Empty
            | Self::MoreThanOneBatch { .. }
            | Self::BaseOffset(_)
            | Self::RecordCount { .. }
            | Self::Control
            | Self::Sequence(_)
            | Self::LinkedLz4Blocks
            // The CRC of what was sent holds, so sending it again would be of no use.
            | Self::Compression(CompressionError::Truncated | CompressionError::Corrupt(_))
            | Self::Record(_) => Kind::InvalidRecord,
        }
    }

    /// The record at fault, from 0, for the record errors of a produce response (KIP-467).
    #[must_use]
    pub const fn record_index(&self) -> Option<i32> {
        match self {
            Self::Record(error) => Some(error.index),
            _ => None,
        }
    }
}

impl From<BatchError> for RecordsError {
    fn from(error: BatchError) -> Self {
        Self::Batch(error)
    }
}

impl From<RecordError> for RecordsError {
    fn from(error: RecordError) -> Self {
        Self::Record(error)
    }
}

impl fmt::Display for RecordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there must be one record batch, there is none"),
            Self::MoreThanOneBatch { surplus_bytes } => write!(
                f,
                "there must be one record batch, {surplus_bytes} bytes follow the first"
            ),
            Self::Batch(error) => error.fmt(f),
            Self::BaseOffset(offset) => {
                write!(
                    f,
                    "the base offset must be 0 before one is assigned, it is {offset}"
                )
            }
            Self::RecordCount {
                count,
                last_offset_delta,
            } => write!(
                f,
                "a last offset delta of {last_offset_delta} does not go with {count} records"
            ),
            Self::TooManyRecords { count, limit } => {
                write!(
                    f,
                    "the batch has {count} records, at most {limit} are allowed"
                )
            }
            Self::Control => f.write_str("clients may not write control records"),
            Self::Sequence(sequence) => {
                write!(
                    f,
                    "a batch with a producer id has the sequence number {sequence}"
                )
            }
            Self::LogAppendTime => {
                f.write_str("producers may not set the timestamp type to LogAppendTime")
            }
            Self::ZstdNotAllowed => f.write_str("zstd needs Produce version 7 or later"),
            Self::UnknownCompression(id) => write!(f, "there is no compression {id}"),
            Self::LinkedLz4Blocks => {
                f.write_str("lz4 blocks must be independent, as Kafka's readers demand")
            }
            Self::Compression(error) => error.fmt(f),
            Self::Record(error) => error.fmt(f),
            Self::TooLargeRecompressed {
                compression,
                max_bytes,
            } => write!(
                f,
                "the batch is larger than {max_bytes} bytes (max.message.bytes) with the \
                 compression of its topic, {compression}"
            ),
        }
    }
}

impl core::error::Error for RecordsError {}
