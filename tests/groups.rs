//! A consumer group on the real program: its members carry on after a SIGKILL of the broker, and
//! what they committed is there.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_macros
)]

mod harness;

use bytes::Bytes;
use harness::Client;
use harness::data_dir::temporary;
use harness::program::Launch;
use odradek_core::wire::messages::find_coordinator::FindCoordinatorRequest;
use odradek_core::wire::messages::heartbeat::HeartbeatRequest;
use odradek_core::wire::messages::join_group::{
    JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse,
};
use odradek_core::wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use odradek_core::wire::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestTopic};
use odradek_core::wire::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};
use odradek_core::wire::{ErrorCode, ResponseBody};

const GROUP: &str = "readers";
const TOPIC: &str = "orders";

fn find_coordinator(client: &mut Client) -> ErrorCode {
    let request = FindCoordinatorRequest {
        key: GROUP.into(),
        ..Default::default()
    };
    match client.ask(2, &request).unwrap() {
        ResponseBody::FindCoordinator(response) => response.error_code,
        other => panic!("{other:?}"),
    }
}

fn join(client: &mut Client, member_id: &str) -> JoinGroupResponse {
    let request = JoinGroupRequest {
        group_id: GROUP.into(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 60_000,
        member_id: member_id.into(),
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".into(),
            metadata: Bytes::from_static(b"anything"),
            ..Default::default()
        }],
        ..Default::default()
    };
    match client.ask(9, &request).unwrap() {
        ResponseBody::JoinGroup(response) => response,
        other => panic!("{other:?}"),
    }
}

fn sync(client: &mut Client, member_id: &str) -> Bytes {
    let request = SyncGroupRequest {
        group_id: GROUP.into(),
        generation_id: 1,
        member_id: member_id.into(),
        protocol_type: Some("consumer".into()),
        protocol_name: Some("range".into()),
        assignments: vec![SyncGroupRequestAssignment {
            member_id: member_id.into(),
            assignment: Bytes::from_static(b"everything"),
            ..Default::default()
        }],
        ..Default::default()
    };
    match client.ask(5, &request).unwrap() {
        ResponseBody::SyncGroup(response) => {
            assert_eq!(response.error_code, ErrorCode::NONE);
            response.assignment
        }
        other => panic!("{other:?}"),
    }
}

fn heartbeat(client: &mut Client, member_id: &str) -> ErrorCode {
    let request = HeartbeatRequest {
        group_id: GROUP.into(),
        generation_id: 1,
        member_id: member_id.into(),
        ..Default::default()
    };
    match client.ask(4, &request).unwrap() {
        ResponseBody::Heartbeat(response) => response.error_code,
        other => panic!("{other:?}"),
    }
}

fn commit(client: &mut Client, member_id: &str, generation: i32, offset: i64) -> ErrorCode {
    let request = OffsetCommitRequest {
        group_id: GROUP.into(),
        generation_id_or_member_epoch: generation,
        member_id: member_id.into(),
        topics: vec![OffsetCommitRequestTopic {
            name: TOPIC.into(),
            partitions: vec![OffsetCommitRequestPartition {
                committed_offset: offset,
                committed_metadata: Some("a note".into()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    match client.ask(8, &request).unwrap() {
        ResponseBody::OffsetCommit(response) => response.topics[0].partitions[0].error_code,
        other => panic!("{other:?}"),
    }
}

/// The committed offset and its note, asked for until the groups are loaded.
fn committed(client: &mut Client) -> (i64, String) {
    let request = OffsetFetchRequest {
        group_id: GROUP.into(),
        topics: Some(vec![OffsetFetchRequestTopic {
            name: TOPIC.into(),
            partition_indexes: vec![0],
            ..Default::default()
        }]),
        ..Default::default()
    };
    loop {
        match client.ask(7, &request).unwrap() {
            ResponseBody::OffsetFetch(response)
                if response.error_code == ErrorCode::COORDINATOR_LOAD_IN_PROGRESS => {}
            ResponseBody::OffsetFetch(response) => {
                assert_eq!(response.error_code, ErrorCode::NONE);
                let partition = &response.topics[0].partitions[0];
                let note = partition.metadata.as_ref().unwrap().to_string();
                return (partition.committed_offset, note);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_member_carries_on_and_its_offset_is_there_after_a_sigkill() {
    let (_root, data) = temporary();
    let launch = Launch::on(&data).set("group.initial.rebalance.delay.ms", 0);
    let program = launch.start();
    let mut client = Client::connect(program.address());
    client.create_topic(TOPIC, 1, &[]);
    assert_eq!(find_coordinator(&mut client), ErrorCode::NONE);
    let refused = join(&mut client, "");
    assert_eq!(refused.error_code, ErrorCode::MEMBER_ID_REQUIRED);
    let member = refused.member_id.to_string();
    let joined = join(&mut client, &member);
    assert_eq!(
        (joined.error_code, joined.generation_id),
        (ErrorCode::NONE, 1)
    );
    assert_eq!(&*joined.leader, member);
    assert_eq!(&*sync(&mut client, &member), b"everything");
    for offset in 0..100 {
        assert_eq!(commit(&mut client, &member, 1, offset), ErrorCode::NONE);
    }
    program.kill();

    let program = launch.start();
    let mut client = Client::connect(program.address());
    assert_eq!(committed(&mut client), (99, "a note".to_owned()));
    assert_eq!(heartbeat(&mut client, &member), ErrorCode::NONE);
    assert_eq!(&*sync(&mut client, &member), b"everything");
    assert_eq!(commit(&mut client, &member, 1, 100), ErrorCode::NONE);
    assert_eq!(
        commit(&mut client, &member, 0, 3),
        ErrorCode::ILLEGAL_GENERATION
    );
    assert_eq!(commit(&mut client, "", -1, 3), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(committed(&mut client).0, 100);
}
