//! What fails on the disk and how long things take: the seed's rates, and the dice for each
//! operation.
//!
//! Every kind of fault has a stream of its own for every file, so that turning one off leaves the
//! others where they were.

use std::fmt;

use odradek_core::input::DiskErrorKind;

use super::Inode;
use crate::choices::{Choices, Dice, Odds, Subsystem};
use crate::clock::{MICROSECOND, MILLISECOND, SECOND};

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
    /// A flush that fails with EIO turns the filesystem read-only.
    pub turns_read_only: Odds,
    /// A read finds a sector that cannot be read.
    pub latent_error: Odds,
    /// A read gives a part of what is there.
    pub short_read: Odds,
    /// A read gives what is somewhere else.
    pub misdirected_read: Odds,
    /// A page that is flushed ends up somewhere else.
    pub misdirected_write: Odds,
    /// No file descriptor is left, per operation that needs one.
    pub no_descriptor: Odds,
    /// The whole device stands still for seconds, per flush.
    pub device_stall: Odds,
    /// Bits flip while no process runs, per end of a process.
    pub rot_at_rest: Odds,
    /// Bits flip while a process runs, per flush.
    pub rot_while_running: Odds,
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
    /// Mostly fast, with single operations that take up to seconds.
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
    /// After a failed flush the filesystem turned read-only.
    TurnedReadOnly,
    /// A sector turned out to be unreadable.
    LatentError,
    /// A read gave a part of what is there.
    ShortRead,
    /// A read gave what is somewhere else.
    MisdirectedRead,
    /// A page ended up somewhere else.
    MisdirectedWrite,
    /// No file descriptor was left.
    NoDescriptor,
    /// An operation took long.
    Stall,
    /// The whole device stood still.
    DeviceStall,
    /// Bits flipped.
    Rot,
}

impl DiskFault {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::WriteError,
        Self::ShortWrite,
        Self::NoSpace,
        Self::FlushErrorKeepsNew,
        Self::FlushErrorShowsOld,
        Self::Evicted,
        Self::ManageError,
        Self::ReadError,
        Self::TurnedReadOnly,
        Self::LatentError,
        Self::ShortRead,
        Self::MisdirectedRead,
        Self::MisdirectedWrite,
        Self::NoDescriptor,
        Self::Stall,
        Self::DeviceStall,
        Self::Rot,
    ];

    /// Whether it changes bytes that were durable, and so permits loss that is detected.
    #[must_use]
    pub const fn is_damage(self) -> bool {
        matches!(
            self,
            Self::MisdirectedRead | Self::MisdirectedWrite | Self::Rot
        )
    }
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
    /// Whether the filesystem takes no changes from now on.
    pub turns_read_only: bool,
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
    /// Whether the host takes a short read for all there is. A planted bug of the simulator.
    pub takes_short_reads: bool,
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
            takes_short_reads: false,
        }
    }

    /// Whether anything can damage bytes that are durable.
    #[must_use]
    pub const fn may_damage(&self) -> bool {
        let rates = &self.rates;
        rates.misdirected_read.0
            | rates.misdirected_write.0
            | rates.rot_at_rest.0
            | rates.rot_while_running.0
            != 0
    }

    const fn odds(&self, odds: Odds) -> Odds {
        if self.active { odds } else { Odds(0) }
    }

    /// Whether a read finds a sector that cannot be read.
    pub fn latent_error(&self, choices: &mut Choices, inode: Inode) -> Option<Dice> {
        let odds = self.odds(self.rates.latent_error);
        choices.fault(Subsystem::LatentError, inode.0, odds)
    }

    /// Whether a read gives what is somewhere else.
    pub fn misdirected_read(&self, choices: &mut Choices, inode: Inode) -> Option<Dice> {
        let odds = self.odds(self.rates.misdirected_read);
        choices.fault(Subsystem::MisdirectedRead, inode.0, odds)
    }

    /// Whether a page that is flushed ends up somewhere else.
    pub fn misdirected_write(&self, choices: &mut Choices, inode: Inode) -> Option<Dice> {
        let odds = self.odds(self.rates.misdirected_write);
        choices.fault(Subsystem::MisdirectedWrite, inode.0, odds)
    }

    /// Whether a read of more than a byte gives less than the `left` bytes that are there: how many.
    pub fn short_read(&self, choices: &mut Choices, inode: Inode, left: usize) -> Option<usize> {
        if left < 2 {
            return None;
        }
        let odds = self.odds(self.rates.short_read);
        let mut dice = choices.fault(Subsystem::ShortRead, inode.0, odds)?;
        Some(dice.between(1, left as u64 - 1) as usize)
    }

    /// Whether no file descriptor is left for an operation on this inode, or on a path (0).
    pub fn no_descriptor(&self, choices: &mut Choices, inode: u64) -> Option<DiskErrorKind> {
        let odds = self.odds(self.rates.no_descriptor);
        choices
            .fault(Subsystem::Descriptors, inode, odds)
            .map(|_| DiskErrorKind::TooManyOpenFiles)
    }

    /// For how many nanoseconds the whole device stands still, if it does.
    pub fn device_stall(&self, choices: &mut Choices) -> Option<u64> {
        let odds = self.odds(self.rates.device_stall);
        let mut dice = choices.fault(Subsystem::DeviceStall, 0, odds)?;
        Some(dice.between(200 * MILLISECOND, 4 * SECOND))
    }

    /// Whether bits flip while a process runs.
    pub fn rot_while_running(&self, choices: &mut Choices) -> Option<Dice> {
        let odds = self.odds(self.rates.rot_while_running);
        choices.fault(Subsystem::RotWhileRunning, 0, odds)
    }

    /// Whether bits flip while no process runs, after the end of this life.
    pub fn rot_at_rest(&self, choices: &mut Choices, life: u64) -> Option<Dice> {
        let odds = self.odds(self.rates.rot_at_rest);
        choices.fault(Subsystem::Rot, life, odds)
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
        let turns_read_only = kind == DiskErrorKind::Io && dice.chance(self.rates.turns_read_only);
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
            turns_read_only,
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

    /// How long something takes, and whether that is a stall.
    pub fn latency(&self, choices: &mut Choices, entity: u64, work: Work) -> (u64, bool) {
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
            Some(mut dice) => {
                let stall = dice.between(MILLISECOND, 1_500 * MILLISECOND);
                (usual + stall, true)
            }
            None => (usual, false),
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
            Self::TurnedReadOnly => "filesystem turned read-only",
            Self::LatentError => "unreadable sector",
            Self::ShortRead => "short read",
            Self::MisdirectedRead => "misdirected read",
            Self::MisdirectedWrite => "misdirected write",
            Self::NoDescriptor => "no file descriptor left",
            Self::Stall => "operation that stalls",
            Self::DeviceStall => "device that stalls",
            Self::Rot => "rot",
        })
    }
}
