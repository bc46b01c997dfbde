//! Which ranges of a segment had their CRCs checked in this process.

use alloc::vec::Vec;

/// How many ranges are remembered for a segment; beyond it the smallest is forgotten, and checked
/// again at its next read.
const MAX_RANGES: usize = 32;

/// Disjoint ranges of positions, rising.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    ranges: Vec<(u64, u64)>,
}

impl Verified {
    /// The range `from..to` was checked.
    pub fn add(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let first = self.ranges.partition_point(|(_, end)| *end < from);
        let last = self.ranges.partition_point(|(start, _)| *start <= to);
        let mut joined = (from, to);
        for &(start, end) in self.ranges.get(first..last).unwrap_or_default() {
            joined = (joined.0.min(start), joined.1.max(end));
        }
        self.ranges.splice(first..last, [joined]);
        if self.ranges.len() > MAX_RANGES {
            let smallest = (0..self.ranges.len())
                .min_by_key(|at| self.ranges.get(*at).map(|(start, end)| end - start));
            if let Some(at) = smallest {
                self.ranges.remove(at);
            }
        }
    }

    /// Up to where everything from `from` on was checked; `from` itself if nothing was.
    #[must_use]
    pub fn end_of(&self, from: u64) -> u64 {
        let at = self.ranges.partition_point(|(_, end)| *end <= from);
        match self.ranges.get(at) {
            Some((start, end)) if *start <= from => *end,
            _ => from,
        }
    }

    /// Forgets what lies above `end`.
    pub fn cut(&mut self, end: u64) {
        self.ranges.retain_mut(|range| {
            range.1 = range.1.min(end);
            range.0 < range.1
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined() {
        let mut verified = Verified::default();
        verified.add(0, 10);
        verified.add(20, 30);
        assert_eq!((verified.end_of(5), verified.end_of(10)), (10, 10));
        verified.add(10, 20);
        assert_eq!(verified.ranges, [(0, 30)]);
        verified.cut(25);
        assert_eq!((verified.end_of(0), verified.end_of(25)), (25, 25));
    }

    #[test]
    fn the_number_of_ranges_is_bounded() {
        let mut verified = Verified::default();
        for i in 0..1000 {
            verified.add(i * 100, i * 100 + 10 + i % 7);
        }
        assert_eq!(verified.ranges.len(), MAX_RANGES);
    }
}
