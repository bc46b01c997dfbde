//! A file's contents: durable, cached, and what lies between.

use std::collections::BTreeSet;

use bytes::Bytes;

/// The kernel writes back in pages.
pub const PAGE_BYTES: u64 = 4096;
/// What a device cannot read, it cannot read whole.
pub const SECTOR_BYTES: u64 = 512;

/// A file. See the model in [`disk`](super).
#[derive(Clone, Debug, Default)]
pub struct File {
    durable: Vec<u8>,
    cached: Vec<u8>,
    pending: Vec<Pending>,
    /// Sectors that cannot be read until they are written again.
    unreadable: BTreeSet<u64>,
}

/// An operation that is not durable.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) sequence: u64,
    pub(super) kind: Kind,
    /// A failed flush left it clean: nothing will write it back, unless its page is written again.
    pub(super) lost: bool,
    /// Length of the file after it.
    pub(super) size_after: u64,
    /// First byte it changed.
    pub(super) from: u64,
    /// End of what it changed, exclusive.
    pub(super) to: u64,
}

/// What an operation did.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Wrote bytes at `from`.
    Write(Bytes),
    /// Cut or extended: zeros everywhere from `from` to `to`.
    SetLength,
}

impl File {
    /// What reads see.
    #[must_use]
    pub fn cached(&self) -> &[u8] {
        &self.cached
    }

