//! Drives the core: one lock for the step, queues for what it asks for, and the rule that whoever
//! brings an input also carries out what is cheap.
//!
//! `Driver::step` is the whole story. Under the lock the core handles the input, and its effects
//! go into the queues of their files and connections. With the lock released the same thread
//! writes to the page cache and sends to sockets that take it, and reports what that completed,
//! which is another step, until nothing is left. Flushes, reads and file management go to
//! threads of their own, which report in the same way: the thread that ends a flush sends the
//! answers that waited for it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Display;
use std::io;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use odradek_core::broker::Broker;
use odradek_core::effect::{Effect, Effects, FileOp, Part, Response};
use odradek_core::ids::{ConnectionId, FileId, FilePath, OperationId};
use odradek_core::input::{Completion, DiskError, Endpoint, Input};
use odradek_core::read_job::{ReadJob, ReadOutput};
use odradek_core::record::compression::Tables;
use odradek_core::report::Report;
use odradek_core::request::{Codecs, prepare};
use odradek_core::time::{Mono, Now};

use crate::hand_over::budget::Budget;
use crate::hand_over::file_queue::{FileQueue, Turn, WriteRun};
use crate::hand_over::gathering::{Gathering, Part as Gathered};
use crate::hand_over::outbox::{AfterSending, Connection, Outbox, Outgoing, OutgoingPart, Sent};
use crate::hand_over::worker_pool::WorkerPool;
use crate::id_map::IdMap;
use crate::recorder::Recorder;
use crate::sync::{AtomicBool, Mutex, Ordering, lock};

/// What a host drives: the broker, or a toy in the tests of this crate.
pub trait Guest: Send + 'static {
    /// What a step takes.
    type Input: From<Input> + Display + Send;

    /// Decodes a frame (without its length) outside the step, with the codecs the core told last.
    fn prepare(codecs: &Codecs, connection: ConnectionId, frame: Bytes) -> Self::Input;

    /// One atomic step.
    fn handle(&mut self, now: Now, input: Self::Input, out: &mut Effects);

    /// When the host must come back if nothing else happens before.
    fn next_deadline(&self) -> Option<Mono>;
}

std::thread_local! {
    /// What batches are unpacked and packed with, for whatever connection this thread is at.
    static TABLES: RefCell<Tables> = RefCell::default();
}

impl Guest for Broker {
    type Input = Input;

    fn prepare(codecs: &Codecs, connection: ConnectionId, frame: Bytes) -> Input {
        Input::Request {
            connection,
            request: Box::new(TABLES.with_borrow_mut(|tables| prepare(frame, codecs, tables))),
        }
    }

    fn handle(&mut self, now: Now, input: Input, out: &mut Effects) {
        Self::handle(self, now, input, out);
    }

    fn next_deadline(&self) -> Option<Mono> {
        Self::next_deadline(self)
    }
}

/// What the driver needs of the world: clocks, files and sockets. The real one is
/// `crate::edge::Edge`; the tests of the hand-over have one in memory.
pub(crate) trait Host: Send + Sync + 'static {
    /// A log file, its descriptor open or not.
    type File: Send + Sync;
    /// Keeps a file readable.
    type Pin: Send + Sync;
    /// A client's socket.
    type Socket: Send + Sync;

    /// What the clocks say.
    fn now(&self) -> Now;
    /// The timer must fire at this time or before.
    fn arm(&self, deadline: Mono);

    /// Binds a log file; it is opened when it is needed.
    fn bind(&self, path: FilePath) -> Self::File;
    /// Opens a file if it is not open, and keeps it readable from now on.
    fn pin(&self, file: &Self::File) -> Result<Self::Pin, DiskError>;
    /// Writes to the page cache. On failure: how many bytes from the start of the run are written.
    fn write(&self, file: &Self::File, run: &WriteRun) -> Result<(), (u64, DiskError)>;
    /// Flushes to the disk; blocks.
    fn flush(&self, file: &Self::File) -> Result<(), DiskError>;
    /// Carries out an operation on a log file; blocks.
    fn run_alone(&self, file: &Self::File, op: &FileOp) -> Result<(), DiskError>;
    /// Carries out an operation by path; blocks.
    fn manage(&self, op: &FileOp) -> Result<(), DiskError>;
    /// Runs a job; blocks.
    fn read(&self, job: &ReadJob) -> Result<ReadOutput, DiskError>;
    /// Runs a job if it is short and the disk is not needed for it, since all it reads is in the
    /// page cache; `None` if a thread that may block must run it.
    fn read_warm(&self, job: &ReadJob) -> Option<Result<ReadOutput, DiskError>>;

    /// Sends as much as the socket takes without blocking, taking what is sent out of `queue`.
    fn send(&self, socket: &Self::Socket, queue: &mut VecDeque<Outgoing<Self::Pin>>) -> Sent;
    /// Brings the first range of `queue` into the page cache; blocks.
    fn warm_up(&self, queue: &mut VecDeque<Outgoing<Self::Pin>>);

    /// Something an operator should see.
    fn report(&self, report: &Report);
    /// Loading is over, the stop is over, or the broker cannot go on.
    fn signal(&self, signal: Signal);
}

