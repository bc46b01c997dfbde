//! CreateTopics (KIP-4, KIP-525): validated whole, made directories first, answered when durable.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::describe_configs::topic_configs;
use super::pending_topics::{PendingBody, PendingTopics};
use crate::broker::State;
use crate::connection::RequestId;
use crate::context::Context;
use crate::metadata::config::{Standing, check_topic_config};
use crate::metadata::topics::{self, Wanted};
use crate::wire::messages::create_topics::{
    CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreateTopicsRequest,
    CreateTopicsResponse,
};
use crate::wire::{ErrorCode, Str};

/// Kafka's limit on a topic's name, which with its partition becomes a directory's.
const MAX_NAME_BYTES: usize = 249;

/// New partitions in one request. Kafka's controller has the same bound: what comes in one request
/// is done in one piece.
const MAX_NEW_PARTITIONS: u64 = 10_000;

/// An error code with words for the one who asked.
pub(super) type Refusal = (ErrorCode, String);

pub(super) fn handle(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    request: CreateTopicsRequest,
) {
    let mut named: BTreeMap<&Str, usize> = BTreeMap::new();
    for topic in &request.topics {
        *named.entry(&topic.name).or_default() += 1;
    }
    let mut refused_twice = BTreeSet::new();
    let mut response = CreateTopicsResponse::default();
    let mut waiting = 0;
    let within_bound =
        check_new_partitions(request.topics.iter().map(|t| new_partitions(state, t)));
    for topic in &request.topics {
        if named.get(&topic.name).is_some_and(|count| *count > 1) {
            // Named twice: one error, as Kafka answers.
            if refused_twice.insert(&topic.name) {
                let words = format!("Duplicate topic name: {}", topic.name);
                response
                    .topics
                    .push(refuse(topic, (ErrorCode::INVALID_REQUEST, words)));
            }
            continue;
        }
        let valid = within_bound.clone().and_then(|()| validate(state, topic));
        let result = match valid {
            Ok(wanted) => {
                warn_of_idle_configs(cx, &wanted);
                let mut result = CreatableTopicResult {
                    name: topic.name.clone(),
                    num_partitions: wanted.partitions,
                    replication_factor: 1,
                    error_message: None,
                    configs: Some(configs_of(state, &wanted.configs)),
                    ..Default::default()
                };
                if !request.validate_only {
                    result.topic_id =
                        topics::create(state, wanted, Some((id, response.topics.len())));
                    waiting += 1;
                }
                result
            }
            Err(refusal) => refuse(topic, refusal),
        };
        response.topics.push(result);
    }
    let deadline = cx
        .now
        .mono
        .plus_ms(u64::try_from(request.timeout_ms).unwrap_or(0));
    let body = PendingBody::Create(response);
    pending(
        state,
        id,
        PendingTopics {
            body,
            waiting,
            deadline: Some(deadline),
        },
    );
}

/// How many partitions a topic would bring, as far as its count makes sense.
fn new_partitions(state: &State, topic: &CreatableTopic) -> u64 {
    if !topic.assignments.is_empty() {
        return topic.assignments.len() as u64;
    }
    let count = match topic.num_partitions {
        -1 => state.config.num_partitions,
        count => count,
    };
    u64::try_from(count).unwrap_or(0)
}

/// Whether one request asks for no more new partitions than one may.
pub(super) fn check_new_partitions(counts: impl Iterator<Item = u64>) -> Result<(), Refusal> {
    if counts.sum::<u64>() <= MAX_NEW_PARTITIONS {
        return Ok(());
    }
    let words = "Excessively large number of partitions per request.".to_string();
    Err((ErrorCode::POLICY_VIOLATION, words))
}

/// Parks a request until its creations are done, or answers it if there are none.
pub(super) fn pending(state: &mut State, id: RequestId, pending: PendingTopics) {
    if pending.waiting == 0 {
        return match pending.body {
            PendingBody::Create(response) => state.answer(id, response),
            PendingBody::Partitions(response) => state.answer(id, response),
            PendingBody::Coordinator { .. } => {}
        };
    }
    if let Some(deadline) = pending.deadline {
        state.timers.set_request(deadline, id);
    }
    state.pending_topics.insert(id, pending);
}

fn validate(state: &State, topic: &CreatableTopic) -> Result<Wanted, Refusal> {
    check_name(&topic.name).map_err(|words| (ErrorCode::INVALID_TOPIC_EXCEPTION, words))?;
    if state.metadata.image().topic(&topic.name).is_some() || state.topics.is_creating(&topic.name)
    {
        let words = format!("Topic '{}' already exists.", topic.name);
        return Err((ErrorCode::TOPIC_ALREADY_EXISTS, words));
    }
    check_collision(state, &topic.name)?;
    let partitions = if topic.assignments.is_empty() {
        unassigned_partitions(state, topic)?
    } else {
        assigned_partitions(state, topic)?
    };
    let mut configs: Vec<(String, String)> = Vec::with_capacity(topic.configs.len());
    for config in &topic.configs {
        let Some(value) = &config.value else {
            let words = format!(
                "Null value not supported for topic configs: {}",
                config.name
            );
            return Err((ErrorCode::INVALID_CONFIG, words));
        };
        check_topic_config(&config.name, value)
            .map_err(|problem| (ErrorCode::INVALID_CONFIG, problem.to_string()))?;
        configs.retain(|(name, _)| config.name != *name.as_str());
        configs.push((config.name.to_string(), value.to_string()));
    }
    Ok(Wanted {
        name: topic.name.to_string(),
        topic: None,
        partitions,
        configs,
    })
}

