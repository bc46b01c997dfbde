//! How fast a produce request's records are checked: `cargo run --release -p odradek-core
//! --example check_throughput`. One thread; the median of several rounds.

#![expect(
    clippy::disallowed_types,
    reason = "a measurement needs a clock; it is no part of the core"
)]

use std::time::{Duration, Instant};

use odradek_core::ids::{LeaderEpoch, Offset};
use odradek_core::record::{
    BatchBuilder, BatchFields, BatchRecords, Compression, Limits, check_records,
};
use odradek_core::time::Wall;

fn main() {
    println!("checked batches: header, CRC, every record");
    for (records, value_bytes) in [(1_000, 100), (1_000, 1024), (10, 100), (1, 100)] {
        for compression in Compression::ALL {
            measure(records, value_bytes, compression);
        }
    }
    println!("stamped batches, with the time of their append: a new CRC");
    for records in [1, 1_000, 100_000] {
        measure_stamp(records);
    }
}

fn measure(records: usize, value_bytes: usize, compression: Compression) {
    let mut builder = BatchBuilder::new(usize::MAX);
    for i in 0..records {
        // Text that compresses about as JSON does.
        let value: Vec<u8> = (0..value_bytes)
            .map(|j| b"abcdefghijklmnop"[(i * 31 + j * j * 7 + (i * j) % 5) % 16])
            .collect();
        assert!(builder.append(1_700_000_000_000 + i as i64, None, Some(&value), &[]));
    }
    let unpacked = builder.estimated_size();
    let batch = builder.build(BatchFields {
        compression,
        ..BatchFields::default()
    });
    let limits = Limits::default();
    let check = rate(|| {
        check_records(batch.clone(), &limits).expect("the batch is good");
    });
    let read = rate(|| {
        let records = BatchRecords::open(&batch, usize::MAX).expect("the batch is good");
        assert!(records.iter().all(|record| record.is_ok()));
    });
    println!(
        "{records:>5} x {value_bytes:>4} B {:<6} {:>8} B on the wire: check {:>6.0} MB/s {:>7.2} M records/s, read {:>6.0} MB/s",
        compression.name(),
        batch.len(),
        check * unpacked as f64 / 1e6,
        check * records as f64 / 1e6,
        read * unpacked as f64 / 1e6,
    );
}

fn measure_stamp(records: usize) {
    let mut builder = BatchBuilder::new(usize::MAX);
    for _ in 0..records {
        assert!(builder.append(1_700_000_000_000, None, Some(&[7; 100]), &[]));
    }
    let batch = builder.build(BatchFields::default());
    let checked = check_records(batch, &Limits::default()).expect("the batch is good");
    let checked = checked.first().expect("there is one");
    let stamp = rate(|| {
        let stamped = checked.stamp(Offset(1), LeaderEpoch(1), Some(Wall(1_700_000_000_001)));
        assert_eq!(stamped.len(), checked.bytes.len());
    });
    println!("{:>9} B: {:>6.0} ns", checked.bytes.len(), 1e9 / stamp);
}

/// Calls a second.
fn rate(mut call: impl FnMut()) -> f64 {
    let mut rounds: Vec<f64> = (0..7)
        .map(|_| {
            let (start, mut calls) = (Instant::now(), 0u32);
            while start.elapsed() < Duration::from_millis(40) {
                for _ in 0..8 {
                    call();
                }
                calls += 8;
            }
            f64::from(calls) / start.elapsed().as_secs_f64()
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}
