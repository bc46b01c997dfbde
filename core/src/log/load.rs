//! Creating and opening a log: what the load plan and the scans found becomes file operations, each
//! of which may be the last before a crash.
//!
//! The order after an unclean stop, and why it can be cut off anywhere and begun again:
//!
//! 0. Swaps of the cleaner are completed, and everything is looked at anew.
//! 1. Leftovers go, and segments below the log start: nobody needs them.
//! 2. Indexes are built: derived data.
//! 3. Segments behind the cut go, newest first: what is left is still a torn log that is cut at the
//!    same place.
//! 4. What is kept above the recovery point is written again with the same bytes: a flush that
//!    failed in an earlier process has left pages that only look written (promise 6).
//! 5. The file is cut, then flushed.
//! 6. What was written again is scanned once more: pages that only looked written may have been
//!    dropped from the cache between the scan and the rewriting, which then wrote what the disk
//!    really held. Only when both scans agree does the log's end count as durable.

mod install;
mod judge;
mod producers;
mod swaps;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::bugs::Bug;
use crate::context::{Context, Owner};
use crate::effect::{Effect, FileOp};
use crate::ids::{FileId, Offset, OperationId};
use crate::input::{DiskError, DiskErrorKind};
use crate::read_job::{ReadJob, ReadOutput};
use crate::report::Level;

use super::cleaner::{Cleaner, CleanerPoint};
use super::epoch_checkpoint::EpochCheckpoint;
use super::file_names::SegmentFile;
use super::load_plan::{LoadLog, LoadPlan};
use super::load_producers::LoadedProducers;
use super::roll::create_segment;
use super::scan_segment::{ScanSegment, ScannedSegment};
use super::tasks::Failure;
use super::{Log, LogError, LogSpec, LogState, RecoveryPoint, Task};

/// A load under way.
#[derive(Debug)]
pub(crate) struct Load {
    recovery_point: Option<RecoveryPoint>,
    clean: bool,
    /// Whether the log is new. A failure is then for whoever wanted it.
    creating: bool,
    /// What this process has shown already: the log must reach it.
    must_hold: Offset,
    work: VecDeque<Work>,
    reading: Option<(OperationId, Reading)>,
    flushing: BTreeSet<FileId>,
    plan: LoadPlan,
    scanned: Vec<ScannedSegment>,
    /// Closed segments whose indexes were built: entries of both, largest timestamp.
    rebuilt: BTreeMap<Offset, (u32, u32, i64)>,
    epochs: EpochCheckpoint,
    producers: LoadedProducers,
    /// Where the log ends, as far as it was looked at.
    end: Offset,
    files: BTreeMap<Offset, FileId>,
}

/// What to do next.
#[derive(Debug)]
enum Work {
    Plan,
    Ops(Vec<Vec<FileOp>>),
    Rebuild(Offset),
    Scan(Offset),
    Judge,
    Flush,
    Confirm(Offset),
    Producers,
    Finish,
}

/// What is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Plan,
    Rebuild,
    Scan,
    Confirm,
    Producers,
}

impl Load {
    fn new(must_hold: Offset, work: VecDeque<Work>) -> Self {
        Self {
            recovery_point: None,
            clean: false,
            creating: false,
            must_hold,
            work,
            reading: None,
            flushing: BTreeSet::new(),
            plan: LoadPlan::default(),
            scanned: Vec::new(),
            rebuilt: BTreeMap::new(),
            epochs: EpochCheckpoint::default(),
            producers: LoadedProducers::default(),
            end: Offset(0),
            files: BTreeMap::new(),
        }
    }

    /// Base offset of the segment that follows a closed one.
    pub(super) fn closed_base_after(&self, base: Offset) -> Option<Offset> {
        let closed = self.plan.closed.iter().map(|found| found.base);
        closed
            .chain([self.plan.start.segment_base])
            .find(|next| *next > base)
    }

    /// Loads what is there.
    pub(super) fn open(
        recovery_point: Option<RecoveryPoint>,
        must_hold: Offset,
        clean: bool,
    ) -> Self {
        Self {
            recovery_point,
            clean,
            ..Self::new(must_hold, [Work::Plan].into())
        }
    }
}

