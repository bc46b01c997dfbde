//! Topics coming and going: the order in which directories and records change.
//!
//! - **Create:** directories, files and parent flushed first, then the topic's record. Its
//!   partitions serve when the record is durable.
//! - **Delete:** the record first; when it is durable, the directories are renamed to
//!   `<name>.<id>-delete` and then unlinked.
//!
//! So a crash leaves at most a directory that no record knows, which the next start removes.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;

use super::record::{MetadataRecord, Resource};
use super::store::Change;
use crate::broker::{self, State};
use crate::bugs::Bug;
use crate::connection::RequestId;
use crate::context::{Context, LogId, Owner};
use crate::effect::FileOp;
use crate::group::coordinator;
use crate::ids::{FilePath, LeaderEpoch, OperationId, TopicId};
use crate::input::DiskError;
use crate::log::{Log, LogState};
use crate::outstanding::Outstanding;
use crate::partition::{Partition, PartitionKey};
use crate::report::Level;
use crate::request;
use crate::sequence::{Progress, Sequence};
use crate::wire::ErrorCode;

/// What is coming and going.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    creations: BTreeMap<u64, Creation>,
    last_creation: u64,
    /// Deleted topics whose record was lost, perhaps: known when the metadata is current again.
    doubtful_deletions: Vec<TopicId>,
    removals: Vec<Removal>,
}

/// Partitions being made: those of a new topic, or more of an old one.
#[derive(Debug)]
struct Creation {
    topic: TopicId,
    name: String,
    /// The first partition to make, and the number there will be.
    partitions: core::ops::Range<i32>,
    configs: Vec<(String, String)>,
    phase: Phase,
    logs: BTreeMap<LogId, (PartitionKey, Log)>,
    /// Those whose files are still being made.
    loading: Outstanding<LogId>,
    /// Requests that wait, and which of their topics this is.
    waiting: Vec<(RequestId, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The directories of a deleted topic of that name are still there.
    WaitsForRemoval,
    /// Directories and files are being made.
    MakesDirectories,
    /// The record is appended and not yet durable.
    WaitsForRecord,
    /// The record may be lost; known when the metadata is current again.
    Doubtful,
}

/// Directories of deleted partitions on their way out.
#[derive(Debug)]
struct Removal {
    name: String,
    sequence: Sequence,
}

/// What a request wants to exist.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// The topic's name.
    pub(crate) name: String,
    /// `None` makes a new topic.
    pub(crate) topic: Option<TopicId>,
    /// Number of partitions there will be.
    pub(crate) partitions: i32,
    /// Configs of a new topic, checked.
    pub(crate) configs: Vec<(String, String)>,
}

impl Topics {
    /// Whether a topic of that name is being made.
    pub(crate) fn is_creating(&self, name: &str) -> bool {
        self.creating().any(|known| known == name)
    }

    /// The names of topics that are being made.
    pub(crate) fn creating(&self) -> impl Iterator<Item = &str> {
        self.creations
            .values()
            .map(|creation| creation.name.as_str())
    }

    /// Whether a partition is being made: its record may yet be lost, and the topic with it.
    pub(crate) fn is_making(&self, topic: TopicId, partition: i32) -> bool {
        let mut making = self.creations.values();
        making.any(|creation| creation.topic == topic && creation.partitions.contains(&partition))
    }

    /// How many partitions are being made.
    pub(crate) fn partitions_making(&self) -> u64 {
        let counts = self
            .creations
            .values()
            .map(|creation| u64::try_from(creation.partitions.len()).unwrap_or(u64::MAX));
        counts.sum()
    }

    /// Whether nothing is coming or going.
    pub(crate) fn is_idle(&self) -> bool {
        self.creations.is_empty() && self.removals.is_empty()
    }

    /// A log of a partition being made, if `id` is its.
    pub(crate) fn log_mut(&mut self, id: LogId) -> Option<&mut Log> {
        self.creations
            .values_mut()
            .find_map(|creation| creation.logs.get_mut(&id))
            .map(|(_, log)| log)
    }

    /// A further request waits for a topic that is being made.
    pub(crate) fn join(&mut self, name: &str, request: RequestId, place: usize) {
        if let Some(creation) = self.creations.values_mut().find(|c| c.name == name) {
            creation.waiting.push((request, place));
        }
    }

    /// A request is gone; what it asked for goes on.
    pub(crate) fn forget(&mut self, gone: RequestId) {
        for creation in self.creations.values_mut() {
            creation.waiting.retain(|(request, _)| *request != gone);
        }
    }

