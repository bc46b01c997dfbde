//! What the cleaner was replacing when the process stopped, or when the disk refused: the new files are
//! whole, so they take the place of the old ones, in the same order as they would have otherwise.
//!
//! A log that was readable stays so, and the disk may refuse again at any of these operations: readers get
//! the new segment before the first old file goes, and find its files under whichever name they have
//! (see [`Renamed`](crate::log::cleaner::renamed)).

use alloc::vec;
use alloc::vec::Vec;

use crate::bugs::Bug;
use crate::context::Context;
use crate::effect::FileOp;
use crate::ids::{FileId, Offset};
use crate::log::Log;
use crate::log::cleaner::take_over;
use crate::log::load_plan::FoundSwap;
use crate::log::segment::Segment;
use crate::report::Level;

use super::Work;

impl Log {
    /// Completes the swaps, then looks at the directory again.
    pub(super) fn complete_swaps(&mut self, cx: &mut Context<'_>, swaps: &[FoundSwap]) {
        let mut stages = Vec::new();
        if !self.bugs.has(Bug::ForgetSwapSync) {
            // Whoever gave them these names may have come no further.
            stages.push(vec![FileOp::SyncDir(self.dir.clone())]);
        }
        let mut files: Vec<FileId> = Vec::new();
        for swap in swaps {
            if self.loaded {
                files.extend(self.read_from_found(cx, swap));
            }
            stages.extend(take_over(&self.dir, swap.base, &swap.merged, &swap.files));
            cx.report(
                Level::Info,
                "recovery",
                alloc::format!(
                    "dir={} segment={} end={} the cleaner's replacement is completed",
                    self.dir,
                    swap.base,
                    swap.end
                ),
            );
        }
        self.close_files(cx, files);
        if let Some(load) = &mut self.load {
            load.work.push_back(Work::Ops(stages));
            load.work.push_back(Work::Plan);
        }
    }

    /// Readers of a log that is reopened get the new segment instead of the old ones. Returns what these
    /// had open.
    fn read_from_found(&mut self, cx: &mut Context<'_>, swap: &FoundSwap) -> Vec<FileId> {
        let known = self.segments.get(&swap.base);
        if known.is_some_and(|segment| segment.is_swap) {
            // The cleaner has come as far.
            return Vec::new();
        }
        let there = self.segments.range(swap.base..swap.end);
        if there.clone().any(|(_, segment)| segment.tail.is_some()) {
            // The cleaner touches no such segment: what is in the files is no longer what is known.
            self.loaded = false;
            return Vec::new();
        }
        let replaced: Vec<Offset> = there.map(|(base, _)| *base).collect();
        let segment = Segment {
            next_offset: swap.end,
            size: swap.length.0,
            offset_entries: swap.offset_entries,
            time_entries: swap.time_entries,
            max_timestamp: Some(swap.max_timestamp),
            checked_indexes: false,
            ..Segment::new(swap.base, cx.now.wall)
        };
        self.read_from_swap(cx, &replaced, segment)
    }
}
