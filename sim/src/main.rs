//! The simulator's command line.

use std::io::{IsTerminal, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};
use odradek_sim::bugs::Planted;
use odradek_sim::campaign::{self, Campaign, Summary};
use odradek_sim::oracle::{Check, Mark};
use odradek_sim::swarm::Workload;
use odradek_sim::trace::Keep;
use odradek_sim::twice::SecondProcess;
use odradek_sim::world::Outcome;
use odradek_sim::{bugs, world};

/// A run is small pieces, made and dropped: the system's allocator took an eighth of the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs the real broker on a virtual clock, network and disk, and judges what it does.
#[derive(Debug, Parser)]
#[command(name = "odradek-sim", version, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Action,
}

const EXAMPLES: &str = "\
Examples:
  odradek-sim run --seeds 0..1000            a thousand runs on all cores
  odradek-sim replay 17                      one run again: what it came to, and its hash
  odradek-sim replay 17 --trace              the same, every step in words
  odradek-sim bugs                           plant each bug and count the seeds until it is caught";

#[derive(Debug, Subcommand)]
enum Action {
    /// Run seeds; exit code 1 at the first that fails
    #[command(after_help = "\
Examples:
  odradek-sim run --seeds 0..1000
  odradek-sim run --seeds 4000..4100 --jobs 1
  odradek-sim run --seeds 0..1000 --twice-every 50
  odradek-sim run --seeds 0..1000 --workload idempotence --coverage
  cargo run --release -p odradek-sim --features bugs --target-dir target/bugs -- \\
    run --seeds 0..1000 --bug ack-before-flush")]
    Run {
        /// First seed, and the one after the last
        #[arg(long, value_name = "A..B", value_parser = seed_range)]
        seeds: Range<u64>,
        /// What to look at most: mixed, idempotence, rebalance
        #[arg(long, value_name = "NAME", value_parser = workload_name, default_value = "mixed")]
        workload: Workload,
        /// Plant this bug (only in a build that has them)
        #[arg(long, value_name = "NAME")]
        bug: Option<String>,
        /// Threads; as many as there are cores by default
        #[arg(long)]
        jobs: Option<usize>,
        /// Print how often each mark was hit
        #[arg(long)]
        coverage: bool,
        /// Run all seeds, and explain the first failure of each check
        #[arg(long)]
        keep_going: bool,
        /// Run every Nth seed once more in a fresh process: it must do the same, step by step
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        twice_every: Option<u64>,
        /// The program for the second run: another build of the simulator
        #[arg(long, value_name = "PROGRAM", requires = "twice_every")]
        against: Option<PathBuf>,
    },
    /// Run one seed again and print its hash; exit code 1 if it fails
    #[command(after_help = "\
Examples:
  odradek-sim replay 17
  odradek-sim replay 17 --trace > story.txt")]
    Replay {
        /// The seed
        seed: u64,
        /// What to look at most: mixed, idempotence, rebalance
        #[arg(long, value_name = "NAME", value_parser = workload_name, default_value = "mixed")]
        workload: Workload,
        /// Plant this bug (only in a build that has them)
        #[arg(long, value_name = "NAME")]
        bug: Option<String>,
        /// Print every step in words
        #[arg(long)]
        trace: bool,
        /// Print the hash after each step too
        #[arg(long, requires = "trace")]
        hashes: bool,
    },
    /// Build the simulator with planted bugs, run each, and print the seeds to detect; exit code 1
    /// if one is not caught
    #[command(after_help = "\
Examples:
  odradek-sim bugs
  odradek-sim bugs --seeds 0..200")]
    Bugs {
        /// First seed, and the one after the last
        #[arg(long, value_name = "A..B", value_parser = seed_range, default_value = "0..1000")]
        seeds: Range<u64>,
    },
}

