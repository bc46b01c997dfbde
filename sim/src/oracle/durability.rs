//! AckedDurable, FailedFlushNeverAcked, NoPartialAckOnFullDisk: an acknowledgement is held against
//! what the disk would have if the power were lost at this moment and nothing pending persisted.
//!
//! Under `os` only what is written need be there, but for what `flush.messages` promises: of what was
//! appended since that is in force, fewer records than it says lie unflushed below one that is acknowledged,
//! so those that lie deeper survive a power loss as they do under `fsync`. What `flush.ms` promises has its
//! bound once faults stop.

use odradek_core::ids::FilePath;
use odradek_core::log::config::Durability;

use super::model::LogModel;
use super::retention::{Bound, Overdue, limit};
use super::{Check, Mark, Oracle};
use crate::batch;
use crate::disk::Disk;
use crate::disk::faults::DiskFault;

impl Oracle {
    /// The end of what is on the disk as the policy demands: durable under `fsync`, written under
    /// `os`. Where it ends, and what is wrong there.
    pub(super) fn safe_end(&mut self, directory: &str, disk: &Disk) -> (i64, &'static str) {
        let Some(log) = self.models.get_mut(directory) else {
            return (0, "the log was never opened");
        };
        let (end, why) = log.kept_end(log.checked_end, self.durability, disk);
        log.checked_end = end;
        (end, why)
    }

    /// The end of what a power loss would leave, whatever the policy.
    fn flushed_end(&mut self, directory: &str, disk: &Disk) -> i64 {
        let Some(log) = self.models.get_mut(directory) else {
            return 0;
        };
        let (end, _) = log.kept_end(log.flushed_end, Durability::Fsync, disk);
        log.flushed_end = end;
        end
    }

    /// A batch is acknowledged at an offset.
    pub(super) fn acked(&mut self, directory: &str, base_offset: i64, sent: &[u8], disk: &Disk) {
        self.acked_batches += 1;
        let Some(log) = self.models.get(directory) else {
            return self.violate(
                Check::AckedDurable,
                format!("{directory}: acknowledged, and nothing was ever written to it"),
            );
        };
        if base_offset < log.log_start.max(log.log_start_asked) {
            // Deleted while it waited.
            return;
        }
        let flush_failed = log.flush_failed;
        let Some(batch) = log.batches.get(&base_offset) else {
            let detail = format!(
                "{directory}: acknowledged at offset {base_offset}, where no batch was written"
            );
            return self.violate(Check::AckedDurable, detail);
        };
        if !batch::is_kept(&batch.bytes, sent) {
            let detail = format!(
                "{directory}: acknowledged at offset {base_offset}, where other records were \
                 written than were sent"
            );
            return self.violate(Check::OffsetNeverReused, detail);
        }
        if batch::compression_of(&batch.bytes) != batch::compression_of(sent) {
            *self.marks.entry(Mark::Recompressed).or_default() += 1;
        }
        let next = batch.last_offset + 1;
        let damaged = batch.damaged;
        let cached_whole = disk
            .cached(&batch.segment)
            .and_then(|file| {
                let at = batch.position as usize;
                file.get(at..at + batch.bytes.len())
            })
            .is_some_and(|bytes| bytes == &batch.bytes[..]);
        if !cached_whole && !flush_failed && !damaged {
            self.violate(
                Check::NoPartialAckOnFullDisk,
                format!(
                    "{directory}: acknowledged at offset {base_offset}, and the file does not \
                     hold the whole batch"
                ),
            );
        }
        let (safe, why) = self.safe_end(directory, disk);
        if safe < next {
            let check = if flush_failed {
                Check::FailedFlushNeverAcked
            } else {
                Check::AckedDurable
            };
            self.violate(
                check,
                format!(
                    "{directory}: acknowledged up to offset {next}, and the disk is sure to keep \
                     only what is below {safe}: {why}"
                ),
            );
        }
        self.check_flushed(directory, base_offset, next, disk);
        if let Some(log) = self.models.get_mut(directory) {
            log.acked_end = log.acked_end.max(next);
            log.served_in_life = true;
            self.told += 1;
        }
    }

    /// How many records `flush.messages` leaves unflushed, and one more, under `os`; `None` if that is not
    /// sure, or any number.
    fn flush_messages(&self, directory: &str) -> Option<i64> {
        let topic = directory.rsplit_once('-').map_or("", |(topic, _)| topic);
        let default = self.log_config.flush_messages;
        let most = limit(&self.configs, topic, "flush.messages", default, Bound::Must)?;
        let is_os = self.durability == Durability::Os;
        i64::try_from(most).ok().filter(|_| is_os)
    }

