//! `odradek topic`: creates, shows, changes and deletes topics.

mod alter;
mod create;
mod delete;
mod describe;
mod list;

use clap::Subcommand;

use crate::failure::Failure;

/// Creates, shows, changes and deletes topics.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek topic create orders --partitions 3 --config retention.ms=86400000
  odradek topic describe orders
  odradek topic alter orders --partitions 6
  odradek topic delete orders

Exit codes: 0 done, 1 failed, 2 wrong usage.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(create::Args),
    List(list::Args),
    Describe(describe::Args),
    Alter(alter::Args),
    Delete(delete::Args),
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Command::Create(args) => create::run(args),
        Command::List(args) => list::run(args),
        Command::Describe(args) => describe::run(args),
        Command::Alter(args) => alter::run(args),
        Command::Delete(args) => delete::run(args),
    }
}
