//! A disk that keeps exactly what it promised.
//!
//! # The model
//!
//! A file has a *durable* image, what would be there after the power came back; a *cached* view,
//! what reads see; and, in the order in which they were done, the operations that lead from the
//! first to the second. The names in a directory are tracked apart from the files they name, in the
//! same way.
//!
//! - **Process crash.** The cached view stays, pages that are clean but not durable among them.
//!   What a system call had not done yet is not done, or done in part.
//! - **Power loss: data.** Each pending write is split at sectors, grouped in 4 KiB pages. Every
//!   page is independently old, new or mixed; in a mixed page every sector is as some moment of the
//!   past had it, so that the last of overlapping writes wins where both persist. No order holds
//!   between writes, files or pages. In harsh mode a sector may be torn inside, with garbage, but
//!   only in bytes that were being written.
//! - **Power loss: size.** Independent of data: the durable size, or that after any pending
//!   operation, or after any page of a pending write, which the kernel takes page by page. A grown
//!   size may persist over zeros or garbage; data may persist without the size; a pending truncation
//!   may be lost.
//! - **Background write-back** may persist anything at any time. Since an image is drawn from all
//!   moments of the past, that adds no image, and no event is needed for it.
//! - **A successful flush** makes durable every write of that file that was done before the flush
//!   was *called*, and the size it had then. Not its name, not other files.
//! - **Names.** Create, remove and rename are pending until their directory is flushed, and may
//!   persist earlier, before the file's data. A rename is atomic to look-ups, not durable. In a
//!   directory they persist in order; in harsh mode any of them may; between directories there is
//!   no order.
//! - **A failed flush** leaves the pages clean: the next flush succeeds and the data is not there.
//!   Either the cache keeps the new bytes, or it shows the old ones at once. The error is reported
//!   once. Pages that are clean but not durable survive a process crash; a power loss or an eviction
//!   reveals the old bytes. A page written to again is dirty as a whole and takes its lost bytes
//!   along.
//! - **A full disk** fails a write after as many bytes as still fit, and can fail a flush.
//! - **A filesystem that turns read-only.** After a failed flush it may take no more changes: each
//!   ends with EROFS, flushes too, and what is pending stays so. Reads go on. It takes changes again
//!   once it is mounted anew, which a person does after the process has ended: what was pending is
//!   then as after a power loss.
//! - **A latent sector error.** A sector that was written back turns out to be unreadable when
//!   somebody reads it: EIO, and so for everyone until the whole of it is written again. Pages that
//!   are not written back are read from the cache. Once faults are over the device can read
//!   everything again, so that nothing may be missing then.
//! - **A short read** gives a part of what is there; whoever wants more has to ask again.
//! - **No file descriptor** (EMFILE): whatever needs a file fails before it does anything, a flush
//!   too, whose pages stay dirty.
//! - **Stalls.** Every operation takes an exponential time, or a bimodal one with single operations
//!   that take seconds; or the whole device stands still for seconds.
//! - **Rot.** Bits of what was written back flip, while a process runs or none does, and no read
//!   says so. It strikes closed segments, the tail of a log, indexes, producer snapshots, the
//!   checkpoint, the markers, the metadata log: whatever lies in the data directory, but for the
//!   files that [`damage`] lists with the reasons.
//! - **A misdirected write.** A page that is flushed ends up where another one was; where it should
//!   be, the old bytes stay. **A misdirected read** gives, once, the bytes of another place.
//!
//! # The budget
//!
//! Which losses a fault permits:
//!
//! | class | faults | permits |
//! |---|---|---|
//! | damage | rot, misdirected writes and reads | loss of what was hit, *detected*: an error that names file and position in the broker's log, KAFKA_STORAGE_ERROR to whoever asks. Derived files (indexes, snapshots of producers, epoch checkpoints) permit nothing: they can be built anew |
//! | all others | | no loss at all |
//!
//! A flush that lies permits what nobody can detect: bytes that end at a batch's end leave no trace.
//! It is a planted bug (`lying-flush`), and not a fault.
//!
//! What fails, and when, is decided by [`faults`]; what a read gives, in [`reader`]; which bytes rot,
//! in [`damage`]. What a power loss may leave is described in one place (`remains.rs`), from which
//! [`power_loss`] draws an image, [`images`] makes all of them, and [`judge`] tells whether a real
//! filesystem left one; [`script`] has the operations for that.

