//! OnlyExpiredDeleted, and its other half, that what is expired goes once faults stop (Liveness): how far
//! retention may raise the start of a log and how far it must, worked out from the batches of the model,
//! the configs that may be in force, and the wall clock.
//!
//! A log start that rises is seen when `log.checkpoint` is about to be written: nobody is told of it, and
//! nothing goes, before that is durable. From then on it counts as asked for, as if by DeleteRecords, and
//! so everything below it may be gone. By time whole segments go of which every record is older than
//! `retention.ms`; by size, whole segments as long as `retention.bytes` stay of what is safe, but not the
//! one that takes records. What lies below the log start goes too, once it is closed.

use std::fmt;

use odradek_core::broker::Broker;
use odradek_core::ids::FilePath;
use odradek_core::log::LogState;

use super::admin::Configs;
use super::log_starts::LogStarts;
use super::model::{LogModel, ModelBatch};
use super::{Check, Mark, Oracle};
use crate::batch;
use crate::disk::Disk;

/// What a topic's logs keep at least or at most, of what may be in force; `None` is everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keeps {
    /// Records that are not older, in milliseconds.
    ms: Option<u64>,
    /// So many bytes.
    bytes: Option<u64>,
}

/// What should have been done by now. It is asked for again and again until there is none, so the words are
/// only found for it where someone reads them.
#[derive(Clone, Debug)]
pub enum Overdue {
    /// A segment is there.
    Expired {
        /// The first one.
        first: FilePath,
        /// Everything below this offset is expired.
        must: i64,
        /// Why.
        keeps: Keeps,
    },
    /// Records are not flushed.
    Unflushed {
        /// The directory of their log.
        directory: String,
        /// Up to where it is flushed.
        flushed: i64,
        /// Where it ends.
        end: i64,
        /// How long they may wait, in milliseconds.
        limit: u64,
    },
}

impl fmt::Display for Overdue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired { first, must, keeps } => write!(
                f,
                "{first} is there, and everything below offset {must} is expired ({keeps:?})"
            ),
            Self::Unflushed {
                directory,
                flushed,
                end,
                limit,
            } => write!(
                f,
                "{directory} is flushed up to {flushed} and ends at {end}, under flush.ms={limit}"
            ),
        }
    }
}

/// How far the start of a log may rise, or must.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Expired {
    by_time: i64,
    by_size: i64,
}

/// A segment, as the model's batches have it.
#[derive(Clone, Copy, Debug)]
struct Segment<'a> {
    path: &'a FilePath,
    /// The offset that follows its last record.
    end: i64,
    /// Its largest timestamp, or -1.
    newest: i64,
    /// Its bytes that are safe, and how many of these the cleaner leaves.
    bytes: u64,
    cleaned_bytes: u64,
}

/// Which bound is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// What may be done, by the smallest limit that may be in force.
    May,
    /// What must be done, by the largest.
    Must,
}

impl Oracle {
    /// The wall clock is about to step. What was expired before may still go.
    pub fn wall_steps(&mut self, by_ms: i64, disk: &Disk) {
        self.note_expired(disk);
        self.group_clock_steps(by_ms);
    }

    /// Remembers what retention may take by now: clocks and configs are about to change, and it may have
    /// decided already.
    pub(super) fn note_expired(&mut self, disk: &Disk) {
        for directory in self.partitions() {
            let expired = self.expired(&directory, Bound::May, disk);
            if let Some(log) = self.models.get_mut(&directory) {
                log.expired = log.expired.max(expired.by_time).max(expired.by_size);
            }
        }
    }

    /// `log.checkpoint` is about to be written: the log starts in it may come true.
    pub(super) fn log_starts_written(&mut self, bytes: &[u8], disk: &Disk) {
        let Some(starts) = LogStarts::parse(bytes) else {
            let what = "a checkpoint is written that makes no sense";
            return self.violate(Check::OnlyExpiredDeleted, what);
        };
        for directory in self.partitions() {
            let Some(start) = starts.of(&directory, disk) else {
                continue;
            };
            let known = self
                .models
                .get(&directory)
                .map_or(0, |log| log.log_start.max(log.log_start_asked));
            if start > known {
                self.log_start_rises(&directory, known, start, disk);
            }
        }
    }

