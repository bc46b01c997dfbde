//! ConsumerGroupHeartbeat (KIP-848): a member of a consumer group joins, stays or leaves, and hears
//! what it shall own.

use alloc::string::ToString;
use alloc::vec::Vec;

use crate::broker::State;
use crate::connection::{Answer, RequestId};
use crate::context::Context;
use crate::group::coordinator::{self, has_room};
use crate::group::{Assignor, Beat, BeatReply, LEAVE, LEAVE_STATIC, Refusal, collect};
use crate::wire::messages::consumer_group_heartbeat::{
    Assignment, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions,
};
use crate::wire::{ErrorCode, Str};

pub(super) fn handle(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    version: i16,
    client_id: Option<Str>,
    mut request: ConsumerGroupHeartbeatRequest,
) {
    if let Err(refusal) = check(version, &request) {
        return state.answer(id, refused(refusal));
    }
    if request.member_id.is_empty() {
        request.member_id = state.new_uuid().into();
    }
    let member_id = request.member_id.detach();
    let group_id = request.group_id.clone();
    let interval_ms = state
        .metadata
        .image()
        .group_config(&state.config.groups, &group_id)
        .consumer_heartbeat_interval_ms;
    match beat(state, cx, id, client_id, request) {
        Ok((index, reply)) => {
            let response = ConsumerGroupHeartbeatResponse {
                member_id: Some(member_id),
                member_epoch: reply.epoch,
                heartbeat_interval_ms: interval_ms,
                assignment: reply.assignment.map(|assigned| Assignment {
                    topic_partitions: assigned
                        .into_iter()
                        .map(|(topic_id, partitions)| TopicPartitions {
                            topic_id,
                            partitions: partitions.into_iter().collect(),
                            ..Default::default()
                        })
                        .collect(),
                    ..Default::default()
                }),
                ..Default::default()
            };
            let mark = state.groups.mark_of(index, &group_id);
            coordinator::answer_when_durable(state, id, &[(index, mark)], response, || {
                Answer::from(refused(plain(ErrorCode::COORDINATOR_NOT_AVAILABLE)))
            });
        }
        Err(refusal) => state.answer(id, refused(refusal)),
    }
}

fn beat(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    client_id: Option<Str>,
    request: ConsumerGroupHeartbeatRequest,
) -> Result<(i32, BeatReply), Refusal> {
    let group_id = request.group_id.clone();
    let index = coordinator::shard_of(state, &group_id).map_err(plain)?;
    let epoch = request.member_epoch;
    let beat = beat_of(state, id, client_id, request);
    if epoch == 0 {
        if !has_room(state) {
            return Err(plain(ErrorCode::GROUP_MAX_SIZE_REACHED));
        }
        // What would be refused in the end must not change the group's kind before.
        beat.check_regex()?;
        coordinator::make_group(state, cx, index, &group_id);
        coordinator::to_consumer(state, cx, index, &group_id)?;
    }
    let now = cx.now;
    let done = coordinator::on_consumer(
        state,
        cx,
        index,
        &group_id,
        |group, config, topics, records| {
            if matches!(epoch, LEAVE | LEAVE_STATIC) {
                let instance_id = beat.instance_id.as_ref();
                group.leave(&group_id, &beat.member_id, instance_id, epoch, records)?;
                return Ok(BeatReply {
                    epoch,
                    assignment: None,
                });
            }
            group.heartbeat(now, config, &group_id, topics, &beat, records)
        },
    );
    match done.map_err(plain)? {
        Some(result) => result.map(|reply| (index, reply)),
        None => Err(not_a_consumer_group(&group_id)),
    }
}

fn beat_of(
    state: &State,
    id: RequestId,
    client_id: Option<Str>,
    request: ConsumerGroupHeartbeatRequest,
) -> Beat {
    // Copies: what is kept must not keep the frame.
    let copy = |text: Option<Str>| text.map(|text| text.detach());
    let owned = request.topic_partitions.map(|given| {
        let given = given.iter();
        collect(given.map(|topic| (topic.topic_id, &topic.partitions)))
    });
    Beat {
        member_id: request.member_id.detach(),
        epoch: request.member_epoch,
        instance_id: copy(request.instance_id),
        rack_id: copy(request.rack_id),
        rebalance_timeout_ms: (request.rebalance_timeout_ms != -1)
            .then_some(request.rebalance_timeout_ms),
        names: request
            .subscribed_topic_names
            .map(|names| names.iter().map(Str::detach).collect::<Vec<_>>()),
        classic: None,
        regex: copy(request.subscribed_topic_regex),
        server_assignor: copy(request.server_assignor),
        owned,
        client_id: copy(client_id).unwrap_or_default(),
        client_host: state.client_host(id),
    }
}

/// What a member may say of itself: it stands in one record.
const MAX_MEMBER_BYTES: usize = 1 << 20;

/// What a request must say, whatever the group.
fn check(version: i16, request: &ConsumerGroupHeartbeatRequest) -> Result<(), Refusal> {
    let invalid = |words: &str| Err((ErrorCode::INVALID_REQUEST, words.to_string()));
    let is_empty = |text: &Option<Str>| text.as_ref().is_some_and(|text| text.is_empty());
    let epoch = request.member_epoch;
    if request.member_id.is_empty() && (version >= 1 || epoch != 0) {
        return invalid("MemberId can't be empty.");
    }
    if request.group_id.is_empty() {
        return invalid("GroupId can't be empty.");
    }
    if is_empty(&request.instance_id) {
        return invalid("InstanceId can't be empty.");
    }
    if is_empty(&request.rack_id) {
        return invalid("RackId can't be empty.");
    }
    let names = request.subscribed_topic_names.iter().flatten();
    if names.map(|name| name.len() + 8).sum::<usize>() > MAX_MEMBER_BYTES {
        return invalid("SubscribedTopicNames is too large.");
    }
    if epoch < LEAVE_STATIC {
        return invalid("MemberEpoch is invalid.");
    }
    if epoch == LEAVE_STATIC && request.instance_id.is_none() {
        return invalid("InstanceId can't be null.");
    }
    if epoch == 0 {
        if request.rebalance_timeout_ms == -1 {
            return invalid("RebalanceTimeoutMs must be provided in first request.");
        }
        if request
            .topic_partitions
            .as_ref()
            .is_none_or(|owned| !owned.is_empty())
        {
            return invalid("TopicPartitions must be empty when (re-)joining.");
        }
        if request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() {
            return invalid(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when \
                 (re-)joining.",
            );
        }
    }
    match &request.server_assignor {
        Some(name) if Assignor::from_name(name).is_none() => {
            let words = alloc::format!(
                "ServerAssignor {name} is not supported. Supported assignors: uniform, range."
            );
            Err((ErrorCode::UNSUPPORTED_ASSIGNOR, words))
        }
        _ => Ok(()),
    }
}

fn not_a_consumer_group(group_id: &Str) -> Refusal {
    let words = alloc::format!("Group {group_id} is not a consumer group.");
    (ErrorCode::GROUP_ID_NOT_FOUND, words)
}

fn plain(error: ErrorCode) -> Refusal {
    (error, error.message().to_string())
}

fn refused((error_code, words): Refusal) -> ConsumerGroupHeartbeatResponse {
    ConsumerGroupHeartbeatResponse {
        error_code,
        error_message: Some(words.into()),
        ..Default::default()
    }
}
