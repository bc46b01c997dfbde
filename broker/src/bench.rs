//! `odradek bench`: loads, and what a broker makes of them.
//!
//! A load is a file: what it takes, what it sends, what it counts. All of them speak straight on
//! the wire, with batches that were encoded before the clock starts, so that as little as possible
//! of what is measured is the client. [`load`] is how a load is run in rounds, [`frames`] and
//! [`link`] are what they send with, [`row`] is how a figure is kept, [`compare`] is the table of
//! all of them against the bare loops of `odradek-io` and against Apache Kafka.

mod bare;
mod commit;
mod compare;
mod connections;
mod environment;
mod fetch;
mod figures;
mod flow;
mod frames;
mod kafka;
mod latency;
mod limits;
mod link;
mod load;
mod mixed;
mod plot;
mod process;
mod produce;
mod report;
mod row;
mod schedule;
mod start;
mod topic;

use clap::Subcommand;

use crate::failure::Failure;

/// Measures a broker, or what this machine could do without one.
///
/// Every load runs in rounds and prints the median and the spread. Latency is measured from the
/// time at which a record was to be sent, so that a stall is not hidden by the client that waits
/// for it. Client and broker share the machine if they are on the same one: compare figures of one
/// run, and read ratios.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek bench produce                          against a broker on 127.0.0.1:9092
  odradek bench commit --connections 500 --bootstrap broker.example:9092
  odradek bench latency --rate 1000 --output json
  odradek bench limits                           what this machine does without a broker
  odradek bench compare --quick                  starts all it needs; under 3 minutes

Exit codes: 0 measured, 1 failed, 2 wrong usage.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Produce(produce::Args),
    Fetch(fetch::Args),
    Latency(latency::Args),
    Commit(commit::Args),
    Connections(connections::Args),
    Start(start::Args),
    Mixed(mixed::Args),
    Limits(limits::Args),
    Compare(compare::Args),
    Plot(plot::Args),
    Bare(bare::Args),
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    odradek_io::limits::raise_descriptor_limit();
    match &args.command {
        Command::Produce(args) => produce::run(args),
        Command::Fetch(args) => fetch::run(args),
        Command::Latency(args) => latency::run(args),
        Command::Commit(args) => commit::run(args),
        Command::Connections(args) => connections::run(args),
        Command::Start(args) => start::run(args),
        Command::Mixed(args) => mixed::run(args),
        Command::Limits(args) => limits::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Plot(args) => plot::run(args),
        Command::Bare(args) => bare::run(args),
    }
}
