//! A fetch: it looks at its partitions one after another, and waits if there is too little.
//!
//! Looking is not always one step, since a cold range is read, and checked, first. So that no
//! wake-up is lost, a fetch enters itself with its partitions *before* it looks at the first: what
//! changes meanwhile makes it look again before it waits.

use alloc::vec::Vec;

use crate::broker::State;
use crate::bugs::Bug;
use crate::connection::RequestId;
use crate::context::{Context, Owner};
use crate::ids::Offset;
use crate::input::DiskError;
use crate::log::{ReadError, ReadPlan, ReadRange};
use crate::partition::{Partition, PartitionKey};
use crate::read_job::ReadOutput;
use crate::report::Level;
use crate::time::Mono;
use crate::wire::ErrorCode;

/// A fetch under way.
#[derive(Debug)]
pub(crate) struct DelayedFetch {
    /// The version to answer in, and what the request said of topics.
    pub(crate) shape: crate::request::FetchShape,
    /// Partitions in the order of the request.
    pub(crate) targets: Vec<FetchTarget>,
    pub(crate) min_bytes: u64,
    pub(crate) max_bytes: u32,
    /// When it answers with what there is.
    pub(crate) deadline: Mono,
    /// Whether its deadline has come.
    pub(crate) expired: bool,
    /// Whether the client asked for committed records only.
    pub(crate) committed_only: bool,
    /// The first target that was not looked at in this round.
    next: usize,
    /// What the answer would hold.
    bytes: u64,
    /// What counts towards `min_bytes`: all that is there, for each partition up to its maximum,
    /// whether or not whole batches of it fit.
    counted_bytes: u64,
    /// Whether something changed since the round began.
    changed: bool,
    /// Whether a read is under way.
    reading: bool,
    /// Which files the log that is read had when the read began.
    layout: u64,
}

/// A partition that a fetch asks for.
#[derive(Debug)]
pub(crate) struct FetchTarget {
    /// `None` if the request named none that exists.
    pub(crate) key: Option<PartitionKey>,
    pub(crate) offset: Offset,
    pub(crate) max_bytes: u32,
    pub(crate) current_leader_epoch: i32,
    /// The epoch of the last record the client has (KIP-595), or -1.
    pub(crate) last_fetched_epoch: i32,
    /// Found when the request came.
    pub(crate) error: Option<ErrorCode>,
    /// Found in this round.
    pub(crate) found: Found,
}

/// What a look at a partition found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) error: Option<ErrorCode>,
    pub(crate) range: Option<ReadRange>,
    pub(crate) high_watermark: Option<Offset>,
    pub(crate) log_start_offset: Option<Offset>,
    /// Where the client's log parts from this one: epoch and end offset.
    pub(crate) diverging: Option<(i32, i64)>,
    /// What counts towards the minimum.
    counted_bytes: u64,
    /// Whether the answer should not wait for more.
    hurry: bool,
}

impl DelayedFetch {
    pub(crate) fn new(
        shape: crate::request::FetchShape,
        targets: Vec<FetchTarget>,
        min_bytes: u64,
        max_bytes: u32,
        deadline: Mono,
    ) -> Self {
        Self {
            shape,
            targets,
            // More than it may hold it can never hold.
            min_bytes: min_bytes.min(u64::from(max_bytes)),
            max_bytes,
            deadline,
            expired: false,
            committed_only: false,
            next: 0,
            bytes: 0,
            counted_bytes: 0,
            changed: false,
            reading: false,
            layout: 0,
        }
    }
}

/// Starts a fetch; it answers or parks itself.
pub(crate) fn start(
    state: &mut State,
    cx: &mut Context<'_>,
    request: RequestId,
    fetch: DelayedFetch,
) {
    if !state.bugs.has(Bug::RegisterAfterCheck) {
        park(state, request, &fetch);
    }
    state.timers.set_request(fetch.deadline, request);
    state.fetches.insert(request, fetch);
    look(state, cx, request);
}

/// Something changed in a partition the fetch waits for.
pub(crate) fn wake(state: &mut State, cx: &mut Context<'_>, request: RequestId) {
    let Some(fetch) = state.fetches.get_mut(&request) else {
        return;
    };
    fetch.changed = true;
    if !fetch.reading {
        look(state, cx, request);
    }
}

