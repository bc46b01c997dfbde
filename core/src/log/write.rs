//! From issued to written to flushed: group commit, and what may be acknowledged.
//!
//! One flush of a file is under way, and what is written meanwhile is covered by the next; or two, if
//! there is enough for the second. The filesystem writes what the second covers while it commits the
//! first, and a client that has a few large requests in flight does not wait for two flushes a round.
//! Small writes are worth more together. No timer delays an acknowledgement.

use crate::bugs::Bug;
use crate::context::Context;
use crate::effect::Effect;
use crate::ids::{FileId, Offset, Position};
use crate::input::DiskError;
use crate::time::Mono;

use super::{Durability, Log, LogState};

impl Log {
    /// Everything of `file` below `up_to` is written.
    pub fn on_written(&mut self, cx: &mut Context<'_>, file: FileId, up_to: Position) {
        // Under `os` nothing may ever be flushed: marks that only a flush needs must not pile up.
        let forget = (self.durability == Durability::Os).then_some(self.acked_end);
        if let Some(segment) = self.segment_of(file) {
            let tail = segment.tail.as_mut().expect("an open segment has a tail");
            tail.note_written(up_to, forget);
        }
        self.advance(cx);
    }

    /// Everything of `file` below `up_to` is durable.
    pub fn on_flushed(&mut self, cx: &mut Context<'_>, file: FileId, up_to: Position) {
        if self.load_flushed(cx, file) {
            return;
        }
        if let Some(segment) = self.segment_of(file) {
            let tail = segment.tail.as_mut().expect("an open segment has a tail");
            tail.note_flushed(up_to);
            if self.flushed_since.is_none() && self.flushed_end() > self.recovery_point.offset {
                self.flushed_since = Some(cx.now.mono);
            }
            self.reopen.went_well();
            if self.checkpoint_wanted(cx.now) {
                self.checkpoint_wanted = true;
            }
        }
        self.advance(cx);
    }

    /// A flush of `file` failed (promise 6): never simply retried.
    pub fn on_flush_failed(&mut self, cx: &mut Context<'_>, file: FileId, error: DiskError) {
        if self.load_flush_failed(cx, file, &error) {
            return;
        }
        if self.segment_of(file).is_none() || !self.is_running() {
            return;
        }
        if self.bugs.has(Bug::RetryFailedFlush) {
            cx.out.push(Effect::Flush { file });
            return;
        }
        self.begin_reopen(cx, error);
        self.advance(cx);
    }

    /// Flushes what the durability in force wants flushed.
    pub(super) fn start_flushes(&mut self, cx: &mut Context<'_>) {
        if self.undo.is_some() {
            // The host drops flushes of the file until it is cut.
            return;
        }
        let demanded = match self.durability {
            Durability::Fsync => true,
            Durability::Os => {
                self.closing.is_some() || self.flush_due.is_some() || self.flush_demanded()
            }
        };
        let beside_bytes = self.config.flush_beside_bytes;
        let mut at = None;
        while let Some(base) = self.next_open(at) {
            at = Some(base);
            let segment = self.segments.get_mut(&base).expect("it was just listed");
            let whole = segment.size;
            let tail = segment.tail.as_mut().expect("an open segment has a tail");
            // A full segment is flushed under `os` too, in the background, so that the recovery
            // point can pass it.
            let wanted = demanded || (tail.full && tail.written.position == whole);
            let unflushed = tail.written.position > tail.flushed.position;
            // Without its name, what is flushed is not durable.
            let is_ready = tail.is_open() && tail.is_named();
            let has_room = tail.flushing.has_room(tail.written, beside_bytes);
            if !is_ready || !wanted || !unflushed || !has_room {
                continue;
            }
            tail.flushing.ask(tail.written);
            let file = segment.file.expect("an open segment has its file");
            cx.out.push(Effect::Flush { file });
        }
    }

    /// Takes note of how far acknowledgements may go.
    pub(super) fn update_acked(&mut self) {
        let flushed = self.flushed_end();
        let reached = match self.durability {
            Durability::Fsync if self.bugs.has(Bug::AckBeforeFlush) => self.written_end(),
            Durability::Fsync => flushed,
            Durability::Os if self.flush_demanded() => flushed,
            Durability::Os => self.written_end(),
        };
        self.acked_end = self.acked_end.max(reached);
        self.producers.forget_undo(self.acked_end);
        let end = self.log_end_offset();
        if flushed == end {
            self.unflushed_since = None;
        }
        // What was to be flushed may have been taken back.
        self.flush_due = self.flush_due.filter(|due| flushed < end.min(*due));
    }

    /// Whether `flush.messages` asks for a flush before the next acknowledgement.
    fn flush_demanded(&self) -> bool {
        if self.bugs.has(Bug::IgnoreFlushMessages) {
            return false;
        }
        let unflushed = self.written_end().0 - self.flushed_end().0;
        self.config
            .flush_messages
            .is_some_and(|most| u64::try_from(unflushed).is_ok_and(|n| n >= most && n > 0))
    }

    /// The end of what is written without a gap. A segment takes writes only once the one before
    /// is written wholly.
    pub(super) fn written_end(&self) -> Offset {
        let open = self.segments.values().rev();
        open.map_while(|segment| segment.tail.as_ref())
            .find(|tail| tail.is_open())
            .map_or(self.acked_end, |tail| tail.written.next_offset)
    }

    /// When `flush.ms` runs out for the oldest unflushed record.
    pub(super) fn flush_deadline(&self) -> Option<Mono> {
        if self.durability == Durability::Fsync || !self.is_running() {
            return None;
        }
        let since = self.unflushed_since?;
        let ms = self.config.flush_ms?;
        (!self.bugs.has(Bug::IgnoreFlushMs)).then(|| since.plus_ms(ms))
    }

    /// Whether records flow, or will with the next append.
    pub(super) const fn is_running(&self) -> bool {
        matches!(self.state, LogState::Ready | LogState::StorageFailed(_))
    }
}
