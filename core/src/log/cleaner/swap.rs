//! How cleaned files take the place of old ones, so that a crash at any point loses nothing.
//!
//! 1. The files are written as `.cleaned` and flushed. A load removes what it finds so.
//! 2. They are renamed to `.swap`, and the directory is flushed. From here on the new segment
//!    counts: readers get it, and a load completes what follows.
//! 3. The old segments go, all but the one whose name the new one gets, and the old indexes; the
//!    directory is flushed. Otherwise a segment could come back whose records lie in another one.
//! 4. The files get their names, the log over the old one, and the directory is flushed.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use super::CleanTask;
use crate::bugs::Bug;
use crate::context::Context;
use crate::effect::FileOp;
use crate::ids::{FileId, FilePath, Offset};
use crate::log::file_names::{CLEANED, OF_EACH_SEGMENT, SWAP, SegmentFile};
use crate::log::segment::Segment;
use crate::log::verified::Verified;
use crate::log::{Log, Task, offset_index, time_index};

impl Log {
    /// A group is copied: its indexes follow, and all of it is flushed.
    pub(super) fn copied_group(&mut self, cx: &mut Context<'_>) {
        let dir = self.dir.clone();
        let Some(round) = &mut self.cleaner.round else {
            return;
        };
        let Some(copy) = &mut round.copy else {
            return;
        };
        let base = copy.base();
        if copy.group.len() == 1 && !copy.changed {
            // The old segment is as good.
            round.bytes_after += copy.length;
            let begun = copy.begun;
            round.copy = None;
            return if begun {
                self.remove_unchanged(cx, base)
            } else {
                self.copy_next_group(cx)
            };
        }
        let last = copy.index.add_time_entry(base);
        copy.time_entries
            .extend(last.into_iter().flat_map(time_index::TimeEntry::encode));
        let write = |file: SegmentFile, bytes: &[u8]| FileOp::WriteFile {
            path: file.path_with(&dir, base, CLEANED),
            bytes: Bytes::copy_from_slice(bytes),
        };
        let writes = vec![
            write(SegmentFile::Index, &copy.offset_entries),
            write(SegmentFile::TimeIndex, &copy.time_entries),
        ];
        let syncs = OF_EACH_SEGMENT
            .map(|file| FileOp::SyncFile(file.path_with(&dir, base, CLEANED)))
            .to_vec();
        self.start_clean_task(cx, CleanTask::Flush, vec![writes, syncs]);
    }

    fn remove_unchanged(&mut self, cx: &mut Context<'_>, base: Offset) {
        let path = SegmentFile::Log.path_with(&self.dir, base, CLEANED);
        let stages = vec![vec![FileOp::RemoveFile(path)]];
        // With no copy under way, the next group follows.
        self.start_clean_task(cx, CleanTask::Write, stages);
    }

    /// The new segment is flushed: gives it the names that a load completes.
    pub(super) fn commit(&mut self, cx: &mut Context<'_>) {
        let rebuilding =
            self.rebuilding.is_some() || self.has_task(|task| matches!(task, Task::Rebuilt(..)));
        if self.live_round().is_none() || !self.is_group_there() || rebuilding {
            return self.discard(cx);
        }
        let Some(copy) = self.cleaner.round.as_ref().and_then(|r| r.copy.as_ref()) else {
            return;
        };
        let base = copy.base();
        let renames = OF_EACH_SEGMENT
            .map(|file| FileOp::Rename {
                from: file.path_with(&self.dir, base, CLEANED),
                to: file.path_with(&self.dir, base, SWAP),
            })
            .to_vec();
        let mut stages = vec![renames];
        if !self.bugs.has(Bug::ForgetSwapSync) {
            stages.push(vec![FileOp::SyncDir(self.dir.clone())]);
        }
        self.cleaner.is_swapping = true;
        self.start_clean_task(cx, CleanTask::Commit, stages);
    }

