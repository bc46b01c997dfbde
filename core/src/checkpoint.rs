//! The checkpoint file: each log's recovery point, log start offset and cleaner point, keyed by topic
//! id.
//!
//! `log.checkpoint` is text: a line with the format's version, a line for each log (topic id,
//! partition, log start offset, below which offset there may be gaps, which offset is not cleaned
//! yet, recovery point), and a last line with the CRC-32C of what is above
//! it. It is replaced whole, so that what was durable before stays so.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use bytes::Bytes;

use crate::context::{Context, LogId, Owner};
use crate::ids::{FilePath, Offset, OperationId, TopicId};
use crate::input::DiskError;
use crate::log::{CleanerPoint, Log, LogState, RecoveryPoint};
use crate::metadata::store::replace_file;
use crate::partition::PartitionKey;
use crate::report::{Level, Seldom};
use crate::sequence::{Progress, Sequence};
use crate::time::{Mono, Now};

/// The file's name in the data directory.
pub(crate) const FILE: &str = "log.checkpoint";

const HEADER: &str = "odradek log checkpoint v2";

/// Without cleaner points.
const HEADER_V1: &str = "odradek log checkpoint v1";

/// How long to wait after a write of the file failed.
const RETRY_MS: u64 = 1000;

/// The file's content, what is on its way into it, and what waits for that.
#[derive(Debug, Default)]
pub(crate) struct Checkpoint {
    entries: BTreeMap<PartitionKey, Entry>,
    /// Something changed since the last write began.
    wanted_at: Option<Mono>,
    writing: Option<(Sequence, Vec<Durable>)>,
    durable: Vec<Durable>,
    /// Of writes that failed.
    told: Seldom,
}

/// What became durable of a log that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durable {
    /// Its log start offset.
    LogStart(LogId, Offset),
    /// Below which offset there may be gaps.
    GapsEnd(LogId, Offset),
}

/// What the file says of one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) log_start_offset: Offset,
    pub(crate) cleaner_point: CleanerPoint,
    pub(crate) recovery_point: RecoveryPoint,
}

impl Checkpoint {
    /// What the file said at the start.
    pub(crate) fn load(&mut self, entries: BTreeMap<PartitionKey, Entry>) {
        self.entries = entries;
    }

    /// What the file said, or will say, of a log.
    pub(crate) fn entry(&self, key: PartitionKey) -> Option<Entry> {
        self.entries.get(&key).copied()
    }

    /// Write the file soon.
    pub(crate) fn want(&mut self, now: Now) {
        self.wanted_at = Some(self.wanted_at.map_or(now.mono, |at| at.min(now.mono)));
    }

    /// Whether to write the file now.
    pub(crate) fn is_due(&self, now: Now) -> bool {
        self.writing.is_none() && self.wanted_at.is_some_and(|at| at <= now.mono)
    }

    /// Whether nothing is on its way and nothing wants to be.
    pub(crate) const fn is_idle(&self) -> bool {
        self.writing.is_none() && self.wanted_at.is_none()
    }

    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        self.wanted_at.filter(|_| self.writing.is_none())
    }

    /// Writes the file from what the logs say. A log that is not there, or cannot say, keeps its
    /// entry: what is offline now must be held against its recovery point at the next start too.
    pub(crate) fn write<'a>(
        &mut self,
        cx: &mut Context<'_>,
        logs: impl Iterator<Item = (PartitionKey, &'a Log, Offset)>,
    ) {
        self.wanted_at = None;
        let mut waited_for = Vec::new();
        for (key, log, wanted_start) in logs {
            match log.state() {
                LogState::Loading | LogState::Offline(_) => continue,
                LogState::Ready
                | LogState::StorageFailed(_)
                | LogState::Reopening(_)
                | LogState::Closed => {}
            }
            let log_start_offset = wanted_start.max(log.log_start_offset());
            if log_start_offset > log.log_start_offset() {
                waited_for.push(Durable::LogStart(log.id(), log_start_offset));
            }
            let recovery_point = log.recovery_point();
            let cleaner_point = log.cleaner_point();
            if log.is_cleaning() {
                waited_for.push(Durable::GapsEnd(log.id(), cleaner_point.gaps_end));
            }
            self.entries.insert(
                key,
                Entry {
                    log_start_offset,
                    cleaner_point,
                    recovery_point,
                },
            );
        }
        let bytes = encode(&self.entries);
        let sequence = Sequence::start(
            cx,
            Owner::Broker,
            replace_file(&FilePath::from(FILE), bytes),
        );
        self.writing = Some((sequence, waited_for));
    }

    /// A topic is gone, and its entries with it.
    pub(crate) fn forget(&mut self, key: PartitionKey) {
        self.entries.remove(&key);
    }

    /// A file operation ended.
    pub(crate) fn managed(
        &mut self,
        cx: &mut Context<'_>,
        operation: OperationId,
        result: &Result<(), DiskError>,
    ) {
        let Some((sequence, waited_for)) = &mut self.writing else {
            return;
        };
        match sequence.complete(cx, operation, result) {
            Progress::NotMine | Progress::Running => {}
            Progress::Done => {
                self.durable.append(waited_for);
                self.writing = None;
            }
            Progress::Failed(error) => {
                if self.told.tells(cx.now.mono) {
                    cx.report(
                        Level::Warn,
                        "checkpoint",
                        format!(
                            "cannot write the checkpoint, trying again every {RETRY_MS} ms: {error}"
                        ),
                    );
                }
                self.writing = None;
                self.wanted_at = Some(cx.now.mono.plus_ms(RETRY_MS));
            }
        }
    }

    /// What became durable since the last call.
    pub(crate) fn take_durable(&mut self) -> Vec<Durable> {
        core::mem::take(&mut self.durable)
    }
}

