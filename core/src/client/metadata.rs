//! What the client knows of the cluster: brokers, topics, leaders.
//!
//! Topics are asked for once somebody needs them. The answer is asked for again when an error says
//! that it is out of date, and when it is old. What comes in is believed unless it is older than
//! what is known: a leader with a lower epoch than the one known, of the same topic, is not taken
//! (KIP-320).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::config::ClientConfig;
use super::error::ClientError;
use super::input::{TopicName, TopicPartition};
use super::network::{Network, Purpose};
use super::step::{Backoff, Step, earlier};
use crate::ids::{LeaderEpoch, NodeId, TopicId};
use crate::input::Endpoint;
use crate::time::Mono;
use crate::wire::messages::metadata::{MetadataRequestTopic, MetadataResponseTopic};
use crate::wire::messages::{MetadataRequest, MetadataResponse};
use crate::wire::{ErrorCode, RequestBody, ResponseBody, Str, Versions};

/// What the client knows of the cluster.
#[derive(Debug)]
pub(crate) struct Metadata {
    allow_auto_create_topics: bool,
    max_age_ms: u32,
    backoff: Backoff,

    brokers: BTreeMap<NodeId, Endpoint>,
    controller: Option<NodeId>,
    topics: BTreeMap<TopicName, Topic>,
    /// What is asked for.
    wanted: BTreeSet<TopicName>,
    /// Whether the names of all topics are asked for too.
    watches_all: bool,
    /// All names, as of an answer; true of the broker's own topics.
    all: Option<(u64, BTreeMap<TopicName, bool>)>,
    /// Whether the request in flight asks for all.
    asked_all: bool,

    /// Counts the answers that were taken in.
    generation: u64,
    update_needed: bool,
    in_flight: bool,
    /// Whether something became needed after the request in flight was sent.
    needed_since: bool,
    /// Whether a request is due and no connection could take it: the next input may change that.
    stuck: bool,
    failures: u32,
    not_before: Mono,
    updated: Option<Mono>,
}

/// A topic that was asked for and answered.
#[derive(Debug)]
pub(crate) struct Topic {
    /// Zero if the broker does not say.
    pub(crate) id: TopicId,
    /// Why nothing else is known of it.
    pub(crate) error: Option<ErrorCode>,
    /// By number, without gaps.
    pub(crate) partitions: Vec<PartitionInfo>,
}

/// A partition and who leads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartitionInfo {
    pub(crate) leader: Option<NodeId>,
    pub(crate) leader_epoch: Option<LeaderEpoch>,
}

impl Metadata {
    pub(crate) fn new(config: &ClientConfig) -> Self {
        Self {
            allow_auto_create_topics: config.allow_auto_create_topics,
            max_age_ms: config.metadata_max_age_ms,
            backoff: Backoff {
                first_ms: config.retry_backoff_ms,
                max_ms: config.retry_backoff_max_ms,
            },
            brokers: BTreeMap::new(),
            controller: None,
            topics: BTreeMap::new(),
            wanted: BTreeSet::new(),
            watches_all: false,
            all: None,
            asked_all: false,
            generation: 0,
            update_needed: false,
            in_flight: false,
            needed_since: false,
            stuck: false,
            failures: 0,
            not_before: Mono(0),
            updated: None,
        }
    }

    /// Counts the answers so far: whoever keeps something derived looks again when it changes.
    pub(crate) const fn generation(&self) -> u64 {
        self.generation
    }

    /// The brokers there are.
    pub(crate) const fn brokers(&self) -> &BTreeMap<NodeId, Endpoint> {
        &self.brokers
    }

    /// The controller, if known.
    pub(crate) const fn controller(&self) -> Option<NodeId> {
        self.controller
    }

