use alloc::vec;
use alloc::vec::Vec;
use std::io::Write as _;

use bytes::Bytes;
use proptest::prelude::*;

use super::xxh32::xxh32;
use super::*;

const PACKED: [Compression; 4] = [
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

fn unpack(compression: Compression, payload: &[u8]) -> Result<Bytes, CompressionError> {
    decompress(compression, &Bytes::copy_from_slice(payload), 10 << 20)
}

/// Bytes of which some parts repeat and some do not.
fn mixed(length: usize) -> Vec<u8> {
    let mut state = 1u32;
    (0..length)
        .map(|i| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if i / 50_000 % 2 == 0 {
                b'a' + (i % 23) as u8
            } else {
                (state >> 24) as u8
            }
        })
        .collect()
}

/// What is done with tables that were used before.
#[derive(Clone, Debug)]
enum Use {
    Pack {
        level: i32,
        length: usize,
    },
    Unpack {
        length: usize,
        limit: usize,
    },
    Damaged {
        length: usize,
        place: usize,
    },
    /// A packer that is dropped before it has finished.
    Abandon {
        length: usize,
    },
}

/// Bytes of four kinds: every level packs them in another way.
fn letters(length: usize) -> Vec<u8> {
    let mut state = 1u32;
    let letter = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b'a' + (state >> 30) as u8
    };
    (0..length).map(letter).collect()
}

/// Those that keep tables.
fn with_tables() -> impl Strategy<Value = Compression> {
    prop_oneof![Just(Compression::Gzip), Just(Compression::Zstd)]
}

