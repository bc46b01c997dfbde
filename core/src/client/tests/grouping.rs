//! Members of groups: joining, giving up, committing, being fenced, in both protocols.

use std::string::String;
use std::vec;
use std::vec::Vec;

use bytes::Bytes;

use super::world::{Asked, World, partition, stored, topic_id};
use crate::client::{
    Assignor, ClientError, ClientEvent, Command, CommandId, GroupConfig, GroupProtocol,
    OffsetReset, OffsetToCommit, Polled, TopicName, TopicPartition,
};
use crate::ids::Offset;
use crate::record::Compression;
use crate::wire::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition as WirePartitions,
};
use crate::wire::messages::consumer_group_heartbeat::{Assignment, TopicPartitions};
use crate::wire::messages::find_coordinator::Coordinator;
use crate::wire::messages::join_group::JoinGroupResponseMember;
use crate::wire::messages::offset_commit::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use crate::wire::messages::offset_fetch::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use crate::wire::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, FindCoordinatorResponse,
    HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupResponse,
    OffsetCommitRequest, OffsetCommitResponse, OffsetFetchResponse, SyncGroupRequest,
    SyncGroupResponse,
};
use crate::wire::versioned::Versioned;
use crate::wire::{ApiKey, ErrorCode, RequestBody, Str};

fn world(change: impl FnOnce(&mut GroupConfig)) -> World {
    World::new(|config| {
        let mut group = GroupConfig::new(String::from("readers"));
        change(&mut group);
        config.group = Some(group);
        config.consumer.auto_offset_reset = OffsetReset::Earliest;
    })
}

fn subscribe(world: &mut World) {
    subscribe_by(world, Command::Subscribe(vec![TopicName::from("orders")]));
}

fn subscribe_by(world: &mut World, command: Command) {
    world.command(command);
    let asked = world.next(ApiKey::FindCoordinator);
    let answer = FindCoordinatorResponse {
        coordinators: vec![Coordinator {
            key: Str::from("readers"),
            node_id: 1,
            ..Default::default()
        }],
        ..Default::default()
    };
    world.answer(&asked, answer);
}

fn join_request(asked: &Asked) -> &JoinGroupRequest {
    match &asked.request.body {
        RequestBody::JoinGroup(request) => request,
        other => panic!("{other:?}"),
    }
}

fn sync_request(asked: &Asked) -> &SyncGroupRequest {
    match &asked.request.body {
        RequestBody::SyncGroup(request) => request,
        other => panic!("{other:?}"),
    }
}

fn subscription(topics: &[&str]) -> Bytes {
    let said = ConsumerProtocolSubscription {
        topics: topics.iter().map(|topic| Str::from(*topic)).collect(),
        ..Default::default()
    };
    said.to_versioned(1)
}

fn assignment(partitions: &[i32]) -> Bytes {
    let topics = if partitions.is_empty() {
        vec![]
    } else {
        vec![WirePartitions {
            topic: Str::from("orders"),
            partitions: partitions.to_vec(),
            ..Default::default()
        }]
    };
    ConsumerProtocolAssignment {
        assigned_partitions: topics,
        ..Default::default()
    }
    .to_versioned(1)
}

/// The member joins as a follower and gets these partitions.
fn join_and_get(world: &mut World, generation: i32, partitions: &[i32]) {
    let asked = world.next(ApiKey::JoinGroup);
    let answer = JoinGroupResponse {
        generation_id: generation,
        protocol_name: Some(Str::from("range")),
        leader: Str::from("other"),
        member_id: Str::from("me"),
        ..Default::default()
    };
    world.answer(&asked, answer);
    let asked = world.next(ApiKey::SyncGroup);
    assert_eq!(sync_request(&asked).generation_id, generation);
    let answer = SyncGroupResponse {
        assignment: assignment(partitions),
        ..Default::default()
    };
    world.answer(&asked, answer);
}

