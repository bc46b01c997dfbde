//! Classic groups: GenerationMonotonic, OnePartitionOneOwnerPerGeneration, StaleCommitRejected and
//! StaticMemberFenced.

use std::collections::btree_set::Difference;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use odradek_core::time::Mono;
use odradek_core::wire::consumer_protocol::ConsumerProtocolAssignment;
use odradek_core::wire::messages::heartbeat::HeartbeatRequest;
use odradek_core::wire::messages::join_group::{JoinGroupRequest, JoinGroupResponse};
use odradek_core::wire::messages::leave_group::{LeaveGroupRequest, LeaveGroupResponse};
use odradek_core::wire::messages::offset_commit::OffsetCommitRequest;
use odradek_core::wire::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};
use odradek_core::wire::{ErrorCode, Versioned};

use super::super::connections::Exchange;
use super::super::{Check, Mark, Oracle};

/// The host's timers are late, and a request may come a moment before a deadline.
const SLACK_MS: u64 = 30;

/// How long a member that joined so is in its group for sure: until its session ends, or it was told to
/// join again and did not in time.
pub(super) fn stays_ms(asked: &JoinGroupRequest) -> u64 {
    let rebalance_ms = match asked.rebalance_timeout_ms {
        -1 => asked.session_timeout_ms,
        rebalance_ms => rebalance_ms,
    };
    asked.session_timeout_ms.min(rebalance_ms).max(0) as u64
}

/// What was seen of a group.
#[derive(Clone, Debug, Default)]
pub(super) struct Classic {
    /// Generations that were told in this life, and when.
    told: Vec<(Mono, i32)>,
    /// Generations of this life in which a rebalance was seen to have begun, and when.
    ended: Vec<(Mono, i32)>,
    /// Who is in a generation, by id, as its leader was told in this life.
    rosters: BTreeMap<i32, BTreeSet<String>>,
    /// Members that left in this life.
    left: BTreeMap<String, Mono>,
    /// Until when there is a member for sure, and since when that is known.
    present: Vec<Present>,
    /// Static members' old selves, and since when they are fenced.
    fenced: BTreeMap<String, Fenced>,
    /// Generations whose assignment was handed out: those are durable.
    stable: Vec<(Mono, i32)>,
    /// What leaders gave, by generation and member.
    given: BTreeMap<i32, Vec<BTreeMap<String, Bytes>>>,
    /// Who was told to own a partition, by generation. A static member by its instance.
    owners: BTreeMap<i32, BTreeMap<(String, i32), String>>,
    /// The instances of members, and who is a static member's latest self.
    instances: BTreeMap<String, String>,
    holders: BTreeMap<String, (String, Mono)>,
    /// Ids that were told to somebody, or of, who is no static member.
    dynamic: BTreeSet<String>,
}

#[derive(Clone, Debug)]
struct Present {
    member: String,
    since: Mono,
    until: Mono,
}

#[derive(Clone, Debug)]
struct Fenced {
    since: Mono,
    by: String,
    /// Its new self has its assignment, which is durable.
    for_good: bool,
}

impl Classic {
    pub(super) fn life_ended(&mut self) {
        self.told.clear();
        self.ended.clear();
        self.rosters.clear();
        self.left.clear();
        self.present.clear();
        self.fenced.retain(|_, fenced| fenced.for_good);
    }

    /// Whether a generation was begun that has no assignment yet.
    pub(super) fn is_rebalancing(&self) -> bool {
        let stable = self.stable.iter().map(|(_, generation)| *generation).max();
        let ended = self.ended.iter().map(|(_, generation)| *generation).max();
        let begun = self.told.iter().map(|(_, generation)| *generation).max();
        begun > stable || (ended.is_some() && ended >= begun)
    }

    /// A SyncGroup reached the broker.
    pub(super) fn sync_came(&mut self, sync: &SyncGroupRequest) {
        if sync.assignments.is_empty() {
            return;
        }
        let given = sync.assignments.iter();
        let given = given.map(|given| (given.member_id.to_string(), given.assignment.clone()));
        let of_generation = self.given.entry(sync.generation_id).or_default();
        of_generation.push(given.collect());
    }

    /// Somebody is to go, whoever it is.
    pub(super) fn somebody_leaves(&mut self) {
        self.present.clear();
    }

    /// A member asks to join again, and may be turned away.
    pub(super) fn joins_again(&mut self, member: &str) {
        self.present.retain(|present| present.member != member);
    }

