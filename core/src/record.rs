//! Record batches v2 (KIP-98): the same bytes on the wire and on disk.
//!
//! Start at [`batch`]: the header, and a batch that was checked as a whole. [`check`] is how bytes
//! from a client become one, [`walk`] is the tight loop inside it, [`records`] reads the records
//! out, [`builder`] writes a batch, [`compression`] packs and unpacks what follows the header,
//! [`recompress`](mod@recompress) does both for a topic that keeps a codec of its own.
//!
//! Everything here is a pure function of its bytes and knows no configuration: it runs outside the
//! step, and what it finds is judged there. Nothing allocates more than a small multiple of the
//! bytes it was given, and decompression is bounded as it goes.

pub mod batch;
pub mod builder;
pub mod check;
pub mod compression;
mod crc;
pub mod recompress;
pub mod records;
pub(crate) mod varint;
pub mod walk;

#[cfg(test)]
mod tests;

pub use batch::{BatchError, BatchHeader, CheckedBatch, Compression, RecordFacts, WithoutKey};
pub use builder::{BatchBuilder, BatchFields, ProducerFields};
pub use check::{
    Limits, RecordsError, RecordsErrorKind, check_batch_at, check_own_batch, check_records,
};
pub use compression::Codec;
pub use recompress::{Kept, recompress};
pub use records::{BatchRecords, Record, RecordCursor, RecordHeader};
