//! What a group is at the moment: its state, its members, and how far it has read.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use odradek_core::client::{OffsetSpec, TopicPartition};
use odradek_core::ids::TopicId;
use odradek_core::wire::consumer_protocol::ConsumerProtocolAssignment;
use odradek_core::wire::messages::offset_fetch::OffsetFetchRequestGroup;
use odradek_core::wire::messages::{
    ConsumerGroupDescribeRequest, DescribeGroupsRequest, OffsetFetchRequest,
};
use odradek_core::wire::versioned::Versioned;
use odradek_core::wire::{ErrorCode, ResponseBody, Str};

use super::coordinator;
use crate::advice::refused;
use crate::failure::Failure;
use crate::session::Session;

/// A group.
#[derive(Debug)]
pub(super) struct Description {
    /// Kafka's name of its state.
    pub(super) state: String,
    /// `classic` or `consumer`.
    pub(super) kind: &'static str,
    pub(super) assignor: String,
    /// The group's epoch, of a consumer group.
    pub(super) epoch: Option<i32>,
    pub(super) members: Vec<Member>,
}

/// A member.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: String,
    pub(super) instance_id: Option<String>,
    pub(super) client_id: String,
    pub(super) host: String,
    /// Its epoch, in a consumer group.
    pub(super) epoch: Option<i32>,
    pub(super) owns: BTreeSet<TopicPartition>,
    /// What it shall own once all have given up what they must, in a consumer group.
    pub(super) shall_own: Option<BTreeSet<TopicPartition>>,
}

/// How far a group has read a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Committed {
    pub(super) offset: i64,
    pub(super) metadata: String,
}

/// A group as its coordinator describes it; `None` if there is none of this name.
pub(super) fn describe(session: &Session, group: &str) -> Result<Option<Description>, Failure> {
    let what = format!("cannot describe '{group}'");
    if let Some(found) = describe_consumer(session, group, &what)? {
        return Ok(Some(found));
    }
    describe_classic(session, group, &what)
}

fn describe_consumer(
    session: &Session,
    group: &str,
    what: &str,
) -> Result<Option<Description>, Failure> {
    let request = ConsumerGroupDescribeRequest {
        group_ids: vec![group.into()],
        ..Default::default()
    };
    let code = |response: &ResponseBody| match response {
        ResponseBody::ConsumerGroupDescribe(response) => {
            response.groups.first().map(|group| group.error_code)
        }
        _ => None,
    };
    let response = coordinator::ask(session, group, what, request, code)?;
    let ResponseBody::ConsumerGroupDescribe(response) = response else {
        return Err(Session::unexpected_answer());
    };
    let Some(found) = response.groups.into_iter().next() else {
        return Err(Session::unexpected_answer());
    };
    match found.error_code {
        ErrorCode::NONE => {}
        ErrorCode::GROUP_ID_NOT_FOUND => return Ok(None),
        code => {
            let message = found.error_message.as_deref();
            return Err(Failure::failed(refused(what, code, message)));
        }
    }
    let partitions =
        |assignment: &odradek_core::wire::messages::consumer_group_describe::Assignment| {
            assignment
                .topic_partitions
                .iter()
                .flat_map(|topic| {
                    topic
                        .partitions
                        .iter()
                        .map(|partition| TopicPartition::new(&topic.topic_name, *partition))
                })
                .collect::<BTreeSet<_>>()
        };
    let members = found.members.iter().map(|member| Member {
        id: member.member_id.to_string(),
        instance_id: member.instance_id.as_ref().map(ToString::to_string),
        client_id: member.client_id.to_string(),
        host: member.client_host.to_string(),
        epoch: Some(member.member_epoch),
        owns: partitions(&member.assignment),
        shall_own: Some(partitions(&member.target_assignment)),
    });
    Ok(Some(Description {
        state: found.group_state.to_string(),
        kind: "consumer",
        assignor: found.assignor_name.to_string(),
        epoch: Some(found.group_epoch),
        members: members.collect(),
    }))
}

