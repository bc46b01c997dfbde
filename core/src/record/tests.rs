use alloc::vec;
use alloc::vec::Vec;
use std::string::ToString;

use bytes::Bytes;
use proptest::prelude::*;

use super::check::{check_batch_at, check_own_batch};
use super::compression::{CompressionError, Tables, compress, decompress_pieces};
use super::walk::{OffsetDeltas, RecordError, RecordFault, RecordWalker, walk_records};
use super::*;
use crate::effect::{BATCH_HEADER_BYTES, WriteData};
use crate::ids::{LeaderEpoch, Offset};
use crate::time::Wall;

/// A record as a test writes it down.
#[derive(Clone, Debug, PartialEq)]
struct Written {
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

fn record(timestamp: i64, key: Option<&str>, value: Option<&str>) -> Written {
    Written {
        timestamp,
        key: key.map(|key| key.as_bytes().to_vec()),
        value: value.map(|value| value.as_bytes().to_vec()),
        headers: vec![],
    }
}

fn builder_of(records: &[Written]) -> BatchBuilder {
    let mut builder = BatchBuilder::new(usize::MAX);
    for record in records {
        let headers: Vec<_> = record
            .headers
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_deref()))
            .collect();
        let fits = builder.append(
            record.timestamp,
            record.key.as_deref(),
            record.value.as_deref(),
            &headers,
        );
        assert!(fits);
    }
    builder
}

fn batch_of(records: &[Written], compression: Compression) -> Bytes {
    builder_of(records).build(BatchFields {
        compression,
        ..BatchFields::default()
    })
}

fn read(batch: &Bytes) -> Vec<Written> {
    BatchRecords::open(batch, usize::MAX)
        .unwrap()
        .iter()
        .map(|record| {
            let record = record.unwrap();
            Written {
                timestamp: record.timestamp,
                key: record.key.map(<[u8]>::to_vec),
                value: record.value.map(<[u8]>::to_vec),
                headers: record
                    .headers
                    .iter()
                    .map(|header| (header.key.to_vec(), header.value.map(<[u8]>::to_vec)))
                    .collect(),
            }
        })
        .collect()
}

fn check(batch: impl Into<Bytes>) -> Result<CheckedBatch, RecordsError> {
    check_records(batch.into(), &Limits::default()).map(|mut batches| {
        assert_eq!(batches.len(), 1);
        batches.remove(0)
    })
}

/// A batch of three records, the second without a key, the third with headers.
fn three_records() -> Vec<Written> {
    vec![
        record(1_000, Some("a"), Some("apple")),
        record(900, None, Some("")),
        Written {
            headers: vec![
                (b"h".to_vec(), Some(b"1".to_vec())),
                (b"h".to_vec(), None),
                (b"".to_vec(), Some(vec![])),
            ],
            ..record(1_100, Some(""), None)
        },
    ]
}

/// A batch with its header changed and its CRC put right again.
fn with_header(batch: &Bytes, change: impl FnOnce(&mut BatchHeader)) -> Bytes {
    let mut header = BatchHeader::parse(batch).unwrap();
    change(&mut header);
    sealed(&header, &batch[BATCH_HEADER_BYTES..])
}

/// Header and payload as a batch with a CRC that holds.
fn sealed(header: &BatchHeader, payload: &[u8]) -> Bytes {
    let mut header = *header;
    header.batch_length = (BATCH_HEADER_BYTES - 12 + payload.len()) as u32;
    let mut covered = header.encode()[21..].to_vec();
    covered.extend_from_slice(payload);
    header.crc = crc32c::crc32c(&covered);
    let mut batch = header.encode().to_vec();
    batch.extend_from_slice(payload);
    batch.into()
}

/// A header for `count` records compressed like that.
fn header(count: i32, compression: Compression) -> BatchHeader {
    BatchHeader {
        base_offset: Offset(0),
        batch_length: 49,
        leader_epoch: LeaderEpoch(-1),
        crc: 0,
        attributes: compression as i16,
        last_offset_delta: count - 1,
        base_timestamp: 0,
        max_timestamp: 0,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        record_count: count,
    }
}

