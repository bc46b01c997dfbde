//! The header of a record batch, and a batch that has been checked as a whole.

use bytes::Bytes;

use crate::ids::{LeaderEpoch, Offset};

/// The fields of a batch header, in the order of the format. Parsing checks that they make sense
/// among themselves, not the CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Bytes that follow this field: the whole batch is 12 longer.
    pub batch_length: u32,
    /// Epoch of the leader that appended it.
    pub leader_epoch: LeaderEpoch,
    /// CRC-32C of everything from the attributes on.
    pub crc: u32,
    /// Compression (bits 0-2), timestamp type (3), transactional (4), control (5).
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
    /// Number of records.
    pub record_count: i32,
}

/// A batch of a produce request that was checked outside the step: header, CRC, every record.
#[derive(Clone, Debug)]
pub struct CheckedBatch {
    /// Its header as the client sent it.
    pub header: BatchHeader,
    /// The whole batch, sliced from the frame.
    pub bytes: Bytes,
    /// What the walk over the records found.
    pub facts: RecordFacts,
}

/// What a walk over the records of a batch finds out; judged against configs in the step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordFacts {
    /// Whether a record has no key.
    pub record_without_key: bool,
    /// Smallest timestamp of a record.
    pub min_timestamp: i64,
    /// Largest timestamp of a record.
    pub max_timestamp: i64,
}

impl BatchHeader {
    /// Length of the whole batch in bytes.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.batch_length as u64 + 12
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
}
