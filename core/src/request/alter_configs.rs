//! AlterConfigs (KIP-133) replaces all configs of a resource; IncrementalAlterConfigs (KIP-339)
//! changes single ones.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::create_topics::check_name;
use super::describe_configs::{BROKER, GROUP, TOPIC, check_broker, check_group};
use crate::broker::State;
use crate::bugs::Bug;
use crate::connection::{Answer, RequestId};
use crate::context::Context;
use crate::metadata::config::{
    ConfigProblem, ConfigType, Standing, broker_key, check_group_configs, check_topic_config,
    group_key, split_list, topic_key, unknown_group_config,
};
use crate::metadata::record::{MetadataRecord, Resource};
use crate::report::Level;
use crate::wire::messages::alter_configs::{
    AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse,
};
use crate::wire::messages::incremental_alter_configs::{
    self as incremental, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};
use crate::wire::{ErrorCode, Str};

type Refusal = (ErrorCode, String);

/// What becomes of one resource: its configs after the change.
type Configs = BTreeMap<String, String>;

/// IncrementalAlterConfigs' operations, by Kafka's codes.
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// What came of one resource of a request.
#[derive(Clone)]
struct Outcome {
    error_code: ErrorCode,
    error_message: Option<Str>,
    resource_type: i8,
    resource_name: Str,
}

pub(super) fn handle(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    request: AlterConfigsRequest,
) {
    let mut outcomes = Vec::with_capacity(request.resources.len());
    let resources = request.resources.iter();
    let twice = named_twice(resources.map(|asked| (asked.resource_type, &asked.resource_name)));
    for asked in &request.resources {
        let resource = (asked.resource_type, &asked.resource_name);
        if twice.contains(&resource) {
            outcomes.push(refused_twice(resource));
            continue;
        }
        let change = |state: &State, resource: &Resource, _before: &Configs| {
            let mut after = Configs::new();
            for config in &asked.configs {
                let Some(value) = &config.value else {
                    let words = alloc::format!("Null value not supported for {}", config.name);
                    return Err((ErrorCode::INVALID_REQUEST, words));
                };
                if after.contains_key(config.name.as_str()) {
                    let words =
                        alloc::format!("Error due to duplicate config keys: {}", config.name);
                    return Err((ErrorCode::INVALID_REQUEST, words));
                }
                check(state, resource, &config.name, value)?;
                after.insert(config.name.to_string(), value.to_string());
            }
            Ok(after)
        };
        outcomes.push(alter(state, cx, resource, request.validate_only, change));
    }
    answer(state, id, outcomes, |responses| AlterConfigsResponse {
        responses,
        ..Default::default()
    });
}

pub(super) fn handle_incremental(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    request: IncrementalAlterConfigsRequest,
) {
    let mut outcomes = Vec::with_capacity(request.resources.len());
    let resources = request.resources.iter();
    let twice = named_twice(resources.map(|asked| (asked.resource_type, &asked.resource_name)));
    for asked in &request.resources {
        let resource = (asked.resource_type, &asked.resource_name);
        if twice.contains(&resource) {
            outcomes.push(refused_twice(resource));
            continue;
        }
        let change = |state: &State, resource: &Resource, before: &Configs| {
            apply_operations(state, resource, before, &asked.configs)
        };
        outcomes.push(alter(state, cx, resource, request.validate_only, change));
    }
    answer(state, id, outcomes, |responses| {
        IncrementalAlterConfigsResponse {
            responses,
            ..Default::default()
        }
    });
}

/// The resources that a request names more than once: which of its changes is meant, nobody knows.
fn named_twice<'a>(resources: impl Iterator<Item = (i8, &'a Str)>) -> BTreeSet<(i8, &'a Str)> {
    let mut seen = BTreeSet::new();
    resources
        .filter(|resource| !seen.insert(*resource))
        .collect()
}

fn refused_twice((resource_type, resource_name): (i8, &Str)) -> Outcome {
    Outcome {
        error_code: ErrorCode::INVALID_REQUEST,
        error_message: Some(Str::from_static("Each resource must appear at most once.")),
        resource_type,
        resource_name: resource_name.clone(),
    }
}

/// Answers once the changes are durable, or that they are lost.
fn answer<R: From<Outcome>, B: Into<Answer>>(
    state: &mut State,
    id: RequestId,
    outcomes: Vec<Outcome>,
    body: impl Fn(Vec<R>) -> B,
) {
    let lost = outcomes.iter().cloned().map(Outcome::or_lost);
    let lost = body(lost.map(R::from).collect());
    let done = body(outcomes.into_iter().map(R::from).collect());
    if state.bugs.has(Bug::ConfigBeforeDurable) {
        return state.answer(id, done);
    }
    state.metadata.answer_when_durable(id, done, lost);
}

