//! Decides where the log ends, once all segments were looked at, and what makes it so.

use alloc::string::String;
use alloc::vec::Vec;

use crate::bugs::Bug;
use crate::context::Context;
use crate::effect::{Effect, FileOp};
use crate::ids::{Offset, Position};
use crate::log::checkpoint::write_epochs;
use crate::log::error::{Damage, DamageKind};
use crate::log::file_names::{OF_EACH_SEGMENT, SegmentFile};
use crate::log::roll::create_segment;
use crate::log::{Log, LogError};
use crate::report::Level;

use super::{Load, Work};

impl Log {
    /// All segments were looked at: decides where the log ends and what must be done for it.
    pub(super) fn judge_scans(&mut self, cx: &mut Context<'_>) {
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
                OF_EACH_SEGMENT
                    .map(|file| FileOp::RemoveFile(file.path(&self.dir, *base)))
                    .to_vec(),
            );
        }
        let stray_snapshots = load.take_stray_snapshots();
        let snapshots_gone = !stray_snapshots.is_empty();
        let snapshot = |at: Offset| SegmentFile::Snapshot.path(&self.dir, at);
        ops.push(
            stray_snapshots
                .into_iter()
                .map(|at| FileOp::RemoveFile(snapshot(at)))
                .collect(),
        );
        let fresh = load.scanned.is_empty() && load.plan.active.is_none();
        if fresh {
            ops.extend(create_segment(&self.dir, load.end));
        }
        let (mut rewrites, mut cuts, mut syncs) = (Vec::new(), Vec::new(), Vec::new());
        let mut confirm = Vec::new();
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
                confirm.push(Work::Confirm(scan.base));
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
        if !load.scanned.is_empty()
            || !gone.is_empty()
            || !load.plan.remove.is_empty()
            || snapshots_gone
        {
            syncs.push(FileOp::SyncDir(self.dir.clone()));
        }
        ops.extend([rewrites, cuts, syncs]);
        if load.epochs.is_dirty() {
            load.epochs.mark_written();
            ops.extend(write_epochs(&self.dir, &load.epochs));
        }
        load.work.extend([Work::Ops(ops), Work::Flush]);
        load.work.extend(confirm);
        load.work.extend([Work::Producers, Work::Finish]);
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
        if cut_bytes == 0 && segments_gone == 0 || self.bugs.has(Bug::HideCut) {
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
}
