//! The uniform assignor.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::{Partitions, Subscriber};
use crate::ids::TopicId;
use crate::wire::Str;

/// Members by their place in the order of ids.
struct Shares<'a> {
    members: Vec<(&'a Str, &'a Subscriber)>,
    owned: Vec<Partitions>,
    loads: Vec<usize>,
}

pub(super) fn assign(
    members: &BTreeMap<Str, Subscriber>,
    topics: &BTreeMap<TopicId, i32>,
) -> BTreeMap<Str, Partitions> {
    let mut shares = Shares {
        members: members.iter().collect(),
        owned: vec![Partitions::new(); members.len()],
        loads: vec![0; members.len()],
    };
    let mut unowned: BTreeMap<TopicId, Vec<i32>> = BTreeMap::new();
    for (topic, count) in topics {
        let mut owner = vec![None; usize::try_from(*count).unwrap_or(0)];
        for (place, (_, member)) in shares.members.iter().enumerate() {
            if !member.topics.contains(topic) {
                continue;
            }
            for partition in member.before.get(topic).into_iter().flatten() {
                let slot = usize::try_from(*partition).ok();
                if let Some(slot) = slot.and_then(|at| owner.get_mut(at)) {
                    slot.get_or_insert(place);
                }
            }
        }
        for (partition, owner) in (0..).zip(owner) {
            match owner {
                Some(place) => shares.give(place, *topic, partition),
                None => unowned.entry(*topic).or_default().push(partition),
            }
        }
    }
    for (topic, partitions) in unowned {
        let eligible = shares.eligible(topic);
        for partition in partitions {
            if let Some(place) = shares.least_loaded(&eligible) {
                shares.give(place, topic, partition);
            }
        }
    }
    shares.balance(topics);
    let ids = shares.members.iter().map(|(id, _)| (*id).clone());
    ids.zip(shares.owned).collect()
}

impl Shares<'_> {
    fn eligible(&self, topic: TopicId) -> Vec<usize> {
        let members = self.members.iter().enumerate();
        members
            .filter(|(_, (_, member))| member.topics.contains(&topic))
            .map(|(place, _)| place)
            .collect()
    }

    fn load(&self, place: usize) -> usize {
        self.loads.get(place).copied().unwrap_or(0)
    }

    fn give(&mut self, place: usize, topic: TopicId, partition: i32) {
        if let Some(owned) = self.owned.get_mut(place) {
            owned.entry(topic).or_default().insert(partition);
        }
        if let Some(load) = self.loads.get_mut(place) {
            *load += 1;
        }
    }

    /// Takes the last partition of a topic away.
    fn take(&mut self, place: usize, topic: TopicId) -> Option<i32> {
        let owned = self.owned.get_mut(place)?;
        let partitions = owned.get_mut(&topic)?;
        let partition = partitions.pop_last()?;
        if partitions.is_empty() {
            owned.remove(&topic);
        }
        if let Some(load) = self.loads.get_mut(place) {
            *load -= 1;
        }
        Some(partition)
    }

    fn least_loaded(&self, eligible: &[usize]) -> Option<usize> {
        let places = eligible.iter().copied();
        places.min_by_key(|place| (self.load(*place), *place))
    }

    /// The most loaded of those who have a partition of the topic.
    fn most_loaded(&self, eligible: &[usize], topic: TopicId) -> Option<usize> {
        let has = |place: &usize| {
            let owned = self.owned.get(*place);
            owned.is_some_and(|owned| owned.contains_key(&topic))
        };
        let places = eligible.iter().copied().filter(has);
        places.min_by_key(|place| (usize::MAX - self.load(*place), *place))
    }

    /// Moves partitions from those with more to those with less, where the difference is more than
    /// one. Each move makes the loads more even, so it ends.
    fn balance(&mut self, topics: &BTreeMap<TopicId, i32>) {
        loop {
            let mut moved = false;
            for topic in topics.keys() {
                let eligible = self.eligible(*topic);
                while let (Some(most), Some(least)) = (
                    self.most_loaded(&eligible, *topic),
                    self.least_loaded(&eligible),
                ) {
                    if self.load(most) <= self.load(least) + 1 {
                        break;
                    }
                    let Some(partition) = self.take(most, *topic) else {
                        break;
                    };
                    self.give(least, *topic, partition);
                    moved = true;
                }
            }
            if !moved {
                return;
            }
        }
    }
}
