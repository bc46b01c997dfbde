//! A run done once more, in a fresh process: whether one seed is one run.
//!
//! What differs between two processes is what must not matter: the addresses, the seeds of the
//! standard library's hashers, the environment. A debug build can be the other process too.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::swarm::Workload;

/// Where a second run is done.
#[derive(Clone, Debug)]
pub struct SecondProcess {
    /// The simulator's program: the same, or another build of it.
    pub program: PathBuf,
    /// What the run looks at.
    pub workload: Workload,
    /// The planted bug.
    pub bug: Option<String>,
}

/// What is run there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A seed.
    Seed(u64),
    /// The text of a case.
    Case(String),
}

impl SecondProcess {
    /// This program, once more.
    ///
    /// # Errors
    /// If the system does not say what this program is.
    pub fn same(workload: Workload, bug: Option<&str>) -> Result<Self, String> {
        let program = std::env::current_exe()
            .map_err(|error| format!("cannot find this program: {error}"))?;
        Ok(Self {
            program,
            workload,
            bug: bug.map(str::to_owned),
        })
    }

    /// The hash of a run there.
    ///
    /// # Errors
    /// If the process cannot be started, or prints no hash.
    pub fn hash(&self, what: &What) -> Result<String, String> {
        let lines = self.replay(what, false)?;
        lines
            .iter()
            .find_map(|line| line.strip_prefix("hash "))
            .map(str::to_owned)
            .ok_or_else(|| format!("{} prints no hash", self.program.display()))
    }

    /// Every step of a run there, with the hash after it.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn steps(&self, what: &What) -> Result<Vec<String>, String> {
        self.replay(what, true)
    }

    fn replay(&self, what: &What, steps: bool) -> Result<Vec<String>, String> {
        let mut command = Command::new(&self.program);
        command.arg("replay");
        match what {
            What::Seed(seed) => {
                command.arg(seed.to_string());
                command.args(["--workload", self.workload.name()]);
                if let Some(bug) = &self.bug {
                    command.args(["--bug", bug]);
                }
            }
            // It says everything itself.
            What::Case(_) => {
                command.arg("-");
            }
        }
        if steps {
            command.args(["--trace", "--hashes"]);
        }
        // Somewhere else in the world.
        command.env("TZ", "Pacific/Kiritimati");
        command.env("LC_ALL", "tr_TR.UTF-8");
        command.env("COLUMNS", "40");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let cannot = |error| format!("cannot run {}: {error}", self.program.display());
        let mut child = command.spawn().map_err(cannot)?;
        if let (What::Case(text), Some(mut stdin)) = (what, child.stdin.take()) {
            stdin.write_all(text.as_bytes()).map_err(cannot)?;
        }
        let output = child.wait_with_output().map_err(cannot)?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().map(str::to_owned).collect())
    }
}

/// The first step in which two runs differ, in words. The steps have their hashes.
#[must_use]
pub fn first_difference(here: &[String], there: &[String]) -> String {
    let Some(at) = (0..here.len().max(there.len())).find(|i| here.get(*i) != there.get(*i)) else {
        return "when they are run again, no step differs".to_owned();
    };
    let said = |steps: &[String]| {
        let step = steps.get(at).map_or("nothing", |step| step.as_str());
        let (words, hash) = step.rsplit_once(" #").unwrap_or((step, ""));
        (words.to_owned(), hash.to_owned())
    };
    let (here, there) = (said(here), said(there));
    if here.0 == there.0 {
        format!(
            "step {at} is in both \"{}\", and what it reads or writes differs: hash {} here and {} \
             there",
            here.0, here.1, there.1
        )
    } else {
        format!("step {at} is here \"{}\" and there \"{}\"", here.0, there.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_that_differs_is_named() {
        let run = |steps: &[&str]| steps.iter().map(ToString::to_string).collect::<Vec<_>>();
        let here = run(&["1s > start #aa", "2s < flush f1 #bb", "3s > stop #cc"]);
        let other_words = run(&["1s > start #aa", "2s < flush f2 #b0", "3s > stop #c0"]);
        let other_bytes = run(&["1s > start #aa", "2s < flush f1 #b0", "3s > stop #c0"]);
        let shorter = run(&["1s > start #aa"]);
        assert_eq!(
            first_difference(&here, &other_words),
            "step 1 is here \"2s < flush f1\" and there \"2s < flush f2\""
        );
        assert_eq!(
            first_difference(&here, &other_bytes),
            "step 1 is in both \"2s < flush f1\", and what it reads or writes differs: hash bb here \
             and b0 there"
        );
        assert_eq!(
            first_difference(&here, &shorter),
            "step 1 is here \"2s < flush f1\" and there \"nothing\""
        );
        assert!(first_difference(&here, &here).contains("no step differs"));
    }
}
