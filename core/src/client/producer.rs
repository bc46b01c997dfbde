//! The producer: records become batches, batches become requests, and every record gets exactly
//! one outcome.
//!
//! ```text
//! Produce -> (topic unknown: waits) -> partition -> open batch -> full, lingered, flushed
//!         -> in flight -> Ok | Failed | Unknown
//!                ^   |
//!                +---+ retriable: back to its place, after a back-off
//! ```
//!
//! - A record [`Failed`](Outcome::Failed) only if no attempt to send it can have appended it;
//!   otherwise it is [`Unknown`](Outcome::Unknown).
//! - The order of the sends to a partition is kept, as [`partition`] says.
//! - An idempotent producer never sends a record under a second number while it may be in the log
//!   under the first, as [`numbers`] says: nothing is there twice.
//! - What has no outcome yet is bounded by `buffer.memory`; a record beyond it fails at once with
//!   [`BufferFull`](ClientError::BufferFull), and the host is expected to ask first.
//!
//! Absent: transactions, and compression ratios in the
//! estimate of a batch's size (`batch.size` counts uncompressed bytes).

mod batch;
mod identity;
mod ledger;
mod numbers;
mod partition;
mod partitioner;
mod placement;
mod request;
mod verdict;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use self::batch::{Batch, Send};
use self::identity::Identity;
use self::ledger::Ledger;
use self::partition::{Partition, Urgency};
use self::placement::{Topic, Waiting};
use self::request::ProduceInFlight;
use self::verdict::Verdict;
use super::config::{Acks, ClientConfig, ProducerConfig};
use super::effect::{ClientEvent, Outcome};
use super::error::{ClientError, Timeout};
use super::input::{CommandId, ProducerRecord, TopicName};
use super::metadata::Metadata;
use super::network::{Network, Target};
use super::step::{Backoff, Step, earlier};
use crate::bugs::{Bug, Bugs};
use crate::ids::{NodeId, Offset};
use crate::log::producer_state::BATCHES_REMEMBERED;
use crate::record::Compression;
use crate::record::compression::Tables;
use crate::time::Mono;
use crate::wire::ErrorCode;

/// The producer of a client.
#[derive(Debug)]
pub(crate) struct Producer {
    config: ProducerConfig,
    bugs: Bugs,
    backoff: Backoff,
    ledger: Ledger,
    /// Of an idempotent producer.
    identity: Option<Identity>,
    /// Whether a partition that could be sent to waits for the id.
    waits_for_identity: bool,
    closed: bool,
    topics: BTreeMap<TopicName, Topic>,
    /// Every partition that ever got a record, by an index of our own.
    partitions: Vec<Partition>,
    /// The partitions whose first batch is to be sent, by leader.
    ready: BTreeMap<NodeId, BTreeSet<usize>>,
    /// When to look at which partition.
    timers: BTreeSet<(Mono, usize)>,
    in_flight: BTreeMap<u64, ProduceInFlight>,
    next_request: u64,
    /// How many records wait for their topic.
    waiting: usize,
    /// Whether memory was short at the last look.
    was_pressed: bool,
    metadata_generation: u64,
    tables: Tables,
}

impl Producer {
    pub(crate) fn new(config: &ClientConfig, bugs: Bugs) -> Self {
        let backoff = Backoff {
            first_ms: config.retry_backoff_ms,
            max_ms: config.retry_backoff_max_ms,
        };
        let producer = &config.producer;
        let is_idempotent =
            producer.enable_idempotence && producer.acks == Acks::All && producer.retries > 0;
        Self {
            config: producer.clone(),
            bugs,
            backoff,
            ledger: Ledger::new(producer.buffer_memory),
            identity: is_idempotent.then(|| Identity::new(backoff)),
            waits_for_identity: false,
            closed: false,
            topics: BTreeMap::new(),
            partitions: Vec::new(),
            ready: BTreeMap::new(),
            timers: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            next_request: 0,
            waiting: 0,
            was_pressed: false,
            metadata_generation: 0,
            tables: Tables::default(),
        }
    }

    /// Whether a record of this size would be accepted now, or refused for ever.
    pub(crate) fn takes(&self, size: usize) -> bool {
        self.closed || size > self.record_limit() || self.ledger.has_room(size)
    }

