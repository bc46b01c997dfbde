//! Looking offsets up at the leaders of partitions (ListOffsets): for positions that are not known
//! yet, and for the application.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::mem;

use crate::client::config::ClientConfig;
use crate::client::effect::FoundOffset;
use crate::client::error::ClientError;
use crate::client::input::{OffsetSpec, TopicName, TopicPartition};
use crate::client::metadata::Metadata;
use crate::client::network::{Network, Purpose, Target};
use crate::client::step::{Backoff, Step, earlier};
use crate::ids::{LeaderEpoch, NodeId, Offset};
use crate::time::Mono;
use crate::wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsTopic,
};
use crate::wire::messages::{ListOffsetsRequest, ListOffsetsResponse};
use crate::wire::{ErrorCode, RequestBody, ResponseBody, Str, Versions};

/// The look-ups under way.
#[derive(Debug)]
pub(super) struct Lookups {
    backoff: Backoff,
    waiting: Vec<Lookup>,
    in_flight: BTreeMap<u64, (NodeId, Vec<Lookup>)>,
    next_request: u64,
    /// When the waiting ones were last looked at.
    looked_at: Mono,
}

/// An offset that somebody wants.
#[derive(Debug)]
pub(super) struct Lookup {
    pub(super) partition: TopicPartition,
    pub(super) spec: OffsetSpec,
    pub(super) owner: Owner,
    /// The last error on the way.
    pub(super) last_error: Option<ErrorCode>,
    failures: u32,
    not_before: Mono,
}

/// Who wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// An assigned partition, if it still has this generation.
    Position { generation: u64 },
    /// The application, by number and place in its question.
    Query { query: u64, place: usize },
}

impl Lookups {
    pub(super) const fn new(config: &ClientConfig) -> Self {
        Self {
            backoff: Backoff {
                first_ms: config.retry_backoff_ms,
                max_ms: config.retry_backoff_max_ms,
            },
            waiting: Vec::new(),
            in_flight: BTreeMap::new(),
            next_request: 0,
            looked_at: Mono(0),
        }
    }

    /// Wants an offset.
    pub(super) fn want(
        &mut self,
        metadata: &mut Metadata,
        partition: TopicPartition,
        spec: OffsetSpec,
        owner: Owner,
    ) {
        metadata.want(&partition.topic);
        self.waiting.push(Lookup {
            partition,
            spec,
            owner,
            last_error: None,
            failures: 0,
            not_before: Mono(0),
        });
    }

    /// Forgets the look-ups that `useless` holds for, unless they are in flight.
    pub(super) fn forget(&mut self, useless: impl Fn(&Lookup) -> bool) {
        self.waiting.retain(|lookup| !useless(lookup));
    }

    /// Asks every leader that can be asked, one request at a time each. Returns what ends without
    /// being asked.
    pub(super) fn settle(
        &mut self,
        step: &mut Step<'_>,
        metadata: &Metadata,
        network: &mut Network,
    ) -> Vec<Ended> {
        let now = step.now.mono;
        self.looked_at = now;
        let mut ended = Vec::new();
        let busy: BTreeSet<NodeId> = self.in_flight.values().map(|(node, _)| *node).collect();
        let mut by_leader: BTreeMap<NodeId, Vec<Lookup>> = BTreeMap::new();
        for mut lookup in mem::take(&mut self.waiting) {
            match leader_of(metadata, &lookup.partition) {
                Leader::None(error) => ended.push((lookup, Err(error))),
                Leader::NotYet(code) => {
                    lookup.last_error = code.or(lookup.last_error);
                    self.waiting.push(lookup);
                }
                Leader::Is(node) => {
                    let asked = by_leader.entry(node).or_default();
                    // A request may name a partition once; and one that needs a later version must
                    // not keep the others from being answered.
                    let fits = asked.iter().all(|other| {
                        other.partition != lookup.partition
                            && needs_version_7(other.spec) == needs_version_7(lookup.spec)
                    });
                    if fits && lookup.not_before <= now && !busy.contains(&node) {
                        asked.push(lookup);
                    } else {
                        self.waiting.push(lookup);
                    }
                }
            }
        }
        for (node, lookups) in by_leader {
            if lookups.is_empty() {
                continue;
            }
            if network.ready(step, Target::Node(node)) {
                ended.extend(self.ask(step, metadata, network, node, lookups));
            } else {
                self.waiting.extend(lookups);
            }
        }
        ended
    }

    fn ask(
        &mut self,
        step: &mut Step<'_>,
        metadata: &Metadata,
        network: &mut Network,
        node: NodeId,
        lookups: Vec<Lookup>,
    ) -> Vec<Ended> {
        let mut topics: BTreeMap<TopicName, Vec<ListOffsetsPartition>> = BTreeMap::new();
        let mut min_version = 1;
        for lookup in &lookups {
            if needs_version_7(lookup.spec) {
                min_version = 7;
            }
            let epoch = metadata
                .partition(&lookup.partition)
                .and_then(|info| info.leader_epoch);
            topics
                .entry(lookup.partition.topic.clone())
                .or_default()
                .push(ListOffsetsPartition {
                    partition_index: lookup.partition.partition,
                    current_leader_epoch: epoch.map_or(-1, |epoch| epoch.0),
                    timestamp: on_the_wire(lookup.spec),
                    ..Default::default()
                });
        }
        let body = RequestBody::from(ListOffsetsRequest {
            replica_id: -1,
            topics: topics
                .into_iter()
                .map(|(name, partitions)| ListOffsetsTopic {
                    name: Str::from(&*name),
                    partitions,
                    ..Default::default()
                })
                .collect(),
            timeout_ms: i32::try_from(network.request_timeout_ms()).unwrap_or(i32::MAX),
            ..Default::default()
        });
        self.next_request += 1;
        let purpose = Some(Purpose::ListOffsets(self.next_request));
        let within = Versions::new(min_version, i16::MAX);
        match network.send(step, Target::Node(node), purpose, &body, within, 0) {
            Ok(()) => {
                self.in_flight.insert(self.next_request, (node, lookups));
                Vec::new()
            }
            Err(error) => lookups
                .into_iter()
                .map(|lookup| (lookup, Err(error.clone())))
                .collect(),
        }
    }

