//! Names of the files of a log: Kafka's.

use alloc::format;

use crate::ids::{FilePath, Offset};

/// The end of the name of a file that is written anew, and gets its name once it is durable.
pub(crate) const FRESH: &str = "tmp";
/// The end of the name of a file that the cleaner is writing.
pub(crate) const CLEANED: &str = "cleaned";
/// The end of the name of a file that the cleaner has written, and that replaces others.
pub(crate) const SWAP: &str = "swap";

/// Where the leader epochs and their first offsets are kept.
pub(crate) const EPOCH_CHECKPOINT: &str = "leader-epoch-checkpoint";

/// What a file of a segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SegmentFile {
    /// Record batches.
    Log,
    /// Offset index.
    Index,
    /// Time index.
    TimeIndex,
    /// What is known of producers at an offset: the base of a segment, or where a clean stop was.
    Snapshot,
}

/// The files that each segment has.
pub(crate) const OF_EACH_SEGMENT: [SegmentFile; 3] =
    [SegmentFile::Log, SegmentFile::Index, SegmentFile::TimeIndex];

/// What the name of a file in a log's directory says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileName {
    /// A file of the segment with this base offset, or a snapshot at it.
    Segment(Offset, SegmentFile),
    /// A file of a cleaned segment with this base offset, which replaces others: its renaming is to
    /// be completed.
    Swap(Offset, SegmentFile),
    /// Left over by a process that was stopped in the middle of something: to be removed.
    Leftover,
    /// Not the log's business.
    Other,
}

impl SegmentFile {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Index => "index",
            Self::TimeIndex => "timeindex",
            Self::Snapshot => "snapshot",
        }
    }

    /// The same with a suffix that says how far the cleaner is with it.
    pub(crate) fn path_with(self, dir: &FilePath, base: Offset, suffix: &str) -> FilePath {
        dir.join(&format!("{:020}.{}.{suffix}", base.0, self.suffix()))
    }

    /// The file of the segment that begins at `base`: twenty digits, so that names sort as numbers.
    pub(crate) fn path(self, dir: &FilePath, base: Offset) -> FilePath {
        dir.join(&format!("{:020}.{}", base.0, self.suffix()))
    }
}

impl FileName {
    pub(crate) fn parse(name: &str) -> Self {
        if let Some(Self::Segment(base, file)) = name.strip_suffix(".swap").map(Self::parse)
            && file != SegmentFile::Snapshot
        {
            return Self::Swap(base, file);
        }
        if [".deleted", ".cleaned", ".swap", ".tmp"]
            .iter()
            .any(|suffix| name.ends_with(suffix))
        {
            return Self::Leftover;
        }
        let Some((digits, suffix)) = name.split_once('.') else {
            return Self::Other;
        };
        if digits.len() != 20 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Self::Other;
        }
        let Ok(base) = digits.parse() else {
            return Self::Other;
        };
        let file = match suffix {
            "log" => SegmentFile::Log,
            "index" => SegmentFile::Index,
            "timeindex" => SegmentFile::TimeIndex,
            "snapshot" => SegmentFile::Snapshot,
            _ => return Self::Other,
        };
        Self::Segment(Offset(base), file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kafkas_and_read_back() {
        let path = SegmentFile::TimeIndex.path(&FilePath::from("t-0"), Offset(170_210));
        assert_eq!(path.as_str(), "t-0/00000000000000170210.timeindex");
        assert_eq!(
            FileName::parse(path.name()),
            FileName::Segment(Offset(170_210), SegmentFile::TimeIndex)
        );
    }

    #[test]
    fn a_file_that_is_to_replace_others_is_known() {
        let path = SegmentFile::Index.path_with(&FilePath::from("t-0"), Offset(7), SWAP);
        assert_eq!(path.as_str(), "t-0/00000000000000000007.index.swap");
        assert_eq!(
            FileName::parse(path.name()),
            FileName::Swap(Offset(7), SegmentFile::Index)
        );
    }

    #[test]
    fn what_a_crash_leaves_over_is_known_and_the_rest_is_let_be() {
        for name in [
            "00000000000000000000.log.deleted",
            "00000000000000000000.index.cleaned",
            "leader-epoch-checkpoint.swap",
            "leader-epoch-checkpoint.tmp",
            "00000000000000000000.timeindex.tmp",
        ] {
            assert_eq!(FileName::parse(name), FileName::Leftover, "{name}");
        }
        for name in [
            "partition.metadata",
            "leader-epoch-checkpoint",
            "99999999999999999999.log",
            "+0000000000000000001.log",
            "1.log",
        ] {
            assert_eq!(FileName::parse(name), FileName::Other, "{name}");
        }
    }
}
