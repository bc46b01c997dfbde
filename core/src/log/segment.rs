//! A segment: one log file and its two indexes.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::context::{Context, LogId};
use crate::effect::{Effect, FLUSHES_AT_ONCE, WriteData};
use crate::ids::{FileId, FilePath, Offset, Position};
use crate::time::Wall;

use super::file_names::{SWAP, SegmentFile};
use super::index_builder::IndexState;
use super::offset_index::OffsetEntry;
use super::time_index::TimeEntry;
use super::verified::Verified;

/// A segment of the log.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Offset of its first record, and its name.
    pub(crate) base: Offset,
    /// The offset that follows its last record.
    pub(crate) next_offset: Offset,
    /// Bytes of its log file, those still to be written included.
    pub(crate) size: u64,
    /// The log file's id, once something needed it.
    pub(crate) file: Option<FileId>,
    /// Entries of the offset index that are in the file.
    pub(crate) offset_entries: u32,
    /// Entries of the time index that are in the file.
    pub(crate) time_entries: u32,
    /// Largest timestamp, or -1; `None` if it was not read yet. A segment with a tail has it there.
    pub(crate) max_timestamp: Option<i64>,
    /// Largest timestamp of its first batch; `None` if it was not read. A segment with a tail has it
    /// there.
    pub(crate) first_timestamp: Option<i64>,
    /// Whether its indexes were built or checked in this process.
    pub(crate) checked_indexes: bool,
    /// What was appended, scanned or checked at a read in this process.
    pub(crate) verified: Verified,
    /// What [`Log::layout`](super::Log::layout) was when its files came.
    pub(crate) since: u64,
    /// Whether the cleaner has written it and its files still have the names that say so.
    pub(crate) is_swap: bool,
    /// What only a segment has that is not closed.
    pub(crate) tail: Option<Box<Tail>>,
}

/// The part of a segment that is still on its way to the disk. A segment is closed, and loses its
/// tail, once all its bytes and index entries are flushed and a next segment is there.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) phase: Phase,
    /// Whether its files are there.
    pub(crate) files: NewFiles,
    /// Whether a next segment has begun: nothing is appended here any more.
    pub(crate) full: bool,
    /// Ends of batches above what is flushed (under `os`: above what is written), rising.
    pub(crate) marks: VecDeque<Mark>,
    /// The last batch that is written.
    pub(crate) written: Mark,
    /// The last batch that is flushed.
    pub(crate) flushed: Mark,
    /// The flushes that are under way.
    pub(crate) flushing: Flushing,
    /// The indexes at the end of the segment.
    pub(crate) index: IndexState,
    /// Entries of the offset index that are not in the file yet.
    pub(crate) offset_tail: VecDeque<OffsetEntry>,
    /// Entries of the time index that are not in the file yet.
    pub(crate) time_tail: VecDeque<TimeEntry>,
    /// Whether the last of its index entries are being written, since it is full and flushed. A roll
    /// that fails meanwhile takes that back: more may follow, of which the entries say nothing.
    pub(crate) is_closing: bool,
    /// Whether index entries were written but not flushed.
    pub(crate) indexes_unsynced: bool,
    /// Largest timestamp of the first batch.
    pub(crate) first_timestamp: Option<i64>,
    /// Once it is full: the producers at its end, for the snapshot of the next segment.
    pub(crate) snapshot: Option<Bytes>,
    /// When the segment began, for records without timestamps.
    pub(crate) created: Wall,
}

/// Flushes of a segment's file that have not completed.
#[derive(Debug, Default)]
pub(crate) struct Flushing {
    under_way: usize,
    /// What was written when each was asked for, rising. A completion does not say which flush it is
    /// of, and need not: what it covers is flushed, whoever asked.
    asked: VecDeque<Mark>,
}

impl Flushing {
    /// Whether a flush of what is written up to here is to be asked for: none is under way, or there
    /// is room for one more beside them, which covers at least `beside_bytes` that they do not.
    pub(crate) fn has_room(&self, written: Mark, beside_bytes: u64) -> bool {
        if self.under_way == 0 {
            return true;
        }
        let covered = self.asked.back().map_or(0, |mark| mark.position);
        self.under_way < FLUSHES_AT_ONCE && written.position >= covered + beside_bytes.max(1)
    }

    pub(crate) fn ask(&mut self, written: Mark) {
        self.under_way += 1;
        self.asked.push_back(written);
    }

    /// One has ended, and everything below `up_to` is flushed. The last of the marks that were asked
    /// for and are reached.
    fn end(&mut self, up_to: Position) -> Option<Mark> {
        self.under_way = self.under_way.saturating_sub(1);
        let mut reached = None;
        while let Some(mark) = self.asked.pop_front_if(|mark| mark.position <= up_to.0) {
            reached = Some(mark);
        }
        reached
    }

    const fn is_under_way(&self) -> bool {
        self.under_way > 0
    }
}

/// Whether a segment takes writes.
#[derive(Debug)]
pub(crate) enum Phase {
    /// Its files are not ready yet, or the segment before is not: writes are held back.
    Opening { held: Vec<(Position, WriteData)> },
    /// Writes go to the file.
    Open,
}

/// The files of a segment that is being created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewFiles {
    Missing,
    Creating,
    /// They are there, but a power cut may take their names.
    Made,
    Durable,
}