    /// The highest generation that was told before an instant: in this life, and durable.
    fn told_before(&self, instant: Mono) -> Option<i32> {
        highest(&self.told, instant)
    }

    fn stable_before(&self, instant: Mono) -> Option<i32> {
        highest(&self.stable, instant)
    }

    fn identity(&self, member: &str) -> String {
        let instance = self.instances.get(member);
        instance.map_or_else(|| member.to_owned(), |instance| format!("[{instance}]"))
    }

    /// Whether nobody here knows whose id this is: the answer that told it was lost, and to a leader of
    /// an old version it is not said who is a static member.
    fn is_anybodys(&self, member: &str) -> bool {
        !self.instances.contains_key(member) && !self.dynamic.contains(member)
    }

    /// Whether these can be the same members, whatever their ids are: a static one may have got another.
    fn may_be_same(&self, some: &BTreeSet<String>, others: &BTreeSet<String>) -> bool {
        let identities = |members: &BTreeSet<String>| -> BTreeSet<String> {
            members.iter().map(|member| self.identity(member)).collect()
        };
        let (some, others) = (identities(some), identities(others));
        let is_static = |member: &&String| member.starts_with('[');
        let is_unknown = |member: &&String| self.is_anybodys(member) && !is_static(member);
        // Of what differs, one side's ids must all be anybody's, and the other's none a dynamic member's.
        let (left, right) = (some.difference(&others), others.difference(&some));
        let may_be = |unknown: Difference<'_, String>, others: Difference<'_, String>| {
            unknown.clone().all(|id| is_unknown(&id))
                && others.clone().all(|id| is_static(&id) || is_unknown(&id))
        };
        left.clone().count() == right.clone().count()
            && (may_be(left.clone(), right.clone()) || may_be(right, left))
    }

    /// Whether a leader of this generation gave a member this, under the id that it has or one of
    /// its former selves.
    fn was_given(&self, generation: i32, member: &str, assignment: &Bytes) -> bool {
        let identity = self.identity(member);
        let is_static = self.instances.contains_key(member);
        let is_it = |id: &str| self.identity(id) == identity || is_static && self.is_anybodys(id);
        let all = self.given.get(&generation).into_iter().flatten();
        let mut none_at_all = true;
        for given in all {
            none_at_all = false;
            let mut mine = given.iter().filter(|(id, _)| is_it(id));
            let is_it = mine.clone().any(|(_, bytes)| bytes == assignment);
            if is_it || (assignment.is_empty() && mine.next().is_none()) {
                return true;
            }
        }
        // A leader may give nobody anything, or be told to skip.
        none_at_all && assignment.is_empty()
    }
}

fn highest(told: &[(Mono, i32)], before: Mono) -> Option<i32> {
    let known = told.iter().filter(|(at, _)| *at < before);
    known.map(|(_, generation)| *generation).max()
}

