//! Groups that the broker assigns for (KIP-848): LegalTargetAssignment, NoDoubleAssignment,
//! MemberEpochValid, and who may commit there.

use std::collections::{BTreeMap, BTreeSet};

use odradek_core::ids::TopicId;
use odradek_core::time::Mono;
use odradek_core::wire::ErrorCode;
use odradek_core::wire::messages::consumer_group_describe::{
    Assignment, ConsumerGroupDescribeResponse, DescribedGroup,
};
use odradek_core::wire::messages::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions,
};

use super::super::connections::Exchange;
use super::super::{Check, Mark, Oracle};
use super::commits::By;
use crate::workload::consumer_member::EXPRESSIONS;

/// Deadlines of members are not judged closer than this.
const SLACK_MS: u64 = 50;

type Owned = BTreeSet<(TopicId, i32)>;

/// What was seen of a group. All of it is durable.
#[derive(Clone, Debug, Default)]
pub(super) struct Consumer {
    members: BTreeMap<String, Member>,
    /// Who is a static member's latest self, and since when that is known.
    holders: BTreeMap<String, (String, Mono)>,
}

/// What was seen of a member.
#[derive(Clone, Debug, Default)]
struct Member {
    /// The epochs it was told, each once, and when for the first time.
    epochs: Vec<(Mono, i32)>,
    /// What it may own: what it was told to take, and has not said that it has given up. Whoever says
    /// that it owns something else is no proof that the broker gave it that: zombies lie.
    owns: Owned,
    /// What it was told last.
    told: Owned,
    /// Whether `owns` is all that the broker may take for its own. If not, it may be told to keep less
    /// than it has, and nobody here sees that it is to give something up.
    is_whole: bool,
    /// Since when it is to give something up, at the earliest.
    revokes_since: Option<Mono>,
    /// The first of its heartbeats without an answer since it was last told what to own.
    unheard_since: Option<Mono>,
    /// It says that it has given up what it was told to.
    gave_up: bool,
    /// It said, after an answer that was lost, that it does not have all that it was told to take. If it
    /// is to give that up, the broker may not have been waiting to hear so yet, and wait still.
    lacks_some: bool,
    instance_id: Option<String>,
    rebalance_timeout_ms: i32,
    /// Its latest heartbeat.
    came_by: Option<By>,
    /// When its latest heartbeat began that was taken.
    lived: Option<Mono>,
    /// When it was last told that it is no member, or had left.
    out_since: Option<Mono>,
    /// When it last asked to join.
    joined: Mono,
    /// When that was answered, if it did not leave since.
    in_since: Option<Mono>,
}

impl Member {
    /// The last epoch it was told before an instant, and the one before that.
    fn epochs_before(&self, instant: Mono) -> (Option<i32>, Option<i32>) {
        let mut known = self.epochs.iter().rev().filter(|(at, _)| *at < instant);
        let last = known.next().map(|(_, epoch)| *epoch);
        (last, known.next().map(|(_, epoch)| *epoch))
    }

    /// Whether it is a member for sure at an instant, and has what it may own.
    fn is_there(&self, at: Mono, session_ms: u64) -> bool {
        let until = |since: Mono, ms: u64| since.plus_ms(ms.saturating_sub(SLACK_MS));
        let rebalance_ms = u64::try_from(self.rebalance_timeout_ms).unwrap_or(0);
        let in_time =
            |since: Option<Mono>| since.is_none_or(|since| at < until(since, rebalance_ms));
        self.lived
            .is_some_and(|lived| at < until(lived, session_ms))
            && in_time(self.revokes_since)
            && in_time(self.unheard_since)
    }

    /// It owns nothing any more.
    fn drop_all(&mut self) {
        self.owns.clear();
        self.told.clear();
        self.revokes_since = None;
        self.unheard_since = None;
        self.gave_up = false;
        self.lacks_some = false;
        self.is_whole = false;
        self.lived = None;
        self.in_since = None;
    }
}