    /// Nobody asked for this log start.
    fn log_start_rises(&mut self, directory: &str, known: i64, start: i64, disk: &Disk) {
        let Expired { by_time, by_size } = self.expired(directory, Bound::May, disk);
        let Some(log) = self.models.get_mut(directory) else {
            return;
        };
        log.log_start_asked = start;
        if !log.is_judged() {
            return;
        }
        let before = log.expired;
        let is_whole = log.gaps_end > 0
            || start == log.end
            || log
                .segments(i64::MAX)
                .iter()
                .any(|segment| segment.end == start);
        if start <= by_time {
            self.mark(Mark::ExpiredByTime);
        } else if start <= by_size {
            self.mark(Mark::ExpiredBySize);
        }
        if start > before.max(by_time).max(by_size) {
            self.violate(
                Check::OnlyExpiredDeleted,
                format!(
                    "{directory}: the log start rises from {known} to {start}; nobody asked for that, \
                     and by age only what is below {by_time} may go, by size what is below {by_size}, \
                     and before the clock or the configs changed what is below {before}"
                ),
            );
        } else if !is_whole {
            self.violate(
                Check::OnlyExpiredDeleted,
                format!(
                    "{directory}: the log start rises from {known} to {start}, which nobody asked for \
                     and where no segment ends"
                ),
            );
        }
    }

    /// Faults are over: what is expired and still there, or not flushed in time.
    pub fn overdue(&mut self, broker: &Broker, disk: &Disk) -> Option<Overdue> {
        let serves: Vec<&str> = broker
            .partitions()
            .map(|(_, partition)| partition.log())
            .filter(|log| *log.state() == LogState::Ready)
            .map(|log| log.dir().as_str())
            .collect();
        for directory in self.partitions() {
            let must = self.expired(&directory, Bound::Must, disk);
            let must = must.by_time.max(must.by_size);
            let log = self.models.get(&directory);
            let log = log.filter(|log| log.is_judged() && serves.contains(&log.directory.as_str()));
            let Some(first) = log.and_then(|log| log.segments.first().cloned()) else {
                continue;
            };
            let base: i64 = first.name().trim_end_matches(".log").parse().unwrap_or(0);
            if base < must {
                let keeps = self.keeps(&directory, Bound::Must);
                return Some(Overdue::Expired { first, must, keeps });
            }
            if let Some(unflushed) = self.unflushed(&directory, disk) {
                return Some(unflushed);
            }
        }
        None
    }

    /// The directories of all partitions.
    fn partitions(&self) -> Vec<String> {
        let logs = self.models.all().filter(|log| log.is_users());
        logs.map(|log| log.directory.clone()).collect()
    }

    /// How far the start of a log may rise now by retention, or must.
    fn expired(&mut self, directory: &str, bound: Bound, disk: &Disk) -> Expired {
        let keeps = self.keeps(directory, bound);
        if keeps == Keeps::default() {
            return Expired::default();
        }
        let (safe, _) = self.safe_end(directory, disk);
        let wall = self.wall;
        self.models
            .get(directory)
            .map_or(Expired::default(), |log| {
                log.expired_by(keeps, bound, wall, safe)
            })
    }

    /// What a log keeps at least, of all that may be in force, or at most.
    fn keeps(&self, directory: &str, bound: Bound) -> Keeps {
        let topic = directory.rsplit_once('-').map_or("", |(topic, _)| topic);
        let policies = self.configs.values(topic, "cleanup.policy");
        let mut deletes = policies.map(|policy| match policy {
            Some(words) => words.split(',').any(|word| word == "delete"),
            None => self.log_config.delete,
        });
        let deletes = match bound {
            Bound::May => deletes.any(|deletes| deletes),
            Bound::Must => deletes.all(|deletes| deletes),
        };
        if !deletes || topic.starts_with("__") {
            return Keeps::default();
        }
        Keeps {
            ms: limit(
                &self.configs,
                topic,
                "retention.ms",
                self.log_config.retention_ms,
                bound,
            ),
            bytes: limit(
                &self.configs,
                topic,
                "retention.bytes",
                self.log_config.retention_bytes,
                bound,
            ),
        }
    }
}