fn encode(entries: &BTreeMap<PartitionKey, Entry>) -> Bytes {
    let mut text = String::with_capacity(64 * (entries.len() + 2));
    text.push_str(HEADER);
    text.push('\n');
    for (key, entry) in entries {
        let PartitionKey { topic, index } = key;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{topic} {index} {} {} {} {}",
            entry.log_start_offset,
            entry.cleaner_point.gaps_end,
            entry.cleaner_point.first_dirty,
            entry.recovery_point
        );
    }
    let crc = crc32c::crc32c(text.as_bytes());
    let _ = writeln!(text, "crc {crc:08x}");
    Bytes::from(text)
}

/// Reads the file. The error says what is wrong with it.
pub(crate) fn decode(bytes: &[u8]) -> Result<BTreeMap<PartitionKey, Entry>, &'static str> {
    let text = core::str::from_utf8(bytes).map_err(|_| "it is not text")?;
    let has_cleaner_points = match text.lines().next() {
        Some(HEADER) => true,
        Some(HEADER_V1) => false,
        _ => return Err("it is of an unknown format version"),
    };
    let (body, crc) = text
        .strip_suffix('\n')
        .and_then(|text| text.rsplit_once("\ncrc "))
        .ok_or("its last line is missing")?;
    let covered = text.get(..=body.len()).unwrap_or_default();
    if u32::from_str_radix(crc, 16) != Ok(crc32c::crc32c(covered.as_bytes())) {
        return Err("its CRC does not hold");
    }
    body.lines()
        .skip(1)
        .map(|line| entry(line, has_cleaner_points).ok_or("a line makes no sense"))
        .collect()
}

fn entry(line: &str, has_cleaner_point: bool) -> Option<(PartitionKey, Entry)> {
    let mut fields = line.splitn(if has_cleaner_point { 6 } else { 4 }, ' ');
    let topic = TopicId::parse(fields.next()?)?;
    let index = fields.next()?.parse().ok()?;
    let log_start_offset = Offset(fields.next()?.parse().ok()?);
    let mut cleaner_point = CleanerPoint::default();
    if has_cleaner_point {
        cleaner_point.gaps_end = Offset(fields.next()?.parse().ok()?);
        cleaner_point.first_dirty = Offset(fields.next()?.parse().ok()?);
    }
    let recovery_point = RecoveryPoint::parse(fields.next()?)?;
    Some((
        PartitionKey { topic, index },
        Entry {
            log_start_offset,
            cleaner_point,
            recovery_point,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> BTreeMap<PartitionKey, Entry> {
        (0..3)
            .map(|index| {
                let key = PartitionKey {
                    topic: TopicId([5; 16]),
                    index,
                };
                let start = Offset(i64::from(index));
                let recovery_point = RecoveryPoint::start_of(start);
                (
                    key,
                    Entry {
                        log_start_offset: start,
                        cleaner_point: CleanerPoint {
                            gaps_end: start.plus(20),
                            first_dirty: start.plus(10),
                        },
                        recovery_point,
                    },
                )
            })
            .collect()
    }

    #[test]
    fn a_checkpoint_reads_back() {
        assert_eq!(decode(&encode(&entries())), Ok(entries()));
        assert_eq!(decode(&encode(&BTreeMap::new())), Ok(BTreeMap::new()));
    }

    #[test]
    fn a_checkpoint_from_before_there_was_a_cleaner_reads_as_one_that_nothing_was_cleaned_by() {
        let mut text = std::format!("{HEADER_V1}\n");
        for (key, entry) in entries() {
            let PartitionKey { topic, index } = key;
            let (start, point) = (entry.log_start_offset, entry.recovery_point);
            text.push_str(&std::format!("{topic} {index} {start} {point}\n"));
        }
        let crc = crc32c::crc32c(text.as_bytes());
        text.push_str(&std::format!("crc {crc:08x}\n"));
        let mut expected = entries();
        for entry in expected.values_mut() {
            entry.cleaner_point = CleanerPoint::default();
        }
        assert_eq!(decode(text.as_bytes()), Ok(expected));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = encode(&entries());
        for place in 0..bytes.len() {
            let mut flipped = bytes.to_vec();
            flipped[place] ^= 1;
            assert_ne!(decode(&flipped), Ok(entries()), "flipped at {place}");
            assert!(decode(&bytes[..place]).is_err(), "cut at {place}");
        }
    }
}
