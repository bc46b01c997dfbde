//! A client and the brokers it talks to, all in memory. ApiVersions and Metadata are answered by
//! the world unless a test says otherwise; every other request waits for the test to answer it.

use std::collections::{BTreeMap, VecDeque};
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use bytes::{Bytes, BytesMut};

use crate::client::{
    Client, ClientConfig, ClientEffect, ClientEffects, ClientEvent, ClientInput, Command,
    CommandId, Outcome, Polled, ProducerRecord, TopicName, TopicPartition,
};
use crate::effect::{Part, Response};
use crate::ids::{ConnectionId, LeaderEpoch, Offset, TopicId};
use crate::input::Endpoint;
use crate::record::{BatchBuilder, BatchFields, BatchRecords, Compression};
use crate::time::{Now, Wall};
use crate::wire::frame::{decode_request, encode_response};
use crate::wire::messages::api_versions::ApiVersion;
use crate::wire::messages::fetch::{FetchableTopicResponse, PartitionData};
use crate::wire::messages::metadata::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use crate::wire::messages::produce::{PartitionProduceResponse, TopicProduceResponse};
use crate::wire::messages::{
    ApiVersionsResponse, Body, FetchRequest, FetchResponse, MetadataRequest, MetadataResponse,
    ProduceRequest, ProduceResponse,
};
use crate::wire::{ApiKey, ErrorCode, Records, Request, RequestBody, Str};

pub(super) struct World {
    pub(super) client: Client,
    pub(super) now: Now,
    /// Open connections and where they lead.
    pub(super) connections: BTreeMap<ConnectionId, Endpoint>,
    /// What was asked and is not answered, in order.
    pub(super) asked: VecDeque<Asked>,
    pub(super) events: Vec<ClientEvent>,
    pub(super) reports: Vec<String>,
    /// Every effect that is not an event, as text.
    pub(super) script: Vec<String>,
    pub(super) answers_itself: bool,
    /// Whether connections come about.
    pub(super) reachable: bool,
    /// Highest version of every API that the broker lists.
    pub(super) max_version: i16,
    /// Highest version of Produce and Fetch.
    pub(super) max_record_version: i16,
    /// Topics, and the leader of each of their partitions.
    pub(super) topics: BTreeMap<&'static str, Vec<i32>>,
    pub(super) epoch: i32,
    next_command: u64,
    pub(super) metadata_requests: usize,
}

/// A request that waits for its answer.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) connection: ConnectionId,
    pub(super) request: Request,
}

impl World {
    pub(super) fn new(change: impl FnOnce(&mut ClientConfig)) -> Self {
        Self::seeded(7, change)
    }

    pub(super) fn seeded(seed: u8, change: impl FnOnce(&mut ClientConfig)) -> Self {
        let mut config = ClientConfig::new(vec![Endpoint {
            host: String::from("bootstrap"),
            port: 9092,
        }]);
        config.producer.linger_ms = 0;
        config.producer.enable_idempotence = false;
        change(&mut config);
        Self {
            client: Client::new(&config, [seed; 32]),
            now: Now {
                wall: Wall(1_700_000_000_000),
                ..Now::default()
            },
            connections: BTreeMap::new(),
            asked: VecDeque::new(),
            events: Vec::new(),
            reports: Vec::new(),
            script: Vec::new(),
            answers_itself: true,
            reachable: true,
            max_version: i16::MAX,
            max_record_version: i16::MAX,
            topics: BTreeMap::from([("orders", vec![1, 1]), ("single", vec![1])]),
            epoch: 3,
            next_command: 0,
            metadata_requests: 0,
        }
    }