impl Oracle {
    pub(super) fn judge_join(
        &mut self,
        exchange: &Exchange,
        asked: &JoinGroupRequest,
        told: &JoinGroupResponse,
    ) {
        let group = asked.group_id.to_string();
        if told.error_code == ErrorCode::NONE && self.groups.consumer.contains_key(&group) {
            if told.leader.is_empty() {
                // The broker assigns there, and no generation of this protocol was begun.
                return;
            }
            // It is a classic group now, and nobody of the other protocol is in it.
            self.mark(Mark::ProtocolChanged);
            self.groups.consumer.remove(&group);
        }
        let tells_id = matches!(
            told.error_code,
            ErrorCode::NONE | ErrorCode::MEMBER_ID_REQUIRED
        );
        if tells_id && asked.group_instance_id.is_none() {
            let known = self.groups.classic.entry(group.clone()).or_default();
            known.dynamic.insert(told.member_id.to_string());
        }
        match told.error_code {
            ErrorCode::NONE => {}
            ErrorCode::MEMBER_ID_REQUIRED => return self.mark(Mark::MemberIdRequired),
            ErrorCode::FENCED_INSTANCE_ID => return self.mark(Mark::StaticMemberFenced),
            _ => return,
        }
        let Some(start) = exchange.first_since else {
            return;
        };
        if !self.groups.is_current(&group, exchange) {
            if let Some(instance) = &asked.group_instance_id {
                let known = self.groups.classic.entry(group).or_default();
                let instance = instance.to_string();
                known.instances.insert(told.member_id.to_string(), instance);
            }
            return;
        }
        let (now, doubtful) = (self.now, self.groups.is_doubtful);
        let known = self.groups.classic.entry(group.clone()).or_default();
        let generation = told.generation_id;
        let member = told.member_id.to_string();
        let mut wrong = None;
        if let Some(stable) = known.stable_before(start)
            && generation < stable
        {
            wrong = Some(format!("generation {stable} was stable before"));
        }
        if !doubtful {
            if let Some(before) = known.told_before(start)
                && generation < before
            {
                wrong = Some(format!("generation {before} was told before"));
            }
            if highest(&known.ended, start).is_some_and(|ended| generation <= ended) {
                wrong = Some("a rebalance was to end that generation before".to_owned());
            }
        }
        if let Some(instance) = &asked.group_instance_id {
            let instance = instance.to_string();
            known.instances.insert(member.clone(), instance.clone());
            let before = known.holders.get(&instance).cloned();
            // Of two that joined at the same time nobody knows here which came last: an answer that
            // waits for its record comes behind one that does not.
            let comes_after = before.as_ref().is_none_or(|(_, told)| *told < start);
            if comes_after {
                known.holders.insert(instance, (member.clone(), now));
            }
            let before = before.map(|(before, _)| before);
            if let Some(before) = before.as_ref().filter(|before| **before != member) {
                // The new self has times of its own, and only those.
                known.present.retain(|present| present.member != *before);
            }
            if let Some(before) = before.filter(|before| comes_after && *before != member) {
                let fenced = Fenced {
                    since: now,
                    by: member.clone(),
                    for_good: false,
                };
                known.fenced.insert(before, fenced);
            }
        }
        for other in &told.members {
            if let Some(instance) = &other.group_instance_id {
                let (other, instance) = (other.member_id.to_string(), instance.to_string());
                known.instances.insert(other, instance);
            }
        }
        let members = told.members.iter();
        let roster: BTreeSet<String> = members.map(|member| member.member_id.to_string()).collect();
        let mut is_new = false;
        if !roster.is_empty() {
            let before = known.rosters.insert(generation, roster.clone());
            is_new = before.is_none();
            let before = before.filter(|before| !known.may_be_same(before, &roster) && !doubtful);
            if let Some(before) = before {
                wrong = Some(format!(
                    "it is told with {roster:?}, and was with {before:?}"
                ));
            }
        }
        known.told.push((now, generation));
        known.present.push(Present {
            member: member.clone(),
            since: now,
            until: now.plus_ms(stays_ms(asked).saturating_sub(SLACK_MS)),
        });
        if is_new {
            self.mark(Mark::Rebalanced);
            if roster.len() > 1 {
                self.mark(Mark::RebalancedMany);
            }
        }
        if let Some(why) = wrong {
            let detail = format!(
                "{group}: {member:?} is told that it is in generation {generation}, and {why}"
            );
            self.violate_in(&group, Check::GenerationMonotonic, detail);
        }
    }

    pub(super) fn judge_sync(
        &mut self,
        exchange: &Exchange,
        asked: &SyncGroupRequest,
        told: &SyncGroupResponse,
    ) {
        if told.error_code.is_error() {
            if told.error_code == ErrorCode::FENCED_INSTANCE_ID {
                self.mark(Mark::StaticMemberFenced);
            }
            return;
        }
        let group = asked.group_id.to_string();
        if !self.groups.is_current(&group, exchange) {
            return;
        }
        let Some(start) = exchange.first_since else {
            return;
        };
        let (now, doubtful) = (self.now, self.groups.is_doubtful);
        let generation = asked.generation_id;
        let member = asked.member_id.to_string();
        self.check_self(exchange, &group, &member, "its SyncGroup is answered");
        // What leaders gave before it may have become another group was forgotten then.
        let knows_all = !self.groups.anew.contains_key(&group);
        let Some(known) = self.groups.classic.get_mut(&group) else {
            return;
        };
        // The answer that told it its id may be from before the group began anew here.
        if let Some(instance) = &asked.group_instance_id {
            let instance = instance.to_string();
            known.instances.insert(member.clone(), instance);
        }
        let newer = if doubtful {
            known.stable_before(start)
        } else {
            known.stable_before(start).max(known.told_before(start))
        };
        let mut wrong = None;
        if let Some(newer) = newer.filter(|newer| *newer > generation) {
            wrong = Some(format!("generation {newer} was told before"));
        }
        if knows_all && !known.was_given(generation, &member, &told.assignment) {
            wrong = Some("no leader gave it that".to_owned());
        }
        known.stable.push((now, generation));
        // Its assignment is durable, and with it that it is the one. An old self's may be so too: of
        // the generation that comes back if its replacement is lost.
        for fenced in known.fenced.values_mut() {
            fenced.for_good |= fenced.by == member;
        }
        let identity = known.identity(&member);
        let owners = known.owners.entry(generation).or_default();
        if !told.assignment.is_empty()
            && let Ok(assignment) =
                ConsumerProtocolAssignment::read_lenient(told.assignment.clone())
        {
            for topic in &assignment.assigned_partitions {
                for partition in &topic.partitions {
                    let key = (topic.topic.to_string(), *partition);
                    let before = owners.insert(key, identity.clone());
                    if let Some(before) = before.filter(|before| *before != identity) {
                        wrong = Some(format!(
                            "{}-{partition} was {before}'s in the same generation",
                            topic.topic
                        ));
                    }
                }
            }
        }
        if let Some(why) = wrong {
            let detail = format!(
                "{group}: {member:?} is given an assignment in generation {generation}, and {why}"
            );
            self.violate_in(&group, Check::OnePartitionOneOwnerPerGeneration, detail);
        }
    }

