//! Who owns what in a group that the broker assigns for (KIP-848).
//!
//! An assignor is a pure function: members with what they subscribe to and what they should own so
//! far, topics with their number of partitions, and out comes what each should own. Every partition
//! of a topic that anybody subscribes to gets exactly one owner, who subscribes to it.

mod range;
#[cfg(test)]
mod tests;
mod uniform;

use alloc::collections::{BTreeMap, BTreeSet};

use crate::ids::TopicId;
use crate::wire::Str;

/// Partitions by topic; no topic without partitions.
pub(crate) type Partitions = BTreeMap<TopicId, BTreeSet<i32>>;

/// A member, as an assignor sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscriber {
    pub(crate) instance_id: Option<Str>,
    /// Topics that exist.
    pub(crate) topics: BTreeSet<TopicId>,
    /// What it should own according to the assignment before.
    pub(crate) before: Partitions,
}

/// The assignors, by the names that members ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Assignor {
    /// As even as subscriptions allow, moving as little as that needs.
    Uniform,
    /// Of each topic a contiguous range to each member, so that partitions of the same number go to
    /// the same member.
    Range,
}

impl Assignor {
    /// The first is the default.
    pub(crate) const ALL: [Self; 2] = [Self::Uniform, Self::Range];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|assignor| assignor.name() == name)
    }

    /// What each member should own. `topics` has every topic that is subscribed to.
    pub(crate) fn assign(
        self,
        members: &BTreeMap<Str, Subscriber>,
        topics: &BTreeMap<TopicId, i32>,
    ) -> BTreeMap<Str, Partitions> {
        match self {
            Self::Uniform => uniform::assign(members, topics),
            Self::Range => range::assign(members, topics),
        }
    }
}
