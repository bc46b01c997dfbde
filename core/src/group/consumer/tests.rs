//! Situations of a consumer group.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use super::replay::each;
use super::*;
use crate::metadata::image::Image;
use crate::metadata::record::MetadataRecord;
use crate::time::Wall;

const SESSION_MS: u64 = 45_000;
const REBALANCE_MS: i32 = 60_000;

/// A group, its topics, a clock, and all records that were said.
struct Room {
    group: ConsumerGroup,
    image: Image,
    version: u64,
    now: Now,
    records: Records,
}

impl Room {
    /// With topics of these partitions.
    fn new(topics: &[(&str, i32)]) -> Self {
        let mut room = Self {
            group: ConsumerGroup::default(),
            image: Image::default(),
            version: 0,
            now: Now {
                mono: Mono(0),
                wall: Wall(1_000),
            },
            records: Records::new(),
        };
        topics
            .iter()
            .for_each(|(name, count)| room.topic(name, *count));
        room
    }

    fn topic(&mut self, name: &str, partitions: i32) {
        self.version += 1;
        let id = self.id_of(name);
        self.image.replay(&MetadataRecord::Topic {
            id,
            name: name.to_string(),
            partitions,
            epoch: 0,
        });
    }

    fn id_of(&self, name: &str) -> TopicId {
        let mut id = [0; 16];
        id.iter_mut()
            .zip(name.bytes())
            .for_each(|(slot, byte)| *slot = byte);
        TopicId(id)
    }

    fn beat(
        &mut self,
        member: &str,
        epoch: i32,
        edit: impl FnOnce(&mut Beat),
    ) -> Result<BeatReply, ErrorCode> {
        let mut beat = Beat {
            member_id: member.into(),
            epoch,
            ..Beat::default()
        };
        edit(&mut beat);
        let topics = Topics {
            image: &self.image,
            version: self.version,
        };
        let reply = self.group.heartbeat(
            self.now,
            &GroupConfig::default(),
            &"readers".into(),
            &topics,
            &beat,
            &mut self.records,
        );
        reply.map_err(|(error, _)| error)
    }

    fn join_with(
        &mut self,
        member: &str,
        topics: &[&str],
        edit: impl FnOnce(&mut Beat),
    ) -> Result<BeatReply, ErrorCode> {
        self.beat(member, 0, |beat| {
            beat.rebalance_timeout_ms = Some(REBALANCE_MS);
            beat.names = Some(topics.iter().map(|name| Str::from(*name)).collect());
            beat.owned = Some(Partitions::new());
            edit(beat);
        })
    }

    fn join(&mut self, member: &str, topics: &[&str]) -> BeatReply {
        self.join_with(member, topics, |_| {}).unwrap()
    }

    /// A heartbeat that says nothing new.
    fn stay(&mut self, member: &str, epoch: i32) -> Result<BeatReply, ErrorCode> {
        self.beat(member, epoch, |_| {})
    }

    /// A heartbeat that says what the member owns.
    fn own(
        &mut self,
        member: &str,
        epoch: i32,
        owned: &Partitions,
    ) -> Result<BeatReply, ErrorCode> {
        self.beat(member, epoch, |beat| beat.owned = Some(owned.clone()))
    }

    fn leave(&mut self, member: &str, instance: Option<&str>, epoch: i32) -> Result<(), ErrorCode> {
        let instance = instance.map(Str::from);
        let left = self.group.leave(
            &"readers".into(),
            &member.into(),
            instance.as_ref(),
            epoch,
            &mut self.records,
        );
        left.map_err(|(error, _)| error)
    }

    fn advance(&mut self, ms: u64) {
        let end = self.now.mono.plus_ms(ms);
        while let Some(at) = self.group.next_deadline().filter(|at| *at <= end) {
            self.now.mono = at.max(self.now.mono);
            self.group
                .on_deadline(self.now, &"readers".into(), &mut self.records);
        }
        self.now.mono = end;
    }

