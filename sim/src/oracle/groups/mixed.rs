//! Groups that members of both protocols go to: such a group changes its kind with members inside, and
//! a generation of the one protocol is an epoch of the other.
//!
//! Whether a group was empty when it changed its kind nobody here knows; if it was, its generations
//! begin at 1 again. So what is known of its epochs ends whenever that may have happened, and with a
//! process. What holds across both protocols until then: in one generation or epoch a partition has
//! one owner, and nobody commits under an earlier one than it was told.
//!
//! That they only rise is judged where it is sure that the group was never empty: a member that was not
//! away is never told less than before, and while one is in that was in already when the highest was
//! told, nobody else is either.
//!
//! What a member owns that is surely there does not depend on the group's epochs: as long as it is in,
//! the group was never empty. Of members of the consumer protocol [`Consumer`] knows it; a classic one
//! in a group that the broker assigns for has what SyncGroup told it until it joins again, which is
//! when it gives everything up.
//!
//! [`Consumer`]: super::consumer::Consumer

use std::collections::{BTreeMap, BTreeSet};

use odradek_core::time::Mono;
use odradek_core::wire::consumer_protocol::ConsumerProtocolAssignment;
use odradek_core::wire::messages::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
};
use odradek_core::wire::messages::join_group::{JoinGroupRequest, JoinGroupResponse};
use odradek_core::wire::messages::offset_commit::OffsetCommitRequest;
use odradek_core::wire::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};
use odradek_core::wire::{ErrorCode, Versioned};

use super::super::connections::Exchange;
use super::super::{Check, Mark, Oracle};
use super::classic::stays_ms;

/// Deadlines of members are not judged closer than this.
const SLACK_MS: u64 = 50;

/// Partitions by the names of their topics.
type Named = BTreeSet<(String, i32)>;

/// What was seen of a group.
#[derive(Clone, Debug, Default)]
pub(super) struct Mixed {
    /// Whether it was a consumer group when it was last told of.
    is_consumer: Option<bool>,
    /// Answers to requests from before say nothing of its epochs.
    since: Mono,
    /// When somebody last asked to join.
    join_came: Mono,
    /// The highest generation or epoch that was told, and when that was.
    highest: i32,
    highest_at: Mono,
    /// What each member was told, and when first.
    told: BTreeMap<String, (Mono, i32)>,
    /// The instances of static members.
    instances: BTreeMap<String, String>,
    /// Who was told to own a partition, by generation or epoch. A static member by its instance.
    owners: BTreeMap<i32, BTreeMap<(String, i32), String>>,
    /// Classic members of a group that the broker assigns for: until when each is there for sure.
    joined: BTreeMap<String, Mono>,
    /// What those of them have that asked for it.
    classic: BTreeMap<String, Named>,
    /// Classic members, whatever the group's kind: since when each is in without a break, and until when
    /// that is sure.
    inside: BTreeMap<String, (Mono, Mono)>,
    /// When somebody last came by the classic protocol, by member and by `[instance]`. Answers that wait
    /// for their records come when others have changed the group's kind again, so this holds whatever the
    /// group has become.
    classic_came: BTreeMap<String, Mono>,
}

/// How a member was told of its generation or epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// By a JoinGroup of a classic group.
    Generation,
    /// By its first heartbeat in a consumer group.
    Joined,
    /// By another heartbeat, or a JoinGroup, in a consumer group.
    There,
}

/// A member that is given partitions, and when.
#[derive(Clone, Copy, Debug)]
struct Given<'a> {
    group: &'a str,
    member: &'a str,
    epoch: i32,
    at: Mono,
}

impl Mixed {
    /// It may be another group from now on.
    pub(super) fn begin_anew(&mut self, now: Mono) {
        self.since = now;
        self.highest = 0;
        self.highest_at = now;
        self.told.clear();
        self.owners.clear();
        self.forget_classic();
    }

