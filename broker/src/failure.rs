//! How a command ends when it did not do what it was asked.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use crate::output;

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line, or a file it names, asks for something that makes no sense.
    Usage(String),
    /// It did not work. The message says what to do next.
    Failed(String),
    /// It did not work, and that was said already.
    Said,
    /// Whoever read the output is gone (`| head -1`): they have what they wanted.
    OutputClosed,
}

impl Failure {
    /// It did not work.
    pub(crate) fn failed(message: impl Display) -> Self {
        Self::Failed(message.to_string())
    }

    /// It makes no sense.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self::Usage(message.to_string())
    }

    /// Several things did not work, or none.
    pub(crate) fn from_list(messages: Vec<String>) -> Result<(), Self> {
        if messages.is_empty() {
            return Ok(());
        }
        Err(Self::Failed(messages.join("\nodradek: ")))
    }

    /// Standard output did not take what was written.
    pub(crate) fn output(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::OutputClosed
        } else {
            Self::Failed(format!(
                "cannot write to standard output: {error}; check where it goes"
            ))
        }
    }
}

/// Says what went wrong and chooses the exit code.
pub(crate) fn exit_code(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Said) => ExitCode::FAILURE,
        Err(Failure::Failed(message)) => {
            output::note(&format!("odradek: {message}"));
            ExitCode::FAILURE
        }
        Err(Failure::Usage(message)) => {
            output::note(&format!("odradek: {message}"));
            ExitCode::from(2)
        }
    }
}
