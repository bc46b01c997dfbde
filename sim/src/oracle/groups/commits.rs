//! CommittedOffsetDurable, CommitNeverRegressesUnasked, and that what was refused is never read.
//!
//! The offset of a group and partition is a register. Every write of it (a commit, or a deletion) has
//! a start and an end, and every commit has metadata of its own, so that a read says which one it saw.
//! A read may see a write unless another one that was acknowledged lies between the two.

use std::collections::BTreeMap;

use odradek_core::ids::ConnectionId;
use odradek_core::time::Mono;
use odradek_core::wire::messages::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use odradek_core::wire::messages::offset_commit::{OffsetCommitRequest, OffsetCommitResponse};
use odradek_core::wire::messages::offset_delete::{OffsetDeleteRequest, OffsetDeleteResponse};
use odradek_core::wire::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchResponse};
use odradek_core::wire::{ErrorCode, RequestBody};

use super::super::connections::Exchange;
use super::super::{Check, Mark, Oracle};
use super::{FENCED, lasts};

/// Who asked: the connection, and the number on it.
pub(super) type By = (ConnectionId, i32);

/// A group, a topic and a partition.
type Key = (String, String, i32);

/// The partition, error, offset and metadata in an answer.
type Found = ((String, i32), ErrorCode, i64, Option<String>);

/// All offsets.
#[derive(Clone, Debug, Default)]
pub(super) struct Commits {
    writes: BTreeMap<Key, Vec<Write>>,
    /// Deletions of whole groups.
    ends: BTreeMap<String, Vec<Write>>,
}

#[derive(Clone, Debug)]
struct Write {
    by: By,
    /// `None` is a deletion.
    value: Option<Value>,
    start: Mono,
    end: Mono,
    fate: Fate,
    /// In which life of the broker it was acknowledged or seen.
    life: u64,
    /// A retention of its own, in milliseconds.
    retention_ms: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Value {
    offset: i64,
    metadata: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It may or may not take effect.
    Unknown,
    /// It did, and stays.
    Stored,
    /// It must not.
    Refused(ErrorCode),
}

const NEVER: Mono = Mono(u64::MAX);

impl Commits {
    fn begin(&mut self, key: Key, by: By, start: Mono, value: Option<Value>, retention_ms: i64) {
        self.writes.entry(key).or_default().push(Write {
            by,
            value,
            start,
            end: NEVER,
            fate: Fate::Unknown,
            life: 0,
            retention_ms: (retention_ms >= 0).then_some(retention_ms),
        });
    }

    pub(super) fn delete_came(&mut self, by: By, now: Mono, delete: &OffsetDeleteRequest) {
        for topic in &delete.topics {
            for partition in &topic.partitions {
                let key = (
                    delete.group_id.to_string(),
                    topic.name.to_string(),
                    partition.partition_index,
                );
                self.begin(key, by, now, None, -1);
            }
        }
    }

    pub(super) fn end_came(&mut self, by: By, now: Mono, delete: &DeleteGroupsRequest) {
        for group in &delete.groups_names {
            self.ends.entry(group.to_string()).or_default().push(Write {
                by,
                value: None,
                start: now,
                end: NEVER,
                fate: Fate::Unknown,
                life: 0,
                retention_ms: None,
            });
        }
    }

    fn all_of(&mut self, by: By) -> impl Iterator<Item = &mut Write> {
        let writes = self.writes.values_mut().chain(self.ends.values_mut());
        writes.flatten().filter(move |write| write.by == by)
    }

    /// They get no answer: they took effect by now, or never will.
    pub(super) fn lost(&mut self, by: By, now: Mono) {
        for write in self.all_of(by) {
            write.end = write.end.min(now);
        }
    }

    /// A write is answered.
    fn settle(&mut self, key: &Key, by: By, exchange: &Exchange, now: Mono, life: u64, fate: Fate) {
        let writes = self.writes.get_mut(key).into_iter().flatten();
        for write in writes.filter(|write| write.by == by) {
            write.settle(exchange, now, life, fate);
        }
    }

