//! Idempotent producers: SequenceGapless, DuplicateReturnsOriginalOffset, StaleEpochFenced,
//! OutOfOrderRejected, ProducerIdUnique, DedupSurvivesRestart. What the broker writes is held against
//! what it wrote before, what it answers against what it answered before.

use std::collections::{BTreeMap, BTreeSet};

use odradek_core::ids::ConnectionId;
use odradek_core::log::config::Durability;
use odradek_core::time::Mono;
use odradek_core::wire::messages::init_producer_id::InitProducerIdResponse;
use odradek_core::wire::{ErrorCode, Records, RequestBody};

use super::long_poll::directory;
use super::model::LogModel;
use super::{Check, Mark, Oracle};
use crate::batch::HEADER_BYTES;

/// How many batches of a producer the broker must know again.
const REMEMBERED: usize = 5;

/// An acknowledgement of a batch.
#[derive(Clone, Copy, Debug)]
struct Acked {
    offset: i64,
    life: u64,
    first: Mono,
}

/// What was seen of producers.
#[derive(Clone, Debug, Default)]
pub struct Producers {
    ids: BTreeSet<i64>,
    /// How often a batch reached the broker and was not refused for its place.
    sent: BTreeMap<(String, Facts), u32>,
    /// Where batches were acknowledged, in which life of the broker, and when for the first time.
    acked: BTreeMap<(String, Facts), Acked>,
    /// In which life of the broker a batch of a producer was written last.
    written: BTreeMap<(String, i64), u64>,
    life: u64,
}

impl Producers {
    /// A process has ended.
    pub const fn process_ended(&mut self) {
        self.life += 1;
    }

    /// A batch was not appended this time.
    fn forget_refused(&mut self, directory: &str, facts: Facts) {
        let key = (directory.to_owned(), facts);
        if let Some(count) = self.sent.get_mut(&key) {
            *count = count.saturating_sub(1);
        }
    }
}

/// What names a batch of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Facts {
    producer: i64,
    epoch: i16,
    first: i32,
    last: i32,
}

impl Facts {
    /// Those in a batch's header; `None` if no idempotent producer made it.
    fn of(batch: &[u8]) -> Option<Self> {
        let header = batch.first_chunk::<HEADER_BYTES>()?;
        let producer = i64::from_be_bytes(*header[43..].first_chunk()?);
        let epoch = i16::from_be_bytes(*header[51..].first_chunk()?);
        let first = i32::from_be_bytes(*header[53..].first_chunk()?);
        let delta = i32::from_be_bytes(*header[23..].first_chunk()?);
        let last = ((i64::from(first) + i64::from(delta)) % (1 << 31)) as i32;
        (producer >= 0).then_some(Self {
            producer,
            epoch,
            first,
            last,
        })
    }

    /// The sequence number that follows.
    const fn next(&self) -> i32 {
        if self.last == i32::MAX {
            0
        } else {
            self.last + 1
        }
    }
}

impl LogModel {
    /// Batches of a producer below an offset, newest first.
    fn batches_of(&self, producer: i64, below: i64) -> impl Iterator<Item = (i64, Facts)> {
        let below = self.batches.range(..below).rev();
        below
            .filter_map(|(base, batch)| Some((*base, Facts::of(&batch.bytes)?)))
            .filter(move |(_, facts)| facts.producer == producer)
    }
}

impl Oracle {
    /// A produce reached the broker.
    pub(super) fn note_sent(&mut self, connection: ConnectionId) {
        let Some(request) = self.exchanges.last(connection) else {
            return;
        };
        let RequestBody::Produce(produce) = &request.body else {
            return;
        };
        let by_id = request.header.api_version >= 13;
        let mut sent = Vec::new();
        for topic in &produce.topic_data {
            let Some(name) = self.topic_name(&topic.name, topic.topic_id, by_id) else {
                continue;
            };
            for partition in &topic.partition_data {
                if let Some(Records::Bytes(bytes)) = &partition.records
                    && let Some(facts) = Facts::of(bytes)
                {
                    sent.push((directory(name, partition.index), facts));
                }
            }
        }
        for batch in sent {
            *self.producers.sent.entry(batch).or_default() += 1;
        }
    }

    /// A batch was written at an offset, behind all that the model has.
    pub(super) fn producer_wrote(&mut self, directory: &str, base: i64, batch: &[u8]) {
        let Some(now) = Facts::of(batch) else {
            return;
        };
        let key = (directory.to_owned(), now.producer);
        let before = self.producers.written.insert(key, self.producers.life);
        let restarted = before.is_some_and(|life| life != self.producers.life);
        let Some(log) = self.models.get(directory) else {
            return;
        };
        if !log.is_users() || log.may_vanish {
            return;
        }
        let known: Vec<(i64, Facts)> = log
            .batches_of(now.producer, base)
            .take(REMEMBERED)
            .collect();
        let Some((at, last)) = known.first().copied() else {
            return;
        };
        let check = if now.epoch < last.epoch {
            Check::StaleEpochFenced
        } else if now.epoch > last.epoch {
            if now.first == 0 {
                return;
            }
            Check::OutOfOrderRejected
        } else if now.first == last.next() {
            return;
        } else if known.iter().any(|(_, facts)| *facts == now) {
            if restarted {
                Check::DedupSurvivesRestart
            } else {
                Check::SequenceGapless
            }
        } else {
            Check::OutOfOrderRejected
        };
        let detail = format!("{directory}: {now:?} is written at {base} after {last:?} at {at}");
        self.violate(check, detail);
    }

