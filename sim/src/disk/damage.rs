//! Damage to bytes that were durable: rot, and pages that end up where others were. See the model in
//! [`disk`](super).
//!
//! What a process has in the page cache, it goes on seeing: of a segment, damage shows only once the
//! power was lost or the process has ended. All other files are read anew each time, and show it at
//! once.
//!
//! Not hit, since nothing could notice:
//!
//! - `leader-epoch-checkpoint`: Kafka's text without a checksum, in which another digit makes another
//!   sound file;
//! - the metadata log while its recovery point may lag behind, that is, after any end but a clean
//!   stop: what is above it counts as torn, and topics would go with it;
//! - directories on their way out, and files that are being replaced (`.tmp`);
//! - a page of one segment by the page at the same place of another: a batch does not say which
//!   partition it belongs to, so one with the right offset is sound wherever it lies.

use std::ops::Range;

use bytes::Bytes;
use odradek_core::ids::FilePath;

use super::file::{File, PAGE_BYTES, SECTOR_BYTES};
use super::{Disk, Inode, Node, ROOT, Ticket};
use crate::choices::Dice;

/// Bytes of a file that are not what was written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: FilePath,
    /// The file, whatever its name.
    pub inode: Inode,
    /// Where in it.
    pub at: Range<u64>,
    /// What should be there, for who restores it from a copy.
    pub good: Bytes,
    /// What is there.
    pub bad: Bytes,
}

/// When damage strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A process runs.
    Running,
    /// None does.
    AtRest {
        /// The last one marked a clean stop.
        clean: bool,
    },
}

/// The metadata log's directory.
const METADATA: &str = "__cluster_metadata-0";

impl Disk {
    /// Lets bits of some file rot.
    pub fn rot(&mut self, moment: Moment, dice: &mut Dice) -> Option<Damage> {
        let (path, inode, length) = self.victim(moment, dice)?;
        let position = dice.below(length);
        let (from, bad) = match dice.below(3) {
            0 => {
                let byte = self.file(inode)?.durable().get(position as usize)?;
                (position, vec![byte ^ 1 << dice.below(8)])
            }
            1 => {
                let byte = self.file(inode)?.durable().get(position as usize)?;
                // Another byte, whichever.
                (
                    position,
                    vec![byte.wrapping_add(dice.between(1, 255) as u8)],
                )
            }
            _ => {
                let from = position / SECTOR_BYTES * SECTOR_BYTES;
                let mut sector = vec![0; SECTOR_BYTES.min(length - from) as usize];
                if dice.below(2) == 0 {
                    dice.fill(&mut sector);
                }
                (from, sector)
            }
        };
        self.damage(path, inode, from, bad, moment)
    }

    /// A flush of a file succeeds, but one of its pages ends up where another file has one.
    pub fn flush_astray(
        &mut self,
        path: &FilePath,
        inode: Inode,
        ticket: Ticket,
        dice: &mut Dice,
    ) -> Vec<Damage> {
        if path.as_str().starts_with(METADATA) {
            return Vec::new();
        }
        let pages = self
            .file(inode)
            .map(|file| file.dirty_pages(ticket.0))
            .unwrap_or_default();
        let before = self.file(inode).map(|file| file.durable().to_vec());
        let (Some(before), false) = (before, pages.is_empty()) else {
            return Vec::new();
        };
        if self.flush(inode, ticket).is_err() {
            return Vec::new();
        }
        let page = pages[dice.below(pages.len() as u64) as usize];
        let from = page * PAGE_BYTES;
        let Some(file) = self.file(inode) else {
            return Vec::new();
        };
        let to = (from + PAGE_BYTES).min(file.durable().len() as u64);
        let strayed = file.durable()[from.min(to) as usize..to as usize].to_vec();
        let mut old = before.get(from as usize..).unwrap_or_default().to_vec();
        old.resize(strayed.len(), 0);
        let mut damages = Vec::new();
        damages.extend(self.damage(path.clone(), inode, from, old, Moment::Running));
        if let Some((path, inode, length)) = self.victim(Moment::Running, dice) {
            let stray = from;
            let from = dice.below(length.div_ceil(PAGE_BYTES)) * PAGE_BYTES;
            if is_segment(&path) && from == stray {
                return damages;
            }
            let fits = (length - from).min(strayed.len() as u64) as usize;
            let bad = strayed[..fits].to_vec();
            damages.extend(self.damage(path, inode, from, bad, Moment::Running));
        }
        damages
    }

