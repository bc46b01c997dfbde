//! A clean stop: everything flushed, the indexes complete, then the files closed.

use alloc::vec::Vec;

use crate::context::Context;
use crate::ids::Offset;
use crate::input::DiskError;
use crate::report::Level;

use super::segment::Mark;
use super::{Log, LogState, Task};

/// How far the closing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// Flushing, rolling, writing index entries.
    Flushing,
    /// All that is durable; the files are being closed.
    Files,
    /// Over.
    Done { clean: bool },
}

impl Log {
    /// Flushes everything and closes. [`Log::is_closed`] says when it is over,
    /// [`Log::closed_cleanly`] how.
    pub fn close(&mut self, cx: &mut Context<'_>) {
        if self.closing.is_none() {
            self.closing = Some(Closing::Flushing);
        }
        self.advance(cx);
        self.advance_close(cx);
    }

    /// Whether a close is over.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self.closing, Some(Closing::Done { .. }))
    }

    /// Whether everything is flushed and [`Log::recovery_point`] is the log's end. Only then may the
    /// log count as clean at the next start.
    #[must_use]
    pub const fn closed_cleanly(&self) -> bool {
        matches!(self.closing, Some(Closing::Done { clean: true }))
    }

    /// Gives up all file ids without flushing: the directory is about to be deleted.
    pub fn abandon(&mut self, cx: &mut Context<'_>) {
        self.closing = Some(Closing::Done { clean: false });
        self.state = LogState::Closed;
        self.load = None;
        self.undo = None;
        self.abandon_cleaning();
        self.reopen.at = None;
        self.retry_at = None;
        let mut files: Vec<_> = self.segments.values().filter_map(|s| s.file).collect();
        files.extend(self.doomed.drain(..).filter_map(|doomed| doomed.file));
        self.segments.clear();
        self.recent.clear();
        self.close_files(cx, files);
    }

    /// Whether the last index entries of a clean stop are still to be written.
    pub(super) fn wants_final_index(&self, base: Offset) -> bool {
        self.closing == Some(Closing::Flushing)
            && self.base_after(base).is_none()
            && !self.epochs_pending()
    }

    /// All that a clean start needs is durable.
    pub(super) fn final_index_written(&mut self, base: Offset, mark: Mark) {
        self.move_recovery_point(base, mark);
        self.closing = Some(Closing::Files);
    }

    pub(super) fn close_failed(&mut self, cx: &mut Context<'_>, error: &DiskError) {
        cx.report(
            Level::Error,
            "log",
            alloc::format!(
                "dir={} could not be closed cleanly: {error}; the next start checks it",
                self.dir
            ),
        );
        self.closing = Some(Closing::Done { clean: false });
    }

    /// Moves a close on.
    pub(super) fn advance_close(&mut self, cx: &mut Context<'_>) {
        match self.closing {
            Some(Closing::Flushing) => match &self.state {
                LogState::Ready | LogState::StorageFailed(_) => {}
                // What is not loaded, or waits to be reopened, is left to the next start.
                LogState::Loading if self.load.is_some() => {}
                LogState::Reopening(error) => {
                    let error = error.clone();
                    self.load = None;
                    self.close_failed(cx, &error);
                }
                LogState::Loading | LogState::Offline(_) | LogState::Closed => {
                    self.closing = Some(Closing::Done { clean: false });
                }
            },
            Some(Closing::Files) if !self.tasks.is_empty() => {}
            Some(Closing::Files) => {
                let files: Vec<_> = self.segments.values().filter_map(|s| s.file).collect();
                if files.is_empty() || self.state == LogState::Closed {
                    self.state = LogState::Closed;
                    self.closing = Some(Closing::Done { clean: true });
                } else {
                    self.state = LogState::Closed;
                    for segment in self.segments.values_mut() {
                        segment.file = None;
                    }
                    self.start_task(
                        cx,
                        Task::CloseFiles(files.clone()),
                        [files
                            .into_iter()
                            .map(crate::effect::FileOp::Close)
                            .collect()]
                        .into(),
                    );
                }
            }
            Some(Closing::Done { .. }) | None => {}
        }
    }
}