    /// The log may have lost what was acknowledged.
    pub(super) fn forget_promises(&mut self) {
        let writes = self.writes.values_mut().chain(self.ends.values_mut());
        for write in writes.flatten() {
            if write.fate == Fate::Stored {
                write.fate = Fate::Unknown;
            }
        }
    }
}

impl Write {
    fn settle(&mut self, exchange: &Exchange, now: Mono, life: u64, fate: Fate) {
        self.start = exchange.first_since.unwrap_or(self.start).max(self.start);
        self.end = self.end.min(now);
        // What was seen is stored, whatever its own answer says.
        if self.fate != Fate::Stored {
            self.fate = fate;
            self.life = life;
        }
    }
}

/// What becomes of a write that is answered so.
fn fate_of(error: ErrorCode) -> Fate {
    match error {
        ErrorCode::NONE => Fate::Stored,
        ErrorCode::ILLEGAL_GENERATION
        | ErrorCode::UNKNOWN_MEMBER_ID
        | ErrorCode::FENCED_INSTANCE_ID
        | ErrorCode::STALE_MEMBER_EPOCH
        | ErrorCode::REBALANCE_IN_PROGRESS
        | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        | ErrorCode::UNKNOWN_TOPIC_ID
        | ErrorCode::UNSUPPORTED_VERSION
        | ErrorCode::OFFSET_METADATA_TOO_LARGE
        | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
        | ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC
        | ErrorCode::GROUP_ID_NOT_FOUND
        | ErrorCode::NON_EMPTY_GROUP => Fate::Refused(error),
        _ => Fate::Unknown,
    }
}

impl Oracle {
    pub(super) fn commit_came(&mut self, by: By, commit: &OffsetCommitRequest) {
        for topic in &commit.topics {
            let Some(name) = self.name_of(&topic.name, topic.topic_id) else {
                continue;
            };
            for partition in &topic.partitions {
                let value = Value {
                    offset: partition.committed_offset,
                    metadata: partition
                        .committed_metadata
                        .as_ref()
                        .map_or_else(String::new, ToString::to_string),
                };
                let key = (
                    commit.group_id.to_string(),
                    name.clone(),
                    partition.partition_index,
                );
                let (now, retention_ms) = (self.now, commit.retention_time_ms);
                let commits = &mut self.groups.commits;
                commits.begin(key, by, now, Some(value), retention_ms);
            }
        }
    }

    pub(super) fn judge_commit(
        &mut self,
        exchange: &Exchange,
        asked: &OffsetCommitRequest,
        told: &OffsetCommitResponse,
    ) {
        let Some(by) = exchange.by() else { return };
        let (now, life) = (self.now, self.groups.life);
        let mut taken = false;
        for (topic, answer) in asked.topics.iter().zip(&told.topics) {
            let Some(name) = self.name_of(&topic.name, topic.topic_id) else {
                continue;
            };
            for partition in &answer.partitions {
                let error = partition.error_code;
                taken |= error == ErrorCode::NONE;
                if FENCED.contains(&error) {
                    self.mark(Mark::CommitFenced);
                }
                let key = (
                    asked.group_id.to_string(),
                    name.clone(),
                    partition.partition_index,
                );
                let commits = &mut self.groups.commits;
                commits.settle(&key, by, exchange, now, life, fate_of(error));
            }
        }
        if taken {
            self.mark(Mark::CommitStored);
            self.check_committer(exchange, asked);
        }
    }

