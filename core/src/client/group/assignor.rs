//! How the leader of a classic group divides the partitions, as Kafka's own clients do, so that any of
//! them may lead.
//!
//! An assignor is a pure function of what the members say of themselves and of how many partitions
//! there are. Cooperative-sticky gives nothing to its new owner in the generation in which the old one
//! gives it up: that member joins again once it has, and then it is free (KIP-429).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::client::config::Assignor;
use crate::client::input::TopicName;
use crate::group::{Assignor as BrokerAssignor, Partitions as ById, Subscriber};
use crate::ids::TopicId;
use crate::wire::Str;

/// Partitions by topic; no topic without partitions.
pub(super) type Partitions = BTreeMap<TopicName, BTreeSet<i32>>;

/// What a member says of itself.
#[derive(Clone, Debug, Default)]
pub(super) struct MemberInfo {
    pub(super) instance_id: Option<Str>,
    pub(super) topics: BTreeSet<TopicName>,
    pub(super) owned: Partitions,
    /// The generation in which it came to own them.
    pub(super) generation: i32,
}

impl Assignor {
    /// Kafka's default.
    pub(super) const DEFAULT: [Self; 2] = [Self::Range, Self::CooperativeSticky];

    /// Kafka's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::CooperativeSticky => "cooperative-sticky",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::DEFAULT
            .into_iter()
            .find(|assignor| assignor.name() == name)
    }

    /// Whether its members may keep their partitions while the group rebalances.
    pub(super) const fn is_cooperative(self) -> bool {
        matches!(self, Self::CooperativeSticky)
    }

    /// What each member gets. `counts` has the partitions of every topic that exists.
    pub(super) fn assign(
        self,
        members: &BTreeMap<Str, MemberInfo>,
        counts: &BTreeMap<TopicName, i32>,
    ) -> BTreeMap<Str, Partitions> {
        match self {
            Self::Range => range(members, counts),
            Self::CooperativeSticky => cooperative_sticky(members, counts),
        }
    }
}

fn range(
    members: &BTreeMap<Str, MemberInfo>,
    counts: &BTreeMap<TopicName, i32>,
) -> BTreeMap<Str, Partitions> {
    let mut given: BTreeMap<Str, Partitions> = members
        .keys()
        .map(|id| (id.clone(), Partitions::new()))
        .collect();
    for (topic, count) in counts {
        // Static members come first, by their names, which they keep over a restart.
        let mut subscribers: Vec<(bool, &Str, &Str)> = members
            .iter()
            .filter(|(_, member)| member.topics.contains(topic))
            .map(|(id, member)| match &member.instance_id {
                Some(name) => (false, name, id),
                None => (true, id, id),
            })
            .collect();
        subscribers.sort_unstable();
        let Ok(sharing @ 1..) = i32::try_from(subscribers.len()) else {
            continue;
        };
        let (share, more) = (count / sharing, count % sharing);
        let mut next = 0;
        for (place, (_, _, id)) in (0..).zip(subscribers) {
            let end = next + share + i32::from(place < more);
            if end > next
                && let Some(given) = given.get_mut(id)
            {
                given.insert(topic.clone(), (next..end).collect());
            }
            next = end;
        }
    }
    given
}

fn cooperative_sticky(
    members: &BTreeMap<Str, MemberInfo>,
    counts: &BTreeMap<TopicName, i32>,
) -> BTreeMap<Str, Partitions> {
    // Of two that claim a partition, the one of the later generation has it; of the same, neither.
    let mut claims: BTreeMap<(&TopicName, i32), (i32, Option<&Str>)> = BTreeMap::new();
    for (id, member) in members {
        for (topic, partition) in each(&member.owned) {
            let generation = member.generation;
            let claim = claims
                .entry((topic, partition))
                .or_insert((generation, Some(id)));
            if claim.1 != Some(id) {
                *claim = match claim.0.cmp(&generation) {
                    core::cmp::Ordering::Less => (generation, Some(id)),
                    core::cmp::Ordering::Equal => (generation, None),
                    core::cmp::Ordering::Greater => *claim,
                };
            }
        }
    }
    let mut before: BTreeMap<Str, Partitions> = BTreeMap::new();
    for ((topic, partition), (_, owner)) in claims {
        let subscribes = |id: &&Str| members.get(*id).is_some_and(|m| m.topics.contains(topic));
        if let Some(owner) = owner.filter(subscribes)
            && counts.get(topic).is_some_and(|count| partition < *count)
        {
            let before = before.entry(owner.clone()).or_default();
            before.entry(topic.clone()).or_default().insert(partition);
        }
    }
    let mut given = sticky(members, &before, counts);
    // What somebody still has, by their own word, is given to nobody else before they gave it up.
    let mut has: BTreeMap<(&TopicName, i32), Vec<&Str>> = BTreeMap::new();
    for (id, member) in members {
        for held in each(&member.owned) {
            has.entry(held).or_default().push(id);
        }
    }
    for (id, partitions) in &mut given {
        for (topic, numbers) in partitions.iter_mut() {
            numbers.retain(|number| {
                has.get(&(topic, *number))
                    .is_none_or(|owners| owners.iter().all(|owner| *owner == id))
            });
        }
        partitions.retain(|_, numbers| !numbers.is_empty());
    }
    given
}

