//! A client with topics of its own: it creates one, produces to it, deletes it, and creates it
//! again under the same name.

use bytes::Bytes;
use odradek_core::ids::{ConnectionId, TopicId};
use odradek_core::wire::messages::create_topics::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use odradek_core::wire::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use odradek_core::wire::messages::produce::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use odradek_core::wire::{ApiKey, ErrorCode, Records, RequestBody, ResponseBody};

use super::administrator::pick_config;
use super::session::Session;
use super::{Client, ClientContext};
use crate::batch::{self, Record};
use crate::clock::MILLISECOND;

/// One topic after another.
#[derive(Debug, Default)]
pub struct TopicMaker {
    session: Session,
    stage: Stage,
    round: u64,
    /// The topic's id, where the answer to its creation told.
    id: Option<TopicId>,
    finishing: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Create,
    Produce,
    Delete,
}

impl TopicMaker {
    fn name(&self, cx: &ClientContext<'_>) -> String {
        // Two names by turns, so that each comes back.
        format!("made{}-{}", cx.client, self.round % 2)
    }

    fn step(&mut self, cx: &mut ClientContext<'_>) {
        let name = self.name(cx);
        let (version, body): (i16, RequestBody) = match self.stage {
            Stage::Create => (
                Session::version(cx, ApiKey::CreateTopics),
                CreateTopicsRequest {
                    topics: vec![CreatableTopic {
                        name: name.as_str().into(),
                        num_partitions: cx.pick(&[1, 1, 2]),
                        replication_factor: 1,
                        configs: (cx.chance(300_000))
                            .then(|| {
                                let (name, value) = pick_config(cx);
                                CreatableTopicConfig {
                                    name: name.into(),
                                    value: Some(value.into()),
                                    ..Default::default()
                                }
                            })
                            .into_iter()
                            .collect(),
                        ..Default::default()
                    }],
                    timeout_ms: 5_000,
                    ..Default::default()
                }
                .into(),
            ),
            Stage::Produce => {
                let record = Record {
                    timestamp: cx.now.wall.0,
                    key: None,
                    value: Some(format!("{name} {} {}", self.round, cx.now.mono).into_bytes()),
                };
                (
                    cx.between(3, 12) as i16,
                    ProduceRequest {
                        acks: -1,
                        timeout_ms: 5_000,
                        topic_data: vec![TopicProduceData {
                            name: name.as_str().into(),
                            partition_data: vec![PartitionProduceData {
                                index: 0,
                                records: Some(Records::Bytes(batch::build(&[record]).into())),
                                ..Default::default()
                            }],
                            ..Default::default()
                        }],
                        ..Default::default()
                    }
                    .into(),
                )
            }
            Stage::Delete => {
                let version = Session::version(cx, ApiKey::DeleteTopics);
                let topic = match self.id.filter(|_| cx.chance(500_000)) {
                    Some(topic_id) => DeleteTopicState {
                        name: None,
                        topic_id,
                        ..Default::default()
                    },
                    None => DeleteTopicState {
                        name: Some(name.as_str().into()),
                        ..Default::default()
                    },
                };
                let request = DeleteTopicsRequest {
                    topics: vec![topic],
                    topic_names: vec![name.as_str().into()],
                    timeout_ms: 5_000,
                    ..Default::default()
                };
                (version, request.into())
            }
        };
        self.session.request(cx, version, body, 0, true);
    }

    fn next(&mut self, cx: &mut ClientContext<'_>, error: ErrorCode) {
        let gone = matches!(
            error,
            ErrorCode::NONE | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID
        );
        self.stage = match self.stage {
            Stage::Create if matches!(error, ErrorCode::NONE | ErrorCode::TOPIC_ALREADY_EXISTS) => {
                Stage::Produce
            }
            Stage::Produce if cx.chance(400_000) => Stage::Delete,
            Stage::Delete if gone => {
                self.round += 1;
                self.id = None;
                Stage::Create
            }
            same => same,
        };
    }
}

impl Client for TopicMaker {
    fn start(&mut self, cx: &mut ClientContext<'_>) {
        cx.after(50 * MILLISECOND, 0);
    }

    fn timer(&mut self, _: u64, cx: &mut ClientContext<'_>) {
        if !self.finishing && self.session.in_flight() == 0 {
            self.step(cx);
        }
    }

    fn bytes(&mut self, connection: ConnectionId, bytes: Bytes, cx: &mut ClientContext<'_>) {
        for answer in self.session.receive(cx, connection, &bytes) {
            let error = match answer.body {
                ResponseBody::CreateTopics(r) => r.topics.first().map(|t| {
                    if !t.error_code.is_error() && t.topic_id != TopicId::default() {
                        self.id = Some(t.topic_id);
                    }
                    t.error_code
                }),
                ResponseBody::DeleteTopics(r) => r.responses.first().map(|t| t.error_code),
                ResponseBody::Produce(r) => r
                    .responses
                    .first()
                    .and_then(|t| t.partition_responses.first())
                    .map(|p| p.error_code),
                _ => None,
            };
            match error {
                Some(error) => self.next(cx, error),
                None => cx
                    .complaints
                    .push("an answer that says nothing of the topic".to_owned()),
            }
            let pause = cx.pause(30 * MILLISECOND);
            cx.after(pause, 0);
        }
    }

    fn closed(&mut self, connection: ConnectionId, cx: &mut ClientContext<'_>) {
        self.session.lost(connection);
        cx.after(20 * MILLISECOND, 0);
    }

    fn finish(&mut self, _: &mut ClientContext<'_>) {
        self.finishing = true;
    }

    fn is_idle(&self) -> bool {
        self.session.in_flight() == 0
    }
}