impl Log {
    /// Creates an empty log that starts at offset 0: its directory, its first segment and
    /// `extra_files` (name, content), all durable, the parent directory's entry too, before it is
    /// `Ready`. If that fails it is `Offline`, and what was made may be removed.
    pub fn create(cx: &mut Context<'_>, spec: LogSpec, extra_files: Vec<(String, Bytes)>) -> Self {
        let dir = spec.dir.clone();
        let mut log = Self::new(spec, Offset(0), RecoveryPoint::start_of(Offset(0)));
        let mut first = create_segment(&dir, Offset(0))
            .into_iter()
            .next()
            .unwrap_or_default();
        let mut syncs = Vec::new();
        for (name, bytes) in extra_files {
            let path = dir.join(&name);
            syncs.push(FileOp::SyncFile(path.clone()));
            first.push(FileOp::WriteFile { path, bytes });
        }
        let ops = vec![
            vec![FileOp::CreateDir(dir.clone())],
            first,
            syncs,
            vec![FileOp::SyncDir(dir.clone()), FileOp::SyncDir(dir.parent())],
        ];
        let load = Load {
            creating: true,
            ..Load::new(Offset(0), [Work::Ops(ops), Work::Finish].into())
        };
        log.start_load(cx, load);
        log
    }

    /// Opens what is on the disk, `Loading` until recovery is over. `recovery_point`,
    /// `log_start_offset` and `cleaner_point` are what was persisted last; `clean` says that the last process closed
    /// this log cleanly and then marked so durably.
    pub fn open(
        cx: &mut Context<'_>,
        spec: LogSpec,
        recovery_point: Option<RecoveryPoint>,
        log_start_offset: Offset,
        cleaner_point: CleanerPoint,
        clean: bool,
    ) -> Self {
        let log_start_offset = if spec.bugs.has(Bug::ForgetLogStart) {
            Offset(0)
        } else {
            log_start_offset
        };
        let start = recovery_point.unwrap_or(RecoveryPoint::start_of(log_start_offset));
        let mut log = Self::new(spec, log_start_offset, start);
        log.cleaner = Cleaner::at(cleaner_point);
        let load = Load::open(recovery_point, log_start_offset, clean);
        log.start_load(cx, load);
        log
    }

    pub(super) fn start_load(&mut self, cx: &mut Context<'_>, load: Load) {
        self.load = Some(load);
        self.load_next(cx);
    }

    /// Takes up the next piece of work while nothing is under way.
    fn load_next(&mut self, cx: &mut Context<'_>) {
        loop {
            let Some(load) = &mut self.load else {
                return;
            };
            let busy = load.reading.is_some() || !load.flushing.is_empty();
            if busy
                || self
                    .tasks
                    .iter()
                    .any(|(task, _)| matches!(task, Task::Load))
            {
                return;
            }
            let Some(work) = load.work.pop_front() else {
                return;
            };
            match work {
                Work::Plan => {
                    let job = ReadJob::LoadLog(LoadLog {
                        dir: self.dir.clone(),
                        recovery_point: load.recovery_point,
                        log_start: self.log_start_offset,
                        clean: load.clean,
                        gaps_end: self.cleaner.point.gaps_end,
                        index_interval_bytes: self.config.index_interval_bytes,
                    });
                    self.load_read(cx, Reading::Plan, job);
                }
                Work::Ops(stages) => {
                    if stages.iter().any(|stage| !stage.is_empty()) {
                        self.start_task(cx, Task::Load, stages);
                    }
                }
                Work::Rebuild(base) => {
                    let job = self.rebuild_job(base);
                    self.load_read(cx, Reading::Rebuild, job);
                }
                Work::Scan(base) => self.scan(cx, base),
                Work::Judge => self.judge_scans(cx),
                Work::Flush => {
                    let files: Vec<FileId> = load.files.values().copied().collect();
                    load.flushing = files.iter().copied().collect();
                    for file in files {
                        cx.out.push(Effect::Flush { file });
                    }
                }
                Work::Confirm(base) => {
                    self.read_segment(cx, Reading::Confirm, base);
                }
                Work::Producers => self.load_producers(cx),
                Work::Finish => self.finish_load(cx),
            }
        }
    }

    fn load_read(&mut self, cx: &mut Context<'_>, reading: Reading, job: ReadJob) {
        let operation = cx.read(Owner::Log(self.id), job);
        if let Some(load) = &mut self.load {
            load.reading = Some((operation, reading));
        }
    }

