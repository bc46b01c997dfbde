//! The answers of the admin APIs: each says something about everything asked, in order; a config
//! that was set is there whenever it is asked for (ConfigDurable); a leader epoch ends where the
//! log's batches say (EpochEndsWhereItDoes).

use std::collections::{BTreeMap, BTreeSet};

use odradek_core::wire::messages::alter_configs::AlterConfigsRequest;
use odradek_core::wire::messages::create_topics::{CreatableTopic, CreateTopicsRequest};
use odradek_core::wire::messages::describe_configs::DescribeConfigsResponse;
use odradek_core::wire::messages::describe_log_dirs::DescribeLogDirsResponse;
use odradek_core::wire::messages::incremental_alter_configs::IncrementalAlterConfigsRequest;
use odradek_core::wire::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
};
use odradek_core::wire::{ErrorCode, RequestBody, ResponseBody};

use super::long_poll::directory;
use super::{Check, Mark, Oracle};
use crate::disk::Disk;
use crate::workload::administrator::{CONFIGS, TOPIC};

/// What the configs of topics can be, by topic and name: several values while it is open whether a
/// change was carried out. `None` is the default.
#[derive(Clone, Debug, Default)]
pub struct Configs {
    possible: BTreeMap<(String, &'static str), BTreeSet<Option<String>>>,
}

/// A change to one config of a topic.
type Change = (String, &'static str, Option<String>);

impl Configs {
    fn possible(&mut self, topic: String, name: &'static str) -> &mut BTreeSet<Option<String>> {
        self.possible
            .entry((topic, name))
            .or_insert_with(|| BTreeSet::from([None]))
    }

    /// The values that may be in force; `None` is the default.
    pub(super) fn values<'a>(
        &'a self,
        topic: &str,
        name: &str,
    ) -> impl Iterator<Item = Option<&'a str>> {
        let known = known(name).map(|name| (topic.to_owned(), name));
        let possible = known.and_then(|key| self.possible.get(&key));
        let is_unchanged = possible.is_none();
        let values = possible.into_iter().flatten();
        values
            .map(Option::as_deref)
            .chain(is_unchanged.then_some(None))
    }

    /// A topic was created as this request asks for. What somebody else asked for meanwhile stays
    /// possible.
    pub(super) fn created(&mut self, topic: &CreatableTopic) {
        for (name, key, value) in settings(topic) {
            let possible = self.possible(name, key);
            // The answer may come late, when a change of it was answered already.
            let is_alone = possible
                .iter()
                .flatten()
                .all(|other| Some(other) == value.as_ref());
            if is_alone && possible.contains(&value) {
                *possible = BTreeSet::from([value]);
            }
        }
    }
}

/// The type and name of each resource of a list: every API has a struct of its own for them.
macro_rules! resources {
    ($list:expr) => {
        names($list.iter().map(|r| (r.resource_type, &*r.resource_name)))
    };
}

/// Topics that nobody deletes. (Those of others are made again with other configs: of these every value
/// stays possible.)
fn lasts(topic: &str) -> bool {
    topic.starts_with("topic") || topic.starts_with("kept")
}

fn known(name: &str) -> Option<&'static str> {
    CONFIGS
        .iter()
        .map(|(known, _)| *known)
        .find(|known| *known == name)
}

/// What a request changes if it is carried out, and whether it is a trial only.
fn changes(request: &RequestBody) -> Vec<Change> {
    match request {
        RequestBody::IncrementalAlterConfigs(request) if !request.validate_only => single(request),
        RequestBody::AlterConfigs(request) if !request.validate_only => whole(request),
        RequestBody::CreateTopics(request) if !request.validate_only => created(request),
        _ => Vec::new(),
    }
}

fn single(request: &IncrementalAlterConfigsRequest) -> Vec<Change> {
    let mut all = Vec::new();
    for resource in request
        .resources
        .iter()
        .filter(|r| r.resource_type == TOPIC)
    {
        for config in &resource.configs {
            if let Some(name) = known(&config.name) {
                let value = match config.config_operation {
                    1 => None,
                    _ => config.value.as_ref().map(ToString::to_string),
                };
                all.push((resource.resource_name.to_string(), name, value));
            }
        }
    }
    all
}