    /// A batch is acknowledged: what `flush.messages` says.
    fn check_flushed(&mut self, directory: &str, base_offset: i64, next: i64, disk: &Disk) {
        let Some(most) = self.flush_messages(directory) else {
            return;
        };
        let flushed = self.flushed_end(directory, disk);
        let Some(log) = self.models.get_mut(directory) else {
            return;
        };
        if base_offset < log.flushes_from {
            return;
        }
        // What is deleted need not be flushed.
        let flushed = flushed.max(log.log_start);
        log.must_survive = log.must_survive.max(next - most + 1);
        if next - flushed >= most {
            self.violate(
                Check::AckedDurable,
                format!(
                    "{directory}: acknowledged up to offset {next} under flush.messages={most}, and \
                     only what is below {flushed} is flushed"
                ),
            );
        } else {
            self.mark(Mark::FlushedBeforeAnswer);
        }
    }

    /// The configs of a topic are others than before: what they promise of flushes holds for what is
    /// appended from now on.
    pub(super) fn flushes_anew(&mut self, topic: &str) {
        for log in self.models.all_mut() {
            if log
                .directory
                .rsplit_once('-')
                .is_some_and(|(of, _)| of == topic)
            {
                log.flushes_from = log.end;
            }
        }
    }

    /// Faults are over: what `flush.ms` should have flushed by now. Only the time that it takes is open.
    pub(super) fn unflushed(&mut self, directory: &str, disk: &Disk) -> Option<Overdue> {
        let topic = directory.rsplit_once('-').map_or("", |(topic, _)| topic);
        let default = self.log_config.flush_ms;
        let limit = limit(&self.configs, topic, "flush.ms", default, Bound::Must)?;
        if self.durability == Durability::Fsync {
            return None;
        }
        let flushed = self.flushed_end(directory, disk);
        // If there is nothing, all of it was deleted.
        let (_, last) = self.models.get(directory)?.batches.last_key_value()?;
        let end = last.last_offset + 1;
        if flushed < end {
            return Some(Overdue::Unflushed {
                directory: directory.to_owned(),
                flushed,
                end,
                limit,
            });
        }
        self.mark(Mark::FlushedInTime);
        None
    }

    /// A fault struck the disk.
    pub fn fault(&mut self, fault: DiskFault, path: Option<&FilePath>) {
        self.groups_in_doubt();
        self.disk_is_ill();
        match fault {
            DiskFault::FlushErrorKeepsNew | DiskFault::FlushErrorShowsOld => {
                self.mark(Mark::FlushFailed);
                if let Some(path) = path
                    && let Some(log) = self.models.get_mut(path.parent().as_str())
                {
                    log.flush_failed = true;
                }
            }
            DiskFault::WriteError | DiskFault::ShortWrite | DiskFault::NoSpace => {
                self.mark(Mark::WriteFailed);
            }
            DiskFault::TurnedReadOnly => self.turned_read_only(),
            DiskFault::ReadError | DiskFault::LatentError | DiskFault::NoDescriptor => {
                self.damages.reads_fail = true;
            }
            DiskFault::MisdirectedRead => {
                self.damages.reads_fail = true;
                if let Some(path) = path {
                    self.misread(path);
                }
            }
            DiskFault::Evicted
            | DiskFault::ManageError
            | DiskFault::ShortRead
            | DiskFault::MisdirectedWrite
            | DiskFault::Stall
            | DiskFault::DeviceStall
            | DiskFault::Rot => {}
        }
    }
}

impl LogModel {
    /// The end of what is on the disk, as a policy demands, from an offset on up to which it is known to
    /// be.
    fn kept_end(&self, from: i64, durability: Durability, disk: &Disk) -> (i64, &'static str) {
        let mut end = from;
        let mut why = "nothing more was written";
        let first = self.batches.keys().next().copied();
        for (base, batch) in self.batches.range(end..) {
            // The first one may follow what was deleted from the beginning.
            if *base != end && Some(*base) != first && *base > self.gaps_end {
                why = "there is a gap";
                break;
            }
            if batch.cleaned.is_some() || batch.damaged {
                // It was durable when the cleaner read it; a start judges what is there now.
                end = batch.last_offset + 1;
                continue;
            }
            let path = &batch.segment;
            let file = match durability {
                Durability::Fsync => disk.durable(path),
                Durability::Os => disk.cached(path),
            };
            let Some(file) = file else {
                why = "the name of its segment is not durable";
                break;
            };
            let at = batch.position as usize;
            let there = file.get(at..at + batch.bytes.len());
            if there != Some(&batch.bytes[..]) {
                why = "its bytes are not there";
                break;
            }
            end = batch.last_offset + 1;
        }
        (end, why)
    }
}
