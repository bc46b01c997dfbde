//! Groups as clients see them: through requests, restarts and failing disks.

mod classic;
mod configs;
mod consumer;
mod migration;
mod offsets;

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use super::harness::Harness;
use crate::group::config::GroupConfig;
use crate::ids::ConnectionId;
use crate::metadata::config::BrokerConfig;
use crate::wire::messages::consumer_group_describe::ConsumerGroupDescribeRequest;
use crate::wire::messages::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
};
use crate::wire::messages::create_topics::{CreatableTopic, CreateTopicsRequest};
use crate::wire::messages::delete_groups::DeleteGroupsRequest;
use crate::wire::messages::delete_topics::DeleteTopicsRequest;
use crate::wire::messages::describe_groups::{DescribeGroupsRequest, DescribedGroup};
use crate::wire::messages::find_coordinator::FindCoordinatorRequest;
use crate::wire::messages::heartbeat::HeartbeatRequest;
use crate::wire::messages::join_group::{
    JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse,
};
use crate::wire::messages::leave_group::{LeaveGroupRequest, MemberIdentity};
use crate::wire::messages::list_groups::ListGroupsRequest;
use crate::wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use crate::wire::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use crate::wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use crate::wire::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};
use crate::wire::{ErrorCode, ResponseBody, Str};

fn config() -> BrokerConfig {
    BrokerConfig {
        groups: GroupConfig {
            initial_rebalance_delay_ms: 0,
            ..GroupConfig::default()
        },
        ..BrokerConfig::default()
    }
}

/// A broker with the topic `orders` and the one of groups.
fn started() -> (Harness, ConnectionId) {
    let mut host = Harness::start(config());
    assert!(host.started, "{:?}", host.fatal);
    let client = host.connect();
    host.create_topic(client, "orders");
    assert_eq!(find(&mut host, client, 0), ErrorCode::NONE);
    (host, client)
}

/// The same directory under a new process.
fn restarted(host: Harness) -> (Harness, ConnectionId) {
    let now = host.now;
    let mut host = Harness::start_on(host.kill(), config());
    assert!(host.started, "{:?}", host.fatal);
    host.now.wall = now.wall;
    let client = host.connect();
    (host, client)
}

fn find(host: &mut Harness, client: ConnectionId, key_type: i8) -> ErrorCode {
    let request = FindCoordinatorRequest {
        key_type,
        coordinator_keys: vec!["readers".into()],
        ..Default::default()
    };
    match host.ask(client, 4, &request) {
        ResponseBody::FindCoordinator(response) => response.coordinators[0].error_code,
        other => panic!("{other:?}"),
    }
}

fn commit_request(member_id: &str, generation: i32, offset: i64) -> OffsetCommitRequest {
    let partition = OffsetCommitRequestPartition {
        committed_offset: offset,
        committed_metadata: Some("a note".into()),
        ..Default::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: "orders".into(),
        partitions: vec![partition],
        ..Default::default()
    };
    OffsetCommitRequest {
        group_id: "readers".into(),
        generation_id_or_member_epoch: generation,
        member_id: member_id.into(),
        topics: vec![topic],
        ..Default::default()
    }
}

fn committed(host: &mut Harness, client: ConnectionId) -> Option<ErrorCode> {
    match host.receive(client)? {
        ResponseBody::OffsetCommit(response) => Some(response.topics[0].partitions[0].error_code),
        other => panic!("{other:?}"),
    }
}

fn commit(
    host: &mut Harness,
    client: ConnectionId,
    member_id: &str,
    generation: i32,
    offset: i64,
) -> ErrorCode {
    host.send(client, 8, &commit_request(member_id, generation, offset));
    committed(host, client).expect("the answer is there")
}

fn fetch_request() -> OffsetFetchRequest {
    let topic = OffsetFetchRequestTopic {
        name: "orders".into(),
        partition_indexes: vec![0],
        ..Default::default()
    };
    OffsetFetchRequest {
        group_id: "readers".into(),
        topics: Some(vec![topic]),
        ..Default::default()
    }
}

fn fetched(host: &mut Harness, client: ConnectionId) -> Option<Result<i64, ErrorCode>> {
    match host.receive(client)? {
        ResponseBody::OffsetFetch(response) if response.error_code.is_error() => {
            Some(Err(response.error_code))
        }
        ResponseBody::OffsetFetch(response) => {
            Some(Ok(response.topics[0].partitions[0].committed_offset))
        }
        other => panic!("{other:?}"),
    }
}