    /// The new segment counts from now on.
    pub(super) fn committed(&mut self, cx: &mut Context<'_>) {
        let Some(round) = &mut self.cleaner.round else {
            // The log is being loaded meanwhile, or gone: whoever finds the files completes it.
            self.cleaner.is_swapping = false;
            return;
        };
        let Some(copy) = round.copy.take() else {
            return;
        };
        round.bytes_after += copy.length;
        let base = copy.base();
        let last = copy
            .group
            .iter()
            .rev()
            .find_map(|old| self.segments.get(old));
        let next_offset = last.map_or(base, |segment| segment.next_offset);
        let mut verified = Verified::default();
        verified.add(0, copy.length);
        let segment = Segment {
            next_offset,
            size: copy.length,
            offset_entries: entries(copy.offset_entries.len(), offset_index::ENTRY_BYTES),
            time_entries: entries(copy.time_entries.len(), time_index::ENTRY_BYTES),
            max_timestamp: Some(copy.index.max_timestamp),
            verified,
            ..Segment::new(base, cx.now.wall)
        };
        let files = self.read_from_swap(cx, &copy.group, segment);
        self.close_files(cx, files);

        let snapshots: Vec<Offset> = self
            .snapshots
            .range(base.plus(1)..next_offset)
            .copied()
            .filter(|at| Some(*at) != self.snapshots.last().copied())
            .collect();
        for at in &snapshots {
            self.snapshots.remove(at);
        }
        let merged = copy.group.get(1..).unwrap_or_default();
        let mut stages = take_over(&self.dir, base, merged, &OF_EACH_SEGMENT);
        let gone = snapshots
            .into_iter()
            .map(|at| FileOp::RemoveFile(SegmentFile::Snapshot.path(&self.dir, at)));
        if let Some(removals) = stages.first_mut() {
            removals.extend(gone);
        }
        self.start_clean_task(cx, CleanTask::Swap, stages);
    }

    /// Readers get a closed segment whose files end with `.swap` instead of these. Returns what these had
    /// open.
    pub(in crate::log) fn read_from_swap(
        &mut self,
        cx: &mut Context<'_>,
        replaced: &[Offset],
        mut segment: Segment,
    ) -> Vec<FileId> {
        let mut files = Vec::new();
        for old in replaced {
            files.extend(self.segments.remove(old).and_then(|old| old.file));
            self.wrong_indexes.remove(old);
        }
        self.layout_changes();
        segment.since = self.cleaner.layout;
        segment.is_swap = true;
        segment.tail = None;
        // Before the files get other names: the host's idea of the file follows a rename.
        segment.file(cx, self.id, &self.dir);
        let base = segment.base;
        self.recent
            .forget_segment(replaced.last().copied().unwrap_or(base));
        self.segments.insert(base, segment);
        files
    }

    /// The new segment's files have their names.
    pub(super) fn swapped(&mut self, cx: &mut Context<'_>) {
        self.cleaner.is_swapping = false;
        for segment in self.segments.values_mut() {
            segment.is_swap = false;
        }
        if self.cleaner.round.is_none() {
            return;
        }
        self.drop_below_log_start(cx);
        self.copy_next_group(cx);
    }

    /// The segment, if any, whose files are just getting their names.
    pub(in crate::log) fn swap_base(&self) -> Option<Offset> {
        let mut segments = self.segments.values();
        segments
            .find(|segment| segment.is_swap)
            .map(|segment| segment.base)
    }

    /// Whether files are being replaced: segments and indexes stay what they are meanwhile.
    pub(in crate::log) const fn is_swapping(&self) -> bool {
        self.cleaner.is_swapping
    }
}

/// Gives a segment that is there as `.swap` its names: the segments that went into it behind its base
/// go first.
pub(in crate::log) fn take_over(
    dir: &FilePath,
    base: Offset,
    merged: &[Offset],
    there: &[SegmentFile],
) -> Vec<Vec<FileOp>> {
    let mut removals: Vec<FileOp> = merged
        .iter()
        .rev()
        .flat_map(|old| OF_EACH_SEGMENT.map(|file| FileOp::RemoveFile(file.path(dir, *old))))
        .collect();
    // An old index beside the new log would lie.
    removals.extend(
        [SegmentFile::Index, SegmentFile::TimeIndex]
            .map(|file| FileOp::RemoveFile(file.path(dir, base))),
    );
    let renames = there
        .iter()
        .map(|file| FileOp::Rename {
            from: file.path_with(dir, base, SWAP),
            to: file.path(dir, base),
        })
        .collect();
    let sync = || vec![FileOp::SyncDir(dir.clone())];
    vec![removals, sync(), renames, sync()]
}

fn entries(bytes: usize, entry_bytes: u64) -> u32 {
    u32::try_from(bytes as u64 / entry_bytes).unwrap_or(u32::MAX)
}