/// What the members of a group ever subscribed to, whatever became of the group: one that is still
/// there need not say it again.
#[derive(Clone, Debug, Default)]
pub(super) struct Subscriptions {
    of_member: BTreeMap<String, Subscription>,
    /// A static member's new self takes over what it does not say anew of what its old self said; and
    /// in version 0 it cannot say anything of an expression.
    of_instance: BTreeMap<String, Subscription>,
    /// Which instance a member is of.
    instances: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default)]
struct Subscription {
    names: BTreeSet<String>,
    expressions: BTreeSet<String>,
}

impl Subscriptions {
    /// A member says something of itself, or nothing.
    pub(super) fn hear(&mut self, member: &str, beat: &ConsumerGroupHeartbeatRequest) {
        if let Some(instance) = &beat.instance_id {
            let instance = instance.to_string();
            self.instances.insert(member.to_owned(), instance.clone());
            self.of_instance.entry(instance).or_default().hear(beat);
        }
        let of_member = self.of_member.entry(member.to_owned());
        of_member.or_default().hear(beat);
    }

    fn has(&self, member: &str, topic: &str) -> bool {
        let instance = self.instances.get(member);
        let inherited = instance.and_then(|instance| self.of_instance.get(instance));
        let own = self.of_member.get(member);
        own.into_iter().chain(inherited).any(|said| said.has(topic))
    }
}

impl Subscription {
    fn hear(&mut self, beat: &ConsumerGroupHeartbeatRequest) {
        let names = beat.subscribed_topic_names.iter().flatten();
        self.names.extend(names.map(ToString::to_string));
        let expression = beat.subscribed_topic_regex.as_ref();
        self.expressions.extend(expression.map(ToString::to_string));
    }

    fn has(&self, topic: &str) -> bool {
        let mut expressions = self.expressions.iter();
        self.names.contains(topic) || expressions.any(|expression| matches(expression, topic))
    }
}

impl Consumer {
    /// A heartbeat reached the broker: from now on it may have taken effect.
    pub(super) fn beat_came(&mut self, by: By, now: Mono, beat: &ConsumerGroupHeartbeatRequest) {
        if beat.member_id.is_empty() {
            return;
        }
        let member = self.members.entry(beat.member_id.to_string()).or_default();
        member.came_by = Some(by);
        if beat.member_epoch <= 0 {
            member.drop_all();
        }
        if beat.member_epoch == 0 {
            member.joined = now;
        }
        if let Some(owned) = &beat.topic_partitions {
            let says = owned.iter();
            let says = says.flat_map(|topic| topic.partitions.iter().map(|p| (topic.topic_id, *p)));
            let says: Owned = says.collect();
            if member.unheard_since.is_some() {
                // The answer that was lost may have told it to give up what it does not have.
                let has = &member.told & &says;
                member.lacks_some |= has != member.told;
                member.told = has;
            }
            let (owns, told) = (&member.owns, &member.told);
            // It may not have taken everything yet of what it was told.
            member.owns = owns & &(&says | told);
            member.gave_up = member.owns.is_subset(told);
        }
        member.hear(beat);
    }

    /// A heartbeat that began at `since` ended without an answer; others may have come after it.
    pub(super) fn beat_lost(&mut self, since: Mono, beat: &ConsumerGroupHeartbeatRequest) {
        if let Some(member) = self.members.get_mut(beat.member_id.as_str()) {
            let before = member.unheard_since.unwrap_or(since);
            member.unheard_since = Some(before.min(since));
        }
    }

    /// Somebody of the classic protocol comes in the place of these.
    pub(super) fn replaced(&mut self, member: &str, instance: Option<&str>) {
        for (id, known) in &mut self.members {
            let is_instance = instance.is_some() && known.instance_id.as_deref() == instance;
            if id == member || is_instance {
                known.drop_all();
            }
        }
    }

