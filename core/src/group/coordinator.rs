//! Brings requests and time to the groups, and what they decide to the log and the clients.

mod loading;
mod migration;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use loading::{begin_load, throw_away};
pub(crate) use loading::{log_moved, on_read, partition_gone};
use migration::may_downgrade;
pub(crate) use migration::{to_classic, to_consumer};

use super::classic::{ClassicGroup, MemberRef, Outcome, Reply};
use super::config::GroupConfig;
use super::consumer::{ConsumerGroup, Topics};
use super::expiry;
use super::offsets::CommittedOffset;
use super::record::{batches_of, classic_record, offset_record};
use super::shard::{GROUP_BYTES, Group, GroupKind, Phase, Shard};
use crate::broker::State;
use crate::bugs::Bug;
use crate::connection::{Answer, RequestId};
use crate::context::Context;
use crate::ids::{Offset, OperationId, TopicId};
use crate::log::AppendError;
use crate::metadata::topics::Wanted;
use crate::partition::PartitionKey;
use crate::report::Level;
use crate::request;
use crate::time::Mono;
use crate::wire::coordinator_records::CoordinatorRecord;
use crate::wire::{ErrorCode, Str};

/// The topic that holds the groups, by Kafka's name.
pub(crate) const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// The largest batch of the topic: a record of a group must fit into one.
const MAX_MESSAGE_BYTES: u64 = 8 << 20;

/// What offsets and members of all groups together may hold, roughly. Beyond it no member joins and
/// nothing is committed to new partitions.
const MAX_TOTAL_BYTES: usize = 512 << 20;

/// The first version of OffsetCommit that has a code for a group that is not there (KIP-848).
const GROUP_NOT_FOUND: i16 = 9;

/// All groups of this broker.
#[derive(Debug, Default)]
pub(crate) struct GroupCoordinator {
    shards: BTreeMap<i32, Shard>,
    /// When a group wants to be called, earliest first; equal ones by shard and name.
    deadlines: BTreeSet<(Mono, i32, Str)>,
    /// Requests that wait inside a group: which, and the version to answer in.
    parked: BTreeMap<RequestId, Parked>,
    /// Answers that wait until what they saw is durable.
    held: BTreeMap<RequestId, Held>,
    /// Shards that could not be read, and when they are tried again.
    retries: BTreeSet<(Mono, PartitionKey)>,
    /// When expired offsets are looked for next.
    next_expiry: Option<Mono>,
    /// What all groups hold, roughly.
    bytes: usize,
    /// Rises when topics or partitions come or go.
    topics_version: u64,
}

#[derive(Debug)]
struct Parked {
    shard: i32,
    group: Str,
    version: i16,
}

#[derive(Debug)]
struct Held {
    ok: Answer,
    failed: Answer,
    /// For which shards it waits, up to which offset.
    marks: Vec<(i32, Offset)>,
}

impl GroupCoordinator {
    /// A group of a shard.
    pub(crate) fn group(&self, index: i32, id: &Str) -> Option<&Group> {
        self.shards.get(&index)?.groups.get(id)
    }

    /// Every shard's number, whether its groups can be asked, and its groups by name.
    pub(crate) fn shards(
        &self,
    ) -> impl Iterator<Item = (i32, Result<&BTreeMap<Str, Group>, ErrorCode>)> {
        self.shards
            .iter()
            .map(|(index, shard)| (*index, shard.check().map(|()| &shard.groups)))
    }

    /// Where a shard's log ends.
    pub(crate) fn end_of(&self, index: i32) -> Offset {
        self.shards.get(&index).map_or(Offset(0), |shard| shard.end)
    }

    /// Until where a shard's log must be durable for what is said of a group to hold.
    pub(crate) fn mark_of(&self, index: i32, group: &Str) -> Offset {
        let shard = self.shards.get(&index);
        shard.map_or(Offset(0), |shard| shard.mark_of(group))
    }

    /// How many requests wait inside groups or for their records.
    pub(crate) fn waiting(&self) -> usize {
        self.parked.len() + self.held.len()
    }

