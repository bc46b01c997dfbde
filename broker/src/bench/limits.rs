//! `odradek bench limits`: what this machine does when there is no broker.

use super::compare::{CommonArgs, Comparison, lines};
use super::start::temporary;
use crate::failure::Failure;

/// Runs the bare loops alone: receive, find the batches, check the CRC, walk over the records,
/// append to files that roll at 1 GiB and are deleted, answer; with and without a flush before the
/// answer; sendfile; ping-pong.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek bench limits
  odradek bench limits --only produce --rounds 9 --seconds 5

Exit codes: 0 measured, 1 failed, 2 wrong usage.")]
pub(super) struct Args {
    #[command(flatten)]
    common: CommonArgs,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let mut lines = lines::all(false);
    lines.retain(|line| line.which.contains(&lines::Which::Bare));
    args.common.select(&mut lines)?;
    let root = temporary(args.common.dir.as_deref())?;
    let mut comparison = Comparison::new(&args.common, false);
    comparison.start_bare(root.path(), &lines)?;
    for line in &lines {
        comparison.run(line)?;
    }
    comparison.report()
}