    /// Who has a partition for sure.
    pub(super) fn owner_of(
        &self,
        partition: (TopicId, i32),
        at: Mono,
        session_ms: u64,
    ) -> Option<&str> {
        let mut members = self.members.iter();
        let owner = members.find(|(_, member)| {
            member.owns.contains(&partition) && member.is_there(at, session_ms)
        });
        owner.map(|(id, _)| id.as_str())
    }

    /// Who is in for sure at an instant, and since when without a break.
    pub(super) fn in_since(&self, at: Mono, session_ms: u64) -> Vec<(String, Mono)> {
        let there = self.members.iter();
        let there = there.filter(|(_, member)| member.is_there(at, session_ms));
        let since = there.filter_map(|(id, member)| Some((id.clone(), member.in_since?)));
        since.collect()
    }

    /// Why a commit must not be taken.
    pub(super) fn why_not(&self, member: &str, epoch: i32, start: Mono) -> Option<String> {
        let known = self.members.get(member)?;
        let (last, _) = known.epochs_before(start);
        if let Some(last) = last.filter(|last| epoch >= 0 && *last > epoch) {
            return Some(format!("it was told epoch {last} before"));
        }
        let out = known
            .out_since
            .filter(|at| *at < start && known.joined <= *at);
        out.map(|at| format!("it is no member since {at}"))
    }
}

impl Member {
    fn hear(&mut self, beat: &ConsumerGroupHeartbeatRequest) {
        if beat.rebalance_timeout_ms >= 0 {
            self.rebalance_timeout_ms = beat.rebalance_timeout_ms;
        }
        if let Some(instance_id) = &beat.instance_id {
            self.instance_id = Some(instance_id.to_string());
        }
    }
}

fn owned_of(topics: &[TopicPartitions]) -> Owned {
    let topics = topics.iter();
    topics
        .flat_map(|topic| topic.partitions.iter().map(|p| (topic.topic_id, *p)))
        .collect()
}

/// Whether an expression of the workload matches a whole name: said once more, apart from the
/// broker's engine.
fn matches(expression: &str, topic: &str) -> bool {
    match expression {
        "topic.*" => topic.starts_with("topic"),
        "topic[01]" => matches!(topic, "topic0" | "topic1"),
        ".*" => true,
        "made.*|topic0" => topic.starts_with("made") || topic == "topic0",
        _ => false,
    }
}