/// As even as subscriptions allow, moving as little as that needs: what the broker's own uniform
/// assignor does. It knows topics by ids, and here their places serve as such.
fn sticky(
    members: &BTreeMap<Str, MemberInfo>,
    before: &BTreeMap<Str, Partitions>,
    counts: &BTreeMap<TopicName, i32>,
) -> BTreeMap<Str, Partitions> {
    let ids: BTreeMap<&TopicName, TopicId> = counts
        .keys()
        .enumerate()
        .map(|(place, topic)| (topic, TopicId((place as u128).to_be_bytes())))
        .collect();
    let names: BTreeMap<TopicId, &TopicName> = ids.iter().map(|(name, id)| (*id, *name)).collect();
    let id = |topic: &TopicName| ids.get(topic).copied();
    let subscribers = members
        .iter()
        .map(|(member_id, member)| {
            let before: ById = before
                .get(member_id)
                .into_iter()
                .flatten()
                .filter_map(|(topic, numbers)| Some((id(topic)?, numbers.clone())))
                .collect();
            let subscriber = Subscriber {
                instance_id: member.instance_id.clone(),
                topics: member.topics.iter().filter_map(id).collect(),
                before,
            };
            (member_id.clone(), subscriber)
        })
        .collect();
    let topics = counts
        .iter()
        .filter_map(|(topic, count)| Some((id(topic)?, *count)))
        .collect();
    BrokerAssignor::Uniform
        .assign(&subscribers, &topics)
        .into_iter()
        .map(|(member_id, given)| {
            let given = given
                .into_iter()
                .filter_map(|(topic, numbers)| Some(((*names.get(&topic)?).clone(), numbers)))
                .collect();
            (member_id, given)
        })
        .collect()
}

/// The partitions one by one.
pub(super) fn each(partitions: &Partitions) -> impl Iterator<Item = (&TopicName, i32)> {
    partitions
        .iter()
        .flat_map(|(topic, numbers)| numbers.iter().map(move |number| (topic, *number)))
}

#[cfg(test)]
mod tests {
    use std::vec;

    use super::*;

    fn member(topics: &[&str], owned: &[(&str, &[i32])], generation: i32) -> MemberInfo {
        MemberInfo {
            instance_id: None,
            topics: topics.iter().map(|topic| TopicName::from(*topic)).collect(),
            owned: partitions(owned),
            generation,
        }
    }

    fn partitions(list: &[(&str, &[i32])]) -> Partitions {
        list.iter()
            .map(|(topic, numbers)| (TopicName::from(*topic), numbers.iter().copied().collect()))
            .collect()
    }

    fn members(list: &[(&str, MemberInfo)]) -> BTreeMap<Str, MemberInfo> {
        list.iter()
            .map(|(id, member)| (Str::from(*id), member.clone()))
            .collect()
    }

    fn counts(list: &[(&str, i32)]) -> BTreeMap<TopicName, i32> {
        list.iter()
            .map(|(topic, count)| (TopicName::from(*topic), *count))
            .collect()
    }

    #[test]
    fn range_gives_each_a_contiguous_part_of_each_topic() {
        let group = members(&[
            ("a", member(&["x", "y"], &[], -1)),
            ("b", member(&["x"], &[], -1)),
        ]);
        let given = Assignor::Range.assign(&group, &counts(&[("x", 5), ("y", 2)]));
        assert_eq!(given["a"], partitions(&[("x", &[0, 1, 2]), ("y", &[0, 1])]));
        assert_eq!(given["b"], partitions(&[("x", &[3, 4])]));
    }

    #[test]
    fn range_puts_static_members_first_by_their_names() {
        let mut fixed = member(&["x"], &[], -1);
        fixed.instance_id = Some(Str::from("one"));
        let group = members(&[("a", member(&["x"], &[], -1)), ("z", fixed)]);
        let given = Assignor::Range.assign(&group, &counts(&[("x", 3)]));
        assert_eq!(given["z"], partitions(&[("x", &[0, 1])]));
    }

    #[test]
    fn cooperative_sticky_first_takes_away_and_then_gives() {
        let topics = counts(&[("x", 4)]);
        let group = members(&[
            ("a", member(&["x"], &[("x", &[0, 1, 2, 3])], 3)),
            ("b", member(&["x"], &[], -1)),
        ]);
        let given = Assignor::CooperativeSticky.assign(&group, &topics);
        assert_eq!(given["a"].values().map(BTreeSet::len).sum::<usize>(), 2);
        assert!(given["b"].is_empty(), "they are not free yet");
        let mut later = group;
        later.get_mut("a").unwrap().owned = given["a"].clone();
        let then = Assignor::CooperativeSticky.assign(&later, &topics);
        assert_eq!(then["a"], given["a"], "and it keeps what it has");
        assert_eq!(then["b"].values().map(BTreeSet::len).sum::<usize>(), 2);
    }

    #[test]
    fn of_two_claims_the_later_generation_wins_and_the_other_must_give_up_first() {
        let group = members(&[
            ("a", member(&["x"], &[("x", &[0])], 3)),
            ("b", member(&["x"], &[("x", &[0])], 4)),
        ]);
        let given = Assignor::CooperativeSticky.assign(&group, &counts(&[("x", 1)]));
        assert_eq!(
            given.values().map(BTreeMap::len).collect::<Vec<_>>(),
            vec![0, 0]
        );
    }
}