    pub(super) fn judge_offset_delete(
        &mut self,
        exchange: &Exchange,
        asked: &OffsetDeleteRequest,
        told: &OffsetDeleteResponse,
    ) {
        let Some(by) = exchange.by() else { return };
        let (now, life) = (self.now, self.groups.life);
        for topic in &asked.topics {
            for partition in &topic.partitions {
                let index = partition.partition_index;
                let answers = told.topics.iter().filter(|t| t.name == topic.name);
                let answer = answers
                    .flat_map(|t| &t.partitions)
                    .find(|p| p.partition_index == index);
                let error = match answer {
                    Some(answer) if !told.error_code.is_error() => answer.error_code,
                    _ => told.error_code,
                };
                if error == ErrorCode::NONE {
                    self.mark(Mark::OffsetDeleted);
                }
                let key = (asked.group_id.to_string(), topic.name.to_string(), index);
                let commits = &mut self.groups.commits;
                commits.settle(&key, by, exchange, now, life, fate_of(error));
            }
        }
    }

    pub(super) fn judge_delete_groups(&mut self, exchange: &Exchange, told: &DeleteGroupsResponse) {
        let Some(by) = exchange.by() else { return };
        let (now, life) = (self.now, self.groups.life);
        for result in &told.results {
            let fate = fate_of(result.error_code);
            let ends = self.groups.commits.ends.get_mut(result.group_id.as_str());
            for end in ends.into_iter().flatten().filter(|end| end.by == by) {
                end.settle(exchange, now, life, fate);
            }
            if fate == Fate::Stored {
                self.mark(Mark::GroupDeleted);
            }
            self.groups
                .ending
                .remove(&(result.group_id.to_string(), by));
            if !matches!(fate, Fate::Refused(_)) {
                self.groups.begin_anew(&result.group_id, now);
            }
        }
    }

    pub(super) fn judge_offset_fetch(
        &mut self,
        exchange: &Exchange,
        version: i16,
        asked: &OffsetFetchRequest,
        told: &OffsetFetchResponse,
    ) {
        if version < 8 {
            if told.error_code.is_error() {
                return;
            }
            let topics = told.topics.iter();
            let found = topics.flat_map(|topic| {
                let partitions = topic.partitions.iter();
                partitions.map(|p| {
                    let key = (topic.name.to_string(), p.partition_index);
                    let metadata = p.metadata.as_ref().map(ToString::to_string);
                    (key, p.error_code, p.committed_offset, metadata)
                })
            });
            let found = found.collect();
            return self.judge_offsets(exchange, &asked.group_id, asked.topics.is_none(), found);
        }
        for (asked, told) in asked.groups.iter().zip(&told.groups) {
            if told.error_code.is_error() {
                continue;
            }
            let mut found = Vec::new();
            let mut is_everything = asked.topics.is_none();
            for topic in &told.topics {
                let Some(name) = self.name_of(&topic.name, topic.topic_id) else {
                    // What is not understood is not missing.
                    is_everything = false;
                    continue;
                };
                found.extend(topic.partitions.iter().map(|p| {
                    let metadata = p.metadata.as_ref().map(ToString::to_string);
                    let key = (name.clone(), p.partition_index);
                    (key, p.error_code, p.committed_offset, metadata)
                }));
            }
            self.judge_offsets(exchange, &asked.group_id, is_everything, found);
        }
    }

    fn judge_offsets(
        &mut self,
        exchange: &Exchange,
        group: &str,
        is_everything: bool,
        found: Vec<Found>,
    ) {
        let mut read: BTreeMap<(String, i32), Option<Value>> = BTreeMap::new();
        if is_everything {
            let known = self.groups.commits.writes.keys();
            let of_group = known.filter(|(of, _, _)| of == group);
            read.extend(of_group.map(|(_, topic, partition)| ((topic.clone(), *partition), None)));
        }
        for (key, error, offset, metadata) in found {
            if error.is_error() {
                read.remove(&key);
                continue;
            }
            let value = (offset >= 0).then(|| Value {
                offset,
                metadata: metadata.unwrap_or_default(),
            });
            read.insert(key, value);
        }
        for ((topic, partition), value) in read {
            if lasts(&topic) {
                self.judge_offset(exchange, (group.to_owned(), topic, partition), value);
            }
        }
    }