impl Oracle {
    pub(super) fn judge_beat(
        &mut self,
        exchange: &Exchange,
        asked: &ConsumerGroupHeartbeatRequest,
        told: &ConsumerGroupHeartbeatResponse,
    ) {
        let group = asked.group_id.to_string();
        let (now, joins) = (self.now, asked.member_epoch == 0);
        let is_in = joins && !told.error_code.is_error();
        if is_in && self.groups.classic.remove(&group).is_some() {
            // Nobody was in it, and it is no classic group any more.
            self.mark(Mark::ProtocolChanged);
        }
        let id = match &told.member_id {
            Some(id) if !told.error_code.is_error() => id.to_string(),
            _ => asked.member_id.to_string(),
        };
        if asked.member_id.is_empty() && !told.error_code.is_error() {
            let subscriptions = self.groups.subscriptions.entry(group.clone());
            subscriptions.or_default().hear(&id, asked);
        }
        if !self.groups.is_current(&group, exchange) {
            return;
        }
        let Some(start) = exchange.first_since else {
            return;
        };
        // Nor what it has, if somebody of the classic protocol came in its place before it was answered.
        let mixed = self.groups.mixed.get(&group);
        let was_replaced =
            mixed.is_some_and(|mixed| mixed.was_replaced(start, &id, asked.instance_id.as_deref()));
        let known = self.groups.consumer.entry(group.clone()).or_default();
        let member = known.members.entry(id.clone()).or_default();
        // Many may come at one instant, as when a process goes on after a pause.
        let request = exchange.request.as_ref();
        let by = request.map(|request| (exchange.connection, request.header.correlation_id));
        let is_latest = asked.member_id.is_empty() || member.came_by == by;
        match told.error_code {
            ErrorCode::NONE => {}
            ErrorCode::UNKNOWN_MEMBER_ID => {
                if is_latest {
                    member.drop_all();
                }
                member.out_since = Some(now);
                return self.mark(Mark::MemberEpochFenced);
            }
            // That may have been a zombie of it: who it is and what it has stays as it was.
            ErrorCode::FENCED_MEMBER_EPOCH => return self.mark(Mark::MemberEpochFenced),
            // It may be durable nevertheless that it is to give something up.
            ErrorCode::COORDINATOR_NOT_AVAILABLE => {
                member.unheard_since.get_or_insert(start);
                return;
            }
            ErrorCode::FENCED_INSTANCE_ID => return self.mark(Mark::StaticMemberFenced),
            ErrorCode::INVALID_REGULAR_EXPRESSION => {
                return self.mark(Mark::ExpressionRefused);
            }
            _ => return,
        }
        if asked.member_epoch < 0 {
            member.out_since = Some(now);
            return self.mark(Mark::MemberLeft);
        }
        let mut wrong = Vec::new();
        if asked.subscribed_topic_regex.as_deref() == EXPRESSIONS.last().copied() {
            let why = "an expression is taken that is none".to_owned();
            wrong.push((Check::LegalTargetAssignment, why));
        }
        if asked.member_id.is_empty() {
            // Only now is it known who asked.
            member.hear(asked);
            member.joined = exchange.arrived;
        }
        let (last, before_last) = member.epochs_before(start);
        let epoch = asked.member_epoch;
        if epoch > 0 {
            let is_old = before_last.is_some_and(|old| epoch < old);
            let is_behind = before_last == Some(epoch)
                && last != Some(epoch)
                && asked.topic_partitions.is_none();
            if is_old || is_behind {
                let why = format!("its epoch {epoch} is taken, and it was told {last:?} before");
                wrong.push((Check::MemberEpochValid, why));
            }
        }
        if let Some(last) = last.filter(|last| told.member_epoch < *last) {
            let why = format!(
                "it is told epoch {}, and was told {last}",
                told.member_epoch
            );
            wrong.push((Check::MemberEpochValid, why));
        }
        if member
            .epochs
            .last()
            .is_none_or(|(_, epoch)| *epoch != told.member_epoch)
        {
            member.epochs.push((now, told.member_epoch));
        }
        if let Some(instance) = &asked.instance_id {
            let instance = instance.to_string();
            let holder = known.holders.get(&instance).cloned();
            let since = member.joined;
            if let Some((holder, at)) =
                holder.filter(|(holder, at)| *holder != id && *at < start && epoch > 0)
                && since < at
            {
                let why = format!("{holder:?} has taken its place at {at}");
                wrong.push((Check::StaticMemberFenced, why));
            }
            if joins {
                known.holders.insert(instance, (id.clone(), now));
            }
        }
        // An answer to an earlier heartbeat, on another connection, does not say what it has now.
        if is_latest && !was_replaced {
            // Only now is it sure that the broker has heard of it in time.
            if std::mem::take(&mut member.gave_up) {
                member.revokes_since = None;
            }
            if let Some(assignment) = &told.assignment {
                let given = owned_of(&assignment.topic_partitions);
                // What it is told of now may have been decided when it could not hear it.
                let since = member.unheard_since.unwrap_or(start);
                let was_whole = std::mem::replace(&mut member.is_whole, true);
                member.unheard_since = if std::mem::take(&mut member.lacks_some) && !joins {
                    Some(since)
                } else {
                    (!was_whole && !joins).then_some(start)
                };
                member.owns.extend(given.iter().copied());
                member.told.clone_from(&given);
                if member.owns.is_subset(&member.told) {
                    member.revokes_since = None;
                } else {
                    member.revokes_since.get_or_insert(since);
                }
            }
            member.lived = Some(start);
            if joins {
                member.in_since = Some(now);
            }
            let given = member.told.clone();
            wrong.extend(self.why_not_given(&group, &id, &given, start));
        } else {
            // It may be about what to give up, and whoever reads it may do so.
            if let Some(assignment) = &told.assignment {
                let keeps = owned_of(&assignment.topic_partitions);
                member.told.retain(|partition| keeps.contains(partition));
            }
            member.unheard_since.get_or_insert(start);
        }
        if epoch == 0 {
            self.mark(Mark::ConsumerJoined);
        }
        for (check, why) in wrong {
            self.violate_in(&group, check, format!("{group}: {id:?}: {why}"));
        }
    }

