//! All images that the model in [`disk`](super) allows a power loss to leave, one after the other:
//! what [`power_loss`](super::power_loss) draws from, without dice.
//!
//! An image is a choice in each of several dimensions: how many of a directory's pending changes
//! persisted, which length a file has, what each sector is. The first option of a dimension is the old
//! one, the last the newest. Their product is all there is, except that a tear inside a sector and
//! garbage have more variants than can be gone through: of garbage there is one here, of tears inside
//! sectors none.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::file::File;
use super::power_loss::Tearing;
use super::remains::{self, FileRemains};
use super::{Disk, Inode, Node, ROOT};
use crate::trace::ChainedHash;

/// The images of one moment.
#[derive(Debug)]
pub struct Images<'a> {
    disk: &'a Disk,
    files: Vec<FileImages>,
    dimensions: Vec<Dimension>,
}

/// Which option is taken in each dimension.
pub type Picks = Vec<u16>;

/// Some images of a moment.
#[derive(Debug)]
pub struct Selection {
    /// In order.
    pub picks: Vec<Picks>,
    /// Whether these are all.
    pub is_complete: bool,
}

/// Something that may have been left in one of several ways.
#[derive(Clone, Copy, Debug)]
struct Dimension {
    of: Of,
    options: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// So many of the pending changes of a directory persisted.
    Names(Inode),
    /// In harsh mode: whether one of them did.
    Name(Inode, usize),
    /// The length of a file, by its place in [`Images::files`].
    Size(usize),
    /// A sector of it, by its place in [`FileImages::sectors`].
    Sector(usize, usize),
}

/// What a file may be.
#[derive(Debug)]
struct FileImages {
    inode: Inode,
    old: Vec<u8>,
    sizes: Vec<u64>,
    sectors: Vec<SectorImages>,
}

/// What a sector may be.
#[derive(Debug)]
struct SectorImages {
    from: usize,
    /// The old one first, the newest last.
    versions: Vec<Vec<u8>>,
    /// Whether the second version is garbage.
    has_garbage: bool,
}

/// What stands for any garbage.
const GARBAGE: u8 = 0xa5;

impl<'a> Images<'a> {
    /// Those of a disk if the power goes now.
    #[must_use]
    pub fn of(disk: &'a Disk, tearing: Tearing) -> Self {
        let mut images = Self {
            disk,
            files: Vec::new(),
            dimensions: Vec::new(),
        };
        for inode in disk.reachable() {
            match disk.nodes.get(&inode) {
                Some(Node::Directory(directory)) => {
                    let pending = directory.pending().len();
                    if tearing.harsh {
                        for i in 0..pending {
                            images.add(Of::Name(inode, i), 2);
                        }
                    } else {
                        images.add(Of::Names(inode), pending + 1);
                    }
                }
                Some(Node::File(file)) if !file.pending().is_empty() => {
                    images.add_file(inode, file, tearing);
                }
                Some(Node::File(_)) | None => {}
            }
        }
        images
    }

    fn add(&mut self, of: Of, options: usize) {
        if options > 1 {
            let options = options.min(usize::from(u16::MAX)) as u16;
            self.dimensions.push(Dimension { of, options });
        }
    }

    fn add_file(&mut self, inode: Inode, file: &File, tearing: Tearing) {
        let remains = FileRemains::of(file);
        let number = self.files.len();
        let mut image = FileImages {
            inode,
            old: remains.old(),
            sizes: distinct(remains.sizes()),
            sectors: Vec::new(),
        };
        self.add(Of::Size(number), image.sizes.len());
        for page in remains.pages() {
            let moments: Vec<Vec<u8>> = (0..page.moments()).map(|m| page.at(m)).collect();
            for (from, to) in page.sectors(tearing.sector_bytes) {
                let old = image.old[from..to].to_vec();
                let mut versions = vec![old.clone()];
                let grown = remains.grown_from().max(from);
                let has_garbage = tearing.garbage && grown < to;
                if has_garbage {
                    let mut garbage = old;
                    garbage[grown - from..].fill(GARBAGE);
                    versions.push(garbage);
                }
                let of_moments = moments.iter();
                versions.extend(of_moments.map(|m| m[from - page.from..to - page.from].to_vec()));
                let versions = distinct(versions);
                self.add(Of::Sector(number, image.sectors.len()), versions.len());
                image.sectors.push(SectorImages {
                    from,
                    versions,
                    has_garbage,
                });
            }
        }
        self.files.push(image);
    }

