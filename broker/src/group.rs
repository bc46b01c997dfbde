//! `odradek group`: shows consumer groups, deletes them, and changes where they go on reading.

mod coordinator;
mod delete;
mod describe;
mod description;
mod list;
mod reset_offsets;
mod table;

use clap::Subcommand;

use crate::failure::Failure;

/// Shows consumer groups, deletes them, and changes where they go on reading.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek group list
  odradek group describe readers                 members, what they own, how far behind they are
  odradek group reset-offsets readers --all-topics --to-earliest
  odradek group reset-offsets readers --all-topics --to-earliest --execute
  odradek group delete readers

A group comes about with its first member: `odradek consume orders --group readers`.

Exit codes: 0 done, 1 failed, 2 wrong usage.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::Args),
    Describe(describe::Args),
    Delete(delete::Args),
    ResetOffsets(reset_offsets::Args),
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Command::List(args) => list::run(args),
        Command::Describe(args) => describe::run(args),
        Command::Delete(args) => delete::run(args),
        Command::ResetOffsets(args) => reset_offsets::run(args),
    }
}
