//! The queues of file effects, one a log file, and the operations that name a path.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use odradek_core::effect::{FileOp, WriteData};
use odradek_core::ids::{FileId, FilePath, OperationId, Position};
use odradek_core::input::{Completion, DiskError, DiskErrorKind};
use odradek_core::read_job::{ReadJob, ReadOutput};

use crate::choices::{Choices, Subsystem};
use crate::disk::damage::{Damage, Moment};
use crate::disk::faults::{DiskFault, DiskFaults, Work};
use crate::disk::reader::Reader;
use crate::disk::{Disk, Inode, Ticket, error};

/// The file side of a host, for one life of its process.
#[derive(Debug, Default)]
pub struct Files {
    logs: BTreeMap<FileId, LogFile>,
    running: BTreeMap<Token, Running>,
    next_token: u64,
    /// Read jobs whose completion the broker has not seen.
    reads: usize,
}

/// Names an operation that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(u64);

/// An operation that began and takes some time.
#[derive(Clone, Copy, Debug)]
pub struct Started {
    /// Names it.
    pub token: Token,
    /// Whose dice say how long it takes.
    pub entity: u64,
    /// What takes the time.
    pub work: Work,
}

/// What came of an operation when its time was over.
#[derive(Debug, Default)]
pub struct Outcome {
    /// To be told to the broker, a moment later.
    pub reports: Vec<Report>,
    /// What could begin because of it.
    pub started: Vec<Started>,
    /// The faults that struck.
    pub faults: Vec<(DiskFault, Option<FilePath>)>,
    /// Pages to be evicted in so many nanoseconds.
    pub evicts: Option<(Inode, u64)>,
    /// Bytes that are not what was written there.
    pub damages: Vec<Damage>,
}

/// A completion on its way to the broker. What it says is settled when it gets there, since the
/// host reports written prefixes, not writes.
#[derive(Debug)]
pub enum Report {
    /// The written prefix of a file may have grown.
    Written(FileId),
    /// A file's writes failed and none is in flight.
    WriteFailed(FileId),
    /// Anything that does not change on the way.
    Fixed(Completion),
}

#[derive(Debug)]
struct LogFile {
    path: FilePath,
    inode: Result<Inode, DiskErrorKind>,
    queue: VecDeque<Queued>,
    /// Operations under way, and how many of them are writes.
    running: usize,
    writes_running: usize,
    /// A truncate, rewrite or close is under way: nothing else of this file may be.
    barrier: bool,
    /// That it is a truncate, which will end a failure.
    truncating: bool,
    /// End of the contiguous written prefix, and what is written beyond it, start to end.
    written: u64,
    beyond: BTreeMap<u64, u64>,
    reported: u64,
    failure: Option<DiskError>,
}

#[derive(Debug)]
enum Queued {
    Write {
        position: u64,
        data: WriteData,
    },
    Flush,
    Truncate {
        operation: OperationId,
        length: u64,
    },
    Rewrite {
        operation: OperationId,
        from: u64,
        to: u64,
    },
    Close {
        operation: OperationId,
    },
}

#[derive(Debug)]
enum Running {
    Log {
        file: FileId,
        what: LogWork,
    },
    Path {
        operation: OperationId,
        op: FileOp,
    },
    /// A flush of a file or directory by path, once it was called.
    Sync {
        operation: OperationId,
        op: FileOp,
        ticket: Ticket,
    },
    Read {
        operation: OperationId,
        job: Box<ReadJob>,
    },
}

#[derive(Debug)]
enum LogWork {
    Queued(Queued),
    /// A flush that was called, with the written prefix of that moment.
    Flushing {
        ticket: Ticket,
        up_to: u64,
    },
}

/// The dice of operations that belong to no log file.
const PATHS: u64 = u64::MAX;

impl Files {
    /// Binds a log file. What cannot be opened shows at its first use.
    pub fn open(&mut self, file: FileId, path: &FilePath, length: Position, disk: &Disk) {
        let inode = disk.lookup(path);
        let before = self.logs.insert(
            file,
            LogFile {
                path: path.clone(),
                inode,
                queue: VecDeque::new(),
                running: 0,
                writes_running: 0,
                barrier: false,
                truncating: false,
                written: length.0,
                beyond: BTreeMap::new(),
                reported: length.0,
                failure: None,
            },
        );
        assert!(before.is_none(), "the core never reuses a file id: {file}");
    }

