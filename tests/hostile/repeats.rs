//! Requests that name the same thing again and again: the answer must not grow with it.

use crate::harness::Client;
use crate::harness::client::frame;
use crate::harness::records::batch;
use bytes::Bytes;
use odradek_core::wire::ApiKey;
use odradek_core::wire::messages::Body;
use odradek_core::wire::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsTopic,
};
use odradek_core::wire::messages::create_topics::{CreatableTopic, CreateTopicsRequest};
use odradek_core::wire::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use odradek_core::wire::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource,
};
use odradek_core::wire::messages::describe_log_dirs::{
    DescribableLogDirTopic, DescribeLogDirsRequest,
};
use odradek_core::wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use odradek_core::wire::messages::find_coordinator::FindCoordinatorRequest;
use odradek_core::wire::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};
use odradek_core::wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use odradek_core::wire::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use odradek_core::wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use odradek_core::wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use odradek_core::wire::messages::offset_for_leader_epoch::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use std::time::{Duration, Instant};

use crate::{MAX_FRAME, Siege};

/// Small requests that ask for much, by naming the same thing again and again.
#[test]
fn requests_that_name_the_same_thing_thousands_of_times() {
    const TIMES: usize = 100_000;
    let siege = Siege::begin();
    let address = siege.address();
    let mut client = Client::connect(address);
    client.create_topic("wide", 50, &[]);
    client.produce("wide", 0, batch(&[b"a"])).unwrap();

    let mut bodies: Vec<(i16, Box<dyn Fn() -> Bytes>)> = Vec::new();
    fn request(version: i16, body: impl Body + 'static) -> (i16, Box<dyn Fn() -> Bytes>) {
        (
            version,
            Box::new(move || frame(version, 1, "repeater", &body)),
        )
    }
    bodies.push(request(
        12,
        MetadataRequest {
            topics: Some(vec![
                MetadataRequestTopic {
                    name: Some("wide".into()),
                    ..Default::default()
                };
                TIMES
            ]),
            allow_auto_topic_creation: false,
            ..Default::default()
        },
    ));
    bodies.push(request(
        4,
        DescribeConfigsRequest {
            resources: vec![
                DescribeConfigsResource {
                    resource_type: 4,
                    resource_name: "0".into(),
                    configuration_keys: None,
                    ..Default::default()
                };
                TIMES
            ],
            include_synonyms: true,
            include_documentation: true,
            ..Default::default()
        },
    ));
    bodies.push(request(
        4,
        DescribeConfigsRequest {
            resources: vec![DescribeConfigsResource {
                resource_type: 2,
                resource_name: "wide".into(),
                configuration_keys: Some(vec!["no.such.key".into(); TIMES]),
                ..Default::default()
            }],
            ..Default::default()
        },
    ));
    bodies.push(request(
        12,
        FetchRequest {
            max_bytes: 1 << 20,
            topics: vec![FetchTopic {
                topic: "wide".into(),
                partitions: vec![
                    FetchPartition {
                        partition_max_bytes: 1 << 20,
                        ..Default::default()
                    };
                    TIMES
                ],
                ..Default::default()
            }],
            ..Default::default()
        },
    ));
    bodies.push(request(
        7,
        ListOffsetsRequest {
            topics: vec![ListOffsetsTopic {
                name: "wide".into(),
                partitions: vec![
                    ListOffsetsPartition {
                        timestamp: 1,
                        ..Default::default()
                    };
                    TIMES / 10
                ],
                ..Default::default()
            }],
            ..Default::default()
        },
    ));
    bodies.push(request(
        4,
        OffsetForLeaderEpochRequest {
            topics: vec![OffsetForLeaderTopic {
                topic: "wide".into(),
                partitions: vec![OffsetForLeaderPartition::default(); TIMES],
                ..Default::default()
            }],
            ..Default::default()
        },
    ));
    bodies.push(request(
        2,
        DeleteRecordsRequest {
            topics: vec![DeleteRecordsTopic {
                name: "wide".into(),
                partitions: vec![DeleteRecordsPartition::default(); TIMES],
                ..Default::default()
            }],
            timeout_ms: 1000,
            ..Default::default()
        },
    ));
    bodies.push(request(
        4,
        DescribeLogDirsRequest {
            topics: Some(vec![
                DescribableLogDirTopic {
                    topic: "wide".into(),
                    partitions: vec![77],
                    ..Default::default()
                };
                TIMES
            ]),
            ..Default::default()
        },
    ));
    // Names that come twice, and each is another.
    let twice = |n: usize| format!("t{}", n / 2);
    bodies.push(request(
        7,
        CreateTopicsRequest {
            topics: (0..TIMES)
                .map(|n| CreatableTopic {
                    name: twice(n).into(),
                    num_partitions: 1,
                    replication_factor: 1,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        },
    ));
    bodies.push(request(
        3,
        CreatePartitionsRequest {
            topics: (0..TIMES)
                .map(|n| CreatePartitionsTopic {
                    name: twice(n).into(),
                    count: 3,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        },
    ));
    for (version, make) in bodies {
        let bytes = make();
        let key = i16::from_be_bytes([bytes[4], bytes[5]]);
        assert!(bytes.len() < MAX_FRAME);
        let mut client = Client::named(address, "repeater");
        client.set_timeout(Duration::from_secs(60));
        let begun = Instant::now();
        client.send_bytes(&bytes).unwrap();
        let answer = client.receive_frame();
        println!(
            "{} v{version}: {} bytes asked, {:?} bytes answered, {:?}; {} KiB at most",
            ApiKey::from_key(key).unwrap(),
            bytes.len(),
            answer.as_ref().map(Bytes::len),
            begun.elapsed(),
            siege.program.memory_kib("VmHWM")
        );
        answer.unwrap();
    }
    siege.end(Duration::from_secs(10), 160);
}

/// The same with groups: what a group has committed is told once, a topic is described once under
/// whatever names its id comes with, and protocols without end are neither counted against each other
/// nor kept.
#[test]
fn requests_that_ask_groups_the_same_thing_thousands_of_times() {
    const TIMES: usize = 100_000;
    const PARTITIONS: i32 = 50;
    let siege = Siege::begin();
    let address = siege.address();
    let mut client = Client::connect(address);
    let wide = client.create_topic("wide", PARTITIONS, &[]);
    let coordinator = FindCoordinatorRequest {
        coordinator_keys: vec!["all".into()],
        ..Default::default()
    };
    client.ask(4, &coordinator).unwrap();
    let commit = OffsetCommitRequest {
        group_id: "all".into(),
        topics: vec![OffsetCommitRequestTopic {
            name: "wide".into(),
            partitions: (0..PARTITIONS)
                .map(|partition_index| OffsetCommitRequestPartition {
                    partition_index,
                    committed_offset: 7,
                    committed_metadata: Some("m".repeat(4_000).into()),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }],
        ..Default::default()
    };
    client.ask(8, &commit).unwrap();

    let whole = OffsetFetchRequestGroup {
        group_id: "all".into(),
        topics: None,
        ..Default::default()
    };
    let named = OffsetFetchRequestGroup {
        topics: Some(vec![OffsetFetchRequestTopics {
            name: "wide".into(),
            partition_indexes: vec![3; TIMES],
            ..Default::default()
        }]),
        ..whole.clone()
    };
    let fetch = |groups| OffsetFetchRequest {
        groups,
        ..Default::default()
    };
    let metadata = MetadataRequest {
        topics: Some(
            (0..TIMES)
                .map(|n| MetadataRequestTopic {
                    topic_id: wide,
                    name: Some(format!("n{n}").into()),
                    ..Default::default()
                })
                .collect(),
        ),
        ..Default::default()
    };
    // Under a name of its own it is in its group at once.
    let join = |protocols: usize| JoinGroupRequest {
        group_id: "joined".into(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 1_000,
        group_instance_id: Some("one".into()),
        protocol_type: "consumer".into(),
        protocols: (0..protocols)
            .map(|n| JoinGroupRequestProtocol {
                name: format!("{n:x}").into(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    let asked = |version: i16, body: &dyn Fn() -> Bytes, most: usize| {
        let bytes = body();
        assert!(bytes.len() < MAX_FRAME);
        let mut client = Client::named(address, "repeater");
        client.set_timeout(Duration::from_secs(60));
        let begun = Instant::now();
        client.send_bytes(&bytes).unwrap();
        let answer = client.receive_frame().unwrap();
        println!(
            "v{version}: {} bytes asked, {} bytes answered, {:?}",
            bytes.len(),
            answer.len(),
            begun.elapsed()
        );
        assert!(answer.len() <= most, "{} bytes", answer.len());
        begun.elapsed()
    };
    let all_once = PARTITIONS as usize * 5_000;
    asked(
        9,
        &|| frame(9, 1, "repeater", &fetch(vec![whole.clone(); TIMES])),
        all_once,
    );
    asked(
        9,
        &|| frame(9, 1, "repeater", &fetch(vec![named.clone(); 10])),
        5_000,
    );
    asked(12, &|| frame(12, 1, "repeater", &metadata), 10_000);
    asked(6, &|| frame(6, 1, "repeater", &join(10 * TIMES)), 1_000);
    // So many fit. With each counted against each this took minutes, under the lock of the step.
    let took = asked(6, &|| frame(6, 1, "repeater", &join(40_000)), 1_000_000);
    assert!(took < Duration::from_secs(20), "{took:?}");
    siege.end(Duration::from_secs(5), 320);
}
