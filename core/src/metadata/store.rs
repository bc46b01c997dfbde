//! The metadata log and the image it makes: the one way to change the cluster's state.
//!
//! A command is validated against the image, which includes everything already appended; its
//! records are appended and replayed in the same step. What waits for durability is every answer
//! that depends on them, reads too. If the write fails, the image is thrown away and made anew
//! from the log.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::config::BrokerConfig;
use super::image::Image;
use super::producer_ids::ProducerIdBlock;
use super::record::{MetadataRecord, Resource};
use super::{replay, snapshot};
use crate::connection::{Answer, RequestId};
use crate::context::{Context, LogId, Owner};
use crate::effect::FileOp;
use crate::ids::{FilePath, LeaderEpoch, Offset, OperationId, TopicId};
use crate::input::DiskError;
use crate::log::{CleanerPoint, Durability, Log, LogConfig, LogSpec, RecoveryPoint};
use crate::partition::PartitionKey;
use crate::read_job::{ReadJob, ReadOutput};
use crate::report::Level;
use crate::sequence::{Progress, Sequence};
use crate::wire::ErrorCode;

/// The directory of the metadata log, and its name among the topics.
pub(crate) const DIRECTORY: &str = "__cluster_metadata-0";

/// Kafka's reserved id of the metadata topic.
pub(crate) const KEY: PartitionKey = PartitionKey {
    topic: TopicId([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
    index: 0,
};

/// A snapshot is taken when the log is this many times larger than what is live in it.
const SNAPSHOT_RATIO: u64 = 10;

/// A log below this size is not worth a snapshot.
const SNAPSHOT_MIN_BYTES: u64 = 16 * 1024;

/// The state of the cluster, and its log.
#[derive(Debug, Default)]
pub(crate) struct MetadataStore {
    log: Option<Log>,
    image: Image,
    /// The image that a replay is making; it takes the other's place when it is whole, so that
    /// nobody sees a part of it.
    replayed: Image,
    /// Whether the image is what the log says. Not so while loading, or after a failed write.
    current: bool,
    reading: Option<OperationId>,
    waiting: VecDeque<Waiting>,
    durable: Vec<Change>,
    failed: Vec<Change>,
    snapshot: Option<(Sequence, Offset)>,
    /// Bytes appended since the last snapshot.
    appended_bytes: u64,
    /// Size of the last snapshot, or of one that was made and found not to be worth it.
    live_bytes: u64,
    wanted_log_start: Offset,
    pub(super) producer_ids: ProducerIdBlock,
}

/// What waits for records up to an offset.
#[derive(Debug)]
struct Waiting {
    offset: Offset,
    what: Waiter,
}

#[derive(Debug)]
enum Waiter {
    Answer {
        request: RequestId,
        ok: Answer,
        failed: Answer,
    },
    Change(Change),
}

/// A change of the cluster that others act on once it is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// What a creation of topics or partitions asked for.
    Created(u64),
    /// A topic was deleted.
    Deleted(TopicId),
    /// The start's own records.
    Start,
}

impl MetadataStore {
    /// The state, with everything already appended.
    pub(crate) const fn image(&self) -> &Image {
        &self.image
    }

    /// Whether the state may be trusted: not while it is made anew after a failed write.
    pub(crate) const fn is_current(&self) -> bool {
        self.current
    }

    /// The id of a topic that a request names, by name or by id.
    pub(crate) fn resolve(
        &self,
        by_id: bool,
        name: &str,
        id: TopicId,
    ) -> Result<TopicId, ErrorCode> {
        if by_id {
            let topic = self
                .image
                .topic_by_id(id)
                .ok_or(ErrorCode::UNKNOWN_TOPIC_ID)?;
            Ok(topic.id)
        } else {
            let topic = self
                .image
                .topic(name)
                .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
            Ok(topic.id)
        }
    }

    /// `min.insync.replicas` of a topic, as it is in force.
    pub(crate) fn min_in_sync_replicas(&self, config: &BrokerConfig, topic: TopicId) -> i64 {
        const NAME: &str = "min.insync.replicas";
        let own = self.image.config(&Resource::Topic(topic), NAME);
        own.or_else(|| self.broker_value(config, NAME))
            .and_then(|v| v.parse().ok())
            .unwrap_or(1)
    }

    /// Whether nothing of a topic is deleted by retention.
    pub(crate) fn is_compacted_only(&self, config: &BrokerConfig, topic: TopicId) -> bool {
        let log = self.log_config(config, topic);
        log.compact && !log.delete
    }

    /// A broker config as it is in force: this broker's own, that of all brokers, the properties'.
    pub(crate) fn broker_value<'a>(
        &'a self,
        config: &'a BrokerConfig,
        name: &str,
    ) -> Option<&'a str> {
        let own = Resource::Broker(config.node_id.to_string());
        self.image
            .config(&own, name)
            .or_else(|| self.image.config(&Resource::Broker(String::new()), name))
            .or_else(|| config.properties.get(name).map(String::as_str))
    }

    /// The settings of a topic's logs: its own configs over the broker's over the defaults.
    pub(crate) fn log_config(&self, config: &BrokerConfig, topic: TopicId) -> LogConfig {
        let own = Resource::Broker(config.node_id.to_string());
        let all = Resource::Broker(String::new());
        config
            .log
            .clone()
            .with_overrides(|key| {
                let value = self.image.config(&own, key.broker_name);
                value
                    .or_else(|| self.image.config(&all, key.broker_name))
                    .map(ToString::to_string)
            })
            .with_overrides(|key| {
                self.image
                    .config(&Resource::Topic(topic), key.name)
                    .map(ToString::to_string)
            })
    }

    /// Takes the log, new or being opened.
    pub(crate) fn set_log(&mut self, log: Log) {
        self.log = Some(log);
    }

    /// The metadata log, if `id` is its.
    pub(crate) fn log_mut(&mut self, id: LogId) -> Option<&mut Log> {
        self.log.as_mut().filter(|log| log.id() == id)
    }

    /// The metadata log.
    pub(crate) const fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Closes the log.
    pub(crate) fn close(&mut self, cx: &mut Context<'_>) -> Option<LogId> {
        let log = self.log.as_mut()?;
        log.close(cx);
        Some(log.id())
    }

    /// What the checkpoint file says of the metadata log.
    pub(crate) fn checkpointed(&self) -> impl Iterator<Item = (PartitionKey, &Log, Offset)> {
        self.log
            .iter()
            .map(|log| (KEY, log, self.wanted_log_start.max(log.log_start_offset())))
    }

    /// Settings of the metadata log: nothing of it goes but below a snapshot.
    pub(crate) fn spec(config: &BrokerConfig, id: LogId, bugs: crate::bugs::Bugs) -> LogSpec {
        let settings = LogConfig {
            segment_bytes: config.metadata_segment_bytes,
            retention_bytes: None,
            retention_ms: None,
            index_interval_bytes: config.log.index_interval_bytes,
            file_delete_delay_ms: 0,
            max_message_bytes: i32::MAX as u32,
            timestamp_after_max_ms: u64::MAX,
            ..LogConfig::default()
        };
        LogSpec {
            id,
            dir: DIRECTORY.into(),
            config: settings,
            // Whatever the policy for records: a record here is a topic, and its directories go
            // when it is lost.
            durability: Durability::Fsync,
            bugs,
        }
    }

    /// How a fresh data directory's metadata log is made, or an existing one opened.
    pub(crate) fn open(
        &mut self,
        cx: &mut Context<'_>,
        spec: LogSpec,
        found: Option<(Option<RecoveryPoint>, Offset, bool)>,
    ) {
        let log = match found {
            None => Log::create(cx, spec, Vec::new()),
            Some((point, start, clean)) => {
                Log::open(cx, spec, point, start, CleanerPoint::default(), clean)
            }
        };
        self.set_log(log);
    }

    /// Appends records and replays them. They hold from now on; what depends on them waits.
    pub(crate) fn append(
        &mut self,
        cx: &mut Context<'_>,
        records: &[MetadataRecord],
    ) -> Result<(), ErrorCode> {
        let log = self.log.as_mut().filter(|_| self.current);
        let log = log.ok_or(ErrorCode::KAFKA_STORAGE_ERROR)?;
        let batch = replay::batch_of(records, cx.now.wall);
        log.append(
            cx,
            core::slice::from_ref(&batch),
            LeaderEpoch(self.image.epoch),
        )
        .map_err(|_| ErrorCode::KAFKA_STORAGE_ERROR)?;
        self.appended_bytes += batch.bytes.len() as u64;
        records.iter().for_each(|record| self.image.replay(record));
        Ok(())
    }

    /// Answers once everything appended so far is durable: `ok` then, `failed` if it is lost.
    pub(crate) fn answer_when_durable(
        &mut self,
        request: RequestId,
        ok: impl Into<Answer>,
        failed: impl Into<Answer>,
    ) {
        let (ok, failed) = (ok.into(), failed.into());
        self.wait(Waiter::Answer {
            request,
            ok,
            failed,
        });
    }

    /// Tells of a change once everything appended so far is durable, or lost.
    pub(crate) fn tell_when_durable(&mut self, change: Change) {
        self.wait(Waiter::Change(change));
    }

    fn wait(&mut self, what: Waiter) {
        // While the state holds records that were lost, nothing that was read from it comes true.
        let offset = match &self.log {
            Some(log) if self.current => log.log_end_offset(),
            _ => Offset(i64::MAX),
        };
        self.waiting.push_back(Waiting { offset, what });
    }

    /// The changes that became durable, and those that were lost, since the last call.
    pub(crate) fn take_changes(&mut self) -> (Vec<Change>, Vec<Change>) {
        (
            core::mem::take(&mut self.durable),
            core::mem::take(&mut self.failed),
        )
    }

    /// A request is gone.
    pub(crate) fn forget(&mut self, gone: RequestId) {
        self.waiting.retain(
            |waiting| !matches!(&waiting.what, Waiter::Answer { request, .. } if *request == gone),
        );
    }

    /// Draws the consequences of what happened to the log. True if anything changed.
    pub(crate) fn settle(
        &mut self,
        cx: &mut Context<'_>,
        answers: &mut VecDeque<(RequestId, Answer)>,
    ) -> bool {
        let Some(log) = self.log.as_mut() else {
            return false;
        };
        let mut changed = false;
        if let Some(lost) = log.take_lost() {
            changed = true;
            self.current = false;
            fail_above(&mut self.waiting, lost.from, answers, &mut self.failed);
        }
        if !self.current && self.loaded_once() {
            changed |= fail_above(
                &mut self.waiting,
                Offset(i64::MAX - 1),
                answers,
                &mut self.failed,
            );
        }
        let Some(log) = self.log.as_ref() else {
            return changed;
        };
        let durable = log.high_watermark_limit();
        while let Some(first) = self.waiting.front() {
            if first.offset > durable {
                break;
            }
            changed = true;
            match self.waiting.pop_front().map(|waiting| waiting.what) {
                Some(Waiter::Answer { request, ok, .. }) => answers.push_back((request, ok)),
                Some(Waiter::Change(change)) => self.durable.push(change),
                None => {}
            }
        }
        // After a failed write too: as long as the state is not current nothing is appended, and
        // only an append would make the log ready again.
        let reload =
            !self.current && self.reading.is_none() && log.takes_records() && self.loaded_once();
        if reload {
            self.begin_replay(cx);
        }
        self.snapshot_if_due(cx);
        changed
    }

    fn loaded_once(&self) -> bool {
        !self.image.cluster_id.is_empty()
    }

    /// Reads the snapshot and everything after it; `is_current` when that is done.
    pub(crate) fn begin_replay(&mut self, cx: &mut Context<'_>) {
        let job = ReadJob::Files(alloc::vec![FilePath::from(snapshot::FILE)]);
        self.reading = Some(cx.read(Owner::Broker, job));
    }

    /// Whether a read is one of the replay's.
    pub(crate) fn is_reading(&self, operation: OperationId) -> bool {
        self.reading == Some(operation)
    }

    /// Takes what the replay read. An error stops the broker.
    pub(crate) fn on_read(
        &mut self,
        cx: &mut Context<'_>,
        result: Result<ReadOutput, DiskError>,
    ) -> Result<(), String> {
        self.reading = None;
        let next = match result {
            Ok(ReadOutput::Files(files)) => {
                self.replayed = Image::default();
                self.appended_bytes = 0;
                match files.into_iter().next().flatten() {
                    Some(bytes) => {
                        let (image, offset) =
                            snapshot::decode(bytes).map_err(|why| damaged(snapshot::FILE, &why))?;
                        self.replayed = image;
                        offset
                    }
                    None => Offset(0),
                }
            }
            Ok(ReadOutput::Records(read)) => {
                for batch in &read.batches {
                    self.appended_bytes += batch.len() as u64;
                    let records =
                        replay::records_of(batch).map_err(|why| damaged(DIRECTORY, &why))?;
                    records
                        .iter()
                        .for_each(|record| self.replayed.replay(record));
                }
                read.next_offset
            }
            Ok(other) => return Err(damaged(DIRECTORY, &format!("unexpected {other}"))),
            Err(error) => return Err(error.to_string()),
        };
        let Some(log) = self.log.as_ref() else {
            return Ok(());
        };
        if next < log.log_start_offset() {
            return Err(damaged(
                snapshot::FILE,
                &format!(
                    "it is missing or older than the log, which begins at {}",
                    log.log_start_offset()
                ),
            ));
        }
        match log.replay_job(next, log.log_end_offset()) {
            Some(job) => self.reading = Some(cx.read(Owner::Broker, job)),
            None => {
                self.image = core::mem::take(&mut self.replayed);
                // The record of the block in use may be the one that was lost.
                self.producer_ids = ProducerIdBlock::default();
                self.current = true;
                cx.report(
                    Level::Info,
                    "metadata",
                    format!(
                        "replayed: offset={next} topics={}",
                        self.image.topics().count()
                    ),
                );
            }
        }
        Ok(())
    }

    /// Takes a snapshot when the log is mostly dead; the log below it may then go.
    fn snapshot_if_due(&mut self, cx: &mut Context<'_>) {
        let Some(log) = self.log.as_ref() else { return };
        let end = log.log_end_offset();
        let worth_it =
            |appended, live| appended >= SNAPSHOT_MIN_BYTES.max((SNAPSHOT_RATIO - 1) * live);
        if !self.current
            || self.snapshot.is_some()
            || !worth_it(self.appended_bytes, self.live_bytes)
            || log.high_watermark_limit() < end
        {
            return;
        }
        let bytes = snapshot::encode(&self.image, end, cx.now.wall);
        self.live_bytes = bytes.len() as u64;
        if !worth_it(self.appended_bytes, self.live_bytes) {
            return;
        }
        // If writing it fails, the next is tried when the log has grown as much again.
        self.appended_bytes = 0;
        let path = FilePath::from(snapshot::FILE);
        self.snapshot = Some((
            Sequence::start(cx, Owner::Broker, replace_file(&path, bytes)),
            end,
        ));
    }

    /// A file operation ended.
    pub(crate) fn managed(
        &mut self,
        cx: &mut Context<'_>,
        operation: OperationId,
        result: &Result<(), DiskError>,
    ) {
        let Some((sequence, offset)) = &mut self.snapshot else {
            return;
        };
        let offset = *offset;
        match sequence.complete(cx, operation, result) {
            Progress::NotMine | Progress::Running => return,
            Progress::Done => {
                self.wanted_log_start = self.wanted_log_start.max(offset);
            }
            Progress::Failed(error) => {
                cx.report(
                    Level::Warn,
                    "metadata",
                    format!("no snapshot was taken: {error}"),
                );
            }
        }
        self.snapshot = None;
    }

    /// Whether a snapshot allows the log to begin later than it does.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.log
            .as_ref()
            .is_some_and(|log| self.wanted_log_start > log.log_start_offset())
    }
}

