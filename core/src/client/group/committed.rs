//! Asking how far the group has read (OffsetFetch): where the partitions begin that it assigns.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Cx, Group, Phase};
use crate::client::config::GroupProtocol;
use crate::client::error::ClientError;
use crate::client::input::{TopicName, TopicPartition};
use crate::client::metadata::{Metadata, topic_of_answer};
use crate::client::network::{GroupRequest, Purpose};
use crate::client::step::Step;
use crate::ids::{Offset, TopicId};
use crate::time::Mono;
use crate::wire::messages::offset_fetch::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use crate::wire::messages::{OffsetFetchRequest, OffsetFetchResponse};
use crate::wire::{ErrorCode, RequestBody, ResponseBody, Str, Versions};

/// The question in flight, and when the next may follow.
#[derive(Debug, Default)]
pub(super) struct CommittedOffsets {
    in_flight: Option<Question>,
    next: u64,
    pub(super) failures: u32,
    pub(super) not_before: Mono,
}

#[derive(Debug)]
pub(super) struct Question {
    number: u64,
    /// With the generation of each, by which the consumer knows whether it still matters.
    partitions: BTreeMap<TopicPartition, u64>,
    ids: BTreeMap<TopicName, TopicId>,
}

/// What was found of a partition as of a generation: the offset, or nothing, or an error.
pub(super) type Found = (TopicPartition, u64, Result<Option<Offset>, ErrorCode>);

impl CommittedOffsets {
    pub(super) const fn is_asking(&self) -> bool {
        self.in_flight.is_some()
    }

    /// The question for these partitions, and the versions it may be asked in.
    pub(super) fn ask(
        &mut self,
        metadata: &Metadata,
        group_id: &Str,
        member: Option<(Str, i32)>,
        partitions: Vec<(TopicPartition, u64)>,
    ) -> (u64, OffsetFetchRequest, Versions) {
        let mut by_topic: BTreeMap<TopicName, Vec<i32>> = BTreeMap::new();
        for (partition, _) in &partitions {
            let numbers = by_topic.entry(partition.topic.clone()).or_default();
            numbers.push(partition.partition);
        }
        let ids: BTreeMap<TopicName, TopicId> = by_topic
            .keys()
            .map(|name| {
                let id = metadata.topic(name).map_or(TopicId::ZERO, |topic| topic.id);
                (name.clone(), id)
            })
            .collect();
        let all_have_ids = ids.values().all(|id| *id != TopicId::ZERO);
        let (member_id, member_epoch) = member.map_or((None, -1), |(id, epoch)| (Some(id), epoch));
        // Which of the two lists is sent depends on the version.
        let group = OffsetFetchRequestGroup {
            group_id: group_id.clone(),
            member_id,
            member_epoch,
            topics: Some(
                by_topic
                    .iter()
                    .map(|(name, numbers)| OffsetFetchRequestTopics {
                        name: Str::from(&**name),
                        topic_id: ids.get(name).copied().unwrap_or(TopicId::ZERO),
                        partition_indexes: numbers.clone(),
                        ..Default::default()
                    })
                    .collect(),
            ),
            ..Default::default()
        };
        let request = OffsetFetchRequest {
            group_id: group_id.clone(),
            topics: Some(
                by_topic
                    .into_iter()
                    .map(|(name, partition_indexes)| OffsetFetchRequestTopic {
                        name: Str::from(&*name),
                        partition_indexes,
                        ..Default::default()
                    })
                    .collect(),
            ),
            groups: alloc::vec![group],
            ..Default::default()
        };
        self.next += 1;
        self.in_flight = Some(Question {
            number: self.next,
            partitions: partitions.into_iter().collect(),
            ids,
        });
        let within = Versions::new(1, if all_have_ids { i16::MAX } else { 9 });
        (self.next, request, within)
    }

    /// The answer came, or none will: the question it was to.
    pub(super) fn take(&mut self, number: u64) -> Option<Question> {
        self.in_flight.take_if(|question| question.number == number)
    }
}

