//! The consumer of assigned partitions: it fetches ahead, and hands out records in their order. Who
//! assigns them, the application or a group, is not its concern.
//!
//! - One fetch at a time is in flight to each broker; what is fetched ahead is bounded by
//!   `prefetch_max_bytes` and one batch a partition.
//! - A partition's records are handed out by strictly rising offset, from its position on.
//! - CRCs are checked and batches decompressed when their records are handed out, within a bound.
//!   A batch that does not read is an error, and is fetched again.
//!
//! Absent: fetch sessions, aborted transactions (records are read uncommitted), truncation
//! detection by OffsetForLeaderEpoch, and a way to break off a fetch that waits: a seek to a
//! partition of which one is in flight takes effect when that one is answered.

mod assigned;
mod fetch;
mod group;
mod lookup;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound;

use self::assigned::{Assigned, Position, Reading, Room};
use self::fetch::FetchInFlight;
use self::group::Revocation;
use self::lookup::{Lookups, Owner, overdue};
use super::config::{ClientConfig, ConsumerConfig};
use super::effect::{ClientEvent, FoundOffset, Polled};
use super::error::ClientError;
use super::input::{CommandId, OffsetSpec, StartAt, TopicPartition};
use super::metadata::Metadata;
use super::network::Network;
use super::step::{Backoff, Step, earlier};
use crate::bugs::Bugs;
use crate::ids::Offset;
use crate::record::compression::Tables;
use crate::time::Mono;
use crate::wire::ResponseBody;

/// The consumer of a client.
#[derive(Debug)]
pub(crate) struct Consumer {
    bugs: Bugs,
    config: ConsumerConfig,
    backoff: Backoff,
    assigned: BTreeMap<TopicPartition, Assigned>,
    next_generation: u64,
    fetches: BTreeMap<u64, FetchInFlight>,
    next_fetch: u64,
    lookups: Lookups,
    queries: BTreeMap<u64, Query>,
    next_query: u64,
    poll: Option<Poll>,
    /// The partition that was last handed out of: the next poll begins after it.
    last_served: Option<TopicPartition>,
    /// What the next poll is told beside records: what becomes of partitions, and errors of seeks to
    /// partitions that are not assigned.
    notices: Vec<Polled>,
    /// Whether the application was told that partitions are revoked, and has polled since.
    revocation: Revocation,
    /// When a poll was last under way.
    polled_at: Mono,
    /// When the partitions were last looked at.
    looked_at: Mono,
    tables: Tables,
}

#[derive(Debug)]
struct Poll {
    id: CommandId,
    room: Room,
    until: Mono,
}

/// A question of the application.
#[derive(Debug)]
struct Query {
    id: CommandId,
    asked: Vec<TopicPartition>,
    /// By place in the question.
    answers: BTreeMap<usize, Result<FoundOffset, ClientError>>,
    until: Mono,
}

impl Consumer {
    pub(crate) fn new(config: &ClientConfig, bugs: Bugs) -> Self {
        Self {
            bugs,
            config: config.consumer.clone(),
            backoff: Backoff {
                first_ms: config.retry_backoff_ms,
                max_ms: config.retry_backoff_max_ms,
            },
            assigned: BTreeMap::new(),
            next_generation: 0,
            fetches: BTreeMap::new(),
            next_fetch: 0,
            lookups: Lookups::new(config),
            queries: BTreeMap::new(),
            next_query: 0,
            poll: None,
            last_served: None,
            notices: Vec::new(),
            revocation: Revocation::None,
            polled_at: Mono(0),
            looked_at: Mono(0),
            tables: Tables::default(),
        }
    }

    /// Reads exactly these partitions from now on.
    pub(crate) fn assign(
        &mut self,
        metadata: &mut Metadata,
        partitions: Vec<(TopicPartition, StartAt)>,
    ) {
        self.clear();
        for (partition, start) in partitions {
            metadata.want(&partition.topic);
            self.add(partition, start);
        }
    }

    /// Goes on reading a partition elsewhere.
    pub(crate) fn seek(&mut self, partition: TopicPartition, to: StartAt) {
        let generation = self.new_generation();
        match self.assigned.get_mut(&partition) {
            Some(assigned) => {
                assigned.seek(to, generation);
                self.forget_useless_lookups();
            }
            // A loop that seeks and never polls must not pile up errors.
            None if self.notices.len() < MAX_STRAYS => self.notices.push(Polled::Error {
                partition,
                error: ClientError::NotAssigned,
            }),
            None => {}
        }
    }

    fn new_generation(&mut self) -> u64 {
        self.next_generation += 1;
        self.next_generation
    }

    fn forget_useless_lookups(&mut self) {
        let assigned = &self.assigned;
        self.lookups.forget(|lookup| match lookup.owner {
            Owner::Position { generation } => assigned
                .get(&lookup.partition)
                .is_none_or(|assigned| assigned.generation != generation),
            Owner::Query { .. } => false,
        });
    }

