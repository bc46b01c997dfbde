//! A log on a disk in memory, for tests: a few verbs, executed by the rules of
//! [`effect`](crate::effect).
//!
//! The disk keeps for each file what reads see and what would survive a power cut. A flush makes
//! durable only what was written since the last flush, failed or not: after a failed one the pages
//! count as clean, as on a real disk.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;

use super::fetch_scan::FetchScanned;
use super::time_lookup::TimestampOffset;
use super::{
    AppendError, AppendInfo, CleanerPoint, Durability, Log, LogConfig, LogSpec, LogState,
    ReadError, ReadPlan, ReadRange, RecoveryPoint,
};
use crate::bugs::Bugs;
use crate::context::{Context, LogId, Routes};
use crate::effect::{Effect, Effects, FileOp};
use crate::ids::{FileId, FilePath, LeaderEpoch, Offset, Position};
use crate::input::{DirEntry, DiskError, DiskErrorKind, ReadFiles};
use crate::read_job::{ReadJob, ReadOutput};
use crate::record::batch::{CheckedBatch, Compression};
use crate::record::builder::{BatchBuilder, BatchFields, ProducerFields};
use crate::record::check::{Limits, check_records};
use crate::report::{Level, Report};
use crate::time::{Mono, Now, Wall};

/// The directory of the log under test.
pub(super) const DIR: &str = "t-0";

/// A file: what reads see, what a power cut leaves, and what a flush would make durable.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    pub(super) cached: Vec<u8>,
    durable: Vec<u8>,
    dirty: Vec<(usize, usize)>,
}

/// A disk in memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    pub(super) files: BTreeMap<FilePath, File>,
    directories: BTreeSet<FilePath>,
    /// Names whose directory was flushed since they came.
    durable_names: BTreeMap<FilePath, File>,
}

/// What goes wrong.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    /// Flushes of log files that fail, one after another.
    pub(super) flushes: u32,
    /// Bytes of log files that still fit.
    pub(super) space: Option<u64>,
    /// File operations whose text contains this fail.
    pub(super) op: Option<&'static str>,
    /// The filesystem takes no changes.
    pub(super) read_only: bool,
}

#[derive(Clone, Debug)]
struct OpenFile {
    path: FilePath,
    written: u64,
    failed: bool,
}

/// A log, its disk, and what its parent would keep.
pub(super) struct Harness {
    pub(super) log: Log,
    pub(super) disk: Disk,
    pub(super) faults: Faults,
    pub(super) now: Now,
    pub(super) config: LogConfig,
    pub(super) reports: Vec<Report>,
    /// What a broker would have persisted.
    pub(super) persisted: (Option<RecoveryPoint>, Offset),
    pub(super) persisted_cleaner: CleanerPoint,
    /// Bound of the cleaner's map.
    pub(super) max_map_bytes: u64,
    durability: Durability,
    bugs: Bugs,
    routes: Routes,
    pending: VecDeque<Effect>,
    open: BTreeMap<FileId, OpenFile>,
    /// Every effect that was executed, as text.
    pub(super) trace: Vec<String>,
}

impl Harness {
    /// A new log, ready.
    pub(super) fn new(config: LogConfig, durability: Durability) -> Self {
        Self::with_bugs(config, durability, Bugs::NONE)
    }

    pub(super) fn with_bugs(config: LogConfig, durability: Durability, bugs: Bugs) -> Self {
        let mut routes = Routes::default();
        let mut out = Effects::new();
        let now = Now {
            mono: Mono(0),
            wall: Wall(1_000_000),
        };
        let mut cx = Context {
            now,
            out: &mut out,
            routes: &mut routes,
        };
        let log = Log::create(&mut cx, spec(&config, durability, bugs), Vec::new());
        let mut harness = Self {
            log,
            disk: Disk::default(),
            faults: Faults::default(),
            now,
            config,
            reports: Vec::new(),
            persisted: (None, Offset(0)),
            persisted_cleaner: CleanerPoint::default(),
            max_map_bytes: 1 << 20,
            durability,
            bugs,
            routes,
            pending: out.drain().collect(),
            open: BTreeMap::new(),
            trace: Vec::new(),
        };
        harness.complete_disk();
        assert_eq!(*harness.log.state(), LogState::Ready);
        harness
    }

