//! The checkpoint file: each log's recovery point and log start offset, keyed by topic id.
//!
//! `log.checkpoint` is text: a line with the format's version, a line for each log (topic id,
//! partition, log start offset, recovery point), and a last line with the CRC-32C of what is above
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
use crate::log::{Log, LogState, RecoveryPoint};
use crate::metadata::store::replace_file;
use crate::partition::PartitionKey;
use crate::report::Level;
use crate::sequence::{Progress, Sequence};
use crate::time::{Mono, Now};

/// The file's name in the data directory.
pub(crate) const FILE: &str = "log.checkpoint";

const HEADER: &str = "odradek log checkpoint v1";

/// How long to wait after a write of the file failed.
const RETRY_MS: u64 = 1000;

/// The file's content, what is on its way into it, and what waits for that.
#[derive(Debug, Default)]
pub(crate) struct Checkpoint {
    entries: BTreeMap<PartitionKey, Entry>,
    /// Something changed since the last write began.
    wanted_at: Option<Mono>,
    writing: Option<(Sequence, Vec<(LogId, Offset)>)>,
    durable: Vec<(LogId, Offset)>,
}

/// What the file says of one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) log_start_offset: Offset,
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
        let mut starts = Vec::new();
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
                starts.push((log.id(), log_start_offset));
            }
            let recovery_point = log.recovery_point();
            self.entries.insert(
                key,
                Entry {
                    log_start_offset,
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
        self.writing = Some((sequence, starts));
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
        let Some((sequence, starts)) = &mut self.writing else {
            return;
        };
        match sequence.complete(cx, operation, result) {
            Progress::NotMine | Progress::Running => {}
            Progress::Done => {
                self.durable.append(starts);
                self.writing = None;
            }
            Progress::Failed(error) => {
                cx.report(
                    Level::Warn,
                    "checkpoint",
                    format!("cannot write the checkpoint, trying again in {RETRY_MS} ms: {error}"),
                );
                self.writing = None;
                self.wanted_at = Some(cx.now.mono.plus_ms(RETRY_MS));
            }
        }
    }

    /// Log start offsets that became durable since the last call.
    pub(crate) fn take_durable(&mut self) -> Vec<(LogId, Offset)> {
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
            "{topic} {index} {} {}",
            entry.log_start_offset, entry.recovery_point
        );
    }
    let crc = crc32c::crc32c(text.as_bytes());
    let _ = writeln!(text, "crc {crc:08x}");
    Bytes::from(text)
}

/// Reads the file. The error says what is wrong with it.
pub(crate) fn decode(bytes: &[u8]) -> Result<BTreeMap<PartitionKey, Entry>, &'static str> {
    let text = core::str::from_utf8(bytes).map_err(|_| "it is not text")?;
    if text.lines().next() != Some(HEADER) {
        return Err("it is of an unknown format version");
    }
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
        .map(|line| entry(line).ok_or("a line makes no sense"))
        .collect()
}

fn entry(line: &str) -> Option<(PartitionKey, Entry)> {
    let mut fields = line.splitn(4, ' ');
    let topic = TopicId::parse(fields.next()?)?;
    let index = fields.next()?.parse().ok()?;
    let log_start_offset = Offset(fields.next()?.parse().ok()?);
    let recovery_point = RecoveryPoint::parse(fields.next()?)?;
    Some((
        PartitionKey { topic, index },
        Entry {
            log_start_offset,
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
