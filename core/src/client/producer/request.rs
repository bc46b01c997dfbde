//! Produce requests: from ready partitions to a request, and from its answer to verdicts.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::Producer;
use super::verdict::Verdict;
use crate::client::config::Acks;
use crate::client::error::ClientError;
use crate::client::input::TopicName;
use crate::client::metadata::{Metadata, topic_of_answer};
use crate::client::network::{Network, Purpose, Target};
use crate::client::step::Step;
use crate::ids::{NodeId, TopicId};
use crate::wire::messages::produce::{
    PartitionProduceData, PartitionProduceResponse, TopicProduceData,
};
use crate::wire::messages::{ProduceRequest, ProduceResponse};
use crate::wire::{Records, RequestBody, ResponseBody, Str, Versions};

/// A request without an answer.
#[derive(Debug)]
pub(super) struct ProduceInFlight {
    pub(super) node: NodeId,
    /// The ids under which the topics were named.
    topics: BTreeMap<TopicName, TopicId>,
    /// The batches, by partition index and ordinal.
    batches: Vec<(usize, u64)>,
}

impl Producer {
    /// Sends one request to a broker that is ready: one batch of each ready partition it leads,
    /// as many as fit into `max.request.size`.
    pub(super) fn send_request(
        &mut self,
        step: &mut Step<'_>,
        metadata: &Metadata,
        network: &mut Network,
        node: NodeId,
    ) {
        let mut request = ProduceInFlight {
            node,
            topics: BTreeMap::new(),
            batches: Vec::new(),
        };
        let mut data: BTreeMap<TopicName, Vec<PartitionProduceData>> = BTreeMap::new();
        let mut size = 0;
        for index in self.take_ready(node) {
            if !self.number_next(step, index) {
                continue;
            }
            let Some(partition) = self.partitions.get_mut(index) else {
                continue;
            };
            let next_size = partition.next_size().unwrap_or_default();
            if size > 0 && size + next_size > self.config.max_request_size {
                self.ready.entry(node).or_default().insert(index);
                continue;
            }
            let topic = partition.topic.clone();
            let number = partition.number;
            let Some(batch) = partition.send_next() else {
                continue;
            };
            let records = batch.build(self.config.compression, &mut self.tables);
            size += records.len();
            request.batches.push((index, batch.ordinal));
            data.entry(topic).or_default().push(PartitionProduceData {
                index: number,
                records: Some(Records::Bytes(records)),
                ..Default::default()
            });
        }
        if request.batches.is_empty() {
            return;
        }
        let topic_data = data
            .into_iter()
            .map(|(name, partition_data)| {
                let id = metadata
                    .topic(&name)
                    .map_or(TopicId::ZERO, |topic| topic.id);
                let data = TopicProduceData {
                    name: Str::from(&*name),
                    topic_id: id,
                    partition_data,
                    ..Default::default()
                };
                request.topics.insert(name, id);
                data
            })
            .collect();
        let body = RequestBody::from(ProduceRequest {
            acks: self.config.acks.on_the_wire(),
            timeout_ms: i32::try_from(network.request_timeout_ms()).unwrap_or(i32::MAX),
            topic_data,
            ..Default::default()
        });
        self.next_request += 1;
        let id = self.next_request;
        let answered = self.config.acks != Acks::None;
        let purpose = answered.then_some(Purpose::Produce(id));
        let within = self.versions(&request);
        let sent = network.send(step, Target::Node(node), purpose, &body, within, 0);
        let verdict = match sent {
            Ok(()) if answered => {
                for (index, _) in &request.batches {
                    self.look_at(step, *index);
                }
                self.in_flight.insert(id, request);
                return;
            }
            Ok(()) => None,
            Err(error) => Some(error),
        };
        self.end(step, &request, |_, _| match &verdict {
            None => Verdict::Appended {
                base_offset: None,
                append_time: None,
            },
            Some(error) => Verdict::Refused {
                error: error.clone(),
                retriable: matches!(error, ClientError::Disconnected),
                maybe_appended: false,
            },
        });
    }

    /// The ready partitions of a broker. The order turns with each request, so that those that do
    /// not fit into one come first in the next.
    fn take_ready(&mut self, node: NodeId) -> Vec<usize> {
        let ready = self.ready.remove(&node).unwrap_or_default();
        let indexes: Vec<usize> = ready.into_iter().collect();
        let mut turned = indexes.clone();
        turned.rotate_left(self.next_request as usize % indexes.len().max(1));
        turned
    }

    /// From version 13 on topics are named by id; zstd exists since version 7 (KIP-110).
    fn versions(&self, request: &ProduceInFlight) -> Versions {
        let all_have_ids = request.topics.values().all(|id| *id != TopicId::ZERO);
        Versions::new(
            if self.needs_zstd() { 7 } else { 3 },
            if all_have_ids { i16::MAX } else { 12 },
        )
    }

    /// The answer to a request came, or none will.
    pub(crate) fn answered(
        &mut self,
        step: &mut Step<'_>,
        metadata: &mut Metadata,
        id: u64,
        result: Result<ResponseBody, ClientError>,
    ) {
        let Some(request) = self.in_flight.remove(&id) else {
            return;
        };
        let mut stale = false;
        match result {
            Ok(ResponseBody::Produce(response)) => {
                let answers = by_partition(&response, &request.topics);
                self.end(step, &request, |topic, number| {
                    let Some(answer) = answers.get(&(topic, number)) else {
                        return Verdict::unanswered(ClientError::Malformed {
                            reason: String::from("a partition is missing from the answer"),
                        });
                    };
                    // Most retriable errors mean that the leader is not, or no longer, there.
                    stale |= answer.error_code.is_retriable();
                    Verdict::of(answer)
                });
            }
            Ok(_) => unreachable!("an answer is decoded as the API that was asked"),
            Err(error) => {
                stale = true;
                self.end(step, &request, |_, _| Verdict::unanswered(error.clone()));
            }
        }
        if stale {
            metadata.request_update();
        }
    }

    /// A request is over: every batch of it gets its verdict.
    fn end(
        &mut self,
        step: &mut Step<'_>,
        request: &ProduceInFlight,
        mut verdict: impl FnMut(&str, i32) -> Verdict,
    ) {
        for &(index, ordinal) in &request.batches {
            let Some(partition) = self.partitions.get_mut(index) else {
                continue;
            };
            let batch = partition
                .take_in_flight(ordinal)
                .expect("a batch stays in flight as long as its request");
            let verdict = verdict(&partition.topic, partition.number);
            self.judge(step, index, batch, verdict);
            self.look_at(step, index);
        }
    }
}

/// The answers by topic name and partition. What was not asked for is ignored.
fn by_partition<'a>(
    response: &'a ProduceResponse,
    topics: &'a BTreeMap<TopicName, TopicId>,
) -> BTreeMap<(&'a str, i32), &'a PartitionProduceResponse> {
    let mut answers = BTreeMap::new();
    for topic in &response.responses {
        let Some(name) = topic_of_answer(topics, &topic.name, topic.topic_id) else {
            continue;
        };
        for partition in &topic.partition_responses {
            answers.insert((&**name, partition.index), partition);
        }
    }
    answers
}
