//! Brings a member to its target, without two owners of a partition at any time.

use super::replay::{current_record, each};
use super::{ConsumerGroup, ConsumerMember, MemberState, Records};
use crate::bugs::Bug;
use crate::group::assignor::Partitions;
use crate::wire::Str;

impl ConsumerGroup {
    /// Moves a member on as far as it can go. `owned` is what it says it owns, if it says.
    pub(super) fn reconcile(
        &mut self,
        id: &Str,
        member_id: &Str,
        owned: Option<&Partitions>,
        records: &mut Records,
    ) {
        let Some(member) = self.members.get(member_id) else {
            return;
        };
        let may_move = match member.state {
            MemberState::Stable => member.epoch != self.assignment_epoch,
            // It owns none of what it is to give up any more, and says so.
            MemberState::Unrevoked => gave_up(&member.revoking, owned),
            MemberState::Unreleased => true,
        };
        if !may_move {
            return;
        }
        let next = self.next_assignment(member_id, member);
        if next != *member {
            self.say(current_record(id, member_id, Some(&next)), records);
        }
    }

    fn next_assignment(&self, member_id: &Str, member: &ConsumerMember) -> ConsumerMember {
        let nothing = Partitions::new();
        let target = self.target.get(member_id).unwrap_or(&nothing);
        let (mut kept, mut revoking, mut taking) =
            (Partitions::new(), Partitions::new(), Partitions::new());
        for (topic, partition) in each(&member.assigned) {
            let stays = contains(target, topic, partition);
            let to = if stays { &mut kept } else { &mut revoking };
            to.entry(topic).or_default().insert(partition);
        }
        let mut unreleased = false;
        for (topic, partition) in each(target) {
            if contains(&kept, topic, partition) {
                continue;
            }
            if self
                .owners
                .get(&(topic, partition))
                .is_some_and(|owner| owner != member_id && !self.bugs.has(Bug::GiveBeforeRevoke))
            {
                unreleased = true;
            } else {
                taking.entry(topic).or_default().insert(partition);
            }
        }
        let mut next = member.clone();
        // One who has just joined in the place of a static member's old self owns nothing that it
        // would have to give up, and must not be told to stay in epoch 0.
        if !revoking.is_empty() && member.epoch != 0 {
            // It stays in its epoch until it has given them up. That it says it owns none of them
            // does not count before it was told: it may be about to take what it was told earlier.
            next.state = MemberState::Unrevoked;
            next.assigned = kept;
            next.revoking = revoking;
            return next;
        }
        for (topic, partition) in each(&taking) {
            kept.entry(topic).or_default().insert(partition);
        }
        next.state = if unreleased {
            MemberState::Unreleased
        } else {
            MemberState::Stable
        };
        next.assigned = kept;
        next.revoking = Partitions::new();
        if next.epoch != self.assignment_epoch {
            next.previous_epoch = next.epoch;
            next.epoch = self.assignment_epoch;
        }
        next
    }
}

/// Whether a member says that it owns none of these; one that says nothing may.
fn gave_up(revoking: &Partitions, owned: Option<&Partitions>) -> bool {
    revoking.is_empty()
        || owned.is_some_and(|owned| {
            !each(revoking).any(|(topic, partition)| contains(owned, topic, partition))
        })
}

fn contains(partitions: &Partitions, topic: crate::ids::TopicId, partition: i32) -> bool {
    partitions
        .get(&topic)
        .is_some_and(|indexes| indexes.contains(&partition))
}
