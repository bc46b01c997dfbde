//! Between the log of a partition and the groups in it: they are read, thrown away when the log lost
//! something that they hold, and read again.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::{OFFSETS_TOPIC, send};
use crate::broker::State;
use crate::bugs::Bug;
use crate::connection::RequestId;
use crate::context::{Context, Owner};
use crate::group::load::LoadGroups;
use crate::group::shard::{Group, GroupKind, Phase, Shard};
use crate::ids::{Offset, OperationId};
use crate::input::{DiskError, DiskErrorKind};
use crate::log::LogState;
use crate::partition::PartitionKey;
use crate::read_job::{ReadJob, ReadOutput};
use crate::report::Level;
use crate::wire::coordinator_records::CoordinatorRecord;
use crate::wire::{ErrorCode, Str};

/// After how long a shard that could not be read is tried again.
const READ_RETRY_MS: u64 = 5_000;

/// Something happened to the log of a partition of the topic.
pub(crate) fn log_moved(
    state: &mut State,
    cx: &mut Context<'_>,
    key: PartitionKey,
    lost: Option<Offset>,
) {
    let Some(partition) = state.partitions.get(&key) else {
        return;
    };
    let durable = partition.high_watermark();
    let shards = &mut state.groups.shards;
    let shard = shards.entry(key.index).or_insert_with(|| Shard::new(key));
    if shard.key != key {
        // The topic was deleted and made anew.
        throw_away(state, cx, key.index, None);
        state.groups.shards.insert(key.index, Shard::new(key));
    }
    if let Some(from) = lost {
        throw_away(state, cx, key.index, Some(from));
    }
    let Some(shard) = state.groups.shards.get_mut(&key.index) else {
        return;
    };
    for request in shard.take_durable(durable) {
        let durable_now = |state: &State, (index, offset): &(i32, Offset)| {
            let shard = state.groups.shards.get(index);
            shard.is_some_and(|shard| shard.durable >= *offset)
        };
        let Some(mut held) = state.groups.held.remove(&request) else {
            continue;
        };
        held.marks.retain(|mark| !durable_now(state, mark));
        if held.marks.is_empty() {
            state.answer(request, held.ok);
        } else {
            state.groups.held.insert(request, held);
        }
    }
    begin_load(state, cx, key);
}

/// A partition of the topic is gone.
pub(crate) fn partition_gone(state: &mut State, cx: &mut Context<'_>, key: PartitionKey) {
    let known = state.groups.shards.get(&key.index);
    if known.is_some_and(|shard| shard.key == key) {
        throw_away(state, cx, key.index, None);
        state.groups.shards.remove(&key.index);
    }
}

/// The state of a shard may not be what the log says: it goes, and so does everybody who waits for
/// more than what is below `from`, or without it for anything.
pub(super) fn throw_away(
    state: &mut State,
    cx: &mut Context<'_>,
    index: i32,
    from: Option<Offset>,
) {
    let Some(shard) = state.groups.shards.get_mut(&index) else {
        return;
    };
    let was_active = shard.check().is_ok();
    shard.phase = Phase::Unread;
    let groups = core::mem::take(&mut shard.groups);
    if was_active {
        // Groups that are still being read do not count yet.
        let bytes: usize = groups.values().map(Group::bytes).sum();
        state.groups.bytes = state.groups.bytes.saturating_sub(bytes);
    }
    let first_lost = from.map_or(Offset(i64::MIN), |from| from.plus(1));
    let lost = shard.waits.split_off(&(first_lost, RequestId(0)));
    state
        .groups
        .deadlines
        .retain(|(_, shard, _)| *shard != index);
    for (_, request) in lost {
        if let Some(held) = state.groups.held.remove(&request) {
            for (other, offset) in &held.marks {
                if let Some(shard) = state.groups.shards.get_mut(other) {
                    shard.waits.remove(&(*offset, request));
                }
            }
            state.answer(request, held.failed);
        }
    }
    let mut parked = 0;
    for mut group in groups.into_values() {
        if let GroupKind::Classic(classic) = &mut group.kind {
            for (request, reply) in classic.evict(ErrorCode::COORDINATOR_NOT_AVAILABLE) {
                parked += 1;
                send(state, request, reply);
            }
        }
    }
    if from.is_some() {
        cx.report(
            Level::Warn,
            "group",
            format!(
                "records of groups were lost, the groups are read again: \
                 partition={OFFSETS_TOPIC}-{index} waiting_members={parked}"
            ),
        );
    }
}

