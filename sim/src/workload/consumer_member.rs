//! A member of a group that the broker assigns for (KIP-848), by raw frames. It joins by names or by
//! an expression, gives partitions up before it takes others, and commits; it also leaves, stalls,
//! dies without a word, and comes back as a zombie with an epoch of before.

use std::collections::BTreeSet;

use bytes::Bytes;
use odradek_core::ids::{ConnectionId, TopicId};
use odradek_core::wire::messages::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions,
};
use odradek_core::wire::{ErrorCode, ResponseBody, Str};

use super::group_requests::{
    Partition, Who, commit, fetch_offsets, find_coordinator, is_away, is_found,
};
use super::pace::Pace;
use super::seen::Seen;
use super::session::Session;
use super::{Client, ClientContext};
use crate::clock::MILLISECOND;
use crate::oracle::Mark;
use crate::swarm::GroupMix;

/// Expressions that members subscribe with. The last is none.
pub const EXPRESSIONS: &[&str] = &["topic.*", "topic[01]", ".*", "made.*|topic0", "topic("];

/// A partition by its topic's id.
type Owned = BTreeSet<(TopicId, i32)>;

/// Is a member of a consumer group.
#[derive(Debug)]
pub struct ConsumerMember {
    mix: GroupMix,
    who: Who,
    stage: Stage,
    names: Vec<String>,
    expression: Option<&'static str>,
    assignor: Option<&'static str>,
    rebalance_timeout_ms: i32,
    /// What it owns, and may still be giving up.
    owned: Owned,
    /// What it shall own.
    assigned: Owned,
    /// Its subscription has changed since the broker was told.
    is_news: bool,
    /// It owns something else than it told last.
    owns_news: bool,
    /// Heartbeats in a row with nothing new.
    beats: u32,
    past: Vec<Who>,
    session: Session,
    shadow: Session,
    lives: u32,
    commits: u64,
    pace: Pace,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It does not know the coordinator.
    Looking,
    /// It is to join.
    Out,
    /// It is a member.
    In,
}

impl ConsumerMember {
    /// A member of this mix.
    #[must_use]
    pub fn new(mix: &GroupMix) -> Self {
        Self {
            mix: mix.clone(),
            who: Who::default(),
            stage: Stage::Looking,
            names: Vec::new(),
            expression: None,
            assignor: None,
            rebalance_timeout_ms: 500,
            owned: Owned::new(),
            assigned: Owned::new(),
            is_news: false,
            owns_news: false,
            beats: 0,
            past: Vec::new(),
            session: Session::default(),
            shadow: Session::default(),
            lives: 0,
            commits: 0,
            pace: Pace::default(),
        }
    }

    fn schedule(&mut self, cx: &mut ClientContext<'_>) {
        let punctual_ns = 60 * MILLISECOND;
        self.pace.schedule(cx, self.mix.pause_ns, punctual_ns);
    }

    /// It owns nothing, and joins anew; with its id, if that is still its own.
    fn fall_out(&mut self, cx: &mut ClientContext<'_>) {
        cx.catalog.members.remove(&self.who.member_id);
        self.past.push(self.who.clone());
        self.who.epoch = 0;
        self.owned.clear();
        self.assigned.clear();
        self.beats = 0;
        self.stage = Stage::Out;
    }

    /// A new member begins.
    fn be_born(&mut self, cx: &mut ClientContext<'_>) {
        self.lives += 1;
        self.who.epoch = 0;
        // In version 0 the broker makes the id.
        self.who.member_id = if cx.chance(300_000) {
            String::new()
        } else {
            format!("member{}-{}", cx.client, self.lives)
        };
        self.rebalance_timeout_ms = cx.pick(&[200, 500, 1_000]);
        self.assignor = cx.pick(&[None, Some("uniform"), Some("range")]);
        self.subscribe(cx);
    }

