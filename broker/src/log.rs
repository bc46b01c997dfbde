//! `odradek log`: looks at the files of a log, without a broker.
//!
//! Works on Odradek's files and on Kafka's, since they are the same: a segment, a partition's
//! directory, or a whole data directory. Nothing is written.

mod dump;
mod epochs;
mod finding;
mod index_check;
mod layout;
mod segment;
mod verify;

use std::path::PathBuf;

use clap::Subcommand;

use crate::failure::Failure;
use crate::output::OutputFormat;

/// Looks at the files of a log, without a broker.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek log verify odradek-data                checks everything in a data directory
  odradek log dump odradek-data/orders-0         prints a partition's batches and records

Exit codes: 0 all is well, 1 damage was found or a file cannot be read, 2 wrong usage.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Dump(DumpArgs),
    Verify(VerifyArgs),
}

/// Prints the batches and records of segments, and the entries of indexes.
///
/// Works on a stopped broker's files, Odradek's or Kafka's. The text is that of Kafka's
/// DumpLogSegments; what is no text in keys and values is escaped.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek log dump odradek-data/orders-0
  odradek log dump odradek-data/orders-0/00000000000000000000.log --no-records
  odradek log dump orders-0 --from 1000 --count 5 --output json | jq .value
  odradek log dump orders-0/00000000000000000000.timeindex

Exit codes: 0 done, 1 damaged or unreadable (what comes before is printed), 2 wrong usage.")]
struct DumpArgs {
    /// A .log, .index, .timeindex or leader-epoch-checkpoint file, or a partition's or a data
    /// directory.
    path: PathBuf,
    /// Print batches only.
    #[arg(long)]
    no_records: bool,
    /// Begin with the batch that holds this offset.
    #[arg(long, value_name = "OFFSET")]
    from: Option<i64>,
    /// End after so many batches (records, unless --no-records).
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// How to print.
    #[arg(long, value_enum, default_value_t)]
    output: OutputFormat,
}

/// Checks segments, indexes and epochs, and says what to do about damage.
///
/// Checks each batch's header, CRC, records and offsets, that segments follow each other without
/// a gap, that indexes and leader epochs agree with the log. Works on a stopped broker's files,
/// Odradek's or Kafka's.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek log verify odradek-data
  odradek log verify odradek-data/orders-0
  odradek log verify /var/lib/kafka/data/users-0 --compacted
  odradek log verify odradek-data --output json | jq 'select(.type == \"damage\")'

Exit codes: 0 all is well, 1 damage was found or a file cannot be read, 2 wrong usage.")]
struct VerifyArgs {
    /// A .log file, a partition's directory or a data directory.
    path: PathBuf,
    /// Gaps between offsets are no damage: the cleaner of a compacted topic makes them.
    #[arg(long)]
    compacted: bool,
    /// How to print.
    #[arg(long, value_enum, default_value_t)]
    output: OutputFormat,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Command::Dump(args) => dump::run(args),
        Command::Verify(args) => verify::run(args),
    }
}