use std::collections::BTreeMap;

use bytes::Bytes;
use odradek_core::ids::{FilePath, Position};
use odradek_core::input::{DirEntry, DiskError, DiskErrorKind, ReadFiles};

use self::directory::Directory;
use self::file::File;

pub mod damage;
pub mod directory;
pub mod faults;
pub mod file;
pub mod images;
pub mod judge;
pub mod power_loss;
pub mod reader;
mod remains;
pub mod script;

/// A file or directory, apart from its names. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Inode(pub u64);

/// The number of the last operation that a flush covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// One filesystem, with the data directory as its root.
#[derive(Clone, Debug)]
pub struct Disk {
    nodes: BTreeMap<Inode, Node>,
    next_inode: u64,
    sequence: u64,
    /// How many bytes still fit; `None` while the disk is not full.
    free_bytes: Option<u64>,
    /// Nothing can be changed until it is mounted again.
    read_only: bool,
}

/// What an inode is.
#[derive(Clone, Debug)]
enum Node {
    File(File),
    Directory(Directory),
}

/// What a write came to: all of it, or the bytes that were written before it failed.
pub type Written = Result<(), (usize, DiskErrorKind)>;

const ROOT: Inode = Inode(0);

impl Disk {
    /// An empty filesystem, which is durable.
    #[must_use]
    pub fn new() -> Self {
        Self {
            nodes: BTreeMap::from([(ROOT, Node::Directory(Directory::default()))]),
            next_inode: 1,
            sequence: 0,
            free_bytes: None,
            read_only: false,
        }
    }

    /// Whether nothing can be changed.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The filesystem turns read-only, or is mounted again.
    pub const fn set_read_only(&mut self, read_only: bool) {
        self.read_only = read_only;
    }

    const fn changeable(&self) -> Result<(), DiskErrorKind> {
        if self.read_only {
            Err(DiskErrorKind::ReadOnly)
        } else {
            Ok(())
        }
    }

    /// A sector of a file turns out to be unreadable; whether it does.
    pub fn lose_sector(&mut self, inode: Inode, sector: u64) -> bool {
        self.file_mut(inode)
            .is_ok_and(|file| file.lose_sector(sector))
    }

    /// Whether there is a sector that cannot be read.
    #[must_use]
    pub fn has_unreadable(&self) -> bool {
        self.nodes
            .values()
            .any(|node| matches!(node, Node::File(file) if file.has_unreadable()))
    }

    /// The device can read all sectors again.
    pub fn read_again(&mut self) {
        for node in self.nodes.values_mut() {
            if let Node::File(file) = node {
                file.read_again();
            }
        }
    }

    /// Sets how many more bytes fit, or that the disk is not full.
    pub const fn set_free_bytes(&mut self, free: Option<u64>) {
        self.free_bytes = free;
    }

    /// How many more bytes fit; `None` while the disk is not full.
    #[must_use]
    pub const fn free_bytes(&self) -> Option<u64> {
        self.free_bytes
    }

    /// What a path names.
    pub fn lookup(&self, path: &FilePath) -> Result<Inode, DiskErrorKind> {
        self.resolve(path, |directory| directory.cached())
    }

    /// What a path would name if the power were lost now and nothing pending had persisted.
    #[must_use]
    pub fn lookup_durable(&self, path: &FilePath) -> Option<Inode> {
        self.resolve(path, |directory| directory.durable()).ok()
    }