    /// A member of the classic protocol takes the place of whoever has its id or instance.
    pub(super) fn classic_comes(&mut self, at: Mono, member: &str, instance: Option<&str>) {
        let instance = instance.map(|instance| format!("[{instance}]"));
        let member = Some(member.to_owned()).filter(|member| !member.is_empty());
        for name in member.into_iter().chain(instance) {
            let known = self.classic_came.entry(name).or_default();
            *known = (*known).max(at);
        }
    }

    /// Whether a member of the consumer protocol that was there at an instant was replaced since.
    pub(super) fn was_replaced(&self, at: Mono, member: &str, instance: Option<&str>) -> bool {
        let instance = instance.map(|instance| format!("[{instance}]"));
        let known = self.instances.get(member);
        let known = known.map(|instance| format!("[{instance}]"));
        let names = [Some(member.to_owned()), instance, known];
        let mut came = names
            .iter()
            .flatten()
            .map(|name| self.classic_came.get(name));
        came.any(|came| came.is_some_and(|came| *came >= at))
    }

    /// Some classic members may be out by now.
    pub(super) fn forget_classic(&mut self) {
        self.joined.clear();
        self.classic.clear();
        self.inside.clear();
    }

    /// Somebody joins, or joins again: what it had it gives up, and so does its old self.
    pub(super) fn join_comes(&mut self, now: Mono, member: &str, instance: Option<&str>) {
        self.join_came = now;
        self.give_up(member, instance);
    }

    fn give_up(&mut self, member: &str, instance: Option<&str>) {
        let instances = &self.instances;
        let is_it = |other: &str| {
            let of_other = instances.get(other).map(String::as_str);
            other == member || (instance.is_some() && of_other == instance)
        };
        self.joined.retain(|other, _| !is_it(other));
        self.classic.retain(|other, _| !is_it(other));
        // Whoever joins again by its own id has not been away, or it is refused.
        self.inside
            .retain(|other, _| other == member || !is_it(other));
    }

    fn identity(&self, member: &str) -> String {
        let instance = self.instances.get(member);
        instance.map_or_else(|| member.to_owned(), |instance| format!("[{instance}]"))
    }

    /// A member was told in which generation or epoch it is; `false` if nothing is known of its group
    /// now.
    fn tell(&mut self, now: Mono, member: &str, epoch: i32, how: How) -> bool {
        let is_consumer = how != How::Generation;
        let before = self.is_consumer.replace(is_consumer);
        let changed = before.is_some_and(|before| before != is_consumer);
        let known = self.told.get(member).map(|(_, epoch)| *epoch);
        // A group that changes its kind with its members goes on with a higher number, and so it does
        // when a new member joins. Only a member that is there already may lag behind.
        let is_other = match how {
            How::Generation => epoch < self.highest,
            How::Joined => {
                let is_new = known.is_none() && !self.instances.contains_key(member);
                epoch < self.highest || (is_new && epoch == self.highest)
            }
            How::There => false,
        };
        if is_other || (changed && epoch <= self.highest) {
            self.begin_anew(now);
        }
        self.raise(now, epoch);
        if known != Some(epoch) {
            self.told.insert(member.to_owned(), (now, epoch));
        }
        changed
    }

    fn raise(&mut self, now: Mono, epoch: i32) {
        if epoch > self.highest {
            self.highest = epoch;
            self.highest_at = now;
        }
    }

    /// A classic member was told that it is in, and stays so until then at least.
    fn is_inside(&mut self, now: Mono, member: &str, until: Mono) {
        let known = self.inside.entry(member.to_owned()).or_insert((now, until));
        known.1 = known.1.max(until);
    }