/// What the core says about the process as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Connections may be accepted.
    Started,
    /// Everything is flushed and marked clean.
    Stopped,
    /// The process must end with this message.
    Fatal(String),
}

type Client<H> = Connection<<H as Host>::Socket, <H as Host>::Pin>;
type LogFile<H> = FileQueue<<H as Host>::File>;

/// The step, its queues and its threads. Shared by everything that brings inputs.
pub(crate) struct Driver<G: Guest, H: Host> {
    state: Mutex<State<G, H>>,
    /// The last that the core told.
    codecs: Mutex<Arc<Codecs>>,
    /// The world.
    pub(crate) host: H,
    /// Request bytes in memory.
    pub(crate) budget: Arc<Budget>,
    flushers: WorkerPool<Arc<LogFile<H>>>,
    workers: WorkerPool<Job<H>>,
    gathering: Gathering<G::Input>,
    /// See [`FileQueue::new`].
    gather_bytes: usize,
    /// Nothing is handled or carried out any more.
    dead: AtomicBool,
}

struct State<G: Guest, H: Host> {
    guest: G,
    effects: Effects,
    // Looked up, never iterated by anything that decides.
    files: IdMap<FileId, Arc<LogFile<H>>>,
    connections: IdMap<ConnectionId, Arc<Client<H>>>,
    /// What the timer was last set to.
    armed: Option<Mono>,
    recorder: Option<Box<dyn Recorder<G::Input>>>,
}

/// Sizes of the thread pools.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threads {
    /// For flushes: how many files are flushed at the same time.
    pub(crate) flushers: usize,
    /// For reads and file management.
    pub(crate) workers: usize,
}

/// Work for a thread that may block.
enum Job<H: Host> {
    Alone(Arc<LogFile<H>>, OperationId, FileOp),
    Manage(OperationId, FileOp),
    Read(OperationId, Box<ReadJob>),
    ReadCold(Arc<Client<H>>),
}

/// What a step left to the thread that brought its input.
struct Work<H: Host> {
    files: Vec<Arc<LogFile<H>>>,
    reads: VecDeque<(OperationId, Box<ReadJob>)>,
    connections: Vec<Arc<Client<H>>>,
}

impl<G: Guest, H: Host> Driver<G, H> {
    /// Starts the threads; the core gets its first input from the caller.
    pub(crate) fn start(
        guest: G,
        host: H,
        budget: Budget,
        threads: Threads,
        gather_bytes: usize,
        recorder: Option<Box<dyn Recorder<G::Input>>>,
    ) -> io::Result<Arc<Self>> {
        let mut failure = None;
        let driver = Arc::new_cyclic(|weak: &Weak<Self>| {
            let flusher = weak.clone();
            let worker = weak.clone();
            let flushers = WorkerPool::start("flush", threads.flushers, move |file| {
                if let Some(driver) = flusher.upgrade() {
                    driver.flush(&file);
                }
            });
            let workers = WorkerPool::start("disk", threads.workers, move |job| {
                if let Some(driver) = worker.upgrade() {
                    driver.perform(job);
                }
            });
            let (flushers, first) = flushers;
            let (workers, second) = workers;
            failure = first.and(second).err();
            Self {
                state: Mutex::new(State {
                    guest,
                    effects: Effects::new(),
                    files: IdMap::default(),
                    connections: IdMap::default(),
                    armed: None,
                    recorder,
                }),
                codecs: Mutex::new(Arc::default()),
                host,
                budget: Arc::new(budget),
                flushers,
                workers,
                gathering: Gathering::new(),
                gather_bytes,
                dead: AtomicBool::new(false),
            }
        });
        failure.map_or(Ok(driver), Err)
    }

    /// Hands an input to the core and carries out what is cheap of what it asks for.
    pub(crate) fn step(&self, input: impl Into<G::Input>) {
        let mut work = Work::new();
        self.locked(|state| self.handle(state, self.host.now(), input.into(), &mut work));
        self.carry_out(work);
    }