    /// Begins or ends a pause.
    pub(crate) fn pause(&mut self, partitions: &[TopicPartition], paused: bool) {
        for partition in partitions {
            if let Some(assigned) = self.assigned.get_mut(partition) {
                assigned.paused = paused;
            }
        }
    }

    /// The next record to be handed out, if the partition is assigned and its position known.
    pub(crate) fn position(&self, partition: &TopicPartition) -> Option<Offset> {
        match self.assigned.get(partition)?.position {
            Position::At(offset) => Some(offset),
            Position::Unknown(_) | Position::LookingUp | Position::Committed | Position::Lost => {
                None
            }
        }
    }

    /// The high watermark that the last fetch of an assigned partition brought.
    pub(crate) fn high_watermark(&self, partition: &TopicPartition) -> Option<Offset> {
        self.assigned.get(partition)?.high_watermark
    }

    /// Hands out what there is, as soon as there is something.
    pub(crate) fn poll(
        &mut self,
        step: &mut Step<'_>,
        id: CommandId,
        (max_records, max_bytes): (usize, usize),
        max_wait_ms: u32,
    ) {
        if let Some(older) = self.poll.take() {
            polled(step, older.id, Vec::new());
        }
        self.processed_all();
        self.polled_at = step.now.mono;
        self.poll = Some(Poll {
            id,
            room: Room {
                records: max_records.max(1),
                bytes: max_bytes.max(1),
            },
            until: step.now.mono.plus_ms(max_wait_ms.into()),
        });
    }

    /// Looks offsets up for the application.
    pub(crate) fn list_offsets(
        &mut self,
        step: &mut Step<'_>,
        metadata: &mut Metadata,
        id: CommandId,
        partitions: Vec<(TopicPartition, OffsetSpec)>,
        timeout_ms: u32,
    ) {
        self.next_query += 1;
        let query = self.next_query;
        let mut asked = Vec::new();
        for (place, (partition, spec)) in partitions.into_iter().enumerate() {
            asked.push(partition.clone());
            let owner = Owner::Query { query, place };
            self.lookups.want(metadata, partition, spec, owner);
        }
        let query = Query {
            id,
            asked,
            answers: BTreeMap::new(),
            until: step.now.mono.plus_ms(timeout_ms.into()),
        };
        self.queries.insert(self.next_query, query);
        self.answer_query(step, self.next_query);
    }

    /// The answer to a look-up came, or none will.
    pub(crate) fn offsets_listed(
        &mut self,
        step: &mut Step<'_>,
        metadata: &mut Metadata,
        id: u64,
        result: Result<ResponseBody, ClientError>,
    ) {
        let ended = self.lookups.answered(step, metadata, id, result);
        self.lookups_ended(step, ended);
    }

    fn lookups_ended(&mut self, step: &mut Step<'_>, ended: Vec<lookup::Ended>) {
        for (lookup, result) in ended {
            match lookup.owner {
                Owner::Query { query, place } => {
                    if let Some(open) = self.queries.get_mut(&query) {
                        open.answers.insert(place, result);
                        self.answer_query(step, query);
                    }
                }
                Owner::Position { generation } => {
                    let assigned = self
                        .assigned
                        .get_mut(&lookup.partition)
                        .filter(|assigned| assigned.generation == generation);
                    let Some(assigned) = assigned else {
                        continue;
                    };
                    match result {
                        Ok(FoundOffset {
                            offset: Some(offset),
                            ..
                        }) => assigned.start_at(offset),
                        // Nothing is that new: begin with what comes next.
                        Ok(_) if lookup.spec != OffsetSpec::Latest => {
                            assigned.position = Position::Unknown(OffsetSpec::Latest);
                        }
                        Ok(_) => self.look_up_again(step, &lookup),
                        Err(error) => {
                            assigned.complain(error);
                            self.look_up_again(step, &lookup);
                        }
                    }
                }
            }
        }
    }

    fn look_up_again(&mut self, step: &mut Step<'_>, lookup: &lookup::Lookup) {
        if let Some(assigned) = self.assigned.get_mut(&lookup.partition) {
            assigned.position = Position::Unknown(lookup.spec);
            assigned.failures = assigned.failures.saturating_add(1);
            assigned.retry_at = self.backoff.after(assigned.failures, step);
        }
    }

    fn answer_query(&mut self, step: &mut Step<'_>, query: u64) {
        let complete = self
            .queries
            .get(&query)
            .is_some_and(|open| open.answers.len() == open.asked.len());
        if complete {
            self.end_query(step, query, ClientError::Closed);
        }
    }

