//! The topics that groups subscribe to, as the cluster has them.

use alloc::collections::BTreeSet;

use crate::metadata::image::{Image, Topic};
use crate::topic_pattern::TopicPattern;
use crate::wire::Str;

/// The topics, and a number that changes when they do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Topics<'a> {
    pub(crate) image: &'a Image,
    pub(crate) version: u64,
}

impl Topics<'_> {
    pub(crate) fn by_name(&self, name: &str) -> Option<&Topic> {
        self.image.topic(name)
    }

    /// The topics whose whole name an expression matches: the broker's own too, as with Kafka.
    pub(super) fn matching(&self, expression: &str) -> BTreeSet<Str> {
        let Ok(pattern) = TopicPattern::new(expression) else {
            return BTreeSet::new();
        };
        let names = self.image.topics().map(|topic| topic.name.as_str());
        names
            .filter(|name| pattern.matches(name))
            .map(Str::from)
            .collect()
    }
}