    pub(super) fn input(&mut self, input: ClientInput) {
        let mut out = ClientEffects::new();
        self.client.handle(self.now, input, &mut out);
        let mut follow_up = Vec::new();
        for effect in out.drain() {
            if !matches!(effect, ClientEffect::Event(_)) {
                self.script.push(format!("{effect}"));
            }
            match effect {
                ClientEffect::Connect {
                    connection,
                    endpoint,
                } => {
                    if self.reachable {
                        self.connections.insert(connection, endpoint);
                        follow_up.push(ClientInput::Connected { connection });
                    } else {
                        follow_up.push(ClientInput::ConnectFailed {
                            connection,
                            reason: String::from("refused"),
                        });
                    }
                }
                ClientEffect::Send { connection, frame } => {
                    assert!(
                        self.connections.contains_key(&connection),
                        "sent on an open one"
                    );
                    let frame: Vec<u8> = frame.concat();
                    let length = u32::from_be_bytes(*frame.first_chunk().unwrap());
                    assert_eq!(length as usize + 4, frame.len());
                    let request = decode_request(Bytes::from(frame).slice(4..)).unwrap();
                    self.asked.push_back(Asked {
                        connection,
                        request,
                    });
                }
                ClientEffect::Close { connection } => {
                    self.connections.remove(&connection);
                    self.asked.retain(|asked| asked.connection != connection);
                }
                ClientEffect::Event(event) => self.events.push(event),
                ClientEffect::Report(report) => self.reports.push(report.message),
            }
        }
        for input in follow_up {
            self.input(input);
        }
        if self.answers_itself {
            self.answer_the_usual();
        }
    }

    fn answer_the_usual(&mut self) {
        while let Some(place) = self.asked.iter().position(|asked| {
            // Requests of one connection are answered in order.
            matches!(
                asked.request.body,
                RequestBody::ApiVersions(_) | RequestBody::Metadata(_)
            )
        }) {
            let connection = self.asked[place].connection;
            let first = self
                .asked
                .iter()
                .position(|asked| asked.connection == connection);
            if first != Some(place) {
                return;
            }
            let asked = self.asked.remove(place).unwrap();
            match &asked.request.body {
                RequestBody::ApiVersions(_) => {
                    let answer = self.api_versions();
                    self.answer(&asked, answer);
                }
                RequestBody::Metadata(request) => {
                    self.metadata_requests += 1;
                    let answer = self.metadata(request);
                    self.answer(&asked, answer);
                }
                _ => unreachable!(),
            }
        }
    }

    pub(super) fn api_versions(&self) -> ApiVersionsResponse {
        let listed = |api: &ApiKey| {
            let max = match api {
                ApiKey::Produce | ApiKey::Fetch => self.max_record_version,
                _ => self.max_version,
            };
            ApiVersion {
                api_key: api.key(),
                min_version: 0,
                max_version: max,
                ..Default::default()
            }
        };
        ApiVersionsResponse {
            api_keys: ApiKey::ALL.iter().map(listed).collect(),
            ..Default::default()
        }
    }