    /// The largest record there may be.
    fn record_limit(&self) -> usize {
        self.config.max_request_size.min(self.config.buffer_memory)
    }

    /// Accepts a record, or fails it at once.
    pub(crate) fn produce(
        &mut self,
        step: &mut Step<'_>,
        metadata: &mut Metadata,
        id: CommandId,
        record: ProducerRecord,
    ) {
        let size = record.size();
        let refused = if self.closed {
            Some(ClientError::Closed)
        } else if size > self.record_limit() {
            Some(ClientError::RecordTooLarge {
                size,
                limit: self.record_limit(),
            })
        } else if !self.ledger.has_room(size) {
            Some(ClientError::BufferFull)
        } else {
            None
        };
        if let Some(error) = refused {
            let outcome = Outcome::Failed(error);
            step.out.event(ClientEvent::Delivery { id, outcome });
            return;
        }
        self.ledger.accept(size);
        let waiting = Waiting {
            id,
            record,
            since: step.now.mono,
            wall: step.now.wall,
            epoch: self.ledger.epoch(),
            generation: metadata.generation(),
        };
        if !self.topics.contains_key(&waiting.record.topic) {
            metadata.want(&waiting.record.topic);
            self.topics
                .insert(waiting.record.topic.clone(), Topic::default());
        }
        let must_queue = self
            .topics
            .get(&waiting.record.topic)
            .is_some_and(|topic| !topic.waiting.is_empty());
        if must_queue {
            self.wait(waiting);
        } else if let Some(waiting) = self.place(step, metadata, waiting) {
            metadata.request_update();
            self.wait(waiting);
        }
        if self.ledger.is_pressed() != self.was_pressed {
            self.was_pressed = self.ledger.is_pressed();
            self.look_at_all(step);
        }
    }

    /// Everything accepted so far is sent without lingering.
    pub(crate) fn flush(&mut self, step: &mut Step<'_>, id: CommandId) {
        if self.bugs.has(Bug::FlushTooEarly) {
            return step.out.event(ClientEvent::Flushed { id });
        }
        self.ledger.flush(step, id);
        self.look_at_all(step);
    }

    /// Accepts nothing any more and sends what there is.
    pub(crate) fn close(&mut self, step: &mut Step<'_>) {
        self.closed = true;
        self.look_at_all(step);
    }

    /// Whether every record has its outcome.
    pub(crate) fn is_settled(&self) -> bool {
        self.ledger.is_settled()
    }

    /// Gives every record its outcome, whatever it waits for.
    pub(crate) fn abort(&mut self, step: &mut Step<'_>) {
        let error = |last| ClientError::TimedOut {
            what: Timeout::Close,
            last,
        };
        self.drop_all_waiting(step, |_| Some(error(None)));
        for index in 0..self.partitions.len() {
            self.drop_batches(step, index, |_| true, error);
            self.look_at(step, index);
        }
    }

    /// What changed in the metadata, and the time, have their effects; then what is to be sent is
    /// sent.
    pub(crate) fn settle(
        &mut self,
        step: &mut Step<'_>,
        metadata: &mut Metadata,
        network: &mut Network,
    ) {
        if self.metadata_generation != metadata.generation() {
            self.metadata_generation = metadata.generation();
            self.metadata_changed(step, metadata);
        }
        self.expire(step, metadata);
        if let Some(identity) = &mut self.identity
            && (self.waits_for_identity || !self.ready.is_empty())
            && identity.current(step, network).is_none()
        {
            return;
        }
        let nodes: Vec<NodeId> = self
            .ready
            .keys()
            .filter(|node| self.has_slot(**node))
            .copied()
            .collect();
        for node in nodes {
            while self.ready.contains_key(&node) && self.has_slot(node) {
                if !network.ready(step, Target::Node(node)) {
                    break;
                }
                self.send_request(step, metadata, network, node);
            }
        }
    }

    fn has_slot(&self, node: NodeId) -> bool {
        let in_flight = self
            .in_flight
            .values()
            .filter(|request| request.node == node)
            .count();
        in_flight < self.config.max_in_flight_requests_per_connection.max(1)
    }

