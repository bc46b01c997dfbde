//! What a log knows of the idempotent producers that wrote to it (KIP-98): the epoch of each and its
//! last five batches.
//!
//! - A batch that is among the last five of its producer's epoch is a retry: it is not appended, and
//!   the answer is that of the original.
//! - A batch of an older epoch is fenced, with `<`. A newer epoch begins at sequence 0.
//! - Within an epoch, sequences follow each other without a gap; after 2^31-1 comes 0.
//! - Of a producer that is not known, be it new or expired, any sequence is taken, as Kafka does: what
//!   it wrote before may have been deleted.
//!
//! What is appended counts at once and may be taken back until it is acknowledged
//! ([`ProducerStates::roll_back`]): then everything is as it was before, forgotten batches included.
//!
//! A producer expires when it was idle for `producer.id.expiration.ms`. Kafka measures that by the
//! timestamp of the last batch, so that a producer of old records, or one after a step of the clock,
//! loses its protection at once. Here the time of the append counts, and after a start the time of
//! the start.

use alloc::collections::{BTreeMap, VecDeque};
use core::fmt;

use crate::ids::{Offset, ProducerEpoch, ProducerId};
use crate::record::batch::BatchHeader;
use crate::time::Mono;

/// How many batches of a producer are remembered: Kafka clients have at most as many in flight.
pub const BATCHES_REMEMBERED: usize = 5;

/// How many producers a log remembers; of more, the one that is idle for longest is forgotten. About
/// 15 MiB at most.
pub const MAX_PRODUCERS: usize = 1 << 16;

/// A batch that a producer wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProducerBatch {
    /// Sequence number of its last record.
    pub last_sequence: i32,
    /// Offset of its last record.
    pub last_offset: Offset,
    /// How far the last record's sequence and offset are above the first's.
    pub offset_delta: i32,
    /// Its largest timestamp, in milliseconds.
    pub timestamp: i64,
}

impl ProducerBatch {
    /// What the header of a stored batch says of it.
    #[must_use]
    pub const fn of(header: &BatchHeader) -> Self {
        Self {
            last_sequence: header.last_sequence(),
            last_offset: header.last_offset(),
            offset_delta: header.last_offset_delta,
            timestamp: header.max_timestamp,
        }
    }

    /// Sequence number of its first record.
    #[must_use]
    pub const fn first_sequence(&self) -> i32 {
        ((self.last_sequence as u32).wrapping_sub(self.offset_delta as u32) & 0x7fff_ffff) as i32
    }

    /// Offset of its first record.
    #[must_use]
    pub const fn first_offset(&self) -> Offset {
        self.last_offset.plus(-(self.offset_delta as i64))
    }
}

/// What is known of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// Its newest epoch.
    pub epoch: ProducerEpoch,
    /// Epoch of the coordinator that wrote its last transaction marker, or -1.
    pub coordinator_epoch: i32,
    /// Where its open transaction begins.
    pub transaction_start: Option<Offset>,
    batches: [ProducerBatch; BATCHES_REMEMBERED],
    count: u8,
    /// When this process saw it last.
    seen: Mono,
    /// Its place among all producers by when they were seen.
    order: u64,
}

impl ProducerState {
    /// A producer in an epoch of which no batch is known.
    #[must_use]
    pub fn new(epoch: ProducerEpoch) -> Self {
        Self {
            epoch,
            coordinator_epoch: -1,
            transaction_start: None,
            batches: Default::default(),
            count: 0,
            seen: Mono(0),
            order: 0,
        }
    }

    /// The batches that are remembered of its epoch, oldest first.
    #[must_use]
    pub fn batches(&self) -> &[ProducerBatch] {
        self.batches
            .get(..usize::from(self.count))
            .unwrap_or_default()
    }

    /// Its last batch.
    #[must_use]
    pub fn last(&self) -> Option<&ProducerBatch> {
        self.batches().last()
    }

    /// Adds a batch; the oldest one goes if there is no room.
    pub fn push(&mut self, batch: ProducerBatch) {
        let mut count = usize::from(self.count);
        if count == BATCHES_REMEMBERED {
            self.batches.rotate_left(1);
            count -= 1;
        }
        if let Some(free) = self.batches.get_mut(count) {
            *free = batch;
        }
        self.count = (count + 1) as u8;
    }

    /// Puts older batches, oldest first, in front of those that are known, as far as there is room.
    pub fn prepend(&mut self, older: &[ProducerBatch]) {
        let mut all = Self::new(self.epoch);
        for batch in older.iter().chain(self.batches()) {
            all.push(*batch);
        }
        self.batches = all.batches;
        self.count = all.count;
    }
}

