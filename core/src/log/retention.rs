//! What is deleted: whole segments below the log start, which retention and DeleteRecords raise.
//!
//! The new log start is durable before anything goes: the parent persists it, then says so. A
//! segment then disappears for readers at once; its files stay for `file.delete.delay.ms` and are
//! removed, without a rename in between. A crash meanwhile leaves files below the log start, which
//! the next load removes.

use alloc::vec;
use alloc::vec::Vec;

use crate::bugs::Bug;
use crate::context::{Context, Owner};
use crate::effect::FileOp;
use crate::ids::{FileId, FilePath, Offset};
use crate::input::{DiskError, ReadFiles};
use crate::read_job::{ReadJob, ReadOutput};
use crate::report::Level;
use crate::time::Mono;

use super::file_names::{OF_EACH_SEGMENT, SegmentFile};
use super::scan_segment::present;
use super::tasks::Failure;
use super::time_index::TimeEntry;
use super::{Log, LogState, Task, index_file};

/// How many segments' largest timestamps are read at once.
const TIMES_AT_ONCE: usize = 256;

/// A segment whose files are to be removed.
#[derive(Debug)]
pub(crate) struct Doomed {
    pub(crate) at: Mono,
    base: Offset,
    pub(crate) file: Option<FileId>,
}

/// Reads the largest timestamps of closed segments: the last entry of each time index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentTimes {
    /// The log's directory.
    pub dir: FilePath,
    /// Base offsets, and how many entries the time index has.
    pub segments: Vec<(Offset, u32)>,
}

impl SegmentTimes {
    /// Runs the job. -1 stands for a segment without timestamps, or without its index.
    pub fn run(&self, files: &mut dyn ReadFiles) -> Result<Vec<(Offset, i64)>, DiskError> {
        let mut times = Vec::new();
        for (base, entries) in &self.segments {
            let path = SegmentFile::TimeIndex.path(&self.dir, *base);
            let last = match entries.checked_sub(1) {
                Some(last) => {
                    present(index_file::entry_at::<TimeEntry>(files, &path, last))?.flatten()
                }
                None => None,
            };
            times.push((*base, last.map_or(-1, |entry| entry.timestamp)));
        }
        Ok(times)
    }
}

/// An offset that DeleteRecords cannot delete up to: OFFSET_OUT_OF_RANGE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeleteOutOfRange;

impl Log {
    /// The log start that retention wants now, never above `high_watermark`. Make it durable, then
    /// call [`Log::on_log_start_durable`]. To be called every `log.retention.check.interval.ms`,
    /// and when [`Log::retention_wanted`]. Rolls an active segment that is wholly expired, as Kafka
    /// does, so that it can go the next time.
    pub fn retention(&mut self, cx: &mut Context<'_>, high_watermark: Offset) -> Option<Offset> {
        self.retention_wanted = false;
        if !self.is_running() || !self.config.delete || self.closing.is_some() {
            return None;
        }
        if self.bugs.has(Bug::NothingExpires) {
            return None;
        }
        let limit = high_watermark.min(self.acked_end);
        let mut start = self.expired_by_time(cx).max(self.expired_by_size(limit));
        if self.bugs.has(Bug::ExpireOneMore)
            && let Some(next) = start.and_then(|start| self.segments.get(&start))
        {
            start = Some(next.next_offset);
        }
        self.roll_if_expired(cx, start);
        let start = start?.min(limit);
        (start > self.log_start_offset).then_some(start)
    }

    /// Whether a call of [`Log::retention`] would see now what the last one could not.
    #[must_use]
    pub const fn retention_wanted(&self) -> bool {
        self.retention_wanted
    }

    /// DeleteRecords (KIP-107): the log start that deletes everything below `offset`; `None` stands
    /// for the high watermark. Make it durable, then call [`Log::on_log_start_durable`].
    ///
    /// # Errors
    /// If the offset is above the high watermark or below the log start.
    pub fn delete_records(
        &self,
        offset: Option<Offset>,
        high_watermark: Offset,
    ) -> Result<Offset, DeleteOutOfRange> {
        let limit = high_watermark.min(self.acked_end);
        let offset = offset.unwrap_or(limit);
        if offset > limit || offset < self.log_start_offset {
            return Err(DeleteOutOfRange);
        }
        Ok(offset)
    }

    /// The persisted log start has reached `offset`: it becomes visible, and segments below it go.
    pub fn on_log_start_durable(&mut self, cx: &mut Context<'_>, offset: Offset) {
        self.log_start_offset = self.log_start_offset.max(offset.min(self.acked_end));
        self.drop_below_log_start(cx);
        self.unlink_doomed(cx);
        self.advance(cx);
    }

