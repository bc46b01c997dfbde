//! Logs: to standard error, for people or as JSON, with levels by module.

use std::io::{self, IsTerminal};

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use crate::failure::Failure;

/// How to log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line for people.
    #[default]
    Human,
    /// An object a line, for a log collector.
    Json,
}

/// Starts logging. `levels` is a level, or levels by target: `warn,odradek::log=debug`.
pub(crate) fn start(levels: &str, format: LogFormat) -> Result<(), Failure> {
    let filter = EnvFilter::builder().parse(levels).map_err(|error| {
        Failure::usage(format!(
            "--log '{levels}': {error}; write a level (error, warn, info, debug, trace) or levels \
             by module, such as warn,odradek::log=debug"
        ))
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    match format {
        LogFormat::Human => builder.init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    Ok(())
}

/// Says why the broker ends. With JSON it goes the way of all logs, so that every line of standard
/// error is an object.
pub(crate) fn tell(failure: Failure, format: LogFormat) -> Failure {
    match (failure, format) {
        (Failure::Failed(message), LogFormat::Json) => {
            tracing::error!(target: "odradek::serve", "{message}");
            Failure::Said
        }
        (failure, _) => failure,
    }
}
