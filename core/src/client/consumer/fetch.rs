//! Fetches: one in flight to each broker that leads an assigned partition, as long as there is room
//! to fetch ahead.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::Consumer;
use super::assigned::Position;
use crate::bugs::Bug;
use crate::client::config::OffsetReset;
use crate::client::error::ClientError;
use crate::client::input::{OffsetSpec, TopicName, TopicPartition};
use crate::client::metadata::{Metadata, topic_of_answer};
use crate::client::network::{Network, Purpose, Target};
use crate::client::step::Step;
use crate::ids::{LeaderEpoch, NodeId, Offset, TopicId};
use crate::wire::messages::fetch::{FetchPartition, FetchTopic, PartitionData};
use crate::wire::messages::{FetchRequest, FetchResponse};
use crate::wire::{ErrorCode, Records, RequestBody, ResponseBody, Str, Versions};

/// A fetch without an answer.
#[derive(Debug)]
pub(super) struct FetchInFlight {
    node: NodeId,
    /// The ids under which the topics were named.
    topics: BTreeMap<TopicName, TopicId>,
    /// What was asked, and as of which generation of the partition.
    partitions: Vec<(TopicPartition, u64, Offset)>,
}

/// What a broker can be asked for.
#[derive(Default)]
struct Wanted {
    partitions: Vec<(TopicPartition, u64, Offset, Option<LeaderEpoch>)>,
    /// Bytes already fetched of all partitions that the broker leads.
    buffered_bytes: usize,
    /// Whether it leads another that will be asked for soon: its records wait for the application,
    /// its position is being looked up, or it backs off.
    leaves_out: bool,
}

/// How long a fetch may wait at the broker if it leaves out a partition that will be asked for soon:
/// until it is answered, nothing else is fetched from that broker.
const SHORT_WAIT_MS: u32 = 10;

impl Consumer {
    /// Sends the fetches that can be sent.
    pub(super) fn send_fetches(
        &mut self,
        step: &mut Step<'_>,
        metadata: &mut Metadata,
        network: &mut Network,
    ) {
        let wanted = self.wanted(step, metadata);
        // Each broker gets its share of the room, so that none is kept waiting by another's
        // long-poll.
        let share = self.config.prefetch_max_bytes / wanted.len().max(1);
        for (node, wanted) in wanted {
            let busy = self.fetches.values().any(|fetch| fetch.node == node);
            let room = share.saturating_sub(wanted.buffered_bytes);
            if busy || room == 0 || wanted.partitions.is_empty() {
                continue;
            }
            if network.ready(step, Target::Fetcher(node)) {
                self.send_fetch(step, metadata, network, node, wanted, room);
            }
        }
    }

    /// What to ask each leader of an assigned partition for.
    fn wanted(&mut self, step: &mut Step<'_>, metadata: &mut Metadata) -> BTreeMap<NodeId, Wanted> {
        let mut by_leader: BTreeMap<NodeId, Wanted> = BTreeMap::new();
        let now = step.now.mono;
        let partition_max = self.config.max_partition_fetch_bytes as usize;
        for (partition, assigned) in &mut self.assigned {
            let Some(info) = metadata.partition(partition) else {
                if assigned.retry_at <= now
                    && let Some(error) = why_unknown(metadata, partition)
                {
                    assigned.complain(error);
                    metadata.request_update();
                    assigned.failures = assigned.failures.saturating_add(1);
                    assigned.retry_at = self.backoff.after(assigned.failures, step);
                }
                continue;
            };
            let Some(leader) = info.leader else {
                continue;
            };
            let wanted = by_leader.entry(leader).or_default();
            wanted.buffered_bytes += assigned.buffered_bytes;
            if matches!(assigned.position, Position::At(_))
                && !assigned.paused
                && !assigned.revoking
                && !assigned.fetching
                && assigned.retry_at <= now
                && assigned.buffered_bytes < partition_max
            {
                wanted.partitions.push((
                    partition.clone(),
                    assigned.generation,
                    assigned.fetch_offset,
                    info.leader_epoch,
                ));
            } else if !assigned.paused && !assigned.revoking && assigned.position != Position::Lost
            {
                wanted.leaves_out = true;
            }
        }
        by_leader
    }

