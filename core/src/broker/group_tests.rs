//! Groups as clients see them: through requests, restarts and failing disks.

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
use crate::wire::{ErrorCode, ResponseBody};

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

fn sync(
    host: &mut Harness,
    client: ConnectionId,
    member_id: &str,
    generation_id: i32,
    assignments: &[(&str, &str)],
) {
    let assignments = assignments
        .iter()
        .map(|(id, what)| SyncGroupRequestAssignment {
            member_id: (*id).into(),
            assignment: Bytes::copy_from_slice(what.as_bytes()),
            ..Default::default()
        });
    let request = SyncGroupRequest {
        group_id: "readers".into(),
        generation_id,
        member_id: member_id.into(),
        assignments: assignments.collect(),
        ..Default::default()
    };
    host.send(client, 3, &request);
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
fn a_simple_consumer_finds_what_it_committed_after_a_crash() {
    let (mut host, client) = started();
    assert_eq!(offset(&mut host, client), Ok(-1));
    assert_eq!(commit(&mut host, client, "", -1, 5), ErrorCode::NONE);
    assert_eq!(commit(&mut host, client, "", -1, 7), ErrorCode::NONE);
    assert_eq!(offset(&mut host, client), Ok(7));
    let (mut host, client) = restarted(host);
    assert_eq!(offset(&mut host, client), Ok(7));
    // The note comes back, by name and by id.
    let topic_id = host.metadata(client, "orders").topics[0].topic_id;
    let topics = vec![OffsetFetchRequestTopics {
        topic_id,
        partition_indexes: vec![0, 1],
        ..Default::default()
    }];
    for topics in [Some(topics), None] {
        let group = OffsetFetchRequestGroup {
            group_id: "readers".into(),
            topics,
            ..Default::default()
        };
        let request = OffsetFetchRequest {
            groups: vec![group],
            ..Default::default()
        };
        let ResponseBody::OffsetFetch(response) = host.ask(client, 10, &request) else {
            panic!("not an offset fetch")
        };
        let topic = &response.groups[0].topics[0];
        assert_eq!(topic.topic_id, topic_id);
        assert_eq!(topic.partitions[0].committed_offset, 7);
        assert_eq!(topic.partitions[0].metadata, Some("a note".into()));
        assert!(
            topic
                .partitions
                .get(1)
                .is_none_or(|none| none.committed_offset == -1)
        );
    }
}

#[test]
fn commits_and_what_saw_them_wait_for_the_flush() {
    let (mut host, client) = started();
    let reader = host.connect();
    host.hold_flushes = true;
    host.send(client, 8, &commit_request("", -1, 5));
    assert_eq!(committed(&mut host, client), None);
    host.send(reader, 7, &fetch_request());
    assert_eq!(
        fetched(&mut host, reader),
        None,
        "it saw what is not durable"
    );
    host.complete_flushes();
    assert_eq!(committed(&mut host, client), Some(ErrorCode::NONE));
    assert_eq!(fetched(&mut host, reader), Some(Ok(5)));
    assert_eq!(host.broker.held().groups, 0);
}

#[test]
fn a_commit_whose_write_failed_is_refused_and_not_seen() {
    let (mut host, client) = started();
    assert_eq!(commit(&mut host, client, "", -1, 5), ErrorCode::NONE);
    let reader = host.connect();
    host.hold_flushes = true;
    host.send(client, 8, &commit_request("", -1, 6));
    host.send(reader, 7, &fetch_request());
    host.fail_flushes = true;
    host.hold_flushes = false;
    host.complete_flushes();
    let lost = ErrorCode::COORDINATOR_NOT_AVAILABLE;
    assert_eq!(committed(&mut host, client), Some(lost));
    assert_eq!(fetched(&mut host, reader), Some(Err(lost)));
    assert_eq!(
        offset(&mut host, client),
        Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS)
    );
    host.fail_flushes = false;
    host.advance(60_000);
    // The disk of this test keeps what it was told although the flush failed.
    assert_eq!(offset(&mut host, client), Ok(6));
    assert_eq!(commit(&mut host, client, "", -1, 8), ErrorCode::NONE);
    assert_eq!(offset(&mut host, client), Ok(8));
}

