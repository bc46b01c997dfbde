//! Members that speak the classic protocol in a consumer group (KIP-848, online migration).
//!
//! Such a member has no assignor to run: nobody leads, and SyncGroup answers with what the broker
//! assigned. Its epoch is its generation. When it is to give something up, or may take something, its
//! heartbeats are answered with REBALANCE_IN_PROGRESS; the JoinGroup that follows is what a heartbeat
//! is to the others, and says what the member owns. It has its rebalance timeout to join in, and then
//! again to ask for its assignment.

use alloc::string::ToString;
use alloc::vec::Vec;

use bytes::Bytes;

use super::replay::each;
use super::{Beat, ConsumerGroup, ConsumerMember, MemberState, Records, Topics};
use crate::group::MemberRef;
use crate::group::assignor::Partitions;
use crate::group::classic::{Join, JoinReply, MAX_GROUP_BYTES, Protocol, Sync, SyncReply};
use crate::group::config::GroupConfig;
use crate::time::Now;
use crate::wire::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition,
};
use crate::wire::coordinator_records::consumer_group_member_metadata::{
    ClassicMemberMetadata, ClassicProtocol,
};
use crate::wire::{ErrorCode, Str, Versioned};

/// The protocol type that can move between the protocols: only its members' words are understood.
pub(crate) const CONSUMER: &str = "consumer";

/// What is known of a member that speaks the classic protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClassicMember {
    pub(crate) session_timeout_ms: u64,
    /// What it offers, in the order of its preference.
    pub(crate) protocols: Vec<Protocol>,
}

impl ClassicMember {
    /// Bytes that it holds, roughly.
    pub(super) fn bytes(&self) -> usize {
        let protocols = self.protocols.iter();
        protocols
            .map(|(name, metadata)| 64 + name.len() + metadata.len())
            .sum()
    }

