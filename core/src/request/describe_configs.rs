//! DescribeConfigs (KIP-133, KIP-226, KIP-569): every config with its value, default and source.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::create_topics::check_name;
use crate::broker::State;
use crate::connection::RequestId;
use crate::metadata::config::{
    BROKER_KEYS, BrokerKey, ConfigType, GROUP_KEYS, Standing, TOPIC_KEYS, TopicKey,
};
use crate::metadata::record::Resource;
use crate::wire::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
    DescribeConfigsResponse, DescribeConfigsResult, DescribeConfigsSynonym,
};
use crate::wire::{ErrorCode, Str};

/// Kafka's codes for what a config belongs to.
pub(super) const TOPIC: i8 = 2;
pub(super) const BROKER: i8 = 4;
pub(super) const GROUP: i8 = 32;

/// Where a value comes from, by Kafka's codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Topic = 1,
    Broker = 2,
    AllBrokers = 3,
    Static = 4,
    Default = 5,
    Group = 8,
}

/// A config as it is in force, with everything that could have set it, strongest first.
pub(super) struct Described {
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) source: Source,
    pub(super) standing: Standing,
    kind: ConfigType,
    documentation: &'static str,
    read_only: bool,
    is_null: bool,
    synonyms: Vec<(&'static str, Option<String>, Source)>,
}

pub(super) fn handle(state: &mut State, id: RequestId, request: DescribeConfigsRequest) {
    let results = each_once(&request.resources)
        .into_iter()
        .map(|(resource, wanted)| match describe(state, id, resource) {
            Ok(configs) => DescribeConfigsResult {
                // Not null, also where there is none: as Kafka answers.
                error_message: Some("".into()),
                resource_type: resource.resource_type,
                resource_name: resource.resource_name.clone(),
                configs: configs
                    .into_iter()
                    .filter(|config| wanted.contains(config.name))
                    .map(|config| entry(config, &request))
                    .collect(),
                ..Default::default()
            },
            Err((error_code, words)) => DescribeConfigsResult {
                error_code,
                error_message: Some(words.into()),
                resource_type: resource.resource_type,
                resource_name: resource.resource_name.clone(),
                ..Default::default()
            },
        })
        .collect();
    let response = DescribeConfigsResponse {
        results,
        ..Default::default()
    };
    state
        .metadata
        .answer_when_durable(id, response, crate::connection::Answer::Close);
}

/// Which configs of a resource are asked for.
enum Wanted<'a> {
    All,
    These(BTreeSet<&'a str>),
}

impl Wanted<'_> {
    fn contains(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => names.contains(name),
        }
    }
}

/// The resources in the order in which they are first named, each once and with all that is asked
/// of it: naming one again and again must not make the answer grow.
fn each_once(resources: &[DescribeConfigsResource]) -> Vec<(&DescribeConfigsResource, Wanted<'_>)> {
    let mut places = BTreeMap::new();
    let mut asked: Vec<(&DescribeConfigsResource, Wanted<'_>)> = Vec::new();
    for resource in resources {
        let keys = resource.configuration_keys.as_deref().unwrap_or_default();
        let place = *places
            .entry((resource.resource_type, &resource.resource_name))
            .or_insert_with(|| {
                asked.push((resource, Wanted::These(BTreeSet::new())));
                asked.len() - 1
            });
        let Some((_, wanted)) = asked.get_mut(place) else {
            continue;
        };
        match wanted {
            Wanted::All => {}
            // None named is all.
            _ if keys.is_empty() => *wanted = Wanted::All,
            Wanted::These(names) => names.extend(keys.iter().map(|key| &**key)),
        }
    }
    asked
}

fn describe(
    state: &State,
    id: RequestId,
    resource: &DescribeConfigsResource,
) -> Result<Vec<Described>, (ErrorCode, String)> {
    match resource.resource_type {
        TOPIC => {
            check_name(&resource.resource_name)
                .map_err(|words| (ErrorCode::INVALID_TOPIC_EXCEPTION, words))?;
            let topic = state
                .metadata
                .image()
                .topic(&resource.resource_name)
                .ok_or_else(|| {
                    let error = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
                    (error, error.message().to_string())
                })?;
            let own = Resource::Topic(topic.id);
            Ok(topic_configs(state, |name| {
                state.metadata.image().config(&own, name)
            }))
        }
        BROKER => {
            check_broker(state, &resource.resource_name)?;
            Ok(broker_configs(state, id, resource.resource_name.is_empty()))
        }
        GROUP => {
            check_group(&resource.resource_name)?;
            Ok(group_configs(state, &resource.resource_name))
        }
        other => Err((
            ErrorCode::INVALID_REQUEST,
            alloc::format!("There are no configs of resource type {other} here"),
        )),
    }
}

/// A broker is named by its id; no name stands for all of them.
pub(super) fn check_broker(state: &State, name: &str) -> Result<(), (ErrorCode, String)> {
    if name.is_empty() || name == state.config.node_id.to_string() {
        return Ok(());
    }
    let words = alloc::format!(
        "Unexpected broker id, expected {} or empty string, but received {name}",
        state.config.node_id
    );
    Err((ErrorCode::INVALID_REQUEST, words))
}

/// A longer name of a group does not fit into a record.
const MAX_GROUP_NAME_BYTES: usize = 32_767;

/// Any group may have configs, also before it is there.
pub(super) fn check_group(name: &str) -> Result<(), (ErrorCode, String)> {
    if name.is_empty() {
        let words = "Default group resources are not allowed.".to_string();
        return Err((ErrorCode::INVALID_REQUEST, words));
    }
    if name.len() > MAX_GROUP_NAME_BYTES {
        return Err((
            ErrorCode::INVALID_GROUP_ID,
            "The name is too long.".to_string(),
        ));
    }
    Ok(())
}

/// All configs of a group.
fn group_configs(state: &State, group: &str) -> Vec<Described> {
    let own = Resource::Group(group.to_string());
    GROUP_KEYS
        .iter()
        .map(|key| {
            let mut synonyms = Vec::new();
            if let Some(value) = state.metadata.image().config(&own, key.name) {
                synonyms.push((key.name, Some(value.to_string()), Source::Group));
            }
            let broker = key.broker_key();
            synonyms.extend(broker_synonyms(state, &broker, None));
            of_key(key.name, &broker, synonyms, false)
        })
        .collect()
}

/// All configs of a topic; `own` knows those set on it.
pub(super) fn topic_configs<'a>(
    state: &State,
    own: impl Fn(&str) -> Option<&'a str>,
) -> Vec<Described> {
    TOPIC_KEYS
        .iter()
        .map(|key| {
            let mut synonyms = Vec::new();
            if let Some(value) = own(key.name) {
                synonyms.push((key.name, Some(value.to_string()), Source::Topic));
            }
            synonyms.extend(broker_synonyms(
                state,
                &BrokerKey::of_topic_default(key),
                Some(key),
            ));
            if key.broker_name.is_empty() {
                synonyms.truncate(usize::from(own(key.name).is_some()));
            }
            of_key(key.name, &BrokerKey::of_topic_default(key), synonyms, false)
        })
        .collect()
}