fn seed_range(text: &str) -> Result<Range<u64>, String> {
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

fn workload_name(text: &str) -> Result<Workload, String> {
    let found = Workload::ALL.iter().find(|(name, _)| *name == text);
    found
        .map(|(_, workload)| *workload)
        .ok_or_else(|| "there are: mixed, idempotence, rebalance".to_owned())
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Action::Run {
            seeds,
            workload,
            bug,
            jobs,
            coverage,
            keep_going,
            twice_every,
            against,
        } => twice(twice_every, against, workload, bug.as_deref()).and_then(|twice| {
            let planted = plant(bug.as_deref())?;
            let campaign = Campaign {
                seeds,
                workload,
                jobs: jobs.unwrap_or_else(cores),
                planted,
                keep_going,
                twice,
            };
            Ok(run(&campaign, bug.as_deref(), coverage))
        }),
        Action::Replay {
            seed,
            workload,
            bug,
            trace,
            hashes,
        } => {
            let keep = match (trace, hashes) {
                (false, _) => Keep::Last(60),
                (true, false) => Keep::All,
                (true, true) => Keep::Hashed,
            };
            replay(seed, workload, bug.as_deref(), keep)
        }
        Action::Bugs { seeds } => bugs_table(seeds),
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

fn plant(bug: Option<&str>) -> Result<Planted, String> {
    bug.map_or(Ok(Planted::NONE), bugs::by_name)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn twice(
    every: Option<u64>,
    against: Option<PathBuf>,
    workload: Workload,
    bug: Option<&str>,
) -> Result<Option<(u64, SecondProcess)>, String> {
    let Some(every) = every else { return Ok(None) };
    let mut there = SecondProcess::same(workload, bug)?;
    if let Some(program) = against {
        there.program = program;
    }
    Ok(Some((every, there)))
}

fn run(campaign: &Campaign, bug: Option<&str>, coverage: bool) -> bool {
    let total = campaign.seeds.end - campaign.seeds.start;
    let terminal = std::io::stderr().is_terminal();
    let stopwatch = Stopwatch::start();
    let summary = campaign::run(campaign, |done| {
        if terminal && (done % 16 == 0 || done == total) {
            let rate = done as f64 / stopwatch.seconds().max(0.001);
            let left = (total - done) as f64 / rate;
            eprint!("\r{done}/{total} seeds, {rate:.0} a second, {left:.0} s left   ");
            let _ = std::io::stderr().flush();
        }
    });
    if terminal {
        eprintln!();
    }
    print_sums(&summary, stopwatch.seconds());
    let faults: Vec<String> = summary
        .faults
        .iter()
        .map(|(fault, count)| format!("{count} x {fault}"))
        .collect();
    println!("faults: {}", faults.join(", "));
    println!("of the schedules have: {}", summary.shares());
    let missed = print_marks(&summary, campaign.workload, coverage);
    if summary.failed.is_empty() {
        println!("no violation");
        if missed > 0 && summary.seeds >= FULL_CAMPAIGN {
            println!("and {missed} marks missed, which so many schedules must hit");
            return false;
        }
        return true;
    }
    for (check, seeds) in &summary.failures {
        println!("{} seeds violate {check}: {}", seeds.len(), some_of(seeds));
    }
    for failed in &summary.failed {
        match &failed.violation {
            // To run it once more here would say nothing of the other process.
            Some(violation) if violation.check == Check::OneSeedOneRun => {
                explain(failed, campaign.workload, bug);
            }
            // Once more, this time with words.
            _ => explain(
                &world::run(
                    failed.seed,
                    campaign.workload,
                    campaign.planted,
                    Keep::Last(60),
                ),
                campaign.workload,
                bug,
            ),
        }
    }
    false
}

/// A campaign of so many schedules proves too little if a mark is missed.
const FULL_CAMPAIGN: u64 = 10_000;

/// Prints how often marks were hit, or which were not, and returns how many those are.
fn print_marks(summary: &Summary, workload: Workload, coverage: bool) -> usize {
    let marks = Mark::of(workload);
    let missed: Vec<String> = marks
        .iter()
        .filter(|mark| !summary.marks.contains_key(mark))
        .map(ToString::to_string)
        .collect();
    if coverage {
        println!("marks, and the seeds that hit them:");
        for mark in Mark::ALL {
            let hit = summary.marks.get(mark).copied().unwrap_or(0);
            println!("  {hit:>7}  {mark}");
        }
    } else {
        println!(
            "marks: {} of {} hit{}",
            marks.len() - missed.len(),
            marks.len(),
            if missed.is_empty() {
                String::new()
            } else {
                format!("; missed: {}", missed.join(", "))
            }
        );
    }
    missed.len()
}

fn print_sums(summary: &Summary, seconds: f64) {
    println!(
        "{} schedules, {} steps, {} requests, {} crashes, {} power losses, {} graceful stops, {} s \
         of virtual time, {seconds:.1} s: {:.0} schedules a second",
        summary.seeds,
        summary.steps,
        summary.requests,
        summary.crashes,
        summary.power_losses,
        summary.stops,
        summary.virtual_ns / 1_000_000_000,
        summary.seeds as f64 / seconds.max(0.001),
    );
    let mean = |sum: u64| sum as f64 / summary.seeds.max(1) as f64;
    println!(
        "a schedule has on average {:.1} batches acknowledged, {:.1} fetches with records, {:.1} \
         segments rolled, {:.2} crashes with recovery",
        mean(summary.acked_batches),
        mean(summary.full_fetches),
        mean(summary.rolls),
        mean(summary.recoveries),
    );
}

/// The first few, in words.
fn some_of(seeds: &[u64]) -> String {
    const SHOWN: usize = 20;
    let mut words: Vec<String> = seeds.iter().take(SHOWN).map(u64::to_string).collect();
    if seeds.len() > SHOWN {
        words.push("...".to_owned());
    }
    words.join(", ")
}

fn explain(outcome: &Outcome, workload: Workload, bug: Option<&str>) {
    let Some(violation) = &outcome.violation else {
        println!("seed {} does not fail when it is run again", outcome.seed);
        return;
    };
    println!();
    println!("seed {} violates {}", outcome.seed, violation.check);
    println!("  at      {}", violation.at);
    println!("  found   {}", violation.detail);
    println!("  hash    {}", outcome.hash);
    println!("last steps:");
    for line in &outcome.lines {
        println!("  {line}");
    }
    println!("replay:");
    let mut wanted = outcome.seed.to_string();
    if workload != Workload::default() {
        wanted = format!("{wanted} --workload {}", workload.name());
    }
    match bug {
        None => println!("  cargo run --release -p odradek-sim -- replay {wanted} --trace"),
        Some(bug) => println!(
            "  cargo run --release -p odradek-sim --features bugs --target-dir target/bugs -- \
             replay {wanted} --bug {bug} --trace"
        ),
    }
}

fn replay(seed: u64, workload: Workload, bug: Option<&str>, keep: Keep) -> Result<bool, String> {
    let outcome = world::run(seed, workload, plant(bug)?, keep);
    let trace = !matches!(keep, Keep::Last(_));
    if trace {
        for line in &outcome.lines {
            println!("{line}");
        }
    }
    println!("hash {}", outcome.hash);
    println!("{:?}", outcome.counts);
    match &outcome.violation {
        Some(violation) if trace => println!("{violation}"),
        Some(_) => explain(&outcome, workload, bug),
        None => println!("no violation"),
    }
    Ok(outcome.violation.is_none())
}

fn bugs_table(seeds: Range<u64>) -> Result<bool, String> {
    if bugs::names().is_empty() {
        return build_and_call(&seeds);
    }
    println!(
        "{:<26} {:<28} {:>6}  {:<6} found",
        "bug", "caught by", "seeds", "twice"
    );
    let mut all_well = true;
    for name in bugs::names() {
        let planted = bugs::by_name(name)?;
        let workload = bugs::workload_of(name);
        let there = SecondProcess::same(workload, Some(name))?;
        let campaign = Campaign {
            seeds: seeds.clone(),
            workload,
            jobs: cores(),
            planted,
            keep_going: false,
            twice: planted.shows_in_second_run().then(|| (1, there.clone())),
        };
        let summary = campaign::run(&campaign, |_| {});
        let failed = summary.failed.first();
        let Some((failed, violation)) =
            failed.and_then(|failed| Some((failed, failed.violation.as_ref()?)))
        else {
            all_well = false;
            println!("{name:<26} {:<28} {:>6}", "NOT CAUGHT", summary.seeds);
            continue;
        };
        // What was found must be found again, by who replays it.
        let same = there.hash(failed.seed)? == failed.hash.to_string();
        let expected = !planted.shows_in_second_run();
        all_well &= same == expected;
        println!(
            "{name:<26} {:<28} {:>6}  {:<6} {}",
            violation.check.to_string(),
            summary.seeds,
            if same { "same" } else { "DIFFER" },
            violation.detail
        );
    }
    Ok(all_well)
}

/// The ordinary build has no bugs, so it makes the other build and calls that.
fn build_and_call(seeds: &Range<u64>) -> Result<bool, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let status = Command::new(cargo)
        .args(["run", "--release", "--quiet", "-p", "odradek-sim"])
        .args(["--features", "bugs", "--target-dir", "target/bugs", "--"])
        .args([
            "bugs",
            "--seeds",
            &format!("{}..{}", seeds.start, seeds.end),
        ])
        .status()
        .map_err(|error| format!("cannot call cargo: {error}"))?;
    Ok(status.success())
}

/// Real time, which only the progress line and the summary see.
struct Stopwatch(std::time::Duration);

impl Stopwatch {
    fn start() -> Self {
        Self(monotonic())
    }

    fn seconds(&self) -> f64 {
        (monotonic() - self.0).as_secs_f64()
    }
}

#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "how long a campaign takes is no part of any run"
)]
fn monotonic() -> std::time::Duration {
    use std::sync::LazyLock;
    use std::time::Instant;
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    ORIGIN.elapsed()
}
