//! OffsetFetch (KIP-709, KIP-848): how far groups have read.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::broker::State;
use crate::connection::{Answer, RequestId};
use crate::group::coordinator;
use crate::group::{CommittedOffset, Group, GroupKind};
use crate::ids::{Offset, TopicId};
use crate::wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use crate::wire::{ErrorCode, Str};

/// The first version that asks for several groups.
const BATCHED: i16 = 8;
/// The first version that names topics by id.
const BY_ID: i16 = 10;

pub(super) fn handle(state: &mut State, id: RequestId, version: i16, request: OffsetFetchRequest) {
    let asked = if version >= BATCHED {
        request.groups
    } else {
        let topics = request.topics.map(|topics| {
            let topics = topics.into_iter();
            topics
                .map(|topic| OffsetFetchRequestTopics {
                    name: topic.name,
                    partition_indexes: topic.partition_indexes,
                    ..Default::default()
                })
                .collect()
        });
        alloc::vec![OffsetFetchRequestGroup {
            group_id: request.group_id,
            topics,
            ..Default::default()
        }]
    };
    let asked = each_once(asked);
    let mut marks: Vec<(i32, Offset)> = Vec::new();
    let groups: Vec<OffsetFetchResponseGroup> = asked
        .iter()
        .map(|asked| match fetch(state, version, asked) {
            Ok((topics, mark)) => {
                marks.push(mark);
                OffsetFetchResponseGroup {
                    group_id: asked.group_id.clone(),
                    topics,
                    ..Default::default()
                }
            }
            Err(error) => refused(version, asked, error),
        })
        .collect();
    let response = in_version(version, groups);
    let failed = || {
        let error = ErrorCode::COORDINATOR_NOT_AVAILABLE;
        let groups = asked.iter().map(|asked| refused(version, asked, error));
        Answer::from(in_version(version, groups.collect()))
    };
    coordinator::answer_when_durable(state, id, &marks, response, failed);
}

/// All of a group once, and each partition that is named once: what is asked again and again must not
/// make the answer grow.
fn each_once(mut groups: Vec<OffsetFetchRequestGroup>) -> Vec<OffsetFetchRequestGroup> {
    let mut whole = BTreeSet::new();
    let mut named = BTreeSet::new();
    groups.retain_mut(|group| {
        let Some(topics) = &mut group.topics else {
            return whole.insert(group.group_id.clone());
        };
        for topic in topics {
            topic.partition_indexes.retain(|partition| {
                let topic = (topic.topic_id, topic.name.clone());
                named.insert((group.group_id.clone(), topic, *partition))
            });
        }
        true
    });
    groups
}

/// The offsets that a group is asked for, and up to where the log must be durable for them to hold.
fn fetch(
    state: &State,
    version: i16,
    asked: &OffsetFetchRequestGroup,
) -> Result<(Vec<OffsetFetchResponseTopics>, (i32, Offset)), ErrorCode> {
    let index = coordinator::shard_of(state, &asked.group_id)?;
    let mark = (index, state.groups.mark_of(index, &asked.group_id));
    let group = state.groups.group(index, &asked.group_id);
    if let Some(GroupKind::Consumer(consumer)) = group.map(|group| &group.kind) {
        consumer.validate_fetch(asked.member_id.as_deref(), asked.member_epoch)?;
    }
    let topics = match &asked.topics {
        Some(topics) => topics
            .iter()
            .map(|topic| of_topic(state, version, group, topic))
            .collect(),
        None => group.map_or_else(Vec::new, |group| everything(state, version, group)),
    };
    Ok((topics, mark))
}

