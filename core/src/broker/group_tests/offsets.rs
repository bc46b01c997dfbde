//! Committed offsets: durable, fenced, deleted and expired.

use super::*;

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
