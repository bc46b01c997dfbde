//! Heartbeat: a member of a classic group is alive, and hears whether to join again.

use crate::broker::State;
use crate::connection::RequestId;
use crate::context::Context;
use crate::group::MemberRef;
use crate::group::coordinator;
use crate::wire::ErrorCode;
use crate::wire::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};

pub(super) fn handle(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    request: HeartbeatRequest,
) {
    let error_code = heartbeat(state, cx, request).err().unwrap_or_default();
    let response = HeartbeatResponse {
        error_code,
        ..Default::default()
    };
    state.answer(id, response);
}

fn heartbeat(
    state: &mut State,
    cx: &mut Context<'_>,
    request: HeartbeatRequest,
) -> Result<(), ErrorCode> {
    if request.group_id.is_empty() {
        return Err(ErrorCode::INVALID_GROUP_ID);
    }
    let index = match coordinator::shard_of(state, &request.group_id) {
        // Members need not join anew because the groups are being read; they are given time then.
        Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) => return Ok(()),
        other => other?,
    };
    let member = MemberRef {
        member_id: request.member_id,
        instance_id: request.group_instance_id,
        generation_id: request.generation_id,
    };
    let now = cx.now;
    let group_id = &request.group_id;
    let classic = coordinator::on_classic(state, cx, index, group_id, None, |group, _, _| {
        group.heartbeat(now, &member)
    });
    if let Some(result) = classic {
        return result;
    }
    // A classic member in a consumer group.
    let consumer = coordinator::on_consumer(state, cx, index, group_id, |group, config, _, _| {
        group.heartbeat_classic(now, config, &member)
    })?;
    consumer.unwrap_or(Err(ErrorCode::UNKNOWN_MEMBER_ID))
}
