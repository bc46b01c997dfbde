//! What the broker knows, and how the consequences of a step are drawn.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use rand_chacha::ChaCha12Rng;
use rand_core::Rng;

use super::{start, stop};
use crate::bugs::{Bug, Bugs};
use crate::checkpoint::{Checkpoint, Durable};
use crate::connection::{Answer, Connections, RequestId};
use crate::context::{Context, LogId};
use crate::group::coordinator::{self, GroupCoordinator};
use crate::ids::{ConnectionId, Offset, OperationId, TopicId};
use crate::input::{DiskError, Endpoint};
use crate::log::cleaner::Dirt;
use crate::log::{Log, LogSpec};
use crate::metadata::config::BrokerConfig;
use crate::metadata::store::MetadataStore;
use crate::metadata::topics::Topics;
use crate::partition::delayed_fetch::DelayedFetch;
use crate::partition::delayed_produce::DelayedProduce;
use crate::partition::{Partition, PartitionKey, delayed_fetch, delayed_produce};
use crate::read_job::ReadOutput;
use crate::request::{self, Codecs, PendingDelete, PendingListOffsets, PendingTopics};
use crate::time::Mono;
use crate::wire::{ErrorCode, Str};

/// Everything but the routes.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) config: BrokerConfig,
    pub(crate) bugs: Bugs,
    pub(crate) rng: ChaCha12Rng,
    pub(crate) stage: Stage,
    pub(crate) connections: Connections,
    pub(crate) metadata: MetadataStore,
    pub(crate) topics: Topics,
    pub(crate) groups: GroupCoordinator,
    pub(crate) partitions: BTreeMap<PartitionKey, Partition>,
    /// What the host was last told.
    pub(crate) codecs: Arc<Codecs>,
    pub(crate) by_log: BTreeMap<LogId, PartitionKey>,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) produces: BTreeMap<RequestId, DelayedProduce>,
    pub(crate) fetches: BTreeMap<RequestId, DelayedFetch>,
    pub(crate) list_offsets: BTreeMap<RequestId, PendingListOffsets>,
    pub(crate) deletes: BTreeMap<RequestId, PendingDelete>,
    pub(crate) pending_topics: BTreeMap<RequestId, PendingTopics>,
    pub(crate) timers: Timers,
    next_retention: Option<Mono>,
    cleaning: Cleaning,
    last_log: u32,
    /// Logs that something happened to in this step.
    touched: BTreeSet<LogId>,
    /// Fetches that the planted bug enters with their partitions too late; empty without it.
    pub(crate) late_fetches: Vec<RequestId>,
    /// Requests that ended in this step.
    answers: VecDeque<(RequestId, Answer)>,
}

/// Which log is being cleaned: one at a time, so that what the cleaner holds in memory is bounded.
#[derive(Debug, Default)]
struct Cleaning {
    /// And from which offset on.
    log: Option<(LogId, Offset)>,
    /// When a log is looked for next.
    next: Option<Mono>,
}

/// What the broker is doing.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Before `Input::Start`.
    New,
    /// Loading the data directory.
    Starting(start::Starting),
    /// Serving.
    Running,
    /// Finishing what is under way.
    Stopping(stop::Stopping),
    /// Stopped, or refused to start.
    Over,
}

/// Deadlines of requests and of logs, earliest first; equal ones in the order of their ids.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    requests: BTreeSet<(Mono, RequestId)>,
    logs: BTreeSet<(Mono, LogId)>,
    log_deadlines: BTreeMap<LogId, Mono>,
}

impl Timers {
    pub(crate) fn set_request(&mut self, at: Mono, request: RequestId) {
        self.requests.insert((at, request));
    }

    pub(crate) fn cancel_request(&mut self, at: Mono, request: RequestId) {
        self.requests.remove(&(at, request));
    }

    fn set_log(&mut self, log: LogId, at: Option<Mono>) {
        let before = match at {
            Some(at) => self.log_deadlines.insert(log, at),
            None => self.log_deadlines.remove(&log),
        };
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.logs.remove(&(before, log));
        }
        if let Some(at) = at {
            self.logs.insert((at, log));
        }
    }

    fn next(&self) -> Option<Mono> {
        let request = self.requests.first().map(|(at, _)| *at);
        let log = self.logs.first().map(|(at, _)| *at);
        earliest(request, log)
    }
}

