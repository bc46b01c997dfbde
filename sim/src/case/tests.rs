//! Cases as text, and as runs.

use proptest::prelude::*;

use super::*;
use crate::bugs::Planted;
use crate::trace::Keep;
use crate::world::{Plan, run, run_plan};

/// A case in which every kind of line is.
fn case() -> Case {
    Case {
        remarks: vec!["what it found".to_owned()],
        seed: 17,
        workload: Workload::Idempotence,
        bug: Some("ack-before-flush".to_owned()),
        expect: Some("AckedDurable".to_owned()),
        decisions: Decisions {
            mix: (0..30).map(|knob| (knob, knob % 4)).collect(),
            faults_end: Mono(1_400_000_001),
            absent: [2, 4].into(),
            steady: [Subsystem::DiskLatency].into(),
            again: [(Subsystem::Image, 3)].into(),
            events: vec![
                Decided::Act {
                    client: 1,
                    at: Mono(1_012_000_000),
                    turn: 4,
                },
                Decided::End(End {
                    life: 1,
                    at: Mono(1_013_000_000),
                    nth: 3,
                    how: Ending::PowerLoss,
                    amid: None,
                    by_kind: false,
                }),
                Decided::FullDisk(FullDisk {
                    at: Mono(2 * SECOND),
                    free_bytes: 300,
                    lasts_ns: 5,
                }),
                Decided::WallStep(WallStep {
                    at: Mono(2 * SECOND),
                    by_ms: -50,
                }),
                Decided::Strike(Strike {
                    subsystem: Subsystem::FlushFault,
                    entity: u64::MAX,
                    ordinal: 3,
                }),
            ],
        },
    }
}

#[test]
fn what_is_written_is_read_again() {
    let text = case().to_string();
    assert_eq!(Case::parse(&text), Ok(case()));
    assert!(text.starts_with("odradek-case 1\n# what it found\nseed 17\n"));
    assert!(text.contains("\nend 1.013000000 life 1 moment 3 PowerLoss\n"));
}

#[test]
fn a_case_that_is_cut_short_anywhere_is_refused() {
    let text = case().to_string();
    for end in 1..text.len() - 1 {
        let parsed = Case::parse(&text[..end]);
        assert!(parsed.is_err(), "{:?}", &text[..end]);
    }
}

#[test]
fn another_version_is_refused_and_named() {
    let text = case().to_string().replacen("case 1", "case 2", 1);
    let error = Case::parse(&text).unwrap_err();
    assert_eq!(error, CaseError::UnknownVersion("2".to_owned()));
    assert!(error.to_string().contains("version \"2\""));
}

#[test]
fn a_text_that_is_something_else_is_refused() {
    for text in ["", "\n", "A seed and what it found.\n", "odradek-cases 1\n"] {
        assert_eq!(Case::parse(text), Err(CaseError::NotACase), "{text:?}");
    }
}

#[test]
fn a_damaged_line_is_named() {
    let damaged = [
        ("seed 17", "seed x"),
        ("seed 17", "seed 17 18"),
        ("seed 17", "seeds 17"),
        ("workload idempotence", "workload idle"),
        ("faults-end 1.400000001", "faults-end 1.4"),
        ("steady DiskLatency", "steady Weather"),
        ("life 1 moment", "life 1 momemt"),
        ("PowerLoss", "Powerloss"),
        ("bytes 300", "bytes -300"),
        ("by -50", "by"),
        ("0=0 1=1", "0=0 1:1"),
    ];
    for (sound, broken) in damaged {
        let text = case().to_string();
        assert!(text.contains(sound), "{sound}");
        let broken = text.replacen(sound, broken, 1);
        let line = broken
            .lines()
            .zip(text.lines())
            .position(|(a, b)| a != b)
            .unwrap();
        match Case::parse(&broken) {
            Err(CaseError::Line(number, _)) => assert_eq!(number, line + 1, "{sound}"),
            other => panic!("{sound}: {other:?}"),
        }
    }
    let without_seed = case().to_string().replacen("seed 17\n", "", 1);
    assert!(matches!(
        Case::parse(&without_seed),
        Err(CaseError::Line(..))
    ));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(at in 0usize..600, with in ".{0,6}") {
        let mut text = case().to_string();
        let at = at.min(text.len());
        text.insert_str(at, &with);
        let _ = Case::parse(&text);
    }
}

/// What a run decided, done again.
fn again(seed: u64, decisions: &Decisions) -> crate::world::Outcome {
    run_plan(&Plan {
        decisions: Some(decisions),
        ..Plan::of_seed(seed, Workload::Mixed, Planted::NONE, Keep::None)
    })
}

#[test]
fn a_recorded_run_is_the_same_run_when_its_decisions_are_given() {
    let mut struck = 0;
    for seed in 0..12 {
        let seeded = run(seed, Workload::Mixed, Planted::NONE, Keep::None);
        let case = Case {
            seed,
            decisions: seeded.decisions.clone(),
            ..Case::default()
        };
        let text = case.to_string();
        let case = Case::parse(&text).unwrap();
        let given = again(seed, &case.decisions);
        assert_eq!(given.hash, seeded.hash, "seed {seed}");
        let decisions = given.decisions;
        let written = Case { decisions, ..case }.to_string();
        assert_eq!(written, text, "seed {seed}");
        struck += seeded.faults();
    }
    assert!(struck > 12, "{struck} faults prove little");
}

#[test]
fn a_run_without_its_faults_has_none() {
    for seed in 0..8 {
        let seeded = run(seed, Workload::Mixed, Planted::NONE, Keep::None);
        let mut calm = seeded.decisions;
        calm.events.retain(|event| !event.is_fault());
        let calm = again(seed, &calm);
        assert_eq!(calm.violation, None, "seed {seed}");
        assert_eq!(calm.faults(), 0, "seed {seed}");
        assert!(calm.counts.operations > 0);
    }
}

#[test]
fn a_client_that_is_left_out_does_nothing() {
    let seeded = run(3, Workload::Mixed, Planted::NONE, Keep::None);
    let mut less = seeded.decisions;
    let acts = |decisions: &Decisions| {
        let mut clients: Vec<usize> = decisions
            .events
            .iter()
            .filter_map(|event| match event {
                Decided::Act { client, .. } => Some(*client),
                _ => None,
            })
            .collect();
        clients.sort_unstable();
        clients.dedup();
        clients
    };
    let victim = *acts(&less).last().unwrap();
    less.absent.insert(victim);
    let without = again(3, &less);
    assert_eq!(without.violation, None);
    assert!(!acts(&without.decisions).contains(&victim));
}