fn whole(request: &AlterConfigsRequest) -> Vec<Change> {
    let mut all = Vec::new();
    for resource in request
        .resources
        .iter()
        .filter(|r| r.resource_type == TOPIC)
    {
        for (name, _) in CONFIGS {
            let value = resource
                .configs
                .iter()
                .find(|config| config.name == **name)
                .and_then(|config| config.value.as_ref())
                .map(ToString::to_string);
            all.push((resource.resource_name.to_string(), *name, value));
        }
    }
    all
}

fn created(request: &CreateTopicsRequest) -> Vec<Change> {
    request.topics.iter().flat_map(settings).collect()
}

/// What a topic is to be made with.
fn settings(topic: &CreatableTopic) -> Vec<Change> {
    let mut all = Vec::new();
    for config in &topic.configs {
        if let Some(name) = known(&config.name) {
            let value = config.value.as_ref().map(ToString::to_string);
            all.push((topic.name.to_string(), name, value));
        }
    }
    all
}

impl Oracle {
    /// A request reached the broker: what it changes may come true from now on.
    pub(super) fn note_config_changes(&mut self, request: &RequestBody) {
        for (topic, name, value) in changes(request) {
            self.configs.possible(topic, name).insert(value);
        }
    }

    /// Judges an answer of an admin API.
    pub(super) fn judge_admin(
        &mut self,
        request: &RequestBody,
        response: &ResponseBody,
        disk: &Disk,
    ) {
        let (asked, answered) = match (request, response) {
            (RequestBody::CreatePartitions(request), ResponseBody::CreatePartitions(response)) => {
                let done = response.results.iter().any(|r| !r.error_code.is_error());
                if done && !request.validate_only {
                    self.mark(Mark::PartitionsAdded);
                }
                (
                    names(request.topics.iter().map(|topic| (TOPIC, &*topic.name))),
                    names(response.results.iter().map(|topic| (TOPIC, &*topic.name))),
                )
            }
            (RequestBody::DescribeConfigs(request), ResponseBody::DescribeConfigs(response)) => {
                self.judge_configs(response);
                (resources!(request.resources), resources!(response.results))
            }
            (RequestBody::AlterConfigs(asked), ResponseBody::AlterConfigs(response)) => {
                let done = response.responses.iter().all(|r| !r.error_code.is_error());
                self.configs_changed(request, done, disk);
                (resources!(asked.resources), resources!(response.responses))
            }
            (
                RequestBody::IncrementalAlterConfigs(asked),
                ResponseBody::IncrementalAlterConfigs(response),
            ) => {
                let done = response.responses.iter().all(|r| !r.error_code.is_error());
                self.configs_changed(request, done, disk);
                (resources!(asked.resources), resources!(response.responses))
            }
            (RequestBody::DescribeLogDirs(_), ResponseBody::DescribeLogDirs(response)) => {
                return self.judge_log_dirs(response);
            }
            (
                RequestBody::OffsetForLeaderEpoch(request),
                ResponseBody::OffsetForLeaderEpoch(response),
            ) => return self.judge_epochs(request, response),
            (RequestBody::DescribeCluster(_), ResponseBody::DescribeCluster(response)) => {
                let brokers = response.brokers.iter().map(|broker| broker.broker_id);
                let named = brokers.into_iter().any(|id| id == response.controller_id);
                if !named && !response.error_code.is_error() {
                    let what = "DescribeCluster names a controller that is no broker";
                    self.violate(Check::AnswersWellFormed, what);
                }
                return;
            }
            (
                RequestBody::DescribeTopicPartitions(request),
                ResponseBody::DescribeTopicPartitions(response),
            ) => {
                let partitions: usize = response.topics.iter().map(|t| t.partitions.len()).sum();
                let limit = request.response_partition_limit.max(1) as usize;
                let complete =
                    response.next_cursor.is_some() || request.topics.len() <= response.topics.len();
                if partitions > limit || !complete {
                    self.violate(
                        Check::AnswersWellFormed,
                        format!(
                            "DescribeTopicPartitions of {} topics with a limit of {limit} answers \
                             {partitions} partitions of {} topics",
                            request.topics.len(),
                            response.topics.len()
                        ),
                    );
                }
                return;
            }
            (RequestBody::ElectLeaders(_), ResponseBody::ElectLeaders(response)) => {
                let results = response.replica_election_results.iter();
                let errors = results
                    .flat_map(|t| &t.partition_result)
                    .map(|p| p.error_code);
                return self.judge_errors(
                    "ElectLeaders",
                    errors,
                    &[
                        ErrorCode::ELECTION_NOT_NEEDED,
                        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                    ],
                );
            }
            (RequestBody::AlterReplicaLogDirs(_), ResponseBody::AlterReplicaLogDirs(response)) => {
                let errors = response.results.iter().flat_map(|t| &t.partitions);
                return self.judge_errors(
                    "AlterReplicaLogDirs",
                    errors.map(|p| p.error_code),
                    &[
                        ErrorCode::NONE,
                        ErrorCode::LOG_DIR_NOT_FOUND,
                        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                    ],
                );
            }
            (
                RequestBody::AlterPartitionReassignments(_),
                ResponseBody::AlterPartitionReassignments(response),
            ) => {
                let errors = response.responses.iter().flat_map(|t| &t.partitions);
                return self.judge_errors(
                    "AlterPartitionReassignments",
                    errors.map(|p| p.error_code),
                    &[
                        ErrorCode::NONE,
                        ErrorCode::INVALID_REPLICA_ASSIGNMENT,
                        ErrorCode::NO_REASSIGNMENT_IN_PROGRESS,
                        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                    ],
                );
            }
            (RequestBody::DescribeQuorum(_), ResponseBody::DescribeQuorum(response)) => {
                for quorum in response.topics.iter().flat_map(|topic| &topic.partitions) {
                    let end = quorum
                        .current_voters
                        .first()
                        .map_or(0, |v| v.log_end_offset);
                    if quorum.high_watermark > end {
                        self.violate(
                            Check::HighWatermarkAtMostLogEnd,
                            format!(
                                "the metadata log ends at {end}, and DescribeQuorum says {quorum:?}"
                            ),
                        );
                    }
                }
                return;
            }
            _ => return,
        };
        if asked != answered {
            self.violate(
                Check::AnswersWellFormed,
                format!("asked about {asked:?}, and answered about {answered:?}"),
            );
        }
    }

