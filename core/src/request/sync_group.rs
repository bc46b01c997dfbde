//! SyncGroup (KIP-62, KIP-559): the assignment of a generation; the leader brings it.

use alloc::vec::Vec;

use crate::broker::State;
use crate::connection::RequestId;
use crate::context::Context;
use crate::group::coordinator;
use crate::group::{MemberRef, Sync, SyncReply};
use crate::wire::ErrorCode;
use crate::wire::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};

pub(super) fn handle(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    version: i16,
    request: SyncGroupRequest,
) {
    let group_id = request.group_id.clone();
    let index = match place(state, &request) {
        Ok(index) => index,
        Err(error) => return state.answer(id, response(SyncReply::refusal(error))),
    };
    let assignments: Vec<_> = request
        .assignments
        .iter()
        .map(|given| {
            let assignment = bytes::Bytes::copy_from_slice(&given.assignment);
            (given.member_id.clone(), assignment)
        })
        .collect();
    let sync = Sync {
        request: id,
        member: MemberRef {
            member_id: request.member_id,
            instance_id: request.group_instance_id,
            generation_id: request.generation_id,
        },
        protocol_type: request.protocol_type,
        protocol_name: request.protocol_name,
        assignments,
    };
    let now = cx.now;
    coordinator::on_classic(
        state,
        cx,
        index,
        &group_id,
        Some((id, version)),
        |group, config, out| group.sync(now, config, sync, out),
    );
}

fn place(state: &State, request: &SyncGroupRequest) -> Result<i32, ErrorCode> {
    if request.group_id.is_empty() {
        return Err(ErrorCode::INVALID_GROUP_ID);
    }
    let index = coordinator::shard_of(state, &request.group_id)?;
    let group = state.groups.group(index, &request.group_id);
    group.ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
    Ok(index)
}

pub(super) fn response(reply: SyncReply) -> SyncGroupResponse {
    SyncGroupResponse {
        error_code: reply.error,
        protocol_type: reply.protocol_type,
        protocol_name: reply.protocol_name,
        assignment: reply.assignment,
        ..Default::default()
    }
}
