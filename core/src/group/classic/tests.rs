//! Situations of a classic group.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;

use super::*;
use crate::time::Wall;

const SESSION_MS: u64 = 10_000;
const REBALANCE_MS: u64 = 60_000;

/// A group, a clock, and the answers that its members got.
struct Room {
    group: ClassicGroup,
    config: GroupConfig,
    now: Now,
    requests: u64,
    ids: u64,
    answers: BTreeMap<RequestId, Reply>,
    /// How often the group's record was to be appended.
    records: usize,
}

impl Room {
    fn new() -> Self {
        let now = Now {
            mono: Mono(0),
            wall: Wall(1_000),
        };
        Self {
            group: ClassicGroup::new(now),
            config: GroupConfig {
                initial_rebalance_delay_ms: 0,
                ..GroupConfig::default()
            },
            now,
            requests: 0,
            ids: 0,
            answers: BTreeMap::new(),
            records: 0,
        }
    }

    fn take(&mut self, out: Outcome) {
        self.records += usize::from(out.changed);
        self.answers.extend(out.answers);
        self.answers.extend(out.durable);
    }

    fn request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }

    fn join_as(&mut self, member_id: &str, edit: impl FnOnce(&mut Join)) -> RequestId {
        let request = self.request();
        self.ids += 1;
        let mut join = Join {
            request,
            member_id: member_id.into(),
            instance_id: None,
            client_id: "client".into(),
            client_host: "/host".into(),
            session_timeout_ms: SESSION_MS,
            rebalance_timeout_ms: REBALANCE_MS,
            protocol_type: "consumer".into(),
            protocols: vec![("range".into(), Bytes::from_static(b"topics"))],
            new_member_id: Str::from(alloc::format!("m{}", self.ids)),
            requires_known_member_id: false,
            may_skip_assignment: true,
        };
        edit(&mut join);
        let mut out = Outcome::default();
        self.group.join(self.now, &self.config, join, &mut out);
        self.take(out);
        request
    }

    fn join(&mut self, member_id: &str) -> RequestId {
        self.join_as(member_id, |_| {})
    }

    fn join_static(&mut self, member_id: &str, instance_id: &str) -> RequestId {
        self.join_as(member_id, |join| {
            join.instance_id = Some(instance_id.into())
        })
    }

    fn sync(
        &mut self,
        member_id: &str,
        generation_id: i32,
        assignments: &[(&str, &str)],
    ) -> RequestId {
        let request = self.request();
        let sync = Sync {
            request,
            member: member(member_id, generation_id),
            protocol_type: None,
            protocol_name: None,
            assignments: assignments
                .iter()
                .map(|(id, what)| (Str::from(*id), Bytes::copy_from_slice(what.as_bytes())))
                .collect(),
        };
        let mut out = Outcome::default();
        self.group.sync(self.now, &self.config, sync, &mut out);
        self.take(out);
        request
    }

    fn leave(&mut self, member_id: &str, instance_id: Option<&str>) -> Result<(), ErrorCode> {
        let mut out = Outcome::default();
        let leaving = [(Str::from(member_id), instance_id.map(Str::from))];
        let results = self.group.leave(self.now, &self.config, &leaving, &mut out);
        self.take(out);
        results[0]
    }

    fn heartbeat(&mut self, member_id: &str, generation_id: i32) -> Result<(), ErrorCode> {
        self.group
            .heartbeat(self.now, &member(member_id, generation_id))
    }

    /// Lets time pass, and does what is due on the way.
    fn advance(&mut self, ms: u64) {
        let end = self.now.mono.plus_ms(ms);
        while let Some(at) = self.group.next_deadline().filter(|at| *at <= end) {
            self.now.mono = at.max(self.now.mono);
            let mut out = Outcome::default();
            self.group.on_deadline(self.now, &self.config, &mut out);
            self.take(out);
        }
        self.now.mono = end;
    }

    fn joined(&mut self, request: RequestId) -> Option<JoinReply> {
        match self.answers.remove(&request)? {
            Reply::Join(reply) => Some(reply),
            Reply::Sync(reply) => panic!("{reply:?}"),
        }
    }

    fn synced(&mut self, request: RequestId) -> Option<Result<String, ErrorCode>> {
        match self.answers.remove(&request)? {
            Reply::Sync(reply) if reply.error.is_error() => Some(Err(reply.error)),
            Reply::Sync(reply) => Some(Ok(String::from_utf8(reply.assignment.to_vec()).unwrap())),
            Reply::Join(reply) => panic!("{reply:?}"),
        }
    }

    /// A stable group of `count` members, `m1` first, which leads.
    fn stable(count: u64) -> Self {
        let mut room = Self::new();
        room.config.initial_rebalance_delay_ms = 10;
        let joins: Vec<_> = (0..count).map(|_| room.join("")).collect();
        room.advance(20);
        for join in joins {
            assert_eq!(room.joined(join).unwrap().error, ErrorCode::NONE);
        }
        room.finish_sync(1);
        room
    }

    /// Everybody syncs; each is assigned its own id.
    fn finish_sync(&mut self, generation_id: i32) {
        let ids: Vec<String> = self.group.members.keys().map(ToString::to_string).collect();
        let assignments: Vec<(&str, &str)> =
            ids.iter().map(|id| (id.as_str(), id.as_str())).collect();
        for id in &ids {
            let request = self.sync(id, generation_id, &assignments);
            self.answers.remove(&request);
        }
        assert_eq!(self.group.state(), ClassicState::Stable);
    }
}

