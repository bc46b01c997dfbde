//! The two clocks, as the host reports them with each input.

use core::fmt;
use core::ops::Add;

/// Monotonic time in nanoseconds since an origin of the host's choice. Every timeout uses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(pub u64);

/// Wall-clock time in milliseconds since the Unix epoch, as Kafka's timestamps. It may step both
/// ways, so it is only stored, or compared with record timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(pub i64);

/// What both clocks said when an input arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For timeouts.
    pub mono: Mono,
    /// For record timestamps.
    pub wall: Wall,
}

impl Mono {
    /// This instant plus `ms` milliseconds, saturating at the end of time.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1_000_000)))
    }

    /// Milliseconds from `earlier` to this instant, rounded down; zero if `earlier` is later.
    #[must_use]
    pub const fn ms_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0) / 1_000_000
    }
}

impl Add<core::time::Duration> for Mono {
    type Output = Self;
    fn add(self, duration: core::time::Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

impl fmt::Display for Mono {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:06}s",
            self.0 / 1_000_000_000,
            self.0 / 1_000 % 1_000_000
        )
    }
}
