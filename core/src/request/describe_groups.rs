//! DescribeGroups (KIP-1043): classic groups and their members.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use bytes::Bytes;

use super::authorized_operations;
use crate::broker::State;
use crate::bugs::Bug;
use crate::connection::{Answer, RequestId};
use crate::group::coordinator;
use crate::group::{ClassicState, GroupKind};
use crate::ids::Offset;
use crate::wire::messages::describe_groups::{
    DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup, DescribedGroupMember,
};
use crate::wire::{ErrorCode, Str};

/// The first version that says so when there is no such group; before, it was a dead one.
const NOT_FOUND: i16 = 6;

pub(super) fn handle(
    state: &mut State,
    id: RequestId,
    version: i16,
    request: DescribeGroupsRequest,
) {
    let with_operations = request.include_authorized_operations;
    let mut seen = BTreeSet::new();
    let mut asked = request.groups;
    asked.retain(|group| seen.insert(group.clone()));
    if state.bugs.has(Bug::LeaveOutUnknownGroups) {
        asked.retain(|group| describe(state, version, group).is_ok());
    }
    let mut marks: Vec<(i32, Offset)> = Vec::new();
    let groups = asked
        .iter()
        .map(|group_id| match describe(state, version, group_id) {
            Ok((mut group, mark)) => {
                marks.push(mark);
                group.authorized_operations =
                    authorized_operations::of_group(with_operations, group.error_code);
                group
            }
            Err(error) => refused(group_id, error),
        });
    let response = DescribeGroupsResponse {
        groups: groups.collect(),
        ..Default::default()
    };
    coordinator::answer_when_durable(state, id, &marks, response, || {
        let error = ErrorCode::COORDINATOR_NOT_AVAILABLE;
        Answer::from(DescribeGroupsResponse {
            groups: asked.iter().map(|id| refused(id, error)).collect(),
            ..Default::default()
        })
    });
}

fn describe(
    state: &State,
    version: i16,
    group_id: &Str,
) -> Result<(DescribedGroup, (i32, Offset)), ErrorCode> {
    let index = coordinator::shard_of(state, group_id)?;
    let mark = (index, state.groups.mark_of(index, group_id));
    let described = match state.groups.group(index, group_id).map(|group| &group.kind) {
        Some(GroupKind::Classic(classic)) => {
            let is_stable = classic.state() == ClassicState::Stable;
            let protocol = classic.protocol_name().filter(|_| is_stable).cloned();
            let protocol = protocol.unwrap_or_default();
            let members = classic.members().iter().map(|(id, member)| {
                let metadata = member.metadata(&protocol).filter(|_| is_stable).cloned();
                DescribedGroupMember {
                    member_id: id.clone(),
                    group_instance_id: member.instance_id.clone(),
                    client_id: member.client_id.clone(),
                    client_host: member.client_host.clone(),
                    member_metadata: metadata.unwrap_or_default(),
                    member_assignment: if is_stable {
                        member.assignment.clone()
                    } else {
                        Bytes::new()
                    },
                    ..Default::default()
                }
            });
            DescribedGroup {
                error_message: None,
                group_id: group_id.clone(),
                group_state: state_name(classic.state()).into(),
                protocol_type: classic.protocol_type().cloned().unwrap_or_default(),
                members: members.collect(),
                protocol_data: protocol,
                ..Default::default()
            }
        }
        Some(GroupKind::Consumer(_)) => DescribedGroup {
            error_code: ErrorCode::GROUP_ID_NOT_FOUND,
            error_message: Some(format!("Group {group_id} is not a classic group.").into()),
            group_id: group_id.clone(),
            group_state: "Dead".into(),
            ..Default::default()
        },
        None => DescribedGroup {
            group_id: group_id.clone(),
            group_state: "Dead".into(),
            ..not_found(version, group_id)
        },
    };
    Ok((described, mark))
}

fn not_found(version: i16, group_id: &Str) -> DescribedGroup {
    if version < NOT_FOUND {
        return DescribedGroup::default();
    }
    DescribedGroup {
        error_code: ErrorCode::GROUP_ID_NOT_FOUND,
        error_message: Some(format!("Group {group_id} not found.").into()),
        ..Default::default()
    }
}

fn refused(group_id: &Str, error_code: ErrorCode) -> DescribedGroup {
    DescribedGroup {
        error_code,
        group_id: group_id.clone(),
        ..Default::default()
    }
}

/// Kafka's name of a classic group's state.
pub(super) const fn state_name(state: ClassicState) -> &'static str {
    match state {
        ClassicState::Empty => "Empty",
        ClassicState::PreparingRebalance => "PreparingRebalance",
        ClassicState::CompletingRebalance => "CompletingRebalance",
        ClassicState::Stable => "Stable",
    }
}
