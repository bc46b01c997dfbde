//! Serves [`Disk`]s as files, so that a loop device and a real filesystem can be put on them.
//!
//! The kernel's own cache is bypassed for these files: a write of the loop device is in the disk's
//! history before the loop device hears that it is done, and a flush of the filesystem above (the
//! loop device turns it into `fsync`) is there before the filesystem goes on.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, WriteFlags,
};

use crate::disk::Disk;

/// Names and attributes change only when a test adds or removes a disk, and nothing here is worth a
/// stale answer.
const NO_CACHING: Duration = Duration::ZERO;

type Disks = Arc<Mutex<BTreeMap<u64, Arc<Disk>>>>;

/// A mounted folder of disks. Unmounted when dropped; by then nothing may use its files any more.
pub struct DiskServer {
    folder: PathBuf,
    disks: Disks,
    next_inode: Mutex<u64>,
    session: Option<BackgroundSession>,
}

impl DiskServer {
    /// Mounts at `folder`, which is created.
    pub fn mount(folder: &Path) -> Self {
        std::fs::create_dir_all(folder).expect("the folder of the disks can be created");
        let disks = Disks::default();
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("odradek-disks".to_owned())];
        // One image is written while the next is made, and the loop devices must not wait for each
        // other.
        config.n_threads = Some(2);
        let session = Session::new(
            Folder {
                disks: Arc::clone(&disks),
            },
            folder,
            &config,
        )
        .and_then(Session::spawn)
        .unwrap_or_else(|error| {
            panic!(
                "FUSE cannot be mounted at {} (root? /dev/fuse?): {error}",
                folder.display()
            )
        });
        Self {
            folder: folder.to_owned(),
            disks,
            next_inode: Mutex::new(2),
            session: Some(session),
        }
    }

    /// Serves one more disk and says under which path.
    pub fn add(&self, disk: Arc<Disk>) -> ServedDisk {
        let mut next_inode = self
            .next_inode
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let inode = *next_inode;
        // Never reused: the kernel may still hold what it knew of a disk that is gone.
        *next_inode += 1;
        self.disks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(inode, disk);
        ServedDisk {
            path: self.folder.join(inode.to_string()),
            inode,
            disks: Arc::clone(&self.disks),
        }
    }
}

impl Drop for DiskServer {
    fn drop(&mut self) {
        if let Some(session) = self.session.take()
            && let Err(error) = session.umount_and_join()
        {
            eprintln!("{} stays mounted: {error}", self.folder.display());
        }
    }
}

/// A disk that is there as a file until this is dropped.
pub struct ServedDisk {
    path: PathBuf,
    inode: u64,
    disks: Disks,
}

impl ServedDisk {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ServedDisk {
    fn drop(&mut self) {
        self.disks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.inode);
    }
}

struct Folder {
    disks: Disks,
}

impl Folder {
    fn disk(&self, inode: INodeNo) -> Option<Arc<Disk>> {
        self.disks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&u64::from(inode))
            .cloned()
    }

    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match u64::from(inode) {
            1 => (FileType::Directory, 0o755, 0),
            _ => (FileType::RegularFile, 0o644, self.disk(inode)?.len_bytes()),
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl Filesystem for Folder {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // One request for what the block layer merged into one: the grain of tearing is the sector
        // all the same.
        let _nearest_possible = config.set_max_write(1 << 20);
        Ok(())
    }

    fn lookup(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let inode = name
            .to_str()
            .and_then(|name| name.parse().ok())
            .map(INodeNo);
        match inode.and_then(|inode| self.attributes(inode)) {
            Some(attributes) => reply.entry(&NO_CACHING, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&NO_CACHING, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.disk(inode) {
            Some(disk) => reply.data(&disk.read(offset, size as usize)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn write(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let Some(disk) = self.disk(inode) else {
            return reply.error(Errno::ENOENT);
        };
        if offset + data.len() as u64 > disk.len_bytes() {
            return reply.error(Errno::ENOSPC);
        }
        if disk.refuses_write(data) {
            return reply.error(Errno::EIO);
        }
        disk.write(offset, data);
        reply.written(data.len() as u32);
    }

    fn fsync(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let Some(disk) = self.disk(inode) else {
            return reply.error(Errno::ENOENT);
        };
        if disk.refuses_flush() {
            return reply.error(Errno::EIO);
        }
        disk.flush();
        reply.ok();
    }

    /// FUSE's name for what happens at close: it has nothing to do with the medium.
    fn flush(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }
}
