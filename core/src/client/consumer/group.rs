//! What a group needs of the consumer: partitions come and go, their positions are to be committed,
//! and the application hears of it among what it polls.
//!
//! What was processed is what had been handed out when the application polled again, as in Kafka.

use alloc::vec::Vec;
use core::mem;

use super::Consumer;
use super::assigned::{Assigned, Position};
use crate::client::config::OffsetReset;
use crate::client::effect::Polled;
use crate::client::error::ClientError;
use crate::client::input::{OffsetSpec, OffsetToCommit, StartAt, TopicPartition};
use crate::ids::Offset;
use crate::time::Mono;

/// How far the application is in giving partitions up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Revocation {
    #[default]
    None,
    /// It was told, and may be at work on it.
    Told,
    /// It has polled since: it is done.
    Done,
}

impl Consumer {
    /// Reads one more partition.
    pub(crate) fn add(&mut self, partition: TopicPartition, start: StartAt) {
        let generation = self.new_generation();
        self.assigned
            .insert(partition, Assigned::new(start, generation));
    }

    /// Reads a partition no longer.
    pub(crate) fn remove(&mut self, partition: &TopicPartition) {
        self.assigned.remove(partition);
        self.forget_useless_lookups();
    }

    /// Reads nothing any more.
    pub(crate) fn clear(&mut self) {
        self.assigned.clear();
        self.forget_useless_lookups();
    }

    /// Hands out nothing of these partitions any more, and tells the application.
    pub(crate) fn revoke(&mut self, partitions: Vec<TopicPartition>) {
        for partition in &partitions {
            if let Some(assigned) = self.assigned.get_mut(partition) {
                assigned.revoking = true;
            }
        }
        self.revocation = Revocation::None;
        self.notify(Polled::Revoked(partitions));
    }

    /// Whether the application is done with what was last revoked; asked until it is.
    pub(crate) fn take_revoked(&mut self) -> bool {
        let done = self.revocation == Revocation::Done;
        if done {
            self.revocation = Revocation::None;
        }
        done
    }

    /// The next poll is told this.
    pub(crate) fn notify(&mut self, notice: Polled) {
        self.notices.push(notice);
    }

    /// Forgets that partitions were to be revoked: they are lost.
    pub(crate) fn forget_revocation(&mut self) {
        self.revocation = Revocation::None;
        self.notices
            .retain(|notice| !matches!(notice, Polled::Revoked(_)));
    }

    pub(super) fn take_notices(&mut self) -> Vec<Polled> {
        let notices = mem::take(&mut self.notices);
        if notices
            .iter()
            .any(|notice| matches!(notice, Polled::Revoked(_)))
        {
            self.revocation = Revocation::Told;
        }
        notices
    }

    /// The application is done with everything that was handed out.
    pub(crate) fn processed_all(&mut self) {
        for assigned in self.assigned.values_mut() {
            if let Position::At(position) = assigned.position {
                assigned.processed = Some(position);
            }
        }
        if self.revocation == Revocation::Told {
            self.revocation = Revocation::Done;
        }
    }

    /// Since when the application has not polled; `None` while a poll waits.
    pub(crate) fn not_polled_since(&self) -> Option<Mono> {
        self.poll.is_none().then_some(self.polled_at)
    }

    /// The time without a poll begins now.
    pub(crate) const fn expect_poll(&mut self, now: Mono) {
        self.polled_at = now;
    }

    /// How far the application has processed a partition, if the group does not have that yet.
    pub(crate) fn to_commit(&self, partition: &TopicPartition) -> Option<OffsetToCommit> {
        let assigned = self.assigned.get(partition)?;
        let offset = assigned.processed?;
        (assigned.committed != Some(offset)).then(|| OffsetToCommit {
            offset,
            leader_epoch: assigned.last_epoch,
            metadata: alloc::string::String::new(),
        })
    }

    /// What was handed out of each partition.
    pub(crate) fn positions(&self) -> impl Iterator<Item = (TopicPartition, OffsetToCommit)> {
        self.assigned.iter().filter_map(|(partition, assigned)| {
            let Position::At(offset) = assigned.position else {
                return None;
            };
            let position = OffsetToCommit {
                offset,
                leader_epoch: assigned.last_epoch,
                metadata: alloc::string::String::new(),
            };
            Some((partition.clone(), position))
        })
    }

    /// The group has stored how far a partition is read.
    pub(crate) fn is_committed(&mut self, partition: &TopicPartition, offset: Offset) {
        if let Some(assigned) = self.assigned.get_mut(partition) {
            assigned.committed = Some(offset);
        }
    }

    /// The partitions whose committed offsets are to be asked for, each with its generation.
    pub(crate) fn without_committed(&self) -> Vec<(TopicPartition, u64)> {
        self.assigned
            .iter()
            .filter(|(_, assigned)| assigned.position == Position::Committed)
            .map(|(partition, assigned)| (partition.clone(), assigned.generation))
            .collect()
    }

    /// What the group has committed of a partition, as of `generation`.
    pub(crate) fn begin_at_committed(
        &mut self,
        partition: &TopicPartition,
        generation: u64,
        committed: Option<Offset>,
    ) {
        let reset = self.config.auto_offset_reset;
        let Some(assigned) = self.assigned.get_mut(partition) else {
            return;
        };
        if assigned.generation != generation || assigned.position != Position::Committed {
            return;
        }
        assigned.committed = committed;
        match (committed, reset) {
            (Some(offset), _) => assigned.start_at(offset),
            (None, OffsetReset::Earliest) => {
                assigned.position = Position::Unknown(OffsetSpec::Earliest);
            }
            (None, OffsetReset::Latest) => {
                assigned.position = Position::Unknown(OffsetSpec::Latest);
            }
            (None, OffsetReset::None) => {
                assigned.complain(ClientError::NoCommittedOffset);
                assigned.position = Position::Lost;
            }
        }
    }

    /// The committed offset of a partition cannot be known.
    pub(crate) fn complain(&mut self, partition: &TopicPartition, error: ClientError) {
        if let Some(assigned) = self.assigned.get_mut(partition) {
            assigned.complain(error);
        }
    }

    /// Without a group nothing is committed: what begins there is an error.
    pub(crate) fn refuse_committed(&mut self) {
        for assigned in self.assigned.values_mut() {
            if assigned.position == Position::Committed {
                assigned.complain(ClientError::NoGroup);
                assigned.position = Position::Lost;
            }
        }
    }
}