    /// Leaves the inputs of a connection to be handed over together with those of others. The
    /// caller does what the answer says; [`Self::run_gathered`] takes them.
    pub(crate) fn hand_in(&self, inputs: Vec<G::Input>, patient: bool) -> Gathered {
        self.gathering.hand_in(inputs, patient)
    }

    /// Hands over all that was left, and only then carries out what it asks for: what arrived
    /// together is written and answered together.
    pub(crate) fn run_gathered(&self) {
        let mut work = Work::new();
        self.locked(|state| self.handle_gathered(state, &mut work));
        self.carry_out(work);
    }

    /// Under the lock of the step.
    fn handle_gathered(&self, state: &mut State<G, H>, work: &mut Work<H>) {
        let mut inputs = self.gathering.take();
        if inputs.is_empty() {
            return;
        }
        // They arrived together, so they may have the same time: two clocks need not be read for each.
        let now = self.host.now();
        for input in inputs.drain(..) {
            self.handle(state, now, input, work);
        }
        self.gathering.give_back(inputs);
    }

    /// A client connected.
    pub(crate) fn open(
        &self,
        id: ConnectionId,
        socket: H::Socket,
        local: Endpoint,
        peer: String,
        max_in_flight: usize,
    ) -> Arc<Client<H>> {
        let client = Arc::new(Connection {
            id,
            socket,
            outbox: Outbox::new(max_in_flight),
        });
        let mut work = Work::new();
        self.locked(|state| {
            state.connections.insert(id, client.clone());
            let opened = Input::Opened {
                connection: id,
                local,
                peer,
            };
            self.handle(state, self.host.now(), opened.into(), &mut work);
        });
        self.carry_out(work);
        client
    }

    /// A client is gone, or is to be gone for this reason.
    pub(crate) fn close(&self, client: &Client<H>, reason: &str) {
        client.outbox.close_now(reason);
        self.budget.yield_privilege(client.id.0);
        let mut work = Work::new();
        self.locked(|state| {
            // What it has asked for comes first.
            self.handle_gathered(state, &mut work);
            if state.connections.remove(&client.id).is_some() {
                let closed = Input::Closed {
                    connection: client.id,
                };
                self.handle(state, self.host.now(), closed.into(), &mut work);
            }
        });
        self.carry_out(work);
    }

    /// Goes on with the responses of a connection, because its socket is writable again.
    pub(crate) fn send(&self, client: &Arc<Client<H>>) {
        let mut work = Work::new();
        work.connections.push(client.clone());
        self.carry_out(work);
    }

    /// The timer fired. The core hears of it only if its deadline has come.
    pub(crate) fn deadline(&self) {
        let mut work = Work::new();
        self.locked(|state| {
            state.armed = None;
            let due = state.guest.next_deadline();
            let now = self.host.now();
            if due.is_some_and(|due| due <= now.mono) {
                self.handle(state, now, Input::Deadline.into(), &mut work);
            } else {
                self.arm(state);
            }
        });
        self.carry_out(work);
    }

    /// What frames are to be prepared with now.
    pub(crate) fn codecs(&self) -> Arc<Codecs> {
        lock(&self.codecs).clone()
    }

    /// The connections that are open.
    pub(crate) fn clients(&self) -> Vec<Arc<Client<H>>> {
        let mut clients = Vec::new();
        self.locked(|state| clients.extend(state.connections.values().cloned()));
        clients
    }

    /// Stops everything where it is: no step is handled any more, no queued effect carried out.
    /// Returns once the threads do nothing. Must not be called by one of them.
    pub(crate) fn abandon(&self) {
        self.dead.store(true, Ordering::SeqCst);
        // Wait for a step that is under way.
        drop(self.state.lock());
        self.flushers.close();
        self.workers.close();
    }

    fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Runs `body` under the lock of the step, unless everything is over.
    fn locked(&self, body: impl FnOnce(&mut State<G, H>)) {
        let guard = StopOnPanic(self);
        if let Ok(mut state) = self.state.lock()
            && !self.is_dead()
        {
            body(&mut state);
        }
        drop(guard);
    }

    /// One step; under the lock.
    fn handle(&self, state: &mut State<G, H>, now: Now, input: G::Input, work: &mut Work<H>) {
        if let Some(recorder) = &mut state.recorder {
            recorder.input(now, &input);
        }
        let mut effects = std::mem::take(&mut state.effects);
        state.guest.handle(now, input, &mut effects);
        for effect in effects.drain() {
            if let Some(recorder) = &mut state.recorder {
                recorder.effect(&effect);
            }
            self.enqueue(state, effect, work);
        }
        state.effects = effects;
        self.arm(state);
    }

