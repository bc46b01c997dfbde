//! Connections, the handshake, metadata.

use alloc::boxed::Box;
use std::format;
use std::vec;
use std::vec::Vec;

use super::world::{World, joined, partition};
use crate::client::{
    AdminRequest, AdminTarget, ClientError, ClientEvent, ClientInput, Command, Outcome, StartAt,
};
use crate::ids::{NodeId, Offset};
use crate::wire::frame::encode_response;
use crate::wire::messages::api_versions::ApiVersion;
use crate::wire::messages::{ApiVersionsResponse, DescribeClusterRequest};
use crate::wire::{ApiKey, ErrorCode};

#[test]
fn nothing_is_connected_to_before_it_is_needed() {
    let mut world = World::new(|_| {});
    world.advance(10_000);
    assert!(world.script.is_empty());
    assert_eq!(world.client.next_deadline(), None);
}

#[test]
fn a_record_finds_its_leader() {
    let mut world = World::new(|_| {});
    world.produce("orders", 0, "a");
    let script: Vec<_> = world.script.iter().map(|line| &**line).collect();
    assert_eq!(
        script[0], "connect c1 to bootstrap:9092",
        "first it asks who leads"
    );
    assert!(script.contains(&"connect c2 to broker1:9092"), "{script:?}");
    let asked = world.next(ApiKey::Produce);
    assert_eq!(asked.connection.0, 2);
    assert_eq!(asked.request.header.client_id.as_deref(), Some("odradek"));
}

#[test]
fn the_highest_common_version_is_used_and_old_brokers_get_names_instead_of_ids() {
    let mut world = World::new(|_| {});
    world.produce("orders", 0, "a");
    let asked = world.next(ApiKey::Produce);
    assert_eq!(asked.request.header.api_version, 13);
    assert!(asked.produce().topic_data[0].name.is_empty());

    let mut world = World::new(|_| {});
    world.max_record_version = 9;
    world.produce("orders", 0, "a");
    let asked = world.next(ApiKey::Produce);
    assert_eq!(asked.request.header.api_version, 9);
    assert_eq!(asked.produce().topic_data[0].name, "orders");

    // A broker whose Metadata has no topic ids cannot be sent any.
    let mut world = World::new(|_| {});
    world.max_version = 9;
    world.produce("orders", 0, "a");
    let asked = world.next(ApiKey::Produce);
    assert_eq!(asked.request.header.api_version, 12);
}

#[test]
fn a_broker_that_does_not_know_the_version_of_api_versions_is_asked_in_an_older_one() {
    for (listed, then) in [(Some(2), 2), (None, 0)] {
        let mut world = World::new(|_| {});
        world.answers_itself = false;
        world.produce("orders", 0, "a");
        let asked = world.next(ApiKey::ApiVersions);
        assert_eq!(asked.request.header.api_version, 4);
        let refusal = ApiVersionsResponse {
            error_code: ErrorCode::UNSUPPORTED_VERSION,
            api_keys: listed
                .map(|max_version| ApiVersion {
                    api_key: ApiKey::ApiVersions.key(),
                    min_version: 0,
                    max_version,
                    ..Default::default()
                })
                .into_iter()
                .collect(),
            ..Default::default()
        };
        let response = encode_response(asked.request.header.correlation_id, 0, &refusal);
        world.receive(asked.connection, joined(&response));
        let asked = world.next(ApiKey::ApiVersions);
        assert_eq!(asked.request.header.api_version, then);
        let answer = world.api_versions();
        world.answer(&asked, answer);
        assert_eq!(world.count(ApiKey::Metadata), 1);
    }
}

#[test]
fn a_broker_that_refuses_every_handshake_is_left_alone_for_longer_and_longer() {
    let mut world = World::new(|_| {});
    world.answers_itself = false;
    world.produce("orders", 0, "a");
    let mut attempts = 0;
    for _ in 0..100 {
        while world.count(ApiKey::ApiVersions) > 0 {
            attempts += 1;
            let asked = world.next(ApiKey::ApiVersions);
            let refusal = ApiVersionsResponse {
                error_code: ErrorCode::CLUSTER_AUTHORIZATION_FAILED,
                ..Default::default()
            };
            world.answer(&asked, refusal);
        }
        world.advance(100);
    }
    // 50 ms doubling to 1 s, within 10 s.
    assert!((10..=20).contains(&attempts), "{attempts}");
}

