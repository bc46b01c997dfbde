//! How far a long command is: one line on a terminal's standard error, that replaces itself.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::output;

const INTERVAL: Duration = Duration::from_millis(200);

/// A line of progress. Shows nothing when nobody watches, and nothing before it has lasted.
pub(crate) struct Progress {
    verb: &'static str,
    unit: Unit,
    total: Option<u64>,
    next: Option<Instant>,
    shown: bool,
}

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    /// Shown as MiB.
    Bytes,
    /// Shown as they are.
    Records,
}

impl Progress {
    /// A line such as `checked 12 of 300 MiB`.
    pub(crate) fn new(verb: &'static str, unit: Unit, total: Option<u64>) -> Self {
        Self {
            verb,
            unit,
            total,
            next: output::stderr_is_terminal().then(|| Instant::now() + INTERVAL),
            shown: false,
        }
    }

    /// It is this far.
    pub(crate) fn update(&mut self, done: u64) {
        let Some(next) = self.next else { return };
        let now = Instant::now();
        if now < next {
            return;
        }
        self.next = Some(now + INTERVAL);
        self.shown = true;
        let line = self.line(done);
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "\r\x1b[K{line}");
        let _ = stderr.flush();
    }

    fn line(&self, done: u64) -> String {
        let number = |n: u64| match self.unit {
            Unit::Bytes => n >> 20,
            Unit::Records => n,
        };
        let unit = match self.unit {
            Unit::Bytes => "MiB",
            Unit::Records => "records",
        };
        match self.total {
            Some(total) => format!("{} {} of {} {unit}", self.verb, number(done), number(total)),
            None => format!("{} {} {unit}", self.verb, number(done)),
        }
    }

    /// Takes the line away, so that something else can be written.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let mut stderr = std::io::stderr().lock();
            let _ = write!(stderr, "\r\x1b[K");
            let _ = stderr.flush();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is() {
        let bytes = Progress::new("checked", Unit::Bytes, Some(300 << 20));
        assert_eq!(bytes.line(12 << 20), "checked 12 of 300 MiB");
        let records = Progress::new("sent", Unit::Records, None);
        assert_eq!(records.line(7), "sent 7 records");
    }
}