fn whole(write: &WriteData) -> Vec<u8> {
    let mut bytes = write.header.to_vec();
    bytes.extend_from_slice(&write.records);
    bytes
}

fn written() -> impl Strategy<Value = Written> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..80);
    let nullable = || proptest::option::of(bytes());
    (
        prop_oneof![Just(-1i64), 0..2_000_000_000_000i64],
        nullable(),
        nullable(),
        proptest::collection::vec((bytes(), nullable()), 0..4),
    )
        .prop_map(|(timestamp, key, value, headers)| Written {
            timestamp,
            key,
            value,
            headers,
        })
}

fn any_compression() -> impl Strategy<Value = Compression> {
    proptest::sample::select(Compression::ALL.as_slice())
}

proptest! {
    #[test]
    fn what_is_built_is_accepted_and_reads_back(
        records in proptest::collection::vec(written(), 1..40),
        compression in any_compression(),
    ) {
        let batch = batch_of(&records, compression);
        let checked = check(batch.clone()).unwrap();
        prop_assert_eq!(checked.header.record_count as usize, records.len());
        prop_assert_eq!(checked.header.compression(), Some(compression));
        let times = || records.iter().map(|r| r.timestamp).filter(|t| *t != -1);
        prop_assert_eq!(checked.facts.max_timestamp, times().max().unwrap_or(-1));
        prop_assert_eq!(checked.facts.min_timestamp, times().min().unwrap_or(-1));
        prop_assert_eq!(checked.header.max_timestamp, checked.facts.max_timestamp);
        let without_key: Vec<i32> = (0..)
            .zip(&records)
            .filter_map(|(at, record)| record.key.is_none().then_some(at))
            .collect();
        prop_assert_eq!(checked.facts.without_key.is_empty(), without_key.is_empty());
        prop_assert_eq!(checked.facts.without_key.iter().collect::<Vec<_>>(), without_key);
        prop_assert_eq!(
            checked.facts.uncompressed_bytes as usize + BATCH_HEADER_BYTES,
            builder_of(&records).estimated_size()
        );
        prop_assert_eq!(read(&batch), records);
    }

    #[test]
    fn a_walk_in_pieces_finds_what_a_walk_at_once_finds(
        records in proptest::collection::vec(written(), 1..12),
        cuts in proptest::collection::vec(1usize..60, 1..40),
        damage in proptest::option::of((any::<prop::sample::Index>(), any::<u8>())),
        surplus in proptest::collection::vec(any::<u8>(), 0..3),
        missing in 0usize..3,
    ) {
        let batch = batch_of(&records, Compression::None);
        let header = BatchHeader::parse(&batch).unwrap();
        let mut payload = batch[BATCH_HEADER_BYTES..].to_vec();
        if let Some((place, byte)) = damage {
            let place = place.index(payload.len());
            payload[place] = byte;
        }
        payload.extend_from_slice(&surplus);
        payload.truncate(payload.len() - missing);

        let at_once = walk_records(&header, OffsetDeltas::Dense, &payload);
        let mut walker = RecordWalker::new(&header, OffsetDeltas::Dense);
        let mut rest = payload.as_slice();
        let mut fed = Ok(());
        for cut in cuts.iter().cycle() {
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            fed = walker.feed(piece);
            rest = after;
            if fed.is_err() || rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(fed.and_then(|()| walker.finish()), at_once);

        // The reader agrees with the walk about every payload.
        let sealed = sealed(&header, &payload);
        let opened = BatchRecords::open(&sealed, usize::MAX).unwrap();
        if at_once.is_ok() {
            prop_assert!(opened.iter().all(|record| record.is_ok()));
        }
    }

    #[test]
    fn bytes_of_any_kind_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let bytes = Bytes::from(bytes);
        let _ = check(bytes.clone());
        let _ = check_batch_at(&bytes);
        let _ = BatchRecords::open(&bytes, 1 << 20).map(|records| records.iter().count());
    }

    #[test]
    fn a_payload_of_any_kind_does_no_harm(
        payload in proptest::collection::vec(any::<u8>(), 0..300),
        count in 1i32..1_000_000,
        compression in any_compression(),
    ) {
        let batch = sealed(&header(count, compression), &payload);
        let _ = check(batch.clone());
        let _ = BatchRecords::open(&batch, 1 << 20).map(|records| records.iter().count());
    }

    #[test]
    fn damage_to_compressed_bytes_does_no_harm(
        compression in any_compression(),
        place in any::<prop::sample::Index>(),
        byte: u8,
        repeats in 1usize..2_000,
    ) {
        let mut packed = compress(compression, b"some text that repeats itself; ".repeat(repeats).as_slice());
        let place = place.index(packed.len());
        packed[place] = byte;
        let mut produced = 0;
        let limit = 100_000;
        let sink = |piece: &[u8]| {
            produced += piece.len();
            Ok::<(), ()>(())
        };
        let mut tables = Tables::default();
        let _ = decompress_pieces(compression, &packed, limit, sink, tables.split().0);
        prop_assert!(produced <= limit);
    }

    #[test]
    fn a_stamped_batch_has_a_crc_that_holds(
        records in proptest::collection::vec(written(), 1..8),
        compression in any_compression(),
        base in 0i64..1 << 40,
        epoch in 0i32..100,
        append_time in proptest::option::of(0i64..1 << 42),
    ) {
        let checked = check(batch_of(&records, compression)).unwrap();
        let stamped = whole(&checked.stamp(Offset(base), LeaderEpoch(epoch), append_time.map(Wall)));
        let header = check_batch_at(&stamped).unwrap();
        prop_assert_eq!(header.base_offset, Offset(base));
        prop_assert_eq!(header.leader_epoch, LeaderEpoch(epoch));
        prop_assert_eq!(header.is_log_append_time(), append_time.is_some());
        prop_assert_eq!(header.max_timestamp, checked.stored_max_timestamp(append_time.map(Wall)));
        prop_assert_eq!(&stamped[BATCH_HEADER_BYTES..], &checked.bytes[BATCH_HEADER_BYTES..]);
        if append_time.is_none() {
            prop_assert_eq!(header.crc, checked.header.crc);
        } else {
            let times: Vec<_> = read(&stamped.into()).iter().map(|r| r.timestamp).collect();
            prop_assert_eq!(times, vec![append_time.unwrap(); records.len()]);
        }
    }
}

