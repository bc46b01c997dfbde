//! A batch in the codec that its topic keeps (`compression.type`): the same records, packed anew.
//!
//! The records' bytes stay as they are, and with them timestamps, headers and the numbers of an
//! idempotent producer; of the batch's header only the compression, the length and the CRC change.

use alloc::vec;

use bytes::Bytes;

use super::batch::{CheckedBatch, Compression};
use super::builder::seal;
use super::check::RecordsError;
use super::compression::{Codec, Packer, Stop, Tables, decompress_pieces};
use crate::effect::BATCH_HEADER_BYTES;

/// How a topic keeps its batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// In which codec.
    pub codec: Codec,
    /// `max.message.bytes`, which ends the packing of a batch that would become larger.
    pub max_bytes: u32,
}

/// The batch as it is kept; as it came, if that is in the right compression, whatever its level.
///
/// Records go from one codec to the other piece by piece, so that nothing is allocated but the
/// result, and that is bounded, whatever a few bytes unpack to.
///
/// # Errors
/// `TooLargeRecompressed`.
pub fn recompress(
    batch: CheckedBatch,
    kept: &Kept,
    tables: &mut Tables,
) -> Result<CheckedBatch, RecordsError> {
    let wanted = kept.codec.compression;
    let came = batch
        .header
        .compression()
        .expect("a checked batch has a compression that exists");
    if came == wanted {
        return Ok(batch);
    }
    let too_large = || RecordsError::TooLargeRecompressed {
        compression: wanted,
        max_bytes: kept.max_bytes,
    };
    let max_bytes = kept.max_bytes as usize;
    let records_bytes = batch.facts.uncompressed_bytes;
    if wanted == Compression::None
        && records_bytes.saturating_add(BATCH_HEADER_BYTES as u64) > u64::from(kept.max_bytes)
    {
        return Err(too_large());
    }
    let payload = batch.bytes.get(BATCH_HEADER_BYTES..).unwrap_or_default();
    let (unpacking, packing) = tables.split();
    let header = vec![0; BATCH_HEADER_BYTES];
    let mut packer = Packer::new(kept.codec, records_bytes, header, packing);
    let limit = usize::try_from(records_bytes).unwrap_or(usize::MAX);
    let sink = |piece: &[u8]| {
        packer.push(piece);
        if packer.len() > max_bytes {
            Err(too_large())
        } else {
            Ok(())
        }
    };
    decompress_pieces(came, payload, limit, sink, unpacking).map_err(|stop| match stop {
        Stop::Sink(error) => error,
        Stop::Compression(error) => RecordsError::Compression(error),
    })?;
    let mut bytes = packer.finish();
    if bytes.len() > max_bytes {
        return Err(too_large());
    }
    let mut header = batch.header;
    header.set_compression(wanted);
    seal(&mut bytes, &mut header);
    Ok(CheckedBatch {
        header,
        bytes: Bytes::from(bytes),
        ..batch
    })
}
