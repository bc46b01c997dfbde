//! A member of a consumer group: it enters and leaves, is assigned partitions and gives them up, and
//! commits how far it has read.
//!
//! ```text
//! Subscribe -> Out -> (joins) -> In -> REBALANCE_IN_PROGRESS, another target
//!               ^                 |       -> gives up: tells the application, waits for its next
//!               |                 |          poll, commits what it processed
//!               +--- fenced: all is lost; joins again
//! ```
//!
//! - A partition is handed over only when the application is done with it and what it processed was
//!   committed, or could not be in time.
//! - What is committed is sent under the generation or epoch in which the member owns the partition
//!   without a break since it was read; else it is not sent at all.
//! - A member that is fenced drops everything at once, and says that it is lost, not revoked.
//! - Nothing is kept of a group but the member's own place in it.
//!
//! [`classic`] and [`consumer_protocol`] are the two ways in which a member hears what it shall own;
//! what follows from that is here.
//!
//! Absent: assignors of the application's own, and racks in the choice of partitions.

mod assignor;
mod classic;
mod commit;
mod committed;
mod committing;
mod consumer_protocol;
mod coordinator;
mod membership;
mod ownership;
mod subscription;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;

use self::classic::Classic;
use self::commit::{Commits, Owner};
use self::committed::CommittedOffsets;
use self::committing::end_commit;
use self::consumer_protocol::ConsumerProtocol;
use self::coordinator::Coordinator;
use self::ownership::{GivingUp, Owned};
use self::subscription::Pattern;
use super::config::{ClientConfig, GroupConfig, GroupProtocol};
use super::consumer::Consumer;
use super::error::{ClientError, Timeout};
use super::input::{TopicName, TopicPartition};
use super::metadata::Metadata;
use super::network::{GroupRequest, Network, Purpose, Target};
use super::step::{Backoff, Step, earlier};
use crate::report::Level;
use crate::time::Mono;
use crate::wire::messages::JoinGroupResponse;
use crate::wire::{RequestBody, ResponseBody, Str, Versions};

/// A member of a group.
#[derive(Debug)]
pub(crate) struct Group {
    config: GroupConfig,
    group_id: Str,
    instance_id: Option<Str>,
    backoff: Backoff,
    request_timeout_ms: u32,
    coordinator: Coordinator,
    /// What it subscribes to; `None` for a client that assigns itself.
    topics: Option<BTreeSet<TopicName>>,
    /// How it chooses them, if not by name.
    pattern: Option<Pattern>,
    /// It will not join before it subscribes again.
    has_failed: bool,
    member_id: Str,
    /// The generation of a classic group, or the member's epoch. -1 if it is not in.
    epoch: i32,
    phase: Phase,
    /// Counts the attempts to be in: answers to an earlier one are void.
    life: u64,
    classic: Classic,
    consumer_protocol: ConsumerProtocol,
    owned: BTreeMap<TopicPartition, Owned>,
    last_stamp: u64,
    giving_up: Option<GivingUp>,
    leaving: Option<Leaving>,
    commits: Commits,
    committed: CommittedOffsets,
    next_auto_commit: Mono,
    /// When everything was last looked at.
    looked_at: Mono,
}

/// How far the member is in.
#[derive(Debug, Default)]
enum Phase {
    #[default]
    Out,
    /// A JoinGroup, or the first ConsumerGroupHeartbeat, is in flight.
    Joining,
    /// It leads the group and does not know all topics yet.
    Assigning(JoinGroupResponse),
    /// A SyncGroup is in flight.
    Syncing,
    In,
}

/// How far the member is in leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    /// What it processed is being committed.
    Committing,
    /// It has said so.
    Said { until: Mono },
}

/// What the rooms of the group need of a step.
struct Cx<'a, 'b> {
    step: &'a mut Step<'b>,
    metadata: &'a mut Metadata,
    network: &'a mut Network,
    consumer: &'a mut Consumer,
}

/// How far a step of a protocol came.
type Sent = Result<(), ClientError>;

impl Group {
    pub(crate) fn new(config: &ClientConfig, group: &GroupConfig) -> Self {
        let backoff = Backoff {
            first_ms: config.retry_backoff_ms,
            max_ms: config.retry_backoff_max_ms,
        };
        let group_id = Str::from(group.group_id.as_str());
        Self {
            coordinator: Coordinator::new(group_id.clone(), backoff),
            instance_id: group.instance_id.as_deref().map(Str::from),
            config: group.clone(),
            group_id,
            backoff,
            request_timeout_ms: config.request_timeout_ms,
            topics: None,
            pattern: None,
            has_failed: false,
            member_id: Str::default(),
            epoch: -1,
            phase: Phase::Out,
            life: 0,
            classic: Classic::default(),
            consumer_protocol: ConsumerProtocol::default(),
            owned: BTreeMap::new(),
            last_stamp: 0,
            giving_up: None,
            leaving: None,
            commits: Commits::new(backoff),
            committed: CommittedOffsets::default(),
            next_auto_commit: Mono(0),
            looked_at: Mono(0),
        }
    }

    /// Whether nothing is left to be done before the connections are closed.
    pub(crate) fn is_settled(&self) -> bool {
        self.leaving.is_none() && self.commits.is_empty()
    }

    /// Ends what the application waits for.
    pub(crate) fn abort(&mut self, step: &mut Step<'_>) {
        let mut left = self.commits.drop_waiting(|_| true);
        left.extend(self.commits.take_overdue(Mono(u64::MAX)));
        for commit in left {
            let error = ClientError::TimedOut {
                what: Timeout::Close,
                last: commit.last_error,
            };
            end_commit(step, &commit, Err(error));
        }
        self.leaving = None;
    }

