//! What is left of a disk when the power goes: one of the images that the model in
//! [`disk`](super) allows, drawn with an address for each file.

use std::collections::{BTreeMap, BTreeSet};

use super::directory::Directory;
use super::file::File;
use super::remains::{self, FileRemains, PageRemains};
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
    let pending = directory.pending().len();
    let kept_in_order = match dice.below(4) {
        0 => 0,
        1 => pending,
        _ => dice.below(pending as u64 + 1) as usize,
    };
    remains::names(directory, |i| {
        let persists = if tearing.harsh {
            dice.below(2) == 0
        } else {
            i < kept_in_order
        };
        loss.names_lost += u64::from(!persists);
        persists
    })
}

/// Draws one image of a file. Also says whether a page came out mixed.
fn file_image(file: &File, tearing: Tearing, dice: &mut Dice) -> (Vec<u8>, bool) {
    let persists = match dice.below(4) {
        0 => Persists::Nothing,
        1 => Persists::Everything,
        _ => Persists::Mixed,
    };
    let remains = FileRemains::of(file);
    let sizes = remains.sizes();
    let size = match persists {
        Persists::Nothing => sizes.first(),
        Persists::Everything => None,
        // Any length the file had since it was last durable. The newest is as likely as all others
        // together: a size that lags behind hides the data that the tears are about.
        Persists::Mixed => match dice.below(2) {
            0 => None,
            _ => {
                let at = dice.below(sizes.len() as u64) as usize;
                sizes.get(at + 1).or(sizes.first())
            }
        },
    };
    let size = size.copied().unwrap_or(file.len());
    let mut image = remains.old();
    let mut torn = false;
    if persists != Persists::Nothing {
        for page in remains.pages() {
            torn |= persist_page(
                &page,
                remains.grown_from(),
                persists,
                tearing,
                dice,
                &mut image,
            );
        }
    }
    image.resize(size as usize, 0);
    (image, torn)
}

/// Draws what is left of one page, and says whether it is mixed.
fn persist_page(
    page: &PageRemains<'_>,
    grown_from: usize,
    persists: Persists,
    tearing: Tearing,
    dice: &mut Dice,
    image: &mut [u8],
) -> bool {
    let (from, to) = (page.from, page.to);
    let way = match persists {
        Persists::Everything => 1,
        _ => dice.below(4),
    };
    match way {
        0 => false,
        1 => {
            image[from..to].copy_from_slice(&page.newest());
            false
        }
        _ => {
            let old = image[from..to].to_vec();
            let mut seen: Vec<Option<Vec<u8>>> = vec![None; page.moments()];
            for (at, end) in page.sectors(tearing.sector_bytes) {
                let choice = dice.below(page.moments() as u64 + 1) as usize;
                if let Some(after) = seen.get_mut(choice) {
                    let after = after.get_or_insert_with(|| page.at(choice));
                    let new = &after[at - from..end - from];
                    if tearing.harsh && dice.below(2) == 0 {
                        tear(&mut image[at..end], new, dice);
                    } else {
                        image[at..end].copy_from_slice(new);
                    }
                } else if tearing.garbage && dice.chance(Odds(250_000)) {
                    let grown = at.max(grown_from).min(end);
                    dice.fill(&mut image[grown..end]);
                }
            }
            image[from..to] != old[..] && image[from..to] != page.newest()[..]
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
