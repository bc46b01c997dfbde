//! The driver and its hand-over under schedules that `shuttle` chooses: a toy guest, files and
//! sockets in memory, every lock and atomic a point where another thread may come first.
//!
//! Run with `cargo test -p odradek-io --features shuttle`.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use bytes::Bytes;
use odradek_core::effect::{FLUSHES_AT_ONCE, FileOp};
use odradek_core::ids::{ConnectionId, FilePath, Position};
use odradek_core::input::{DirEntry, DiskError, DiskErrorKind, Endpoint, Input};
use odradek_core::read_job::{ReadJob, ReadOutput};
use odradek_core::report::Report;
use odradek_core::time::{Mono, Now};
use shuttle::rand::Rng;
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::{future, thread};

use super::toy::{Toy, ToyInput, request};
use crate::driver::{Driver, Host, Signal, Threads};
use crate::hand_over::budget::{Admission, Budget};
use crate::hand_over::file_queue::WriteRun;
use crate::hand_over::gathering::Part;
use crate::hand_over::outbox::{Connection, Outgoing, OutgoingPart, Sent};

const ITERATIONS: usize = 2_000;

/// Files and sockets in memory.
struct World {
    disk: Mutex<MemoryDisk>,
    signals: Mutex<Vec<Signal>>,
    signalled: Condvar,
}

#[derive(Default)]
struct MemoryDisk {
    content: Vec<Option<u8>>,
    /// The contiguous written prefix when the last flush was called: all that it may claim.
    flushed: u64,
    flushing: usize,
    /// Writes that begin here fail once.
    fail_at: Option<u64>,
    writes_under_way: usize,
}

impl MemoryDisk {
    fn prefix(&self) -> u64 {
        let prefix = self.content.iter().take_while(|byte| byte.is_some());
        prefix.count() as u64
    }
}

/// A socket that takes a few bytes and is then full until the client reads.
struct Wire {
    state: Mutex<WireState>,
}

struct WireState {
    room: usize,
    /// What the client has not read.
    buffer: Vec<u8>,
    sending: bool,
    /// Waits for the socket to be writable.
    writable: Option<Waker>,
    /// Waits for bytes to read.
    readable: Option<Waker>,
}

impl World {
    fn new() -> Self {
        Self {
            disk: Mutex::new(MemoryDisk::default()),
            signals: Mutex::new(Vec::new()),
            signalled: Condvar::new(),
        }
    }
}

impl Host for World {
    type File = ();
    type Pin = ();
    type Socket = Wire;

    fn now(&self) -> Now {
        Now::default()
    }

    fn arm(&self, _: Mono) {}

    fn bind(&self, _: FilePath) {}

    fn pin(&self, (): &()) -> Result<(), DiskError> {
        Ok(())
    }

    fn write(&self, (): &(), run: &WriteRun) -> Result<(), (u64, DiskError)> {
        let mut disk = self.disk.lock().unwrap();
        disk.writes_under_way += 1;
        drop(disk);
        thread::yield_now();
        let mut disk = self.disk.lock().unwrap();
        disk.writes_under_way -= 1;
        if disk.fail_at == Some(run.position.0) {
            disk.fail_at = None;
            return Err((0, full()));
        }
        let mut at = usize::try_from(run.position.0).unwrap();
        for write in &run.writes {
            for byte in write.header.iter().chain(&write.records) {
                if disk.content.len() <= at {
                    disk.content.resize(at + 1, None);
                }
                disk.content[at] = Some(*byte);
                at += 1;
            }
        }
        Ok(())
    }

    fn flush(&self, (): &()) -> Result<(), DiskError> {
        let mut disk = self.disk.lock().unwrap();
        assert!(disk.flushing < FLUSHES_AT_ONCE, "no more than are allowed");
        disk.flushing += 1;
        disk.flushed = disk.prefix();
        drop(disk);
        thread::yield_now();
        self.disk.lock().unwrap().flushing -= 1;
        Ok(())
    }

    fn run_alone(&self, (): &(), op: &FileOp) -> Result<(), DiskError> {
        let mut disk = self.disk.lock().unwrap();
        assert_eq!(disk.flushing, 0, "nothing beside it");
        assert_eq!(disk.writes_under_way, 0, "nothing beside it");
        if let FileOp::Truncate { length, .. } = op {
            disk.content.truncate(usize::try_from(length.0).unwrap());
        }
        Ok(())
    }

