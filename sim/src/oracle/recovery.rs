//! PrefixRecovery and RecoveryIdempotent: what a start makes of what a crash left.

use std::collections::BTreeMap;

use bytes::Bytes;
use odradek_core::broker::Broker;
use odradek_core::ids::FilePath;
use odradek_core::log::config::Durability;
use odradek_core::log::{LogError, LogState};

use super::log_starts::LogStarts;
use super::model::{LogModel, ModelBatch};
use super::{Check, Mark, Oracle};
use crate::batch;
use crate::disk::Disk;

/// A log as its files have it: as far as it is sound.
#[derive(Debug, Default)]
pub(super) struct OnDisk {
    pub(super) batches: BTreeMap<i64, ModelBatch>,
    pub(super) end: i64,
    /// Bytes behind the last sound batch, or segments that do not follow.
    pub(super) unsound_bytes: u64,
    pub(super) segments: Vec<FilePath>,
}

impl Oracle {
    /// Before a start: says what it should keep.
    pub(super) fn expect_recovery(&mut self, disk: &Disk) {
        let settled = self.ever_started;
        let starts = LogStarts::on(disk);
        for log in self.models.all_mut() {
            log.expect_recovery(settled, starts.as_ref(), disk);
        }
    }

    /// A log is about to be read as at a start; at a start it is expected already.
    pub(super) fn reopening(&mut self, directory: &str, disk: &Disk) {
        let settled = self.ever_started;
        if let Some(log) = self.models.get_mut(directory)
            && !std::mem::replace(&mut log.is_loading, true)
        {
            log.expect_recovery(settled, LogStarts::on(disk).as_ref(), disk);
        }
    }

    /// The power goes while no process runs, after a stop that was not clean.
    pub fn lost_power_after_unclean_stop(&mut self) {
        for log in self.models.all_mut() {
            log.lost_power = true;
        }
        self.groups_lost_power();
    }

    /// Whether there are logs whose recovery is not over, or not judged.
    fn loading(&self) -> bool {
        self.models.all().any(|log| log.is_loading)
    }

    /// Judges the logs of a broker whose recovery is over. `serves`: it has started, and knows all that
    /// there are; `healthy`: no fault of the disk struck in its life.
    pub fn judge_recovery(&mut self, broker: &Broker, disk: &Disk, serves: bool, healthy: bool) {
        if !self.loading() {
            return;
        }
        let mut known = Vec::new();
        for (_, partition) in broker.partitions() {
            let log = partition.log();
            let directory = log.dir().as_str();
            match log.state() {
                LogState::Ready => self.recovered(directory, disk),
                LogState::Offline(LogError::Damaged(damage)) => self.offline(directory, damage),
                LogState::Offline(LogError::DirectoryMissing(missing))
                    if disk.entries(missing).is_ok() =>
                {
                    self.violate(
                        Check::PrefixRecovery,
                        format!("{missing} is there, and the log is offline because it is not"),
                    );
                }
                LogState::Offline(error) if healthy => self.violate(
                    Check::PrefixRecovery,
                    format!("nothing was wrong with the disk, and {directory} is offline: {error}"),
                ),
                _ => {}
            }
            known.push(directory);
        }
        if serves {
            self.only_these_are_left(&known, disk);
        }
    }

    /// The metadata log was recovered before everything else.
    pub(super) fn metadata_recovered(&mut self, disk: &Disk) {
        let directories: Vec<String> = self
            .models
            .all()
            .filter(|log| !log.is_users())
            .map(|log| log.directory.clone())
            .collect();
        for directory in directories {
            self.recovered(&directory, disk);
        }
    }

    /// A start is over, and these are all the logs there are: others are gone.
    fn only_these_are_left(&mut self, known: &[&str], disk: &Disk) {
        let directories: Vec<String> = self
            .models
            .all()
            .filter(|log| {
                log.is_loading && log.is_users() && !known.contains(&log.directory.as_str())
            })
            .map(|log| log.directory.clone())
            .collect();
        for directory in directories {
            self.recovered(&directory, disk);
        }
    }

