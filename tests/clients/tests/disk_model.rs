//! The simulator's disk against a real one: scripts of file operations are done on ext4, the power goes
//! at many points, and everything that the filesystem then shows must be allowed by the model from which
//! the simulator draws. Models that allow less must be refuted by the same images.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use odradek_client_tests::chance::{Chance, run_seed};
use odradek_client_tests::cut::PowerCuts;
use odradek_client_tests::disk::{Disk, Image};
use odradek_client_tests::fuse::DiskServer;
use odradek_client_tests::mount::{Mounted, make_ext4};
use odradek_client_tests::work_dir::WorkDir;
use odradek_sim::disk::Disk as Model;
use odradek_sim::disk::judge::{Shown, ShownEntry, Strictness};
use odradek_sim::disk::script::{FileCall, script};

/// How long images are looked at.
const TIME: Duration = Duration::from_secs(40);
/// How much longer, for what is seldom seen: names that came without their data take a cut at the right
/// moment, and a busy machine looks at half as many images.
const LONGEST: Duration = Duration::from_secs(160);
/// Operations of a script.
const LENGTH: usize = 40;
/// Images of a script.
const IMAGES: u64 = 24;

/// A script that was done: the events of the disk before its first operation and after each.
struct Done {
    calls: Vec<FileCall>,
    events: Vec<usize>,
}

#[test]
fn what_ext4_shows_after_a_power_cut_is_what_the_model_allows() {
    let seed = run_seed();
    println!("ODRADEK_TEST_SEED={seed}");
    let work = WorkDir::new("disk-model");
    let server = DiskServer::mount(&work.join("disks"));
    let empty = empty_filesystem(&server, &work);
    let stricter = [
        Strictness::OneMoment,
        Strictness::NamesWithData,
        Strictness::OnlyWhatIsFlushed,
    ];
    let mut refuted = [0_u32; 3];
    let (mut scripts, mut images) = (0, 0);
    let began = Instant::now();
    while began.elapsed() < TIME || (refuted.contains(&0) && began.elapsed() < LONGEST) {
        let calls = script(seed.wrapping_add(scripts), LENGTH);
        scripts += 1;
        let disk = Disk::new(empty.clone());
        let served = server.add(disk.clone());
        disk.start_history();
        let mounted = Mounted::new(served.path(), &work.join("live")).expect("ext4 mounts");
        let mut events = vec![disk.event_count()];
        for call in &calls {
            carry_out(call, mounted.folder());
            events.push(disk.event_count());
        }
        let done = Done { calls, events };
        let history = disk.history();
        drop(mounted);

        let mut chance = Chance::of(seed, scripts);
        let first = done.events.first().copied().unwrap_or_default();
        let span = (history.events.len() - first) as u64 + 1;
        let mut cuts: Vec<usize> = (0..IMAGES)
            .map(|_| first + chance.below(span) as usize)
            .collect();
        cuts.sort_unstable();
        let mut power_cuts = PowerCuts::new(&history);
        for cut in cuts {
            let image = power_cuts.image(cut, &mut chance);
            let served = server.add(Disk::new(image));
            let mounted =
                Mounted::new(served.path(), &work.join("image")).expect("the journal is replayed");
            let shown = show(mounted.folder());
            drop(mounted);
            images += 1;
            if let Err(error) = done.allows(cut, &shown, Strictness::Model) {
                panic!(
                    "script {}, cut after event {cut}: {error}\n{}",
                    seed.wrapping_add(scripts - 1),
                    done.words(cut)
                );
            }
            for (count, strictness) in refuted.iter_mut().zip(stricter) {
                *count += u32::from(done.allows(cut, &shown, strictness).is_err());
            }
        }
    }
    println!("{images} images of {scripts} scripts are allowed");
    for (count, strictness) in refuted.iter().zip(stricter) {
        println!("{count} of them refute a model of {strictness:?}");
        assert!(
            *count > 0,
            "nothing would be noticed outside of {strictness:?}"
        );
    }
}

impl Done {
    /// Whether a model allows what is shown after a cut: as of some operation that had begun by then
    /// and was not followed by one that was over.
    fn allows(&self, cut: usize, shown: &Shown, strictness: Strictness) -> Result<(), String> {
        let mut model = Model::new();
        let mut why = Vec::new();
        for (number, call) in self.calls.iter().enumerate() {
            // Before this operation, unless it was over when the power went.
            if self.events[number + 1] >= cut {
                match model.allows(shown, strictness) {
                    Ok(()) => return Ok(()),
                    Err(error) => why.push(format!("before {call}: {error}")),
                }
            }
            if self.events[number] > cut {
                return Err(why.join("\n"));
            }
            call.carry_out(&mut model)
                .expect("the script was drawn for the model");
        }
        model.allows(shown, strictness).map_err(|error| {
            why.push(format!("at the end: {error}"));
            why.join("\n")
        })
    }

    fn words(&self, cut: usize) -> String {
        let lines = self.calls.iter().zip(&self.events).map(|(call, before)| {
            let mark = if *before <= cut { ' ' } else { '-' };
            format!("{mark} {before:>4} {call}\n")
        });
        lines.collect()
    }
}

/// An ext4 without anything on it but its own folder.
fn empty_filesystem(server: &DiskServer, work: &WorkDir) -> Image {
    let disk = Disk::new(Image::zeroed(32 << 20));
    let served = server.add(disk.clone());
    make_ext4(served.path());
    // A first mount writes what a fresh filesystem still lacks.
    drop(Mounted::new(served.path(), &work.join("first")).expect("a fresh ext4 mounts"));
    disk.start_history();
    disk.history().base
}

/// Does an operation of a script on real files.
fn carry_out(call: &FileCall, root: &Path) {
    let open = |name: &str| {
        OpenOptions::new()
            .write(true)
            .open(root.join(name))
            .expect("the script names what is there")
    };
    let done = match call {
        FileCall::CreateDir(name) => fs::create_dir(root.join(name)),
        FileCall::Create(name) => File::create(root.join(name)).map(drop),
        FileCall::WriteAt(name, position, bytes) => open(name).write_all_at(bytes, *position),
        FileCall::SetLength(name, length) => open(name).set_len(*length),
        FileCall::Sync(name) => open(name).sync_all(),
        FileCall::SyncDir(name) => File::open(root.join(name)).and_then(|dir| dir.sync_all()),
        FileCall::Rename(from, to) => fs::rename(root.join(from), root.join(to)),
        FileCall::Remove(name) => fs::remove_file(root.join(name)),
        FileCall::WriteBack(name) => write_back(&open(name)),
    };
    done.unwrap_or_else(|error| panic!("{call}: {error}"));
}

/// Has the kernel write a file's pages back, and waits for them: no flush of anything.
fn write_back(file: &File) -> std::io::Result<()> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: the descriptor is open, and the call touches no memory of ours.
    let result = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) };
    if result == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// Everything below a folder.
fn show(folder: &Path) -> Shown {
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let mut shown = BTreeMap::new();
    for entry in entries {
        let entry = entry.expect("the folder can be read");
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "lost+found" {
            continue;
        }
        let path = entry.path();
        let what = match fs::read(&path) {
            Ok(bytes) => ShownEntry::File(bytes),
            Err(error) if error.kind() == ErrorKind::IsADirectory => {
                ShownEntry::Directory(show(&path))
            }
            Err(error) => panic!("{}: {error}", path.display()),
        };
        shown.insert(name, what);
    }
    shown
}