fn member(member_id: &str, generation_id: i32) -> MemberRef {
    MemberRef {
        member_id: member_id.into(),
        instance_id: None,
        generation_id,
    }
}

#[test]
fn two_members_join_and_the_leader_assigns() {
    let mut room = Room::new();
    room.config.initial_rebalance_delay_ms = 3_000;
    let first = room.join("");
    room.advance(1_000);
    let second = room.join("");
    room.advance(4_999);
    assert!(
        room.joined(first).is_none(),
        "the second prolonged the delay"
    );
    room.advance(1);
    let leader = room.joined(first).unwrap();
    assert_eq!(
        (leader.generation_id, &*leader.leader, &*leader.member_id),
        (1, "m1", "m1")
    );
    assert_eq!(leader.members.len(), 2);
    assert_eq!(leader.protocol_name, Some("range".into()));
    let follower = room.joined(second).unwrap();
    assert!(follower.members.is_empty());

    let waits = room.sync("m2", 1, &[]);
    assert!(
        room.synced(waits).is_none(),
        "the barrier holds until the leader comes"
    );
    assert_eq!(room.records, 0);
    let leads = room.sync("m1", 1, &[("m1", "a"), ("m2", "b"), ("stranger", "c")]);
    assert_eq!(room.synced(leads), Some(Ok("a".to_string())));
    assert_eq!(room.synced(waits), Some(Ok("b".to_string())));
    assert_eq!(room.records, 1);
    assert_eq!(room.heartbeat("m1", 1), Ok(()));
    assert_eq!(room.heartbeat("m1", 0), Err(ErrorCode::ILLEGAL_GENERATION));
    assert_eq!(room.heartbeat("m9", 1), Err(ErrorCode::UNKNOWN_MEMBER_ID));
}

#[test]
fn the_initial_delay_ends_though_members_keep_coming() {
    let mut room = Room::new();
    room.config.initial_rebalance_delay_ms = 3_000;
    let first = room.join("");
    for _ in 0..40 {
        room.advance(2_000);
        room.join("");
    }
    assert!(
        room.joined(first).is_some(),
        "not later than the rebalance timeout"
    );
}

#[test]
fn a_new_member_comes_back_with_the_id_it_was_given() {
    let mut room = Room::new();
    let first = room.join_as("", |join| join.requires_known_member_id = true);
    let refused = room.joined(first).unwrap();
    assert_eq!(refused.error, ErrorCode::MEMBER_ID_REQUIRED);
    let again = room.join(&refused.member_id);
    room.advance(1);
    assert_eq!(room.joined(again).unwrap().member_id, refused.member_id);
    let stranger = room.join("made up");
    assert_eq!(
        room.joined(stranger).unwrap().error,
        ErrorCode::UNKNOWN_MEMBER_ID
    );
}