#[test]
fn a_flipped_bit_is_refused_wherever_the_broker_does_not_write_anyway() {
    for compression in Compression::ALL {
        let good = batch_of(&three_records(), compression);
        check(good.clone()).unwrap();
        for place in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.to_vec();
                bad[place] ^= 1 << bit;
                let leader_epoch = (12..16).contains(&place);
                assert_eq!(
                    check(bad).is_ok(),
                    leader_epoch,
                    "{compression}, byte {place}, bit {bit}"
                );
            }
        }
    }
}

#[test]
fn a_batch_without_its_last_bytes_is_refused() {
    let good = batch_of(&three_records(), Compression::None);
    for length in 0..good.len() {
        assert!(check(good.slice(..length)).is_err(), "{length} bytes");
        assert!(
            matches!(
                check_batch_at(&good[..length]),
                Err(BatchError::Truncated { needed, found })
                    if needed > found && found == length as u64
            ),
            "{length} bytes"
        );
    }
    let mut more = good.to_vec();
    more.extend_from_slice(&good);
    assert_eq!(check_batch_at(&more), BatchHeader::parse(&good));
    assert_eq!(
        check(more),
        Err(RecordsError::MoreThanOneBatch {
            surplus_bytes: good.len() as u64
        })
    );
}

impl PartialEq for CheckedBatch {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes && self.facts == other.facts
    }
}