    pub(super) fn metadata(&self, request: &MetadataRequest) -> MetadataResponse {
        let broker = |node_id| MetadataResponseBroker {
            node_id,
            host: Str::from(format!("broker{node_id}").as_str()),
            port: 9092,
            ..Default::default()
        };
        let topic = |name: &str| {
            let Some(leaders) = self.topics.get(name) else {
                return MetadataResponseTopic {
                    error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                    name: Some(Str::from(name)),
                    ..Default::default()
                };
            };
            MetadataResponseTopic {
                name: Some(Str::from(name)),
                topic_id: topic_id(name),
                partitions: (0..)
                    .zip(leaders)
                    .map(|(partition_index, leader_id)| MetadataResponsePartition {
                        partition_index,
                        leader_id: *leader_id,
                        leader_epoch: self.epoch,
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            }
        };
        let topics = match &request.topics {
            Some(asked) => asked
                .iter()
                .map(|asked| topic(asked.name.as_deref().unwrap()))
                .collect(),
            None => self.topics.keys().map(|name| topic(name)).collect(),
        };
        MetadataResponse {
            brokers: vec![broker(1), broker(2)],
            controller_id: 1,
            topics,
            ..Default::default()
        }
    }

    /// Answers a request in its version.
    pub(super) fn answer(&mut self, asked: &Asked, body: impl Body) {
        let header = &asked.request.header;
        let response = encode_response(header.correlation_id, header.api_version, &body);
        self.receive(asked.connection, joined(&response));
    }

    /// A frame, with its length in front, comes in.
    pub(super) fn receive(&mut self, connection: ConnectionId, frame: Bytes) {
        self.input(ClientInput::Received {
            connection,
            frame: frame.slice(4..),
        });
    }

    pub(super) fn command(&mut self, command: Command) -> CommandId {
        self.next_command += 1;
        let id = CommandId(self.next_command);
        self.input(ClientInput::Command { id, command });
        id
    }

    /// Produces a value to a partition.
    pub(super) fn produce(&mut self, topic: &str, partition: i32, value: &str) -> CommandId {
        let mut record = record(topic, value);
        record.partition = Some(partition);
        self.command(Command::Produce(record))
    }

    /// Lets time pass, bringing every deadline in it.
    pub(super) fn advance(&mut self, ms: u64) {
        let until = self.now.mono.plus_ms(ms);
        let mut idle_turns = 0;
        while let Some(deadline) = self.client.next_deadline().filter(|at| *at <= until) {
            if deadline <= self.now.mono {
                idle_turns += 1;
                assert!(idle_turns < 5, "deadlines come without end: {deadline}");
            } else {
                idle_turns = 0;
            }
            self.set_time(deadline.max(self.now.mono));
            self.input(ClientInput::Deadline);
        }
        self.set_time(until);
    }

    fn set_time(&mut self, mono: crate::time::Mono) {
        self.now.wall.0 += mono.ms_since(self.now.mono) as i64;
        self.now.mono = mono;
    }

    /// The oldest request of an API that waits for an answer.
    #[track_caller]
    pub(super) fn next(&mut self, api: ApiKey) -> Asked {
        let place = self
            .asked
            .iter()
            .position(|asked| asked.request.body.api() == api)
            .unwrap_or_else(|| panic!("no {api} was asked: {:?}", self.asked));
        self.asked.remove(place).unwrap()
    }

    pub(super) fn count(&self, api: ApiKey) -> usize {
        self.asked
            .iter()
            .filter(|asked| asked.request.body.api() == api)
            .count()
    }

    /// The broker breaks a connection.
    pub(super) fn disconnect(&mut self, connection: ConnectionId) {
        self.connections.remove(&connection);
        self.asked.retain(|asked| asked.connection != connection);
        self.input(ClientInput::Disconnected { connection });
    }

    /// What became of the records so far, in the order of the reports.
    pub(super) fn outcomes(&self) -> Vec<(CommandId, Outcome)> {
        self.events
            .iter()
            .filter_map(|event| match event {
                ClientEvent::Delivery { id, outcome } => Some((*id, outcome.clone())),
                _ => None,
            })
            .collect()
    }

    pub(super) fn outcome(&self, id: CommandId) -> Option<Outcome> {
        let mut of_it = self.outcomes().into_iter().filter(|(of, _)| *of == id);
        let first = of_it.next().map(|(_, outcome)| outcome);
        assert!(of_it.next().is_none(), "a record has one outcome");
        first
    }

    /// Polls without waiting, and returns what there is.
    pub(super) fn poll(&mut self) -> Vec<Polled> {
        self.poll_up_to(10_000)
    }

    pub(super) fn poll_up_to(&mut self, max_records: usize) -> Vec<Polled> {
        let polled = self.command(Command::Poll {
            max_records,
            max_bytes: usize::MAX,
            max_wait_ms: 0,
        });
        let place = self
            .events
            .iter()
            .position(|event| matches!(event, ClientEvent::Polled { id, .. } if *id == polled))
            .expect("a poll without a wait is answered at once");
        match self.events.remove(place) {
            ClientEvent::Polled { items, .. } => items,
            _ => unreachable!(),
        }
    }
}

pub(super) fn record(topic: &str, value: &str) -> ProducerRecord {
    let topic = TopicName::from(topic);
    ProducerRecord::new(&topic, Bytes::copy_from_slice(value.as_bytes()))
}

pub(super) fn topic_id(name: &str) -> TopicId {
    let mut id = [1; 16];
    for (to, from) in id.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    TopicId(id)
}

pub(super) fn joined(response: &Response) -> Bytes {
    let mut bytes = BytesMut::new();
    for part in &response.parts {
        match part {
            Part::Bytes(part) => bytes.extend_from_slice(part),
            Part::File(_) => unreachable!(),
        }
    }
    bytes.freeze()
}

impl Asked {
    pub(super) fn produce(&self) -> &ProduceRequest {
        match &self.request.body {
            RequestBody::Produce(request) => request,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn fetch(&self) -> &FetchRequest {
        match &self.request.body {
            RequestBody::Fetch(request) => request,
            other => panic!("{other:?}"),
        }
    }

    /// What a produce request holds: partition and values, batch by batch.
    pub(super) fn batches(&self) -> Vec<(i32, Vec<String>)> {
        let mut batches = Vec::new();
        for topic in &self.produce().topic_data {
            for partition in &topic.partition_data {
                let Some(Records::Bytes(bytes)) = &partition.records else {
                    panic!("records are there");
                };
                batches.push((partition.index, values(bytes)));
            }
        }
        batches
    }

    /// An answer that gives every partition this error, or offset.
    pub(super) fn produced(&self, result: Result<i64, ErrorCode>) -> ProduceResponse {
        let partition = |index| PartitionProduceResponse {
            index,
            error_code: result.err().unwrap_or(ErrorCode::NONE),
            base_offset: result.unwrap_or(-1),
            ..Default::default()
        };
        ProduceResponse {
            responses: self
                .produce()
                .topic_data
                .iter()
                .map(|topic| TopicProduceResponse {
                    name: topic.name.clone(),
                    topic_id: topic.topic_id,
                    partition_responses: topic
                        .partition_data
                        .iter()
                        .map(|data| partition(data.index))
                        .collect(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }
    }

    /// An answer that gives every partition these records.
    pub(super) fn fetched(
        &self,
        error_code: ErrorCode,
        high_watermark: i64,
        records: &Bytes,
    ) -> FetchResponse {
        FetchResponse {
            responses: self
                .fetch()
                .topics
                .iter()
                .map(|topic| FetchableTopicResponse {
                    topic: topic.topic.clone(),
                    topic_id: topic.topic_id,
                    partitions: topic
                        .partitions
                        .iter()
                        .map(|asked| PartitionData {
                            partition_index: asked.partition,
                            error_code,
                            high_watermark,
                            records: Some(Records::Bytes(records.clone())),
                            ..Default::default()
                        })
                        .collect(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }
    }
}

/// The values of a batch.
pub(super) fn values(batch: &Bytes) -> Vec<String> {
    let records = BatchRecords::open(batch, 1 << 30).unwrap();
    records
        .iter()
        .map(|record| String::from_utf8(record.unwrap().value.unwrap().to_vec()).unwrap())
        .collect()
}

/// A batch as a broker stores it.
pub(super) fn stored(base_offset: i64, compression: Compression, values: &[&str]) -> Bytes {
    let mut builder = BatchBuilder::new(1 << 20);
    for value in values {
        assert!(builder.append(5, None, Some(value.as_bytes()), &[]));
    }
    builder.build(BatchFields {
        compression,
        base_offset: Offset(base_offset),
        leader_epoch: LeaderEpoch(3),
        ..BatchFields::default()
    })
}

pub(super) fn partition(topic: &str, number: i32) -> TopicPartition {
    TopicPartition::new(topic, number)
}
