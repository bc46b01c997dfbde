//! `bugs`: every planted bug, how soon it is caught, and how small the run becomes that shows it.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use clap::Args;
use odradek_sim::bugs::{by_name, check_of, names, workload_of};
use odradek_sim::campaign::{self, Campaign};
use odradek_sim::shrink::Failed;
use odradek_sim::twice::{SecondProcess, What};

use super::shrink::{Shrunk, make_small};
use super::stopwatch::Stopwatch;
use super::subject::Subject;
use super::{build_with_bugs_and_call, cores, seed_range};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  odradek-sim bugs
  odradek-sim bugs --seeds 0..200
  odradek-sim bugs --shrink
  odradek-sim bugs --shrink-some $(git rev-parse HEAD)")]
pub(crate) struct Arguments {
    /// First seed, and the one after the last
    #[arg(long, value_name = "A..B", value_parser = seed_range, default_value = "0..4000")]
    seeds: Range<u64>,
    /// Make the run that shows each bug small, within a minute each
    #[arg(long)]
    shrink: bool,
    /// The same for five of the bugs, chosen by this text
    #[arg(long, value_name = "TEXT", conflicts_with = "shrink")]
    shrink_some: Option<String>,
    /// Only this bug
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// No planted bug may need more operations and faults.
const LARGEST: u64 = 20;
/// How long one shrink may take, in seconds.
const LIMIT_SECONDS: f64 = 60.0;
/// How long the shrink of one run may take when other runs show the bug too: not every run that does
/// can be made small.
const LIMIT_OF_ONE_SECONDS: f64 = 25.0;
/// A run of more requests takes so long that another one is looked for first, a few times.
const HEAVY: u64 = 1_000;
/// How often.
const LIGHTER: u32 = 8;
/// How long one of a few may go on when it is small enough already.
const ENOUGH_SECONDS: f64 = 6.0;
/// How many are chosen.
const SOME: usize = 5;

/// How a bug was caught.
struct Caught {
    name: &'static str,
    subject: Subject,
    check: String,
    /// Requests of clients in the run.
    requests: u64,
    seeds: u64,
    found_again: bool,
    detail: String,
}

/// A shrink that is over, and the seconds it took.
type Shrink = (Result<Shrunk, String>, f64);

pub(crate) fn run(arguments: &Arguments) -> Result<bool, String> {
    if names().is_empty() {
        return build_with_bugs_and_call();
    }
    let wanted: Vec<&'static str> = match &arguments.only {
        None => names(),
        Some(only) => {
            by_name(only)?;
            names().into_iter().filter(|name| name == only).collect()
        }
    };
    let stopwatch = Stopwatch::start();
    let mut caught = Vec::new();
    let mut missed = Vec::new();
    for name in wanted {
        progress(&format!("{name} ..."));
        match catch(name, &arguments.seeds)? {
            Some(bug) => caught.push(bug),
            None => missed.push(name),
        }
    }
    let searched = stopwatch.seconds();
    let chosen: Vec<&Caught> = match &arguments.shrink_some {
        Some(text) => {
            let some = choose(caught.iter().map(|bug| bug.name), text);
            let is_chosen = |bug: &&Caught| some.contains(&bug.name);
            caught.iter().filter(is_chosen).collect()
        }
        None if arguments.shrink => caught.iter().collect(),
        None => Vec::new(),
    };
    let enough = arguments.shrink_some.is_some();
    let shrunk = shrink_all(&chosen, &arguments.seeds, enough);
    progress("");
    let all_well = print_table(&caught, &missed, &arguments.seeds, &shrunk);
    println!(
        "{} of {} bugs caught in {searched:.0} s, {} shrunk in {:.0} s",
        caught.len(),
        caught.len() + missed.len(),
        shrunk.len(),
        stopwatch.seconds() - searched
    );
    Ok(all_well)
}

/// Runs seeds until one shows the bug.
fn catch(name: &'static str, seeds: &Range<u64>) -> Result<Option<Caught>, String> {
    let planted = by_name(name)?;
    let workload = workload_of(name);
    let there = SecondProcess::same(workload, Some(name))?;
    let mut campaign = Campaign {
        seeds: seeds.clone(),
        workload,
        jobs: cores(),
        planted,
        keep_going: false,
        twice: planted.shows_in_second_run().then(|| (1, there.clone())),
    };
    let mut seeds = 0;
    let (failed, violation) = loop {
        let mut summary = campaign::run(&campaign, |_| ControlFlow::Continue(()));
        seeds += summary.seeds;
        let Some(mut failed) = summary.failed.pop() else {
            return Ok(None);
        };
        let Some(violation) = failed.violation.take() else {
            return Ok(None);
        };
        if check_of(name).is_none_or(|wanted| wanted == violation.check) {
            break (failed, violation);
        }
        campaign.seeds.start = failed.seed + 1;
    };
    // What was found must be found again, by who replays it.
    let hash = there.hash(&What::Seed(failed.seed))?;
    let same = hash == failed.hash.to_string();
    Ok(Some(Caught {
        name,
        subject: Subject::seed(failed.seed, workload, Some(name))?,
        check: violation.check.to_string(),
        requests: failed.counts.requests,
        seeds,
        found_again: same != planted.shows_in_second_run(),
        detail: violation.detail.clone(),
    }))
}

