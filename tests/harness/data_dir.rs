//! A data directory as an operator, a crash or a bad disk finds and leaves it.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// What a clean stop leaves in the data directory, and nothing else does.
pub(crate) const CLEAN_MARKER: &str = "clean.shutdown";

/// A temporary directory with a data directory in it.
pub(crate) fn temporary() -> (TempDir, PathBuf) {
    let root = tempfile::Builder::new()
        .prefix("odradek-test-")
        .tempdir()
        .unwrap();
    let data = root.path().join("data");
    (root, data)
}

/// Copies a directory and all below it.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// The files of a partition with this ending, in the order of their base offsets.
pub(crate) fn segment_files(data: &Path, partition: &str, ending: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(data.join(partition))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect();
    files.sort();
    files
}

/// Changes one byte of a file.
pub(crate) fn flip(path: &Path, position: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[position] ^= 0x55;
    fs::write(path, bytes).unwrap();
}

/// Appends to a file.
pub(crate) fn append(path: &Path, more: &[u8]) {
    let mut bytes = fs::read(path).unwrap();
    bytes.extend_from_slice(more);
    fs::write(path, bytes).unwrap();
}

/// A recovery point in `log.checkpoint`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) log_start: i64,
    pub(crate) offset: i64,
    pub(crate) segment_base: i64,
    pub(crate) position: u64,
}

/// What `log.checkpoint` says; nothing if it is not there.
pub(crate) fn checkpoint(data: &Path) -> Vec<Point> {
    let Ok(text) = fs::read_to_string(data.join("log.checkpoint")) else {
        return Vec::new();
    };
    let lines = text.lines().skip(1);
    lines
        .filter(|line| !line.starts_with("crc "))
        .map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            Point {
                topic: fields[0].to_owned(),
                partition: fields[1].parse().unwrap(),
                log_start: fields[2].parse().unwrap(),
                offset: fields[5].parse().unwrap(),
                segment_base: fields[6].parse().unwrap(),
                position: fields[7].parse().unwrap(),
            }
        })
        .collect()
}
