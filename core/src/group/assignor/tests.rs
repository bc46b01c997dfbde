//! What assignments must hold to.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

fn topic(number: u8) -> TopicId {
    TopicId([number; 16])
}

fn group(subscriptions: &[(&str, &[u8])]) -> BTreeMap<Str, Subscriber> {
    let member = |(id, topics): &(&str, &[u8])| {
        let subscriber = Subscriber {
            topics: topics.iter().map(|number| topic(*number)).collect(),
            ..Subscriber::default()
        };
        (Str::from(*id), subscriber)
    };
    subscriptions.iter().map(member).collect()
}

fn remember(members: &mut BTreeMap<Str, Subscriber>, target: &BTreeMap<Str, Partitions>) {
    for (id, member) in members {
        member.before = target.get(id).cloned().unwrap_or_default();
    }
}

fn load(owned: &Partitions) -> usize {
    owned.values().map(BTreeSet::len).sum()
}

fn moved(before: &BTreeMap<Str, Partitions>, after: &BTreeMap<Str, Partitions>) -> usize {
    let all = |target: &BTreeMap<Str, Partitions>| -> BTreeSet<(TopicId, i32, Str)> {
        let each = target.iter().flat_map(|(id, owned)| {
            owned.iter().flat_map(move |(topic, partitions)| {
                partitions.iter().map(move |p| (*topic, *p, id.clone()))
            })
        });
        each.collect()
    };
    all(after).difference(&all(before)).count()
}

#[test]
fn uniform_is_even_and_moves_only_what_it_must() {
    let topics = BTreeMap::from([(topic(1), 7), (topic(2), 5)]);
    let mut members = group(&[("a", &[1, 2]), ("b", &[1, 2])]);
    let first = Assignor::Uniform.assign(&members, &topics);
    assert_eq!(first.values().map(load).collect::<Vec<_>>(), [6, 6]);
    remember(&mut members, &first);
    assert_eq!(Assignor::Uniform.assign(&members, &topics), first);
    members.extend(group(&[("c", &[1, 2])]));
    let second = Assignor::Uniform.assign(&members, &topics);
    assert_eq!(second.values().map(load).collect::<Vec<_>>(), [4, 4, 4]);
    assert_eq!(moved(&first, &second), 4, "only what the new one gets");
    remember(&mut members, &second);
    members.remove("a");
    let third = Assignor::Uniform.assign(&members, &topics);
    assert_eq!(third.values().map(load).collect::<Vec<_>>(), [6, 6]);
    assert_eq!(moved(&second, &third), 4, "only what the old one had");
}

#[test]
fn range_gives_the_same_numbers_of_all_topics_to_the_same_member() {
    let topics = BTreeMap::from([(topic(1), 5), (topic(2), 5)]);
    let target = Assignor::Range.assign(&group(&[("a", &[1, 2]), ("b", &[1, 2])]), &topics);
    for topic in [topic(1), topic(2)] {
        assert_eq!(target["a"][&topic], BTreeSet::from([0, 1, 2]));
        assert_eq!(target["b"][&topic], BTreeSet::from([3, 4]));
    }
}

#[test]
fn a_topic_goes_only_to_who_subscribes_to_it() {
    let topics = BTreeMap::from([(topic(1), 4), (topic(2), 4)]);
    let members = group(&[("a", &[1]), ("b", &[1, 2]), ("c", &[])]);
    for assignor in Assignor::ALL {
        let target = assignor.assign(&members, &topics);
        assert!(!target["a"].contains_key(&topic(2)));
        assert!(target["c"].is_empty());
    }
    let target = Assignor::Uniform.assign(&members, &topics);
    assert_eq!(
        (load(&target["a"]), load(&target["b"])),
        (4, 4),
        "b has enough with the other"
    );
}

proptest! {
    #[test]
    fn every_partition_has_one_owner_who_subscribes(
        steps in prop::collection::vec((0u8..6, prop::collection::btree_set(0u8..4, 0..4)), 1..12),
        counts in prop::collection::vec(0i32..9, 4),
        uniform in any::<bool>(),
    ) {
        let assignor = if uniform { Assignor::Uniform } else { Assignor::Range };
        let mut members: BTreeMap<Str, Subscriber> = BTreeMap::new();
        for (who, subscribed) in steps {
            let id = Str::from(alloc::format!("m{who}"));
            if subscribed.is_empty() {
                members.remove(&id);
            } else {
                let member = members.entry(id).or_default();
                member.topics = subscribed.iter().map(|number| topic(*number)).collect();
            }
            let wanted: BTreeSet<TopicId> =
                members.values().flat_map(|m| m.topics.clone()).collect();
            let topics: BTreeMap<TopicId, i32> = (0..4)
                .map(|number| (topic(number), counts[usize::from(number)]))
                .filter(|(topic, _)| wanted.contains(topic))
                .collect();
            let target = assignor.assign(&members, &topics);
            for (topic, count) in &topics {
                for partition in 0..*count {
                    let owners: Vec<&Str> = target
                        .iter()
                        .filter(|(_, owned)| owned.get(topic).is_some_and(|p| p.contains(&partition)))
                        .map(|(id, _)| id)
                        .collect();
                    prop_assert_eq!(owners.len(), 1);
                    prop_assert!(members[owners[0]].topics.contains(topic));
                }
            }
            let total: usize = target.values().map(load).sum();
            prop_assert_eq!(total as i32, topics.values().sum::<i32>());
            let one = members.values().all(|m| m.topics == wanted);
            if uniform && one && !members.is_empty() {
                let loads: Vec<usize> = target.values().map(load).collect();
                prop_assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1);
            }
            remember(&mut members, &target);
        }
    }
}
