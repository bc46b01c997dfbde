//! The target assignment: what each member shall own in the end.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::replay::{assignment_epoch_record, epoch_record, regex_record, target_record};
use super::{ConsumerGroup, Records, Topics};
use crate::bugs::Bug;
use crate::group::assignor::Subscriber;
use crate::time::Now;
use crate::wire::Str;

impl ConsumerGroup {
    /// Brings the group up to date: what its expressions match, its epoch if `changed` or if one of
    /// its topics did, and the target assignment for it.
    pub(super) fn refresh(
        &mut self,
        now: Now,
        id: &Str,
        topics: &Topics<'_>,
        changed: bool,
        records: &mut Records,
    ) {
        let topics_changed = self.seen_topics != Some(topics.version);
        if changed || topics_changed {
            self.seen_topics = Some(topics.version);
            self.resolve_regexes(now, id, topics, topics_changed, records);
            let hash = self.hash_topics(topics);
            if changed || hash != self.metadata_hash || self.epoch == 0 {
                self.say(epoch_record(id, self.epoch + 1, hash), records);
            }
        }
        if self.epoch > self.assignment_epoch {
            self.assign(now, id, topics, records);
        }
    }

    /// Each expression in use is matched once; those that are not in use go.
    fn resolve_regexes(
        &mut self,
        now: Now,
        id: &Str,
        topics: &Topics<'_>,
        all: bool,
        records: &mut Records,
    ) {
        let used: BTreeSet<Str> = self
            .members
            .values()
            .filter_map(|member| member.regex.clone())
            .collect();
        let unused: Vec<Str> = self
            .regexes
            .keys()
            .filter(|expression| !used.contains(*expression))
            .cloned()
            .collect();
        for expression in unused {
            self.say(regex_record(id, &expression, None), records);
        }
        for expression in used {
            let known = self.regexes.get(&expression);
            if known.is_some() && !all {
                continue;
            }
            let matched = topics.matching(&expression);
            if known != Some(&matched) {
                let found = Some((&matched, topics.version, now.wall));
                self.say(regex_record(id, &expression, found), records);
            }
        }
    }

    /// A hash over the subscribed topics that exist, with ids and numbers of partitions (FNV-1a).
    fn hash_topics(&self, topics: &Topics<'_>) -> i64 {
        let names: BTreeSet<&Str> = self
            .members
            .values()
            .flat_map(|member| self.topics_of(member))
            .collect();
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut mix = |bytes: &[u8]| {
            for byte in bytes {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        for topic in names.into_iter().filter_map(|name| topics.by_name(name)) {
            mix(&topic.id.0);
            mix(&topic.partitions.to_be_bytes());
        }
        hash as i64
    }

    fn assign(&mut self, now: Now, id: &Str, topics: &Topics<'_>, records: &mut Records) {
        let mut counts = BTreeMap::new();
        let mut subscribers = BTreeMap::new();
        for (member_id, member) in &self.members {
            let mut subscribed = BTreeSet::new();
            let names = self.topics_of(member);
            for topic in names.filter_map(|name| topics.by_name(name)) {
                subscribed.insert(topic.id);
                counts.insert(topic.id, topic.partitions);
            }
            let subscriber = Subscriber {
                instance_id: member.instance_id.clone(),
                topics: subscribed,
                before: self.target.get(member_id).cloned().unwrap_or_default(),
            };
            subscribers.insert(member_id.clone(), subscriber);
        }
        let mut target = self.assignor().assign(&subscribers, &counts);
        if self.bugs.has(Bug::AssignTwice) {
            let first = target.values().next().cloned().unwrap_or_default();
            for (topic, partitions) in first {
                let last = target.values_mut().next_back().into_iter();
                let of_topic = last.flat_map(|last| last.get_mut(&topic));
                of_topic.for_each(|owned| owned.extend(&partitions));
            }
        }
        for (member_id, partitions) in &target {
            if self.target.get(member_id) != Some(partitions) {
                self.say(target_record(id, member_id, Some(partitions)), records);
            }
        }
        let reached = Some((self.epoch, now.wall));
        self.say(assignment_epoch_record(id, reached), records);
    }
}
