//! DescribeTopicPartitions (KIP-966): topics and their partitions, page by page.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::authorized_operations;
use super::create_topics::check_name;
use super::metadata::is_online;
use crate::broker::State;
use crate::connection::{Answer, RequestId};
use crate::metadata::image::Topic;
use crate::wire::ErrorCode;
use crate::wire::messages::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};

pub(super) fn handle(state: &mut State, id: RequestId, request: DescribeTopicPartitionsRequest) {
    if request
        .cursor
        .as_ref()
        .is_some_and(|cursor| !is_valid(cursor, &request))
    {
        return state.answer(id, refused(&request));
    }
    let limit = request
        .response_partition_limit
        .min(state.config.max_partitions_per_response);
    let mut left = limit.max(1);
    let mut response = DescribeTopicPartitionsResponse::default();
    for name in names(state, &request) {
        let first = match &request.cursor {
            Some(cursor) if cursor.topic_name == name.as_str() => cursor.partition_index,
            _ => 0,
        };
        let Some(topic) = state.metadata.image().topic(&name) else {
            let error_code = match check_name(&name) {
                Ok(()) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                Err(_) => ErrorCode::INVALID_TOPIC_EXCEPTION,
            };
            response.topics.push(DescribeTopicPartitionsResponseTopic {
                error_code,
                name: Some(name.into()),
                topic_authorized_operations: authorized_operations::TOPIC,
                ..Default::default()
            });
            continue;
        };
        if left == 0 {
            response.next_cursor = Some(cursor(&name, first));
            break;
        }
        let end = topic.partitions.min(first.saturating_add(left));
        response.topics.push(describe(state, topic, first..end));
        left -= (end - first).max(0);
        if end < topic.partitions {
            response.next_cursor = Some(cursor(&name, end));
            break;
        }
    }
    state
        .metadata
        .answer_when_durable(id, response, Answer::Close);
}

/// Whether a cursor points to a partition of what is asked for.
fn is_valid(cursor: &Cursor, request: &DescribeTopicPartitionsRequest) -> bool {
    let mut topics = request.topics.iter();
    cursor.partition_index >= 0
        && (request.topics.is_empty() || topics.any(|topic| topic.name == cursor.topic_name))
}

fn refused(request: &DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse {
    let topics = request.topics.iter();
    let refused = topics.map(|topic| DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::INVALID_REQUEST,
        name: Some(topic.name.clone()),
        ..Default::default()
    });
    DescribeTopicPartitionsResponse {
        topics: refused.collect(),
        ..Default::default()
    }
}

/// The topics asked for (none means all) in the order of their names, from the cursor on.
fn names(state: &State, request: &DescribeTopicPartitionsRequest) -> Vec<String> {
    let mut names: Vec<String> = if request.topics.is_empty() {
        state
            .metadata
            .image()
            .topics()
            .map(|topic| topic.name.clone())
            .collect()
    } else {
        request
            .topics
            .iter()
            .map(|topic| topic.name.to_string())
            .collect()
    };
    names.sort_unstable();
    names.dedup();
    if let Some(cursor) = &request.cursor {
        names.retain(|name| name.as_str() >= cursor.topic_name.as_str());
    }
    names
}

fn cursor(topic: &str, partition_index: i32) -> Cursor {
    Cursor {
        topic_name: topic.into(),
        partition_index,
        ..Default::default()
    }
}

fn describe(
    state: &State,
    topic: &Topic,
    indexes: core::ops::Range<i32>,
) -> DescribeTopicPartitionsResponseTopic {
    let node_id = state.config.node_id.0;
    let leader_epoch = state.metadata.image().leader_epoch(topic).0;
    let partitions = indexes.map(|partition_index| {
        let online = is_online(state, topic.id, partition_index);
        DescribeTopicPartitionsResponsePartition {
            error_code: if online {
                ErrorCode::NONE
            } else {
                ErrorCode::LEADER_NOT_AVAILABLE
            },
            partition_index,
            leader_id: if online { node_id } else { -1 },
            leader_epoch,
            replica_nodes: vec![node_id],
            isr_nodes: vec![node_id],
            eligible_leader_replicas: Some(Vec::new()),
            last_known_elr: Some(Vec::new()),
            offline_replicas: if online { Vec::new() } else { vec![node_id] },
            ..Default::default()
        }
    });
    DescribeTopicPartitionsResponseTopic {
        name: Some(topic.name.as_str().into()),
        topic_id: topic.id,
        partitions: partitions.collect(),
        // The request has no word for leaving them out.
        topic_authorized_operations: authorized_operations::TOPIC,
        ..Default::default()
    }
}
