//! The requests of the one client, and what it makes of the answers.

use odradek_core::wire::messages::create_topics::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use odradek_core::wire::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use odradek_core::wire::messages::delete_topics::DeleteTopicsRequest;
use odradek_core::wire::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource,
};
use odradek_core::wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use odradek_core::wire::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use odradek_core::wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use odradek_core::wire::messages::metadata::MetadataRequest;
use odradek_core::wire::messages::produce::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use odradek_core::wire::{ErrorCode, Records, ResponseBody};

use super::machine::{Flow, Machine};
use crate::batch::{self, Record};
use crate::oracle::Check;

/// The topic resource of the config APIs.
const TOPIC: i8 = 2;

impl Machine {
    fn must(&mut self, what: &str, error: ErrorCode) -> Flow {
        if error.is_error() {
            return self.fail(
                Check::Liveness,
                format!("{what} is answered with {error:?}"),
            );
        }
        Ok(())
    }

    fn other_answer<T>(&mut self, body: &ResponseBody) -> Flow<T> {
        let detail = format!("another answer than was asked for: {body:?}");
        self.fail(Check::AnswersWellFormed, detail)
    }

    /// Creates a topic.
    pub(super) fn create(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> Flow {
        let configs = configs.iter().map(|(name, value)| CreatableTopicConfig {
            name: (*name).into(),
            value: Some((*value).into()),
            ..Default::default()
        });
        let body = CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: name.into(),
                num_partitions: partitions,
                replication_factor: 1,
                configs: configs.collect(),
                ..Default::default()
            }],
            timeout_ms: 5_000,
            ..Default::default()
        };
        self.told.deleted.remove(name);
        match self.ask(7, body)? {
            ResponseBody::CreateTopics(response) => {
                let error = response
                    .topics
                    .first()
                    .map_or(ErrorCode::NONE, |t| t.error_code);
                if error != ErrorCode::TOPIC_ALREADY_EXISTS {
                    self.must("a CreateTopics", error)?;
                }
                self.told.created.insert(name.to_owned());
                Ok(())
            }
            other => self.other_answer(&other),
        }
    }

    /// Deletes a topic.
    pub(super) fn delete(&mut self, name: &str) -> Flow {
        self.told.created.remove(name);
        let body = DeleteTopicsRequest {
            topic_names: vec![name.into()],
            timeout_ms: 5_000,
            ..Default::default()
        };
        match self.ask(5, body)? {
            ResponseBody::DeleteTopics(response) => {
                let error = response
                    .responses
                    .first()
                    .map_or(ErrorCode::NONE, |t| t.error_code);
                self.must("a DeleteTopics", error)?;
                self.told.deleted.insert(name.to_owned());
                Ok(())
            }
            other => self.other_answer(&other),
        }
    }

    /// Sets a config of a topic.
    pub(super) fn set_config(&mut self, topic: &str, name: &str, value: &str) -> Flow {
        let body = IncrementalAlterConfigsRequest {
            resources: vec![AlterConfigsResource {
                resource_type: TOPIC,
                resource_name: topic.into(),
                configs: vec![AlterableConfig {
                    name: name.into(),
                    config_operation: 0,
                    value: Some(value.into()),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        match self.ask(1, body)? {
            ResponseBody::IncrementalAlterConfigs(response) => {
                let error = response
                    .responses
                    .first()
                    .map_or(ErrorCode::NONE, |r| r.error_code);
                self.must("an IncrementalAlterConfigs", error)
            }
            other => self.other_answer(&other),
        }
    }

    /// Sends a batch, and does not wait for the answer.
    pub(super) fn send_batch(&mut self, topic: &str, partition: i32, records: &[Record]) -> Flow {
        let body = ProduceRequest {
            acks: -1,
            timeout_ms: 30_000,
            topic_data: vec![TopicProduceData {
                name: topic.into(),
                partition_data: vec![PartitionProduceData {
                    index: partition,
                    records: Some(Records::Bytes(batch::build(records).into())),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        self.send(9, body)
    }

    /// Waits for the answer to a batch.
    pub(super) fn acknowledged(&mut self) -> Flow {
        match self.answer()? {
            ResponseBody::Produce(response) => {
                let answers = response
                    .responses
                    .iter()
                    .flat_map(|t| &t.partition_responses);
                let error = answers.map(|p| p.error_code).find(|code| code.is_error());
                self.must("a Produce", error.unwrap_or(ErrorCode::NONE))
            }
            other => self.other_answer(&other),
        }
    }

    /// Appends a batch of one record: a value of so many bytes, under a key if there is one.
    pub(super) fn append(
        &mut self,
        topic: &str,
        partition: i32,
        key: Option<&str>,
        bytes: usize,
    ) -> Flow {
        let record = self.record(key, bytes);
        self.send_batch(topic, partition, &[record])?;
        self.acknowledged()
    }

    /// A record.
    pub(super) fn record(&self, key: Option<&str>, bytes: usize) -> Record {
        // Bytes that say where a sector ends up that is not in its place.
        let value = (0..bytes).map(|at| (at / 16) as u8 ^ (at as u8).wrapping_mul(31));
        Record {
            timestamp: 1_750_000_000_000 + i64::from(self.lives()),
            key: key.map(|key| key.as_bytes().to_vec()),
            value: Some(value.collect()),
        }
    }

    /// Deletes the records below an offset.
    pub(super) fn trim(&mut self, topic: &str, partition_index: i32, offset: i64) -> Flow {
        let body = DeleteRecordsRequest {
            topics: vec![DeleteRecordsTopic {
                name: topic.into(),
                partitions: vec![DeleteRecordsPartition {
                    partition_index,
                    offset,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            timeout_ms: 10_000,
            ..Default::default()
        };
        match self.ask(2, body)? {
            ResponseBody::DeleteRecords(response) => {
                let mut answers = response.topics.iter().flat_map(|t| &t.partitions);
                let error = answers.next().map_or(ErrorCode::NONE, |p| p.error_code);
                self.must("a DeleteRecords", error)
            }
            other => self.other_answer(&other),
        }
    }

    /// All topics, and how many partitions each has.
    pub(super) fn topics(&mut self) -> Flow<Vec<(String, i32)>> {
        let body = MetadataRequest {
            topics: None,
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        match self.ask(12, body)? {
            ResponseBody::Metadata(response) => {
                let mut topics = Vec::new();
                for topic in &response.topics {
                    let Some(name) = &topic.name else { continue };
                    self.must("Metadata", topic.error_code)?;
                    topics.push((name.to_string(), topic.partitions.len() as i32));
                }
                Ok(topics)
            }
            other => self.other_answer(&other),
        }
    }

    /// Asks for the configs of a topic, which the oracle compares.
    pub(super) fn look_at_configs(&mut self, topic: &str) -> Flow {
        let body = DescribeConfigsRequest {
            resources: vec![DescribeConfigsResource {
                resource_type: TOPIC,
                resource_name: topic.into(),
                configuration_keys: None,
                ..Default::default()
            }],
            ..Default::default()
        };
        match self.ask(4, body)? {
            ResponseBody::DescribeConfigs(_) => Ok(()),
            other => self.other_answer(&other),
        }
    }

    /// Reads a partition whole: from which offset, up to which.
    pub(super) fn read(&mut self, topic: &str, partition: i32) -> Flow<(i64, i64)> {
        let from = self.log_start(topic, partition)?;
        let mut next = from;
        loop {
            let body = FetchRequest {
                max_wait_ms: 0,
                min_bytes: 0,
                max_bytes: 1 << 20,
                topics: vec![FetchTopic {
                    topic: topic.into(),
                    partitions: vec![FetchPartition {
                        partition,
                        fetch_offset: next,
                        partition_max_bytes: 1 << 20,
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            };
            let response = match self.ask(11, body)? {
                ResponseBody::Fetch(response) => response,
                other => return self.other_answer(&other),
            };
            let answer = response
                .responses
                .first()
                .and_then(|t| t.partitions.first());
            let Some(answer) = answer else {
                return self.fail(Check::AnswersWellFormed, "an empty Fetch".to_owned());
            };
            self.must("a Fetch", answer.error_code)?;
            let last = match &answer.records {
                Some(Records::Bytes(bytes)) => batch::all(bytes).last().map(|b| b.last_offset),
                _ => None,
            };
            match last {
                Some(last) => next = last + 1,
                None => return Ok((from, next)),
            }
            if next >= answer.high_watermark {
                return Ok((from, next));
            }
        }
    }

    fn log_start(&mut self, topic: &str, partition_index: i32) -> Flow<i64> {
        let body = ListOffsetsRequest {
            replica_id: -1,
            topics: vec![ListOffsetsTopic {
                name: topic.into(),
                partitions: vec![ListOffsetsPartition {
                    partition_index,
                    timestamp: -2,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        match self.ask(5, body)? {
            ResponseBody::ListOffsets(response) => {
                let mut answers = response.topics.iter().flat_map(|t| &t.partitions);
                let (error, offset) = answers
                    .next()
                    .map_or((ErrorCode::NONE, 0), |p| (p.error_code, p.offset));
                self.must("a ListOffsets", error)?;
                Ok(offset)
            }
            other => self.other_answer(&other),
        }
    }
}
