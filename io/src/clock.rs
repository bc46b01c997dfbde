//! The two clocks.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use odradek_core::time::{Mono, Now, Wall};

/// Monotonic time since the process made it, and the system's wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    /// What both clocks say.
    pub(crate) fn now(&self) -> Now {
        // A wall clock before 1970 counts as 1970: timestamps below zero mean "none" on the wire.
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Now {
            mono: self.mono(),
            wall: Wall(i64::try_from(wall.as_millis()).unwrap_or(i64::MAX)),
        }
    }

    /// The monotonic one alone.
    pub(crate) fn mono(&self) -> Mono {
        Mono(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The instant of a monotonic time; `None` if it is beyond what the system can represent.
    pub(crate) fn instant(&self, mono: Mono) -> Option<Instant> {
        self.origin.checked_add(Duration::from_nanos(mono.0))
    }
}