#[test]
fn a_broker_that_cannot_be_reached_is_tried_again_with_growing_waits() {
    let mut world = World::new(|_| {});
    world.reachable = false;
    world.produce("orders", 0, "a");
    world.advance(10_000);
    let attempts = world
        .script
        .iter()
        .filter(|line| line.starts_with("connect "))
        .count();
    assert!((10..=20).contains(&attempts), "{attempts}");
    assert!(world.reports[0].ends_with("refused"), "{:?}", world.reports);
    world.reachable = true;
    world.advance(1_200);
    assert_eq!(world.count(ApiKey::Produce), 1, "and then it goes on");
}

#[test]
fn a_host_that_never_says_whether_it_connected_is_not_waited_for() {
    let mut world = World::new(|config| config.connection_setup_timeout_ms = 3_000);
    let mut out = crate::client::ClientEffects::new();
    let input = ClientInput::Command {
        id: crate::client::CommandId(1),
        command: Command::Produce(super::world::record("orders", "a")),
    };
    world.client.handle(world.now, input, &mut out);
    world.advance(2_999);
    assert!(world.script.is_empty());
    world.advance(1);
    assert_eq!(world.script[1], "close c1");
}

#[test]
fn an_answer_with_the_wrong_correlation_id_ends_the_connection() {
    let mut world = World::new(|_| {});
    world.produce("orders", 0, "a");
    let mut asked = world.next(ApiKey::Produce);
    asked.request.header.correlation_id += 1;
    let answer = asked.produced(Ok(0));
    world.answer(&asked, answer);
    assert!(!world.connections.contains_key(&asked.connection));
    assert!(world.outcomes().is_empty(), "the record is sent again");
    world.advance(2_000);
    let asked = world.next(ApiKey::Produce);
    let answer = asked.produced(Ok(0));
    world.answer(&asked, answer);
    assert_eq!(world.outcomes().len(), 1);
}

#[test]
fn a_request_without_an_answer_ends_its_connection() {
    let mut world = World::new(|config| config.request_timeout_ms = 5_000);
    world.produce("orders", 0, "a");
    let asked = world.next(ApiKey::Produce);
    world.advance(4_999);
    assert!(world.connections.contains_key(&asked.connection));
    world.advance(1);
    assert!(!world.connections.contains_key(&asked.connection));
    world.advance(2_000);
    assert_eq!(world.count(ApiKey::Produce), 1, "sent again elsewhere");
}

#[test]
fn an_unused_connection_is_closed_and_opened_again_when_needed() {
    let mut world = World::new(|config| {
        config.connections_max_idle_ms = 60_000;
        config.metadata_max_age_ms = 3_600_000;
    });
    world.produce("orders", 0, "a");
    let asked = world.next(ApiKey::Produce);
    let answer = asked.produced(Ok(0));
    world.answer(&asked, answer);
    world.advance(61_000);
    assert!(world.connections.is_empty());
    assert!(world.reports.is_empty(), "nothing failed");
    world.produce("orders", 0, "b");
    assert_eq!(world.count(ApiKey::Produce), 1);
}

#[test]
fn metadata_is_asked_for_again_when_it_is_old() {
    let mut world = World::new(|config| config.metadata_max_age_ms = 30_000);
    world.produce("orders", 0, "a");
    assert_eq!(world.metadata_requests, 1);
    let asked = world.next(ApiKey::Produce);
    let answer = asked.produced(Ok(0));
    world.answer(&asked, answer);
    world.advance(29_000);
    assert_eq!(world.metadata_requests, 1);
    world.advance(2_000);
    assert_eq!(world.metadata_requests, 2);
}

#[test]
fn nobody_is_woken_for_old_metadata_that_cannot_be_asked_for_yet() {
    let mut world = World::new(|config| {
        config.metadata_max_age_ms = 400;
        config.retry_backoff_max_ms = 1_000;
        config.producer.max_block_ms = 60_000;
    });
    world.produce("unknown", 0, "a");
    for _ in 0..10_000 {
        world.advance(1);
        let due = world.client.next_deadline();
        assert!(due > Some(world.now.mono), "at {}: {due:?}", world.now.mono);
    }
    assert!(
        world.metadata_requests > 5,
        "it is asked for again and again"
    );
}

