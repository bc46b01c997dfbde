//! The logs as they should be: what the broker issued, what of it was acknowledged, and what was
//! shown. Kept from effects and answers alone.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use odradek_core::ids::FilePath;
use odradek_core::time::Mono;

use super::Death;

/// All logs, by directory.
#[derive(Clone, Debug, Default)]
pub struct Models {
    logs: BTreeMap<String, LogModel>,
}

/// One log.
#[derive(Clone, Debug, Default)]
pub struct LogModel {
    /// Its directory.
    pub directory: String,
    /// Batches by base offset, in the order of the log.
    pub batches: BTreeMap<i64, ModelBatch>,
    /// Batches that were cut before anyone was told of them. A truncation that is not durable can
    /// bring them back, which does no harm above `promised_end`.
    pub ghosts: BTreeMap<i64, Vec<Bytes>>,
    /// The offset the next batch gets.
    pub end: i64,
    /// End of what was acknowledged.
    pub acked_end: i64,
    /// End of what anyone was shown: records, or a high watermark.
    pub visible_end: i64,
    /// The high watermarks that were answered.
    pub high_watermarks: Rising,
    /// The log starts that were answered.
    pub log_starts: Rising,
    /// The largest log start that was answered.
    pub log_start: i64,
    /// The largest log start that anyone asked for; above `log_start` it may have come true.
    pub log_start_asked: i64,
    /// How far retention may have raised the log start in this life, by clocks and configs that are others
    /// now.
    pub expired: i64,
    /// The segments that were created, opened or found in this life, and not removed.
    pub segments: BTreeSet<FilePath>,
    /// Someone asked for the topic's deletion: it may be gone at any time.
    pub may_vanish: bool,
    /// A flush of it failed in this life.
    pub flush_failed: bool,
    /// What was checked to be on the disk, so that nothing is compared twice.
    pub checked_end: i64,
    /// What was found to survive a power loss, likewise.
    pub flushed_end: i64,
    /// Under `os`: what is acknowledged from here on was appended under the `flush.messages` of now.
    pub flushes_from: i64,
    /// Under `os`: what a power loss must leave.
    pub must_survive: i64,
    /// What recovery should find, if that can be said.
    pub predicted_end: Option<i64>,
    /// It was not recovered yet in this life.
    pub is_loading: bool,
    /// The power was lost since it was last recovered.
    pub lost_power: bool,
    /// The end of what the cleaner was at: below it offsets may be missing.
    pub gaps_end: i64,
    /// One of its segments was changed on the disk.
    pub is_damaged: bool,
    /// A read of one of its files was misdirected in this life.
    pub misread: bool,
    /// Somebody read it or wrote to it in this life.
    pub served_in_life: bool,
}

/// A number that only rises, and when it was first told.
#[derive(Clone, Debug, Default)]
pub struct Rising {
    steps: Vec<(Mono, i64)>,
}

/// A batch as it was issued.
#[derive(Clone, Debug)]
pub struct ModelBatch {
    /// Offset of its last record.
    pub last_offset: i64,
    /// All of it.
    pub bytes: Bytes,
    /// The segment.
    pub segment: FilePath,
    /// Where in it.
    pub position: u64,
    /// What the cleaner made, or is about to make, of it. Both may be met.
    pub cleaned: Option<Cleaned>,
    /// Its bytes on the disk were changed.
    pub damaged: bool,
}

/// What the cleaner makes of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cleaned {
    /// Nothing.
    Gone,
    /// A batch with some of its records, or all.
    To(Bytes),
}

impl ModelBatch {
    /// What is there once the cleaner has done what it is at; `None` is nothing.
    #[must_use]
    pub const fn content(&self) -> Option<&Bytes> {
        match &self.cleaned {
            None => Some(&self.bytes),
            Some(Cleaned::To(bytes)) => Some(bytes),
            Some(Cleaned::Gone) => None,
        }
    }

    /// Whether these bytes are it.
    #[must_use]
    pub fn is(&self, bytes: &[u8]) -> bool {
        self.bytes == bytes || self.content().is_some_and(|cleaned| cleaned == bytes)
    }

    /// Whether it may be missing.
    #[must_use]
    pub fn may_be_gone(&self) -> bool {
        self.cleaned == Some(Cleaned::Gone)
    }
}

impl Models {
    /// The log in a directory; a new one if there is none.
    pub fn entry(&mut self, directory: &str) -> &mut LogModel {
        self.logs
            .entry(directory.to_owned())
            .or_insert_with(|| LogModel {
                directory: directory.to_owned(),
                ..LogModel::default()
            })
    }

