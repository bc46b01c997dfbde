//! Metadata (KIP-4, KIP-516): the brokers, and topics with their partitions' leaders.

use alloc::collections::BTreeSet;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use super::authorized_operations;
use super::create_topics::{check_name, check_new_partitions};
use crate::broker::State;
use crate::connection::{Answer, RequestId};
use crate::group::coordinator;
use crate::ids::TopicId;
use crate::log::LogState;
use crate::metadata::image::Topic;
use crate::metadata::topics::{self, Wanted};
use crate::partition::PartitionKey;
use crate::wire::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker,
    MetadataResponsePartition, MetadataResponseTopic,
};
use crate::wire::{ErrorCode, Str};

pub(super) fn handle(state: &mut State, id: RequestId, version: i16, request: MetadataRequest) {
    if !state.metadata.is_current() {
        // What the state is, the disk decides in a moment; there is nothing true to say now.
        return state.answer(id, Answer::Close);
    }
    // Below version 4 there is no flag, and creation is on (KIP-204).
    let may_create = state.config.auto_create_topics && request.allow_auto_topic_creation;
    let asked = match request.topics {
        Some(topics) if !(version == 0 && topics.is_empty()) => Asked::Some(each_once(topics)),
        _ => Asked::All,
    };
    if let (Asked::Some(asked), true) = (&asked, may_create) {
        let missing: BTreeSet<&str> = asked
            .iter()
            .filter(|topic| topic.topic_id == TopicId::ZERO)
            .filter_map(|topic| topic.name.as_deref())
            .filter(|name| state.metadata.image().topic(name).is_none())
            .filter(|name| check_name(name).is_ok())
            .collect();
        let each = u64::try_from(state.config.num_partitions).unwrap_or(0);
        // The answer waits for nothing, so what is being made already counts too. Beyond the bound
        // they stay unknown, as after a creation that failed.
        let making = state.topics.partitions_making();
        let all = missing.iter().map(|_| each).chain([making]);
        if check_new_partitions(all).is_ok() {
            for name in missing {
                auto_create(state, name);
            }
        }
    }
    // As with Kafka, what was just asked to be made is unknown until the client asks again: clients
    // that give their records less time than that may rely on it.
    let operations = Operations {
        cluster: authorized_operations::told(
            request.include_cluster_authorized_operations,
            authorized_operations::CLUSTER,
        ),
        topic: authorized_operations::told(
            request.include_topic_authorized_operations,
            authorized_operations::TOPIC,
        ),
    };
    respond(state, id, asked, operations);
}

/// What the answer says of what the client may do.
#[derive(Clone, Copy, Debug)]
struct Operations {
    cluster: i32,
    topic: i32,
}

/// What a request asks for.
#[derive(Debug)]
enum Asked {
    All,
    Some(Vec<MetadataRequestTopic>),
}

/// The topics in order, each once, as Kafka answers: naming one again and again must not make the
/// answer grow.
fn each_once(mut topics: Vec<MetadataRequestTopic>) -> Vec<MetadataRequestTopic> {
    let mut seen = BTreeSet::new();
    topics.retain(|topic| {
        // With an id, the name does not count.
        let name = topic.name.clone();
        let name = name.filter(|_| topic.topic_id == TopicId::ZERO);
        seen.insert((topic.topic_id, name))
    });
    topics
}

fn auto_create(state: &mut State, name: &str) {
    if state.topics.is_creating(name) {
        return;
    }
    let wanted = if name == coordinator::OFFSETS_TOPIC {
        coordinator::offsets_topic(state)
    } else {
        Wanted {
            name: name.to_string(),
            topic: None,
            partitions: state.config.num_partitions,
            configs: Vec::new(),
        }
    };
    topics::create(state, wanted, None);
}

fn respond(state: &mut State, id: RequestId, asked: Asked, operations: Operations) {
    let mut topics: Vec<_> = match asked {
        Asked::All => {
            let image = state.metadata.image();
            image.topics().map(|topic| describe(state, topic)).collect()
        }
        Asked::Some(asked) => asked.iter().map(|topic| find(state, topic)).collect(),
    };
    for topic in &mut topics {
        // An id that nobody has is no topic to do anything with.
        if topic.error_code != ErrorCode::UNKNOWN_TOPIC_ID {
            topic.topic_authorized_operations = operations.topic;
        }
    }
    let endpoint = state.advertised(id);
    let node_id = state.config.node_id.0;
    let response = MetadataResponse {
        brokers: vec![MetadataResponseBroker {
            node_id,
            host: endpoint.host.into(),
            port: i32::from(endpoint.port),
            rack: state.config.rack.as_deref().map(Into::into),
            ..Default::default()
        }],
        cluster_id: Some(state.metadata.image().cluster_id.as_str().into()),
        controller_id: node_id,
        topics,
        cluster_authorized_operations: operations.cluster,
        ..Default::default()
    };
    state
        .metadata
        .answer_when_durable(id, response, Answer::Close);
}

fn find(state: &State, asked: &MetadataRequestTopic) -> MetadataResponseTopic {
    let image = state.metadata.image();
    let refuse = |error_code| MetadataResponseTopic {
        error_code,
        name: asked.name.clone(),
        topic_id: asked.topic_id,
        ..Default::default()
    };
    if asked.topic_id != TopicId::ZERO {
        return match image.topic_by_id(asked.topic_id) {
            Some(topic) => describe(state, topic),
            None => refuse(ErrorCode::UNKNOWN_TOPIC_ID),
        };
    }
    let Some(name) = &asked.name else {
        return refuse(ErrorCode::UNKNOWN_TOPIC_ID);
    };
    match image.topic(name) {
        Some(topic) => describe(state, topic),
        None if check_name(name).is_err() => refuse(ErrorCode::INVALID_TOPIC_EXCEPTION),
        None => refuse(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
    }
}

fn describe(state: &State, topic: &Topic) -> MetadataResponseTopic {
    let node_id = state.config.node_id.0;
    let leader_epoch = state.metadata.image().leader_epoch(topic).0;
    let partitions = (0..topic.partitions).map(|partition_index| {
        let online = is_online(state, topic.id, partition_index);
        MetadataResponsePartition {
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
            offline_replicas: if online { Vec::new() } else { vec![node_id] },
            ..Default::default()
        }
    });
    MetadataResponseTopic {
        name: Some(Str::from(topic.name.as_str())),
        topic_id: topic.id,
        is_internal: coordinator::is_internal(&topic.name),
        partitions: partitions.collect(),
        ..Default::default()
    }
}

/// Whether a partition has a leader: it is in service and its log is not offline.
pub(super) fn is_online(state: &State, topic: TopicId, index: i32) -> bool {
    state
        .partitions
        .get(&PartitionKey { topic, index })
        .is_some_and(|partition| !matches!(partition.log().state(), LogState::Offline(_)))
}
