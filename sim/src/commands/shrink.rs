//! `shrink`: makes a run that fails small.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use odradek_sim::case::Case;
use odradek_sim::oracle::Check;
use odradek_sim::shrink::{Attempts, Failed, Progress, shrink};
use odradek_sim::trace::Keep;
use odradek_sim::twice::{SecondProcess, What};

use super::report::{OPERATIONS, tell};
use super::stopwatch::Stopwatch;
use super::subject::{Subject, SubjectArguments};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  odradek-sim shrink 17
  odradek-sim shrink 17 --out seeds/lost-write
  cargo run --release -p odradek-sim --features bugs --target-dir target/bugs -- \\
    shrink 6 --bug ack-before-flush")]
pub(crate) struct Arguments {
    #[command(flatten)]
    subject: SubjectArguments,
    /// Where to write the case [default: SEED.case]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Seconds to spend at most
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    within: u32,
}

pub(crate) fn run(arguments: &Arguments) -> Result<bool, String> {
    let subject = arguments.subject.load()?;
    let terminal = std::io::stderr().is_terminal();
    let limit = f64::from(arguments.within);
    let stopwatch = Stopwatch::start();
    let shrunk = make_small(&subject, |progress| {
        if terminal && progress.runs.is_multiple_of(16) {
            let Progress {
                runs,
                operations,
                faults,
            } = progress;
            eprint!("\r{runs} runs: {operations} operations and {faults} faults left   ");
            let _ = std::io::stderr().flush();
        }
        stopwatch.seconds() < limit
    })?;
    if terminal {
        eprintln!();
    }
    let out = arguments
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{}.case", subject.case.seed)));
    std::fs::write(&out, shrunk.case.to_string())
        .map_err(|error| format!("{}: {error}", out.display()))?;
    let small = Subject::written(shrunk.case, subject.planted, &out);
    println!("{subject} fails {} with", shrunk.check);
    println!("  {}", count(&shrunk.failed));
    println!("where there were");
    println!("  {}", count(&shrunk.before));
    println!("({OPERATIONS})");
    println!("{} runs, {:.1} s", shrunk.runs, stopwatch.seconds());
    println!();
    tell(&small.run(Keep::All));
    println!();
    println!("replay:");
    println!("  {}", small.command("replay", " --trace"));
    Ok(true)
}

fn count(failed: &Failed) -> String {
    let Failed {
        operations,
        faults,
        routine,
        ..
    } = failed;
    format!("{operations} operations and {faults} faults, and {routine} routine requests")
}

/// What a shrink came to.
#[derive(Clone, Debug)]
pub(crate) struct Shrunk {
    /// The case that is left.
    pub(crate) case: Case,
    /// What it does.
    pub(crate) failed: Failed,
    /// What there was.
    pub(crate) before: Failed,
    /// The check that fails.
    pub(crate) check: String,
    /// Runs it took.
    pub(crate) runs: u64,
}

/// Makes a run small. An error if it does not fail.
pub(crate) fn make_small(
    subject: &Subject,
    mut may_go_on: impl FnMut(Progress) -> bool,
) -> Result<Shrunk, String> {
    let there = SecondProcess::same(subject.case.workload, subject.case.bug.as_deref())?;
    let outcome = subject.run(Keep::None);
    let check = match &outcome.violation {
        Some(violation) => violation.check.to_string(),
        None => {
            let what = if subject.is_case() {
                What::Case(subject.case.to_string())
            } else {
                What::Seed(subject.case.seed)
            };
            if there.hash(&what)? == outcome.hash.to_string() {
                return Err(format!("{subject} does not fail"));
            }
            Check::OneSeedOneRun.to_string()
        }
    };
    let mut attempts = Attempts::new(subject.case.clone(), subject.planted, check.clone(), there);
    let before = attempts
        .run(Some(&outcome.decisions))
        .ok_or_else(|| format!("{subject} fails {check}, and its decisions do not"))?;
    let mut runs = 0;
    let failed = shrink(
        before.clone(),
        |decisions| attempts.run(Some(decisions)),
        |progress| {
            runs = progress.runs;
            may_go_on(progress)
        },
    );
    let detail = outcome.violation.map(|violation| violation.detail);
    let mut remarks = subject.case.remarks.clone();
    if remarks.is_empty() {
        let detail = detail.unwrap_or_default();
        remarks.extend(detail.lines().map(str::to_owned));
    }
    let case = Case {
        remarks,
        expect: Some(check.clone()),
        decisions: failed.decisions.clone(),
        ..subject.case.clone()
    };
    Ok(Shrunk {
        case,
        failed,
        before,
        check,
        runs,
    })
}