    /// The log in a directory.
    #[must_use]
    pub fn get(&self, directory: &str) -> Option<&LogModel> {
        self.logs.get(directory)
    }

    /// The log in a directory.
    pub fn get_mut(&mut self, directory: &str) -> Option<&mut LogModel> {
        self.logs.get_mut(directory)
    }

    /// All logs.
    pub fn all(&self) -> impl Iterator<Item = &LogModel> {
        self.logs.values()
    }

    /// All logs.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut LogModel> {
        self.logs.values_mut()
    }

    /// A directory got another name: what it was is over.
    pub fn rename(&mut self, from: &str, _to: &str) {
        self.logs.remove(from);
    }

    /// A directory is being removed.
    pub fn forget(&mut self, directory: &str) {
        self.logs.remove(directory);
    }

    /// What is known of this life's files is over.
    pub fn process_ended(&mut self, death: Option<Death>) {
        for log in self.logs.values_mut() {
            log.is_loading = true;
            // A power loss is not made milder by a process crash that follows it.
            log.lost_power |= death == Some(Death::Power);
            log.flush_failed = false;
            log.checked_end = 0;
            log.flushed_end = 0;
            log.expired = 0;
            log.segments.clear();
        }
    }
}

impl Rising {
    /// What it had been told to be before an instant; `None` is now.
    #[must_use]
    pub fn before(&self, instant: Option<Mono>) -> i64 {
        let known = match instant {
            Some(instant) => self.steps.partition_point(|(at, _)| *at < instant),
            None => self.steps.len(),
        };
        known
            .checked_sub(1)
            .and_then(|last| self.steps.get(last))
            .map_or(0, |(_, value)| *value)
    }

    /// It is told to be this now.
    pub fn rise(&mut self, now: Mono, value: i64) {
        if value > self.before(None) {
            self.steps.push((now, value));
        }
    }

    /// What was told above this is taken back.
    pub fn fall_to(&mut self, value: i64) {
        for step in &mut self.steps {
            step.1 = step.1.min(value);
        }
    }
}

impl LogModel {
    /// The newest segment. It may be empty, so the last batch does not tell.
    #[must_use]
    pub fn newest_segment(&self) -> Option<&FilePath> {
        self.segments.last()
    }

    /// The batch that holds an offset.
    #[must_use]
    pub fn batch_of(&self, offset: i64) -> Option<(i64, &ModelBatch)> {
        let (base, batch) = self.batches.range(..=offset).next_back()?;
        (batch.last_offset >= offset).then_some((*base, batch))
    }

    /// Whether there may be nothing between two offsets: the cleaner took it.
    #[must_use]
    pub fn may_skip(&self, from: i64, to: i64) -> bool {
        let mut between = self.batches.range(from..to);
        to <= self.gaps_end && between.all(|(_, batch)| batch.may_be_gone())
    }

    /// Forgets everything from an offset on.
    pub fn cut_at(&mut self, offset: i64) {
        let cut = self.batches.split_off(&offset);
        for (base, batch) in cut {
            self.add_ghost(base, batch.bytes);
        }
        self.end = self.end.min(offset);
        self.checked_end = self.checked_end.min(offset);
        self.flushed_end = self.flushed_end.min(offset);
        self.flushes_from = self.flushes_from.min(offset);
    }

    /// Remembers a batch that may come back.
    pub fn add_ghost(&mut self, base: i64, bytes: Bytes) {
        let ghosts = self.ghosts.entry(base).or_default();
        if !ghosts.contains(&bytes) {
            ghosts.push(bytes);
        }
    }

    /// Whether a batch that was cut has come back where that does no harm.
    #[must_use]
    pub fn is_ghost(&self, base: i64, bytes: &Bytes) -> bool {
        base >= self.promised_end()
            && self
                .ghosts
                .get(&base)
                .is_some_and(|ghosts| ghosts.contains(bytes))
    }

    /// What must be there whatever happens.
    #[must_use]
    pub fn promised_end(&self) -> i64 {
        self.acked_end.max(self.visible_end)
    }

    /// Bytes of whole batches from the one that holds `offset` on, below `limit`; no more than
    /// `most`.
    #[must_use]
    pub fn bytes_between(&self, offset: i64, limit: i64, most: u64) -> u64 {
        let from = self.batch_of(offset).map_or(offset, |(base, _)| base);
        let mut sum = 0;
        for batch in self.batches.range(from..).map(|(_, batch)| batch) {
            if sum >= most || batch.last_offset >= limit {
                break;
            }
            sum += batch.bytes.len() as u64;
        }
        sum.min(most)
    }
}