/// The smallest value that a limit may have, or the largest; `None` is no limit.
pub(super) fn limit(
    configs: &Configs,
    topic: &str,
    name: &str,
    default: Option<u64>,
    bound: Bound,
) -> Option<u64> {
    let possible = configs.values(topic, name).filter_map(|value| match value {
        None => Some(default),
        // What is no number was refused.
        Some(text) => text.parse::<i64>().ok().map(|n| u64::try_from(n).ok()),
    });
    let possible = possible.map(|limit| limit.unwrap_or(u64::MAX));
    let chosen = match bound {
        Bound::May => possible.min(),
        Bound::Must => possible.max(),
    };
    chosen.filter(|limit| *limit < u64::MAX)
}

impl LogModel {
    /// Whether it is not going away, and nothing damaged it.
    pub(super) const fn is_judged(&self) -> bool {
        !self.may_vanish && !self.is_damaged && !self.misread
    }

    /// Its segments, by what is written and lies below `safe`.
    fn segments(&self, safe: i64) -> Vec<Segment<'_>> {
        let mut segments: Vec<Segment<'_>> = Vec::new();
        for batch in self.batches.values() {
            let path = &batch.segment;
            // Mostly the one of the batch before.
            let place = match segments.last() {
                Some(last) if last.path == path => segments.len() - 1,
                _ => segments
                    .binary_search_by_key(&path, |segment| segment.path)
                    .unwrap_or_else(|place| {
                        let segment = Segment {
                            path,
                            end: 0,
                            newest: -1,
                            bytes: 0,
                            cleaned_bytes: 0,
                        };
                        segments.insert(place, segment);
                        place
                    }),
            };
            let segment = &mut segments[place];
            segment.end = segment.end.max(batch.last_offset + 1);
            segment.newest = segment.newest.max(newest_of(batch));
            if batch.last_offset < safe {
                let cleaned = batch.content().map_or(0, |bytes| bytes.len()) as u64;
                segment.cleaned_bytes += cleaned;
                segment.bytes += cleaned.max(batch.bytes.len() as u64);
            }
        }
        segments
    }

    fn expired_by(&self, keeps: Keeps, bound: Bound, wall: i64, safe: i64) -> Expired {
        let known = match bound {
            Bound::May => self.log_start.max(self.log_start_asked),
            // What somebody asked for may have been refused.
            Bound::Must => self.log_start,
        };
        let segments = self.segments(safe);
        let takes_records = |segment: &Segment<'_>| Some(segment.path) == self.newest_segment();
        let mut expired = Expired::default();
        for segment in &segments {
            let age = u64::try_from(wall - segment.newest).unwrap_or(0);
            let is_old = segment.newest >= 0 && keeps.ms.is_some_and(|ms| age > ms);
            // One that takes records is closed, if all of it is old. That there is a next one need not be
            // on the disk.
            let is_deleted = segment.end <= known && !takes_records(segment);
            if segment.end > safe || !(is_old || is_deleted) {
                break;
            }
            expired.by_time = segment.end;
        }
        let mut left: u64 = segments.iter().map(|s| s.size(bound)).sum();
        for segment in &segments {
            left -= segment.size(bound);
            let is_surplus = keeps.bytes.is_some_and(|bytes| left >= bytes);
            if segment.end > safe || takes_records(segment) || !is_surplus && segment.end > known {
                break;
            }
            expired.by_size = segment.end;
        }
        expired
    }
}

impl Segment<'_> {
    /// What it counts for. What the cleaner is about to take may be counted or not.
    const fn size(&self, bound: Bound) -> u64 {
        match bound {
            Bound::May => self.bytes,
            Bound::Must => self.cleaned_bytes,
        }
    }
}

fn newest_of(batch: &ModelBatch) -> i64 {
    batch
        .content()
        .map_or(-1, |bytes| batch::max_timestamp_of(bytes))
}
