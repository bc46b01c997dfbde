//! The power-cut rig can fail: on a program that flushes before it acknowledges, every image holds
//! what was acknowledged; with its flushes made to do nothing, images do not.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use odradek_client_tests::chance::{Chance, run_seed};
use odradek_client_tests::cut::PowerCuts;
use odradek_client_tests::disk::{Disk, Event, History, Image};
use odradek_client_tests::flushes::Flushes;
use odradek_client_tests::fuse::DiskServer;
use odradek_client_tests::mount::{Mounted, make_ext4};
use odradek_client_tests::work_dir::WorkDir;

const RECORDS: u32 = 400;
const RECORD_BYTES: usize = 200;
const IMAGES: usize = 60;

#[test]
fn a_program_that_flushes_before_it_acknowledges_loses_nothing() {
    let outcome = cut_the_power_of_the_stand_in(Flushes::Honest);
    assert!(
        outcome.flushes >= RECORDS as usize,
        "flushes reach the disk: {} seen",
        outcome.flushes
    );
    assert_eq!(outcome.violations, Vec::<String>::new());
}

#[test]
fn a_program_whose_flushes_do_nothing_is_caught() {
    let outcome = cut_the_power_of_the_stand_in(Flushes::Ignored);
    println!(
        "{} of {IMAGES} images lost an acknowledged record",
        outcome.violations.len()
    );
    assert!(!outcome.violations.is_empty(), "no image lost anything");
}

struct Outcome {
    flushes: usize,
    /// One a broken image.
    violations: Vec<String>,
}

/// Record `number` was reported durable when the disk's history had `events` events.
struct Acknowledgement {
    number: u32,
    events: usize,
}

fn cut_the_power_of_the_stand_in(flushes: Flushes) -> Outcome {
    let seed = run_seed();
    println!("ODRADEK_TEST_SEED={seed}");
    let work = WorkDir::new(&format!("power-cut-rig-{flushes:?}"));
    let server = DiskServer::mount(&work.join("disks"));

    let disk = Disk::new(Image::zeroed(64 << 20));
    let served = server.add(disk.clone());
    make_ext4(served.path());
    disk.start_history();
    let mounted = Mounted::new(served.path(), &work.join("live")).expect("a fresh ext4 mounts");
    let acknowledgements = run_stand_in(mounted.folder(), flushes, &disk);
    assert_eq!(
        acknowledgements.len(),
        RECORDS as usize,
        "the stand-in acknowledged everything"
    );
    let history = disk.history();
    drop(mounted);

    let mut cuts: Vec<usize> = (0..IMAGES as u64)
        .map(|index| Chance::of(seed, index).below(history.events.len() as u64 + 1) as usize)
        .collect();
    // Whatever the seed, the power also goes right after the last acknowledgement.
    cuts[0] = history.events.len();
    cuts.sort_unstable();
    let mut power_cuts = PowerCuts::new(&history);
    let mut violations = Vec::new();
    for (index, cut) in cuts.into_iter().enumerate() {
        let mut chance = Chance::of(seed, (index + IMAGES) as u64);
        let image = server.add(Disk::new(power_cuts.image(cut, &mut chance)));
        let mounted =
            Mounted::new(image.path(), &work.join("image")).expect("ext4 replays its journal");
        if let Err(violation) = check(mounted.folder(), cut, &acknowledgements) {
            violations.push(format!("image {index}, cut after event {cut}: {violation}"));
        }
    }
    Outcome {
        flushes: count_flushes(&history),
        violations,
    }
}

fn run_stand_in(folder: &Path, flushes: Flushes, disk: &Disk) -> Vec<Acknowledgement> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stand-in"));
    command
        .arg(folder)
        .arg(RECORDS.to_string())
        .stdout(Stdio::piped());
    flushes.apply(&mut command);
    let mut program = command.spawn().expect("the stand-in starts");
    let output = program.stdout.take().expect("its output is piped");
    let acknowledgements = BufReader::new(output)
        .lines()
        .map(|line| {
            let number = line
                .expect("its output is text")
                .parse()
                .expect("it prints numbers");
            Acknowledgement {
                number,
                events: disk.event_count(),
            }
        })
        .collect();
    assert!(
        program.wait().expect("it can be waited for").success(),
        "the stand-in ends well"
    );
    acknowledgements
}

fn count_flushes(history: &History) -> usize {
    history
        .events
        .iter()
        .filter(|event| matches!(event, Event::Flush))
        .count()
}

/// Every record acknowledged by the time of the cut is in the file, byte for byte.
fn check(folder: &Path, cut: usize, acknowledgements: &[Acknowledgement]) -> Result<(), String> {
    let log = std::fs::read(folder.join("log")).unwrap_or_default();
    for acknowledged in acknowledgements
        .iter()
        .filter(|acknowledged| acknowledged.events <= cut)
    {
        let at = acknowledged.number as usize * RECORD_BYTES;
        let mut expected = [acknowledged.number as u8 | 1; RECORD_BYTES];
        expected[..4].copy_from_slice(&acknowledged.number.to_be_bytes());
        match log.get(at..at + RECORD_BYTES) {
            None => {
                return Err(format!(
                    "record {} is lost: the file has {} bytes",
                    acknowledged.number,
                    log.len()
                ));
            }
            Some(bytes) if bytes != expected => {
                return Err(format!("record {} is damaged", acknowledged.number));
            }
            Some(_) => {}
        }
    }
    Ok(())
}
