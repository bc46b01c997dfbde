//! The topic of a load: made before it, deleted after it.

use std::time::{Duration, Instant};

use odradek_core::wire::messages::create_topics::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use odradek_core::wire::messages::{
    DeleteTopicsRequest, MetadataRequest, metadata::MetadataRequestTopic,
};
use odradek_core::wire::{ErrorCode, ResponseBody};

use super::frames::{BatchShape, ProduceAnswer, RequestFrame, refused};
use super::link::{Link, nonsense};
use super::load::Target;
use super::schedule::wait_until;
use crate::failure::Failure;

const CREATE_TOPICS: i16 = 5;
const DELETE_TOPICS: i16 = 4;
const METADATA: i16 = 9;
/// How long a new topic may take to be there.
const PATIENCE: Duration = Duration::from_secs(60);
/// So large may batches get.
const MAX_BATCH_BYTES: u32 = 64 << 20;

/// How a load wants its topic.
#[derive(Clone, Debug, Default)]
pub(super) struct TopicPlan {
    pub(super) partitions: i32,
    /// Beside those that every topic of the bench has.
    pub(super) configs: Vec<(&'static str, String)>,
}

/// A topic that is there. Call [`Self::delete`] at the end.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) name: String,
    /// Offset of the next record, by partition.
    pub(super) next_offsets: Vec<i64>,
    target: Target,
}

impl Topic {
    /// Makes a topic and waits until each partition has taken a batch.
    pub(super) fn create(
        target: &Target,
        plan: &TopicPlan,
        shape: BatchShape,
    ) -> Result<Self, Failure> {
        let mut topic = Self {
            name: unused_name(),
            next_offsets: Vec::new(),
            target: target.clone(),
        };
        let mut link = Link::connect(target.address)?;
        if !target.bare {
            create(&mut link, &topic.name, plan, &target.topic_configs)?;
            await_leaders(&mut link, &topic.name)?;
        }
        let partitions = if target.bare { 1 } else { plan.partitions };
        for partition in 0..partitions {
            let next = first_batch(&mut link, &topic.name, partition, shape)?;
            topic.next_offsets.push(next);
        }
        Ok(topic)
    }

    /// Deletes it.
    pub(super) fn delete(self) -> Result<(), Failure> {
        if self.target.bare {
            return Ok(());
        }
        let request = DeleteTopicsRequest {
            topic_names: vec![self.name.as_str().into()],
            timeout_ms: 30_000,
            ..Default::default()
        };
        match Link::connect(self.target.address)?.ask(DELETE_TOPICS, &request)? {
            ResponseBody::DeleteTopics(response) => match response.responses.first() {
                Some(topic) if topic.error_code.is_error() => {
                    Err(refused("to delete the topic", topic.error_code))
                }
                Some(_) => Ok(()),
                None => Err(nonsense()),
            },
            _ => Err(nonsense()),
        }
    }
}

/// A name that no topic has, in no run.
fn unused_name() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let passed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seconds = passed.map_or(0, |passed| passed.as_secs());
    format!(
        "bench-{seconds}-{}-{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}

fn create(
    link: &mut Link,
    name: &str,
    plan: &TopicPlan,
    of_target: &[(&'static str, String)],
) -> Result<(), Failure> {
    let max_bytes = MAX_BATCH_BYTES.to_string();
    let config = |name: &str, value: &str| CreatableTopicConfig {
        name: name.into(),
        value: Some(value.into()),
        ..Default::default()
    };
    let mut configs = vec![config("max.message.bytes", &max_bytes)];
    configs.extend(
        plan.configs
            .iter()
            .chain(of_target)
            .map(|(name, value)| config(name, value)),
    );
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: name.into(),
            num_partitions: plan.partitions,
            replication_factor: 1,
            configs,
            ..Default::default()
        }],
        timeout_ms: 30_000,
        ..Default::default()
    };
    match link.ask(CREATE_TOPICS, &request)? {
        ResponseBody::CreateTopics(response) => match response.topics.first() {
            Some(topic) if topic.error_code.is_error() => {
                Err(refused("to create a topic", topic.error_code))
            }
            Some(_) => Ok(()),
            None => Err(nonsense()),
        },
        _ => Err(nonsense()),
    }
}

fn await_leaders(link: &mut Link, name: &str) -> Result<(), Failure> {
    let request = MetadataRequest {
        topics: Some(vec![MetadataRequestTopic {
            name: Some(name.into()),
            ..Default::default()
        }]),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let ResponseBody::Metadata(response) = link.ask(METADATA, &request)? else {
            return Err(nonsense());
        };
        if response.brokers.len() > 1 {
            return Err(Failure::failed(
                "this is a cluster of several brokers; the bench measures one",
            ));
        }
        let ready = |topic: &odradek_core::wire::messages::metadata::MetadataResponseTopic| {
            topic.error_code == ErrorCode::NONE
                && !topic.partitions.is_empty()
                && topic.partitions.iter().all(|p| p.leader_id >= 0)
        };
        if response.topics.iter().all(ready) && !response.topics.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Failure::failed("the new topic has no leader"));
        }
        wait_until(Instant::now() + Duration::from_millis(10));
    }
}

/// The first batch of a partition; the offset behind it. A broker may say that it leads a
/// partition a little before it does.
fn first_batch(
    link: &mut Link,
    topic: &str,
    partition: i32,
    shape: BatchShape,
) -> Result<i64, Failure> {
    let mut frame = RequestFrame::produce(topic, partition, shape.batch());
    let answer = ProduceAnswer::new(topic);
    let deadline = Instant::now() + PATIENCE;
    loop {
        link.send(frame.numbered(1))?;
        match answer.base_offset(link.receive()?) {
            Ok(base_offset) => return Ok(base_offset + i64::from(shape.records)),
            Err(error) if Instant::now() > deadline || !error.is_retriable() => {
                return Err(refused("a batch", error));
            }
            Err(_) => wait_until(Instant::now() + Duration::from_millis(20)),
        }
    }
}
