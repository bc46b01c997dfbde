//! The real world behind a [`Driver`](crate::driver::Driver): the disk, tokio's sockets, the
//! clocks, the log.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use odradek_core::effect::FileOp;
use odradek_core::ids::FilePath;
use odradek_core::input::DiskError;
use odradek_core::read_job::{ReadJob, ReadOutput};
use odradek_core::report::Report;
use odradek_core::time::{Mono, Now};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{Notify, watch};

use crate::clock::Clock;
use crate::disk::Disk;
use crate::disk::descriptors::{LogFile, OpenFile};
use crate::driver::{Host, Signal};
use crate::hand_over::file_queue::WriteRun;
use crate::hand_over::outbox::{Outgoing, Sent};
use crate::{reports, send};

/// Clocks, files and sockets of this process.
#[derive(Debug)]
pub(crate) struct Edge {
    pub(crate) disk: Disk,
    pub(crate) clock: Clock,
    pub(crate) timer: Timer,
    /// The last signal of the core; a fatal one stays.
    pub(crate) signal: watch::Sender<Option<Signal>>,
}

/// A client's socket: the half that writes, and what the log says about the other end.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) stream: OwnedWriteHalf,
    pub(crate) peer: SocketAddr,
    /// As its first request said.
    pub(crate) client_id: OnceLock<Box<str>>,
    /// When bytes last moved, in milliseconds of the monotonic clock.
    pub(crate) last_active_ms: AtomicU64,
    clock: Clock,
}

impl Socket {
    pub(crate) fn new(stream: OwnedWriteHalf, peer: SocketAddr, clock: Clock) -> Self {
        let socket = Self {
            stream,
            peer,
            client_id: OnceLock::new(),
            last_active_ms: AtomicU64::new(0),
            clock,
        };
        socket.touch();
        socket
    }

    /// Bytes have moved.
    pub(crate) fn touch(&self) {
        let now = self.clock.mono().0 / 1_000_000;
        self.last_active_ms.store(now, Ordering::Relaxed);
    }
}

/// What the timer's task waits for.
#[derive(Debug)]
pub(crate) struct Timer {
    /// Nanoseconds; `u64::MAX` for never.
    at: AtomicU64,
    changed: Notify,
}

impl Timer {
    pub(crate) fn new() -> Self {
        Self {
            at: AtomicU64::new(u64::MAX),
            changed: Notify::new(),
        }
    }

    fn arm(&self, deadline: Mono) {
        if self.at.fetch_min(deadline.0, Ordering::SeqCst) > deadline.0 {
            self.changed.notify_one();
        }
    }

    /// Returns when the deadline has come, however often it moves meanwhile.
    pub(crate) async fn fire(&self, clock: &Clock) {
        loop {
            let at = self.at.load(Ordering::SeqCst);
            let instant = (at != u64::MAX).then(|| clock.instant(Mono(at))).flatten();
            match instant {
                None => self.changed.notified().await,
                Some(instant) => {
                    tokio::select! {
                        () = self.changed.notified() => continue,
                        () = tokio::time::sleep_until(instant.into()) => {}
                    }
                    if self
                        .at
                        .compare_exchange(at, u64::MAX, Ordering::SeqCst, Ordering::SeqCst)
                        .is_ok()
                    {
                        return;
                    }
                }
            }
        }
    }
}

impl Host for Edge {
    type File = Arc<LogFile>;
    type Pin = Arc<OpenFile>;
    type Socket = Socket;

    fn now(&self) -> Now {
        self.clock.now()
    }

    fn arm(&self, deadline: Mono) {
        self.timer.arm(deadline);
    }

    fn bind(&self, path: FilePath) -> Arc<LogFile> {
        self.disk.bind(path)
    }

    fn pin(&self, file: &Arc<LogFile>) -> Result<Arc<OpenFile>, DiskError> {
        self.disk.open(file)
    }

    fn write(&self, file: &Arc<LogFile>, run: &WriteRun) -> Result<(), (u64, DiskError)> {
        self.disk.write(file, run)
    }

    fn flush(&self, file: &Arc<LogFile>) -> Result<(), DiskError> {
        self.disk.flush(file)
    }

    fn run_alone(&self, file: &Arc<LogFile>, op: &FileOp) -> Result<(), DiskError> {
        self.disk.run_alone(file, op)
    }

    fn manage(&self, op: &FileOp) -> Result<(), DiskError> {
        self.disk.manage(op)
    }

    fn read(&self, job: &ReadJob) -> Result<ReadOutput, DiskError> {
        self.disk.read(job)
    }

    fn read_warm(&self, job: &ReadJob) -> Option<Result<ReadOutput, DiskError>> {
        self.disk.read_warm(job)
    }

    fn send(&self, socket: &Socket, queue: &mut VecDeque<Outgoing<Arc<OpenFile>>>) -> Sent {
        socket.touch();
        send::send(socket.stream.as_ref(), queue)
    }

    fn warm_up(&self, queue: &mut VecDeque<Outgoing<Arc<OpenFile>>>) {
        send::warm_up(queue);
    }

    fn report(&self, report: &Report) {
        reports::log(report);
    }

    fn signal(&self, signal: Signal) {
        self.signal.send_if_modified(|current| {
            let changed = !matches!(current, Some(Signal::Fatal(_)));
            if changed {
                *current = Some(signal);
            }
            changed
        });
    }
}