    fn send_fetch(
        &mut self,
        step: &mut Step<'_>,
        metadata: &Metadata,
        network: &mut Network,
        node: NodeId,
        wanted: Wanted,
        room: usize,
    ) {
        // The broker fills the answer in the order of the request: turning it lets every partition
        // come first in its turn.
        let mut partitions = wanted.partitions;
        let turn = self.next_fetch as usize % partitions.len();
        partitions.rotate_left(turn);
        let mut fetch = FetchInFlight {
            node,
            topics: BTreeMap::new(),
            partitions: Vec::new(),
        };
        let mut topics: Vec<FetchTopic> = Vec::new();
        for (partition, generation, offset, epoch) in partitions {
            if let Some(assigned) = self.assigned.get_mut(&partition) {
                assigned.fetching = true;
            }
            let data = FetchPartition {
                partition: partition.partition,
                current_leader_epoch: epoch.map_or(-1, |epoch| epoch.0),
                fetch_offset: offset.0,
                partition_max_bytes: positive(self.config.max_partition_fetch_bytes as usize),
                ..Default::default()
            };
            match topics.last_mut() {
                Some(last) if last.topic == *partition.topic => last.partitions.push(data),
                _ => {
                    let id = metadata
                        .topic(&partition.topic)
                        .map_or(TopicId::ZERO, |topic| topic.id);
                    fetch.topics.insert(partition.topic.clone(), id);
                    topics.push(FetchTopic {
                        topic: Str::from(&*partition.topic),
                        topic_id: id,
                        partitions: Vec::from([data]),
                        ..Default::default()
                    });
                }
            }
            fetch.partitions.push((partition, generation, offset));
        }
        let all_have_ids = fetch.topics.values().all(|id| *id != TopicId::ZERO);
        let mut wait_ms = self.config.fetch_max_wait_ms;
        if wanted.leaves_out {
            wait_ms = wait_ms.min(SHORT_WAIT_MS);
        }
        let body = RequestBody::from(FetchRequest {
            max_wait_ms: positive(wait_ms as usize),
            min_bytes: positive(self.config.fetch_min_bytes as usize),
            max_bytes: positive(room.min(self.config.fetch_max_bytes as usize)),
            topics,
            ..Default::default()
        });
        self.next_fetch += 1;
        let purpose = Some(Purpose::Fetch(self.next_fetch));
        // From version 13 on topics are named by id.
        let within = Versions::new(4, if all_have_ids { i16::MAX } else { 12 });
        let target = Target::Fetcher(node);
        match network.send(step, target, purpose, &body, within, wait_ms) {
            Ok(()) => {
                self.fetches.insert(self.next_fetch, fetch);
            }
            Err(error) => self.fetch_failed(step, &fetch, Some(&error)),
        }
    }

    /// The answer to a fetch came, or none will.
    pub(crate) fn fetched(
        &mut self,
        step: &mut Step<'_>,
        metadata: &mut Metadata,
        id: u64,
        result: Result<ResponseBody, ClientError>,
    ) {
        let Some(fetch) = self.fetches.remove(&id) else {
            return;
        };
        let response = match result {
            Ok(ResponseBody::Fetch(response)) if !response.error_code.is_error() => response,
            _ => {
                metadata.request_update();
                self.fetch_failed(step, &fetch, None);
                return;
            }
        };
        let mut answers = by_partition(response, &fetch.topics);
        for (partition, generation, offset) in &fetch.partitions {
            let current = self.assigned.get_mut(partition).filter(|assigned| {
                assigned.generation == *generation && assigned.fetch_offset == *offset
            });
            let Some(assigned) = current else {
                continue;
            };
            assigned.fetching = false;
            match answers.remove(partition) {
                Some(answer) => self.take_in(step, metadata, partition, answer),
                None => self.back_off(step, partition),
            }
        }
    }

