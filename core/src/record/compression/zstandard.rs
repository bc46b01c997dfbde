//! Zstandard (RFC 8878), through the library's streaming interface.

use alloc::vec;
use alloc::vec::Vec;

use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use super::{CompressionError, Output, Stop};

/// Kafka's default level.
const LEVEL: i32 = 3;
/// Bytes of output at a time.
const PIECE_BYTES: usize = 64 << 10;
/// The window of level 22, and what Kafka's readers allow: 2^27 bytes.
const LARGEST_WINDOW_LOG: u32 = 27;

pub(super) fn compress(records: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(records, LEVEL).expect("the output is given all the room it may need")
}

pub(super) fn decompress<E>(payload: &[u8], output: &mut Output<'_, E>) -> Result<(), Stop<E>> {
    let mut decoder =
        Decoder::new().map_err(|_| CompressionError::Corrupt("no memory to read zstd with"))?;
    decoder
        .set_parameter(DParameter::WindowLogMax(LARGEST_WINDOW_LOG))
        .map_err(|_| CompressionError::Corrupt("the window's limit was not taken"))?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut input = InBuffer::around(payload);
    loop {
        let mut out = OutBuffer::around(piece.as_mut_slice());
        // How many bytes the decoder would like next; none at the end of a frame.
        let wanted = decoder
            .run(&mut input, &mut out)
            .map_err(|_| CompressionError::Corrupt("not a zstd frame"))?;
        output.push(out.as_slice())?;
        let full = out.as_slice().len() == PIECE_BYTES;
        let at_end = input.pos() == payload.len();
        match (wanted, at_end) {
            (0, true) => return Ok(()),
            (_, true) if !full => return Err(CompressionError::Truncated.into()),
            // Another frame follows, or more of this one is to come out.
            _ => {}
        }
    }
}
