//! What the cleaner was replacing when the process stopped: the new files are whole, so they take the
//! place of the old ones, in the same order as they would have without the stop.

use alloc::vec::Vec;

use crate::context::Context;
use crate::ids::FileId;
use crate::log::Log;
use crate::log::cleaner::take_over;
use crate::log::load_plan::FoundSwap;
use crate::report::Level;

use super::Work;

impl Log {
    /// Completes the swaps, then looks at the directory again.
    pub(super) fn complete_swaps(&mut self, cx: &mut Context<'_>, swaps: &[FoundSwap]) {
        // A log that is reopened is not readable until it is known what is in its files.
        self.loaded = false;
        let mut stages = Vec::new();
        let mut files: Vec<FileId> = Vec::new();
        for swap in swaps {
            stages.extend(take_over(&self.dir, swap.base, &swap.merged, &swap.files));
            let old = self.segments.range_mut(swap.base..swap.end);
            let old = old.filter(|(_, segment)| !segment.is_swap);
            files.extend(old.filter_map(|(_, segment)| segment.file.take()));
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
}
