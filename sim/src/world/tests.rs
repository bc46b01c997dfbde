//! Whole runs.

use super::run;
use crate::bugs::Planted;
use crate::swarm::Workload;
use crate::trace::Keep;

#[test]
fn the_same_seed_does_the_same_twice_whatever_is_kept_of_it() {
    for seed in 0..4 {
        let first = run(seed, Workload::Mixed, Planted::NONE, Keep::None);
        let second = run(seed, Workload::Mixed, Planted::NONE, Keep::Last(3));
        assert_eq!(first.hash, second.hash, "seed {seed}");
        assert_eq!(first.counts, second.counts, "seed {seed}");
        assert_eq!(first.violation, second.violation, "seed {seed}");
    }
}

#[test]
fn seeds_differ() {
    let hash = |seed| run(seed, Workload::Mixed, Planted::NONE, Keep::None).hash;
    assert_ne!(hash(1), hash(2));
}

#[test]
fn a_run_does_something() {
    let outcomes: Vec<_> = (0..30)
        .map(|seed| run(seed, Workload::Mixed, Planted::NONE, Keep::None))
        .collect();
    assert!(outcomes.iter().all(|outcome| outcome.violation.is_none()));
    assert!(outcomes.iter().map(|o| o.acked_batches).sum::<u64>() > 100);
    assert!(outcomes.iter().map(|o| o.full_fetches).sum::<u64>() > 100);
    assert!(outcomes.iter().map(|o| o.counts.power_losses).sum::<u64>() > 3);
}

#[cfg(feature = "bugs")]
#[test]
fn a_planted_bug_is_found() {
    let bugs = crate::bugs::by_name("ack-before-flush").unwrap();
    let found = (0..100).find_map(|seed| run(seed, Workload::Mixed, bugs, Keep::None).violation);
    assert!(found.is_some());
}
