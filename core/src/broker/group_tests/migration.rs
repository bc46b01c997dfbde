//! A group moves from one protocol to the other with its members in it (KIP-848).

use super::*;
use crate::group::config::MigrationPolicy;
use crate::wire::Versioned;
use crate::wire::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition,
};
use crate::wire::messages::consumer_group_heartbeat::TopicPartitions;

const TOPIC: &str = "letters";

/// What a classic member says of itself: it reads `letters`, and owns these of its partitions.
fn says(owned: &[i32]) -> Bytes {
    let owned = TopicPartition {
        topic: TOPIC.into(),
        partitions: owned.to_vec(),
        ..Default::default()
    };
    let subscription = ConsumerProtocolSubscription {
        topics: vec![TOPIC.into()],
        owned_partitions: vec![owned],
        ..Default::default()
    };
    subscription.to_versioned(1)
}

fn join_as(member_id: &str, protocols: &[&str], owned: &[i32]) -> JoinGroupRequest {
    let protocols = protocols.iter().map(|name| JoinGroupRequestProtocol {
        name: (*name).into(),
        metadata: says(owned),
        ..Default::default()
    });
    JoinGroupRequest {
        protocols: protocols.collect(),
        ..join_request(member_id)
    }
}

/// A member joins a group in which nobody has to be waited for. Returns its id and generation.
fn join(
    host: &mut Harness,
    client: ConnectionId,
    member_id: &str,
    owned: &[i32],
) -> Result<(String, i32), ErrorCode> {
    host.send(client, 3, &join_as(member_id, &["range"], owned));
    host.advance(1);
    let reply = joined(host, client).expect("the answer is there");
    if reply.error_code.is_error() {
        return Err(reply.error_code);
    }
    Ok((reply.member_id.to_string(), reply.generation_id))
}

/// What SyncGroup answers: partitions of `letters`.
fn sync_as(
    host: &mut Harness,
    client: ConnectionId,
    member_id: &str,
    generation_id: i32,
    assignments: &[(&str, &[i32])],
) -> Result<Vec<i32>, ErrorCode> {
    let assignments = assignments.iter().map(|(id, partitions)| {
        let assigned = TopicPartition {
            topic: TOPIC.into(),
            partitions: partitions.to_vec(),
            ..Default::default()
        };
        let assignment = ConsumerProtocolAssignment {
            assigned_partitions: vec![assigned],
            ..Default::default()
        };
        SyncGroupRequestAssignment {
            member_id: (*id).into(),
            assignment: assignment.to_versioned(1),
            ..Default::default()
        }
    });
    let request = SyncGroupRequest {
        group_id: "readers".into(),
        generation_id,
        member_id: member_id.into(),
        assignments: assignments.collect(),
        ..Default::default()
    };
    let ResponseBody::SyncGroup(response) = host.ask(client, 3, &request) else {
        panic!("an answer of another kind");
    };
    if response.error_code.is_error() {
        return Err(response.error_code);
    }
    let assignment = ConsumerProtocolAssignment::read_versioned(response.assignment).unwrap();
    let assigned = assignment.assigned_partitions.into_iter();
    Ok(assigned.flat_map(|topic| topic.partitions).collect())
}

/// A consumer of the other protocol that reads `letters`.
fn beat_letters(
    host: &mut Harness,
    client: ConnectionId,
    member_id: &str,
    epoch: i32,
    owned: Option<&[i32]>,
) -> ConsumerGroupHeartbeatResponse {
    let topic_id = host.metadata(client, TOPIC).topics[0].topic_id;
    let owned = owned.map(|partitions| {
        let owned = TopicPartitions {
            topic_id,
            partitions: partitions.to_vec(),
            ..Default::default()
        };
        vec![owned]
            .into_iter()
            .filter(|owned| !owned.partitions.is_empty())
    });
    let request = ConsumerGroupHeartbeatRequest {
        subscribed_topic_names: (epoch == 0).then(|| vec![TOPIC.into()]),
        topic_partitions: owned.map(Iterator::collect),
        rebalance_timeout_ms: if epoch == 0 { 60_000 } else { -1 },
        ..consumer_beat(member_id, epoch)
    };
    match host.ask(client, 1, &request) {
        ResponseBody::ConsumerGroupHeartbeat(response) => response,
        other => panic!("{other:?}"),
    }
}

