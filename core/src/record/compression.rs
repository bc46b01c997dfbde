//! What follows a batch's header, packed and unpacked in the four ways of Kafka.
//!
//! Packing is for batches that Odradek's own client writes, and for topics that keep a codec of their
//! own (`compression.type`). Unpacking is bounded as it goes: the output is handed on in pieces and counted, and nothing is reserved because the input says so.
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
mod tables;
mod xxh32;
mod zstandard;

use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt;

use bytes::Bytes;

use super::batch::Compression;
pub(crate) use lz4::has_linked_blocks;
pub use tables::Tables;
use tables::{Packing, Unpacking};

/// A compression, and how hard it tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codec {
    /// The format.
    pub compression: Compression,
    /// gzip: 1 to 9, any other is the library's own choice. zstd: -131072 to 22. The others have one
    /// level only.
    pub level: i32,
}

impl Codec {
    /// Kafka's default level of gzip, which is the library's choice.
    pub const GZIP_LEVEL: i32 = -1;
    /// Kafka's default level of zstd.
    pub const ZSTD_LEVEL: i32 = 3;
}

impl From<Compression> for Codec {
    /// At Kafka's default level.
    fn from(compression: Compression) -> Self {
        Self {
            compression,
            level: match compression {
                Compression::Zstd => Self::ZSTD_LEVEL,
                _ => Self::GZIP_LEVEL,
            },
        }
    }
}

/// Packs the records of a batch, at Kafka's default level.
#[must_use]
pub fn compress(compression: Compression, records: &[u8]) -> Vec<u8> {
    compress_with(compression, records, &mut Tables::default())
}

/// The same with tables that are there.
#[must_use]
pub fn compress_with(compression: Compression, records: &[u8], tables: &mut Tables) -> Vec<u8> {
    let size = records.len() as u64;
    let mut packer = Packer::new(compression.into(), size, Vec::new(), tables.split().1);
    packer.push(records);
    packer.finish()
}

/// Packs records that come in pieces, cut anywhere. What is not packed yet is never more than a block
/// of the format.
pub(crate) struct Packer<'a>(Kind<'a>);

enum Kind<'a> {
    None(Vec<u8>),
    Gzip(gzip::Packer),
    Snappy(snappy::Packer),
    Lz4(lz4::Packer),
    Zstd(zstandard::Packer<'a>),
}

impl<'a> Packer<'a> {
    /// Packs `size` bytes, behind what is in `out` already.
    pub(crate) fn new(codec: Codec, size: u64, out: Vec<u8>, tables: &'a mut Packing) -> Self {
        Self(match codec.compression {
            Compression::None => Kind::None(out),
            Compression::Gzip => Kind::Gzip(gzip::Packer::new(codec.level, out)),
            Compression::Snappy => Kind::Snappy(snappy::Packer::new(out)),
            Compression::Lz4 => Kind::Lz4(lz4::Packer::new(out)),
            Compression::Zstd => Kind::Zstd(zstandard::Packer::new(codec.level, size, out, tables)),
        })
    }

    pub(crate) fn push(&mut self, piece: &[u8]) {
        match &mut self.0 {
            Kind::None(out) => out.extend_from_slice(piece),
            Kind::Gzip(packer) => packer.push(piece),
            Kind::Snappy(packer) => packer.push(piece),
            Kind::Lz4(packer) => packer.push(piece),
            Kind::Zstd(packer) => packer.push(piece),
        }
    }

    /// How many bytes have come out, with those that were there before.
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Kind::None(out) => out.len(),
            Kind::Gzip(packer) => packer.out.len(),
            Kind::Snappy(packer) => packer.out.len(),
            Kind::Lz4(packer) => packer.out.len(),
            Kind::Zstd(packer) => packer.out.len(),
        }
    }

    /// All of it.
    pub(crate) fn finish(self) -> Vec<u8> {
        match self.0 {
            Kind::None(out) => out,
            Kind::Gzip(packer) => packer.finish(),
            Kind::Snappy(packer) => packer.finish(),
            Kind::Lz4(packer) => packer.finish(),
            Kind::Zstd(packer) => packer.finish(),
        }
    }
}

/// Cuts what comes in pieces into blocks of one size; the last one may be shorter.
struct Blocks {
    size: usize,
    rest: Vec<u8>,
}

impl Blocks {
    const fn of(size: usize) -> Self {
        Self {
            size,
            rest: Vec::new(),
        }
    }

    fn push(&mut self, mut piece: &[u8], mut take: impl FnMut(&[u8])) {
        if !self.rest.is_empty() {
            let wanted = self.size - self.rest.len();
            let (head, tail) = piece
                .split_at_checked(wanted)
                .unwrap_or((piece, Default::default()));
            self.rest.extend_from_slice(head);
            piece = tail;
            if self.rest.len() < self.size {
                return;
            }
            take(&self.rest);
            self.rest.clear();
        }
        let mut whole = piece.chunks_exact(self.size);
        for block in &mut whole {
            take(block);
        }
        self.rest.extend_from_slice(whole.remainder());
    }

    fn finish(self, take: impl FnOnce(&[u8])) {
        if !self.rest.is_empty() {
            take(&self.rest);
        }
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
    decompress_with(compression, payload, limit, &mut Tables::default())
}

/// The same with tables that are there.
///
/// # Errors
/// As of [`decompress`].
pub fn decompress_with(
    compression: Compression,
    payload: &Bytes,
    limit: usize,
    tables: &mut Tables,
) -> Result<Bytes, CompressionError> {
    if compression == Compression::None {
        return if payload.len() > limit {
            Err(CompressionError::TooLarge { limit })
        } else {
            Ok(payload.clone())
        };
    }
    let mut records = Vec::new();
    let sink = |piece: &[u8]| {
        records.extend_from_slice(piece);
        Ok::<(), Infallible>(())
    };
    let done = decompress_pieces(compression, payload, limit, sink, tables.split().0);
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
pub(crate) fn decompress_pieces<E>(
    compression: Compression,
    payload: &[u8],
    limit: usize,
    mut sink: impl FnMut(&[u8]) -> Result<(), E>,
    tables: &mut Unpacking,
) -> Result<(), Stop<E>> {
    let mut output = Output {
        limit,
        room: limit,
        sink: &mut sink,
    };
    match compression {
        Compression::None => output.push(payload),
        Compression::Gzip => gzip::decompress(payload, &mut output, tables),
        Compression::Snappy => snappy::decompress(payload, &mut output),
        Compression::Lz4 => lz4::decompress(payload, &mut output),
        Compression::Zstd => zstandard::decompress(payload, &mut output, tables),
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