/// The earlier of two deadlines that may not be.
pub(crate) fn earliest(a: Option<Mono>, b: Option<Mono>) -> Option<Mono> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl State {
    pub(super) fn new(config: BrokerConfig, rng: ChaCha12Rng, bugs: Bugs) -> Self {
        Self {
            config,
            bugs,
            rng,
            stage: Stage::New,
            connections: Connections::default(),
            metadata: MetadataStore::default(),
            topics: Topics::default(),
            groups: GroupCoordinator::default(),
            partitions: BTreeMap::new(),
            codecs: Arc::default(),
            by_log: BTreeMap::new(),
            checkpoint: Checkpoint::default(),
            produces: BTreeMap::new(),
            fetches: BTreeMap::new(),
            list_offsets: BTreeMap::new(),
            deletes: BTreeMap::new(),
            pending_topics: BTreeMap::new(),
            timers: Timers::default(),
            next_retention: None,
            cleaning: Cleaning::default(),
            last_log: 0,
            touched: BTreeSet::new(),
            late_fetches: Vec::new(),
            answers: VecDeque::new(),
        }
    }

    /// A new id for a log of this process.
    pub(crate) fn new_log_id(&mut self) -> LogId {
        self.last_log += 1;
        LogId(self.last_log)
    }

    /// How a partition's log is opened, with the settings of its topic.
    pub(crate) fn log_spec(&mut self, key: PartitionKey, dir: &str) -> LogSpec {
        let id = self.new_log_id();
        LogSpec {
            id,
            dir: dir.into(),
            config: self.metadata.log_config(&self.config, key.topic),
            durability: self.config.durability,
            bugs: self.bugs,
        }
    }

    /// Ends a request at the end of this step.
    pub(crate) fn answer(&mut self, request: RequestId, answer: impl Into<Answer>) {
        self.answers.push_back((request, answer.into()));
    }

    /// A partition that is there and may be used.
    pub(crate) fn partition(&mut self, key: PartitionKey) -> Option<&mut Partition> {
        self.partitions.get_mut(&key)
    }

    /// Whether a topic has a partition of this number.
    pub(crate) fn existing(&self, topic: TopicId, index: i32) -> Result<(), ErrorCode> {
        if self.partitions.contains_key(&PartitionKey { topic, index }) {
            Ok(())
        } else {
            Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
        }
    }

    /// Something is about to happen to a partition's log.
    pub(crate) fn touch(&mut self, log: LogId) {
        self.touched.insert(log);
    }

    /// Hands a log to `f`, wherever it is kept, and notes that something happened to it.
    pub(crate) fn with_log(&mut self, id: LogId, f: impl FnOnce(&mut Log)) {
        self.touched.insert(id);
        if let Some(log) = self.metadata.log_mut(id) {
            f(log);
        } else if let Some(partition) = self
            .by_log
            .get(&id)
            .and_then(|key| self.partitions.get_mut(key))
        {
            f(&mut partition.log);
        } else if let Some(log) = self.topics.log_mut(id) {
            f(log);
        }
    }

    /// Starts whatever may start on a connection.
    pub(crate) fn start_requests(&mut self, cx: &mut Context<'_>, connection: ConnectionId) {
        // A stop finishes what was started, and would not end if more were.
        if matches!(self.stage, Stage::Stopping(_) | Stage::Over) {
            return;
        }
        while let Some((id, request)) = self.connections.start_next(connection) {
            request::start(self, cx, id, request);
        }
    }

    /// Drops what waits on behalf of a connection that is gone.
    pub(super) fn connection_closed(&mut self, cx: &mut Context<'_>, connection: ConnectionId) {
        for request in self.connections.closed(connection) {
            if let Some(fetch) = self.fetches.remove(&request)
                && !self.bugs.has(Bug::ForgetToUnpark)
            {
                delayed_fetch::unpark(self, request, &fetch);
            }
            if let Some(produce) = self.produces.remove(&request) {
                self.timers.cancel_request(produce.deadline, request);
            }
            self.list_offsets.remove(&request);
            self.deletes.remove(&request);
            if let Some(pending) = self.pending_topics.remove(&request) {
                pending.cancel(&mut self.timers, request);
            }
            self.metadata.forget(request);
            self.topics.forget(request);
            coordinator::forget(self, cx, request);
        }
    }

    /// A file operation of the broker's own ended.
    pub(super) fn managed(
        &mut self,
        cx: &mut Context<'_>,
        operation: OperationId,
        result: &Result<(), DiskError>,
    ) {
        start::managed(self, cx, operation, result);
        stop::managed(self, cx, operation, result);
        self.checkpoint.managed(cx, operation, result);
        self.metadata.managed(cx, operation, result);
        if self.metadata.wants_checkpoint() {
            self.checkpoint.want(cx.now);
        }
        self.topics.managed(cx, operation, result);
    }

    /// A read of the broker's own ended.
    pub(super) fn read(
        &mut self,
        cx: &mut Context<'_>,
        operation: OperationId,
        result: Result<ReadOutput, DiskError>,
    ) {
        if self.metadata.is_reading(operation) {
            if let Err(message) = self.metadata.on_read(cx, result) {
                start::fail(self, cx, message);
            }
        } else if self.groups.is_reading(operation) {
            coordinator::on_read(self, cx, operation, result);
        } else {
            start::read(self, cx, result);
        }
    }

    /// Does what is due.
    pub(super) fn deadline(&mut self, cx: &mut Context<'_>) {
        let now = cx.now.mono;
        while let Some(&(at, request)) = self.timers.requests.first() {
            if at > now {
                break;
            }
            self.timers.requests.pop_first();
            delayed_produce::expire(self, request);
            delayed_fetch::expire(self, cx, request);
            request::expire_pending_topics(self, request);
        }
        while let Some(&(at, log)) = self.timers.logs.first() {
            if at > now {
                break;
            }
            self.timers.set_log(log, None);
            self.with_log(log, |log| log.on_deadline(cx));
        }
        if matches!(self.stage, Stage::Running) {
            coordinator::on_deadline(self, cx);
        }
        if self.next_retention.is_some_and(|at| at <= now) {
            self.next_retention = Some(now.plus_ms(self.config.retention_check_interval_ms));
            self.retention(cx);
        }
        if self.cleaning.next.is_some_and(|at| at <= now) {
            self.cleaning.next = None;
            self.clean(cx);
        }
    }

    /// Gives the cleaner the dirtiest log, if none is being cleaned.
    fn clean(&mut self, cx: &mut Context<'_>) {
        if !matches!(self.stage, Stage::Running) || !self.config.cleaner.is_enabled {
            return;
        }
        self.cleaning.next = Some(cx.now.mono.plus_ms(self.config.cleaner.backoff_ms));
        if let Some((log, _)) = self.cleaning.log {
            let mut is_cleaning = false;
            self.with_log(log, |log| is_cleaning = log.is_cleaning());
            if is_cleaning {
                return;
            }
            self.cleaning.log = None;
        }
        let mut dirtiest: Option<(Dirt, LogId)> = None;
        for partition in self.partitions.values_mut() {
            let log = &mut partition.log;
            if let Some(dirt) = log.look_for_dirt(cx)
                && dirtiest.is_none_or(|(other, _)| dirt.is_more_than(&other))
            {
                dirtiest = Some((dirt, log.id()));
            }
        }
        if let Some((_, log)) = dirtiest {
            let max_map_bytes = self.config.cleaner.dedupe_buffer_bytes;
            let mut from = Offset(0);
            self.with_log(log, |log| {
                from = log.cleaner_point().first_dirty;
                log.clean(cx, max_map_bytes);
            });
            self.cleaning.log = Some((log, from));
        }
    }

    /// After a log was cleaned, the next one is looked for at once; after a failure, after a pause.
    fn note_cleaning(&mut self, cx: &mut Context<'_>, id: LogId) {
        let Some((_, from)) = self.cleaning.log.filter(|(log, _)| *log == id) else {
            return;
        };
        let (mut is_over, mut is_cleaner) = (true, false);
        self.with_log(id, |log| {
            is_over = !log.is_cleaning();
            is_cleaner = log.cleaner_point().first_dirty > from;
        });
        self.touched.remove(&id);
        if is_over {
            let pause_ms = if is_cleaner {
                0
            } else {
                self.config.cleaner.backoff_ms
            };
            self.cleaning.log = None;
            self.cleaning.next = Some(cx.now.mono.plus_ms(pause_ms));
        }
    }

    fn retention(&mut self, cx: &mut Context<'_>) {
        for partition in self.partitions.values_mut() {
            if partition.enforce_retention(cx) {
                self.checkpoint.want(cx.now);
            }
            self.touched.insert(partition.log.id());
        }
    }

    /// Retention begins with serving.
    pub(super) fn schedule_retention(&mut self, cx: &Context<'_>) {
        self.next_retention = Some(cx.now.mono.plus_ms(self.config.retention_check_interval_ms));
        self.cleaning.next = Some(cx.now.mono.plus_ms(self.config.cleaner.backoff_ms));
        let interval_ms = self.config.groups.offsets_retention_check_interval_ms;
        self.groups.schedule_expiry(cx.now.mono, interval_ms);
    }

    pub(super) fn next_deadline(&self) -> Option<Mono> {
        let mut next = earliest(self.timers.next(), self.next_retention);
        next = earliest(next, self.cleaning.next);
        if matches!(self.stage, Stage::Running) {
            next = earliest(next, self.groups.next_deadline());
        }
        earliest(next, self.checkpoint.next_deadline())
    }

    /// Draws the consequences of a step until there are none left.
    pub(super) fn settle(&mut self, cx: &mut Context<'_>) {
        let late = core::mem::take(&mut self.late_fetches);
        loop {
            if let Some(log) = self.touched.pop_first() {
                self.settle_log(cx, log);
            } else if let Some((request, answer)) = self.answers.pop_front() {
                if let Some(connection) = self.connections.answer(request, answer, cx.out) {
                    self.start_requests(cx, connection);
                }
            } else if !(self.settle_metadata(cx)
                || self.settle_checkpoint(cx)
                || start::settle(self, cx)
                || stop::settle(self, cx))
            {
                break;
            }
        }
        delayed_fetch::park_late(self, late);
    }

    fn settle_log(&mut self, cx: &mut Context<'_>, id: LogId) {
        let mut deadline = None;
        let mut wanted = false;
        self.with_log(id, |log| {
            wanted = log.take_recovery_point_moved();
            deadline = log.next_deadline();
        });
        self.touched.remove(&id);
        self.note_cleaning(cx, id);
        self.timers.set_log(id, deadline);
        if wanted {
            self.checkpoint.want(cx.now);
        }
        let Some(key) = self.by_log.get(&id) else {
            return;
        };
        let Some(partition) = self.partitions.get_mut(key) else {
            return;
        };
        let settled = partition.settle();
        if partition.holds_groups {
            let key = *key;
            coordinator::log_moved(self, cx, key, settled.lost);
        }
        self.spread(cx, settled);
    }

    /// Brings what a partition decided to the requests it concerns.
    pub(crate) fn spread(&mut self, cx: &mut Context<'_>, settled: crate::partition::Settled) {
        for (request, place, error) in settled.produces {
            delayed_produce::partition_done(self, request, place, error);
        }
        for request in settled.fetches {
            delayed_fetch::wake(self, cx, request);
        }
        for (request, place, result) in settled.deletes {
            request::records_deleted(self, request, place, result);
        }
    }

    fn settle_checkpoint(&mut self, cx: &mut Context<'_>) -> bool {
        let mut changed = false;
        for durable in self.checkpoint.take_durable() {
            changed = true;
            match durable {
                Durable::LogStart(log, start) => {
                    self.with_log(log, |log| log.on_log_start_durable(cx, start));
                }
                Durable::GapsEnd(log, gaps_end) => {
                    self.with_log(log, |log| log.on_cleaner_point_durable(cx, gaps_end));
                }
            }
        }
        if self.checkpoint.is_due(cx.now) {
            let logs = self
                .partitions
                .iter()
                .map(|(key, partition)| (*key, &partition.log, partition.wanted_log_start))
                .chain(self.metadata.checkpointed());
            self.checkpoint.write(cx, logs);
        }
        changed
    }

    fn settle_metadata(&mut self, cx: &mut Context<'_>) -> bool {
        let mut changed = self.metadata.settle(cx, &mut self.answers);
        changed |= crate::metadata::topics::settle(self, cx);
        changed
    }
}

