//! The client that creates the topics of a run, and asks again until they are there.

use bytes::Bytes;
use odradek_core::ids::ConnectionId;
use odradek_core::wire::messages::create_topics::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use odradek_core::wire::messages::metadata::MetadataRequest;
use odradek_core::wire::{ApiKey, ErrorCode, ResponseBody};

use super::administrator::CONFIGS;
use super::session::Session;
use super::{Client, ClientContext};
use crate::clock::MILLISECOND;

/// Creates topics, then looks up their ids now and then.
#[derive(Debug, Default)]
pub struct Founder {
    session: Session,
    /// The same whenever it asks again.
    config: Option<(&'static str, &'static str)>,
    created: bool,
    finishing: bool,
}

impl Founder {
    fn ask(&mut self, cx: &mut ClientContext<'_>) {
        if self.created {
            let version = Session::version(cx, ApiKey::Metadata);
            let body = MetadataRequest {
                topics: if version > 0 { None } else { Some(Vec::new()) },
                allow_auto_topic_creation: false,
                ..Default::default()
            };
            self.session.request(cx, version, body.into(), 0, true);
            return;
        }
        let version = Session::version(cx, ApiKey::CreateTopics);
        let topics = cx
            .catalog
            .topics
            .iter()
            .map(|(name, partitions)| CreatableTopic {
                name: name.as_str().into(),
                num_partitions: *partitions,
                replication_factor: 1,
                configs: self
                    .config
                    .iter()
                    .map(|(name, value)| CreatableTopicConfig {
                        name: (*name).into(),
                        value: Some((*value).into()),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            })
            .collect();
        let body = CreateTopicsRequest {
            topics,
            timeout_ms: 5_000,
            ..Default::default()
        };
        self.session.request(cx, version, body.into(), 0, true);
    }
}

impl Client for Founder {
    fn start(&mut self, cx: &mut ClientContext<'_>) {
        if cx.chance(200_000) {
            // The first value of each is a sound one, and the third, if there is one.
            let (name, values) = cx.pick(CONFIGS);
            let value = values.get(2).or(values.first());
            self.config = value.map(|value| (name, *value));
        }
        if cx.chance(60_000) {
            // Producers have to halve their batches, and the halves again.
            self.config = Some(("max.message.bytes", cx.pick(&["200", "400", "1000"])));
        }
        self.ask(cx);
    }

    fn timer(&mut self, _: u64, cx: &mut ClientContext<'_>) {
        if self.session.in_flight() == 0 && (!self.finishing || !self.created) {
            self.ask(cx);
        }
    }

    fn bytes(&mut self, connection: ConnectionId, bytes: Bytes, cx: &mut ClientContext<'_>) {
        for answer in self.session.receive(cx, connection, &bytes) {
            match answer.body {
                ResponseBody::CreateTopics(response) => {
                    self.created = response.topics.iter().all(|topic| {
                        matches!(
                            topic.error_code,
                            ErrorCode::NONE | ErrorCode::TOPIC_ALREADY_EXISTS
                        )
                    });
                }
                ResponseBody::Metadata(response) => {
                    for topic in response.topics {
                        if let Some(name) = topic.name
                            && !topic.error_code.is_error()
                            && topic.topic_id != Default::default()
                        {
                            cx.catalog.ids.insert(name.to_string(), topic.topic_id);
                        }
                    }
                }
                _ => {}
            }
            let pause = if self.created && !cx.catalog.ids.is_empty() {
                cx.pause(500 * MILLISECOND)
            } else {
                MILLISECOND
            };
            cx.after(pause, 0);
        }
    }

    fn closed(&mut self, connection: ConnectionId, cx: &mut ClientContext<'_>) {
        self.session.lost(connection);
        let pause = cx.pause(20 * MILLISECOND);
        cx.after(pause, 0);
    }

    fn finish(&mut self, _: &mut ClientContext<'_>) {
        self.finishing = true;
    }

    fn is_idle(&self) -> bool {
        self.created && self.session.in_flight() == 0
    }
}
