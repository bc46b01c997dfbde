use bytes::Bytes;
use odradek_core::effect::{BATCH_HEADER_BYTES, WriteData};
use odradek_core::ids::FileId;
use odradek_core::input::ReadFiles;

use super::*;
use crate::hand_over::file_queue::{FileQueue, Turn};

const FILE: FileId = FileId(1);

fn disk() -> (tempfile::TempDir, Disk) {
    let root = tempfile::tempdir().unwrap();
    let disk = Disk::new(root.path().to_owned(), 10);
    (root, disk)
}

fn path(text: &str) -> FilePath {
    FilePath::from(text)
}

fn write_file(disk: &Disk, at: &str, bytes: &'static [u8]) {
    let op = FileOp::WriteFile {
        path: path(at),
        bytes: Bytes::from_static(bytes),
    };
    disk.manage(&op).unwrap();
}

/// A run of writes with these records, as a file's queue hands it out.
fn run(position: u64, records: &[&'static [u8]]) -> WriteRun {
    let queue = FileQueue::new(FILE, (), Position(position), 0);
    let mut at = Position(position);
    for records in records {
        let data = WriteData {
            header: [b'h'; BATCH_HEADER_BYTES],
            records: Bytes::from_static(records),
        };
        let end = at.plus(data.len() as u64);
        queue.push_write(at, data);
        at = end;
    }
    match queue.take_turn() {
        Some(Turn::Write(run)) => run,
        other => panic!("expected a write, not {other:?}"),
    }
}

#[test]
fn names_come_and_go_and_what_is_done_already_is_no_error() {
    let (root, disk) = disk();
    for _ in 0..2 {
        disk.manage(&FileOp::CreateDir(path("t-0"))).unwrap();
    }
    write_file(&disk, "t-0/b", b"two");
    write_file(&disk, "t-0/a", b"one");
    fs::write(root.path().join(LOCK), "").unwrap();
    let mut files = DiskReader::new(&disk);
    let list = |files: &mut DiskReader<'_>, at: &str| -> Vec<(String, Option<u64>)> {
        let entries = files.list(&path(at)).unwrap();
        let entries = entries.into_iter();
        entries.map(|e| (e.name, e.length.map(|l| l.0))).collect()
    };
    assert_eq!(list(&mut files, ""), [("t-0".to_owned(), None)]);
    assert_eq!(
        list(&mut files, "t-0"),
        [("a".to_owned(), Some(3)), ("b".to_owned(), Some(3))]
    );
    let rename = FileOp::Rename {
        from: path("t-0/a"),
        to: path("t-0/b"),
    };
    disk.manage(&rename).unwrap();
    let error = disk.manage(&rename).unwrap_err();
    assert_eq!(error.kind, DiskErrorKind::NotFound);
    assert_eq!(error.path, path("t-0/a"));
    let mut buffer = [0; 8];
    let n = files.read_at(&path("t-0/b"), Position(1), &mut buffer);
    assert_eq!(n.unwrap(), 2);
    assert_eq!(&buffer[..2], b"ne");
    for op in [
        FileOp::SyncFile(path("t-0/b")),
        FileOp::SyncDir(path("t-0")),
        FileOp::SyncDir(FilePath::root()),
        FileOp::RemoveFile(path("t-0/b")),
        FileOp::RemoveFile(path("t-0/b")),
        FileOp::RemoveTree(path("t-0")),
        FileOp::RemoveTree(path("t-0")),
    ] {
        disk.manage(&op).unwrap();
    }
    assert!(list(&mut files, "").is_empty());
}

const LOCK: &str = crate::data_dir::LOCK_FILE;

#[test]
fn a_file_is_edited_in_place() {
    let (root, disk) = disk();
    write_file(&disk, "a", b"0123456789");
    disk.manage(&FileOp::WriteAt {
        path: path("a"),
        position: Position(2),
        bytes: Bytes::from_static(b"xy"),
    })
    .unwrap();
    disk.manage(&FileOp::SetLength {
        path: path("a"),
        length: Position(5),
    })
    .unwrap();
    assert_eq!(fs::read(root.path().join("a")).unwrap(), b"01xy4");
    write_file(&disk, "a", b"-");
    assert_eq!(fs::read(root.path().join("a")).unwrap(), b"-");
}

#[test]
fn writes_flushes_and_what_runs_alone_reach_the_file() {
    let (root, disk) = disk();
    write_file(&disk, "log", b"");
    let log = disk.bind(path("log"));
    disk.write(&log, &run(0, &[b"abc", b"", b"defgh"])).unwrap();
    disk.flush(&log).unwrap();
    let header = "h".repeat(BATCH_HEADER_BYTES);
    let expected = format!("{header}abc{header}{header}defgh");
    let content = || fs::read_to_string(root.path().join("log")).unwrap();
    assert_eq!(content(), expected);
    let (file, length) = (FILE, Position(64));
    disk.run_alone(&log, &FileOp::Truncate { file, length })
        .unwrap();
    let rewrite = FileOp::Rewrite {
        file,
        from: Position(3),
        to: Position(64),
    };
    disk.run_alone(&log, &rewrite).unwrap();
    assert_eq!(content(), format!("{header}abc"));
    disk.run_alone(&log, &FileOp::Close(file)).unwrap();
}

#[test]
fn a_full_disk_is_told_from_a_missing_file() {
    let (root, disk) = disk();
    std::os::unix::fs::symlink("/dev/full", root.path().join("full")).unwrap();
    let full = disk.bind(path("full"));
    let (written, error) = disk.write(&full, &run(0, &[b"abc"])).unwrap_err();
    assert_eq!((written, error.kind), (0, DiskErrorKind::NoSpace));
    assert_eq!(error.path, path("full"));
    let missing = disk.bind(path("missing"));
    let (_, error) = disk.write(&missing, &run(0, &[b"abc"])).unwrap_err();
    assert_eq!(error.kind, DiskErrorKind::NotFound);
    assert_eq!(
        disk.flush(&missing).unwrap_err().kind,
        DiskErrorKind::NotFound
    );
}

#[test]
fn more_slices_than_one_call_takes_are_written_in_order() {
    let (root, disk) = disk();
    write_file(&disk, "log", b"");
    let log = disk.bind(path("log"));
    let records: Vec<&'static [u8]> = (0..512)
        .map(|n| if n % 2 == 0 { &b"even"[..] } else { b"odd" })
        .collect();
    disk.write(&log, &run(0, &records)).unwrap();
    let content = fs::read(root.path().join("log")).unwrap();
    let expected: Vec<u8> = records
        .iter()
        .flat_map(|records| [&[b'h'; BATCH_HEADER_BYTES][..], records].concat())
        .collect();
    assert!(content == expected);
}