/// Reads a shard from its log, if it is to be read and the log can be.
pub(super) fn begin_load(state: &mut State, cx: &mut Context<'_>, key: PartitionKey) {
    let Some(partition) = state.partitions.get(&key) else {
        return;
    };
    let unread = |shard: &&mut Shard| matches!(shard.phase, Phase::Unread);
    let Some(shard) = state.groups.shards.get_mut(&key.index).filter(unread) else {
        return;
    };
    if let LogState::Offline(_) = partition.log().state() {
        shard.phase = Phase::Damaged;
        return;
    }
    if partition.log().takes_records() {
        shard.groups.clear();
        let start = partition.log().log_start_offset();
        load_from(state, cx, key, start);
    }
}

fn load_from(state: &mut State, cx: &mut Context<'_>, key: PartitionKey, next: Offset) {
    let Some(partition) = state.partitions.get(&key) else {
        return;
    };
    let end = partition.log().log_end_offset();
    let Some(shard) = state.groups.shards.get_mut(&key.index) else {
        return;
    };
    if next < end {
        match partition.log().replay_records(next, end) {
            Some(records) => {
                let job = ReadJob::LoadGroups(LoadGroups(records));
                shard.phase = Phase::Loading(cx.read(Owner::Broker, job));
            }
            // The log is not what it was; it will be heard of again.
            None => shard.phase = Phase::Unread,
        }
        return;
    }
    shard.end = end;
    let image = state.metadata.image();
    shard.loaded(cx.now, |id| image.group_config(&state.config.groups, id));
    let offsets: usize = shard.groups.values().map(|group| group.offsets.len()).sum();
    cx.report(
        Level::Info,
        "group",
        format!(
            "loaded: partition={OFFSETS_TOPIC}-{} groups={} offsets={offsets} offset={end}",
            key.index,
            shard.groups.len()
        ),
    );
    state.groups.bytes += shard.groups.values().map(Group::bytes).sum::<usize>();
    let ids: Vec<Str> = shard.groups.keys().cloned().collect();
    for id in &ids {
        state.groups.arm(key.index, id);
    }
}

/// A read for a shard ended.
pub(crate) fn on_read(
    state: &mut State,
    cx: &mut Context<'_>,
    operation: OperationId,
    result: Result<ReadOutput, DiskError>,
) {
    let Some(index) = state.groups.reading_shard(operation) else {
        return;
    };
    let Some(shard) = state.groups.shards.get_mut(&index) else {
        return;
    };
    let key = shard.key;
    let read = match result {
        Ok(ReadOutput::Groups(read)) => *read,
        Ok(other) => return damaged(state, cx, index, &format!("unexpected {other}")),
        // What the disk refuses now it may give later; what it gives and is wrong stays wrong.
        Err(error) if error.kind != DiskErrorKind::Other => {
            shard.phase = Phase::Unread;
            let at = cx.now.mono.plus_ms(READ_RETRY_MS);
            state.groups.retries.insert((at, key));
            let message = format!(
                "groups cannot be read, trying again: partition={OFFSETS_TOPIC}-{index} {error}"
            );
            return cx.report(Level::Warn, "group", message);
        }
        Err(error) => return damaged(state, cx, index, &error.to_string()),
    };
    let layout = state.partitions.get(&key).map(|p| p.log().layout());
    if layout.is_some_and(|layout| layout != read.layout) {
        // The cleaner put other files in the place of those that were read.
        return load_from(state, cx, key, read.offset);
    }
    let mut records = read.records;
    if state.bugs.has(Bug::ForgetLastCommit) {
        records.pop_if(|last| matches!(last, CoordinatorRecord::OffsetCommit(..)));
    }
    for record in records {
        shard.replay(cx.now, record, read.next_offset, false);
    }
    match read.damage {
        Some(why) => damaged(state, cx, index, &why),
        None => load_from(state, cx, key, read.next_offset),
    }
}

fn damaged(state: &mut State, cx: &mut Context<'_>, index: i32, why: &str) {
    if let Some(shard) = state.groups.shards.get_mut(&index) {
        shard.phase = Phase::Damaged;
        shard.groups.clear();
    }
    cx.report(
        Level::Error,
        "group",
        format!(
            "groups cannot be read, and are out of service: partition={OFFSETS_TOPIC}-{index} \
             {why}; restore the partition from a copy, or delete the topic {OFFSETS_TOPIC} to begin \
             without committed offsets"
        ),
    );
}
