//! The queue of one log file: which of its effects may run now, and what is written.

use std::collections::VecDeque;

use odradek_core::effect::{FileOp, WriteData};
use odradek_core::ids::{FileId, OperationId, Position};
use odradek_core::input::{Completion, DiskError};

use crate::sync::{Mutex, lock};

/// How many writes of a file go out in one call: two slices each, and the system takes 1,024.
const MAX_WRITES_PER_RUN: usize = 512;
/// A write above this size is worth a call of its own, and worth doing beside a flush: a batch of the
/// 16 KiB that clients make by default.
const SMALL_WRITE_BYTES: usize = 4 << 10;

/// The queue of one log file, beside the host's handle `F` to it.
///
/// ```text
///            push                take_turn                     wrote / flushed / ran_alone
///  a step ---------> waiting ---------------> in the hands of ----------------------------> completions
///                                             one thread                                        |
///                                                                      take_completion          v
///                                                              (under the lock of the step)   a step
/// ```
///
/// Whoever ends something takes the next turns, so nothing needs to be woken.
#[derive(Debug)]
pub(crate) struct FileQueue<F> {
    /// The core's name for the file.
    pub(crate) id: FileId,
    /// The host's handle.
    pub(crate) handle: F,
    gather_bytes: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    waiting: VecDeque<Waiting>,
    /// Bytes of the writes among them.
    waiting_bytes: usize,
    /// Writes under way, in the order of their positions; those at the front that have ended are
    /// removed.
    in_flight: VecDeque<InFlight>,
    /// How many flushes are under way: as many as the core asks for.
    flushing: usize,
    /// Whether an operation is under way that allows nothing else beside it.
    alone: bool,
    /// End of what was handed in.
    issued: Position,
    /// End of the contiguous written prefix.
    written: Position,
    /// Why a write failed, until the file is truncated.
    failed: Option<DiskError>,
    /// After a failure, until the core asks for the truncation: writes and flushes are dropped.
    dropping: bool,
    completions: VecDeque<Completion>,
    /// Memory for the next run of writes.
    spare: Vec<WriteData>,
}

#[derive(Debug)]
enum Waiting {
    Write(Position, WriteData),
    Flush,
    Alone(OperationId, FileOp),
}

#[derive(Debug)]
struct InFlight {
    start: Position,
    end: Position,
    /// Once it has ended: up to where whole writes came.
    reached: Option<Position>,
}

/// What the caller of [`FileQueue::take_turn`] has to do.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Write these, then call [`FileQueue::wrote`].
    Write(WriteRun),
    /// Flush, by [`FileQueue::written`] and then [`FileQueue::flushed`].
    Flush,
    /// Do this with nothing else under way, then call [`FileQueue::ran_alone`].
    Alone(OperationId, FileOp),
}

/// Writes that follow each other without a gap.
#[derive(Debug)]
pub(crate) struct WriteRun {
    /// Where the first one goes.
    pub(crate) position: Position,
    /// What, in order.
    pub(crate) writes: Vec<WriteData>,
    end: Position,
}