#[test]
fn an_id_that_is_never_used_holds_up_a_rebalance_for_its_session_only() {
    let mut room = Room::stable(1);
    let asked = room.join_as("", |join| join.requires_known_member_id = true);
    assert_eq!(
        room.joined(asked).unwrap().error,
        ErrorCode::MEMBER_ID_REQUIRED
    );
    room.advance(SESSION_MS / 2);
    let rejoin = room.join("m1");
    assert!(room.joined(rejoin).is_none());
    room.advance(SESSION_MS / 2);
    assert_eq!(room.joined(rejoin).unwrap().generation_id, 2);
}

#[test]
fn a_member_joins_and_the_others_follow() {
    let mut room = Room::stable(2);
    let third = room.join("");
    assert_eq!(room.group.state(), ClassicState::PreparingRebalance);
    assert_eq!(
        room.heartbeat("m1", 1),
        Err(ErrorCode::REBALANCE_IN_PROGRESS)
    );
    let syncs = room.sync("m2", 1, &[]);
    assert_eq!(
        room.synced(syncs),
        Some(Err(ErrorCode::REBALANCE_IN_PROGRESS))
    );
    room.join("m1");
    assert!(room.joined(third).is_none());
    room.join("m2");
    let reply = room.joined(third).unwrap();
    assert_eq!((reply.generation_id, &*reply.leader), (2, "m1"));
}

#[test]
fn a_member_that_does_not_come_back_is_left_behind() {
    let mut room = Room::stable(3);
    let rejoin = room.join("m1");
    // Both others heartbeat, only one joins.
    for _ in 0..(REBALANCE_MS / 5_000) {
        room.advance(4_999);
        assert_eq!(
            room.heartbeat("m3", 1),
            Err(ErrorCode::REBALANCE_IN_PROGRESS)
        );
        if room.group.members.contains_key("m2") {
            room.join("m2");
        }
        room.advance(1);
    }
    let reply = room.joined(rejoin).unwrap();
    assert_eq!(reply.generation_id, 2);
    assert_eq!(reply.members.len(), 2);
    assert_eq!(room.heartbeat("m3", 1), Err(ErrorCode::UNKNOWN_MEMBER_ID));
}

#[test]
fn a_silent_member_is_given_up_and_the_group_rebalances() {
    let mut room = Room::stable(2);
    for _ in 0..4 {
        room.advance(SESSION_MS / 3);
        let beat = room.heartbeat("m1", 1);
        if beat == Err(ErrorCode::REBALANCE_IN_PROGRESS) {
            let rejoin = room.join("m1");
            let reply = room.joined(rejoin).unwrap();
            assert_eq!((reply.generation_id, reply.members.len()), (2, 1));
            return;
        }
        assert_eq!(beat, Ok(()));
    }
    panic!("m2 was never given up");
}

