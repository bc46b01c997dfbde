//! What one broker answers to the APIs that are about many: elections, reassignments, moves between
//! log directories, the quorum. Error codes are those of Apache Kafka 4.3 with one node.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

mod harness;

use harness::Client;
use harness::data_dir::temporary;
use harness::program::Launch;
use odradek_core::wire::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use odradek_core::wire::messages::alter_replica_log_dirs::{
    AlterReplicaLogDir, AlterReplicaLogDirTopic, AlterReplicaLogDirsRequest,
};
use odradek_core::wire::messages::describe_log_dirs::DescribeLogDirsRequest;
use odradek_core::wire::messages::describe_quorum::{
    DescribeQuorumRequest, PartitionRequest, TopicRequest,
};
use odradek_core::wire::messages::elect_leaders::{ElectLeadersRequest, TopicPartitions};
use odradek_core::wire::messages::list_partition_reassignments::ListPartitionReassignmentsRequest;
use odradek_core::wire::{ErrorCode, ResponseBody};

fn elect(client: &mut Client, kind: i8, asked: Option<&[(&str, &[i32])]>) -> Elected {
    let request = ElectLeadersRequest {
        election_type: kind,
        topic_partitions: asked.map(|topics| {
            let topics = topics.iter().map(|(topic, partitions)| TopicPartitions {
                topic: (*topic).into(),
                partitions: partitions.to_vec(),
                ..Default::default()
            });
            topics.collect()
        }),
        ..Default::default()
    };
    let ResponseBody::ElectLeaders(answer) = client.ask(2, &request).unwrap() else {
        panic!("another answer");
    };
    let results = answer.replica_election_results.iter().flat_map(|topic| {
        let partitions = topic.partition_result.iter();
        partitions.map(|p| (topic.topic.to_string(), p.partition_id, p.error_code))
    });
    (answer.error_code, results.collect())
}

type Elected = (ErrorCode, Vec<(String, i32, ErrorCode)>);