/// All configs of the broker, or with `dynamic_defaults` those set for all brokers.
fn broker_configs(state: &State, id: RequestId, dynamic_defaults: bool) -> Vec<Described> {
    let of_topics = TOPIC_KEYS.iter().filter(|key| !key.broker_name.is_empty());
    let keys = of_topics
        .map(|key| (BrokerKey::of_topic_default(key), Some(key)))
        .chain(BROKER_KEYS.iter().map(|key| (*key, None)));
    let mut configs: Vec<Described> = keys
        .filter_map(|(key, topic_key)| {
            let mut synonyms = broker_synonyms(state, &key, topic_key);
            if dynamic_defaults {
                synonyms.retain(|(_, _, source)| *source == Source::AllBrokers);
                if synonyms.is_empty() {
                    return None;
                }
            }
            if key.name == "advertised.listeners" && synonyms.iter().all(|s| s.1.is_none()) {
                let endpoint = state.advertised(id);
                let value = Some(alloc::format!("PLAINTEXT://{endpoint}"));
                synonyms = alloc::vec![(key.name, value, Source::Static)];
            }
            Some(of_key(key.name, &key, synonyms, !key.dynamic))
        })
        .collect();
    configs.sort_by_key(|config| config.name);
    configs.dedup_by_key(|config| config.name);
    configs
}

fn broker_synonyms(
    state: &State,
    key: &BrokerKey,
    topic_key: Option<&TopicKey>,
) -> Vec<(&'static str, Option<String>, Source)> {
    let image = state.metadata.image();
    let mut synonyms = Vec::new();
    let own = Resource::Broker(state.config.node_id.to_string());
    if let Some(value) = image.config(&own, key.name) {
        synonyms.push((key.name, Some(value.to_string()), Source::Broker));
    }
    if let Some(value) = image.config(&Resource::Broker(String::new()), key.name) {
        synonyms.push((key.name, Some(value.to_string()), Source::AllBrokers));
    }
    let fixed = match topic_key {
        Some(topic_key) => state.config.static_topic_default(topic_key),
        None => state.config.properties.get(key.name).cloned(),
    };
    if let Some(value) = fixed {
        synonyms.push((key.name, Some(value), Source::Static));
    }
    synonyms.push((
        key.name,
        key.default.map(ToString::to_string),
        Source::Default,
    ));
    synonyms
}

fn of_key(
    name: &'static str,
    key: &BrokerKey,
    synonyms: Vec<(&'static str, Option<String>, Source)>,
    read_only: bool,
) -> Described {
    let default = key.default.map(ToString::to_string);
    let (value, source) = synonyms
        .first()
        .map_or((default, Source::Default), |(_, value, source)| {
            (value.clone(), *source)
        });
    Described {
        name,
        is_null: value.is_none(),
        value: value.unwrap_or_default(),
        source,
        standing: key.standing,
        kind: key.kind,
        documentation: key.documentation,
        read_only,
        synonyms,
    }
}

fn entry(config: Described, request: &DescribeConfigsRequest) -> DescribeConfigsResourceResult {
    let synonyms = if request.include_synonyms {
        config.synonyms
    } else {
        Vec::new()
    };
    DescribeConfigsResourceResult {
        name: config.name.into(),
        value: (!config.is_null).then(|| Str::from(config.value)),
        read_only: config.read_only,
        config_source: config.source as i8,
        is_sensitive: false,
        synonyms: synonyms
            .into_iter()
            .map(|(name, value, source)| DescribeConfigsSynonym {
                name: name.into(),
                value: value.map(Into::into),
                source: source as i8,
                ..Default::default()
            })
            .collect(),
        config_type: config.kind as i8,
        documentation: request
            .include_documentation
            .then(|| config.documentation.into()),
        ..Default::default()
    }
}