#[test]
fn clients_are_refused_with_the_errors_of_kafka() {
    use RecordsErrorKind as Kind;
    let good = batch_of(&three_records(), Compression::None);
    let magic = |magic| {
        let mut batch = good.to_vec();
        batch[16] = magic;
        batch.into()
    };
    let change = |change: &dyn Fn(&mut BatchHeader)| with_header(&good, change);
    let zstd = batch_of(&three_records(), Compression::Zstd);
    let cases: [(&str, Bytes, Kind); 16] = [
        ("nothing", Bytes::new(), Kind::InvalidRecord),
        ("magic 0", magic(0), Kind::InvalidRecord),
        ("magic 1", magic(1), Kind::InvalidRecord),
        ("magic 3", magic(3), Kind::CorruptMessage),
        (
            "a wrong CRC",
            {
                let mut batch = good.to_vec();
                batch[17] ^= 1;
                batch.into()
            },
            Kind::CorruptMessage,
        ),
        (
            "a length below the least",
            {
                let mut batch = good.to_vec();
                batch[8..12].copy_from_slice(&48i32.to_be_bytes());
                batch.into()
            },
            Kind::CorruptMessage,
        ),
        (
            "half a batch",
            good.slice(..good.len() / 2),
            Kind::InvalidRecord,
        ),
        (
            "a base offset",
            change(&|h| h.base_offset = Offset(7)),
            Kind::InvalidRecord,
        ),
        (
            "a control batch",
            change(&|h| h.attributes |= 1 << 5),
            Kind::InvalidRecord,
        ),
        (
            "append time",
            change(&|h| h.attributes |= 1 << 3),
            Kind::InvalidTimestamp,
        ),
        (
            "compression 5",
            change(&|h| h.attributes |= 5),
            Kind::UnsupportedCompressionType,
        ),
        (
            "no sequence",
            change(&|h| h.producer_id = 1),
            Kind::InvalidRecord,
        ),
        (
            "no records",
            change(&|h| (h.record_count, h.last_offset_delta) = (0, 0)),
            Kind::InvalidRecord,
        ),
        (
            "a gap at the end",
            change(&|h| h.last_offset_delta += 1),
            Kind::InvalidRecord,
        ),
        (
            "more records than offsets",
            change(&|h| h.record_count += 1),
            Kind::InvalidRecord,
        ),
        (
            "too many records",
            change(&|h| {
                (h.record_count, h.last_offset_delta) = (i32::MAX, i32::MAX - 1);
            }),
            Kind::MessageTooLarge,
        ),
    ];
    for (what, batch, kind) in cases {
        let error = check(batch).expect_err(what);
        assert_eq!(error.kind(), kind, "{what}: {error}");
        assert!(!error.to_string().is_empty());
    }

    let below_produce_7 = Limits {
        zstd_allowed: false,
        ..Limits::default()
    };
    let refused = check_records(zstd.clone(), &below_produce_7).unwrap_err();
    assert_eq!(refused.kind(), Kind::UnsupportedCompressionType);
    assert!(check_records(zstd, &Limits::default()).is_ok());

    let idempotent = change(&|h| (h.producer_id, h.producer_epoch, h.base_sequence) = (1, 0, 0));
    assert!(check(idempotent).is_ok());
}

