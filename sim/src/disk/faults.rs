//! What fails on the disk and how long things take: the seed's rates, and the dice for each
//! operation.
//!
//! Every kind of fault has a stream of its own for every file, so that turning one off leaves the
//! others where they were.

use std::fmt;

use odradek_core::input::DiskErrorKind;

use super::Inode;
use crate::choices::{Choices, Odds, Subsystem};
use crate::clock::{MICROSECOND, MILLISECOND};

/// How often each kind of fault happens, per operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskRates {
    /// A write of a log file fails with EIO, after some of its bytes.
    pub write_error: Odds,
    /// A write of a log file is short, and the rest does not fit.
    pub short_write: Odds,
    /// A flush fails.
    pub flush_error: Odds,
    /// A failed flush makes the cache show the old bytes at once.
    pub shows_old: Odds,
    /// After a failed flush, the kernel evicts the pages some time later.
    pub evicts: Odds,
    /// A file-management operation fails.
    pub manage_error: Odds,
    /// A read job fails.
    pub read_error: Odds,
    /// A flush fails for want of space while the disk is full.
    pub full_flush: Odds,
    /// How long operations take.
    pub latency: Latency,
}

/// How long operations take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Latency {
    /// Like a good SSD.
    #[default]
    Fast,
    /// Like a rotating disk.
    Slow,
    /// Mostly fast, with stalls of up to seconds.
    Bimodal,
}

/// The kinds of faults, as they are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskFault {
    /// A write failed.
    WriteError,
    /// A write was short.
    ShortWrite,
    /// A write did not fit on the full disk.
    NoSpace,
    /// A flush failed and the cache keeps the new bytes.
    FlushErrorKeepsNew,
    /// A flush failed and the cache shows the old bytes.
    FlushErrorShowsOld,
    /// Pages that a failed flush left clean were evicted.
    Evicted,
    /// A file-management operation failed.
    ManageError,
    /// A read job failed.
    ReadError,
}

/// How a flush fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushFailure {
    /// What the system call says.
    pub kind: DiskErrorKind,
    /// Whether reads see the old bytes from now on.
    pub shows_old: bool,
    /// After how many nanoseconds the clean pages are evicted, if they are.
    pub evicted_after_ns: Option<u64>,
}

/// The dice of the disk.
#[derive(Debug)]
pub struct DiskFaults {
    rates: DiskRates,
    /// Whether anything fails at all; off once the faults of a run are over.
    pub active: bool,
    /// Whether a flush says that all is well and does nothing. No fault of the model: a planted bug of
    /// the simulator, which the oracle must notice.
    pub lies: bool,
}

/// What kind of operation takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A write into the page cache, a look-up, a name.
    Memory,
    /// A flush.
    Device,
}

impl DiskFaults {
    /// Dice with these rates.
    #[must_use]
    pub const fn new(rates: DiskRates) -> Self {
        Self {
            rates,
            active: true,
            lies: false,
        }
    }

    /// Whether a write fails, and after how many bytes.
    pub fn write(
        &self,
        choices: &mut Choices,
        inode: Inode,
        length: usize,
    ) -> Option<(usize, DiskErrorKind)> {
        if !self.active {
            return None;
        }
        let kinds = [
            (
                Subsystem::WriteFault,
                self.rates.write_error,
                DiskErrorKind::Io,
            ),
            (
                Subsystem::ShortWrite,
                self.rates.short_write,
                DiskErrorKind::NoSpace,
            ),
        ];
        kinds.into_iter().find_map(|(subsystem, odds, kind)| {
            let mut dice = choices.fault(subsystem, inode.0, odds)?;
            Some((dice.between(0, length as u64 - 1) as usize, kind))
        })
    }

    /// Whether a flush fails, and how.
    pub fn flush(
        &self,
        choices: &mut Choices,
        inode: Inode,
        disk_is_full: bool,
    ) -> Option<FlushFailure> {
        if !self.active {
            return None;
        }
        let full = if disk_is_full {
            self.rates.full_flush
        } else {
            Odds(0)
        };
        let io = choices.fault(Subsystem::FlushFault, inode.0, self.rates.flush_error);
        let (kind, mut dice) = match io {
            Some(dice) => (DiskErrorKind::Io, dice),
            None => {
                let dice = choices.fault(Subsystem::FullDisk, inode.0 + 1, full)?;
                (DiskErrorKind::NoSpace, dice)
            }
        };
        let shows_old = dice.chance(self.rates.shows_old);
        let evicts = if shows_old {
            Odds(0)
        } else {
            self.rates.evicts
        };
        let evicted_after_ns = choices
            .fault(Subsystem::Eviction, inode.0, evicts)
            .map(|mut dice| dice.exponential(50 * MILLISECOND));
        Some(FlushFailure {
            kind,
            shows_old,
            evicted_after_ns,
        })
    }

    /// Whether a file-management operation fails.
    pub fn manage(&self, choices: &mut Choices) -> Option<DiskErrorKind> {
        if !self.active {
            return None;
        }
        choices
            .fault(Subsystem::ManageFault, 0, self.rates.manage_error)
            .map(|_| DiskErrorKind::Io)
    }

    /// Whether a read job fails.
    pub fn read(&self, choices: &mut Choices) -> Option<DiskErrorKind> {
        if !self.active {
            return None;
        }
        choices
            .fault(Subsystem::ReadFault, 0, self.rates.read_error)
            .map(|_| DiskErrorKind::Io)
    }

    /// How long something takes.
    pub fn latency(&self, choices: &mut Choices, entity: u64, work: Work) -> u64 {
        let (memory, device) = match self.rates.latency {
            Latency::Fast => (5 * MICROSECOND, 80 * MICROSECOND),
            Latency::Slow => (50 * MICROSECOND, 8 * MILLISECOND),
            Latency::Bimodal => (10 * MICROSECOND, 200 * MICROSECOND),
        };
        let mean = match work {
            Work::Memory => memory,
            Work::Device => device,
        };
        let usual = choices.exponential(Subsystem::DiskLatency, entity, mean);
        let stalls = if self.active && self.rates.latency == Latency::Bimodal {
            Odds(10_000)
        } else {
            Odds(0)
        };
        match choices.fault(Subsystem::DiskStall, entity, stalls) {
            Some(mut dice) => usual + dice.between(MILLISECOND, 1_500 * MILLISECOND),
            None => usual,
        }
    }
}

impl fmt::Display for DiskFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WriteError => "write error",
            Self::ShortWrite => "short write",
            Self::NoSpace => "disk full",
            Self::FlushErrorKeepsNew => "failed flush, cache keeps the new bytes",
            Self::FlushErrorShowsOld => "failed flush, cache shows the old bytes",
            Self::Evicted => "pages evicted after a failed flush",
            Self::ManageError => "file management error",
            Self::ReadError => "read error",
        })
    }
}