#[test]
fn the_last_member_leaves_an_empty_group_and_a_record() {
    let mut room = Room::stable(1);
    assert_eq!(room.leave("m1", None), Ok(()));
    assert_eq!(room.group.state(), ClassicState::Empty);
    assert_eq!(room.group.generation_id(), 2);
    assert_eq!(room.records, 2);
    assert_eq!(room.leave("m1", None), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(
        room.group.next_deadline(),
        None,
        "nothing is left to wait for"
    );
}

#[test]
fn a_leader_that_vanishes_before_it_syncs_is_replaced() {
    let mut room = Room::new();
    room.config.initial_rebalance_delay_ms = 10;
    let (first, second) = (room.join(""), room.join(""));
    room.advance(20);
    assert_eq!(&*room.joined(first).unwrap().leader, "m1");
    room.joined(second).unwrap();
    let waits = room.sync("m2", 1, &[]);
    room.advance(SESSION_MS);
    assert_eq!(
        room.synced(waits),
        Some(Err(ErrorCode::REBALANCE_IN_PROGRESS))
    );
    let rejoin = room.join("m2");
    let reply = room.joined(rejoin).unwrap();
    assert_eq!((&*reply.leader, reply.generation_id), ("m2", 2));
}

#[test]
fn a_member_that_heartbeats_and_never_syncs_is_given_up() {
    let mut room = Room::new();
    room.config.initial_rebalance_delay_ms = 10;
    let (first, second) = (room.join(""), room.join(""));
    room.advance(20);
    room.joined(first).unwrap();
    room.joined(second).unwrap();
    let leads = room.sync("m1", 1, &[("m1", "all")]);
    assert_eq!(room.synced(leads), Some(Ok("all".to_string())));
    for _ in 0..(REBALANCE_MS / 5_000) {
        room.advance(5_000);
        let _ = room.heartbeat("m1", 1);
        let _ = room.heartbeat("m2", 1);
    }
    assert!(!room.group.members.contains_key("m2"));
    assert_eq!(
        room.heartbeat("m1", 1),
        Err(ErrorCode::REBALANCE_IN_PROGRESS)
    );
}

#[test]
fn a_joiner_whose_connection_closed_holds_up_nobody_beyond_its_session() {
    let mut room = Room::new();
    room.config.initial_rebalance_delay_ms = 10;
    let first = room.join("");
    let second = room.join("");
    room.group.forget(room.now, second);
    room.advance(20);
    let reply = room.joined(first).unwrap();
    assert_eq!(reply.members.len(), 2, "it may yet come back with its id");
    let leads = room.sync("m1", 1, &[("m1", "a"), ("m2", "b")]);
    assert_eq!(room.synced(leads), Some(Ok("a".to_string())));
    room.advance(SESSION_MS / 2);
    assert_eq!(room.heartbeat("m1", 1), Ok(()));
    room.advance(SESSION_MS / 2);
    assert!(!room.group.members.contains_key("m2"));
    let rejoin = room.join("m1");
    assert_eq!(room.joined(rejoin).unwrap().members.len(), 1);
}

#[test]
fn the_protocol_that_all_offer_and_most_prefer_is_taken() {
    let mut room = Room::new();
    room.config.initial_rebalance_delay_ms = 10;
    let offer = |names: &'static [&'static str]| {
        move |join: &mut Join| {
            join.protocols = names
                .iter()
                .map(|name| (Str::from(*name), Bytes::new()))
                .collect();
        }
    };
    let first = room.join_as("", offer(&["range", "sticky", "own"]));
    room.join_as("", offer(&["sticky", "range"]));
    room.join_as("", offer(&["sticky", "range"]));
    let stranger = room.join_as("", offer(&["own"]));
    assert_eq!(
        room.joined(stranger).unwrap().error,
        ErrorCode::INCONSISTENT_GROUP_PROTOCOL
    );
    let other_type = room.join_as("", |join| join.protocol_type = "connect".into());
    assert_eq!(
        room.joined(other_type).unwrap().error,
        ErrorCode::INCONSISTENT_GROUP_PROTOCOL
    );
    room.advance(20);
    assert_eq!(
        room.joined(first).unwrap().protocol_name,
        Some("sticky".into())
    );
}

#[test]
fn a_static_member_that_comes_back_to_a_stable_group_disturbs_nobody() {
    let mut room = Room::new();
    room.config.initial_rebalance_delay_ms = 10;
    let (first, second) = (room.join_static("", "one"), room.join_static("", "two"));
    room.advance(20);
    room.joined(first).unwrap();
    room.joined(second).unwrap();
    room.finish_sync(1);
    let records = room.records;
    let back = room.join_static("", "two");
    let reply = room.joined(back).unwrap();
    assert_eq!((reply.error, reply.generation_id), (ErrorCode::NONE, 1));
    assert_eq!(&*reply.member_id, "m3");
    assert_eq!(room.group.state(), ClassicState::Stable);
    assert_eq!(room.records, records + 1, "its new id is stored");
    let synced = room.sync("m3", 1, &[]);
    assert_eq!(
        room.synced(synced),
        Some(Ok("m2".to_string())),
        "it keeps its assignment"
    );
    let zombie = MemberRef {
        instance_id: Some("two".into()),
        ..member("m2", 1)
    };
    assert_eq!(
        room.group.heartbeat(room.now, &zombie),
        Err(ErrorCode::FENCED_INSTANCE_ID)
    );
    assert_eq!(
        room.group.validate_commit(room.now, &zombie),
        Err(ErrorCode::FENCED_INSTANCE_ID)
    );

    // The leader too: told to skip its assignment.
    let back = room.join_static("", "one");
    let reply = room.joined(back).unwrap();
    assert!(reply.skip_assignment);
    assert_eq!((&*reply.leader, reply.members.len()), ("m4", 2));
    // Under an older version it believes that another leads.
    let back = room.join_as("", |join| {
        join.instance_id = Some("one".into());
        join.may_skip_assignment = false;
    });
    let reply = room.joined(back).unwrap();
    assert_eq!((&*reply.leader, &*reply.member_id), ("m4", "m5"));
    assert!(!reply.skip_assignment && reply.members.is_empty());
}