    /// What is wrong with what a member was given.
    fn why_not_given(
        &self,
        group: &str,
        id: &str,
        given: &Owned,
        at: Mono,
    ) -> Vec<(Check, String)> {
        let mut wrong = Vec::new();
        let Some(known) = self.groups.consumer.get(group) else {
            return wrong;
        };
        let session_ms = self.groups.config.consumer_session_timeout_ms;
        for (topic, partition) in given {
            let name = self.topic_ids.get(topic).cloned();
            for (other, member) in known.members.iter().filter(|(other, _)| *other != id) {
                if member.owns.contains(&(*topic, *partition)) && member.is_there(at, session_ms) {
                    let why = format!(
                        "it is given {name:?}-{partition}, which {other:?} has not given up, whose last \
                         heartbeat that was taken began at {:?}, in epoch {:?}",
                        member.lived,
                        member.epochs.last()
                    );
                    wrong.push((Check::NoDoubleAssignment, why));
                }
            }
            let Some(name) = name else {
                continue;
            };
            let subscriptions = self.groups.subscriptions.get(group);
            if !subscriptions.is_some_and(|all| all.has(id, &name)) {
                let why = format!("it is given {name}-{partition}, and never subscribed to it");
                wrong.push((Check::LegalTargetAssignment, why));
            }
            if !self.may_exist(&name, *partition) {
                let why = format!("it is given {name}-{partition}, which is not there");
                wrong.push((Check::LegalTargetAssignment, why));
            }
        }
        wrong
    }

    /// Whether a topic may have this partition.
    fn may_exist(&self, topic: &str, partition: i32) -> bool {
        let most = self.groups.partitions.get(topic).copied().unwrap_or(1);
        (0..most.max(1)).contains(&partition)
    }

    /// A description is a picture of one instant.
    pub(super) fn judge_description(&mut self, told: &ConsumerGroupDescribeResponse) {
        for group in &told.groups {
            if !group.error_code.is_error() {
                self.judge_described(group);
            }
        }
    }

    fn judge_described(&mut self, group: &DescribedGroup) {
        let id = &group.group_id;
        let mut wrong = Vec::new();
        if group.assignment_epoch > group.group_epoch {
            let why = format!(
                "the assignment is for epoch {}, the group is in {}",
                group.assignment_epoch, group.group_epoch
            );
            wrong.push((Check::MemberEpochValid, why));
        }
        let mut owners: BTreeMap<(TopicId, i32), &str> = BTreeMap::new();
        let mut targets: BTreeMap<(TopicId, i32), &str> = BTreeMap::new();
        for member in &group.members {
            if member.member_epoch > group.group_epoch {
                let why = format!(
                    "{:?} is in epoch {}, the group in {}",
                    member.member_id, member.member_epoch, group.group_epoch
                );
                wrong.push((Check::MemberEpochValid, why));
            }
            for partition in each(&member.assignment) {
                if let Some(other) = owners.insert(partition, &member.member_id) {
                    let why = format!(
                        "{partition:?} is owned by {other:?} and by {:?}",
                        member.member_id
                    );
                    wrong.push((Check::NoDoubleAssignment, why));
                }
            }
            for topic in &member.target_assignment.topic_partitions {
                let name = topic.topic_name.as_str();
                let expression = member.subscribed_topic_regex.as_deref();
                let subscribed = member
                    .subscribed_topic_names
                    .iter()
                    .any(|n| n == &topic.topic_name)
                    || expression.is_some_and(|expression| matches(expression, name));
                if !subscribed {
                    let why = format!(
                        "{:?} shall own {name}, and does not subscribe to it",
                        member.member_id
                    );
                    wrong.push((Check::LegalTargetAssignment, why));
                }
                for partition in &topic.partitions {
                    if !self.may_exist(name, *partition) {
                        let why = format!("{name}-{partition} is to be owned, and is not there");
                        wrong.push((Check::LegalTargetAssignment, why));
                    }
                }
            }
            for partition in each(&member.target_assignment) {
                if let Some(other) = targets.insert(partition, &member.member_id) {
                    let why = format!(
                        "{partition:?} is to be owned by {other:?} and by {:?}",
                        member.member_id
                    );
                    wrong.push((Check::LegalTargetAssignment, why));
                }
            }
        }
        if group.group_state == "Stable" {
            if owners != targets {
                let why = "it is stable, and its members do not have what they shall".to_owned();
                wrong.push((Check::LegalTargetAssignment, why));
            }
            if group.members.len() > 1 {
                self.mark(Mark::ConsumersStable);
            }
        }
        for (check, why) in wrong {
            self.violate(check, format!("{id}: {why}"));
        }
    }
}

