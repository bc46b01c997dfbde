//! Attempts to fail a check again with given decisions.

use odradek_core::time::Mono;

use super::Failed;
use crate::bugs::Planted;
use crate::case::Case;
use crate::clock::{MILLISECOND, SECOND};
use crate::decisions::Decisions;
use crate::oracle::Check;
use crate::trace::Keep;
use crate::twice::{SecondProcess, What};
use crate::world::{Outcome, Plan, run_plan};

/// How a case is tried.
#[derive(Clone, Debug)]
pub struct Attempts {
    case: Case,
    planted: Planted,
    check: String,
    /// Where a run is done once more, if only that shows the failure.
    twice: Option<SecondProcess>,
    /// No run needs to go on after this time.
    last_time: Option<Mono>,
}

impl Attempts {
    /// Attempts to fail a check again. The case's own decisions do not matter.
    #[must_use]
    pub fn new(case: Case, planted: Planted, check: String, there: SecondProcess) -> Self {
        let twice = (check == Check::OneSeedOneRun.to_string()).then_some(there);
        Self {
            case,
            planted,
            check,
            twice,
            last_time: None,
        }
    }

    /// Does a run, of the seed if no decisions are given; what it did if it failed the check.
    pub fn run(&mut self, decisions: Option<&Decisions>) -> Option<Failed> {
        let outcome = run_plan(&Plan {
            decisions,
            last_time: self.last_time,
            ..Plan::of_seed(self.case.seed, self.case.workload, self.planted, Keep::None)
        });
        if !self.fails(&outcome) {
            return None;
        }
        let ends = Mono(SECOND + outcome.virtual_ns);
        // Once faults are over, what is waited for may take longer.
        let slack = if outcome.in_faults {
            100 * MILLISECOND
        } else {
            2 * SECOND
        };
        let last_time = Mono(ends.0 + slack);
        self.last_time = Some(self.last_time.map_or(last_time, |last| last.min(last_time)));
        Some(Failed {
            operations: outcome.counts.operations,
            faults: outcome.faults(),
            routine: outcome.counts.routine,
            clients: outcome.clients,
            decisions: outcome.decisions,
        })
    }

    fn fails(&self, outcome: &Outcome) -> bool {
        match &self.twice {
            None => outcome
                .violation
                .as_ref()
                .is_some_and(|violation| violation.check.to_string() == self.check),
            Some(there) => {
                let case = Case {
                    decisions: outcome.decisions.clone(),
                    ..self.case.clone()
                };
                let hash = there.hash(&What::Case(case.to_string()));
                outcome.violation.is_none()
                    && hash.is_ok_and(|hash| hash != outcome.hash.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shrink::shrink;
    use crate::swarm::Workload;

    #[test]
    fn a_case_that_was_made_small_fails_the_same_check_when_it_is_read_from_a_file() {
        let planted = Planted::LYING_DISK;
        let run = |seed| crate::world::run(seed, Workload::Mixed, planted, Keep::None);
        let seeded = (0..40).map(run).find(|outcome| outcome.violation.is_some());
        let seeded = seeded.expect("a disk that lies is found out");
        let check = seeded.violation.as_ref().unwrap().check.to_string();
        let case = Case {
            seed: seeded.seed,
            ..Case::default()
        };
        let there = SecondProcess::same(Workload::Mixed, None).unwrap();
        let mut attempts = Attempts::new(case.clone(), planted, check.clone(), there);
        let before = attempts.run(Some(&seeded.decisions)).unwrap();
        let text = |decisions: &Decisions| {
            let decisions = decisions.clone();
            let case = case.clone();
            Case { decisions, ..case }.to_string()
        };
        assert_eq!(text(&before.decisions), text(&seeded.decisions));
        let failed = shrink(
            before.clone(),
            |decisions| attempts.run(Some(decisions)),
            |progress| progress.runs < 80,
        );
        assert!(
            failed.decisions.events.len() < before.decisions.events.len() / 2,
            "{} events of {} are left",
            failed.decisions.events.len(),
            before.decisions.events.len()
        );
        let case = Case {
            decisions: failed.decisions,
            ..case
        };
        let case = Case::parse(&case.to_string()).unwrap();
        let replayed = run_plan(&Plan {
            decisions: Some(&case.decisions),
            ..Plan::of_seed(case.seed, case.workload, planted, Keep::None)
        });
        assert_eq!(replayed.violation.unwrap().check.to_string(), check);
    }
}
