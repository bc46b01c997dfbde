//! After a failed or short write (promise 7): the log goes back to what is written, whole batches
//! only, and answers with an error what is taken back. Nobody has seen those offsets: they lie above
//! the high watermark. The next append tries again.

use alloc::vec;
use alloc::vec::Vec;

use crate::bugs::Bug;
use crate::context::Context;
use crate::effect::FileOp;
use crate::ids::{FileId, Offset, Position};
use crate::input::DiskError;
use crate::report::Level;

use super::file_names::{OF_EACH_SEGMENT, SegmentFile};
use super::segment::{Flushing, Mark, NewFiles, Phase};
use super::tasks::Failure;
use super::{Log, LogState, Lost, Task};

/// What must be done before the log takes records again.
#[derive(Debug)]
pub(crate) struct Undo {
    /// The file to cut, and where.
    cut: Option<(FileId, Position)>,
    /// Segments that were begun and are not wanted now.
    remove: Vec<Offset>,
    /// What is being done of it. A write can fail while a failed roll is taken back, so there may be
    /// more to do when this is over.
    running: Option<Running>,
}

/// The part of an undo that is under way.
#[derive(Debug)]
struct Running {
    cuts: Option<FileId>,
}

impl Log {
    /// A write of `file` failed or was short; `written` is the end of the written prefix.
    pub fn on_write_failed(
        &mut self,
        cx: &mut Context<'_>,
        file: FileId,
        written: Position,
        error: DiskError,
    ) {
        if !self.is_running() || self.load.is_some() {
            return;
        }
        let bugs = self.bugs;
        let Some(segment) = self.segment_of(file) else {
            return;
        };
        let (base, whole) = (segment.base, Position(segment.size));
        let tail = segment.tail.as_mut().expect("an open segment has a tail");
        if bugs.has(Bug::BelieveFailedWrite) {
            tail.note_written(whole, None);
            return self.advance(cx);
        }
        tail.note_written(written, None);
        let mark = tail.written;
        let cut = Some((file, Position(mark.position)));
        self.take_back(cx, base, mark, cut, error);
        self.advance(cx);
    }

    /// A new segment could not be made, or the one before not be closed: what waits for it is taken
    /// back.
    pub(super) fn roll_failed(&mut self, cx: &mut Context<'_>, error: DiskError) {
        if !self.is_running() {
            return;
        }
        let mut last_open = None;
        let mut at = None;
        while let Some(base) = self.next_open(at) {
            at = Some(base);
            let segment = self.segments.get(&base).expect("it was just listed");
            let tail = segment.tail.as_ref().expect("an open segment has a tail");
            if tail.is_open() {
                let ends = tail.marks.back().into_iter();
                let end = ends
                    .chain([&tail.written, &tail.flushed])
                    .max_by_key(|mark| mark.position);
                last_open = Some((base, *end.expect("there are at least two")));
            }
        }
        // With no open segment before it, the new one follows a closed segment. It stays, empty, and
        // its files are made with the next append.
        let Some((base, mark)) = last_open.or_else(|| {
            let base = self.next_open(None)?;
            Some((base, Mark::start_of(base)))
        }) else {
            return;
        };
        self.take_back(cx, base, mark, None, error);
    }

    /// The log ends at `mark`, in the segment at `base`, now.
    fn take_back(
        &mut self,
        cx: &mut Context<'_>,
        base: Offset,
        mark: Mark,
        cut: Option<(FileId, Position)>,
        error: DiskError,
    ) {
        let mut remove = Vec::new();
        while let Some((&last, segment)) = self.segments.last_key_value() {
            if last <= base {
                break;
            }
            debug_assert!(
                segment.file.is_none(),
                "nothing was written behind a failed write"
            );
            remove.push(last);
            self.segments.remove(&last);
        }
        let segment = self.segments.get_mut(&base).expect("the caller has it");
        segment.cut_to(mark);
        if let Some(tail) = &mut segment.tail
            && let Phase::Opening { held } = &mut tail.phase
        {
            held.clear();
            tail.files = NewFiles::Missing;
        }
        let end = mark.next_offset;
        self.epochs.truncate(end);
        self.take_back_producers(end);
        self.recent.cut(end);
        self.note_lost(end, &error);
        if self.told_of_writes.tells(cx.now.mono) {
            cx.report(
                Level::Error,
                "log",
                alloc::format!(
                    "dir={} offset={end} a write failed: {error}; nothing acknowledged is lost, the \
                     next append tries again",
                    self.dir
                ),
            );
        }
        self.state = LogState::StorageFailed(error);
        match &mut self.undo {
            Some(undo) => {
                undo.cut = cut.or(undo.cut);
                undo.remove.extend(remove);
            }
            None => {
                self.undo = Some(Undo {
                    cut,
                    remove,
                    running: None,
                });
            }
        }
    }

    /// Whoever waits for an offset at or above `from` fails.
    pub(super) fn note_lost(&mut self, from: Offset, error: &DiskError) {
        let from = self.lost.as_ref().map_or(from, |lost| lost.from.min(from));
        self.lost = Some(Lost {
            from,
            error: error.clone(),
        });
    }

    /// Cuts the file and removes what was begun, once nothing else is at work on those files.
    pub(super) fn advance_undo(&mut self, cx: &mut Context<'_>) {
        if self.has_task(|task| matches!(task, Task::Create(_) | Task::Name(_))) {
            return;
        }
        let Some(undo) = self.undo.as_mut().filter(|undo| undo.running.is_none()) else {
            return;
        };
        let (cut, remove) = (undo.cut.take(), core::mem::take(&mut undo.remove));
        undo.running = Some(Running {
            cuts: cut.map(|(file, _)| file),
        });
        let mut ops = Vec::new();
        let mut syncs = Vec::new();
        if let Some((file, length)) = cut {
            ops.push(FileOp::Truncate { file, length });
            // The cut must not be lost: nothing else may ever be written to this segment, and then
            // what was cut would come back with a power loss and lie in the middle of the log.
            let cut = self
                .segments
                .values()
                .rev()
                .find(|segment| segment.file == Some(file));
            if let Some(segment) = cut {
                syncs.push(FileOp::SyncFile(
                    SegmentFile::Log.path(&self.dir, segment.base),
                ));
            }
        }
        for base in &remove {
            for file in OF_EACH_SEGMENT {
                ops.push(FileOp::RemoveFile(file.path(&self.dir, *base)));
            }
        }
        if !remove.is_empty() {
            syncs.push(FileOp::SyncDir(self.dir.clone()));
        }
        self.start_task(cx, Task::Undo, vec![ops, syncs]);
    }

    pub(super) fn undone(&mut self, cx: &mut Context<'_>, result: Result<(), Failure>) {
        let undo = self.undo.take();
        if !self.is_running() {
            return;
        }
        if let Err(failure) = result {
            // Nothing is known of the file any more but what a start would find out.
            return self.begin_reopen(cx, failure.error);
        }
        let Some(mut undo) = undo else {
            return;
        };
        let cuts = undo.running.take().and_then(|running| running.cuts);
        if let Some(tail) = cuts
            .and_then(|file| self.segment_of(file))
            .and_then(|segment| segment.tail.as_mut())
        {
            // Flushes that were queued behind the failed write were dropped; the others have ended, since
            // the cut waited for them.
            tail.flushing = Flushing::default();
        }
        if undo.cut.is_some() || !undo.remove.is_empty() {
            self.undo = Some(undo);
        }
    }
}