    /// The member's id and generation or epoch, if it is in.
    pub(crate) fn membership(&self) -> Option<(&str, i32)> {
        matches!(self.phase, Phase::In).then(|| (self.member_id.as_str(), self.epoch))
    }

    /// What the group assigned and did not take back yet.
    pub(crate) fn assignment(&self) -> impl Iterator<Item = &TopicPartition> {
        self.owned.keys()
    }

    /// Joins, heartbeats, commits and leaves as far as that can be done now.
    pub(crate) fn settle(
        &mut self,
        step: &mut Step<'_>,
        metadata: &mut Metadata,
        network: &mut Network,
        consumer: &mut Consumer,
    ) {
        let now = step.now.mono;
        self.looked_at = now;
        let cx = &mut Cx {
            step,
            metadata,
            network,
            consumer,
        };
        self.give_up_further(cx);
        if self.leaving.is_some() {
            self.leave_further(cx);
        } else if self.wants_in(cx) && self.match_topics(cx.metadata) {
            match self.config.protocol {
                GroupProtocol::Classic => self.settle_classic(cx),
                GroupProtocol::Consumer => self.settle_consumer_protocol(cx),
            }
        }
        if self.config.enable_auto_commit && self.next_auto_commit <= now {
            self.next_auto_commit = self.auto_commit_after(now);
            if !self.commits.has(Owner::Interval) && self.leaving.is_none() {
                let giving_up = self
                    .giving_up
                    .as_ref()
                    .map(|given| given.partitions.clone());
                self.push_processed(now, cx.consumer, Owner::Interval, |partition| {
                    giving_up
                        .as_ref()
                        .is_none_or(|given| !given.contains(partition))
                });
            }
        }
        self.send_commits(cx);
        self.ask_committed(cx);
    }

    /// Whether it is to be a member. One whose application does not poll gives its place up until it
    /// does.
    fn wants_in(&mut self, cx: &mut Cx<'_, '_>) -> bool {
        if self.topics.is_none() || self.has_failed {
            return false;
        }
        let overdue = self
            .poll_deadline(cx.consumer)
            .is_some_and(|until| until <= cx.step.now.mono);
        if overdue && (!matches!(self.phase, Phase::Out) || !self.owned.is_empty()) {
            let what = Timeout::Poll;
            let error = ClientError::TimedOut { what, last: None };
            cx.step.report(
                Level::Warn,
                format!("group {}: {error}: the member leaves", self.group_id),
            );
            self.say_goodbye(cx);
            self.drop_membership();
            self.lose_all(cx);
        }
        !overdue
    }

    fn poll_deadline(&self, consumer: &Consumer) -> Option<Mono> {
        let since = consumer.not_polled_since()?;
        Some(since.plus_ms(self.config.max_poll_interval_ms.into()))
    }

    // ---- answers ----

    /// An answer came, or none will.
    pub(crate) fn answered(
        &mut self,
        step: &mut Step<'_>,
        metadata: &mut Metadata,
        network: &mut Network,
        consumer: &mut Consumer,
        (what, number): (GroupRequest, u64),
        result: Result<ResponseBody, ClientError>,
    ) {
        let cx = &mut Cx {
            step,
            metadata,
            network,
            consumer,
        };
        match what {
            GroupRequest::FindCoordinator => {
                let found = self.coordinator.answered(cx.step, cx.metadata, result);
                if let Err(error) = found
                    && self.topics.is_some()
                {
                    self.fail(cx, error);
                }
            }
            GroupRequest::Commit => self.commit_answered(cx, number, result),
            GroupRequest::FetchOffsets => self.committed_answered(cx, number, result),
            _ if number != self.life => {}
            GroupRequest::Leave => {
                if matches!(self.leaving, Some(Leaving::Said { .. })) {
                    self.leaving = None;
                }
            }
            GroupRequest::Join => self.joined(cx, result),
            GroupRequest::Sync => self.synced(cx, result),
            GroupRequest::Heartbeat => self.beaten(cx, result),
            GroupRequest::ConsumerHeartbeat => self.told(cx, result),
        }
    }

    /// Sends what a protocol has to say, under the life of now.
    fn send(
        &self,
        cx: &mut Cx<'_, '_>,
        target: Target,
        what: GroupRequest,
        body: impl Into<RequestBody>,
        min_version: i16,
        extra_timeout_ms: u32,
    ) -> Sent {
        let purpose = Some(Purpose::Group(what, self.life));
        let within = Versions::new(min_version, i16::MAX);
        let body = body.into();
        let extra = extra_timeout_ms;
        cx.network
            .send(cx.step, target, purpose, &body, within, extra)
    }

    /// When [`Self::settle`] has something to do.
    pub(crate) fn deadline(&self, consumer: &Consumer) -> Option<Mono> {
        let now = self.looked_at;
        let member = self.topics.is_some() && !self.has_failed && self.leaving.is_none();
        let protocol = match self.config.protocol {
            GroupProtocol::Classic => self.classic_deadline(),
            GroupProtocol::Consumer => self.consumer_protocol_deadline(),
        };
        let leaving = match self.leaving {
            Some(Leaving::Said { until }) => Some(until),
            _ => None,
        };
        let is_reading = !self.owned.is_empty() || consumer.positions().next().is_some();
        let commits = self.config.enable_auto_commit && is_reading;
        [
            protocol.filter(|_| member),
            self.poll_deadline(consumer).filter(|_| member),
            leaving,
            self.coordinator.deadline(now),
            self.commits.deadline(now),
            Some(self.committed.not_before),
            commits.then_some(self.next_auto_commit),
        ]
        .into_iter()
        .map(|at| at.filter(|at| *at > now))
        .fold(None, earlier)
    }
}
