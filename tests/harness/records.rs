//! Batches: made, cut apart, compared.

use bytes::Bytes;
use odradek_core::record::{BatchBuilder, BatchFields, BatchHeader, BatchRecords, Compression};

/// The timestamp of records whose time does not matter.
pub(crate) const TIME: i64 = 1_700_000_000_000;

/// A batch with these values, the first at `timestamp` and each later one a millisecond after.
pub(crate) fn batch_at(timestamp: i64, values: &[&[u8]]) -> Bytes {
    let mut builder = BatchBuilder::new(64 << 20);
    for (place, value) in values.iter().enumerate() {
        assert!(builder.append(timestamp + place as i64, Some(b"key"), Some(value), &[]));
    }
    builder.build(BatchFields::default())
}

/// A batch with these values.
pub(crate) fn batch(values: &[&[u8]]) -> Bytes {
    batch_at(TIME, values)
}

/// A batch with one value, compressed.
pub(crate) fn compressed(compression: Compression, value: &[u8]) -> Bytes {
    let mut builder = BatchBuilder::new(512 << 20);
    assert!(builder.append(TIME, None, Some(value), &[]));
    builder.build(BatchFields {
        compression,
        ..BatchFields::default()
    })
}

/// Cuts whole batches apart; a part of one at the end is dropped, as consumers do.
pub(crate) fn split(mut bytes: Bytes, into: &mut Vec<Bytes>) {
    while let Ok(header) = BatchHeader::parse(&bytes) {
        let size = header.size_bytes() as usize;
        if size > bytes.len() {
            return;
        }
        into.push(bytes.split_to(size));
    }
    assert!(bytes.len() < 61, "{} bytes are no batch", bytes.len());
}

pub(crate) fn header(batch: &[u8]) -> BatchHeader {
    BatchHeader::parse(batch).unwrap()
}

/// What the broker never changes of a batch: everything but its base offset and leader epoch.
pub(crate) fn immutable(batch: &[u8]) -> (&[u8], &[u8]) {
    (&batch[8..12], &batch[16..])
}

/// The values in a batch.
pub(crate) fn values(batch: &Bytes) -> Vec<Vec<u8>> {
    let records = BatchRecords::open(batch, 1 << 30).unwrap();
    let value = |record: &[u8]| record.to_vec();
    records
        .iter()
        .map(|record| record.unwrap().value.map(value).unwrap_or_default())
        .collect()
}

/// The values in batches.
pub(crate) fn all_values(batches: &[Bytes]) -> Vec<Vec<u8>> {
    batches.iter().flat_map(values).collect()
}