    /// The inode that a log file is bound to, for a response that names a range of it.
    #[must_use]
    pub fn pin(&self, file: FileId) -> Option<Inode> {
        self.logs.get(&file)?.inode.ok()
    }

    /// Whether the broker waits for a read job.
    #[must_use]
    pub const fn is_reading(&self) -> bool {
        self.reads > 0
    }

    /// Queues a write of a log file.
    pub fn write(&mut self, file: FileId, position: Position, data: WriteData) -> Vec<Started> {
        let Some(log) = self.logs.get_mut(&file) else {
            panic!("the core writes to {file}, which is not open");
        };
        if log.takes_writes() {
            log.queue.push_back(Queued::Write {
                position: position.0,
                data,
            });
        }
        self.pump(file)
    }

    /// Queues a flush of a log file.
    pub fn flush(&mut self, file: FileId) -> Vec<Started> {
        let Some(log) = self.logs.get_mut(&file) else {
            panic!("the core flushes {file}, which is not open");
        };
        if log.takes_writes() {
            log.queue.push_back(Queued::Flush);
        }
        self.pump(file)
    }

    /// Whether a flush of a log file was asked for and has not ended.
    #[must_use]
    pub fn is_flushing(&self, file: FileId) -> bool {
        self.running.values().any(|running| match running {
            Running::Log { file: of, what } => {
                *of == file
                    && matches!(
                        what,
                        LogWork::Queued(Queued::Flush) | LogWork::Flushing { .. }
                    )
            }
            _ => false,
        })
    }

    /// Takes a file-management operation: into its file's queue, or at once if it names a path.
    pub fn manage(&mut self, operation: OperationId, op: FileOp) -> Vec<Started> {
        let (file, queued) = match op {
            FileOp::Truncate { file, length } => (
                file,
                Queued::Truncate {
                    operation,
                    length: length.0,
                },
            ),
            FileOp::Rewrite { file, from, to } => (
                file,
                Queued::Rewrite {
                    operation,
                    from: from.0,
                    to: to.0,
                },
            ),
            FileOp::Close(file) => (file, Queued::Close { operation }),
            op => return vec![self.run(Running::Path { operation, op }, PATHS, Work::Memory)],
        };
        let Some(log) = self.logs.get_mut(&file) else {
            panic!("the core manages {file}, which is not open");
        };
        log.queue.push_back(queued);
        self.pump(file)
    }

    /// Starts a read job.
    pub fn read(&mut self, operation: OperationId, job: Box<ReadJob>) -> Vec<Started> {
        self.reads += 1;
        vec![self.run(Running::Read { operation, job }, PATHS, Work::Memory)]
    }

    /// Starts what the rules allow to start in one file's queue.
    fn pump(&mut self, file: FileId) -> Vec<Started> {
        let mut started = Vec::new();
        while let Some(log) = self.logs.get_mut(&file) {
            let may_start = match log.queue.front() {
                None => false,
                Some(Queued::Write { .. } | Queued::Flush) => !log.barrier,
                Some(_) => log.running == 0,
            };
            if !may_start {
                break;
            }
            let queued = log.queue.pop_front().expect("the front was there");
            log.running += 1;
            match queued {
                Queued::Write { .. } => log.writes_running += 1,
                Queued::Flush => {}
                Queued::Truncate { .. } => {
                    log.barrier = true;
                    log.truncating = true;
                }
                Queued::Rewrite { .. } | Queued::Close { .. } => log.barrier = true,
            }
            let entity = log.inode.map_or(PATHS, |inode| inode.0);
            let what = LogWork::Queued(queued);
            started.push(self.run(Running::Log { file, what }, entity, Work::Memory));
        }
        started
    }

    fn run(&mut self, running: Running, entity: u64, work: Work) -> Started {
        self.next_token += 1;
        let token = Token(self.next_token);
        self.running.insert(token, running);
        Started {
            token,
            entity,
            work,
        }
    }