impl<F> FileQueue<F> {
    /// The queue of a file of which `length` bytes are there.
    ///
    /// While a flush is under way small writes wait for its end, as long as they are fewer than
    /// `gather_bytes`: where every answer waits for a flush anyway, one call then writes what
    /// hundreds of connections have sent meanwhile. 0 where answers wait for writes only.
    pub(crate) fn new(id: FileId, handle: F, length: Position, gather_bytes: usize) -> Self {
        Self {
            id,
            handle,
            gather_bytes,
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                waiting_bytes: 0,
                in_flight: VecDeque::new(),
                flushing: 0,
                alone: false,
                issued: length,
                written: length,
                failed: None,
                dropping: false,
                completions: VecDeque::new(),
                spare: Vec::new(),
            }),
        }
    }

    /// Queues a write.
    pub(crate) fn push_write(&self, position: Position, data: WriteData) {
        let mut state = lock(&self.state);
        if state.dropping {
            return;
        }
        assert!(
            position == state.issued,
            "a write of {} goes to {position}, but what was issued ends at {}",
            self.id,
            state.issued
        );
        state.issued = position.plus(data.len() as u64);
        state.waiting_bytes += data.len();
        state.waiting.push_back(Waiting::Write(position, data));
    }

    /// Queues a flush.
    pub(crate) fn push_flush(&self) {
        let mut state = lock(&self.state);
        if !state.dropping {
            state.waiting.push_back(Waiting::Flush);
        }
    }

    /// Queues an operation that waits for everything before it.
    pub(crate) fn push_alone(&self, operation: OperationId, op: FileOp) {
        let mut state = lock(&self.state);
        if let FileOp::Truncate { length, .. } = op {
            state.issued = length;
            state.dropping = false;
        }
        state.waiting.push_back(Waiting::Alone(operation, op));
    }

    /// What may run now, if anything. It then counts as under way.
    pub(crate) fn take_turn(&self) -> Option<Turn> {
        let mut state = lock(&self.state);
        let state = &mut *state;
        if state.alone {
            return None;
        }
        match state.waiting.front()? {
            Waiting::Write(_, data)
                if state.flushing > 0
                    && state.waiting_bytes < self.gather_bytes
                    && data.len() <= SMALL_WRITE_BYTES =>
            {
                None
            }
            Waiting::Write(position, _) => {
                let mut run = WriteRun {
                    position: *position,
                    writes: std::mem::take(&mut state.spare),
                    end: *position,
                };
                while run.writes.len() < MAX_WRITES_PER_RUN
                    && let Some(Waiting::Write(position, _)) = state.waiting.front()
                    && *position == run.end
                    && let Some(Waiting::Write(_, data)) = state.waiting.pop_front()
                {
                    run.end = run.end.plus(data.len() as u64);
                    state.waiting_bytes -= data.len();
                    run.writes.push(data);
                }
                state.in_flight.push_back(InFlight {
                    start: run.position,
                    end: run.end,
                    reached: None,
                });
                Some(Turn::Write(run))
            }
            Waiting::Flush => {
                state.waiting.pop_front();
                state.flushing += 1;
                Some(Turn::Flush)
            }
            Waiting::Alone(..) if state.flushing > 0 || !state.in_flight.is_empty() => None,
            Waiting::Alone(..) => {
                let Some(Waiting::Alone(operation, op)) = state.waiting.pop_front() else {
                    return None;
                };
                state.alone = true;
                Some(Turn::Alone(operation, op))
            }
        }
    }

    /// A run of writes has ended: all of it, or the first `bytes` of it before an error.
    pub(crate) fn wrote(&self, mut run: WriteRun, result: Result<(), (u64, DiskError)>) {
        let mut state = lock(&self.state);
        let state = &mut *state;
        let reached = match result {
            Ok(()) => run.end,
            Err((bytes, error)) => {
                state.fail(error);
                run.whole_writes_within(bytes)
            }
        };
        run.writes.clear();
        if run.writes.capacity() > state.spare.capacity() {
            state.spare = run.writes;
        }
        let ended = state
            .in_flight
            .iter_mut()
            .find(|write| write.start == run.position && write.reached.is_none())
            .expect("a run of writes is in flight until it ends");
        ended.reached = Some(reached);

        let before = state.written;
        while let Some(InFlight {
            end,
            reached: Some(reached),
            ..
        }) = state.in_flight.front()
        {
            state.written = *reached;
            if reached < end {
                // The prefix ends here, whatever comes behind.
                break;
            }
            state.in_flight.pop_front();
        }
        if let Some(error) = &state.failed
            && state.in_flight.iter().all(|write| write.reached.is_some())
        {
            state.in_flight.clear();
            state.completions.push_back(Completion::WriteFailed {
                file: self.id,
                written: state.written,
                error: error.clone(),
            });
        } else if state.written > before {
            let up_to = state.written;
            if let Some(Completion::Written { up_to: last, .. }) = state.completions.back_mut() {
                *last = up_to;
            } else {
                state.completions.push_back(Completion::Written {
                    file: self.id,
                    up_to,
                });
            }
        }
    }

    /// End of the contiguous written prefix: what a flush called now will have covered.
    pub(crate) fn written(&self) -> Position {
        lock(&self.state).written
    }

    /// A flush has ended that was called when [`Self::written`] said `up_to`.
    pub(crate) fn flushed(&self, up_to: Position, result: Result<(), DiskError>) {
        let mut state = lock(&self.state);
        assert!(state.flushing > 0, "a flush of {} ended unasked", self.id);
        state.flushing -= 1;
        state.completions.push_back(match result {
            Ok(()) => Completion::Flushed {
                file: self.id,
                up_to,
            },
            Err(error) => Completion::FlushFailed {
                file: self.id,
                error,
            },
        });
    }

    /// An operation has ended that nothing ran beside.
    pub(crate) fn ran_alone(
        &self,
        operation: OperationId,
        op: &FileOp,
        result: Result<(), DiskError>,
    ) {
        let mut state = lock(&self.state);
        assert!(state.alone, "{operation} on {} ended unasked", self.id);
        state.alone = false;
        match (op, &result) {
            (FileOp::Truncate { length, .. }, Ok(())) => {
                state.failed = None;
                state.written = *length;
            }
            // Writes that follow count on the new length.
            (FileOp::Truncate { .. }, Err(error)) => state.fail(error.clone()),
            _ => {}
        }
        state
            .completions
            .push_back(Completion::Managed { operation, result });
    }

    /// Whether something waits to be reported.
    pub(crate) fn has_completions(&self) -> bool {
        !lock(&self.state).completions.is_empty()
    }

    /// The next thing to report. Only under the lock of the step, so that the core hears of
    /// completions in the order in which they happened.
    pub(crate) fn take_completion(&self) -> Option<Completion> {
        lock(&self.state).completions.pop_front()
    }
}