    /// The recovery of a log is over: holds what it kept against what was appended, acknowledged,
    /// shown, and sound. Does nothing if that was done.
    pub fn recovered(&mut self, directory: &str, disk: &Disk) {
        let durability = self.durability;
        let Some(log) = self.models.get_mut(directory) else {
            return;
        };
        if !std::mem::take(&mut log.is_loading) {
            return;
        }
        self.told += 1;
        let lost_power = std::mem::take(&mut log.lost_power);
        let power_under_os = durability == Durability::Os && lost_power && log.is_users();
        let is_damaged = log.is_damaged || log.misread;
        let found = read_log(directory, disk, log.gaps_end, Some(log));
        let start = log.log_start.max(log.log_start_asked);
        // A log that is cut below its start begins anew there, with nothing in it.
        let is_anew = found.batches.is_empty() && found.end <= start;
        let damaged_below = log
            .damaged()
            .map(|(base, _)| *base)
            .find(|base| is_anew && *base < found.end);
        let cut_at_damage =
            found.end < log.end && (damaged_below.is_some() || log.may_end_at(found.end));
        let place = log
            .batches
            .get(&damaged_below.unwrap_or(found.end))
            .map(|batch| (batch.segment.clone(), batch.position));
        if found.segments.is_empty() {
            let promised = log.promised_end().max(log.log_start);
            let vanished = log.may_vanish || promised == 0 || !log.is_users();
            let must_survive = log.must_survive > 0;
            self.models.forget(directory);
            if power_under_os {
                self.may_have_lost(directory, 0);
            }
            if !vanished && (!power_under_os || must_survive) && !is_damaged {
                self.violate(
                    Check::AckedDurable,
                    format!(
                        "{directory}: after the start there is no log, and everything below \
                         {promised} was acknowledged or shown"
                    ),
                );
            }
            return;
        }
        // What was lost rightly: under `os`, and to damage.
        let must_survive = log.must_survive;
        let flushed_under_os = power_under_os && must_survive > start;
        let power_under_os = power_under_os || cut_at_damage;
        let promised = log.promised_end();
        let (acked_end, visible_end) = (log.acked_end, log.visible_end);
        let predicted = log
            .predicted_end
            .take()
            .filter(|_| !log.flush_failed && !is_damaged);
        log.segments.extend(found.segments.iter().cloned());
        let mut wrong = None;
        for (base, batch) in &found.batches {
            match log.batches.get(base) {
                Some(written) if written.is_or_undetectable(&batch.bytes) => {}
                _ if log.is_ghost(*base, &batch.bytes) => {}
                // What lies below the log start may be gone from the model already.
                None if batch.last_offset < start => {}
                Some(_) => {
                    wrong = Some(format!(
                        "the batch at {base} is not the one that was written"
                    ));
                    break;
                }
                None => {
                    wrong = Some(format!("there is a batch at {base} that was never written"));
                    break;
                }
            }
        }
        let missing = log
            .batches
            .range(..found.end.min(log.gaps_end))
            .find(|(at, batch)| {
                let wanted = **at >= start && !batch.may_be_gone();
                wanted && !found.batches.contains_key(at)
            })
            .map(|(at, batch)| {
                format!("the batch of offsets {at} to {} is gone", batch.last_offset)
            });
        let gaps_end = log.gaps_end;
        let first = found.batches.keys().next().copied().unwrap_or(found.end);
        let before = log.end;
        let vanishes = log.may_vanish;
        let is_users = log.is_users();
        let damaged: Vec<i64> = log.damaged().map(|(base, _)| *base).collect();
        let before_batches = std::mem::replace(&mut log.batches, found.batches);
        for base in damaged {
            if let Some(batch) = log.batches.get_mut(&base) {
                batch.damaged = true;
            }
        }
        for (base, batch) in before_batches {
            if log
                .batches
                .get(&base)
                .is_none_or(|kept| kept.bytes != batch.bytes)
            {
                log.add_ghost(base, batch.bytes);
            }
        }
        log.end = found.end;
        log.checked_end = 0;
        log.flushed_end = 0;
        if power_under_os {
            log.acked_end = log.acked_end.min(found.end);
            log.visible_end = log.visible_end.min(found.end);
            log.high_watermarks.fall_to(found.end);
        }
        if power_under_os && found.end < before.max(acked_end).max(visible_end) {
            self.may_have_lost(directory, found.end);
        }
        if found.end < before {
            self.mark(Mark::TornTailCut);
        }
        if cut_at_damage {
            self.mark(Mark::DamagedCut);
            if let Some((segment, position)) = place {
                self.must_be_named(&segment, position);
            }
        }
        if vanishes {
            return;
        }
        if let Some(wrong) = wrong {
            self.violate(Check::PrefixRecovery, format!("{directory}: {wrong}"));
        }
        if found.unsound_bytes > 0 {
            self.violate(
                Check::PrefixRecovery,
                format!(
                    "{directory}: recovery leaves {} bytes behind offset {} that are no sound \
                     continuation",
                    found.unsound_bytes, found.end
                ),
            );
        }
        if let Some(missing) = missing {
            self.violate(
                Check::CleanedKeepsLatest,
                format!("{directory}: after the start {missing}, which the cleaner left"),
            );
        }
        if first > start && first > 0 && first >= gaps_end && is_users {
            self.violate(
                Check::AckedDurable,
                format!(
                    "{directory}: after the start the log begins at {first} instead of {start}"
                ),
            );
        }
        if flushed_under_os {
            self.mark(Mark::FlushedSurvived);
        }
        if found.end < must_survive && !cut_at_damage && !is_damaged {
            self.violate(
                Check::AckedDurable,
                format!(
                    "{directory}: after the start the log ends at {}; everything below \
                     {must_survive} was acknowledged and flushed, as flush.messages says",
                    found.end
                ),
            );
        }
        if found.end < promised && !power_under_os {
            let check = if found.end < acked_end {
                Check::AckedDurable
            } else {
                Check::NothingVisibleThenLost
            };
            self.violate(
                check,
                format!(
                    "{directory}: after the start the log ends at {}; everything below {acked_end} \
                     was acknowledged, everything below {visible_end} was shown",
                    found.end
                ),
            );
        }
        if let Some(predicted) = predicted
            && predicted != found.end
        {
            self.violate(
                Check::RecoveryIdempotent,
                format!(
                    "{directory}: the files held a sound log up to offset {predicted}, and \
                     recovery kept it up to {}",
                    found.end
                ),
            );
        }
    }
}