    /// What an operation that was started does, in words.
    #[must_use]
    pub fn what_runs(&self, token: Token) -> String {
        match self.running.get(&token) {
            None => String::new(),
            Some(Running::Log { what, .. }) => match what {
                LogWork::Queued(Queued::Write { .. }) => "write".to_owned(),
                LogWork::Queued(Queued::Flush) => "flush".to_owned(),
                LogWork::Queued(_) => "manage".to_owned(),
                LogWork::Flushing { .. } => "flushing".to_owned(),
            },
            Some(Running::Path { op, .. }) => op.to_string(),
            Some(Running::Sync { op, .. }) => format!("flushing {op}"),
            Some(Running::Read { .. }) => "read".to_owned(),
        }
    }

    /// The time of an operation is over: it is done, or struck by a fault.
    pub fn execute(
        &mut self,
        token: Token,
        disk: &mut Disk,
        faults: &DiskFaults,
        choices: &mut Choices,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        match self.running.remove(&token) {
            // It was dropped by a failed write before it.
            None => {}
            Some(Running::Log { file, what }) => {
                self.execute_log(file, what, disk, faults, choices, &mut outcome);
                outcome.started.extend(self.pump(file));
            }
            Some(Running::Path { operation, op }) => {
                if matches!(op, FileOp::SyncFile(_) | FileOp::SyncDir(_)) {
                    let ticket = disk.call_flush();
                    let sync = Running::Sync {
                        operation,
                        op,
                        ticket,
                    };
                    outcome.started.push(self.run(sync, PATHS, Work::Device));
                    return outcome;
                }
                let no_descriptor = if opens(&op) {
                    faults.no_descriptor(choices, 0)
                } else {
                    None
                };
                if let Some(kind) = no_descriptor {
                    let path = path_of(&op);
                    outcome
                        .faults
                        .push((DiskFault::NoDescriptor, Some(path.clone())));
                    let result = Err(error(kind, path, "injected"));
                    outcome.managed(operation, result);
                    return outcome;
                }
                let result = match faults.manage(choices) {
                    Some(kind) => {
                        let path = path_of(&op);
                        outcome
                            .faults
                            .push((DiskFault::ManageError, Some(path.clone())));
                        let steps = primitives(&op, disk);
                        let done =
                            choices.between(Subsystem::InFlight, PATHS, 0, steps.len() as u64 - 1);
                        for step in &steps[..done as usize] {
                            // A fault has already struck; what else goes wrong changes nothing.
                            let _ = step.carry_out(disk);
                        }
                        Err(error(kind, path, "injected"))
                    }
                    None => carry_out(&op, disk, &mut outcome),
                };
                outcome.managed(operation, result);
            }
            Some(Running::Sync {
                operation,
                op,
                ticket,
            }) => {
                let result = finish_sync(&op, ticket, disk, faults, choices, &mut outcome);
                outcome.managed(operation, result);
            }
            Some(Running::Read { operation, job }) => {
                let failure = match faults.read(choices) {
                    Some(kind) => Some((DiskFault::ReadError, kind)),
                    None => faults
                        .no_descriptor(choices, 0)
                        .map(|kind| (DiskFault::NoDescriptor, kind)),
                };
                let result: Result<ReadOutput, DiskError> = match failure {
                    Some((fault, kind)) => {
                        outcome.faults.push((fault, None));
                        Err(error(kind, &FilePath::root(), "injected"))
                    }
                    None => job.run(&mut Reader::new(disk, faults, choices, &mut outcome.faults)),
                };
                outcome
                    .reports
                    .push(Report::Fixed(Completion::Read { operation, result }));
            }
        }
        outcome
    }