/// A boundary between two batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Where the batch before it ends.
    pub(crate) position: u64,
    /// The offset that follows it.
    pub(crate) next_offset: Offset,
    /// The indexes up to it.
    pub(crate) index: IndexState,
}

impl Mark {
    pub(crate) const fn start_of(base: Offset) -> Self {
        Self {
            position: 0,
            next_offset: base,
            index: IndexState::start_of(base),
        }
    }
}

impl Segment {
    /// A new, empty segment whose files are not there yet.
    pub(crate) fn new(base: Offset, created: Wall) -> Self {
        let mut tail = Tail::at(
            Mark::start_of(base),
            Phase::Opening { held: Vec::new() },
            created,
        );
        tail.files = NewFiles::Missing;
        Self {
            base,
            next_offset: base,
            size: 0,
            file: None,
            offset_entries: 0,
            time_entries: 0,
            max_timestamp: None,
            first_timestamp: None,
            checked_indexes: true,
            verified: Verified::default(),
            since: 0,
            is_swap: false,
            tail: Some(Box::new(tail)),
        }
    }

    /// The log file's id; binds one if there is none yet.
    pub(crate) fn file(&mut self, cx: &mut Context<'_>, log: LogId, dir: &FilePath) -> FileId {
        if let Some(file) = self.file {
            return file;
        }
        let length = self
            .tail
            .as_ref()
            .map_or(self.size, |tail| tail.written.position);
        let file = cx.routes.new_file(log);
        self.file = Some(file);
        cx.out.push(Effect::Open {
            file,
            path: if self.is_swap {
                SegmentFile::Log.path_with(dir, self.base, SWAP)
            } else {
                SegmentFile::Log.path(dir, self.base)
            },
            length: Position(length),
        });
        file
    }

    /// Bytes of its log file that readers may see when they may see offsets below `limit`.
    pub(crate) fn visible_bytes(&self, limit: Offset) -> u64 {
        let Some(tail) = &self.tail else {
            return self.size;
        };
        if limit >= self.next_offset {
            return self.size;
        }
        let below = tail.marks.partition_point(|mark| mark.next_offset <= limit);
        below
            .checked_sub(1)
            .and_then(|last| tail.marks.get(last))
            .into_iter()
            .chain([&tail.written, &tail.flushed])
            .filter(|mark| mark.next_offset <= limit)
            .map(|mark| mark.position)
            .max()
            .unwrap_or(tail.written.position)
    }

    /// Forgets the batches above `mark`, which never became visible.
    pub(crate) fn cut_to(&mut self, mark: Mark) {
        let tail = self
            .tail
            .as_mut()
            .expect("only a segment with a tail is cut");
        self.size = mark.position;
        self.next_offset = mark.next_offset;
        self.verified.cut(mark.position);
        tail.full = false;
        tail.is_closing = false;
        tail.snapshot = None;
        tail.marks.retain(|m| m.position <= mark.position);
        tail.index = mark.index;
        tail.offset_tail
            .truncate((mark.index.offset_entries - self.offset_entries) as usize);
        tail.time_tail
            .truncate((mark.index.time_entries - self.time_entries) as usize);
        if mark.position == 0 {
            tail.first_timestamp = None;
        }
    }
}

impl Tail {
    /// A segment all of which is flushed up to `end`, and whose files are durable.
    pub(crate) fn at(end: Mark, phase: Phase, created: Wall) -> Self {
        Self {
            phase,
            files: NewFiles::Durable,
            full: false,
            is_closing: false,
            marks: VecDeque::new(),
            written: end,
            flushed: end,
            flushing: Flushing::default(),
            index: end.index,
            offset_tail: VecDeque::new(),
            time_tail: VecDeque::new(),
            indexes_unsynced: false,
            first_timestamp: None,
            snapshot: None,
            created,
        }
    }

    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Whether no power cut takes the names of its files.
    pub(crate) const fn is_named(&self) -> bool {
        matches!(self.files, NewFiles::Durable)
    }

    /// Everything below `up_to` is written. `forget` drops the marks that only a flush would need:
    /// those below what is acknowledged, whose own mark says where readers must stop.
    pub(crate) fn note_written(&mut self, up_to: Position, forget: Option<Offset>) {
        let count = self.marks.partition_point(|mark| mark.position <= up_to.0);
        if let Some(last) = count.checked_sub(1).and_then(|last| self.marks.get(last))
            && last.position > self.written.position
        {
            self.written = *last;
        }
        if let Some(acked_end) = forget
            && !self.flushing.is_under_way()
        {
            let below = self.marks.partition_point(|m| m.next_offset < acked_end);
            self.marks.drain(..below.min(count));
        }
    }

    /// Everything below `up_to` is flushed.
    pub(crate) fn note_flushed(&mut self, up_to: Position) {
        let count = self.marks.partition_point(|mark| mark.position <= up_to.0);
        let newest = count.checked_sub(1).and_then(|last| self.marks.get(last));
        let asked = self.flushing.end(up_to);
        for mark in newest.copied().into_iter().chain(asked) {
            if mark.position > self.flushed.position {
                self.flushed = mark;
            }
            // A flush may report what the write's own completion has not yet.
            if mark.position > self.written.position {
                self.written = mark;
            }
        }
        self.marks.drain(..count);
    }
}
