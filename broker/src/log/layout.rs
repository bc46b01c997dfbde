//! Which files make a log: Kafka's names, in a partition's directory, in a data directory.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::output;

/// Where a log keeps its leader epochs.
pub(super) const EPOCH_CHECKPOINT: &str = "leader-epoch-checkpoint";
/// The lock of a data directory, Odradek's and Kafka's.
const LOCK_FILE: &str = ".lock";

/// What a path leads to.
#[derive(Debug)]
pub(super) enum Target {
    /// One file of a log.
    File(FileKind),
    /// Logs: one for a partition's directory, any number for a data directory.
    Logs(Vec<LogFiles>),
}

/// A file that the log commands can read alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    /// Batches.
    Log,
    /// Offset index.
    Index,
    /// Time index.
    TimeIndex,
    /// Leader epochs.
    Epochs,
}

/// The files of one partition.
#[derive(Debug)]
pub(super) struct LogFiles {
    /// Its directory's name: topic and number.
    pub(super) name: String,
    /// Its segments, by base offset.
    pub(super) segments: Vec<SegmentFiles>,
    /// Its leader epochs, if the file is there.
    pub(super) epochs: Option<PathBuf>,
}

/// The files of one segment.
#[derive(Clone, Debug, Default)]
pub(super) struct SegmentFiles {
    /// Offset at which it begins: its files' name.
    pub(super) base: i64,
    /// Its batches; missing if only an index is there.
    pub(super) log: Option<PathBuf>,
    /// Its offset index.
    pub(super) index: Option<PathBuf>,
    /// Its time index.
    pub(super) time_index: Option<PathBuf>,
}

/// Looks at what is at `path`.
pub(super) fn find(path: &Path) -> Result<Target, Failure> {
    let metadata = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if !metadata.is_dir() {
        return file_kind(path).map(Target::File).ok_or_else(|| {
            Failure::usage(format!(
                "{}: not a file of a log; name a .log, .index or .timeindex file, a partition's \
                 directory or a data directory",
                path.display()
            ))
        });
    }
    warn_if_in_use(path);
    if let Some(log) = log_files(path)? {
        return Ok(Target::Logs(vec![log]));
    }
    let mut logs = Vec::new();
    for entry in sorted_entries(path)? {
        if entry.is_dir()
            && !is_deleted(&name_of(&entry))
            && let Some(log) = log_files(&entry)?
        {
            logs.push(log);
        }
    }
    if logs.is_empty() {
        return Err(Failure::usage(format!(
            "{}: no log is there: neither segments (such as 00000000000000000000.log) nor \
             directories of partitions that hold some",
            path.display()
        )));
    }
    Ok(Target::Logs(logs))
}

/// The files of the log in a directory; `None` if it holds no segment.
fn log_files(dir: &Path) -> Result<Option<LogFiles>, Failure> {
    let mut segments: BTreeMap<i64, SegmentFiles> = BTreeMap::new();
    let mut epochs = None;
    for path in sorted_entries(dir)? {
        let kind = match file_kind(&path) {
            Some(FileKind::Epochs) => {
                epochs = Some(path);
                continue;
            }
            Some(kind) => kind,
            None => continue,
        };
        let Some(base) = base_offset(&path) else {
            continue;
        };
        let segment = segments.entry(base).or_default();
        segment.base = base;
        match kind {
            FileKind::Log => segment.log = Some(path),
            FileKind::Index => segment.index = Some(path),
            FileKind::TimeIndex => segment.time_index = Some(path),
            FileKind::Epochs => {}
        }
    }
    if segments.is_empty() {
        return Ok(None);
    }
    // The name of `.` is the name of what it stands for.
    let full = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    Ok(Some(LogFiles {
        name: name_of(&full),
        segments: segments.into_values().collect(),
        epochs,
    }))
}

/// The other files of the segment that a `.log` file belongs to.
pub(super) fn segment_of(log: &Path) -> Result<SegmentFiles, Failure> {
    let base = base_offset(log).ok_or_else(|| {
        Failure::usage(format!(
            "{}: a segment's name is its base offset in twenty digits",
            log.display()
        ))
    })?;
    let beside = |extension| Some(log.with_extension(extension)).filter(|path| path.exists());
    Ok(SegmentFiles {
        base,
        log: Some(log.to_owned()),
        index: beside("index"),
        time_index: beside("timeindex"),
    })
}

/// What a file is, by its name.
fn file_kind(path: &Path) -> Option<FileKind> {
    if name_of(path) == EPOCH_CHECKPOINT {
        return Some(FileKind::Epochs);
    }
    match path.extension()?.to_str()? {
        "log" => Some(FileKind::Log),
        "index" => Some(FileKind::Index),
        "timeindex" => Some(FileKind::TimeIndex),
        _ => None,
    }
}

/// The offset in a segment file's name: twenty digits.
pub(super) fn base_offset(path: &Path) -> Option<i64> {
    let digits = path.file_stem()?.to_str()?;
    (digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit()))
        .then(|| digits.parse().ok())
        .flatten()
}

/// Whether a directory only waits for its deletion, in Kafka or here.
fn is_deleted(name: &str) -> bool {
    name.ends_with("-delete") || name.ends_with("-stray")
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn sorted_entries(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(dir).map_err(|error| unreadable(dir, &error))?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()
        .map_err(|error| unreadable(dir, &error))?;
    paths.sort();
    Ok(paths)
}

/// A running broker writes while we read: what looks like a torn tail may be a batch under way.
fn warn_if_in_use(dir: &Path) {
    for data_dir in [Some(dir), dir.parent()].into_iter().flatten() {
        if let Ok(lock) = File::open(data_dir.join(LOCK_FILE))
            && let Err(TryLockError::WouldBlock) = lock.try_lock_shared()
        {
            output::note(&format!(
                "odradek: a broker is running on {}: its newest bytes may be incomplete; stop it \
                 for a result to rely on",
                data_dir.display()
            ));
        }
    }
}

/// A file or directory that the system does not let us read.
pub(super) fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let advice = match error.kind() {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::PermissionDenied => "check its owner and mode, or run as the broker's user",
        _ => "check the disk",
    };
    Failure::failed(format!("cannot read {}: {error}; {advice}", path.display()))
}