    /// Makes a call on the log, and takes the effects.
    pub(super) fn with<R>(&mut self, call: impl FnOnce(&mut Log, &mut Context<'_>) -> R) -> R {
        let mut out = Effects::new();
        let mut cx = Context {
            now: self.now,
            out: &mut out,
            routes: &mut self.routes,
        };
        let result = call(&mut self.log, &mut cx);
        self.pending.extend(out.drain());
        result
    }

    /// Appends one batch; does not touch the disk.
    pub(super) fn append(&mut self, batch: &CheckedBatch) -> Result<AppendInfo, AppendError> {
        self.append_all(core::slice::from_ref(batch))
    }

    pub(super) fn append_all(
        &mut self,
        batches: &[CheckedBatch],
    ) -> Result<AppendInfo, AppendError> {
        self.with(|log, cx| log.append(cx, batches, LeaderEpoch(3)))
    }

    /// Executes everything that is asked for, and what follows from it.
    pub(super) fn complete_disk(&mut self) {
        while self.complete_one() {}
    }

    /// Executes the oldest thing that is asked for; `false` if there is none.
    pub(super) fn complete_one(&mut self) -> bool {
        self.complete_at(0)
    }

    /// Executes the oldest thing whose text contains this, before all that is older; `false` if
    /// there is none.
    pub(super) fn complete_first(&mut self, pattern: &str) -> bool {
        self.pending
            .iter()
            .position(|effect| effect.to_string().contains(pattern))
            .is_some_and(|at| self.complete_at(at))
    }

    /// What is asked for and not executed, as text.
    pub(super) fn waiting(&self) -> impl Iterator<Item = String> {
        self.pending.iter().map(ToString::to_string)
    }

    /// The one open file, and what is written of it.
    pub(super) fn written(&self) -> (FileId, Position) {
        let (file, open) = self.open.last_key_value().expect("one is open");
        (*file, Position(open.written))
    }

    /// Executes the newest operation on the names of files once nothing else is asked for; `false` if
    /// there is none.
    pub(super) fn complete_newest(&mut self) -> bool {
        let is_of_names = |effect: &Effect| match effect {
            Effect::Manage { op, .. } => !matches!(op, FileOp::Close(_)),
            _ => false,
        };
        let other = self.pending.iter().position(|effect| !is_of_names(effect));
        self.complete_at(other.unwrap_or(self.pending.len().saturating_sub(1)))
    }

    fn complete_at(&mut self, at: usize) -> bool {
        let Some(effect) = self.pending.remove(at) else {
            // A broker has persisted by now what it was told to.
            return self.persist_for_cleaner();
        };
        if !matches!(effect, Effect::Report(_)) {
            self.trace.push(effect.to_string());
        }
        self.execute(effect);
        true
    }

    fn persist_for_cleaner(&mut self) -> bool {
        let point = self.log.cleaner_point();
        if point.gaps_end <= self.persisted_cleaner.gaps_end {
            return false;
        }
        self.persist();
        self.with(|log, cx| log.on_cleaner_point_durable(cx, point.gaps_end));
        true
    }

    /// Lets time pass, with deadlines on their way.
    pub(super) fn advance_ms(&mut self, ms: u64) {
        let end = self.now.mono.plus_ms(ms);
        self.now.wall.0 += i64::try_from(ms).unwrap();
        while let Some(at) = self.log.next_deadline().filter(|at| *at <= end) {
            self.now.mono = self.now.mono.max(at);
            self.with(|log, cx| log.on_deadline(cx));
            self.complete_disk();
        }
        self.now.mono = end;
    }

    /// Time passes, but nothing that is asked for is executed.
    pub(super) fn wait_ms(&mut self, ms: u64) {
        self.now.mono = self.now.mono.plus_ms(ms);
        self.with(|log, cx| log.on_deadline(cx));
    }

    /// Executes what is asked for until something whose text contains this is next.
    pub(super) fn complete_up_to(&mut self, pattern: &str) {
        while !self.pending[0].to_string().contains(pattern) {
            self.complete_one();
        }
    }

    /// The cache drops all pages that count as clean: what is read now is what the disk holds.
    pub(super) fn evict_clean_pages(&mut self) {
        for file in self.disk.files.values_mut() {
            let mut cached = file.durable.clone();
            cached.resize(file.cached.len(), 0);
            for (from, to) in &file.dirty {
                cached[*from..*to].copy_from_slice(&file.cached[*from..*to]);
            }
            file.cached = cached;
        }
    }

    /// What a broker does every few seconds.
    pub(super) fn persist(&mut self) {
        self.persisted = (Some(self.log.recovery_point()), self.log.log_start_offset());
        self.persisted_cleaner = self.log.cleaner_point();
    }

    /// Cleans, and does what a broker does on the way. `false` if it is not worth it.
    pub(super) fn clean(&mut self) -> bool {
        self.begin_cleaning();
        let began = self.log.is_cleaning();
        self.complete_disk();
        assert!(!self.log.is_cleaning(), "a cleaning ends");
        began
    }

    /// The same up to where the disk is asked for something.
    pub(super) fn begin_cleaning(&mut self) {
        let max = self.max_map_bytes;
        self.with(|log, cx| log.clean(cx, max));
    }

    /// The process ends at once: what was written stays, what was asked for does not happen.
    pub(super) fn kill(&mut self) {
        self.pending.clear();
        self.open.clear();
    }

    /// The power fails: only what was flushed is left.
    pub(super) fn cut_power(&mut self) {
        self.kill();
        self.disk.cut_power();
    }

    /// The power fails: of what was not flushed, any part may be on the disk.
    pub(super) fn cut_power_harshly(&mut self, seed: u64) {
        self.kill();
        self.disk.cut_power_harshly(seed);
    }

    /// A new process opens the log; everything it asks for is done.
    pub(super) fn open(&mut self, clean: bool) {
        self.begin_open(clean);
        self.complete_disk();
    }

    pub(super) fn begin_open(&mut self, clean: bool) {
        self.kill();
        self.reports.clear();
        self.routes = Routes::default();
        let mut out = Effects::new();
        let mut cx = Context {
            now: self.now,
            out: &mut out,
            routes: &mut self.routes,
        };
        let spec = spec(&self.config, self.durability, self.bugs);
        let (point, start) = self.persisted;
        self.log = Log::open(&mut cx, spec, point, start, self.persisted_cleaner, clean);
        self.pending.extend(out.drain());
    }

    /// Closes the log and persists what a broker would.
    pub(super) fn close(&mut self) {
        self.with(|log, cx| log.close(cx));
        self.complete_disk();
        assert!(self.log.closed_cleanly());
        self.persist();
    }

    pub(super) fn delete_records(&mut self, offset: Offset) {
        let limit = self.log.high_watermark_limit();
        let start = self.log.delete_records(Some(offset), limit).unwrap();
        self.set_log_start(start);
    }

    /// Makes a log start durable, as a broker does.
    pub(super) fn set_log_start(&mut self, start: Offset) {
        self.persisted = (Some(self.log.recovery_point()), start);
        self.with(|log, cx| log.on_log_start_durable(cx, start));
        self.complete_disk();
    }

    pub(super) fn retention(&mut self) -> Option<Offset> {
        let limit = self.log.high_watermark_limit();
        self.with(|log, cx| log.retention(cx, limit))
    }

    /// Reads by a fetch: what a consumer gets.
    pub(super) fn fetch(
        &mut self,
        offset: i64,
        max_bytes: u32,
    ) -> Result<Option<(ReadRange, Bytes)>, ReadError> {
        let limit = self.log.high_watermark_limit();
        let range = match self.log.read_plan(Offset(offset), limit, max_bytes, true) {
            ReadPlan::Range(range) => Some(range),
            ReadPlan::Scan(job) => {
                let output = job.run(&mut self.disk).unwrap();
                self.with(|log, cx| log.on_fetch_scanned(cx, output))?
            }
            ReadPlan::Empty => None,
            plan => panic!("{plan:?}"),
        };
        let (opens, rest): (VecDeque<_>, _) = self
            .pending
            .drain(..)
            .partition(|effect| matches!(effect, Effect::Open { .. }));
        self.pending = rest;
        opens.into_iter().for_each(|open| self.execute(open));
        Ok(range.map(|range| (range, self.bytes_of(range))))
    }

    /// Runs a plan's scan and returns the raw output.
    pub(super) fn scan(&mut self, offset: i64) -> FetchScanned {
        let limit = self.log.high_watermark_limit();
        match self.log.read_plan(Offset(offset), limit, 1, true) {
            ReadPlan::Scan(job) => match job.run(&mut self.disk).unwrap() {
                ReadOutput::FetchScan(found) => found,
                output => panic!("{output:?}"),
            },
            plan => panic!("{plan:?}"),
        }
    }

    fn bytes_of(&self, range: ReadRange) -> Bytes {
        let file = &self.open[&range.range.file];
        let from = usize::try_from(range.range.position.0).unwrap();
        let content = &self.disk.files[&file.path].cached;
        Bytes::copy_from_slice(&content[from..from + range.range.length as usize])
    }

    pub(super) fn find_time(
        &mut self,
        timestamp: Option<i64>,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        let limit = self.log.high_watermark_limit();
        let job = match timestamp {
            Some(timestamp) => self.log.time_lookup(timestamp, limit),
            None => self.log.max_timestamp_lookup(limit),
        };
        let ReadOutput::TimeLookup(found) = job.run(&mut self.disk).unwrap() else {
            panic!("a look-up finds a time");
        };
        self.with(|log, cx| log.on_time_found(cx, &found))
    }

    /// All batches up to the visible end, by the replay path.
    pub(super) fn replay(&mut self) -> Vec<Bytes> {
        let mut offset = self.log.log_start_offset();
        let limit = self.log.high_watermark_limit();
        let mut batches = Vec::new();
        while let Some(job) = self.log.replay_job(offset, limit) {
            let ReadOutput::Records(read) = job.run(&mut self.disk).unwrap() else {
                panic!("a replay reads records");
            };
            assert!(read.next_offset > offset, "a replay moves on");
            offset = read.next_offset;
            batches.extend(read.batches);
        }
        batches
    }

    /// The content of a file of the log, as reads see it.
    pub(super) fn file(&self, name: &str) -> Vec<u8> {
        let path = FilePath::from(DIR).join(name);
        self.disk.files[&path].cached.clone()
    }

    pub(super) fn file_mut(&mut self, name: &str) -> &mut Vec<u8> {
        let path = FilePath::from(DIR).join(name);
        &mut self.disk.files.get_mut(&path).unwrap().cached
    }

    pub(super) fn remove_file(&mut self, name: &str) {
        let path = FilePath::from(DIR).join(name);
        self.disk.files.remove(&path).unwrap();
    }

    pub(super) fn names(&self) -> Vec<String> {
        let names = self.disk.files.keys().map(|path| path.name().to_string());
        names.collect()
    }

    /// What the operator was told at this level.
    pub(super) fn told(&self, level: Level) -> Vec<&str> {
        let reports = self.reports.iter().filter(|report| report.level == level);
        reports.map(|report| report.message.as_str()).collect()
    }

    fn execute(&mut self, effect: Effect) {
        match effect {
            Effect::Open { file, path, length } => {
                let open = OpenFile {
                    path,
                    written: length.0,
                    failed: false,
                };
                self.open.insert(file, open);
            }
            Effect::Write {
                file,
                position,
                data,
            } => self.execute_write(file, position.0, &data.header, &data.records),
            Effect::Flush { file } => self.execute_flush(file),
            Effect::Manage { operation, op } => {
                let result = self.execute_op(&op);
                self.with(|log, cx| log.on_managed(cx, operation, result));
            }
            Effect::Read { operation, job } => {
                let result = ReadJob::run(&job, &mut self.disk);
                self.with(|log, cx| log.on_read(cx, operation, result));
            }
            Effect::Report(report) => self.reports.push(report),
            effect => panic!("a log does not ask for {effect}"),
        }
    }

    fn execute_write(&mut self, file: FileId, position: u64, header: &[u8], records: &[u8]) {
        let open = self.open.get_mut(&file).expect("writes go to open files");
        if open.failed {
            return;
        }
        assert_eq!(position, open.written, "writes follow each other");
        let mut bytes = [header, records].concat();
        let fits = match &mut self.faults.space {
            Some(space) => {
                let fits = (bytes.len() as u64).min(*space);
                *space -= fits;
                fits
            }
            None if self.faults.read_only => 0,
            None => bytes.len() as u64,
        };
        let whole = fits == bytes.len() as u64;
        bytes.truncate(usize::try_from(fits).unwrap());
        self.disk.write(&open.path, position, &bytes);
        open.written += fits;
        if whole {
            let up_to = Position(open.written);
            self.with(|log, cx| log.on_written(cx, file, up_to));
        } else {
            open.failed = true;
            let (written, error) = (Position(open.written), no_space(&open.path));
            self.with(|log, cx| log.on_write_failed(cx, file, written, error));
        }
    }

    fn execute_flush(&mut self, file: FileId) {
        let open = self.open.get(&file).expect("flushes are of open files");
        if open.failed {
            return;
        }
        let (path, up_to) = (open.path.clone(), Position(open.written));
        if self.faults.flushes > 0 || self.faults.read_only {
            self.faults.flushes = self.faults.flushes.saturating_sub(1);
            self.disk.fail_flush(&path);
            let error = io_error(&path);
            self.with(|log, cx| log.on_flush_failed(cx, file, error));
        } else {
            self.disk.flush(&path);
            self.with(|log, cx| log.on_flushed(cx, file, up_to));
        }
    }

    fn execute_op(&mut self, op: &FileOp) -> Result<(), DiskError> {
        if self
            .faults
            .op
            .is_some_and(|pattern| op.to_string().contains(pattern))
        {
            if let FileOp::SyncFile(path) = op {
                self.disk.fail_flush(path);
            }
            return Err(no_space(&FilePath::from(DIR)));
        }
        if self.faults.read_only && !matches!(op, FileOp::Close(_)) {
            return Err(error(DiskErrorKind::ReadOnly, &FilePath::from(DIR)));
        }
        match op {
            FileOp::Truncate { file, length } => {
                let open = self.open.get_mut(file).expect("an open file is cut");
                open.failed = false;
                open.written = length.0;
                self.disk.set_length(&open.path.clone(), length.0)
            }
            FileOp::Rewrite { file, from, to } => {
                let path = &self.open[file].path;
                let content = self.disk.files[path].cached[from.0 as usize..to.0 as usize].to_vec();
                self.disk.write(&path.clone(), from.0, &content);
                Ok(())
            }
            FileOp::Close(file) => {
                self.open.remove(file).expect("a file is closed once");
                Ok(())
            }
            FileOp::Rename { from, to } => {
                self.disk.manage(op)?;
                // An id stays with its file.
                let files = self.open.values_mut().filter(|open| open.path == *from);
                files.for_each(|open| open.path = to.clone());
                Ok(())
            }
            op => self.disk.manage(op),
        }
    }
}

impl Disk {
    fn write(&mut self, path: &FilePath, position: u64, bytes: &[u8]) {
        let file = self.files.get_mut(path).expect("the file exists");
        let from = usize::try_from(position).unwrap();
        let to = from + bytes.len();
        if file.cached.len() < to {
            file.cached.resize(to, 0);
        }
        file.cached[from..to].copy_from_slice(bytes);
        file.dirty.push((from, to));
    }