impl Outcome {
    fn or_lost(mut self) -> Self {
        if !self.error_code.is_error() {
            self.error_code = ErrorCode::KAFKA_STORAGE_ERROR;
        }
        self
    }
}

impl From<Outcome> for AlterConfigsResourceResponse {
    fn from(outcome: Outcome) -> Self {
        Self {
            error_code: outcome.error_code,
            error_message: outcome.error_message,
            resource_type: outcome.resource_type,
            resource_name: outcome.resource_name,
            ..Default::default()
        }
    }
}

impl From<Outcome> for incremental::AlterConfigsResourceResponse {
    fn from(outcome: Outcome) -> Self {
        Self {
            error_code: outcome.error_code,
            error_message: outcome.error_message,
            resource_type: outcome.resource_type,
            resource_name: outcome.resource_name,
            ..Default::default()
        }
    }
}

/// Alters one resource, and says what came of it.
fn alter(
    state: &mut State,
    cx: &mut Context<'_>,
    (resource_type, resource_name): (i8, &Str),
    validate_only: bool,
    change: impl Fn(&State, &Resource, &Configs) -> Result<Configs, Refusal>,
) -> Outcome {
    let result = try_alter(
        state,
        cx,
        resource_type,
        resource_name,
        validate_only,
        change,
    );
    let (error_code, error_message) = match result {
        Ok(()) => (ErrorCode::NONE, None),
        Err((error, words)) => (error, Some(words.into())),
    };
    Outcome {
        error_code,
        error_message,
        resource_type,
        resource_name: resource_name.clone(),
    }
}

/// Finds the resource, works out its configs, and appends what differs.
fn try_alter(
    state: &mut State,
    cx: &mut Context<'_>,
    resource_type: i8,
    resource_name: &str,
    validate_only: bool,
    change: impl Fn(&State, &Resource, &Configs) -> Result<Configs, Refusal>,
) -> Result<(), Refusal> {
    let resource = find(state, resource_type, resource_name)?;
    let before = state
        .metadata
        .image()
        .configs(&resource)
        .cloned()
        .unwrap_or_default();
    let after = change(state, &resource, &before)?;
    if let Resource::Group(_) = resource {
        // Its configs are judged together.
        check_group_configs(&state.config.groups, &after)
            .map_err(|problem| (ErrorCode::INVALID_CONFIG, problem.to_string()))?;
    }
    if validate_only {
        return Ok(());
    }
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let records: Vec<MetadataRecord> = names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| MetadataRecord::Config {
            resource: resource.clone(),
            name: name.clone(),
            value: after.get(name).cloned(),
        })
        .collect();
    if records.is_empty() {
        return Ok(());
    }
    for (name, value) in after
        .iter()
        .filter(|(name, value)| before.get(*name) != Some(value))
    {
        warn_if_idle(cx, resource_name, name, value);
    }
    state
        .metadata
        .append(cx, &records)
        .map_err(|error| (error, error.message().to_string()))?;
    state.apply_configs(cx);
    Ok(())
}

fn find(state: &State, resource_type: i8, name: &str) -> Result<Resource, Refusal> {
    match resource_type {
        TOPIC => match state.metadata.image().topic(name) {
            Some(topic) => Ok(Resource::Topic(topic.id)),
            None if name.is_empty() => {
                let words = "The topic name must not be empty.".to_string();
                Err((ErrorCode::INVALID_REQUEST, words))
            }
            None => {
                check_name(name).map_err(|words| (ErrorCode::INVALID_TOPIC_EXCEPTION, words))?;
                let error = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
                Err((error, error.message().to_string()))
            }
        },
        BROKER => {
            check_broker(state, name)?;
            Ok(Resource::Broker(name.to_string()))
        }
        GROUP => {
            check_group(name)?;
            Ok(Resource::Group(name.to_string()))
        }
        other => Err((
            ErrorCode::INVALID_REQUEST,
            alloc::format!("There are no configs of resource type {other} here"),
        )),
    }
}