    /// The answer to a request came, or none will. Returns what ends by it; the rest is asked for
    /// again.
    pub(super) fn answered(
        &mut self,
        step: &mut Step<'_>,
        metadata: &mut Metadata,
        id: u64,
        result: Result<ResponseBody, ClientError>,
    ) -> Vec<Ended> {
        let Some((_, lookups)) = self.in_flight.remove(&id) else {
            return Vec::new();
        };
        let response = match result {
            Ok(ResponseBody::ListOffsets(response)) => Some(response),
            _ => None,
        };
        let answers = response.as_ref().map(by_partition).unwrap_or_default();
        let mut ended = Vec::new();
        for lookup in lookups {
            let key = (&*lookup.partition.topic, lookup.partition.partition);
            let answer = answers.get(&key).copied();
            match answer {
                Some(answer) if !answer.error_code.is_error() => {
                    ended.push((lookup, Ok(found(answer))));
                }
                Some(answer) if !answer.error_code.is_retriable() => {
                    ended.push((lookup, Err(ClientError::broker(answer.error_code))));
                }
                _ => {
                    metadata.request_update();
                    self.retry(step, lookup, answer.map(|answer| answer.error_code));
                }
            }
        }
        ended
    }

    fn retry(&mut self, step: &mut Step<'_>, mut lookup: Lookup, code: Option<ErrorCode>) {
        lookup.last_error = code.or(lookup.last_error);
        lookup.failures = lookup.failures.saturating_add(1);
        lookup.not_before = self.backoff.after(lookup.failures, step);
        self.waiting.push(lookup);
    }

    /// The last error on the way of a query's look-ups.
    pub(super) fn last_error(&self, query: u64) -> Option<ErrorCode> {
        let in_flight = self.in_flight.values().flat_map(|(_, lookups)| lookups);
        self.waiting
            .iter()
            .chain(in_flight)
            .filter(|lookup| matches!(lookup.owner, Owner::Query { query: of, .. } if of == query))
            .find_map(|lookup| lookup.last_error)
    }

    /// When a back-off ends.
    pub(super) fn deadline(&self) -> Option<Mono> {
        self.waiting
            .iter()
            .map(|lookup| lookup.not_before)
            .filter(|at| *at > self.looked_at)
            .fold(None, |first, at| earlier(first, Some(at)))
    }
}

/// A look-up and how it ended.
pub(super) type Ended = (Lookup, Result<FoundOffset, ClientError>);

enum Leader {
    Is(NodeId),
    NotYet(Option<ErrorCode>),
    None(ClientError),
}

fn leader_of(metadata: &Metadata, partition: &TopicPartition) -> Leader {
    let Some(topic) = metadata.topic(&partition.topic) else {
        return Leader::NotYet(None);
    };
    match (topic.error, metadata.partition(partition)) {
        (Some(code), _) if code.is_retriable() => Leader::NotYet(Some(code)),
        (Some(code), _) => Leader::None(ClientError::broker(code)),
        (None, Some(info)) => info.leader.map_or(Leader::NotYet(None), Leader::Is),
        (None, None) => Leader::None(ClientError::UnknownPartition {
            partition: partition.partition,
            partitions: topic.partitions.len(),
        }),
    }
}

fn by_partition(
    response: &ListOffsetsResponse,
) -> BTreeMap<(&str, i32), &ListOffsetsPartitionResponse> {
    response
        .topics
        .iter()
        .flat_map(|topic| {
            topic
                .partitions
                .iter()
                .map(|partition| ((&*topic.name, partition.partition_index), partition))
        })
        .collect()
}

fn found(answer: &ListOffsetsPartitionResponse) -> FoundOffset {
    FoundOffset {
        offset: (answer.offset >= 0).then_some(Offset(answer.offset)),
        timestamp: (answer.timestamp >= 0).then_some(answer.timestamp),
        leader_epoch: (answer.leader_epoch >= 0).then_some(LeaderEpoch(answer.leader_epoch)),
    }
}

const fn on_the_wire(spec: OffsetSpec) -> i64 {
    match spec {
        OffsetSpec::Latest => -1,
        OffsetSpec::Earliest => -2,
        OffsetSpec::MaxTimestamp => -3,
        // Negative timestamps mean something else on the wire, and no record is older than 0.
        OffsetSpec::Timestamp(ms) if ms < 0 => 0,
        OffsetSpec::Timestamp(ms) => ms,
    }
}

/// Largest timestamps exist since version 7 (KIP-734).
const fn needs_version_7(spec: OffsetSpec) -> bool {
    matches!(spec, OffsetSpec::MaxTimestamp)
}

/// Why a question of the application got no answer.
pub(super) fn overdue(last: Option<ErrorCode>) -> ClientError {
    ClientError::TimedOut {
        what: crate::client::error::Timeout::Request,
        last,
    }
}
