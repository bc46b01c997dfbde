//! Creating and opening a log: what the load plan and the scans found becomes file operations, each
//! of which may be the last before a crash.
//!
//! The order after an unclean stop, and why it can be cut off anywhere and begun again:
//!
//! 1. Leftovers go, and segments below the log start: nobody needs them.
//! 2. Indexes are built: derived data.
//! 3. Segments behind the cut go, newest first: what is left is still a torn log that is cut at the
//!    same place.
//! 4. What is kept above the recovery point is written again with the same bytes: a flush that
//!    failed in an earlier process has left pages that only look written (promise 6).
//! 5. The file is cut, then flushed, and only now does the log's end count as durable.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::context::{Context, Owner};
use crate::effect::{Effect, FileOp};
use crate::ids::{FileId, Offset, OperationId, Position};
use crate::input::{DiskError, DiskErrorKind};
use crate::read_job::{ReadJob, ReadOutput};
use crate::report::Level;

use super::checkpoint::write_epochs;
use super::epoch_checkpoint::EpochCheckpoint;
use super::error::{Damage, DamageKind};
use super::file_names::SegmentFile;
use super::load_plan::{LoadLog, LoadPlan};
use super::roll::create_segment;
use super::scan_segment::{IndexTail, ScanSegment, ScannedSegment};
use super::segment::{Mark, Phase, Segment, Tail};
use super::tasks::Failure;
use super::verified::Verified;
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
    Finish,
}

