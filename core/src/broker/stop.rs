//! Stopping: finish what is under way, flush and close every log, and mark the directory clean.

use alloc::format;
use alloc::vec::Vec;

use bytes::Bytes;

use super::start::{CLEAN, CLEAN_MARKER};
use super::state::{Stage, State};
use crate::connection::RequestId;
use crate::context::{Context, Owner};
use crate::effect::Effect;
use crate::group::coordinator;
use crate::ids::{FilePath, OperationId};
use crate::input::DiskError;
use crate::log::{Log, LogState};
use crate::metadata::store::replace_file;
use crate::outstanding::Outstanding;
use crate::partition::{PartitionKey, delayed_fetch};
use crate::report::Level;
use crate::sequence::{Progress, Sequence};

/// A stop under way.
#[derive(Debug)]
pub(crate) enum Stopping {
    /// Requests that were started are being answered.
    Finishing,
    /// Logs are being flushed and closed, first those of partitions.
    Closing(Outstanding<PartitionKey>),
    /// The last recovery points are on their way to the disk.
    Checkpointing,
    /// The clean marker is.
    Marking(Sequence),
}

/// Begins to stop. Fetches that wait are answered with what there is.
pub(super) fn begin(state: &mut State, cx: &mut Context<'_>) {
    match state.stage {
        Stage::Running => {}
        Stage::Stopping(_) | Stage::Over => return,
        // Nothing was served; what is on the disk is as good as after a crash.
        Stage::New | Stage::Starting(_) => return over(state, cx),
    }
    state.stage = Stage::Stopping(Stopping::Finishing);
    let waiting: Vec<RequestId> = state.fetches.keys().copied().collect();
    for request in waiting {
        delayed_fetch::expire(state, cx, request);
    }
    coordinator::stop(state);
}

/// Moves the stop on. True if it moved.
pub(super) fn settle(state: &mut State, cx: &mut Context<'_>) -> bool {
    let Stage::Stopping(stopping) = &mut state.stage else {
        return false;
    };
    match stopping {
        Stopping::Finishing => {
            if state.connections.running() > 0 || !state.topics.is_idle() {
                return false;
            }
            *stopping = Stopping::Closing(state.partitions.keys().copied().collect());
            close_logs(state, cx);
        }
        Stopping::Closing(partitions) => {
            let closed = |log: &Log| log.is_closed() || matches!(log.state(), LogState::Offline(_));
            let is_closed = |key: &PartitionKey| {
                let partition = state.partitions.get(key);
                partition.is_none_or(|partition| closed(partition.log()))
            };
            if !partitions.is_over(is_closed)
                || state.metadata.log().is_some_and(|log| !closed(log))
            {
                return false;
            }
            *stopping = Stopping::Checkpointing;
            state.checkpoint.want(cx.now);
        }
        Stopping::Checkpointing => {
            if !state.checkpoint.is_idle() {
                return false;
            }
            let dirty = |log: &Log| log.is_closed() && !log.closed_cleanly();
            let unclean = state.partitions.values().filter(|p| dirty(p.log())).count();
            if unclean > 0 || state.metadata.log().is_some_and(dirty) {
                cx.report(
                    Level::Warn,
                    "stop",
                    format!("not marked clean, the next start recovers: logs={unclean}"),
                );
                over(state, cx);
                return true;
            }
            let bytes = Bytes::from_static(CLEAN.as_bytes());
            let ops = replace_file(&FilePath::from(CLEAN_MARKER), bytes);
            *stopping = Stopping::Marking(Sequence::start(cx, Owner::Broker, ops));
        }
        Stopping::Marking(_) => return false,
    }
    true
}

/// A file operation ended, perhaps the one that marks the directory clean.
pub(super) fn managed(
    state: &mut State,
    cx: &mut Context<'_>,
    operation: OperationId,
    result: &Result<(), DiskError>,
) {
    let Stage::Stopping(Stopping::Marking(sequence)) = &mut state.stage else {
        return;
    };
    match sequence.complete(cx, operation, result) {
        Progress::NotMine | Progress::Running => return,
        Progress::Done => {}
        Progress::Failed(error) => {
            cx.report(
                Level::Warn,
                "stop",
                format!("cannot mark the data directory clean, the next start recovers: {error}"),
            );
        }
    }
    over(state, cx);
}

fn close_logs(state: &mut State, cx: &mut Context<'_>) {
    let mut ids = Vec::with_capacity(state.partitions.len() + 1);
    for partition in state.partitions.values_mut() {
        partition.log.close(cx);
        ids.push(partition.log.id());
    }
    ids.extend(state.metadata.close(cx));
    ids.into_iter().for_each(|id| state.touch(id));
}

fn over(state: &mut State, cx: &mut Context<'_>) {
    state.stage = Stage::Over;
    cx.out.push(Effect::Stopped);
}