fn apply_operations(
    state: &State,
    resource: &Resource,
    before: &Configs,
    operations: &[incremental::AlterableConfig],
) -> Result<Configs, Refusal> {
    let mut after = before.clone();
    let mut seen = BTreeSet::new();
    for operation in operations {
        let name = operation.name.as_str();
        if !seen.insert(name) {
            let words = alloc::format!("Error due to duplicate config keys: {name}");
            return Err((ErrorCode::INVALID_REQUEST, words));
        }
        match (operation.config_operation, &operation.value) {
            (DELETE, _) => {
                check_known(resource, name)?;
                after.remove(name);
            }
            (_, None) => {
                let words = alloc::format!("Null value not supported for {name}");
                return Err((ErrorCode::INVALID_REQUEST, words));
            }
            (SET, Some(value)) => {
                check(state, resource, name, value)?;
                after.insert(name.to_string(), value.to_string());
            }
            (APPEND | SUBTRACT, Some(value)) => {
                let current = list_value(state, resource, before, name)?;
                let mut words: Vec<&str> = split_list(&current).collect();
                if operation.config_operation == APPEND {
                    for word in split_list(value) {
                        if !words.contains(&word) {
                            words.push(word);
                        }
                    }
                } else {
                    words.retain(|word| !split_list(value).any(|gone| gone == *word));
                }
                let value = words.join(",");
                check(state, resource, name, &value)?;
                after.insert(name.to_string(), value);
            }
            (other, _) => {
                let words = alloc::format!("There is no config operation {other}");
                return Err((ErrorCode::INVALID_REQUEST, words));
            }
        }
    }
    Ok(after)
}

/// The list that an append or subtract starts from: what is set, or the value in force.
fn list_value(
    state: &State,
    resource: &Resource,
    before: &Configs,
    name: &str,
) -> Result<String, Refusal> {
    let (kind, in_force) = match resource {
        Resource::Topic(_) => {
            let key = topic_key(name).ok_or_else(|| unknown(name))?;
            let broker = state.metadata.broker_value(&state.config, key.broker_name);
            (key.kind, Some(broker.unwrap_or(key.default)))
        }
        Resource::Broker(_) => {
            let key = broker_key(name).ok_or_else(|| unknown(name))?;
            (
                key.kind,
                state
                    .metadata
                    .broker_value(&state.config, name)
                    .or(key.default),
            )
        }
        Resource::Group(_) => {
            let key = group_key(name).ok_or_else(|| unknown_in_group(name))?;
            (key.broker_key().kind, None)
        }
    };
    if kind != ConfigType::List {
        let words = alloc::format!(
            "Config value append and subtract are not allowed for config key: {name}"
        );
        return Err((ErrorCode::INVALID_CONFIG, words));
    }
    let set = before.get(name).map(String::as_str);
    Ok(set.or(in_force).unwrap_or_default().to_string())
}

fn unknown(name: &str) -> Refusal {
    (
        ErrorCode::INVALID_CONFIG,
        alloc::format!("Unknown config: {name}"),
    )
}

fn unknown_in_group(name: &str) -> Refusal {
    (ErrorCode::INVALID_CONFIG, unknown_group_config(name))
}

fn check_known(resource: &Resource, name: &str) -> Result<(), Refusal> {
    let known = match resource {
        Resource::Group(_) if group_key(name).is_none() => return Err(unknown_in_group(name)),
        Resource::Group(_) => true,
        Resource::Topic(_) => topic_key(name).is_some(),
        Resource::Broker(_) => broker_key(name).is_some(),
    };
    if known { Ok(()) } else { Err(unknown(name)) }
}

fn check(state: &State, resource: &Resource, name: &str, value: &str) -> Result<(), Refusal> {
    let invalid = |problem: ConfigProblem| (ErrorCode::INVALID_CONFIG, problem.to_string());
    match resource {
        // All of them together, once they are known.
        Resource::Group(_) => check_known(resource, name),
        Resource::Topic(_) => check_topic_config(name, value).map(|_| ()).map_err(invalid),
        Resource::Broker(_) => {
            let key = broker_key(name).ok_or_else(|| unknown(name))?;
            if !key.dynamic {
                // Setting a read-only config to what it is already is no change (KIP-226).
                let now = state
                    .metadata
                    .broker_value(&state.config, name)
                    .or(key.default);
                if now == Some(value) {
                    return Ok(());
                }
                let words = alloc::format!(
                    "Cannot update these configs dynamically: {name}; set it at the start"
                );
                return Err((ErrorCode::INVALID_REQUEST, words));
            }
            key.kind.check(value, key.bounds).map_err(|why| {
                invalid(ConfigProblem::Invalid {
                    name: name.to_string(),
                    why,
                })
            })
        }
    }
}

/// Says once, when it is set, that a config changes nothing here.
pub(super) fn warn_if_idle(cx: &mut Context<'_>, owner: &str, name: &str, value: &str) {
    let key = topic_key(name);
    let idle = key.is_some_and(|key| key.standing == Standing::Stored)
        || broker_key(name).is_some_and(|key| key.standing == Standing::Stored);
    if idle {
        cx.report(
            Level::Warn,
            "config",
            alloc::format!("stored, and has no effect: resource={owner} {name}={value}"),
        );
    }
}