    fn subscribe(&mut self, cx: &mut ClientContext<'_>) {
        self.expression = cx
            .chance(300_000)
            .then(|| cx.pick(&EXPRESSIONS[..EXPRESSIONS.len() - 1]));
        let all: Vec<String> = cx.catalog.topics.iter().map(|(t, _)| t.clone()).collect();
        self.names.clear();
        for topic in all {
            if cx.chance(700_000) {
                self.names.push(topic);
            }
        }
        if cx.chance(50_000) {
            self.names.push("nowhere".to_owned());
        }
        if self.names.is_empty() && self.expression.is_none() {
            self.names.push("topic0".to_owned());
        }
        self.is_news = true;
    }

    fn act(&mut self, cx: &mut ClientContext<'_>) {
        match self.stage {
            Stage::Looking => find_coordinator(&mut self.session, cx, &self.who.group),
            Stage::Out => self.heartbeat(cx),
            Stage::In => {
                // It takes a while until it has given up what it shall not own any more.
                if !self.owned.is_subset(&self.assigned)
                    && (self.pace.is_finishing() || cx.chance(600_000))
                {
                    self.owned = self.owned.intersection(&self.assigned).copied().collect();
                    self.owns_news = true;
                }
                if self.pace.is_finishing() {
                    return self.heartbeat(cx);
                }
                match cx.between(0, 99) {
                    0 | 1 => self.die(cx),
                    2 => {
                        let pause = cx.between(100, 1_200);
                        self.pace.be_quiet(cx, pause);
                    }
                    3 => self.leave(cx),
                    4..=6 => {
                        self.subscribe(cx);
                        self.heartbeat(cx);
                    }
                    7..=26 => {
                        let some = self.some_owned(cx);
                        if some.is_empty() {
                            return self.heartbeat(cx);
                        }
                        let least = if cx.chance(50_000) { 2 } else { 9 };
                        let who = self.who.clone();
                        commit(&mut self.session, cx, &who, &some, &mut self.commits, least);
                    }
                    27..=32 => {
                        let some = self.some_owned(cx);
                        let who = [self.who.clone()];
                        let some = Some(some).filter(|some| !some.is_empty());
                        fetch_offsets(&mut self.session, cx, &who, some.as_deref());
                    }
                    33 => {
                        let who = self.who.clone();
                        let mut body = self.beat(&who, true, false);
                        body.subscribed_topic_regex =
                            EXPRESSIONS.last().map(|expression| Str::from(*expression));
                        self.shadow.request(cx, 1, body.into(), 0, true);
                    }
                    _ => self.heartbeat(cx),
                }
            }
        }
    }

    /// What it owns, by name, as far as the names are known.
    fn some_owned(&self, cx: &mut ClientContext<'_>) -> Vec<Partition> {
        let owned: Vec<Partition> = self
            .owned
            .iter()
            .filter_map(|(id, partition)| {
                let mut known = cx.catalog.ids.iter();
                let (name, _) = known.find(|(_, known)| *known == id)?;
                Some((name.clone(), *partition))
            })
            .collect();
        let from = cx.between(0, owned.len() as u64) as usize;
        owned.into_iter().skip(from).collect()
    }

    fn die(&mut self, cx: &mut ClientContext<'_>) {
        if cx.chance(500_000) {
            self.session.vanish(cx);
        } else {
            self.session.close(cx);
        }
        self.fall_out(cx);
        self.be_born(cx);
        let pause = cx.between(0, 1_200);
        self.pace.be_quiet(cx, pause);
        cx.saw.push(Seen::Mark(Mark::MemberDied));
    }