fn owned_of(reply: &ConsumerGroupHeartbeatResponse) -> Vec<i32> {
    assert_eq!(reply.error_code, ErrorCode::NONE, "{reply:?}");
    let assignment = reply.assignment.as_ref().expect("an assignment is told");
    let topics = assignment.topic_partitions.iter();
    topics.flat_map(|topic| topic.partitions.clone()).collect()
}

fn state(host: &mut Harness, client: ConnectionId) -> String {
    let request = ListGroupsRequest::default();
    match host.ask(client, 5, &request) {
        ResponseBody::ListGroups(response) => {
            let group = &response.groups[0];
            alloc::format!("{} {}", group.group_type, group.group_state)
        }
        other => panic!("{other:?}"),
    }
}

fn config_with(policy: MigrationPolicy) -> BrokerConfig {
    let config = config();
    BrokerConfig {
        groups: GroupConfig {
            migration_policy: policy,
            ..config.groups
        },
        ..config
    }
}

/// A classic group of one member, which reads all four partitions in generation 1.
fn classic_reader(policy: MigrationPolicy) -> (Harness, ConnectionId, String) {
    let mut host = Harness::start(config_with(policy));
    let client = host.connect();
    assert_eq!(find(&mut host, client, 0), ErrorCode::NONE);
    let topic = CreatableTopic {
        name: TOPIC.into(),
        num_partitions: 4,
        replication_factor: 1,
        ..Default::default()
    };
    let request = CreateTopicsRequest {
        topics: vec![topic],
        ..Default::default()
    };
    host.ask(client, 7, &request);
    host.create_topic(client, "orders");
    let (id, generation) = join(&mut host, client, "", &[]).unwrap();
    assert_eq!(generation, 1);
    let mine = sync_as(&mut host, client, &id, 1, &[(&id, &[0, 1, 2, 3])]);
    assert_eq!(mine, Ok(vec![0, 1, 2, 3]));
    (host, client, id)
}

/// The same, and a member of the other protocol that has got its half. Returns the classic member's
/// id and generation.
fn mixed() -> (Harness, ConnectionId, String, i32) {
    let (mut host, client, id) = classic_reader(MigrationPolicy::Bidirectional);
    assert_eq!(commit(&mut host, client, &id, 1, 42), ErrorCode::NONE);
    let reply = beat_letters(&mut host, client, "modern", 0, Some(&[]));
    assert_eq!(reply.member_epoch, 2);
    assert_eq!(owned_of(&reply), [] as [i32; 0], "nothing is free yet");
    assert_eq!(state(&mut host, client), "consumer Reconciling");

    // The classic member is to give half of it up: it joins, hears what it keeps, and joins again
    // without the rest.
    let told = heartbeat(&mut host, client, &id, 1);
    assert_eq!(told, ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(
        commit(&mut host, client, &id, 1, 43),
        ErrorCode::NONE,
        "what it read until now"
    );
    let rejoined = join(&mut host, client, &id, &[0, 1, 2, 3]);
    assert_eq!(rejoined, Ok((id.clone(), 1)), "the epoch is the old one");
    let kept = sync_as(&mut host, client, &id, 1, &[]).unwrap();
    assert_eq!(kept.len(), 2);
    let told = heartbeat(&mut host, client, &id, 1);
    assert_eq!(told, ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(join(&mut host, client, &id, &kept), Ok((id.clone(), 2)));
    assert_eq!(sync_as(&mut host, client, &id, 2, &[]), Ok(kept.clone()));
    assert_eq!(heartbeat(&mut host, client, &id, 2), ErrorCode::NONE);

    let reply = beat_letters(&mut host, client, "modern", 2, Some(&[]));
    let mut all = owned_of(&reply);
    assert_eq!(all.len(), 2);
    all.extend(kept);
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3], "each partition has one owner");
    assert_eq!(state(&mut host, client), "consumer Stable");
    (host, client, id, 2)
}