    fn fetch_failed(
        &mut self,
        step: &mut Step<'_>,
        fetch: &FetchInFlight,
        error: Option<&ClientError>,
    ) {
        for (partition, generation, _) in &fetch.partitions {
            let current = self
                .assigned
                .get_mut(partition)
                .filter(|assigned| assigned.generation == *generation);
            if let Some(assigned) = current {
                assigned.fetching = false;
                if let Some(error) = error {
                    assigned.complain(error.clone());
                }
                self.back_off(step, partition);
            }
        }
    }

    fn back_off(&mut self, step: &mut Step<'_>, partition: &TopicPartition) {
        if let Some(assigned) = self.assigned.get_mut(partition) {
            assigned.failures = assigned.failures.saturating_add(1);
            assigned.retry_at = self.backoff.after(assigned.failures, step);
        }
    }

    fn take_in(
        &mut self,
        step: &mut Step<'_>,
        metadata: &mut Metadata,
        partition: &TopicPartition,
        answer: PartitionData,
    ) {
        let Some(assigned) = self.assigned.get_mut(partition) else {
            return;
        };
        match answer.error_code {
            ErrorCode::NONE => {
                let records = match answer.records {
                    Some(Records::Bytes(bytes)) => bytes,
                    Some(Records::File(_)) | None => bytes::Bytes::new(),
                };
                let tell_end = self.config.enable_partition_eof;
                if !assigned.take_in(records, answer.high_watermark, tell_end) {
                    self.back_off(step, partition);
                }
            }
            ErrorCode::OFFSET_OUT_OF_RANGE => {
                // What was fetched before is handed out first; then it will be asked for again.
                if assigned.is_drained() {
                    self.out_of_range(partition);
                } else {
                    self.back_off(step, partition);
                }
            }
            code => {
                if code.is_retriable() {
                    metadata.request_update();
                } else {
                    assigned.complain(ClientError::broker(code));
                }
                self.back_off(step, partition);
            }
        }
    }

    /// `auto.offset.reset`.
    fn out_of_range(&mut self, partition: &TopicPartition) {
        let Some(assigned) = self.assigned.get_mut(partition) else {
            return;
        };
        let offset = assigned.fetch_offset;
        assigned.position = match self.config.auto_offset_reset {
            OffsetReset::Earliest if !self.bugs.has(Bug::IgnoreResetPolicy) => {
                Position::Unknown(OffsetSpec::Earliest)
            }
            OffsetReset::Latest | OffsetReset::Earliest => Position::Unknown(OffsetSpec::Latest),
            OffsetReset::None => {
                assigned.complain(ClientError::OffsetOutOfRange { offset });
                Position::Lost
            }
        };
    }
}

/// Why nothing is known of a partition, if that should be told.
fn why_unknown(metadata: &Metadata, partition: &TopicPartition) -> Option<ClientError> {
    let topic = metadata.topic(&partition.topic)?;
    match topic.error {
        Some(code) if code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION || !code.is_retriable() => {
            Some(ClientError::broker(code))
        }
        Some(_) => None,
        None => Some(ClientError::UnknownPartition {
            partition: partition.partition,
            partitions: topic.partitions.len(),
        }),
    }
}

fn by_partition(
    response: FetchResponse,
    topics: &BTreeMap<TopicName, TopicId>,
) -> BTreeMap<TopicPartition, PartitionData> {
    let mut answers = BTreeMap::new();
    for topic in response.responses {
        let Some(name) = topic_of_answer(topics, &topic.topic, topic.topic_id) else {
            continue;
        };
        for data in topic.partitions {
            let partition = TopicPartition {
                topic: name.clone(),
                partition: data.partition_index,
            };
            answers.insert(partition, data);
        }
    }
    answers
}

/// A number of the wire, which has no more than 31 bits.
fn positive(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