    /// How many there are; `None` if more than can be counted.
    #[must_use]
    pub fn count(&self) -> Option<u64> {
        let options = self.dimensions.iter().map(|dimension| dimension.options);
        options
            .map(u64::from)
            .try_fold(1_u64, |product, options| product.checked_mul(options))
    }

    /// All of them, if they are no more than `bound`. Else this many, in this order:
    ///
    /// 1. *corners*: all names old or all new, with all lengths old or all new, with all data old, new
    ///    or garbage;
    /// 2. *cuts*: each corner with one file's sectors new up to one of them and old behind it, and the
    ///    other way round;
    /// 3. *deviations*: each corner with another option in one dimension, then in two, and so on.
    #[must_use]
    pub fn select(&self, bound: usize) -> Selection {
        let is_complete = self.count().is_some_and(|count| count <= bound as u64);
        if is_complete {
            return Selection {
                picks: self.all(),
                is_complete,
            };
        }
        let mut some = Chosen {
            bound,
            seen: BTreeSet::new(),
            picks: Vec::new(),
        };
        let corners = self.corners();
        for corner in &corners {
            some.add(corner.clone());
        }
        for corner in &corners {
            self.add_cuts(corner, &mut some);
        }
        for deviations in 1..=self.dimensions.len() {
            for corner in &corners {
                self.deviate(&mut corner.clone(), 0, deviations, &mut some);
            }
            if some.is_full() {
                break;
            }
        }
        Selection {
            picks: some.picks,
            is_complete,
        }
    }

