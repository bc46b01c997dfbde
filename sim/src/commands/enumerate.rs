//! `enumerate`: small workloads, crashed at every moment with every image.

use std::io::{IsTerminal, Write};

use clap::Args;
use odradek_sim::bugs::names;
use odradek_sim::enumerate::{self, Address, Bounds, Plan, SCENES, Summary, Sums, scene_by_name};

use super::stopwatch::Stopwatch;
use super::{build_with_bugs_and_call, cores, plant};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  odradek-sim enumerate
  odradek-sim enumerate --scene roll --images-per-point 5000
  odradek-sim enumerate --replay roll/prompt/57/12
  odradek-sim enumerate --scene append --bug skip-crc-at-recovery")]
pub(crate) struct Arguments {
    #[arg(long, value_name = "NAME", value_parser = scene_by_name)]
    #[arg(help = format!("Only this workload: {}", all_scenes()))]
    scene: Vec<usize>,
    /// At most so many images of one moment and one way in which what was under way may have ended
    #[arg(long, value_name = "N", default_value_t = Bounds::default().images)]
    images_per_point: usize,
    /// Crash the start from every Nth state too; 0 for none
    #[arg(long, value_name = "N", default_value_t = Bounds::default().second_every)]
    second_every: u64,
    /// At most so many images of one moment of such a start
    #[arg(long, value_name = "N", default_value_t = Bounds::default().second_images)]
    second_images: usize,
    /// Threads; as many as there are cores by default
    #[arg(long)]
    jobs: Option<usize>,
    /// Plant this bug; makes the build that has bugs, if this is none
    #[arg(long, value_name = "NAME")]
    bug: Option<String>,
    /// Do one crash again and tell its story; with the bounds with which it was found
    #[arg(long, value_name = "WORKLOAD/ORDER/POINT/IMAGE")]
    replay: Option<Address>,
}

fn all_scenes() -> String {
    let names: Vec<&str> = SCENES.iter().map(|scene| scene.name).collect();
    names.join(", ")
}

pub(crate) fn run(arguments: &Arguments) -> Result<bool, String> {
    if arguments.bug.is_some() && names().is_empty() {
        return build_with_bugs_and_call();
    }
    let plan = Plan {
        planted: plant(arguments.bug.as_deref())?,
        scenes: if arguments.scene.is_empty() {
            (0..SCENES.len()).collect()
        } else {
            arguments.scene.clone()
        },
        jobs: arguments.jobs.unwrap_or_else(cores),
        bounds: Bounds {
            images: arguments.images_per_point.max(1),
            second_every: arguments.second_every,
            second_images: arguments.second_images.max(1),
        },
    };
    if let Some(address) = arguments.replay {
        return replay(address, &plan);
    }
    let terminal = std::io::stderr().is_terminal();
    let stopwatch = Stopwatch::start();
    let summary = enumerate::run(&plan, |progress| {
        if terminal {
            eprint!(
                "\r{} of {} moments, {} states   ",
                progress.done, progress.of, progress.states
            );
            let _ = std::io::stderr().flush();
        }
    });
    if terminal {
        eprintln!();
    }
    print_table(&summary, &plan);
    print_found(&summary, arguments);
    let total = summary.total();
    println!(
        "{} workloads, {} crash points, {} images, {} distinct states, {} violations, {:.1} s",
        summary.scenes.len(),
        total.points + total.second_points,
        total.images + total.second_images,
        total.states,
        summary.violations(),
        stopwatch.seconds()
    );
    Ok(summary.found.is_empty())
}

fn print_table(summary: &Summary, plan: &Plan) {
    println!(
        "{:<16} {:>7} {:>7} {:>9} {:>9} {:>11} {:>11}  what",
        "workload", "points", "cut", "images", "states", "2nd points", "2nd images"
    );
    for (scene, sums) in &summary.scenes {
        let Some(scene) = SCENES.get(*scene) else {
            continue;
        };
        let Sums {
            points,
            cut,
            images,
            states,
            second_points,
            second_images,
        } = sums;
        println!(
            "{:<16} {points:>7} {cut:>7} {images:>9} {states:>9} {second_points:>11} \
             {second_images:>11}  {}",
            scene.name, scene.what
        );
    }
    let total = summary.total();
    let Bounds {
        images,
        second_every,
        second_images,
    } = plan.bounds;
    println!(
        "bound: {images} images of each moment and way in which what was under way may have ended; \
         it cut something off at {} of {} moments",
        total.cut, total.points
    );
    if second_every > 0 {
        println!(
            "crashed again while it starts: one of {second_every} states, at every moment, \
             {second_images} images each"
        );
    }
}

/// Prints what was found, and the words to see it again.
fn print_found(summary: &Summary, arguments: &Arguments) {
    for (check, (count, address, violation)) in &summary.found {
        println!("{count} states violate {check}; one of them:");
        println!("  {violation}");
        let bug = arguments.bug.as_ref().map(|bug| format!(" --bug {bug}"));
        println!(
            "  odradek-sim enumerate --replay {address} --images-per-point {} --second-images {}{}",
            arguments.images_per_point,
            arguments.second_images,
            bug.unwrap_or_default()
        );
    }
}

fn replay(address: Address, plan: &Plan) -> Result<bool, String> {
    let replayed = enumerate::replay(address, plan)
        .ok_or_else(|| format!("there is no {address} within these bounds"))?;
    for line in &replayed.story {
        println!("{line}");
    }
    match &replayed.violation {
        Some(violation) => println!("{violation}"),
        None => println!("no violation"),
    }
    Ok(replayed.violation.is_none())
}
