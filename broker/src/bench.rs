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
mod groups;
mod kafka;
mod latency;
mod limits;
mod link;
mod load;
mod load_args;
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
use load_args::LoadArgs;

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
    /// Sends batches as fast as they are acknowledged.
    #[command(after_help = "\
Examples:
  odradek bench produce
  odradek bench produce --records 10 --bytes 100 --in-flight 1
  odradek bench produce --connections 4 --partitions 4 --rounds 10 --output json

Exit codes: 0 measured, 1 failed, 2 wrong usage.")]
    Produce(LoadArgs<produce::ProduceLoad>),
    /// Fills a partition, and then reads it from its start to its end, over and over.
    #[command(after_help = "\
Examples:
  odradek bench fetch
  odradek bench fetch --fetch-bytes 65536 --fill-mib 100

Exit codes: 0 measured, 1 failed, 2 wrong usage.")]
    Fetch(LoadArgs<fetch::FetchLoad>),
    /// Sends records at a rate, each its own request, to a consumer that waits for them.
    ///
    /// The latency of a record runs from the time at which it was to be sent until the consumer has
    /// it. If the broker does not keep up, the records behind wait, and that counts.
    #[command(after_help = "\
Examples:
  odradek bench latency
  odradek bench latency --rate 10000 --rounds 10
  odradek bench latency --rate 10000 --ping      round trips of a request that asks for nothing

Exit codes: 0 measured, 1 failed, 2 wrong usage.")]
    Latency(LoadArgs<latency::LatencyLoad>),
    /// Sends one record at a time on each of many connections, the next when the last is answered.
    ///
    /// This is where group commit shows: with fsync a flush covers what all of them have sent.
    #[command(after_help = "\
Examples:
  odradek bench commit
  odradek bench commit --connections 500 --partitions 100
  odradek bench commit --connections 1 --bytes 1000

Exit codes: 0 measured, 1 failed, 2 wrong usage.")]
    Commit(LoadArgs<commit::CommitLoad>),
    /// Opens connections one after the other until the last one is served, and leaves them idle.
    ///
    /// With --pid the broker's memory is measured: what it grew by since the first round began, over
    /// the number of connections.
    #[command(after_help = "\
Examples:
  odradek bench connections --connections 5000
  odradek bench connections --rounds 1 --pid $(pgrep odradek)

Exit codes: 0 measured, 1 failed, 2 wrong usage.")]
    Connections(LoadArgs<connections::ConnectionsLoad>),
    Start(start::Args),
    /// Sends batches to several partitions at a rate, reads them all, and counts what is lost.
    ///
    /// Each partition keeps four segments: old ones are deleted all the time. With --pid the broker's
    /// memory is measured after each round.
    #[command(after_help = "\
Examples:
  odradek bench mixed --rate 200000 --rounds 10 --seconds 60 --warm-up 0 --pid $(pgrep odradek)
  odradek bench mixed --partitions 16 --rate 10000 --segment-mib 16

Exit codes: 0 measured, 1 failed or records were lost, 2 wrong usage.")]
    Mixed(LoadArgs<mixed::MixedLoad>),
    Groups(groups::Args),
    Limits(limits::Args),
    Compare(compare::Args),
    Plot(plot::Args),
    Bare(bare::Args),
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    odradek_io::limits::raise_descriptor_limit();
    match &args.command {
        Command::Produce(args) => args.run().map(drop),
        Command::Fetch(args) => args.run().map(drop),
        Command::Latency(args) => args.run().map(drop),
        Command::Commit(args) => args.run().map(drop),
        Command::Connections(args) => args.run().map(drop),
        Command::Start(args) => start::run(args),
        Command::Mixed(args) => mixed::run(args),
        Command::Groups(args) => groups::run(args),
        Command::Limits(args) => limits::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Plot(args) => plot::run(args),
        Command::Bare(args) => bare::run(args),
    }
}