/// Found by the simulator (`--workload rebalance`, seed 166): the topic was lost with its record, and
/// an acknowledged commit with it.
#[test]
fn nothing_is_committed_for_a_topic_that_may_yet_be_lost() {
    let (mut host, client) = started();
    let maker = host.connect();
    host.hold_flushes = true;
    host.send(
        maker,
        5,
        &CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: "fresh".into(),
                num_partitions: 1,
                replication_factor: 1,
                ..Default::default()
            }],
            timeout_ms: 60_000,
            ..Default::default()
        },
    );
    assert_eq!(host.receive(maker), None, "its record is not durable");
    let mut request = commit_request("", -1, 5);
    request.topics[0].name = "fresh".into();
    host.send(client, 8, &request);
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    assert_eq!(committed(&mut host, client), Some(unknown));
    host.hold_flushes = false;
    host.complete_flushes();
    assert!(host.receive(maker).is_some());
    host.send(client, 8, &request);
    assert_eq!(committed(&mut host, client), Some(ErrorCode::NONE));
}

#[test]
fn groups_that_cannot_be_read_are_tried_again() {
    let (mut host, client) = started();
    assert_eq!(commit(&mut host, client, "", -1, 5), ErrorCode::NONE);
    host.fail_flushes = true;
    host.fail_group_reads = true;
    let lost = commit(&mut host, client, "", -1, 6);
    assert_eq!(lost, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    host.fail_flushes = false;
    host.advance(60_000);
    let loading = Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    assert_eq!(offset(&mut host, client), loading);
    host.fail_group_reads = false;
    host.advance(5_000);
    assert_eq!(offset(&mut host, client), Ok(6));
}

#[test]
fn what_cannot_be_committed_is_refused_one_by_one() {
    let (mut host, client) = started();
    let mut request = commit_request("", -1, 5);
    let mut long = request.topics[0].partitions[0].clone();
    long.committed_metadata = Some("x".repeat(4_097).into());
    request.topics[0].partitions.push(long);
    let mut beyond = request.topics[0].partitions[0].clone();
    beyond.partition_index = 1;
    request.topics[0].partitions.push(beyond);
    let ResponseBody::OffsetCommit(response) = host.ask(client, 8, &request) else {
        panic!("not a commit")
    };
    let errors: Vec<_> = response.topics[0]
        .partitions
        .iter()
        .map(|p| p.error_code)
        .collect();
    assert_eq!(
        errors,
        [
            ErrorCode::NONE,
            ErrorCode::OFFSET_METADATA_TOO_LARGE,
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        ]
    );
    assert_eq!(
        commit(&mut host, client, "ghost", 3, 5),
        ErrorCode::UNKNOWN_MEMBER_ID
    );
    let mut other = commit_request("ghost", 3, 5);
    other.group_id = "unheard of".into();
    host.send(client, 8, &other);
    assert_eq!(
        committed(&mut host, client),
        Some(ErrorCode::ILLEGAL_GENERATION)
    );
}

#[test]
fn offsets_are_deleted() {
    let (mut host, client) = started();
    commit(&mut host, client, "", -1, 5);
    let topic = OffsetDeleteRequestTopic {
        name: "orders".into(),
        partitions: vec![OffsetDeleteRequestPartition::default()],
        ..Default::default()
    };
    let request = OffsetDeleteRequest {
        group_id: "readers".into(),
        topics: vec![topic],
        ..Default::default()
    };
    let ResponseBody::OffsetDelete(response) = host.ask(client, 0, &request) else {
        panic!("not an offset delete")
    };
    assert_eq!(response.error_code, ErrorCode::NONE);
    assert_eq!(response.topics[0].partitions[0].error_code, ErrorCode::NONE);
    assert_eq!(offset(&mut host, client), Ok(-1));
    let (mut host, client) = restarted(host);
    assert_eq!(offset(&mut host, client), Ok(-1));

    let id = stable(&mut host, client);
    assert_eq!(commit(&mut host, client, &id, 1, 9), ErrorCode::NONE);
    let ResponseBody::OffsetDelete(response) = host.ask(client, 0, &request) else {
        panic!("not an offset delete")
    };
    let partition = &response.topics[0].partitions[0];
    assert_eq!(partition.error_code, ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC);
}

#[test]
fn a_member_joins_with_the_id_it_was_given_and_is_described() {
    let (mut host, client) = started();
    host.send(client, 9, &join_request(""));
    let refused = joined(&mut host, client).unwrap();
    assert_eq!(refused.error_code, ErrorCode::MEMBER_ID_REQUIRED);
    host.send(client, 9, &join_request(&refused.member_id));
    assert!(joined(&mut host, client).is_none());
    assert_eq!(host.broker.held().groups, 1);
    host.advance(1);
    let reply = joined(&mut host, client).unwrap();
    assert_eq!((reply.generation_id, &reply.leader), (1, &reply.member_id));
    assert_eq!(reply.protocol_name, Some("range".into()));
    assert_eq!(reply.members.len(), 1);

    let admin = host.connect();
    assert_eq!(
        &*describe(&mut host, admin).group_state,
        "CompletingRebalance"
    );
    sync(
        &mut host,
        client,
        &reply.member_id,
        1,
        &[(&reply.member_id, "all")],
    );
    assert_eq!(synced(&mut host, client), Some(Ok("all".to_string())));
    let described = describe(&mut host, admin);
    assert_eq!(&*described.group_state, "Stable");
    assert_eq!(
        (&*described.protocol_type, &*described.protocol_data),
        ("consumer", "range")
    );
    let member = &described.members[0];
    assert_eq!(&*member.client_host, "/127.0.0.1");
    assert_eq!(&*member.member_assignment, b"all");
    assert_eq!(list(&mut host, admin, &["stable"]), ["readers"]);
    assert_eq!(list(&mut host, admin, &["Empty"]), Vec::<String>::new());
    assert_eq!(delete_group(&mut host, admin), ErrorCode::NON_EMPTY_GROUP);
}

#[test]
fn an_assignment_is_given_out_when_its_record_is_durable() {
    let (mut host, first) = started();
    let second = host.connect();
    let watcher = host.connect();
    host.send(first, 3, &join_request(""));
    host.send(second, 3, &join_request(""));
    host.advance(1);
    let leader = joined(&mut host, first).unwrap().member_id.to_string();
    let follower = joined(&mut host, second).unwrap().member_id.to_string();
    sync(&mut host, second, &follower, 1, &[]);
    assert_eq!(synced(&mut host, second), None);
    host.hold_flushes = true;
    sync(
        &mut host,
        first,
        &leader,
        1,
        &[(&leader, "a"), (&follower, "b")],
    );
    assert_eq!(synced(&mut host, first), None);
    host.send(
        watcher,
        6,
        &DescribeGroupsRequest {
            groups: vec!["readers".into()],
            ..Default::default()
        },
    );
    assert!(host.receive(watcher).is_none());
    host.complete_flushes();
    assert_eq!(synced(&mut host, first), Some(Ok("a".to_string())));
    assert_eq!(synced(&mut host, second), Some(Ok("b".to_string())));
    assert!(host.receive(watcher).is_some());
}

#[test]
fn a_member_carries_on_after_a_crash_of_the_broker() {
    let (mut host, client) = started();
    let id = stable(&mut host, client);
    assert_eq!(commit(&mut host, client, &id, 1, 5), ErrorCode::NONE);
    let (mut host, client) = restarted(host);
    assert_eq!(heartbeat(&mut host, client, &id, 1), ErrorCode::NONE);
    assert_eq!(commit(&mut host, client, &id, 1, 6), ErrorCode::NONE);
    assert_eq!(
        commit(&mut host, client, &id, 0, 4),
        ErrorCode::ILLEGAL_GENERATION
    );
    assert_eq!(offset(&mut host, client), Ok(6));
    // Its session began anew; silent, it is given up, and that is durable too.
    host.advance(9_999);
    assert_eq!(&*describe(&mut host, client).group_state, "Stable");
    assert_eq!(heartbeat(&mut host, client, &id, 1), ErrorCode::NONE);
    host.advance(10_000);
    assert_eq!(&*describe(&mut host, client).group_state, "Empty");
    let (mut host, client) = restarted(host);
    assert_eq!(&*describe(&mut host, client).group_state, "Empty");
    assert_eq!(
        commit(&mut host, client, &id, 1, 7),
        ErrorCode::UNKNOWN_MEMBER_ID
    );
    assert_eq!(offset(&mut host, client), Ok(6));
}

#[test]
fn a_rebalance_whose_record_is_lost_never_was() {
    let (mut host, client) = started();
    let waiting = host.connect();
    host.send(client, 3, &join_request(""));
    host.advance(1);
    let id = joined(&mut host, client).unwrap().member_id.to_string();
    // A second one joins while the first's assignment is on its way to the disk.
    host.hold_flushes = true;
    sync(&mut host, client, &id, 1, &[(&id, "all")]);
    host.send(waiting, 3, &join_request(""));
    assert!(joined(&mut host, waiting).is_none());
    host.fail_flushes = true;
    host.hold_flushes = false;
    host.complete_flushes();
    let lost = ErrorCode::COORDINATOR_NOT_AVAILABLE;
    assert_eq!(synced(&mut host, client), Some(Err(lost)));
    assert_eq!(joined(&mut host, waiting).unwrap().error_code, lost);
    assert_eq!(host.broker.held().groups, 0);
    host.fail_flushes = false;
    host.advance(60_000);
    let found = describe(&mut host, client);
    assert!(
        matches!(&*found.group_state, "Stable" | "Empty" | "Dead"),
        "{found:?}"
    );
}

#[test]
fn members_leave_and_the_group_is_deleted() {
    let (mut host, client) = started();
    let id = stable(&mut host, client);
    commit(&mut host, client, &id, 1, 5);
    let request = LeaveGroupRequest {
        group_id: "readers".into(),
        members: vec![
            MemberIdentity {
                member_id: id.as_str().into(),
                ..Default::default()
            },
            MemberIdentity {
                member_id: "ghost".into(),
                ..Default::default()
            },
        ],
        ..Default::default()
    };
    let ResponseBody::LeaveGroup(response) = host.ask(client, 5, &request) else {
        panic!("not a leave")
    };
    let errors: Vec<_> = response
        .members
        .iter()
        .map(|member| member.error_code)
        .collect();
    assert_eq!(errors, [ErrorCode::NONE, ErrorCode::UNKNOWN_MEMBER_ID]);
    assert_eq!(&*describe(&mut host, client).group_state, "Empty");
    assert_eq!(offset(&mut host, client), Ok(5));
    assert_eq!(delete_group(&mut host, client), ErrorCode::NONE);
    assert_eq!(
        delete_group(&mut host, client),
        ErrorCode::GROUP_ID_NOT_FOUND
    );
    assert_eq!(offset(&mut host, client), Ok(-1));
    assert_eq!(
        describe(&mut host, client).error_code,
        ErrorCode::GROUP_ID_NOT_FOUND
    );
    let (mut host, client) = restarted(host);
    assert_eq!(offset(&mut host, client), Ok(-1));
    assert_eq!(list(&mut host, client, &[]), Vec::<String>::new());
}

#[test]
fn offsets_of_an_empty_group_expire_and_the_group_with_them() {
    let (mut host, client) = started();
    let mut patient = join_request("");
    patient.session_timeout_ms = 1_800_000;
    host.send(client, 3, &patient);
    host.advance(1);
    let id = joined(&mut host, client).unwrap().member_id.to_string();
    sync(&mut host, client, &id, 1, &[(&id, "all")]);
    assert_eq!(synced(&mut host, client), Some(Ok("all".to_string())));
    commit(&mut host, client, &id, 1, 5);
    let week_ms = 7 * 24 * 3_600_000;
    for _ in 0..(week_ms / 1_000_000) {
        host.advance(1_000_000);
        assert_eq!(heartbeat(&mut host, client, &id, 1), ErrorCode::NONE);
    }
    host.advance(1_800_000);
    assert_eq!(
        offset(&mut host, client),
        Ok(5),
        "a subscribed topic's offsets stay"
    );
    host.advance(week_ms - 600_000);
    assert_eq!(
        offset(&mut host, client),
        Ok(5),
        "the group is empty since a week, not quite"
    );
    host.advance(2 * 600_000);
    assert_eq!(offset(&mut host, client), Ok(-1));
    assert_eq!(list(&mut host, client, &[]), Vec::<String>::new());
}

#[test]
fn offsets_of_a_simple_consumer_expire_by_their_commit() {
    let (mut host, client) = started();
    let week_ms = 7 * 24 * 3_600_000;
    commit(&mut host, client, "", -1, 5);
    host.advance(week_ms / 2);
    commit(&mut host, client, "", -1, 6);
    host.advance(week_ms * 3 / 4);
    assert_eq!(offset(&mut host, client), Ok(6));
    // A retention of its own, as old clients ask for.
    let mut own = commit_request("", -1, 7);
    own.retention_time_ms = 1_000;
    host.send(client, 4, &own);
    assert_eq!(committed(&mut host, client), Some(ErrorCode::NONE));
    assert_eq!(offset(&mut host, client), Ok(7));
    host.advance(600_000);
    assert_eq!(offset(&mut host, client), Ok(-1));
}

#[test]
fn a_topic_made_anew_begins_without_offsets() {
    let (mut host, client) = started();
    commit(&mut host, client, "", -1, 5);
    let request = DeleteTopicsRequest {
        topic_names: vec!["orders".into()],
        ..Default::default()
    };
    host.ask(client, 5, &request);
    host.create_topic(client, "orders");
    assert_eq!(offset(&mut host, client), Ok(-1));
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

#[test]
fn a_stop_sends_waiting_members_away_and_a_closed_connection_leaves_nothing() {
    let (mut host, client) = started();
    stable(&mut host, client);
    let (gone, waiting) = (host.connect(), host.connect());
    host.send(gone, 3, &join_request(""));
    host.disconnect(gone);
    host.send(waiting, 3, &join_request(""));
    assert_eq!(host.broker.held().groups, 1);
    host.stop();
    assert!(host.stopped, "{:?}", host.reports);
    let reply = joined(&mut host, waiting).unwrap();
    assert_eq!(reply.error_code, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    assert_eq!(host.broker.held().groups, 0);
    assert!(host.files.read("clean.shutdown").is_some());
}

#[test]
fn a_hundred_members_rebalance() {
    let (mut host, admin) = started();
    let clients: Vec<_> = (0..100).map(|_| host.connect()).collect();
    for client in &clients {
        host.send(*client, 3, &join_request(""));
    }
    host.advance(1);
    let mut leader = None;
    let mut followers = Vec::new();
    for client in &clients {
        let reply = joined(&mut host, *client).unwrap();
        assert_eq!(reply.generation_id, 1);
        if reply.leader == reply.member_id {
            assert_eq!(reply.members.len(), 100);
            leader = Some((*client, reply.member_id.to_string()));
        } else {
            followers.push((*client, reply.member_id.to_string()));
        }
    }
    for (client, id) in &followers {
        sync(&mut host, *client, id, 1, &[]);
    }
    let (client, id) = leader.unwrap();
    let shares: Vec<(&str, &str)> = followers
        .iter()
        .map(|(_, id)| (id.as_str(), id.as_str()))
        .collect();
    sync(&mut host, client, &id, 1, &shares);
    for (client, id) in &followers {
        assert_eq!(synced(&mut host, *client), Some(Ok(id.clone())));
    }
    assert_eq!(describe(&mut host, admin).members.len(), 100);
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
fn a_consumer_group_is_assigned_by_the_broker_and_survives_a_crash() {
    let (mut host, client) = started();
    host.hold_flushes = true;
    host.send(client, 1, &consumer_beat("me", 0));
    assert_eq!(beaten(&mut host, client), None, "told when durable");
    host.hold_flushes = false;
    host.complete_flushes();
    let reply = beaten(&mut host, client).unwrap();
    assert_eq!((reply.error_code, reply.member_epoch), (ErrorCode::NONE, 1));
    assert_eq!(reply.heartbeat_interval_ms, 5_000);
    let topic_id = host.metadata(client, "orders").topics[0].topic_id;
    let owned = reply.assignment.unwrap().topic_partitions;
    assert_eq!(
        (owned[0].topic_id, &*owned[0].partitions),
        (topic_id, &[0][..])
    );
    assert_eq!(commit_at(&mut host, client, 9, 1), ErrorCode::NONE);
    assert_eq!(
        commit_at(&mut host, client, 9, 0),
        ErrorCode::STALE_MEMBER_EPOCH
    );
    assert_eq!(
        commit_at(&mut host, client, 8, 1),
        ErrorCode::UNSUPPORTED_VERSION
    );

    let (mut host, client) = restarted(host);
    assert_eq!(beat(&mut host, client, "me", 1).error_code, ErrorCode::NONE);
    assert_eq!(commit_at(&mut host, client, 9, 1), ErrorCode::NONE);
    assert_eq!(offset(&mut host, client), Ok(5));
    let request = ConsumerGroupDescribeRequest {
        group_ids: vec!["readers".into()],
        ..Default::default()
    };
    let ResponseBody::ConsumerGroupDescribe(response) = host.ask(client, 1, &request) else {
        panic!("not a description")
    };
    let group = &response.groups[0];
    assert_eq!((&*group.group_state, group.group_epoch), ("Stable", 1));
    assert_eq!(&*group.assignor_name, "uniform");
    assert_eq!(
        &*group.members[0].assignment.topic_partitions[0].topic_name,
        "orders"
    );
    let classic = describe(&mut host, client);
    assert_eq!(classic.error_code, ErrorCode::GROUP_ID_NOT_FOUND);

    // The other protocol is for an empty group.
    host.send(client, 3, &join_request(""));
    let refused = joined(&mut host, client).unwrap();
    assert_eq!(refused.error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    assert_eq!(
        beat(&mut host, client, "me", -1).error_code,
        ErrorCode::NONE
    );
    stable(&mut host, client);
    assert_eq!(offset(&mut host, client), Ok(5), "its offsets stay");
    let refused = beat(&mut host, client, "me", 0);
    assert_eq!(refused.error_code, ErrorCode::GROUP_ID_NOT_FOUND);
    let (mut host, client) = restarted(host);
    assert_eq!(&*describe(&mut host, client).group_state, "Stable");
    host.advance(60_000);
    assert_eq!(beat(&mut host, client, "me", 0).member_epoch, 1);
    assert_eq!(
        beat(&mut host, client, "me", -1).error_code,
        ErrorCode::NONE
    );
    assert_eq!(delete_group(&mut host, client), ErrorCode::NONE);
    let (mut host, client) = restarted(host);
    assert_eq!(list(&mut host, client, &[]), Vec::<String>::new());
}

#[test]
fn a_consumer_group_whose_record_is_lost_is_read_again() {
    let (mut host, client) = started();
    let reply = beat(&mut host, client, "me", 0);
    assert_eq!(reply.member_epoch, 1);
    let other = host.connect();
    host.hold_flushes = true;
    host.send(other, 1, &consumer_beat("you", 0));
    host.fail_flushes = true;
    host.hold_flushes = false;
    host.complete_flushes();
    let lost = beaten(&mut host, other).unwrap();
    assert_eq!(lost.error_code, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    host.fail_flushes = false;
    host.advance(40_000);
    let again = beat(&mut host, client, "me", 1);
    assert_eq!(again.error_code, ErrorCode::NONE);
    host.advance(45_000);
    assert_eq!(
        beat(&mut host, client, "me", 1).error_code,
        ErrorCode::UNKNOWN_MEMBER_ID
    );
}

#[test]
fn a_heartbeat_must_say_what_it_is() {
    let (mut host, client) = started();
    let mut ask = |edit: &dyn Fn(&mut ConsumerGroupHeartbeatRequest)| {
        let mut request = consumer_beat("me", 0);
        edit(&mut request);
        host.send(client, 1, &request);
        beaten(&mut host, client).unwrap().error_code
    };
    let invalid = ErrorCode::INVALID_REQUEST;
    assert_eq!(ask(&|r| r.member_id = "".into()), invalid);
    assert_eq!(ask(&|r| r.group_id = "".into()), invalid);
    assert_eq!(ask(&|r| r.rebalance_timeout_ms = -1), invalid);
    assert_eq!(ask(&|r| r.topic_partitions = None), invalid);
    assert_eq!(ask(&|r| r.subscribed_topic_names = None), invalid);
    let names: Vec<_> = (0..60_000)
        .map(|n| alloc::format!("topic-number-{n}").into())
        .collect();
    assert_eq!(
        ask(&|r| r.subscribed_topic_names = Some(names.clone())),
        invalid
    );
    assert_eq!(ask(&|r| r.member_epoch = -3), invalid);
    assert_eq!(ask(&|r| r.member_epoch = -2), invalid);
    assert_eq!(
        ask(&|r| r.server_assignor = Some("best".into())),
        ErrorCode::UNSUPPORTED_ASSIGNOR
    );
    assert_eq!(ask(&|r| r.member_epoch = 1), ErrorCode::GROUP_ID_NOT_FOUND);
    assert_eq!(ask(&|_| {}), ErrorCode::NONE);
}