    /// Sees to it that the timer fires in time.
    fn arm(&self, state: &mut State<G, H>) {
        if let Some(next) = state.guest.next_deadline()
            && state.armed.is_none_or(|armed| next < armed)
        {
            state.armed = Some(next);
            self.host.arm(next);
        }
    }

    /// Moves an effect into its queue; under the lock of the step, so that the order in a queue is
    /// the order of the steps.
    fn enqueue(&self, state: &mut State<G, H>, effect: Effect, work: &mut Work<H>) {
        match effect {
            Effect::Respond {
                connection,
                response,
            } => {
                if let Some(client) = state.connections.get(&connection) {
                    let outgoing = self.pin(state, response);
                    client.outbox.push(outgoing);
                    work.connection(client);
                }
            }
            Effect::Close { connection } => {
                if let Some(client) = state.connections.get(&connection) {
                    client.outbox.close_when_sent();
                }
            }
            Effect::Open { file, path, length } => {
                let handle = self.host.bind(path);
                let queue = Arc::new(FileQueue::new(file, handle, length, self.gather_bytes));
                let known = state.files.insert(file, queue);
                assert!(known.is_none(), "{file} was opened twice");
            }
            Effect::Write {
                file,
                position,
                data,
            } => {
                let queue = state.file(file);
                queue.push_write(position, data);
                work.file(queue);
            }
            Effect::Flush { file } => {
                let queue = state.file(file);
                queue.push_flush();
                work.file(queue);
            }
            Effect::Manage { operation, op } => match op {
                FileOp::Truncate { file, .. }
                | FileOp::Rewrite { file, .. }
                | FileOp::Close(file) => {
                    let queue = state.file(file);
                    if matches!(op, FileOp::Close(_)) {
                        // Nothing is queued on it after this; the queue lives on until it is done.
                        state.files.remove(&file);
                    }
                    queue.push_alone(operation, op);
                    work.file(queue);
                }
                op => self.workers.push(Job::Manage(operation, op)),
            },
            Effect::Read { operation, job } => work.reads.push_back((operation, job)),
            Effect::Codecs(codecs) => *lock(&self.codecs) = codecs,
            Effect::Report(report) => self.host.report(&report),
            Effect::Started => self.host.signal(Signal::Started),
            Effect::Stopped => self.host.signal(Signal::Stopped),
            Effect::Fatal { message } => self.host.signal(Signal::Fatal(message)),
        }
    }

    /// Resolves the file ranges of a response to files that stay readable.
    fn pin(&self, state: &State<G, H>, response: Response) -> Outgoing<H::Pin> {
        let parts = response.parts.into_iter().filter(|part| !part.is_empty());
        let parts = parts.map(|part| match part {
            Part::Bytes(bytes) => OutgoingPart::Bytes(bytes),
            Part::File(range) => match state.files.get(&range.file) {
                None => OutgoingPart::Lost(format!("{} is not open", range.file)),
                Some(queue) => match self.host.pin(&queue.handle) {
                    Err(error) => OutgoingPart::Lost(error.to_string()),
                    Ok(pin) => OutgoingPart::File {
                        pin,
                        position: range.position,
                        length: u64::from(range.length),
                        warm: false,
                    },
                },
            },
        });
        Outgoing {
            parts: parts.collect(),
        }
    }

    /// Does what is cheap, and what follows from it, until nothing is left. The connection that got
    /// its answer last is served first: a consumer that waited for a record is waked by the answer
    /// to its producer, and should not wait for that to be sent.
    fn carry_out(&self, mut work: Work<H>) {
        loop {
            if let Some(file) = work.files.pop() {
                self.run_file(&file, &mut work);
            } else if let Some((operation, job)) = work.reads.pop_front() {
                self.run_read(operation, job, &mut work);
            } else if let Some(client) = work.connections.pop() {
                self.run_outbox(&client);
            } else {
                return;
            }
        }
    }

    /// Takes the turns of a file until there is none, and reports what has ended.
    fn run_file(&self, file: &Arc<LogFile<H>>, work: &mut Work<H>) {
        while !self.is_dead()
            && let Some(turn) = file.take_turn()
        {
            match turn {
                Turn::Write(run) => {
                    let result = self.host.write(&file.handle, &run);
                    file.wrote(run, result);
                }
                Turn::Flush => self.flushers.push(file.clone()),
                Turn::Alone(operation, op) => {
                    self.workers.push(Job::Alone(file.clone(), operation, op));
                }
            }
        }
        if file.has_completions() {
            self.locked(|state| {
                let now = self.host.now();
                while let Some(completion) = file.take_completion() {
                    self.handle(state, now, Input::Disk(completion).into(), work);
                }
            });
        }
    }