    /// What it says of itself; `everything`, or only what has changed.
    fn beat(&self, who: &Who, everything: bool, says_owned: bool) -> ConsumerGroupHeartbeatRequest {
        let mut owned: Vec<TopicPartitions> = Vec::new();
        for (topic_id, partition) in &self.owned {
            match owned.iter_mut().find(|known| known.topic_id == *topic_id) {
                Some(known) => known.partitions.push(*partition),
                None => owned.push(TopicPartitions {
                    topic_id: *topic_id,
                    partitions: vec![*partition],
                    ..Default::default()
                }),
            }
        }
        ConsumerGroupHeartbeatRequest {
            group_id: who.group.as_str().into(),
            member_id: who.member_id.as_str().into(),
            member_epoch: who.epoch,
            instance_id: who.instance_id.as_deref().map(Str::from),
            rack_id: everything.then(|| "rack".into()),
            rebalance_timeout_ms: if everything {
                self.rebalance_timeout_ms
            } else {
                -1
            },
            subscribed_topic_names: everything
                .then(|| self.names.iter().map(|name| name.as_str().into()).collect()),
            subscribed_topic_regex: everything.then(|| self.expression.unwrap_or_default().into()),
            server_assignor: self.assignor.filter(|_| everything).map(Str::from),
            topic_partitions: says_owned.then_some(owned),
            ..Default::default()
        }
    }

    fn heartbeat(&mut self, cx: &mut ClientContext<'_>) {
        let joins = self.who.epoch == 0;
        if joins {
            self.owned.clear();
            self.assigned.clear();
        }
        let everything = joins || self.is_news || cx.chance(100_000);
        let says_owned = joins || everything || self.owns_news || cx.chance(200_000);
        // Only version 1 has the expression, only version 0 knows a member without an id.
        let version = if self.who.member_id.is_empty() {
            0
        } else if everything {
            1
        } else {
            cx.pick(&[0, 1])
        };
        let who = self.who.clone();
        let mut body = self.beat(&who, everything, says_owned);
        if version == 0 {
            body.subscribed_topic_regex = None;
        }
        self.is_news = false;
        self.owns_news = false;
        self.session.request(cx, version, body.into(), 0, true);
    }

    fn leave(&mut self, cx: &mut ClientContext<'_>) {
        let for_a_while = self.who.instance_id.is_some() && cx.chance(700_000);
        let body = ConsumerGroupHeartbeatRequest {
            group_id: self.who.group.as_str().into(),
            member_id: self.who.member_id.as_str().into(),
            instance_id: self.who.instance_id.as_deref().map(Str::from),
            member_epoch: if for_a_while { -2 } else { -1 },
            ..Default::default()
        };
        self.shadow.request(cx, 1, body.into(), 0, true);
        self.fall_out(cx);
        self.be_born(cx);
        let pause = cx.between(0, 500);
        self.pace.be_quiet(cx, pause);
    }

    fn answered(&mut self, cx: &mut ClientContext<'_>, response: &ConsumerGroupHeartbeatResponse) {
        match response.error_code {
            ErrorCode::NONE => {}
            ErrorCode::FENCED_MEMBER_EPOCH | ErrorCode::UNKNOWN_MEMBER_ID => {
                return self.fall_out(cx);
            }
            ErrorCode::UNRELEASED_INSTANCE_ID
            | ErrorCode::FENCED_INSTANCE_ID
            | ErrorCode::GROUP_ID_NOT_FOUND
            | ErrorCode::GROUP_MAX_SIZE_REACHED => {
                self.fall_out(cx);
                self.be_born(cx);
                self.pace.gave_up = self.pace.is_finishing();
                return self.pace.be_quiet(cx, 150);
            }
            error if is_away(error) => {
                self.stage = Stage::Looking;
                self.is_news = true;
                self.owns_news = true;
                return;
            }
            error => {
                return cx.complaints.push(format!(
                    "a member of {} is told {error:?}: {:?}",
                    self.who.group, response.error_message
                ));
            }
        }
        if let Some(member_id) = &response.member_id {
            self.who.member_id = member_id.to_string();
        }
        cx.catalog.members.insert(self.who.member_id.clone());
        if self.who.epoch != response.member_epoch {
            self.past.push(self.who.clone());
            self.who.epoch = response.member_epoch;
            self.beats = 0;
        }
        self.stage = Stage::In;
        if let Some(assignment) = &response.assignment {
            let topics = assignment.topic_partitions.iter();
            let assigned: Owned = topics
                .flat_map(|topic| topic.partitions.iter().map(|p| (topic.topic_id, *p)))
                .collect();
            if assigned != self.assigned {
                self.beats = 0;
                self.assigned = assigned;
            }
        }
        if self.owned.is_subset(&self.assigned) && self.owned != self.assigned {
            self.owned.clone_from(&self.assigned);
            self.owns_news = true;
        }
        self.beats += 1;
    }