#[test]
fn a_static_member_is_replaced_while_members_join_and_while_they_sync() {
    let mut room = Room::new();
    room.config.initial_rebalance_delay_ms = 10;
    let first = room.join_static("", "one");
    let again = room.join_static("", "one");
    assert_eq!(
        room.joined(first).unwrap().error,
        ErrorCode::FENCED_INSTANCE_ID
    );
    room.join_static("", "two");
    room.advance(20);
    let reply = room.joined(again).unwrap();
    assert_eq!((&*reply.member_id, reply.members.len()), ("m2", 2));

    // m3 waits for its assignment when its new self comes: the rebalance begins anew, since the
    // leader would assign to the old id.
    let waits = room.sync("m3", 1, &[]);
    let again = room.join_static("", "two");
    assert_eq!(room.synced(waits), Some(Err(ErrorCode::FENCED_INSTANCE_ID)));
    assert_eq!(room.group.state(), ClassicState::PreparingRebalance);
    let leads = room.join_static("m2", "one");
    assert_eq!(room.joined(again).unwrap().generation_id, 2);
    let members: Vec<_> = room
        .joined(leads)
        .unwrap()
        .members
        .into_iter()
        .map(|m| m.0)
        .collect();
    assert_eq!(members, ["m2", "m4"]);
}

#[test]
fn a_static_member_that_is_away_keeps_its_place_until_its_session_ends() {
    let mut room = Room::new();
    room.config.initial_rebalance_delay_ms = 10;
    let (first, second) = (
        room.join_static("", "one"),
        room.join_as("", |join| {
            join.instance_id = Some("two".into());
            join.session_timeout_ms = 300_000;
        }),
    );
    room.advance(20);
    room.joined(first).unwrap();
    room.joined(second).unwrap();
    room.finish_sync(1);
    let rejoin = room.join_static("m1", "one");
    room.advance(REBALANCE_MS);
    let reply = room.joined(rejoin).unwrap();
    assert_eq!((reply.generation_id, reply.members.len()), (2, 2));
}

#[test]
fn an_administrator_removes_a_static_member_by_its_instance_id() {
    let mut room = Room::new();
    let first = room.join_static("", "one");
    room.advance(1);
    room.joined(first).unwrap();
    room.finish_sync(1);
    assert_eq!(
        room.leave("", Some("other")),
        Err(ErrorCode::UNKNOWN_MEMBER_ID)
    );
    assert_eq!(
        room.leave("m9", Some("one")),
        Err(ErrorCode::FENCED_INSTANCE_ID)
    );
    assert_eq!(room.leave("", Some("one")), Ok(()));
    assert_eq!(room.group.state(), ClassicState::Empty);
}

#[test]
fn a_full_group_turns_the_next_away() {
    let mut room = Room::stable(2);
    room.config.max_size = 2;
    let third = room.join("");
    assert_eq!(
        room.joined(third).unwrap().error,
        ErrorCode::GROUP_MAX_SIZE_REACHED
    );
    assert_eq!(
        room.group.state(),
        ClassicState::Stable,
        "nobody was disturbed"
    );
    room.config.max_size = 1;
    let leads = room.join("m1");
    let turned_away = room.join("m2");
    assert_eq!(
        room.joined(turned_away).unwrap().error,
        ErrorCode::GROUP_MAX_SIZE_REACHED
    );
    assert_eq!(room.joined(leads).unwrap().members.len(), 1);
}

#[test]
fn a_follower_that_joins_again_unchanged_gets_what_it_had() {
    let mut room = Room::stable(2);
    let again = room.join("m2");
    assert_eq!(room.joined(again).unwrap().generation_id, 1);
    assert_eq!(room.group.state(), ClassicState::Stable);
    room.join("m1");
    assert_eq!(
        room.group.state(),
        ClassicState::PreparingRebalance,
        "a leader rebalances"
    );
}

