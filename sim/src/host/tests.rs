//! The rules of execution as situations.

use odradek_core::effect::{BATCH_HEADER_BYTES, FileOp, Part, Response, WriteData};
use odradek_core::ids::{ConnectionId, FileId, FilePath, OperationId, Position};
use odradek_core::input::{Completion, DiskErrorKind};

use super::connections::{Connections, Inbox, Sent};
use super::files::{Files, Started};
use crate::choices::{Choices, Odds};
use crate::disk::Disk;
use crate::disk::faults::{DiskFaults, DiskRates};

const FILE: FileId = FileId(1);

/// A host with one open log file, and operations that are carried out by hand.
struct Host {
    files: Files,
    disk: Disk,
    faults: DiskFaults,
    choices: Choices,
    running: Vec<Started>,
}

impl Host {
    fn new(rates: DiskRates) -> Self {
        let mut disk = Disk::new();
        disk.create_file(&FilePath::from("log")).unwrap();
        let mut files = Files::default();
        files.open(FILE, &FilePath::from("log"), Position(0), &disk);
        Self {
            files,
            disk,
            faults: DiskFaults::new(rates),
            choices: Choices::new(1),
            running: Vec::new(),
        }
    }

    fn write(&mut self, position: u64) {
        let data = WriteData {
            header: [7; BATCH_HEADER_BYTES],
            records: bytes::Bytes::new(),
        };
        let started = self.files.write(FILE, Position(position), data);
        self.running.extend(started);
    }

    fn flush(&mut self) {
        let started = self.files.flush(FILE);
        self.running.extend(started);
    }

    fn manage(&mut self, op: FileOp) {
        let started = self.files.manage(OperationId(1), op);
        self.running.extend(started);
    }

    /// Ends the operation at this place among those that run; what it reports.
    fn end(&mut self, place: usize) -> Vec<Completion> {
        let started = self.running.remove(place);
        let outcome = self.files.execute(
            started.token,
            &mut self.disk,
            &self.faults,
            &mut self.choices,
        );
        self.running.extend(outcome.started);
        outcome
            .reports
            .into_iter()
            .filter_map(|report| self.files.settle(report))
            .collect()
    }
}

const SIZE: u64 = BATCH_HEADER_BYTES as u64;

#[test]
fn only_a_contiguous_prefix_counts_as_written() {
    let mut host = Host::new(DiskRates::default());
    host.write(0);
    host.write(SIZE);
    assert!(host.end(1).is_empty());
    assert!(matches!(
        host.end(0)[..],
        [Completion::Written { up_to, .. }] if up_to.0 == 2 * SIZE
    ));
}

#[test]
fn a_flush_completes_with_the_prefix_at_its_call() {
    let mut host = Host::new(DiskRates::default());
    host.write(0);
    host.end(0);
    host.flush();
    host.end(0); // the call
    host.write(SIZE);
    host.end(1);
    assert!(matches!(
        host.end(0)[..],
        [Completion::Flushed { up_to, .. }] if up_to.0 == SIZE
    ));
    assert_eq!(host.disk.lookup(&"log".into()), Ok(crate::disk::Inode(1)));
    let file = host.disk.file(crate::disk::Inode(1)).unwrap();
    assert_eq!(file.durable().len() as u64, SIZE);
}

#[test]
fn a_truncate_waits_for_what_is_before_it_and_what_follows_waits_for_it() {
    let mut host = Host::new(DiskRates::default());
    host.write(0);
    host.write(SIZE);
    host.manage(FileOp::Truncate {
        file: FILE,
        length: Position(SIZE),
    });
    host.write(SIZE);
    assert_eq!(host.running.len(), 2);
    host.end(0);
    assert_eq!(host.running.len(), 1);
    host.end(0);
    assert_eq!(host.running.len(), 1, "the truncate alone");
    assert!(matches!(
        host.end(0)[..],
        [Completion::Managed { result: Ok(()), .. }]
    ));
    assert_eq!(host.running.len(), 1, "the write behind it");
    host.end(0);
}

#[test]
fn after_a_failed_write_everything_is_dropped_until_a_truncate() {
    let mut host = Host::new(DiskRates {
        write_error: Odds(1_000_000),
        ..DiskRates::default()
    });
    host.write(0);
    host.write(SIZE);
    assert!(host.end(0).is_empty(), "one is still in flight");
    assert!(matches!(
        &host.end(0)[..],
        [Completion::WriteFailed { written, error, .. }]
            if written.0 == 0 && error.kind == DiskErrorKind::Io
    ));
    host.write(2 * SIZE);
    host.flush();
    assert!(host.running.is_empty());
    host.faults.active = false;
    host.manage(FileOp::Truncate {
        file: FILE,
        length: Position(0),
    });
    host.write(0);
    host.end(0);
    assert!(matches!(
        host.end(0)[..],
        [Completion::Written { up_to, .. }] if up_to.0 == SIZE
    ));
}

#[test]
fn a_file_that_cannot_be_opened_shows_at_its_first_use() {
    let mut host = Host::new(DiskRates::default());
    host.files.open(
        FileId(2),
        &FilePath::from("missing"),
        Position(0),
        &host.disk,
    );
    let started = host.files.flush(FileId(2));
    host.running.extend(started);
    host.end(0);
    assert!(matches!(
        &host.end(0)[..],
        [Completion::FlushFailed { error, .. }] if error.kind == DiskErrorKind::NotFound
    ));
}

#[test]
fn frames_are_put_together_from_pieces_and_held_back_when_too_many_wait() {
    let mut connections = Connections::default();
    let id = ConnectionId(1);
    connections.open(id);
    connections.receive(id, &[0, 0, 0]);
    assert_eq!(connections.next_frame(id, 100), Inbox::Nothing);
    connections.receive(id, &[2, 8]);
    assert_eq!(connections.next_frame(id, 100), Inbox::Nothing);
    connections.receive(id, &[9]);
    assert_eq!(
        connections.next_frame(id, 100),
        Inbox::Frame(vec![8, 9].into())
    );
    for _ in 0..100 {
        connections.receive(id, &[0, 0, 0, 0]);
    }
    let taken = std::iter::from_fn(|| match connections.next_frame(id, 100) {
        Inbox::Frame(_) => Some(()),
        _ => None,
    })
    .count();
    assert_eq!(taken, 63);
    connections.respond(id, &Response::default(), &Files::default(), None);
    assert!(matches!(connections.next_frame(id, 100), Inbox::Frame(_)));
}

#[test]
fn a_frame_that_is_too_long_or_negative_is_refused() {
    for prefix in [i32::MAX, -1] {
        let mut connections = Connections::default();
        let id = ConnectionId(1);
        connections.open(id);
        connections.receive(id, &prefix.to_be_bytes());
        assert_eq!(connections.next_frame(id, 100), Inbox::Bad(prefix));
    }
}

#[test]
fn responses_leave_in_order_and_a_close_waits_for_them() {
    let disk = Disk::new();
    let files = Files::default();
    let mut connections = Connections::default();
    let id = ConnectionId(1);
    connections.open(id);
    let response = |byte: u8| Response {
        parts: vec![Part::Bytes(vec![byte].into())],
    };
    assert!(connections.respond(id, &response(1), &files, None));
    assert!(!connections.respond(id, &response(2), &files, None));
    assert!(!connections.close_when_drained(id));
    assert_eq!(connections.send(id, &disk), Sent::More(vec![1].into()));
    assert_eq!(connections.send(id, &disk), Sent::Closed(vec![2].into()));
}