fn any_use() -> impl Strategy<Value = Use> {
    let length = 0..100_000usize;
    prop_oneof![
        (-5..23i32, length.clone()).prop_map(|(level, length)| Use::Pack { level, length }),
        (length.clone(), 50_000..200_000usize)
            .prop_map(|(length, limit)| Use::Unpack { length, limit }),
        (length.clone(), 0..200usize).prop_map(|(length, place)| Use::Damaged { length, place }),
        length.prop_map(|length| Use::Abandon { length }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn tables_that_were_used_before_do_the_same_as_new_ones(
        uses in proptest::collection::vec((any_use(), with_tables()), 2..12),
    ) {
        let mut used = Tables::default();
        for (one, compression) in uses {
            let pack = |codec: Codec, length, tables: &mut Tables| {
                let mut packer = Packer::new(codec, length as u64, Vec::new(), tables.split().1);
                packer.push(&letters(length));
                packer.finish()
            };
            match one {
                Use::Pack { level, length } => {
                    let codec = Codec { compression, level };
                    let fresh = pack(codec, length, &mut Tables::default());
                    prop_assert!(pack(codec, length, &mut used) == fresh);
                }
                Use::Unpack { length, limit } => {
                    let packed = Bytes::from(compress(compression, &letters(length)));
                    let fresh = decompress(compression, &packed, limit);
                    prop_assert!(decompress_with(compression, &packed, limit, &mut used) == fresh);
                }
                Use::Damaged { length, place } => {
                    let mut packed = compress(compression, &letters(length));
                    let place = place % packed.len();
                    packed[place] ^= 0x55;
                    let packed = Bytes::from(packed);
                    let fresh = decompress(compression, &packed, 1 << 20);
                    prop_assert!(decompress_with(compression, &packed, 1 << 20, &mut used) == fresh);
                }
                Use::Abandon { length } => {
                    let codec = Codec::from(compression);
                    let twice = 2 * length as u64 + 1;
                    let mut packer = Packer::new(codec, twice, Vec::new(), used.split().1);
                    packer.push(&letters(length));
                }
            }
        }
    }
}

#[test]
fn a_higher_level_of_zstd_packs_smaller_with_the_same_tables() {
    let mut tables = Tables::default();
    let mut size_at = |level| {
        let compression = Compression::Zstd;
        let out = Vec::new();
        let codec = Codec { compression, level };
        let mut packer = Packer::new(codec, 20_000, out, tables.split().1);
        packer.push(&letters(20_000));
        packer.finish().len()
    };
    let (high, low) = (size_at(19), size_at(-5));
    assert!(high < low, "{high} bytes and {low}");
}

#[test]
fn a_large_window_is_not_kept() {
    // A frame of zstd that asks for 8 MiB and holds nothing.
    let packed = Bytes::from_static(&[0x28, 0xb5, 0x2f, 0xfd, 0, 13 << 3, 1, 0, 0]);
    let mut tables = Tables::default();
    let empty = decompress_with(Compression::Zstd, &packed, 1 << 20, &mut tables);
    assert_eq!(empty, Ok(Bytes::new()));
    assert!(tables.split().0.zstd.is_none());
    let small = Bytes::from(compress(Compression::Zstd, b"small"));
    let words = decompress_with(Compression::Zstd, &small, 1 << 20, &mut tables);
    assert_eq!(words, Ok(Bytes::from_static(b"small")));
    assert!(tables.split().0.zstd.is_some());
}

proptest! {
    #[test]
    fn what_is_packed_unpacks(
        bytes in proptest::collection::vec(any::<u8>(), 0..2_000),
        repeats in 1usize..200,
    ) {
        let bytes = bytes.repeat(repeats);
        for compression in PACKED {
            prop_assert_eq!(&unpack(compression, &compress(compression, &bytes)).unwrap(), &bytes);
        }
    }
}

#[test]
fn lengths_around_every_block_unpack() {
    for length in [
        0, 1, 32_767, 32_768, 32_769, 65_535, 65_536, 65_537, 131_072, 1_000_000,
    ] {
        let bytes = mixed(length);
        for compression in PACKED {
            let packed = compress(compression, &bytes);
            assert!(
                unpack(compression, &packed).unwrap() == bytes,
                "{compression}, {length} bytes"
            );
        }
    }
}

#[test]
fn the_limit_is_met_to_the_byte() {
    let bytes = mixed(100_000);
    for compression in PACKED {
        let packed = Bytes::from(compress(compression, &bytes));
        assert!(decompress(compression, &packed, 100_000).is_ok());
        assert_eq!(
            decompress(compression, &packed, 99_999),
            Err(CompressionError::TooLarge { limit: 99_999 }),
            "{compression}"
        );
    }
}

#[test]
fn a_payload_that_ends_early_is_refused_wherever_it_ends() {
    for compression in PACKED {
        let packed = compress(compression, b"a few words, a few words, a few words");
        assert!(unpack(compression, &packed).is_ok());
        for length in 0..packed.len() {
            // Between two blocks, a stream of xerial's may end: only the records tell.
            let ends_well = compression == Compression::Snappy && length == 16;
            assert_eq!(
                unpack(compression, &packed[..length]).is_ok(),
                ends_well,
                "{compression}, {length} of {} bytes",
                packed.len()
            );
        }
    }
}

#[test]
fn gzip_with_every_optional_field_and_in_two_members_unpacks() {
    let mut packed = flate2::GzBuilder::new()
        .filename("name")
        .comment("comment")
        .extra(b"extra".to_vec())
        .write(Vec::new(), flate2::Compression::best());
    packed.write_all(b"first ").unwrap();
    let mut packed = packed.finish().unwrap();
    packed.extend_from_slice(&compress(Compression::Gzip, b"second"));
    assert_eq!(unpack(Compression::Gzip, &packed).unwrap(), "first second");

    packed.push(0);
    assert_eq!(
        unpack(Compression::Gzip, &packed),
        Err(CompressionError::Truncated),
        "what follows a member is another"
    );
}

#[test]
fn gzip_that_was_changed_is_noticed_by_its_checksum() {
    let mut packed = compress(Compression::Gzip, b"words");
    let crc = packed.len() - 8;
    packed[crc] ^= 1;
    let damaged = CompressionError::Corrupt("the gzip checksum does not hold");
    assert_eq!(unpack(Compression::Gzip, &packed), Err(damaged));
}

#[test]
fn unframed_snappy_unpacks() {
    let bytes = mixed(300_000);
    let packed = snap::raw::Encoder::new().compress_vec(&bytes).unwrap();
    assert!(unpack(Compression::Snappy, &packed).unwrap() == bytes);
}

#[test]
fn xerial_streams_that_follow_one_another_unpack() {
    let mut packed = compress(Compression::Snappy, b"first ");
    packed.extend_from_slice(&compress(Compression::Snappy, b"second"));
    assert_eq!(
        unpack(Compression::Snappy, &packed).unwrap(),
        "first second"
    );
}

#[test]
fn snappy_that_declares_more_than_it_can_hold_is_refused_unread() {
    // Five bytes: a length of 200 MB, and a literal.
    let hostile = [0x80, 0x84, 0xaf, 0x5f, 0x00];
    let limit = 1 << 30;
    assert_eq!(
        decompress(
            Compression::Snappy,
            &Bytes::copy_from_slice(&hostile),
            limit
        ),
        Err(CompressionError::Corrupt(
            "a snappy stream cannot hold so much"
        ))
    );
    // The most that snappy can do is within the bound.
    let zeros = vec![0; 1 << 20];
    let packed = snap::raw::Encoder::new().compress_vec(&zeros).unwrap();
    assert!(unpack(Compression::Snappy, &packed).unwrap() == zeros);
}

/// An lz4 frame with those flags and blocks of 64 KiB, made from the format's description.
fn lz4_frame(flags: u8, content_size: Option<u64>, blocks: &[Vec<u8>], content: &[u8]) -> Vec<u8> {
    let mut frame = 0x184d_2204u32.to_le_bytes().to_vec();
    frame.extend_from_slice(&[0x40 | flags, 0x40]);
    if let Some(size) = content_size {
        frame.extend_from_slice(&size.to_le_bytes());
    }
    frame.push((xxh32(&frame[4..]) >> 8) as u8);
    for block in blocks {
        frame.extend_from_slice(&(block.len() as u32).to_le_bytes());
        frame.extend_from_slice(block);
        if flags & 0x10 != 0 {
            frame.extend_from_slice(&xxh32(block).to_le_bytes());
        }
    }
    frame.extend_from_slice(&[0; 4]);
    if flags & 0x04 != 0 {
        frame.extend_from_slice(&xxh32(content).to_le_bytes());
    }
    frame
}

#[test]
fn lz4_with_linked_blocks_and_every_check_unpacks_and_checks() {
    let content = mixed(49_000).repeat(4);
    let mut blocks = Vec::new();
    for start in (0..content.len()).step_by(65_536) {
        let end = content.len().min(start + 65_536);
        blocks.push(lz4_flex::block::compress_with_dict(
            &content[start..end],
            &content[start.saturating_sub(65_536)..start],
        ));
    }
    let size = content.len() as u64;
    let all = 0x10 | 0x08 | 0x04;
    let frame = lz4_frame(all, Some(size), &blocks, &content);
    assert!(unpack(Compression::Lz4, &frame).unwrap() == content);
    assert!(has_linked_blocks(&frame));
    assert!(!has_linked_blocks(&compress(Compression::Lz4, b"x")));

    let refused = |frame: &[u8]| match unpack(Compression::Lz4, frame) {
        Err(CompressionError::Corrupt(what)) => what,
        other => panic!("{other:?}"),
    };
    let wrong_size = lz4_frame(all, Some(size + 1), &blocks, &content);
    assert_eq!(refused(&wrong_size), "the lz4 content size does not hold");
    let wrong_content = lz4_frame(all, Some(size), &blocks, b"other");
    assert_eq!(
        refused(&wrong_content),
        "the lz4 content checksum does not hold"
    );
    let mut wrong_block = frame.clone();
    wrong_block[100] ^= 1;
    assert_eq!(refused(&wrong_block), "an lz4 block checksum does not hold");
    let mut wrong_header = frame.clone();
    wrong_header[14] ^= 1;
    assert_eq!(
        refused(&wrong_header),
        "the lz4 header checksum does not hold"
    );
    let mut surplus = frame;
    surplus.push(0);
    assert_eq!(refused(&surplus), "data follows the lz4 frame");
    let independent = lz4_frame(0x20, None, &blocks, &content);
    assert_eq!(
        refused(&independent),
        "not an lz4 block",
        "history is not theirs"
    );
}

#[test]
fn zstd_of_the_highest_level_and_in_two_frames_unpacks() {
    // Streamed without its size being known, level 22 has a window of 128 MiB, as in Java.
    let mut encoder = zstd::stream::raw::Encoder::new(22).unwrap();
    let mut packed = vec![0; 1 << 16];
    let written = {
        use zstd::stream::raw::{InBuffer, Operation, OutBuffer};
        let mut out = OutBuffer::around(packed.as_mut_slice());
        encoder
            .run(&mut InBuffer::around(b"first "), &mut out)
            .unwrap();
        assert_eq!(encoder.finish(&mut out, false).unwrap(), 0);
        out.pos()
    };
    packed.truncate(written);
    packed.extend_from_slice(&compress(Compression::Zstd, b"second"));
    assert_eq!(unpack(Compression::Zstd, &packed).unwrap(), "first second");
    packed.extend_from_slice(b"not a frame");
    assert!(unpack(Compression::Zstd, &packed).is_err());
}

#[test]
fn a_sink_that_wants_no_more_ends_it() {
    for compression in PACKED {
        let packed = compress(compression, &vec![0; 1 << 20]);
        let mut pieces = 0;
        let sink = |_: &[u8]| {
            pieces += 1;
            Err("enough")
        };
        let mut tables = Tables::default();
        let stopped = decompress_pieces(compression, &packed, usize::MAX, sink, tables.split().0);
        assert_eq!(stopped, Err(Stop::Sink("enough")));
        assert_eq!(pieces, 1);
    }
}
