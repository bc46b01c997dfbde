//! The power goes while the real program serves real clients. Its data directory is on ext4 on a
//! disk that remembers every write and flush; for cuts at any moment of that history, images of the
//! disk are mounted, the program starts on each, and everything it had promised by then is there.
//! Some images are cut a second time, during recovery.
//!
//! With the program's flushes made to do nothing the same test fails, which is a test too.

mod images;
mod promises;
mod workload;

use std::time::Duration;

use odradek_client_tests::chance::run_seed;
use odradek_client_tests::flushes::Flushes;
use odradek_client_tests::fuse::DiskServer;
use odradek_client_tests::work_dir::WorkDir;

use crate::images::{Plan, check_images};
use crate::workload::{End, record_history};

/// `ODRADEK_POWER_CUT_IMAGES` asks for more, for a long look at a suspicion.
const IMAGES: usize = 200;

#[test]
fn what_was_acknowledged_or_seen_survives_a_power_cut() {
    let seed = run_seed();
    println!("ODRADEK_TEST_SEED={seed}");
    let images = std::env::var("ODRADEK_POWER_CUT_IMAGES").map_or(IMAGES, |text| {
        text.parse().expect("ODRADEK_POWER_CUT_IMAGES is a number")
    });
    let work = WorkDir::new("power-cut");
    let server = DiskServer::mount(&work.join("disks"));
    let lives = [
        (Duration::from_secs(4), End::Kill),
        (Duration::from_secs(3), End::Stop),
        (Duration::from_secs(4), End::Kill),
    ];
    let (history, promises) = record_history(&server, &work, Flushes::Honest, &lives);
    println!("{} disk events, {promises}", history.events.len());

    let plan = Plan {
        seed,
        images,
        recovery_cut_every: 5,
    };
    let violations = check_images(&server, &work, &history, &promises, &plan);
    assert!(
        violations.is_empty(),
        "{} violations:\n{}",
        violations.len(),
        violations.join("\n")
    );
}

#[test]
fn without_its_flushes_the_program_loses_what_it_acknowledged() {
    let seed = run_seed();
    println!("ODRADEK_TEST_SEED={seed}");
    let work = WorkDir::new("power-cut-unflushed");
    let server = DiskServer::mount(&work.join("disks"));
    let lives = [(Duration::from_secs(4), End::Kill)];
    let (history, promises) = record_history(&server, &work, Flushes::Ignored, &lives);
    println!("{} disk events, {promises}", history.events.len());

    let plan = Plan {
        seed,
        images: 20,
        recovery_cut_every: usize::MAX,
    };
    let violations = check_images(&server, &work, &history, &promises, &plan);
    println!(
        "{} of {} images break a promise",
        violations.len(),
        plan.images
    );
    assert!(
        violations
            .iter()
            .any(|violation| violation.contains("is lost")),
        "{violations:?}"
    );
}