/// A batch that is in the log already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// Where.
    pub batch: ProducerBatch,
}

/// Why a producer's batch is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProducerError {
    /// Its epoch is older than the newest that was seen: INVALID_PRODUCER_EPOCH.
    StaleEpoch {
        /// The producer.
        producer: ProducerId,
        /// The batch's.
        epoch: ProducerEpoch,
        /// The newest.
        current: ProducerEpoch,
    },
    /// It does not follow the last batch: OUT_OF_ORDER_SEQUENCE_NUMBER.
    OutOfOrder {
        /// The producer.
        producer: ProducerId,
        /// The batch's first sequence number.
        found: i32,
        /// The one that would have followed.
        expected: i32,
    },
}

impl fmt::Display for ProducerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StaleEpoch {
                producer,
                epoch,
                current,
            } => write!(
                f,
                "epoch {epoch} of producer {producer} is older than {current}"
            ),
            Self::OutOfOrder {
                producer,
                found,
                expected,
            } => write!(
                f,
                "producer {producer} sent sequence number {found} where {expected} follows"
            ),
        }
    }
}

impl core::error::Error for ProducerError {}

/// What to restore if the batch with this last offset is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Undo {
    last_offset: Offset,
    producer: ProducerId,
    before: Option<ProducerState>,
}

/// All producers of a log.
#[derive(Clone, Debug, Default)]
pub struct ProducerStates {
    producers: BTreeMap<ProducerId, ProducerState>,
    /// The producers by when they were seen last.
    by_order: BTreeMap<u64, ProducerId>,
    next_order: u64,
    /// Changes that may be taken back, in the order of the log.
    undo: VecDeque<Undo>,
}

impl ProducerStates {
    /// Holds a batch against what is known of its producer; `None` for one that is to be appended.
    ///
    /// # Errors
    /// If it is to be refused.
    pub fn check(&self, header: &BatchHeader) -> Result<Option<Duplicate>, ProducerError> {
        match self.producers.get(&ProducerId(header.producer_id)) {
            Some(known) => check(known, header),
            None => Ok(None),
        }
    }

    /// A batch of a producer is appended. `header` says where.
    pub fn record(&mut self, header: &BatchHeader, now: Mono) {
        let producer = ProducerId(header.producer_id);
        let last_offset = header.last_offset();
        let before = self.producers.get(&producer).copied();
        let mut state = next_state(before, header);
        state.seen = now;
        self.undo.push_back(Undo {
            last_offset,
            producer,
            before,
        });
        self.set_newest(producer, state);
        while self.producers.len() > MAX_PRODUCERS {
            let Some((_, idle)) = self.by_order.first_key_value() else {
                break;
            };
            let idle = *idle;
            let before = self.set(idle, None);
            self.undo.push_back(Undo {
                last_offset,
                producer: idle,
                before,
            });
        }
    }

    /// The log ends at `end` now: what was recorded of batches above it did not happen.
    pub fn roll_back(&mut self, end: Offset) {
        while let Some(undo) = self.undo.pop_back_if(|undo| undo.last_offset >= end) {
            self.set(undo.producer, undo.before);
        }
    }

    /// What lies below `end` stays.
    pub fn forget_undo(&mut self, end: Offset) {
        while self
            .undo
            .pop_front_if(|undo| undo.last_offset < end)
            .is_some()
        {}
    }

    /// Forgets those that were idle for so long.
    pub fn expire(&mut self, now: Mono, expiration_ms: u64) {
        while let Some((producer, at)) = self.first_expiry(expiration_ms) {
            if at > now {
                break;
            }
            self.set(producer, None);
        }
    }

    /// When the next one is idle for so long.
    #[must_use]
    pub fn next_expiry(&self, expiration_ms: u64) -> Option<Mono> {
        self.first_expiry(expiration_ms).map(|(_, at)| at)
    }

    fn first_expiry(&self, expiration_ms: u64) -> Option<(ProducerId, Mono)> {
        let (_, producer) = self.by_order.first_key_value()?;
        let state = self.producers.get(producer)?;
        Some((*producer, state.seen.plus_ms(expiration_ms)))
    }

    /// Takes what a snapshot or a walk over the log says of a producer.
    pub fn restore(&mut self, producer: ProducerId, state: ProducerState) {
        self.set_newest(producer, state);
    }

    /// All of them count as seen now.
    pub fn touch_all(&mut self, now: Mono) {
        for state in self.producers.values_mut() {
            state.seen = now;
        }
        self.undo.clear();
    }

