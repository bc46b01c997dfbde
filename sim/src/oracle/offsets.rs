//! OffsetDense, OffsetNeverReused, BatchBytesImmutable, CorruptNotServed: what the broker writes,
//! cuts and serves.

use bytes::Bytes;
use odradek_core::ids::FilePath;

use super::model::{LogModel, ModelBatch};
use super::{Check, Mark, Oracle, is_log};
use crate::batch;

impl Oracle {
    /// A log file is created or opened.
    pub(super) fn opened(&mut self, path: &FilePath) {
        if !is_log(path) {
            return;
        }
        let directory = path.parent();
        let log = self.models.entry(directory.as_str());
        let rolled = log.newest_segment().is_some_and(|newest| newest < path);
        log.segments.insert(path.clone());
        if rolled {
            self.mark(Mark::SegmentRolled);
        }
    }

    /// A write is issued.
    pub(super) fn written(&mut self, path: &FilePath, position: u64, bytes: Bytes) {
        let directory = path.parent();
        let found = match batch::first(&bytes) {
            Ok(found) if found.bytes.len() == bytes.len() => found,
            other => {
                let what = format!("a write to {path} at {position} is not one batch: {other:?}");
                return self.violate(Check::OffsetDense, what);
            }
        };
        let log = self.models.entry(directory.as_str());
        if log.batches.is_empty() && log.end == 0 {
            log.end = found.base_offset;
        }
        if found.base_offset < log.promised_end() {
            let what = format!(
                "{directory}: offset {} is given again; everything below {} was acknowledged or \
                 shown",
                found.base_offset,
                log.promised_end()
            );
            return self.violate(Check::OffsetNeverReused, what);
        }
        if found.base_offset != log.end {
            let what = format!(
                "{directory}: the next offset is {}, and a batch is written at {}",
                log.end, found.base_offset
            );
            return self.violate(Check::OffsetDense, what);
        }
        let (base, last_offset) = (found.base_offset, found.last_offset);
        log.end = last_offset + 1;
        let header = bytes.slice(..batch::HEADER_BYTES);
        log.batches.insert(
            base,
            ModelBatch {
                last_offset,
                bytes,
                segment: path.clone(),
                position,
                cleaned: None,
                damaged: false,
            },
        );
        self.producer_wrote(directory.as_str(), base, &header);
    }

    /// A segment is cut to a length.
    pub(super) fn cut(&mut self, path: &FilePath, length: u64) {
        if !is_log(path) {
            return;
        }
        let directory = path.parent();
        let Some(log) = self.models.get_mut(directory.as_str()) else {
            return;
        };
        if log.is_loading {
            // What recovery cuts is judged when it is over.
            return;
        }
        let first = log
            .batches
            .iter()
            .find(|(_, b)| b.segment == *path && b.position + b.bytes.len() as u64 > length)
            .map(|(base, _)| *base);
        let Some(first) = first else {
            return;
        };
        let promised = log.promised_end();
        log.cut_at(first);
        self.mark(Mark::CutWhileRunning);
        if first < promised {
            self.violate(
                Check::AckedDurable,
                format!(
                    "{path} is cut to {length} bytes, which takes offset {first} and everything \
                     after it, but everything below {promised} was acknowledged or shown"
                ),
            );
        }
    }

