//! Which committed offsets have outlived their use, and which groups with them.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::classic::{ClassicGroup, ClassicState};
use super::record::{classic_record, offset_record};
use super::shard::{Group, GroupKind};
use crate::time::Wall;
use crate::wire::consumer_protocol::ConsumerProtocolSubscription;
use crate::wire::coordinator_records::CoordinatorRecord;
use crate::wire::{Str, Versioned};

/// From when on a group's offsets age.
enum Since {
    /// They do not.
    Never,
    /// From a time of the group, in milliseconds.
    Group(i64),
    /// Each from its commit, unless the topic is subscribed to.
    Commit { subscribed: BTreeSet<Str> },
}

/// The records that delete what has expired of a group, and the group itself if nothing is left.
pub(super) fn expired(
    id: &Str,
    group: &Group,
    now: Wall,
    retention_ms: u64,
) -> Vec<CoordinatorRecord> {
    let since = match &group.kind {
        GroupKind::Classic(classic) => since_of_classic(classic),
    };
    let mut records = Vec::new();
    for (topic, partition, offset) in group.offsets.iter() {
        let from = match &since {
            Since::Never => continue,
            Since::Group(from) => *from,
            Since::Commit { subscribed } if subscribed.contains(topic) => continue,
            Since::Commit { .. } => offset.commit_timestamp_ms,
        };
        if offset.is_expired(now.0, from, retention_ms) {
            records.push(offset_record(id, topic, partition, None));
        }
    }
    if records.len() == group.offsets.len() && group.is_vacant() {
        records.push(end_of(id, group));
    }
    records
}

/// The records that delete a group with everything in it.
pub(super) fn deletion(id: &Str, group: &Group) -> Vec<CoordinatorRecord> {
    let offsets = group.offsets.iter();
    offsets
        .map(|(topic, partition, _)| offset_record(id, topic, partition, None))
        .chain([end_of(id, group)])
        .collect()
}

fn end_of(id: &Str, group: &Group) -> CoordinatorRecord {
    match &group.kind {
        GroupKind::Classic(_) => classic_record(id, None),
    }
}

fn since_of_classic(group: &ClassicGroup) -> Since {
    let nothing = BTreeSet::new();
    match (group.protocol_type(), group.state()) {
        // Somebody without a group's membership stores offsets here.
        (None, _) => Since::Commit {
            subscribed: nothing,
        },
        (Some(_), ClassicState::Empty) => match group.state_since_ms() {
            Some(since) => Since::Group(since),
            None => Since::Commit {
                subscribed: nothing,
            },
        },
        (Some(_), ClassicState::Stable) => match subscribed_topics(group) {
            Some(subscribed) => Since::Commit { subscribed },
            None => Since::Never,
        },
        (Some(_), _) => Since::Never,
    }
}

/// The topics that the members of a classic group subscribe to; `None` if they are no consumers, or
/// one of them speaks in a way that is not understood.
pub(crate) fn subscribed_topics(group: &ClassicGroup) -> Option<BTreeSet<Str>> {
    if group.protocol_type().is_none_or(|kind| kind != "consumer") {
        return None;
    }
    let mut topics = BTreeSet::new();
    for metadata in group.subscriptions() {
        let subscription = ConsumerProtocolSubscription::read_lenient(metadata?.clone()).ok()?;
        topics.extend(subscription.topics);
    }
    Some(topics)
}
