//! A client that is in no group and has to do with all of them: it commits as a simple consumer does,
//! looks up and deletes offsets, describes, lists and deletes groups, and removes members. When faults
//! are over it watches until every group has come to rest with its living members only.

use bytes::Bytes;
use odradek_core::ids::ConnectionId;
use odradek_core::time::Mono;
use odradek_core::wire::messages::consumer_group_describe::ConsumerGroupDescribeRequest;
use odradek_core::wire::messages::delete_groups::DeleteGroupsRequest;
use odradek_core::wire::messages::describe_groups::DescribeGroupsRequest;
use odradek_core::wire::messages::leave_group::{LeaveGroupRequest, MemberIdentity};
use odradek_core::wire::messages::list_groups::ListGroupsRequest;
use odradek_core::wire::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use odradek_core::wire::{ApiKey, RequestBody, ResponseBody, Str};

use super::group_requests::{Who, commit, fetch_offsets, find_coordinator, is_found, version_from};
use super::pace::REST_WITHIN_NS;
use super::seen::{Restless, Seen};
use super::session::Session;
use super::{Client, ClientContext};
use crate::clock::MILLISECOND;
use crate::swarm::GroupMix;

/// Commits, asks, and cleans up.
#[derive(Debug)]
pub struct Committer {
    mix: GroupMix,
    session: Session,
    knows_coordinator: bool,
    commits: u64,
    /// A member id that a description has shown, with its group.
    seen_member: Option<(String, String)>,
    finishing_since: Option<Mono>,
    last_look: LastLook,
    complained: bool,
    timer_is_set: bool,
}

/// What the last look at all groups came to.
#[derive(Clone, Debug, Default)]
struct LastLook {
    classic: Option<Found>,
    consumer: Option<Found>,
}

/// What a description of all groups of a kind showed.
#[derive(Clone, Debug, Default)]
struct Found {
    /// A group that is not at rest, and its state.
    restless: Option<(String, String)>,
    /// A group and a member of it that no living client is.
    dead: Option<(String, String)>,
}

impl Committer {
    /// A committer of this mix.
    #[must_use]
    pub fn new(mix: &GroupMix) -> Self {
        Self {
            mix: mix.clone(),
            session: Session::default(),
            knows_coordinator: false,
            commits: 0,
            seen_member: None,
            finishing_since: None,
            last_look: LastLook::default(),
            complained: false,
            timer_is_set: false,
        }
    }

    fn schedule(&mut self, cx: &mut ClientContext<'_>) {
        if !self.timer_is_set {
            self.timer_is_set = true;
            let pause = match self.finishing_since {
                Some(since) => until_next_look(cx.now.mono.0 - since.0),
                None => cx.pause(self.mix.pause_ns),
            };
            cx.after(pause, 0);
        }
    }