/// Answers what is asked about committed offsets: the same for every partition.
fn committed(world: &mut World, offset: i64) {
    let asked = world.next(ApiKey::OffsetFetch);
    let RequestBody::OffsetFetch(request) = &asked.request.body else {
        panic!()
    };
    let group = &request.groups[0];
    let topics = group.topics.as_ref().unwrap().iter();
    let topics = topics
        .map(|topic| OffsetFetchResponseTopics {
            topic_id: topic.topic_id,
            partitions: topic
                .partition_indexes
                .iter()
                .map(|index| OffsetFetchResponsePartitions {
                    partition_index: *index,
                    committed_offset: offset,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        })
        .collect();
    let answer = OffsetFetchResponse {
        groups: vec![OffsetFetchResponseGroup {
            group_id: group.group_id.clone(),
            topics,
            ..Default::default()
        }],
        ..Default::default()
    };
    world.answer(&asked, answer);
}

fn commit_request(asked: &Asked) -> &OffsetCommitRequest {
    match &asked.request.body {
        RequestBody::OffsetCommit(request) => request,
        other => panic!("{other:?}"),
    }
}

/// Generation, and partitions with offsets, of a commit.
fn what_is_committed(asked: &Asked) -> (i32, Vec<(i32, i64)>) {
    let request = commit_request(asked);
    let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
    let offsets = partitions.map(|one| (one.partition_index, one.committed_offset));
    (request.generation_id_or_member_epoch, offsets.collect())
}

fn commit_answer(asked: &Asked, error_code: ErrorCode) -> OffsetCommitResponse {
    let topics = commit_request(asked).topics.iter();
    OffsetCommitResponse {
        topics: topics
            .map(|topic| OffsetCommitResponseTopic {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                partitions: topic
                    .partitions
                    .iter()
                    .map(|one| OffsetCommitResponsePartition {
                        partition_index: one.partition_index,
                        error_code,
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    }
}

fn orders(numbers: &[i32]) -> Vec<TopicPartition> {
    numbers
        .iter()
        .map(|number| partition("orders", *number))
        .collect()
}

fn heartbeat(world: &mut World, error_code: ErrorCode) {
    world.advance(3_000);
    let asked = world.next(ApiKey::Heartbeat);
    let answer = HeartbeatResponse {
        error_code,
        ..Default::default()
    };
    world.answer(&asked, answer);
}

/// Three records come of partition 0, from `offset` on.
fn fetch_three(world: &mut World, offset: i64) {
    let asked = world.next(ApiKey::Fetch);
    let batch = stored(offset, Compression::None, &["a", "b", "c"]);
    let answer = asked.fetched(ErrorCode::NONE, offset + 3, &batch);
    world.answer(&asked, answer);
}

fn records(items: &[Polled]) -> usize {
    let is_record = |item: &&Polled| matches!(item, Polled::Record(_));
    items.iter().filter(is_record).count()
}

fn outcome(world: &World, id: CommandId) -> Option<Result<(), ClientError>> {
    world.events.iter().find_map(|event| match event {
        ClientEvent::Committed { id: of, result } if *of == id => Some(result.clone()),
        _ => None,
    })
}

/// In the group with partition 0, at offset 7.
fn member(change: impl FnOnce(&mut GroupConfig)) -> World {
    let mut world = world(change);
    subscribe(&mut world);
    join_and_get(&mut world, 4, &[0]);
    assert_eq!(world.poll(), [Polled::Assigned(orders(&[0]))]);
    committed(&mut world, 7);
    world
}

#[test]
fn a_leader_assigns_in_kafkas_bytes_and_all_begin_where_the_group_was() {
    let mut world = world(|_| {});
    subscribe(&mut world);
    let asked = world.next(ApiKey::JoinGroup);
    let request = join_request(&asked);
    assert_eq!(&*request.member_id, "");
    let names: Vec<&str> = request.protocols.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["range", "cooperative-sticky"]);
    let said = ConsumerProtocolSubscription::read_lenient(request.protocols[0].metadata.clone());
    assert_eq!(said.unwrap().topics, [Str::from("orders")]);
    let answer = JoinGroupResponse {
        error_code: ErrorCode::MEMBER_ID_REQUIRED,
        member_id: Str::from("me"),
        ..Default::default()
    };
    world.answer(&asked, answer);
    let asked = world.next(ApiKey::JoinGroup);
    assert_eq!(&*join_request(&asked).member_id, "me");
    let one = |id: &str, topics: &[&str]| JoinGroupResponseMember {
        member_id: Str::from(id),
        metadata: subscription(topics),
        ..Default::default()
    };
    let answer = JoinGroupResponse {
        generation_id: 1,
        protocol_name: Some(Str::from("range")),
        leader: Str::from("me"),
        member_id: Str::from("me"),
        members: vec![one("me", &["orders"]), one("you", &["orders", "single"])],
        ..Default::default()
    };
    world.answer(&asked, answer);
    // It did not know the other's topic before.
    let asked = world.next(ApiKey::SyncGroup);
    let given: Vec<(&str, ConsumerProtocolAssignment)> = sync_request(&asked)
        .assignments
        .iter()
        .map(|one| {
            let read = ConsumerProtocolAssignment::read_versioned(one.assignment.clone());
            (&*one.member_id, read.unwrap())
        })
        .collect();
    let of = |place: usize| {
        let topics = given[place].1.assigned_partitions.iter();
        let topics = topics.map(|topic| (topic.topic.as_str(), topic.partitions.clone()));
        (given[place].0, topics.collect::<Vec<_>>())
    };
    assert_eq!(of(0), ("me", vec![("orders", vec![0])]));
    assert_eq!(
        of(1),
        ("you", vec![("orders", vec![1]), ("single", vec![0])])
    );
    let answer = SyncGroupResponse {
        assignment: assignment(&[0]),
        ..Default::default()
    };
    world.answer(&asked, answer);
    assert_eq!(world.poll(), [Polled::Assigned(orders(&[0]))]);
    assert_eq!(world.client.membership(), Some(("me", 1)));
    committed(&mut world, 7);
    let fetched = world.next(ApiKey::Fetch);
    assert_eq!(fetched.fetch().topics[0].partitions[0].fetch_offset, 7);
}

#[test]
fn a_partition_without_a_commit_begins_as_the_policy_says() {
    let mut world = world(|_| {});
    subscribe(&mut world);
    join_and_get(&mut world, 1, &[0]);
    committed(&mut world, -1);
    let asked = world.next(ApiKey::ListOffsets);
    let RequestBody::ListOffsets(request) = &asked.request.body else {
        panic!()
    };
    assert_eq!(
        request.topics[0].partitions[0].timestamp, -2,
        "the earliest"
    );
}

#[test]
fn nothing_goes_to_others_before_the_application_is_done_and_it_is_committed() {
    let mut world = member(|_| {});
    fetch_three(&mut world, 7);
    assert_eq!(records(&world.poll()), 3);
    heartbeat(&mut world, ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(world.count(ApiKey::JoinGroup), 0);
    assert_eq!(world.poll(), [Polled::Revoked(orders(&[0]))]);
    assert_eq!(
        world.count(ApiKey::OffsetCommit),
        0,
        "it may be at work on it"
    );
    assert!(world.poll().is_empty());
    let asked = world.next(ApiKey::OffsetCommit);
    assert_eq!(what_is_committed(&asked), (4, vec![(0, 10)]));
    assert_eq!(world.count(ApiKey::JoinGroup), 0, "it is not stored yet");
    let answer = commit_answer(&asked, ErrorCode::NONE);
    world.answer(&asked, answer);
    join_and_get(&mut world, 5, &[1]);
    assert_eq!(world.poll(), [Polled::Assigned(orders(&[1]))]);
}

#[test]
fn what_the_application_commits_of_revoked_partitions_is_stored_before_they_go() {
    let mut world = member(|config| config.enable_auto_commit = false);
    fetch_three(&mut world, 7);
    assert_eq!(records(&world.poll()), 3);
    heartbeat(&mut world, ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(world.poll(), [Polled::Revoked(orders(&[0]))]);
    let id = world.command(Command::Commit {
        offsets: None,
        timeout_ms: 10_000,
    });
    world.poll();
    let asked = world.next(ApiKey::OffsetCommit);
    assert_eq!(what_is_committed(&asked), (4, vec![(0, 10)]));
    assert_eq!(world.count(ApiKey::JoinGroup), 0);
    let answer = commit_answer(&asked, ErrorCode::NONE);
    world.answer(&asked, answer);
    assert_eq!(outcome(&world, id), Some(Ok(())));
    assert_eq!(world.count(ApiKey::JoinGroup), 1);
}

#[test]
fn the_interval_commits_what_was_processed_and_only_that() {
    let mut world = member(|config| config.heartbeat_interval_ms = 60_000);
    fetch_three(&mut world, 7);
    world.advance(5_000);
    assert_eq!(world.count(ApiKey::OffsetCommit), 0);
    assert_eq!(records(&world.poll()), 3);
    world.advance(5_000);
    assert_eq!(
        world.count(ApiKey::OffsetCommit),
        0,
        "handed out is not processed"
    );
    world.poll();
    world.advance(5_000);
    let asked = world.next(ApiKey::OffsetCommit);
    assert_eq!(what_is_committed(&asked), (4, vec![(0, 10)]));
    let answer = commit_answer(&asked, ErrorCode::NONE);
    world.answer(&asked, answer);
    world.advance(20_000);
    assert_eq!(world.count(ApiKey::OffsetCommit), 0, "nothing new");
}

#[test]
fn a_fenced_member_loses_everything_and_commits_nothing_of_it() {
    for (code, id) in [
        (ErrorCode::ILLEGAL_GENERATION, "me"),
        (ErrorCode::UNKNOWN_MEMBER_ID, ""),
    ] {
        let mut world = member(|_| {});
        fetch_three(&mut world, 7);
        assert_eq!(records(&world.poll()), 3);
        world.poll();
        heartbeat(&mut world, code);
        assert_eq!(world.poll(), [Polled::Lost(orders(&[0]))]);
        world.advance(10_000);
        assert_eq!(world.count(ApiKey::OffsetCommit), 0);
        let asked = world.next(ApiKey::JoinGroup);
        assert_eq!(&*join_request(&asked).member_id, id);
    }
}

#[test]
fn a_commit_that_waits_until_its_partition_is_gone_is_never_sent() {
    let mut world = member(|_| {});
    let offset = OffsetToCommit {
        offset: Offset(9),
        leader_epoch: None,
        metadata: String::new(),
    };
    let id = world.command(Command::Commit {
        offsets: Some(vec![(partition("orders", 0), offset)]),
        timeout_ms: 60_000,
    });
    let asked = world.next(ApiKey::OffsetCommit);
    let answer = commit_answer(&asked, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    world.answer(&asked, answer);
    assert_eq!(outcome(&world, id), None, "it is tried again");
    // Before it is, the member is told off.
    world.advance(10);
    let place = world.now;
    world.now.mono = place.mono.plus_ms(3_000);
    world.input(crate::client::ClientInput::Deadline);
    let asked = world.next(ApiKey::Heartbeat);
    let again = world
        .asked
        .iter()
        .position(|asked| matches!(asked.request.body, RequestBody::OffsetCommit(_)));
    if let Some(again) = again {
        let again = world.asked.remove(again).unwrap();
        let answer = HeartbeatResponse {
            error_code: ErrorCode::ILLEGAL_GENERATION,
            ..Default::default()
        };
        world.answer(&asked, answer);
        let answer = commit_answer(&again, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
        world.answer(&again, answer);
    }
    assert_eq!(outcome(&world, id), Some(Err(ClientError::NotAssigned)));
    world.advance(20_000);
    assert_eq!(world.count(ApiKey::OffsetCommit), 0);
}

#[test]
fn a_close_commits_what_was_handed_out_and_leaves() {
    let mut world = member(|_| {});
    fetch_three(&mut world, 7);
    assert_eq!(records(&world.poll()), 3);
    world.command(Command::Close { timeout_ms: 10_000 });
    let asked = world.next(ApiKey::OffsetCommit);
    assert_eq!(what_is_committed(&asked), (4, vec![(0, 10)]));
    assert_eq!(world.count(ApiKey::LeaveGroup), 0);
    let answer = commit_answer(&asked, ErrorCode::NONE);
    world.answer(&asked, answer);
    let asked = world.next(ApiKey::LeaveGroup);
    let closed = |world: &World| {
        let is_it = |event: &ClientEvent| matches!(event, ClientEvent::Closed { .. });
        world.events.iter().any(is_it)
    };
    assert!(!closed(&world));
    world.answer(&asked, LeaveGroupResponse::default());
    assert!(closed(&world));
}

#[test]
fn a_static_member_of_a_classic_group_keeps_its_place() {
    let mut world = member(|config| config.instance_id = Some(String::from("one")));
    world.command(Command::Close { timeout_ms: 10_000 });
    assert_eq!(world.count(ApiKey::LeaveGroup), 0);
    assert!(matches!(
        world.events.last(),
        Some(ClientEvent::Closed { .. })
    ));
}

#[test]
fn a_member_whose_name_was_taken_over_says_so_and_stays_away() {
    let mut world = member(|config| config.instance_id = Some(String::from("one")));
    heartbeat(&mut world, ErrorCode::FENCED_INSTANCE_ID);
    let items = world.poll();
    assert_eq!(items[0], Polled::Lost(orders(&[0])));
    let error = ClientError::broker(ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(items[1], Polled::GroupFailed(error));
    world.advance(100_000);
    assert_eq!(world.count(ApiKey::JoinGroup), 0);
}

#[test]
fn a_cooperative_member_keeps_what_it_has_and_gives_up_what_is_taken() {
    let mut world = world(|config| config.assignors = vec![Assignor::CooperativeSticky]);
    subscribe(&mut world);
    join_and_get(&mut world, 1, &[0, 1]);
    assert_eq!(world.poll(), [Polled::Assigned(orders(&[0, 1]))]);
    committed(&mut world, 0);
    fetch_three(&mut world, 0);
    assert_eq!(records(&world.poll()), 6);
    heartbeat(&mut world, ErrorCode::REBALANCE_IN_PROGRESS);
    let asked = world
        .asked
        .iter()
        .find_map(|asked| match &asked.request.body {
            RequestBody::JoinGroup(request) => Some(request.protocols[0].metadata.clone()),
            _ => None,
        });
    let said = ConsumerProtocolSubscription::read_lenient(asked.unwrap()).unwrap();
    assert_eq!(said.owned_partitions[0].partitions, [0, 1]);
    assert_eq!(said.generation_id, 1);
    assert_eq!(world.client.assignment().count(), 2, "it goes on reading");
    join_and_get(&mut world, 2, &[0]);
    assert_eq!(world.poll(), [Polled::Revoked(orders(&[1]))]);
    assert_eq!(world.count(ApiKey::JoinGroup), 0);
    world.poll();
    let asked = world.next(ApiKey::OffsetCommit);
    assert_eq!(what_is_committed(&asked), (2, vec![(1, 3)]));
    let answer = commit_answer(&asked, ErrorCode::NONE);
    world.answer(&asked, answer);
    // So that somebody else can have it.
    assert_eq!(world.count(ApiKey::JoinGroup), 1);
    assert_eq!(world.client.assignment().count(), 1);
}

#[test]
fn who_does_not_poll_gives_its_place_up_until_it_does() {
    let mut world = member(|config| {
        config.max_poll_interval_ms = 10_000;
        config.heartbeat_interval_ms = 60_000;
    });
    world.advance(9_000);
    assert_eq!(world.count(ApiKey::LeaveGroup), 0);
    world.advance(1_500);
    assert_eq!(world.count(ApiKey::LeaveGroup), 1);
    assert_eq!(world.count(ApiKey::JoinGroup), 0);
    assert_eq!(world.poll(), [Polled::Lost(orders(&[0]))]);
    assert_eq!(world.count(ApiKey::JoinGroup), 1);
}

#[test]
fn a_coordinator_that_moved_is_looked_for_again_and_the_member_stays_one() {
    let mut world = member(|_| {});
    heartbeat(&mut world, ErrorCode::NOT_COORDINATOR);
    world.advance(200);
    assert_eq!(world.count(ApiKey::FindCoordinator), 1);
    assert_eq!(world.client.membership(), Some(("me", 4)));
}

// ---- the protocol of KIP-848 ----

fn beat(asked: &Asked) -> &ConsumerGroupHeartbeatRequest {
    match &asked.request.body {
        RequestBody::ConsumerGroupHeartbeat(request) => request,
        other => panic!("{other:?}"),
    }
}

fn told(epoch: i32, partitions: Option<&[i32]>) -> ConsumerGroupHeartbeatResponse {
    ConsumerGroupHeartbeatResponse {
        member_epoch: epoch,
        heartbeat_interval_ms: 5_000,
        assignment: partitions.map(|partitions| Assignment {
            topic_partitions: vec![TopicPartitions {
                topic_id: topic_id("orders"),
                partitions: partitions.to_vec(),
                ..Default::default()
            }],
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn owned(asked: &Asked) -> Option<Vec<i32>> {
    let topics = beat(asked).topic_partitions.as_ref()?;
    Some(
        topics
            .iter()
            .flat_map(|topic| topic.partitions.clone())
            .collect(),
    )
}

/// In a consumer group with both partitions, at offset 7, and the broker knows.
fn consumer_member() -> World {
    let mut world = world(|config| config.protocol = GroupProtocol::Consumer);
    subscribe(&mut world);
    let asked = world.next(ApiKey::ConsumerGroupHeartbeat);
    assert_eq!(
        (beat(&asked).member_epoch, owned(&asked)),
        (0, Some(vec![]))
    );
    assert_eq!(beat(&asked).member_id.len(), 36, "an id of its own");
    assert_eq!(beat(&asked).rebalance_timeout_ms, 300_000);
    world.answer(&asked, told(3, Some(&[0, 1])));
    let asked = world.next(ApiKey::ConsumerGroupHeartbeat);
    assert_eq!(
        (beat(&asked).member_epoch, owned(&asked)),
        (3, Some(vec![0, 1]))
    );
    assert_eq!(
        beat(&asked).subscribed_topic_names,
        None,
        "it has not changed"
    );
    world.answer(&asked, told(3, None));
    assert_eq!(world.poll(), [Polled::Assigned(orders(&[0, 1]))]);
    committed(&mut world, 7);
    world
}

#[test]
fn a_consumer_group_takes_partitions_only_after_they_are_given_up() {
    let mut world = consumer_member();
    fetch_three(&mut world, 7);
    assert_eq!(records(&world.poll()), 6);
    world.advance(5_000);
    let asked = world.next(ApiKey::ConsumerGroupHeartbeat);
    assert_eq!(owned(&asked), None);
    world.answer(&asked, told(3, Some(&[1])));
    assert_eq!(world.poll(), [Polled::Revoked(orders(&[0]))]);
    world.poll();
    let asked = world.next(ApiKey::OffsetCommit);
    assert_eq!(commit_request(&asked).generation_id_or_member_epoch, 3);
    // The epoch may move on meanwhile.
    let answer = commit_answer(&asked, ErrorCode::STALE_MEMBER_EPOCH);
    world.answer(&asked, answer);
    let asked = world.next(ApiKey::ConsumerGroupHeartbeat);
    assert_eq!(owned(&asked), None, "it still has it");
    world.answer(&asked, told(4, None));
    world.advance(200);
    let asked = world.next(ApiKey::OffsetCommit);
    assert_eq!(commit_request(&asked).generation_id_or_member_epoch, 4);
    let answer = commit_answer(&asked, ErrorCode::NONE);
    world.answer(&asked, answer);
    let asked = world.next(ApiKey::ConsumerGroupHeartbeat);
    assert_eq!(owned(&asked), Some(vec![1]));
}

#[test]
fn a_fenced_member_of_a_consumer_group_begins_anew() {
    let mut world = consumer_member();
    world.advance(5_000);
    let asked = world.next(ApiKey::ConsumerGroupHeartbeat);
    let answer = ConsumerGroupHeartbeatResponse {
        error_code: ErrorCode::FENCED_MEMBER_EPOCH,
        ..Default::default()
    };
    let id = beat(&asked).member_id.clone();
    world.answer(&asked, answer);
    assert_eq!(world.poll(), [Polled::Lost(orders(&[0, 1]))]);
    let asked = world.next(ApiKey::ConsumerGroupHeartbeat);
    assert_eq!(
        (beat(&asked).member_epoch, owned(&asked)),
        (0, Some(vec![]))
    );
    assert_eq!(beat(&asked).member_id, id);
}

#[test]
fn after_a_lost_answer_everything_is_said_again() {
    let mut world = consumer_member();
    world.advance(5_000);
    let asked = world.next(ApiKey::ConsumerGroupHeartbeat);
    world.disconnect(asked.connection);
    world.advance(500);
    let asked = world.next(ApiKey::FindCoordinator);
    let answer = FindCoordinatorResponse {
        coordinators: vec![Coordinator {
            key: Str::from("readers"),
            node_id: 2,
            ..Default::default()
        }],
        ..Default::default()
    };
    world.answer(&asked, answer);
    world.advance(500);
    let asked = world.next(ApiKey::ConsumerGroupHeartbeat);
    assert_eq!(
        (beat(&asked).member_epoch, owned(&asked)),
        (3, Some(vec![0, 1]))
    );
    assert!(beat(&asked).subscribed_topic_names.is_some());
}

#[test]
fn members_of_a_consumer_group_leave_for_good_or_for_a_while() {
    for (name, epoch) in [(None, -1), (Some("one"), -2)] {
        let mut world = world(|config| {
            config.protocol = GroupProtocol::Consumer;
            config.instance_id = name.map(String::from);
        });
        subscribe(&mut world);
        let asked = world.next(ApiKey::ConsumerGroupHeartbeat);
        world.answer(&asked, told(1, Some(&[])));
        let asked = world.next(ApiKey::ConsumerGroupHeartbeat);
        world.answer(&asked, told(1, None));
        world.command(Command::Close { timeout_ms: 1_000 });
        let asked = world.next(ApiKey::ConsumerGroupHeartbeat);
        assert_eq!(beat(&asked).member_epoch, epoch);
    }
}

fn topics_of(asked: &Asked) -> Vec<String> {
    let metadata = join_request(asked).protocols[0].metadata.clone();
    let said = ConsumerProtocolSubscription::read_lenient(metadata).unwrap();
    said.topics
        .iter()
        .map(|topic| String::from(&**topic))
        .collect()
}

#[test]
fn a_member_of_a_classic_group_finds_the_topics_that_its_expression_matches() {
    let mut world = world(|_| {});
    let pattern = Command::SubscribePattern(String::from("ord.*s"));
    subscribe_by(&mut world, pattern);
    let asked = world.next(ApiKey::JoinGroup);
    assert_eq!(topics_of(&asked), ["orders"], "and not `single`");
    let answer = JoinGroupResponse {
        generation_id: 4,
        protocol_name: Some(Str::from("range")),
        leader: Str::from("other"),
        member_id: Str::from("me"),
        ..Default::default()
    };
    world.answer(&asked, answer);
    let asked = world.next(ApiKey::SyncGroup);
    let answer = SyncGroupResponse {
        assignment: assignment(&[0]),
        ..Default::default()
    };
    world.answer(&asked, answer);
    assert_eq!(world.poll(), [Polled::Assigned(orders(&[0]))]);
    committed(&mut world, 7);
}

#[test]
fn a_member_of_a_consumer_group_leaves_its_expression_to_the_broker() {
    let mut world = world(|config| config.protocol = GroupProtocol::Consumer);
    let pattern = Command::SubscribePattern(String::from("ord.*s"));
    subscribe_by(&mut world, pattern);
    let asked = world.next(ApiKey::ConsumerGroupHeartbeat);
    assert_eq!(
        beat(&asked).subscribed_topic_regex,
        Some(Str::from("ord.*s"))
    );
    assert_eq!(beat(&asked).subscribed_topic_names, Some(vec![]));
    world.answer(&asked, told(3, Some(&[0, 1])));
    let asked = world.next(ApiKey::ConsumerGroupHeartbeat);
    assert_eq!(owned(&asked), Some(vec![0, 1]));
    world.answer(&asked, told(3, None));
    assert_eq!(world.poll(), [Polled::Assigned(orders(&[0, 1]))]);
    committed(&mut world, 7);
    // Names instead: the expression is taken back.
    world.command(Command::Subscribe(vec![TopicName::from("single")]));
    let asked = world.next(ApiKey::ConsumerGroupHeartbeat);
    assert_eq!(beat(&asked).subscribed_topic_regex, Some(Str::from("")));
    let names = beat(&asked).subscribed_topic_names.clone();
    assert_eq!(names, Some(vec![Str::from("single")]));
}

#[test]
fn an_expression_that_is_none_is_told() {
    let mut world = world(|_| {});
    world.command(Command::SubscribePattern(String::from("(")));
    let error = ClientError::broker(ErrorCode::INVALID_REGULAR_EXPRESSION);
    assert_eq!(world.poll(), [Polled::GroupFailed(error)]);
}