#[test]
fn a_record_that_is_wrong_is_named() {
    let good = batch_of(&three_records(), Compression::None);
    let payload = &good[BATCH_HEADER_BYTES..];
    let good_header = BatchHeader::parse(&good).unwrap();
    // The first record: length, attributes, timestamp and offset deltas, key length 1, "a",
    // value length 5, "apple", no headers.
    assert_eq!(payload[..13], *b"\x18\0\0\0\x02a\x0aapple\0");
    let with = |place: usize, byte: u8| {
        let mut payload = payload.to_vec();
        payload[place] = byte;
        payload
    };
    let fault = |index, fault| Err(RecordsError::Record(RecordError { index, fault }));
    let cases = [
        (with(0, 0x01), fault(0, RecordFault::NegativeLength(-1))),
        (with(0, 0x1a), fault(0, RecordFault::Surplus(1))),
        (with(0, 0x00), fault(0, RecordFault::Truncated)),
        (
            with(3, 0x02),
            fault(
                0,
                RecordFault::OffsetDelta {
                    found: 1,
                    expected: 0,
                },
            ),
        ),
        (with(4, 0x40), fault(0, RecordFault::Key(32))),
        (with(6, 0x40), fault(0, RecordFault::Value(32))),
        (with(12, 0x02), fault(0, RecordFault::HeaderCount(1))),
        (with(12, 0x01), fault(0, RecordFault::HeaderCount(-1))),
        // The second record starts at 13; its offset delta of 1 becomes 0, then 2.
        (
            with(13 + 4, 0x00),
            fault(
                1,
                RecordFault::OffsetDelta {
                    found: 0,
                    expected: 1,
                },
            ),
        ),
        (
            with(13 + 4, 0x04),
            fault(
                1,
                RecordFault::OffsetDelta {
                    found: 2,
                    expected: 1,
                },
            ),
        ),
        (payload[..13].to_vec(), fault(1, RecordFault::Missing)),
        (payload[..15].to_vec(), fault(1, RecordFault::Truncated)),
        ([payload, &[0]].concat(), fault(3, RecordFault::Unexpected)),
    ];
    for (payload, expected) in cases {
        for compression in Compression::ALL {
            let header = BatchHeader {
                attributes: compression as i16,
                ..good_header
            };
            let batch = sealed(&header, &compress(compression, &payload));
            assert_eq!(check(batch).map(|_| ()), expected, "{compression}");
        }
    }

    let overflowing = with_header(&good, |header| header.base_timestamp = i64::MAX - 99);
    assert_eq!(
        check(overflowing).map(|_| ()),
        fault(2, RecordFault::Timestamp)
    );
}

#[test]
fn a_largest_timestamp_that_is_wrong_is_put_right_when_stored() {
    let batch = with_header(&batch_of(&three_records(), Compression::Lz4), |header| {
        header.max_timestamp = 5;
    });
    let checked = check(batch).unwrap();
    let stamped = whole(&checked.stamp(Offset(0), LeaderEpoch(0), None));
    assert_eq!(check_batch_at(&stamped).unwrap().max_timestamp, 1_100);
}

#[test]
fn a_batch_of_our_own_may_be_what_a_clients_may_not() {
    let good = builder_of(&three_records()).build(BatchFields {
        base_offset: Offset(500),
        leader_epoch: LeaderEpoch(3),
        control: true,
        transactional: true,
        producer: Some(ProducerFields {
            producer_id: 9,
            producer_epoch: 1,
            base_sequence: -1,
        }),
        ..BatchFields::default()
    });
    let checked = check_own_batch(good.clone(), &Limits::default()).unwrap();
    assert!(checked.header.is_control() && checked.header.is_transactional());
    assert_eq!(checked.header.last_offset(), Offset(502));
    assert_eq!(checked.header.next_offset(), Offset(503));
    assert_eq!(checked.header.size_bytes(), good.len() as u64);

    // What the cleaner leaves: fewer records than offsets, or none.
    let gap = with_header(&good, |header| header.last_offset_delta = 7);
    assert!(check_own_batch(gap, &Limits::default()).is_ok());
    for compression in Compression::ALL {
        let emptied = BatchHeader {
            record_count: 0,
            last_offset_delta: 7,
            ..header(1, compression)
        };
        let emptied = sealed(&emptied, &[]);
        assert!(check_own_batch(emptied.clone(), &Limits::default()).is_ok());
        assert_eq!(read(&emptied), []);
    }
    let none_is_past_the_last = with_header(&good, |header| {
        (header.last_offset_delta, header.record_count) = (1, 2);
    });
    assert!(check_own_batch(none_is_past_the_last, &Limits::default()).is_err());
}

