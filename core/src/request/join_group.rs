//! JoinGroup (KIP-62, KIP-345, KIP-394): a member enters the next generation of a classic group.

use alloc::format;
use alloc::vec::Vec;

use crate::broker::State;
use crate::connection::RequestId;
use crate::context::Context;
use crate::group::coordinator::{self, has_room};
use crate::group::{Join, JoinReply};
use crate::wire::messages::join_group::{
    JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember,
};
use crate::wire::{ErrorCode, Str};

pub(super) fn handle(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    version: i16,
    client_id: Option<Str>,
    request: JoinGroupRequest,
) {
    let group_id = request.group_id.clone();
    let member_id = request.member_id.clone();
    let placed = place(state, cx, &request);
    let index = match placed {
        Ok(index) => index,
        Err(error) => {
            return state.answer(id, response(JoinReply::refusal(error, member_id), version));
        }
    };
    let join = join_of(state, id, version, client_id, request);
    let now = cx.now;
    coordinator::on_classic(
        state,
        cx,
        index,
        &group_id,
        Some((id, version)),
        |group, config, out| group.join(now, config, join, out),
    );
}

/// The shard of the group, which is there then.
fn place(
    state: &mut State,
    cx: &Context<'_>,
    request: &JoinGroupRequest,
) -> Result<i32, ErrorCode> {
    if request.group_id.is_empty() {
        return Err(ErrorCode::INVALID_GROUP_ID);
    }
    let index = coordinator::shard_of(state, &request.group_id)?;
    let timeout_ms = u64::try_from(request.session_timeout_ms).unwrap_or(0);
    let limits = &state.config.groups;
    if !(limits.min_session_timeout_ms..=limits.max_session_timeout_ms).contains(&timeout_ms) {
        return Err(ErrorCode::INVALID_SESSION_TIMEOUT);
    }
    if state.groups.group(index, &request.group_id).is_none() {
        // Only one who knows no id yet founds a group.
        if !request.member_id.is_empty() {
            return Err(ErrorCode::UNKNOWN_MEMBER_ID);
        }
        if !has_room(state) {
            return Err(ErrorCode::GROUP_MAX_SIZE_REACHED);
        }
        coordinator::make_group(state, cx, index, &request.group_id);
    } else if request.member_id.is_empty() && !has_room(state) {
        return Err(ErrorCode::GROUP_MAX_SIZE_REACHED);
    }
    Ok(index)
}

fn join_of(
    state: &mut State,
    id: RequestId,
    version: i16,
    client_id: Option<Str>,
    request: JoinGroupRequest,
) -> Join {
    let session_timeout_ms = u64::try_from(request.session_timeout_ms).unwrap_or(0);
    let client_id = client_id.map_or_else(Str::new, |id| id.detach());
    let instance_id = request.group_instance_id.map(|id| id.detach());
    let named_after = instance_id.as_ref().unwrap_or(&client_id);
    let new_member_id = format!("{named_after}-{}", state.new_uuid()).into();
    let protocols: Vec<_> = request
        .protocols
        .iter()
        .map(|protocol| {
            // Copies: what is kept must not keep the frame.
            let metadata = bytes::Bytes::copy_from_slice(&protocol.metadata);
            (protocol.name.detach(), metadata)
        })
        .collect();
    Join {
        request: id,
        member_id: request.member_id.detach(),
        requires_known_member_id: version >= 4 && instance_id.is_none(),
        instance_id,
        client_id,
        client_host: state.client_host(id),
        session_timeout_ms,
        rebalance_timeout_ms: u64::try_from(request.rebalance_timeout_ms)
            .unwrap_or(session_timeout_ms),
        protocol_type: request.protocol_type.detach(),
        protocols,
        new_member_id,
        may_skip_assignment: version >= 9,
    }
}

pub(super) fn response(reply: JoinReply, version: i16) -> JoinGroupResponse {
    let members = reply.members.into_iter();
    JoinGroupResponse {
        error_code: reply.error,
        generation_id: reply.generation_id,
        protocol_type: reply.protocol_type,
        // Null is possible from version 7 on.
        protocol_name: match reply.protocol_name {
            None if version < 7 => Some(Str::new()),
            name => name,
        },
        leader: reply.leader,
        skip_assignment: reply.skip_assignment,
        member_id: reply.member_id,
        members: members
            .map(
                |(member_id, group_instance_id, metadata)| JoinGroupResponseMember {
                    member_id,
                    group_instance_id,
                    metadata,
                    ..Default::default()
                },
            )
            .collect(),
        ..Default::default()
    }
}
