//! Topics that keep a codec of their own (`compression.type`).

use super::*;
use crate::broker::harness::{produced_batch, send_batch};
use crate::record::{BatchBuilder, BatchFields, BatchHeader, BatchRecords, Compression};
use crate::wire::messages::incremental_alter_configs::{
    AlterConfigsResource as Incremental, AlterableConfig, IncrementalAlterConfigsRequest,
};

const TOPIC: i8 = 2;

fn packed(values: &[&str], compression: Compression, sequence: i32) -> Bytes {
    let mut builder = BatchBuilder::new(usize::MAX);
    for (index, value) in values.iter().enumerate() {
        let headers: [(&[u8], Option<&[u8]>); 1] = [(b"h", None)];
        let timestamp = 1_700_000_000_000 + index as i64;
        assert!(builder.append(timestamp, None, Some(value.as_bytes()), &headers));
    }
    builder.build(BatchFields {
        compression,
        producer: Some(crate::record::ProducerFields {
            producer_id: 4,
            producer_epoch: 0,
            base_sequence: sequence,
        }),
        ..BatchFields::default()
    })
}

fn set(host: &mut Harness, client: crate::ids::ConnectionId, name: &str, value: Option<&str>) {
    let config = AlterableConfig {
        name: name.into(),
        config_operation: i8::from(value.is_none()),
        value: value.map(Into::into),
        ..Default::default()
    };
    let request = IncrementalAlterConfigsRequest {
        resources: vec![Incremental {
            resource_type: TOPIC,
            resource_name: "orders".into(),
            configs: vec![config],
            ..Default::default()
        }],
        ..Default::default()
    };
    match host.ask(client, 1, &request) {
        ResponseBody::IncrementalAlterConfigs(response) => {
            assert!(!response.responses[0].error_code.is_error(), "{response:?}");
        }
        other => panic!("{other:?}"),
    }
}

/// The batches of the topic from `offset` on.
fn stored(host: &mut Harness, client: crate::ids::ConnectionId, offset: i64) -> Vec<Bytes> {
    host.send_fetch(client, "orders", offset, 0, 0);
    let response = host.fetched(client).unwrap();
    let mut rest = produced_batch(&response);
    let mut batches = Vec::new();
    while !rest.is_empty() {
        let size = BatchHeader::parse(&rest).unwrap().size_bytes() as usize;
        batches.push(rest.split_to(size));
    }
    batches
}

fn values(batch: &Bytes) -> Vec<String> {
    let records = BatchRecords::open(batch, usize::MAX).unwrap();
    let value = |record: crate::record::Record<'_>| {
        String::from_utf8(record.value.unwrap().to_vec()).unwrap()
    };
    records
        .iter()
        .map(|record| value(record.unwrap()))
        .collect()
}

fn a_topic_keeps_its_codec(ignores_codecs: bool) {
    let (mut host, client) = started();
    host.ignores_codecs = ignores_codecs;
    let mut sequence = 0;
    for (name, wanted) in [
        ("gzip", Compression::Gzip),
        ("snappy", Compression::Snappy),
        ("lz4", Compression::Lz4),
        ("zstd", Compression::Zstd),
        ("uncompressed", Compression::None),
    ] {
        set(&mut host, client, "compression.type", Some(name));
        for came in Compression::ALL {
            let offset = i64::from(sequence);
            let sent = packed(&["one", "two", "three"], came, sequence);
            let answer = send_batch(&mut host, client, "orders", sent.clone());
            assert_eq!(answer.error_code, ErrorCode::NONE, "{answer:?}");
            assert_eq!(answer.base_offset, offset);
            let batch = stored(&mut host, client, offset).remove(0);
            let header = BatchHeader::parse(&batch).unwrap();
            assert!(crate::record::batch::verify_crc(&batch));
            assert_eq!(header.compression(), Some(wanted), "{came} in {name}");
            assert_eq!(header.base_offset.0, offset);
            assert_eq!((header.producer_id, header.base_sequence), (4, sequence));
            assert_eq!(header.max_timestamp, 1_700_000_000_002);
            assert_eq!(values(&batch), ["one", "two", "three"]);
            // A retry is known by its number, not by its bytes.
            let again = send_batch(&mut host, client, "orders", sent);
            assert_eq!(again.base_offset, offset);
            sequence += 3;
        }
    }
    set(&mut host, client, "compression.type", None);
    let answer = send_batch(
        &mut host,
        client,
        "orders",
        packed(&["as it came"], Compression::Lz4, sequence),
    );
    let last = stored(&mut host, client, answer.base_offset).remove(0);
    let header = BatchHeader::parse(&last).unwrap();
    assert_eq!(header.compression(), Some(Compression::Lz4));
}

#[test]
fn a_topic_keeps_the_codec_it_is_told_to() {
    a_topic_keeps_its_codec(false);
}

#[test]
fn a_frame_that_was_prepared_before_the_config_changed_is_packed_in_the_step() {
    a_topic_keeps_its_codec(true);
}

#[test]
fn the_brokers_codec_holds_for_topics_without_one() {
    let properties = [("compression.type".to_string(), "zstd".to_string())];
    let (config, warnings) = BrokerConfig::from_properties(properties).unwrap();
    assert!(warnings.is_empty());
    let mut host = Harness::start(config.clone());
    let client = host.connect();
    host.create_topic(client, "orders");
    let codec_of = |host: &mut Harness, client, sequence| {
        let batch = packed(&["x"], Compression::None, sequence);
        let offset = send_batch(host, client, "orders", batch).base_offset;
        let batch = stored(host, client, offset).remove(0);
        BatchHeader::parse(&batch).unwrap().compression().unwrap()
    };
    assert_eq!(codec_of(&mut host, client, 0), Compression::Zstd);
    set(&mut host, client, "compression.type", Some("producer"));
    assert_eq!(codec_of(&mut host, client, 1), Compression::None);
    // After a start too.
    let mut host = Harness::start_on(host.kill(), config);
    let client = host.connect();
    assert_eq!(codec_of(&mut host, client, 2), Compression::None);
    set(&mut host, client, "compression.type", None);
    assert_eq!(codec_of(&mut host, client, 3), Compression::Zstd);
}

#[test]
fn a_batch_is_held_against_the_limit_as_it_came_and_as_it_is_kept() {
    let (mut host, client) = started();
    set(&mut host, client, "max.message.bytes", Some("2000"));
    let zeros = "0".repeat(10_000);
    let small = packed(&[&zeros], Compression::Zstd, -1);
    let large = packed(&[&zeros], Compression::None, -1);
    for (kept, sent, error) in [
        ("producer", &large, ErrorCode::MESSAGE_TOO_LARGE),
        ("zstd", &large, ErrorCode::MESSAGE_TOO_LARGE),
        ("uncompressed", &small, ErrorCode::MESSAGE_TOO_LARGE),
        ("gzip", &small, ErrorCode::NONE),
    ] {
        set(&mut host, client, "compression.type", Some(kept));
        let mut sent = sent.to_vec();
        // Without the numbers of a producer, which would have to follow each other.
        for byte in &mut sent[43..57] {
            *byte = 0xff;
        }
        let crc = crc32c::crc32c(&sent[21..]);
        sent[17..21].copy_from_slice(&crc.to_be_bytes());
        let answer = send_batch(&mut host, client, "orders", sent.into());
        assert_eq!(answer.error_code, error, "{kept}: {answer:?}");
    }
}
