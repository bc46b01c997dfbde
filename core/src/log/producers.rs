//! Where the log meets its producers: before and after an append, when it is cut, and when its
//! snapshots come and go.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::bugs::Bug;
use crate::context::Context;
use crate::effect::FileOp;
use crate::ids::{Offset, ProducerId};
use crate::record::batch::{BatchHeader, CheckedBatch};
use crate::report::Level;
use crate::time::Mono;

use super::file_names::SegmentFile;
use super::producer_state::{
    Duplicate, ProducerError, ProducerState, ProducerStates, check, next_state,
};
use super::tasks::Failure;
use super::{AppendError, AppendInfo, Log, Task, producer_snapshot};

impl Log {
    /// The producers that wrote to the log, with everything already appended.
    #[must_use]
    pub const fn producers(&self) -> &ProducerStates {
        &self.producers
    }

    /// Holds batches against what their producers wrote before. A batch that comes alone may be a
    /// retry.
    pub(super) fn check_producers(
        &self,
        batches: &[CheckedBatch],
    ) -> Result<Option<Duplicate>, AppendError> {
        if let [batch] = batches {
            if !batch.header.has_producer_id() {
                return Ok(None);
            }
            let checked = self.producers.check(&batch.header);
            return self
                .with_planted_bugs(checked)
                .map_err(AppendError::Producer);
        }
        // The states after the batches before, where there is more than one.
        let mut ahead: Vec<(ProducerId, ProducerState)> = Vec::new();
        for batch in batches
            .iter()
            .filter(|batch| batch.header.has_producer_id())
        {
            let producer = ProducerId(batch.header.producer_id);
            let place = ahead.iter().position(|(id, _)| *id == producer);
            let known = place.and_then(|at| ahead.get(at)).map(|(_, state)| *state);
            let known = known.or_else(|| self.producers.get(producer).copied());
            if let Some(known) = &known
                && let Some(again) = check(known, &batch.header).map_err(AppendError::Producer)?
            {
                // Part of an append cannot be left out.
                return Err(AppendError::Producer(ProducerError::OutOfOrder {
                    producer,
                    found: again.batch.first_sequence(),
                    expected: known.last().map_or(0, |last| {
                        super::producer_state::sequence_after(last.last_sequence)
                    }),
                }));
            }
            let state = next_state(known, &batch.header);
            match place.and_then(|at| ahead.get_mut(at)) {
                Some(entry) => entry.1 = state,
                None => ahead.push((producer, state)),
            }
        }
        Ok(None)
    }

    fn with_planted_bugs(
        &self,
        checked: Result<Option<Duplicate>, ProducerError>,
    ) -> Result<Option<Duplicate>, ProducerError> {
        match checked {
            Ok(Some(_)) if self.bugs.has(Bug::AppendDuplicates) => Ok(None),
            Err(ProducerError::OutOfOrder { .. }) if self.bugs.has(Bug::SkipSequenceCheck) => {
                Ok(None)
            }
            Err(ProducerError::StaleEpoch { .. }) if self.bugs.has(Bug::IgnoreProducerEpoch) => {
                Ok(None)
            }
            other => other,
        }
    }

    /// What a retry is answered with: what the original was.
    pub(super) fn info_of_duplicate(&self, duplicate: Duplicate) -> AppendInfo {
        let batch = duplicate.batch;
        let base_offset = if self.bugs.has(Bug::DuplicateAtLogEnd) {
            self.log_end_offset()
        } else {
            batch.first_offset()
        };
        AppendInfo {
            base_offset,
            last_offset: batch.last_offset,
            log_append_time: self.config.log_append_time.then_some(batch.timestamp),
            log_start_offset: self.log_start_offset,
            duplicate: true,
        }
    }

    /// A batch was appended.
    pub(super) fn note_producer(
        &mut self,
        now: Mono,
        batch: &CheckedBatch,
        base_offset: Offset,
        max_timestamp: i64,
    ) {
        if batch.header.has_producer_id() && !batch.header.is_control() {
            let stored = BatchHeader {
                base_offset,
                max_timestamp,
                ..batch.header
            };
            self.producers.record(&stored, now);
        }
    }

    /// The log ends at `end` now.
    pub(super) fn take_back_producers(&mut self, end: Offset) {
        self.producers.roll_back(end);
        self.wanted_snapshot.take_if(|(at, _)| *at > end);
    }

    /// The content of a snapshot at the end of the log.
    pub(super) fn producer_snapshot(&self) -> Bytes {
        producer_snapshot::encode(&self.producers)
    }

    /// Whether a log that begins with the segment at `base` has a snapshot that says what was below
    /// it (promise 9).
    pub(super) fn is_covered_by_snapshot(&self, base: Offset) -> bool {
        self.snapshots.range(base..).next().is_some()
    }

    /// A snapshot is missing: the one at the end of the log takes its place, as soon as that is
    /// flushed.
    pub(super) fn want_snapshot(&mut self) {
        if self.wanted_snapshot.is_none()
            && !self.has_task(|task| matches!(task, Task::Snapshot(_)))
        {
            self.wanted_snapshot = Some((self.log_end_offset(), self.producer_snapshot()));
        }
    }

    pub(super) fn write_wanted_snapshot(&mut self, cx: &mut Context<'_>) {
        let flushed = self.flushed_end();
        if self.retry_at.is_some() {
            return;
        }
        let Some((at, bytes)) = self.wanted_snapshot.take_if(|(at, _)| *at <= flushed) else {
            return;
        };
        let path = SegmentFile::Snapshot.path(&self.dir, at);
        let stages = vec![
            vec![FileOp::WriteFile {
                path: path.clone(),
                bytes,
            }],
            vec![FileOp::SyncFile(path)],
            vec![FileOp::SyncDir(self.dir.clone())],
        ];
        self.start_task(cx, Task::Snapshot(at), stages);
    }

    pub(super) fn snapshot_written(
        &mut self,
        cx: &mut Context<'_>,
        at: Offset,
        result: Result<(), Failure>,
    ) {
        if !self.is_running() {
            return;
        }
        match result {
            Ok(()) => {
                self.snapshots.insert(at);
                self.drop_below_log_start(cx);
            }
            Err(failure) => {
                if self.told_of_derived.tells(cx.now.mono) {
                    cx.report(
                        Level::Warn,
                        "log",
                        alloc::format!(
                            "dir={} no producer snapshot was written; deleted segments stay: {}",
                            self.dir,
                            failure.error
                        ),
                    );
                }
                self.retry_at = Some(cx.now.mono.plus_ms(1_000));
                self.want_snapshot();
            }
        }
    }

    /// The segment at `base` goes: so do the snapshots up to the end of it, but for the newest.
    pub(super) fn drop_snapshots_of(&mut self, base: Offset) -> Vec<FileOp> {
        let first = self
            .segments
            .first_key_value()
            .map_or(self.log_start_offset, |(first, _)| *first);
        let limit = base.plus(1).max(first);
        let newest = self.snapshots.last().copied();
        let gone: Vec<Offset> = self
            .snapshots
            .range(..limit)
            .copied()
            .filter(|at| Some(*at) != newest)
            .collect();
        let mut ops = Vec::new();
        for at in gone {
            self.snapshots.remove(&at);
            ops.push(FileOp::RemoveFile(
                SegmentFile::Snapshot.path(&self.dir, at),
            ));
        }
        ops
    }
}