    fn resolve(
        &self,
        path: &FilePath,
        names: impl Fn(&Directory) -> &BTreeMap<String, Inode>,
    ) -> Result<Inode, DiskErrorKind> {
        let mut at = ROOT;
        for part in path.as_str().split('/').filter(|part| !part.is_empty()) {
            let Some(Node::Directory(directory)) = self.nodes.get(&at) else {
                return Err(DiskErrorKind::NotFound);
            };
            at = *names(directory).get(part).ok_or(DiskErrorKind::NotFound)?;
        }
        Ok(at)
    }

    /// The file of an inode, if it is one.
    #[must_use]
    pub fn file(&self, inode: Inode) -> Option<&File> {
        match self.nodes.get(&inode) {
            Some(Node::File(file)) => Some(file),
            _ => None,
        }
    }

    fn file_mut(&mut self, inode: Inode) -> Result<&mut File, DiskErrorKind> {
        match self.nodes.get_mut(&inode) {
            Some(Node::File(file)) => Ok(file),
            _ => Err(DiskErrorKind::NotFound),
        }
    }

    fn directory_mut(&mut self, path: &FilePath) -> Result<&mut Directory, DiskErrorKind> {
        let inode = self.lookup(path)?;
        match self.nodes.get_mut(&inode) {
            Some(Node::Directory(directory)) => Ok(directory),
            _ => Err(DiskErrorKind::Other),
        }
    }

    const fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Makes a directory; one that is there already is no error.
    pub fn create_dir(&mut self, path: &FilePath) -> Result<(), DiskErrorKind> {
        if let Ok(inode) = self.lookup(path) {
            return match self.nodes.get(&inode) {
                Some(Node::Directory(_)) => Ok(()),
                _ => Err(DiskErrorKind::Other),
            };
        }
        self.link_new(path, Node::Directory(Directory::default()))?;
        Ok(())
    }

    /// Creates a file, or cuts the one that is there to nothing.
    pub fn create_file(&mut self, path: &FilePath) -> Result<Inode, DiskErrorKind> {
        self.changeable()?;
        match self.lookup(path) {
            Ok(inode) => {
                self.set_length(inode, 0)?;
                Ok(inode)
            }
            Err(_) => self.link_new(path, Node::File(File::default())),
        }
    }

    fn link_new(&mut self, path: &FilePath, node: Node) -> Result<Inode, DiskErrorKind> {
        self.changeable()?;
        if self.free_bytes == Some(0) {
            return Err(DiskErrorKind::NoSpace);
        }
        let sequence = self.next_sequence();
        let inode = Inode(self.next_inode);
        self.directory_mut(&path.parent())?
            .change(sequence, vec![(path.name().to_owned(), Some(inode))]);
        self.next_inode += 1;
        self.nodes.insert(inode, node);
        Ok(inode)
    }

    /// Writes into the cached view, as far as there is room.
    pub fn write(&mut self, inode: Inode, position: u64, mut bytes: Bytes) -> Written {
        self.changeable().map_err(|kind| (0, kind))?;
        let sequence = self.next_sequence();
        let free = self.free_bytes;
        let file = self.file_mut(inode).map_err(|kind| (0, kind))?;
        let growth = (position + bytes.len() as u64).saturating_sub(file.len());
        let missing = free.map_or(0, |free| growth.saturating_sub(free)) as usize;
        let fits = bytes.len().saturating_sub(missing);
        let before = file.len();
        bytes.truncate(fits);
        file.write(sequence, position, bytes);
        let grown = file.len() - before;
        if let Some(free) = &mut self.free_bytes {
            *free = free.saturating_sub(grown);
        }
        if missing > 0 {
            Err((fits, DiskErrorKind::NoSpace))
        } else {
            Ok(())
        }
    }