    fn set_length(&mut self, path: &FilePath, length: u64) -> Result<(), DiskError> {
        let file = self.files.get_mut(path).ok_or_else(|| not_found(path))?;
        file.cached.resize(usize::try_from(length).unwrap(), 0);
        Ok(())
    }

    fn flush(&mut self, path: &FilePath) {
        let file = self.files.get_mut(path).expect("the file exists");
        file.durable.resize(file.cached.len(), 0);
        for (from, to) in file.dirty.drain(..) {
            let to = to.min(file.cached.len());
            if from < to {
                file.durable[from..to].copy_from_slice(&file.cached[from..to]);
            }
        }
        if let Some(durable) = self.durable_names.get_mut(path) {
            durable.durable = file.durable.clone();
        }
    }

    /// The pages stay cached and count as clean.
    fn fail_flush(&mut self, path: &FilePath) {
        if let Some(file) = self.files.get_mut(path) {
            file.dirty.clear();
        }
    }

    pub(super) fn cut_power(&mut self) {
        self.files = self.durable_names.clone();
        for file in self.files.values_mut() {
            file.cached = file.durable.clone();
            file.dirty.clear();
        }
    }

    /// Each name that was not flushed is there or not; each sector that was not flushed is old or
    /// new; a length is any between the old and the new one, over zeros where nothing was written.
    fn cut_power_harshly(&mut self, seed: u64) {
        const SECTOR: usize = 64;
        let mut state = seed | 1;
        let mut draw = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as usize % below
        };
        let mut left = BTreeMap::new();
        let names: BTreeSet<_> = self.files.keys().chain(self.durable_names.keys()).collect();
        for path in names {
            let (cached, durable) = (self.files.get(path), self.durable_names.get(path));
            let file = match (cached, durable) {
                (Some(file), Some(_)) => file,
                (Some(file), None) | (None, Some(file)) if draw(2) == 0 => file,
                _ => continue,
            };
            let mut content = file.durable.clone();
            let (short, long) = (
                content.len().min(file.cached.len()),
                content.len().max(file.cached.len()),
            );
            content.resize(short + draw(long - short + 1), 0);
            for (from, to) in &file.dirty {
                for sector in (*from..*to).step_by(SECTOR) {
                    let end = (sector + SECTOR).min(*to).min(content.len());
                    if draw(2) == 0 && sector < end && end <= file.cached.len() {
                        content[sector..end].copy_from_slice(&file.cached[sector..end]);
                    }
                }
            }
            let file = File {
                cached: content.clone(),
                durable: content,
                dirty: Vec::new(),
            };
            left.insert(path.clone(), file);
        }
        self.files = left.clone();
        self.durable_names = left;
    }