    fn scan(&mut self, cx: &mut Context<'_>, base: Offset) {
        if self.load.as_ref().is_some_and(|load| load.end == base) {
            self.read_segment(cx, Reading::Scan, base);
        }
        // Otherwise a gap above the recovery point: a torn tail that begins between two segments.
    }

    /// Reads what lies above the recovery point in a segment.
    fn read_segment(&mut self, cx: &mut Context<'_>, reading: Reading, base: Offset) {
        let Some(load) = &self.load else {
            return;
        };
        let start = load.plan.start;
        let first = base == start.segment_base;
        let from = if first {
            start
        } else {
            RecoveryPoint::start_of(base)
        };
        // Nothing above the recovery point was ever cleaned; without one, anything may have been.
        let dense = load.recovery_point.is_some() || !self.config.compact;
        let next_base = load.plan.scan.iter().copied().find(|next| *next > base);
        let job = ReadJob::ScanSegment(ScanSegment {
            dir: self.dir.clone(),
            base,
            from,
            all_flushed: false,
            rebuild: first && load.plan.epochs_lost,
            next_base,
            index_interval_bytes: self.config.index_interval_bytes,
            dense,
            bugs: self.bugs,
        });
        self.load_read(cx, reading, job);
    }

    /// Takes the result of one of the load's own reads; `false` if it is not one.
    #[expect(
        clippy::result_large_err,
        reason = "what is not this room's goes back to the caller"
    )]
    pub(super) fn load_read_done(
        &mut self,
        cx: &mut Context<'_>,
        operation: OperationId,
        result: Result<ReadOutput, DiskError>,
    ) -> Result<(), Result<ReadOutput, DiskError>> {
        let Some(load) = &mut self.load else {
            return Err(result);
        };
        let Some((_, reading)) = load.reading.take_if(|(waiting, _)| *waiting == operation) else {
            return Err(result);
        };
        match (reading, result) {
            (Reading::Plan, Ok(ReadOutput::LoadLog(plan))) => self.planned(cx, *plan),
            (Reading::Rebuild, Ok(ReadOutput::ScanSegment(scan))) => self.rebuilt(cx, *scan),
            (Reading::Scan, Ok(ReadOutput::ScanSegment(scan))) => self.scanned(cx, *scan),
            (Reading::Confirm, Ok(ReadOutput::ScanSegment(scan))) => self.confirmed(cx, &scan),
            (Reading::Producers, Ok(ReadOutput::LoadProducers(found))) => {
                self.producers_read(cx, *found);
            }
            (_, Ok(_)) => debug_assert!(false, "a job answers with its own kind of output"),
            (_, Err(error)) => self.load_failed(cx, error),
        }
        self.load_next(cx);
        self.advance(cx);
        Ok(())
    }

    fn planned(&mut self, cx: &mut Context<'_>, plan: LoadPlan) {
        if let Some(damage) = &plan.damage {
            return self.go_offline(cx, LogError::Damaged(damage.clone()));
        }
        if !plan.swaps.is_empty() {
            return self.complete_swaps(cx, &plan.swaps);
        }
        let Some(load) = &mut self.load else {
            return;
        };
        load.end = if plan.active.is_some() {
            plan.start.offset
        } else {
            plan.start.segment_base
        };
        load.epochs = EpochCheckpoint::from_file(plan.epochs.clone());
        if plan.epochs_lost {
            load.epochs.mark_dirty();
        }
        let remove = plan
            .remove
            .iter()
            .cloned()
            .map(FileOp::RemoveFile)
            .collect();
        load.work.push_back(Work::Ops(vec![remove]));
        load.work
            .extend(plan.rebuild.iter().copied().map(Work::Rebuild));
        if plan.active.is_none() {
            load.work.extend(plan.scan.iter().copied().map(Work::Scan));
        }
        load.work.push_back(Work::Judge);
        load.plan = plan;
    }

    fn rebuilt(&mut self, cx: &mut Context<'_>, scan: ScannedSegment) {
        if let Some(damage) = scan.damage {
            return self.go_offline(cx, LogError::Damaged(damage));
        }
        self.report_rebuilt(cx, scan.base);
        let stages = self.replace_indexes(&scan);
        let Some(load) = &mut self.load else {
            return;
        };
        for (epoch, start) in &scan.epochs {
            load.epochs.assign(*epoch, *start);
        }
        let index = scan.index;
        load.rebuilt.insert(
            scan.base,
            (
                index.offset_entries,
                index.time_entries,
                index.max_timestamp,
            ),
        );
        load.work.push_front(Work::Ops(stages));
    }

    fn scanned(&mut self, cx: &mut Context<'_>, mut scan: ScannedSegment) {
        if let Some(damage) = scan.damage {
            return self.go_offline(cx, LogError::Damaged(damage));
        }
        let stages = self.index_ops(&scan);
        let Some(load) = &mut self.load else {
            return;
        };
        for (epoch, start) in &scan.epochs {
            load.epochs.assign(*epoch, *start);
        }
        load.end = scan.next_offset;
        if scan.bad.is_some() {
            // Nothing behind a torn batch counts.
            load.work.retain(|work| !matches!(work, Work::Scan(_)));
        }
        scan.offset_index.bytes = Vec::new();
        scan.time_index.bytes = Vec::new();
        load.scanned.push(scan);
        load.work.push_front(Work::Ops(stages));
    }

    /// What was written again was looked at once more.
    fn confirmed(&mut self, cx: &mut Context<'_>, scan: &ScannedSegment) {
        let Some(load) = &self.load else {
            return;
        };
        let before = load.scanned.iter().find(|before| before.base == scan.base);
        let agrees = before.is_some_and(|before| {
            scan.damage.is_none() && scan.length == before.end && scan.end == before.end
        });
        if !agrees {
            let path = SegmentFile::Log.path(&self.dir, scan.base);
            let detail = alloc::format!(
                "position {}: the file changed while it was recovered",
                scan.end.0
            );
            let error = DiskError {
                kind: DiskErrorKind::Other,
                path,
                detail,
            };
            self.load_failed(cx, error);
        }
    }

    pub(super) fn load_ops_done(&mut self, cx: &mut Context<'_>, result: Result<(), Failure>) {
        if self.load.is_none() {
            return;
        }
        match result {
            Ok(()) => self.load_next(cx),
            Err(failure) => self.load_failed(cx, failure.error),
        }
    }

    /// A flush of the load has ended; `false` if it is not one.
    pub(super) fn load_flushed(&mut self, cx: &mut Context<'_>, file: FileId) -> bool {
        let Some(load) = &mut self.load else {
            return false;
        };
        if !load.flushing.remove(&file) {
            return false;
        }
        self.load_next(cx);
        self.advance(cx);
        true
    }

    /// A flush of the load has failed; `false` if it is not one.
    pub(super) fn load_flush_failed(
        &mut self,
        cx: &mut Context<'_>,
        file: FileId,
        error: &DiskError,
    ) -> bool {
        let Some(load) = &mut self.load else {
            return false;
        };
        if !load.flushing.remove(&file) {
            return false;
        }
        self.load_failed(cx, error.clone());
        self.advance(cx);
        true
    }

    /// The disk refused. A new log is given up; any other is tried again after a back-off, from the
    /// same recovery point.
    fn load_failed(&mut self, cx: &mut Context<'_>, error: DiskError) {
        let Some(load) = self.load.take() else {
            return;
        };
        let files = load.files.values().copied().collect();
        if load.creating {
            self.go_offline(cx, LogError::Disk(error));
        } else if error.kind == DiskErrorKind::NotFound && error.path == self.dir {
            let missing = LogError::DirectoryMissing(self.dir.clone());
            self.go_offline(cx, missing);
        } else {
            self.state = LogState::Loading;
            self.begin_reopen(cx, error);
        }
        self.close_files(cx, files);
    }

    pub(super) fn go_offline(&mut self, cx: &mut Context<'_>, error: LogError) {
        cx.report(
            Level::Error,
            "recovery",
            alloc::format!("dir={} the partition is offline: {error}", self.dir),
        );
        let load = self.load.take();
        let mut files: Vec<FileId> = load
            .into_iter()
            .flat_map(|load| load.files.into_values())
            .collect();
        files.extend(self.segments.values_mut().filter_map(|s| s.file.take()));
        self.segments.clear();
        self.recent.clear();
        self.state = LogState::Offline(error);
        self.close_files(cx, files);
    }
}
