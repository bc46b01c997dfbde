//! Whether what a filesystem shows after a power loss is among what the model allows.

use std::collections::BTreeMap;

use super::directory::Directory;
use super::file::File;
use super::remains::{self, FileRemains};
use super::{Disk, Inode, Node, ROOT};

/// What is in a directory, by name.
pub type Shown = BTreeMap<String, ShownEntry>;

/// A file or directory as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShownEntry {
    /// A file, and what is in it.
    File(Vec<u8>),
    /// A directory, and what is in it.
    Directory(Shown),
}

/// Which model is judged by. The others allow less than disks do, and must be refuted: that shows that
/// a disk outside of the model would be noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// What the simulator does.
    Model,
    /// A file is as it was at one moment: its length, and all that is in it.
    OneMoment,
    /// A name is durable with the file's first flush.
    NamesWithData,
    /// Nothing persists before it is flushed.
    OnlyWhatIsFlushed,
}

/// The unit that a disk writes whole or not at all.
const SECTOR_BYTES: u64 = 512;

impl Disk {
    /// Whether this is what a power loss may leave of the disk as it is now.
    ///
    /// # Errors
    /// What is not allowed, in words.
    pub fn allows(&self, shown: &Shown, strictness: Strictness) -> Result<(), String> {
        self.allows_directory(ROOT, "", shown, strictness)
    }

    fn allows_directory(
        &self,
        inode: Inode,
        path: &str,
        shown: &Shown,
        strictness: Strictness,
    ) -> Result<(), String> {
        let Some(Node::Directory(directory)) = self.nodes.get(&inode) else {
            return Err(format!("/{path} is a directory"));
        };
        let mut why = Vec::new();
        let pending = directory.pending().len();
        let most = match strictness {
            Strictness::OnlyWhatIsFlushed => 0,
            _ => pending,
        };
        for persisted in 0..=most {
            let names = remains::names(directory, |change| change < persisted);
            match self.allows_names(path, directory, &names, shown, strictness) {
                Ok(()) => return Ok(()),
                Err(error) => why.push(format!("with {persisted} of {pending} changes, {error}")),
            }
        }
        Err(why.join("; "))
    }

    fn allows_names(
        &self,
        path: &str,
        directory: &Directory,
        names: &BTreeMap<String, Inode>,
        shown: &Shown,
        strictness: Strictness,
    ) -> Result<(), String> {
        if !names.keys().eq(shown.keys()) {
            let (expected, found): (Vec<_>, Vec<_>) =
                (names.keys().collect(), shown.keys().collect());
            return Err(format!("/{path} has {expected:?} and shows {found:?}"));
        }
        for ((name, inode), entry) in names.iter().zip(shown.values()) {
            let separator = if path.is_empty() { "" } else { "/" };
            let path = format!("{path}{separator}{name}");
            match (self.nodes.get(inode), entry) {
                (Some(Node::File(file)), ShownEntry::File(bytes)) => file
                    .allows(bytes, strictness)
                    .map_err(|error| format!("/{path} {error}"))?,
                (Some(Node::Directory(_)), ShownEntry::Directory(shown)) => {
                    self.allows_directory(*inode, &path, shown, strictness)?;
                }
                _ => return Err(format!("/{path} is of another kind")),
            }
        }
        if strictness == Strictness::NamesWithData {
            let flushed =
                |inode: &Inode| self.file(*inode).is_some_and(|f| !f.durable().is_empty());
            let mut missing = directory.cached().iter();
            if let Some((name, _)) =
                missing.find(|(name, inode)| flushed(inode) && !shown.contains_key(*name))
            {
                return Err(format!("/{path} does not show {name}, which was flushed"));
            }
        }
        Ok(())
    }
}