    /// Holds what was read of one offset against what was written.
    fn judge_offset(&mut self, exchange: &Exchange, key: Key, value: Option<Value>) {
        let Some(start) = exchange.first_since else {
            return;
        };
        let (now, life) = (self.now, self.groups.life);
        let expires = self.groups.may_have_expired(now);
        let (group, topic, partition) = &key;
        let names = format!("the offset of {group} in {topic}-{partition}");
        let commits = &self.groups.commits;
        let ends = commits.ends.get(group).into_iter().flatten();
        let writes = commits.writes.get(&key).into_iter().flatten();
        let all: Vec<&Write> = writes.chain(ends).collect();
        // The last acknowledged write that lies wholly between the end of another and this read.
        let covers = |end: Mono| {
            let stored = all.iter().filter(|write| {
                write.fate == Fate::Stored && write.start > end && write.end < start
            });
            stored.max_by_key(|write| write.end).copied()
        };
        let refused = |fate: Fate| matches!(fate, Fate::Refused(_));
        let same = all.iter().filter(|write| write.value == value);
        let mut candidates: Vec<Mono> = same
            .clone()
            .filter(|write| !refused(write.fate))
            .map(|write| write.end)
            .collect();
        if value.is_none() {
            // Nothing was there at first.
            candidates.push(Mono::default());
        }
        let latest = candidates.iter().copied().max();
        let Some(latest) = latest else {
            let fate = same.map(|write| write.fate).find(|fate| refused(*fate));
            let (check, why) = match fate {
                Some(Fate::Refused(error)) => (
                    Check::StaleCommitRejected,
                    format!("which was refused with {error}"),
                ),
                _ => (
                    Check::CommittedOffsetDurable,
                    "which nobody committed".to_owned(),
                ),
            };
            return self.violate(check, format!("{names} is read as {value:?}, {why}"));
        };
        if let Some(newer) = covers(latest) {
            let passed = |write: &Write| {
                let passed_ms = self.groups.passed_ms(write.start, now);
                let by_itself = write.retention_ms.is_some_and(|own| passed_ms >= own);
                let ends = self.groups.end_by_themselves();
                ends && (by_itself || (write.retention_ms.is_none() && expires))
            };
            if value.is_none() && passed(newer) {
                return self.mark(Mark::OffsetExpired);
            }
            let same_life = newer.life == life && !self.groups.is_doubtful;
            let check = if same_life {
                Check::CommitNeverRegressesUnasked
            } else {
                Check::CommittedOffsetDurable
            };
            let detail = format!(
                "{names} is read as {value:?}, and should be {:?}, which was acknowledged at {}{}",
                newer.value,
                newer.end,
                if same_life {
                    ""
                } else {
                    ", before the groups were read again"
                }
            );
            return self.violate(check, detail);
        }
        let Some(value) = value else { return };
        let writes = self.groups.commits.writes.get_mut(&key);
        let seen = writes.into_iter().flatten();
        let seen = seen.filter(|write| write.value.as_ref() == Some(&value));
        let mut after_restart = false;
        for write in seen.filter(|write| !refused(write.fate)) {
            after_restart |= write.fate == Fate::Stored && write.life != life;
            if write.fate != Fate::Stored {
                // An answer that saw it waits until it is durable.
                write.fate = Fate::Stored;
                write.end = write.end.min(now);
                write.life = life;
            }
        }
        if after_restart {
            self.mark(Mark::CommitReadAfterRestart);
        }
    }
}

impl Exchange {
    /// Which request it is.
    fn by(&self) -> Option<By> {
        let request = self.request.as_ref()?;
        debug_assert!(!matches!(request.body, RequestBody::Produce(_)));
        Some((self.connection, request.header.correlation_id))
    }
}