/// What is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Plan,
    Rebuild,
    Scan,
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
            end: Offset(0),
            files: BTreeMap::new(),
        }
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

    /// Opens what is on the disk, `Loading` until recovery is over. `recovery_point` and
    /// `log_start_offset` are what was persisted last; `clean` says that the last process closed
    /// this log cleanly and then marked so durably.
    pub fn open(
        cx: &mut Context<'_>,
        spec: LogSpec,
        recovery_point: Option<RecoveryPoint>,
        log_start_offset: Offset,
        clean: bool,
    ) -> Self {
        let start = recovery_point.unwrap_or(RecoveryPoint::start_of(log_start_offset));
        let mut log = Self::new(spec, log_start_offset, start);
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

    /// The job that builds the indexes of a closed segment anew.
    pub(super) fn rebuild_job(&self, base: Offset) -> ReadJob {
        let after = self.load.as_ref().map(|load| {
            let closed = load.plan.closed.iter().map(|found| found.base);
            closed
                .chain([load.plan.start.segment_base])
                .find(|next| *next > base)
        });
        ReadJob::ScanSegment(ScanSegment {
            dir: self.dir.clone(),
            base,
            from: RecoveryPoint::start_of(base),
            all_flushed: true,
            rebuild: true,
            next_base: after.flatten().or_else(|| self.base_after(base)),
            index_interval_bytes: self.config.index_interval_bytes,
            dense: !self.config.compact,
            bugs: self.bugs,
        })
    }

    fn scan(&mut self, cx: &mut Context<'_>, base: Offset) {
        let Some(load) = &mut self.load else {
            return;
        };
        if base != load.end {
            // A gap above the recovery point: a torn tail that begins between two segments.
            return;
        }
        let start = load.plan.start;
        let first = base == start.segment_base;
        let from = if first {
            start
        } else {
            RecoveryPoint::start_of(base)
        };
        let next_base = load.plan.scan.iter().copied().find(|next| *next > base);
        let job = ReadJob::ScanSegment(ScanSegment {
            dir: self.dir.clone(),
            base,
            from,
            all_flushed: false,
            rebuild: first && load.plan.epochs_lost,
            next_base,
            index_interval_bytes: self.config.index_interval_bytes,
            dense: !self.config.compact,
            bugs: self.bugs,
        });
        self.load_read(cx, Reading::Scan, job);
    }

    /// Takes the result of one of the load's own reads; `false` if it is not one.
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
        let mut stages = self.index_ops(&scan);
        stages.push(self.sync_indexes(scan.base));
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

    pub(super) fn report_rebuilt(&self, cx: &mut Context<'_>, base: Offset) {
        cx.report(
            Level::Info,
            "recovery",
            alloc::format!("dir={} segment={base} indexes rebuilt", self.dir),
        );
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

    /// What makes the index files of a segment hold what a scan found.
    pub(super) fn index_ops(&self, scan: &ScannedSegment) -> Vec<Vec<FileOp>> {
        let (mut lengths, mut writes) = (Vec::new(), Vec::new());
        for (file, tail) in [
            (SegmentFile::Index, &scan.offset_index),
            (SegmentFile::TimeIndex, &scan.time_index),
        ] {
            let path = file.path(&self.dir, scan.base);
            let IndexTail { kept_bytes, bytes } = tail;
            let bytes = Bytes::copy_from_slice(bytes);
            if *kept_bytes == 0 {
                lengths.push(FileOp::WriteFile { path, bytes });
                continue;
            }
            lengths.push(FileOp::SetLength {
                path: path.clone(),
                length: Position(*kept_bytes),
            });
            if !bytes.is_empty() {
                writes.push(FileOp::WriteAt {
                    path,
                    position: Position(*kept_bytes),
                    bytes,
                });
            }
        }
        vec![lengths, writes]
    }

    pub(super) fn sync_indexes(&self, base: Offset) -> Vec<FileOp> {
        vec![
            FileOp::SyncFile(SegmentFile::Index.path(&self.dir, base)),
            FileOp::SyncFile(SegmentFile::TimeIndex.path(&self.dir, base)),
        ]
    }

    /// All segments were looked at: decides where the log ends and what must be done for it.
    fn judge_scans(&mut self, cx: &mut Context<'_>) {
        let Some(mut load) = self.load.take() else {
            return;
        };
        if load.scanned.is_empty() {
            load.end = load.plan.start.offset;
        }
        let required = load.must_hold.max(load.plan.start.offset);
        if load.end < required && required > self.log_start_offset {
            let damage = self.lost_what_was_shown(&load);
            self.load = Some(load);
            return self.go_offline(cx, LogError::Damaged(damage));
        }
        let mut gone: Vec<Offset> = Vec::new();
        if load.plan.active.is_none() {
            let known = |base: &Offset| load.scanned.iter().any(|scan| scan.base == *base);
            gone.extend(load.plan.scan.iter().filter(|base| !known(base)));
            self.report_cut(cx, &load, gone.len());
        }
        // DeleteRecords went further than what is left: all of it is deleted data.
        let start_anew = load.end < self.log_start_offset;
        if start_anew {
            if load.plan.active.take().is_some() {
                gone.extend(load.plan.scan.iter().copied());
            }
            let closed = load.plan.closed.drain(..).map(|found| found.base);
            gone.extend(closed.chain(load.scanned.drain(..).map(|scan| scan.base)));
            gone.sort_unstable();
            load.end = self.log_start_offset;
        }
        load.epochs.truncate(load.end);

        let mut ops = Vec::new();
        for base in gone.iter().rev() {
            ops.push(
                [SegmentFile::Log, SegmentFile::Index, SegmentFile::TimeIndex]
                    .map(|file| FileOp::RemoveFile(file.path(&self.dir, *base)))
                    .to_vec(),
            );
        }
        let fresh = load.scanned.is_empty() && load.plan.active.is_none();
        if fresh {
            ops.extend(create_segment(&self.dir, load.end));
        }
        let (mut rewrites, mut cuts, mut syncs) = (Vec::new(), Vec::new(), Vec::new());
        for scan in &load.scanned {
            let file = cx.routes.new_file(self.id);
            load.files.insert(scan.base, file);
            cx.out.push(Effect::Open {
                file,
                path: SegmentFile::Log.path(&self.dir, scan.base),
                length: scan.length,
            });
            let start = load.plan.start;
            let from = if scan.base == start.segment_base {
                start.position
            } else {
                Position(0)
            };
            if from < scan.end {
                rewrites.push(FileOp::Rewrite {
                    file,
                    from,
                    to: scan.end,
                });
            }
            if scan.end < scan.length {
                cuts.push(FileOp::Truncate {
                    file,
                    length: scan.end,
                });
            }
            syncs.extend(self.sync_indexes(scan.base));
        }
        if !load.scanned.is_empty() || !gone.is_empty() || !load.plan.remove.is_empty() {
            syncs.push(FileOp::SyncDir(self.dir.clone()));
        }
        ops.extend([rewrites, cuts, syncs]);
        if load.epochs.is_dirty() {
            load.epochs.mark_written();
            ops.extend(write_epochs(&self.dir, &load.epochs));
        }
        load.work
            .extend([Work::Ops(ops), Work::Flush, Work::Finish]);
        self.load = Some(load);
    }

    /// The scan ended below what readers have seen.
    fn lost_what_was_shown(&self, load: &Load) -> Damage {
        let last = load.scanned.last();
        let base = last.map_or(load.plan.start.segment_base, |scan| scan.base);
        let position = last.map_or(Position(0), |scan| scan.end);
        Damage {
            file: SegmentFile::Log.path(&self.dir, base),
            position,
            offset: load.end,
            kind: last
                .and_then(|scan| scan.bad)
                .map_or(DamageKind::SegmentMissing, DamageKind::Batch),
        }
    }

    fn report_cut(&self, cx: &mut Context<'_>, load: &Load, segments_gone: usize) {
        let last = load.scanned.last();
        let cut_bytes = last.map_or(0, |scan| scan.length.0 - scan.end.0);
        if cut_bytes == 0 && segments_gone == 0 {
            return;
        }
        let base = last.map_or(load.plan.start.segment_base, |scan| scan.base);
        let reason = match last.and_then(|scan| scan.bad) {
            Some(bad) => alloc::format!("{bad}"),
            None => String::from("the next segment does not follow"),
        };
        cx.report(
            Level::Warn,
            "recovery",
            alloc::format!(
                "file={} position={} offset={} cut_bytes={cut_bytes} later_segments_removed=\
                 {segments_gone} torn tail after an unclean stop: {reason}; none of it was \
                 acknowledged, unless the disk itself lost or changed it",
                SegmentFile::Log.path(&self.dir, base),
                last.map_or(0, |scan| scan.end.0),
                load.end,
            ),
        );
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

    /// Everything is durable: the log is what was found.
    fn finish_load(&mut self, cx: &mut Context<'_>) {
        let Some(load) = self.load.take() else {
            return;
        };
        let before = core::mem::take(&mut self.segments);
        for found in &load.plan.closed {
            let next_offset = load.plan.start.segment_base;
            let mut segment = Segment {
                next_offset,
                size: found.length.0,
                offset_entries: found.offset_entries,
                time_entries: found.time_entries,
                max_timestamp: found.max_timestamp,
                checked_indexes: found.checked,
                tail: None,
                ..Segment::new(found.base, cx.now.wall)
            };
            if let Some((offsets, times, max_timestamp)) = load.rebuilt.get(&found.base) {
                segment.offset_entries = *offsets;
                segment.time_entries = *times;
                segment.max_timestamp = Some(*max_timestamp);
                segment.checked_indexes = true;
            }
            self.segments.insert(found.base, segment);
        }
        // Each closed segment ends where the next begins.
        let mut next = load.plan.start.segment_base;
        for segment in self.segments.values_mut().rev() {
            segment.next_offset = next;
            next = segment.base;
        }
        let last = load.scanned.len().saturating_sub(1);
        for (at, scan) in load.scanned.iter().enumerate() {
            let mut verified = Verified::default();
            let judged_from = if scan.base == load.plan.start.segment_base {
                load.plan.start.position.0
            } else {
                0
            };
            verified.add(judged_from, scan.end.0);
            let mut segment = Segment {
                next_offset: scan.next_offset,
                size: scan.end.0,
                file: load.files.get(&scan.base).copied(),
                offset_entries: scan.index.offset_entries,
                time_entries: scan.index.time_entries,
                max_timestamp: Some(scan.index.max_timestamp),
                verified,
                tail: None,
                ..Segment::new(scan.base, cx.now.wall)
            };
            if at == last {
                let end = Mark {
                    position: scan.end.0,
                    next_offset: scan.next_offset,
                    index: scan.index,
                };
                let mut tail = Tail::at(end, Phase::Open, cx.now.wall);
                tail.first_timestamp = scan.first_timestamp;
                segment.tail = Some(alloc::boxed::Box::new(tail));
            }
            self.segments.insert(scan.base, segment);
        }
        if let Some(active) = load.plan.active {
            let start = load.plan.start;
            let end = Mark {
                position: start.position.0,
                next_offset: start.offset,
                index: active.index,
            };
            let mut tail = Tail::at(end, Phase::Open, cx.now.wall);
            tail.first_timestamp = active.first_timestamp;
            let segment = Segment {
                next_offset: start.offset,
                size: start.position.0,
                offset_entries: start.offset_index_entries,
                time_entries: start.time_index_entries,
                tail: Some(alloc::boxed::Box::new(tail)),
                ..Segment::new(start.segment_base, cx.now.wall)
            };
            self.segments.insert(start.segment_base, segment);
        } else if load.scanned.is_empty() {
            let end = Mark::start_of(load.end);
            let tail = Tail::at(end, Phase::Open, cx.now.wall);
            let segment = Segment {
                tail: Some(alloc::boxed::Box::new(tail)),
                ..Segment::new(load.end, cx.now.wall)
            };
            self.segments.insert(load.end, segment);
        }
        let (id, dir) = (self.id, self.dir.clone());
        self.active_mut().file(cx, id, &dir);
        self.adopt_files(cx, before);

        self.epochs = load.epochs;
        self.recent.clear();
        self.loaded = true;
        self.undo = None;
        self.wrong_indexes.clear();
        self.state = LogState::Ready;
        let active = self.active_mut();
        let (base, mark) = (
            active.base,
            active
                .tail
                .as_ref()
                .expect("the active segment has a tail")
                .flushed,
        );
        // After a cut below the log start, it may begin anew below what was checkpointed.
        if mark.next_offset >= self.recovery_point.offset {
            self.move_recovery_point(base, mark);
        }
        self.recovery_point_moved |= !load.clean;
        if !load.clean && !load.creating {
            cx.report(
                Level::Info,
                "recovery",
                alloc::format!(
                    "dir={} start={} end={} segments={} recovered",
                    self.dir,
                    self.log_start_offset,
                    mark.next_offset,
                    self.segments.len()
                ),
            );
        }
    }

    /// Keeps the file ids of closed segments over a reopening; the others end.
    fn adopt_files(&mut self, cx: &mut Context<'_>, before: BTreeMap<Offset, Segment>) {
        let mut files = Vec::new();
        for (base, old) in before {
            let Some(file) = old.file else {
                continue;
            };
            match self.segments.get_mut(&base) {
                Some(segment) if old.tail.is_none() && segment.tail.is_none() => {
                    if segment.file.is_none() {
                        segment.file = Some(file);
                        segment.verified = old.verified;
                        continue;
                    }
                    files.push(file);
                }
                _ => files.push(file),
            }
        }
        self.close_files(cx, files);
    }

    /// A closed segment's index turned out wrong at a read: builds it anew, one at a time.
    pub(super) fn rebuild_wrong_index(&mut self, cx: &mut Context<'_>) {
        if self.rebuilding.is_some() || self.has_task(|task| matches!(task, Task::Rebuilt(..))) {
            return;
        }
        let Some(base) = self.wrong_indexes.pop_first() else {
            return;
        };
        if self
            .segments
            .get(&base)
            .is_none_or(|segment| segment.tail.is_some())
        {
            return;
        }
        let job = self.rebuild_job(base);
        self.rebuilding = Some((cx.read(Owner::Log(self.id), job), base));
    }

    /// The scan for it has ended.
    pub(super) fn wrong_index_scanned(
        &mut self,
        cx: &mut Context<'_>,
        base: Offset,
        result: Result<ReadOutput, DiskError>,
    ) {
        if !self.segments.contains_key(&base) || !self.is_running() {
            return;
        }
        match result {
            Ok(ReadOutput::ScanSegment(scan)) => match &scan.damage {
                Some(damage) => self.report_damage(cx, damage),
                None => {
                    let mut stages = self.index_ops(&scan);
                    stages.push(self.sync_indexes(base));
                    let (offsets, times) = (scan.index.offset_entries, scan.index.time_entries);
                    self.start_task(cx, Task::Rebuilt(base, offsets, times), stages);
                }
            },
            Ok(_) => debug_assert!(false, "a job answers with its own kind of output"),
            Err(error) => cx.report(
                Level::Warn,
                "log",
                alloc::format!("dir={} segment={base} index not rebuilt: {error}", self.dir),
            ),
        }
    }

    pub(super) fn index_rebuilt(
        &mut self,
        cx: &mut Context<'_>,
        base: Offset,
        offset_entries: u32,
        time_entries: u32,
        result: Result<(), Failure>,
    ) {
        if result.is_err() {
            return;
        }
        self.report_rebuilt(cx, base);
        if let Some(segment) = self.segments.get_mut(&base)
            && segment.tail.is_none()
        {
            segment.offset_entries = offset_entries;
            segment.time_entries = time_entries;
            segment.checked_indexes = true;
        }
    }
}