impl State {
    /// Drops what waits for being written or flushed, up to the next truncation.
    fn fail(&mut self, error: DiskError) {
        self.failed.get_or_insert(error);
        let mut dropping = true;
        let waiting_bytes = &mut self.waiting_bytes;
        self.waiting.retain(|waiting| match waiting {
            Waiting::Write(_, data) => {
                if dropping {
                    *waiting_bytes -= data.len();
                }
                !dropping
            }
            Waiting::Flush => !dropping,
            Waiting::Alone(_, op) => {
                dropping &= !matches!(op, FileOp::Truncate { .. });
                true
            }
        });
        self.dropping = dropping;
    }
}

impl WriteRun {
    /// The end of the last write that lies within the first `bytes` of the run. The core's writes
    /// are batches, and half a batch is worth nothing.
    fn whole_writes_within(&self, bytes: u64) -> Position {
        let limit = self.position.plus(bytes);
        let mut end = self.position;
        for data in &self.writes {
            let next = end.plus(data.len() as u64);
            if next > limit {
                break;
            }
            end = next;
        }
        end
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use bytes::Bytes;
    use odradek_core::effect::BATCH_HEADER_BYTES;
    use odradek_core::ids::FilePath;
    use odradek_core::input::DiskErrorKind;

    const FILE: FileId = FileId(7);
    const SIZE: u64 = BATCH_HEADER_BYTES as u64 + 39;

    fn queue() -> FileQueue<()> {
        FileQueue::new(FILE, (), Position(0), 0)
    }

    fn data() -> WriteData {
        WriteData {
            header: [0; BATCH_HEADER_BYTES],
            records: Bytes::from_static(&[1; 39]),
        }
    }

    fn push(queue: &FileQueue<()>, number: u64) {
        queue.push_write(Position(number * SIZE), data());
    }

    fn take_write(queue: &FileQueue<()>) -> WriteRun {
        match queue.take_turn() {
            Some(Turn::Write(run)) => run,
            other => panic!("expected a write, not {other:?}"),
        }
    }

    fn completions(queue: &FileQueue<()>) -> Vec<String> {
        std::iter::from_fn(|| queue.take_completion())
            .map(|completion| completion.to_string())
            .collect()
    }

    fn full() -> DiskError {
        DiskError {
            kind: DiskErrorKind::NoSpace,
            path: FilePath::root(),
            detail: String::new(),
        }
    }

    #[test]
    fn writes_that_wait_together_go_out_together() {
        let queue = queue();
        (0..3).for_each(|n| push(&queue, n));
        let run = take_write(&queue);
        assert_eq!(run.writes.len(), 3);
        assert!(queue.take_turn().is_none());
        queue.wrote(run, Ok(()));
        assert_eq!(completions(&queue), ["written f7 up to 300"]);
    }

    #[test]
    fn small_writes_wait_for_a_flush_and_then_go_out_together() {
        let queue = FileQueue::new(FILE, (), Position(0), 350);
        push(&queue, 0);
        let run = take_write(&queue);
        queue.wrote(run, Ok(()));
        queue.push_flush();
        assert!(matches!(queue.take_turn(), Some(Turn::Flush)));
        (1..4).for_each(|n| push(&queue, n));
        assert!(queue.take_turn().is_none(), "300 bytes wait");
        queue.flushed(queue.written(), Ok(()));
        let run = take_write(&queue);
        assert_eq!(run.writes.len(), 3);
        queue.wrote(run, Ok(()));

        // Many bytes do not wait.
        queue.push_flush();
        assert!(matches!(queue.take_turn(), Some(Turn::Flush)));
        (4..8).for_each(|n| push(&queue, n));
        assert_eq!(take_write(&queue).writes.len(), 4);
    }

    #[test]
    fn a_failure_drops_writes_that_wait_for_a_flush() {
        let queue = FileQueue::new(FILE, (), Position(0), 1000);
        push(&queue, 0);
        let run = take_write(&queue);
        queue.push_flush();
        assert!(matches!(queue.take_turn(), Some(Turn::Flush)));
        push(&queue, 1);
        assert!(queue.take_turn().is_none());
        queue.wrote(run, Err((0, full())));
        assert!(queue.take_turn().is_none());
        assert_eq!(lock(&queue.state).waiting_bytes, 0);
        queue.flushed(Position(0), Ok(()));
        assert!(queue.take_turn().is_none());
    }

    #[test]
    fn only_the_contiguous_prefix_counts_as_written() {
        let queue = queue();
        push(&queue, 0);
        let first = take_write(&queue);
        push(&queue, 1);
        let second = take_write(&queue);
        queue.wrote(second, Ok(()));
        assert_eq!(queue.written(), Position(0));
        assert!(!queue.has_completions());
        queue.wrote(first, Ok(()));
        assert_eq!(completions(&queue), ["written f7 up to 200"]);
    }

    #[test]
    fn a_failed_write_is_reported_once_all_have_ended_and_drops_what_waits() {
        let queue = queue();
        push(&queue, 0);
        let first = take_write(&queue);
        push(&queue, 1);
        push(&queue, 2);
        let second = take_write(&queue);
        push(&queue, 3);
        queue.push_flush();
        // One whole write and a bit of the next.
        queue.wrote(second, Err((SIZE + 5, full())));
        assert!(
            !queue.has_completions(),
            "the first write is still under way"
        );
        assert!(queue.take_turn().is_none());
        queue.push_write(Position(4 * SIZE), data());
        queue.wrote(first, Ok(()));
        assert_eq!(
            completions(&queue),
            ["write failed f7 after 200: .: the disk is full; free space"]
        );
        assert!(queue.take_turn().is_none());

        let truncate = FileOp::Truncate {
            file: FILE,
            length: Position(100),
        };
        queue.push_alone(OperationId(1), truncate.clone());
        assert!(matches!(queue.take_turn(), Some(Turn::Alone(..))));
        queue.ran_alone(OperationId(1), &truncate, Ok(()));
        push(&queue, 1);
        let again = take_write(&queue);
        queue.wrote(again, Ok(()));
        assert_eq!(completions(&queue), ["managed op1", "written f7 up to 200"]);
    }

    #[test]
    fn a_hole_hides_the_writes_behind_it() {
        let queue = queue();
        push(&queue, 0);
        let first = take_write(&queue);
        push(&queue, 1);
        let second = take_write(&queue);
        queue.wrote(first, Err((0, full())));
        queue.wrote(second, Ok(()));
        assert_eq!(
            completions(&queue),
            ["write failed f7 after 0: .: the disk is full; free space"]
        );
    }

    #[test]
    fn truncate_waits_for_writes_and_flushes_and_holds_back_what_follows() {
        let queue = queue();
        push(&queue, 0);
        queue.push_flush();
        let truncate = FileOp::Truncate {
            file: FILE,
            length: Position(0),
        };
        queue.push_alone(OperationId(9), truncate.clone());
        push(&queue, 0);
        let first = take_write(&queue);
        assert!(matches!(queue.take_turn(), Some(Turn::Flush)));
        assert!(queue.take_turn().is_none());
        queue.wrote(first, Ok(()));
        assert!(queue.take_turn().is_none(), "the flush is still under way");
        queue.flushed(Position(0), Ok(()));
        assert!(matches!(queue.take_turn(), Some(Turn::Alone(..))));
        assert!(queue.take_turn().is_none(), "the truncation is under way");
        queue.ran_alone(OperationId(9), &truncate, Ok(()));
        assert_eq!(queue.written(), Position(0));
        let second = take_write(&queue);
        queue.wrote(second, Ok(()));
        assert_eq!(
            completions(&queue),
            [
                "written f7 up to 100",
                "flushed f7 up to 0",
                "managed op9",
                "written f7 up to 100"
            ]
        );
    }

    #[test]
    fn a_flush_runs_beside_another_and_a_truncation_waits_for_both() {
        let queue = queue();
        queue.push_flush();
        queue.push_flush();
        let truncate = FileOp::Truncate {
            file: FILE,
            length: Position(0),
        };
        queue.push_alone(OperationId(9), truncate);
        assert!(matches!(queue.take_turn(), Some(Turn::Flush)));
        assert!(matches!(queue.take_turn(), Some(Turn::Flush)));
        queue.flushed(Position(0), Ok(()));
        assert!(queue.take_turn().is_none());
        queue.flushed(Position(0), Ok(()));
        assert!(matches!(queue.take_turn(), Some(Turn::Alone(..))));
    }
}
