//! gzip (RFC 1952): the header and the trailer are ours, the deflate stream is the library's.

use alloc::vec;
use alloc::vec::Vec;

use flate2::{Compress, Crc, Decompress, FlushCompress, FlushDecompress, Status};

use super::tables::Unpacking;
use super::{CompressionError, Output, Stop, take, take_array};

/// The most bytes of output at a time.
const PIECE_BYTES: usize = 32 << 10;
/// And the least.
const SMALL_PIECE_BYTES: usize = 1 << 10;

/// Magic, deflate, no flags, no time, no level, unknown system: as Java writes it, but for a system
/// of 0 there.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

const HEADER_CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

/// Packs what comes in pieces.
pub(super) struct Packer {
    deflate: Compress,
    crc: Crc,
    pub(super) out: Vec<u8>,
}

impl Packer {
    pub(super) fn new(level: i32, mut out: Vec<u8>) -> Self {
        let level = match u32::try_from(level) {
            Ok(level @ 1..=9) => flate2::Compression::new(level),
            _ => flate2::Compression::default(),
        };
        out.extend_from_slice(&HEADER);
        Self {
            deflate: Compress::new(level, false),
            crc: Crc::new(),
            out,
        }
    }

    pub(super) fn push(&mut self, mut piece: &[u8]) {
        self.crc.update(piece);
        while !piece.is_empty() {
            let before = self.deflate.total_in();
            self.run(piece, FlushCompress::None);
            let consumed = (self.deflate.total_in() - before) as usize;
            piece = piece.get(consumed..).unwrap_or_default();
        }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        while self.run(&[], FlushCompress::Finish) != Status::StreamEnd {}
        self.out.extend_from_slice(&self.crc.sum().to_le_bytes());
        self.out.extend_from_slice(&self.crc.amount().to_le_bytes());
        self.out
    }

    fn run(&mut self, piece: &[u8], flush: FlushCompress) -> Status {
        self.out.reserve(self.out.len().max(SMALL_PIECE_BYTES) / 2);
        self.deflate
            .compress_vec(piece, &mut self.out, flush)
            .expect("deflate fails only if it is used wrongly")
    }
}

pub(super) fn decompress<E>(
    mut payload: &[u8],
    output: &mut Output<'_, E>,
    tables: &mut Unpacking,
) -> Result<(), Stop<E>> {
    let inflate = tables.gzip.get_or_insert_with(|| Decompress::new(false));
    // A piece of full size would have to be cleared for each batch, and most batches are small.
    let piece_bytes = payload.len().saturating_mul(4);
    let mut piece = vec![0; piece_bytes.clamp(SMALL_PIECE_BYTES, PIECE_BYTES)];
    // Members may follow one another and count as one (RFC 1952, 2.2), as Java reads them.
    loop {
        skip_header(&mut payload)?;
        // Another member, or the batch before, may have ended anywhere.
        inflate.reset(false);
        inflate_member(inflate, &mut piece, &mut payload, output)?;
        if payload.is_empty() {
            return Ok(());
        }
    }
}

fn inflate_member<E>(
    inflate: &mut Decompress,
    room: &mut [u8],
    payload: &mut &[u8],
    output: &mut Output<'_, E>,
) -> Result<(), Stop<E>> {
    let mut crc = Crc::new();
    loop {
        let (in_before, out_before) = (inflate.total_in(), inflate.total_out());
        let status = inflate
            .decompress(payload, room, FlushDecompress::None)
            .map_err(|_| CompressionError::Corrupt("not a deflate stream"))?;
        let consumed = (inflate.total_in() - in_before) as usize;
        let produced = (inflate.total_out() - out_before) as usize;
        *payload = payload.get(consumed..).unwrap_or_default();
        let piece = room.get(..produced).unwrap_or_default();
        crc.update(piece);
        output.push(piece)?;
        if status == Status::StreamEnd {
            break;
        }
        if consumed == 0 && produced == 0 {
            return Err(CompressionError::Truncated.into());
        }
    }
    if u32::from_le_bytes(take_array(payload)?) != crc.sum() {
        return Err(CompressionError::Corrupt("the gzip checksum does not hold").into());
    }
    if u32::from_le_bytes(take_array(payload)?) != crc.amount() {
        return Err(CompressionError::Corrupt("the gzip length does not hold").into());
    }
    Ok(())
}

fn skip_header(payload: &mut &[u8]) -> Result<(), CompressionError> {
    let start = *payload;
    let [id_1, id_2, method, flags, _time @ .., _level, _system]: [u8; 10] = take_array(payload)?;
    if [id_1, id_2, method] != [0x1f, 0x8b, 8] {
        return Err(CompressionError::Corrupt("no gzip header"));
    }
    if flags & RESERVED != 0 {
        return Err(CompressionError::Corrupt("unknown gzip flags"));
    }
    if flags & EXTRA != 0 {
        let length = u16::from_le_bytes(take_array(payload)?);
        take(payload, usize::from(length))?;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            let end = payload.iter().position(|byte| *byte == 0);
            take(payload, end.ok_or(CompressionError::Truncated)? + 1)?;
        }
    }
    if flags & HEADER_CRC != 0 {
        let mut crc = Crc::new();
        let length = start.len() - payload.len();
        crc.update(start.get(..length).unwrap_or_default());
        if u16::from_le_bytes(take_array(payload)?) != crc.sum() as u16 {
            return Err(CompressionError::Corrupt(
                "the gzip header checksum does not hold",
            ));
        }
    }
    Ok(())
}
