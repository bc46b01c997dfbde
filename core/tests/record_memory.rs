//! What hostile batches may make the broker allocate: a window, whatever they claim.
//!
//! One test, since it counts the allocations of the whole process.
#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use odradek_core::record::compression::{Tables, compress};
use odradek_core::record::{
    BatchBuilder, BatchFields, Codec, Compression, Kept, Limits, check_records, recompress,
};

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: everything is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(
            NOW.fetch_add(layout.size(), Relaxed) + layout.size(),
            Relaxed,
        );
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most that was allocated at once, above what was there before.
fn peak_of(call: impl FnOnce()) -> usize {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    call();
    PEAK.load(Relaxed) - before
}

/// The most memory that was resident at once, above what was there before: what the allocator of
/// a C library takes shows only here.
#[cfg(target_os = "linux")]
fn resident_peak_of(call: impl FnOnce()) -> usize {
    let status = |field: &str| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<usize>()
            .unwrap()
            << 10
    };
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS:");
    call();
    status("VmHWM:").saturating_sub(before)
}

/// A batch of one record whose payload is replaced by `payload`, with a CRC that holds.
fn batch(compression: Compression, payload: &[u8]) -> Bytes {
    let mut builder = BatchBuilder::new(usize::MAX);
    assert!(builder.append(0, None, None, &[]));
    let good = builder.build(BatchFields {
        compression,
        ..BatchFields::default()
    });
    let mut batch = good[..61].to_vec();
    batch.extend_from_slice(payload);
    let length = (batch.len() - 12) as u32;
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch.into()
}

/// One record with a value of `length` zeros.
fn large_record(length: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(usize::MAX);
    assert!(builder.append(0, None, Some(&vec![0; length]), &[]));
    builder.build(BatchFields::default())[61..].to_vec()
}

#[test]
fn a_check_costs_a_window_whatever_the_batch_claims() {
    const WINDOW: usize = 512 << 10;
    let limits = Limits::default();

    // Bombs that are valid batches up to the limit: 90 MB of zeros in one record, in kilobytes.
    let bomb = large_record(90 << 20);
    for compression in [Compression::Gzip, Compression::Zstd, Compression::Lz4] {
        let packed = batch(compression, &compress(compression, &bomb));
        assert!(packed.len() < 500 << 10);
        let peak = peak_of(|| assert!(check_records(packed, &limits).is_ok()));
        assert!(peak < WINDOW, "{compression}: {peak} bytes");
    }
    let packed = batch(Compression::Snappy, &compress(Compression::Snappy, &bomb));
    let peak = peak_of(|| assert!(check_records(packed, &limits).is_ok()));
    assert!(peak < WINDOW, "snappy: {peak} bytes");

    // Bombs beyond the limit.
    let bomb = large_record(110 << 20);
    for compression in [
        Compression::Gzip,
        Compression::Zstd,
        Compression::Lz4,
        Compression::Snappy,
    ] {
        let packed = batch(compression, &compress(compression, &bomb));
        let peak = peak_of(|| assert!(check_records(packed, &limits).is_err()));
        assert!(peak < WINDOW, "{compression}: {peak} bytes");
    }

    // What its topic packs anew goes from one codec to the other in pieces: 90 MB in one record cost
    // the result, and that is bounded by what a batch may have.
    let bomb = large_record(90 << 20);
    let packed = batch(Compression::Zstd, &compress(Compression::Zstd, &bomb));
    for wanted in Compression::ALL {
        let batch = check_records(packed.clone(), &limits).unwrap().remove(0);
        for level in [3, 22] {
            let kept = Kept {
                codec: Codec {
                    compression: wanted,
                    level,
                },
                max_bytes: 1 << 20,
            };
            let batch = batch.clone();
            let peak = peak_of(|| drop(recompress(batch, &kept, &mut Tables::default())));
            assert!(peak < 5 << 20, "{wanted}: {peak} bytes");
        }
    }
    #[cfg(target_os = "linux")]
    {
        let kept = Kept {
            codec: Codec {
                compression: Compression::Zstd,
                level: 22,
            },
            max_bytes: 1 << 20,
        };
        let lz4 = batch(Compression::Lz4, &compress(Compression::Lz4, &bomb));
        let batch = check_records(lz4, &limits).unwrap().remove(0);
        let peak =
            resident_peak_of(|| assert!(recompress(batch, &kept, &mut Tables::default()).is_ok()));
        assert!(peak < 64 << 20, "zstd at level 22: {peak} bytes");
    }

    // Lies in a few bytes: a record of 2 GiB; snappy of 200 MB, unframed and as a block of xerial's;
    // an lz4 frame with blocks of 4 MiB and content of 2^60 bytes; zstd with content of 2^60.
    let record_lie = [0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 1, 1, 0];
    let mut xerial_lie = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01\0\0\0\x05".to_vec();
    let snappy_lie = [0x80, 0x84, 0xaf, 0x5f, 0x00];
    xerial_lie.extend_from_slice(&snappy_lie);
    let mut lz4_lie = b"\x04\x22\x4d\x18\x68\x70\0\0\0\0\0\0\0\x10".to_vec();
    lz4_lie.extend_from_slice(&[0x00, 4, 0, 0, 0, 0x1f, 0, 1, 0]);
    let mut zstd_lie = b"\x28\xb5\x2f\xfd\xc0\x88".to_vec();
    zstd_lie.extend_from_slice(&(1u64 << 60).to_le_bytes());
    zstd_lie.extend_from_slice(&[1, 0, 0]);
    let lies = [
        (Compression::None, record_lie.to_vec()),
        (Compression::Gzip, compress(Compression::Gzip, &record_lie)),
        (Compression::Snappy, snappy_lie.to_vec()),
        (Compression::Snappy, xerial_lie),
        (Compression::Lz4, lz4_lie),
        (Compression::Zstd, zstd_lie),
    ];
    for (compression, payload) in lies {
        let lie = batch(compression, &payload);
        let peak = peak_of(|| assert!(check_records(lie, &limits).is_err()));
        assert!(peak < WINDOW, "{compression}: {peak} bytes");
    }

    // A zstd window of 128 MiB is what Java writes at level 22, however little there is to say. It
    // is accepted, and is not touched beyond what is really unpacked.
    #[cfg(target_os = "linux")]
    {
        let record = large_record(0);
        let mut frame = b"\x28\xb5\x2f\xfd\x00\x88".to_vec();
        let block_header = (record.len() as u32) << 3 | 1;
        frame.extend_from_slice(&block_header.to_le_bytes()[..3]);
        frame.extend_from_slice(&record);
        let small = batch(Compression::Zstd, &frame);
        let peak = resident_peak_of(|| assert!(check_records(small, &limits).is_ok()));
        assert!(peak < 2 << 20, "{peak} bytes");
    }
}