    /// A zombie of it does something with an epoch of before.
    fn haunt(&mut self, cx: &mut ClientContext<'_>) {
        if self.past.is_empty() || self.shadow.in_flight() > 0 {
            return;
        }
        let which = cx.between(0, self.past.len() as u64 - 1) as usize;
        let who = self.past[which].clone();
        if cx.chance(600_000) {
            let one = [cx.pick_partition()];
            commit(&mut self.shadow, cx, &who, &one, &mut self.commits, 9);
        } else if who.epoch > 0 {
            let body = self.beat(&who, false, cx.chance(500_000));
            self.shadow.request(cx, 1, body.into(), 0, true);
        }
    }

    fn complain(&mut self, cx: &mut ClientContext<'_>) {
        if self.is_idle() {
            return;
        }
        self.pace.complain(cx, &self.who.group, || {
            format!(
                "member {:?} in epoch {} owns {} of the {} partitions it shall own",
                self.who.member_id,
                self.who.epoch,
                self.owned.intersection(&self.assigned).count(),
                self.assigned.len()
            )
        });
    }
}

impl Client for ConsumerMember {
    fn start(&mut self, cx: &mut ClientContext<'_>) {
        self.who.group = self.mix.consumer_group(cx);
        if cx.chance(self.mix.static_members.0) {
            self.who.instance_id = Some(format!("instance{}", cx.between(0, 1)));
        }
        self.be_born(cx);
        self.schedule(cx);
    }

    fn timer(&mut self, _: u64, cx: &mut ClientContext<'_>) {
        if !self.pace.timer_came() {
            return;
        }
        self.complain(cx);
        if !self.pace.is_finishing() && cx.chance(60_000) {
            self.haunt(cx);
        }
        if self.session.in_flight() > 0 {
            if !self.pace.is_finishing() && cx.chance(20_000) {
                self.session.vanish(cx);
                self.is_news = true;
                self.owns_news = true;
            }
        } else if self.pace.may_speak(cx) {
            self.act(cx);
        }
        self.schedule(cx);
    }

    fn bytes(&mut self, connection: ConnectionId, bytes: Bytes, cx: &mut ClientContext<'_>) {
        self.shadow.receive(cx, connection, &bytes);
        for answer in self.session.receive(cx, connection, &bytes) {
            match &answer.body {
                body @ ResponseBody::FindCoordinator(_)
                    if is_found(body) && self.stage == Stage::Looking =>
                {
                    let knows_epoch = self.who.epoch > 0;
                    self.stage = if knows_epoch { Stage::In } else { Stage::Out };
                }
                ResponseBody::ConsumerGroupHeartbeat(response) => self.answered(cx, response),
                _ => {}
            }
        }
    }

    fn closed(&mut self, connection: ConnectionId, _: &mut ClientContext<'_>) {
        self.shadow.lost(connection);
        if !self.session.lost(connection).is_empty() {
            self.is_news = true;
            self.owns_news = true;
        }
    }

    fn finish(&mut self, cx: &mut ClientContext<'_>) {
        self.pace.finish(cx);
        self.beats = 0;
        self.schedule(cx);
    }

    fn is_idle(&self) -> bool {
        self.pace.gave_up
            || (self.stage == Stage::In && self.beats >= 3 && self.owned == self.assigned)
    }
}