    /// What a broker makes of the records that starts now.
    fn reread(&self) -> ConsumerGroup {
        let mut group = ConsumerGroup::default();
        self.records.iter().for_each(|record| group.apply(record));
        group
    }

    fn assert_reread(&self) {
        let again = self.reread();
        let group = &self.group;
        assert_eq!(again.members, group.members);
        assert_eq!(again.target, group.target);
        assert_eq!(again.owners, group.owners);
        assert_eq!(again.static_members, group.static_members);
        assert_eq!(again.regexes, group.regexes);
        assert_eq!(
            (again.epoch, again.assignment_epoch, again.metadata_hash),
            (group.epoch, group.assignment_epoch, group.metadata_hash)
        );
    }
}

fn count(partitions: &Partitions) -> usize {
    each(partitions).count()
}

#[test]
fn a_second_member_gets_what_the_first_has_given_up() {
    let mut room = Room::new(&[("orders", 4)]);
    let first = room.join("a", &["orders"]);
    assert_eq!(first.epoch, 1);
    let all = first.assignment.unwrap();
    assert_eq!(count(&all), 4);
    assert_eq!(room.group.state(), ConsumerState::Stable);

    let second = room.join("b", &["orders"]);
    assert_eq!(
        (second.epoch, second.assignment),
        (2, Some(Partitions::new()))
    );
    assert_eq!(room.group.state(), ConsumerState::Reconciling);
    // The first is told to give up two, and stays in its epoch until it has.
    let told = room.stay("a", 1).unwrap();
    assert_eq!(told.epoch, 1);
    let kept = told.assignment.unwrap();
    assert_eq!(count(&kept), 2);
    assert_eq!(
        room.own("a", 1, &all).unwrap().epoch,
        1,
        "it still has them"
    );
    assert_eq!(room.stay("b", 2).unwrap().assignment, None);
    assert_eq!(room.own("a", 1, &kept).unwrap().epoch, 2);
    let taken = room.stay("b", 2).unwrap().assignment.unwrap();
    assert_eq!(count(&taken), 2);
    assert!(each(&kept).all(|partition| !each(&taken).any(|other| other == partition)));
    assert_eq!(room.group.state(), ConsumerState::Stable);
    room.assert_reread();
}