    fn all(&self) -> Vec<Picks> {
        let mut picks = vec![0; self.dimensions.len()];
        let mut all = vec![picks.clone()];
        'next: loop {
            for (pick, dimension) in picks.iter_mut().zip(&self.dimensions) {
                *pick += 1;
                if *pick < dimension.options {
                    all.push(picks.clone());
                    continue 'next;
                }
                *pick = 0;
            }
            return all;
        }
    }

    fn corners(&self) -> Vec<Picks> {
        let newest = |is_new: bool, dimension: &Dimension| {
            if is_new { dimension.options - 1 } else { 0 }
        };
        let mut corners: Vec<Picks> = Vec::new();
        for data in [Data::New, Data::Old, Data::Garbage] {
            for (names, sizes) in [(true, true), (false, false), (true, false), (false, true)] {
                let picks = self.dimensions.iter().map(|dimension| match dimension.of {
                    Of::Names(_) | Of::Name(..) => newest(names, dimension),
                    Of::Size(_) => newest(sizes, dimension),
                    Of::Sector(file, sector) => match data {
                        Data::New => newest(true, dimension),
                        Data::Garbage if self.files[file].sectors[sector].has_garbage => 1,
                        Data::Old | Data::Garbage => 0,
                    },
                });
                corners.push(picks.collect());
            }
        }
        corners
    }

    fn add_cuts(&self, corner: &Picks, some: &mut Chosen) {
        for file in 0..self.files.len() {
            let sectors: Vec<usize> = (0..self.dimensions.len())
                .filter(|i| matches!(self.dimensions[*i].of, Of::Sector(of, _) if of == file))
                .collect();
            for cut in 1..sectors.len() {
                for new_first in [true, false] {
                    let mut picks = corner.clone();
                    for (i, dimension) in sectors.iter().enumerate() {
                        let is_new = (i < cut) == new_first;
                        let last = self.dimensions[*dimension].options - 1;
                        picks[*dimension] = if is_new { last } else { 0 };
                    }
                    some.add(picks);
                }
            }
        }
    }

    /// Adds what differs from `picks` in so many dimensions from `from` on.
    fn deviate(&self, picks: &mut Picks, from: usize, deviations: usize, some: &mut Chosen) {
        if deviations == 0 {
            some.add(picks.clone());
            return;
        }
        for i in from..self.dimensions.len() {
            let usual = picks[i];
            for option in (0..self.dimensions[i].options).filter(|option| *option != usual) {
                if some.is_full() {
                    return;
                }
                picks[i] = option;
                self.deviate(picks, i + 1, deviations - 1, some);
            }
            picks[i] = usual;
        }
    }

    /// What is left of the disk.
    #[must_use]
    pub fn image(&self, picks: &[u16]) -> Disk {
        let mut disk = self.disk.without_content();
        let mut files: BTreeMap<Inode, Vec<u8>> = BTreeMap::new();
        let mut in_order: BTreeMap<Inode, usize> = BTreeMap::new();
        let mut persisted: BTreeSet<(Inode, usize)> = BTreeSet::new();
        for (dimension, pick) in self.dimensions.iter().zip(picks) {
            let pick = usize::from(*pick);
            match dimension.of {
                Of::Names(inode) => {
                    in_order.insert(inode, pick);
                }
                Of::Name(inode, change) if pick == 1 => {
                    persisted.insert((inode, change));
                }
                Of::Name(..) | Of::Size(_) => {}
                Of::Sector(file, sector) => {
                    let file = &self.files[file];
                    let image = files.entry(file.inode).or_insert_with(|| file.old.clone());
                    let sector = &file.sectors[sector];
                    let bytes = &sector.versions[pick];
                    image[sector.from..sector.from + bytes.len()].copy_from_slice(bytes);
                }
            }
        }
        for (number, file) in self.files.iter().enumerate() {
            let of_size = self
                .dimensions
                .iter()
                .position(|dimension| dimension.of == Of::Size(number));
            let pick = of_size.map_or(0, |i| usize::from(picks[i]));
            let image = files.entry(file.inode).or_insert_with(|| file.old.clone());
            image.resize(file.sizes[pick] as usize, 0);
        }
        let mut queue = vec![ROOT];
        while let Some(inode) = queue.pop() {
            if disk.nodes.contains_key(&inode) {
                continue;
            }
            let Some(node) = self.disk.nodes.get(&inode) else {
                continue;
            };
            let mut node = match (node, files.remove(&inode)) {
                (Node::File(_), Some(image)) => {
                    let mut file = File::default();
                    file.settle(image);
                    Node::File(file)
                }
                (node, _) => node.clone(),
            };
            if let Node::Directory(directory) = &mut node {
                if !directory.pending().is_empty() {
                    let first = in_order.get(&inode).copied().unwrap_or(0);
                    let names =
                        remains::names(directory, |i| i < first || persisted.contains(&(inode, i)));
                    directory.settle(names);
                }
                queue.extend(directory.cached().values());
            }
            disk.nodes.insert(inode, node);
        }
        disk
    }

    /// An image in words: what is not durable anyway, and what became of it.
    #[must_use]
    pub fn words(&self, picks: &[u16]) -> Vec<String> {
        let mut lines: BTreeMap<Inode, String> = BTreeMap::new();
        for (dimension, pick) in self.dimensions.iter().zip(picks) {
            let inode = match dimension.of {
                Of::Names(inode) | Of::Name(inode, _) => inode,
                Of::Size(file) | Of::Sector(file, _) => self.files[file].inode,
            };
            let line = lines.entry(inode).or_insert_with(|| {
                let path = self.disk.path_of(inode);
                format!("{path}:")
            });
            let last = dimension.options - 1;
            // Writing to a text does not fail.
            let _ = match dimension.of {
                Of::Names(_) => write!(line, " {pick} of {last} changes of names persisted"),
                Of::Name(_, change) => write!(
                    line,
                    " change {change} {}",
                    if *pick == 1 { "persisted" } else { "did not" }
                ),
                Of::Size(file) => {
                    let sizes = &self.files[file].sizes;
                    write!(
                        line,
                        " {} bytes long of {sizes:?}",
                        sizes[usize::from(*pick)]
                    )
                }
                Of::Sector(file, sector) => {
                    let sector = &self.files[file].sectors[sector];
                    let what = match *pick {
                        0 => "old".to_owned(),
                        1 if sector.has_garbage => "garbage".to_owned(),
                        pick if pick == last => "new".to_owned(),
                        pick => format!("as of write {pick}"),
                    };
                    write!(line, " sector at {} {what},", sector.from)
                }
            };
        }
        lines.into_values().collect()
    }
}