    /// A topic, if it was asked for and answered.
    pub(crate) fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.get(name)
    }

    /// What is known of a partition.
    pub(crate) fn partition(&self, partition: &TopicPartition) -> Option<PartitionInfo> {
        let index = usize::try_from(partition.partition).ok()?;
        let topic = self.topics.get(&partition.topic)?;
        topic.partitions.get(index).copied()
    }

    /// Asks for this topic too from now on; at once, if it is new.
    pub(crate) fn want(&mut self, topic: &TopicName) {
        if !self.wanted.contains(topic) {
            self.wanted.insert(topic.clone());
            self.request_update();
            if self.failures == 0 {
                self.not_before = Mono(0);
            }
        }
    }

    /// Asks for the names of all topics too, or no longer.
    pub(crate) fn watch_all(&mut self, watches_all: bool) {
        if watches_all && !self.watches_all {
            self.all = None;
            self.request_update();
        }
        self.watches_all = watches_all;
    }

    /// The names of all topics, each with whether it is one of the broker's own, and the number of
    /// the answer that said so.
    pub(crate) fn all_topics(&self) -> Option<(u64, &BTreeMap<TopicName, bool>)> {
        let (generation, names) = self.all.as_ref().filter(|_| self.watches_all)?;
        Some((*generation, names))
    }

    /// What is known turned out to be wrong, or not enough.
    pub(crate) fn request_update(&mut self) {
        self.update_needed = true;
        self.needed_since = true;
    }

    /// Sends a request if one is due and a broker can be reached.
    pub(crate) fn settle(&mut self, step: &mut Step<'_>, network: &mut Network) {
        let now = step.now.mono;
        self.stuck = false;
        let too_old = self.expiry().is_some_and(|expiry| expiry <= now);
        if self.in_flight || !(self.update_needed || too_old) || now < self.not_before {
            return;
        }
        let Some(target) = network.any_ready(step) else {
            self.stuck = true;
            return;
        };
        let topics = self
            .wanted
            .iter()
            .map(|name| MetadataRequestTopic {
                name: Some(Str::from(&**name)),
                ..Default::default()
            })
            .collect();
        let body = RequestBody::from(MetadataRequest {
            topics: (!self.watches_all).then_some(topics),
            allow_auto_topic_creation: self.allow_auto_create_topics,
            ..Default::default()
        });
        // Version 0 cannot ask for no topic, and has no controller.
        let within = Versions::new(1, i16::MAX);
        match network.send(step, target, Some(Purpose::Metadata), &body, within, 0) {
            Ok(()) => {
                self.in_flight = true;
                self.asked_all = self.watches_all;
                self.needed_since = false;
            }
            Err(_) => self.failed(step),
        }
    }

    /// An answer came, or none will.
    pub(crate) fn answered(
        &mut self,
        step: &mut Step<'_>,
        result: Result<ResponseBody, ClientError>,
    ) {
        self.in_flight = false;
        match result {
            Ok(ResponseBody::Metadata(response)) if !response.error_code.is_error() => {
                self.update(step, &response);
            }
            _ => self.failed(step),
        }
    }

    fn failed(&mut self, step: &mut Step<'_>) {
        self.update_needed = true;
        self.failures = self.failures.saturating_add(1);
        self.not_before = self.backoff.after(self.failures, step);
    }

    fn update(&mut self, step: &mut Step<'_>, response: &MetadataResponse) {
        self.generation += 1;
        self.updated = Some(step.now.mono);
        let brokers: BTreeMap<NodeId, Endpoint> = response
            .brokers
            .iter()
            .filter_map(|broker| {
                let endpoint = Endpoint {
                    host: String::from(&*broker.host),
                    port: u16::try_from(broker.port).ok()?,
                };
                Some((known_node(broker.node_id)?, endpoint))
            })
            .collect();
        // A broker that is just starting may know of none, and forgetting all would help nobody.
        let mut incomplete = brokers.is_empty();
        if !incomplete {
            self.brokers = brokers;
            self.controller =
                known_node(response.controller_id).filter(|id| self.brokers.contains_key(id));
        }
        for topic in &response.topics {
            let Some(name) = topic.name.as_deref().and_then(|name| self.wanted.get(name)) else {
                continue;
            };
            let name = name.clone();
            incomplete |= self.update_topic(&name, topic);
        }
        if self.asked_all {
            self.update_all(response);
        }
        incomplete |= self
            .wanted
            .iter()
            .any(|name| !self.topics.contains_key(name));
        // Asking again at once would not help: leaders take a while to be elected, and an answer
        // that an error made necessary may still be the old one.
        self.update_needed = incomplete || self.needed_since;
        self.failures = if incomplete {
            self.failures.saturating_add(1)
        } else {
            0
        };
        self.not_before = self.backoff.after(self.failures, step);
    }

    /// Takes in an answer with all topics: who is not in it is not there.
    fn update_all(&mut self, response: &MetadataResponse) {
        let answered = response.topics.iter().filter_map(|topic| {
            let name = topic.name.as_deref()?;
            Some((TopicName::from(name), topic.is_internal))
        });
        let all: BTreeMap<TopicName, bool> = answered.collect();
        for name in self.wanted.iter().filter(|name| !all.contains_key(*name)) {
            let topic = Topic {
                id: TopicId::ZERO,
                error: Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
                partitions: Vec::new(),
            };
            self.topics.insert(name.clone(), topic);
        }
        self.all = Some((self.generation, all));
    }

    /// Takes in what is new of a topic; whether it has to be asked for again.
    fn update_topic(&mut self, name: &TopicName, news: &MetadataResponseTopic) -> bool {
        let known = self.topics.get(name);
        if news.error_code.is_error() {
            let again = news.error_code.is_retriable();
            // A passing trouble is no reason to forget the leaders.
            if !again || known.is_none_or(|known| known.error.is_some()) {
                let topic = Topic {
                    id: TopicId::ZERO,
                    error: Some(news.error_code),
                    partitions: Vec::new(),
                };
                self.topics.insert(name.clone(), topic);
            }
            return again;
        }
        let Some(mut partitions) = numbered(news) else {
            // Partitions that are not numbered from 0 without gaps: no broker says so.
            return true;
        };
        let mut again = false;
        for (index, info) in partitions.iter_mut().enumerate() {
            let before = known
                .filter(|known| known.id == news.topic_id)
                .and_then(|known| known.partitions.get(index));
            if let Some(before) = before
                && info.leader_epoch < before.leader_epoch
            {
                *info = *before;
            }
            again |= info.leader.is_none();
        }
        let topic = Topic {
            id: news.topic_id,
            error: None,
            partitions,
        };
        self.topics.insert(name.clone(), topic);
        again
    }

    fn expiry(&self) -> Option<Mono> {
        self.updated
            .map(|updated| updated.plus_ms(self.max_age_ms.into()))
    }

    /// When [`Self::settle`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Mono> {
        if self.in_flight || self.stuck {
            return None;
        }
        let needed = self.update_needed.then_some(self.not_before);
        // What is too old has to wait for the backoff too, or the host would be woken until then for
        // nothing.
        let expiry = self.expiry().map(|expiry| expiry.max(self.not_before));
        earlier(needed, expiry)
    }
}

