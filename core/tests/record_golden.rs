//! Batches made by Kafka's own classes, read here; and batches made here, read by others.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use bytes::{Bytes, BytesMut};
use kafka_protocol::records::{
    Compression as TheirCompression, Record as TheirRecord, RecordBatchDecoder, RecordBatchEncoder,
    RecordEncodeOptions, TimestampType,
};
use odradek_core::ids::Offset;
use odradek_core::record::{
    BatchBuilder, BatchFields, BatchRecords, Compression, Limits, check_own_batch, check_records,
};

const TIME: i64 = 1_700_000_000_000;

fn golden(name: &str) -> Bytes {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden_batches")
        .join(name);
    std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .into()
}

/// The value of record `i` of a large batch, as `GoldenBatches.java` makes it.
fn large_value(i: usize) -> Vec<u8> {
    let mut state = i as u32 + 1;
    (0..1024)
        .map(|j| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if i.is_multiple_of(10) {
                (state >> 24) as u8
            } else {
                b'a' + ((i + j) % 7) as u8
            }
        })
        .collect()
}

fn large_batch(compression: Compression) -> Bytes {
    let mut builder = BatchBuilder::new(usize::MAX);
    for i in 0..300 {
        let key = format!("key-{i}");
        let value = large_value(i);
        assert!(builder.append(TIME + i as i64, Some(key.as_bytes()), Some(&value), &[]));
    }
    builder.build(BatchFields {
        compression,
        ..BatchFields::default()
    })
}

#[test]
fn kafkas_small_batches_are_accepted_and_read() {
    for compression in Compression::ALL {
        let batch = golden(&format!("{compression}-small.batch"));
        let checked = check_records(batch.clone(), &Limits::default())
            .unwrap_or_else(|error| panic!("{compression}: {error}"))
            .remove(0);
        let header = checked.header;
        assert_eq!(header.compression(), Some(compression));
        assert!(header.is_transactional() && !header.is_control());
        assert_eq!((header.producer_id, header.producer_epoch), (4711, 3));
        assert_eq!((header.base_sequence, header.last_sequence()), (42, 45));
        assert_eq!(header.leader_epoch.0, 7);
        assert_eq!(header.max_timestamp, TIME + 100_000);
        assert_eq!(checked.facts.max_timestamp, TIME + 100_000);
        assert_eq!(checked.facts.min_timestamp, TIME - 5);
        assert!(!checked.facts.without_key.is_empty());

        let records = BatchRecords::open(&batch, 1 << 20).unwrap();
        let records: Vec<_> = records.iter().map(Result::unwrap).collect();
        let key_values: Vec<_> = records.iter().map(|r| (r.key, r.value)).collect();
        assert_eq!(
            key_values,
            [
                (Some(&b"key"[..]), Some(&b"value"[..])),
                (None, Some(b"no key")),
                (Some(b""), Some(b"")),
                (Some(b"tombstone"), None),
            ]
        );
        let headers: Vec<_> = records[0]
            .headers
            .iter()
            .map(|h| (h.key, h.value))
            .collect();
        assert_eq!(
            headers,
            [
                (&b"twice"[..], Some(&b"a"[..])),
                (b"twice", Some(b"b")),
                (b"null", None),
                (b"empty", Some(b"")),
                (b"", Some(b"no name")),
            ]
        );
        let times: Vec<_> = records.iter().map(|r| r.timestamp - TIME).collect();
        assert_eq!(times, [0, -5, 100_000, 1]);
    }
}

#[test]
fn kafkas_large_batches_are_accepted_and_read() {
    for compression in Compression::ALL {
        let batch = golden(&format!("{compression}-large.batch"));
        assert!(check_records(batch.clone(), &Limits::default()).is_ok());
        let records = BatchRecords::open(&batch, 1 << 20).unwrap();
        let mut count = 0;
        for (i, record) in records.iter().enumerate() {
            let record = record.unwrap();
            assert_eq!(record.offset, Offset(i as i64));
            assert_eq!(record.key, Some(format!("key-{i}").as_bytes()));
            assert!(record.value == Some(&large_value(i)), "{compression}, {i}");
            count += 1;
        }
        let expected = if compression == Compression::None {
            3
        } else {
            300
        };
        assert_eq!(count, expected);
    }
}