    fn execute_log(
        &mut self,
        file: FileId,
        what: LogWork,
        disk: &mut Disk,
        faults: &DiskFaults,
        choices: &mut Choices,
        outcome: &mut Outcome,
    ) {
        let log = self
            .logs
            .get_mut(&file)
            .expect("a file stays open until its close was done");
        log.running -= 1;
        match what {
            LogWork::Queued(Queued::Write { position, data }) => {
                log.writes_running -= 1;
                log.write(position, &data, disk, faults, choices, outcome);
                if log.failure.is_none() {
                    outcome.reports.push(Report::Written(file));
                } else if log.writes_running == 0 {
                    outcome.reports.push(Report::WriteFailed(file));
                }
            }
            LogWork::Queued(Queued::Flush) => {
                log.running += 1;
                let entity = log.inode.map_or(PATHS, |inode| inode.0);
                let what = LogWork::Flushing {
                    ticket: disk.call_flush(),
                    up_to: log.written,
                };
                outcome
                    .started
                    .push(self.run(Running::Log { file, what }, entity, Work::Device));
            }
            LogWork::Flushing { ticket, up_to } => {
                let completion = match log.finish_flush(ticket, disk, faults, choices, outcome) {
                    Ok(()) => Completion::Flushed {
                        file,
                        up_to: Position(up_to),
                    },
                    Err(error) => Completion::FlushFailed { file, error },
                };
                outcome.reports.push(Report::Fixed(completion));
            }
            LogWork::Queued(Queued::Truncate { operation, length }) => {
                log.barrier = false;
                log.truncating = false;
                let result = log.truncate(length, disk, faults, choices, outcome);
                outcome.managed(operation, result);
            }
            LogWork::Queued(Queued::Rewrite {
                operation,
                from,
                to,
            }) => {
                log.barrier = false;
                let result = log.rewrite(from, to, disk, faults, choices, outcome);
                outcome.managed(operation, result);
            }
            LogWork::Queued(Queued::Close { operation }) => {
                self.logs.remove(&file);
                outcome.managed(operation, Ok(()));
            }
        }
    }

    /// What a report says now; `None` if there is nothing new.
    pub fn settle(&mut self, report: Report) -> Option<Completion> {
        match report {
            Report::Fixed(completion) => {
                self.reads -= usize::from(matches!(completion, Completion::Read { .. }));
                Some(completion)
            }
            Report::Written(file) => {
                let log = self.logs.get_mut(&file)?;
                if log.failure.is_some() || log.written <= log.reported {
                    return None;
                }
                log.reported = log.written;
                Some(Completion::Written {
                    file,
                    up_to: Position(log.written),
                })
            }
            Report::WriteFailed(file) => {
                let log = self.logs.get_mut(&file)?;
                let error = log.failure.clone()?;
                log.reported = log.written;
                Some(Completion::WriteFailed {
                    file,
                    written: Position(log.written),
                    error,
                })
            }
        }
    }

    /// The process dies: of what was under way, each is done, done in part or not done.
    pub fn die(self, disk: &mut Disk, choices: &mut Choices) {
        self.leave(disk, &mut |entity, most| {
            choices.between(Subsystem::InFlight, entity, 0, most)
        });
    }

    /// What a process that dies leaves of what was under way. `done` says how much of an operation is
    /// done, out of so many system calls or bytes.
    pub fn leave(&self, disk: &mut Disk, done: &mut dyn FnMut(u64, u64) -> u64) {
        for (token, running) in &self.running {
            let entity = token.0;
            match running {
                Running::Read { .. } => {}
                Running::Path { op, .. } => {
                    let steps = primitives(op, disk);
                    let done = done(entity, steps.len() as u64);
                    for step in &steps[..done as usize] {
                        // Nobody is left to be told.
                        let _ = step.carry_out(disk);
                    }
                }
                Running::Sync { op, ticket, .. } => {
                    if done(entity, 1) == 1 {
                        let _ = match op {
                            FileOp::SyncDir(path) => disk.sync_dir(path, *ticket),
                            op => disk
                                .lookup(path_of(op))
                                .and_then(|inode| disk.flush(inode, *ticket)),
                        };
                    }
                }
                Running::Log { file, what } => {
                    let Some(Ok(inode)) = self.logs.get(file).map(|log| log.inode) else {
                        continue;
                    };
                    match what {
                        LogWork::Queued(Queued::Write { position, data }) => {
                            let bytes = flat(data);
                            let done = done(entity, bytes.len() as u64);
                            let _ = disk.write(inode, *position, bytes.slice(..done as usize));
                        }
                        LogWork::Flushing { ticket, .. } => {
                            if done(entity, 1) == 1 {
                                let _ = disk.flush(inode, *ticket);
                            }
                        }
                        LogWork::Queued(Queued::Truncate { length, .. }) => {
                            if done(entity, 1) == 1 {
                                let _ = disk.set_length(inode, *length);
                            }
                        }
                        LogWork::Queued(
                            Queued::Flush | Queued::Rewrite { .. } | Queued::Close { .. },
                        ) => {}
                    }
                }
            }
        }
    }
}

