//! `corpus`: everything that ever found something, again.

use std::path::PathBuf;

use clap::Args;
use odradek_sim::bugs::names;
use odradek_sim::case::Case;
use odradek_sim::trace::Keep;

use super::report::explain;
use super::stopwatch::Stopwatch;
use super::subject::Subject;

#[derive(Debug, Args)]
#[command(after_help = "\
A file whose name is a number is that seed, whatever it says; every other one must be a case, but for
README.md. A case of a planted bug must fail its check, in a build that has planted bugs; nothing else
may fail.

Examples:
  odradek-sim corpus seeds")]
pub(crate) struct Arguments {
    /// The folder
    folder: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<bool, String> {
    let folder = &arguments.folder;
    let cannot = |error| format!("{}: {error}", folder.display());
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .map_err(cannot)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(cannot)?;
    files.retain(|file| file.file_name().is_none_or(|name| name != "README.md"));
    files.sort();
    let stopwatch = Stopwatch::start();
    let (mut runs, mut waiting, mut failed) = (0, 0, 0);
    for file in &files {
        let name = file.display().to_string();
        if is_of_another_build(&name) {
            waiting += 1;
            continue;
        }
        let subject = Subject::load_file(&name)?;
        runs += 1;
        let outcome = subject.run(Keep::Last(60));
        let found = outcome.violation.as_ref().map(|v| v.check.to_string());
        match (&subject.case.bug, &subject.case.expect) {
            (Some(bug), expect) if found != *expect => {
                failed += 1;
                println!(
                    "{name}: {bug} is planted, {} should fail, and {} did",
                    expect.as_deref().unwrap_or("nothing"),
                    found.as_deref().unwrap_or("nothing")
                );
            }
            (None, _) if found.is_some() => {
                failed += 1;
                explain(&subject, &outcome);
            }
            _ => {}
        }
    }
    println!(
        "{runs} seeds and cases of {} replayed in {:.1} s, {failed} not as they should be",
        folder.display(),
        stopwatch.seconds()
    );
    if waiting > 0 {
        println!("{waiting} more are of planted bugs, which this build does not have");
    }
    Ok(failed == 0)
}

/// Whether a file is a sound case of a planted bug, and this build has none.
fn is_of_another_build(name: &str) -> bool {
    let text = std::fs::read_to_string(name).unwrap_or_default();
    names().is_empty() && Case::parse(&text).is_ok_and(|case| case.bug.is_some())
}
