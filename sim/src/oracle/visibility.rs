//! NothingVisibleThenLost, HighWatermarkMonotonic, HighWatermarkAtMostLogEnd, LogStartMonotonic:
//! what readers are told.
//!
//! An answer may be put together over several steps, so what it says need only have been true at
//! some moment between the start of the request and its end.

use odradek_core::log::config::Durability;
use odradek_core::time::Mono;

use super::{Check, Mark, Oracle};
use crate::disk::Disk;

impl Oracle {
    /// Somebody is told a high watermark.
    pub(super) fn showed_high_watermark(
        &mut self,
        directory: &str,
        since: Option<Mono>,
        high_watermark: i64,
        disk: &Disk,
    ) {
        let now = self.now;
        let (safe, why) = self.safe_end(directory, disk);
        let durability = self.durability;
        let Some(log) = self.models.get_mut(directory) else {
            return;
        };
        let (end, start) = (log.end, log.log_start_asked);
        let before = log.high_watermarks.before(since);
        log.high_watermarks.rise(now, high_watermark);
        if high_watermark > log.visible_end {
            log.visible_end = high_watermark;
            self.told += 1;
        }
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

    /// A producer is told where the log started when its records were appended, which may be long
    /// ago.
    pub(super) fn appended_above(&mut self, directory: &str, log_start: i64) {
        let now = self.models.get(directory).map_or(0, |log| log.log_start);
        if log_start > now {
            self.showed_log_start(directory, None, log_start);
        }
    }

    /// Somebody is told where a log starts.
    pub(super) fn showed_log_start(
        &mut self,
        directory: &str,
        since: Option<Mono>,
        log_start: i64,
    ) {
        let now = self.now;
        let Some(log) = self.models.get_mut(directory) else {
            return;
        };
        let (newest, asked, vanishes) = (log.log_start, log.log_start_asked, log.may_vanish);
        let before = log.log_starts.before(since);
        log.log_starts.rise(now, log_start);
        log.log_start = newest.max(log_start);
        // A log start is as good as a high watermark: both are the end of what can be told.
        if log_start > log.visible_end {
            log.visible_end = log_start;
            self.told += 1;
        }
        if log_start > newest {
            self.mark(Mark::LogStartRaised);
        }
        if log_start < before && !vanishes {
            self.violate(
                Check::LogStartMonotonic,
                format!("{directory}: the log start goes back from {before} to {log_start}"),
            );
        }
        if log_start > newest.max(asked) && !vanishes {
            self.violate(
                Check::NothingVisibleThenLost,
                format!("{directory}: the log starts at {log_start}, and nobody asked for more than {asked}"),
            );
        }
    }
}