    pub(super) fn judge_heartbeat(
        &mut self,
        exchange: &Exchange,
        asked: &HeartbeatRequest,
        error: ErrorCode,
    ) {
        let group = asked.group_id.to_string();
        if !self.groups.is_current(&group, exchange) {
            return;
        }
        let Some(start) = exchange.first_since else {
            return;
        };
        let (now, doubtful) = (self.now, self.groups.is_doubtful);
        match error {
            // While the groups are being read, every heartbeat is good.
            ErrorCode::NONE if doubtful => {}
            ErrorCode::NONE => {
                let known = self.groups.classic.get(&group);
                if known.is_none_or(|known| known.told_before(start).is_none()) {
                    return;
                }
                self.check_self(exchange, &group, &asked.member_id, "its heartbeat is taken");
                let Some(known) = self.groups.classic.get(&group) else {
                    return;
                };
                let newer = known.told_before(start);
                if let Some(newer) = newer.filter(|newer| *newer > asked.generation_id) {
                    let detail = format!(
                        "{group}: a heartbeat of {:?} in generation {} is taken, and generation \
                         {newer} was told before",
                        asked.member_id, asked.generation_id
                    );
                    self.violate_in(&group, Check::GenerationMonotonic, detail);
                }
            }
            ErrorCode::REBALANCE_IN_PROGRESS => {
                if let Some(known) = self.groups.classic.get_mut(&group) {
                    known.ended.push((now, asked.generation_id));
                }
            }
            ErrorCode::FENCED_INSTANCE_ID => self.mark(Mark::StaticMemberFenced),
            _ => {}
        }
    }

    pub(super) fn judge_leave(
        &mut self,
        exchange: &Exchange,
        version: i16,
        asked: &LeaveGroupRequest,
        told: &LeaveGroupResponse,
    ) {
        let group = asked.group_id.to_string();
        if told.error_code.is_error() || !self.groups.is_current(&group, exchange) {
            return;
        }
        let now = self.now;
        let Some(known) = self.groups.classic.get_mut(&group) else {
            return;
        };
        let gone: Vec<String> = if version < 3 {
            vec![asked.member_id.to_string()]
        } else {
            let members = told.members.iter();
            members
                .filter(|member| !member.error_code.is_error())
                .map(|member| member.member_id.to_string())
                .collect()
        };
        let by_instance = gone.iter().any(String::is_empty);
        let any = !gone.is_empty();
        let gone = gone.into_iter().filter(|member| !member.is_empty());
        known.left.extend(gone.map(|member| (member, now)));
        if any {
            self.mark(Mark::MemberLeft);
        }
        if by_instance {
            self.mark(Mark::MemberRemoved);
        }
    }