impl LogFile {
    /// Whether no failure stands in the way of a write that is queued now, or a truncation will
    /// have ended it by then.
    fn takes_writes(&self) -> bool {
        self.failure.is_none()
            || self.truncating
            || self
                .queue
                .iter()
                .any(|queued| matches!(queued, Queued::Truncate { .. }))
    }

    /// Drops the writes and flushes that wait, up to a truncation.
    fn drop_queued(&mut self) {
        while matches!(
            self.queue.front(),
            Some(Queued::Write { .. } | Queued::Flush)
        ) {
            self.queue.pop_front();
        }
    }

    fn write(
        &mut self,
        position: u64,
        data: &WriteData,
        disk: &mut Disk,
        faults: &DiskFaults,
        choices: &mut Choices,
        outcome: &mut Outcome,
    ) {
        let bytes = flat(data);
        let result = match self.inode {
            Err(kind) => Err((0, kind, None)),
            Ok(inode) if let Some(kind) = faults.no_descriptor(choices, inode.0) => {
                Err((0, kind, Some(DiskFault::NoDescriptor)))
            }
            Ok(inode) => match faults.write(choices, inode, bytes.len()) {
                Some((done, kind)) => {
                    // As many bytes as were written are there, whatever the call says.
                    let done = match disk.write(inode, position, bytes.slice(..done)) {
                        Ok(()) => done,
                        Err((fit, _)) => fit,
                    };
                    let fault = match kind {
                        DiskErrorKind::Io => DiskFault::WriteError,
                        _ => DiskFault::ShortWrite,
                    };
                    Err((done, kind, Some(fault)))
                }
                None => disk
                    .write(inode, position, bytes.clone())
                    .map_err(|(done, kind)| {
                        (
                            done,
                            kind,
                            (kind == DiskErrorKind::NoSpace).then_some(DiskFault::NoSpace),
                        )
                    }),
            },
        };
        let done = match result {
            Ok(()) => bytes.len(),
            Err((done, kind, fault)) => {
                if let Some(fault) = fault {
                    outcome.faults.push((fault, Some(self.path.clone())));
                }
                self.failure
                    .get_or_insert_with(|| error(kind, &self.path, ""));
                self.drop_queued();
                // A failed call does not say how much it did; a short one does.
                if kind == DiskErrorKind::NoSpace {
                    done
                } else {
                    0
                }
            }
        };
        if done > 0 {
            self.beyond.insert(position, position + done as u64);
        }
        while let Some(entry) = self.beyond.first_entry() {
            if *entry.key() > self.written {
                break;
            }
            self.written = self.written.max(entry.remove());
        }
    }

    fn finish_flush(
        &self,
        ticket: Ticket,
        disk: &mut Disk,
        faults: &DiskFaults,
        choices: &mut Choices,
        outcome: &mut Outcome,
    ) -> Result<(), DiskError> {
        let inode = self.inode.map_err(|kind| error(kind, &self.path, ""))?;
        if let Some(kind) = faults.no_descriptor(choices, inode.0) {
            let fault = (DiskFault::NoDescriptor, Some(self.path.clone()));
            outcome.faults.push(fault);
            return Err(error(kind, &self.path, "injected"));
        }
        flush_inode(inode, &self.path, ticket, disk, faults, choices, outcome)
    }

    fn truncate(
        &mut self,
        length: u64,
        disk: &mut Disk,
        faults: &DiskFaults,
        choices: &mut Choices,
        outcome: &mut Outcome,
    ) -> Result<(), DiskError> {
        let fault = faults.manage(choices);
        let result = match (self.inode, fault) {
            (Err(kind), _) => Err(kind),
            (Ok(_), Some(kind)) => {
                outcome
                    .faults
                    .push((DiskFault::ManageError, Some(self.path.clone())));
                Err(kind)
            }
            (Ok(inode), None) => disk.set_length(inode, length),
        };
        if let Err(kind) = result {
            if self.failure.is_some() {
                self.drop_queued();
            }
            return Err(error(kind, &self.path, ""));
        }
        self.written = length;
        self.reported = length;
        self.beyond.clear();
        self.failure = None;
        Ok(())
    }