/// The deadline of the fetch has come.
pub(crate) fn expire(state: &mut State, cx: &mut Context<'_>, request: RequestId) {
    let Some(fetch) = state.fetches.get_mut(&request) else {
        return;
    };
    fetch.expired = true;
    if !fetch.reading {
        look(state, cx, request);
    }
}

/// A read for the fetch ended.
pub(crate) fn on_read(
    state: &mut State,
    cx: &mut Context<'_>,
    request: RequestId,
    result: Result<ReadOutput, DiskError>,
) {
    let Some(fetch) = state.fetches.get_mut(&request) else {
        return;
    };
    fetch.reading = false;
    let Some(target) = fetch.targets.get_mut(fetch.next) else {
        return;
    };
    let partition = target.key.and_then(|key| state.partitions.get_mut(&key));
    let Some(partition) = partition else {
        return look(state, cx, request);
    };
    match result {
        Ok(scanned) => match partition.log.on_fetch_scanned(cx, scanned) {
            Ok(range) => {
                target.found = Found::of(partition);
                target.found.range = range;
                target.count(partition);
                fetch.add();
            }
            // What the plan was made for is gone; the next look makes a new one.
            Err(ReadError::Changed) => {}
            Err(ReadError::Corrupt(_)) => {
                target.found = Found::of(partition);
                target.found.error = Some(ErrorCode::KAFKA_STORAGE_ERROR);
                fetch.next += 1;
            }
        },
        // The file was taken away, or another put in its place.
        Err(_) if partition.log.layout() != fetch.layout => {}
        // It was deleted meanwhile: the next look finds the offset out of range.
        Err(_) if target.offset < partition.log.log_start_offset() => {}
        Err(error) => {
            cx.report(
                Level::Error,
                "fetch",
                alloc::format!("cannot read: partition={} {error}", partition.name),
            );
            target.found = Found::of(partition);
            target.found.error = Some(ErrorCode::KAFKA_STORAGE_ERROR);
            fetch.next += 1;
        }
    }
    look(state, cx, request);
}

/// Looks at the remaining partitions, then answers, waits, or begins anew.
fn look(state: &mut State, cx: &mut Context<'_>, request: RequestId) {
    let Some(mut fetch) = state.fetches.remove(&request) else {
        return;
    };
    loop {
        if fetch.next == 0 {
            fetch.bytes = 0;
            fetch.counted_bytes = 0;
            fetch.changed = false;
        }
        while let Some(target) = fetch.targets.get_mut(fetch.next) {
            let budget = u64::from(fetch.max_bytes).saturating_sub(fetch.bytes);
            let partition = target.key.and_then(|key| state.partitions.get_mut(&key));
            match target.look(
                partition,
                u32::try_from(budget).unwrap_or(u32::MAX),
                fetch.bytes == 0,
            ) {
                Some(job) => {
                    let partition = target.key.and_then(|key| state.partitions.get(&key));
                    fetch.layout = partition.map_or(0, |partition| partition.log.layout());
                    cx.read(Owner::Request(request.0), job);
                    fetch.reading = true;
                    state.fetches.insert(request, fetch);
                    return;
                }
                None => fetch.add(),
            }
        }
        fetch.next = 0;
        let hurry = fetch.targets.iter().any(|target| {
            target.found.error.is_some() || target.found.diverging.is_some() || target.found.hurry
        });
        let enough = fetch.bytes.max(fetch.counted_bytes) >= fetch.min_bytes;
        // Nothing can wake one that asks for nothing: Kafka answers it at once too.
        let nothing = fetch.targets.is_empty();
        if (hurry || enough || nothing || fetch.expired) && !fetch.is_stale(state) {
            unpark(state, request, &fetch);
            if state.bugs.has(Bug::HighWatermarkBeyondEnd) {
                for target in &mut fetch.targets {
                    target.found.high_watermark = target.found.high_watermark.map(|hw| hw.plus(1));
                }
            }
            return state.answer(request, crate::request::answer_fetch(fetch));
        }
        if !fetch.changed && !fetch.is_stale(state) {
            break;
        }
    }
    if state.bugs.has(Bug::RegisterAfterCheck) {
        state.late_fetches.push(request);
    } else {
        park(state, request, &fetch);
    }
    state.fetches.insert(request, fetch);
}