    fn metadata_changed(&mut self, step: &mut Step<'_>, metadata: &Metadata) {
        for index in 0..self.partitions.len() {
            let Some(partition) = self.partitions.get_mut(index) else {
                continue;
            };
            let leader = metadata
                .topic(&partition.topic)
                .and_then(|topic| topic.partitions.get(partition.number as usize))
                .and_then(|info| info.leader);
            if leader != partition.leader {
                remove_ready(&mut self.ready, partition.leader, index);
                partition.leader = leader;
                self.look_at(step, index);
            }
        }
        self.place_waiting(step, metadata);
    }

    /// Gives up what is overdue, and looks at the partitions whose time has come.
    fn expire(&mut self, step: &mut Step<'_>, metadata: &mut Metadata) {
        let now = step.now.mono;
        self.expire_waiting(step, metadata);
        while let Some(&(at, index)) = self.timers.first() {
            if at > now {
                break;
            }
            let timeout_ms = u64::from(self.config.delivery_timeout_ms);
            self.drop_batches(
                step,
                index,
                |batch| batch.created.plus_ms(timeout_ms) <= now,
                |last| ClientError::TimedOut {
                    what: Timeout::Delivery,
                    last,
                },
            );
            self.look_at(step, index);
        }
    }

    /// When [`Self::settle`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Mono> {
        let timer = self.timers.first().map(|(at, _)| *at);
        let identity = self
            .identity
            .as_ref()
            .filter(|_| self.waits_for_identity || !self.ready.is_empty())
            .and_then(Identity::deadline);
        earlier(earlier(timer, identity), self.waiting_deadline())
    }

    /// Brings the lists of what is ready and of timers up to date with a partition.
    fn look_at(&mut self, step: &Step<'_>, index: usize) {
        let urgency = self.urgency(step.now.mono);
        let Some(partition) = self.partitions.get_mut(index) else {
            return;
        };
        if let Some(node) = partition.leader {
            if partition.is_sendable(&urgency) {
                self.ready.entry(node).or_default().insert(index);
            } else {
                remove_ready(&mut self.ready, Some(node), index);
            }
        }
        let timer = partition.next_timer(&urgency);
        if timer != partition.timer {
            if let Some(old) = partition.timer {
                self.timers.remove(&(old, index));
            }
            if let Some(new) = timer {
                self.timers.insert((new, index));
            }
            partition.timer = timer;
        }
    }

    fn look_at_all(&mut self, step: &Step<'_>) {
        for index in 0..self.partitions.len() {
            self.look_at(step, index);
        }
    }

    fn urgency(&self, now: Mono) -> Urgency {
        Urgency {
            now,
            batch_size: self.config.batch_size,
            linger_ms: if self.closed {
                0
            } else {
                self.config.linger_ms
            },
            delivery_timeout_ms: self.config.delivery_timeout_ms,
            max_in_flight: match self.identity {
                Some(_) => self
                    .config
                    .max_in_flight_requests_per_connection
                    .clamp(1, BATCHES_REMEMBERED),
                None => self.config.max_in_flight_batches_per_partition.max(1),
            },
            epoch: self.ledger.epoch(),
            pressed: self.was_pressed,
        }
    }

    /// What became of a batch that was in flight.
    fn judge(&mut self, step: &mut Step<'_>, index: usize, mut batch: Batch, verdict: Verdict) {
        if batch.sends.is_empty() {
            // Its records were given up while it was in flight.
            if let Some(partition) = self.partitions.get_mut(index) {
                match verdict {
                    Verdict::Appended { .. } => partition.numbers.continues(&batch),
                    _ => partition.numbers.breaks_at(&batch),
                }
            }
            return;
        }
        match verdict {
            Verdict::Appended {
                base_offset,
                append_time,
            } => self.appended(step, index, batch, base_offset, append_time),
            Verdict::OutOfOrder(error) => self.out_of_order(step, index, batch, error),
            Verdict::TooLarge(error) => {
                if batch.sends.len() > 1
                    && let Ok(halves) = batch.split()
                    && let Some(partition) = self.partitions.get_mut(index)
                {
                    for half in halves {
                        partition.put_back(half);
                    }
                } else {
                    self.give_up(step, index, batch, error);
                }
            }
            Verdict::Refused {
                error,
                retriable,
                maybe_appended,
            } => {
                batch.maybe_appended |= maybe_appended && !self.bugs.has(Bug::UnansweredIsFailed);
                batch.last_error = error.code().or(batch.last_error);
                if error.code() == Some(ErrorCode::INVALID_PRODUCER_EPOCH)
                    && let Some(identity) = &mut self.identity
                {
                    // Somebody else goes by this id.
                    identity.forget();
                }
                if !retriable || batch.attempts > self.config.retries {
                    self.give_up(step, index, batch, error);
                    return;
                }
                if self.bugs.has(Bug::NumberRetriesAnew) {
                    batch.strip_number().expect("a batch of our own reads back");
                }
                let at = self.backoff.after(batch.attempts, step);
                if let Some(partition) = self.partitions.get_mut(index) {
                    if self.bugs.has(Bug::ForgetSendOrder) {
                        partition.put_last(batch);
                        return;
                    }
                    partition.back_off(at);
                    partition.put_back(batch);
                }
            }
        }
    }

    fn appended(
        &mut self,
        step: &mut Step<'_>,
        index: usize,
        mut batch: Batch,
        base_offset: Option<i64>,
        append_time: Option<i64>,
    ) {
        if let Some(partition) = self.partitions.get_mut(index) {
            partition.numbers.continues(&batch);
        }
        let partition = self.partitions.get(index).map_or(-1, |p| p.number);
        let first = i64::from(self.bugs.has(Bug::OutcomeOffsetOff));
        for (place, send) in (first..).zip(batch.drop_records()) {
            let outcome = Outcome::Ok {
                partition,
                offset: base_offset
                    .and_then(|base| base.checked_add(place))
                    .map(Offset),
                timestamp: append_time.unwrap_or(send.timestamp),
            };
            self.ledger.settle(step, batch.epoch, send, outcome);
        }
        self.note_relief(step);
    }

    /// The records of a batch get their outcome: none of them was appended, as far as is known.
    fn give_up(&mut self, step: &mut Step<'_>, index: usize, mut batch: Batch, error: ClientError) {
        if let Some(partition) = self.partitions.get_mut(index) {
            partition.numbers.breaks_at(&batch);
        }
        let outcome = if batch.maybe_appended && self.bugs.has(Bug::MakeUpOffsets) {
            Outcome::Ok {
                partition: self.partitions.get(index).map_or(-1, |p| p.number),
                offset: Some(Offset(10_000)),
                timestamp: 0,
            }
        } else if batch.maybe_appended {
            Outcome::Unknown(error)
        } else {
            Outcome::Failed(error)
        };
        for send in batch.drop_records() {
            self.ledger.settle(step, batch.epoch, send, outcome.clone());
        }
        self.note_relief(step);
    }

    fn note_relief(&mut self, step: &Step<'_>) {
        if self.was_pressed && !self.ledger.is_pressed() {
            self.was_pressed = false;
            self.look_at_all(step);
        }
    }

    /// Gives up the batches of a partition that `over` holds for. Those in flight stay there, as
    /// far as order is concerned, until their request ends.
    fn drop_batches(
        &mut self,
        step: &mut Step<'_>,
        index: usize,
        over: impl Fn(&Batch) -> bool,
        error: impl Fn(Option<ErrorCode>) -> ClientError,
    ) {
        let Some(partition) = self.partitions.get_mut(index) else {
            return;
        };
        let in_flight: Vec<(u64, Option<ErrorCode>, Vec<Send>)> = partition
            .in_flight_mut()
            .filter(|batch| over(batch))
            .map(|batch| (batch.epoch, batch.last_error, batch.drop_records()))
            .collect();
        let waiting = partition.drop_waiting(&over);
        for (epoch, last, sends) in in_flight {
            for send in sends {
                let outcome = Outcome::Unknown(error(last));
                self.ledger.settle(step, epoch, send, outcome);
            }
        }
        for batch in waiting {
            let error = error(batch.last_error);
            self.give_up(step, index, batch, error);
        }
    }

    const fn needs_zstd(&self) -> bool {
        matches!(self.config.compression, Compression::Zstd)
    }
}

fn remove_ready(
    ready: &mut BTreeMap<NodeId, BTreeSet<usize>>,
    leader: Option<NodeId>,
    index: usize,
) {
    let Some(node) = leader else {
        return;
    };
    if let Some(indexes) = ready.get_mut(&node) {
        indexes.remove(&index);
        if indexes.is_empty() {
            ready.remove(&node);
        }
    }
}
