//! What the model in [`disk`](super) allows to be left of a file or directory when the power goes.
//!
//! This is the one description of it: [`power_loss`](super::power_loss) draws an image from it with
//! dice, [`images`](super::images) goes through all of them, and [`judge`](super::judge) asks whether
//! what a real filesystem left is among them.

use std::collections::{BTreeMap, BTreeSet};

use super::Inode;
use super::directory::Directory;
use super::file::{File, Kind, PAGE_BYTES, Pending, page_range};

/// What may be left of a file.
#[derive(Debug)]
pub(super) struct FileRemains<'a> {
    file: &'a File,
    /// No byte beyond it was ever there since the file was last durable.
    reach: usize,
}

/// What may be left of one page of a file.
#[derive(Debug)]
pub(super) struct PageRemains<'a> {
    file: &'a File,
    page: u64,
    /// The moments at which it was dirty, and so may have been written back: after each operation that
    /// touched it, but those that a failed flush left clean.
    moments: Vec<usize>,
    /// Its first byte in the file, and its end.
    pub(super) from: usize,
    pub(super) to: usize,
}

impl<'a> FileRemains<'a> {
    /// Of a file as it is now.
    pub(super) fn of(file: &'a File) -> Self {
        let ends = file.pending().iter().map(|op| op.to.max(op.size_after));
        let reach = ends.max().unwrap_or(0).max(file.durable().len() as u64) as usize;
        Self { file, reach }
    }

    /// The lengths it may have, whatever data persists, the durable one first: each that an operation
    /// since then left, and each that a write left when it had filled some of its pages. The kernel
    /// takes a write page by page, and grows the file with each: ext4 was seen to keep 4,096 bytes of
    /// a write that led from 434 to 4,944. Cutting or extending a file is one change of its length.
    pub(super) fn sizes(&self) -> Vec<u64> {
        let mut length = self.file.durable().len() as u64;
        let mut sizes = vec![length];
        for op in self.file.pending() {
            if matches!(op.kind, Kind::Write(_)) {
                let filled = (length.max(op.from) / PAGE_BYTES + 1)..op.to.div_ceil(PAGE_BYTES);
                sizes.extend(filled.map(|page| page * PAGE_BYTES));
            }
            sizes.push(op.size_after);
            length = op.size_after;
        }
        sizes
    }

    /// What it has where nothing persisted; beyond the durable length that is zeros, or garbage.
    pub(super) fn old(&self) -> Vec<u8> {
        let mut image = self.file.durable().to_vec();
        image.resize(self.reach, 0);
        image
    }

    /// From which byte on old bytes may be garbage as well as zeros.
    pub(super) fn grown_from(&self) -> usize {
        self.file.durable().len()
    }

    /// Its pages that may be new, or part new. The others are old.
    pub(super) fn pages(&self) -> Vec<PageRemains<'a>> {
        let dirty = self.file.pending().iter().filter(|op| !op.lost);
        let pages: BTreeSet<u64> = dirty.flat_map(Pending::pages).collect();
        let remains = pages.into_iter().map(|page| {
            let moments = self.file.pending().iter().enumerate();
            let (from, to) = page_range(page, self.reach);
            PageRemains {
                file: self.file,
                page,
                moments: moments
                    .filter(|(_, op)| !op.lost && op.pages().any(|p| p == page))
                    .map(|(i, _)| i)
                    .collect(),
                from,
                to,
            }
        });
        remains.collect()
    }
}

impl PageRemains<'_> {
    /// How many moments there are: each sector may be as it was after any of them, or old.
    pub(super) const fn moments(&self) -> usize {
        self.moments.len()
    }

    /// The whole page as the cache has it now.
    pub(super) fn newest(&self) -> Vec<u8> {
        self.at(usize::MAX)
    }

    /// The whole page as the cache had it at a moment, the last if there is none of that number: all
    /// operations up to it, those that a failed flush left clean included, since a page is written
    /// back whole.
    pub(super) fn at(&self, moment: usize) -> Vec<u8> {
        let mut bytes = vec![0; self.to - self.from];
        let durable = self.file.durable();
        if let Some(known) = durable.get(self.from..self.to.min(durable.len())) {
            bytes[..known.len()].copy_from_slice(known);
        }
        let Some(last) = self.moments.get(moment).or(self.moments.last()) else {
            return bytes;
        };
        for op in &self.file.pending()[..=*last] {
            op.replay_within(&mut bytes, self.page * PAGE_BYTES);
        }
        bytes
    }

    /// Its sectors: first byte and end of each, in the file.
    pub(super) fn sectors(&self, sector_bytes: u64) -> impl Iterator<Item = (usize, usize)> {
        let (from, to, step) = (self.from, self.to, sector_bytes as usize);
        (from..to)
            .step_by(step)
            .map(move |at| (at, to.min(at + step)))
    }
}

/// The names of a directory when of its pending changes those persisted that `persists` says. In
/// order, that is the first so many; only in harsh mode any of them.
pub(super) fn names(
    directory: &Directory,
    mut persists: impl FnMut(usize) -> bool,
) -> BTreeMap<String, Inode> {
    let mut names = directory.durable().clone();
    for (i, change) in directory.pending().iter().enumerate() {
        if persists(i) {
            change.apply(&mut names);
        }
    }
    names
}