#[test]
fn a_record_is_found_by_its_timestamp() {
    let records = BatchRecords::open(&batch_of(&three_records(), Compression::Zstd), 1000).unwrap();
    let first = |timestamp| {
        let found = records.first_at_or_after(timestamp).unwrap();
        found.map(|record| (record.offset, record.timestamp))
    };
    assert_eq!(first(0), Some((Offset(0), 1_000)));
    assert_eq!(first(1_000), Some((Offset(0), 1_000)));
    assert_eq!(first(1_001), Some((Offset(2), 1_100)));
    assert_eq!(first(1_101), None);
    let newest = records.first_with_max_timestamp().unwrap().unwrap();
    assert_eq!((newest.offset, newest.timestamp), (Offset(2), 1_100));
}

#[test]
fn sequence_numbers_wrap_to_zero() {
    let last = |base_sequence, last_offset_delta| {
        BatchHeader {
            base_sequence,
            last_offset_delta,
            ..header(1, Compression::None)
        }
        .last_sequence()
    };
    assert_eq!(last(5, 2), 7);
    assert_eq!(last(i32::MAX, 0), i32::MAX);
    assert_eq!(last(i32::MAX, 1), 0);
    assert_eq!(last(i32::MAX - 1, 4), 2);
    assert_eq!(last(-1, 4), -1);
}

#[test]
fn a_builder_is_full_when_the_next_record_does_not_fit() {
    let mut builder = BatchBuilder::new(200);
    assert!(
        builder.append(1, None, Some(&[0; 500]), &[]),
        "the first always fits"
    );
    assert!(!builder.append(2, None, Some(&[]), &[]));
    assert_eq!(builder.record_count(), 1);

    let mut builder = BatchBuilder::new(200);
    while builder.append(1, Some(b"k"), Some(&[7; 20]), &[]) {}
    assert_eq!(builder.record_count(), 4);
    let size = builder.estimated_size();
    let batch = builder.build(BatchFields::default());
    assert_eq!(batch.len(), size);
    assert!(batch.len() <= 200);
}

#[test]
fn single_fields_are_those_of_the_header() {
    let batch = with_header(&batch_of(&three_records(), Compression::Gzip), |header| {
        header.base_offset = Offset(77);
        header.leader_epoch = LeaderEpoch(5);
    });
    let header = BatchHeader::parse(&batch).unwrap();
    assert_eq!(batch::raw::base_offset(&batch), Some(77));
    assert_eq!(batch::raw::size_bytes(&batch), Some(batch.len() as u64));
    assert_eq!(batch::raw::leader_epoch(&batch), Some(5));
    assert_eq!(batch::raw::magic(&batch), Some(2));
    assert_eq!(batch::raw::crc(&batch), Some(header.crc));
    assert_eq!(batch::raw::attributes(&batch), Some(1));
    assert_eq!(batch::raw::last_offset_delta(&batch), Some(2));
    assert_eq!(batch::raw::max_timestamp(&batch), Some(1_100));
    assert_eq!(batch::raw::record_count(&batch), Some(3));
    assert_eq!(batch::raw::record_count(&batch[..60]), None);
    assert!(batch::verify_crc(&batch));
    assert!(!batch::verify_crc(&batch[..batch.len() - 1]));
    assert!(!batch::verify_crc(&batch[..10]));
    assert_eq!(header.encode(), batch[..BATCH_HEADER_BYTES]);
}

#[test]
fn a_batch_that_would_unpack_to_too_much_is_refused() {
    let limits = Limits {
        max_decompressed_bytes: 10_000,
        ..Limits::default()
    };
    let large = [record(0, Some("k"), Some(&"x".repeat(20_000)))];
    for compression in Compression::ALL {
        let refused = check_records(batch_of(&large, compression), &limits);
        if compression == Compression::None {
            // Nothing is unpacked; how large a batch may be is the topic's to say.
            assert!(refused.is_ok());
            continue;
        }
        let error = refused.unwrap_err();
        let too_large = CompressionError::TooLarge { limit: 10_000 };
        assert_eq!(error, RecordsError::Compression(too_large), "{compression}");
        assert_eq!(error.kind(), RecordsErrorKind::MessageTooLarge);
    }
}

