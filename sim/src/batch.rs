//! Record batches v2, made and read without the core's code: a second opinion on every byte, but for
//! what is compressed.

use std::cell::RefCell;

use bytes::Bytes;
use odradek_core::record::compression::{Tables, decompress_with};
use odradek_core::record::{BatchRecords, Compression, RecordsError};

/// Length of a batch header, up to and including the record count.
pub const HEADER_BYTES: usize = 61;
/// Base offset and length: what a batch has before the bytes its length counts.
const PREFIX_BYTES: usize = 12;
/// More than any batch of a workload unpacks to.
const MOST_RECORD_BYTES: usize = 1 << 24;
/// Where the bytes begin that the CRC covers: at the attributes.
const CRC_COVERS_FROM: usize = 21;

/// One record of a batch to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its timestamp in milliseconds.
    pub timestamp: i64,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Option<Vec<u8>>,
}

/// A batch found in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// All of it.
    pub bytes: &'a [u8],
    /// Offset of its first record.
    pub base_offset: i64,
    /// Offset of its last record.
    pub last_offset: i64,
    /// Its largest timestamp.
    pub max_timestamp: i64,
}

/// Why bytes are not a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotABatch {
    /// Fewer bytes than a batch needs.
    Short,
    /// A header that makes no sense.
    Header,
    /// The CRC does not hold.
    Crc,
}

thread_local! {
    static TABLES: RefCell<Tables> = RefCell::default();
}

/// Does something with the tables of this thread, which all runs on it share: what comes out does not depend
/// on what they were used for before.
pub fn with_tables<T>(what: impl FnOnce(&mut Tables) -> T) -> T {
    TABLES.with_borrow_mut(what)
}

/// The most that the records of a batch may have once they are unpacked, for [`open_by_core`].
const MAX_DECOMPRESSED_BYTES: usize = 100 << 20;

/// The records of a batch as the core reads them.
///
/// # Errors
/// As of [`BatchRecords::open`].
pub fn open_by_core(batch: &Bytes) -> Result<BatchRecords, RecordsError> {
    with_tables(|tables| BatchRecords::open_with(batch, MAX_DECOMPRESSED_BYTES, tables))
}

/// Makes an uncompressed batch as a producer without idempotence sends it.
#[must_use]
pub fn build(records: &[Record]) -> Vec<u8> {
    let base_timestamp = records.first().map_or(-1, |r| r.timestamp);
    let max_timestamp = records.iter().map(|r| r.timestamp).max().unwrap_or(-1);
    let mut body = Vec::new();
    for (i, record) in records.iter().enumerate() {
        let mut one = vec![0];
        varint(&mut one, record.timestamp - base_timestamp);
        varint(&mut one, i as i64);
        for field in [&record.key, &record.value] {
            match field {
                Some(bytes) => {
                    varint(&mut one, bytes.len() as i64);
                    one.extend_from_slice(bytes);
                }
                None => varint(&mut one, -1),
            }
        }
        varint(&mut one, 0);
        varint(&mut body, one.len() as i64);
        body.extend_from_slice(&one);
    }
    let mut batch = Vec::with_capacity(HEADER_BYTES + body.len());
    batch.extend_from_slice(&0_i64.to_be_bytes());
    batch.extend_from_slice(&((HEADER_BYTES - PREFIX_BYTES + body.len()) as i32).to_be_bytes());
    batch.extend_from_slice(&(-1_i32).to_be_bytes());
    batch.push(2);
    batch.extend_from_slice(&[0; 4]);
    batch.extend_from_slice(&0_i16.to_be_bytes());
    batch.extend_from_slice(&(records.len() as i32 - 1).to_be_bytes());
    batch.extend_from_slice(&base_timestamp.to_be_bytes());
    batch.extend_from_slice(&max_timestamp.to_be_bytes());
    batch.extend_from_slice(&(-1_i64).to_be_bytes());
    batch.extend_from_slice(&(-1_i16).to_be_bytes());
    batch.extend_from_slice(&(-1_i32).to_be_bytes());
    batch.extend_from_slice(&(records.len() as i32).to_be_bytes());
    batch.extend_from_slice(&body);
    let crc = crc32c(&batch[CRC_COVERS_FROM..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch
}

/// The batch at the beginning of these bytes.
pub fn first(bytes: &[u8]) -> Result<Found<'_>, NotABatch> {
    let header = bytes
        .first_chunk::<HEADER_BYTES>()
        .ok_or(NotABatch::Short)?;
    let base_offset = i64::from_be_bytes(array(header, 0));
    let length = i32::from_be_bytes(array(header, 8));
    let last_offset_delta = i32::from_be_bytes(array(header, 23));
    if header[16] != 2 || base_offset < 0 || last_offset_delta < 0 {
        return Err(NotABatch::Header);
    }
    let size = usize::try_from(length)
        .ok()
        .filter(|length| *length >= HEADER_BYTES - PREFIX_BYTES)
        .ok_or(NotABatch::Header)?
        + PREFIX_BYTES;
    let bytes = bytes.get(..size).ok_or(NotABatch::Short)?;
    if crc32c(&bytes[CRC_COVERS_FROM..]) != u32::from_be_bytes(array(header, 17)) {
        return Err(NotABatch::Crc);
    }
    Ok(Found {
        bytes,
        base_offset,
        last_offset: base_offset + i64::from(last_offset_delta),
        max_timestamp: i64::from_be_bytes(array(header, 35)),
    })
}

/// The largest timestamp in the header of a batch that is known to be sound; -1 if it has none.
#[must_use]
pub fn max_timestamp_of(batch: &[u8]) -> i64 {
    batch
        .first_chunk::<HEADER_BYTES>()
        .map_or(-1, |header| i64::from_be_bytes(array(header, 35)))
}

/// The batches in these bytes, up to the first place where there is none.
pub fn all(bytes: &[u8]) -> impl Iterator<Item = Found<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let found = first(rest).ok()?;
        rest = &rest[found.bytes.len()..];
        Some(found)
    })
}