#[test]
fn a_member_that_does_not_give_up_in_time_is_fenced() {
    let mut room = Room::new(&[("orders", 4)]);
    let all = room.join("a", &["orders"]).assignment.unwrap();
    room.join("b", &["orders"]);
    room.stay("a", 1).unwrap();
    for _ in 0..2 {
        room.advance(20_000);
        assert_eq!(room.own("a", 1, &all).unwrap().epoch, 1);
        assert_eq!(room.stay("b", 2).unwrap().assignment, None);
    }
    room.advance(20_000);
    assert_eq!(room.stay("a", 1), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    let reply = room.stay("b", 2).unwrap();
    assert_eq!((reply.epoch, count(&reply.assignment.unwrap())), (3, 4));
    room.assert_reread();
}

#[test]
fn a_silent_member_is_fenced_and_the_others_take_over() {
    let mut room = Room::new(&[("orders", 4)]);
    room.join("a", &["orders"]);
    room.advance(SESSION_MS / 2);
    room.join("b", &["orders"]);
    room.advance(SESSION_MS / 2);
    assert!(!room.group.members.contains_key("a"));
    let reply = room.stay("b", 2).unwrap();
    assert_eq!(count(&reply.assignment.unwrap()), 4);
    room.advance(SESSION_MS);
    assert_eq!(room.group.state(), ConsumerState::Empty);
    assert_eq!(room.group.next_deadline(), None);
    assert!(room.group.owners.is_empty());
}

#[test]
fn epochs_fence() {
    let mut room = Room::new(&[("orders", 4)]);
    let all = room.join("a", &["orders"]).assignment.unwrap();
    assert_eq!(room.stay("a", 2), Err(ErrorCode::FENCED_MEMBER_EPOCH));
    assert_eq!(room.stay("ghost", 1), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(room.group.validate_commit("a", 1, 9), Ok(()));
    assert_eq!(
        room.group.validate_commit("a", 0, 9),
        Err(ErrorCode::STALE_MEMBER_EPOCH)
    );
    assert_eq!(
        room.group.validate_commit("a", 1, 8),
        Err(ErrorCode::UNSUPPORTED_VERSION)
    );
    assert_eq!(
        room.group.validate_commit("", -1, 9),
        Err(ErrorCode::UNKNOWN_MEMBER_ID)
    );
    assert_eq!(room.group.validate_fetch(None, -1), Ok(()));
    assert_eq!(
        room.group.validate_fetch(Some("a"), 0),
        Err(ErrorCode::STALE_MEMBER_EPOCH)
    );
    // A new topic moves the group on; the answer with the new epoch is lost.
    room.topic("payments", 2);
    let told = room.beat("a", 1, |beat| {
        beat.names = Some(vec!["orders".into(), "payments".into()]);
    });
    assert_eq!(told.unwrap().epoch, 2);
    assert_eq!(
        room.stay("a", 1),
        Err(ErrorCode::FENCED_MEMBER_EPOCH),
        "it does not say what it owns"
    );
    assert_eq!(room.own("a", 1, &all).unwrap().epoch, 2);
    // And it may always begin anew.
    let again = room.join("a", &["orders"]);
    assert_eq!(count(&again.assignment.unwrap()), 4);
    room.assert_reread();
}

#[test]
fn more_partitions_are_assigned_at_the_next_heartbeat() {
    let mut room = Room::new(&[("orders", 2)]);
    room.join("a", &["orders", "to come"]);
    room.topic("unrelated", 3);
    assert_eq!(
        room.stay("a", 1).unwrap().epoch,
        1,
        "nothing of its own has changed"
    );
    room.topic("orders", 5);
    let reply = room.stay("a", 1).unwrap();
    assert_eq!((reply.epoch, count(&reply.assignment.unwrap())), (2, 5));
    room.topic("to come", 1);
    let reply = room.stay("a", 2).unwrap();
    assert_eq!((reply.epoch, count(&reply.assignment.unwrap())), (3, 6));
}

#[test]
fn an_expression_subscribes_to_what_it_matches_as_a_whole() {
    let mut room = Room::new(&[("orders-eu", 1), ("orders-us", 1), ("my-orders-eu", 1)]);
    let subscribe = |regex: &'static str| {
        move |beat: &mut Beat| {
            beat.names = None;
            beat.regex = Some(regex.into());
        }
    };
    let invalid = room.join_with("a", &[], subscribe("orders-("));
    assert_eq!(invalid, Err(ErrorCode::INVALID_REGULAR_EXPRESSION));
    let smuggled = room.join_with("a", &[], subscribe("a)|(b"));
    assert_eq!(smuggled, Err(ErrorCode::INVALID_REGULAR_EXPRESSION));
    assert!(room.group.members.is_empty());
    let reply = room.join_with("a", &[], subscribe("orders-.*|us")).unwrap();
    assert_eq!(count(&reply.assignment.unwrap()), 2);
    assert!(room.group.subscribes_to("orders-eu") && !room.group.subscribes_to("my-orders-eu"));
    room.topic("orders-asia", 1);
    let reply = room.stay("a", 1).unwrap();
    assert_eq!(count(&reply.assignment.unwrap()), 3);
    let reply = room
        .beat("a", reply.epoch, |beat| {
            beat.regex = Some(Str::new());
            beat.names = Some(vec!["my-orders-eu".into()]);
        })
        .unwrap();
    // It gives up three first.
    let reply = room.own("a", reply.epoch, &Partitions::new()).unwrap();
    assert_eq!(count(&reply.assignment.unwrap()), 1);
    assert!(room.group.regexes.is_empty());
    room.assert_reread();
}

#[test]
fn an_expression_matches_the_brokers_own_topics_too() {
    let mut room = Room::new(&[("orders", 1), ("__consumer_offsets", 1)]);
    let all = |beat: &mut Beat| {
        beat.names = None;
        beat.regex = Some(".*".into());
    };
    let reply = room.join_with("a", &[], all).unwrap();
    assert_eq!(count(&reply.assignment.unwrap()), 2);
}

#[test]
fn a_static_member_comes_back_to_what_it_had() {
    let mut room = Room::new(&[("orders", 4)]);
    let instance = |name: &'static str| move |beat: &mut Beat| beat.instance_id = Some(name.into());
    room.join_with("a", &["orders"], instance("one")).unwrap();
    room.join_with("b", &["orders"], instance("two")).unwrap();
    let kept = room
        .beat("a", 1, instance("one"))
        .unwrap()
        .assignment
        .unwrap();
    room.beat("a", 1, |beat| {
        beat.instance_id = Some("one".into());
        beat.owned = Some(kept.clone());
    })
    .unwrap();
    let taken = room
        .beat("b", 2, instance("two"))
        .unwrap()
        .assignment
        .unwrap();
    let early = room.join_with("c", &["orders"], instance("one"));
    assert_eq!(early, Err(ErrorCode::UNRELEASED_INSTANCE_ID));
    assert_eq!(room.leave("a", Some("one"), LEAVE_STATIC), Ok(()));
    let epoch = room.group.epoch();
    assert_eq!(
        room.beat("b", 2, instance("two")).unwrap().assignment,
        None,
        "its partitions wait for it"
    );
    let back = room.join_with("c", &["orders"], instance("one")).unwrap();
    assert_eq!(back.assignment, Some(kept));
    assert_eq!(room.group.epoch(), epoch, "nobody was disturbed");
    assert_eq!(
        room.beat("a", 2, instance("one")),
        Err(ErrorCode::FENCED_INSTANCE_ID)
    );
    assert_eq!(room.group.members["b"].assigned, taken);
    room.assert_reread();
    // Away for too long, it is gone.
    assert_eq!(room.leave("c", Some("one"), LEAVE_STATIC), Ok(()));
    room.advance(SESSION_MS / 2);
    room.beat("b", 2, instance("two")).unwrap();
    room.advance(SESSION_MS / 2);
    let reply = room.beat("b", 2, instance("two")).unwrap();
    assert_eq!(count(&reply.assignment.unwrap()), 4);
}

#[test]
fn a_static_member_comes_back_to_less_than_it_had() {
    // The simulator's seeds 3909 and 6420 of `rebalance`: it was told to stay in epoch 0 until it
    // had given up what it did not know of, and was fenced for not doing so.
    let mut room = Room::new(&[("orders", 4)]);
    let one = |beat: &mut Beat| beat.instance_id = Some("one".into());
    room.join_with("a", &["orders"], one).unwrap();
    assert_eq!(room.leave("a", Some("one"), LEAVE_STATIC), Ok(()));
    assert_eq!(count(&room.join("b", &["orders"]).assignment.unwrap()), 0);
    let back = room.join_with("c", &["orders"], one).unwrap();
    assert_eq!((back.epoch, count(&back.assignment.unwrap())), (2, 2));
    assert_eq!(room.group.members["c"].state, MemberState::Stable);
    let rest = room.stay("b", 2).unwrap().assignment.unwrap();
    assert_eq!(count(&rest), 2, "what it did not come back to is free");
    room.assert_reread();
}

#[test]
fn each_revocation_has_a_time_of_its_own() {
    // The simulator's seed 3046 of `rebalance`: who gave up what it was told to, and was told to give
    // up more, was fenced when the time for the first was over.
    let mut room = Room::new(&[("orders", 6)]);
    room.join("a", &["orders"]);
    room.join("b", &["orders"]);
    let kept = room.stay("a", 1).unwrap().assignment.unwrap();
    assert_eq!(count(&kept), 3);
    room.advance(40_000);
    room.join("c", &["orders"]);
    let kept = room.own("a", 1, &kept).unwrap().assignment.unwrap();
    assert_eq!(count(&kept), 2);
    room.advance(30_000);
    room.stay("a", 1).unwrap();
    room.advance(29_999);
    assert!(room.group.members().contains_key("a"));
    room.advance(1);
    assert!(
        !room.group.members().contains_key("a"),
        "a heartbeat that gives nothing up puts nothing off"
    );
}

#[test]
fn a_heartbeat_of_before_does_not_bring_back_one_who_is_away() {
    // The simulator's seed 3578 of `rebalance`: a late heartbeat was taken for one whose answer got
    // lost, and was told the epoch of those who are away.
    let mut room = Room::new(&[("orders", 2)]);
    let one = |beat: &mut Beat| beat.instance_id = Some("one".into());
    let owned = room.join_with("a", &["orders"], one).unwrap();
    let owned = owned.assignment.unwrap();
    assert_eq!(room.leave("a", Some("one"), LEAVE_STATIC), Ok(()));
    let late = room.beat("a", 1, |beat| {
        one(beat);
        beat.owned = Some(owned.clone());
    });
    assert_eq!(late, Err(ErrorCode::FENCED_MEMBER_EPOCH));
    let back = room.join_with("a", &["orders"], one).unwrap();
    assert_eq!(back.epoch, 1);
    room.assert_reread();
}

#[test]
fn the_assignor_that_most_ask_for_is_used() {
    let mut room = Room::new(&[("orders", 3), ("payments", 3)]);
    let range = |beat: &mut Beat| beat.server_assignor = Some("range".into());
    room.join_with("a", &["orders", "payments"], range).unwrap();
    assert_eq!(room.group.assignor(), Assignor::Range);
    room.join_with("b", &["orders", "payments"], range).unwrap();
    room.join("c", &["orders", "payments"]);
    for topic in ["orders", "payments"] {
        let id = room.id_of(topic);
        assert_eq!(
            room.group.target["b"][&id],
            BTreeSet::from([1]),
            "co-partitioned"
        );
    }
}

#[test]
fn a_group_is_deleted_by_its_tombstones() {
    let mut room = Room::new(&[("orders", 4)]);
    room.join("a", &["orders"]);
    room.leave("a", None, LEAVE).unwrap();
    let tombstones = room.group.tombstones(&"readers".into());
    let mut group = room.reread();
    tombstones.iter().for_each(|record| group.apply(record));
    assert!(group.members.is_empty() && group.target.is_empty() && group.owners.is_empty());
}

/// A client: what it believes to own, which it gives up and takes as it is told, but late.
#[derive(Default)]
struct Client {
    epoch: i32,
    owned: Partitions,
    told: Option<Partitions>,
    topics: Vec<Str>,
    /// An answer did not come: it takes nothing before it has heard again, and says everything.
    lost: bool,
}

#[test]
fn no_partition_ever_has_two_owners() {
    let mut seed = 99_u64;
    let mut dice = move |n: u64| {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (seed >> 33) % n
    };
    for round in 0..300 {
        let mut room = Room::new(&[("a", 5), ("b", 3)]);
        let mut clients: BTreeMap<u64, Client> = BTreeMap::new();
        for _ in 0..120 {
            let who = dice(5);
            let name = alloc::format!("m{who}");
            match dice(8) {
                0 if !clients.contains_key(&who) => {
                    let topics: &[&str] = [&["a", "b"][..], &["a"], &["b"]][dice(3) as usize];
                    let reply = room.join(&name, topics);
                    let client = Client {
                        epoch: reply.epoch,
                        told: reply.assignment,
                        topics: topics.iter().map(|name| Str::from(*name)).collect(),
                        ..Client::default()
                    };
                    clients.insert(who, client);
                }
                1 if dice(4) == 0 => {
                    if clients.remove(&who).is_some() {
                        let _ = room.leave(&name, None, LEAVE);
                    }
                }
                2 if dice(6) == 0 => {
                    let more = 5 + dice(3) as i32;
                    room.topic("a", more.max(room.image.topic("a").unwrap().partitions));
                }
                3 => {
                    // The client does what it was told.
                    if let Some(client) = clients.get_mut(&who)
                        && let Some(told) = client.told.take()
                    {
                        client.owned = told;
                    }
                }
                4 if dice(10) == 0 => {
                    // The broker is restarted.
                    room.assert_reread();
                    room.group = room.reread();
                    room.group.begin_sessions(room.now, &GroupConfig::default());
                }
                _ => {
                    if let Some(client) = clients.get_mut(&who) {
                        let owned = client.owned.clone();
                        // An answer that is lost; the next heartbeat says what it owns.
                        let lost = dice(10) == 0;
                        let answer = room.beat(&name, client.epoch, |beat| {
                            beat.owned = Some(owned);
                            if client.lost {
                                beat.rebalance_timeout_ms = Some(REBALANCE_MS);
                                beat.names = Some(client.topics.clone());
                            }
                        });
                        match answer {
                            Ok(_) if lost => {
                                client.lost = true;
                                client.told = None;
                            }
                            Ok(reply) => {
                                client.lost = false;
                                client.epoch = reply.epoch;
                                if let Some(told) = reply.assignment {
                                    // What is not in it is given up before anything is taken.
                                    client.owned.retain(|topic, indexes| {
                                        indexes.retain(|index| {
                                            told.get(topic).is_some_and(|t| t.contains(index))
                                        });
                                        !indexes.is_empty()
                                    });
                                    client.told = Some(told);
                                }
                            }
                            Err(ErrorCode::FENCED_MEMBER_EPOCH | ErrorCode::UNKNOWN_MEMBER_ID) => {
                                // It gives up everything and joins again.
                                let reply = room.join(&name, &["a", "b"]);
                                *client = Client {
                                    epoch: reply.epoch,
                                    told: reply.assignment,
                                    topics: vec!["a".into(), "b".into()],
                                    ..Client::default()
                                };
                            }
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                }
            }
            let mut owners = BTreeMap::new();
            for (who, client) in &clients {
                for partition in each(&client.owned) {
                    let other = owners.insert(partition, *who);
                    assert_eq!(other, None, "round {round}: {partition:?} of {who} too");
                }
            }
        }
        // Left alone, it becomes stable, and everything that is subscribed to is owned.
        for _ in 0..10 {
            for (who, client) in &mut clients {
                if let Some(told) = client.told.take() {
                    client.owned = told;
                }
                let name = alloc::format!("m{who}");
                let owned = client.owned.clone();
                match room.beat(&name, client.epoch, |beat| {
                    beat.owned = Some(owned);
                    beat.rebalance_timeout_ms = Some(REBALANCE_MS);
                    beat.names = Some(vec!["a".into(), "b".into()]);
                }) {
                    Ok(reply) => {
                        client.epoch = reply.epoch;
                        client.told = reply.assignment;
                    }
                    Err(_) => {
                        let reply = room.join(&name, &["a", "b"]);
                        client.owned = Partitions::new();
                        client.epoch = reply.epoch;
                        client.told = reply.assignment;
                    }
                }
            }
        }
        if !clients.is_empty() {
            assert_eq!(room.group.state(), ConsumerState::Stable, "round {round}");
            let owned: usize = clients.values().map(|client| count(&client.owned)).sum();
            let there: i32 = room.image.topics().map(|topic| topic.partitions).sum();
            assert_eq!(owned as i32, there, "round {round}");
        }
        room.assert_reread();
    }
}