fn of_topic(
    state: &State,
    version: i16,
    group: Option<&Group>,
    asked: &OffsetFetchRequestTopics,
) -> OffsetFetchResponseTopics {
    let image = state.metadata.image();
    let known = if version >= BY_ID {
        image.topic_by_id(asked.topic_id)
    } else {
        image.topic(&asked.name)
    };
    let partitions = asked.partition_indexes.iter().map(|partition| {
        let mut answer = match (known, group) {
            (None, _) if version >= BY_ID => OffsetFetchResponsePartitions {
                error_code: ErrorCode::UNKNOWN_TOPIC_ID,
                ..nothing()
            },
            (Some(topic), Some(group)) => group
                .offsets
                .get(&topic.name, *partition)
                .filter(|offset| is_of(offset, topic.id))
                .map_or_else(nothing, found),
            _ => nothing(),
        };
        answer.partition_index = *partition;
        answer
    });
    OffsetFetchResponseTopics {
        name: asked.name.clone(),
        topic_id: asked.topic_id,
        partitions: partitions.collect(),
        ..Default::default()
    }
}

fn everything(state: &State, version: i16, group: &Group) -> Vec<OffsetFetchResponseTopics> {
    let mut topics = Vec::new();
    for (name, partitions) in group.offsets.topics() {
        let Some(topic) = state.metadata.image().topic(name) else {
            continue;
        };
        let partitions: Vec<_> = partitions
            .iter()
            .filter(|(_, offset)| is_of(offset, topic.id))
            .map(|(partition, offset)| OffsetFetchResponsePartitions {
                partition_index: *partition,
                ..found(offset)
            })
            .collect();
        if partitions.is_empty() {
            continue;
        }
        topics.push(OffsetFetchResponseTopics {
            name: if version >= BY_ID {
                Str::new()
            } else {
                name.clone()
            },
            topic_id: topic.id,
            partitions,
            ..Default::default()
        });
    }
    topics
}

/// Whether it was committed for this topic, and not for an earlier one of the same name.
fn is_of(offset: &CommittedOffset, topic: TopicId) -> bool {
    offset.topic_id == TopicId::ZERO || offset.topic_id == topic
}

fn found(offset: &CommittedOffset) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions {
        committed_offset: offset.offset,
        committed_leader_epoch: offset.leader_epoch,
        metadata: Some(offset.metadata.clone()),
        ..Default::default()
    }
}

fn nothing() -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions {
        committed_offset: -1,
        metadata: Some(Str::new()),
        ..Default::default()
    }
}

/// A group that cannot be asked. Version 1 has no place for an error but the partitions.
fn refused(
    version: i16,
    asked: &OffsetFetchRequestGroup,
    error_code: ErrorCode,
) -> OffsetFetchResponseGroup {
    let topics = asked.topics.iter().flatten().filter(|_| version < 2);
    OffsetFetchResponseGroup {
        group_id: asked.group_id.clone(),
        topics: topics
            .map(|topic| OffsetFetchResponseTopics {
                name: topic.name.clone(),
                partitions: topic
                    .partition_indexes
                    .iter()
                    .map(|partition| OffsetFetchResponsePartitions {
                        partition_index: *partition,
                        error_code,
                        ..nothing()
                    })
                    .collect(),
                ..Default::default()
            })
            .collect(),
        error_code,
        ..Default::default()
    }
}

fn in_version(version: i16, groups: Vec<OffsetFetchResponseGroup>) -> OffsetFetchResponse {
    if version >= BATCHED {
        return OffsetFetchResponse {
            groups,
            ..Default::default()
        };
    }
    let group = groups.into_iter().next().unwrap_or_default();
    let topics = group
        .topics
        .into_iter()
        .map(|topic| OffsetFetchResponseTopic {
            name: topic.name,
            partitions: topic
                .partitions
                .into_iter()
                .map(|partition| OffsetFetchResponsePartition {
                    partition_index: partition.partition_index,
                    committed_offset: partition.committed_offset,
                    committed_leader_epoch: partition.committed_leader_epoch,
                    metadata: partition.metadata,
                    error_code: partition.error_code,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        });
    OffsetFetchResponse {
        topics: topics.collect(),
        error_code: group.error_code,
        ..Default::default()
    }
}