/// Whether a batch as it was written holds what was sent: all but base offset, leader epoch, and, where the
/// broker stamps its own time or packs anew, attributes, CRC and largest timestamp. Not if its records do not
/// unpack.
#[must_use]
pub fn is_kept(written: &[u8], sent: &[u8]) -> bool {
    let packing = compression_of(written);
    if kept_header(written) != kept_header(sent) || packing.is_none() {
        return false;
    }
    // The same bytes need not be unpacked twice.
    if packing == compression_of(sent) && written.get(HEADER_BYTES..) == sent.get(HEADER_BYTES..) {
        return packing == Some(Compression::None) || records_of(written).is_some();
    }
    let records = records_of(written);
    records.is_some() && records == records_of(sent)
}

/// The offset of the last record from the first, and the first one's timestamp; and the numbers of an
/// idempotent producer and that of the records.
fn kept_header(batch: &[u8]) -> Option<(&[u8], &[u8])> {
    let header = batch.first_chunk::<HEADER_BYTES>()?;
    Some((&header[23..35], &header[43..]))
}

/// The records of a batch, unpacked; `None` if they do not unpack.
fn records_of(batch: &[u8]) -> Option<Bytes> {
    let packed = Bytes::copy_from_slice(batch.get(HEADER_BYTES..)?);
    match compression_of(batch)? {
        Compression::None => Some(packed),
        compression => with_tables(|tables| {
            decompress_with(compression, &packed, MOST_RECORD_BYTES, tables).ok()
        }),
    }
}

/// How the records of a batch are packed.
#[must_use]
pub fn compression_of(batch: &[u8]) -> Option<Compression> {
    let number = usize::from(*batch.get(22)? & 7);
    Compression::ALL.get(number).copied()
}

fn array<const N: usize>(header: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&header[at..at + N]);
    out
}

fn varint(out: &mut Vec<u8>, value: i64) {
    let mut bits = ((value << 1) ^ (value >> 63)) as u64;
    while bits >= 0x80 {
        out.push(bits as u8 | 0x80);
        bits >>= 7;
    }
    out.push(bits as u8);
}

/// CRC-32C.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

#[cfg(test)]
mod tests {
    use odradek_core::record::compression::compress;

    use super::*;

    fn record(value: &[u8]) -> Record {
        Record {
            timestamp: 7,
            key: None,
            value: Some(value.to_vec()),
        }
    }

    #[test]
    fn the_checksum_is_crc_32c() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn a_batch_reads_back_and_damage_shows() {
        let batch = build(&[record(b"one"), record(b"two")]);
        let found = first(&batch).unwrap();
        assert_eq!((found.base_offset, found.last_offset), (0, 1));
        assert_eq!(found.max_timestamp, 7);
        let mut damaged = batch.clone();
        *damaged.last_mut().unwrap() ^= 1;
        assert_eq!(first(&damaged), Err(NotABatch::Crc));
        assert_eq!(first(&batch[..batch.len() - 1]), Err(NotABatch::Short));
        assert_eq!(first(&[0; 100]), Err(NotABatch::Header));
        assert_eq!(all(&[batch.clone(), batch, vec![0; 5]].concat()).count(), 2);
    }

    #[test]
    fn what_is_written_holds_what_was_sent_however_it_is_packed() {
        let records: Vec<Record> = (0..20).map(|n| record(&[n; 40])).collect();
        let sent = build(&records);
        let packed = |compression: Compression, records: &[u8]| {
            let mut batch = sent[..HEADER_BYTES].to_vec();
            batch[22] = Compression::ALL
                .iter()
                .position(|one| *one == compression)
                .unwrap() as u8;
            batch.extend(compress(compression, records));
            batch
        };
        let mut others = sent.clone();
        *others.last_mut().unwrap() ^= 1;
        for from in Compression::ALL {
            let was_sent = packed(from, &sent[HEADER_BYTES..]);
            for to in Compression::ALL {
                assert!(is_kept(&packed(to, &sent[HEADER_BYTES..]), &was_sent));
                assert!(!is_kept(&packed(to, &others[HEADER_BYTES..]), &was_sent));
            }
            let mut numbered = was_sent.clone();
            numbered[44] ^= 1;
            assert!(!is_kept(&numbered, &was_sent));
            if from != Compression::None {
                let cut = &was_sent[..was_sent.len() - 1];
                assert!(!is_kept(cut, cut), "{from:?} cut short");
            }
        }
    }

    #[test]
    fn the_core_takes_the_batch_for_what_it_is() {
        let batch = build(&[record(b"one"), record(b"two")]);
        let checked = odradek_core::record::check::check_records(
            batch.into(),
            &odradek_core::record::check::Limits::default(),
        );
        assert_eq!(checked.unwrap()[0].header.record_count, 2);
    }
}
