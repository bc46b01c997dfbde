//! Whole enumerations, small ones.

use super::*;

fn plan(scenes: &[&str], bounds: Bounds, planted: Planted) -> Plan {
    Plan {
        planted,
        scenes: scenes
            .iter()
            .map(|name| scene_by_name(name).unwrap())
            .collect(),
        jobs: 2,
        bounds,
    }
}

const FEW: Bounds = Bounds {
    images: 4,
    second_every: 40,
    second_images: 2,
};

/// What each scene is there for, as its effects say it: each must come at least so often.
const DEEDS: &[(&str, &[(&str, usize)])] = &[
    ("first-start", &[("write-file odradek.format", 1)]),
    ("create-topic", &[("create-dir t-", 2)]),
    ("append", &[("< write ", 3)]),
    ("roll", &[("write-file t-0/", 2), (".log", 2)]),
    ("group-commit", &[("< write ", 4)]),
    ("truncate", &[(" truncate ", 1)]),
    ("delete-records", &[("remove-file t-0/", 2)]),
    ("delete-topic", &[("-delete", 2), ("create-dir t-", 1)]),
    ("metadata", &[("write-file __cluster_metadata-0/", 1)]),
    (
        "snapshot",
        &[
            ("write-file metadata.snapshot", 1),
            // Two segments of three files.
            ("remove-file __cluster_metadata-0/", 6),
        ],
    ),
    ("checkpoint", &[("log.checkpoint", 2)]),
    ("stop", &[("clean.shutdown", 2), ("< stopped", 1)]),
    ("clean", &[(".cleaned", 1), (".swap", 1)]),
];

#[test]
fn each_scene_does_what_it_is_there_for() {
    let names: Vec<&str> = SCENES.iter().map(|scene| scene.name).collect();
    let known: Vec<&str> = DEEDS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, known);
    let mut missing = Vec::new();
    for (name, deeds) in DEEDS {
        let plan = plan(&[name], FEW, Planted::NONE);
        for order in Order::ALL {
            let here = Moments {
                scene: plan.scenes[0],
                order,
                plan: &plan,
            };
            let mut machine = here.begin().unwrap();
            machine.tell();
            assert_eq!(machine.drive(here.scene().act), Ok(()), "{name}");
            let story = machine.take_story();
            for (deed, least) in *deeds {
                let times = story.iter().filter(|line| line.contains(deed)).count();
                if times < *least {
                    missing.push(format!("{name} {order:?}: {deed}, {times} of {least}"));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn scenes_survive_a_few_images_of_each_moment() {
    // The others have more moments than an unoptimised build should go through.
    let names = ["append", "checkpoint"];
    let summary = run(&plan(&names, FEW, Planted::NONE), |_| {});
    assert_eq!(summary.found.into_iter().next(), None);
    assert_eq!(summary.scenes.len(), names.len());
    assert!(summary.scenes.values().all(|sums| sums.points > 10));
    assert!(summary.scenes.values().any(|sums| sums.second_points > 10));
}

#[test]
fn a_disk_that_lies_is_found_and_the_address_shows_it_again() {
    let plan = plan(&["append"], FEW, Planted::LYING_DISK);
    let summary = run(&plan, |_| {});
    let (check, (_, address, _)) = summary.found.into_iter().next().unwrap();
    assert_eq!(address.to_string().parse::<Address>().unwrap(), address);
    let replayed = replay(address, &plan).unwrap();
    assert_eq!(replayed.violation.map(|v| v.check), Some(check));
    assert!(replayed.story.len() > 3);
}

#[test]
fn a_crash_of_a_start_can_be_seen_again() {
    let plan = plan(&["append"], FEW, Planted::NONE);
    let story = |address: &str| {
        let replayed = replay(address.parse().unwrap(), &plan).unwrap();
        assert_eq!(replayed.violation, None);
        replayed.story.join("\n")
    };
    assert_eq!(
        story("append/prompt/12/1")
            .matches("the power goes")
            .count(),
        1
    );
    let twice = story("append/prompt/12/1/9/1");
    assert_eq!(twice.matches("the power goes").count(), 2);
    assert_eq!(twice.matches("> start").count(), 2);
    let beyond = "append/prompt/12/100000".parse().unwrap();
    assert!(replay(beyond, &plan).is_none());
}

#[cfg(feature = "bugs")]
#[test]
fn a_bug_that_only_a_crash_shows_is_found() {
    let bug = crate::bugs::by_name("skip-crc-at-recovery").unwrap();
    let plan = plan(&["append"], FEW, bug);
    assert!(run(&plan, |_| {}).violations() > 0);
}

#[test]
fn the_same_is_gone_through_whatever_the_threads_do() {
    let numbers = |jobs| {
        let mut plan = plan(&["append"], FEW, Planted::NONE);
        plan.jobs = jobs;
        plan.bounds.second_every = 0;
        run(&plan, |_| {}).total()
    };
    assert_eq!(numbers(1), numbers(3));
}

#[test]
fn an_address_without_sense_is_refused() {
    for text in [
        "",
        "append",
        "append/soon/1/1",
        "append/late/1",
        "nothing/late/1/1",
        "append/late/x/1",
    ] {
        assert!(text.parse::<Address>().is_err(), "{text}");
    }
}
