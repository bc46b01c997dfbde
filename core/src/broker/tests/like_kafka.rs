//! What a comparison with Apache Kafka found: requests that contradict themselves, and what exactly
//! the answer to them is.

use alloc::vec;
use alloc::vec::Vec;

use crate::broker::harness::Harness;
use crate::ids::ConnectionId;
use crate::metadata::config::BrokerConfig;
use crate::wire::messages::alter_configs::{
    AlterConfigsRequest, AlterConfigsResource, AlterableConfig,
};
use crate::wire::messages::create_topics::{CreatableTopic, CreateTopicsRequest};
use crate::wire::messages::delete_topics::DeleteTopicsRequest;
use crate::wire::messages::describe_cluster::DescribeClusterRequest;
use crate::wire::messages::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsRequest, TopicRequest,
};
use crate::wire::messages::fetch::FetchRequest;
use crate::wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use crate::wire::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use crate::wire::{ErrorCode, ResponseBody};

const TOPIC: i8 = 2;

fn started() -> (Harness, ConnectionId) {
    let mut host = Harness::start(BrokerConfig::default());
    let client = host.connect();
    host.create_topic(client, "orders");
    (host, client)
}

#[test]
fn a_topic_that_is_to_be_deleted_twice_stays_and_has_one_answer() {
    let (mut host, client) = started();
    let before = host.metadata(client, "orders").topics[0].topic_id;
    let request = DeleteTopicsRequest {
        topic_names: vec![
            "orders".into(),
            "none".into(),
            "orders".into(),
            "none".into(),
        ],
        ..Default::default()
    };
    let ResponseBody::DeleteTopics(response) = host.ask(client, 5, &request) else {
        panic!("another answer");
    };
    let codes: Vec<_> = response
        .responses
        .iter()
        .map(|one| one.error_code)
        .collect();
    assert_eq!(codes, [ErrorCode::INVALID_REQUEST; 2]);
    let after = host.metadata(client, "orders").topics[0].topic_id;
    assert_eq!(after, before, "it is still there, and not made anew");
}

