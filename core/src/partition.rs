//! A partition: its log, its leader epoch, its high watermark, and who waits for it.

pub(crate) mod delayed_fetch;
pub(crate) mod delayed_produce;

use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use crate::bugs::Bug;
use crate::connection::RequestId;
use crate::context::Context;
use crate::ids::{LeaderEpoch, Offset, TopicId};
use crate::log::{AppendError, AppendInfo, Log, LogState};
use crate::record::batch::CheckedBatch;
use crate::wire::ErrorCode;

/// A partition's name in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartitionKey {
    /// Its topic.
    pub topic: TopicId,
    /// Its number in the topic.
    pub index: i32,
}

/// The leader of one partition.
#[derive(Debug)]
pub struct Partition {
    /// Topic and number, for people: `orders-0`.
    pub(crate) name: String,
    pub(crate) log: Log,
    /// Whether it holds groups.
    pub(crate) holds_groups: bool,
    pub(crate) leader_epoch: LeaderEpoch,
    /// `min.insync.replicas` of its topic.
    pub(crate) min_in_sync_replicas: i64,
    high_watermark: Offset,
    /// The log start that retention or DeleteRecords wants; visible once it is durable.
    pub(crate) wanted_log_start: Offset,
    /// In the order of their offsets.
    waiting_produces: VecDeque<WaitingProduce>,
    waiting_fetches: BTreeSet<RequestId>,
    waiting_deletes: Vec<WaitingDelete>,
}

#[derive(Debug)]
struct WaitingProduce {
    last_offset: Offset,
    request: RequestId,
    place: usize,
}

#[derive(Debug)]
struct WaitingDelete {
    log_start: Offset,
    request: RequestId,
    place: usize,
}

/// What a change of the log means for those who wait for the partition.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// Produces of which a part is acknowledged, or lost.
    pub(crate) produces: Vec<(RequestId, usize, Option<ErrorCode>)>,
    /// Fetches that must look again.
    pub(crate) fetches: Vec<RequestId>,
    /// Deletions of records: the log start that is durable now, or why none will be.
    pub(crate) deletes: Vec<(RequestId, usize, Result<Offset, ErrorCode>)>,
    /// From where on appended records are lost.
    pub(crate) lost: Option<Offset>,
}

impl Partition {
    /// A partition over a log that is being created or opened.
    pub(crate) fn new(name: String, log: Log, leader_epoch: LeaderEpoch) -> Self {
        Self {
            name,
            log,
            holds_groups: false,
            leader_epoch,
            min_in_sync_replicas: 1,
            high_watermark: Offset(0),
            wanted_log_start: Offset(0),
            waiting_produces: VecDeque::new(),
            waiting_fetches: BTreeSet::new(),
            waiting_deletes: Vec::new(),
        }
    }

