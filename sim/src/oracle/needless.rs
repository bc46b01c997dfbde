//! As long as nothing was ever wrong with the disk, whatever processes died and powers went: nothing is
//! repaired that is right, nothing is read again that a clean stop vouches for, and nobody is alarmed.
//! They belong to RebuiltEqualsOriginal, RecoveryIdempotent and DamageDetected.

use odradek_core::log::scan_segment::ScanSegment;
use odradek_core::report::{Level, Report};

use super::{Check, METADATA_PREFIX, Oracle};

impl Oracle {
    /// A segment is read batch by batch, for its end or for its indexes.
    pub(super) fn scans(&mut self, scan: &ScanSegment) {
        let is_users = !scan.dir.as_str().starts_with(METADATA_PREFIX);
        if self.had_trouble || !self.was_loading || !self.starts_clean || !is_users {
            return;
        }
        self.violate(
            Check::RecoveryIdempotent,
            format!(
                "{}: the stop was clean, and the start reads the segment at {} again",
                scan.dir, scan.base
            ),
        );
    }

    /// The broker says something to its operator.
    pub(super) fn check_alarm(&mut self, report: &Report) {
        if self.had_trouble || self.has_damage() {
            return;
        }
        if report.level == Level::Error {
            self.violate(
                Check::DamageDetected,
                format!(
                    "nothing was ever wrong with the disk, and the broker says: {}",
                    report.message
                ),
            );
        } else if report.message.ends_with("indexes rebuilt") && !self.is_of_cleaned(report) {
            self.violate(
                Check::RebuiltEqualsOriginal,
                format!(
                    "nothing was ever wrong with the disk, and an index was: {}",
                    report.message
                ),
            );
        }
    }

    /// Whether a report is about a log that the cleaner was at. A death in the middle of a replacement
    /// can leave a segment without its indexes, which are derived.
    fn is_of_cleaned(&self, report: &Report) -> bool {
        let mut words = report.message.split_whitespace();
        let directory = words.find_map(|word| word.strip_prefix("dir="));
        let log = directory.and_then(|directory| self.models.get(directory));
        log.is_none_or(|log| log.gaps_end > 0)
    }
}