    fn manage(&mut self, op: &FileOp) -> Result<(), DiskError> {
        match op {
            FileOp::CreateDir(path) => {
                self.directories.insert(path.clone());
            }
            FileOp::WriteFile { path, bytes } => {
                let file = File {
                    cached: bytes.to_vec(),
                    durable: Vec::new(),
                    dirty: [(0, bytes.len())].into(),
                };
                self.files.insert(path.clone(), file);
            }
            FileOp::WriteAt {
                path,
                position,
                bytes,
            } => {
                if !self.files.contains_key(path) {
                    return Err(not_found(path));
                }
                self.write(path, position.0, bytes);
            }
            FileOp::SetLength { path, length } => self.set_length(path, length.0)?,
            FileOp::SyncFile(path) => {
                if !self.files.contains_key(path) {
                    return Err(not_found(path));
                }
                self.flush(path);
            }
            FileOp::SyncDir(directory) => {
                self.durable_names
                    .retain(|path, _| path.parent() != *directory);
                for (path, file) in &self.files {
                    if path.parent() == *directory {
                        self.durable_names.insert(path.clone(), file.clone());
                    }
                }
            }
            FileOp::Rename { from, to } => {
                let file = self.files.remove(from).ok_or_else(|| not_found(from))?;
                self.files.insert(to.clone(), file);
            }
            FileOp::RemoveFile(path) => {
                self.files.remove(path);
            }
            op => panic!("a log does not ask for {op}"),
        }
        Ok(())
    }
}