#[test]
fn a_topic_that_is_asked_for_the_first_time_is_there_the_second_time() {
    let (mut host, client) = started();
    let first = host.metadata(client, "new").topics.remove(0);
    assert_eq!(first.error_code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert!(first.partitions.is_empty());
    let second = host.metadata(client, "new").topics.remove(0);
    assert_eq!(second.error_code, ErrorCode::NONE);
    assert_eq!(second.partitions.len(), 1);
}

#[test]
fn without_access_control_lists_a_client_may_do_whatever_there_is_to_do() {
    let (mut host, client) = started();
    let ask = |host: &mut Harness, is_asked| {
        let request = DescribeClusterRequest {
            include_cluster_authorized_operations: is_asked,
            ..Default::default()
        };
        match host.ask(client, 1, &request) {
            ResponseBody::DescribeCluster(response) => response.cluster_authorized_operations,
            other => panic!("{other:?}"),
        }
    };
    // The bits of Kafka 4.3's AclEntry.supportedOperations(CLUSTER).
    assert_eq!(ask(&mut host, true), 8096);
    assert_eq!(ask(&mut host, false), i32::MIN);
    let request = MetadataRequest {
        topics: Some(vec![MetadataRequestTopic {
            name: Some("orders".into()),
            ..Default::default()
        }]),
        include_topic_authorized_operations: true,
        ..Default::default()
    };
    let ResponseBody::Metadata(response) = host.ask(client, 12, &request) else {
        panic!("another answer");
    };
    assert_eq!(response.topics[0].topic_authorized_operations, 3576);
}

#[test]
fn a_partition_whose_offset_is_asked_twice_has_one_answer() {
    let (mut host, client) = started();
    let at = |timestamp| ListOffsetsPartition {
        timestamp,
        ..Default::default()
    };
    let request = ListOffsetsRequest {
        topics: vec![ListOffsetsTopic {
            name: "orders".into(),
            partitions: vec![at(-1), at(-2)],
            ..Default::default()
        }],
        ..Default::default()
    };
    let ResponseBody::ListOffsets(response) = host.ask(client, 7, &request) else {
        panic!("another answer");
    };
    let partitions = &response.topics[0].partitions;
    assert_eq!(partitions.len(), 1);
    assert_eq!(partitions[0].error_code, ErrorCode::INVALID_REQUEST);
}

#[test]
fn a_resource_or_a_config_that_is_altered_twice_is_refused() {
    let (mut host, client) = started();
    let retention = |value: Option<&str>| AlterableConfig {
        name: "retention.ms".into(),
        value: value.map(Into::into),
        ..Default::default()
    };
    let resource = |name: &str, configs| AlterConfigsResource {
        resource_type: TOPIC,
        resource_name: name.into(),
        configs,
        ..Default::default()
    };
    let mut codes = |resources| {
        let request = AlterConfigsRequest {
            resources,
            ..Default::default()
        };
        match host.ask(client, 2, &request) {
            ResponseBody::AlterConfigs(response) => {
                let codes = response.responses.iter().map(|one| one.error_code);
                codes.collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        }
    };
    let once = || resource("orders", vec![retention(Some("1"))]);
    let invalid = ErrorCode::INVALID_REQUEST;
    assert_eq!(codes(vec![once(), once()]), [invalid; 2]);
    let twice = vec![retention(Some("1")), retention(Some("2"))];
    assert_eq!(codes(vec![resource("orders", twice)]), [invalid]);
    assert_eq!(
        codes(vec![resource("orders", vec![retention(None)])]),
        [invalid]
    );
    assert_eq!(codes(vec![resource("", vec![])]), [invalid]);
    let bad_name = codes(vec![resource("not a name", vec![])]);
    assert_eq!(bad_name, [ErrorCode::INVALID_TOPIC_EXCEPTION]);
    assert_eq!(codes(vec![once()]), [ErrorCode::NONE]);
}

#[test]
fn a_cursor_points_into_what_is_asked_for() {
    let (mut host, client) = started();
    let mut code = |topic_name: &str, partition_index| {
        let request = DescribeTopicPartitionsRequest {
            topics: vec![TopicRequest {
                name: "orders".into(),
                ..Default::default()
            }],
            response_partition_limit: 10,
            cursor: Some(Cursor {
                topic_name: topic_name.into(),
                partition_index,
                ..Default::default()
            }),
            ..Default::default()
        };
        match host.ask(client, 0, &request) {
            ResponseBody::DescribeTopicPartitions(response) => response.topics[0].error_code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(code("orders", 0), ErrorCode::NONE);
    assert_eq!(code("orders", -1), ErrorCode::INVALID_REQUEST);
    assert_eq!(code("a", 0), ErrorCode::INVALID_REQUEST);
    assert_eq!(code("z", 0), ErrorCode::INVALID_REQUEST);
}

#[test]
fn a_type_of_endpoint_that_nobody_knows_is_not_another_endpoint() {
    let (mut host, client) = started();
    let mut code = |endpoint_type| {
        let request = DescribeClusterRequest {
            endpoint_type,
            ..Default::default()
        };
        match host.ask(client, 1, &request) {
            ResponseBody::DescribeCluster(response) => response.error_code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(code(1), ErrorCode::NONE);
    assert_eq!(code(2), ErrorCode::MISMATCHED_ENDPOINT_TYPE);
    assert_eq!(code(3), ErrorCode::UNSUPPORTED_ENDPOINT_TYPE);
}

#[test]
fn a_fetch_may_end_a_session_that_there_is_not() {
    let (mut host, client) = started();
    let mut code = |session_id, session_epoch| {
        let request = FetchRequest {
            session_id,
            session_epoch,
            ..Default::default()
        };
        match host.ask(client, 12, &request) {
            ResponseBody::Fetch(response) => response.error_code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(code(7, -1), ErrorCode::NONE);
    assert_eq!(code(7, 1), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    assert_eq!(code(7, 0), ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
}

#[test]
fn a_fetch_of_nothing_is_answered_at_once() {
    let (mut host, client) = started();
    let request = FetchRequest {
        min_bytes: 1,
        max_wait_ms: i32::MAX,
        max_bytes: 1 << 20,
        ..Default::default()
    };
    match host.ask(client, 12, &request) {
        ResponseBody::Fetch(response) => assert!(response.responses.is_empty()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_name_that_collides_with_one_that_is_being_made_is_refused() {
    let (mut host, first) = started();
    let second = host.connect();
    let create = |name: &str| CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: name.into(),
            num_partitions: 1,
            replication_factor: 1,
            ..Default::default()
        }],
        timeout_ms: 1_000,
        ..Default::default()
    };
    host.hold_flushes = true;
    host.send(first, 7, &create("a.b"));
    let ResponseBody::CreateTopics(refused) = host.ask(second, 7, &create("a_b")) else {
        panic!("another answer");
    };
    assert_eq!(
        refused.topics[0].error_code,
        ErrorCode::INVALID_TOPIC_EXCEPTION
    );
}
