//! Ranges of versions.

use core::fmt;

/// A range of versions of an API, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The lowest.
    pub min: i16,
    /// The highest; `i16::MAX` where a field came to stay.
    pub max: i16,
}

impl Versions {
    /// No version at all.
    pub const NONE: Self = Self { min: 1, max: 0 };

    /// The versions from `min` to `max`, both included.
    #[must_use]
    pub const fn new(min: i16, max: i16) -> Self {
        Self { min, max }
    }

    /// Whether `version` is one of them.
    #[must_use]
    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.min, self.max)
    }
}
