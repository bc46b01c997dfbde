//! When the recovery point moves, and the epoch checkpoint's file.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::context::Context;
use crate::effect::FileOp;
use crate::ids::FilePath;
use crate::report::Level;
use crate::time::{Mono, Now};

use super::epoch_checkpoint::EpochCheckpoint;
use super::file_names::EPOCH_CHECKPOINT;
use super::tasks::Failure;
use super::{Log, RecoveryPoint, Task};

/// How many flushed bytes an unclean start may have to read at most.
const CHECKPOINT_BYTES: u64 = 64 << 20;
/// For how long flushed data may stay above the recovery point.
const CHECKPOINT_MS: u64 = 5_000;

impl Log {
    /// Whether 64 MiB, or anything for 5 s, of flushed data lie above the recovery point.
    #[must_use]
    pub fn checkpoint_wanted(&self, now: Now) -> bool {
        let flushed = self
            .first_open()
            .and_then(|segment| Some((segment.base, segment.tail.as_ref()?.flushed.position)));
        let bytes = match flushed {
            Some((base, position)) if base == self.recovery_point.segment_base => {
                position - self.recovery_point.position.0.min(position)
            }
            Some((_, position)) => position,
            None => 0,
        };
        let due = self.checkpoint_deadline().is_some_and(|at| at <= now.mono);
        self.is_running() && (due || bytes >= CHECKPOINT_BYTES)
    }

    /// Writes and flushes what the next recovery point needs; [`Log::recovery_point`] moves when
    /// that is done. The log does so by itself when [`Log::checkpoint_wanted`].
    pub fn prepare_checkpoint(&mut self, cx: &mut Context<'_>) {
        self.checkpoint_wanted = true;
        self.advance(cx);
    }

    /// The newest recovery point that is safe to persist.
    #[must_use]
    pub const fn recovery_point(&self) -> RecoveryPoint {
        self.recovery_point
    }

    /// Whether the recovery point has moved since the last call: time to persist it.
    pub const fn take_recovery_point_moved(&mut self) -> bool {
        core::mem::replace(&mut self.recovery_point_moved, false)
    }

    pub(super) fn checkpoint_deadline(&self) -> Option<Mono> {
        if self.checkpoint_wanted || !self.is_running() || self.load.is_some() {
            return None;
        }
        Some(self.flushed_since?.plus_ms(CHECKPOINT_MS))
    }

    /// Whether the epoch checkpoint's file does not say yet what is known.
    pub(super) fn epochs_pending(&self) -> bool {
        self.epochs.is_dirty() || self.has_task(|task| matches!(task, Task::Epochs))
    }

    pub(super) fn write_epochs(&mut self, cx: &mut Context<'_>) {
        if !self.epochs.is_dirty()
            || self.retry_at.is_some()
            || self.has_task(|task| matches!(task, Task::Epochs))
        {
            return;
        }
        self.epochs.mark_written();
        let stages = write_epochs(&self.dir, &self.epochs);
        self.start_task(cx, Task::Epochs, stages);
    }

    pub(super) fn epochs_written(&mut self, cx: &mut Context<'_>, result: Result<(), Failure>) {
        let Err(failure) = result else {
            if let (true, Some((base, mark))) = (self.is_running(), self.next_recovery_point) {
                self.move_recovery_point(base, mark);
            }
            return;
        };
        self.epochs.mark_dirty();
        if !self.is_running() {
            return;
        }
        if failure.flush {
            return self.begin_reopen(cx, failure.error);
        }
        if self.closing.is_some() {
            return self.close_failed(cx, &failure.error);
        }
        if self.told_of_derived.tells(cx.now.mono) {
            cx.report(
                Level::Warn,
                "log",
                alloc::format!(
                    "dir={} the epoch checkpoint waits to be written: {}",
                    self.dir,
                    failure.error
                ),
            );
        }
        self.retry_at = Some(cx.now.mono.plus_ms(1_000));
    }
}

/// The stages that replace the epoch checkpoint's file.
pub(super) fn write_epochs(dir: &FilePath, epochs: &EpochCheckpoint) -> Vec<Vec<FileOp>> {
    let path = dir.join(EPOCH_CHECKPOINT);
    let fresh = dir.join(&alloc::format!("{EPOCH_CHECKPOINT}.tmp"));
    vec![
        vec![FileOp::WriteFile {
            path: fresh.clone(),
            bytes: Bytes::from(epochs.to_text()),
        }],
        vec![FileOp::SyncFile(fresh.clone())],
        vec![FileOp::Rename {
            from: fresh,
            to: path,
        }],
        vec![FileOp::SyncDir(dir.clone())],
    ]
}
