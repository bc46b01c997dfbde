//! NothingVisibleThenLost, HighWatermarkMonotonic, HighWatermarkAtMostLogEnd, LogStartMonotonic:
//! what readers are told, in the order in which they are told.

use odradek_core::log::config::Durability;

use super::{Check, Mark, Oracle};
use crate::disk::Disk;

impl Oracle {
    /// Somebody is told a high watermark.
    pub(super) fn showed_high_watermark(
        &mut self,
        directory: &str,
        high_watermark: i64,
        disk: &Disk,
    ) {
        let (safe, why) = self.safe_end(directory, disk);
        let durability = self.durability;
        let Some(log) = self.models.get_mut(directory) else {
            return;
        };
        let (before, end, start) = (log.high_watermark, log.end, log.log_start_asked);
        log.high_watermark = before.max(high_watermark);
        log.visible_end = log.visible_end.max(high_watermark);
        if high_watermark < before {
            self.violate(
                Check::HighWatermarkMonotonic,
                format!(
                    "{directory}: the high watermark goes back from {before} to {high_watermark}"
                ),
            );
        }
        if high_watermark > end {
            self.violate(
                Check::HighWatermarkAtMostLogEnd,
                format!(
                    "{directory}: the high watermark is {high_watermark} and the log ends at {end}"
                ),
            );
        } else if high_watermark > safe.max(start) {
            let what = match durability {
                Durability::Fsync => "durable",
                Durability::Os => "written",
            };
            self.violate(
                Check::NothingVisibleThenLost,
                format!(
                    "{directory}: the high watermark is {high_watermark}, and only what is below \
                     {safe} is {what}: {why}"
                ),
            );
        }
    }

    /// Somebody is told where a log starts.
    pub(super) fn showed_log_start(&mut self, directory: &str, log_start: i64) {
        let Some(log) = self.models.get_mut(directory) else {
            return;
        };
        let (before, asked, vanishes) = (log.log_start, log.log_start_asked, log.may_vanish);
        log.log_start = before.max(log_start);
        if log_start > before {
            self.mark(Mark::LogStartRaised);
        }
        if log_start < before && !vanishes {
            self.violate(
                Check::LogStartMonotonic,
                format!("{directory}: the log start goes back from {before} to {log_start}"),
            );
        }
        if log_start > before.max(asked) && !vanishes {
            self.violate(
                Check::NothingVisibleThenLost,
                format!("{directory}: the log starts at {log_start}, and nobody asked for more than {asked}"),
            );
        }
    }
}
