//! Partitions come to a member and go from it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;

use super::commit::{Commit, Owner};
use super::committing::end_commit;
use super::{Cx, Group};
use crate::client::effect::Polled;
use crate::client::error::ClientError;
use crate::client::input::{StartAt, TopicPartition};
use crate::client::step::Step;
use crate::ids::TopicId;

/// A partition that the member owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    /// Tells one stretch of ownership from another.
    pub(super) since: u64,
    /// Under which id it was assigned, if by id.
    pub(super) topic_id: TopicId,
}

/// Partitions that go to somebody else.
#[derive(Debug)]
pub(super) struct GivingUp {
    pub(super) partitions: Vec<TopicPartition>,
    /// Whether the application is done with them, and they are being committed.
    pub(super) is_committing: bool,
}

/// What must change for the member to own what it shall.
pub(super) struct Change {
    pub(super) gone: Vec<TopicPartition>,
    pub(super) new: Vec<(TopicPartition, TopicId)>,
}

impl Group {
    /// What must change for the member to own exactly these. What it shall no longer own is given up
    /// first.
    pub(super) fn change_to(&self, target: &BTreeMap<TopicPartition, TopicId>) -> Change {
        let gone: Vec<TopicPartition> = self
            .owned
            .iter()
            .filter(|(partition, owned)| target.get(partition) != Some(&owned.topic_id))
            .map(|(partition, _)| partition.clone())
            .collect();
        let new: Vec<(TopicPartition, TopicId)> = target
            .iter()
            .filter(|(partition, _)| !self.owned.contains_key(partition))
            .map(|(partition, id)| (partition.clone(), *id))
            .collect();
        Change { gone, new }
    }

    pub(super) fn add(&mut self, cx: &mut Cx<'_, '_>, new: Vec<(TopicPartition, TopicId)>) {
        let mut told = Vec::new();
        for (partition, topic_id) in new {
            cx.metadata.want(&partition.topic);
            self.last_stamp += 1;
            let owned = Owned {
                since: self.last_stamp,
                topic_id,
            };
            self.owned.insert(partition.clone(), owned);
            cx.consumer.add(partition.clone(), StartAt::Committed);
            told.push(partition);
        }
        cx.consumer.notify(Polled::Assigned(told));
    }

    /// Begins to give partitions up.
    pub(super) fn give_up(&mut self, cx: &mut Cx<'_, '_>, partitions: Vec<TopicPartition>) {
        cx.consumer.revoke(partitions.clone());
        self.giving_up = Some(GivingUp {
            partitions,
            is_committing: false,
        });
    }

    pub(super) fn give_up_further(&mut self, cx: &mut Cx<'_, '_>) {
        let Some(given) = &mut self.giving_up else {
            return;
        };
        if !given.is_committing {
            if !cx.consumer.take_revoked() {
                return;
            }
            given.is_committing = true;
            if self.config.enable_auto_commit {
                let partitions = given.partitions.clone();
                let now = cx.step.now.mono;
                self.push_processed(now, cx.consumer, Owner::GivingUp, |partition| {
                    partitions.contains(partition)
                });
            }
        }
        let Some(given) = &self.giving_up else {
            return;
        };
        // Also what the application committed of them while it still could.
        let partitions = &given.partitions;
        let pending = |partition: &TopicPartition| partitions.contains(partition);
        if self.commits.have(pending) {
            return;
        }
        if let Some(given) = self.giving_up.take() {
            for partition in &given.partitions {
                cx.consumer.remove(partition);
                self.owned.remove(partition);
            }
            self.drop_useless_commits(cx.step);
        }
    }

    /// Everything that it owned may belong to somebody else already.
    pub(super) fn lose_all(&mut self, cx: &mut Cx<'_, '_>) {
        self.giving_up = None;
        cx.consumer.forget_revocation();
        let lost: Vec<TopicPartition> = mem::take(&mut self.owned).into_keys().collect();
        for partition in &lost {
            cx.consumer.remove(partition);
        }
        if !lost.is_empty() {
            cx.consumer.notify(Polled::Lost(lost));
        }
        self.drop_useless_commits(cx.step);
    }

    /// Commits of what is no longer owned must not be sent.
    pub(super) fn drop_useless_commits(&mut self, step: &mut Step<'_>) {
        let owned = &self.owned;
        let useless = self
            .commits
            .drop_waiting(|commit| !still_holds(commit, owned));
        for commit in useless {
            end_commit(step, &commit, Err(ClientError::NotAssigned));
        }
    }
}

/// Whether the member still owns what it wants to commit, without a break.
pub(super) fn still_holds(commit: &Commit, owned: &BTreeMap<TopicPartition, Owned>) -> bool {
    commit
        .owned_since
        .iter()
        .all(|(partition, since)| owned.get(partition).is_some_and(|own| own.since == *since))
}
