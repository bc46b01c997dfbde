//! A failure explains itself.

use odradek_sim::trace::{Sign, Step};
use odradek_sim::world::Outcome;

use super::subject::Subject;

/// What counts as an operation, for who reads a number of them.
pub(crate) const OPERATIONS: &str = "operations are the requests that clients sent, without routine \
    ones (ApiVersions, Metadata, InitProducerId, FindCoordinator, and heartbeats of members that have \
    nothing to say) and without those of the last reader, who is the oracle's; faults are all that \
    struck, crashes included";

/// Prints what failed, the steps that were kept, and how to see more.
pub(crate) fn explain(subject: &Subject, outcome: &Outcome) {
    let Some(violation) = &outcome.violation else {
        println!("{subject} does not fail when it is run again");
        return;
    };
    println!();
    println!("{subject} violates {}", violation.check);
    println!("  at      {}", violation.at);
    println!("  found   {}", violation.detail);
    println!("  hash    {}", outcome.hash);
    println!("last steps:");
    for step in &outcome.steps {
        println!("  {step}");
    }
    print_state(outcome);
    println!("replay:");
    println!("  {}", subject.command("replay", " --trace"));
    if !subject.is_case() {
        println!("make it small:");
        println!("  {}", subject.command("shrink", ""));
    }
}

/// Prints what the logs are like.
pub(crate) fn print_state(outcome: &Outcome) {
    if !outcome.state.is_empty() {
        println!("logs:");
        for line in &outcome.state {
            println!("  {line}");
        }
    }
}

/// Prints a run as a story: what clients asked for, what struck, what failed. All steps must have
/// been kept.
pub(crate) fn tell(outcome: &Outcome) {
    for step in outcome.steps.iter().filter(|step| is_told(step)) {
        println!("  {step}");
    }
    if let Some(violation) = &outcome.violation {
        println!("  {} violated {}", violation.at, violation.check);
        println!("    {}", violation.detail);
    }
}

fn is_told(step: &Step) -> bool {
    match step.sign {
        Sign::Sent | Sign::Fault => true,
        // The mix is long, and stands in the trace.
        Sign::Event => !step.words.starts_with("swarm "),
        Sign::Input => step.words == "start",
        Sign::Effect => step.words == "started",
    }
}