    /// All producers, by id.
    pub fn iter(&self) -> impl Iterator<Item = (ProducerId, &ProducerState)> {
        self.producers.iter().map(|(id, state)| (*id, state))
    }

    /// What is known of a producer.
    #[must_use]
    pub fn get(&self, producer: ProducerId) -> Option<&ProducerState> {
        self.producers.get(&producer)
    }

    /// How many producers are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.producers.len()
    }

    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    pub(crate) fn get_mut(&mut self, producer: ProducerId) -> Option<&mut ProducerState> {
        self.producers.get_mut(&producer)
    }

    fn set_newest(&mut self, producer: ProducerId, mut state: ProducerState) {
        state.order = self.next_order;
        self.next_order += 1;
        self.set(producer, Some(state));
    }

    fn set(&mut self, producer: ProducerId, state: Option<ProducerState>) -> Option<ProducerState> {
        let before = match state {
            Some(state) => self.producers.insert(producer, state),
            None => self.producers.remove(&producer),
        };
        if let Some(before) = &before {
            self.by_order.remove(&before.order);
        }
        if let Some(state) = state {
            self.by_order.insert(state.order, producer);
        }
        before
    }
}

/// What a producer is after a batch.
pub(super) fn next_state(before: Option<ProducerState>, header: &BatchHeader) -> ProducerState {
    let epoch = ProducerEpoch(header.producer_epoch);
    let mut state = match before {
        Some(before) if before.epoch == epoch => before,
        Some(before) => ProducerState {
            coordinator_epoch: before.coordinator_epoch,
            ..ProducerState::new(epoch)
        },
        None => ProducerState::new(epoch),
    };
    state.push(ProducerBatch::of(header));
    state
}

/// Holds a batch against the state of its producer.
pub(super) fn check(
    known: &ProducerState,
    header: &BatchHeader,
) -> Result<Option<Duplicate>, ProducerError> {
    let producer = ProducerId(header.producer_id);
    let epoch = ProducerEpoch(header.producer_epoch);
    if epoch < known.epoch {
        return Err(ProducerError::StaleEpoch {
            producer,
            epoch,
            current: known.epoch,
        });
    }
    let expected = if epoch > known.epoch {
        0
    } else {
        let again = known.batches().iter().find(|batch| {
            batch.first_sequence() == header.base_sequence
                && batch.last_sequence == header.last_sequence()
        });
        if let Some(batch) = again {
            return Ok(Some(Duplicate { batch: *batch }));
        }
        known
            .last()
            .map_or(0, |last| sequence_after(last.last_sequence))
    };
    if header.base_sequence == expected {
        return Ok(None);
    }
    Err(ProducerError::OutOfOrder {
        producer,
        found: header.base_sequence,
        expected,
    })
}

