//! Building index files anew: at a load, and when a read finds that one is wrong.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::context::{Context, Owner};
use crate::effect::FileOp;
use crate::ids::{Offset, Position};
use crate::input::DiskError;
use crate::read_job::{ReadJob, ReadOutput};
use crate::report::Level;

use super::file_names::{FRESH, SegmentFile};
use super::recovery_point::RecoveryPoint;
use super::scan_segment::{IndexTail, ScanSegment, ScannedSegment};
use super::tasks::Failure;
use super::{Log, Task};

impl Log {
    /// The job that builds the indexes of a closed segment anew.
    pub(super) fn rebuild_job(&self, base: Offset) -> ReadJob {
        let next_base = match &self.load {
            Some(load) => load.closed_base_after(base),
            None => self.base_after(base),
        };
        ReadJob::ScanSegment(ScanSegment {
            dir: self.dir.clone(),
            base,
            from: RecoveryPoint::start_of(base),
            all_flushed: true,
            rebuild: true,
            next_base,
            index_interval_bytes: self.config.index_interval_bytes,
            dense: next_base.is_none_or(|next| self.is_dense(next)),
            bugs: self.bugs,
        })
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

    /// What puts the indexes of a closed segment, built anew, in the place of those that are there.
    ///
    /// Nobody builds them once more because of a failure here, as is done above the recovery point:
    /// a file that is longer or shorter is noticed at the next load, but one that a failed flush
    /// left with its length and old bytes may look right. So they are durable before they get
    /// their names.
    pub(super) fn replace_indexes(&self, scan: &ScannedSegment) -> Vec<Vec<FileOp>> {
        let (mut writes, mut syncs, mut renames) = (Vec::new(), Vec::new(), Vec::new());
        for (file, tail) in [
            (SegmentFile::Index, &scan.offset_index),
            (SegmentFile::TimeIndex, &scan.time_index),
        ] {
            let fresh = file.path_with(&self.dir, scan.base, FRESH);
            writes.push(FileOp::WriteFile {
                path: fresh.clone(),
                bytes: Bytes::copy_from_slice(&tail.bytes),
            });
            syncs.push(FileOp::SyncFile(fresh.clone()));
            renames.push(FileOp::Rename {
                from: fresh,
                to: file.path(&self.dir, scan.base),
            });
        }
        let dir = FileOp::SyncDir(self.dir.clone());
        vec![writes, syncs, renames, vec![dir]]
    }

    pub(super) fn sync_indexes(&self, base: Offset) -> Vec<FileOp> {
        vec![
            FileOp::SyncFile(SegmentFile::Index.path(&self.dir, base)),
            FileOp::SyncFile(SegmentFile::TimeIndex.path(&self.dir, base)),
        ]
    }

    pub(super) fn report_rebuilt(&self, cx: &mut Context<'_>, base: Offset) {
        cx.report(
            Level::Info,
            "recovery",
            alloc::format!("dir={} segment={base} indexes rebuilt", self.dir),
        );
    }

    /// A closed segment's index turned out wrong at a read: builds it anew, one at a time.
    pub(super) fn rebuild_wrong_index(&mut self, cx: &mut Context<'_>) {
        if self.rebuilding.is_some()
            || self.is_swapping()
            || self.has_task(|task| matches!(task, Task::Rebuilt(..)))
        {
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
                    let stages = self.replace_indexes(&scan);
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
