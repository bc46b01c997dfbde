//! Where a record goes, and the records that wait because that is not known yet.
//!
//! A record whose topic or partition is not known waits for metadata, up to `max.block.ms`. As long
//! as any record of a topic waits, later ones queue up behind it: their order is that of the sends.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::mem;

use super::Producer;
use super::batch::Send;
use super::partition::Partition;
use super::partitioner::{Sticky, partition_for_key};
use crate::client::config::ProducerConfig;
use crate::client::effect::Outcome;
use crate::client::error::{ClientError, Timeout};
use crate::client::input::{CommandId, ProducerRecord, TopicName};
use crate::client::metadata::Metadata;
use crate::client::step::Step;
use crate::time::{Mono, Wall};
use crate::wire::ErrorCode;

#[derive(Debug, Default)]
pub(super) struct Topic {
    /// By partition number, the index into the list of partitions.
    pub(super) indexes: BTreeMap<i32, usize>,
    pub(super) sticky: Sticky,
    /// Records whose partition is not known yet. As long as there are any, later ones queue up
    /// behind them.
    pub(super) waiting: VecDeque<Waiting>,
}

/// A record whose partition is not known yet.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) id: CommandId,
    pub(super) record: ProducerRecord,
    pub(super) since: Mono,
    pub(super) wall: Wall,
    pub(super) epoch: u64,
    /// What was known when it came; something newer must be heard before it fails.
    pub(super) generation: u64,
}

/// Where a record goes.
enum Place {
    Partition(usize),
    /// Not known yet.
    Later,
    Nowhere(ClientError),
}

impl Producer {
    /// Queues a record up behind those of its topic that wait.
    pub(super) fn wait(&mut self, waiting: Waiting) {
        if let Some(topic) = self.topics.get_mut(&waiting.record.topic) {
            self.waiting += 1;
            topic.waiting.push_back(waiting);
        }
    }

    /// Puts a record into its partition's batch or fails it; if its partition is not known, it
    /// comes back.
    pub(super) fn place(
        &mut self,
        step: &mut Step<'_>,
        metadata: &Metadata,
        waiting: Waiting,
    ) -> Option<Waiting> {
        match self.place_of(step, metadata, &waiting) {
            Place::Later => return Some(waiting),
            Place::Nowhere(error) => self.drop_waiting(step, &waiting, error),
            Place::Partition(index) => {
                let Some(partition) = self.partitions.get_mut(index) else {
                    unreachable!("indexes are handed out for partitions there are");
                };
                let Waiting {
                    id, record, epoch, ..
                } = &waiting;
                let times = (waiting.since, waiting.wall);
                if partition.append(*id, record, times, *epoch, self.config.batch_size) {
                    self.look_at(step, index);
                }
            }
        }
        None
    }

    fn place_of(&mut self, step: &mut Step<'_>, metadata: &Metadata, waiting: &Waiting) -> Place {
        let record = &waiting.record;
        let Some(known) = metadata.topic(&record.topic) else {
            return Place::Later;
        };
        let news = metadata.generation() > waiting.generation;
        if let Some(code) = known.error {
            return if news && !code.is_retriable() {
                Place::Nowhere(ClientError::broker(code))
            } else {
                Place::Later
            };
        }
        let count = known.partitions.len();
        if count == 0 {
            return Place::Later;
        }
        let Some(topic) = self.topics.get_mut(&record.topic) else {
            return Place::Later;
        };
        let number = match (record.partition, &record.key) {
            (Some(number), _) => {
                if usize::try_from(number).is_ok_and(|number| number < count) {
                    number
                } else if news || number < 0 {
                    return Place::Nowhere(ClientError::UnknownPartition {
                        partition: number,
                        partitions: count,
                    });
                } else {
                    return Place::Later;
                }
            }
            (None, Some(key)) => partition_for_key(key, count) as i32,
            (None, None) => topic.sticky.partition_for(
                step,
                &known.partitions,
                record.size(),
                self.config.batch_size,
            ) as i32,
        };
        let index = *topic.indexes.entry(number).or_insert_with(|| {
            let mut partition = Partition::new(record.topic.clone(), number);
            partition.leader = known
                .partitions
                .get(number as usize)
                .and_then(|info| info.leader);
            self.partitions.push(partition);
            self.partitions.len() - 1
        });
        Place::Partition(index)
    }