/// The partitions by number, if they are numbered from 0 without gaps.
fn numbered(topic: &MetadataResponseTopic) -> Option<Vec<PartitionInfo>> {
    let by_number: BTreeMap<i32, PartitionInfo> = topic
        .partitions
        .iter()
        .map(|partition| {
            let info = PartitionInfo {
                leader: known_node(partition.leader_id),
                leader_epoch: (partition.leader_epoch >= 0)
                    .then_some(LeaderEpoch(partition.leader_epoch)),
            };
            (partition.partition_index, info)
        })
        .collect();
    let dense = by_number
        .keys()
        .enumerate()
        .all(|(index, number)| usize::try_from(*number) == Ok(index));
    (dense && by_number.len() == topic.partitions.len()).then(|| by_number.into_values().collect())
}

fn known_node(id: i32) -> Option<NodeId> {
    (id >= 0).then_some(NodeId(id))
}

/// The topic that an answer is about, among those that were asked about: by its id in the versions
/// that have ids, by its name in the others.
pub(crate) fn topic_of_answer<'a>(
    asked: &'a BTreeMap<TopicName, TopicId>,
    name: &str,
    id: TopicId,
) -> Option<&'a TopicName> {
    let (found, _) = asked.iter().find(|(known_name, known_id)| {
        if id == TopicId::ZERO {
            name == &***known_name
        } else {
            id == **known_id
        }
    })?;
    Some(found)
}