    fn rewrite(
        &self,
        from: u64,
        to: u64,
        disk: &mut Disk,
        faults: &DiskFaults,
        choices: &mut Choices,
        outcome: &mut Outcome,
    ) -> Result<(), DiskError> {
        let inode = self.inode.map_err(|kind| error(kind, &self.path, ""))?;
        let cached = disk.file(inode).map_or(&[][..], |file| file.cached());
        let Some(bytes) = cached.get(from as usize..to as usize) else {
            return Err(error(DiskErrorKind::Other, &self.path, "range is short"));
        };
        let bytes = Bytes::copy_from_slice(bytes);
        if bytes.is_empty() {
            return Ok(());
        }
        if disk
            .file(inode)
            .is_some_and(|file| !file.is_readable(from, to))
        {
            return Err(error(DiskErrorKind::Io, &self.path, "unreadable sector"));
        }
        match faults.write(choices, inode, bytes.len()) {
            Some((done, kind)) => {
                outcome
                    .faults
                    .push((DiskFault::WriteError, Some(self.path.clone())));
                let _ = disk.write(inode, from, bytes.slice(..done));
                Err(error(kind, &self.path, "injected"))
            }
            None => disk
                .write(inode, from, bytes)
                .map_err(|(_, kind)| error(kind, &self.path, "")),
        }
    }
}

impl Outcome {
    fn managed(&mut self, operation: OperationId, result: Result<(), DiskError>) {
        self.reports
            .push(Report::Fixed(Completion::Managed { operation, result }));
    }
}

fn flush_inode(
    inode: Inode,
    path: &FilePath,
    ticket: Ticket,
    disk: &mut Disk,
    faults: &DiskFaults,
    choices: &mut Choices,
    outcome: &mut Outcome,
) -> Result<(), DiskError> {
    if faults.lies {
        return Ok(());
    }
    if disk.is_read_only() {
        return Err(error(DiskErrorKind::ReadOnly, path, ""));
    }
    let full = disk.free_bytes().is_some();
    let Some(failure) = faults.flush(choices, inode, full) else {
        if let Some(mut dice) = faults.misdirected_write(choices, inode) {
            let damages = disk.flush_astray(path, inode, ticket, &mut dice);
            outcome
                .faults
                .extend(damages.iter().map(|_| (DiskFault::MisdirectedWrite, None)));
            outcome.damages.extend(damages);
        }
        let done = disk
            .flush(inode, ticket)
            .map_err(|kind| error(kind, path, ""));
        if let Some(mut dice) = faults.rot_while_running(choices)
            && let Some(damage) = disk.rot(Moment::Running, &mut dice)
        {
            let path = Some(damage.path.clone());
            outcome.faults.push((DiskFault::Rot, path));
            outcome.damages.push(damage);
        }
        return done;
    };
    disk.fail_flush(inode, ticket, failure.shows_old);
    if failure.turns_read_only {
        disk.set_read_only(true);
        let fault = (DiskFault::TurnedReadOnly, Some(path.clone()));
        outcome.faults.push(fault);
    }
    outcome.evicts = failure.evicted_after_ns.map(|after| (inode, after));
    let fault = if failure.shows_old {
        DiskFault::FlushErrorShowsOld
    } else {
        DiskFault::FlushErrorKeepsNew
    };
    outcome.faults.push((fault, Some(path.clone())));
    Err(error(failure.kind, path, "injected"))
}

fn finish_sync(
    op: &FileOp,
    ticket: Ticket,
    disk: &mut Disk,
    faults: &DiskFaults,
    choices: &mut Choices,
    outcome: &mut Outcome,
) -> Result<(), DiskError> {
    let path = path_of(op);
    if let Some(kind) = faults.no_descriptor(choices, 0) {
        let fault = (DiskFault::NoDescriptor, Some(path.clone()));
        outcome.faults.push(fault);
        return Err(error(kind, path, "injected"));
    }
    if matches!(op, FileOp::SyncDir(_)) {
        if let Some(kind) = faults.manage(choices) {
            outcome
                .faults
                .push((DiskFault::ManageError, Some(path.clone())));
            return Err(error(kind, path, "injected"));
        }
        return disk
            .sync_dir(path, ticket)
            .map_err(|kind| error(kind, path, ""));
    }
    let inode = disk.lookup(path).map_err(|kind| error(kind, path, ""))?;
    flush_inode(inode, path, ticket, disk, faults, choices, outcome)
}