/// The sequence number that follows: 0 after 2^31-1.
#[must_use]
pub const fn sequence_after(sequence: i32) -> i32 {
    if sequence == i32::MAX {
        0
    } else {
        sequence + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn batch(producer: i64, epoch: i16, sequence: i32, records: i32, base: i64) -> BatchHeader {
        BatchHeader {
            base_offset: Offset(base),
            batch_length: 100,
            leader_epoch: crate::ids::LeaderEpoch(0),
            crc: 0,
            attributes: 0,
            last_offset_delta: records - 1,
            base_timestamp: 5,
            max_timestamp: 5,
            producer_id: producer,
            producer_epoch: epoch,
            base_sequence: sequence,
            record_count: records,
        }
    }

    fn recorded(batches: &[BatchHeader]) -> ProducerStates {
        let mut states = ProducerStates::default();
        for header in batches {
            assert_eq!(states.check(header), Ok(None), "{header:?}");
            states.record(header, Mono(0));
        }
        states
    }

    #[test]
    fn the_last_five_batches_are_known_again_and_the_sixth_is_out_of_order() {
        let batches: Vec<_> = (0..6_i32)
            .map(|n| batch(7, 0, 2 * n, 2, 10 * i64::from(n)))
            .collect();
        let states = recorded(&batches);
        for header in &batches[1..] {
            let again = states.check(header).unwrap().unwrap();
            assert_eq!(again.batch.first_offset(), header.base_offset);
            assert_eq!(again.batch.last_offset, header.last_offset());
        }
        assert_eq!(
            states.check(&batches[0]),
            Err(ProducerError::OutOfOrder {
                producer: ProducerId(7),
                found: 0,
                expected: 12
            })
        );
    }

    #[test]
    fn a_batch_that_only_overlaps_an_earlier_one_is_no_retry() {
        let states = recorded(&[batch(7, 0, 0, 4, 0)]);
        assert!(states.check(&batch(7, 0, 0, 3, 0)).is_err());
        assert!(states.check(&batch(7, 0, 1, 3, 0)).is_err());
    }

    #[test]
    fn sequences_wrap_inside_a_batch_and_between_two() {
        let first = batch(7, 0, i32::MAX - 1, 4, 0);
        let mut states = recorded(&[first]);
        assert_eq!(first.last_sequence(), 1);
        let second = batch(7, 0, 2, 1, 4);
        assert_eq!(states.check(&second), Ok(None));
        assert_eq!(
            states
                .check(&first)
                .unwrap()
                .unwrap()
                .batch
                .first_sequence(),
            i32::MAX - 1
        );
        states = recorded(&[batch(8, 0, i32::MAX, 1, 0)]);
        assert_eq!(states.check(&batch(8, 0, 0, 1, 1)), Ok(None));
        assert!(states.check(&batch(8, 0, 1, 1, 1)).is_err());
    }

    #[test]
    fn a_new_epoch_begins_at_0_and_fences_the_old_one() {
        let mut states = recorded(&[batch(7, 3, 0, 1, 0)]);
        assert!(states.check(&batch(7, 4, 1, 1, 1)).is_err());
        let bumped = batch(7, 4, 0, 1, 1);
        assert_eq!(states.check(&bumped), Ok(None));
        states.record(&bumped, Mono(0));
        assert_eq!(
            states.check(&batch(7, 3, 1, 1, 2)),
            Err(ProducerError::StaleEpoch {
                producer: ProducerId(7),
                epoch: ProducerEpoch(3),
                current: ProducerEpoch(4)
            })
        );
    }

    #[test]
    fn an_unknown_producer_may_begin_anywhere() {
        assert_eq!(
            ProducerStates::default().check(&batch(7, 3, 1234, 1, 0)),
            Ok(None)
        );
    }

    #[test]
    fn an_idle_producer_expires_by_the_time_of_its_append_whatever_its_timestamps_say() {
        let mut states = ProducerStates::default();
        states.record(&batch(1, 0, 0, 1, 0), Mono(0));
        states.record(&batch(2, 0, 0, 1, 1), Mono(0).plus_ms(500));
        states.expire(Mono(0).plus_ms(999), 1_000);
        assert_eq!(states.len(), 2);
        states.expire(Mono(0).plus_ms(1_000), 1_000);
        assert!(states.get(ProducerId(1)).is_none());
        assert_eq!(states.next_expiry(1_000), Some(Mono(0).plus_ms(1_500)));
        states.touch_all(Mono(0).plus_ms(1_200));
        assert_eq!(states.next_expiry(1_000), Some(Mono(0).plus_ms(2_200)));
    }

    #[test]
    fn the_longest_idle_producer_makes_room_and_comes_back_if_that_is_undone() {
        let mut states = ProducerStates::default();
        let count = MAX_PRODUCERS as i64;
        for producer in 0..=count {
            states.record(&batch(producer, 0, 0, 1, producer), Mono(0));
            states.forget_undo(Offset(producer));
        }
        assert_eq!(states.len(), MAX_PRODUCERS);
        assert!(states.get(ProducerId(0)).is_none());
        states.roll_back(Offset(count));
        assert!(states.get(ProducerId(0)).is_some());
        assert!(states.get(ProducerId(count)).is_none());
    }

    proptest! {
        /// Whatever is appended above an offset and taken back leaves no trace.
        #[test]
        fn rolling_back_gives_what_was(
            appends in prop::collection::vec((0..4_i64, 0..3_i16, 0..3_i32), 0..60),
            keep in 0..60_usize,
        ) {
            let mut states = ProducerStates::default();
            let mut kept = states.clone();
            let mut end = 0;
            for (n, (producer, epoch, records)) in appends.into_iter().enumerate() {
                if n == keep {
                    kept = states.clone();
                    end = n as i64 * 10;
                }
                let sequence = states
                    .get(ProducerId(producer))
                    .and_then(ProducerState::last)
                    .map_or(0, |last| sequence_after(last.last_sequence));
                let header = batch(producer, epoch, sequence, records + 1, n as i64 * 10);
                states.record(&header, Mono(n as u64));
            }
            if end > 0 {
                states.roll_back(Offset(end));
                prop_assert_eq!(&states.producers, &kept.producers);
                prop_assert_eq!(&states.by_order, &kept.by_order);
            }
        }
    }
}