    /// A file operation ended.
    pub(crate) fn managed(
        &mut self,
        cx: &mut Context<'_>,
        operation: OperationId,
        result: &Result<(), DiskError>,
    ) {
        self.removals.retain_mut(|removal| {
            match removal.sequence.complete(cx, operation, result) {
                Progress::NotMine | Progress::Running => true,
                Progress::Done => false,
                Progress::Failed(error) => {
                    cx.report(
                        Level::Warn,
                        "topics",
                        format!(
                            "a deleted topic's directories stay until the next start: topic={} \
                             {error}",
                            removal.name
                        ),
                    );
                    false
                }
            }
        });
    }

    /// Renames the directories of a deleted topic's partitions, then unlinks them.
    fn remove(&mut self, cx: &mut Context<'_>, name: &str, topic: TopicId, partitions: &[i32]) {
        if partitions.is_empty() {
            return;
        }
        let doomed = |index: &i32| {
            let from = FilePath::from(partition_name(name, *index).as_str());
            let to = FilePath::from(format!("{from}.{topic}-delete").as_str());
            (from, to)
        };
        let renames = partitions
            .iter()
            .map(doomed)
            .map(|(from, to)| FileOp::Rename { from, to });
        let unlinks = partitions
            .iter()
            .map(doomed)
            .map(|(_, to)| FileOp::RemoveTree(to));
        let ops: Vec<_> = renames
            .chain([FileOp::SyncDir(FilePath::root())])
            .chain(unlinks)
            .collect();
        let sequence = Sequence::start(cx, Owner::Broker, ops);
        self.removals.push(Removal {
            name: name.to_string(),
            sequence,
        });
    }
}

/// A partition's name for people, and of its directory.
pub(crate) fn partition_name(topic: &str, index: i32) -> String {
    format!("{topic}-{index}")
}

/// Kafka's `partition.metadata` (KIP-516).
fn partition_metadata(topic: TopicId) -> (String, Bytes) {
    (
        "partition.metadata".to_string(),
        Bytes::from(format!("version: 0\ntopic_id: {topic}\n")),
    )
}

/// The topic that a `partition.metadata` names.
pub(crate) fn topic_of_partition_metadata(bytes: &[u8]) -> Option<TopicId> {
    let text = core::str::from_utf8(bytes).ok()?;
    let mut lines = text.lines();
    (lines.next()? == "version: 0").then_some(())?;
    TopicId::parse(lines.next()?.strip_prefix("topic_id: ")?)
}

/// Makes a topic, or more partitions of one. Who `waits`, a request and which of its topics this is, is
/// told when it is there.
pub(crate) fn create(
    state: &mut State,
    wanted: Wanted,
    waits: Option<(RequestId, usize)>,
) -> TopicId {
    let first = wanted
        .topic
        .and_then(|id| state.metadata.image().topic_by_id(id))
        .map_or(0, |topic| topic.partitions);
    let topic = wanted.topic.unwrap_or_else(|| state.new_topic_id());
    state.topics.last_creation += 1;
    state.topics.creations.insert(
        state.topics.last_creation,
        Creation {
            topic,
            name: wanted.name,
            partitions: first..wanted.partitions,
            configs: wanted.configs,
            phase: Phase::WaitsForRemoval,
            logs: BTreeMap::new(),
            loading: Outstanding::from_iter([]),
            waiting: waits.into_iter().collect(),
        },
    );
    topic
}

/// Deletes a topic that exists: its record is appended here, the rest follows when it is durable.
pub(crate) fn delete(
    state: &mut State,
    cx: &mut Context<'_>,
    topic: TopicId,
) -> Result<(), ErrorCode> {
    state
        .metadata
        .append(cx, &[MetadataRecord::RemoveTopic { id: topic }])?;
    state.metadata.tell_when_durable(Change::Deleted(topic));
    Ok(())
}