#[test]
fn no_leader_needs_an_election() {
    let (_root, data) = temporary();
    let program = Launch::on(&data).start();
    let mut client = Client::named(program.address(), "operator");
    client.create_topic("orders", 2, &[]);

    let (error, results) = elect(
        &mut client,
        0,
        Some(&[("orders", &[1, 0, 7, 1]), ("nothing", &[0])]),
    );
    assert_eq!(error, ErrorCode::NONE);
    let one = |topic: &str, partition, error| (topic.to_owned(), partition, error);
    assert_eq!(
        results,
        [
            one("orders", 1, ErrorCode::ELECTION_NOT_NEEDED),
            one("orders", 0, ErrorCode::ELECTION_NOT_NEEDED),
            one("orders", 7, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            one("orders", 1, ErrorCode::ELECTION_NOT_NEEDED),
            one("nothing", 0, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        ]
    );
    assert_eq!(elect(&mut client, 1, None), (ErrorCode::NONE, Vec::new()));
    let (error, results) = elect(&mut client, 2, Some(&[("orders", &[0])]));
    let refused = one("orders", 0, ErrorCode::INVALID_REQUEST);
    assert_eq!(
        (error, results),
        (ErrorCode::INVALID_REQUEST, vec![refused]),
        "there is no third kind of election"
    );
    program.stop();
}

#[test]
fn partitions_stay_on_the_only_broker() {
    let (_root, data) = temporary();
    let program = Launch::on(&data).start();
    let mut client = Client::named(program.address(), "operator");
    client.create_topic("orders", 1, &[]);
    let node = client.metadata(&[]).brokers[0].node_id;

    let mut reassign = |topic: &str, partition_index, replicas: Option<Vec<i32>>| {
        let request = AlterPartitionReassignmentsRequest {
            topics: vec![ReassignableTopic {
                name: topic.into(),
                partitions: vec![ReassignablePartition {
                    partition_index,
                    replicas,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let ResponseBody::AlterPartitionReassignments(answer) = client.ask(1, &request).unwrap()
        else {
            panic!("another answer");
        };
        assert_eq!(answer.error_code, ErrorCode::NONE);
        let partition = &answer.responses[0].partitions[0];
        assert_eq!(
            partition.error_code.is_error(),
            partition.error_message.is_some()
        );
        partition.error_code
    };
    assert_eq!(reassign("orders", 0, Some(vec![node])), ErrorCode::NONE);
    for nobody in [
        vec![],
        vec![node + 1],
        vec![node, node],
        vec![node, node + 1],
    ] {
        assert_eq!(
            reassign("orders", 0, Some(nobody)),
            ErrorCode::INVALID_REPLICA_ASSIGNMENT
        );
    }
    assert_eq!(
        reassign("orders", 0, None),
        ErrorCode::NO_REASSIGNMENT_IN_PROGRESS
    );
    for (topic, partition) in [("orders", 1), ("nothing", 0)] {
        assert_eq!(
            reassign(topic, partition, Some(vec![node])),
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        );
    }

    let all = ListPartitionReassignmentsRequest::default();
    let ResponseBody::ListPartitionReassignments(answer) = client.ask(0, &all).unwrap() else {
        panic!("another answer");
    };
    assert_eq!(
        (answer.error_code, answer.topics.len()),
        (ErrorCode::NONE, 0)
    );
    program.stop();
}

#[test]
fn there_is_one_log_directory_to_move_to() {
    let (_root, data) = temporary();
    let program = Launch::on(&data).start();
    let mut client = Client::named(program.address(), "operator");
    client.create_topic("orders", 1, &[]);
    let ResponseBody::DescribeLogDirs(dirs) =
        client.ask(4, &DescribeLogDirsRequest::default()).unwrap()
    else {
        panic!("another answer");
    };
    let ours = dirs.results[0].log_dir.to_string();

    let mut alter = |path: &str, topic: &str, partitions: &[i32]| {
        let request = AlterReplicaLogDirsRequest {
            dirs: vec![AlterReplicaLogDir {
                path: path.into(),
                topics: vec![AlterReplicaLogDirTopic {
                    name: topic.into(),
                    partitions: partitions.to_vec(),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let ResponseBody::AlterReplicaLogDirs(answer) = client.ask(2, &request).unwrap() else {
            panic!("another answer");
        };
        let partitions = answer.results[0].partitions.iter();
        partitions.map(|p| p.error_code).collect::<Vec<_>>()
    };
    assert_eq!(
        alter(&ours, "orders", &[0, 1]),
        [ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION]
    );
    assert_eq!(
        alter("/nowhere", "orders", &[0]),
        [ErrorCode::LOG_DIR_NOT_FOUND]
    );
    program.stop();
}

#[test]
fn the_quorum_is_one() {
    let (_root, data) = temporary();
    let program = Launch::on(&data).start();
    let mut client = Client::named(program.address(), "operator");
    let node = client.metadata(&[]).brokers[0].node_id;
    let mut describe = |topic: &str, index| {
        let request = DescribeQuorumRequest {
            topics: vec![TopicRequest {
                topic_name: topic.into(),
                partitions: vec![PartitionRequest {
                    partition_index: index,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let ResponseBody::DescribeQuorum(answer) = client.ask(2, &request).unwrap() else {
            panic!("another answer");
        };
        answer
    };
    let answer = describe("__cluster_metadata", 0);
    let quorum = &answer.topics[0].partitions[0];
    let voters: Vec<_> = quorum.current_voters.iter().map(|v| v.replica_id).collect();
    assert_eq!((quorum.leader_id, voters), (node, vec![node]));
    assert_eq!(
        quorum.high_watermark,
        quorum.current_voters[0].log_end_offset
    );
    assert!(quorum.high_watermark > 0, "the start itself wrote records");
    assert_eq!(
        i32::from(answer.nodes[0].listeners[0].port),
        i32::from(program.address().port())
    );
    for (topic, index) in [("__cluster_metadata", 1), ("orders", 0)] {
        let answer = describe(topic, index);
        assert_eq!(
            answer.topics[0].partitions[0].error_code,
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        );
    }
    program.stop();
}
