//! Groups change from one protocol to the other: those that nobody is in whenever somebody asks, the
//! others as `group.consumer.migration.policy` allows.
//!
//! The records of the new kind come before the tombstones of the old one, so that a log that ends in
//! between has the group either way.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use super::{on_classic, send, store_changed};
use crate::broker::State;
use crate::context::Context;
use crate::group::classic::ClassicGroup;
use crate::group::config::GroupConfig;
use crate::group::consumer::{ConsumerGroup, Refusal, Topics};
use crate::group::record::classic_record;
use crate::group::shard::{Group, GroupKind};
use crate::report::Level;
use crate::wire::coordinator_records::CoordinatorRecord;
use crate::wire::{ErrorCode, Str};

/// Makes a group a consumer group, with its members if there are any; its offsets stay.
///
/// # Errors
/// With words for the client: it may not become one, or it could not be stored.
pub(crate) fn to_consumer(
    state: &mut State,
    cx: &mut Context<'_>,
    index: i32,
    id: &Str,
) -> Result<(), Refusal> {
    let shard = state.groups.shards.get_mut(&index);
    let group = shard.and_then(|shard| shard.groups.get_mut(id));
    let plain = |error: ErrorCode| (error, error.message().into());
    let group = group.ok_or_else(|| plain(ErrorCode::GROUP_ID_NOT_FOUND))?;
    let is_empty = group.is_empty();
    let before = group.bytes();
    let GroupKind::Classic(classic) = &mut group.kind else {
        return Ok(());
    };
    let mut records = Vec::new();
    let mut waiting = Vec::new();
    let consumer = if is_empty {
        ConsumerGroup::default()
    } else {
        let topics = Topics {
            image: state.metadata.image(),
            version: state.groups.topics_version,
        };
        let config = &state.config.groups;
        let consumer =
            ConsumerGroup::from_classic(cx.now, config, id, classic, &topics, &mut records)?;
        waiting = classic.evict(ErrorCode::REBALANCE_IN_PROGRESS);
        consumer
    };
    if classic.generation_id() != 0 {
        records.push(classic_record(id, None));
    }
    let members = consumer.members().len();
    group.kind = GroupKind::Consumer(Box::new(consumer));
    let after = group.bytes();
    state.groups.bytes = state.groups.bytes.saturating_sub(before) + after;
    for (request, reply) in waiting {
        send(state, request, reply);
    }
    if members > 0 {
        let message = format!("upgraded: group={id} classic_members={members}");
        cx.report(Level::Info, "group", message);
    }
    if !records.is_empty() {
        store_changed(state, cx, index, id, &records).map_err(plain)?;
    }
    state.groups.arm(index, id);
    Ok(())
}

/// Makes a group that nobody is in a classic group; its offsets stay.
///
/// # Errors
/// `NON_EMPTY_GROUP` if consumers of the other protocol are in it, or it could not be stored.
pub(crate) fn to_classic(
    state: &mut State,
    cx: &mut Context<'_>,
    index: i32,
    id: &Str,
) -> Result<(), ErrorCode> {
    let shard = state.groups.shards.get_mut(&index);
    let group = shard.and_then(|shard| shard.groups.get_mut(id));
    let group = group.ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?;
    let before = group.bytes();
    let records = match &group.kind {
        GroupKind::Classic(_) => return Ok(()),
        GroupKind::Consumer(consumer) if !consumer.members().is_empty() => {
            return Err(ErrorCode::NON_EMPTY_GROUP);
        }
        GroupKind::Consumer(consumer) => consumer.tombstones(id),
    };
    group.kind = GroupKind::Classic(Box::new(ClassicGroup::new(cx.now)));
    let after = group.bytes();
    state.groups.bytes = state.groups.bytes.saturating_sub(before) + after;
    if !records.is_empty() {
        store_changed(state, cx, index, id, &records)?;
    }
    state.groups.arm(index, id);
    Ok(())
}

/// Whether a consumer group may become a classic one.
pub(super) fn may_downgrade(config: &GroupConfig, group: &ConsumerGroup) -> bool {
    // One member may be about to leave.
    config.migration_policy.downgrades() && group.members().len() <= config.max_size
}

/// Makes a consumer group in which only classic members are left a classic group, and has them join
/// again. `before` is what it held, `records` what is to be stored before.
pub(super) fn downgrade(
    state: &mut State,
    cx: &mut Context<'_>,
    index: i32,
    id: &Str,
    before: usize,
    mut records: Vec<CoordinatorRecord>,
) -> Result<(), ErrorCode> {
    let topics = Topics {
        image: state.metadata.image(),
        version: state.groups.topics_version,
    };
    let shard = state.groups.shards.get_mut(&index);
    let group: Option<&mut Group> = shard.and_then(|shard| shard.groups.get_mut(id));
    let Some(group) = group else {
        return Ok(());
    };
    let GroupKind::Consumer(consumer) = &group.kind else {
        return Ok(());
    };
    let classic = ClassicGroup::from_consumer(cx.now, consumer, &topics);
    records.push(classic_record(id, Some(&classic)));
    records.extend(consumer.tombstones(id));
    let members = classic.members().len();
    let after = classic.bytes();
    group.kind = GroupKind::Classic(Box::new(classic));
    state.groups.bytes = state.groups.bytes.saturating_sub(before) + after;
    let message = format!("downgraded: group={id} members={members}");
    cx.report(Level::Info, "group", message);
    store_changed(state, cx, index, id, &records)?;
    let now = cx.now;
    on_classic(state, cx, index, id, None, |group, config, out| {
        group.begin_sessions(now, config, out);
    });
    Ok(())
}