#[test]
fn a_join_while_the_rebalance_completes_starts_another() {
    let mut room = Room::new();
    room.config.initial_rebalance_delay_ms = 10;
    let (first, second) = (room.join(""), room.join(""));
    room.advance(20);
    room.joined(first).unwrap();
    room.joined(second).unwrap();
    let waits = room.sync("m2", 1, &[]);
    let third = room.join("");
    assert_eq!(
        room.synced(waits),
        Some(Err(ErrorCode::REBALANCE_IN_PROGRESS))
    );
    assert!(room.joined(third).is_none());
    room.join("m1");
    room.join("m2");
    assert_eq!(room.joined(third).unwrap().generation_id, 2);
}

#[test]
fn commits_are_fenced() {
    let mut room = Room::stable(1);
    let now = room.now;
    let mut commit = |member_id: &str, generation| {
        room.group
            .validate_commit(now, &member(member_id, generation))
    };
    assert_eq!(commit("m1", 1), Ok(()));
    assert_eq!(commit("m1", 0), Err(ErrorCode::ILLEGAL_GENERATION));
    assert_eq!(commit("m2", 1), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(commit("", -1), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    room.leave("m1", None).unwrap();
    let mut commit = |member_id: &str, generation| {
        room.group
            .validate_commit(now, &member(member_id, generation))
    };
    assert_eq!(
        commit("", -1),
        Ok(()),
        "nobody is there: a simple consumer may"
    );
    assert_eq!(commit("m1", 1), Err(ErrorCode::UNKNOWN_MEMBER_ID));
}

#[test]
fn a_member_that_waits_for_the_others_is_not_given_up() {
    let mut room = Room::stable(2);
    let rejoin = room.join("m1");
    for _ in 0..5 {
        room.advance(SESSION_MS - 1);
        let _ = room.heartbeat("m2", 1);
    }
    assert!(room.joined(rejoin).is_none());
    assert!(room.group.members.contains_key("m1"));
}

#[test]
fn whoever_sends_at_random_never_breaks_the_group() {
    // Every answer comes, and the group ends up empty when everybody falls silent.
    let mut state = 12345_u64;
    let mut dice = move |n: u64| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) % n
    };
    for round in 0..300 {
        let mut room = Room::new();
        room.config.initial_rebalance_delay_ms = dice(3) * 100;
        let mut waiting: BTreeSet<RequestId> = BTreeSet::new();
        for _ in 0..80 {
            let id = alloc::format!("m{}", 1 + dice(1 + room.ids));
            let generation = room.group.generation_id() - i32::from(dice(4) == 0);
            match dice(9) {
                0 => {
                    let ask = dice(2) == 0;
                    waiting.insert(room.join_as("", |join| join.requires_known_member_id = ask));
                }
                1 | 2 => {
                    waiting.insert(room.join(&id));
                }
                3 => {
                    let name = alloc::format!("i{}", dice(3));
                    waiting.insert(room.join_static("", &name));
                }
                4 | 5 => {
                    let leader = room.group.leader().map_or(id, ToString::to_string);
                    waiting.insert(room.sync(&leader, generation, &[]));
                }
                6 => {
                    let _ = room.leave(&id, None);
                }
                7 => {
                    let _ = room.heartbeat(&id, generation);
                }
                _ => room.advance(dice(4_000)),
            }
            let joined = room
                .group
                .members
                .values()
                .filter(|m| m.has_joined())
                .count();
            assert_eq!(joined, room.group.joined, "round {round}");
            if let Some(request) = waiting.iter().nth(dice(6) as usize).copied()
                && dice(5) == 0
                && !room.answers.contains_key(&request)
            {
                room.group.forget(room.now, request);
                waiting.remove(&request);
            }
        }
        room.advance(2 * NEW_MEMBER_JOIN_TIMEOUT_MS);
        assert!(room.group.is_vacant(), "round {round}: {:?}", room.group);
        assert_eq!((room.group.bytes, room.group.offers.len()), (0, 0));
        assert_eq!(room.group.next_deadline(), None);
        for request in waiting {
            assert!(
                room.answers.contains_key(&request),
                "round {round}: {request} hangs"
            );
        }
    }
}
