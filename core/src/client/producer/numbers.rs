//! The numbers of an idempotent producer's records in a partition (KIP-98).
//!
//! A batch gets its number when it is first sent, and keeps it over retries: the broker appends it
//! once, and only behind what has the numbers before. If a batch is given up, those numbers may never
//! come, and what is numbered after them waits for ever. Then numbers begin anew in a higher epoch, once
//! nothing with an old number is in flight.
//!
//! A batch gets another number only when it is certain that it is not in the log under the first, nor on
//! its way there: the broker said that it is out of order, and every attempt to send it was answered.
//! Kafka's producer takes the first for enough. Here a batch of which an attempt was never answered
//! ends as unknown, since that attempt may yet arrive.
//!
//! A broker that knows nothing of a producer takes any number as its first. Only behind a batch that it
//! has appended do numbers keep the order, so the first batch under an id is sent alone. Kafka's producer
//! does not wait for it: if it is refused as too large, what was sent behind it comes to lie before its
//! halves.

use alloc::vec::Vec;
use core::mem;

use super::Producer;
use super::batch::{Batch, add_to_sequence};
use super::identity::{Identity, ProducerIdAndEpoch};
use super::partition::Partition;
use crate::client::effect::Outcome;
use crate::client::error::ClientError;
use crate::client::step::Step;
use crate::record::ProducerFields;
use crate::wire::{ErrorCode, ResponseBody};

/// How the batches of a partition are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbers {
    /// Under which id and epoch; `None` before the first.
    producer: Option<ProducerIdAndEpoch>,
    next: i32,
    /// Whether the broker has appended a batch under this id, and refuses what does not follow it.
    is_known: bool,
    /// Whether some numbers may never come.
    pub(super) is_broken: bool,
}

impl Numbers {
    /// No number was given yet.
    pub(super) const NONE: Self = Self {
        producer: None,
        next: 0,
        is_known: false,
        is_broken: false,
    };

    /// Whether only the first number may be on its way.
    pub(super) const fn await_the_first(&self) -> bool {
        self.producer.is_some() && !self.is_known
    }

    fn are_of(&self, batch: &Batch) -> bool {
        match (batch.sequence, self.producer) {
            (Some(number), Some(producer)) => {
                (number.producer_id, number.producer_epoch)
                    == (producer.producer_id, producer.epoch)
            }
            _ => false,
        }
    }

    /// A numbered batch is in the log, and so is all that is numbered before it.
    pub(super) fn continues(&mut self, batch: &Batch) {
        self.is_known |= self.are_of(batch);
        if let Some(number) = batch.sequence
            && self.are_of(batch)
            && add_to_sequence(number.base_sequence, batch.count) == self.next
        {
            self.is_broken = false;
        }
    }

    /// A batch is given up; if it is numbered, what follows may never fit.
    pub(super) fn breaks_at(&mut self, batch: &Batch) {
        self.is_broken |= self.are_of(batch);
    }

    fn give(&mut self, batch: &mut Batch) {
        if let Some(producer) = self.producer {
            // It may have to wait for room in a request, and the next number counts its records.
            batch.close();
            batch.sequence = Some(ProducerFields {
                producer_id: producer.producer_id,
                producer_epoch: producer.epoch,
                base_sequence: self.next,
            });
            self.next = add_to_sequence(self.next, batch.count);
        }
    }
}

impl Partition {
    /// Sees to it that the first batch that waits has a number. `None` if that is not possible yet;
    /// else the batches that can get no other number and may be in the log under the one they have.
    fn number_first(&mut self, identity: &mut Identity) -> Option<Vec<Batch>> {
        if self.waiting.front()?.sequence.is_some() {
            return Some(Vec::new());
        }
        let mut doubtful = Vec::new();
        if let Some(used) = self.numbers.producer
            && self.numbers.is_broken
        {
            let above = identity.above(used)?;
            self.begin_anew(above);
            for mut batch in mem::take(&mut self.waiting) {
                if batch.sequence.is_some() && batch.maybe_appended {
                    doubtful.push(batch);
                    continue;
                }
                batch.strip_number().expect("a batch of our own reads back");
                self.waiting.push_back(batch);
            }
        } else if self.numbers.producer.is_none() {
            self.begin_anew(identity.known()?);
        }
        if let Some(first) = self.waiting.front_mut() {
            self.numbers.give(first);
        }
        Some(doubtful)
    }

    fn begin_anew(&mut self, producer: ProducerIdAndEpoch) {
        let before = self.numbers.producer;
        // Of a known producer a higher epoch must begin at 0.
        let is_same = before.is_some_and(|before| before.producer_id == producer.producer_id);
        self.numbers = Numbers {
            producer: Some(producer),
            next: 0,
            is_known: self.numbers.is_known && is_same,
            is_broken: false,
        };
    }
}

impl Producer {
    /// Numbers the batch of a partition that is sent next, if the producer is idempotent; whether it
    /// can be sent.
    pub(super) fn number_next(&mut self, step: &mut Step<'_>, index: usize) -> bool {
        let Some(identity) = &mut self.identity else {
            return true;
        };
        let Some(partition) = self.partitions.get_mut(index) else {
            return false;
        };
        let Some(doubtful) = partition.number_first(identity) else {
            // It is looked at again when the id is there.
            self.waits_for_identity = true;
            return false;
        };
        for mut batch in doubtful {
            let code = ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER;
            let outcome = Outcome::Unknown(ClientError::broker(code));
            for send in batch.drop_records() {
                self.ledger.settle(step, batch.epoch, send, outcome.clone());
            }
        }
        true
    }

    /// The broker says that a batch does not follow what it has.
    pub(super) fn out_of_order(
        &mut self,
        step: &mut Step<'_>,
        index: usize,
        mut batch: Batch,
        error: ClientError,
    ) {
        batch.last_error = error.code().or(batch.last_error);
        let Some(partition) = self.partitions.get_mut(index) else {
            return;
        };
        let is_first = partition
            .in_flight
            .iter()
            .chain(&partition.waiting)
            .all(|other| other.sequence.is_none() || other.ordinal > batch.ordinal);
        if is_first {
            // What comes before it never will.
            partition.numbers.breaks_at(&batch);
            if batch.maybe_appended || batch.attempts > self.config.retries {
                return self.give_up(step, index, batch, error);
            }
            batch.strip_number().expect("a batch of our own reads back");
        }
        let at = self.backoff.after(batch.attempts, step);
        partition.back_off(at);
        partition.put_back(batch);
    }

    /// The answer to the question for an id came, or none will.
    pub(crate) fn identified(
        &mut self,
        step: &mut Step<'_>,
        result: Result<ResponseBody, ClientError>,
    ) {
        let Some(identity) = &mut self.identity else {
            return;
        };
        self.waits_for_identity = false;
        if let Err(error) = identity.answered(step, result) {
            for index in 0..self.partitions.len() {
                self.drop_batches(step, index, |_| true, |_| error.clone());
                self.look_at(step, index);
            }
            return;
        }
        // Some were left out when the id was not known.
        self.look_at_all(step);
    }
}