    /// Puts the records that wait where they belong, as far as that is known now.
    pub(super) fn place_waiting(&mut self, step: &mut Step<'_>, metadata: &Metadata) {
        if self.waiting == 0 {
            return;
        }
        let names: Vec<TopicName> = self
            .topics
            .iter()
            .filter(|(_, topic)| !topic.waiting.is_empty())
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            while let Some(first) = self
                .topics
                .get_mut(&name)
                .and_then(|topic| topic.waiting.pop_front())
            {
                self.waiting -= 1;
                if let Some(first) = self.place(step, metadata, first) {
                    self.waiting += 1;
                    if let Some(topic) = self.topics.get_mut(&name) {
                        topic.waiting.push_front(first);
                    }
                    break;
                }
            }
        }
    }

    /// Fails the records that have waited for their topic for too long.
    pub(super) fn expire_waiting(&mut self, step: &mut Step<'_>, metadata: &Metadata) {
        let now = step.now.mono;
        if self.waiting_deadline().is_some_and(|at| at <= now) {
            let patience_ms = self.patience_ms();
            let topics: BTreeMap<TopicName, Option<ErrorCode>> = self
                .topics
                .keys()
                .map(|name| {
                    let error = metadata.topic(name).and_then(|topic| topic.error);
                    (name.clone(), error)
                })
                .collect();
            self.drop_all_waiting(step, |waiting| {
                let overdue = waiting.since.plus_ms(patience_ms) <= now;
                overdue.then(|| ClientError::TimedOut {
                    what: Timeout::Metadata,
                    last: topics.get(&waiting.record.topic).copied().flatten(),
                })
            });
        }
    }

    /// How long a record may wait for its topic.
    fn patience_ms(&self) -> u64 {
        let ProducerConfig {
            max_block_ms,
            delivery_timeout_ms,
            ..
        } = self.config;
        max_block_ms.min(delivery_timeout_ms).into()
    }

    /// When the oldest of the records that wait has waited for too long.
    pub(super) fn waiting_deadline(&self) -> Option<Mono> {
        if self.waiting == 0 {
            return None;
        }
        let oldest = self
            .topics
            .values()
            .filter_map(|topic| topic.waiting.front())
            .map(|waiting| waiting.since)
            .min()?;
        Some(oldest.plus_ms(self.patience_ms()))
    }

    /// Fails the records that wait for their topic and that `overdue` has an error for.
    pub(super) fn drop_all_waiting(
        &mut self,
        step: &mut Step<'_>,
        overdue: impl Fn(&Waiting) -> Option<ClientError>,
    ) {
        let mut dropped = Vec::new();
        for topic in self.topics.values_mut() {
            for waiting in mem::take(&mut topic.waiting) {
                match overdue(&waiting) {
                    Some(error) => dropped.push((waiting, error)),
                    None => topic.waiting.push_back(waiting),
                }
            }
        }
        self.waiting -= dropped.len();
        for (waiting, error) in dropped {
            self.drop_waiting(step, &waiting, error);
        }
        self.note_relief(step);
    }

    fn drop_waiting(&mut self, step: &mut Step<'_>, waiting: &Waiting, error: ClientError) {
        let send = Send {
            id: waiting.id,
            timestamp: waiting.record.timestamp.unwrap_or(waiting.wall.0),
            memory: waiting.record.size(),
        };
        let outcome = Outcome::Failed(error);
        self.ledger.settle(step, waiting.epoch, send, outcome);
    }
}
