//! The kinds of faults, and in which stage of a broker's life they struck: what a campaign must have
//! seen of each.

use std::fmt;

use crate::disk::faults::DiskFault;
use crate::network::NetworkFault;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Of the disk.
    Disk(DiskFault),
    /// Of the network.
    Network(NetworkFault),
    /// The process is killed.
    Killed,
    /// The power goes.
    PowerLoss,
    /// The process pauses, and comes back.
    Paused,
    /// The disk is full for a while.
    FullDisk,
    /// The wall clock steps.
    WallStep,
}

/// What a broker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It starts, and reads what the last process left.
    Recovering,
    /// It serves.
    Serving,
    /// It stops gracefully.
    Stopping,
    /// No process runs.
    Down,
}

impl Fault {
    /// All of them.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let disk = DiskFault::ALL.map(Self::Disk);
        let network = NetworkFault::ALL.map(Self::Network);
        let others = [
            Self::Killed,
            Self::PowerLoss,
            Self::Paused,
            Self::FullDisk,
            Self::WallStep,
        ];
        disk.into_iter().chain(network).chain(others).collect()
    }

    /// The stages in which a campaign must have seen it. The others cannot be, or make no sense:
    /// clients are served in one stage only, so a connection is cut, stalled or slow in no other,
    /// and refused, but for what the network does itself, in all others. A stop reads nothing.
    #[must_use]
    pub const fn stages(self) -> &'static [Stage] {
        use DiskFault::{LatentError, MisdirectedRead, ReadError, ShortRead};
        use Stage::{Recovering, Serving, Stopping};
        match self {
            Self::Disk(LatentError | MisdirectedRead | ReadError | ShortRead) => {
                &[Recovering, Serving]
            }
            Self::Network(NetworkFault::Refused) => &[Recovering, Serving],
            Self::Network(_) => &[Serving],
            _ => &[Recovering, Serving, Stopping],
        }
    }
}

impl Stage {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Recovering, Self::Serving, Self::Stopping, Self::Down];
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disk(fault) => return fault.fmt(f),
            Self::Network(fault) => return fault.fmt(f),
            Self::Killed => "process killed",
            Self::PowerLoss => "power loss",
            Self::Paused => "process paused",
            Self::FullDisk => "phase of a full disk",
            Self::WallStep => "step of the wall clock",
        })
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Recovering => "recovering",
            Self::Serving => "serving",
            Self::Stopping => "stopping",
            Self::Down => "down",
        })
    }
}
