//! A client that asks for what must be refused, and holds the broker to the code that Kafka answers.

use bytes::Bytes;
use odradek_core::ids::{ConnectionId, TopicId};
use odradek_core::wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
use odradek_core::wire::messages::create_topics::{CreatableTopic, CreateTopicsRequest};
use odradek_core::wire::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use odradek_core::wire::messages::describe_cluster::DescribeClusterRequest;
use odradek_core::wire::messages::describe_groups::DescribeGroupsRequest;
use odradek_core::wire::messages::describe_topic_partitions::{
    DescribeTopicPartitionsRequest, TopicRequest,
};
use odradek_core::wire::messages::heartbeat::HeartbeatRequest;
use odradek_core::wire::messages::init_producer_id::InitProducerIdRequest;
use odradek_core::wire::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};
use odradek_core::wire::messages::leave_group::LeaveGroupRequest;
use odradek_core::wire::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use odradek_core::wire::messages::sync_group::SyncGroupRequest;
use odradek_core::wire::{ApiKey, ErrorCode, RequestBody, ResponseBody};

use super::session::Session;
use super::{Client, ClientContext};
use crate::clock::MILLISECOND;

/// Asks, one request after another.
#[derive(Debug, Default)]
pub struct Refused {
    session: Session,
    finishing: bool,
}

/// What a broker may answer to anything while it cannot do better.
const PASSING: &[ErrorCode] = &[
    ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode::COORDINATOR_NOT_AVAILABLE,
    ErrorCode::KAFKA_STORAGE_ERROR,
    ErrorCode::LEADER_NOT_AVAILABLE,
];

/// How many wrong questions there are.
const QUESTIONS: u64 = 15;

/// A topic that no broker has.
const NOBODYS: TopicId = TopicId([0xab; 16]);

/// A wrong question: the lowest version that can ask it, and the code it must get.
fn question(number: u64) -> (RequestBody, i16, ErrorCode) {
    match number {
        0 => (metadata(None, NOBODYS), 12, ErrorCode::UNKNOWN_TOPIC_ID),
        1 => {
            let body = metadata(Some("a/b"), TopicId::ZERO);
            (body, 0, ErrorCode::INVALID_TOPIC_EXCEPTION)
        }
        2 => (create(-5, 1), 2, ErrorCode::INVALID_PARTITIONS),
        3 => (create(1, 3), 2, ErrorCode::INVALID_REPLICATION_FACTOR),
        4 => {
            let state = DeleteTopicState {
                name: None,
                topic_id: NOBODYS,
                ..Default::default()
            };
            let body = DeleteTopicsRequest {
                topics: vec![state],
                ..Default::default()
            };
            (body.into(), 6, ErrorCode::UNKNOWN_TOPIC_ID)
        }
        5 => (join("refused", 1), 0, ErrorCode::INVALID_SESSION_TIMEOUT),
        6 => (join("", 10_000), 0, ErrorCode::INVALID_GROUP_ID),
        7 => {
            let body = HeartbeatRequest {
                member_id: "m".into(),
                ..Default::default()
            };
            (body.into(), 0, ErrorCode::INVALID_GROUP_ID)
        }
        8 => {
            let body = SyncGroupRequest {
                member_id: "m".into(),
                ..Default::default()
            };
            (body.into(), 0, ErrorCode::INVALID_GROUP_ID)
        }
        9 => {
            let body = LeaveGroupRequest {
                member_id: "m".into(),
                ..Default::default()
            };
            (body.into(), 0, ErrorCode::INVALID_GROUP_ID)
        }
        10 => {
            let body = DescribeGroupsRequest {
                groups: vec!["".into()],
                ..Default::default()
            };
            (body.into(), 0, ErrorCode::INVALID_GROUP_ID)
        }
        11 => {
            let body = ConsumerGroupHeartbeatRequest {
                group_id: "refused".into(),
                member_id: "m".into(),
                rebalance_timeout_ms: 1_000,
                subscribed_topic_names: Some(vec!["none".into()]),
                server_assignor: Some("none".into()),
                topic_partitions: Some(Vec::new()),
                ..Default::default()
            };
            (body.into(), 0, ErrorCode::UNSUPPORTED_ASSIGNOR)
        }
        12 => {
            let body = InitProducerIdRequest {
                transactional_id: Some("t".into()),
                transaction_timeout_ms: 1_000,
                ..Default::default()
            };
            let code = ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
            (body.into(), 0, code)
        }
        13 => {
            let body = DescribeClusterRequest {
                endpoint_type: 2,
                ..Default::default()
            };
            (body.into(), 1, ErrorCode::MISMATCHED_ENDPOINT_TYPE)
        }
        _ => {
            let body = DescribeTopicPartitionsRequest {
                topics: vec![TopicRequest {
                    name: "a/b".into(),
                    ..Default::default()
                }],
                ..Default::default()
            };
            (body.into(), 0, ErrorCode::INVALID_TOPIC_EXCEPTION)
        }
    }
}