    /// When [`on_deadline`] wants to be called.
    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        let group = self.deadlines.first().map(|(at, _, _)| *at);
        let retry = self.retries.first().map(|(at, _)| *at);
        [group, retry, self.next_expiry].into_iter().flatten().min()
    }

    /// Whether a read is one of a shard's.
    pub(crate) fn is_reading(&self, operation: OperationId) -> bool {
        self.reading_shard(operation).is_some()
    }

    fn reading_shard(&self, operation: OperationId) -> Option<i32> {
        let reads = |shard: &Shard| matches!(shard.phase, Phase::Loading(op) if op == operation);
        self.shards
            .iter()
            .find(|(_, shard)| reads(shard))
            .map(|(index, _)| *index)
    }

    /// Begins to look for expired offsets.
    pub(crate) fn schedule_expiry(&mut self, now: Mono, interval_ms: u64) {
        self.next_expiry = Some(now.plus_ms(interval_ms));
    }

    fn arm(&mut self, index: i32, id: &Str) {
        let Some(shard) = self.shards.get_mut(&index) else {
            return;
        };
        let Some(group) = shard.groups.get_mut(id) else {
            return;
        };
        let wanted = group.next_deadline();
        if wanted == group.armed {
            return;
        }
        if let Some(before) = core::mem::replace(&mut group.armed, wanted) {
            self.deadlines.remove(&(before, index, id.clone()));
        }
        if let Some(at) = wanted {
            self.deadlines.insert((at, index, id.detach()));
        }
    }

    /// A group leaves memory.
    fn drop_group(&mut self, index: i32, id: &Str) {
        let Some(shard) = self.shards.get_mut(&index) else {
            return;
        };
        if let Some(group) = shard.groups.remove(id) {
            self.bytes = self.bytes.saturating_sub(group.bytes());
            if let Some(at) = group.armed {
                self.deadlines.remove(&(at, index, id.clone()));
            }
        }
    }

    /// Topics or partitions have come or gone.
    pub(crate) const fn topics_changed(&mut self) {
        self.topics_version += 1;
    }

    /// Counts anew what all groups hold.
    fn weigh(&mut self) {
        let groups = self.shards.values().flat_map(|shard| shard.groups.values());
        self.bytes = groups.map(Group::bytes).sum();
    }
}

/// Whether a topic is the broker's own: clients may read it, not write to it.
pub(crate) fn is_internal(topic: &str) -> bool {
    topic == OFFSETS_TOPIC
}

/// How the topic that holds the groups is made.
pub(crate) fn offsets_topic(state: &State) -> Wanted {
    let config = &state.config.groups;
    let configs = [
        ("cleanup.policy", "compact".to_string()),
        ("compression.type", "producer".to_string()),
        ("max.message.bytes", MAX_MESSAGE_BYTES.to_string()),
        (
            "segment.bytes",
            config
                .topic_segment_bytes
                .max(MAX_MESSAGE_BYTES)
                .to_string(),
        ),
    ];
    Wanted {
        name: OFFSETS_TOPIC.to_string(),
        topic: None,
        partitions: config.topic_partitions,
        configs: configs
            .map(|(name, value)| (name.to_string(), value))
            .to_vec(),
    }
}

/// The partition that holds a group: Java's hash of its name, as every Kafka broker and tool
/// computes it.
fn partition_for(group: &str, partitions: i32) -> i32 {
    let hash = group.encode_utf16().fold(0_i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    });
    hash.checked_abs().unwrap_or(0) % partitions.max(1)
}

/// The shard of a group, if it can be asked now.
pub(crate) fn shard_of(state: &State, group: &str) -> Result<i32, ErrorCode> {
    let topic = state.metadata.image().topic(OFFSETS_TOPIC);
    let topic = topic.ok_or(ErrorCode::COORDINATOR_NOT_AVAILABLE)?;
    let index = partition_for(group, topic.partitions);
    let shard = state.groups.shards.get(&index);
    let shard = shard.ok_or(ErrorCode::COORDINATOR_NOT_AVAILABLE)?;
    if shard.key.topic != topic.id {
        return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
    }
    shard.check()?;
    Ok(index)
}

/// Appends records of a shard; those about offsets and the end of groups take effect.
///
/// # Errors
/// Nothing was appended. If the log did not take it, the shard is thrown away: a group that has
/// changed already must not go on without its record.
pub(super) fn append(
    state: &mut State,
    cx: &mut Context<'_>,
    index: i32,
    records: Vec<CoordinatorRecord>,
) -> Result<(), ErrorCode> {
    let end = store(state, cx, index, &records)?;
    let bugs = state.bugs;
    if let Some(shard) = state.groups.shards.get_mut(&index) {
        for record in records {
            if bugs.has(Bug::CommitOnlyForward) && shard.goes_back(&record) {
                continue;
            }
            shard.replay(cx.now, record, end, true);
        }
    }
    Ok(())
}

