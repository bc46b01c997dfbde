//! Which leader epoch begins at which offset (KIP-101): Kafka's `leader-epoch-checkpoint`.
//!
//! An entry is added at the first append of an epoch and goes when what it names is cut. The file
//! is derived from the batches: recovery takes the entries above the recovery point from them, and
//! all of them if the file is missing or makes no sense.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use crate::ids::{LeaderEpoch, Offset};

/// The epochs of a log, rising, with the first offset of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpochCheckpoint {
    entries: Vec<(LeaderEpoch, Offset)>,
    /// Whether the file does not say so yet.
    dirty: bool,
}

impl EpochCheckpoint {
    /// With these entries, as the file has them.
    #[must_use]
    pub fn from_file(entries: Vec<(LeaderEpoch, Offset)>) -> Self {
        Self {
            entries,
            dirty: false,
        }
    }

    /// A batch of this epoch begins at this offset.
    pub fn assign(&mut self, epoch: LeaderEpoch, start: Offset) {
        if epoch.0 < 0 || self.latest().is_some_and(|latest| epoch <= latest) {
            return;
        }
        self.entries.push((epoch, start));
        self.dirty = true;
    }

    /// The log was cut: it ends at `end` now.
    pub fn truncate(&mut self, end: Offset) {
        let kept = self.entries.partition_point(|(_, start)| *start < end);
        if kept < self.entries.len() {
            self.entries.truncate(kept);
            self.dirty = true;
        }
    }

    /// The newest epoch.
    #[must_use]
    pub fn latest(&self) -> Option<LeaderEpoch> {
        self.entries.last().map(|(epoch, _)| *epoch)
    }

    /// The entries, rising.
    #[must_use]
    pub fn entries(&self) -> &[(LeaderEpoch, Offset)] {
        &self.entries
    }

    /// The largest epoch at or below `epoch` and the offset at which it ends in a log that ends at
    /// `log_end` and begins at `log_start`. `None` if `epoch` is above all, or if there is none.
    ///
    /// Below the first known epoch, the answer is `epoch` itself and the offset at which the first
    /// known one begins, as in Kafka: nothing of it is left.
    #[must_use]
    pub fn end_offset_for(
        &self,
        epoch: LeaderEpoch,
        log_start: Offset,
        log_end: Offset,
    ) -> Option<(LeaderEpoch, Offset)> {
        let latest = self.latest()?;
        if epoch == latest {
            return Some((epoch, log_end));
        }
        if epoch > latest || epoch.0 < 0 {
            return None;
        }
        let above = self.entries.partition_point(|(known, _)| *known <= epoch);
        let end = self
            .entries
            .get(above)
            .map(|(_, start)| *start)?
            .max(log_start);
        let found = above
            .checked_sub(1)
            .and_then(|below| self.entries.get(below))
            .map_or(epoch, |(known, _)| *known);
        Some((found, end))
    }

    /// Whether the file needs to be written.
    #[must_use]
    pub const fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// The file is being written with what is known now.
    pub const fn mark_written(&mut self) {
        self.dirty = false;
    }

    /// The file could not be written.
    pub const fn mark_dirty(&mut self) {
        self.dirty = true;
    }

    /// The file: version 0, the number of entries, then one a line.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "0\n{}", self.entries.len());
        for (epoch, start) in &self.entries {
            let _ = writeln!(text, "{epoch} {start}");
        }
        text
    }

    /// Reads the file; `None` if it is not one, or if its entries do not rise.
    #[must_use]
    pub fn parse(text: &str) -> Option<Vec<(LeaderEpoch, Offset)>> {
        let mut lines = text.lines();
        if lines.next()? != "0" {
            return None;
        }
        let count: usize = lines.next()?.parse().ok()?;
        let mut entries: Vec<(LeaderEpoch, Offset)> = Vec::new();
        for line in lines {
            let (epoch, start) = line.split_once(' ')?;
            let entry = (
                LeaderEpoch(epoch.parse().ok()?),
                Offset(start.parse().ok()?),
            );
            let rises = entries
                .last()
                .is_none_or(|last| entry.0 > last.0 && entry.1 > last.1);
            if !rises || entry.0.0 < 0 || entry.1.0 < 0 {
                return None;
            }
            entries.push(entry);
        }
        (entries.len() == count).then_some(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn known() -> EpochCheckpoint {
        let mut epochs = EpochCheckpoint::default();
        epochs.assign(LeaderEpoch(1), Offset(0));
        epochs.assign(LeaderEpoch(1), Offset(5));
        epochs.assign(LeaderEpoch(4), Offset(10));
        epochs.assign(LeaderEpoch(6), Offset(30));
        epochs
    }

    #[test]
    fn the_file_is_kafkas_and_reads_back() {
        let text = known().to_text();
        assert_eq!(text, "0\n3\n1 0\n4 10\n6 30\n");
        assert_eq!(
            EpochCheckpoint::parse(&text).as_deref(),
            Some(known().entries())
        );
    }

    #[test]
    fn a_file_that_makes_no_sense_is_not_believed() {
        for text in [
            "",
            "1\n0\n",
            "0\n2\n1 0\n",
            "0\n2\n1 10\n2 5\n",
            "0\n2\n2 0\n1 5\n",
            "0\n1\n1\n",
            "0\n1\n-1 0\n",
        ] {
            assert_eq!(EpochCheckpoint::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn an_epoch_ends_where_the_next_begins() {
        let epochs = known();
        let end = |epoch| epochs.end_offset_for(LeaderEpoch(epoch), Offset(0), Offset(50));
        assert_eq!(end(6), Some((LeaderEpoch(6), Offset(50))));
        assert_eq!(end(5), Some((LeaderEpoch(4), Offset(30))));
        assert_eq!(end(4), Some((LeaderEpoch(4), Offset(30))));
        assert_eq!(end(1), Some((LeaderEpoch(1), Offset(10))));
        assert_eq!(end(0), Some((LeaderEpoch(0), Offset(0))));
        assert_eq!(end(7), None);
    }

    #[test]
    fn a_cut_takes_the_epochs_that_begin_above_it() {
        let mut epochs = known();
        epochs.mark_written();
        epochs.truncate(Offset(31));
        assert!(!epochs.is_dirty());
        epochs.truncate(Offset(30));
        assert!(epochs.is_dirty());
        assert_eq!(
            epochs.entries(),
            vec![(LeaderEpoch(1), Offset(0)), (LeaderEpoch(4), Offset(10))]
        );
    }
}
