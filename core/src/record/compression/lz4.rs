//! The LZ4 frame format over the library's block codec.
//!
//! ```text
//! magic 0x184d2204 (all numbers little-endian), flags, block size, [content size u64],
//! checksum of the three before
//! then blocks: length u32 (top bit: not compressed), bytes, [checksum u32]
//! an end mark of 0, [checksum of the content u32]
//! ```
//!
//! Every check the frame offers is made, also those that Kafka's reader leaves out.

use alloc::vec::Vec;

use lz4_flex::block::{self, CompressTable, DecompressError};

use super::xxh32::{Xxh32, xxh32};
use super::{Blocks, CompressionError, Output, Stop, take, take_array};

const MAGIC: [u8; 4] = 0x184d_2204u32.to_le_bytes();

const VERSION_MASK: u8 = 0b1100_0000;
const VERSION_1: u8 = 0b0100_0000;
const INDEPENDENT_BLOCKS: u8 = 1 << 5;
const BLOCK_CHECKSUMS: u8 = 1 << 4;
const CONTENT_SIZE: u8 = 1 << 3;
const CONTENT_CHECKSUM: u8 = 1 << 2;
const RESERVED: u8 = 1 << 1;
const DICTIONARY_ID: u8 = 1;

/// Version 1, independent blocks, no checksums, blocks of 64 KiB: as Kafka writes it.
const DESCRIPTOR: [u8; 2] = [VERSION_1 | INDEPENDENT_BLOCKS, 4 << 4];
const BLOCK_BYTES: usize = 64 << 10;
const NOT_COMPRESSED: u32 = 1 << 31;
/// How far back a linked block may refer.
const HISTORY_BYTES: usize = 64 << 10;
/// One byte of LZ4 stands for at most so many.
const MOST_TIMES_ITS_INPUT: usize = 255;

/// Packs what comes in pieces.
pub(super) struct Packer {
    table: CompressTable,
    blocks: Blocks,
    block: Vec<u8>,
    pub(super) out: Vec<u8>,
}

impl Packer {
    pub(super) fn new(mut out: Vec<u8>) -> Self {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&DESCRIPTOR);
        out.push(header_checksum(&DESCRIPTOR));
        Self {
            table: CompressTable::default(),
            blocks: Blocks::of(BLOCK_BYTES),
            block: Vec::new(),
            out,
        }
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        let (table, block, out) = (&mut self.table, &mut self.block, &mut self.out);
        self.blocks
            .push(piece, |records| pack(table, records, block, out));
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let (table, block, out) = (&mut self.table, &mut self.block, &mut self.out);
        self.blocks
            .finish(|records| pack(table, records, block, out));
        self.out.extend_from_slice(&[0; 4]);
        self.out
    }
}

fn pack(table: &mut CompressTable, records: &[u8], block: &mut Vec<u8>, out: &mut Vec<u8>) {
    // Most batches are far below a block: to clear a whole one costs more than to pack them.
    let most = block::get_maximum_output_size(records.len());
    if block.len() < most {
        block.resize(most, 0);
    }
    let length = block::compress_into_with_table(records, block, table)
        .expect("the block has room for the longest possible output");
    if length < records.len() {
        out.extend_from_slice(&(length as u32).to_le_bytes());
        out.extend_from_slice(block.get(..length).unwrap_or_default());
    } else {
        out.extend_from_slice(&(records.len() as u32 | NOT_COMPRESSED).to_le_bytes());
        out.extend_from_slice(records);
    }
}

/// Whether a frame's blocks refer to the ones before them. Such a frame is a proper one, but
/// Kafka's own readers refuse it, so it must not get into a log that they read.
pub(crate) fn has_linked_blocks(payload: &[u8]) -> bool {
    payload
        .get(MAGIC.len())
        .is_some_and(|flags| flags & INDEPENDENT_BLOCKS == 0)
}