fn kept(compression: Compression, max_bytes: u32) -> Kept {
    Kept {
        codec: compression.into(),
        max_bytes,
    }
}

proptest! {
    #[test]
    fn a_recompressed_batch_says_the_same(
        records in proptest::collection::vec(written(), 1..8),
        came in any_compression(),
        wanted in any_compression(),
        producer in proptest::option::of((0i64..1 << 40, 0i16.., 0i32..)),
    ) {
        let sent = builder_of(&records).build(BatchFields {
            compression: came,
            producer: producer.map(|(producer_id, producer_epoch, base_sequence)| ProducerFields {
                producer_id,
                producer_epoch,
                base_sequence,
            }),
            ..BatchFields::default()
        });
        let checked = check(sent.clone()).unwrap();
        let packed = recompress(checked.clone(), &kept(wanted, u32::MAX), &mut Tables::default()).unwrap();
        // It is a batch that a client could have sent, in the right codec.
        let again = check(packed.bytes.clone()).unwrap();
        prop_assert_eq!(again.header.compression(), Some(wanted));
        prop_assert_eq!(again.header, packed.header);
        prop_assert_eq!(packed.arrived_bytes, sent.len() as u64);
        let but_for_the_packing = |batch: &CheckedBatch| BatchHeader {
            batch_length: 0,
            crc: 0,
            attributes: batch.header.attributes & !0b111,
            ..batch.header
        };
        prop_assert_eq!(but_for_the_packing(&packed), but_for_the_packing(&checked));
        prop_assert_eq!(again.facts.max_timestamp, checked.facts.max_timestamp);
        prop_assert_eq!(again.facts.uncompressed_bytes, checked.facts.uncompressed_bytes);
        prop_assert_eq!(read(&packed.bytes), records);
        if came == wanted {
            prop_assert_eq!(packed.bytes, sent);
        }
    }
}

#[test]
fn a_batch_in_the_codec_of_its_topic_is_not_touched_whatever_its_level() {
    let sent = batch_of(&three_records(), Compression::Gzip);
    let kept = Kept {
        codec: Codec {
            compression: Compression::Gzip,
            level: 9,
        },
        max_bytes: 10,
    };
    let packed = recompress(check(sent.clone()).unwrap(), &kept, &mut Tables::default()).unwrap();
    assert_eq!(packed.bytes.as_ptr(), sent.as_ptr());
}

#[test]
fn levels_show_in_the_size() {
    let text: std::string::String = (0..20_000).map(|n| std::format!("{} ", n * n)).collect();
    let sent = batch_of(&[record(1, None, Some(&text))], Compression::None);
    for (compression, low, high) in [(Compression::Gzip, 1, 9), (Compression::Zstd, -20, 19)] {
        let size = |level| {
            let codec = Codec { compression, level };
            let max_bytes = u32::MAX;
            let packed = recompress(
                check(sent.clone()).unwrap(),
                &Kept { codec, max_bytes },
                &mut Tables::default(),
            );
            let packed = packed.unwrap().bytes;
            assert_eq!(read(&packed)[0].value.as_deref(), Some(text.as_bytes()));
            packed.len()
        };
        assert!(size(low) > size(high), "{compression}");
    }
}

#[test]
fn a_batch_that_unpacks_beyond_what_its_topic_allows_is_too_large() {
    let zeros = "0".repeat(100_000);
    let sent = batch_of(&[record(1, None, Some(&zeros))], Compression::Zstd);
    assert!(sent.len() < 200);
    for (wanted, limit) in [(Compression::None, 90_000), (Compression::Snappy, 4_000)] {
        let refused = recompress(
            check(sent.clone()).unwrap(),
            &kept(wanted, limit),
            &mut Tables::default(),
        );
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), RecordsErrorKind::MessageTooLarge);
        assert!(error.to_string().contains(&std::format!("{limit} bytes")));
        assert!(
            recompress(
                check(sent.clone()).unwrap(),
                &kept(wanted, 200_000),
                &mut Tables::default()
            )
            .is_ok()
        );
    }
}