#[test]
fn an_older_leader_epoch_is_not_believed() {
    let mut world = World::new(|_| {});
    world.produce("orders", 0, "a");
    let asked = world.next(ApiKey::Produce);
    // A broker that lags behind says that 2 leads, as of an earlier epoch.
    world.epoch = 2;
    world.topics.insert("orders", vec![2, 2]);
    let answer = asked.produced(Err(ErrorCode::NOT_LEADER_OR_FOLLOWER));
    world.answer(&asked, answer);
    world.advance(300);
    let asked = world.next(ApiKey::Produce);
    assert_eq!(world.connections[&asked.connection].host, "broker1");
    // The new epoch is.
    world.epoch = 4;
    let answer = asked.produced(Err(ErrorCode::NOT_LEADER_OR_FOLLOWER));
    world.answer(&asked, answer);
    world.advance(1_000);
    let asked = world.next(ApiKey::Produce);
    assert_eq!(world.connections[&asked.connection].host, "broker2");
}

#[test]
fn a_partition_that_moves_is_found_at_its_new_leader() {
    let mut world = World::new(|_| {});
    world.produce("orders", 0, "a");
    let asked = world.next(ApiKey::Produce);
    world.topics.insert("orders", vec![2, 2]);
    world.epoch = 5;
    world.disconnect(asked.connection);
    world.advance(1_000);
    let mut asked = world.next(ApiKey::Produce);
    // The retry may have been quicker than the news.
    if world.connections[&asked.connection].host == "broker1" {
        let answer = asked.produced(Err(ErrorCode::NOT_LEADER_OR_FOLLOWER));
        world.answer(&asked, answer);
        world.advance(1_000);
        asked = world.next(ApiKey::Produce);
    }
    assert_eq!(world.connections[&asked.connection].host, "broker2");
}

#[test]
fn a_fetch_that_waits_does_not_hold_up_a_record() {
    let mut world = World::new(|_| {});
    let start = StartAt::Offset(Offset(0));
    world.command(Command::Assign(vec![(partition("orders", 0), start)]));
    let fetch = world.next(ApiKey::Fetch);
    world.produce("orders", 0, "a");
    let produce = world.next(ApiKey::Produce);
    assert_ne!(fetch.connection, produce.connection);
}

#[test]
fn after_a_close_nothing_is_left() {
    let mut world = World::new(|_| {});
    let record = world.produce("orders", 0, "a");
    let start = StartAt::Offset(Offset(0));
    world.command(Command::Assign(vec![(partition("orders", 0), start)]));
    let poll = world.command(Command::Poll {
        max_records: 1,
        max_bytes: 1,
        max_wait_ms: 100_000,
    });
    let admin = world.command(Command::Admin(Box::new(AdminRequest {
        to: AdminTarget::Broker(NodeId(1)),
        body: DescribeClusterRequest::default().into(),
        timeout_ms: 100_000,
    })));
    let close = world.command(Command::Close { timeout_ms: 5_000 });
    assert!(world.outcome(record).is_none(), "it waits for the record");
    let asked = world.next(ApiKey::Produce);
    let answer = asked.produced(Ok(4));
    world.answer(&asked, answer);
    let events: Vec<_> = world
        .events
        .iter()
        .map(|event| format!("{event}"))
        .collect();
    assert_eq!(
        events,
        [
            format!("polled {poll}"),
            format!("delivery {record} ok at 4 of partition 0"),
            format!("answered {admin} the client is closed"),
            format!("closed {close}"),
        ]
    );
    assert!(world.connections.is_empty());
    assert_eq!(world.client.next_deadline(), None);
    let late = world.produce("orders", 0, "b");
    assert_eq!(
        world.outcome(late),
        Some(Outcome::Failed(ClientError::Closed))
    );
}

#[test]
fn a_close_does_not_wait_for_ever() {
    let mut world = World::new(|_| {});
    let sent = world.produce("orders", 0, "a");
    let queued = world.produce("orders", 0, "b");
    let unplaced = world.produce("nowhere", 0, "c");
    world.command(Command::Close { timeout_ms: 5_000 });
    world.advance(4_999);
    assert!(world.outcomes().is_empty());
    world.advance(1);
    assert!(matches!(world.outcome(sent), Some(Outcome::Unknown(_))));
    assert!(matches!(world.outcome(queued), Some(Outcome::Failed(_))));
    assert!(matches!(world.outcome(unplaced), Some(Outcome::Failed(_))));
    assert!(matches!(
        world.events.last(),
        Some(ClientEvent::Closed { .. })
    ));
}