/// Moves everything on that can move. True if anything did.
pub(crate) fn settle(state: &mut State, cx: &mut Context<'_>) -> bool {
    let (durable, failed) = state.metadata.take_changes();
    let mut changed = !durable.is_empty() || !failed.is_empty();
    for change in durable {
        match change {
            Change::Created(id) => finish(state, cx, id),
            Change::Deleted(topic) => evict(state, cx, topic),
            Change::Start => broker::first_record_durable(state, cx),
        }
    }
    for change in failed {
        match change {
            Change::Created(id) => {
                if let Some(creation) = state.topics.creations.get_mut(&id) {
                    creation.phase = Phase::Doubtful;
                }
            }
            Change::Deleted(topic) => state.topics.doubtful_deletions.push(topic),
            Change::Start => broker::first_record_lost(state, cx),
        }
    }
    if state.metadata.is_current() {
        for topic in core::mem::take(&mut state.topics.doubtful_deletions) {
            if state.metadata.image().topic_by_id(topic).is_none() {
                evict(state, cx, topic);
            }
        }
    }
    let ids: Vec<u64> = state.topics.creations.keys().copied().collect();
    for id in ids {
        changed |= advance(state, cx, id);
    }
    changed
}

fn advance(state: &mut State, cx: &mut Context<'_>, id: u64) -> bool {
    let Some(creation) = state.topics.creations.get_mut(&id) else {
        return false;
    };
    match creation.phase {
        Phase::WaitsForRemoval => {
            if state
                .topics
                .removals
                .iter()
                .any(|removal| removal.name == creation.name)
            {
                return false;
            }
            make_directories(state, cx, id);
        }
        Phase::MakesDirectories => {
            let logs = &creation.logs;
            let is_loaded = |id: &LogId| logs.get(id).is_none_or(|(_, log)| !log.is_loading());
            if !creation.loading.is_over(is_loaded) {
                return false;
            }
            let mut logs = logs.values();
            let made = logs.all(|(_, log)| *log.state() == LogState::Ready);
            if made {
                append_record(state, cx, id);
            } else {
                give_up(state, cx, id, ErrorCode::KAFKA_STORAGE_ERROR);
            }
        }
        Phase::WaitsForRecord => return false,
        Phase::Doubtful => {
            if !state.metadata.is_current() {
                return false;
            }
            let survived = state
                .metadata
                .image()
                .topic_by_id(creation.topic)
                .is_some_and(|topic| topic.partitions >= creation.partitions.end);
            if survived {
                finish(state, cx, id);
            } else {
                give_up(state, cx, id, ErrorCode::KAFKA_STORAGE_ERROR);
            }
        }
    }
    true
}

fn make_directories(state: &mut State, cx: &mut Context<'_>, id: u64) {
    let Some(creation) = state.topics.creations.get_mut(&id) else {
        return;
    };
    creation.phase = Phase::MakesDirectories;
    let (topic, partitions, name) = (
        creation.topic,
        creation.partitions.clone(),
        creation.name.clone(),
    );
    let mut logs = BTreeMap::new();
    for index in partitions {
        let key = PartitionKey { topic, index };
        let spec = state.log_spec(key, &partition_name(&name, index));
        let log = Log::create(cx, spec, alloc::vec![partition_metadata(topic)]);
        logs.insert(log.id(), (key, log));
    }
    if let Some(creation) = state.topics.creations.get_mut(&id) {
        creation.loading = logs.keys().copied().collect();
        creation.logs = logs;
    }
}