    /// Reads what is in the page cache; for anything else a thread waits.
    fn run_read(&self, operation: OperationId, job: Box<ReadJob>, work: &mut Work<H>) {
        let guard = StopOnPanic(self);
        let read = self.host.read_warm(&job);
        drop(guard);
        match read {
            Some(result) => self.complete(Completion::Read { operation, result }, work),
            None => self.workers.push(Job::Read(operation, job)),
        }
    }

    /// Sends what waits on a connection, unless another one is at it.
    fn run_outbox(&self, client: &Arc<Client<H>>) {
        while !self.is_dead()
            && let Some(queue) = client.outbox.begin_sending()
        {
            if self.send_queue(client, queue) == AfterSending::Leave {
                break;
            }
        }
    }

    fn send_queue(
        &self,
        client: &Arc<Client<H>>,
        mut queue: VecDeque<Outgoing<H::Pin>>,
    ) -> AfterSending {
        let before = queue.len();
        let sent = self.host.send(&client.socket, &mut queue);
        let answered = before - queue.len();
        match client.outbox.end_sending(queue, answered, sent) {
            AfterSending::ReadCold => {
                self.workers.push(Job::ReadCold(client.clone()));
                AfterSending::Leave
            }
            next => next,
        }
    }

    /// On a flush thread.
    fn flush(&self, file: &Arc<LogFile<H>>) {
        let _guard = StopOnPanic(self);
        if self.is_dead() {
            return;
        }
        let up_to = file.written();
        let result = self.host.flush(&file.handle);
        file.flushed(up_to, result);
        let mut work = Work::new();
        self.run_file(file, &mut work);
        self.carry_out(work);
    }

    /// On a thread for reads and file management.
    fn perform(&self, job: Job<H>) {
        let _guard = StopOnPanic(self);
        if self.is_dead() {
            return;
        }
        let mut work = Work::new();
        match job {
            Job::Alone(file, operation, op) => {
                let result = self.host.run_alone(&file.handle, &op);
                file.ran_alone(operation, &op, result);
                self.run_file(&file, &mut work);
            }
            Job::Manage(operation, op) => {
                let result = self.host.manage(&op);
                self.complete(Completion::Managed { operation, result }, &mut work);
            }
            Job::Read(operation, job) => {
                let result = self.host.read(&job);
                self.complete(Completion::Read { operation, result }, &mut work);
            }
            Job::ReadCold(client) => {
                let mut queue = client.outbox.go_on_sending();
                self.host.warm_up(&mut queue);
                if self.send_queue(&client, queue) == AfterSending::Again {
                    work.connections.push(client);
                }
            }
        }
        self.carry_out(work);
    }

    fn complete(&self, completion: Completion, work: &mut Work<H>) {
        let input = Input::Disk(completion).into();
        self.locked(|state| self.handle(state, self.host.now(), input, work));
    }
}

impl<G: Guest, H: Host> State<G, H> {
    fn file(&self, file: FileId) -> Arc<LogFile<H>> {
        self.files
            .get(&file)
            .unwrap_or_else(|| panic!("{file} is used but not open"))
            .clone()
    }
}

impl<H: Host> Work<H> {
    const fn new() -> Self {
        Self {
            files: Vec::new(),
            reads: VecDeque::new(),
            connections: Vec::new(),
        }
    }

    fn connection(&mut self, client: &Arc<Client<H>>) {
        if !self
            .connections
            .last()
            .is_some_and(|last| Arc::ptr_eq(last, client))
        {
            self.connections.push(client.clone());
        }
    }

    fn file(&mut self, file: Arc<LogFile<H>>) {
        if !self
            .files
            .last()
            .is_some_and(|last| Arc::ptr_eq(last, &file))
        {
            self.files.push(file);
        }
    }
}

/// A panic in a step or in a job is a bug, and what it leaves behind cannot be trusted: nothing
/// goes on, and the program hears of it.
struct StopOnPanic<'a, G: Guest, H: Host>(&'a Driver<G, H>);

impl<G: Guest, H: Host> Drop for StopOnPanic<'_, G, H> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.dead.store(true, Ordering::SeqCst);
            self.0.host.signal(Signal::Fatal(
                "a bug in Odradek: the broker panicked (the message is above); what it \
                 acknowledged is safe, start it again"
                    .to_owned(),
            ));
        }
    }
}