#[test]
fn without_compression_our_bytes_are_kafkas() {
    let mut builder = BatchBuilder::new(usize::MAX);
    for i in 0..3 {
        let key = format!("key-{i}");
        let value = large_value(i);
        assert!(builder.append(TIME + i as i64, Some(key.as_bytes()), Some(&value), &[]));
    }
    let ours = builder.build(BatchFields::default());
    assert!(ours == golden("none-large.batch"));
}

#[test]
fn kafkas_append_time_is_that_of_every_record() {
    let batch = golden("append-time.batch");
    let checked = check_own_batch(batch.clone(), &Limits::default()).unwrap();
    assert!(checked.header.is_log_append_time());
    let records = BatchRecords::open(&batch, 1 << 20).unwrap();
    let times: Vec<_> = records
        .iter()
        .map(|record| record.map(|r| (r.offset, r.timestamp)).unwrap())
        .collect();
    assert_eq!(times, [(Offset(1000), TIME), (Offset(1001), TIME)]);
}

/// Another implementation's compressions, by ours.
const THEIRS: [(Compression, TheirCompression); 4] = [
    (Compression::None, TheirCompression::None),
    (Compression::Snappy, TheirCompression::Snappy),
    (Compression::Lz4, TheirCompression::Lz4),
    (Compression::Zstd, TheirCompression::Zstd),
];

#[test]
fn our_batches_are_read_by_kafka_protocol() {
    for (compression, _) in THEIRS {
        let read = RecordBatchDecoder::decode_all(&mut large_batch(compression))
            .unwrap_or_else(|error| panic!("{compression}: {error}"));
        let records: Vec<_> = read.into_iter().flat_map(|set| set.records).collect();
        assert_eq!(records.len(), 300);
        for (i, record) in records.iter().enumerate() {
            assert!(
                record.value.as_deref() == Some(&large_value(i)),
                "{compression}, {i}"
            );
            assert_eq!(record.timestamp, TIME + i as i64);
        }
    }
}

#[test]
fn batches_of_kafka_protocol_are_accepted_and_read() {
    for (compression, theirs) in THEIRS {
        let records: Vec<TheirRecord> = (0..300)
            .map(|i| TheirRecord {
                transactional: false,
                control: false,
                delete_horizon: false,
                partition_leader_epoch: -1,
                producer_id: -1,
                producer_epoch: -1,
                timestamp_type: TimestampType::Creation,
                offset: i as i64,
                sequence: if i == 0 { -1 } else { i as i32 - 1 },
                timestamp: TIME + i as i64,
                key: None,
                value: Some(large_value(i).into()),
                headers: Default::default(),
            })
            .collect();
        let mut batch = BytesMut::new();
        let options = RecordEncodeOptions {
            version: 2,
            compression: theirs,
        };
        RecordBatchEncoder::encode(&mut batch, &records, &options).unwrap();
        let batch = batch.freeze();
        check_records(batch.clone(), &Limits::default())
            .unwrap_or_else(|error| panic!("{compression}: {error}"));
        let read = BatchRecords::open(&batch, 1 << 20).unwrap();
        for (i, record) in read.iter().enumerate() {
            assert!(record.unwrap().value == Some(&large_value(i)));
        }
    }
}

/// Writes the batches that `GoldenBatches read` judges, where the variable says.
#[test]
fn our_batches_for_kafkas_classes_are_written_where_asked() {
    for compression in Compression::ALL {
        let batch = large_batch(compression);
        assert!(check_records(batch.clone(), &Limits::default()).is_ok());
        if let Some(dir) = std::env::var_os("ODRADEK_WRITE_BATCHES") {
            let path = Path::new(&dir).join(format!("{compression}.batch"));
            std::fs::write(path, &batch).unwrap();
        }
    }
}