    fn manage(&self, _: &FileOp) -> Result<(), DiskError> {
        Ok(())
    }

    fn read(&self, _: &ReadJob) -> Result<ReadOutput, DiskError> {
        Ok(ReadOutput::List(vec![DirEntry {
            name: "log".to_owned(),
            length: Some(Position(0)),
        }]))
    }

    fn read_warm(&self, job: &ReadJob) -> Option<Result<ReadOutput, DiskError>> {
        shuttle::rand::thread_rng()
            .gen_bool(0.5)
            .then(|| self.read(job))
    }

    fn send(&self, wire: &Wire, queue: &mut VecDeque<Outgoing<()>>) -> Sent {
        let mut state = wire.state.lock().unwrap();
        assert!(!state.sending, "one sender at a time");
        state.sending = true;
        drop(state);
        thread::yield_now();
        let mut state = wire.state.lock().unwrap();
        state.sending = false;
        let sent = loop {
            let Some(first) = queue.front_mut() else {
                break Sent::All;
            };
            let Some(part) = first.parts.front_mut() else {
                queue.pop_front();
                continue;
            };
            match part {
                OutgoingPart::Bytes(bytes) => {
                    let n = state.room.min(bytes.len());
                    state.room -= n;
                    let now = bytes.split_to(n);
                    state.buffer.extend_from_slice(&now);
                    if !bytes.is_empty() {
                        break Sent::Full;
                    }
                }
                OutgoingPart::File { warm: false, .. } => break Sent::Cold,
                OutgoingPart::File { length, .. } => {
                    *length -= 1;
                    state.buffer.push(b'.');
                    if *length > 0 {
                        continue;
                    }
                }
                OutgoingPart::Lost(reason) => break Sent::Broken(reason.clone()),
            }
            first.parts.pop_front();
        };
        let readable = state.readable.take();
        drop(state);
        readable.into_iter().for_each(Waker::wake);
        sent
    }

    fn warm_up(&self, queue: &mut VecDeque<Outgoing<()>>) {
        if let Some(OutgoingPart::File { warm, .. }) =
            queue.front_mut().and_then(|first| first.parts.front_mut())
        {
            *warm = true;
        }
    }

    fn report(&self, _: &Report) {}

    fn signal(&self, signal: Signal) {
        self.signals.lock().unwrap().push(signal);
        self.signalled.notify_all();
    }
}

fn full() -> DiskError {
    DiskError {
        kind: DiskErrorKind::NoSpace,
        path: FilePath::root(),
        detail: String::new(),
    }
}

type ToyDriver = Driver<Toy, World>;
type ToyClient = Connection<Wire, ()>;

/// Some writes of a schedule wait for a flush under way, and some do not.
const GATHER_BYTES: usize = 150;

fn start() -> Arc<ToyDriver> {
    let threads = Threads {
        flushers: 2,
        workers: 2,
    };
    let driver = Driver::start(
        Toy::default(),
        World::new(),
        Budget::new(10),
        threads,
        GATHER_BYTES,
        None,
    );
    let driver = driver.unwrap();
    driver.step(Input::Start);
    await_signal(&driver, &Signal::Started);
    driver
}

fn await_signal(driver: &ToyDriver, signal: &Signal) {
    let mut signals = driver.host.signals.lock().unwrap();
    while !signals.contains(signal) {
        assert!(
            !signals.iter().any(|s| matches!(s, Signal::Fatal(_))),
            "{signals:?}"
        );
        signals = driver.host.signalled.wait(signals).unwrap();
    }
}

fn connect(driver: &ToyDriver, number: u64, room: usize) -> Arc<ToyClient> {
    let wire = Wire {
        state: Mutex::new(WireState {
            room,
            buffer: Vec::new(),
            sending: false,
            writable: None,
            readable: None,
        }),
    };
    driver.open(
        ConnectionId(number),
        wire,
        Endpoint::default(),
        String::new(),
        2,
    )
}