fn each(assignment: &Assignment) -> impl Iterator<Item = (TopicId, i32)> {
    let topics = assignment.topic_partitions.iter();
    topics.flat_map(|topic| topic.partitions.iter().map(|p| (topic.topic_id, *p)))
}

#[cfg(test)]
mod tests {
    use odradek_core::ids::ConnectionId;

    use super::*;

    const MINE: (TopicId, i32) = (TopicId::ZERO, 0);
    const NOW: Mono = Mono(1_000_000_000);

    fn owner() -> Consumer {
        let member = Member {
            owns: [MINE].into(),
            told: [MINE].into(),
            lived: Some(NOW),
            ..Member::default()
        };
        Consumer {
            members: [("owner".to_owned(), member)].into(),
            ..Consumer::default()
        }
    }

    fn says_that_it_owns_nothing() -> ConsumerGroupHeartbeatRequest {
        ConsumerGroupHeartbeatRequest {
            member_id: "owner".into(),
            member_epoch: 1,
            rebalance_timeout_ms: 10_000,
            topic_partitions: Some(Vec::new()),
            ..Default::default()
        }
    }

    #[test]
    fn who_was_told_to_take_something_may_not_have_it_yet() {
        let mut known = owner();
        known.beat_came((ConnectionId(1), 1), NOW, &says_that_it_owns_nothing());
        assert_eq!(known.owner_of(MINE, NOW, 1_000), Some("owner"));
    }

    /// Mixed 2084: told to give something up by the answer that was lost, it was out before it heard of it.
    #[test]
    fn what_was_lost_may_have_been_said_when_the_lost_heartbeat_came() {
        let mut known = owner();
        let beat = says_that_it_owns_nothing();
        known.beat_came((ConnectionId(1), 1), NOW, &beat);
        let later = NOW.plus_ms(200);
        known.beat_came((ConnectionId(2), 1), later, &beat);
        known.beat_lost(NOW, &beat);
        assert_eq!(known.members["owner"].unheard_since, Some(NOW));
    }

    /// The answer that was lost may have told it to give up what it does not have: then it has given it up,
    /// and another one may be told to take it.
    #[test]
    fn what_it_does_not_have_counts_where_an_answer_was_lost() {
        let mut known = owner();
        let beat = ConsumerGroupHeartbeatRequest {
            topic_partitions: None,
            ..says_that_it_owns_nothing()
        };
        known.beat_came((ConnectionId(1), 1), NOW, &beat);
        known.beat_lost(NOW, &beat);
        assert_eq!(known.owner_of(MINE, NOW, 1_000), Some("owner"));
        known.beat_came((ConnectionId(2), 1), NOW, &says_that_it_owns_nothing());
        assert_eq!(known.owner_of(MINE, NOW, 1_000), None);
    }
}