    /// Answers a question; what is not known yet ends with `otherwise`.
    fn end_query(&mut self, step: &mut Step<'_>, query: u64, otherwise: ClientError) {
        self.lookups
            .forget(|lookup| matches!(lookup.owner, Owner::Query { query: of, .. } if of == query));
        let Some(mut open) = self.queries.remove(&query) else {
            return;
        };
        let offsets = open
            .asked
            .into_iter()
            .enumerate()
            .map(|(place, partition)| {
                let answer = open.answers.remove(&place);
                (partition, answer.unwrap_or_else(|| Err(otherwise.clone())))
            })
            .collect();
        step.out.event(ClientEvent::Offsets {
            id: open.id,
            offsets,
        });
    }

    /// Ends what the application waits for, and reads nothing any more.
    pub(crate) fn close(&mut self, step: &mut Step<'_>) {
        self.clear();
        while let Some((&query, _)) = self.queries.first_key_value() {
            self.end_query(step, query, ClientError::Closed);
        }
        if let Some(poll) = self.poll.take() {
            polled(step, poll.id, Vec::new());
        }
    }

    /// Hands out, looks up and fetches what can be.
    pub(crate) fn settle(
        &mut self,
        step: &mut Step<'_>,
        metadata: &mut Metadata,
        network: &mut Network,
    ) {
        let now = step.now.mono;
        self.looked_at = now;
        let overdue_queries: Vec<u64> = self
            .queries
            .iter()
            .filter(|(_, query)| query.until <= now)
            .map(|(query, _)| *query)
            .collect();
        for query in overdue_queries {
            let last = self.lookups.last_error(query);
            self.end_query(step, query, overdue(last));
        }
        for (partition, assigned) in &mut self.assigned {
            if let Position::Unknown(spec) = assigned.position
                && assigned.retry_at <= now
                && metadata.partition(partition).is_some()
            {
                assigned.position = Position::LookingUp;
                let owner = Owner::Position {
                    generation: assigned.generation,
                };
                self.lookups.want(metadata, partition.clone(), spec, owner);
            }
        }
        let ended = self.lookups.settle(step, metadata, network);
        self.lookups_ended(step, ended);
        self.serve_poll(step);
        self.send_fetches(step, metadata, network);
        // What cannot be fetched is told at once, too.
        self.serve_poll(step);
    }

    fn serve_poll(&mut self, step: &mut Step<'_>) {
        let Some(poll) = &self.poll else {
            return;
        };
        let (id, until, mut room) = (poll.id, poll.until, poll.room);
        let mut items = self.take_notices();
        for partition in self.in_turn() {
            if room.records == 0 || room.bytes == 0 {
                break;
            }
            let generation = self.new_generation();
            let mut reading = Reading {
                check_crcs: self.config.check_crcs,
                max_decompressed_bytes: self.config.max_decompressed_bytes,
                bugs: self.bugs,
                tables: &mut self.tables,
            };
            let Some(assigned) = self.assigned.get_mut(&partition) else {
                continue;
            };
            let done =
                assigned.hand_out(&partition, &mut reading, &mut room, generation, &mut items);
            if done.is_err() {
                assigned.failures = assigned.failures.saturating_add(1);
                assigned.retry_at = self.backoff.after(assigned.failures, step);
            }
            self.last_served = Some(partition);
        }
        if !items.is_empty() || until <= step.now.mono {
            self.poll = None;
            self.polled_at = step.now.mono;
            polled(step, id, items);
        }
    }

    /// The partitions that have something to hand out, beginning after the one served last.
    fn in_turn(&self) -> Vec<TopicPartition> {
        let with_something = |(partition, assigned): (&TopicPartition, &Assigned)| {
            assigned.has_something().then(|| partition.clone())
        };
        let Some(last) = &self.last_served else {
            return self.assigned.iter().filter_map(with_something).collect();
        };
        let after = (Bound::Excluded(last.clone()), Bound::Unbounded);
        let up_to = (Bound::Unbounded, Bound::Included(last.clone()));
        self.assigned
            .range(after)
            .chain(self.assigned.range(up_to))
            .filter_map(with_something)
            .collect()
    }

    /// When [`Self::settle`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Mono> {
        let retries = self
            .assigned
            .values()
            .map(|assigned| assigned.retry_at)
            .filter(|at| *at > self.looked_at)
            .min();
        let queries = self.queries.values().map(|query| query.until).min();
        let poll = self.poll.as_ref().map(|poll| poll.until);
        earlier(
            earlier(retries, queries),
            earlier(poll, self.lookups.deadline()),
        )
    }
}

/// Most errors of stray seeks that are kept for the next poll.
const MAX_STRAYS: usize = 100;

fn polled(step: &mut Step<'_>, id: CommandId, items: Vec<Polled>) {
    step.out.event(ClientEvent::Polled { id, items });
}
