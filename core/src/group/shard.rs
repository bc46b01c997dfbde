//! The groups of one partition of `__consumer_offsets`.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::classic::{ClassicGroup, ClassicState, Outcome};
use super::config::GroupConfig;
use super::consumer::{self, ConsumerGroup};
use super::offsets::Offsets;
use crate::connection::RequestId;
use crate::ids::{Offset, OperationId};
use crate::partition::PartitionKey;
use crate::time::{Mono, Now};
use crate::wire::coordinator_records::{CoordinatorRecord, OffsetCommitKey, OffsetCommitValue};
use crate::wire::{ErrorCode, Str};

/// What a group holds by itself, roughly.
pub(super) const GROUP_BYTES: usize = 512;

/// A shard.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(super) key: PartitionKey,
    pub(super) phase: Phase,
    pub(super) groups: BTreeMap<Str, Group>,
    /// Where the next record goes.
    pub(super) end: Offset,
    /// Everything below is durable.
    pub(super) durable: Offset,
    /// Who waits until everything below an offset is durable.
    pub(super) waits: BTreeSet<(Offset, RequestId)>,
}

/// Whether the groups are what the log says.
#[derive(Debug)]
pub(super) enum Phase {
    /// To be read from the log, as soon as that can be read.
    Unread,
    /// Being read.
    Loading(OperationId),
    /// In service.
    Active,
    /// The log holds something that cannot be read. Out of service until a person does something.
    Damaged,
}

/// A group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) kind: GroupKind,
    pub(crate) offsets: Offsets,
    /// The log's end after the last record about it.
    pub(super) mark: Offset,
    /// Under which time it stands in the order of deadlines.
    pub(super) armed: Option<Mono>,
}

/// What protocol its members speak.
#[derive(Debug)]
pub(crate) enum GroupKind {
    /// The classic one; also a group without members that only stores offsets.
    Classic(Box<ClassicGroup>),
    /// That of KIP-848.
    Consumer(Box<ConsumerGroup>),
}

impl Group {
    /// An offset is committed by a record before `end`.
    fn commit(&mut self, key: &OffsetCommitKey, value: OffsetCommitValue, end: Offset) {
        self.mark = end;
        self.offsets.insert(&key.topic, key.partition, value.into());
    }
}

impl Shard {
    pub(super) const fn new(key: PartitionKey) -> Self {
        Self {
            key,
            phase: Phase::Unread,
            groups: BTreeMap::new(),
            end: Offset(0),
            durable: Offset(0),
            waits: BTreeSet::new(),
        }
    }