    /// What is sure to be there after a power loss, unless something pending persists.
    #[must_use]
    pub fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// Length as reads see it.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.cached.len() as u64
    }

    /// Whether reads see nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cached.is_empty()
    }

    /// Whether a failed flush left pages that read well and are not on the disk.
    #[must_use]
    pub fn has_lost_pages(&self) -> bool {
        self.pending.iter().any(|op| op.lost)
    }

    pub(super) fn pending(&self) -> &[Pending] {
        &self.pending
    }

    /// Whether all of a range can be read.
    #[must_use]
    pub fn is_readable(&self, from: u64, to: u64) -> bool {
        let to = to.min(self.len());
        self.unreadable.is_empty()
            || from >= to
            || self
                .unreadable
                .range(from / SECTOR_BYTES..to.div_ceil(SECTOR_BYTES))
                .next()
                .is_none()
    }

    /// A sector turns out to be unreadable; whether it does. What is not written back is read from
    /// the cache, whatever the device can do.
    pub(super) fn lose_sector(&mut self, sector: u64) -> bool {
        let page = sector * SECTOR_BYTES / PAGE_BYTES;
        let is_cached = |op: &Pending| op.pages().any(|dirty| dirty == page);
        sector * SECTOR_BYTES < self.len()
            && !self.pending.iter().any(is_cached)
            && self.unreadable.insert(sector)
    }

    /// Whether there is a sector that cannot be read.
    pub(super) fn has_unreadable(&self) -> bool {
        !self.unreadable.is_empty()
    }

    /// The device can read all sectors again.
    pub(super) fn read_again(&mut self) {
        self.unreadable.clear();
    }

    pub(super) fn write(&mut self, sequence: u64, position: u64, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        if !self.unreadable.is_empty() {
            let (from, to) = (position, position + bytes.len() as u64);
            let end = self.len();
            self.unreadable.retain(|sector| {
                let (begins, ends) = (sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES);
                from > begins || to < ends.min(end)
            });
        }
        self.apply(Pending {
            sequence,
            lost: false,
            size_after: self.len().max(position + bytes.len() as u64),
            // A write beyond the end leaves a hole of zeros; the hole is part of the growth.
            from: position,
            to: position + bytes.len() as u64,
            kind: Kind::Write(bytes),
        });
    }

    pub(super) fn set_length(&mut self, sequence: u64, length: u64) {
        let old = self.len();
        if length == old {
            return;
        }
        self.unreadable
            .retain(|sector| sector * SECTOR_BYTES < length);
        self.apply(Pending {
            sequence,
            kind: Kind::SetLength,
            lost: false,
            size_after: length,
            from: length.min(old),
            to: length.max(old),
        });
    }

    fn apply(&mut self, op: Pending) {
        op.replay(&mut self.cached);
        self.cached.resize(op.size_after as usize, 0);
        self.pending.push(op);
    }

    /// Makes durable what was done up to this operation: the dirty pages, whole, and the size.
    pub(super) fn flush(&mut self, up_to: u64) {
        let covered = self.covered(up_to);
        if covered == 0 {
            return;
        }
        let size = self.pending[covered - 1].size_after;
        if covered == self.pending.len() && !self.has_lost_pages() {
            // The usual case, without replaying anything: the file is durable as reads see it. What
            // no operation touched is the same in both.
            self.durable.resize(size as usize, 0);
            let end = self.durable.len();
            for op in self.pending.drain(..) {
                let (from, to) = ((op.from as usize).min(end), (op.to as usize).min(end));
                self.durable[from..to].copy_from_slice(&self.cached[from..to]);
            }
            return;
        }
        let pages: BTreeSet<u64> = self.pending[..covered]
            .iter()
            .filter(|op| !op.lost)
            .flat_map(Pending::pages)
            .collect();
        let mut image = self.durable.clone();
        // Bytes beyond the durable size are not there to be replayed on: they read as zeros.
        image.resize(image.len().max(self.reach(covered)), 0);
        let mut after = image.clone();
        for op in &self.pending[..covered] {
            op.replay(&mut after);
        }
        for page in &pages {
            let (from, to) = page_range(*page, image.len());
            image[from..to].copy_from_slice(&after[from..to]);
        }
        image.resize(size as usize, 0);
        self.durable = image;
        // What a failed flush lost stays lost, except where its page was written again.
        let kept: Vec<Pending> = self.pending[..covered]
            .iter()
            .filter(|op| op.lost && !op.pages().any(|p| pages.contains(&p)))
            .filter_map(|op| op.cut_at(size))
            .collect();
        self.pending.splice(..covered, kept);
    }

    /// Marks what was done up to this operation as clean. The size is metadata and stays pending.
    pub(super) fn fail_flush(&mut self, up_to: u64) {
        let covered = self.covered(up_to);
        let mut kept = Vec::with_capacity(self.pending.len());
        for (i, op) in self.pending.drain(..).enumerate() {
            match &op.kind {
                Kind::Write(bytes) if i < covered && !op.lost => {
                    // Page by page, so that each can later be rescued alone.
                    for page in op.pages() {
                        let from = op.from.max(page * PAGE_BYTES);
                        let to = op.to.min((page + 1) * PAGE_BYTES);
                        let piece = bytes.slice((from - op.from) as usize..(to - op.from) as usize);
                        kept.push(Pending {
                            kind: Kind::Write(piece),
                            lost: true,
                            from,
                            to,
                            ..op.clone()
                        });
                    }
                }
                _ => kept.push(op),
            }
        }
        self.pending = kept;
    }

    /// Drops clean pages that are not durable, so that reads see what the disk has.
    pub(super) fn evict(&mut self) {
        if !self.has_lost_pages() {
            return;
        }
        let dirty: BTreeSet<u64> = self
            .pending
            .iter()
            .filter(|op| !op.lost)
            .flat_map(Pending::pages)
            .collect();
        // A page that was written again is dirty and stays.
        let gone: BTreeSet<u64> = self
            .pending
            .iter()
            .filter(|op| op.lost)
            .flat_map(Pending::pages)
            .filter(|page| !dirty.contains(page))
            .collect();
        for page in &gone {
            let (from, to) = page_range(*page, self.cached.len());
            for at in from..to {
                self.cached[at] = self.durable.get(at).copied().unwrap_or(0);
            }
        }
        // The size that reads see stays, and stays to be written: the inode was not evicted.
        let size = self.len();
        let mut sequence = 0;
        self.pending.retain(|op| {
            let drop = op.lost && op.pages().all(|page| gone.contains(&page));
            if drop {
                sequence = sequence.max(op.sequence);
            }
            !drop
        });
        let pending_size = self
            .pending
            .last()
            .map_or(self.durable.len() as u64, |op| op.size_after);
        if size != pending_size {
            self.pending.push(Pending {
                sequence,
                kind: Kind::SetLength,
                lost: false,
                size_after: size,
                from: size.min(pending_size),
                to: size.max(pending_size),
            });
        }
    }

    /// What a power loss left becomes all there is.
    pub(super) fn settle(&mut self, image: Vec<u8>) {
        let length = image.len() as u64;
        self.unreadable
            .retain(|sector| sector * SECTOR_BYTES < length);
        self.durable.clone_from(&image);
        self.cached = image;
        self.pending.clear();
    }

    pub(super) fn flip_bit(&mut self, position: u64, bit: u8) {
        for image in [&mut self.durable, &mut self.cached] {
            if let Some(byte) = image.get_mut(position as usize) {
                *byte ^= 1 << (bit & 7);
            }
        }
    }

    /// Other bytes lie on the device from now on, and in the cache as well.
    pub(super) fn overwrite(&mut self, position: u64, bytes: &[u8]) {
        for image in [&mut self.durable, &mut self.cached] {
            let from = (position as usize).min(image.len());
            let to = (from + bytes.len()).min(image.len());
            image[from..to].copy_from_slice(&bytes[..to - from]);
        }
    }

    /// Other bytes lie on the device from now on; the cache has those that should be there, until it
    /// drops them: their pages are clean.
    pub(super) fn overwrite_behind(&mut self, sequence: u64, position: u64, bytes: &[u8]) {
        let from = (position as usize).min(self.durable.len());
        let to = (from + bytes.len()).min(self.durable.len());
        let good = Bytes::copy_from_slice(&self.durable[from..to]);
        self.durable[from..to].copy_from_slice(&bytes[..to - from]);
        let first = self.pending.first().map_or(sequence, |op| op.sequence);
        let mut at = from as u64;
        let mut kept = Vec::new();
        while at < to as u64 {
            let end = ((at / PAGE_BYTES + 1) * PAGE_BYTES).min(to as u64);
            kept.push(Pending {
                sequence: first.min(sequence),
                kind: Kind::Write(good.slice((at as usize - from)..(end as usize - from))),
                lost: true,
                size_after: self.durable.len() as u64,
                from: at,
                to: end,
            });
            at = end;
        }
        // Before everything that is pending: that was written later.
        self.pending.splice(..0, kept);
    }

    /// How many pending operations come up to this one.
    fn covered(&self, up_to: u64) -> usize {
        self.pending.partition_point(|op| op.sequence <= up_to)
    }

    /// The furthest byte that the first operations touch.
    fn reach(&self, operations: usize) -> usize {
        self.pending[..operations]
            .iter()
            .map(|op| op.to.max(op.size_after))
            .max()
            .unwrap_or(0) as usize
    }
}

