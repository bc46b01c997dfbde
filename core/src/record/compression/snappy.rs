//! Snappy: in xerial's framing, as Java's clients write it, or unframed, as librdkafka does.
//!
//! ```text
//! 0x82 "SNAPPY" 0x00, version i32 = 1, least compatible version i32 = 1
//! then blocks: length i32, one unframed snappy stream
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;

use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

use super::{Blocks, CompressionError, Output, Stop, take, take_array};

const XERIAL_MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
/// Versions 1 and 1.
const XERIAL_VERSIONS: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
/// What Kafka's clients put into a block.
const BLOCK_BYTES: usize = 32 << 10;
/// Three bytes of snappy stand for at most 64.
const MOST_TIMES_ITS_INPUT: usize = 22;

/// Packs what comes in pieces.
pub(super) struct Packer {
    encoder: Box<Encoder>,
    blocks: Blocks,
    block: Vec<u8>,
    pub(super) out: Vec<u8>,
}

impl Packer {
    pub(super) fn new(mut out: Vec<u8>) -> Self {
        out.extend_from_slice(&XERIAL_MAGIC);
        out.extend_from_slice(&XERIAL_VERSIONS);
        Self {
            encoder: Box::new(Encoder::new()),
            blocks: Blocks::of(BLOCK_BYTES),
            block: Vec::new(),
            out,
        }
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        let (encoder, block, out) = (&mut self.encoder, &mut self.block, &mut self.out);
        self.blocks
            .push(piece, |records| pack(encoder, records, block, out));
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let (encoder, block, out) = (&mut self.encoder, &mut self.block, &mut self.out);
        self.blocks
            .finish(|records| pack(encoder, records, block, out));
        self.out
    }
}

fn pack(encoder: &mut Encoder, records: &[u8], block: &mut Vec<u8>, out: &mut Vec<u8>) {
    // Most batches are far below a block: to clear a whole one costs more than to pack them.
    let most = max_compress_len(records.len());
    if block.len() < most {
        block.resize(most, 0);
    }
    let length = encoder
        .compress(records, block)
        .expect("the block has room for the longest possible output");
    out.extend_from_slice(&(length as u32).to_be_bytes());
    out.extend_from_slice(block.get(..length).unwrap_or_default());
}

pub(super) fn decompress<E>(mut payload: &[u8], output: &mut Output<'_, E>) -> Result<(), Stop<E>> {
    let mut records = Vec::new();
    if !payload.starts_with(&XERIAL_MAGIC) {
        return block(payload, &mut records, output);
    }
    skip_xerial_header(&mut payload)?;
    while !payload.is_empty() {
        // Streams may follow one another, as xerial's reader has it.
        if payload.starts_with(&XERIAL_MAGIC) {
            skip_xerial_header(&mut payload)?;
            continue;
        }
        let length = u32::from_be_bytes(take_array(&mut payload)?);
        let compressed = take(&mut payload, length as usize)?;
        block(compressed, &mut records, output)?;
    }
    Ok(())
}

fn skip_xerial_header(payload: &mut &[u8]) -> Result<(), CompressionError> {
    let _magic: [u8; 8] = take_array(payload)?;
    let _version: [u8; 4] = take_array(payload)?;
    if u32::from_be_bytes(take_array(payload)?) > 1 {
        return Err(CompressionError::Corrupt(
            "a later version of xerial's framing",
        ));
    }
    Ok(())
}

/// Unpacks one unframed stream, using `records` for it.
fn block<E>(
    compressed: &[u8],
    records: &mut Vec<u8>,
    output: &mut Output<'_, E>,
) -> Result<(), Stop<E>> {
    let length = decompress_len(compressed)
        .map_err(|_| CompressionError::Corrupt("no length before the snappy stream"))?;
    if length > output.room {
        return Err(output.too_large().into());
    }
    if length > compressed.len().saturating_mul(MOST_TIMES_ITS_INPUT) {
        return Err(CompressionError::Corrupt("a snappy stream cannot hold so much").into());
    }
    if records.len() < length {
        records.resize(length, 0);
    }
    let records = records.get_mut(..length).unwrap_or_default();
    Decoder::new()
        .decompress(compressed, records)
        .map_err(|_| CompressionError::Corrupt("not a snappy stream"))?;
    output.push(records)
}