    /// Why a member must not be told this generation or epoch by an answer to what it asked at `start`.
    /// `in_since` says since when members of the consumer protocol are in without a break.
    fn why_too_low(
        &self,
        (start, now): (Mono, Mono),
        member: &str,
        epoch: i32,
        how: How,
        in_since: &[(String, Mono)],
    ) -> Option<String> {
        let known = self.told.get(member).filter(|(at, _)| *at < start);
        // One of the consumer protocol that asks to join may have been away.
        if let Some((at, before)) = known.filter(|(_, before)| *before > epoch)
            && how != How::Joined
        {
            return Some(format!("it was told {before} at {at}"));
        }
        if how == How::There || self.highest_at >= start {
            // Whoever is in already may lag behind.
            return None;
        }
        if epoch >= self.highest {
            return None;
        }
        let classic = self.inside.iter();
        let classic = classic.filter(|(_, (_, until))| now < *until);
        let classic = classic.map(|(other, (since, _))| (other, *since));
        let all = classic.chain(in_since.iter().map(|(other, since)| (other, *since)));
        let mut witnesses = all.filter(|(other, _)| other.as_str() != member);
        let (witness, since) = witnesses.find(|(_, since)| *since <= self.highest_at)?;
        Some(format!(
            "{} was told at {}, and {witness:?} is in since {since}",
            self.highest, self.highest_at
        ))
    }

    /// A member was told to own these. Who else was, in the same generation or epoch.
    fn give(&mut self, now: Mono, member: &str, epoch: i32, partitions: &Named) -> Option<String> {
        let identity = self.identity(member);
        // Where it was told of it may be forgotten already.
        self.raise(now, epoch);
        let owners = self.owners.entry(epoch).or_default();
        let mut wrong = None;
        for (topic, partition) in partitions {
            let before = owners.insert((topic.clone(), *partition), identity.clone());
            if let Some(before) = before.filter(|before| *before != identity) {
                wrong = Some(format!(
                    "{topic}-{partition} was {before}'s in that generation or epoch"
                ));
            }
        }
        wrong
    }

    /// A classic member that has one of these at an instant.
    fn has_one(&self, member: &str, partitions: &Named, at: Mono) -> Option<String> {
        let identity = self.identity(member);
        self.classic.iter().find_map(|(other, owns)| {
            let is_there = self.joined.get(other).is_some_and(|until| at < *until);
            let (topic, partition) = owns.intersection(partitions).next()?;
            (is_there && self.identity(other) != identity)
                .then(|| format!("{topic}-{partition} is {other:?}'s, who has not joined again"))
        })
    }
}

impl super::Groups {
    /// What is known of the epochs of a group of both protocols, if an exchange is about the group as
    /// it is now.
    fn mixed_now(&mut self, group: &str, exchange: &Exchange) -> Option<&mut Mixed> {
        let ends = self.ending.iter().any(|(ending, _)| ending == group);
        if ends || self.end_by_themselves() || self.is_doubtful || !self.both_meet_in(group) {
            return None;
        }
        let known = self.mixed.get_mut(group)?;
        let since = exchange.first_since?;
        (since > known.since).then_some(known)
    }
}

impl Oracle {
    pub(super) fn judge_mixed_join(
        &mut self,
        exchange: &Exchange,
        asked: &JoinGroupRequest,
        told: &JoinGroupResponse,
    ) {
        let now = self.now;
        let group = asked.group_id.to_string();
        let instance = asked.group_instance_id.as_deref();
        let start = exchange.first_since.unwrap_or(now);
        self.consumer_replaced(&group, start, &asked.member_id, instance);
        let known = self.groups.mixed.entry(group.clone()).or_default();
        let member = told.member_id.to_string();
        known.give_up(&asked.member_id, instance);
        if told.error_code != ErrorCode::NONE {
            return;
        }
        if let Some(instance) = instance {
            known.instances.insert(member.clone(), instance.to_owned());
        }
        // Nobody leads where the broker assigns.
        let is_consumer = told.leader.is_empty();
        if is_consumer {
            self.mark(Mark::ProtocolsMixed);
        }
        let how = if is_consumer {
            How::There
        } else {
            How::Generation
        };
        let judged = self.judge_epoch(exchange, &group, &member, told.generation_id, how);
        if !judged {
            return self.may_be_another(&group);
        }
        let (Some(known), Some(start)) = (
            self.groups.mixed_now(&group, exchange),
            exchange.first_since,
        ) else {
            return;
        };
        let until = start.plus_ms(stays_ms(asked).saturating_sub(SLACK_MS));
        known.is_inside(now, &member, until);
        if is_consumer {
            known.joined.insert(member, until);
        }
    }