/// The planted bug: fetches that found nothing in the step before enter themselves only now.
pub(crate) fn park_late(state: &mut State, late: Vec<RequestId>) {
    for request in late {
        if let Some(fetch) = state.fetches.remove(&request) {
            park(state, request, &fetch);
            state.fetches.insert(request, fetch);
        }
    }
}

fn park(state: &mut State, request: RequestId, fetch: &DelayedFetch) {
    for key in fetch.targets.iter().filter_map(|target| target.key) {
        if let Some(partition) = state.partitions.get_mut(&key) {
            partition.park_fetch(request);
        }
    }
}

/// Takes a fetch out of the places where it waits.
pub(crate) fn unpark(state: &mut State, request: RequestId, fetch: &DelayedFetch) {
    state.timers.cancel_request(fetch.deadline, request);
    for key in fetch.targets.iter().filter_map(|target| target.key) {
        if let Some(partition) = state.partitions.get_mut(&key) {
            partition.forget_fetch(request);
        }
    }
}

impl Found {
    fn of(partition: &Partition) -> Self {
        Self {
            high_watermark: Some(partition.high_watermark()),
            log_start_offset: Some(partition.log.log_start_offset()),
            ..Self::default()
        }
    }
}

impl DelayedFetch {
    /// Whether a range that was found before a read is not there any more.
    fn is_stale(&self, state: &State) -> bool {
        self.targets.iter().any(|target| {
            let Some(range) = &target.found.range else {
                return false;
            };
            let partition = target.key.and_then(|key| state.partitions.get(&key));
            partition.is_none_or(|partition| !partition.log.holds(range))
        })
    }

    /// Adds what was found in the next partition.
    fn add(&mut self) {
        if let Some(target) = self.targets.get(self.next) {
            let range = target.found.range;
            self.bytes += range.map_or(0, |range| u64::from(range.range.length));
            self.counted_bytes += target.found.counted_bytes;
        }
        self.next += 1;
    }
}

impl FetchTarget {
    /// Notes what is there, and whether it is so far behind that it is not worth waiting for more.
    fn count(&mut self, partition: &Partition) {
        let limit = partition.high_watermark();
        let there = match &self.found.range {
            Some(range) => partition.log.bytes_from(range, limit),
            // It does not fit, so there is more than the partition's maximum, or than what was left
            // of the answer's.
            None => partition
                .log
                .available_bytes(self.offset, limit)
                .unwrap_or(u64::MAX),
        };
        self.found.counted_bytes = there.min(u64::from(self.max_bytes));
        self.found.hurry = partition.log.is_on_older_segment(self.offset);
    }

    /// Looks at the partition. Returns the read that is needed to say more, if one is.
    fn look(
        &mut self,
        partition: Option<&mut Partition>,
        budget: u32,
        first: bool,
    ) -> Option<crate::read_job::ReadJob> {
        self.found = Found::default();
        if self.error.is_some() {
            self.found.error = self.error;
            return None;
        }
        let Some(partition) = partition else {
            self.found.error = Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
            return None;
        };
        self.found = Found::of(partition);
        let usable = partition
            .check_epoch(self.current_leader_epoch)
            .and_then(|()| partition.check_readable());
        if let Err(error) = usable {
            self.found.error = Some(error);
            return None;
        }
        if let Some(diverging) = self.diverging(partition) {
            self.found.diverging = Some(diverging);
            return None;
        }
        let limit = partition.high_watermark();
        match partition
            .log
            .read_plan(self.offset, limit, budget.min(self.max_bytes), first)
        {
            ReadPlan::Range(range) => {
                self.found.range = Some(range);
                self.count(partition);
            }
            ReadPlan::Scan(job) => return Some(job),
            ReadPlan::Empty => self.count(partition),
            ReadPlan::OutOfRange => self.found.error = Some(ErrorCode::OFFSET_OUT_OF_RANGE),
            ReadPlan::Unavailable => self.found.error = Some(ErrorCode::KAFKA_STORAGE_ERROR),
        }
        None
    }

    /// Whether the client's log has records that this one does not have (KIP-595).
    fn diverging(&self, partition: &Partition) -> Option<(i32, i64)> {
        if self.last_fetched_epoch < 0 {
            return None;
        }
        let epoch = crate::ids::LeaderEpoch(self.last_fetched_epoch);
        let (found, end) = partition.log.end_offset_for_epoch(epoch)?;
        (found < epoch || end < self.offset).then_some((found.0, end.0))
    }
}