/// Ends those who wait for more than `durable` with their failure. True if there was one.
fn fail_above(
    waiting: &mut VecDeque<Waiting>,
    durable: Offset,
    answers: &mut VecDeque<(RequestId, Answer)>,
    failed_changes: &mut Vec<Change>,
) -> bool {
    let mut changed = false;
    while waiting.back().is_some_and(|last| last.offset > durable) {
        changed = true;
        match waiting.pop_back().map(|waiting| waiting.what) {
            Some(Waiter::Answer {
                request, failed, ..
            }) => answers.push_back((request, failed)),
            Some(Waiter::Change(change)) => failed_changes.push(change),
            None => {}
        }
    }
    changed
}

/// The operations that replace a file so that a crash leaves the old one or the new one (promise 8).
pub(crate) fn replace_file(path: &FilePath, bytes: bytes::Bytes) -> [FileOp; 4] {
    let new = path.parent().join(&format!("{}.tmp", path.name()));
    [
        FileOp::WriteFile {
            path: new.clone(),
            bytes,
        },
        FileOp::SyncFile(new.clone()),
        FileOp::Rename {
            from: new,
            to: path.clone(),
        },
        FileOp::SyncDir(path.parent()),
    ]
}

fn damaged(file: &str, why: &str) -> String {
    format!(
        "{file}: the cluster's metadata cannot be read: {why}; it was flushed once, so the disk \
         lost or changed it: restore the data directory from a copy"
    )
}