    pub(super) fn to_value(&self) -> ClassicMemberMetadata {
        let protocols = self.protocols.iter();
        ClassicMemberMetadata {
            session_timeout_ms: i32::try_from(self.session_timeout_ms).unwrap_or(i32::MAX),
            supported_protocols: protocols
                .map(|(name, metadata)| ClassicProtocol {
                    name: name.clone(),
                    metadata: metadata.clone(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }
    }

    /// The version in which it understands its assignment: that of its own subscription.
    fn version(&self) -> i16 {
        let first = self.protocols.first();
        let version = first.and_then(|(_, metadata)| metadata.first_chunk::<2>());
        let known = ConsumerProtocolAssignment::VERSIONS;
        version.map_or(known.min, |bytes| {
            i16::from_be_bytes(*bytes).clamp(known.min, known.max)
        })
    }

    /// An assignment, as SyncGroup carries it.
    pub(crate) fn assignment(&self, partitions: &Partitions, topics: &Topics<'_>) -> Bytes {
        let assigned = partitions.iter().filter_map(|(topic_id, indexes)| {
            // A topic that was deleted has no name any more.
            let topic = topics.image.topic_by_id(*topic_id)?;
            Some(TopicPartition {
                topic: topic.name.as_str().into(),
                partitions: indexes.iter().copied().collect(),
                ..Default::default()
            })
        });
        let assignment = ConsumerProtocolAssignment {
            assigned_partitions: assigned.collect(),
            ..Default::default()
        };
        assignment.to_versioned(self.version())
    }

    fn prefers(&self, protocol: &Str) -> bool {
        let first = self.protocols.first();
        first.is_some_and(|(name, _)| name == protocol)
    }

    /// Each protocol once.
    fn offered(&self) -> impl Iterator<Item = &Str> {
        let names = self.protocols.iter().map(|(name, _)| name);
        names.enumerate().filter_map(|(place, name)| {
            let mut before = self.protocols.iter().take(place);
            (!before.any(|(earlier, _)| earlier == name)).then_some(name)
        })
    }
}

impl From<&ClassicMemberMetadata> for ClassicMember {
    fn from(value: &ClassicMemberMetadata) -> Self {
        let protocols = value.supported_protocols.iter();
        Self {
            session_timeout_ms: u64::try_from(value.session_timeout_ms).unwrap_or(0),
            protocols: protocols
                .map(|protocol| (protocol.name.clone(), protocol.metadata.clone()))
                .collect(),
        }
    }
}

/// Partitions by the names of their topics; of topics that are not there, none.
pub(super) fn by_id(named: &[TopicPartition], topics: &Topics<'_>) -> Partitions {
    let mut partitions = Partitions::new();
    for given in named {
        if let Some(topic) = topics.by_name(&given.topic)
            && !given.partitions.is_empty()
        {
            let known = 0..topic.partitions;
            let indexes = given
                .partitions
                .iter()
                .filter(|index| known.contains(index));
            partitions.entry(topic.id).or_default().extend(indexes);
        }
    }
    partitions
}

impl ConsumerGroup {
    /// Whether every member speaks the classic protocol, and there are some.
    pub(crate) fn is_all_classic(&self) -> bool {
        self.classic_members > 0 && self.classic_members == self.members.len()
    }

    pub(super) fn count_classic(
        &mut self,
        before: Option<&ClassicMember>,
        after: Option<&ClassicMember>,
    ) {
        if let Some(before) = before {
            self.classic_members -= 1;
            for name in before.offered() {
                if let Some(count) = self.offers.get_mut(name) {
                    *count -= 1;
                    if *count == 0 {
                        self.offers.remove(name);
                    }
                }
            }
        }
        if let Some(after) = after {
            self.classic_members += 1;
            for name in after.offered() {
                *self.offers.entry(name.clone()).or_default() += 1;
            }
        }
    }

    /// A JoinGroup to a group with members.
    pub(crate) fn join_classic(
        &mut self,
        now: Now,
        config: &GroupConfig,
        id: &Str,
        topics: &Topics<'_>,
        join: Join,
        records: &mut Records,
    ) -> JoinReply {
        let is_unknown = join.member_id.is_empty();
        let member_id = if is_unknown {
            join.new_member_id.clone()
        } else {
            join.member_id.clone()
        };
        let subscription = match self.may_join(config, &join) {
            Ok(subscription) => subscription,
            Err(error) => return JoinReply::refusal(error, join.member_id),
        };
        if is_unknown && join.requires_known_member_id {
            return JoinReply::refusal(ErrorCode::MEMBER_ID_REQUIRED, member_id);
        }
        let holder = join.instance_id.as_ref();
        let holder = holder.map(|instance_id| self.static_members.get(instance_id).cloned());
        match holder {
            Some(Some(holder)) if holder == member_id => {}
            Some(Some(holder)) if is_unknown => self.replace(id, &holder, &member_id, records),
            Some(Some(_)) => {
                return JoinReply::refusal(ErrorCode::FENCED_INSTANCE_ID, join.member_id);
            }
            Some(None) if !is_unknown => {
                return JoinReply::refusal(ErrorCode::UNKNOWN_MEMBER_ID, join.member_id);
            }
            Some(None) | None => {}
        }
        let owned = by_id(&subscription.owned_partitions, topics);
        let protocol_name = join.protocols.first().map(|(name, _)| name.clone());
        let beat = Beat {
            member_id: member_id.clone(),
            instance_id: join.instance_id,
            rack_id: subscription.rack_id.map(|rack| rack.detach()),
            rebalance_timeout_ms: Some(
                i32::try_from(join.rebalance_timeout_ms).unwrap_or(i32::MAX),
            ),
            names: Some(subscription.topics.iter().map(Str::detach).collect()),
            regex: Some(Str::new()),
            client_id: join.client_id,
            client_host: join.client_host,
            classic: Some(ClassicMember {
                session_timeout_ms: join.session_timeout_ms,
                protocols: join.protocols,
            }),
            ..Beat::default()
        };
        let before = self.members.get(&member_id).cloned();
        let changed = self.update(id, &beat, before.as_ref(), records);
        self.refresh(now, id, topics, changed, records);
        self.reconcile(id, &member_id, Some(&owned), records);
        self.touch(now, config, &member_id);
        self.time_revocation(now, &member_id, None);
        self.joins.cancel(&member_id);
        self.syncs.set(
            &member_id,
            now.mono.plus_ms(join.rebalance_timeout_ms.max(1)),
        );
        JoinReply {
            generation_id: self
                .members
                .get(&member_id)
                .map_or(-1, |member| member.epoch),
            protocol_type: Some(CONSUMER.into()),
            protocol_name,
            member_id,
            ..JoinReply::default()
        }
    }

    /// Whether one who joins so can be a member, and what it subscribes to.
    fn may_join(
        &self,
        config: &GroupConfig,
        join: &Join,
    ) -> Result<ConsumerProtocolSubscription, ErrorCode> {
        let known = self.members.get(&join.member_id);
        let replaces = join
            .instance_id
            .as_ref()
            .is_some_and(|instance_id| self.static_members.contains_key(instance_id));
        let room = known.is_some() || replaces || self.members.len() < config.consumer_max_size;
        // All of it must fit into one record again when the group becomes a classic one.
        let offered: usize = join
            .protocols
            .iter()
            .map(|(name, metadata)| 64 + name.len() + metadata.len())
            .sum();
        let others = self.members.iter();
        let others = others.filter(|(member_id, _)| **member_id != join.member_id);
        let others = others.filter_map(|(_, member)| member.classic.as_ref());
        let bytes: usize = others.map(ClassicMember::bytes).sum();
        if !room || bytes + offered > MAX_GROUP_BYTES {
            return Err(ErrorCode::GROUP_MAX_SIZE_REACHED);
        }
        // One who was a classic member itself does not stand in its own way.
        let own = known.and_then(|member| member.classic.as_ref());
        let all = self.classic_members - usize::from(own.is_some());
        let by_all = |name: &Str| {
            let offers = self.offers.get(name).copied().unwrap_or(0);
            let by_itself = own.is_some_and(|own| own.offered().any(|offered| offered == name));
            offers - usize::from(by_itself) == all
        };
        if join.protocol_type != CONSUMER || !join.protocols.iter().any(|(name, _)| by_all(name)) {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        let first = join.protocols.first().map(|(_, metadata)| metadata.clone());
        first
            .and_then(|metadata| ConsumerProtocolSubscription::read_lenient(metadata).ok())
            .ok_or(ErrorCode::INCONSISTENT_GROUP_PROTOCOL)
    }

    /// A SyncGroup of a classic member.
    pub(crate) fn sync_classic(
        &mut self,
        now: Now,
        config: &GroupConfig,
        topics: &Topics<'_>,
        sync: &Sync,
    ) -> Result<SyncReply, ErrorCode> {
        let member = self.classic_member(&sync.member)?;
        let classic = member.classic.as_ref();
        let classic = classic.ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        let other_type = sync.protocol_type.as_ref().is_some_and(|it| it != CONSUMER);
        let other_name = sync
            .protocol_name
            .as_ref()
            .is_some_and(|it| !classic.prefers(it));
        if other_type || other_name {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        // One that is to give something up has joined already, and hears what it keeps.
        if self.epoch > member.epoch && member.state != MemberState::Unrevoked {
            self.expect_join(now, &sync.member.member_id);
            return Err(ErrorCode::REBALANCE_IN_PROGRESS);
        }
        let reply = SyncReply {
            error: ErrorCode::NONE,
            protocol_type: Some(CONSUMER.into()),
            protocol_name: classic.protocols.first().map(|(name, _)| name.clone()),
            assignment: classic.assignment(&member.assigned, topics),
        };
        self.syncs.cancel(&sync.member.member_id);
        self.touch(now, config, &sync.member.member_id);
        Ok(reply)
    }

    /// A Heartbeat of a classic member.
    pub(crate) fn heartbeat_classic(
        &mut self,
        now: Now,
        config: &GroupConfig,
        named: &MemberRef,
    ) -> Result<(), ErrorCode> {
        let member = self.classic_member(named)?;
        let rejoins = member.epoch < self.epoch
            || match member.state {
                MemberState::Stable => false,
                MemberState::Unrevoked => true,
                MemberState::Unreleased => self.can_take(&named.member_id, member),
            };
        self.touch(now, config, &named.member_id);
        if rejoins {
            self.expect_join(now, &named.member_id);
            return Err(ErrorCode::REBALANCE_IN_PROGRESS);
        }
        Ok(())
    }

    /// Whether all that a member waits for is free by now.
    fn can_take(&self, member_id: &Str, member: &ConsumerMember) -> bool {
        let target = self.target.get(member_id).into_iter().flat_map(each);
        let mut missing = target.filter(|(topic, index)| {
            let owned = member.assigned.get(topic);
            !owned.is_some_and(|owned| owned.contains(index))
        });
        missing.all(|partition| !self.owners.contains_key(&partition))
    }

    /// The member is to join again, from when it first hears of it.
    fn expect_join(&mut self, now: Now, member_id: &Str) {
        let timeout_ms = self.members.get(member_id).map_or(0, |member| {
            u64::try_from(member.rebalance_timeout_ms).unwrap_or(0)
        });
        if !self.joins.has(member_id) {
            self.joins
                .set(member_id, now.mono.plus_ms(timeout_ms.max(1)));
        }
    }

    /// Members of a LeaveGroup, each as it is named: with a result each.
    pub(crate) fn leave_classic(
        &mut self,
        id: &Str,
        leaving: &[(Str, Option<Str>)],
        records: &mut Records,
    ) -> Vec<Result<(), ErrorCode>> {
        let mut leave_one = |named: &Str, instance_id: Option<&Str>| {
            let member_id = match instance_id {
                // An administrator removes a static member by its instance id alone (KIP-345).
                Some(instance_id) if named.is_empty() => {
                    let holder = self.static_members.get(instance_id);
                    holder.ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?.clone()
                }
                _ => {
                    self.validate_member(named, instance_id)?;
                    named.clone()
                }
            };
            let member = self.members.get(&member_id);
            if member.is_none_or(|member| member.classic.is_none()) {
                return Err(ErrorCode::UNKNOWN_MEMBER_ID);
            }
            self.fence(id, &member_id, records);
            Ok(())
        };
        leaving
            .iter()
            .map(|(member_id, instance_id)| leave_one(member_id, instance_id.as_ref()))
            .collect()
    }

    /// The member of that name, if it speaks the classic protocol and lives in that generation.
    fn classic_member(&self, named: &MemberRef) -> Result<&ConsumerMember, ErrorCode> {
        self.validate_member(&named.member_id, named.instance_id.as_ref())?;
        let member = self.members.get(&named.member_id);
        let member = member.filter(|member| member.classic.is_some());
        let member = member.ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        member.validate_epoch(named.generation_id)?;
        Ok(member)
    }

    fn validate_member(&self, member_id: &Str, instance_id: Option<&Str>) -> Result<(), ErrorCode> {
        if let Some(instance_id) = instance_id {
            match self.static_members.get(instance_id) {
                Some(holder) if holder == member_id => {}
                Some(_) => return Err(ErrorCode::FENCED_INSTANCE_ID),
                None => return Err(ErrorCode::UNKNOWN_MEMBER_ID),
            }
        }
        if self.members.contains_key(member_id) {
            Ok(())
        } else {
            Err(ErrorCode::UNKNOWN_MEMBER_ID)
        }
    }
}

/// Why a group cannot change its protocol, in words for the client's log.
pub(super) fn cannot_upgrade(id: &str, why: &str) -> super::Refusal {
    let words =
        alloc::format!("Cannot upgrade classic group {id} to consumer group because {why}.");
    (ErrorCode::GROUP_ID_NOT_FOUND, words.to_string())
}
