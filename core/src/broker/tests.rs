//! The broker as a client sees it, on a disk in memory.

mod codecs;
mod like_kafka;
mod producers;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use super::harness::{Harness, batch, fetch_request, produce_request, values_of};
use crate::ids::Offset;
use crate::log::config::Durability;
use crate::metadata::config::BrokerConfig;
use crate::wire::messages::alter_configs::AlterConfigsResource;
use crate::wire::messages::create_partitions::{CreatePartitionsRequest, CreatePartitionsTopic};
use crate::wire::messages::create_topics::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use crate::wire::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use crate::wire::messages::delete_topics::DeleteTopicsRequest;
use crate::wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use crate::wire::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use crate::wire::messages::{AlterConfigsRequest, ApiVersionsRequest};
use crate::wire::{ErrorCode, ResponseBody};

fn started() -> (Harness, crate::ids::ConnectionId) {
    let mut host = Harness::start(BrokerConfig::default());
    assert!(host.started, "{:?}", host.fatal);
    let client = host.connect();
    host.create_topic(client, "orders");
    (host, client)
}

fn latest(host: &mut Harness, client: crate::ids::ConnectionId, timestamp: i64) -> i64 {
    let partition = ListOffsetsPartition {
        timestamp,
        ..Default::default()
    };
    let topic = ListOffsetsTopic {
        name: "orders".into(),
        partitions: vec![partition],
        ..Default::default()
    };
    let request = ListOffsetsRequest {
        topics: vec![topic],
        ..Default::default()
    };
    match host.ask(client, 7, &request) {
        ResponseBody::ListOffsets(response) => {
            let partition = &response.topics[0].partitions[0];
            assert!(!partition.error_code.is_error(), "{partition:?}");
            partition.offset
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_produced_is_fetched() {
    let (mut host, client) = started();
    assert_eq!(host.produce(client, "orders", &["a", "b"]).base_offset, 0);
    assert_eq!(host.produce(client, "orders", &["c"]).base_offset, 2);
    assert_eq!(host.fetch(client, "orders", 0), ["a", "b", "c"]);
    assert_eq!(host.fetch(client, "orders", 2), ["c"]);
    assert_eq!(latest(&mut host, client, -1), 3);
    assert_eq!(latest(&mut host, client, -2), 0);
}

#[test]
fn acknowledged_and_visible_wait_for_the_flush() {
    let (mut host, client) = started();
    let reader = host.connect();
    host.hold_flushes = true;
    host.send_produce(client, "orders", -1, &["a"]);
    assert!(host.produced(client).is_none());
    assert_eq!(latest(&mut host, reader, -1), 0);
    assert_eq!(host.fetch(reader, "orders", 0), Vec::<String>::new());
    host.complete_flushes();
    assert_eq!(host.produced(client).unwrap().base_offset, 0);
    assert_eq!(host.fetch(reader, "orders", 0), ["a"]);
}

#[test]
fn under_os_an_append_counts_once_it_is_written() {
    let mut host = Harness::start(BrokerConfig {
        durability: Durability::Os,
        ..BrokerConfig::default()
    });
    let client = host.connect();
    host.create_topic(client, "orders");
    host.hold_flushes = true;
    assert_eq!(
        host.produce(client, "orders", &["a"]).error_code,
        ErrorCode::NONE
    );
}

#[test]
fn one_flush_covers_what_arrived_meanwhile() {
    let (mut host, _) = started();
    host.hold_flushes = true;
    let clients: Vec<_> = (0..5).map(|_| host.connect()).collect();
    for client in &clients {
        host.send_produce(*client, "orders", -1, &["x"]);
    }
    host.complete_flushes();
    // The first flush was called when only the first record was written.
    let answered = clients
        .iter()
        .filter(|client| host.produced(**client).is_some())
        .count();
    assert!(answered >= 1);
    host.complete_flushes();
    let rest = clients
        .iter()
        .filter(|client| host.produced(**client).is_some())
        .count();
    assert_eq!(answered + rest, 5);
}

#[test]
fn a_failed_flush_acknowledges_nothing_and_the_log_comes_back() {
    let (mut host, client) = started();
    assert_eq!(host.produce(client, "orders", &["kept"]).base_offset, 0);
    host.fail_flushes = true;
    let refused = host.produce(client, "orders", &["lost"]);
    assert_eq!(refused.error_code, ErrorCode::KAFKA_STORAGE_ERROR);
    assert_eq!(host.fetch(client, "orders", 0), ["kept"]);
    let refused = host.produce(client, "orders", &["too early"]);
    assert_eq!(refused.error_code, ErrorCode::KAFKA_STORAGE_ERROR);
    host.fail_flushes = false;
    host.advance(60_000);
    assert_eq!(
        host.produce(client, "orders", &["after"]).error_code,
        ErrorCode::NONE
    );
    let values = host.fetch(client, "orders", 0);
    assert_eq!(values.first().map(String::as_str), Some("kept"));
    assert_eq!(values.last().map(String::as_str), Some("after"));
}

#[test]
fn a_waiting_fetch_is_woken_by_a_produce() {
    let (mut host, client) = started();
    let reader = host.connect();
    host.send_fetch(reader, "orders", 0, 1, 10_000);
    assert!(host.fetched(reader).is_none());
    assert_eq!(host.broker.held().fetches, 1);
    host.produce(client, "orders", &["a"]);
    assert_eq!(values_of(&host.fetched(reader).unwrap()), ["a"]);
    assert_eq!(host.broker.held().fetches, 0);
    assert_eq!(host.broker.held().parked, 0);
}

#[test]
fn a_waiting_fetch_waits_for_its_minimum_or_its_deadline() {
    let (mut host, client) = started();
    let reader = host.connect();
    host.send_fetch(reader, "orders", 0, 1000, 500);
    host.produce(client, "orders", &["a"]);
    assert!(host.fetched(reader).is_none());
    host.advance(499);
    assert!(host.fetched(reader).is_none());
    host.advance(1);
    assert_eq!(values_of(&host.fetched(reader).unwrap()), ["a"]);
}

#[test]
fn a_closed_connection_leaves_nothing_behind() {
    let (mut host, client) = started();
    let reader = host.connect();
    host.hold_flushes = true;
    host.send_fetch(reader, "orders", 0, 1, 10_000);
    host.send_produce(client, "orders", -1, &["a"]);
    host.disconnect(reader);
    host.disconnect(client);
    host.complete_flushes();
    host.advance(60_000);
    let held = host.broker.held();
    assert_eq!(
        (held.connections, held.requests, held.produces, held.fetches),
        (0, 0, 0, 0)
    );
    assert_eq!(held.parked, 0);
}

#[test]
fn answers_leave_in_order_and_only_produces_overlap() {
    let (mut host, client) = started();
    host.hold_flushes = true;
    host.send_produce(client, "orders", -1, &["a"]);
    host.send_produce(client, "orders", -1, &["b"]);
    host.send(client, 12, &fetch_request("orders", 0, 0, 0));
    assert_eq!(host.broker.held().produces, 2);
    assert_eq!(host.broker.held().requests, 2, "the fetch has not started");
    host.complete_flushes();
    host.complete_flushes();
    assert_eq!(host.produced(client).unwrap().base_offset, 0);
    assert_eq!(host.produced(client).unwrap().base_offset, 1);
    assert_eq!(values_of(&host.fetched(client).unwrap()), ["a", "b"]);
}

#[test]
fn acks_0_has_no_answer_and_an_error_closes_the_connection() {
    let (mut host, client) = started();
    host.send(client, 9, &produce_request("orders", 0, batch(&["a"])));
    assert!(host.receive(client).is_none());
    let reader = host.connect();
    assert_eq!(host.fetch(reader, "orders", 0), ["a"]);
    host.send(
        client,
        9,
        &produce_request("no such topic", 0, batch(&["a"])),
    );
    assert!(host.closed.contains(&client));
}

#[test]
fn a_damaged_batch_is_refused_and_the_connection_goes_on() {
    let (mut host, client) = started();
    let mut bytes = batch(&["a"]).to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    let ResponseBody::Produce(response) = host.ask(
        client,
        9,
        &produce_request("orders", -1, Bytes::from(bytes)),
    ) else {
        panic!("not a produce response")
    };
    let partition = &response.responses[0].partition_responses[0];
    assert_eq!(partition.error_code, ErrorCode::CORRUPT_MESSAGE);
    assert_eq!(host.produce(client, "orders", &["b"]).base_offset, 0);
}

#[test]
fn wrong_acks_are_refused() {
    let (mut host, client) = started();
    host.send_produce(client, "orders", 2, &["a"]);
    assert_eq!(
        host.produced(client).unwrap().error_code,
        ErrorCode::INVALID_REQUIRED_ACKS
    );
}

#[test]
fn a_produce_that_is_not_flushed_in_time_times_out() {
    let (mut host, client) = started();
    host.hold_flushes = true;
    host.send_produce(client, "orders", -1, &["a"]);
    host.advance(30_000);
    assert_eq!(
        host.produced(client).unwrap().error_code,
        ErrorCode::REQUEST_TIMED_OUT
    );
}

#[test]
fn a_killed_broker_comes_back_with_everything_acknowledged() {
    let (mut host, client) = started();
    for round in 0..20 {
        host.produce(client, "orders", &[&round.to_string()]);
    }
    let files = host.kill();
    let mut host = Harness::start_on(files, BrokerConfig::default());
    assert!(host.started, "{:?}", host.fatal);
    let client = host.connect();
    let expected: Vec<String> = (0..20).map(|round| round.to_string()).collect();
    assert_eq!(host.fetch(client, "orders", 0), expected);
    assert_eq!(host.produce(client, "orders", &["more"]).base_offset, 20);
    let metadata = host.metadata(client, "orders");
    assert_eq!(
        metadata.topics[0].partitions[0].leader_epoch, 1,
        "the start was unclean"
    );
}

#[test]
fn a_clean_stop_scans_nothing_and_raises_no_epoch() {
    let (mut host, client) = started();
    host.produce(client, "orders", &["a", "b"]);
    host.stop();
    assert!(host.stopped, "{:?}", host.reports);
    let files = host.kill();
    assert!(files.read("clean.shutdown").is_some());
    let mut host = Harness::start_on(files, BrokerConfig::default());
    assert!(
        host.files.read("clean.shutdown").is_none(),
        "the marker goes before an append"
    );
    let client = host.connect();
    assert_eq!(host.fetch(client, "orders", 0), ["a", "b"]);
    assert_eq!(
        host.metadata(client, "orders").topics[0].partitions[0].leader_epoch,
        0
    );
}

#[test]
fn a_partition_whose_small_file_names_another_topic_keeps_its_records() {
    let (mut host, client) = started();
    host.produce(client, "orders", &["a"]);
    let mut files = host.kill();
    let text = files.read("orders-0/partition.metadata").unwrap().to_vec();
    let text = String::from_utf8(text).unwrap();
    let (line, id) = text.split_once("topic_id: ").unwrap();
    // Another character of base64: as sound as the right one.
    let other = if id.starts_with('A') { 'B' } else { 'A' };
    let damaged = format!("{line}topic_id: {other}{}", &id[1..]);
    files.write("orders-0/partition.metadata", damaged.as_bytes());

    let mut host = Harness::start_on(files, BrokerConfig::default());
    let mut reports = host.reports.iter();
    assert!(reports.any(|report| report.contains("orders-0/partition.metadata")));
    let client = host.connect();
    assert_eq!(host.fetch(client, "orders", 0), ["a"]);
}

#[test]
fn a_directory_of_another_kind_is_refused_untouched() {
    let mut files = super::harness::Files::default();
    files.write("thesis.txt", b"important");
    let host = Harness::start_on(files, BrokerConfig::default());
    assert!(!host.started);
    assert!(
        host.fatal.as_ref().unwrap().contains("thesis.txt"),
        "{:?}",
        host.fatal
    );
    assert!(host.files.directories().is_empty());
}

#[test]
fn a_format_of_another_version_is_refused_untouched() {
    let (host, _) = started();
    let mut files = host.kill();
    files.write("odradek.format", b"odradek data directory v9\n");
    let host = Harness::start_on(files, BrokerConfig::default());
    assert!(!host.started);
    assert!(
        host.fatal.as_ref().unwrap().contains("v9"),
        "{:?}",
        host.fatal
    );
}

#[test]
fn a_partition_without_its_directory_is_offline_and_the_others_go_on() {
    let (mut host, client) = started();
    host.create_topic(client, "other");
    host.produce(client, "other", &["a"]);
    let mut files = host.kill();
    files.remove("orders-0/00000000000000000000.log");
    files.remove("orders-0/partition.metadata");
    let mut without = super::harness::Files::default();
    for directory in files
        .directories()
        .into_iter()
        .filter(|name| *name != "orders-0")
    {
        without.create_dir(directory);
    }
    for path in [
        "odradek.format",
        "log.checkpoint",
        "__cluster_metadata-0/00000000000000000000.log",
        "__cluster_metadata-0/00000000000000000000.index",
        "__cluster_metadata-0/00000000000000000000.timeindex",
        "other-0/00000000000000000000.log",
        "other-0/00000000000000000000.index",
        "other-0/00000000000000000000.timeindex",
        "other-0/partition.metadata",
    ] {
        if let Some(content) = files.read(path) {
            without.write(path, content);
        }
    }
    let mut host = Harness::start_on(without, BrokerConfig::default());
    assert!(host.started, "{:?}", host.fatal);
    let client = host.connect();
    assert_eq!(host.fetch(client, "other", 0), ["a"]);
    let refused = host.produce(client, "orders", &["x"]);
    assert_eq!(refused.error_code, ErrorCode::KAFKA_STORAGE_ERROR);
    let partition = &host.metadata(client, "orders").topics[0].partitions[0];
    assert_eq!(partition.error_code, ErrorCode::LEADER_NOT_AVAILABLE);
    assert!(
        host.reports
            .iter()
            .any(|report| report.contains("orders-0")),
        "{:?}",
        host.reports
    );
}

fn create(
    host: &mut Harness,
    client: crate::ids::ConnectionId,
    topic: CreatableTopic,
) -> ErrorCode {
    let request = CreateTopicsRequest {
        topics: vec![topic],
        ..Default::default()
    };
    match host.ask(client, 7, &request) {
        ResponseBody::CreateTopics(response) => response.topics[0].error_code,
        other => panic!("{other:?}"),
    }
}

fn topic(name: &str, partitions: i32) -> CreatableTopic {
    CreatableTopic {
        name: name.into(),
        num_partitions: partitions,
        replication_factor: 1,
        ..Default::default()
    }
}

#[test]
fn topics_are_validated_as_kafka_does() {
    let (mut host, client) = started();
    assert_eq!(create(&mut host, client, topic("a.b", 3)), ErrorCode::NONE);
    for (bad, expected) in [
        (topic("orders", 1), ErrorCode::TOPIC_ALREADY_EXISTS),
        (topic("a_b", 1), ErrorCode::INVALID_TOPIC_EXCEPTION),
        (topic("", 1), ErrorCode::INVALID_TOPIC_EXCEPTION),
        (topic("../up", 1), ErrorCode::INVALID_TOPIC_EXCEPTION),
        (topic("none", 0), ErrorCode::INVALID_PARTITIONS),
        (
            CreatableTopic {
                replication_factor: 3,
                ..topic("three", 1)
            },
            ErrorCode::INVALID_REPLICATION_FACTOR,
        ),
    ] {
        assert_eq!(create(&mut host, client, bad.clone()), expected, "{bad:?}");
    }
    let config = |name: &str, value: &str| CreatableTopic {
        configs: vec![CreatableTopicConfig {
            name: name.into(),
            value: Some(value.into()),
            ..Default::default()
        }],
        ..topic("configured", 1)
    };
    for (name, value) in [
        ("no.such.key", "1"),
        ("segment.bytes", "14"),
        ("compression.type", "brotli"),
        ("compression.gzip.level", "0"),
    ] {
        assert_eq!(
            create(&mut host, client, config(name, value)),
            ErrorCode::INVALID_CONFIG
        );
    }
    assert_eq!(
        create(&mut host, client, config("retention.ms", "1000")),
        ErrorCode::NONE
    );
}

#[test]
fn a_deleted_topic_is_gone_after_a_restart_and_can_be_made_again() {
    let (mut host, client) = started();
    host.produce(client, "orders", &["old"]);
    let request = DeleteTopicsRequest {
        topic_names: vec!["orders".into()],
        ..Default::default()
    };
    let ResponseBody::DeleteTopics(response) = host.ask(client, 4, &request) else {
        panic!("not an answer to DeleteTopics")
    };
    assert_eq!(response.responses[0].error_code, ErrorCode::NONE);
    assert!(
        !host
            .files
            .directories()
            .iter()
            .any(|name| name.starts_with("orders"))
    );
    let mut host = Harness::start_on(host.kill(), BrokerConfig::default());
    let client = host.connect();
    host.create_topic(client, "orders");
    assert_eq!(host.fetch(client, "orders", 0), Vec::<String>::new());
    assert_eq!(host.produce(client, "orders", &["new"]).base_offset, 0);
}

#[test]
fn one_request_creates_ten_thousand_partitions_at_most() {
    let (mut host, client) = started();
    let request = CreateTopicsRequest {
        topics: vec![topic("a", 5_000), topic("b", 5_000), topic("c", 1)],
        validate_only: true,
        ..Default::default()
    };
    let ResponseBody::CreateTopics(response) = host.ask(client, 7, &request) else {
        panic!("not the answer to this request");
    };
    let codes: Vec<ErrorCode> = response.topics.iter().map(|t| t.error_code).collect();
    assert_eq!(codes, [ErrorCode::POLICY_VIOLATION; 3]);
    let request = CreateTopicsRequest {
        topics: vec![topic("a", 5_000), topic("b", 5_000)],
        validate_only: true,
        ..Default::default()
    };
    let ResponseBody::CreateTopics(response) = host.ask(client, 7, &request) else {
        panic!("not the answer to this request");
    };
    let codes: Vec<ErrorCode> = response.topics.iter().map(|t| t.error_code).collect();
    assert_eq!(codes, [ErrorCode::NONE; 2]);

    // Nor do names of a few bytes each turn into more than that by themselves.
    let named = |i: usize| MetadataRequestTopic {
        name: Some(format!("t{i}").as_str().into()),
        ..Default::default()
    };
    let request = MetadataRequest {
        topics: Some((0..10_001).map(named).collect()),
        allow_auto_topic_creation: true,
        ..Default::default()
    };
    let ResponseBody::Metadata(response) = host.ask(client, 9, &request) else {
        panic!("not the answer to this request");
    };
    assert!(
        response
            .topics
            .iter()
            .all(|topic| topic.error_code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
    );
}

#[test]
fn partitions_can_be_added_and_survive() {
    let (mut host, client) = started();
    let more = |count| CreatePartitionsRequest {
        topics: vec![CreatePartitionsTopic {
            name: "orders".into(),
            count,
            assignments: None,
            ..Default::default()
        }],
        ..Default::default()
    };
    let code = |body| match body {
        ResponseBody::CreatePartitions(response) => response.results[0].error_code,
        other => panic!("{other:?}"),
    };
    assert_eq!(code(host.ask(client, 3, &more(3))), ErrorCode::NONE);
    assert_eq!(
        code(host.ask(client, 3, &more(3))),
        ErrorCode::INVALID_PARTITIONS
    );
    let mut host = Harness::start_on(host.kill(), BrokerConfig::default());
    let client = host.connect();
    assert_eq!(
        host.metadata(client, "orders").topics[0].partitions.len(),
        3
    );
}

#[test]
fn deleted_records_stay_deleted() {
    let (mut host, client) = started();
    for value in ["a", "b", "c"] {
        host.produce(client, "orders", &[value]);
    }
    let delete = |offset| DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic {
            name: "orders".into(),
            partitions: vec![DeleteRecordsPartition {
                offset,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let answer = |body| match body {
        ResponseBody::DeleteRecords(response) => {
            let partition = &response.topics[0].partitions[0];
            (partition.error_code, partition.low_watermark)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(
        answer(host.ask(client, 2, &delete(4))),
        (ErrorCode::OFFSET_OUT_OF_RANGE, -1)
    );
    assert_eq!(
        answer(host.ask(client, 2, &delete(2))),
        (ErrorCode::NONE, 2)
    );
    assert_eq!(
        answer(host.ask(client, 2, &delete(1))),
        (ErrorCode::NONE, 2)
    );
    let mut host = Harness::start_on(host.kill(), BrokerConfig::default());
    let client = host.connect();
    assert_eq!(latest(&mut host, client, -2), 2);
    assert_eq!(host.fetch(client, "orders", 2), ["c"]);
}

#[test]
fn configs_reach_the_log_and_survive() {
    let (mut host, client) = started();
    let alter = |value: &str| AlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: 2,
            resource_name: "orders".into(),
            configs: vec![crate::wire::messages::alter_configs::AlterableConfig {
                name: "max.message.bytes".into(),
                value: Some(value.into()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let code = |body| match body {
        ResponseBody::AlterConfigs(response) => response.responses[0].error_code,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        code(host.ask(client, 2, &alter("oops"))),
        ErrorCode::INVALID_CONFIG
    );
    assert_eq!(code(host.ask(client, 2, &alter("80"))), ErrorCode::NONE);
    let long = "x".repeat(100);
    let refused = host.produce(client, "orders", &[&long]);
    assert_eq!(refused.error_code, ErrorCode::MESSAGE_TOO_LARGE);
    let mut host = Harness::start_on(host.kill(), BrokerConfig::default());
    let client = host.connect();
    let refused = host.produce(client, "orders", &[&long]);
    assert_eq!(refused.error_code, ErrorCode::MESSAGE_TOO_LARGE);
}

#[test]
fn api_versions_of_an_unknown_version_is_answered_in_version_0() {
    let (mut host, client) = started();
    // Api 18, version 99, correlation 5, no client id.
    host.send_raw(
        client,
        Bytes::from_static(&[0, 18, 0, 99, 0, 0, 0, 5, 0xff, 0xff]),
    );
    host.send(client, 0, &ApiVersionsRequest::default());
    let Some(ResponseBody::ApiVersions(response)) = host.receive(client) else {
        panic!("no answer")
    };
    assert_eq!(response.error_code, ErrorCode::UNSUPPORTED_VERSION);
    assert_eq!(response.api_keys[0].max_version, 4);
    assert!(!host.closed.contains(&client));
}

#[test]
fn a_malformed_frame_closes_its_connection_alone() {
    let (mut host, client) = started();
    let hostile = host.connect();
    host.send_raw(
        hostile,
        Bytes::from_static(&[0, 3, 0, 9, 1, 2, 3, 4, 0, 0, 0xff]),
    );
    assert!(host.closed.contains(&hostile));
    assert!(
        host.reports.iter().any(|report| report.contains("c2")),
        "{:?}",
        host.reports
    );
    assert_eq!(host.produce(client, "orders", &["a"]).base_offset, 0);
}

#[test]
fn no_topics_at_all_and_all_topics_are_different_questions() {
    let (mut host, client) = started();
    let ask = |host: &mut Harness, version, topics| {
        let request = MetadataRequest {
            topics,
            ..Default::default()
        };
        match host.ask(client, version, &request) {
            ResponseBody::Metadata(response) => response.topics.len(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ask(&mut host, 0, Some(Vec::new())), 1);
    assert_eq!(ask(&mut host, 1, Some(Vec::new())), 0);
    assert_eq!(ask(&mut host, 1, None), 1);
}

#[test]
fn the_metadata_log_is_snapshotted_and_its_old_segments_go() {
    let config = BrokerConfig {
        metadata_segment_bytes: 16 * 1024,
        ..BrokerConfig::default()
    };
    let mut host = Harness::start(config.clone());
    let client = host.connect();
    host.create_topic(client, "kept");
    for round in 0..150 {
        let name = alloc::format!("passing-{round}");
        host.create_topic(client, &name);
        let request = DeleteTopicsRequest {
            topic_names: vec![name.as_str().into()],
            ..Default::default()
        };
        host.ask(client, 4, &request);
        host.advance(100);
    }
    host.advance(10_000);
    assert!(host.files.read("metadata.snapshot").is_some());
    let first = "__cluster_metadata-0/00000000000000000000.log";
    assert!(
        host.files.read(first).is_none(),
        "the first segment should be gone"
    );
    let mut host = Harness::start_on(host.kill(), config);
    assert!(host.started, "{:?}", host.fatal);
    assert_eq!(host.broker.image().topics().count(), 1);
    let client = host.connect();
    assert_eq!(host.produce(client, "kept", &["a"]).base_offset, 0);
}

#[test]
fn the_high_watermark_is_never_above_the_log_end() {
    let (mut host, client) = started();
    host.hold_flushes = true;
    host.send_produce(client, "orders", -1, &["a", "b", "c"]);
    for (_, partition) in host.broker.partitions() {
        assert_eq!(partition.high_watermark(), Offset(0));
        assert_eq!(partition.log().log_end_offset(), Offset(3));
    }
}
