//! File-management operations one after another: the next is issued when the one before is done.

use alloc::collections::VecDeque;

use crate::context::{Context, Owner};
use crate::effect::FileOp;
use crate::ids::OperationId;
use crate::input::DiskError;

/// A list of operations under way. It stops at the first that fails.
#[derive(Debug)]
pub struct Sequence {
    owner: Owner,
    rest: VecDeque<FileOp>,
    current: Option<OperationId>,
}

/// Where a [`Sequence`] stands after a completion.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// The completion belongs to somebody else.
    NotMine,
    /// The next operation is under way.
    Running,
    /// All are done.
    Done,
    /// One failed; those behind it were not issued.
    Failed(DiskError),
}

impl Sequence {
    /// Issues the first of `ops`, which must not be empty.
    pub fn start(
        cx: &mut Context<'_>,
        owner: Owner,
        ops: impl IntoIterator<Item = FileOp>,
    ) -> Self {
        let mut sequence = Self {
            owner,
            rest: ops.into_iter().collect(),
            current: None,
        };
        assert!(
            !sequence.rest.is_empty(),
            "a sequence has at least one operation"
        );
        sequence.issue(cx);
        sequence
    }

    /// Takes a completion and issues the next operation.
    pub fn complete(
        &mut self,
        cx: &mut Context<'_>,
        operation: OperationId,
        result: &Result<(), DiskError>,
    ) -> Progress {
        if self.current != Some(operation) {
            return Progress::NotMine;
        }
        self.current = None;
        if let Err(error) = result {
            self.rest.clear();
            return Progress::Failed(error.clone());
        }
        if self.rest.is_empty() {
            return Progress::Done;
        }
        self.issue(cx);
        Progress::Running
    }

    fn issue(&mut self, cx: &mut Context<'_>) {
        if let Some(op) = self.rest.pop_front() {
            self.current = Some(cx.manage(self.owner, op));
        }
    }
}