fn offset(host: &mut Harness, client: ConnectionId) -> Result<i64, ErrorCode> {
    host.send(client, 7, &fetch_request());
    fetched(host, client).expect("the answer is there")
}

fn join_request(member_id: &str) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol {
        name: "range".into(),
        metadata: subscription("orders"),
        ..Default::default()
    };
    JoinGroupRequest {
        group_id: "readers".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        member_id: member_id.into(),
        protocol_type: "consumer".into(),
        protocols: vec![protocol],
        ..Default::default()
    }
}

/// A consumer's subscription to one topic, in version 0.
fn subscription(topic: &str) -> Bytes {
    let mut bytes = vec![0, 0, 0, 0, 0, 1, 0, topic.len() as u8];
    bytes.extend_from_slice(topic.as_bytes());
    bytes.extend_from_slice(&(-1_i32).to_be_bytes());
    Bytes::from(bytes)
}

fn joined(host: &mut Harness, client: ConnectionId) -> Option<JoinGroupResponse> {
    match host.receive(client)? {
        ResponseBody::JoinGroup(response) => Some(response),
        other => panic!("{other:?}"),
    }
}

fn sync_request(
    member_id: &str,
    generation_id: i32,
    assignments: impl IntoIterator<Item = (Str, Bytes)>,
) -> SyncGroupRequest {
    let given = assignments.into_iter();
    let assignments = given.map(|(member_id, assignment)| SyncGroupRequestAssignment {
        member_id,
        assignment,
        ..Default::default()
    });
    SyncGroupRequest {
        group_id: "readers".into(),
        generation_id,
        member_id: member_id.into(),
        assignments: assignments.collect(),
        ..Default::default()
    }
}

fn sync(
    host: &mut Harness,
    client: ConnectionId,
    member_id: &str,
    generation_id: i32,
    assignments: &[(&str, &str)],
) {
    let given = assignments.iter();
    let given = given.map(|(id, what)| ((*id).into(), Bytes::copy_from_slice(what.as_bytes())));
    host.send(client, 3, &sync_request(member_id, generation_id, given));
}

fn synced(host: &mut Harness, client: ConnectionId) -> Option<Result<String, ErrorCode>> {
    match host.receive(client)? {
        ResponseBody::SyncGroup(response) if response.error_code.is_error() => {
            Some(Err(response.error_code))
        }
        ResponseBody::SyncGroup(response) => {
            Some(Ok(String::from_utf8(response.assignment.to_vec()).unwrap()))
        }
        other => panic!("{other:?}"),
    }
}

fn heartbeat(
    host: &mut Harness,
    client: ConnectionId,
    member_id: &str,
    generation_id: i32,
) -> ErrorCode {
    let request = HeartbeatRequest {
        group_id: "readers".into(),
        generation_id,
        member_id: member_id.into(),
        ..Default::default()
    };
    match host.ask(client, 3, &request) {
        ResponseBody::Heartbeat(response) => response.error_code,
        other => panic!("{other:?}"),
    }
}

fn describe(host: &mut Harness, client: ConnectionId) -> DescribedGroup {
    let request = DescribeGroupsRequest {
        groups: vec!["readers".into()],
        ..Default::default()
    };
    match host.ask(client, 6, &request) {
        ResponseBody::DescribeGroups(mut response) => response.groups.remove(0),
        other => panic!("{other:?}"),
    }
}

fn list(host: &mut Harness, client: ConnectionId, states: &[&str]) -> Vec<String> {
    let request = ListGroupsRequest {
        states_filter: states.iter().map(|state| (*state).into()).collect(),
        ..Default::default()
    };
    match host.ask(client, 5, &request) {
        ResponseBody::ListGroups(response) => {
            assert_eq!(response.error_code, ErrorCode::NONE);
            response
                .groups
                .iter()
                .map(|group| group.group_id.to_string())
                .collect()
        }
        other => panic!("{other:?}"),
    }
}

fn delete_group(host: &mut Harness, client: ConnectionId) -> ErrorCode {
    let request = DeleteGroupsRequest {
        groups_names: vec!["readers".into()],
        ..Default::default()
    };
    match host.ask(client, 2, &request) {
        ResponseBody::DeleteGroups(response) => response.results[0].error_code,
        other => panic!("{other:?}"),
    }
}

/// One member joins, syncs, and is assigned `all`. Returns its id; the generation is 1.
fn stable(host: &mut Harness, client: ConnectionId) -> String {
    host.send(client, 3, &join_request(""));
    host.advance(1);
    let reply = joined(host, client).unwrap();
    assert_eq!(
        (reply.error_code, reply.generation_id),
        (ErrorCode::NONE, 1)
    );
    let id = reply.member_id.to_string();
    sync(host, client, &id, 1, &[(&id, "all")]);
    assert_eq!(synced(host, client), Some(Ok("all".to_string())));
    id
}