impl ReadFiles for Disk {
    fn read_at(
        &mut self,
        path: &FilePath,
        position: Position,
        buffer: &mut [u8],
    ) -> Result<usize, DiskError> {
        let file = self.files.get(path).ok_or_else(|| not_found(path))?;
        let from = usize::try_from(position.0).unwrap().min(file.cached.len());
        let read = buffer.len().min(file.cached.len() - from);
        buffer[..read].copy_from_slice(&file.cached[from..from + read]);
        Ok(read)
    }

    fn length(&mut self, path: &FilePath) -> Result<Position, DiskError> {
        let file = self.files.get(path).ok_or_else(|| not_found(path))?;
        Ok(Position(file.cached.len() as u64))
    }

    fn list(&mut self, directory: &FilePath) -> Result<Vec<DirEntry>, DiskError> {
        if !self.directories.contains(directory) {
            return Err(not_found(directory));
        }
        let inside = self.files.iter().filter(|(p, _)| p.parent() == *directory);
        Ok(inside
            .map(|(path, file)| DirEntry {
                name: path.name().to_string(),
                length: Some(Position(file.cached.len() as u64)),
            })
            .collect())
    }
}

/// Settings small enough that every boundary is crossed soon.
pub(super) fn tiny() -> LogConfig {
    LogConfig {
        segment_bytes: 4_000,
        index_interval_bytes: 300,
        file_delete_delay_ms: 1_000,
        ..LogConfig::default()
    }
}