    fn act(&mut self, cx: &mut ClientContext<'_>) {
        let groups = self.mix.all_groups();
        let group = self.mix.any_group(cx);
        if !self.knows_coordinator {
            return find_coordinator(&mut self.session, cx, &group);
        }
        if self.finishing_since.is_some() {
            return self.look(cx, &groups);
        }
        match cx.between(0, 99) {
            0..=34 => {
                let who = Who {
                    group,
                    epoch: -1,
                    ..Who::default()
                };
                let mut some = vec![cx.pick_partition()];
                if cx.chance(30_000) {
                    some.push(("topic0".to_owned(), 99));
                }
                commit(&mut self.session, cx, &who, &some, &mut self.commits, 2);
            }
            35..=64 => {
                let of = |group: &String| Who {
                    group: group.clone(),
                    epoch: -1,
                    ..Who::default()
                };
                let who: Vec<Who> = if cx.chance(300_000) {
                    groups.iter().map(of).collect()
                } else {
                    vec![of(&group)]
                };
                let one = [cx.pick_partition()];
                let some = cx.chance(400_000).then_some(&one[..]);
                fetch_offsets(&mut self.session, cx, &who, some);
            }
            65..=70 => {
                let (topic, partition) = cx.pick_partition();
                let body = OffsetDeleteRequest {
                    group_id: group.into(),
                    topics: vec![OffsetDeleteRequestTopic {
                        name: topic.into(),
                        partitions: vec![OffsetDeleteRequestPartition {
                            partition_index: partition,
                            ..Default::default()
                        }],
                        ..Default::default()
                    }],
                    ..Default::default()
                };
                self.ask(cx, body.into());
            }
            71..=78 => self.describe_classic(cx, &groups),
            79..=86 => self.describe_consumer(cx, &groups),
            87..=91 => {
                let version = Session::version(cx, ApiKey::ListGroups);
                let mut body = ListGroupsRequest::default();
                if version >= 4 && cx.chance(400_000) {
                    body.states_filter = vec!["Stable".into(), "empty".into()];
                }
                if version >= 5 && cx.chance(400_000) {
                    body.types_filter = vec!["consumer".into()];
                }
                self.session.request(cx, version, body.into(), 0, true);
            }
            92..=95 => {
                let body = DeleteGroupsRequest {
                    groups_names: vec![group.into()],
                    ..Default::default()
                };
                self.ask(cx, body.into());
            }
            _ => self.remove_member(cx, group),
        }
    }

    fn ask(&mut self, cx: &mut ClientContext<'_>, body: RequestBody) {
        let api = odradek_core::wire::messages::Body::api(&body);
        let version = Session::version(cx, api);
        self.session.request(cx, version, body, 0, true);
    }

    /// As an administrator does: by a member id that was seen, or a static member by its instance.
    fn remove_member(&mut self, cx: &mut ClientContext<'_>, group: String) {
        let version = version_from(cx, ApiKey::LeaveGroup, 3);
        let seen = self.seen_member.take().filter(|_| cx.chance(600_000));
        let (group, member_id, instance_id) = match seen {
            Some((group, member_id)) => (group, member_id, None),
            None => (
                group,
                String::new(),
                Some(cx.pick(&["instance0", "instance1"])),
            ),
        };
        let body = LeaveGroupRequest {
            group_id: group.into(),
            members: vec![MemberIdentity {
                member_id: member_id.into(),
                group_instance_id: instance_id.map(Str::from),
                ..Default::default()
            }],
            ..Default::default()
        };
        self.session.request(cx, version, body.into(), 0, true);
    }

    fn describe_classic(&mut self, cx: &mut ClientContext<'_>, groups: &[String]) {
        let body = DescribeGroupsRequest {
            groups: groups.iter().map(|group| group.as_str().into()).collect(),
            ..Default::default()
        };
        self.ask(cx, body.into());
    }

    fn describe_consumer(&mut self, cx: &mut ClientContext<'_>, groups: &[String]) {
        let body = ConsumerGroupDescribeRequest {
            group_ids: groups.iter().map(|group| group.as_str().into()).collect(),
            ..Default::default()
        };
        self.ask(cx, body.into());
    }

    /// One more look, at the groups of one kind.
    fn look(&mut self, cx: &mut ClientContext<'_>, groups: &[String]) {
        if self.last_look.classic.is_none() {
            self.describe_classic(cx, groups);
        } else if self.last_look.consumer.is_none() {
            self.describe_consumer(cx, groups);
        } else if !self.is_idle() {
            self.last_look = LastLook::default();
            self.describe_classic(cx, groups);
        }
    }

    /// Tells once which group does not come to rest.
    fn complain(&mut self, cx: &mut ClientContext<'_>) {
        let late = self
            .finishing_since
            .is_some_and(|since| cx.now.mono.0 > since.0 + REST_WITHIN_NS);
        if !late || self.complained || self.is_idle() {
            return;
        }
        let found = [&self.last_look.classic, &self.last_look.consumer];
        for found in found.into_iter().flatten() {
            let restless = found.restless.clone().map(|found| (found, false));
            let dead = found.dead.clone().map(|found| (found, true));
            if let Some(((group, what), is_about_the_dead)) = dead.or(restless) {
                self.complained = true;
                cx.saw.push(Seen::Restless(Restless {
                    group,
                    is_about_the_dead,
                    what,
                }));
                return;
            }
        }
    }
}