    /// Takes the segments below the log start away from readers. While the log is being loaded or
    /// about to be, the end of that does it: a name may be another segment's by then, if the cleaner
    /// was replacing it.
    pub(super) fn drop_below_log_start(&mut self, cx: &Context<'_>) {
        if self.load.is_some() || !self.is_running() || self.is_swapping() {
            return;
        }
        let at = cx.now.mono.plus_ms(self.config.file_delete_delay_ms);
        while let Some((&base, segment)) = self.segments.first_key_value() {
            let below = segment.tail.is_none() && segment.next_offset <= self.log_start_offset;
            if !below {
                break;
            }
            let next = segment.next_offset;
            if !self.is_covered_by_snapshot(next) {
                self.want_snapshot();
                break;
            }
            let segment = self.segments.remove(&base).expect("it was just seen");
            self.recent.forget_segment(base);
            self.wrong_indexes.remove(&base);
            self.doomed.push_back(Doomed {
                at,
                base,
                file: segment.file,
            });
        }
    }

    /// The end of the oldest segments that are older than `retention.ms`.
    fn expired_by_time(&mut self, cx: &mut Context<'_>) -> Option<Offset> {
        let retention = i64::try_from(self.config.retention_ms?).unwrap_or(i64::MAX);
        let mut end = None;
        for segment in self.segments.values() {
            if segment.tail.is_some() {
                break;
            }
            let Some(max_timestamp) = segment.max_timestamp else {
                self.read_times(cx);
                break;
            };
            // Without timestamps nothing says how old it is.
            if max_timestamp < 0 || cx.now.wall.0.saturating_sub(max_timestamp) <= retention {
                break;
            }
            end = Some(segment.next_offset);
        }
        end
    }

    /// The end of the oldest segments without which `retention.bytes` are still there. What may yet be
    /// taken back, above `limit`, is no reason for anything to go.
    fn expired_by_size(&self, limit: Offset) -> Option<Offset> {
        let retention = self.config.retention_bytes?;
        let below = self.segments.values().take_while(|s| s.base < limit);
        let size: u64 = below.map(|segment| segment.visible_bytes(limit)).sum();
        let mut surplus = size.checked_sub(retention)?;
        let mut end = None;
        for segment in self.segments.values() {
            if segment.tail.is_some() || segment.size > surplus {
                break;
            }
            surplus -= segment.size;
            end = Some(segment.next_offset);
        }
        end
    }

    /// Rolls the active segment if everything in it is too old and nothing older is left.
    fn roll_if_expired(&mut self, cx: &mut Context<'_>, start: Option<Offset>) {
        let Some(retention) = self.config.retention_ms else {
            return;
        };
        let retention = i64::try_from(retention).unwrap_or(i64::MAX);
        let Some(active) = self.segments.values().next_back() else {
            return;
        };
        let oldest_left = start.unwrap_or(self.log_start_offset) >= active.base;
        let Some(tail) = active.tail.as_ref() else {
            return;
        };
        let newest = tail.index.max_timestamp;
        let expired = newest >= 0 && cx.now.wall.0.saturating_sub(newest) > retention;
        let whole = tail.is_open() && tail.written.position == active.size;
        if active.size > 0 && oldest_left && expired && whole && self.undo.is_none() {
            // After a failed write this tries again, as an append does: what is rolled must have its files.
            self.state = LogState::Ready;
            self.roll(cx.now.wall);
            self.advance(cx);
        }
    }

    pub(super) fn read_times(&mut self, cx: &mut Context<'_>) {
        if self.reading_times.is_some() {
            return;
        }
        let segments = self
            .segments
            .values()
            .filter(|segment| segment.tail.is_none() && segment.max_timestamp.is_none())
            .take(TIMES_AT_ONCE)
            .map(|segment| (segment.base, segment.time_entries))
            .collect();
        let job = ReadJob::SegmentTimes(SegmentTimes {
            dir: self.dir.clone(),
            segments,
        });
        self.reading_times = Some(cx.read(Owner::Log(self.id), job));
    }

    pub(super) fn times_read(&mut self, result: Result<ReadOutput, DiskError>) {
        let Ok(ReadOutput::SegmentTimes(times)) = result else {
            return;
        };
        for (base, max_timestamp) in times {
            if let Some(segment) = self.segments.get_mut(&base)
                && segment.max_timestamp.is_none()
            {
                segment.max_timestamp = Some(max_timestamp);
            }
        }
        self.retention_wanted = true;
    }

    /// Removes the files whose time has come.
    pub(super) fn unlink_doomed(&mut self, cx: &mut Context<'_>) {
        while let Some(doomed) = self.doomed.front() {
            if doomed.at > cx.now.mono {
                break;
            }
            let doomed = self.doomed.pop_front().expect("it was just seen");
            self.layout_changes();
            let mut remove = OF_EACH_SEGMENT
                .map(|file| FileOp::RemoveFile(file.path(&self.dir, doomed.base)))
                .to_vec();
            remove.extend(self.drop_snapshots_of(doomed.base));
            self.close_files(cx, doomed.file.into_iter().collect());
            self.start_task(cx, Task::Unlink, vec![remove]);
        }
    }

    pub(super) fn unlinked(&mut self, cx: &mut Context<'_>, result: Result<(), Failure>) {
        if let Err(failure) = result {
            cx.report(
                Level::Warn,
                "log",
                alloc::format!(
                    "dir={} a deleted segment stays on the disk until the next start: {}",
                    self.dir,
                    failure.error
                ),
            );
        }
    }
}