/// A batch as a producer sends it: a record for each timestamp, with values of that many bytes.
pub(super) fn batch(timestamps: &[i64], value_bytes: usize) -> CheckedBatch {
    let mut builder = BatchBuilder::new(1 << 20);
    for (at, timestamp) in timestamps.iter().enumerate() {
        let value: Vec<u8> = (0..value_bytes).map(|i| (i + at) as u8).collect();
        assert!(builder.append(*timestamp, Some(b"k"), Some(&value), &[]));
    }
    let bytes = builder.build(BatchFields::default());
    let mut batches = check_records(bytes, &Limits::default()).unwrap();
    batches.remove(0)
}

/// A batch of records with these keys and values, all of one time.
pub(super) fn keyed(timestamp: i64, records: &[(&str, Option<&str>)]) -> CheckedBatch {
    keyed_by(Compression::None, None, timestamp, records)
}

/// The same, compressed, or of an idempotent producer.
pub(super) fn keyed_by(
    compression: Compression,
    producer: Option<ProducerFields>,
    timestamp: i64,
    records: &[(&str, Option<&str>)],
) -> CheckedBatch {
    let mut builder = BatchBuilder::new(1 << 20);
    for (key, value) in records {
        let value = value.map(str::as_bytes);
        assert!(builder.append(
            timestamp,
            Some(key.as_bytes()),
            value,
            &[(b"h", Some(b"x"))]
        ));
    }
    let bytes = builder.build(BatchFields {
        compression,
        producer,
        ..BatchFields::default()
    });
    check_records(bytes, &Limits::default()).unwrap().remove(0)
}