fn describe_classic(
    session: &Session,
    group: &str,
    what: &str,
) -> Result<Option<Description>, Failure> {
    let request = DescribeGroupsRequest {
        groups: vec![group.into()],
        ..Default::default()
    };
    let code = |response: &ResponseBody| match response {
        ResponseBody::DescribeGroups(response) => {
            response.groups.first().map(|group| group.error_code)
        }
        _ => None,
    };
    let response = coordinator::ask(session, group, what, request, code)?;
    let ResponseBody::DescribeGroups(response) = response else {
        return Err(Session::unexpected_answer());
    };
    let Some(found) = response.groups.into_iter().next() else {
        return Err(Session::unexpected_answer());
    };
    match found.error_code {
        // Before version 6 a group that is not there was described as dead.
        ErrorCode::NONE if found.group_state == "Dead" => return Ok(None),
        ErrorCode::NONE => {}
        ErrorCode::GROUP_ID_NOT_FOUND => return Ok(None),
        code => {
            let message = found.error_message.as_deref();
            return Err(Failure::failed(refused(what, code, message)));
        }
    }
    let members = found.members.iter().map(|member| Member {
        id: member.member_id.to_string(),
        instance_id: member.group_instance_id.as_ref().map(ToString::to_string),
        client_id: member.client_id.to_string(),
        host: member.client_host.to_string(),
        epoch: None,
        owns: owned(&member.member_assignment),
        shall_own: None,
    });
    Ok(Some(Description {
        state: found.group_state.to_string(),
        kind: "classic",
        assignor: found.protocol_data.to_string(),
        epoch: None,
        members: members.collect(),
    }))
}

/// What a member of a classic group got, if its leader said it in the way that consumers do.
fn owned(assignment: &Bytes) -> BTreeSet<TopicPartition> {
    let Ok(assignment) = ConsumerProtocolAssignment::read_lenient(assignment.clone()) else {
        return BTreeSet::new();
    };
    let topics = assignment.assigned_partitions.iter();
    topics
        .flat_map(|topic| {
            let partitions = topic.partitions.iter();
            partitions.map(|partition| TopicPartition::new(&topic.topic, *partition))
        })
        .collect()
}

/// Everything that a group has committed.
pub(super) fn committed(
    session: &Session,
    group: &str,
) -> Result<BTreeMap<TopicPartition, Committed>, Failure> {
    let what = format!("cannot read the offsets of '{group}'");
    // Which of the two forms is sent depends on the version.
    let request = OffsetFetchRequest {
        group_id: group.into(),
        topics: None,
        groups: vec![OffsetFetchRequestGroup {
            group_id: group.into(),
            topics: None,
            ..Default::default()
        }],
        ..Default::default()
    };
    let code = |response: &ResponseBody| match response {
        ResponseBody::OffsetFetch(response) => Some(
            response
                .groups
                .first()
                .map_or(response.error_code, |group| group.error_code),
        ),
        _ => None,
    };
    let response = coordinator::ask(session, group, &what, request, code)?;
    let found = code(&response).unwrap_or_default();
    let ResponseBody::OffsetFetch(response) = response else {
        return Err(Session::unexpected_answer());
    };
    match found {
        ErrorCode::NONE => {}
        ErrorCode::GROUP_ID_NOT_FOUND => return Ok(BTreeMap::new()),
        code => return Err(Failure::failed(refused(&what, code, None))),
    }
    let names = names(session)?;
    let mut committed = BTreeMap::new();
    let mut put = |topic: &str, number: i32, offset: i64, metadata: &Option<Str>| {
        if offset >= 0 {
            let metadata = metadata.as_ref().map(ToString::to_string);
            let metadata = metadata.unwrap_or_default();
            committed.insert(
                TopicPartition::new(topic, number),
                Committed { offset, metadata },
            );
        }
    };
    for topic in response.groups.iter().flat_map(|group| &group.topics) {
        let by_id = names.get(&topic.topic_id).map(String::as_str);
        let name = by_id.unwrap_or(&topic.name);
        for one in &topic.partitions {
            put(
                name,
                one.partition_index,
                one.committed_offset,
                &one.metadata,
            );
        }
    }
    for topic in &response.topics {
        for one in &topic.partitions {
            let name = &topic.name;
            put(
                name,
                one.partition_index,
                one.committed_offset,
                &one.metadata,
            );
        }
    }
    Ok(committed)
}

fn names(session: &Session) -> Result<BTreeMap<TopicId, String>, Failure> {
    let topics = session.topics(None)?.into_iter();
    Ok(topics
        .filter(|topic| topic.topic_id != TopicId::ZERO)
        .filter_map(|topic| Some((topic.topic_id, topic.name?.to_string())))
        .collect())
}

/// Where partitions begin or end; those of which that is not known are left out.
pub(super) fn look_up(
    session: &Session,
    partitions: impl IntoIterator<Item = TopicPartition>,
    spec: OffsetSpec,
) -> Result<BTreeMap<TopicPartition, Option<i64>>, Failure> {
    let wanted: Vec<_> = partitions.into_iter().map(|one| (one, spec)).collect();
    if wanted.is_empty() {
        return Ok(BTreeMap::new());
    }
    let found = session.offsets(wanted)?.into_iter();
    Ok(found
        .filter_map(|(partition, found)| {
            let found = found.ok()?;
            Some((partition, found.offset.map(|offset| offset.0)))
        })
        .collect())
}
