//! The subcommands, one file each, and what several of them need.

use std::ops::Range;
use std::process;
use std::time::Duration;

use odradek_sim::bugs::{Planted, by_name};

pub(crate) mod bugs;
pub(crate) mod corpus;
pub(crate) mod enumerate;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod shrink;
pub(crate) mod stopwatch;
pub(crate) mod subject;

/// `A..B`, which is not empty.
pub(crate) fn seed_range(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("write it as A..B")?;
    let number = |text: &str| {
        text.parse::<u64>()
            .map_err(|error| format!("{text}: {error}"))
    };
    let (from, to) = (number(from)?, number(to)?);
    if from >= to {
        return Err("there is no seed in it".to_owned());
    }
    Ok(from..to)
}

/// A length of real time: `90s`, `10m`, `1h`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let units = [('s', 1), ('m', 60), ('h', 3600)];
    let (number, seconds) = units
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(*unit)?, *seconds)))
        .ok_or("write it as 90s, 10m or 1h")?;
    let number: u32 = number
        .parse()
        .map_err(|error| format!("{number:?}: {error}"))?;
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

/// The bug of a name, or none.
pub(crate) fn plant(bug: Option<&str>) -> Result<Planted, String> {
    bug.map_or(Ok(Planted::NONE), by_name)
}

/// Calls the build that has bugs with the same words: an ordinary one has none, so it makes the other.
/// What that says, as its exit code.
pub(crate) fn build_with_bugs_and_call() -> Result<bool, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let status = process::Command::new(cargo)
        .args(["run", "--release", "--quiet", "-p", "odradek-sim"])
        .args(["--features", "bugs", "--target-dir", "target/bugs", "--"])
        .args(std::env::args_os().skip(1))
        .status()
        .map_err(|error| format!("cannot call cargo: {error}"))?;
    match status.code() {
        Some(2) | None => Err("the build with planted bugs gave no answer".to_owned()),
        Some(code) => Ok(code == 0),
    }
}

/// How many threads may run at once.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
