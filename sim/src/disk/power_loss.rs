//! What is left of a disk when the power goes: one of the images that the model in
//! [`disk`](super) allows, drawn with an address for each file.

use std::collections::{BTreeMap, BTreeSet};

use super::directory::Directory;
use super::file::{File, PAGE_BYTES, Pending, page_range};
use super::{Disk, Inode, Node, ROOT};
use crate::choices::{Choices, Dice, Odds, Subsystem};

/// How a power loss tears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tearing {
    /// Bytes that persist as one: 512, or 4096; 1 for none.
    pub sector_bytes: u64,
    /// Tears inside sectors, and names out of order.
    pub harsh: bool,
    /// Whether a grown file may show garbage where nothing persisted.
    pub garbage: bool,
}

/// What an image came to, for the *sometimes* marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Files whose data or size is not what reads saw.
    pub files_changed: u64,
    /// Files in which a page is part old, part new.
    pub files_torn: u64,
    /// Pending changes of names that did not persist.
    pub names_lost: u64,
}

/// How much of a file's pending operations persists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Persists {
    Nothing,
    Everything,
    Mixed,
}

impl Disk {
    /// Loses power: keeps what is durable, and of what is pending what the dice say.
    pub fn lose_power(&mut self, tearing: Tearing, choices: &mut Choices) -> Loss {
        let mut loss = Loss::default();
        let mut reached = BTreeSet::new();
        let mut queue = vec![ROOT];
        while let Some(inode) = queue.pop() {
            if !reached.insert(inode) {
                continue;
            }
            match self.nodes.get_mut(&inode) {
                Some(Node::File(file)) if !file.pending().is_empty() => {
                    let mut dice = choices.dice(Subsystem::Image, inode.0);
                    let (image, torn) = file_image(file, tearing, &mut dice);
                    loss.files_changed += u64::from(image != file.cached());
                    loss.files_torn += u64::from(torn);
                    file.settle(image);
                }
                Some(Node::File(_)) | None => {}
                Some(Node::Directory(directory)) => {
                    if !directory.pending().is_empty() {
                        let mut dice = choices.dice(Subsystem::Image, inode.0);
                        let names = directory_image(directory, tearing, &mut dice, &mut loss);
                        directory.settle(names);
                    }
                    queue.extend(directory.cached().values());
                }
            }
        }
        self.nodes
            .retain(|inode: &Inode, _| reached.contains(inode));
        loss
    }
}

fn directory_image(
    directory: &Directory,
    tearing: Tearing,
    dice: &mut Dice,
    loss: &mut Loss,
) -> BTreeMap<String, Inode> {
    let mut names = directory.durable().clone();
    let pending = directory.pending();
    let kept_in_order = match dice.below(4) {
        0 => 0,
        1 => pending.len(),
        _ => dice.below(pending.len() as u64 + 1) as usize,
    };
    for (i, change) in pending.iter().enumerate() {
        let persists = if tearing.harsh {
            dice.below(2) == 0
        } else {
            i < kept_in_order
        };
        if persists {
            change.apply(&mut names);
        } else {
            loss.names_lost += 1;
        }
    }
    names
}

/// Draws one image of a file. Also says whether a page came out mixed.
fn file_image(file: &File, tearing: Tearing, dice: &mut Dice) -> (Vec<u8>, bool) {
    let pending = file.pending();
    let persists = match dice.below(4) {
        0 => Persists::Nothing,
        1 => Persists::Everything,
        _ => Persists::Mixed,
    };
    let size = match persists {
        Persists::Nothing => file.durable().len() as u64,
        Persists::Everything => file.len(),
        // Any length the file had since it was last durable. The newest is as likely as all others
        // together: a size that lags behind hides the data that the tears are about.
        Persists::Mixed => match dice.below(2) {
            0 => file.len(),
            _ => {
                let at = dice.below(pending.len() as u64 + 1) as usize;
                pending
                    .get(at)
                    .map_or(file.durable().len() as u64, |op| op.size_after)
            }
        },
    };
    let reach = pending
        .iter()
        .map(|op| op.to)
        .max()
        .unwrap_or(0)
        .max(size)
        .max(file.durable().len() as u64) as usize;
    let mut image = file.durable().to_vec();
    image.resize(reach, 0);
    let mut torn = false;
    if persists != Persists::Nothing {
        let pages: BTreeSet<u64> = pending
            .iter()
            .filter(|op| !op.lost)
            .flat_map(Pending::pages)
            .collect();
        for page in pages {
            torn |= persist_page(file, page, persists, tearing, dice, &mut image);
        }
    }
    image.resize(size as usize, 0);
    (image, torn)
}

