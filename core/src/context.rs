//! What every room gets handed in a step: the time, the effects, and the routes by which a
//! completion finds its way back.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use crate::effect::{Effect, Effects, FileOp};
use crate::ids::{FileId, OperationId};
use crate::read_job::ReadJob;
use crate::report::{Level, Report};
use crate::time::Now;
use alloc::string::String;

/// A log of this process: a partition's, or the metadata log. Never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub u32);

/// Who waits for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A log: its recovery, rolls, checkpoints and retention.
    Log(LogId),
    /// A request that waits for a read, by its number.
    Request(u64),
    /// The broker's own start, stop and checkpoints.
    Broker,
}

/// Where completions go.
#[derive(Debug, Default)]
pub struct Routes {
    next_file: u64,
    next_operation: u64,
    files: BTreeMap<FileId, LogId>,
    operations: BTreeMap<OperationId, Owner>,
}

/// The surroundings of one step.
#[derive(Debug)]
pub struct Context<'a> {
    /// The time of the step.
    pub now: Now,
    /// What the step asks for.
    pub out: &'a mut Effects,
    /// Where the completions go.
    pub routes: &'a mut Routes,
}

impl Routes {
    /// A new id for a log file of `log`.
    pub fn new_file(&mut self, log: LogId) -> FileId {
        self.next_file += 1;
        let file = FileId(self.next_file);
        self.files.insert(file, log);
        file
    }

    /// The log that a file belongs to, until it is forgotten.
    #[must_use]
    pub fn log_of(&self, file: FileId) -> Option<LogId> {
        self.files.get(&file).copied()
    }

    /// No completion of this file matters any more.
    pub fn forget_file(&mut self, file: FileId) {
        self.files.remove(&file);
    }

    /// Who waits for an operation; asked once, when it completes.
    pub fn take_owner(&mut self, operation: OperationId) -> Option<Owner> {
        self.operations.remove(&operation)
    }

    fn new_operation(&mut self, owner: Owner) -> OperationId {
        self.next_operation += 1;
        let operation = OperationId(self.next_operation);
        self.operations.insert(operation, owner);
        operation
    }
}

impl Context<'_> {
    /// Asks for a file-management operation.
    pub fn manage(&mut self, owner: Owner, op: FileOp) -> OperationId {
        let operation = self.routes.new_operation(owner);
        self.out.push(Effect::Manage { operation, op });
        operation
    }

    /// Asks for a computation over file contents.
    pub fn read(&mut self, owner: Owner, job: ReadJob) -> OperationId {
        let operation = self.routes.new_operation(owner);
        self.out.push(Effect::Read {
            operation,
            job: Box::new(job),
        });
        operation
    }

    /// Tells the operator.
    pub fn report(&mut self, level: Level, room: &'static str, message: String) {
        self.out.push(Effect::Report(Report {
            level,
            room,
            message,
        }));
    }
}
