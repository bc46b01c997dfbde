//! CreatePartitions (KIP-195): more partitions for a topic that exists.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::create_topics::{Refusal, check_brokers, check_new_partitions, pending};
use super::pending_topics::{PendingBody, PendingTopics};
use crate::broker::State;
use crate::connection::RequestId;
use crate::context::Context;
use crate::group::coordinator;
use crate::metadata::topics::{self, Wanted};
use crate::wire::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic,
    CreatePartitionsTopicResult,
};
use crate::wire::{ErrorCode, Str};

pub(super) fn handle(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    request: CreatePartitionsRequest,
) {
    let mut response = CreatePartitionsResponse::default();
    let mut waiting = 0;
    let mut named: BTreeMap<&Str, usize> = BTreeMap::new();
    for topic in &request.topics {
        *named.entry(&topic.name).or_default() += 1;
    }
    let mut refused_twice = BTreeSet::new();
    let within_bound =
        check_new_partitions(request.topics.iter().map(|t| new_partitions(state, t)));
    for topic in &request.topics {
        let twice = named.get(&topic.name).is_some_and(|count| *count > 1);
        let result = if twice {
            if !refused_twice.insert(&topic.name) {
                continue;
            }
            Err((
                ErrorCode::INVALID_REQUEST,
                "Duplicate topic name.".to_string(),
            ))
        } else {
            within_bound.clone().and_then(|()| validate(state, topic))
        };
        let (error_code, error_message) = match result {
            Ok(wanted) => {
                if !request.validate_only {
                    topics::create(state, wanted, Some((id, response.results.len())));
                    waiting += 1;
                }
                (ErrorCode::NONE, None)
            }
            Err((error, words)) => (error, Some(words.into())),
        };
        response.results.push(CreatePartitionsTopicResult {
            name: topic.name.clone(),
            error_code,
            error_message,
            ..Default::default()
        });
    }
    let deadline = cx
        .now
        .mono
        .plus_ms(u64::try_from(request.timeout_ms).unwrap_or(0));
    let body = PendingBody::Partitions(response);
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

/// How many partitions a topic would get beside those it has.
fn new_partitions(state: &State, asked: &CreatePartitionsTopic) -> u64 {
    let current = state
        .metadata
        .image()
        .topic(&asked.name)
        .map_or(0, |topic| topic.partitions);
    u64::try_from(i64::from(asked.count) - i64::from(current)).unwrap_or(0)
}

fn validate(state: &State, asked: &CreatePartitionsTopic) -> Result<Wanted, Refusal> {
    let Some(topic) = state.metadata.image().topic(&asked.name) else {
        let error = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        return Err((error, error.message().to_string()));
    };
    if coordinator::is_internal(&topic.name) {
        return Err((
            ErrorCode::INVALID_REQUEST,
            format!(
                "Groups are spread over {} by the number of its partitions, which cannot change.",
                topic.name
            ),
        ));
    }
    let invalid = |words: String| Err((ErrorCode::INVALID_PARTITIONS, words));
    let (count, current) = (asked.count, topic.partitions);
    if count == current {
        return invalid(format!("Topic already has {current} partition(s)."));
    }
    if count < current {
        return invalid(format!(
            "The topic {} currently has {current} partition(s); {count} would not be an increase.",
            topic.name
        ));
    }
    if state.topics.is_creating(&topic.name) {
        return Err((
            ErrorCode::REASSIGNMENT_IN_PROGRESS,
            "Partitions are being added to the topic already; try again.".to_string(),
        ));
    }
    if let Some(assignments) = &asked.assignments {
        if usize::try_from(count - current) != Ok(assignments.len()) {
            return Err((
                ErrorCode::INVALID_REPLICA_ASSIGNMENT,
                format!(
                    "Attempted to add {} additional partition(s), but only {} assignment(s) were \
                     specified.",
                    count - current,
                    assignments.len()
                ),
            ));
        }
        for assignment in assignments {
            check_brokers(state, &assignment.broker_ids)?;
        }
    }
    let (name, topic) = (topic.name.clone(), Some(topic.id));
    Ok(Wanted {
        name,
        topic,
        partitions: count,
        configs: Vec::new(),
    })
}
