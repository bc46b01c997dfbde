//! Zstandard (RFC 8878), through the library's streaming interface.

use alloc::vec;
use alloc::vec::Vec;

use zstd::stream::raw::{CParameter, DParameter, Decoder, Encoder, InBuffer, Operation, OutBuffer};
use zstd::zstd_safe::{CCtx, DCtx};

use super::tables::{MOST_KEPT_BYTES, Packing, Unpacking};
use super::{CompressionError, Output, Stop};

/// How far back what we pack refers: 1 MiB, the size of an ordinary batch.
const LARGEST_OWN_WINDOW_LOG: u32 = 20;
/// The most bytes of output at a time.
const PIECE_BYTES: usize = 64 << 10;
/// And the least.
const SMALL_PIECE_BYTES: usize = 1 << 10;
/// The tables for more than this are not kept: at high levels they would be large.
const MOST_BYTES_KEPT_FOR: u64 = 64 << 10;
/// The window of level 22, and what Kafka's readers allow: 2^27 bytes.
const LARGEST_WINDOW_LOG: u32 = 27;

/// Packs what comes in pieces.
pub(super) struct Packer<'a> {
    encoder: Encoder<'a>,
    piece: Vec<u8>,
    pub(super) out: Vec<u8>,
}

impl<'a> Packer<'a> {
    /// Packs exactly `size` bytes. The encoder's tables are made for so many, and for a window that
    /// bounds them at any level: a client may choose the level, and what the records unpack to.
    pub(super) fn new(level: i32, size: u64, out: Vec<u8>, tables: &'a mut Packing) -> Self {
        let mut encoder = if size <= MOST_BYTES_KEPT_FOR {
            let mut encoder = Encoder::with_context(tables.zstd.get_or_insert_with(CCtx::create));
            encoder
                .set_parameter(CParameter::CompressionLevel(level))
                .expect("the encoder takes any level");
            encoder
        } else {
            Encoder::new(level).expect("the encoder is made with any level")
        };
        if size > 1 << LARGEST_OWN_WINDOW_LOG {
            encoder
                .set_parameter(CParameter::WindowLog(LARGEST_OWN_WINDOW_LOG))
                .expect("the window is one that the library has");
        }
        encoder
            .set_pledged_src_size(Some(size))
            .expect("nothing was packed yet");
        Self {
            encoder,
            piece: piece_for(size),
            out,
        }
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        let mut input = InBuffer::around(piece);
        while input.pos() < piece.len() {
            let mut out = OutBuffer::around(self.piece.as_mut_slice());
            self.encoder
                .run(&mut input, &mut out)
                .expect("the encoder fails only if it is used wrongly");
            self.out.extend_from_slice(out.as_slice());
        }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        loop {
            let mut out = OutBuffer::around(self.piece.as_mut_slice());
            let left = self
                .encoder
                .finish(&mut out, true)
                .expect("as many bytes were packed as were announced");
            self.out.extend_from_slice(out.as_slice());
            if left == 0 {
                return self.out;
            }
        }
    }
}

/// Room for the output of so many bytes of input, at a time. A piece of full size would have to be
/// cleared for each batch, and most batches are small.
fn piece_for(input_bytes: u64) -> Vec<u8> {
    let bytes = usize::try_from(input_bytes).unwrap_or(PIECE_BYTES);
    vec![
        0;
        bytes
            .saturating_mul(2)
            .clamp(SMALL_PIECE_BYTES, PIECE_BYTES)
    ]
}

pub(super) fn decompress<E>(
    payload: &[u8],
    output: &mut Output<'_, E>,
    tables: &mut Unpacking,
) -> Result<(), Stop<E>> {
    let mut context = match tables.zstd.take() {
        Some(context) => context,
        None => context()?,
    };
    let done = decompress_frames(payload, output, Decoder::with_context(&mut context));
    if context.sizeof() <= MOST_KEPT_BYTES {
        tables.zstd = Some(context);
    }
    done
}

fn context() -> Result<DCtx<'static>, CompressionError> {
    let mut context =
        DCtx::try_create().ok_or(CompressionError::Corrupt("no memory to read zstd with"))?;
    context
        .set_parameter(DParameter::WindowLogMax(LARGEST_WINDOW_LOG))
        .map_err(|_| CompressionError::Corrupt("the window's limit was not taken"))?;
    Ok(context)
}

fn decompress_frames<E>(
    payload: &[u8],
    output: &mut Output<'_, E>,
    mut decoder: Decoder<'_>,
) -> Result<(), Stop<E>> {
    let mut piece = piece_for(payload.len() as u64);
    let mut input = InBuffer::around(payload);
    loop {
        let mut out = OutBuffer::around(piece.as_mut_slice());
        // How many bytes the decoder would like next; none at the end of a frame.
        let wanted = decoder
            .run(&mut input, &mut out)
            .map_err(|_| CompressionError::Corrupt("not a zstd frame"))?;
        output.push(out.as_slice())?;
        let full = out.as_slice().len() == out.capacity();
        let at_end = input.pos() == payload.len();
        match (wanted, at_end) {
            (0, true) => return Ok(()),
            (_, true) if !full => return Err(CompressionError::Truncated.into()),
            // Another frame follows, or more of this one is to come out.
            _ => {}
        }
    }
}