/// Some of the bugs: others for another text.
fn choose<'a>(names: impl Iterator<Item = &'a str>, text: &str) -> Vec<&'a str> {
    let rank = |name: &&str| {
        // FNV-1a.
        let bytes = text.bytes().chain(name.bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    let mut all: Vec<&str> = names.collect();
    all.sort_by_key(rank);
    all.truncate(SOME);
    all
}

/// Shrinks on all cores. `enough`: it may end as soon as a run is small enough.
fn shrink_all(
    chosen: &[&Caught],
    seeds: &Range<u64>,
    enough: bool,
) -> BTreeMap<&'static str, Shrink> {
    let next = AtomicUsize::new(0);
    let mut done = BTreeMap::new();
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for _ in 0..cores() {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                while let Some(bug) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let stopwatch = Stopwatch::start();
                    let shrunk = shrink_one(bug, seeds, enough, stopwatch);
                    if send
                        .send((bug.name, (shrunk, stopwatch.seconds())))
                        .is_err()
                    {
                        break;
                    }
                }
            });
        }
        drop(send);
        for (name, shrink) in receive {
            done.insert(name, shrink);
            progress(&format!("{} of {} shrunk", done.len(), chosen.len()));
        }
    });
    done
}

/// Shrinks the run that showed the bug, or a lighter one; then, if what is left is too large and there is
/// time, the one that was passed over for it, and the next that show the bug. The smallest counts.
fn shrink_one(
    bug: &Caught,
    seeds: &Range<u64>,
    enough: bool,
    stopwatch: Stopwatch,
) -> Result<Shrunk, String> {
    let shrink = |subject: &Subject| {
        let began = stopwatch.seconds();
        make_small(subject, |progress| {
            let seconds = stopwatch.seconds();
            let small = progress.operations + progress.faults <= LARGEST;
            let limit = match (small, enough) {
                (true, true) => ENOUGH_SECONDS,
                (true, false) => LIMIT_SECONDS,
                (false, _) => LIMIT_SECONDS.min(began + LIMIT_OF_ONE_SECONDS),
            };
            seconds < limit
        })
    };
    let mut seed = bug.subject.case.seed;
    let mut lighter: Option<Caught> = None;
    for _ in 0..LIGHTER {
        let lightest = lighter.as_ref().unwrap_or(bug);
        if lightest.requests <= HEAVY {
            break;
        }
        let Some(next) = catch(bug.name, &(seed + 1..seeds.end))? else {
            break;
        };
        seed = next.subject.case.seed;
        if next.requests < lightest.requests {
            lighter = Some(next);
        }
    }
    let mut smallest = shrink(&lighter.as_ref().unwrap_or(bug).subject)?;
    let has_time =
        |smallest: &Shrunk| smallest.failed.size() > LARGEST && stopwatch.seconds() < LIMIT_SECONDS;
    // What is light need not become small.
    if lighter.is_some() && has_time(&smallest) {
        let first = shrink(&bug.subject)?;
        if first.failed.size() < smallest.failed.size() {
            smallest = first;
        }
    }
    while has_time(&smallest) {
        let Some(next) = catch(bug.name, &(seed + 1..seeds.end))? else {
            break;
        };
        seed = next.subject.case.seed;
        let other = shrink(&next.subject)?;
        if other.failed.size() < smallest.failed.size() {
            smallest = other;
        }
    }
    Ok(smallest)
}

fn print_table(
    caught: &[Caught],
    missed: &[&str],
    seeds: &Range<u64>,
    shrunk: &BTreeMap<&str, Shrink>,
) -> bool {
    println!(
        "{:<28} {:<30} {:>6}  {:<6} {:<28} found",
        "bug", "caught by", "seeds", "twice", "shrunk to"
    );
    let mut all_well = missed.is_empty();
    // Operations + faults (+ routine requests).
    for bug in caught {
        let small = shrunk.get(bug.name).map(Shrink::words);
        let (words, is_small) = small.unwrap_or_default();
        all_well &= bug.found_again && (is_small || words.is_empty());
        println!(
            "{:<28} {:<30} {:>6}  {:<6} {words:<28} {}",
            bug.name,
            bug.check,
            bug.seeds,
            if bug.found_again { "same" } else { "DIFFER" },
            bug.detail
        );
    }
    for name in missed {
        let ran = seeds.end - seeds.start;
        println!("{name:<28} {:<30} {ran:>6}", "NOT CAUGHT");
    }
    all_well
}

trait Words {
    /// What it came to, and whether that is small.
    fn words(&self) -> (String, bool);
}

impl Words for Shrink {
    fn words(&self) -> (String, bool) {
        let (shrunk, seconds) = self;
        match shrunk {
            Ok(shrunk) => {
                let Failed {
                    operations,
                    faults,
                    routine,
                    ..
                } = &shrunk.failed;
                let is_small = shrunk.failed.size() <= LARGEST;
                let remark = if is_small { "" } else { " TOO LARGE" };
                let words =
                    format!("{operations} + {faults} (+ {routine}), {seconds:.0} s{remark}");
                (words, is_small)
            }
            Err(error) => (error.clone(), false),
        }
    }
}

/// Says on a terminal what is being done.
fn progress(what: &str) {
    let mut terminal = std::io::stderr();
    if terminal.is_terminal() {
        // The clear to the end of the line takes what was said before.
        let _ = write!(terminal, "\r{what}\x1b[K");
        let _ = terminal.flush();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn commits_choose_five_bugs_each_and_all_of_them_in_time() {
        let names: Vec<String> = (0..40).map(|i| format!("bug-{i}")).collect();
        let names = || names.iter().map(String::as_str);
        let mut ever = BTreeSet::new();
        for commit in 0..60 {
            let chosen = choose(names(), &format!("{commit:040x}"));
            assert_eq!(chosen.len(), SOME);
            assert_eq!(chosen, choose(names(), &format!("{commit:040x}")));
            ever.extend(chosen);
        }
        assert_eq!(ever.len(), 40);
        assert_eq!(choose(names().take(3), "any").len(), 3);
    }
}
