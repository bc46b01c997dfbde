//! The range assignor.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Partitions, Subscriber};
use crate::ids::TopicId;
use crate::wire::Str;

pub(super) fn assign(
    members: &BTreeMap<Str, Subscriber>,
    topics: &BTreeMap<TopicId, i32>,
) -> BTreeMap<Str, Partitions> {
    let mut target: BTreeMap<Str, Partitions> = members
        .keys()
        .map(|id| (id.clone(), Partitions::new()))
        .collect();
    for (topic, count) in topics {
        // Static members keep their place when they come back under another id.
        let mut subscribers: Vec<(&Str, &Str)> = members
            .iter()
            .filter(|(_, member)| member.topics.contains(topic))
            .map(|(id, member)| (member.instance_id.as_ref().unwrap_or(id), id))
            .collect();
        subscribers.sort_unstable();
        let Ok(sharing) = i32::try_from(subscribers.len()) else {
            continue;
        };
        if sharing == 0 {
            continue;
        }
        let (share, more) = (count / sharing, count % sharing);
        let mut next = 0;
        for (place, (_, id)) in (0..).zip(subscribers) {
            let end = next + share + i32::from(place < more);
            if end > next
                && let Some(owned) = target.get_mut(id)
            {
                owned.insert(*topic, (next..end).collect());
            }
            next = end;
        }
    }
    target
}