impl File {
    fn allows(&self, shown: &[u8], strictness: Strictness) -> Result<(), String> {
        let remains = FileRemains::of(self);
        if strictness == Strictness::OnlyWhatIsFlushed && shown != self.durable() {
            return Err("is not what was flushed".to_owned());
        }
        let sizes = remains.sizes();
        if !sizes.contains(&(shown.len() as u64)) {
            let length = shown.len();
            return Err(format!(
                "is {length} bytes long, and was only ever {sizes:?}"
            ));
        }
        if strictness == Strictness::OneMoment {
            let moments = 0..=self.pending().len();
            let is_one = moments.into_iter().any(|done| self.after(done) == shown);
            return if is_one {
                Ok(())
            } else {
                Err("was never like that".to_owned())
            };
        }
        let mut old = remains.old();
        old.resize(old.len().max(shown.len()), 0);
        let mut at = 0;
        let pages = remains.pages();
        while at < shown.len() {
            let end = shown.len().min(at + SECTOR_BYTES as usize);
            let sector = &shown[at..end];
            let page = pages.iter().find(|page| page.from <= at && at < page.to);
            let is_old = sector == &old[at..end];
            let is_new = page.is_some_and(|page| {
                (0..page.moments()).any(|moment| {
                    let mut bytes = page.at(moment);
                    // A length may persist that is beyond all data.
                    bytes.resize(bytes.len().max(end - page.from), 0);
                    sector == &bytes[at - page.from..end - page.from]
                })
            });
            if !is_old && !is_new {
                return Err(format!(
                    "has a sector at {at} as it never was: {:02x?}...",
                    &sector[..sector.len().min(8)]
                ));
            }
            at = end;
        }
        Ok(())
    }

    /// What reads saw once so many of the pending operations were done.
    fn after(&self, done: usize) -> Vec<u8> {
        let mut image = self.durable().to_vec();
        for op in &self.pending()[..done] {
            op.replay(&mut image);
            image.resize(op.size_after as usize, 0);
        }
        image
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choices::Choices;
    use crate::disk::power_loss::Tearing;
    use crate::disk::script::script;

    const TEARING: Tearing = Tearing {
        sector_bytes: 512,
        harsh: false,
        garbage: false,
    };

    fn show(disk: &Disk, inode: Inode) -> Shown {
        let Some(Node::Directory(directory)) = disk.nodes.get(&inode) else {
            return Shown::new();
        };
        let entries = directory.cached().iter().map(|(name, inode)| {
            let entry = match disk.file(*inode) {
                Some(file) => ShownEntry::File(file.cached().to_vec()),
                None => ShownEntry::Directory(show(disk, *inode)),
            };
            (name.clone(), entry)
        });
        entries.collect()
    }

    #[test]
    fn all_that_a_power_loss_leaves_is_allowed_and_stricter_models_are_refuted() {
        let mut refuted = [0; 3];
        for seed in 0..300 {
            let mut disk = Disk::new();
            for call in script(seed, 25) {
                call.carry_out(&mut disk).unwrap();
            }
            let mut left = disk.clone();
            left.lose_power(TEARING, &mut Choices::new(seed));
            let shown = show(&left, ROOT);
            assert_eq!(
                disk.allows(&shown, Strictness::Model),
                Ok(()),
                "seed {seed}"
            );
            let stricter = [
                Strictness::OneMoment,
                Strictness::NamesWithData,
                Strictness::OnlyWhatIsFlushed,
            ];
            for (count, strictness) in refuted.iter_mut().zip(stricter) {
                *count += u32::from(disk.allows(&shown, strictness).is_err());
            }
        }
        assert!(refuted.iter().all(|count| *count > 0), "{refuted:?}");
    }

    #[test]
    fn a_byte_that_was_never_written_is_not_allowed() {
        let mut changed = 0;
        for seed in 0..20 {
            let mut disk = Disk::new();
            for call in script(seed, 25) {
                call.carry_out(&mut disk).unwrap();
            }
            let mut shown = show(&disk, ROOT);
            assert_eq!(disk.allows(&shown, Strictness::Model), Ok(()));
            let file = shown.values_mut().find_map(|entry| match entry {
                ShownEntry::File(bytes) if bytes.len() > 100 => Some(bytes),
                _ => None,
            });
            let Some(file) = file else { continue };
            file[50] ^= 0x80;
            assert!(disk.allows(&shown, Strictness::Model).is_err());
            changed += 1;
        }
        assert!(changed > 5, "{changed}");
    }
}
