//! What a run decided, written down so that single decisions can be taken away, and the run done
//! again without them.
//!
//! Every run is recorded as such a list. Done again with all of it, it is the same run, step by step
//! (a test holds it to that). With decisions left out, those that are left keep their meaning: a
//! client's turn decides the same whatever turns came before it and is taken at the same time; a
//! fault strikes at the same moment of the same file or connection; a process ends at the same time.

use std::collections::{BTreeMap, BTreeSet};

use odradek_core::time::Mono;

use crate::choices::Subsystem;

/// The decisions of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    /// The mix of features and rates: which option each knob was set to.
    pub mix: BTreeMap<u64, u64>,
    /// When faults and workload end.
    pub faults_end: Mono,
    /// Clients that are left out.
    pub absent: BTreeSet<usize>,
    /// Subsystems whose durations are all at their mean.
    pub steady: BTreeSet<Subsystem>,
    /// Subsystems whose other decisions are drawn from another seed, and which: 0 is the run's.
    pub again: BTreeMap<Subsystem, u64>,
    /// What happens, in the order in which it happened; strikes, which have no time, at the end.
    pub events: Vec<Decided>,
}

/// Something that a run decided to do, and could leave undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decided {
    /// A client takes a turn.
    Act {
        /// Which.
        client: usize,
        /// Not before this time.
        at: Mono,
        /// What it does is drawn for this number.
        turn: u64,
    },
    /// A fault strikes.
    Strike(Strike),
    /// A process ends.
    End(End),
    /// The disk fills up.
    FullDisk(FullDisk),
    /// The wall clock steps.
    WallStep(WallStep),
}

/// The address of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Strike {
    /// What kind.
    pub subsystem: Subsystem,
    /// Which file, connection or process.
    pub entity: u64,
    /// Which of the moments at which it could strike there, from 1.
    pub ordinal: u64,
}

/// The end of a process, or of its service, at one of the moments at which it can come: before an
/// effect, before or after an operation on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// Which process of the run, from 1.
    pub life: u64,
    /// Not before this time.
    pub at: Mono,
    /// Which of its moments from then on, from 1.
    pub nth: u64,
    /// How.
    pub how: Ending,
    /// What was being done. Not part of a case: a run that is done again finds it out.
    pub amid: Option<Amid>,
    /// `amid` says when, not `at` and `nth`. Only attempts are made so; what they did is written down by
    /// its time.
    pub by_kind: bool,
}

/// What is being done at a moment, as far as that is the same in runs that differ a little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amid {
    /// As [`kind_of`] has it.
    pub kind: u64,
    /// Which moment of this kind, from 1, in this life or since it was asked to stop.
    pub nth: u64,
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// Killed: the page cache stays.
    Killed,
    /// The power goes.
    PowerLoss,
    /// It is asked to stop.
    Stop,
}

/// A phase in which the disk is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FullDisk {
    /// From when on.
    pub at: Mono,
    /// How many bytes still fit.
    pub free_bytes: u64,
    /// How long, in nanoseconds.
    pub lasts_ns: u64,
}

/// A step of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallStep {
    /// When.
    pub at: Mono,
    /// By how many milliseconds.
    pub by_ms: i64,
}

/// What is being done, without the numbers in it: the same in runs that differ a little.
#[must_use]
pub fn kind_of(what: &str) -> u64 {
    // FNV-1a.
    let bytes = what.bytes().filter(|byte| !byte.is_ascii_digit());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Decisions {
    /// The faults that strike.
    pub fn strikes(&self) -> impl Iterator<Item = Strike> {
        self.events.iter().filter_map(|event| match event {
            Decided::Strike(strike) => Some(*strike),
            _ => None,
        })
    }
}

impl Decided {
    /// When it happens, where that is given as a time.
    #[must_use]
    pub const fn at(&self) -> Option<Mono> {
        match self {
            Self::Act { at, .. } => Some(*at),
            Self::End(end) => Some(end.at),
            Self::FullDisk(full) => Some(full.at),
            Self::WallStep(step) => Some(step.at),
            Self::Strike(_) => None,
        }
    }

    /// Whether it is a fault, and not what a client does.
    #[must_use]
    pub const fn is_fault(&self) -> bool {
        !matches!(self, Self::Act { .. })
    }
}
