//! SyncGroup (KIP-62, KIP-559): the assignment of a generation; the leader brings it.

use alloc::vec::Vec;

use crate::broker::State;
use crate::connection::{Answer, RequestId};
use crate::context::Context;
use crate::group::coordinator;
use crate::group::{GroupKind, MemberRef, Sync, SyncReply};
use crate::wire::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};
use crate::wire::{ErrorCode, Str};

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
    if is_consumer(state, index, &group_id) {
        return sync_consumer(state, cx, id, index, &group_id, &sync);
    }
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
    match state.groups.group(index, &request.group_id) {
        Some(_) => Ok(index),
        None => Err(ErrorCode::UNKNOWN_MEMBER_ID),
    }
}

fn is_consumer(state: &State, index: i32, group_id: &str) -> bool {
    let group = state.groups.group(index, group_id);
    group.is_some_and(|group| matches!(group.kind, GroupKind::Consumer(_)))
}

/// A classic member in a consumer group hears what the broker assigned.
fn sync_consumer(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    index: i32,
    group_id: &Str,
    sync: &Sync,
) {
    let now = cx.now;
    let done = coordinator::on_consumer(state, cx, index, group_id, |group, config, topics, _| {
        group.sync_classic(now, config, topics, sync)
    });
    let reply = match done {
        Ok(Some(Ok(reply))) => reply,
        Ok(Some(Err(error))) | Err(error) => SyncReply::refusal(error),
        Ok(None) => SyncReply::refusal(ErrorCode::UNKNOWN_MEMBER_ID),
    };
    let mark = state.groups.mark_of(index, group_id);
    coordinator::answer_when_durable(state, id, &[(index, mark)], response(reply), || {
        let error = ErrorCode::COORDINATOR_NOT_AVAILABLE;
        Answer::from(response(SyncReply::refusal(error)))
    });
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
