//! Many seeds on all cores, reported in the order of the seeds.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use odradek_core::time::Mono;

use crate::bugs::Planted;
use crate::fault::{Fault, Stage};
use crate::oracle::codes::Codes;
use crate::oracle::{Check, Mark, Violation};
use crate::swarm::Workload;
use crate::trace::Keep;
use crate::twice::{SecondProcess, What, first_difference};
use crate::world::{self, Outcome};

/// What to run.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// First seed, and the one after the last.
    pub seeds: Range<u64>,
    /// What it looks at.
    pub workload: Workload,
    /// Threads.
    pub jobs: usize,
    /// What is planted.
    pub planted: Planted,
    /// Whether to run all seeds although one failed.
    pub keep_going: bool,
    /// Every so many seeds are run once more there, and must do the same.
    pub twice: Option<(u64, SecondProcess)>,
}

/// What a campaign came to.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Seeds that were run, up to the first that failed.
    pub seeds: u64,
    /// Sums over them.
    pub steps: u64,
    /// Requests that reached a broker.
    pub requests: u64,
    /// Batches acknowledged.
    pub acked_batches: u64,
    /// Fetches with records.
    pub full_fetches: u64,
    /// Segments rolled.
    pub rolls: u64,
    /// Starts that were over, after a death.
    pub recoveries: u64,
    /// Process crashes.
    pub crashes: u64,
    /// Power losses.
    pub power_losses: u64,
    /// Graceful stops.
    pub stops: u64,
    /// Virtual time covered, in nanoseconds.
    pub virtual_ns: u128,
    /// Faults by kind, and by what the broker was doing when they struck.
    pub faults: BTreeMap<(Fault, Stage), u64>,
    /// The error codes that were answered.
    pub codes: Codes,
    /// In how many seeds each mark was hit.
    pub marks: BTreeMap<Mark, u64>,
    /// In how many seeds something came to pass that has a share of its own.
    shares: BTreeMap<&'static str, u64>,
    /// The first seed that failed, then, when asked to go on, the first of each other check.
    pub failed: Vec<Outcome>,
    /// The seeds that failed each check.
    pub failures: BTreeMap<Check, Vec<u64>>,
}

/// Runs seeds until one fails, or all of them. `progress` is told how many are done, in order.
pub fn run(campaign: &Campaign, mut progress: impl FnMut(u64)) -> Summary {
    let Campaign {
        seeds,
        workload,
        jobs,
        planted,
        keep_going,
        twice,
    } = campaign;
    let (workload, planted, keep_going) = (*workload, *planted, *keep_going);
    let next = AtomicU64::new(seeds.start);
    // No seed above one that failed needs to be run; all below it do.
    let stop_at = AtomicU64::new(seeds.end);
    let mut summary = Summary::default();
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for _ in 0..(*jobs).max(1) {
            let send = send.clone();
            let (next, stop_at) = (&next, &stop_at);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= stop_at.load(Ordering::Relaxed) {
                        break;
                    }
                    let mut outcome = world::run(seed, workload, planted, Keep::None);
                    if let Some((every, there)) = twice
                        && seed.is_multiple_of(*every)
                    {
                        outcome.compare(planted, there);
                    }
                    if outcome.violation.is_some() && !keep_going {
                        stop_at.fetch_min(seed, Ordering::Relaxed);
                    }
                    if send.send(outcome).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        let mut early = BTreeMap::new();
        let mut turn = seeds.start;
        for outcome in receive {
            early.insert(outcome.seed, outcome);
            while let Some(outcome) = early.remove(&turn) {
                turn += 1;
                if keep_going || summary.failed.is_empty() {
                    summary.add(outcome);
                    progress(summary.seeds);
                }
            }
        }
    });
    summary
}

impl Outcome {
    /// Does the run once more, in another process, and holds one against the other.
    fn compare(&mut self, planted: Planted, there: &SecondProcess) {
        let detail = match there.hash(&What::Seed(self.seed)) {
            Ok(hash) if hash == self.hash.to_string() => return,
            Ok(_) => {
                let here = world::run(self.seed, there.workload, planted, Keep::Hashed);
                let here: Vec<String> = here.steps.iter().map(ToString::to_string).collect();
                match there.steps(&What::Seed(self.seed)) {
                    Ok(there) => first_difference(&here, &there),
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        self.violation = Some(Violation {
            check: Check::OneSeedOneRun,
            at: Mono(self.virtual_ns),
            detail,
        });
    }
}

/// What the summary tells a share of: the words, and the marks of which one must be hit.
const SHARES: &[(&str, &[Mark])] = &[
    ("a rebalance", &[Mark::Rebalanced, Mark::ConsumerJoined]),
    ("a fenced commit", &[Mark::CommitFenced]),
    ("an answered duplicate", &[Mark::DuplicateAnswered]),
    (
        "a crash in a rebalance",
        &[Mark::CrashedInRebalance, Mark::CrashedInHeartbeat],
    ),
    ("a crash with a commit under way", &[Mark::CrashedInCommit]),
    (
        "a crash with an idempotent batch under way",
        &[Mark::CrashedInIdempotentProduce],
    ),
];

impl Summary {
    /// The share of the schedules in which what groups and producers are there for came to pass.
    #[must_use]
    pub fn shares(&self) -> String {
        let shares = self.shares.iter().map(|(what, count)| {
            let share = *count as f64 * 100.0 / self.seeds.max(1) as f64;
            format!("{share:.1} % {what}")
        });
        shares.collect::<Vec<_>>().join(", ")
    }

    fn add(&mut self, outcome: Outcome) {
        self.seeds += 1;
        self.steps += outcome.counts.steps;
        self.requests += outcome.counts.requests;
        self.acked_batches += outcome.acked_batches;
        self.full_fetches += outcome.full_fetches;
        self.rolls += outcome
            .marks
            .get(&Mark::SegmentRolled)
            .copied()
            .unwrap_or(0);
        self.recoveries += outcome.counts.recoveries;
        self.crashes += outcome.counts.crashes;
        self.power_losses += outcome.counts.power_losses;
        self.stops += outcome.counts.stops;
        self.virtual_ns += u128::from(outcome.virtual_ns);
        for (fault, count) in &outcome.counts.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        for (answered, count) in &outcome.codes {
            *self.codes.entry(*answered).or_default() += count;
        }
        for mark in outcome.marks.keys() {
            *self.marks.entry(*mark).or_default() += 1;
        }
        for (what, marks) in SHARES {
            let hit = marks.iter().any(|mark| outcome.marks.contains_key(mark));
            *self.shares.entry(what).or_default() += u64::from(hit);
        }
        if let Some(violation) = &outcome.violation {
            let seeds = self.failures.entry(violation.check).or_default();
            seeds.push(outcome.seed);
            if seeds.len() == 1 {
                self.failed.push(outcome);
            }
        }
    }
}