    /// A member was told in which generation or epoch it is; `false` if nothing is known of its group
    /// now.
    fn judge_epoch(
        &mut self,
        exchange: &Exchange,
        group: &str,
        member: &str,
        epoch: i32,
        how: How,
    ) -> bool {
        let now = self.now;
        let session_ms = self.groups.config.consumer_session_timeout_ms;
        let consumers = self.groups.consumer.get(group);
        let in_since = consumers.map(|known| known.in_since(now, session_ms));
        let start = exchange.first_since.unwrap_or_default();
        let Some(known) = self.groups.mixed_now(group, exchange) else {
            return false;
        };
        let in_since = in_since.unwrap_or_default();
        let wrong = known.why_too_low((start, now), member, epoch, how, &in_since);
        let changed = known.tell(now, member, epoch, how);
        if let Some(why) = wrong {
            let detail = format!("{group}: {member:?} is told generation or epoch {epoch}: {why}");
            self.violate(Check::GenerationMonotonic, detail);
        }
        if changed {
            self.mark(Mark::ProtocolChanged);
        }
        true
    }

    /// Somebody was told that it is in a group, and whether it is the group that was known is not.
    fn may_be_another(&mut self, group: &str) {
        let now = self.now;
        if let Some(known) = self.groups.mixed.get_mut(group) {
            known.begin_anew(now);
        }
    }

    pub(super) fn judge_mixed_sync(
        &mut self,
        exchange: &Exchange,
        asked: &SyncGroupRequest,
        told: &SyncGroupResponse,
    ) {
        if told.error_code.is_error() || told.assignment.is_empty() {
            return;
        }
        let Ok(assignment) = ConsumerProtocolAssignment::read_lenient(told.assignment.clone())
        else {
            return;
        };
        let topics = assignment.assigned_partitions.into_iter();
        let partitions: Named = topics
            .flat_map(|topic| {
                let name = topic.topic.to_string();
                topic.partitions.into_iter().map(move |p| (name.clone(), p))
            })
            .collect();
        let group = asked.group_id.to_string();
        let given = Given {
            group: &group,
            member: &asked.member_id,
            epoch: asked.generation_id,
            // It may have waited for its leader.
            at: self.now,
        };
        self.judge_given(exchange, given, &partitions);
        let Some(known) = self.groups.mixed_now(&group, exchange) else {
            return;
        };
        if known.joined.contains_key(asked.member_id.as_str()) {
            let member = asked.member_id.to_string();
            known.classic.insert(member, partitions.clone());
        }
        // One of the other protocol that has not given it up yet.
        let session_ms = self.groups.config.consumer_session_timeout_ms;
        let by_name: BTreeMap<&str, _> = self
            .topic_ids
            .iter()
            .map(|(id, name)| (name.as_str(), *id))
            .collect();
        let wrong = self.groups.consumer.get(&group).and_then(|known| {
            partitions.iter().find_map(|(topic, partition)| {
                let id = by_name.get(topic.as_str())?;
                let other = known.owner_of((*id, *partition), self.now, session_ms)?;
                Some(format!(
                    "{topic}-{partition} is {other:?}'s, who has not given it up"
                ))
            })
        });
        if let Some(why) = wrong {
            self.doubly_given(given, &why);
        }
    }

