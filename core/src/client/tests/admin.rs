//! Requests of the application's own.

use super::world::{World, partition};
use crate::client::{
    AdminRequest, AdminTarget, ClientError, ClientEvent, Command, CommandId, Timeout,
};
use crate::ids::NodeId;
use crate::wire::messages::{
    CreateTopicsRequest, CreateTopicsResponse, DeleteRecordsRequest, DescribeClusterRequest,
    DescribeClusterResponse,
};
use crate::wire::{ApiKey, RequestBody, ResponseBody};
use alloc::boxed::Box;

fn ask(world: &mut World, to: AdminTarget, body: impl Into<RequestBody>) -> CommandId {
    world.command(Command::Admin(Box::new(AdminRequest {
        to,
        body: body.into(),
        timeout_ms: 5_000,
    })))
}

fn answer_to(world: &World, id: CommandId) -> Option<Result<ResponseBody, ClientError>> {
    world.events.iter().find_map(|event| match event {
        ClientEvent::Answered { id: of, result } if *of == id => {
            Some(result.clone().map(|body| *body))
        }
        _ => None,
    })
}

#[test]
fn a_request_goes_to_whom_it_is_for() {
    let mut world = World::new(|_| {});
    ask(
        &mut world,
        AdminTarget::Any,
        DescribeClusterRequest::default(),
    );
    let asked = world.next(ApiKey::DescribeCluster);
    assert_eq!(world.connections[&asked.connection].host, "bootstrap");
    world.answer(&asked, DescribeClusterResponse::default());

    ask(
        &mut world,
        AdminTarget::Broker(NodeId(2)),
        DescribeClusterRequest::default(),
    );
    let asked = world.next(ApiKey::DescribeCluster);
    assert_eq!(world.connections[&asked.connection].host, "broker2");
    world.answer(&asked, DescribeClusterResponse::default());

    world.topics.insert("elsewhere", std::vec![2]);
    ask(
        &mut world,
        AdminTarget::Leader(partition("elsewhere", 0)),
        DeleteRecordsRequest::default(),
    );
    let asked = world.next(ApiKey::DeleteRecords);
    assert_eq!(world.connections[&asked.connection].host, "broker2");

    let id = ask(
        &mut world,
        AdminTarget::Controller,
        CreateTopicsRequest::default(),
    );
    let asked = world.next(ApiKey::CreateTopics);
    assert_eq!(world.connections[&asked.connection].host, "broker1");
    let response = CreateTopicsResponse {
        throttle_time_ms: 7,
        ..Default::default()
    };
    world.answer(&asked, response.clone());
    assert_eq!(answer_to(&world, id), Some(Ok(response.into())));
}

#[test]
fn a_request_waits_for_a_connection_but_is_sent_once() {
    let mut world = World::new(|_| {});
    world.reachable = false;
    let id = ask(
        &mut world,
        AdminTarget::Controller,
        CreateTopicsRequest::default(),
    );
    world.advance(2_000);
    assert_eq!(answer_to(&world, id), None);
    world.reachable = true;
    world.advance(1_500);
    let asked = world.next(ApiKey::CreateTopics);
    world.disconnect(asked.connection);
    assert_eq!(
        answer_to(&world, id),
        Some(Err(ClientError::Disconnected)),
        "whether a topic was made is not for the client to guess"
    );
    world.advance(5_000);
    assert_eq!(world.count(ApiKey::CreateTopics), 0);
}

#[test]
fn a_request_ends_when_its_time_is_over() {
    let mut world = World::new(|_| {});
    let sent = ask(
        &mut world,
        AdminTarget::Any,
        DescribeClusterRequest::default(),
    );
    let unsent = ask(
        &mut world,
        AdminTarget::Leader(partition("nowhere", 0)),
        DeleteRecordsRequest::default(),
    );
    world.advance(4_999);
    assert_eq!(answer_to(&world, sent), None);
    world.advance(1);
    for id in [sent, unsent] {
        assert!(matches!(
            answer_to(&world, id),
            Some(Err(ClientError::TimedOut {
                what: Timeout::Request,
                ..
            }))
        ));
    }
}

#[test]
fn a_broker_that_does_not_exist_is_an_error() {
    let mut world = World::new(|_| {});
    let id = ask(
        &mut world,
        AdminTarget::Broker(NodeId(9)),
        DescribeClusterRequest::default(),
    );
    assert_eq!(
        answer_to(&world, id),
        Some(Err(ClientError::UnknownBroker(NodeId(9))))
    );
}

#[test]
fn an_api_that_the_broker_lacks_is_an_error() {
    let mut world = World::new(|_| {});
    world.max_version = 1;
    let id = ask(&mut world, AdminTarget::Any, CreateTopicsRequest::default());
    assert_eq!(
        answer_to(&world, id),
        Some(Err(ClientError::UnsupportedVersion {
            api: ApiKey::CreateTopics
        }))
    );
}