pub(super) fn decompress<E>(mut payload: &[u8], output: &mut Output<'_, E>) -> Result<(), Stop<E>> {
    let frame = Frame::take(&mut payload)?;
    let mut records = Vec::new();
    let mut history = Vec::new();
    let mut content = Xxh32::new();
    let mut content_bytes: u64 = 0;
    loop {
        let word = u32::from_le_bytes(take_array(&mut payload)?);
        if word == 0 {
            break;
        }
        let length = (word & !NOT_COMPRESSED) as usize;
        if length > frame.block_bytes {
            return Err(CompressionError::Corrupt("an lz4 block above its frame's size").into());
        }
        let stored = take(&mut payload, length)?;
        if frame.has(BLOCK_CHECKSUMS)
            && u32::from_le_bytes(take_array(&mut payload)?) != xxh32(stored)
        {
            return Err(CompressionError::Corrupt("an lz4 block checksum does not hold").into());
        }
        let piece = if word & NOT_COMPRESSED == 0 {
            unpack(stored, &frame, &history, &mut records, output)?
        } else {
            stored
        };
        output.push(piece)?;
        content_bytes += piece.len() as u64;
        if frame.has(CONTENT_CHECKSUM) {
            content.update(piece);
        }
        if !frame.has(INDEPENDENT_BLOCKS) {
            remember(&mut history, piece);
        }
    }
    if frame.content_size.is_some_and(|size| size != content_bytes) {
        return Err(CompressionError::Corrupt("the lz4 content size does not hold").into());
    }
    if frame.has(CONTENT_CHECKSUM)
        && u32::from_le_bytes(take_array(&mut payload)?) != content.finish()
    {
        return Err(CompressionError::Corrupt("the lz4 content checksum does not hold").into());
    }
    if !payload.is_empty() {
        return Err(CompressionError::Corrupt("data follows the lz4 frame").into());
    }
    Ok(())
}

/// Unpacks a block into `records`, which grows no further than such a block can reach.
fn unpack<'a, E>(
    stored: &[u8],
    frame: &Frame,
    history: &[u8],
    records: &'a mut Vec<u8>,
    output: &Output<'_, E>,
) -> Result<&'a [u8], CompressionError> {
    let reach = frame
        .block_bytes
        .min(stored.len().saturating_mul(MOST_TIMES_ITS_INPUT));
    let room = reach.min(output.room);
    if records.len() < room {
        records.resize(room, 0);
    }
    let space = records.get_mut(..room).unwrap_or_default();
    let unpacked = if history.is_empty() {
        block::decompress_into(stored, space)
    } else {
        block::decompress_into_with_dict(stored, space, history)
    };
    match unpacked {
        Ok(length) => Ok(records.get(..length).unwrap_or_default()),
        Err(DecompressError::OutputTooSmall { .. }) if room < reach => Err(output.too_large()),
        Err(_) => Err(CompressionError::Corrupt("not an lz4 block")),
    }
}

/// Keeps what the next linked block may refer to.
fn remember(history: &mut Vec<u8>, piece: &[u8]) {
    let piece = piece
        .len()
        .checked_sub(HISTORY_BYTES)
        .and_then(|surplus| piece.get(surplus..))
        .unwrap_or(piece);
    let surplus = (history.len() + piece.len()).saturating_sub(HISTORY_BYTES);
    history.drain(..surplus);
    history.extend_from_slice(piece);
}

/// A frame's descriptor.
struct Frame {
    flags: u8,
    block_bytes: usize,
    content_size: Option<u64>,
}

impl Frame {
    fn take(payload: &mut &[u8]) -> Result<Self, CompressionError> {
        if take_array(payload)? != MAGIC {
            return Err(CompressionError::Corrupt("no lz4 frame"));
        }
        let start = *payload;
        let [flags, block_size] = take_array(payload)?;
        if flags & VERSION_MASK != VERSION_1 || flags & RESERVED != 0 {
            return Err(CompressionError::Corrupt(
                "an unknown version of lz4 frames",
            ));
        }
        if flags & DICTIONARY_ID != 0 {
            return Err(CompressionError::Corrupt(
                "an lz4 frame that needs a dictionary",
            ));
        }
        let block_bytes = match block_size {
            0x40 => 64 << 10,
            0x50 => 256 << 10,
            0x60 => 1 << 20,
            0x70 => 4 << 20,
            _ => return Err(CompressionError::Corrupt("an unknown lz4 block size")),
        };
        let content_size = if flags & CONTENT_SIZE == 0 {
            None
        } else {
            Some(u64::from_le_bytes(take_array(payload)?))
        };
        let descriptor = start.get(..start.len() - payload.len()).unwrap_or_default();
        let [checksum] = take_array(payload)?;
        if checksum != header_checksum(descriptor) {
            return Err(CompressionError::Corrupt(
                "the lz4 header checksum does not hold",
            ));
        }
        Ok(Self {
            flags,
            block_bytes,
            content_size,
        })
    }

    const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

fn header_checksum(descriptor: &[u8]) -> u8 {
    (xxh32(descriptor) >> 8) as u8
}