    /// One node has only so many answers.
    fn judge_errors(
        &mut self,
        api: &str,
        errors: impl Iterator<Item = ErrorCode>,
        possible: &[ErrorCode],
    ) {
        for error in errors {
            if !possible.contains(&error) {
                let what = format!("{api} answers {error}, and can answer {possible:?}");
                self.violate(Check::AnswersWellFormed, what);
            }
        }
    }

    /// An answer says whether a change was carried out.
    fn configs_changed(&mut self, request: &RequestBody, done: bool, disk: &Disk) {
        if !done {
            return;
        }
        self.note_expired(disk);
        for (topic, name, value) in changes(request) {
            if lasts(&topic) {
                // Whoever else changes it asks later, and is answered later.
                *self.configs.possible(topic.clone(), name) = BTreeSet::from([value]);
                self.flushes_anew(&topic);
            }
        }
    }

    /// A topic is there that a request asked for.
    pub(super) fn configs_created(&mut self, topic: &CreatableTopic) {
        if lasts(&topic.name) {
            self.configs.created(topic);
            self.flushes_anew(&topic.name);
        }
    }

    fn judge_configs(&mut self, response: &DescribeConfigsResponse) {
        for resource in &response.results {
            let topic = resource.resource_name.to_string();
            if resource.resource_type != TOPIC || resource.error_code.is_error() || !lasts(&topic) {
                continue;
            }
            for config in &resource.configs {
                let Some(name) = known(&config.name) else {
                    continue;
                };
                // Only what is set at the topic itself is no default.
                let value = (config.config_source == 1)
                    .then(|| config.value.as_ref().map(ToString::to_string))
                    .flatten();
                let possible = self.configs.possible(topic.clone(), name);
                if value.is_some() {
                    self.marks
                        .entry(Mark::ConfigRead)
                        .and_modify(|count| *count += 1)
                        .or_insert(1);
                }
                if !possible.contains(&value) {
                    let what = format!("{topic}: {name} is {value:?}, and can be {possible:?}");
                    self.violate(Check::ConfigDurable, what);
                }
            }
        }
    }

