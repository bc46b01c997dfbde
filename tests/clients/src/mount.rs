//! A real ext4 on a disk: loop device and mount, undone when dropped.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Makes an ext4 filesystem on `device` with every table written out, so that nothing writes in the
/// background later.
pub fn make_ext4(device: &Path) {
    let device = device.to_string_lossy();
    run(&[
        "mkfs.ext4",
        "-q",
        "-F",
        "-b",
        "4096",
        "-m",
        "0",
        "-E",
        "lazy_itable_init=0,lazy_journal_init=0",
        &device,
    ])
    .unwrap_or_else(|error| panic!("no ext4 on {device}: {error}"));
}

/// An ext4 that is mounted with the options a distribution uses.
pub struct Mounted {
    folder: PathBuf,
    loop_device: String,
}

impl Mounted {
    /// Mounts what the file `backing` holds at `folder`, which is created; the filesystem's journal
    /// is replayed.
    ///
    /// # Errors
    /// What `losetup` or `mount` said.
    pub fn new(backing: &Path, folder: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(folder).expect("the mount point can be created");
        let loop_device = run(&["losetup", "--find", "--show", &backing.to_string_lossy()])?;
        let loop_device = loop_device.trim().to_owned();
        if let Err(error) = run(&[
            "mount",
            "-t",
            "ext4",
            &loop_device,
            &folder.to_string_lossy(),
        ]) {
            detach(&loop_device);
            return Err(error);
        }
        Ok(Self {
            folder: folder.to_owned(),
            loop_device,
        })
    }

    /// Where the filesystem is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let folder = self.folder.to_string_lossy().into_owned();
        // A process that has just been killed may hold its files for a moment longer.
        for attempt in 0.. {
            match run(&["umount", &folder]) {
                Ok(_) => break,
                Err(_) if attempt < 50 => std::thread::sleep(Duration::from_millis(20)),
                Err(error) => {
                    eprintln!("{folder} stays mounted: {error}");
                    return;
                }
            }
        }
        detach(&self.loop_device);
    }
}

fn detach(loop_device: &str) {
    if let Err(error) = run(&["losetup", "--detach", loop_device]) {
        eprintln!("{loop_device} stays attached: {error}");
    }
}

/// Runs a command and gives what it printed, or why it failed.
fn run(words: &[&str]) -> Result<String, String> {
    let (program, arguments) = words.split_first().expect("a command has a name");
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{program} is needed and cannot be run: {error}"));
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!(
            "{}: {}: {}",
            words.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ))
    }
}
