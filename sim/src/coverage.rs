//! What a campaign must have seen, or it proves less than it seems to: the *sometimes* marks, every
//! kind of fault in every stage of a broker's life, and every error code that can be answered.

use odradek_core::wire::{ApiKey, ErrorCode};

use crate::campaign::Summary;
use crate::fault::Fault;
use crate::oracle::Mark;
use crate::oracle::codes::Answered;
use crate::swarm::Workload;

/// What a campaign did not see, each in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Marks.
    pub marks: Vec<String>,
    /// Of how many.
    pub marks_of: usize,
    /// Faults, and the stage in which they did not strike.
    pub faults: Vec<String>,
    /// Of how many.
    pub faults_of: usize,
    /// Error codes, and the API.
    pub codes: Vec<String>,
    /// Of how many.
    pub codes_of: usize,
}

impl Missed {
    /// How much it is.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.marks.len() + self.faults.len() + self.codes.len()
    }
}

/// The codes that the mixed workload must see. Not among them are those that DESIGN's single node
/// never answers, and those that only a request could get that no generator makes: see
/// [`workload::gaps`](crate::workload::gaps).
pub const CODES: &[(ApiKey, &[ErrorCode])] = &[];

/// What a campaign of this workload should have seen and did not.
#[must_use]
pub fn missed(summary: &Summary, workload: Workload) -> Missed {
    let marks = Mark::of(workload);
    let missed_marks = marks
        .iter()
        .filter(|mark| !summary.marks.contains_key(mark))
        .map(ToString::to_string);
    let mut missed = Missed {
        marks: missed_marks.collect(),
        marks_of: marks.len(),
        ..Missed::default()
    };
    let is_mixed = workload == Workload::Mixed;
    let is_damage = |fault: &Fault| matches!(fault, Fault::Disk(fault) if fault.is_damage());
    for fault in Fault::all() {
        let wanted = match workload {
            Workload::Mixed => !is_damage(&fault),
            Workload::Damage => is_damage(&fault),
            _ => false,
        };
        for stage in fault.stages().iter().filter(|_| wanted) {
            missed.faults_of += 1;
            if !summary.faults.contains_key(&(fault, *stage)) {
                missed.faults.push(format!("{fault} while {stage}"));
            }
        }
    }
    for (api, codes) in CODES.iter().filter(|_| is_mixed) {
        for code in *codes {
            let answered = Answered {
                api: *api,
                code: *code,
            };
            missed.codes_of += 1;
            if !summary.codes.contains_key(&answered) {
                missed.codes.push(answered.to_string());
            }
        }
    }
    missed
}