    /// Whether its groups can be asked.
    pub(super) const fn check(&self) -> Result<(), ErrorCode> {
        match self.phase {
            Phase::Active => Ok(()),
            Phase::Unread | Phase::Loading(_) => Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS),
            Phase::Damaged => Err(ErrorCode::COORDINATOR_NOT_AVAILABLE),
        }
    }

    /// Until where the log must be durable for what is said of a group to hold: for a group that is
    /// not there, all of it, since its end may be what is on its way.
    pub(crate) fn mark_of(&self, group: &Str) -> Offset {
        self.groups.get(group).map_or(self.end, |group| group.mark)
    }

    /// Whether a record is a commit of an earlier offset than there is: what a planted bug asks.
    pub(super) fn goes_back(&self, record: &CoordinatorRecord) -> bool {
        let CoordinatorRecord::OffsetCommit(key, Some(value)) = record else {
            return false;
        };
        let group = self.groups.get(&key.group);
        let known = group.and_then(|group| group.offsets.get(&key.topic, key.partition));
        known.is_some_and(|known| value.offset < known.offset)
    }

    /// Applies records that were read from the log, which ends at `end` with them.
    pub(super) fn replay_all(&mut self, now: Now, records: Vec<CoordinatorRecord>, end: Offset) {
        let mut records = records.into_iter().peekable();
        while let Some(record) = records.next() {
            let CoordinatorRecord::OffsetCommit(first, Some(_)) = &record else {
                self.replay(now, record, end, false);
                continue;
            };
            // A group commits many partitions at once: it is looked up once.
            let id = first.group.clone();
            let group = self.group_or_new(now, &id);
            let goes_on = |record: &CoordinatorRecord| match record {
                CoordinatorRecord::OffsetCommit(next, Some(_)) => next.group == id,
                _ => false,
            };
            let mut commit = Some(record);
            while let Some(CoordinatorRecord::OffsetCommit(key, Some(value))) = commit {
                group.commit(&key, value, end);
                commit = records.next_if(goes_on);
            }
        }
    }

    /// Applies a record. `live` is whether it was appended just now: then what it says of members is
    /// where it comes from, and only offsets and ends take effect.
    pub(super) fn replay(&mut self, now: Now, record: CoordinatorRecord, end: Offset, live: bool) {
        match record {
            CoordinatorRecord::OffsetCommit(key, Some(value)) => {
                self.group_or_new(now, &key.group).commit(&key, value, end);
            }
            CoordinatorRecord::OffsetCommit(key, None) => {
                if let Some(group) = self.groups.get_mut(&key.group) {
                    group.mark = end;
                    group.offsets.remove(&key.topic, key.partition);
                }
            }
            CoordinatorRecord::GroupMetadata(key, Some(value)) => {
                let group = self.group_or_new(now, &key.group);
                group.mark = end;
                if !live {
                    group.kind = GroupKind::Classic(Box::new(ClassicGroup::restore(now, value)));
                }
            }
            CoordinatorRecord::GroupMetadata(key, None) => {
                if live {
                    self.groups.remove(&key.group);
                } else if let Some(group) = self.groups.get_mut(&key.group)
                    && let GroupKind::Classic(_) = group.kind
                {
                    // Its offsets have tombstones of their own; a commit behind this record is of a
                    // new group.
                    group.kind = GroupKind::Classic(Box::new(ClassicGroup::new(now)));
                    group.mark = end;
                }
            }
            other => self.replay_consumer(now, &other, end, live),
        }
    }

    /// Applies a record of a consumer group; one that was appended just now has been applied.
    fn replay_consumer(&mut self, now: Now, record: &CoordinatorRecord, end: Offset, live: bool) {
        let Some(id) = consumer::group_of(record) else {
            return;
        };
        let ends = matches!(record, CoordinatorRecord::ConsumerGroupMetadata(_, None));
        if live && ends {
            self.groups.remove(id);
            return;
        }
        let says = consumer::has_value(record);
        if !says && !self.groups.contains_key(id) {
            return;
        }
        let group = self.group_or_new(now, id);
        group.mark = end;
        if live {
            return;
        }
        match &mut group.kind {
            GroupKind::Consumer(_) if ends => {
                group.kind = GroupKind::Classic(Box::new(ClassicGroup::new(now)));
            }
            GroupKind::Consumer(consumer) => consumer.apply(record),
            GroupKind::Classic(_) if says => {
                let mut consumer = Box::new(ConsumerGroup::default());
                consumer.apply(record);
                group.kind = GroupKind::Consumer(consumer);
            }
            GroupKind::Classic(_) => {}
        }
    }

    /// The group, made if it is not there.
    pub(super) fn group_or_new(&mut self, now: Now, id: &Str) -> &mut Group {
        if !self.groups.contains_key(id) {
            let group = Group {
                kind: GroupKind::Classic(Box::new(ClassicGroup::new(now))),
                offsets: Offsets::default(),
                mark: Offset(0),
                armed: None,
            };
            self.groups.insert(id.detach(), group);
        }
        self.groups
            .get_mut(id)
            .expect("it was there or was just made")
    }

    /// Everything is read: what nothing is left of goes, and the members' sessions begin.
    pub(super) fn loaded<'a>(
        &mut self,
        now: Now,
        config_of: impl Fn(&str) -> Cow<'a, GroupConfig>,
    ) {
        self.groups.retain(|_, group| !group.is_nothing());
        for (id, group) in &mut self.groups {
            let config = &config_of(id);
            match &mut group.kind {
                GroupKind::Classic(classic) => {
                    // Nobody waits in it yet, so there is nobody to answer.
                    classic.begin_sessions(now, config, &mut Outcome::default());
                }
                GroupKind::Consumer(consumer) => consumer.begin_sessions(now, config),
            }
        }
        self.phase = Phase::Active;
    }

    /// Takes those whose wait is over: `durable` says up to where.
    pub(super) fn take_durable(&mut self, durable: Offset) -> Vec<RequestId> {
        self.durable = self.durable.max(durable);
        let mut done = Vec::new();
        while let Some((offset, request)) = self.waits.first().copied() {
            if offset > self.durable {
                break;
            }
            self.waits.pop_first();
            done.push(request);
        }
        done
    }
}

impl Group {
    /// Whether neither members nor offsets nor a generation is there to remember.
    pub(super) fn is_nothing(&self) -> bool {
        match &self.kind {
            GroupKind::Classic(classic) => {
                classic.is_vacant() && classic.generation_id() == 0 && self.offsets.is_empty()
            }
            GroupKind::Consumer(consumer) => {
                consumer.epoch() == 0 && consumer.members().is_empty() && self.offsets.is_empty()
            }
        }
    }

    /// Whether nobody is in it, nor was given an id to come back with.
    pub(super) fn is_vacant(&self) -> bool {
        match &self.kind {
            GroupKind::Classic(classic) => classic.is_vacant(),
            GroupKind::Consumer(consumer) => consumer.members().is_empty(),
        }
    }

    /// Whether nobody is in it.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.kind {
            GroupKind::Classic(classic) => classic.state() == ClassicState::Empty,
            GroupKind::Consumer(consumer) => consumer.members().is_empty(),
        }
    }

    /// What it holds, roughly.
    pub(super) fn bytes(&self) -> usize {
        let members = match &self.kind {
            GroupKind::Classic(classic) => classic.bytes(),
            GroupKind::Consumer(consumer) => consumer.bytes(),
        };
        GROUP_BYTES + members + self.offsets.bytes()
    }

    pub(super) fn next_deadline(&self) -> Option<Mono> {
        match &self.kind {
            GroupKind::Classic(classic) => classic.next_deadline(),
            GroupKind::Consumer(consumer) => consumer.next_deadline(),
        }
    }
}