/// What all data of a corner is.
#[derive(Clone, Copy)]
enum Data {
    Old,
    New,
    Garbage,
}

/// Some picks, none twice.
struct Chosen {
    bound: usize,
    seen: BTreeSet<Picks>,
    picks: Vec<Picks>,
}

impl Chosen {
    fn is_full(&self) -> bool {
        self.picks.len() >= self.bound
    }

    fn add(&mut self, picks: Picks) {
        if !self.is_full() && self.seen.insert(picks.clone()) {
            self.picks.push(picks);
        }
    }
}

/// Each value once, in order; the last stays the last.
fn distinct<T: Clone + PartialEq>(values: Vec<T>) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    let newest = values.last().cloned();
    for value in values {
        if !kept.contains(&value) {
            kept.push(value);
        }
    }
    if kept.last() != newest.as_ref() {
        kept.extend(newest);
    }
    kept
}

impl Disk {
    /// Itself without what is on it.
    fn without_content(&self) -> Self {
        Self {
            nodes: BTreeMap::new(),
            ..*self
        }
    }

    /// Everything that a name leads to in one of the images.
    fn reachable(&self) -> Vec<Inode> {
        let mut reached = BTreeSet::new();
        let mut queue = vec![ROOT];
        while let Some(inode) = queue.pop() {
            if !reached.insert(inode) {
                continue;
            }
            if let Some(Node::Directory(directory)) = self.nodes.get(&inode) {
                queue.extend(directory.durable().values());
                for i in 0..directory.pending().len() {
                    queue.extend(remains::names(directory, |change| change <= i).values());
                }
            }
        }
        reached.into_iter().collect()
    }

    /// A path that leads to an inode, by the names that are or were there.
    fn path_of(&self, wanted: Inode) -> String {
        let mut queue = vec![(ROOT, String::new())];
        let mut seen = BTreeSet::new();
        while let Some((inode, path)) = queue.pop() {
            if inode == wanted {
                return if path.is_empty() {
                    "the data directory".to_owned()
                } else {
                    path
                };
            }
            if !seen.insert(inode) {
                continue;
            }
            if let Some(Node::Directory(directory)) = self.nodes.get(&inode) {
                let newest = directory.cached().iter();
                for (name, child) in newest.chain(directory.durable()) {
                    let separator = if path.is_empty() { "" } else { "/" };
                    queue.push((*child, format!("{path}{separator}{name}")));
                }
            }
        }
        format!("inode {}", wanted.0)
    }

    /// Adds to a hash what is on the disk, and what of it is not durable.
    pub fn add_to(&self, hash: &mut ChainedHash) {
        self.add_node(ROOT, hash);
    }

    fn add_node(&self, inode: Inode, hash: &mut ChainedHash) {
        match self.nodes.get(&inode) {
            Some(Node::File(file)) => {
                hash.word(1);
                hash.bytes(file.cached());
                if !file.pending().is_empty() {
                    hash.bytes(file.durable());
                    hash.text(format_args!("{:?}", file.pending()));
                }
            }
            Some(Node::Directory(directory)) => {
                hash.word(2);
                if !directory.pending().is_empty() {
                    hash.text(format_args!("{directory:?}"));
                }
                for (name, child) in directory.cached() {
                    hash.text(format_args!("{name}"));
                    self.add_node(*child, hash);
                }
                hash.word(3);
            }
            None => hash.word(4),
        }
    }
}

#[cfg(test)]
mod tests;