    /// A batch of a producer was answered.
    pub(super) fn producer_answered(
        &mut self,
        directory: &str,
        arrived: Mono,
        sent: &[u8],
        error: ErrorCode,
        base_offset: i64,
    ) {
        let Some(facts) = Facts::of(sent) else {
            return;
        };
        match error {
            ErrorCode::NONE => self.producer_acked(directory, facts, base_offset),
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER => {
                self.mark(Mark::OutOfOrderAnswered);
                self.check_refused(directory, arrived, facts);
                self.producers.forget_refused(directory, facts);
            }
            ErrorCode::INVALID_PRODUCER_EPOCH => {
                self.mark(Mark::StaleEpochAnswered);
                self.check_fenced(directory, facts);
                self.producers.forget_refused(directory, facts);
            }
            _ => {}
        }
    }

    fn producer_acked(&mut self, directory: &str, facts: Facts, base_offset: i64) {
        let key = (directory.to_owned(), facts);
        let life = self.producers.life;
        let before = self.producers.acked.get(&key).copied();
        let acked = Acked {
            offset: base_offset,
            life,
            first: before.map_or(self.now, |before| before.first),
        };
        self.producers.acked.insert(key, acked);
        // Under `os` a power loss takes what was acknowledged.
        if self.durability != Durability::Fsync {
            return;
        }
        if let Some(Acked {
            offset: original,
            life: then,
            ..
        }) = before
        {
            if original != base_offset {
                let check = if then == life {
                    Check::DuplicateReturnsOriginalOffset
                } else {
                    Check::DedupSurvivesRestart
                };
                let detail = format!(
                    "{directory}: {facts:?} was acknowledged at {original}, and now at {base_offset}"
                );
                return self.violate(check, detail);
            }
            self.mark(Mark::DuplicateAnswered);
            if then != life {
                self.mark(Mark::DuplicateAnsweredAfterRestart);
            }
            return;
        }
        let Some(log) = self.models.get(directory) else {
            return;
        };
        let start = log.log_start.max(log.log_start_asked);
        let there = log.batches.get(&base_offset);
        let there = there.and_then(|batch| Facts::of(&batch.bytes));
        if base_offset >= start && there != Some(facts) {
            let detail = format!(
                "{directory}: {facts:?} is acknowledged at {base_offset}, where {there:?} is"
            );
            self.violate(Check::DuplicateReturnsOriginalOffset, detail);
        }
    }

    /// A batch is only fenced if one of a newer epoch may be in the log.
    fn check_fenced(&mut self, directory: &str, facts: Facts) {
        let is_newer = |(name, other): &(String, Facts)| {
            name == directory && other.producer == facts.producer && other.epoch > facts.epoch
        };
        if !self.producers.sent.keys().any(is_newer) {
            let detail = format!("{directory}: {facts:?} is fenced, and no newer epoch was sent");
            self.violate(Check::StaleEpochFenced, detail);
        }
    }

    /// What was refused as out of order must not be one of the last batches of its producer.
    fn check_refused(&mut self, directory: &str, arrived: Mono, facts: Facts) {
        let Some(Acked {
            offset,
            life,
            first,
        }) = self
            .producers
            .acked
            .get(&(directory.to_owned(), facts))
            .copied()
        else {
            return;
        };
        let Some(log) = self.models.get(directory) else {
            return;
        };
        let deleted = offset < log.log_start.max(log.log_start_asked);
        // An attempt that came too early was refused before another was stored, and its answer may
        // have waited for those in front of it.
        let came_before = arrived <= first;
        if deleted || came_before || self.durability != Durability::Fsync {
            return;
        }
        // What was appended behind it need not be written yet, or was taken back since: everything
        // that may have been appended counts.
        let later = self.producers.sent.iter().filter(|((name, other), count)| {
            let before = self.producers.acked.get(&(name.clone(), *other));
            **count > 0
                && name == directory
                && other.producer == facts.producer
                && *other != facts
                && before.is_none_or(|before| before.offset > offset)
        });
        let later = later.count();
        if later < REMEMBERED {
            let check = if life == self.producers.life {
                Check::DuplicateReturnsOriginalOffset
            } else {
                Check::DedupSurvivesRestart
            };
            let detail = format!(
                "{directory}: {facts:?}, acknowledged at {offset}, is out of order now, although at most \
                 {later} batches of its producer can be behind it"
            );
            self.violate(check, detail);
        }
    }

    /// A producer id was handed out.
    pub(super) fn producer_id_told(&mut self, response: &InitProducerIdResponse) {
        if response.error_code.is_error() {
            return;
        }
        if !self.producers.ids.insert(response.producer_id) {
            let detail = format!("producer id {} is given twice", response.producer_id);
            self.violate(Check::ProducerIdUnique, detail);
        }
    }
}