fn append_record(state: &mut State, cx: &mut Context<'_>, id: u64) {
    let Some(creation) = state.topics.creations.get_mut(&id) else {
        return;
    };
    let (topic, count) = (creation.topic, creation.partitions.end);
    let mut records = Vec::with_capacity(1 + creation.configs.len());
    if creation.partitions.start == 0 {
        records.push(MetadataRecord::Topic {
            id: topic,
            name: creation.name.clone(),
            partitions: count,
            epoch: state.metadata.image().epoch,
        });
        records.extend(
            creation
                .configs
                .iter()
                .map(|(name, value)| MetadataRecord::Config {
                    resource: Resource::Topic(topic),
                    name: name.clone(),
                    value: Some(value.clone()),
                }),
        );
    } else if state.metadata.image().topic_by_id(topic).is_some() {
        records.push(MetadataRecord::Partitions { id: topic, count });
    } else {
        return give_up(state, cx, id, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    }
    match state.metadata.append(cx, &records) {
        Ok(()) if state.bugs.has(Bug::CreateBeforeDurable) => finish(state, cx, id),
        Ok(()) => {
            state.metadata.tell_when_durable(Change::Created(id));
            if let Some(creation) = state.topics.creations.get_mut(&id) {
                creation.phase = Phase::WaitsForRecord;
            }
        }
        Err(error) => give_up(state, cx, id, error),
    }
}

/// The record is durable: the partitions serve.
fn finish(state: &mut State, cx: &mut Context<'_>, id: u64) {
    let Some(creation) = state.topics.creations.remove(&id) else {
        return;
    };
    let epoch = state
        .metadata
        .image()
        .topic_by_id(creation.topic)
        .map(|topic| state.metadata.image().leader_epoch(topic));
    let Some(epoch) = epoch else {
        // Deleted in the meantime, by a record behind this one.
        let indexes: Vec<i32> = creation.partitions.collect();
        for (_, mut log) in creation.logs.into_values() {
            log.abandon(cx);
        }
        state
            .topics
            .remove(cx, &creation.name, creation.topic, &indexes);
        return tell(
            state,
            creation.waiting,
            Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        );
    };
    cx.report(
        Level::Info,
        "topics",
        format!(
            "made partitions {:?}: topic={} id={}",
            creation.partitions, creation.name, creation.topic
        ),
    );
    for (key, mut log) in creation.logs.into_values() {
        // The topic's own configs are known to the image since its records were appended, which is
        // later than the log was made.
        let config = state.metadata.log_config(&state.config, key.topic);
        log.set_config(cx, config);
        insert_partition(state, key, &creation.name, log, epoch);
    }
    state.tell_codec_of(cx, creation.topic, &creation.name);
    state.groups.topics_changed();
    tell(state, creation.waiting, Ok(()));
}

/// Puts a partition into service.
pub(crate) fn insert_partition(
    state: &mut State,
    key: PartitionKey,
    topic: &str,
    log: Log,
    epoch: LeaderEpoch,
) {
    let id = log.id();
    state.by_log.insert(id, key);
    let mut partition = Partition::new(partition_name(topic, key.index), log, epoch);
    partition.holds_groups = topic == coordinator::OFFSETS_TOPIC;
    partition.min_in_sync_replicas = state
        .metadata
        .min_in_sync_replicas(&state.config, key.topic);
    state.partitions.insert(key, partition);
    state.touch(id);
}

/// A creation cannot go on: what it made goes away.
fn give_up(state: &mut State, cx: &mut Context<'_>, id: u64, error: ErrorCode) {
    let Some(creation) = state.topics.creations.remove(&id) else {
        return;
    };
    let keys = creation.logs.values().map(|(key, _)| key);
    let indexes: Vec<i32> = keys.map(|key| key.index).collect();
    for (_, mut log) in creation.logs.into_values() {
        cx.report(
            Level::Warn,
            "topics",
            format!(
                "cannot make a partition: dir={} state={:?}",
                log.dir(),
                log.state()
            ),
        );
        log.abandon(cx);
    }
    state
        .topics
        .remove(cx, &creation.name, creation.topic, &indexes);
    tell(state, creation.waiting, Err(error));
}

fn tell(state: &mut State, waiting: Vec<(RequestId, usize)>, result: Result<(), ErrorCode>) {
    for (request, place) in waiting {
        request::topic_created(state, request, place, result);
    }
}

/// The deletion of a topic is durable: its partitions end, and their directories go.
fn evict(state: &mut State, cx: &mut Context<'_>, topic: TopicId) {
    let keys: Vec<PartitionKey> = state
        .partitions
        .range(
            PartitionKey { topic, index: 0 }..=PartitionKey {
                topic,
                index: i32::MAX,
            },
        )
        .map(|(key, _)| *key)
        .collect();
    let mut name = None;
    for key in &keys {
        let Some(mut partition) = state.partitions.remove(key) else {
            continue;
        };
        state.by_log.remove(&partition.log.id());
        partition.log.abandon(cx);
        state.checkpoint.forget(*key);
        name = name.or_else(|| {
            partition
                .name
                .rsplit_once('-')
                .map(|(name, _)| name.to_string())
        });
        let settled = partition.evict();
        state.spread(cx, settled);
        if partition.holds_groups {
            coordinator::partition_gone(state, cx, *key);
        }
    }
    if let Some(name) = name {
        cx.report(
            Level::Info,
            "topics",
            format!("deleted: topic={name} id={topic}"),
        );
        state.forget_codec_of(cx, topic);
        state.groups.topics_changed();
        coordinator::topic_deleted(state, cx, &name, topic);
        let indexes: Vec<i32> = keys.iter().map(|key| key.index).collect();
        state.topics.remove(cx, &name, topic, &indexes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_metadata_reads_back() {
        let topic = TopicId([9; 16]);
        let (_, bytes) = partition_metadata(topic);
        assert_eq!(topic_of_partition_metadata(&bytes), Some(topic));
        assert_eq!(
            topic_of_partition_metadata(b"version: 1\ntopic_id: x\n"),
            None
        );
    }
}
