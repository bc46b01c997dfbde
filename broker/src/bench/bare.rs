//! `odradek bench bare`: one bare loop as a process of its own, as `limits` and `compare` start
//! it.

use std::net::SocketAddr;
use std::path::PathBuf;

use odradek_io::bare::{BareOptions, BareServer};

use crate::failure::Failure;
use crate::output::Output;

/// Runs a bare loop until it is killed: what is left of a broker without the broker. It prints a
/// line with its address.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek bench bare --dir bare-data --listen 127.0.0.1:9092 --flush
  odradek bench produce --bare                   in another terminal

Exit codes: 1 failed, 2 wrong usage.")]
pub(super) struct Args {
    /// An existing directory for its files.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Where it listens; port 0 picks a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Flush before each answer.
    #[arg(long)]
    flush: bool,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("the bare loop: {error}"));
    let server = BareServer::bind(&BareOptions {
        listen: args.listen,
        directory: args.dir.clone(),
        flush: args.flush,
        segment_bytes: 1 << 30,
    })
    .map_err(failed)?;
    let mut out = Output::stdout();
    out.line(format!(
        "bare loop listening on {}, data in {}",
        server.local_addr().map_err(failed)?,
        args.dir.display()
    ))?;
    out.flush()?;
    match server.run() {
        Err(error) => Err(failed(error)),
        Ok(never) => match never {},
    }
}