    /// The first offset that no reader may see yet.
    #[must_use]
    pub const fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// The partition's log.
    #[must_use]
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// The epoch of this leader.
    #[must_use]
    pub const fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch
    }

    /// How many requests are parked here.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting_produces.len() + self.waiting_fetches.len() + self.waiting_deletes.len()
    }

    /// Holds a client's idea of the leader epoch against the partition's (KIP-320); -1 is none.
    pub(crate) const fn check_epoch(&self, current_leader_epoch: i32) -> Result<(), ErrorCode> {
        if current_leader_epoch < 0 || current_leader_epoch == self.leader_epoch.0 {
            Ok(())
        } else if current_leader_epoch < self.leader_epoch.0 {
            Err(ErrorCode::FENCED_LEADER_EPOCH)
        } else {
            Err(ErrorCode::UNKNOWN_LEADER_EPOCH)
        }
    }

    /// Whether it can be read now.
    pub(crate) fn check_readable(&self) -> Result<(), ErrorCode> {
        if self.log.is_readable() {
            Ok(())
        } else {
            Err(ErrorCode::KAFKA_STORAGE_ERROR)
        }
    }

    /// Appends batches as the leader.
    pub(crate) fn append_as_leader(
        &mut self,
        cx: &mut Context<'_>,
        batches: &[CheckedBatch],
    ) -> Result<AppendInfo, AppendError> {
        self.log.append(cx, batches, self.leader_epoch)
    }

    /// Asks retention for a new log start. True if it wants one.
    pub(crate) fn enforce_retention(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(start) = self.log.retention(cx, self.high_watermark) else {
            return false;
        };
        self.wanted_log_start = self.wanted_log_start.max(start);
        true
    }

    /// A produce waits until its last offset is below the high watermark.
    pub(crate) fn park_produce(&mut self, last_offset: Offset, request: RequestId, place: usize) {
        // A retry waits beside its original, which need not be the last.
        let at = self
            .waiting_produces
            .partition_point(|waiting| waiting.last_offset <= last_offset);
        let waiting = WaitingProduce {
            last_offset,
            request,
            place,
        };
        self.waiting_produces.insert(at, waiting);
    }

    /// A fetch wants to look again when something changes.
    pub(crate) fn park_fetch(&mut self, request: RequestId) {
        self.waiting_fetches.insert(request);
    }

    /// A fetch waits no more.
    pub(crate) fn forget_fetch(&mut self, request: RequestId) {
        self.waiting_fetches.remove(&request);
    }

    /// A DeleteRecords waits until the log start is durable.
    pub(crate) fn park_delete(&mut self, log_start: Offset, request: RequestId, place: usize) {
        self.waiting_deletes.push(WaitingDelete {
            log_start,
            request,
            place,
        });
    }

    /// Draws the consequences of whatever happened to the log. Call after every input that
    /// concerned it.
    pub(crate) fn settle(&mut self) -> Settled {
        let mut settled = Settled::default();
        if let Some(lost) = self.log.take_lost() {
            settled.lost = Some(lost.from);
            while let Some(last) = self.waiting_produces.back() {
                if last.last_offset < lost.from {
                    break;
                }
                let Some(waiting) = self.waiting_produces.pop_back() else {
                    break;
                };
                let error = Some(ErrorCode::KAFKA_STORAGE_ERROR);
                settled
                    .produces
                    .push((waiting.request, waiting.place, error));
            }
        }
        let unreadable = self.check_readable().is_err();
        let mut limit = self.log.high_watermark_limit();
        if self.log.bugs().has(Bug::HideLastUntilProduce) && self.waiting_produces.is_empty() {
            limit = limit.plus(-1);
        }
        if limit > self.high_watermark || unreadable {
            self.high_watermark = self.high_watermark.max(limit);
            settled
                .fetches
                .extend(core::mem::take(&mut self.waiting_fetches));
        }
        while let Some(first) = self.waiting_produces.front() {
            if first.last_offset >= self.high_watermark {
                break;
            }
            settled.produces.push((first.request, first.place, None));
            self.waiting_produces.pop_front();
        }
        let log_start = self.log.log_start_offset();
        self.wanted_log_start = self.wanted_log_start.max(log_start);
        // No checkpoint names an offline log, so its start does not become durable any more.
        let offline = matches!(self.log.state(), LogState::Offline(_));
        self.waiting_deletes.retain(|waiting| {
            let result = if waiting.log_start <= log_start {
                Ok(log_start)
            } else if offline {
                Err(ErrorCode::KAFKA_STORAGE_ERROR)
            } else {
                return true;
            };
            settled
                .deletes
                .push((waiting.request, waiting.place, result));
            false
        });
        settled
    }

    /// Gives up everybody who waits: the partition goes away.
    pub(crate) fn evict(&mut self) -> Settled {
        Settled {
            produces: self
                .waiting_produces
                .drain(..)
                .map(|waiting| {
                    (
                        waiting.request,
                        waiting.place,
                        Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
                    )
                })
                .collect(),
            fetches: core::mem::take(&mut self.waiting_fetches)
                .into_iter()
                .collect(),
            deletes: self
                .waiting_deletes
                .drain(..)
                .map(|w| {
                    let gone = Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
                    (w.request, w.place, gone)
                })
                .collect(),
            lost: None,
        }
    }
}
