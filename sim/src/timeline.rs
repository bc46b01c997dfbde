//! A run as a picture: one HTML page that needs nothing else, with a lane for each client, the broker
//! and the disk.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::trace::{Lane, Sign, Step, json_string};
use crate::world::{KILLED, Outcome, POWER_GOES};

/// The page, with a place for the run.
const PAGE: &str = include_str!("timeline/page.html");
/// That place.
const PLACE: &str = "/*RUN*/";

/// The kinds of steps, by their numbers in the page.
const KINDS: [Sign; 5] = [
    Sign::Input,
    Sign::Effect,
    Sign::Sent,
    Sign::Fault,
    Sign::Event,
];

/// The page of a run. All its steps must have been kept.
#[must_use]
pub fn page(outcome: &Outcome, title: &str) -> String {
    PAGE.replacen(PLACE, &json(outcome, title), 1)
}

fn json(outcome: &Outcome, title: &str) -> String {
    let mut lanes: BTreeSet<Lane> = outcome.steps.iter().map(|step| step.lane).collect();
    lanes.extend([Lane::Broker, Lane::Disk]);
    let lanes: Vec<Lane> = lanes.into_iter().collect();
    let names: Vec<String> = lanes
        .iter()
        .map(|lane| json_string(&lane.to_string()))
        .collect();
    let kinds: Vec<String> = KINDS.iter().map(|kind| json_string(kind.name())).collect();
    let said = format!(
        "{} steps, {} requests of clients and {} routine ones, {} faults, hash {}",
        outcome.steps.len(),
        outcome.counts.operations,
        outcome.counts.routine,
        struck(outcome),
        outcome.hash
    );
    let violation = outcome.violation.as_ref();
    let mut json = format!(
        "{{\"title\":{},\"said\":{},\"check\":{},\"violation\":{},\"kinds\":[{}],\"lanes\":[{}],\
         \"lives\":[{}],\"steps\":[",
        json_string(title),
        json_string(&said),
        json_string(&violation.map_or_else(String::new, |v| v.check.to_string())),
        violation.map_or_else(|| "null".to_owned(), |v| json_string(&v.to_string())),
        kinds.join(","),
        names.join(","),
        lives(&outcome.steps).join(",")
    );
    for (i, step) in outcome.steps.iter().enumerate() {
        if i > 0 {
            json.push(',');
        }
        json.push('\n');
        push_step(&mut json, step, &lanes);
    }
    json.push_str("\n]}");
    json
}

/// How many faults struck, those that follow from another one included.
fn struck(outcome: &Outcome) -> u64 {
    outcome.counts.faults.values().sum()
}

/// From which step on the broker was what, each as an array.
fn lives(steps: &[Step]) -> Vec<String> {
    let state = |step: &Step| match (step.sign, step.words.as_str()) {
        _ if step.lane != Lane::Broker => None,
        (Sign::Input, "start") => Some("starting"),
        (Sign::Effect, "started") => Some("serving"),
        (Sign::Effect, "stopped") | (Sign::Fault, KILLED | POWER_GOES) => Some("down"),
        (Sign::Effect, words) if words.starts_with("fatal ") => Some("down"),
        _ => None,
    };
    let changes = steps.iter().enumerate();
    changes
        .filter_map(|(i, step)| Some(format!("[{i},{}]", json_string(state(step)?))))
        .collect()
}

fn push_step(json: &mut String, step: &Step, lanes: &[Lane]) {
    let lane = lanes.iter().position(|lane| *lane == step.lane);
    let kind = KINDS.iter().position(|kind| *kind == step.sign);
    // A string does not fail to be written to.
    let _ = write!(
        json,
        "[{},{},{},{},{}]",
        step.number,
        step.at.0,
        kind.unwrap_or_default(),
        lane.unwrap_or_default(),
        json_string(&step.words)
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bugs::Planted;
    use crate::swarm::Workload;
    use crate::trace::Keep;
    use crate::world::run;

    #[test]
    fn every_fault_that_struck_is_a_step() {
        let outcome = run(3, Workload::Mixed, Planted::NONE, Keep::All);
        let faults = outcome.steps.iter().filter(|step| step.sign == Sign::Fault);
        assert!(struck(&outcome) > 0);
        assert_eq!(faults.count() as u64, struck(&outcome));
    }

    #[test]
    fn the_broker_is_down_between_its_death_and_its_next_start() {
        let outcome = run(3, Workload::Mixed, Planted::NONE, Keep::All);
        let counts = &outcome.counts;
        let deaths = counts.crashes + counts.power_losses + counts.stops;
        let lives = lives(&outcome.steps);
        let times = |state: &str| lives.iter().filter(|life| life.contains(state)).count() as u64;
        assert!(deaths > 1);
        assert_eq!(times("starting"), counts.starts);
        assert!(times("down") >= deaths, "{lives:?}");
        assert!(times("serving") > 0);
    }

    #[test]
    fn a_page_holds_every_step_and_needs_nothing_else() {
        let outcome = run(3, Workload::Mixed, Planted::NONE, Keep::All);
        assert!(outcome.steps.len() > 100);
        let page = page(&outcome, "seed 3");
        assert!(!page.contains(PLACE));
        for outside in ["http:", "https:", "src=", "<link", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert_eq!(page.matches("</script>").count(), 1);
        let rows = page.lines().filter(|line| line.starts_with('['));
        // The last row is the end of the list.
        assert_eq!(rows.count(), outcome.steps.len());
        for lane in ["\"client 0\"", "\"broker\"", "\"disk\""] {
            assert!(page.contains(lane), "{lane}");
        }
    }
}