    /// Cuts or extends the cached view.
    pub fn set_length(&mut self, inode: Inode, length: u64) -> Result<(), DiskErrorKind> {
        self.changeable()?;
        let sequence = self.next_sequence();
        let file = self.file_mut(inode)?;
        let freed = file.len().saturating_sub(length);
        file.set_length(sequence, length);
        if let Some(free) = &mut self.free_bytes {
            *free += freed;
        }
        Ok(())
    }

    /// A flush is called: what was done until now is what it will cover.
    #[must_use]
    pub const fn call_flush(&self) -> Ticket {
        Ticket(self.sequence)
    }

    /// A flush of a file succeeds.
    pub fn flush(&mut self, inode: Inode, ticket: Ticket) -> Result<(), DiskErrorKind> {
        self.changeable()?;
        self.file_mut(inode)?.flush(ticket.0);
        Ok(())
    }

    /// A flush of a file fails: what it should have covered is clean and not durable. If
    /// `shows_old`, the cache drops it at once.
    pub fn fail_flush(&mut self, inode: Inode, ticket: Ticket, shows_old: bool) {
        if let Ok(file) = self.file_mut(inode) {
            file.fail_flush(ticket.0);
            if shows_old {
                file.evict();
            }
        }
    }

    /// The kernel drops a file's clean pages: where they are not durable, the old bytes show.
    pub fn evict(&mut self, inode: Inode) {
        if let Ok(file) = self.file_mut(inode) {
            file.evict();
        }
    }

    /// A flush of a directory succeeds.
    pub fn sync_dir(&mut self, path: &FilePath, ticket: Ticket) -> Result<(), DiskErrorKind> {
        self.changeable()?;
        self.directory_mut(path)?.sync(ticket.0);
        Ok(())
    }

    /// Renames a file or directory over what is there. Within one directory that is one change;
    /// across two it is one in each, without order.
    pub fn rename(&mut self, from: &FilePath, to: &FilePath) -> Result<(), DiskErrorKind> {
        self.changeable()?;
        let inode = self.lookup(from)?;
        if from == to {
            return Ok(());
        }
        if let Ok(target) = self.lookup(to)
            && let Some(Node::Directory(target)) = self.nodes.get(&target)
            && !target.cached().is_empty()
        {
            return Err(DiskErrorKind::Other);
        }
        let sequence = self.next_sequence();
        let away = (from.name().to_owned(), None);
        let here = (to.name().to_owned(), Some(inode));
        if from.parent() == to.parent() {
            self.directory_mut(&from.parent())?
                .change(sequence, vec![away, here]);
        } else {
            self.directory_mut(&to.parent())?
                .change(sequence, vec![here]);
            self.directory_mut(&from.parent())?
                .change(sequence, vec![away]);
        }
        Ok(())
    }

    /// Unlinks a file; one that is not there is no error.
    pub fn remove_file(&mut self, path: &FilePath) -> Result<(), DiskErrorKind> {
        self.changeable()?;
        let Ok(inode) = self.lookup(path) else {
            return Ok(());
        };
        let length = match self.nodes.get(&inode) {
            Some(Node::File(file)) => file.len(),
            _ => return Err(DiskErrorKind::Other),
        };
        self.unlink(path)?;
        if let Some(free) = &mut self.free_bytes {
            *free += length;
        }
        Ok(())
    }

    /// The unlinks that remove a directory and all below it, children first. It is not atomic, so
    /// the host does them one by one.
    #[must_use]
    pub fn tree(&self, path: &FilePath) -> Vec<FilePath> {
        let mut list = Vec::new();
        if let Ok(inode) = self.lookup(path) {
            self.collect(path, inode, &mut list);
        }
        list
    }

    fn collect(&self, path: &FilePath, inode: Inode, list: &mut Vec<FilePath>) {
        if let Some(Node::Directory(directory)) = self.nodes.get(&inode) {
            for (name, child) in directory.cached() {
                self.collect(&path.join(name), *child, list);
            }
        }
        list.push(path.clone());
    }