/// What the connection's task does but for reading: goes on where the socket was full.
fn serve(driver: &Arc<ToyDriver>, client: &Arc<ToyClient>) -> thread::JoinHandle<()> {
    let (driver, client) = (driver.clone(), client.clone());
    thread::spawn(move || {
        loop {
            let over = future::block_on(poll_fn(|cx| {
                let view = client.outbox.view(cx.waker());
                if view.closed.is_some() {
                    return Poll::Ready(true);
                }
                let mut state = client.socket.state.lock().unwrap();
                if view.full && state.room > 0 {
                    return Poll::Ready(false);
                }
                state.writable = Some(cx.waker().clone());
                Poll::Pending
            }));
            if over {
                return;
            }
            client.outbox.writable();
            driver.send(&client);
        }
    })
}

/// Reads `count` answers of `length` bytes in small bites; returns their numbers.
fn receive(client: &ToyClient, count: usize, length: usize) -> Vec<u32> {
    let mut got: Vec<u8> = Vec::new();
    while got.len() < count * length {
        let bite = future::block_on(poll_fn(|cx| {
            let mut state = client.socket.state.lock().unwrap();
            if state.buffer.is_empty() {
                state.readable = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let bite = std::mem::take(&mut state.buffer);
            state.room += bite.len();
            Poll::Ready((bite, state.writable.take()))
        }));
        got.extend(bite.0);
        bite.1.into_iter().for_each(Waker::wake);
    }
    got.chunks(length)
        .map(|answer| u32::from_be_bytes(answer[4..8].try_into().unwrap()))
        .collect()
}

fn frame(client: &ToyClient, number: u32, letter: u8, payload: &[u8]) -> ToyInput {
    let frame = Bytes::from(request(number, letter, payload)).slice(4..);
    ToyInput::Frame(client.id, frame)
}

/// Hands in what a connection has read, as its task does.
fn hand_in(driver: &ToyDriver, input: ToyInput) {
    match driver.hand_in(vec![input], true) {
        Part::Lead => {
            thread::yield_now();
            driver.run_gathered();
        }
        Part::Run => driver.run_gathered(),
        Part::Follow => {}
    }
}

/// Appends from several connections at once: every one is answered, in order, and only after a
/// flush that was called when it was written.
fn appends(room: usize) {
    let driver = start();
    let mut threads = Vec::new();
    for number in 1..=2 {
        let client = connect(&driver, number, room);
        let task = serve(&driver, &client);
        let (sender, sending) = (driver.clone(), client.clone());
        let asking = thread::spawn(move || {
            for number in 0..3 {
                sending.outbox.asked();
                hand_in(&sender, frame(&sending, number, b'A', &[7; 61]));
            }
        });
        threads.push((client, task, asking));
    }
    for (client, task, asking) in threads {
        assert_eq!(receive(&client, 3, 16), [0, 1, 2]);
        asking.join().unwrap();
        driver.close(&client, "over");
        task.join().unwrap();
    }
    let disk = driver.host.disk.lock().unwrap();
    assert_eq!(disk.prefix(), 6 * 61);
    assert!(disk.flushed >= 6 * 61, "every answer was flushed");
    drop(disk);
    driver.abandon();
}

#[test]
fn every_append_is_answered_in_order_and_after_its_flush() {
    shuttle::check_random(|| appends(1000), ITERATIONS);
    shuttle::check_pct(|| appends(1000), ITERATIONS, 3);
}

#[test]
fn a_socket_that_fills_up_gets_everything_in_the_end() {
    shuttle::check_random(|| appends(5), ITERATIONS);
    shuttle::check_pct(|| appends(5), ITERATIONS, 3);
}

#[test]
fn what_a_connection_left_to_another_comes_before_its_end() {
    // The toy asserts the order.
    let run = || {
        let driver = start();
        let threads: Vec<_> = (1..=3)
            .map(|number| {
                let (driver, client) = (driver.clone(), connect(&driver, number, 1000));
                thread::spawn(move || {
                    hand_in(&driver, frame(&client, 0, b'P', b""));
                    driver.close(&client, "over");
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        driver.abandon();
    };
    shuttle::check_random(run, ITERATIONS);
    shuttle::check_pct(run, ITERATIONS, 3);
}

#[test]
fn a_flush_claims_no_more_than_was_written_when_it_was_called() {
    // The toy asserts that the prefix is monotonic and that written comes before flushed; here
    // the claim is held against what the disk saw.
    let run = || {
        let driver = start();
        let client = connect(&driver, 1, 1000);
        let threads: Vec<_> = (0..3)
            .map(|number| {
                let (driver, client) = (driver.clone(), client.clone());
                thread::spawn(move || driver.step(frame(&client, number, b'A', &[7; 61])))
            })
            .collect();
        let answers = receive(&client, 3, 16);
        let disk = driver.host.disk.lock().unwrap();
        assert!(disk.flushed >= 3 * 61, "{answers:?} came before the flush");
        drop(disk);
        threads.into_iter().for_each(|t| t.join().unwrap());
        driver.abandon();
    };
    shuttle::check_random(run, ITERATIONS);
    shuttle::check_pct(run, ITERATIONS, 3);
}

#[test]
fn a_failed_write_is_reported_once_nothing_is_under_way_and_the_next_append_works() {
    let run = || {
        let driver = start();
        driver.host.disk.lock().unwrap().fail_at = Some(61);
        let client = connect(&driver, 1, 1000);
        let threads: Vec<_> = (0..3)
            .map(|number| {
                let (driver, client) = (driver.clone(), client.clone());
                thread::spawn(move || driver.step(frame(&client, number, b'O', &[7; 61])))
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        // Each is answered, some with a failure; run_alone asserts that it runs alone.
        receive(&client, 3, 16);
        driver.step(frame(&client, 9, b'A', &[7; 61]));
        receive(&client, 1, 16);
        let disk = driver.host.disk.lock().unwrap();
        assert_eq!(disk.prefix(), disk.content.len() as u64, "no hole is left");
        drop(disk);
        driver.abandon();
    };
    shuttle::check_random(run, ITERATIONS);
    shuttle::check_pct(run, ITERATIONS, 3);
}

#[test]
fn a_cold_range_is_read_by_another_thread_and_order_is_kept() {
    let run = || {
        let driver = start();
        let client = connect(&driver, 1, 10);
        let task = serve(&driver, &client);
        let fetch = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
        for number in 0..4 {
            let input = if number % 2 == 0 {
                frame(&client, number, b'F', &fetch)
            } else {
                frame(&client, number, b'E', b"ee")
            };
            driver.step(input);
        }
        assert_eq!(receive(&client, 4, 10), [0, 1, 2, 3]);
        driver.close(&client, "over");
        task.join().unwrap();
        driver.abandon();
    };
    shuttle::check_random(run, ITERATIONS);
    shuttle::check_pct(run, ITERATIONS, 3);
}

#[test]
fn a_stop_ends_whatever_is_under_way() {
    let run = || {
        let driver = start();
        let client = connect(&driver, 1, 1000);
        driver.step(frame(&client, 1, b'A', &[7; 61]));
        let stopping = {
            let driver = driver.clone();
            thread::spawn(move || driver.step(Input::Stop))
        };
        await_signal(&driver, &Signal::Stopped);
        stopping.join().unwrap();
        driver.abandon();
    };
    shuttle::check_random(run, ITERATIONS);
    shuttle::check_pct(run, ITERATIONS, 3);
}

#[test]
fn whoever_waits_for_memory_is_woken_when_there_is_some() {
    let run = || {
        let budget = Arc::new(Budget::new(10));
        let threads: Vec<_> = (0..3)
            .map(|who| {
                let budget = budget.clone();
                thread::spawn(move || {
                    for _ in 0..2 {
                        // Half a frame, then the other half.
                        for half_read in [false, true] {
                            let mut privileged = false;
                            future::block_on(poll_fn(|cx| {
                                match budget.admit(who, half_read, cx.waker()) {
                                    Admission::Wait => Poll::Pending,
                                    admission => {
                                        privileged = admission == Admission::Privileged;
                                        Poll::Ready(())
                                    }
                                }
                            }));
                            budget.charge(5);
                            if privileged {
                                budget.yield_privilege(who);
                            }
                        }
                        budget.release(10);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(budget.used(), 0);
    };
    shuttle::check_random(run, ITERATIONS);
    shuttle::check_pct(run, ITERATIONS, 3);
}