    /// A commit was taken: whoever made it must have been somebody then.
    pub(super) fn check_committer(&mut self, exchange: &Exchange, asked: &OffsetCommitRequest) {
        let group = asked.group_id.to_string();
        self.check_mixed_committer(exchange, asked);
        if !self.groups.is_current(&group, exchange) {
            return;
        }
        let Some(start) = exchange.first_since else {
            return;
        };
        let member = asked.member_id.to_string();
        let epoch = asked.generation_id_or_member_epoch;
        self.check_self(exchange, &group, &member, "its commit is taken");
        let doubtful = self.groups.is_doubtful;
        let mut wrong = None;
        if let Some(known) = self.groups.classic.get(&group) {
            let newer = if doubtful {
                known.stable_before(start)
            } else {
                known.stable_before(start).max(known.told_before(start))
            };
            if epoch >= 0
                && let Some(newer) = newer.filter(|newer| *newer > epoch)
            {
                wrong = Some(format!("generation {newer} was told before"));
            }
            let left = known.left.get(&member).filter(|at| **at < start);
            if let Some(at) = left.filter(|_| epoch >= 0 && !doubtful) {
                wrong = Some(format!("it left at {at}"));
            }
            // Without a generation everybody may commit, whatever they call themselves, while nobody is
            // in the group.
            let mut present = known.present.iter();
            let there = present.find(|there| there.since < start && start < there.until);
            if epoch < 0
                && (member.is_empty() || left.is_some())
                && !doubtful
                && let Some(there) = there
            {
                wrong = Some(format!("{:?} is a member then", there.member));
            }
        }
        if let Some(known) = self.groups.consumer.get(&group) {
            wrong = wrong.or_else(|| known.why_not(&member, epoch, start));
        }
        if let Some(why) = wrong {
            let detail = format!(
                "{group}: a commit of {member:?} in generation or epoch {epoch} is taken, and {why}"
            );
            self.violate_in(&group, Check::StaleCommitRejected, detail);
        }
    }

    /// Something of a member was accepted: it must not be a static member's old self.
    fn check_self(&mut self, exchange: &Exchange, group: &str, member: &str, what: &str) {
        let Some(start) = exchange.first_since else {
            return;
        };
        let doubtful = self.groups.is_doubtful;
        let known = self.groups.classic.get(group);
        let fenced = known.and_then(|known| known.fenced.get(member));
        let fenced = fenced.filter(|fenced| fenced.since < start);
        if let Some(fenced) = fenced.filter(|fenced| fenced.for_good || !doubtful) {
            let detail = format!(
                "{group}: {member:?} was replaced by {:?} at {}, and {what}",
                fenced.by, fenced.since
            );
            self.violate_in(group, Check::StaticMemberFenced, detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids<const N: usize>(ids: [&str; N]) -> BTreeSet<String> {
        ids.map(str::to_owned).into()
    }

    /// A static member's answer was lost, and a leader of an old version gave its old self something.
    #[test]
    fn an_id_that_nobody_was_told_may_be_a_static_members_old_self() {
        let mut known = Classic::default();
        known.instances.insert("new".into(), "i".into());
        known.dynamic.insert("leader".into());
        let (mine, other) = (Bytes::from_static(b"mine"), Bytes::from_static(b"other"));
        let given = [("lost", &mine), ("leader", &other)];
        let given = given.map(|(id, bytes)| (id.to_owned(), bytes.clone()));
        known.given.insert(3, vec![given.into()]);
        assert!(known.was_given(3, "new", &mine));
        assert!(!known.was_given(3, "new", &other), "it is the leader's");
        assert!(!known.was_given(3, "stranger", &mine), "not a static one");
        known.dynamic.insert("lost".into());
        assert!(!known.was_given(3, "new", &mine), "it is somebody else's");
    }

    #[test]
    fn a_generation_has_the_same_members_under_other_ids() {
        let mut known = Classic::default();
        for (id, instance) in [("new", "i"), ("old", "i"), ("other", "j")] {
            known.instances.insert(id.into(), instance.into());
        }
        known.dynamic.extend(["leader".into(), "one".into()]);
        let roster = ids(["leader", "new"]);
        for same in [["leader", "new"], ["leader", "old"], ["leader", "lost"]] {
            assert!(known.may_be_same(&ids(same), &roster), "{same:?}");
            assert!(known.may_be_same(&roster, &ids(same)), "{same:?}");
        }
        for another in [["leader", "one"], ["leader", "other"], ["one", "new"]] {
            assert!(!known.may_be_same(&ids(another), &roster), "{another:?}");
        }
        assert!(!known.may_be_same(&ids(["leader"]), &roster));
        assert!(!known.may_be_same(&ids(["lost"]), &ids(["one"])));
    }
}
