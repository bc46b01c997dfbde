//! The producers of a log that is being loaded, and which snapshots stay.

use alloc::vec;
use alloc::vec::Vec;

use crate::context::Context;
use crate::effect::FileOp;
use crate::ids::{Offset, Position};
use crate::log::Log;
use crate::log::file_names::SegmentFile;
use crate::log::load_producers::{LoadProducers, LoadedProducers};
use crate::read_job::ReadJob;
use crate::report::Level;

use super::{Load, Reading, Work};

impl Load {
    /// Base offset of each segment that stays, and how many bytes of it count.
    fn segments(&self) -> Vec<(Offset, Position)> {
        let closed = self
            .plan
            .closed
            .iter()
            .map(|found| (found.base, found.length));
        let scanned = self.scanned.iter().map(|scan| (scan.base, scan.end));
        let start = self.plan.start;
        let active = self
            .plan
            .active
            .map(|_| (start.segment_base, start.position));
        closed.chain(scanned).chain(active).collect()
    }

    /// Takes the snapshots that have no place any more off the list: above the end, where other
    /// batches will be; below the first segment; and those of clean stops that are not the newest.
    pub(super) fn take_stray_snapshots(&mut self) -> Vec<Offset> {
        let segments = self.segments();
        let first = segments.first().map_or(self.end, |(base, _)| *base);
        let within = |at: &Offset| *at >= first && *at <= self.end;
        let newest = self.plan.snapshots.iter().copied().rfind(within);
        let stays = |at: &Offset| {
            let of_segment = segments.binary_search_by_key(at, |(base, _)| *base).is_ok();
            within(at) && (of_segment || Some(*at) == newest)
        };
        let stray = self.plan.snapshots.extract_if(.., |at| !stays(at));
        stray.collect()
    }
}

impl Log {
    /// Reads what the log's producers wrote last.
    pub(super) fn load_producers(&mut self, cx: &mut Context<'_>) {
        let Some(load) = &self.load else {
            return;
        };
        let job = ReadJob::LoadProducers(LoadProducers {
            dir: self.dir.clone(),
            segments: load.segments(),
            end: load.end,
            snapshots: load.plan.snapshots.clone(),
            bugs: self.bugs,
        });
        self.load_read(cx, Reading::Producers, job);
    }

    pub(super) fn producers_read(&mut self, cx: &mut Context<'_>, found: LoadedProducers) {
        for broken in &found.broken {
            cx.report(
                Level::Warn,
                "recovery",
                alloc::format!(
                    "dir={} the producer snapshot at offset {broken} cannot be read; the producers \
                     are read from the log instead",
                    self.dir
                ),
            );
        }
        if let Some(offset) = found.unreadable {
            cx.report(
                Level::Warn,
                "recovery",
                alloc::format!(
                    "dir={} a batch at offset {offset} cannot be read: of batches from there on, \
                     retries are not recognized",
                    self.dir
                ),
            );
        }
        if let Some(load) = &mut self.load {
            load.plan.snapshots.retain(|at| !found.broken.contains(at));
            let remove = found
                .broken
                .iter()
                .map(|at| FileOp::RemoveFile(SegmentFile::Snapshot.path(&self.dir, *at)));
            load.work.push_front(Work::Ops(vec![remove.collect()]));
            load.producers = found;
        }
    }
}