/// Appends records that have taken effect already. Returns where the log ends then.
fn store(
    state: &mut State,
    cx: &mut Context<'_>,
    index: i32,
    records: &[CoordinatorRecord],
) -> Result<Offset, ErrorCode> {
    let unavailable = ErrorCode::COORDINATOR_NOT_AVAILABLE;
    let shard = state.groups.shards.get(&index).ok_or(unavailable)?;
    let partition = state.partitions.get_mut(&shard.key).ok_or(unavailable)?;
    let batches = batches_of(records, cx.now.wall);
    let appended = partition.append_as_leader(cx, &batches);
    let log = partition.log.id();
    state.touch(log);
    let end = match appended {
        Ok(info) => info.last_offset.plus(1),
        Err(error) => {
            cx.report(
                Level::Warn,
                "group",
                format!("cannot store: partition={OFFSETS_TOPIC}-{index} {error}"),
            );
            if error == AppendError::Storage {
                let end = state.groups.end_of(index);
                throw_away(state, cx, index, Some(end));
                return Err(unavailable);
            }
            return Err(ErrorCode::INVALID_COMMIT_OFFSET_SIZE);
        }
    };
    if let Some(shard) = state.groups.shards.get_mut(&index) {
        shard.end = end;
    }
    Ok(end)
}

/// Runs an operation on a classic group, and does what it decides. `parked` is the request that may
/// come to wait in it, and the version to answer it in.
pub(crate) fn on_classic<R>(
    state: &mut State,
    cx: &mut Context<'_>,
    index: i32,
    id: &Str,
    parked: Option<(RequestId, i16)>,
    run: impl FnOnce(&mut ClassicGroup, &GroupConfig, &mut Outcome) -> R,
) -> Option<R> {
    let shard = state.groups.shards.get_mut(&index)?;
    let group = shard.groups.get_mut(id)?;
    let GroupKind::Classic(classic) = &mut group.kind else {
        return None;
    };
    if let Some((request, version)) = parked {
        let parked = Parked {
            shard: index,
            group: id.detach(),
            version,
        };
        state.groups.parked.insert(request, parked);
    }
    classic.bugs = state.bugs;
    let before = classic.bytes();
    let mut out = Outcome::default();
    let result = run(classic, &state.config.groups, &mut out);
    let after = classic.bytes();
    state.groups.bytes = state.groups.bytes.saturating_sub(before) + after;
    apply(state, cx, index, id, out);
    Some(result)
}