    /// A segment goes.
    pub(super) fn removed(&mut self, path: &FilePath) {
        if !is_log(path) {
            return;
        }
        let directory = path.parent();
        let Some(log) = self.models.get_mut(directory.as_str()) else {
            return;
        };
        let is_newest = log.newest_segment().is_none_or(|newest| newest <= path);
        // Batches of a segment that the cleaner has put into another one are counted as that one's.
        log.segments.remove(path);
        if log.may_vanish || log.is_loading {
            return;
        }
        let held: Vec<(i64, i64)> = log
            .batches
            .iter()
            .filter(|(_, b)| b.segment == *path)
            .map(|(base, b)| (*base, b.last_offset))
            .collect();
        let allowed = log.log_start.max(log.log_start_asked);
        let promised = log.promised_end();
        let is_users = log.is_users();
        for (base, _) in &held {
            if let Some(batch) = log.batches.remove(base) {
                log.add_ghost(*base, batch.bytes);
            }
        }
        let lost = held
            .iter()
            .find(|(base, last)| *last >= allowed && *base < promised);
        if let Some((base, last)) = lost
            && is_users
        {
            self.violate(
                Check::AckedDurable,
                format!(
                    "{path} is removed with offsets {base} to {last}; the log may start at \
                     {allowed} at most, and everything below {promised} was acknowledged or shown"
                ),
            );
        }
        if let Some((base, _)) = held.first()
            && *base >= promised
            // The newest segment goes when it could not be begun; the others when their records are
            // deleted.
            && is_newest
            && let Some(log) = self.models.get_mut(directory.as_str())
        {
            log.cut_at(*base);
        }
    }

    /// Record bytes are served from `offset` on. Returns the offset after the last one.
    pub(super) fn check_served(
        &mut self,
        directory: &str,
        offset: i64,
        records: &[u8],
        high_watermark: i64,
    ) -> i64 {
        if !records.is_empty() {
            if let Some(log) = self.models.get_mut(directory) {
                log.served_in_life = true;
            }
            if self.damages.read_only {
                self.mark(Mark::ReadWhileReadOnly);
            }
        }
        let mut rest = records;
        let mut next = None;
        while !rest.is_empty() {
            let found = match batch::first(rest) {
                Ok(found) => found,
                Err(why) => {
                    let at = records.len() - rest.len();
                    self.violate(
                        Check::CorruptNotServed,
                        format!(
                            "{directory}: a fetch from {offset} serves {} bytes, and at byte {at} \
                             there is no sound batch: {why:?}",
                            records.len()
                        ),
                    );
                    break;
                }
            };
            rest = &rest[found.bytes.len()..];
            let may_skip = |to: i64, log: Option<&LogModel>| {
                let from = next.unwrap_or(offset);
                log.is_some_and(|log| to > from && log.may_skip(from, to))
            };
            let skips = may_skip(found.base_offset, self.models.get(directory));
            match next {
                _ if skips => {}
                None if found.base_offset > offset || found.last_offset < offset => {
                    self.violate(
                        Check::OffsetDense,
                        format!(
                            "{directory}: a fetch from {offset} begins with the batch of offsets \
                             {} to {}",
                            found.base_offset, found.last_offset
                        ),
                    );
                }
                Some(next) if found.base_offset != next => {
                    self.violate(
                        Check::OffsetDense,
                        format!(
                            "{directory}: a fetch from {offset} serves offset {} where {next} is \
                             next",
                            found.base_offset
                        ),
                    );
                }
                _ => {}
            }
            next = Some(found.last_offset + 1);
            if found.last_offset >= high_watermark {
                self.violate(
                    Check::NeverBeyondHighWatermark,
                    format!(
                        "{directory}: offset {} is served, and the high watermark is \
                         {high_watermark}",
                        found.last_offset
                    ),
                );
            }
            let known = self
                .models
                .get(directory)
                .and_then(|log| log.batches.get(&found.base_offset));
            match known {
                Some(batch) if batch.is_or_undetectable(found.bytes) => {}
                Some(batch) => {
                    let detail = format!(
                        "{directory}: the batch at offset {} is served with {} bytes that differ \
                         from the {} written",
                        found.base_offset,
                        found.bytes.len(),
                        batch.bytes.len()
                    );
                    self.violate(Check::BatchBytesImmutable, detail);
                }
                None => {
                    let detail = format!(
                        "{directory}: a batch at offset {} is served that was never written",
                        found.base_offset
                    );
                    self.violate(Check::BatchBytesImmutable, detail);
                }
            }
        }
        next.unwrap_or(offset)
    }
}
