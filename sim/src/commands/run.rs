//! `run`: many seeds.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::ops::Range;
use std::path::PathBuf;

use clap::Args;
use odradek_sim::campaign::{self, Campaign, Summary};
use odradek_sim::coverage::{self, Missed};
use odradek_sim::fault::{Fault, Stage};
use odradek_sim::oracle::{Check, Mark};
use odradek_sim::swarm::Workload;
use odradek_sim::trace::Keep;
use odradek_sim::twice::SecondProcess;

use super::report::explain;
use super::stopwatch::Stopwatch;
use super::subject::Subject;
use super::{cores, plant, seed_range};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  odradek-sim run --seeds 0..1000
  odradek-sim run --seeds 4000..4100 --jobs 1
  odradek-sim run --seeds 0..1000 --twice-every 50
  odradek-sim run --seeds 0..1000 --workload idempotence --coverage
  cargo run --release -p odradek-sim --features bugs --target-dir target/bugs -- \\
    run --seeds 0..1000 --bug ack-before-flush")]
pub(crate) struct Arguments {
    /// First seed, and the one after the last
    #[arg(long, value_name = "A..B", value_parser = seed_range)]
    seeds: Range<u64>,
    #[arg(long, value_name = "NAME", value_parser = Workload::by_name, default_value = "mixed")]
    #[arg(help = format!("What to look at most: {}", Workload::names()))]
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
}

/// A campaign of so many schedules proves too little if a mark is missed.
const FULL_CAMPAIGN: u64 = 10_000;

pub(crate) fn run(arguments: Arguments) -> Result<bool, String> {
    let twice = second_process(&arguments)?;
    let bug = arguments.bug.as_deref();
    let campaign = Campaign {
        seeds: arguments.seeds,
        workload: arguments.workload,
        jobs: arguments.jobs.unwrap_or_else(cores),
        planted: plant(bug)?,
        keep_going: arguments.keep_going,
        twice,
    };
    let total = campaign.seeds.end - campaign.seeds.start;
    let terminal = std::io::stderr().is_terminal();
    let stopwatch = Stopwatch::start();
    let summary = campaign::run(&campaign, |done| {
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
    println!("of the schedules have: {}", summary.shares());
    if arguments.coverage {
        print_coverage(&summary);
    }
    let missed = coverage::missed(&summary, arguments.workload);
    print_missed(&missed);
    if summary.failed.is_empty() {
        println!("no violation");
        if missed.count() > 0 && summary.seeds >= FULL_CAMPAIGN {
            println!("and something was missed that so many schedules must hit");
            return Ok(false);
        }
        return Ok(true);
    }
    for (check, seeds) in &summary.failures {
        println!("{} seeds violate {check}: {}", seeds.len(), some_of(seeds));
    }
    for failed in &summary.failed {
        let subject = Subject::seed(failed.seed, campaign.workload, bug)?;
        match &failed.violation {
            // To run it once more here would say nothing of the other process.
            Some(violation) if violation.check == Check::OneSeedOneRun => {
                explain(&subject, failed);
            }
            // Once more, this time with words.
            _ => explain(&subject, &subject.run(Keep::Last(60))),
        }
    }
    Ok(false)
}

fn second_process(arguments: &Arguments) -> Result<Option<(u64, SecondProcess)>, String> {
    let Some(every) = arguments.twice_every else {
        return Ok(None);
    };
    let mut there = SecondProcess::same(arguments.workload, arguments.bug.as_deref())?;
    if let Some(program) = &arguments.against {
        there.program.clone_from(program);
    }
    Ok(Some((every, there)))
}

/// Prints how often each mark was hit, each fault struck in each stage, and each code was answered.
fn print_coverage(summary: &Summary) {
    println!("marks, and the seeds that hit them:");
    for mark in Mark::ALL {
        let hit = summary.marks.get(mark).copied().unwrap_or(0);
        println!("  {hit:>7}  {mark}");
    }
    println!("faults, and how often they struck while the broker was");
    let stages = Stage::ALL.map(|stage| format!("{:>11}", stage.to_string()));
    println!("  {:<42}{}", "", stages.concat());
    for fault in Fault::all() {
        let counts = Stage::ALL.map(|stage| {
            let count = summary.faults.get(&(fault, stage)).copied().unwrap_or(0);
            format!("{count:>11}")
        });
        println!("  {:<42}{}", fault.to_string(), counts.concat());
    }
    println!("error codes that were answered:");
    for (answered, count) in &summary.codes {
        println!("  {count:>9}  {answered}");
    }
}

fn print_missed(missed: &Missed) {
    let list = |what: &str, of: usize, missed: &[String]| {
        let hit = of - missed.len();
        if missed.is_empty() {
            format!("{hit} of {of} {what}")
        } else {
            format!("{hit} of {of} {what} (not {})", missed.join(", "))
        }
    };
    println!(
        "hit: {}; {}; {}",
        list("marks", missed.marks_of, &missed.marks),
        list("faults by stage", missed.faults_of, &missed.faults),
        list("error codes by API", missed.codes_of, &missed.codes),
    );
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
    let mut kinds: BTreeMap<Fault, u64> = BTreeMap::new();
    for ((fault, _), count) in &summary.faults {
        *kinds.entry(*fault).or_default() += count;
    }
    let faults: Vec<String> = kinds
        .iter()
        .map(|(fault, count)| format!("{count} x {fault}"))
        .collect();
    println!("faults: {}", faults.join(", "));
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