/// The pause after a look, so long after the end of all faults: the longer it has taken the less often
/// it looks, so that a group that never comes to rest takes few looks; and once it is too late, at once.
fn until_next_look(passed_ns: u64) -> u64 {
    let shortest_ns = 50 * MILLISECOND;
    match (REST_WITHIN_NS + MILLISECOND).checked_sub(passed_ns) {
        Some(left_ns) if left_ns > 0 => (passed_ns / 2).max(shortest_ns).min(left_ns),
        _ => shortest_ns,
    }
}

impl Found {
    fn add(&mut self, cx: &mut ClientContext<'_>, group: &str, state: &str, members: Vec<&Str>) {
        if !matches!(state, "Stable" | "Empty" | "Dead" | "") {
            self.restless = Some((group.to_owned(), format!("it is {state}")));
        }
        let mut members = members.into_iter();
        if let Some(dead) = members.find(|id| !cx.catalog.members.contains(id.as_str())) {
            self.dead = Some((group.to_owned(), format!("{dead:?} is a member")));
        }
    }
}

impl Client for Committer {
    fn start(&mut self, cx: &mut ClientContext<'_>) {
        self.schedule(cx);
    }

    fn timer(&mut self, _: u64, cx: &mut ClientContext<'_>) {
        self.timer_is_set = false;
        self.complain(cx);
        if self.session.in_flight() == 0 {
            self.act(cx);
        }
        if self.finishing_since.is_none() || !self.is_idle() {
            self.schedule(cx);
        }
    }

    fn bytes(&mut self, connection: ConnectionId, bytes: Bytes, cx: &mut ClientContext<'_>) {
        for answer in self.session.receive(cx, connection, &bytes) {
            match &answer.body {
                body @ ResponseBody::FindCoordinator(_) => self.knows_coordinator = is_found(body),
                ResponseBody::DescribeGroups(response) => {
                    let mut found = Found::default();
                    for group in &response.groups {
                        let members = group.members.iter().map(|member| &member.member_id);
                        let members: Vec<&Str> = members.collect();
                        if let Some(member) = members.first() {
                            self.seen_member =
                                Some((group.group_id.to_string(), member.to_string()));
                        }
                        if group.error_code.is_retriable() {
                            found.restless =
                                Some((group.group_id.to_string(), group.error_code.to_string()));
                        }
                        found.add(cx, &group.group_id, &group.group_state, members);
                    }
                    self.last_look.classic = Some(found);
                }
                ResponseBody::ConsumerGroupDescribe(response) => {
                    let mut found = Found::default();
                    for group in &response.groups {
                        let members = group.members.iter().map(|member| &member.member_id);
                        if group.error_code.is_retriable() {
                            found.restless =
                                Some((group.group_id.to_string(), group.error_code.to_string()));
                        }
                        found.add(cx, &group.group_id, &group.group_state, members.collect());
                    }
                    self.last_look.consumer = Some(found);
                }
                _ => {}
            }
        }
    }

    fn closed(&mut self, connection: ConnectionId, _: &mut ClientContext<'_>) {
        self.session.lost(connection);
    }

    fn finish(&mut self, cx: &mut ClientContext<'_>) {
        self.finishing_since = Some(cx.now.mono);
        self.last_look = LastLook::default();
        self.schedule(cx);
    }

    fn is_idle(&self) -> bool {
        let rests = |found: &Option<Found>| {
            let found = found.as_ref();
            found.is_some_and(|found| found.restless.is_none() && found.dead.is_none())
        };
        self.session.in_flight() == 0
            && rests(&self.last_look.classic)
            && rests(&self.last_look.consumer)
    }
}