impl Question {
    /// What the answer says of each partition. The error is that of the whole group.
    pub(super) fn read(&self, response: &OffsetFetchResponse) -> Result<Vec<Found>, ErrorCode> {
        let mut answers: BTreeMap<TopicPartition, Result<Option<Offset>, ErrorCode>> =
            BTreeMap::new();
        let mut put = |name: &TopicName, number: i32, offset: i64, code: ErrorCode| {
            let partition = TopicPartition {
                topic: name.clone(),
                partition: number,
            };
            let answer = match code {
                ErrorCode::NONE => Ok((offset >= 0).then_some(Offset(offset))),
                code => Err(code),
            };
            answers.insert(partition, answer);
        };
        if response.error_code.is_error() {
            return Err(response.error_code);
        }
        for group in &response.groups {
            if group.error_code.is_error() {
                return Err(group.error_code);
            }
            for topic in &group.topics {
                let Some(name) = topic_of_answer(&self.ids, &topic.name, topic.topic_id) else {
                    continue;
                };
                for one in &topic.partitions {
                    put(
                        name,
                        one.partition_index,
                        one.committed_offset,
                        one.error_code,
                    );
                }
            }
        }
        for topic in &response.topics {
            let Some(name) = topic_of_answer(&self.ids, &topic.name, TopicId::ZERO) else {
                continue;
            };
            for one in &topic.partitions {
                put(
                    name,
                    one.partition_index,
                    one.committed_offset,
                    one.error_code,
                );
            }
        }
        let missing = Err(ErrorCode::UNKNOWN_SERVER_ERROR);
        Ok(self
            .partitions
            .iter()
            .map(|(partition, generation)| {
                let answer = answers.get(partition).copied().unwrap_or(missing);
                (partition.clone(), *generation, answer)
            })
            .collect())
    }
}

impl Group {
    pub(super) fn ask_committed(&mut self, cx: &mut Cx<'_, '_>) {
        if self.committed.is_asking() || self.committed.not_before > cx.step.now.mono {
            return;
        }
        let partitions = cx.consumer.without_committed();
        if partitions.is_empty() || (self.topics.is_some() && !matches!(self.phase, Phase::In)) {
            return;
        }
        let Some(target) = self.coordinator.target(cx.step, cx.metadata, cx.network) else {
            return;
        };
        let member = match self.config.protocol {
            GroupProtocol::Consumer if self.topics.is_some() => {
                Some((self.member_id.clone(), self.epoch))
            }
            _ => None,
        };
        let (number, request, within) =
            self.committed
                .ask(cx.metadata, &self.group_id, member, partitions);
        let purpose = Some(Purpose::Group(GroupRequest::FetchOffsets, number));
        let body = RequestBody::from(request);
        if let Err(error) = cx.network.send(cx.step, target, purpose, &body, within, 0) {
            self.committed_answered(cx, number, Err(error));
        }
    }

    pub(super) fn committed_answered(
        &mut self,
        cx: &mut Cx<'_, '_>,
        number: u64,
        result: Result<ResponseBody, ClientError>,
    ) {
        let Some(question) = self.committed.take(number) else {
            return;
        };
        let Ok(ResponseBody::OffsetFetch(response)) = result else {
            self.coordinator.lost(cx.step);
            return self.ask_committed_later(cx.step);
        };
        match question.read(&response) {
            Ok(found) => {
                let mut again = false;
                for (partition, generation, committed) in found {
                    match committed {
                        Ok(offset) => {
                            let consumer = &mut *cx.consumer;
                            consumer.begin_at_committed(&partition, generation, offset);
                        }
                        Err(code) => {
                            again = true;
                            if code.is_retriable() {
                                cx.metadata.request_update();
                            } else {
                                cx.consumer.complain(&partition, ClientError::broker(code));
                            }
                        }
                    }
                }
                if again {
                    self.ask_committed_later(cx.step);
                } else {
                    self.committed.failures = 0;
                }
            }
            Err(code) => {
                match code {
                    ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => {
                        self.coordinator.lost(cx.step);
                    }
                    ErrorCode::STALE_MEMBER_EPOCH => self.consumer_protocol.beat_at = Mono(0),
                    // The next heartbeat is told what is wrong with the member.
                    ErrorCode::UNKNOWN_MEMBER_ID => self.consumer_protocol.beat_at = Mono(0),
                    code if code.is_retriable() => {}
                    code => {
                        for (partition, _) in cx.consumer.without_committed() {
                            cx.consumer.complain(&partition, ClientError::broker(code));
                        }
                    }
                }
                self.ask_committed_later(cx.step);
            }
        }
    }

    pub(super) fn ask_committed_later(&mut self, step: &mut Step<'_>) {
        self.committed.failures = self.committed.failures.saturating_add(1);
        self.committed.not_before = self.backoff.after(self.committed.failures, step);
    }
}
