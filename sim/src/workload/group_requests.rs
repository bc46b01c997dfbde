//! Requests about groups and committed offsets, as all clients of groups send them.

use odradek_core::ids::TopicId;
use odradek_core::wire::messages::find_coordinator::FindCoordinatorRequest;
use odradek_core::wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use odradek_core::wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use odradek_core::wire::{ApiKey, ErrorCode, ResponseBody, Str};

use super::ClientContext;
use super::session::Session;

/// A topic by name, and a partition.
pub type Partition = (String, i32);

/// How somebody names themselves to a group.
#[derive(Clone, Debug, Default)]
pub struct Who {
    /// The group.
    pub group: String,
    /// Empty for one who is in no group.
    pub member_id: String,
    /// The `group.instance.id` of a static member.
    pub instance_id: Option<String>,
    /// The generation, or the member epoch; -1 for one who is in no group.
    pub epoch: i32,
}

/// A version of an API that has at least what `least` has.
pub fn version_from(cx: &mut ClientContext<'_>, api: ApiKey, least: i16) -> i16 {
    let max = api.versions().max;
    cx.between(least as u64, max.max(least) as u64) as i16
}

/// A version to name these topics in, and how it names each: from version 10 on by id, which is only
/// drawn if all ids are known.
fn names_of(
    cx: &mut ClientContext<'_>,
    api: ApiKey,
    least: i16,
    partitions: &[Partition],
) -> (i16, Vec<(Str, TopicId)>) {
    let topics = partitions.iter().map(|(topic, _)| topic.as_str());
    let ids: Option<Vec<TopicId>> = topics
        .clone()
        .map(|topic| cx.catalog.ids.get(topic).copied())
        .collect();
    let version = version_from(cx, api, least);
    match ids {
        Some(ids) if version >= 10 => {
            let names = ids.into_iter().map(|id| (Str::new(), id));
            (version, names.collect())
        }
        _ => {
            let names = topics.map(|topic| (topic.into(), TopicId::default()));
            (version.min(9), names.collect())
        }
    }
}

/// Asks who looks after a group; the first to ask has the topic of the groups made.
pub fn find_coordinator(session: &mut Session, cx: &mut ClientContext<'_>, group: &str) {
    let version = Session::version(cx, ApiKey::FindCoordinator);
    let body = FindCoordinatorRequest {
        key: group.into(),
        key_type: 0,
        coordinator_keys: if version >= 4 {
            vec![group.into()]
        } else {
            Vec::new()
        },
        ..Default::default()
    };
    session.request(cx, version, body.into(), 0, true);
}

/// Whether an answer says who looks after the group.
pub fn is_found(body: &ResponseBody) -> bool {
    match body {
        ResponseBody::FindCoordinator(response) => {
            !response.error_code.is_error()
                && response
                    .coordinators
                    .iter()
                    .all(|found| !found.error_code.is_error())
        }
        _ => false,
    }
}

/// Commits some offset for each of these partitions, with metadata that no other commit has.
/// `least` is the oldest version to do so in; by id only if all ids are known.
pub fn commit(
    session: &mut Session,
    cx: &mut ClientContext<'_>,
    who: &Who,
    partitions: &[Partition],
    count: &mut u64,
    least: i16,
) {
    let (version, names) = names_of(cx, ApiKey::OffsetCommit, least, partitions);
    let named = partitions.iter().zip(names);
    let topics = named.map(|((_, partition), (name, topic_id))| {
        *count += 1;
        OffsetCommitRequestTopic {
            name,
            topic_id,
            partitions: vec![OffsetCommitRequestPartition {
                partition_index: *partition,
                committed_offset: cx.between(0, 10_000) as i64,
                committed_leader_epoch: if version >= 6 {
                    cx.pick(&[-1, 0, 3])
                } else {
                    -1
                },
                committed_metadata: Some(format!("{}-{count}", cx.client).into()),
                ..Default::default()
            }],
            ..Default::default()
        }
    });
    let topics = topics.collect();
    let body = OffsetCommitRequest {
        group_id: who.group.as_str().into(),
        generation_id_or_member_epoch: who.epoch,
        member_id: who.member_id.as_str().into(),
        group_instance_id: who
            .instance_id
            .as_deref()
            .filter(|_| version >= 7)
            .map(Str::from),
        retention_time_ms: if version <= 4 {
            cx.pick(&[-1, -1, -1, 200, 60_000])
        } else {
            -1
        },
        topics,
        ..Default::default()
    };
    session.request(cx, version, body.into(), 0, true);
}

/// Asks for the offsets of groups; of `partitions`, or of all there are.
pub fn fetch_offsets(
    session: &mut Session,
    cx: &mut ClientContext<'_>,
    who: &[Who],
    partitions: Option<&[Partition]>,
) {
    let Some(first) = who.first() else {
        return;
    };
    let least = if who.len() > 1 {
        8
    } else if partitions.is_none() {
        2
    } else {
        1
    };
    let (version, names) = names_of(
        cx,
        ApiKey::OffsetFetch,
        least,
        partitions.unwrap_or_default(),
    );
    let named = |partitions: &[Partition]| {
        let topics = partitions.iter().zip(&names);
        topics
            .map(
                |((_, partition), (name, topic_id))| OffsetFetchRequestTopics {
                    name: name.clone(),
                    topic_id: *topic_id,
                    partition_indexes: vec![*partition],
                    ..Default::default()
                },
            )
            .collect()
    };
    let mut body = OffsetFetchRequest {
        require_stable: version >= 7 && cx.chance(500_000),
        ..Default::default()
    };
    if version >= 8 {
        let groups = who.iter().map(|who| {
            let is_member = version >= 9 && !who.member_id.is_empty();
            OffsetFetchRequestGroup {
                group_id: who.group.as_str().into(),
                member_id: is_member.then(|| who.member_id.as_str().into()),
                member_epoch: if is_member { who.epoch } else { -1 },
                topics: partitions.map(named),
                ..Default::default()
            }
        });
        body.groups = groups.collect();
    } else {
        body.group_id = first.group.as_str().into();
        body.topics = partitions.map(|partitions| {
            let partitions = partitions.iter();
            partitions
                .map(|(topic, partition)| OffsetFetchRequestTopic {
                    name: topic.as_str().into(),
                    partition_indexes: vec![*partition],
                    ..Default::default()
                })
                .collect()
        });
    }
    session.request(cx, version, body.into(), 0, true);
}

/// Whether the coordinator is only not there at the moment.
#[must_use]
pub fn is_away(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
            | ErrorCode::COORDINATOR_NOT_AVAILABLE
            | ErrorCode::NOT_COORDINATOR
    )
}
