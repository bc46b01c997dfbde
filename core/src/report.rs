//! What an operator should see: facts with fields to grep for, which the host logs.

use alloc::string::String;
use core::fmt;

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

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.room, self.message)
    }
}