    pub(super) fn judge_mixed_beat(
        &mut self,
        exchange: &Exchange,
        asked: &ConsumerGroupHeartbeatRequest,
        told: &ConsumerGroupHeartbeatResponse,
    ) {
        let group = asked.group_id.to_string();
        let joins = asked.member_epoch == 0;
        let instance = asked.instance_id.as_deref();
        let known = self.groups.mixed.entry(group.clone()).or_default();
        if joins {
            known.give_up(&asked.member_id, instance);
        }
        if told.error_code.is_error() || asked.member_epoch < 0 {
            return;
        }
        let member = told.member_id.as_ref().unwrap_or(&asked.member_id);
        let member = member.to_string();
        if let Some(instance) = instance {
            known.instances.insert(member.clone(), instance.to_owned());
        }
        let how = if joins { How::Joined } else { How::There };
        if !self.judge_epoch(exchange, &group, &member, told.member_epoch, how) {
            return if joins {
                self.may_be_another(&group);
            };
        }
        let Some(assignment) = &told.assignment else {
            return;
        };
        let topics = assignment.topic_partitions.iter();
        let partitions =
            topics.flat_map(|topic| topic.partitions.iter().map(|p| (topic.topic_id, *p)));
        let partitions =
            partitions.filter_map(|(topic, p)| Some((self.topic_ids.get(&topic)?.clone(), p)));
        let partitions: Named = partitions.collect();
        let given = Given {
            group: &group,
            member: &member,
            epoch: told.member_epoch,
            at: exchange.first_since.unwrap_or_default(),
        };
        self.judge_given(exchange, given, &partitions);
    }

    fn judge_given(&mut self, exchange: &Exchange, given: Given<'_>, partitions: &Named) {
        let now = self.now;
        let Some(known) = self.groups.mixed_now(given.group, exchange) else {
            return;
        };
        let wrong = known.give(now, given.member, given.epoch, partitions);
        let wrong = wrong.or_else(|| known.has_one(given.member, partitions, given.at));
        if let Some(why) = wrong {
            self.doubly_given(given, &why);
        }
    }

    fn doubly_given(&mut self, given: Given<'_>, why: &str) {
        let Given {
            group,
            member,
            epoch,
            ..
        } = given;
        let detail =
            format!("{group}: what {member:?} is given in generation or epoch {epoch}: {why}");
        self.violate(Check::NoDoubleAssignment, detail);
    }

    /// A commit was taken in such a group.
    pub(super) fn check_mixed_committer(
        &mut self,
        exchange: &Exchange,
        asked: &OffsetCommitRequest,
    ) {
        let group = asked.group_id.to_string();
        let member = asked.member_id.as_str();
        let epoch = asked.generation_id_or_member_epoch;
        let start = exchange.first_since.unwrap_or_default();
        let Some(known) = self.groups.mixed_now(&group, exchange) else {
            return;
        };
        // Whoever asks to join may find the group empty, and begin it anew at 1.
        let newer = known.told.get(member).copied();
        let newer = newer.filter(|(at, _)| *at < start && known.join_came < *at);
        if let Some((at, newer)) = newer.filter(|(_, newer)| *newer > epoch) {
            let detail = format!(
                "{group}: a commit of {member:?} in generation or epoch {epoch} is taken, and it was \
                 told {newer} at {at}"
            );
            self.violate(Check::StaleCommitRejected, detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer to a heartbeat waits for its record. Whoever comes meanwhile by the classic protocol
    /// takes the place of the member that is told only now.
    #[test]
    fn who_was_replaced_has_nothing_whatever_it_is_told_later() {
        let mut known = Mixed::default();
        let (before, came, after) = (Mono(1), Mono(2), Mono(3));
        known.classic_comes(came, "", Some("i"));
        known.classic_comes(came, "by-id", None);
        known.begin_anew(after);
        assert!(known.was_replaced(before, "member", Some("i")));
        assert!(known.was_replaced(before, "by-id", None));
        assert!(!known.was_replaced(before, "member", None));
        assert!(!known.was_replaced(before, "member", Some("j")));
        assert!(!known.was_replaced(after, "member", Some("i")));
        known.instances.insert("member".into(), "i".into());
        assert!(known.was_replaced(before, "member", None));
    }
}
