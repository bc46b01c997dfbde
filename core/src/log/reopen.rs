//! After a failed flush (promise 6): the log takes no records, acknowledges nothing that waits, and
//! reopens after a back-off in the way of every unclean start.

use alloc::collections::BTreeSet;

use crate::bugs::Bug;
use crate::context::Context;
use crate::input::{DiskError, DiskErrorKind};
use crate::report::Level;
use crate::time::Mono;

use super::load::Load;
use super::{Log, LogState};

const FIRST_BACK_OFF_MS: u64 = 100;
const LAST_BACK_OFF_MS: u64 = 30_000;

/// When to try again.
#[derive(Debug, Default)]
pub(crate) struct Reopen {
    /// Failures since the last flush that went well.
    failures: u32,
    /// The next try; `None` until nothing is under way any more.
    pub(crate) at: Option<Mono>,
    /// The kinds of failures that were reported since the last flush that went well: what goes on
    /// failing in the same way is said once.
    reported: BTreeSet<DiskErrorKind>,
}

impl Reopen {
    pub(crate) fn went_well(&mut self) {
        self.failures = 0;
        self.reported.clear();
    }

    const fn back_off_ms(&self) -> u64 {
        let doublings = self.failures.saturating_sub(1);
        let doublings = if doublings > 16 { 16 } else { doublings };
        let ms = FIRST_BACK_OFF_MS << doublings;
        if ms > LAST_BACK_OFF_MS {
            LAST_BACK_OFF_MS
        } else {
            ms
        }
    }
}

impl Log {
    /// Stops taking records and gives up all open files.
    pub(super) fn begin_reopen(&mut self, cx: &mut Context<'_>, error: DiskError) {
        if matches!(
            self.state,
            LogState::Reopening(_) | LogState::Offline(_) | LogState::Closed
        ) {
            return;
        }
        self.reopen.failures += 1;
        self.reopen.at = None;
        let is_news = self.reopen.reported.insert(error.kind);
        if is_news || self.bugs.has(Bug::ReportEachReopening) {
            cx.report(
                Level::Error,
                "log",
                alloc::format!(
                    "dir={} offset={} reopening in {} ms, and again until it succeeds, after a \
                     failure: {error}; records that were not acknowledged may be lost",
                    self.dir,
                    self.acked_end,
                    self.reopen.back_off_ms()
                ),
            );
        }
        self.note_lost(self.acked_end, &error);
        self.state = LogState::Reopening(error);
        self.undo = None;
        self.abandon_cleaning();
        self.checkpoint_wanted = false;
        self.next_recovery_point = None;
        self.flushed_since = None;
        self.unflushed_since = None;
        self.flush_due = None;
        self.retry_at = None;
        let mut files = alloc::vec::Vec::new();
        let mut at = None;
        while let Some(base) = self.next_open(at) {
            at = Some(base);
            let segment = self.segments.get_mut(&base).expect("it was just listed");
            files.extend(segment.file.take());
        }
        self.close_files(cx, files);
    }

    /// Waits until nothing is under way, so that no late write meets the recovery.
    pub(super) fn advance_reopen(&mut self, cx: &mut Context<'_>) {
        if self.reopen.at.is_none() && self.tasks.is_empty() && self.load.is_none() {
            self.reopen.at = Some(cx.now.mono.plus_ms(self.reopen.back_off_ms()));
        }
    }

    pub(super) fn reopen_if_due(&mut self, cx: &mut Context<'_>) {
        if self.reopen.at.is_none_or(|at| at > cx.now.mono) || self.closing.is_some() {
            return;
        }
        self.reopen.at = None;
        if self.bugs.has(Bug::NeverReopen) {
            return;
        }
        let load = Load::open(Some(self.recovery_point), self.acked_end, false);
        self.start_load(cx, load);
    }
}
