//! The names in a directory, and which of them are durable.

use std::collections::BTreeMap;

use super::Inode;

/// A directory: its durable names, those that look-ups see, and the changes between.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    durable: BTreeMap<String, Inode>,
    cached: BTreeMap<String, Inode>,
    pending: Vec<Change>,
}

/// One atomic change: names set to an inode, or removed.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) sequence: u64,
    names: Vec<(String, Option<Inode>)>,
}

impl Directory {
    /// The names that look-ups see.
    #[must_use]
    pub const fn cached(&self) -> &BTreeMap<String, Inode> {
        &self.cached
    }

    /// The names that are sure to be there after a power loss, unless a pending change persists.
    #[must_use]
    pub const fn durable(&self) -> &BTreeMap<String, Inode> {
        &self.durable
    }

    /// The changes that are not durable, in order.
    pub(super) fn pending(&self) -> &[Change] {
        &self.pending
    }

    /// Changes names at once.
    pub(super) fn change(&mut self, sequence: u64, names: Vec<(String, Option<Inode>)>) {
        let change = Change { sequence, names };
        change.apply(&mut self.cached);
        self.pending.push(change);
    }

    /// Makes every change durable that was made before the flush was called.
    pub(super) fn sync(&mut self, up_to: u64) {
        let durable = &mut self.durable;
        self.pending.retain(|change| {
            let covered = change.sequence <= up_to;
            if covered {
                change.apply(durable);
            }
            !covered
        });
    }

    /// What a power loss left becomes all there is.
    pub(super) fn settle(&mut self, names: BTreeMap<String, Inode>) {
        self.durable = names.clone();
        self.cached = names;
        self.pending.clear();
    }
}

impl Change {
    pub(super) fn apply(&self, to: &mut BTreeMap<String, Inode>) {
        for (name, inode) in &self.names {
            match inode {
                Some(inode) => to.insert(name.clone(), *inode),
                None => to.remove(name),
            };
        }
    }
}
