//! DeleteTopics (KIP-516): by name, or from version 6 by id.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::broker::State;
use crate::connection::RequestId;
use crate::context::Context;
use crate::ids::TopicId;
use crate::metadata::topics;
use crate::wire::messages::delete_topics::{
    DeletableTopicResult, DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse,
};
use crate::wire::{ErrorCode, Str};

pub(super) fn handle(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    version: i16,
    request: DeleteTopicsRequest,
) {
    let asked: Vec<DeleteTopicState> = if version >= 6 {
        request.topics
    } else {
        let by_name = |name| DeleteTopicState {
            name: Some(name),
            ..Default::default()
        };
        request.topic_names.into_iter().map(by_name).collect()
    };
    let mut times: BTreeMap<(&Option<Str>, TopicId), usize> = BTreeMap::new();
    for topic in &asked {
        *times.entry((&topic.name, topic.topic_id)).or_default() += 1;
    }
    let mut refused = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let responses: Vec<_> = asked
        .iter()
        // One that is named twice has one answer, whether there is one or not.
        .filter(|asked| {
            let key = (&asked.name, asked.topic_id);
            times.get(&key) == Some(&1) || refused.insert(key)
        })
        .map(|asked| match find(state, asked) {
            _ if times.get(&(&asked.name, asked.topic_id)) != Some(&1) => result(
                asked.name.clone(),
                asked.topic_id,
                ErrorCode::INVALID_REQUEST,
            ),
            // Once by its name and once by its id.
            Ok((topic, _)) if !seen.insert(topic) => {
                result(asked.name.clone(), topic, ErrorCode::INVALID_REQUEST)
            }
            Ok((topic, name)) => match delete(state, cx, topic) {
                Ok(()) => result(Some(name), topic, ErrorCode::NONE),
                Err(error) => result(Some(name), topic, error),
            },
            Err(error) => result(asked.name.clone(), asked.topic_id, error),
        })
        .collect();
    let lost = responses.iter().map(|done| DeletableTopicResult {
        error_code: if done.error_code.is_error() {
            done.error_code
        } else {
            ErrorCode::KAFKA_STORAGE_ERROR
        },
        ..done.clone()
    });
    let lost = DeleteTopicsResponse {
        responses: lost.collect(),
        ..Default::default()
    };
    let response = DeleteTopicsResponse {
        responses,
        ..Default::default()
    };
    state.metadata.answer_when_durable(id, response, lost);
}

fn find(state: &State, asked: &DeleteTopicState) -> Result<(TopicId, Str), ErrorCode> {
    let image = state.metadata.image();
    let topic = match (&asked.name, asked.topic_id) {
        (Some(name), TopicId::ZERO) => image
            .topic(name)
            .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        (None, id) if id != TopicId::ZERO => {
            image.topic_by_id(id).ok_or(ErrorCode::UNKNOWN_TOPIC_ID)
        }
        // Both, or neither.
        _ => Err(ErrorCode::INVALID_REQUEST),
    }?;
    Ok((topic.id, topic.name.as_str().into()))
}

fn delete(state: &mut State, cx: &mut Context<'_>, topic: TopicId) -> Result<(), ErrorCode> {
    if !state.config.delete_topics {
        return Err(ErrorCode::TOPIC_DELETION_DISABLED);
    }
    topics::delete(state, cx, topic)
}

fn result(name: Option<Str>, topic_id: TopicId, error_code: ErrorCode) -> DeletableTopicResult {
    let error_message = error_code.is_error().then(|| error_code.message().into());
    DeletableTopicResult {
        name,
        topic_id,
        error_code,
        error_message,
        ..Default::default()
    }
}