fn metadata(name: Option<&str>, topic_id: TopicId) -> RequestBody {
    let topic = MetadataRequestTopic {
        topic_id,
        name: name.map(Into::into),
        ..Default::default()
    };
    let body = MetadataRequest {
        topics: Some(vec![topic]),
        ..Default::default()
    };
    body.into()
}

fn create(num_partitions: i32, replication_factor: i16) -> RequestBody {
    let topic = CreatableTopic {
        name: "refused".into(),
        num_partitions,
        replication_factor,
        ..Default::default()
    };
    let body = CreateTopicsRequest {
        topics: vec![topic],
        ..Default::default()
    };
    body.into()
}

fn join(group: &str, session_timeout_ms: i32) -> RequestBody {
    let protocol = JoinGroupRequestProtocol {
        name: "range".into(),
        ..Default::default()
    };
    let body = JoinGroupRequest {
        group_id: group.into(),
        session_timeout_ms,
        rebalance_timeout_ms: 1_000,
        protocol_type: "consumer".into(),
        protocols: vec![protocol],
        ..Default::default()
    };
    body.into()
}

/// What is wrong with the answer to a question.
fn complaint(number: u64, answer: &ResponseBody) -> Option<String> {
    let (question, _, wanted) = question(number);
    let api: ApiKey = odradek_core::wire::messages::Body::api(&question);
    let mut found = Vec::new();
    answer.error_codes(&mut |code| {
        if code.is_error() {
            found.push(code);
        }
    });
    let is_right = |code: &ErrorCode| *code == wanted || PASSING.contains(code);
    if !found.is_empty() && found.iter().all(is_right) {
        return None;
    }
    let name = |code: &ErrorCode| code.name().unwrap_or("?");
    let found: Vec<&str> = found.iter().map(name).collect();
    let wanted = name(&wanted);
    Some(format!(
        "{api:?} is answered with {found:?} instead of {wanted}"
    ))
}

impl Client for Refused {
    fn start(&mut self, cx: &mut ClientContext<'_>) {
        cx.after(25 * MILLISECOND, 0);
    }

    fn timer(&mut self, _: u64, cx: &mut ClientContext<'_>) {
        if self.finishing || self.session.in_flight() > 0 {
            return;
        }
        let number = cx.between(0, QUESTIONS - 1);
        let (body, least, _) = question(number);
        let api = odradek_core::wire::messages::Body::api(&body);
        let version = Session::version(cx, api).max(least);
        self.session.request(cx, version, body, number, true);
    }

    fn bytes(&mut self, connection: ConnectionId, bytes: Bytes, cx: &mut ClientContext<'_>) {
        for answer in self.session.receive(cx, connection, &bytes) {
            cx.complaints.extend(complaint(answer.tag, &answer.body));
            let pause = cx.pause(30 * MILLISECOND);
            cx.after(pause, 0);
        }
    }

    fn closed(&mut self, connection: ConnectionId, cx: &mut ClientContext<'_>) {
        self.session.lost(connection);
        cx.after(10 * MILLISECOND, 0);
    }

    fn finish(&mut self, _: &mut ClientContext<'_>) {
        self.finishing = true;
    }

    fn is_idle(&self) -> bool {
        self.session.in_flight() == 0
    }
}
