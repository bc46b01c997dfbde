//! Planted bugs, in the core and in the simulator itself: what proves that the oracle can find
//! something.

use odradek_core::bugs::Bugs;

use crate::oracle::Check;
use crate::swarm::Workload;

/// What is planted in a run, if anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planted {
    /// A bug of the core.
    pub core: Bugs,
    sim: Option<SimBug>,
}

/// A bug of the simulator. Only a build that has bugs can name one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "bugs"),
    expect(dead_code, reason = "no name leads to them")
)]
enum SimBug {
    /// The disk says that a flush is done, and does nothing.
    LyingFlush,
    /// A delay that is not drawn from the seed.
    UnseededDraw,
    /// The broker's deadlines come much too late.
    LateDeadline,
    /// The host takes what a short read gave for all there is.
    BelieveShortRead,
    /// A broker's deadline that moves to an earlier time is not noticed.
    LostDeadline,
    /// After a roll of the dice, a completion of the disk does not reach the broker.
    LostCompletion,
}

#[cfg(feature = "bugs")]
const SIM_BUGS: [(&str, SimBug); 6] = [
    ("lying-flush", SimBug::LyingFlush),
    ("unseeded-draw", SimBug::UnseededDraw),
    ("late-deadline", SimBug::LateDeadline),
    ("believe-short-read", SimBug::BelieveShortRead),
    ("lost-deadline", SimBug::LostDeadline),
    ("lost-completion", SimBug::LostCompletion),
];

impl Planted {
    /// The disk that lies, for tests that need something to find in any build.
    #[cfg(test)]
    pub(crate) const LYING_DISK: Self = Self {
        core: Bugs::NONE,
        sim: Some(SimBug::LyingFlush),
    };

    /// Nothing.
    pub const NONE: Self = Self {
        core: Bugs::NONE,
        sim: None,
    };

    /// Whether only a second run of the same seed can show it.
    #[must_use]
    pub fn shows_in_second_run(self) -> bool {
        self.sim == Some(SimBug::UnseededDraw)
    }

    pub(crate) fn disk_lies(self) -> bool {
        self.sim == Some(SimBug::LyingFlush)
    }

    /// What is added to the delay of a deadline, in nanoseconds.
    pub(crate) fn lateness_ns(self) -> u64 {
        match self.sim {
            Some(SimBug::LateDeadline) => 50_000_000,
            Some(SimBug::UnseededDraw) => unseeded() % 1_000,
            _ => 0,
        }
    }

    pub(crate) fn takes_short_reads(self) -> bool {
        self.sim == Some(SimBug::BelieveShortRead)
    }

    /// Whether the host keeps to the first deadline that it was given.
    pub(crate) fn loses_deadlines(self) -> bool {
        self.sim == Some(SimBug::LostDeadline)
    }

    /// Whether the host forgets to tell of every so many completions.
    pub(crate) fn loses_completion(self, nth: u64) -> bool {
        self.sim == Some(SimBug::LostCompletion) && nth.is_multiple_of(64)
    }
}

/// A number that is another one in each process.
fn unseeded() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

/// The bug of a name. An error if there is none of that name, or none in this build.
#[cfg(feature = "bugs")]
pub fn by_name(name: &str) -> Result<Planted, String> {
    use odradek_core::bugs::Bug;
    let core = Bug::ALL.iter().find(|(known, _)| *known == name);
    let sim = SIM_BUGS.iter().find(|(known, _)| *known == name);
    match (core, sim) {
        (Some((_, bug)), _) => Ok(Planted {
            core: Bugs::plant(*bug),
            sim: None,
        }),
        (None, Some((_, bug))) => Ok(Planted {
            core: Bugs::NONE,
            sim: Some(*bug),
        }),
        (None, None) => Err(format!(
            "no bug is called {name}; there are: {}",
            names().join(", ")
        )),
    }
}

/// The bug of a name. An error if there is none of that name, or none in this build.
#[cfg(not(feature = "bugs"))]
pub fn by_name(name: &str) -> Result<Planted, String> {
    Err(format!(
        "this build has no planted bugs, so not {name} either; use: cargo run --release -p \
         odradek-sim --features bugs --target-dir target/bugs -- ..."
    ))
}