impl Pending {
    /// What is left of a write in a file of this size.
    fn cut_at(&self, size: u64) -> Option<Self> {
        let to = self.to.min(size);
        let Kind::Write(bytes) = &self.kind else {
            return None;
        };
        (self.from < to).then(|| Self {
            kind: Kind::Write(bytes.slice(..(to - self.from) as usize)),
            size_after: self.size_after.min(size),
            to,
            ..*self
        })
    }

    /// The pages it touches.
    pub(super) fn pages(&self) -> impl Iterator<Item = u64> + use<> {
        self.from / PAGE_BYTES..self.to.div_ceil(PAGE_BYTES)
    }

    /// Does it again, on an image that may be shorter or longer than the file was.
    pub(super) fn replay(&self, image: &mut Vec<u8>) {
        let (from, to) = (self.from as usize, self.to as usize);
        if image.len() < to {
            image.resize(to, 0);
        }
        match &self.kind {
            Kind::Write(bytes) => image[from..to].copy_from_slice(bytes),
            Kind::SetLength => image[from..to].fill(0),
        }
    }

    /// Does it again on a part of the file that begins at `start`.
    pub(super) fn replay_within(&self, part: &mut [u8], start: u64) {
        let from = self.from.max(start);
        let to = self.to.min(start + part.len() as u64);
        if from >= to {
            return;
        }
        let target = &mut part[(from - start) as usize..(to - start) as usize];
        match &self.kind {
            Kind::Write(bytes) => target
                .copy_from_slice(&bytes[(from - self.from) as usize..(to - self.from) as usize]),
            Kind::SetLength => target.fill(0),
        }
    }
}

pub(super) fn page_range(page: u64, end: usize) -> (usize, usize) {
    let from = (page * PAGE_BYTES) as usize;
    (from.min(end), (from + PAGE_BYTES as usize).min(end))
}