/// A batch of an idempotent producer: that many records from the sequence number on.
pub(super) fn produced(producer: i64, epoch: i16, sequence: i32, records: usize) -> CheckedBatch {
    produced_of(producer, epoch, sequence, records, 10)
}

/// The same with values of that many bytes.
pub(super) fn produced_of(
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    records: usize,
    value_bytes: usize,
) -> CheckedBatch {
    let mut builder = BatchBuilder::new(1 << 20);
    for _ in 0..records {
        assert!(builder.append(1_000, Some(b"k"), Some(&std::vec![7; value_bytes]), &[]));
    }
    let producer = Some(ProducerFields {
        producer_id,
        producer_epoch,
        base_sequence,
    });
    let bytes = builder.build(BatchFields {
        producer,
        ..BatchFields::default()
    });
    let mut batches = check_records(bytes, &Limits::default()).unwrap();
    batches.remove(0)
}

fn spec(config: &LogConfig, durability: Durability, bugs: Bugs) -> LogSpec {
    LogSpec {
        id: LogId(1),
        dir: FilePath::from(DIR),
        config: config.clone(),
        durability,
        bugs,
    }
}

fn not_found(path: &FilePath) -> DiskError {
    error(DiskErrorKind::NotFound, path)
}

fn no_space(path: &FilePath) -> DiskError {
    error(DiskErrorKind::NoSpace, path)
}

fn io_error(path: &FilePath) -> DiskError {
    error(DiskErrorKind::Io, path)
}

fn error(kind: DiskErrorKind, path: &FilePath) -> DiskError {
    DiskError {
        kind,
        path: path.clone(),
        detail: String::new(),
    }
}
