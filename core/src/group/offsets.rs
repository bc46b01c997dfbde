//! What a group has committed.

use alloc::collections::BTreeMap;

use crate::ids::TopicId;
use crate::wire::Str;
use crate::wire::coordinator_records::OffsetCommitValue;

/// What a committed offset holds, roughly, beside its metadata.
const OFFSET_BYTES: usize = 160;

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommittedOffset {
    /// The next record to read.
    pub(crate) offset: i64,
    /// That of the last record read, -1 if the client did not say.
    pub(crate) leader_epoch: i32,
    /// What the client wants to find again.
    pub(crate) metadata: Str,
    pub(crate) commit_timestamp_ms: i64,
    /// When it expires, if the client asked for a retention of its own (below OffsetCommit 5).
    pub(crate) expire_timestamp_ms: Option<i64>,
    /// Zero if it was committed by a broker that did not know.
    pub(crate) topic_id: TopicId,
}

/// The offsets of a group, by topic and partition.
#[derive(Debug, Default)]
pub(crate) struct Offsets {
    topics: BTreeMap<Str, BTreeMap<i32, CommittedOffset>>,
    count: usize,
    bytes: usize,
}

impl Offsets {
    /// Keeps nothing of the bytes that the topic's name and the metadata are slices of.
    pub(crate) fn insert(&mut self, topic: &Str, partition: i32, mut offset: CommittedOffset) {
        offset.metadata = offset.metadata.detach();
        if !self.topics.contains_key(topic) {
            self.topics.insert(topic.detach(), BTreeMap::new());
        }
        let Some(partitions) = self.topics.get_mut(topic) else {
            return;
        };
        self.count += 1;
        self.bytes += offset.bytes();
        if let Some(before) = partitions.insert(partition, offset) {
            self.count -= 1;
            self.bytes -= before.bytes();
        }
    }

    pub(crate) fn remove(&mut self, topic: &str, partition: i32) {
        if let Some(partitions) = self.topics.get_mut(topic) {
            if let Some(removed) = partitions.remove(&partition) {
                self.count -= 1;
                self.bytes -= removed.bytes();
            }
            if partitions.is_empty() {
                self.topics.remove(topic);
            }
        }
    }

    pub(crate) fn get(&self, topic: &str, partition: i32) -> Option<&CommittedOffset> {
        self.topics.get(topic)?.get(&partition)
    }

    /// Topics and their partitions.
    pub(crate) fn topics(&self) -> impl Iterator<Item = (&Str, &BTreeMap<i32, CommittedOffset>)> {
        self.topics.iter()
    }

    /// Every offset.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Str, i32, &CommittedOffset)> {
        self.topics.iter().flat_map(|(topic, partitions)| {
            partitions
                .iter()
                .map(move |(partition, offset)| (topic, *partition, offset))
        })
    }

    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// What they hold, roughly.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl CommittedOffset {
    const fn bytes(&self) -> usize {
        OFFSET_BYTES + self.metadata.as_bytes().len()
    }

    /// Whether its time is over: `since_ms` is when the retention began to run.
    pub(crate) fn is_expired(&self, now_ms: i64, since_ms: i64, retention_ms: u64) -> bool {
        match self.expire_timestamp_ms {
            Some(at) => now_ms >= at,
            None => {
                let retention_ms = i64::try_from(retention_ms).unwrap_or(i64::MAX);
                now_ms.saturating_sub(since_ms) >= retention_ms
            }
        }
    }

    pub(crate) fn to_value(&self) -> OffsetCommitValue {
        OffsetCommitValue {
            offset: self.offset,
            leader_epoch: self.leader_epoch,
            metadata: self.metadata.clone(),
            commit_timestamp: self.commit_timestamp_ms,
            expire_timestamp: self.expire_timestamp_ms.unwrap_or(-1),
            topic_id: self.topic_id,
            ..OffsetCommitValue::default()
        }
    }
}

impl From<OffsetCommitValue> for CommittedOffset {
    fn from(value: OffsetCommitValue) -> Self {
        Self {
            offset: value.offset,
            leader_epoch: value.leader_epoch,
            metadata: value.metadata,
            commit_timestamp_ms: value.commit_timestamp,
            expire_timestamp_ms: (value.expire_timestamp != -1).then_some(value.expire_timestamp),
            topic_id: value.topic_id,
        }
    }
}
