//! The program: `odradek serve` and the commands around it.
//!
//! Each command is a file: what it takes (with its help), then what it does. A command returns
//! `Ok` or a [`Failure`](failure::Failure); exit codes are chosen here and there, nowhere else:
//! 0 when it did what it was asked, 1 when it could not, 2 when it was asked for something that
//! makes no sense.
//!
//! Nothing is decided here about logs, partitions or messages: `serve` puts `odradek-core` behind
//! the sockets and files of `odradek-io`, the other commands are clients, and `log` reads files
//! with the core's own formats.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::disallowed_methods))]

mod address;
mod advice;
mod base64;
#[cfg(target_os = "linux")]
mod bench;
mod consume;
mod escape;
mod failure;
mod files;
mod group;
mod log;
mod logging;
mod output;
mod produce;
mod progress;
mod properties;
mod record_json;
mod serve;
mod session;
mod topic;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What is allocated for a request on the connection's thread is freed by the flush thread, by the
/// hundred: the system's allocator spends twice as long on that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A log broker that speaks Kafka's protocol, and the tools around it.
#[derive(Debug, Parser)]
#[command(
    name = "odradek",
    version,
    max_term_width = 100,
    propagate_version = true
)]
#[command(after_help = "\
Examples:
  odradek serve                                  a broker on 127.0.0.1:9092, data in ./odradek-data
  odradek topic create orders --partitions 3
  seq 5 | odradek produce orders
  odradek consume orders --from beginning --exit-at-end
  odradek group describe readers                 how far behind a consumer group is
  odradek log verify odradek-data                checks the files of a stopped broker
  odradek bench compare --quick                  how fast it is here

Exit codes: 0 done, 1 failed, 2 wrong usage.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Topic(topic::Args),
    Produce(produce::Args),
    Consume(consume::Args),
    Group(group::Args),
    Log(log::Args),
    #[cfg(target_os = "linux")]
    Bench(bench::Args),
}

fn main() -> ExitCode {
    // Wrong usage and --help end inside: with 2 and 0.
    let result = match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Topic(args) => topic::run(&args),
        Command::Produce(args) => produce::run(&args),
        Command::Consume(args) => consume::run(&args),
        Command::Group(args) => group::run(&args),
        Command::Log(args) => log::run(&args),
        #[cfg(target_os = "linux")]
        Command::Bench(args) => bench::run(&args),
    };
    failure::exit_code(result)
}