fn consumer_beat(member_id: &str, epoch: i32) -> ConsumerGroupHeartbeatRequest {
    let mut request = ConsumerGroupHeartbeatRequest {
        group_id: "readers".into(),
        member_id: member_id.into(),
        member_epoch: epoch,
        ..Default::default()
    };
    if epoch == 0 {
        request.rebalance_timeout_ms = 60_000;
        request.subscribed_topic_names = Some(vec!["orders".into()]);
        request.topic_partitions = Some(Vec::new());
    }
    request
}

fn beaten(host: &mut Harness, client: ConnectionId) -> Option<ConsumerGroupHeartbeatResponse> {
    match host.receive(client)? {
        ResponseBody::ConsumerGroupHeartbeat(response) => Some(response),
        other => panic!("{other:?}"),
    }
}

fn beat(
    host: &mut Harness,
    client: ConnectionId,
    member_id: &str,
    epoch: i32,
) -> ConsumerGroupHeartbeatResponse {
    host.send(client, 1, &consumer_beat(member_id, epoch));
    beaten(host, client).expect("the answer is there")
}

fn commit_at(host: &mut Harness, client: ConnectionId, version: i16, epoch: i32) -> ErrorCode {
    host.send(client, version, &commit_request("me", epoch, 5));
    committed(host, client).expect("the answer is there")
}

#[test]
fn the_first_to_look_for_a_coordinator_has_the_topic_made() {
    let (mut host, client) = started();
    let metadata = host.metadata(client, "__consumer_offsets");
    let topic = &metadata.topics[0];
    assert!(topic.is_internal);
    assert_eq!(topic.partitions.len(), 1);
    assert_eq!(find(&mut host, client, 0), ErrorCode::NONE);
    let refused = find(&mut host, client, 1);
    assert_eq!(refused, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
    let produced = host.produce(client, "__consumer_offsets", &["forged"]);
    assert_eq!(produced.error_code, ErrorCode::INVALID_TOPIC_EXCEPTION);
}

#[test]
fn without_the_topic_there_is_no_coordinator() {
    let mut host = Harness::start(config());
    let client = host.connect();
    host.create_topic(client, "orders");
    assert_eq!(
        commit(&mut host, client, "", -1, 5),
        ErrorCode::COORDINATOR_NOT_AVAILABLE
    );
    assert_eq!(list(&mut host, client, &[]), Vec::<String>::new());
}

#[test]
fn deleting_the_topic_of_groups_deletes_the_groups() {
    let (mut host, client) = started();
    let waiting = host.connect();
    let id = stable(&mut host, client);
    host.send(waiting, 3, &join_request(""));
    let request = DeleteTopicsRequest {
        topic_names: vec!["__consumer_offsets".into()],
        ..Default::default()
    };
    host.ask(client, 5, &request);
    let gone = ErrorCode::COORDINATOR_NOT_AVAILABLE;
    assert_eq!(joined(&mut host, waiting).unwrap().error_code, gone);
    assert_eq!(heartbeat(&mut host, client, &id, 1), gone);
    assert_eq!(find(&mut host, client, 0), ErrorCode::NONE);
    assert_eq!(
        heartbeat(&mut host, client, &id, 1),
        ErrorCode::UNKNOWN_MEMBER_ID
    );
    assert_eq!(list(&mut host, client, &[]), Vec::<String>::new());
}

/// A string of the protocol has 32,767 bytes at most, and the id is made of the client's.
#[test]
fn the_member_id_of_a_client_with_the_longest_id_can_be_said_back() {
    let (mut host, client) = started();
    let long = "\u{e9}".repeat(i16::MAX as usize / 2);
    let request = JoinGroupRequest {
        group_instance_id: Some(long.into()),
        ..join_request("")
    };
    host.send(client, 6, &request);
    host.advance(1);
    let first = joined(&mut host, client).expect("the answer is there");
    assert_eq!(first.error_code, ErrorCode::NONE);
    assert!(first.member_id.len() <= i16::MAX as usize);
    let again = JoinGroupRequest {
        member_id: first.member_id.clone(),
        ..request
    };
    host.send(client, 6, &again);
    host.advance(1);
    let second = joined(&mut host, client).expect("the answer is there");
    assert_eq!(second.error_code, ErrorCode::NONE);
    assert_eq!(second.member_id, first.member_id);
}
