//! `replay`: one run again.

use std::path::PathBuf;

use clap::Args;
use odradek_sim::timeline;
use odradek_sim::trace::{Keep, json_string};
use odradek_sim::world::{Outcome, Plan, run_plan};

use super::report::{explain, print_state};
use super::subject::SubjectArguments;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  odradek-sim replay 17
  odradek-sim replay 17 --trace > story.txt
  odradek-sim replay 17 --until 300
  odradek-sim replay 17 --json | jq 'select(.kind == \"fault\")'
  odradek-sim replay seeds/17 --timeline 17.html")]
pub(crate) struct Arguments {
    #[command(flatten)]
    subject: SubjectArguments,
    /// Print every step in words
    #[arg(long)]
    trace: bool,
    /// Print the hash after each step too
    #[arg(long)]
    hashes: bool,
    /// Stop after this step, and print what the logs are like then
    #[arg(long, value_name = "STEP")]
    until: Option<u64>,
    /// Print one JSON object a line for each step, then one for the outcome
    #[arg(long, conflicts_with = "trace")]
    json: bool,
    /// Draw it as an HTML page that needs nothing else
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<bool, String> {
    let subject = arguments.subject.load()?;
    let tells_all = arguments.trace || arguments.json || arguments.timeline.is_some();
    let keep = match (tells_all, arguments.hashes) {
        (false, _) => Keep::Last(60),
        (true, false) => Keep::All,
        (true, true) => Keep::Hashed,
    };
    let outcome = run_plan(&Plan {
        last_step: arguments.until,
        ..subject.plan(keep)
    });
    if let Some(file) = &arguments.timeline {
        let title = format!("Odradek, {subject}");
        std::fs::write(file, timeline::page(&outcome, &title))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    if arguments.json {
        for step in &outcome.steps {
            println!("{}", step.json());
        }
        println!("{}", outcome_json(&outcome));
        return Ok(outcome.violation.is_none());
    }
    if arguments.trace || (arguments.until.is_some() && outcome.violation.is_none()) {
        for step in &outcome.steps {
            println!("{step}");
        }
    }
    if let Some(step) = arguments.until {
        println!("up to step {step}");
        print_state(&outcome);
    }
    println!("hash {}", outcome.hash);
    println!("{:?}", outcome.counts);
    match &outcome.violation {
        Some(violation) if arguments.trace => println!("{violation}"),
        Some(_) => explain(&subject, &outcome),
        None => match &subject.case.expect {
            Some(check) => println!("no violation; when the case was written, {check} failed"),
            None => println!("no violation"),
        },
    }
    Ok(outcome.violation.is_none())
}

fn outcome_json(outcome: &Outcome) -> String {
    let violation = match &outcome.violation {
        Some(violation) => format!(
            r#"{{"check":"{}","at_ns":{},"detail":{}}}"#,
            violation.check,
            violation.at.0,
            json_string(&violation.detail)
        ),
        None => "null".to_owned(),
    };
    format!(
        r#"{{"seed":{},"hash":"{}","violation":{violation}}}"#,
        outcome.seed, outcome.hash
    )
}
