//! Metadata records out of record batches, and into them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;

use super::record::MetadataRecord;
use crate::ids::{LeaderEpoch, Offset};
use crate::record::batch::CheckedBatch;
use crate::record::builder::{BatchBuilder, BatchFields};
use crate::record::check::{Limits, check_own_batch};
use crate::record::records::BatchRecords;
use crate::time::Wall;

/// The records of a batch, in order. An error says which record cannot be read, and why.
pub(super) fn records_of(batch: &Bytes) -> Result<Vec<MetadataRecord>, String> {
    let limits = Limits::default();
    let opened = BatchRecords::open(batch, limits.max_decompressed_bytes)
        .map_err(|error| error.to_string())?;
    let base = opened.header().base_offset;
    let mut records = Vec::new();
    for (delta, record) in (0..).zip(opened.iter()) {
        let record = record.map_err(|error| error.to_string())?;
        let value = record.value.unwrap_or_default();
        let decoded = MetadataRecord::decode(value)
            .map_err(|problem| format!("record at offset {}: {problem}", base.plus(delta)))?;
        records.push(decoded);
    }
    Ok(records)
}

/// A batch of records, ready to be appended.
pub(super) fn batch_of(records: &[MetadataRecord], now: Wall) -> CheckedBatch {
    let bytes = encode(records, Offset(0), now);
    check_own_batch(bytes, &Limits::default())
        .expect("a batch that the builder made passes the checks")
}

/// The bytes of a batch of records.
pub(super) fn encode(records: &[MetadataRecord], base_offset: Offset, now: Wall) -> Bytes {
    let mut builder = BatchBuilder::new(i32::MAX as usize);
    for record in records {
        let added = builder.append(now.0, None, Some(&record.encode()), &[]);
        assert!(
            added,
            "metadata records are small and their batches are bounded"
        );
    }
    let leader_epoch = LeaderEpoch(0);
    builder.build(BatchFields {
        base_offset,
        leader_epoch,
        ..BatchFields::default()
    })
}
