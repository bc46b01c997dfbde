//! Shrinking against a predicate that is known.

use super::*;
use crate::decisions::{Amid, End, Strike};

fn act(client: usize, turn: u64) -> Decided {
    Decided::Act {
        client,
        at: Mono(turn * MILLISECOND),
        turn,
    }
}

const STRIKE: Decided = Decided::Strike(Strike {
    subsystem: Subsystem::FlushFault,
    entity: 5,
    ordinal: 2,
});

fn end(nth: u64) -> Decided {
    Decided::End(End {
        life: 1,
        at: Mono(50 * MILLISECOND),
        nth,
        how: Ending::PowerLoss,
        amid: None,
        by_kind: false,
    })
}

/// Four clients with sixty turns each, twenty faults of three kinds, a crash.
fn long_run() -> Decisions {
    let mut events = Vec::new();
    for turn in 1..=60 {
        events.extend((0..4).map(|client| act(client, turn)));
    }
    events.push(end(9));
    for ordinal in 1..=10 {
        for (subsystem, entity) in [
            (Subsystem::FlushFault, 5),
            (Subsystem::FlushFault, 6),
            (Subsystem::NetworkFault, 70),
        ] {
            events.push(Decided::Strike(Strike {
                subsystem,
                entity,
                ordinal,
            }));
        }
    }
    Decisions {
        mix: (0..20).map(|knob| (knob, 2)).collect(),
        faults_end: Mono(1_000 * MILLISECOND),
        events,
        ..Decisions::default()
    }
}

/// A run that does what it is told.
fn obedient(decisions: &Decisions) -> Failed {
    let faults = decisions.events.iter().filter(|event| event.is_fault());
    let faults = faults.count() as u64;
    Failed {
        operations: decisions.events.len() as u64 - faults,
        faults,
        routine: 0,
        clients: 6,
        decisions: decisions.clone(),
    }
}

fn shrunk(fails: impl Fn(&Decisions) -> bool) -> (Failed, u64) {
    let mut runs = 0;
    let failed = shrink(
        obedient(&long_run()),
        |decisions| fails(decisions).then(|| obedient(decisions)),
        |progress| {
            runs = progress.runs;
            true
        },
    );
    assert!(fails(&failed.decisions), "what is left does not fail");
    (failed, runs)
}

fn has(decisions: &Decisions, event: Decided) -> bool {
    decisions.events.contains(&event)
}

#[test]
fn what_is_needed_is_left_and_nothing_else() {
    let needed = [act(2, 7), act(2, 31), act(3, 44), STRIKE];
    let (failed, runs) = shrunk(|decisions| needed.iter().all(|event| has(decisions, *event)));
    assert_eq!(failed.decisions.events, needed);
    assert_eq!((failed.operations, failed.faults), (3, 1));
    assert_eq!(failed.decisions.absent, [0, 1, 4, 5].into());
    assert!(failed.decisions.mix.values().all(|option| *option == 0));
    assert!(failed.decisions.faults_end < Mono(46 * MILLISECOND));
    assert!(
        runs < 1_500,
        "{runs} runs for {} events",
        long_run().events.len()
    );
}

#[test]
fn any_five_turns_of_a_client_will_do() {
    let turns = |decisions: &Decisions| {
        let of_one = |event: &&Decided| matches!(event, Decided::Act { client: 1, .. });
        decisions.events.iter().filter(of_one).count()
    };
    let (failed, _) = shrunk(|decisions| turns(decisions) >= 5);
    assert_eq!(failed.size(), 5);
}

#[test]
fn two_events_that_are_needed_only_for_each_other_go_together() {
    let (failed, _) = shrunk(|decisions| {
        has(decisions, act(0, 3)) == has(decisions, act(3, 9)) && has(decisions, STRIKE)
    });
    assert_eq!(failed.decisions.events, [STRIKE]);
}

#[test]
fn a_crash_is_moved_when_what_came_before_it_is_gone() {
    // It must fall right behind what the client did, however little that is.
    let (failed, _) = shrunk(|decisions| {
        let acts = decisions.events.iter().filter(|event| !event.is_fault());
        let acts = acts.count().min(9) as u64;
        acts > 0 && has(decisions, end(acts))
    });
    assert_eq!(failed.size(), 2);
    assert_eq!(failed.decisions.events[1], end(1));
}

/// The crash must come while something is done that is done after every tenth turn.
#[test]
fn a_crash_goes_where_the_same_is_done() {
    let amid = |nth| Some(Amid { kind: 7, nth });
    let mut long = long_run();
    for event in &mut long.events {
        if let Decided::End(end) = event {
            end.amid = amid(24);
        }
    }
    let run = |decisions: &Decisions| {
        let turns = decisions.events.iter().filter(|event| !event.is_fault());
        let moments = turns.count() as u64 / 10;
        let mut did = decisions.clone();
        let ends = did.events.iter_mut().find_map(|event| match event {
            Decided::End(end) => Some(end),
            _ => None,
        })?;
        let nth = ends.amid?.nth;
        let strikes = if ends.by_kind {
            nth <= moments
        } else {
            nth == moments
        };
        ends.by_kind = false;
        strikes.then(|| obedient(&did))
    };
    let failed = shrink(obedient(&long), run, |_| true);
    assert_eq!((failed.operations, failed.faults), (10, 1));
    let moved = failed.decisions.events.last();
    assert!(matches!(moved, Some(Decided::End(end)) if end.amid == amid(1)));
}

#[test]
fn a_race_that_needs_much_or_luck_is_given_luck() {
    let (failed, _) = shrunk(|decisions| {
        let acts = decisions.events.iter().filter(|event| !event.is_fault());
        let is_lucky = decisions.again.get(&Subsystem::DiskLatency) == Some(&37);
        acts.count() >= if is_lucky { 3 } else { 50 }
    });
    assert_eq!(failed.size(), 3);
}

#[test]
fn it_ends_when_time_is_up_with_what_it_has() {
    let mut runs = 0;
    let failed = shrink(
        obedient(&long_run()),
        |decisions| has(decisions, STRIKE).then(|| obedient(decisions)),
        |progress| {
            runs = progress.runs;
            progress.runs < 3
        },
    );
    assert_eq!(runs, 3);
    assert!(has(&failed.decisions, STRIKE));
}

#[test]
fn what_never_fails_stays_as_it_is() {
    let all = obedient(&long_run());
    let failed = shrink(all.clone(), |_| None, |_| true);
    assert_eq!(failed, all);
}
