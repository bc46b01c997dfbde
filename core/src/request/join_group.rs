//! JoinGroup (KIP-62, KIP-345, KIP-394): a member enters the next generation of a classic group.

use alloc::format;
use alloc::vec::Vec;

use crate::broker::State;
use crate::connection::{Answer, RequestId};
use crate::context::Context;
use crate::group::coordinator::{self, has_room};
use crate::group::{Join, JoinReply, MAX_GROUP_BYTES, protocol_bytes};
use crate::wire::messages::join_group::{
    JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember,
};
use crate::wire::{ErrorCode, Str};

/// The first version that has a timeout of its own for rebalances (KIP-62). A negative one is over at
/// once, as in Kafka.
const REBALANCE_TIMEOUT: i16 = 1;

/// The longest name that a member id begins with: with a dash and 36 characters behind it, the id must
/// still be one that a client can say.
const MAX_PREFIX_BYTES: usize = i16::MAX as usize - 37;

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
    let placed = check_weight(&request).and_then(|()| place(state, cx, &request));
    let (index, into) = match placed {
        Ok(placed) => placed,
        Err(error) => {
            return state.answer(id, response(JoinReply::refusal(error, member_id), version));
        }
    };
    let join = join_of(state, id, version, client_id, request);
    let now = cx.now;
    if let Into::Consumer = into {
        return join_consumer(state, cx, (id, version), index, &group_id, join);
    }
    coordinator::on_classic(
        state,
        cx,
        index,
        &group_id,
        Some((id, version)),
        |group, config, out| group.join(now, config, join, out),
    );
}

/// What kind of group somebody joins.
enum Into {
    Classic,
    /// One with members, for which the broker assigns.
    Consumer,
}

/// A classic member in a consumer group: there is nobody to wait for but the disk.
fn join_consumer(
    state: &mut State,
    cx: &mut Context<'_>,
    (id, version): (RequestId, i16),
    index: i32,
    group_id: &Str,
    join: Join,
) {
    let now = cx.now;
    let member_id = join.member_id.clone();
    let done = coordinator::on_consumer(
        state,
        cx,
        index,
        group_id,
        |group, config, topics, records| {
            group.join_classic(now, config, group_id, topics, join, records)
        },
    );
    let refused = |error| JoinReply::refusal(error, member_id.clone());
    let reply = match done {
        Ok(Some(reply)) => reply,
        Ok(None) => refused(ErrorCode::UNKNOWN_MEMBER_ID),
        Err(error) => refused(error),
    };
    let mark = state.groups.mark_of(index, group_id);
    let ok = response(reply, version);
    coordinator::answer_when_durable(state, id, &[(index, mark)], ok, || {
        Answer::from(response(
            refused(ErrorCode::COORDINATOR_NOT_AVAILABLE),
            version,
        ))
    });
}

/// What no group has room for is not even copied.
fn check_weight(request: &JoinGroupRequest) -> Result<(), ErrorCode> {
    let protocols = request.protocols.iter();
    let weights = protocols.map(|it| protocol_bytes(it.name.len(), it.metadata.len()));
    if weights.sum::<usize>() > MAX_GROUP_BYTES {
        return Err(ErrorCode::GROUP_MAX_SIZE_REACHED);
    }
    Ok(())
}

/// The shard of the group, which is there then, and its kind.
fn place(
    state: &mut State,
    cx: &mut Context<'_>,
    request: &JoinGroupRequest,
) -> Result<(i32, Into), ErrorCode> {
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
        return Ok((index, Into::Classic));
    } else if request.member_id.is_empty() && !has_room(state) {
        return Err(ErrorCode::GROUP_MAX_SIZE_REACHED);
    }
    match coordinator::to_classic(state, cx, index, &request.group_id) {
        Ok(()) => Ok((index, Into::Classic)),
        Err(ErrorCode::NON_EMPTY_GROUP) => Ok((index, Into::Consumer)),
        Err(error) => Err(error),
    }
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
    let named_after: &str = instance_id.as_ref().unwrap_or(&client_id);
    let (named_after, _) = named_after.split_at(named_after.floor_char_boundary(MAX_PREFIX_BYTES));
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
        rebalance_timeout_ms: if version < REBALANCE_TIMEOUT {
            session_timeout_ms
        } else {
            u64::try_from(request.rebalance_timeout_ms).unwrap_or(0)
        },
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
