//! What follows a batch's header, packed and unpacked in the four ways of Kafka.
//!
//! Packing is for batches that Odradek's own client writes. Unpacking is bounded as it goes: the
//! output is handed on in pieces and counted, and nothing is reserved because the input says so.
//! gzip and zstd stream through a fixed window, lz4 frames and xerial's snappy go block by block,
//! and only unframed snappy is unpacked whole, once the length it declares is within the limit and
//! within what so many bytes of snappy can hold.
//!
//! zstd's window may be up to 128 MiB, which is what Kafka's own readers allow. The library
//! asks the system for that much address space if a frame says so, but touches only what was
//! really unpacked.

mod gzip;
mod lz4;
mod snappy;
mod xxh32;
mod zstandard;

use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt;

use bytes::Bytes;

use super::batch::Compression;
pub(crate) use lz4::has_linked_blocks;

/// Packs the records of a batch.
#[must_use]
pub fn compress(compression: Compression, records: &[u8]) -> Vec<u8> {
    match compression {
        Compression::None => records.to_vec(),
        Compression::Gzip => gzip::compress(records),
        Compression::Snappy => snappy::compress(records),
        Compression::Lz4 => lz4::compress(records),
        Compression::Zstd => zstandard::compress(records),
    }
}

/// Unpacks the records of a batch. Without compression they are the payload, not copied.
///
/// # Errors
/// If the payload is not what it should be, or holds more than `limit` bytes.
pub fn decompress(
    compression: Compression,
    payload: &Bytes,
    limit: usize,
) -> Result<Bytes, CompressionError> {
    if compression == Compression::None {
        return if payload.len() > limit {
            Err(CompressionError::TooLarge { limit })
        } else {
            Ok(payload.clone())
        };
    }
    let mut records = Vec::new();
    let done = decompress_pieces(compression, payload, limit, |piece| {
        records.extend_from_slice(piece);
        Ok::<(), Infallible>(())
    });
    match done {
        Ok(()) => Ok(Bytes::from(records)),
        Err(Stop::Compression(error)) => Err(error),
        Err(Stop::Sink(never)) => match never {},
    }
}

/// Unpacks a payload and hands it to `sink` piece by piece, cut anywhere.
///
/// # Errors
/// What `sink` returned; or the payload is not what it should be, or holds more than `limit` bytes.
/// Pieces that came before are then of no use: only the end shows that all was well.
pub fn decompress_pieces<E>(
    compression: Compression,
    payload: &[u8],
    limit: usize,
    mut sink: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), Stop<E>> {
    let mut output = Output {
        limit,
        room: limit,
        sink: &mut sink,
    };
    match compression {
        Compression::None => output.push(payload),
        Compression::Gzip => gzip::decompress(payload, &mut output),
        Compression::Snappy => snappy::decompress(payload, &mut output),
        Compression::Lz4 => lz4::decompress(payload, &mut output),
        Compression::Zstd => zstandard::decompress(payload, &mut output),
    }
}

/// Why unpacking ended early.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop<E> {
    /// The payload's fault.
    Compression(CompressionError),
    /// Whoever took the pieces did not want more.
    Sink(E),
}

/// Why a payload cannot be unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionError {
    /// It holds more bytes than it may.
    TooLarge {
        /// The most it may hold.
        limit: usize,
    },
    /// It ends too early.
    Truncated,
    /// It is not what it should be.
    Corrupt(&'static str),
}

impl<E> From<CompressionError> for Stop<E> {
    fn from(error: CompressionError) -> Self {
        Self::Compression(error)
    }
}

/// Where unpacked bytes go, and how many more may.
struct Output<'a, E> {
    limit: usize,
    room: usize,
    sink: &'a mut dyn FnMut(&[u8]) -> Result<(), E>,
}

impl<E> Output<'_, E> {
    fn push(&mut self, piece: &[u8]) -> Result<(), Stop<E>> {
        self.room = match self.room.checked_sub(piece.len()) {
            Some(room) => room,
            None => return Err(self.too_large().into()),
        };
        if piece.is_empty() {
            return Ok(());
        }
        (self.sink)(piece).map_err(Stop::Sink)
    }

    const fn too_large(&self) -> CompressionError {
        CompressionError::TooLarge { limit: self.limit }
    }
}

/// Takes `count` bytes off the front of a payload.
fn take<'a>(input: &mut &'a [u8], count: usize) -> Result<&'a [u8], CompressionError> {
    let (taken, rest) = input
        .split_at_checked(count)
        .ok_or(CompressionError::Truncated)?;
    *input = rest;
    Ok(taken)
}

/// Takes an array off the front of a payload.
fn take_array<const N: usize>(input: &mut &[u8]) -> Result<[u8; N], CompressionError> {
    let (taken, rest) = input
        .split_first_chunk()
        .ok_or(CompressionError::Truncated)?;
    *input = rest;
    Ok(*taken)
}

impl fmt::Display for CompressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { limit } => {
                write!(f, "the compressed records hold more than {limit} bytes")
            }
            Self::Truncated => f.write_str("the compressed records are cut short"),
            Self::Corrupt(what) => write!(f, "the compressed records are corrupt: {what}"),
        }
    }
}

impl core::error::Error for CompressionError {}

#[cfg(test)]
mod tests;
