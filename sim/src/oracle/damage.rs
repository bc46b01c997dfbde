//! DamageDetected, SaysSoOnce, ReadableWhileReadOnly, and what damage of the disk excuses.
//!
//! The budget of the model in [`disk`](crate::disk): damage to the only copy permits the loss of what
//! was hit, if it is *detected*: whoever asks for it is refused with an error, or recovery cuts it
//! off, and the broker's log names the file and the place. What is not hit is judged as ever; and no
//! damaged byte is ever served, since what a process has in its cache shows no damage, and the CRC is
//! checked at the first read.
//!
//! The one exception is the leader epoch in a batch's header (4 bytes), which no checksum covers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use odradek_core::ids::FilePath;
use odradek_core::log::Damage as Found;
use odradek_core::report::{Level, Report};
use odradek_core::time::Mono;

use super::model::{LogModel, ModelBatch};
use super::{Check, METADATA_PREFIX, Mark, Oracle, is_log};
use crate::disk::damage::Damage;

/// What is known of damage, and of what the broker says of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Damages {
    /// Files whose bytes were changed. Derived ones until they are written anew.
    files: BTreeSet<FilePath>,
    /// What the broker's log says about those files.
    told: Vec<String>,
    /// Partitions that are out of service, rightly.
    given_up: BTreeSet<String>,
    /// Directories whose filesystem was reported to be read-only, in this life.
    told_read_only: BTreeSet<String>,
    /// The filesystem is read-only.
    pub(super) read_only: bool,
    /// Something may have failed to be read in this life.
    pub(super) reads_fail: bool,
}

/// The bytes of a batch that nothing guards: its leader epoch.
const UNGUARDED: Range<usize> = 12..16;

impl Oracle {
    /// Bytes on the disk are not what was written there.
    pub fn damaged(&mut self, damage: &Damage) {
        self.disk_is_ill();
        self.damages.files.insert(damage.path.clone());
        if !is_log(&damage.path) {
            return;
        }
        let directory = damage.path.parent().as_str().to_owned();
        let Some(log) = self.models.get_mut(&directory) else {
            return;
        };
        let mut first = None;
        for (base, batch) in &mut log.batches {
            let (from, to) = (batch.position, batch.position + batch.bytes.len() as u64);
            if batch.segment == damage.path && from < damage.at.end && to > damage.at.start {
                batch.damaged = true;
                first = first.or(Some(*base));
            }
        }
        log.is_damaged = true;
        if let Some(first) = first {
            self.may_have_lost(&directory, first);
        }
    }

    /// A read gave what is somewhere else: this log may be found damaged in this life.
    pub(super) fn misread(&mut self, path: &FilePath) {
        let directory = path.parent();
        self.disk_is_ill();
        self.damages.files.insert(path.clone());
        if let Some(log) = self.models.get_mut(directory.as_str()) {
            log.misread = true;
        }
    }

    /// A log went offline because of damage.
    pub(super) fn offline(&mut self, directory: &str, found: &Found) {
        if self.damages.given_up.contains(directory) {
            return;
        }
        let may = self
            .models
            .get(directory)
            .is_some_and(|log| log.is_damaged || log.misread);
        if !may {
            self.violate(
                Check::PrefixRecovery,
                format!("nothing damaged the disk, and a log is offline: {found}"),
            );
            return;
        }
        self.mark(Mark::PartitionOffline);
        self.damages.given_up.insert(directory.to_owned());
        self.may_have_lost(directory, 0);
        if let Some(log) = self.models.get_mut(directory) {
            log.is_loading = false;
            log.may_vanish = true;
        }
        self.told += 1;
        self.must_be_told(&found.file, found.position.0);
    }

    /// The broker says something to its operator.
    pub fn reported(&mut self, report: &Report) {
        self.check_alarm(report);
        if report.level > Level::Warn {
            if report.message.ends_with("indexes rebuilt") {
                self.mark(Mark::IndexRebuilt);
            }
            return;
        }
        let names = |path: &FilePath| report.message.contains(path.as_str());
        if self.damages.files.iter().any(names) {
            self.damages.told.push(report.message.clone());
        }
        let says_read_only = report.message.contains(" reopening ")
            && report.message.contains("the filesystem is read-only");
        if report.room == "log" && says_read_only {
            let directory = report.message.split_whitespace().next().unwrap_or_default();
            // What the metadata say is read again with each attempt, by a log of its own.
            if directory.contains(METADATA_PREFIX) {
                return;
            }
            if !self.damages.told_read_only.insert(directory.to_owned()) {
                self.violate(
                    Check::SaysSoOnce,
                    format!("once more in this life: {}", report.message),
                );
            }
        }
    }

    /// What the broker's log must have said: that something is wrong with this file, there.
    pub(super) fn must_be_told(&mut self, path: &FilePath, position: u64) {
        let place = position.to_string();
        let told = self.damages.told.iter().any(|message| {
            let mut words = message.split(|c: char| !c.is_ascii_digit());
            message.contains(path.as_str()) && words.any(|word| word == place)
        });
        if !told {
            self.violate(
                Check::DamageDetected,
                format!(
                    "{path} is damaged at byte {position}, and the broker's log does not say so"
                ),
            );
        }
    }