/// Draws what is left of one page, and says whether it is mixed.
fn persist_page(
    file: &File,
    page: u64,
    persists: Persists,
    tearing: Tearing,
    dice: &mut Dice,
    image: &mut [u8],
) -> bool {
    let pending = file.pending();
    // The moments at which this page was dirty, and so may have been written back: after each
    // operation that touched it, but those that a failed flush left clean.
    let moments: Vec<usize> = pending
        .iter()
        .enumerate()
        .filter(|(_, op)| !op.lost && op.pages().any(|p| p == page))
        .map(|(i, _)| i)
        .collect();
    let Some(last) = moments.last().copied() else {
        return false;
    };
    let (from, to) = page_range(page, image.len());
    let way = match persists {
        Persists::Everything => 1,
        _ => dice.below(4),
    };
    match way {
        0 => false,
        1 => {
            image[from..to].copy_from_slice(&page_after(file, page, last, from, to));
            false
        }
        _ => {
            let old = image[from..to].to_vec();
            let grown_from = file.durable().len();
            let mut seen: Vec<Option<Vec<u8>>> = vec![None; moments.len()];
            let mut at = from;
            while at < to {
                let end = to.min(at + tearing.sector_bytes as usize);
                let choice = dice.below(moments.len() as u64 + 1) as usize;
                match moments.get(choice) {
                    Some(moment) => {
                        let after = seen[choice]
                            .get_or_insert_with(|| page_after(file, page, *moment, from, to));
                        let new = &after[at - from..end - from];
                        if tearing.harsh && dice.below(2) == 0 {
                            tear(&mut image[at..end], new, dice);
                        } else {
                            image[at..end].copy_from_slice(new);
                        }
                    }
                    None => {
                        if tearing.garbage && dice.chance(Odds(250_000)) {
                            let grown = at.max(grown_from).min(end);
                            dice.fill(&mut image[grown..end]);
                        }
                    }
                }
                at = end;
            }
            let newest = page_after(file, page, last, from, to);
            image[from..to] != old[..] && image[from..to] != newest[..]
        }
    }
}

/// A tear inside a sector: new bytes up to some point, garbage for a while, old bytes after. Only
/// bytes that change were being written.
fn tear(old: &mut [u8], new: &[u8], dice: &mut Dice) {
    let length = old.len() as u64;
    let new_until = dice.below(length + 1) as usize;
    let garbage_until = new_until + dice.below(length - new_until as u64 + 1) as usize;
    for (i, (old, new)) in old.iter_mut().zip(new).enumerate() {
        if *old == *new {
            continue;
        }
        if i < new_until {
            *old = *new;
        } else if i < garbage_until {
            *old = dice.below(256) as u8;
        }
    }
}

/// A page as the cache had it after a pending operation: all of them up to it, those that a failed
/// flush left clean included, since a page is written back whole.
fn page_after(file: &File, page: u64, moment: usize, from: usize, to: usize) -> Vec<u8> {
    let durable = file.durable();
    let mut bytes = vec![0; to - from];
    if let Some(known) = durable.get(from..to.min(durable.len())) {
        bytes[..known.len()].copy_from_slice(known);
    }
    let start = page * PAGE_BYTES;
    for op in &file.pending()[..=moment] {
        op.replay_within(&mut bytes, start);
    }
    bytes
}