    /// Unlinks whatever a path names; a directory must be empty.
    pub fn unlink(&mut self, path: &FilePath) -> Result<(), DiskErrorKind> {
        self.changeable()?;
        if let Ok(inode) = self.lookup(path)
            && let Some(Node::Directory(directory)) = self.nodes.get(&inode)
            && !directory.cached().is_empty()
        {
            return Err(DiskErrorKind::Other);
        }
        let sequence = self.next_sequence();
        self.directory_mut(&path.parent())?
            .change(sequence, vec![(path.name().to_owned(), None)]);
        Ok(())
    }

    /// What is in a directory, by name.
    pub fn entries(&self, path: &FilePath) -> Result<Vec<DirEntry>, DiskErrorKind> {
        let inode = self.lookup(path)?;
        let Some(Node::Directory(directory)) = self.nodes.get(&inode) else {
            return Err(DiskErrorKind::Other);
        };
        Ok(directory
            .cached()
            .iter()
            .map(|(name, child)| DirEntry {
                name: name.clone(),
                length: self.file(*child).map(|file| Position(file.len())),
            })
            .collect())
    }

    /// What a file holds as reads see it.
    #[must_use]
    pub fn cached(&self, path: &FilePath) -> Option<&[u8]> {
        Some(self.file(self.lookup(path).ok()?)?.cached())
    }

    /// What a file would hold if the power were lost now and nothing pending had persisted.
    #[must_use]
    pub fn durable(&self, path: &FilePath) -> Option<&[u8]> {
        Some(self.file(self.lookup_durable(path)?)?.durable())
    }

    /// Whether a failed flush left pages of a file in this directory that read well and are not on
    /// the disk.
    #[must_use]
    pub fn has_lost_pages(&self, directory: &FilePath) -> bool {
        let Some(Node::Directory(directory)) =
            self.lookup(directory).ok().and_then(|d| self.nodes.get(&d))
        else {
            return false;
        };
        directory
            .cached()
            .values()
            .filter_map(|inode| self.file(*inode))
            .any(File::has_lost_pages)
    }

    /// Damages a file on the medium: both what reads see and what is durable.
    pub fn flip_bit(&mut self, inode: Inode, position: u64, bit: u8) {
        if let Ok(file) = self.file_mut(inode) {
            file.flip_bit(position, bit);
        }
    }
}

impl Default for Disk {
    fn default() -> Self {
        Self::new()
    }
}

/// An error of this kind on this path.
#[must_use]
pub fn error(kind: DiskErrorKind, path: &FilePath, detail: &str) -> DiskError {
    DiskError {
        kind,
        path: path.clone(),
        detail: detail.to_owned(),
    }
}

impl ReadFiles for &Disk {
    fn read_at(
        &mut self,
        path: &FilePath,
        position: Position,
        buffer: &mut [u8],
    ) -> Result<usize, DiskError> {
        let inode = self.lookup(path).map_err(|kind| error(kind, path, ""))?;
        let file = self
            .file(inode)
            .ok_or_else(|| error(DiskErrorKind::Other, path, "is a directory"))?;
        let from = position.0.min(file.len()) as usize;
        let bytes = &file.cached()[from..];
        let length = bytes.len().min(buffer.len());
        buffer[..length].copy_from_slice(&bytes[..length]);
        Ok(length)
    }

    fn length(&mut self, path: &FilePath) -> Result<Position, DiskError> {
        let inode = self.lookup(path).map_err(|kind| error(kind, path, ""))?;
        self.file(inode)
            .map(|file| Position(file.len()))
            .ok_or_else(|| error(DiskErrorKind::Other, path, "is a directory"))
    }

    fn list(&mut self, directory: &FilePath) -> Result<Vec<DirEntry>, DiskError> {
        self.entries(directory)
            .map_err(|kind| error(kind, directory, ""))
    }
}

#[cfg(test)]
mod tests;