    /// Whether clients may wait for what cannot be read.
    #[must_use]
    pub fn has_damage(&self) -> bool {
        !self.damages.given_up.is_empty() || self.models.all().any(|log| log.is_damaged)
    }

    /// The same of what recovery cut: it names the first place that is wrong in the segment.
    pub(super) fn must_be_named(&mut self, segment: &FilePath, position: u64) {
        let named = |message: &String| message.contains(segment.as_str());
        if !self.damages.told.iter().any(named) {
            self.must_be_told(segment, position);
        }
    }

    /// What can be read of no partition, by topic and partition: offsets of batches, first and last;
    /// all of them, if the partition is out of service.
    #[must_use]
    pub fn unreadable(&self) -> BTreeMap<String, Vec<(i64, i64)>> {
        let mut unreadable: BTreeMap<String, Vec<(i64, i64)>> = BTreeMap::new();
        for log in self.models.all().filter(|log| log.is_damaged) {
            let ranges = unreadable.entry(log.directory.clone()).or_default();
            ranges.extend(
                log.damaged()
                    .map(|(base, batch)| (*base, batch.last_offset)),
            );
            // Where the length in a header is wrong, nothing leads to the batches behind it, up to
            // the next one that the index knows.
            ranges.extend(log.damaged().map(|(base, batch)| {
                let behind = log.batches.range(*base..);
                let in_segment = behind.take_while(|(_, next)| next.segment == batch.segment);
                let last = in_segment.last();
                (
                    *base,
                    last.map_or(batch.last_offset, |(_, last)| last.last_offset),
                )
            }));
        }
        for directory in &self.damages.given_up {
            unreadable.insert(directory.clone(), vec![(0, i64::MAX)]);
        }
        unreadable
    }

    /// The last reader was refused what was damaged: that must have been said.
    pub(super) fn refused_reader(&mut self, directory: &str, offset: i64) {
        self.mark(Mark::DamagedRefused);
        let place = self.models.get(directory).and_then(|log| {
            let (_, batch) = log.batch_of(offset)?;
            // Behind the first one that was hit, the others may not be found.
            let mut hit = log.damaged().map(|(_, hit)| hit);
            let first = hit.find(|hit| hit.segment == batch.segment);
            let is_first = first.is_some_and(|hit| hit.position == batch.position);
            Some((batch.segment.clone(), batch.position, is_first))
        });
        if self.damages.given_up.contains(directory) {
            return;
        }
        if let Some((segment, position, is_first)) = place {
            let named = |message: &String| message.contains(segment.as_str());
            if is_first || !self.damages.told.iter().any(named) {
                self.must_be_told(&segment, position);
            }
        }
    }

    /// Whether a file's bytes may not be what they should.
    pub(super) fn may_be_damaged(&self, path: &FilePath) -> bool {
        self.damages.files.contains(path)
    }

    /// The filesystem takes no changes any more.
    pub(super) fn turned_read_only(&mut self) {
        self.damages.read_only = true;
        for log in self.models.all_mut() {
            log.flush_failed = true;
        }
    }

    /// Somebody is told that a partition cannot be read.
    pub(super) fn read_refused(&mut self, directory: &str) {
        let damages = &self.damages;
        let served = self
            .models
            .get(directory)
            .is_some_and(|log| log.served_in_life && !log.is_damaged && !log.misread);
        if damages.read_only && served && !damages.reads_fail && !self.is_stopping {
            self.violate(
                Check::ReadableWhileReadOnly,
                format!(
                    "{directory} was read or written in this life, the filesystem turned \
                     read-only, and a fetch is refused with KAFKA_STORAGE_ERROR"
                ),
            );
        }
    }

    /// The process stands still until then: what was due meanwhile comes right after.
    pub fn paused(&mut self, until: Mono) {
        self.paused_until = self.paused_until.max(until);
    }

    /// A process ended.
    pub(super) fn damage_process_ended(&mut self) {
        self.damages.told_read_only.clear();
        self.damages.read_only = false;
        self.damages.reads_fail = false;
        for log in self.models.all_mut() {
            log.misread = false;
            log.served_in_life = false;
        }
    }
}

impl LogModel {
    /// The batches that were hit.
    pub(super) fn damaged(&self) -> impl Iterator<Item = (&i64, &ModelBatch)> {
        self.batches.iter().filter(|(_, batch)| batch.damaged)
    }

    /// Whether a start may find the log to end there: a damaged batch begins there, or a read was
    /// misdirected.
    pub(super) fn may_end_at(&self, offset: i64) -> bool {
        self.misread || self.batches.get(&offset).is_some_and(|batch| batch.damaged)
    }
}

impl ModelBatch {
    /// Whether it was damaged, and is to be found there in a file of this length.
    pub(super) fn is_at(&self, segment: &FilePath, position: usize, length: usize) -> bool {
        self.damaged
            && self.segment == *segment
            && self.position == position as u64
            && position + self.bytes.len() <= length
    }

    /// Whether these bytes are it, or what damage that no checksum can show made of it.
    pub(super) fn is_or_undetectable(&self, bytes: &[u8]) -> bool {
        self.is(bytes)
            || self.damaged && self.bytes.len() == bytes.len() && {
                let mut differences = self.bytes.iter().zip(bytes).enumerate();
                differences.all(|(at, (good, found))| good == found || UNGUARDED.contains(&at))
            }
    }
}