#[test]
fn a_classic_group_becomes_a_consumer_group_with_its_members() {
    let (mut host, client, id, generation) = mixed();
    assert_eq!(offset(&mut host, client), Ok(43), "offsets stay");
    let behind = commit(&mut host, client, &id, generation - 1, 99);
    assert_eq!(behind, ErrorCode::ILLEGAL_GENERATION);
    let named = commit(&mut host, client, &id, generation, 44);
    assert_eq!(named, ErrorCode::NONE);
    let stranger = commit(&mut host, client, "stranger", generation, 99);
    assert_eq!(stranger, ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(offset(&mut host, client), Ok(44));

    let request = ConsumerGroupDescribeRequest {
        group_ids: vec!["readers".into()],
        ..Default::default()
    };
    let ResponseBody::ConsumerGroupDescribe(response) = host.ask(client, 1, &request) else {
        panic!("an answer of another kind");
    };
    let mut kinds: Vec<(bool, i8)> = response.groups[0]
        .members
        .iter()
        .map(|member| (&*member.member_id == "modern", member.member_type))
        .collect();
    kinds.sort_unstable();
    assert_eq!(kinds, [(false, 0), (true, 1)]);
}

#[test]
fn a_mixed_group_is_the_same_after_a_crash() {
    let (host, _, id, generation) = mixed();
    let (mut host, client) = restarted(host);
    assert_eq!(state(&mut host, client), "consumer Stable");
    assert_eq!(
        heartbeat(&mut host, client, &id, generation),
        ErrorCode::NONE
    );
    let mine = sync_as(&mut host, client, &id, generation, &[]).unwrap();
    assert_eq!(mine.len(), 2);
    let reply = beat_letters(&mut host, client, "modern", generation, None);
    assert_eq!(reply.error_code, ErrorCode::NONE);
    // Its session is its own: the 10 s it asked for, not the 45 s of the other protocol.
    host.advance(10_001);
    let told = heartbeat(&mut host, client, &id, generation);
    assert_eq!(told, ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(state(&mut host, client), "consumer Assigning");
}

#[test]
fn the_last_consumer_leaves_and_the_group_is_classic_again() {
    let (mut host, client, id, generation) = mixed();
    let reply = beat_letters(&mut host, client, "modern", -1, None);
    assert_eq!(reply.error_code, ErrorCode::NONE);
    assert_eq!(state(&mut host, client), "classic PreparingRebalance");
    let told = heartbeat(&mut host, client, &id, generation);
    assert_eq!(told, ErrorCode::REBALANCE_IN_PROGRESS, "it is not fenced");
    let committed = commit(&mut host, client, &id, generation, 50);
    assert_eq!(committed, ErrorCode::NONE);
    let rejoined = join(&mut host, client, &id, &[]);
    assert_eq!(rejoined, Ok((id.clone(), generation + 1)));
    let mine = sync_as(
        &mut host,
        client,
        &id,
        generation + 1,
        &[(&id, &[0, 1, 2, 3])],
    );
    assert_eq!(mine, Ok(vec![0, 1, 2, 3]));
    assert_eq!(offset(&mut host, client), Ok(50));

    let (mut host, client) = restarted(host);
    assert_eq!(state(&mut host, client), "classic Stable");
    assert_eq!(offset(&mut host, client), Ok(50));
    let told = heartbeat(&mut host, client, &id, generation + 1);
    assert_eq!(told, ErrorCode::NONE);
}

#[test]
fn a_group_that_changed_its_protocol_before_a_crash_goes_on_with_the_rebalance() {
    let (mut host, client, id, generation) = mixed();
    beat_letters(&mut host, client, "modern", -1, None);
    let (mut host, client) = restarted(host);
    assert_eq!(state(&mut host, client), "classic PreparingRebalance");
    let told = heartbeat(&mut host, client, &id, generation);
    assert_eq!(told, ErrorCode::REBALANCE_IN_PROGRESS);
    let rejoined = join(&mut host, client, &id, &[]);
    assert_eq!(rejoined, Ok((id.clone(), generation + 1)));
}

#[test]
fn the_last_consumer_falls_silent_and_the_group_is_classic_again() {
    let (mut host, client, id, generation) = mixed();
    for _ in 0..9 {
        host.advance(5_001);
        let told = heartbeat(&mut host, client, &id, generation);
        assert!(
            matches!(told, ErrorCode::NONE | ErrorCode::REBALANCE_IN_PROGRESS),
            "{told:?}"
        );
    }
    assert_eq!(state(&mut host, client), "classic PreparingRebalance");
}

#[test]
fn the_policy_keeps_members_of_the_other_protocol_out() {
    for policy in [MigrationPolicy::Disabled, MigrationPolicy::Downgrade] {
        let (mut host, client, id) = classic_reader(policy);
        let reply = beat_letters(&mut host, client, "modern", 0, Some(&[]));
        assert_eq!(reply.error_code, ErrorCode::GROUP_ID_NOT_FOUND);
        let words = reply.error_message.unwrap();
        assert!(words.contains("online upgrade is disabled"), "{words}");
        assert_eq!(heartbeat(&mut host, client, &id, 1), ErrorCode::NONE);
        assert_eq!(state(&mut host, client), "classic Stable");
    }
}

#[test]
fn without_downgrades_a_group_of_classic_members_stays_a_consumer_group() {
    let (mut host, client, id) = classic_reader(MigrationPolicy::Upgrade);
    beat_letters(&mut host, client, "modern", 0, Some(&[]));
    beat_letters(&mut host, client, "modern", -1, None);
    assert_eq!(state(&mut host, client), "consumer Assigning");
    let told = heartbeat(&mut host, client, &id, 1);
    assert_eq!(told, ErrorCode::REBALANCE_IN_PROGRESS);
    let (_, generation) = join(&mut host, client, &id, &[]).unwrap();
    let mine = sync_as(&mut host, client, &id, generation, &[]);
    assert_eq!(mine, Ok(vec![0, 1, 2, 3]));
    assert_eq!(state(&mut host, client), "consumer Stable");
}

#[test]
fn a_group_that_speaks_in_another_way_stays_classic() {
    let (mut host, client) = started();
    // The assignment of this one is not what consumers say.
    let id = stable(&mut host, client);
    let reply = beat(&mut host, client, "modern", 0).error_code;
    assert_eq!(reply, ErrorCode::GROUP_ID_NOT_FOUND);
    assert_eq!(heartbeat(&mut host, client, &id, 1), ErrorCode::NONE);
    let request = ConsumerGroupHeartbeatRequest {
        subscribed_topic_names: None,
        subscribed_topic_regex: Some("(".into()),
        ..consumer_beat("modern", 0)
    };
    let (mut host, client, id) = classic_reader(MigrationPolicy::Bidirectional);
    match host.ask(client, 1, &request) {
        ResponseBody::ConsumerGroupHeartbeat(response) => {
            assert_eq!(response.error_code, ErrorCode::INVALID_REGULAR_EXPRESSION);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(state(&mut host, client), "classic Stable");
    assert_eq!(heartbeat(&mut host, client, &id, 1), ErrorCode::NONE);
}

#[test]
fn classic_members_join_a_consumer_group_if_they_understand_each_other() {
    let (mut host, client, id, generation) = mixed();
    host.send(client, 3, &join_as("", &["roundrobin"], &[]));
    let reply = joined(&mut host, client).unwrap();
    assert_eq!(reply.error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    let mut other = join_as("", &["range"], &[]);
    other.protocol_type = "connect".into();
    host.send(client, 3, &other);
    let reply = joined(&mut host, client).unwrap();
    assert_eq!(reply.error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    host.send(client, 4, &join_as("", &["range"], &[]));
    let reply = joined(&mut host, client).unwrap();
    assert_eq!(reply.error_code, ErrorCode::MEMBER_ID_REQUIRED);
    let second = reply.member_id.to_string();
    let (_, epoch) = join(&mut host, client, &second, &[]).unwrap();
    assert_eq!(epoch, generation + 1);
    let told = heartbeat(&mut host, client, &id, generation);
    assert_eq!(told, ErrorCode::REBALANCE_IN_PROGRESS);
    // It joined and never asks for its assignment: that is over after its rebalance timeout.
    host.advance(59_000);
    let told = heartbeat(&mut host, client, &second, epoch);
    assert_eq!(told, ErrorCode::UNKNOWN_MEMBER_ID, "its session is shorter");
}

#[test]
fn who_does_not_join_or_sync_in_time_is_fenced_however_alive() {
    let (mut host, client, id, generation) = mixed();
    let (second, epoch) = join(&mut host, client, "", &[]).unwrap();
    let (mut at, mut owned) = (generation, Vec::new());
    for _ in 0..13 {
        host.advance(5_000);
        heartbeat(&mut host, client, &id, generation);
        heartbeat(&mut host, client, &second, epoch);
        let reply = beat_letters(&mut host, client, "modern", at, Some(&owned));
        if reply.assignment.is_some() {
            owned = owned_of(&reply);
        }
        at = reply.member_epoch;
    }
    let told = heartbeat(&mut host, client, &id, generation);
    assert_eq!(told, ErrorCode::UNKNOWN_MEMBER_ID, "it did not join again");
    let told = heartbeat(&mut host, client, &second, epoch);
    assert_eq!(told, ErrorCode::UNKNOWN_MEMBER_ID, "it did not sync");
}

#[test]
fn a_static_member_moves_between_the_protocols_and_keeps_its_partitions() {
    let (mut host, client, _, _) = mixed();
    let mut request = join_as("", &["range"], &[]);
    request.group_instance_id = Some("rack-7".into());
    host.send(client, 5, &request);
    let reply = joined(&mut host, client).unwrap();
    assert_eq!(reply.error_code, ErrorCode::NONE);
    let old = reply.member_id.to_string();
    // The same instance comes back under the other protocol; its old self is fenced.
    let request = ConsumerGroupHeartbeatRequest {
        instance_id: Some("rack-7".into()),
        ..consumer_beat("anew", 0)
    };
    host.send(client, 1, &request);
    let reply = beaten(&mut host, client).unwrap();
    assert_eq!(reply.error_code, ErrorCode::NONE);
    let request = HeartbeatRequest {
        group_id: "readers".into(),
        generation_id: 3,
        member_id: old.as_str().into(),
        group_instance_id: Some("rack-7".into()),
        ..Default::default()
    };
    match host.ask(client, 3, &request) {
        ResponseBody::Heartbeat(response) => {
            assert_eq!(response.error_code, ErrorCode::FENCED_INSTANCE_ID);
        }
        other => panic!("{other:?}"),
    }
    // And back again.
    let mut request = join_as("", &["range"], &[]);
    request.group_instance_id = Some("rack-7".into());
    host.send(client, 5, &request);
    let reply = joined(&mut host, client).unwrap();
    assert_eq!(reply.error_code, ErrorCode::NONE);
    assert_eq!(
        beat(&mut host, client, "anew", 3).error_code,
        ErrorCode::UNKNOWN_MEMBER_ID
    );
}

#[test]
fn classic_members_leave_a_consumer_group() {
    let (mut host, client, id, _) = mixed();
    let leave = |member_id: &str| LeaveGroupRequest {
        group_id: "readers".into(),
        members: vec![MemberIdentity {
            member_id: member_id.into(),
            ..Default::default()
        }],
        ..Default::default()
    };
    for (member_id, expected) in [
        ("modern", ErrorCode::UNKNOWN_MEMBER_ID),
        (id.as_str(), ErrorCode::NONE),
        (id.as_str(), ErrorCode::UNKNOWN_MEMBER_ID),
    ] {
        match host.ask(client, 4, &leave(member_id)) {
            ResponseBody::LeaveGroup(response) => {
                assert_eq!(response.members[0].error_code, expected, "{member_id}");
            }
            other => panic!("{other:?}"),
        }
    }
    let reply = beat_letters(&mut host, client, "modern", 2, None);
    assert_eq!(owned_of(&reply).len(), 4);
}