    /// Undoes damage, where it is still there.
    pub fn restore(&mut self, damage: &Damage) {
        let (from, to) = (damage.at.start as usize, damage.at.end as usize);
        if let Ok(file) = self.file_mut(damage.inode)
            && file.durable().get(from..to) == Some(&damage.bad[..])
        {
            file.overwrite(damage.at.start, &damage.good);
        }
    }

    fn damage(
        &mut self,
        path: FilePath,
        inode: Inode,
        from: u64,
        bad: Vec<u8>,
        moment: Moment,
    ) -> Option<Damage> {
        let sequence = self.next_sequence();
        let file = self.file_mut(inode).ok()?;
        let to = from + bad.len() as u64;
        let good = file.durable().get(from as usize..to as usize)?;
        if good == bad {
            return None;
        }
        let good = Bytes::copy_from_slice(good);
        if is_segment(&path) && moment == Moment::Running {
            file.overwrite_behind(sequence, from, &bad);
        } else {
            file.overwrite(from, &bad);
        }
        Some(Damage {
            path,
            inode,
            at: from..to,
            good,
            bad: bad.into(),
        })
    }

    /// A file that is durable, with its length. Segments are half of those that are hit.
    fn victim(&self, moment: Moment, dice: &mut Dice) -> Option<(FilePath, Inode, u64)> {
        let mut files = Vec::new();
        self.collect_files(&FilePath::root(), ROOT, moment, &mut files);
        let (mut segments, others): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|(path, ..)| is_segment(path));
        let mut from = if dice.below(2) == 0 && !others.is_empty() || segments.is_empty() {
            others
        } else {
            std::mem::take(&mut segments)
        };
        if from.is_empty() {
            return None;
        }
        let which = dice.below(from.len() as u64) as usize;
        Some(from.swap_remove(which))
    }

    fn collect_files(
        &self,
        path: &FilePath,
        inode: Inode,
        moment: Moment,
        files: &mut Vec<(FilePath, Inode, u64)>,
    ) {
        match self.nodes.get(&inode) {
            Some(Node::Directory(directory)) => {
                let is_metadata = path.as_str() == METADATA;
                if is_metadata && moment != (Moment::AtRest { clean: true })
                    || path.name().ends_with("-delete")
                {
                    return;
                }
                // A name that could still go away with the power is not hit.
                for (name, child) in directory.cached() {
                    if directory.durable().get(name) == Some(child) {
                        self.collect_files(&path.join(name), *child, moment, files);
                    }
                }
            }
            // What is about to be written again shows no damage.
            Some(Node::File(file)) => {
                let length = file.durable().len() as u64;
                let spared = path.name() == "leader-epoch-checkpoint"
                    || path.name().ends_with(".tmp")
                    || !file.pending().is_empty();
                if length > 0 && !spared {
                    files.push((path.clone(), inode, length));
                }
            }
            None => {}
        }
    }
}

fn is_segment(path: &FilePath) -> bool {
    path.name().ends_with(".log")
}

impl File {
    /// The pages that a flush with this ticket would write.
    fn dirty_pages(&self, up_to: u64) -> Vec<u64> {
        let covered = self.pending().iter().take_while(|op| op.sequence <= up_to);
        let mut pages: Vec<u64> = covered
            .filter(|op| !op.lost)
            .flat_map(super::file::Pending::pages)
            .collect();
        pages.sort_unstable();
        pages.dedup();
        pages
    }
}
