//! The simulator's command line.

use std::panic;
use std::process::{self, ExitCode};

use clap::{Parser, Subcommand};

mod commands;

/// A run is small pieces, made and dropped: the system's allocator took an eighth of the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs the real broker on a virtual clock, network and disk, and judges what it does.
#[derive(Debug, Parser)]
#[command(name = "odradek-sim", version, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  odradek-sim run --seeds 0..1000            a thousand runs on all cores
  odradek-sim replay 17                      one run again: what it came to, and its hash
  odradek-sim replay 17 --trace              the same, every step in words
  odradek-sim shrink 17                      make a run that fails small, and write it down
  odradek-sim corpus seeds                   replay everything that ever found something
  odradek-sim bugs                           plant each bug and count the seeds until it is caught
  odradek-sim enumerate                      small workloads, crashed everywhere in every way";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run seeds; exit code 1 at the first that fails
    Run(commands::run::Arguments),
    /// Run one seed or case again and print its hash; exit code 1 if it fails
    Replay(commands::replay::Arguments),
    /// Take away from a run that fails what it does not need to fail, and write the rest down
    Shrink(commands::shrink::Arguments),
    /// Replay every seed and case in a folder; exit code 1 if one fails
    Corpus(commands::corpus::Arguments),
    /// Build the simulator with planted bugs, run each, and print the seeds to detect; exit code 1
    /// if one is not caught
    Bugs(commands::bugs::Arguments),
    /// Crash small workloads at every moment with every image that the disk's model allows; exit code
    /// 1 if something does not hold
    Enumerate(commands::enumerate::Arguments),
}

/// What a shell reports of a program that SIGPIPE ended: 128 and the signal's number.
const OUTPUT_CLOSED: i32 = 141;

/// Whoever reads what is printed may stop reading, as `head` does. Printing panics then, because Rust
/// programs ignore SIGPIPE; this ends the program as the signal would have.
fn end_quietly_when_output_is_closed() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let message = info.payload().downcast_ref::<String>();
        let is_output = |message: &&String| {
            message.starts_with("failed printing to stdout") && message.contains("os error 32")
        };
        if message.as_ref().is_some_and(is_output) {
            process::exit(OUTPUT_CLOSED);
        }
        before(info);
    }));
}

fn main() -> ExitCode {
    end_quietly_when_output_is_closed();
    let result = match Arguments::parse().command {
        Command::Run(arguments) => commands::run::run(arguments),
        Command::Replay(arguments) => commands::replay::run(&arguments),
        Command::Shrink(arguments) => commands::shrink::run(&arguments),
        Command::Corpus(arguments) => commands::corpus::run(&arguments),
        Command::Bugs(arguments) => commands::bugs::run(&arguments),
        Command::Enumerate(arguments) => commands::enumerate::run(&arguments),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            eprintln!("odradek-sim: {message}");
            ExitCode::from(2)
        }
    }
}