/// Runs an operation on a consumer group, and stores what it said. `None` if there is no such group
/// of that kind.
///
/// # Errors
/// The records could not be stored; the shard is thrown away with what they said.
pub(crate) fn on_consumer<R>(
    state: &mut State,
    cx: &mut Context<'_>,
    index: i32,
    id: &Str,
    run: impl FnOnce(&mut ConsumerGroup, &GroupConfig, &Topics<'_>, &mut Vec<CoordinatorRecord>) -> R,
) -> Result<Option<R>, ErrorCode> {
    let topics = Topics {
        image: state.metadata.image(),
        version: state.groups.topics_version,
    };
    let shard = state.groups.shards.get_mut(&index);
    let Some(group) = shard.and_then(|shard| shard.groups.get_mut(id)) else {
        return Ok(None);
    };
    let GroupKind::Consumer(consumer) = &mut group.kind else {
        return Ok(None);
    };
    consumer.bugs = state.bugs;
    consumer.may_downgrade = may_downgrade(&state.config.groups, consumer);
    let before = consumer.bytes();
    let mut records = Vec::new();
    let config = topics.image.group_config(&state.config.groups, id);
    let result = run(consumer, &config, &topics, &mut records);
    if consumer.is_to_downgrade() {
        migration::downgrade(state, cx, index, id, before, records)?;
        return Ok(Some(result));
    }
    let after = consumer.bytes();
    state.groups.bytes = state.groups.bytes.saturating_sub(before) + after;
    if records.is_empty() && group.next_deadline() == group.armed && !group.is_nothing() {
        // Nearly always: a heartbeat that says nothing, for which there is nothing to look up below.
        return Ok(Some(result));
    }
    if !records.is_empty() {
        store_changed(state, cx, index, id, &records)?;
    }
    if state.groups.group(index, id).is_some_and(Group::is_nothing) {
        state.groups.drop_group(index, id);
    }
    state.groups.arm(index, id);
    Ok(Some(result))
}

/// Appends what a group that has changed says; if that cannot be, the change must not stay.
fn store_changed(
    state: &mut State,
    cx: &mut Context<'_>,
    index: i32,
    id: &Str,
    records: &[CoordinatorRecord],
) -> Result<(), ErrorCode> {
    match store(state, cx, index, records) {
        Ok(end) => {
            let shard = state.groups.shards.get_mut(&index);
            if let Some(group) = shard.and_then(|shard| shard.groups.get_mut(id)) {
                group.mark = end;
            }
            Ok(())
        }
        Err(error) => {
            if error == ErrorCode::INVALID_COMMIT_OFFSET_SIZE {
                let end = state.groups.end_of(index);
                throw_away(state, cx, index, Some(end));
            }
            Err(ErrorCode::COORDINATOR_NOT_AVAILABLE)
        }
    }
}

/// A group by that name, made if it is not there.
pub(crate) fn make_group(state: &mut State, cx: &Context<'_>, index: i32, id: &Str) {
    if let Some(shard) = state.groups.shards.get_mut(&index)
        && !shard.groups.contains_key(id)
    {
        shard.group_or_new(cx.now, id);
        state.groups.bytes += GROUP_BYTES;
    }
}

/// Whether there is memory for more members and offsets.
pub(crate) const fn has_room(state: &State) -> bool {
    state.groups.bytes < MAX_TOTAL_BYTES
}

fn apply(state: &mut State, cx: &mut Context<'_>, index: i32, id: &Str, out: Outcome) {
    let stored = if out.changed {
        let record = match state.groups.group(index, id).map(|group| &group.kind) {
            Some(GroupKind::Classic(classic)) => Some(classic_record(id, Some(classic))),
            _ => None,
        };
        let result = append(state, cx, index, record.into_iter().collect());
        if result == Err(ErrorCode::INVALID_COMMIT_OFFSET_SIZE) {
            // A state that cannot be stored must not be acted on.
            let end = state.groups.end_of(index);
            throw_away(state, cx, index, Some(end));
        }
        result.map_err(|_| ErrorCode::COORDINATOR_NOT_AVAILABLE)
    } else {
        Ok(())
    };
    if let Some(reason) = out.reason
        && let Some(GroupKind::Classic(classic)) =
            state.groups.group(index, id).map(|group| &group.kind)
    {
        let message = format!(
            "rebalance: group={id} generation={} members={} reason={reason}",
            classic.generation_id(),
            classic.members().len()
        );
        cx.report(Level::Info, "group", message);
    }
    for (request, reply) in out.answers {
        send(state, request, reply);
    }
    let mark = match out.durable[..] {
        [] => Offset(0),
        _ => state.groups.mark_of(index, id),
    };
    for (request, reply) in out.durable {
        match stored {
            Ok(()) => {
                let Some(parked) = state.groups.parked.remove(&request) else {
                    continue;
                };
                let lost = reply.refused(ErrorCode::COORDINATOR_NOT_AVAILABLE);
                let ok = request::group_reply(reply, parked.version);
                let failed = || request::group_reply(lost, parked.version);
                answer_when_durable(state, request, &[(index, mark)], ok, failed);
            }
            Err(error) => send(state, request, reply.refused(error)),
        }
    }
    if state.groups.group(index, id).is_some_and(Group::is_nothing) {
        state.groups.drop_group(index, id);
    }
    state.groups.arm(index, id);
}

/// Answers a request that may have waited in a group.
fn send(state: &mut State, request: RequestId, reply: Reply) {
    if let Some(parked) = state.groups.parked.remove(&request) {
        let body = request::group_reply(reply, parked.version);
        state.answer(request, body);
    }
}

/// Answers once each shard's log is durable up to its mark: `ok` then, `failed` if that is lost.
pub(crate) fn answer_when_durable(
    state: &mut State,
    request: RequestId,
    marks: &[(i32, Offset)],
    ok: impl Into<Answer>,
    failed: impl FnOnce() -> Answer,
) {
    let mut waits = Vec::new();
    for (index, offset) in marks {
        if let Some(shard) = state.groups.shards.get_mut(index)
            && shard.durable < *offset
        {
            shard.waits.insert((*offset, request));
            waits.push((*index, *offset));
        }
    }
    if waits.is_empty() {
        return state.answer(request, ok);
    }
    let held = Held {
        ok: ok.into(),
        failed: failed(),
        marks: waits,
    };
    state.groups.held.insert(request, held);
}

/// Commits offsets of a group: checks who commits, and appends in the same step.
pub(crate) fn commit(
    state: &mut State,
    cx: &mut Context<'_>,
    id: &Str,
    member: &MemberRef,
    version: i16,
    offsets: &[(Str, i32, CommittedOffset)],
) -> Result<i32, ErrorCode> {
    let index = shard_of(state, id)?;
    if state.groups.group(index, id).is_none() && member.generation_id >= 0 {
        return Err(if version >= GROUP_NOT_FOUND {
            ErrorCode::GROUP_ID_NOT_FOUND
        } else {
            ErrorCode::ILLEGAL_GENERATION
        });
    }
    if !has_room(state) {
        let known = |(topic, partition, _): &(Str, i32, CommittedOffset)| {
            let group = state.groups.group(index, id);
            group.is_some_and(|group| group.offsets.get(topic, *partition).is_some())
        };
        if !offsets.iter().all(known) {
            return Err(ErrorCode::INVALID_COMMIT_OFFSET_SIZE);
        }
    }
    match state.groups.group(index, id).map(|group| &group.kind) {
        None => {}
        Some(GroupKind::Consumer(_)) if state.bugs.has(Bug::CommitWithoutFencing) => {}
        Some(GroupKind::Consumer(consumer)) => {
            consumer.validate_commit(&member.member_id, member.generation_id, version)?;
        }
        Some(GroupKind::Classic(_)) => {
            let now = cx.now;
            on_classic(state, cx, index, id, None, |group, _, _| {
                group.validate_commit(now, member)
            })
            .unwrap_or(Err(ErrorCode::UNKNOWN_MEMBER_ID))?;
        }
    }
    let records = offsets
        .iter()
        .map(|(topic, partition, offset)| offset_record(id, topic, *partition, Some(offset)))
        .collect();
    let before = state.groups.group(index, id).map_or(0, Group::bytes);
    append(state, cx, index, records)?;
    let after = state.groups.group(index, id).map_or(0, Group::bytes);
    state.groups.bytes = state.groups.bytes.saturating_sub(before) + after;
    Ok(index)
}

/// Deletes offsets of a group.
pub(crate) fn delete_offsets(
    state: &mut State,
    cx: &mut Context<'_>,
    index: i32,
    id: &Str,
    partitions: &[(Str, i32)],
) -> Result<(), ErrorCode> {
    let Some(group) = state.groups.group(index, id) else {
        return Ok(());
    };
    let records: Vec<_> = partitions
        .iter()
        .filter(|(topic, partition)| group.offsets.get(topic, *partition).is_some())
        .map(|(topic, partition)| offset_record(id, topic, *partition, None))
        .collect();
    if records.is_empty() {
        return Ok(());
    }
    let before = group.bytes();
    append(state, cx, index, records)?;
    let after = state.groups.group(index, id).map_or(0, Group::bytes);
    state.groups.bytes = state.groups.bytes.saturating_sub(before) + after;
    Ok(())
}

/// Deletes a group that nobody is in, with its offsets.
pub(crate) fn delete_group(
    state: &mut State,
    cx: &mut Context<'_>,
    index: i32,
    id: &Str,
) -> Result<(), ErrorCode> {
    let group = state.groups.group(index, id);
    let group = group.ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?;
    if !group.is_empty() {
        return Err(ErrorCode::NON_EMPTY_GROUP);
    }
    let records = expiry::deletion(id, group);
    delete(state, cx, index, id, records)
}

/// Appends records of which the last ends the group.
fn delete(
    state: &mut State,
    cx: &mut Context<'_>,
    index: i32,
    id: &Str,
    records: Vec<CoordinatorRecord>,
) -> Result<(), ErrorCode> {
    let group = state.groups.group(index, id);
    let (armed, before) = group.map_or((None, 0), |group| (group.armed, group.bytes()));
    append(state, cx, index, records)?;
    let after = state.groups.group(index, id).map(Group::bytes);
    state.groups.bytes = state.groups.bytes.saturating_sub(before) + after.unwrap_or(0);
    if after.is_none()
        && let Some(at) = armed
    {
        state.groups.deadlines.remove(&(at, index, id.clone()));
    }
    Ok(())
}

/// Does what is due.
pub(crate) fn on_deadline(state: &mut State, cx: &mut Context<'_>) {
    let now = cx.now;
    while let Some((at, index, id)) = state.groups.deadlines.first().cloned() {
        if at > now.mono {
            break;
        }
        state.groups.deadlines.pop_first();
        let shard = state.groups.shards.get_mut(&index);
        if let Some(group) = shard.and_then(|shard| shard.groups.get_mut(&id)) {
            group.armed = None;
        }
        on_classic(state, cx, index, &id, None, |group, config, out| {
            group.on_deadline(now, config, out);
        });
        let _ = on_consumer(state, cx, index, &id, |group, _, _, records| {
            group.on_deadline(now, &id, records);
        });
    }
    while let Some((at, key)) = state.groups.retries.first().copied() {
        if at > now.mono {
            break;
        }
        state.groups.retries.pop_first();
        begin_load(state, cx, key);
    }
    if state.groups.next_expiry.is_some_and(|at| at <= now.mono) {
        let interval_ms = state.config.groups.offsets_retention_check_interval_ms;
        state.groups.schedule_expiry(now.mono, interval_ms);
        expire_offsets(state, cx);
    }
}

fn expire_offsets(state: &mut State, cx: &mut Context<'_>) {
    let retention_ms = state.config.groups.offsets_retention_ms;
    let mut expired: Vec<(i32, Str, Vec<CoordinatorRecord>)> = Vec::new();
    for (index, groups) in state.groups.shards() {
        for (id, group) in groups.into_iter().flatten() {
            let records = expiry::expired(id, group, cx.now.wall, retention_ms);
            if !records.is_empty() {
                expired.push((index, id.clone(), records));
            }
        }
    }
    let (mut groups, mut offsets) = (0, 0);
    for (index, id, records) in expired {
        let count = records.len();
        if delete(state, cx, index, &id, records).is_ok() {
            let gone = usize::from(state.groups.group(index, &id).is_none());
            groups += gone;
            offsets += count - gone;
        }
    }
    if groups + offsets > 0 {
        let message = format!("expired: groups={groups} offsets={offsets}");
        cx.report(Level::Info, "group", message);
        state.groups.weigh();
    }
}

/// A topic was deleted: what was committed for it goes (a topic made anew by that name begins
/// without).
pub(crate) fn topic_deleted(state: &mut State, cx: &mut Context<'_>, topic: &str, id: TopicId) {
    let mut stale: Vec<(i32, Vec<CoordinatorRecord>)> = Vec::new();
    for (index, groups) in state.groups.shards() {
        let mut records = Vec::new();
        for (group_id, group) in groups.into_iter().flatten() {
            let of_topic = group.offsets.topics().find(|(name, _)| **name == topic);
            let Some((name, partitions)) = of_topic else {
                continue;
            };
            for (partition, offset) in partitions {
                if offset.topic_id == id || offset.topic_id == TopicId::ZERO {
                    records.push(offset_record(group_id, name, *partition, None));
                }
            }
        }
        if !records.is_empty() {
            stale.push((index, records));
        }
    }
    let is_any = !stale.is_empty();
    for (index, records) in stale {
        // If it fails the offsets stay until they expire; they name the old topic's id.
        let _ = append(state, cx, index, records);
    }
    if is_any {
        state.groups.weigh();
    }
}

/// The connection of a request is closed.
pub(crate) fn forget(state: &mut State, cx: &mut Context<'_>, request: RequestId) {
    if let Some(held) = state.groups.held.remove(&request) {
        for (index, offset) in held.marks {
            if let Some(shard) = state.groups.shards.get_mut(&index) {
                shard.waits.remove(&(offset, request));
            }
        }
    }
    if let Some(parked) = state.groups.parked.remove(&request) {
        let now = cx.now;
        on_classic(
            state,
            cx,
            parked.shard,
            &parked.group,
            None,
            |group, _, _| {
                group.forget(now, request);
            },
        );
    }
}

/// The broker stops: whoever waits in a group is sent to look for another coordinator.
pub(crate) fn stop(state: &mut State) {
    let mut evicted = Vec::new();
    for shard in state.groups.shards.values_mut() {
        for group in shard.groups.values_mut() {
            if let GroupKind::Classic(classic) = &mut group.kind {
                evicted.extend(classic.evict(ErrorCode::COORDINATOR_NOT_AVAILABLE));
            }
        }
    }
    for (request, reply) in evicted {
        send(state, request, reply);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_where_kafka_looks_for_them() {
        // What Java's "...".hashCode() says.
        assert_eq!(partition_for("", 50), 0);
        assert_eq!(partition_for("group", 50), 98_629_247 % 50);
        assert_eq!(partition_for("console-consumer-1", 50), 35_782_224 % 50);
        assert_eq!(
            partition_for("polygenelubricants", 50),
            0,
            "its hash is i32::MIN"
        );
        assert_eq!(partition_for("group", 1), 0);
    }
}
