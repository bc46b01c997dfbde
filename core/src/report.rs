//! What an operator should see: facts with fields to grep for, which the host logs.

use alloc::string::String;
use core::fmt;

use crate::time::Mono;

/// How loud a report is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Needs a person: data is at risk or a partition is offline.
    Error,
    /// Unusual, but handled.
    Warn,
    /// Normal life: started, loaded, rolled.
    Info,
    /// For a developer.
    Debug,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How loud.
    pub level: Level,
    /// The room it happened in, for levels by module: `log`, `recovery`, `request`, ...
    pub room: &'static str,
    /// What happened, in words and fields (`topic=orders partition=0 ...`).
    pub message: String,
}

/// Says something that goes on and on once a minute: the log names a cause, and is not full of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seldom {
    told: Option<Mono>,
}

impl Seldom {
    const EVERY_MS: u64 = 60_000;

    /// Whether it is to be said now.
    pub(crate) fn tells(&mut self, now: Mono) -> bool {
        let due = self
            .told
            .is_none_or(|at| now.ms_since(at) >= Self::EVERY_MS);
        if due {
            self.told = Some(now);
        }
        due
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.room, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_for_an_hour_is_said_sixty_times() {
        let mut seldom = Seldom::default();
        let start = Mono(5);
        let told = (0..3_600u64).filter(|second| seldom.tells(start.plus_ms(second * 1_000)));
        assert_eq!(told.count(), 60);
    }
}