fn unassigned_partitions(state: &State, topic: &CreatableTopic) -> Result<i32, Refusal> {
    if !matches!(topic.replication_factor, 1 | -1) {
        let words = if topic.replication_factor <= 0 {
            "Replication factor must be larger than 0, or -1 to use the default value.".to_string()
        } else {
            format!(
                "Unable to replicate the partition {} time(s): there is 1 broker.",
                topic.replication_factor
            )
        };
        return Err((ErrorCode::INVALID_REPLICATION_FACTOR, words));
    }
    match topic.num_partitions {
        // KIP-464 has it from version 4; Kafka takes it in every version.
        -1 => Ok(state.config.num_partitions),
        count if count > 0 => Ok(count),
        _ => Err((
            ErrorCode::INVALID_PARTITIONS,
            "Number of partitions must be larger than 0, or -1 to use the default value."
                .to_string(),
        )),
    }
}

fn assigned_partitions(state: &State, topic: &CreatableTopic) -> Result<i32, Refusal> {
    if topic.num_partitions != -1 || topic.replication_factor != -1 {
        return Err((
            ErrorCode::INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions or replicationFactor \
             was not set to -1."
                .to_string(),
        ));
    }
    let mut indexes: Vec<i32> = topic
        .assignments
        .iter()
        .map(|a| a.partition_index)
        .collect();
    indexes.sort_unstable();
    if !(0..)
        .zip(&indexes)
        .all(|(expected, index): (i32, &i32)| expected == *index)
    {
        return Err((
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence".to_string(),
        ));
    }
    for assignment in &topic.assignments {
        check_brokers(state, &assignment.broker_ids)?;
    }
    Ok(i32::try_from(indexes.len()).expect("a request has at most MAX_NEW_PARTITIONS"))
}

/// A partition's replicas can only be this broker.
pub(super) fn check_brokers(state: &State, brokers: &[i32]) -> Result<(), Refusal> {
    if brokers == [state.config.node_id.0] {
        Ok(())
    } else {
        let words = format!(
            "The only broker is {}, not {brokers:?}.",
            state.config.node_id
        );
        Err((ErrorCode::INVALID_REPLICA_ASSIGNMENT, words))
    }
}

/// Whether a name is one that Kafka allows.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() {
        Err("Topic name is invalid: the empty string is not allowed".to_string())
    } else if name == "." || name == ".." {
        Err("Topic name is invalid: '.' or '..' is not allowed".to_string())
    } else if name.len() > MAX_NAME_BYTES {
        Err(format!(
            "Topic name is invalid: the length of '{name}' is longer than the max allowed length \
             {MAX_NAME_BYTES}"
        ))
    } else if !name.bytes().all(legal) {
        Err(format!(
            "Topic name is invalid: '{name}' contains one or more characters other than ASCII \
             alphanumerics, '.', '_' and '-'"
        ))
    } else if name == "__cluster_metadata" {
        Err("Topic name is invalid: '__cluster_metadata' is the metadata log's".to_string())
    } else {
        Ok(())
    }
}

/// Names that differ only in dots and underscores collide in metrics, so Kafka refuses the second.
fn check_collision(state: &State, name: &str) -> Result<(), Refusal> {
    if !name.contains(['.', '_']) {
        return Ok(());
    }
    let folded = name.replace('.', "_");
    let there = state.metadata.image().topics();
    let there = there.map(|topic| topic.name.as_str());
    let mut others = there.chain(state.topics.creating());
    let collides = |other: &&str| {
        *other != name && other.len() == name.len() && other.replace('.', "_") == folded
    };
    match others.find(collides) {
        None => Ok(()),
        Some(other) => {
            let words = format!("Topic '{name}' collides with existing topic: {other}");
            Err((ErrorCode::INVALID_TOPIC_EXCEPTION, words))
        }
    }
}

fn warn_of_idle_configs(cx: &mut Context<'_>, wanted: &Wanted) {
    for (name, value) in &wanted.configs {
        super::alter_configs::warn_if_idle(cx, &wanted.name, name, value);
    }
}

fn configs_of(state: &State, configs: &[(String, String)]) -> Vec<CreatableTopicConfigs> {
    topic_configs(state, |name| {
        configs
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    })
    .into_iter()
    .map(|config| CreatableTopicConfigs {
        name: config.name.into(),
        value: Some(config.value.into()),
        read_only: config.standing == Standing::Refused,
        config_source: config.source as i8,
        is_sensitive: false,
        ..Default::default()
    })
    .collect()
}

fn refuse(topic: &CreatableTopic, (error_code, words): Refusal) -> CreatableTopicResult {
    CreatableTopicResult {
        name: topic.name.clone(),
        error_code,
        error_message: Some(words.into()),
        configs: None,
        ..Default::default()
    }
}