/// A system call of which an operation on a path is made: where a crash can come between.
#[derive(Debug)]
enum Step {
    CreateDir(FilePath),
    CreateFile(FilePath),
    WriteAt(FilePath, u64, Bytes),
    SetLength(FilePath, u64),
    Rename(FilePath, FilePath),
    RemoveFile(FilePath),
    Unlink(FilePath),
}

fn primitives(op: &FileOp, disk: &Disk) -> Vec<Step> {
    match op {
        FileOp::CreateDir(path) => vec![Step::CreateDir(path.clone())],
        FileOp::WriteFile { path, bytes } => {
            // Cut somewhere in the middle, so that a crash finds the file half written.
            let half = bytes.len() / 2;
            vec![
                Step::CreateFile(path.clone()),
                Step::WriteAt(path.clone(), 0, bytes.slice(..half)),
                Step::WriteAt(path.clone(), half as u64, bytes.slice(half..)),
            ]
        }
        FileOp::WriteAt {
            path,
            position,
            bytes,
        } => {
            let half = bytes.len() / 2;
            vec![
                Step::WriteAt(path.clone(), position.0, bytes.slice(..half)),
                Step::WriteAt(path.clone(), position.0 + half as u64, bytes.slice(half..)),
            ]
        }
        FileOp::SetLength { path, length } => vec![Step::SetLength(path.clone(), length.0)],
        FileOp::Rename { from, to } => vec![Step::Rename(from.clone(), to.clone())],
        FileOp::RemoveFile(path) => vec![Step::RemoveFile(path.clone())],
        FileOp::RemoveTree(path) => {
            let mut steps: Vec<Step> = disk.tree(path).into_iter().map(Step::Unlink).collect();
            if steps.is_empty() {
                steps.push(Step::RemoveFile(path.clone()));
            }
            steps
        }
        FileOp::SyncFile(_)
        | FileOp::SyncDir(_)
        | FileOp::Truncate { .. }
        | FileOp::Rewrite { .. }
        | FileOp::Close(_) => Vec::new(),
    }
}

fn carry_out(op: &FileOp, disk: &mut Disk, outcome: &mut Outcome) -> Result<(), DiskError> {
    for step in primitives(op, disk) {
        step.carry_out(disk).map_err(|kind| {
            if kind == DiskErrorKind::NoSpace {
                outcome
                    .faults
                    .push((DiskFault::NoSpace, Some(path_of(op).clone())));
            }
            error(kind, path_of(op), "")
        })?;
    }
    Ok(())
}

impl Step {
    fn carry_out(&self, disk: &mut Disk) -> Result<(), DiskErrorKind> {
        match self {
            Self::CreateDir(path) => disk.create_dir(path),
            Self::CreateFile(path) => disk.create_file(path).map(|_| ()),
            Self::WriteAt(path, position, bytes) => {
                let inode = disk.lookup(path)?;
                disk.write(inode, *position, bytes.clone())
                    .map_err(|(_, kind)| kind)
            }
            Self::SetLength(path, length) => {
                let inode = disk.lookup(path)?;
                disk.set_length(inode, *length)
            }
            Self::Rename(from, to) => disk.rename(from, to),
            Self::RemoveFile(path) => disk.remove_file(path),
            Self::Unlink(path) => disk.unlink(path),
        }
    }
}

/// Whether a system call of it needs a file descriptor.
const fn opens(op: &FileOp) -> bool {
    matches!(
        op,
        FileOp::WriteFile { .. } | FileOp::WriteAt { .. } | FileOp::SetLength { .. }
    )
}

/// The path that an operation is about.
fn path_of(op: &FileOp) -> &FilePath {
    match op {
        FileOp::CreateDir(path)
        | FileOp::WriteFile { path, .. }
        | FileOp::WriteAt { path, .. }
        | FileOp::SetLength { path, .. }
        | FileOp::SyncFile(path)
        | FileOp::SyncDir(path)
        | FileOp::RemoveFile(path)
        | FileOp::RemoveTree(path)
        | FileOp::Rename { from: path, .. } => path,
        FileOp::Truncate { .. } | FileOp::Rewrite { .. } | FileOp::Close(_) => {
            unreachable!("these name a file id and go through its queue")
        }
    }
}

fn flat(data: &WriteData) -> Bytes {
    let mut bytes = BytesMut::with_capacity(data.len());
    bytes.extend_from_slice(&data.header);
    bytes.extend_from_slice(&data.records);
    bytes.freeze()
}
