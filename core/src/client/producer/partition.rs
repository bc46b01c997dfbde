//! The batches of one partition: those that wait, and those that are on their way.
//!
//! # Order
//!
//! Batches are sent by rising ordinal. One that has to be sent again goes back to its place, and
//! until it is through, nothing else of the partition is sent: neither while others of it are in
//! flight, which may have to come back too, nor while it is in flight itself. With one batch in
//! flight a partition this keeps the order of the sends whatever fails; so do numbers ([`numbers`]),
//! with which more may be in flight once the first is through.
//!
//! [`numbers`]: super::numbers

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::batch::Batch;
use super::numbers::Numbers;
use crate::client::input::{CommandId, ProducerRecord, TopicName};
use crate::client::step::earlier;
use crate::ids::NodeId;
use crate::time::{Mono, Wall};

/// The batches of one partition.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) topic: TopicName,
    pub(super) number: i32,
    /// Who leads it, as far as known.
    pub(super) leader: Option<NodeId>,
    /// By rising ordinal. Only the last may take more records.
    pub(super) waiting: VecDeque<Batch>,
    /// In the order in which they were sent.
    pub(super) in_flight: Vec<Batch>,
    /// How an idempotent producer numbers its batches.
    pub(super) numbers: Numbers,
    next_ordinal: u64,
    /// Nothing is sent before this: a retry is backing off.
    not_before: Mono,
    /// Where it stands in the producer's list of timers.
    pub(super) timer: Option<Mono>,
}

/// What decides whether a batch is sent now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Urgency {
    pub(super) now: Mono,
    pub(super) batch_size: usize,
    pub(super) linger_ms: u32,
    pub(super) delivery_timeout_ms: u32,
    pub(super) max_in_flight: usize,
    /// Batches of earlier epochs are being flushed.
    pub(super) epoch: u64,
    /// Memory is short.
    pub(super) pressed: bool,
}

impl Partition {
    pub(super) const fn new(topic: TopicName, number: i32) -> Self {
        Self {
            topic,
            number,
            leader: None,
            waiting: VecDeque::new(),
            in_flight: Vec::new(),
            numbers: Numbers::NONE,
            next_ordinal: 0,
            not_before: Mono(0),
            timer: None,
        }
    }

    /// Adds a record behind all others; whether that may have changed what is to be sent or when.
    pub(super) fn append(
        &mut self,
        id: CommandId,
        record: &ProducerRecord,
        (since, wall): (Mono, Wall),
        epoch: u64,
        batch_size: usize,
    ) -> bool {
        let ordinal = self.next_ordinal;
        self.next_ordinal += 1;
        if let Some(last) = self.waiting.back_mut() {
            // A flush waits for whole batches, so records of two epochs do not mix.
            if last.epoch == epoch && last.append(id, record, wall) {
                return last.is_full(batch_size);
            }
            last.close();
        }
        let mut batch = Batch::new(batch_size, ordinal, since, epoch);
        let fits = batch.append(id, record, wall);
        assert!(
            fits,
            "an empty batch takes any record within max.request.size"
        );
        self.waiting.push_back(batch);
        true
    }

    /// Whether the first batch that waits is to be sent now.
    pub(super) fn is_sendable(&self, urgency: &Urgency) -> bool {
        self.blocked_until(urgency)
            .is_some_and(|at| at <= urgency.now)
    }

    /// When the first batch that waits may be sent; `None` if there is none, or if it waits for
    /// others in flight.
    fn blocked_until(&self, urgency: &Urgency) -> Option<Mono> {
        let first = self.waiting.front()?;
        if self.in_flight.len() >= urgency.max_in_flight {
            return None;
        }
        // The halves of a batch that was too large were not sent before, but others behind it were.
        let retrying = first.attempts > 0
            || self
                .in_flight
                .iter()
                .any(|batch| batch.attempts > 1 || batch.ordinal > first.ordinal);
        // Numbers begin anew once what has the old ones is through.
        let begins_anew = self.numbers.is_broken && first.sequence.is_none();
        let alone = retrying || begins_anew || self.numbers.await_the_first();
        if alone && !self.in_flight.is_empty() {
            return None;
        }
        let lingers = !(self.waiting.len() > 1
            || first.attempts > 0
            || first.epoch < urgency.epoch
            || urgency.pressed
            || first.is_full(urgency.batch_size));
        let linger_end = if lingers {
            first.created.plus_ms(urgency.linger_ms.into())
        } else {
            Mono(0)
        };
        Some(linger_end.max(self.not_before))
    }

    /// When to look at the partition again: a linger or a back-off ends, or a record is overdue.
    pub(super) fn next_timer(&self, urgency: &Urgency) -> Option<Mono> {
        let blocked = self.blocked_until(urgency).filter(|at| *at > urgency.now);
        let oldest = self
            .in_flight
            .iter()
            .filter(|batch| !batch.sends.is_empty())
            .chain(self.waiting.front())
            .map(|batch| batch.created)
            .min();
        let overdue = oldest.map(|created| created.plus_ms(urgency.delivery_timeout_ms.into()));
        earlier(blocked, overdue)
    }

    /// Size of the first batch that waits.
    pub(super) fn next_size(&self) -> Option<usize> {
        self.waiting.front().map(Batch::size)
    }

    /// The first batch that waits is being sent.
    pub(super) fn send_next(&mut self) -> Option<&mut Batch> {
        let mut batch = self.waiting.pop_front()?;
        batch.close();
        batch.attempts = batch.attempts.saturating_add(1);
        if let Some(before) = self.in_flight.last() {
            assert!(
                before.ordinal < batch.ordinal,
                "batches are sent in the order of their records"
            );
        }
        self.in_flight.push(batch);
        self.in_flight.last_mut()
    }

    /// The batch of this ordinal is no longer in flight.
    pub(super) fn take_in_flight(&mut self, ordinal: u64) -> Option<Batch> {
        let index = self
            .in_flight
            .iter()
            .position(|batch| batch.ordinal == ordinal)?;
        Some(self.in_flight.remove(index))
    }

    /// A batch goes back to its place among those that wait.
    pub(super) fn put_back(&mut self, batch: Batch) {
        let place = self
            .waiting
            .partition_point(|waiting| waiting.ordinal < batch.ordinal);
        self.waiting.insert(place, batch);
    }

    /// A batch goes behind those that wait, where it does not belong: a planted bug.
    pub(super) fn put_last(&mut self, batch: Batch) {
        self.waiting.push_back(batch);
    }

    /// Nothing is sent before `at`.
    pub(super) fn back_off(&mut self, at: Mono) {
        self.not_before = self.not_before.max(at);
    }

    /// Takes the batches that wait, from the first on, as long as `over` holds for them.
    pub(super) fn drop_waiting(&mut self, over: impl Fn(&Batch) -> bool) -> Vec<Batch> {
        let mut dropped = Vec::new();
        while let Some(batch) = self.waiting.pop_front_if(|batch| over(batch)) {
            dropped.push(batch);
        }
        dropped
    }

    /// The batches that are in flight and still have somebody to tell.
    pub(super) fn in_flight_mut(&mut self) -> impl Iterator<Item = &mut Batch> {
        self.in_flight
            .iter_mut()
            .filter(|batch| !batch.sends.is_empty())
    }
}