impl State {
    /// A topic id that nothing has.
    pub(crate) fn new_topic_id(&mut self) -> TopicId {
        loop {
            let mut id = [0; 16];
            self.rng.fill_bytes(&mut id);
            // The version and variant bits of a random UUID. Kafka's reserved ids are lower.
            id[6] = id[6] & 0x0f | 0x40;
            id[8] = id[8] & 0x3f | 0x80;
            // Kafka avoids ids that begin with a dash, which command lines take for a flag.
            if id[0] >> 2 != 62 && self.metadata.image().topic_by_id(TopicId(id)).is_none() {
                return TopicId(id);
            }
        }
    }

    /// The host of a request's client, as Kafka writes it into groups.
    pub(crate) fn client_host(&self, request: RequestId) -> Str {
        let host = self.connections.peer(request).unwrap_or_default();
        alloc::format!("/{host}").into()
    }

    /// A random UUID, as text.
    pub(crate) fn new_uuid(&mut self) -> String {
        let mut id = [0; 16];
        self.rng.fill_bytes(&mut id);
        id[6] = id[6] & 0x0f | 0x40;
        id[8] = id[8] & 0x3f | 0x80;
        let mut text = String::with_capacity(36);
        for (place, byte) in id.iter().enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            for nibble in [byte >> 4, byte & 0xf] {
                text.extend(char::from_digit(u32::from(nibble), 16));
            }
        }
        text
    }

    /// The address that the client of a request is told to connect to.
    pub(crate) fn advertised(&self, request: RequestId) -> Endpoint {
        self.config
            .advertise
            .clone()
            .or_else(|| self.connections.local_endpoint(request).cloned())
            .unwrap_or_default()
    }

    /// Hands every log its settings anew, after configs changed.
    pub(crate) fn apply_configs(&mut self, cx: &mut Context<'_>) {
        for (key, partition) in &mut self.partitions {
            let config = self.metadata.log_config(&self.config, key.topic);
            if config != *partition.log.config() {
                partition.log.set_config(cx, config);
                self.touched.insert(partition.log.id());
            }
            partition.min_in_sync_replicas =
                self.metadata.min_in_sync_replicas(&self.config, key.topic);
        }
        self.tell_codecs(cx);
    }
}
