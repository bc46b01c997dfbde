//! Commits: the application's own, those of what it processed, and those before a partition goes.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use super::commit::{Answered, Commit, Owner, judge};
use super::ownership::still_holds;
use super::{Cx, Group, Phase};
use crate::client::consumer::Consumer;
use crate::client::effect::ClientEvent;
use crate::client::error::ClientError;
use crate::client::input::{CommandId, OffsetToCommit, TopicPartition};
use crate::client::network::{GroupRequest, Purpose};
use crate::client::step::Step;
use crate::report::Level;
use crate::time::Mono;
use crate::wire::{ErrorCode, RequestBody, ResponseBody, Str};

impl Group {
    /// Stores how far the group has read, for the application.
    pub(crate) fn commit(
        &mut self,
        step: &mut Step<'_>,
        consumer: &Consumer,
        id: CommandId,
        offsets: Option<Vec<(TopicPartition, OffsetToCommit)>>,
        timeout_ms: u32,
    ) {
        let offsets: BTreeMap<TopicPartition, OffsetToCommit> = match offsets {
            Some(offsets) => offsets.into_iter().collect(),
            None => consumer.positions().collect(),
        };
        let until = step.now.mono.plus_ms(timeout_ms.into());
        self.push_commit(step, offsets, Owner::Application(id), until);
    }

    pub(super) fn push_commit(
        &mut self,
        step: &mut Step<'_>,
        offsets: BTreeMap<TopicPartition, OffsetToCommit>,
        owner: Owner,
        until: Mono,
    ) {
        let mut owned_since = BTreeMap::new();
        if self.topics.is_some() {
            for partition in offsets.keys() {
                if let Some(owned) = self.owned.get(partition) {
                    owned_since.insert(partition.clone(), owned.since);
                }
            }
        }
        let foreign = self.topics.is_some() && owned_since.len() < offsets.len();
        let empty = offsets.is_empty();
        let commit = Commit::new(offsets, owned_since, owner, until);
        if empty {
            end_commit(step, &commit, Ok(()));
        } else if foreign {
            end_commit(step, &commit, Err(ClientError::NotAssigned));
        } else {
            self.commits.push(commit);
        }
    }

    /// Commits what was processed of the partitions that `of` holds for, unless the group has it.
    pub(super) fn push_processed(
        &mut self,
        now: Mono,
        consumer: &Consumer,
        owner: Owner,
        of: impl Fn(&TopicPartition) -> bool,
    ) {
        let own: Vec<TopicPartition> = match &self.topics {
            Some(_) => self.owned.keys().cloned().collect(),
            None => consumer
                .positions()
                .map(|(partition, _)| partition)
                .collect(),
        };
        let offsets: BTreeMap<TopicPartition, OffsetToCommit> = own
            .into_iter()
            .filter(of)
            .filter_map(|partition| {
                let offset = consumer.to_commit(&partition)?;
                Some((partition, offset))
            })
            .collect();
        if offsets.is_empty() {
            return;
        }
        let owned_since = offsets
            .keys()
            .filter_map(|partition| Some((partition.clone(), self.owned.get(partition)?.since)))
            .collect();
        let until = now.plus_ms(self.request_timeout_ms.into());
        self.commits
            .push(Commit::new(offsets, owned_since, owner, until));
    }

    pub(super) fn auto_commit_after(&self, now: Mono) -> Mono {
        now.plus_ms(self.config.auto_commit_interval_ms.max(1).into())
    }

    pub(super) fn send_commits(&mut self, cx: &mut Cx<'_, '_>) {
        let now = cx.step.now.mono;
        let mut overdue = self.commits.drop_waiting(|commit| commit.until <= now);
        overdue.extend(self.commits.take_overdue(now));
        for mut commit in overdue {
            commit.last_error = commit.last_error.or(self.coordinator.last_error);
            let error = commit.timed_out();
            end_commit(cx.step, &commit, Err(error));
        }
        self.drop_useless_commits(cx.step);
        if !self.commits.is_due(now) {
            return;
        }
        let is_member = self.topics.is_some() || self.leaving.is_some();
        let between = !matches!(self.phase, Phase::In | Phase::Out);
        // A commit behind a JoinGroup would wait as long as that does.
        if between && self.leaving.is_none() {
            return;
        }
        let Some(target) = self.bypass(cx) else {
            return;
        };
        let member = if is_member && self.epoch >= 0 {
            let (id, instance) = (self.member_id.clone(), self.instance_id.clone());
            (self.group_id.clone(), id, instance, self.epoch)
        } else {
            (self.group_id.clone(), Str::default(), None, -1)
        };
        if let Some((number, request, within)) = self.commits.next_request(cx.metadata, member) {
            let purpose = Some(Purpose::Group(GroupRequest::Commit, number));
            let body = RequestBody::from(request);
            if let Err(error) = cx.network.send(cx.step, target, purpose, &body, within, 0)
                && let Some(commit) = self.commits.take(number)
            {
                end_commit(cx.step, &commit, Err(error));
            }
        }
    }

    pub(super) fn commit_answered(
        &mut self,
        cx: &mut Cx<'_, '_>,
        number: u64,
        result: Result<ResponseBody, ClientError>,
    ) {
        let Some(mut commit) = self.commits.take(number) else {
            return;
        };
        let answered = match result {
            Ok(ResponseBody::OffsetCommit(response)) => judge(&commit, &response),
            _ => {
                self.coordinator.lost(cx.step);
                Answered::Again(None)
            }
        };
        match answered {
            Answered::Done(stored, failed) => {
                for (partition, offset) in stored {
                    cx.consumer.is_committed(&partition, offset);
                }
                let result = failed.map_or(Ok(()), |code| Err(ClientError::broker(code)));
                end_commit(cx.step, &commit, result);
            }
            Answered::Again(code) => {
                commit.last_error = code.or(commit.last_error);
                self.commits.retry(cx.step, commit);
            }
            Answered::Refused(code) => self.commit_refused(cx, commit, code),
        }
    }

    pub(super) fn commit_refused(
        &mut self,
        cx: &mut Cx<'_, '_>,
        mut commit: Commit,
        code: ErrorCode,
    ) {
        commit.last_error = Some(code);
        match code {
            ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => {
                self.coordinator.lost(cx.step);
                return self.commits.retry(cx.step, commit);
            }
            ErrorCode::STALE_MEMBER_EPOCH => {
                // The next heartbeat brings the new one.
                self.consumer_protocol.beat_at = Mono(0);
                return self.commits.retry(cx.step, commit);
            }
            _ => {}
        }
        let holds = still_holds(&commit, &self.owned);
        end_commit(cx.step, &commit, Err(ClientError::broker(code)));
        if commit.owned_since.is_empty() || !holds || self.leaving.is_some() {
            // Of a client that is no member, or of a membership that is over.
            return;
        }
        match code {
            ErrorCode::REBALANCE_IN_PROGRESS => self.classic.rejoin = true,
            ErrorCode::FENCED_INSTANCE_ID => self.fail(cx, ClientError::broker(code)),
            _ => self.fenced(cx, code),
        }
    }
}

/// Tells whoever wanted a commit.
pub(super) fn end_commit(step: &mut Step<'_>, commit: &Commit, result: Result<(), ClientError>) {
    match (commit.owner, result) {
        (Owner::Application(id), result) => {
            step.out.event(ClientEvent::Committed { id, result });
        }
        (Owner::Interval | Owner::GivingUp, Ok(())) => {}
        (Owner::Interval | Owner::GivingUp, Err(error)) => {
            step.report(Level::Warn, format!("offsets are not committed: {error}"));
        }
    }
}