/// What to look at to find a bug.
#[must_use]
pub fn workload_of(name: &str) -> Workload {
    match name {
        "append-duplicates"
        | "duplicate-at-log-end"
        | "skip-sequence-check"
        | "ignore-producer-epoch"
        | "forget-producers-at-start"
        | "producer-id-before-durable" => Workload::Idempotence,
        "skip-crc-at-first-serve" | "hide-damage" | "hide-cut" => Workload::Damage,
        "cleaner-keeps-first"
        | "cleaner-drops-above-map"
        | "drop-tombstones-early"
        | "cleaned-batch-end-moves"
        | "forget-swap-sync" => Workload::Compaction,
        "keep-generation"
        | "sync-ignores-generation"
        | "commit-without-fencing"
        | "commit-before-durable"
        | "forget-last-commit"
        | "commit-only-forward"
        | "old-self-not-fenced"
        | "assign-twice"
        | "give-before-revoke"
        | "ignore-member-epoch"
        | "rebalance-never-ends"
        | "dead-member-stays"
        | "upgrade-begins-anew"
        | "leave-out-unknown-groups" => Workload::Rebalance,
        _ => Workload::Mixed,
    }
}

/// The check that a bug is there to prove, where another may come across it first.
#[must_use]
pub fn check_of(name: &str) -> Option<Check> {
    match name {
        "index-entry-off" => Some(Check::IndexAgreesWithLog),
        "forget-producers-at-start" => Some(Check::DedupSurvivesRestart),
        "old-self-not-fenced" => Some(Check::StaticMemberFenced),
        "number-retries-anew" => Some(Check::IdempotentSendOnce),
        "outcome-offset-off" => Some(Check::InconsistentOffsets),
        "make-up-offsets" => Some(Check::LostWrite),
        "flush-too-early" => Some(Check::ClientKeepsItsWord),
        "hand-out-whole-batches" => Some(Check::NonMonotonicPoll),
        "cut-values" => Some(Check::UnsentRead),
        "serve-beyond-high-watermark" => Some(Check::NeverBeyondHighWatermark),
        "stop-without-time-entry" => Some(Check::RebuiltEqualsOriginal),
        "upgrade-begins-anew" => Some(Check::GenerationMonotonic),
        "leave-out-unknown-groups" => Some(Check::AnswersWellFormed),
        "skip-an-offset" => Some(Check::OffsetDense),
        "answer-offset-before" => Some(Check::OffsetNeverReused),
        "cut-one-batch-more" => Some(Check::RecoveryIdempotent),
        "forget-log-start" => Some(Check::LogStartMonotonic),
        "config-before-durable" => Some(Check::ConfigDurable),
        "create-before-durable" => Some(Check::CreatedTopicDurable),
        "epoch-end-off" => Some(Check::EpochEndsWhereItDoes),
        "forget-to-unpark" => Some(Check::ClosedConnectionLeaksNothing),
        "latest-is-earliest" => Some(Check::HighWatermarkMonotonic),
        "high-watermark-beyond-end" => Some(Check::HighWatermarkAtMostLogEnd),
        "believe-failed-write" => Some(Check::NoPartialAckOnFullDisk),
        "hide-last-until-produce" => Some(Check::EverythingAcknowledgedIsRead),
        "refuse-unclean-start" => Some(Check::FatalWithoutFault),
        "panic-on-large-message" => Some(Check::Panic),
        "never-reopen" => Some(Check::Liveness),
        "expire-one-more" => Some(Check::OnlyExpiredDeleted),
        "nothing-expires" => Some(Check::Liveness),
        "ignore-flush-messages" => Some(Check::AckedDurable),
        "ignore-flush-ms" => Some(Check::Liveness),
        _ => None,
    }
}

/// The names of the bugs in this build: none in an ordinary one.
#[must_use]
pub fn names() -> Vec<&'static str> {
    #[cfg(feature = "bugs")]
    {
        let core = odradek_core::bugs::Bug::ALL.iter().map(|(name, _)| *name);
        core.chain(SIM_BUGS.iter().map(|(name, _)| *name)).collect()
    }
    #[cfg(not(feature = "bugs"))]
    Vec::new()
}

#[cfg(all(test, not(feature = "bugs")))]
mod tests {
    #[test]
    fn the_ordinary_build_has_no_bug_to_switch_on() {
        assert!(super::names().is_empty());
        assert!(super::by_name("ack-before-flush").is_err());
        // A switch that can hold nothing takes no room: the core's type has one value.
        assert_eq!(size_of::<odradek_core::bugs::Bugs>(), 0);
    }
}
