//! A node: a disk that outlives its processes, and the process on it, if one runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use odradek_core::broker::Broker;
use odradek_core::request::Codecs;
use odradek_core::time::Mono;

use crate::bugs::Planted;
use crate::decisions::Amid;
use crate::disk::Disk;
use crate::disk::damage::Damage;
use crate::disk::faults::DiskFaults;
use crate::fault::Stage;
use crate::host::connections::Connections;
use crate::host::files::Files;
use crate::oracle::Death;
use crate::swarm::Swarm;

/// One machine.
#[derive(Debug)]
pub struct Node {
    /// The process: the same type as in production.
    pub broker: Option<Broker>,
    /// Counts its processes; events of an earlier life are void.
    pub life: u64,
    /// The files that the process has open, and what it is doing to them.
    pub files: Files,
    /// The connections of the process.
    pub connections: Connections,
    /// The disk.
    pub disk: Disk,
    /// The dice of the disk.
    pub disk_faults: DiskFaults,
    /// What the process told of its topics' codecs.
    pub codecs: Arc<Codecs>,
    /// Whether connections are accepted.
    pub accepts: bool,
    /// A graceful stop is under way.
    pub is_stopping: bool,
    /// The last process died; the next start recovers what it left.
    pub died: bool,
    /// When the process dies, and how.
    pub crash: Option<Crash>,
    /// The time of the last moment at which it could have died, and which of that time it was.
    pub moment: (Mono, u64),
    /// How many moments of each kind there were since, if anybody asks.
    pub kinds: BTreeMap<u64, u64>,
    /// The deadline that is scheduled.
    pub deadline: Option<Mono>,
    /// Faults that struck this process: what may excuse it for giving up.
    pub faults_in_life: u64,
    /// Until when the process pauses, if it does.
    pub paused_until: Mono,
    /// Until when the device stands still, if it does.
    pub stalled_until: Mono,
    /// Damage that was done to the disk and not undone.
    pub damages: Vec<Damage>,
    /// The process marked a clean stop, and nothing was started since.
    pub stopped_cleanly: bool,
}

/// A death foretold.
#[derive(Clone, Copy, Debug)]
pub struct Crash {
    /// When.
    pub when: When,
    /// How; `None` is a graceful stop.
    pub death: Option<Death>,
}

/// When a death comes.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// After so many more effects, executions and reports.
    After(u64),
    /// At the `nth` of them from a time on.
    At {
        /// That time.
        at: Mono,
        /// Counts from 1.
        nth: u64,
    },
    /// At the `nth` of those that are of a kind.
    Amid(Amid),
}

impl When {
    /// One more moment has come: whether it is this one. What it is amid is known where it is asked for.
    pub fn is_now(&mut self, now: Mono, amid: Option<Amid>) -> bool {
        let left = match self {
            Self::At { at, .. } if at.0 > now.0 => return false,
            Self::Amid(wanted) => return amid == Some(*wanted),
            Self::After(left) | Self::At { nth: left, .. } => left,
        };
        *left = left.saturating_sub(1);
        *left == 0
    }
}

impl Node {
    /// A node with an empty disk.
    #[must_use]
    pub fn new(swarm: &Swarm, planted: Planted) -> Self {
        let mut disk_faults = DiskFaults::new(swarm.disk);
        disk_faults.lies = planted.disk_lies();
        disk_faults.takes_short_reads = planted.takes_short_reads();
        Self {
            broker: None,
            life: 0,
            files: Files::default(),
            connections: Connections::default(),
            disk: Disk::new(),
            disk_faults,
            codecs: Arc::default(),
            accepts: false,
            is_stopping: false,
            died: false,
            crash: None,
            moment: (Mono::default(), 0),
            kinds: BTreeMap::new(),
            deadline: None,
            faults_in_life: 0,
            paused_until: Mono::default(),
            stalled_until: Mono::default(),
            damages: Vec::new(),
            stopped_cleanly: false,
        }
    }

    /// What its process is doing.
    #[must_use]
    pub const fn stage(&self) -> Stage {
        match self.broker {
            None => Stage::Down,
            Some(_) if self.is_stopping => Stage::Stopping,
            Some(_) if self.accepts => Stage::Serving,
            Some(_) => Stage::Recovering,
        }
    }

    /// Says when the process dies next, if it does.
    pub fn doom(&mut self, crash: Option<Crash>) {
        self.crash = crash;
        self.moment = (Mono(0), 0);
        self.kinds.clear();
    }

    /// Whether clients are served.
    #[must_use]
    pub const fn is_serving(&self) -> bool {
        self.broker.is_some() && self.accepts && !self.is_stopping
    }
}
