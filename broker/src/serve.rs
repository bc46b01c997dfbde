//! `odradek serve`: the broker.

mod listeners;
mod settings;

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process;

use clap::ValueEnum;
use odradek_core::log::Durability;
use odradek_io::limits;
use odradek_io::server::Server;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;
use crate::logging::{self, LogFormat};
use crate::output::Output;
use settings::Settings;

/// Runs the broker until it gets SIGTERM or SIGINT.
///
/// A flag wins over --set, and --set over the file. The first signal stops it gracefully, a second
/// one at once. When it is ready it prints one line to standard output, with the address, the data
/// directory and the durability; logs go to standard error.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek serve
  odradek serve --data-dir /var/lib/odradek --listen 0.0.0.0:9092 --advertise broker.example:9092
  odradek serve --listen 127.0.0.1:0             picks a free port and prints it
  odradek serve --durability os                  faster; survives a killed process, no power cut
  odradek serve --config server.properties --set num.partitions=3
  odradek serve --log info,odradek::log=debug --log-format json

Exit codes: 0 stopped gracefully, 1 could not start or go on, 2 wrong usage or configuration.")]
pub(crate) struct Args {
    /// Where the data is; made if it is missing [default: log.dirs, or odradek-data in the current
    /// directory].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where to listen; port 0 picks a free one [default: listeners, or 127.0.0.1:9092].
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// The address that clients are told to connect to [default: advertised.listeners, or the
    /// address a client connected to].
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Option<String>,
    /// When a record counts as acknowledged.
    #[arg(long, value_enum, default_value_t)]
    durability: DurabilityArg,
    /// Set a broker config, by Kafka's name; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
    /// A properties file with Kafka's names, such as its server.properties.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How loud to log: a level, or levels by module.
    #[arg(long, value_name = "LEVELS", default_value = "info")]
    log: String,
    /// How to log.
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
}

/// [`Durability`] on the command line.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum DurabilityArg {
    /// Acknowledged once flushed to the disk: survives a power cut.
    #[default]
    Fsync,
    /// Acknowledged once written to the page cache: survives a killed process, not a power cut.
    Os,
}

/// Splits `KEY=VALUE`.
pub(crate) fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| "write it as KEY=VALUE".to_owned())?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    logging::start(&args.log, args.log_format)?;
    let result = Settings::gather(args).and_then(|settings| serve(args, settings));
    result.map_err(|failure| logging::tell(failure, args.log_format))
}

fn serve(args: &Args, settings: Settings) -> Result<(), Failure> {
    for warning in &settings.warnings {
        tracing::warn!(target: "odradek::config", "{warning}");
    }
    let descriptors = limits::raise_descriptor_limit();
    tracing::debug!(target: "odradek::serve", descriptors, "limit of open files");
    let runtime = runtime_builder()
        .enable_all()
        .thread_name("odradek-io")
        .build()
        .map_err(|error| {
            Failure::failed(format!(
                "cannot start threads: {error}; raise the limit of processes (ulimit -u)"
            ))
        })?;
    runtime.block_on(until_stopped(args.durability, settings))
}

/// Threads that serve connections: a core fewer than there are, which is left to the threads that flush
/// and to what the system does for sockets. Where that is one, it needs no scheduler for many
/// (results/README.md has what it saves).
fn runtime_builder() -> tokio::runtime::Builder {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    if cores <= 2 {
        return tokio::runtime::Builder::new_current_thread();
    }
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(cores - 1);
    builder
}

async fn until_stopped(durability: DurabilityArg, settings: Settings) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let Settings {
        data_dir,
        listen,
        config,
        ..
    } = settings;
    let mut server = tokio::select! {
        started = Server::start_broker(config, data_dir.clone(), listen) => {
            started.map_err(|error| Failure::failed(format!("cannot start: {error}")))?
        }
        name = signals.next() => {
            tracing::info!(target: "odradek::serve", "{name}: stopped before it had started");
            return Ok(());
        }
    };
    announce(&server, &data_dir, durability);
    tokio::select! {
        name = signals.next() => {
            tracing::info!(target: "odradek::serve",
                "{name}: stopping; once more stops at once");
        }
        error = server.failed() => {
            return Err(Failure::failed(format!("cannot go on: {error}")));
        }
    }
    tokio::select! {
        stopped = server.stop() => {
            stopped.map_err(|error| Failure::failed(format!("did not stop cleanly: {error}")))?;
            tracing::info!(target: "odradek::serve", "stopped, everything is flushed");
            Ok(())
        }
        name = signals.next() => {
            tracing::warn!(target: "odradek::serve",
                "{name} again: ending at once; the next start recovers");
            // Not by returning: that would wait for flushes under way.
            #[expect(clippy::disallowed_methods, reason = "a second signal cuts the stop short")]
            process::exit(1)
        }
    }
}

/// The one line on standard output. Nobody may read it; that is no reason to end.
fn announce(server: &Server, data_dir: &Path, durability: DurabilityArg) {
    let mut out = Output::stdout();
    let line = format!(
        "odradek listening on {}, data in {}, durability {}",
        server.local_addr(),
        data_dir.display(),
        durability.name()
    );
    if out.line(&line).and_then(|()| out.flush()).is_err() {
        tracing::debug!(target: "odradek::serve", "standard output is closed");
    }
    tracing::info!(target: "odradek::serve", "{line}");
}

/// The signals that ask the broker to stop.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let on = |kind| {
            signal(kind)
                .map_err(|error| Failure::failed(format!("cannot listen for signals: {error}")))
        };
        Ok(Self {
            terminate: on(SignalKind::terminate())?,
            interrupt: on(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

impl DurabilityArg {
    const fn name(self) -> &'static str {
        match self {
            Self::Fsync => "fsync",
            Self::Os => "os",
        }
    }
}

impl From<DurabilityArg> for Durability {
    fn from(arg: DurabilityArg) -> Self {
        match arg {
            DurabilityArg::Fsync => Self::Fsync,
            DurabilityArg::Os => Self::Os,
        }
    }
}
