//! What a command is about: a seed, or a case from a file.

use std::ffi::OsStr;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use odradek_sim::bugs::Planted;
use odradek_sim::case::{Case, MAGIC};
use odradek_sim::swarm::Workload;
use odradek_sim::trace::Keep;
use odradek_sim::world::{Outcome, Plan, run_plan};

use super::plant;

/// The words that name a run on the command line.
#[derive(Debug, Args)]
pub(crate) struct SubjectArguments {
    /// The seed, the file of a case, or - for a case on standard input
    #[arg(value_name = "SEED|FILE")]
    what: String,
    #[arg(long, value_name = "NAME", value_parser = Workload::by_name)]
    #[arg(help = format!("What to look at most: {} [default: mixed]", Workload::names()))]
    workload: Option<Workload>,
    /// Plant this bug (only in a build that has them)
    #[arg(long, value_name = "NAME")]
    bug: Option<String>,
}

impl SubjectArguments {
    /// Finds what they name.
    pub(crate) fn load(&self) -> Result<Subject, String> {
        Subject::load(&self.what, self.workload, self.bug.as_deref())
    }
}

/// A run, and what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// The case; of a seed, without decisions.
    pub(crate) case: Case,
    pub(crate) planted: Planted,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Seed,
    File(PathBuf),
}

impl Subject {
    /// Finds what a word names: a seed, a file, or `-` for a case on standard input. Workload and bug
    /// are those of a seed; a case says its own.
    fn load(word: &str, workload: Option<Workload>, bug: Option<&str>) -> Result<Self, String> {
        if let Ok(seed) = word.parse() {
            return Self::seed(seed, workload.unwrap_or_default(), bug);
        }
        let subject = Self::load_file(word)?;
        if subject.is_case() && (workload.is_some() || bug.is_some()) {
            return Err(format!("{word} says itself which workload and bug it has"));
        }
        match subject.source {
            Source::File(_) => Ok(subject),
            Source::Seed => Self::seed(subject.case.seed, workload.unwrap_or_default(), bug),
        }
    }

    /// Reads a file, or standard input for `-`: a case, or any other text in a file that is called
    /// like a seed, which is that seed.
    pub(crate) fn load_file(name: &str) -> Result<Self, String> {
        let path = Path::new(name);
        let mut text = String::new();
        if name == "-" {
            std::io::stdin().read_to_string(&mut text)
        } else {
            std::fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text))
        }
        .map_err(|error| format!("{name}: {error}"))?;
        let seed = path.file_name().and_then(OsStr::to_str);
        if !text.starts_with(MAGIC)
            && let Some(seed) = seed.and_then(|seed| seed.parse().ok())
        {
            return Self::seed(seed, Workload::default(), None);
        }
        let case = Case::parse(&text).map_err(|error| format!("{name}: {error}"))?;
        Ok(Self {
            planted: plant(case.bug.as_deref()).map_err(|error| format!("{name}: {error}"))?,
            case,
            source: Source::File(path.to_owned()),
        })
    }

    /// A seed.
    pub(crate) fn seed(seed: u64, workload: Workload, bug: Option<&str>) -> Result<Self, String> {
        Ok(Self {
            planted: plant(bug)?,
            case: Case {
                seed,
                workload,
                bug: bug.map(str::to_owned),
                ..Case::default()
            },
            source: Source::Seed,
        })
    }

    /// A case that was just written to a file.
    pub(crate) fn written(case: Case, planted: Planted, path: &Path) -> Self {
        Self {
            case,
            planted,
            source: Source::File(path.to_owned()),
        }
    }

    pub(crate) const fn is_case(&self) -> bool {
        matches!(self.source, Source::File(_))
    }

    /// How it is to be run.
    pub(crate) fn plan(&self, keep: Keep) -> Plan<'_> {
        Plan {
            decisions: self.is_case().then_some(&self.case.decisions),
            ..Plan::of_seed(self.case.seed, self.case.workload, self.planted, keep)
        }
    }

    pub(crate) fn run(&self, keep: Keep) -> Outcome {
        run_plan(&self.plan(keep))
    }

    /// How it is called on the command line of a subcommand.
    pub(crate) fn arguments(&self) -> String {
        match &self.source {
            Source::File(path) => path.display().to_string(),
            Source::Seed => {
                let mut words = self.case.seed.to_string();
                if self.case.workload != Workload::default() {
                    words.push_str(" --workload ");
                    words.push_str(self.case.workload.name());
                }
                if let Some(bug) = &self.case.bug {
                    words.push_str(" --bug ");
                    words.push_str(bug);
                }
                words
            }
        }
    }

    /// The command that does something with it.
    pub(crate) fn command(&self, subcommand: &str, options: &str) -> String {
        let build = if self.case.bug.is_some() {
            " --features bugs --target-dir target/bugs"
        } else {
            ""
        };
        let arguments = self.arguments();
        format!("cargo run --release -p odradek-sim{build} -- {subcommand} {arguments}{options}")
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Seed => write!(f, "seed {}", self.case.seed),
            Source::File(path) if path == Path::new("-") => f.write_str("the case"),
            Source::File(path) => write!(f, "{}", path.display()),
        }
    }
}
