//! Scripts of file operations, for the model to be held against a real filesystem: drawn from a seed,
//! done on the virtual [`Disk`] here and on real files elsewhere.

use std::fmt;

use bytes::Bytes;
use odradek_core::ids::FilePath;
use odradek_core::input::DiskErrorKind;

use super::Disk;
use crate::choices::{Choices, Dice, Subsystem};

/// One operation. Paths are relative to the root, and there is always something at them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileCall {
    /// Make a directory.
    CreateDir(String),
    /// Make a file, or cut the one that is there to nothing.
    Create(String),
    /// Write bytes at a position.
    WriteAt(String, u64, Bytes),
    /// Cut or extend a file.
    SetLength(String, u64),
    /// Flush a file.
    Sync(String),
    /// Flush a directory; the root is the empty path.
    SyncDir(String),
    /// Rename a file over whatever is there.
    Rename(String, String),
    /// Unlink a file.
    Remove(String),
    /// Have the kernel begin to write a file back. No promise: the model lets that happen at any time.
    WriteBack(String),
}

/// Where the files of a script may be.
const DIRECTORY: &str = "dir";
const NAMES: [&str; 5] = ["a", "b", "c", "dir/d", "dir/e"];

/// Draws the script of a seed. What it writes differs from write to write, and is never zero.
#[must_use]
pub fn script(seed: u64, length: usize) -> Vec<FileCall> {
    let mut dice = Choices::new(seed).dice(Subsystem::Image, 0);
    let mut disk = Disk::new();
    let mut calls = Vec::new();
    let mut add = |disk: &mut Disk, call: FileCall| {
        call.carry_out(disk)
            .expect("it was drawn for what is on the disk");
        calls.push(call);
    };
    add(&mut disk, FileCall::CreateDir(DIRECTORY.to_owned()));
    for number in 0..length {
        let call = draw(&disk, number as u8, &mut dice);
        add(&mut disk, call);
    }
    calls
}

fn draw(disk: &Disk, number: u8, dice: &mut Dice) -> FileCall {
    let name = dice.pick(&NAMES).to_owned();
    let Some(length) = disk.cached(&name.as_str().into()).map(<[u8]>::len) else {
        return FileCall::Create(name);
    };
    let length = length as u64;
    match dice.below(20) {
        0..8 => {
            // Mostly at the end, as a log is written; in sizes around those of sectors and pages.
            let position = if dice.below(4) == 0 {
                dice.below(length + 600)
            } else {
                length
            };
            let most = dice.pick(&[40, 600, 5_000]);
            let bytes = vec![number.wrapping_mul(7) | 1; dice.between(1, most) as usize];
            FileCall::WriteAt(name, position, bytes.into())
        }
        8 | 9 => FileCall::SetLength(name, dice.below(length + 1_000)),
        10..13 => FileCall::Sync(name),
        13 | 14 => {
            let parent = FilePath::from(name.as_str()).parent();
            FileCall::SyncDir(parent.as_str().to_owned())
        }
        15 => {
            let to = dice.pick(&NAMES).to_owned();
            FileCall::Rename(name, to)
        }
        16 => FileCall::Remove(name),
        _ => FileCall::WriteBack(name),
    }
}

impl FileCall {
    /// Does it on a virtual disk.
    ///
    /// # Errors
    /// There is nothing at its path.
    pub fn carry_out(&self, disk: &mut Disk) -> Result<(), DiskErrorKind> {
        let path = |path: &str| FilePath::from(path);
        match self {
            Self::CreateDir(name) => disk.create_dir(&path(name)),
            Self::Create(name) => disk.create_file(&path(name)).map(|_| ()),
            Self::WriteAt(name, position, bytes) => {
                let inode = disk.lookup(&path(name))?;
                disk.write(inode, *position, bytes.clone())
                    .map_err(|(_, kind)| kind)
            }
            Self::SetLength(name, length) => {
                let inode = disk.lookup(&path(name))?;
                disk.set_length(inode, *length)
            }
            Self::Sync(name) => {
                let inode = disk.lookup(&path(name))?;
                let ticket = disk.call_flush();
                disk.flush(inode, ticket)
            }
            Self::SyncDir(name) => {
                let ticket = disk.call_flush();
                disk.sync_dir(&path(name), ticket)
            }
            Self::Rename(from, to) => disk.rename(&path(from), &path(to)),
            Self::Remove(name) => disk.remove_file(&path(name)),
            Self::WriteBack(_) => Ok(()),
        }
    }
}

impl fmt::Display for FileCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateDir(name) => write!(f, "create-dir {name}"),
            Self::Create(name) => write!(f, "create {name}"),
            Self::WriteAt(name, position, bytes) => {
                let byte = bytes.first().copied().unwrap_or_default();
                write!(f, "write {name} {position}+{} of {byte:#04x}", bytes.len())
            }
            Self::SetLength(name, length) => write!(f, "set-length {name} {length}"),
            Self::Sync(name) => write!(f, "sync {name}"),
            Self::SyncDir(name) => write!(f, "sync-dir /{name}"),
            Self::Rename(from, to) => write!(f, "rename {from} -> {to}"),
            Self::Remove(name) => write!(f, "remove {name}"),
            Self::WriteBack(name) => write!(f, "write-back {name}"),
        }
    }
}
