//! Standard output that may be a pipe, and standard error.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Write};

use clap::ValueEnum;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde_json::json;

use crate::failure::Failure;

/// In what form a command tells its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// For people.
    #[default]
    Text,
    /// For scripts: one JSON object a line.
    Json,
}

/// Standard output, buffered. A reader that is gone ends the command with
/// [`Failure::OutputClosed`] instead of a panic.
pub(crate) struct Output(BufWriter<io::Stdout>);

impl Output {
    /// Standard output of this process.
    pub(crate) fn stdout() -> Self {
        #[expect(clippy::disallowed_methods, reason = "this is the one place")]
        Self(BufWriter::with_capacity(64 << 10, io::stdout()))
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, line: impl fmt::Display) -> Result<(), Failure> {
        writeln!(self.0, "{line}").map_err(|error| Failure::output(&error))
    }

    /// Writes text without ending the line.
    pub(crate) fn text(&mut self, text: impl fmt::Display) -> Result<(), Failure> {
        write!(self.0, "{text}").map_err(|error| Failure::output(&error))
    }

    /// Writes a value as one line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.0, value)
            .map_err(io::Error::from)
            .and_then(|()| self.0.write_all(b"\n"))
            .map_err(|error| Failure::output(&error))
    }

    /// Tells what became of something that was to be deleted; `kind` is its key in JSON.
    pub(crate) fn deletion(
        &mut self,
        format: OutputFormat,
        kind: &str,
        name: &str,
        deleted: bool,
    ) -> Result<(), Failure> {
        if format == OutputFormat::Json {
            return self.json(&json!({ kind: name, "deleted": deleted }));
        }
        let word = if deleted { "deleted" } else { "does not exist" };
        self.line(format_args!("{name}: {word}"))
    }

    /// Writes bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.0
            .write_all(bytes)
            .map_err(|error| Failure::output(&error))
    }

    /// Hands on what is buffered. A command that ends well calls it last: dropping the buffer
    /// would swallow the error.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.0.flush().map_err(|error| Failure::output(&error))
    }

    /// Whether whoever read the output is gone. Without asking, a command that waits for records
    /// would only notice at the next one.
    pub(crate) fn is_closed() -> bool {
        let stdout = rustix::stdio::stdout();
        // No event is asked for: errors are reported unasked.
        let mut fds = [PollFd::from_borrowed_fd(stdout, PollFlags::empty())];
        match poll(&mut fds, Some(&Timespec::default())) {
            Ok(1..) => fds.iter().any(|fd| {
                fd.revents()
                    .intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL)
            }),
            _ => false,
        }
    }
}

/// `1 record`, `2 records`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Writes a line to standard error; nothing can be done if that fails.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Whether a person watches standard output.
pub(crate) fn stdout_is_terminal() -> bool {
    rustix::termios::isatty(rustix::stdio::stdout())
}

/// Whether a person watches standard error.
pub(crate) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}