    fn judge_log_dirs(&mut self, response: &DescribeLogDirsResponse) {
        let mut listed = BTreeSet::new();
        for topic in response.results.iter().flat_map(|result| &result.topics) {
            for partition in &topic.partitions {
                let name = directory(&topic.name, partition.partition_index);
                if partition.partition_size < 0 || partition.offset_lag < 0 {
                    self.violate(
                        Check::AnswersWellFormed,
                        format!("{name}: DescribeLogDirs says {partition:?}"),
                    );
                }
                if !listed.insert(name.clone()) {
                    self.violate(
                        Check::AnswersWellFormed,
                        format!("{name}: DescribeLogDirs lists it twice"),
                    );
                }
            }
        }
    }

    fn judge_epochs(
        &mut self,
        request: &OffsetForLeaderEpochRequest,
        response: &OffsetForLeaderEpochResponse,
    ) {
        let asked: Vec<(String, i32)> = request
            .topics
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(move |p| (topic, p)))
            .map(|(topic, p)| (directory(&topic.topic, p.partition), p.leader_epoch))
            .collect();
        let answered: Vec<(String, &EpochEndOffset)> = response
            .topics
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(move |p| (topic, p)))
            .map(|(topic, p)| (directory(&topic.topic, p.partition), p))
            .collect();
        if !asked
            .iter()
            .map(|(name, _)| name)
            .eq(answered.iter().map(|(name, _)| name))
        {
            return self.violate(
                Check::AnswersWellFormed,
                format!("epochs of {asked:?} are answered by {answered:?}"),
            );
        }
        for ((name, epoch), (_, answer)) in asked.into_iter().zip(answered) {
            if answer.error_code == ErrorCode::NONE {
                self.check_epoch_end(&name, epoch, answer);
            }
        }
    }

    fn check_epoch_end(&mut self, name: &str, asked: i32, answer: &EpochEndOffset) {
        let Some(log) = self.models.get(name).filter(|log| !log.may_vanish) else {
            return;
        };
        let EpochEndOffset {
            leader_epoch,
            end_offset: end,
            ..
        } = *answer;
        // The epoch stands in the header of each batch.
        let epoch_of = |bytes: &[u8]| {
            bytes
                .get(12..16)
                .and_then(<[u8]>::first_chunk)
                .map_or(-1, |epoch| i32::from_be_bytes(*epoch))
        };
        let start = log.log_start.max(log.log_start_asked);
        let mut wrong = None;
        for (base, batch) in log.batches.range(start..log.visible_end.max(start)) {
            let epoch = epoch_of(&batch.bytes);
            // Nothing is said of an epoch that is yet to come.
            let fits = if end < 0 {
                epoch < asked
            } else {
                (*base < end) == (epoch <= asked)
            };
            if !fits {
                wrong = Some((*base, epoch));
                break;
            }
        }
        if let Some((base, epoch)) = wrong {
            self.violate(
                Check::EpochEndsWhereItDoes,
                format!(
                    "{name}: up to epoch {asked} ends at {end} (epoch {leader_epoch}), and the \
                     batch at {base} has epoch {epoch}"
                ),
            );
        } else if leader_epoch > asked || end > log.end {
            self.violate(
                Check::EpochEndsWhereItDoes,
                format!(
                    "{name}: asked about epoch {asked} of a log that ends at {}, the answer is \
                     epoch {leader_epoch} up to {end}",
                    log.end
                ),
            );
        }
    }
}

/// Resources, in order.
fn names<'a>(of: impl Iterator<Item = (i8, &'a str)>) -> Vec<(i8, String)> {
    of.map(|(kind, name)| (kind, name.to_owned())).collect()
}
