//! Where the newest batches begin and end, so that readers at the tail need no read to find them.

use alloc::collections::VecDeque;

use crate::ids::Offset;

/// How many batches are remembered for a log: about 10 KiB.
const MAX_BATCHES: usize = 256;
/// How many other positions are remembered: where the last scans ended.
const MAX_HINTS: usize = 64;

/// A batch and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecentBatch {
    pub(crate) segment: Offset,
    pub(crate) position: u64,
    pub(crate) end: u64,
    pub(crate) base_offset: Offset,
    pub(crate) next_offset: Offset,
}

/// The newest batches, without a gap between them, and the places where readers left off.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    batches: VecDeque<RecentBatch>,
    hints: VecDeque<Hint>,
}

/// A batch boundary somewhere in the log.
#[derive(Clone, Copy, Debug)]
struct Hint {
    offset: Offset,
    segment: Offset,
    position: u64,
}

impl Recent {
    pub(crate) fn push(&mut self, batch: RecentBatch) {
        if self.batches.len() == MAX_BATCHES {
            self.batches.pop_front();
        }
        self.batches.push_back(batch);
    }

    /// The log ends at `end` now.
    pub(crate) fn cut(&mut self, end: Offset) {
        while self.batches.back().is_some_and(|b| b.next_offset > end) {
            self.batches.pop_back();
        }
        self.hints.retain(|hint| hint.offset <= end);
    }

    /// The segment is gone.
    pub(crate) fn forget_segment(&mut self, segment: Offset) {
        while self.batches.front().is_some_and(|b| b.segment <= segment) {
            self.batches.pop_front();
        }
        self.hints.retain(|hint| hint.segment > segment);
    }

    pub(crate) fn clear(&mut self) {
        self.batches.clear();
        self.hints.clear();
    }

    /// The batches from the one that holds `offset` on; `None` if it is not among the newest.
    pub(crate) fn from(&self, offset: Offset) -> Option<impl Iterator<Item = &RecentBatch>> {
        let first = self.batches.partition_point(|b| b.next_offset <= offset);
        let found = self.batches.get(first)?;
        (found.base_offset <= offset).then(|| self.batches.range(first..))
    }

    /// A reader will go on at `offset`, which is at this place.
    pub(crate) fn note(&mut self, offset: Offset, segment: Offset, position: u64) {
        self.hints.retain(|hint| hint.offset != offset);
        if self.hints.len() == MAX_HINTS {
            self.hints.pop_front();
        }
        self.hints.push_back(Hint {
            offset,
            segment,
            position,
        });
    }

    /// Where the batch that begins at `offset` is in `segment`, if a reader left off there.
    pub(crate) fn hint(&self, offset: Offset, segment: Offset) -> Option<u64> {
        self.hints
            .iter()
            .find(|hint| hint.offset == offset && hint.segment == segment)
            .map(|hint| hint.position)
    }
}
