//! How far a log is known to be on the disk: where an unclean start begins to read.

use alloc::string::String;
use core::fmt;

use crate::ids::{Offset, Position};

/// A point below which everything was flushed: the log's bytes, its index entries, and the names
/// of its files. The broker persists it, keyed by topic id; it may be older than the truth, never
/// newer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryPoint {
    /// The first offset that is not covered.
    pub offset: Offset,
    /// Base offset of the segment that holds it.
    pub segment_base: Offset,
    /// Where it begins in that segment.
    pub position: Position,
    /// Largest timestamp below it in that segment, or -1.
    pub max_timestamp: i64,
    /// Last offset of the batch that holds that timestamp.
    pub offset_of_max_timestamp: Offset,
    /// Entries of the segment's offset index below it.
    pub offset_index_entries: u32,
    /// Entries of the segment's time index below it.
    pub time_index_entries: u32,
}

impl RecoveryPoint {
    /// The beginning of an empty log that starts at `offset`.
    #[must_use]
    pub const fn start_of(offset: Offset) -> Self {
        Self {
            offset,
            segment_base: offset,
            position: Position(0),
            max_timestamp: -1,
            offset_of_max_timestamp: offset,
            offset_index_entries: 0,
            time_index_entries: 0,
        }
    }

    /// Reads what `Display` wrote: seven numbers with spaces between. `None` if it is not that, or
    /// if the numbers contradict each other.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split(' ');
        let mut next = || fields.next()?.parse::<i64>().ok();
        let point = Self {
            offset: Offset(next()?),
            segment_base: Offset(next()?),
            position: Position(u64::try_from(next()?).ok()?),
            max_timestamp: next()?,
            offset_of_max_timestamp: Offset(next()?),
            offset_index_entries: u32::try_from(next()?).ok()?,
            time_index_entries: u32::try_from(next()?).ok()?,
        };
        let sane = point.segment_base.0 >= 0
            && point.offset >= point.segment_base
            && (point.offset == point.segment_base) == (point.position.0 == 0);
        (fields.next().is_none() && sane).then_some(point)
    }

    /// The line `Display` writes, as a string.
    #[must_use]
    pub fn to_line(&self) -> String {
        use alloc::string::ToString;
        self.to_string()
    }
}

impl fmt::Display for RecoveryPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {} {} {} {} {}",
            self.offset,
            self.segment_base,
            self.position,
            self.max_timestamp,
            self.offset_of_max_timestamp,
            self.offset_index_entries,
            self.time_index_entries
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_point_reads_back_from_its_line() {
        let point = RecoveryPoint {
            offset: Offset(120),
            segment_base: Offset(100),
            position: Position(4_096),
            max_timestamp: -1,
            offset_of_max_timestamp: Offset(100),
            offset_index_entries: 3,
            time_index_entries: 2,
        };
        assert_eq!(point.to_line(), "120 100 4096 -1 100 3 2");
        assert_eq!(RecoveryPoint::parse(&point.to_line()), Some(point));
    }

    #[test]
    fn a_line_that_contradicts_itself_is_refused() {
        for line in [
            "",
            "120 100 4096 -1 100 3",
            "120 100 4096 -1 100 3 2 9",
            "99 100 4096 -1 100 3 2",
            "100 100 4096 -1 100 3 2",
            "120 100 0 -1 100 0 0",
            "120 100 -4 -1 100 0 0",
            "120 100 x -1 100 0 0",
        ] {
            assert_eq!(RecoveryPoint::parse(line), None, "{line}");
        }
    }
}
