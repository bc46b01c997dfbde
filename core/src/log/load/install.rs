//! The end of a load: what was found becomes the log.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::context::Context;
use crate::ids::Offset;
use crate::log::segment::{Mark, Phase, Segment, Tail};
use crate::log::verified::Verified;
use crate::log::{Log, LogState};
use crate::report::Level;

impl Log {
    /// Everything is durable: the log is what was found.
    pub(super) fn finish_load(&mut self, cx: &mut Context<'_>) {
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
                segment.tail = Some(Box::new(tail));
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
                tail: Some(Box::new(tail)),
                ..Segment::new(start.segment_base, cx.now.wall)
            };
            self.segments.insert(start.segment_base, segment);
        } else if load.scanned.is_empty() {
            let end = Mark::start_of(load.end);
            let tail = Tail::at(end, Phase::Open, cx.now.wall);
            let segment = Segment {
                tail: Some(Box::new(tail)),
                ..Segment::new(load.end, cx.now.wall)
            };
            self.segments.insert(load.end, segment);
        }
        let (id, dir) = (self.id, self.dir.clone());
        self.active_mut().file(cx, id, &dir);
        self.adopt_files(cx, before);
        self.producers = load.producers.states;
        self.producers.touch_all(cx.now.mono);
        self.snapshots = load.plan.snapshots.iter().copied().collect();
        self.wanted_snapshot = None;
        self.epochs = load.epochs;
        self.recent.clear();
        self.loaded = true;
        self.undo = None;
        self.wrong_indexes.clear();
        self.state = LogState::Ready;
        self.drop_below_log_start(cx);
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
}
