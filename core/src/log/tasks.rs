//! Sequences of file operations: stages whose operations may run side by side, each stage begun
//! only after the one before has ended well.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::context::{Context, LogId, Owner};
use crate::effect::FileOp;
use crate::ids::OperationId;
use crate::input::DiskError;

/// A sequence under way.
#[derive(Debug)]
pub(crate) struct Sequence {
    stages: VecDeque<Vec<FileOp>>,
    /// Operations of the current stage that have not ended, and whether each is a flush.
    waiting: BTreeMap<OperationId, bool>,
    failure: Option<Failure>,
}

/// Why a sequence stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) error: DiskError,
    /// Whether it was a flush that failed: that is final (promise 6).
    pub(crate) flush: bool,
}

/// Where a sequence is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Running,
    Done,
    Failed(Failure),
}

impl Sequence {
    /// Begins a sequence. Empty stages are skipped; a sequence without operations is done at once,
    /// which the caller must ask for by [`Sequence::progress`].
    pub(crate) fn start(cx: &mut Context<'_>, log: LogId, stages: Vec<Vec<FileOp>>) -> Self {
        let mut sequence = Self {
            stages: stages.into(),
            waiting: BTreeMap::new(),
            failure: None,
        };
        sequence.next_stage(cx, log);
        sequence
    }

    pub(crate) fn waits_for(&self, operation: OperationId) -> bool {
        self.waiting.contains_key(&operation)
    }

    /// One of its operations has ended.
    pub(crate) fn complete(
        &mut self,
        cx: &mut Context<'_>,
        log: LogId,
        operation: OperationId,
        result: Result<(), DiskError>,
    ) {
        let flush = self.waiting.remove(&operation).unwrap_or(false);
        if let Err(error) = result {
            // A failed flush outweighs whatever else failed beside it.
            if self
                .failure
                .as_ref()
                .is_none_or(|known| flush && !known.flush)
            {
                self.failure = Some(Failure { error, flush });
            }
        }
        if self.waiting.is_empty() && self.failure.is_none() {
            self.next_stage(cx, log);
        }
    }

    pub(crate) fn progress(&self) -> Progress {
        if !self.waiting.is_empty() {
            return Progress::Running;
        }
        match &self.failure {
            Some(failure) => Progress::Failed(failure.clone()),
            None => Progress::Done,
        }
    }

    fn next_stage(&mut self, cx: &mut Context<'_>, log: LogId) {
        while let Some(stage) = self.stages.pop_front() {
            for op in stage {
                let flush = matches!(op, FileOp::SyncFile(_) | FileOp::SyncDir(_));
                let operation = cx.manage(Owner::Log(log), op);
                self.waiting.insert(operation, flush);
            }
            if !self.waiting.is_empty() {
                return;
            }
        }
    }
}
