//! LeaveGroup (KIP-345): members go, of their own or because an administrator says so.

use alloc::vec;
use alloc::vec::Vec;

use crate::broker::State;
use crate::connection::{Answer, RequestId};
use crate::context::Context;
use crate::group::coordinator;
use crate::ids::Offset;
use crate::wire::messages::leave_group::{
    LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse,
};
use crate::wire::{ErrorCode, Str};

/// The first version that names several members.
const BATCHED: i16 = 3;

pub(super) fn handle(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    version: i16,
    request: LeaveGroupRequest,
) {
    let leaving = if version >= BATCHED {
        request.members
    } else {
        vec![MemberIdentity {
            member_id: request.member_id,
            ..Default::default()
        }]
    };
    let mut marks = Vec::new();
    let response = match leave(state, cx, &request.group_id, &leaving, &mut marks) {
        Ok(results) if version >= BATCHED => LeaveGroupResponse {
            members: leaving
                .into_iter()
                .zip(results)
                .map(|(member, result)| MemberResponse {
                    member_id: member.member_id,
                    group_instance_id: member.group_instance_id,
                    error_code: result.err().unwrap_or_default(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        },
        Ok(results) => LeaveGroupResponse {
            error_code: results
                .into_iter()
                .find_map(Result::err)
                .unwrap_or_default(),
            ..Default::default()
        },
        Err(error_code) => LeaveGroupResponse {
            error_code,
            ..Default::default()
        },
    };
    coordinator::answer_when_durable(state, id, &marks, response, || {
        Answer::from(LeaveGroupResponse {
            error_code: ErrorCode::COORDINATOR_NOT_AVAILABLE,
            ..Default::default()
        })
    });
}

fn leave(
    state: &mut State,
    cx: &mut Context<'_>,
    group_id: &Str,
    leaving: &[MemberIdentity],
    marks: &mut Vec<(i32, Offset)>,
) -> Result<Vec<Result<(), ErrorCode>>, ErrorCode> {
    if group_id.is_empty() {
        return Err(ErrorCode::INVALID_GROUP_ID);
    }
    let index = coordinator::shard_of(state, group_id)?;
    let named: Vec<(Str, Option<Str>)> = leaving
        .iter()
        .map(|member| (member.member_id.clone(), member.group_instance_id.clone()))
        .collect();
    let now = cx.now;
    let left = coordinator::on_classic(state, cx, index, group_id, None, |group, config, out| {
        group.leave(now, config, &named, out)
    });
    if let Some(left) = left {
        return Ok(left);
    }
    // Classic members in a consumer group: each is a record.
    let left = coordinator::on_consumer(state, cx, index, group_id, |group, _, _, records| {
        group.leave_classic(group_id, &named, records)
    })?;
    marks.push((index, state.groups.mark_of(index, group_id)));
    // A group that is not there has none of these members.
    Ok(left.unwrap_or_else(|| vec![Err(ErrorCode::UNKNOWN_MEMBER_ID); leaving.len()]))
}