impl LogModel {
    /// Until the first start is over, what there is may be thrown away and made anew. Where a failed
    /// flush left pages that are not on the disk, what reads see can change at any time, also while
    /// it is recovered.
    fn expect_recovery(&mut self, settled: bool, starts: Option<&LogStarts>, disk: &Disk) {
        let directory = &self.directory;
        let lasts = !self.is_damaged && !disk.has_lost_pages(&directory.as_str().into());
        let is_sure = settled && lasts && !self.may_vanish && !is_being_cleaned(directory, disk);
        let start = starts
            .filter(|_| is_sure)
            .and_then(|starts| starts.of(directory, disk));
        // A log that does not reach its start begins anew there: everything in it was deleted.
        self.predicted_end = start.map(|start| {
            read_log_from(start, directory, disk, self.gaps_end, None)
                .end
                .max(start)
        });
    }
}

/// Whether a cleaned segment is taking the place of others, which a start completes.
fn is_being_cleaned(directory: &str, disk: &Disk) -> bool {
    let entries = disk.entries(&FilePath::from(directory)).unwrap_or_default();
    entries
        .iter()
        .any(|entry| entry.name.ends_with(".log.swap"))
}

/// Reads a log's files as recovery should: batch after batch, across segments, up to the first that
/// is not sound or does not follow. Below `gaps_end` offsets may be missing. A batch that is known to
/// be damaged counts as what it was, as long as its bytes are there: if recovery has not read it, it
/// is still to be refused.
pub(super) fn read_log(
    directory: &str,
    disk: &Disk,
    gaps_end: i64,
    known: Option<&LogModel>,
) -> OnDisk {
    read_log_from(0, directory, disk, gaps_end, known)
}

/// The same without the segments that end at an offset or below it.
fn read_log_from(
    start: i64,
    directory: &str,
    disk: &Disk,
    gaps_end: i64,
    known: Option<&LogModel>,
) -> OnDisk {
    let known = known.filter(|log| log.is_damaged);
    let mut found = OnDisk::default();
    let path = FilePath::from(directory);
    let Ok(entries) = disk.entries(&path) else {
        return found;
    };
    let mut bases: Vec<(i64, FilePath)> = entries
        .iter()
        .filter_map(|entry| {
            let base = entry.name.strip_suffix(".log")?.parse().ok()?;
            Some((base, path.join(&entry.name)))
        })
        .collect();
    bases.sort();
    // A segment ends where the next one begins; the newest has no end yet.
    let ends_below = |next: &(i64, FilePath)| next.0 <= start;
    let below = bases
        .iter()
        .skip(1)
        .take_while(|next| ends_below(next))
        .count();
    let mut sound = true;
    for (i, (base, segment)) in bases.into_iter().skip(below).enumerate() {
        let bytes = disk.cached(&segment).unwrap_or_default();
        if i == 0 {
            found.end = base;
        }
        if !sound || base != found.end {
            sound = false;
            found.unsound_bytes += bytes.len() as u64 + 1;
            continue;
        }
        let mut position = 0;
        while position < bytes.len() {
            match batch::first(&bytes[position..]) {
                Ok(batch)
                    if batch.base_offset == found.end
                        || batch.base_offset > found.end && batch.last_offset < gaps_end =>
                {
                    found.batches.insert(
                        batch.base_offset,
                        ModelBatch {
                            last_offset: batch.last_offset,
                            bytes: Bytes::copy_from_slice(batch.bytes),
                            segment: segment.clone(),
                            position: position as u64,
                            cleaned: None,
                            damaged: false,
                        },
                    );
                    found.end = batch.last_offset + 1;
                    position += batch.bytes.len();
                }
                _ if let Some(batch) = known
                    .and_then(|log| log.batches.get(&found.end))
                    .filter(|batch| batch.is_at(&segment, position, bytes.len())) =>
                {
                    position += batch.bytes.len();
                    found.batches.insert(found.end, batch.clone());
                    found.end = batch.last_offset + 1;
                }
                _ => {
                    sound = false;
                    found.unsound_bytes += (bytes.len() - position) as u64;
                    break;
                }
            }
        }
        found.segments.push(segment);
    }
    found
}
