//! The power cut: which bytes are on the medium when the power goes after a given event of a disk's
//! history.
//!
//! Everything written before the last flush that had completed is there. Of what was written after
//! it, any subset of sectors is: a disk writes back its cache in any order, and a write that was
//! under way is torn between two sectors. Where two writes overlap and both persist, the later one
//! wins.
//!
//! One exception: ext4 refuses to mount when one of its two superblocks is torn between sectors, so
//! those are written whole or not at all. It is the filesystem's own debt, and no image of it would
//! say anything about the program.

use crate::chance::Chance;
use crate::disk::{Event, History, Image, PAGE_BYTES, SECTOR_BYTES};

/// Makes the images of one history, for cuts that come in rising order: what was flushed is
/// replayed once, not once an image.
pub struct PowerCuts<'a> {
    history: &'a History,
    /// The base and every write before event `flushed`.
    stable: Image,
    flushed: usize,
}

impl<'a> PowerCuts<'a> {
    /// Cuts of this history.
    pub fn new(history: &'a History) -> Self {
        Self {
            history,
            stable: history.base.clone(),
            flushed: 0,
        }
    }

    /// What is on the medium when the power goes after the first `cut` events. No later call may
    /// have a smaller `cut`.
    pub fn image(&mut self, cut: usize, chance: &mut Chance) -> Image {
        let events = &self.history.events[..cut];
        let last_flush = events
            .iter()
            .rposition(|event| matches!(event, Event::Flush))
            .map_or(0, |index| index + 1);
        assert!(last_flush >= self.flushed, "cuts come in rising order");
        for event in &events[self.flushed..last_flush] {
            if let Event::Write { offset, data } = event {
                self.stable.write(*offset, data);
            }
        }
        self.flushed = last_flush;

        let mut image = self.stable.clone();
        let survival = Survival::draw(chance);
        for event in &events[last_flush..] {
            if let Event::Write { offset, data } = event {
                survival.apply(&mut image, *offset, data, chance);
            }
        }
        image
    }
}

/// How much of the unflushed writes one image keeps. Even chances for every sector would never show
/// the two images that matter most, the one with nothing and the one with everything.
enum Survival {
    Nothing,
    Everything,
    WholeWrites,
    Sectors {
        parts_of_256: u64,
    },
    /// Each write is lost, kept or torn.
    Mixed,
}

impl Survival {
    fn draw(chance: &mut Chance) -> Self {
        match chance.below(8) {
            0 => Self::Nothing,
            1 => Self::Everything,
            2 => Self::WholeWrites,
            3 => Self::Sectors { parts_of_256: 16 },
            4 => Self::Sectors { parts_of_256: 128 },
            5 => Self::Sectors { parts_of_256: 240 },
            _ => Self::Mixed,
        }
    }

    fn apply(&self, image: &mut Image, offset: u64, data: &[u8], chance: &mut Chance) {
        let sector_parts = match self {
            Self::Nothing => 0,
            Self::Everything => 256,
            Self::WholeWrites => 256 * chance.below(2),
            Self::Sectors { parts_of_256 } => *parts_of_256,
            Self::Mixed => 128 * chance.below(3),
        };
        for_each_part(offset, data, PAGE_BYTES, |at, page| {
            let grain = if is_superblock(at, page) {
                PAGE_BYTES
            } else {
                SECTOR_BYTES
            };
            for_each_part(at, page, grain, |at, part| {
                if chance.parts_of_256(sector_parts) {
                    image.write(at, part);
                }
            });
        });
    }
}

/// Cuts `data`, which lies at `offset`, at every multiple of `grain` bytes.
fn for_each_part(offset: u64, data: &[u8], grain: usize, mut visit: impl FnMut(u64, &[u8])) {
    let mut at = offset;
    let mut rest = data;
    while !rest.is_empty() {
        let to_boundary = grain - (at % grain as u64) as usize;
        let (part, later) = rest.split_at(to_boundary.min(rest.len()));
        visit(at, part);
        at += part.len() as u64;
        rest = later;
    }
}

/// Whether this page holds the filesystem's superblock (always in the first page) or that of its
/// journal (anywhere, and known by its magic number and block type).
fn is_superblock(offset: u64, page: &[u8]) -> bool {
    const JOURNAL_MAGIC: [u8; 4] = [0xc0, 0x3b, 0x39, 0x98];
    const JOURNAL_SUPERBLOCKS: [[u8; 4]; 2] = [[0, 0, 0, 3], [0, 0, 0, 4]];
    offset < PAGE_BYTES as u64
        || (page.starts_with(&JOURNAL_MAGIC)
            && page.get(4..8).is_some_and(|kind| {
                JOURNAL_SUPERBLOCKS
                    .iter()
                    .any(|superblock| superblock == kind)
            }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn history(events: Vec<Event>) -> History {
        History {
            base: Image::zeroed(64 * 1024),
            events,
        }
    }

    fn write(offset: u64, byte: u8) -> Event {
        Event::Write {
            offset,
            data: Arc::from(vec![byte; 2048]),
        }
    }

    #[test]
    fn what_was_flushed_before_the_cut_is_in_every_image() {
        let history = history(vec![
            write(4096, 1),
            write(8192, 2),
            Event::Flush,
            write(4096, 3),
        ]);
        for seed in 0..100 {
            let image = PowerCuts::new(&history).image(3, &mut Chance::new(seed));
            assert_eq!(image.read(4096, 2048), vec![1; 2048]);
            assert_eq!(image.read(8192, 2048), vec![2; 2048]);
        }
    }

    #[test]
    fn what_was_not_flushed_is_old_or_new_by_the_sector_and_every_mixture_comes_up() {
        let history = history(vec![write(4096, 1), Event::Flush, write(4096, 2)]);
        let (mut old, mut new, mut torn) = (0, 0, 0);
        for seed in 0..100 {
            let bytes = PowerCuts::new(&history)
                .image(3, &mut Chance::new(seed))
                .read(4096, 2048);
            for sector in bytes.chunks(SECTOR_BYTES) {
                assert!(
                    sector == [1; SECTOR_BYTES] || sector == [2; SECTOR_BYTES],
                    "a sector is never torn"
                );
            }
            match (bytes.contains(&1), bytes.contains(&2)) {
                (true, false) => old += 1,
                (false, true) => new += 1,
                _ => torn += 1,
            }
        }
        assert!(
            old > 5 && new > 5 && torn > 5,
            "{old} old, {new} new, {torn} torn"
        );
    }

    #[test]
    fn what_comes_after_the_cut_is_in_no_image() {
        let history = history(vec![
            write(4096, 1),
            Event::Flush,
            write(8192, 9),
            Event::Flush,
        ]);
        for seed in 0..100 {
            let image = PowerCuts::new(&history).image(2, &mut Chance::new(seed));
            assert_eq!(image.read(8192, 2048), vec![0; 2048]);
        }
    }
}
