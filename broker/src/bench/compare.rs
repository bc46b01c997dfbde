//! `odradek bench compare`: every load against the bare loops, Odradek and Apache Kafka, in one
//! run and in turns, so that what the machine does to one it does to all.

pub(super) mod lines;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::environment::Environment;
use super::figures::Figures;
use super::kafka;
use super::load::{Load, Running, Target, Times, round};
use super::process::Process;
use super::produce::ProduceLoad;
use super::row::{self, Row};
use super::start::{idle, round as start_round, start_parameters, temporary};
use crate::failure::Failure;
use crate::output::{self, Output, OutputFormat};
use lines::{Line, Metric, Which};

/// Starts Odradek, the bare loops and, if its jars are given, Apache Kafka, puts every load on each
/// of them in turns (A B C A B C ...), and prints what they reach and the ratios.
///
/// A goal is a share of what the bare loop reaches, unless it is a plain number. Everything runs
/// on this machine and shares it: do nothing else meanwhile.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek bench compare --quick
  results/fetch-kafka kafka-jars
  odradek bench compare --kafka kafka-jars --rows results/rows.jsonl
  odradek bench compare --only produce --only commit --rounds 9

Exit codes: 0 measured, whatever came out; 1 failed, 2 wrong usage.")]
pub(super) struct Args {
    /// Three short rounds of each load: under 3 minutes.
    #[arg(long)]
    quick: bool,
    /// A directory with Apache Kafka's jars (see results/fetch-kafka); Java must be installed.
    #[arg(long, value_name = "DIR")]
    kafka: Option<PathBuf>,
    #[command(flatten)]
    common: CommonArgs,
}

/// What `compare` and `limits` share.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct CommonArgs {
    /// Only lines whose key begins with this; may be repeated.
    #[arg(long, value_name = "KEY")]
    pub(super) only: Vec<String>,
    /// How many rounds [default: 5, or 3 with --quick].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: Option<u32>,
    /// How long a round is, in seconds [default: 3, or 0.8 with --quick].
    #[arg(long, value_name = "SECONDS", value_parser = super::load::seconds)]
    pub(super) seconds: Option<f64>,
    /// Where to put temporary data directories; on the disk that is to be measured [default: the
    /// system's temporary directory].
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// What is printed.
    #[arg(long, value_enum, default_value_t)]
    pub(super) output: OutputFormat,
    /// Add all figures to this file, each as a line of JSON.
    #[arg(long, value_name = "FILE")]
    pub(super) rows: Option<PathBuf>,
}

/// How Kafka gets used to the load before anything counts.
const KAFKA_WARM_UP: Duration = Duration::from_secs(4);

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let mut lines = lines::all(args.quick);
    args.common.select(&mut lines)?;
    let root = temporary(args.common.dir.as_deref())?;
    let mut comparison = Comparison::new(&args.common, args.quick);
    comparison.start_bare(root.path(), &lines)?;
    comparison.start_odradek(root.path(), &lines)?;
    if let Some(jars) = &args.kafka {
        comparison.start_kafka(jars, root.path())?;
    }
    for line in &lines {
        comparison.run(line)?;
    }
    if args.common.selects(lines::START) {
        comparison.run_start(root.path())?;
    }
    comparison.report()
}

impl CommonArgs {
    fn selects(&self, key: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| key.starts_with(only.as_str()))
    }

    /// Leaves the lines that are asked for.
    pub(super) fn select(&self, lines: &mut Vec<Line>) -> Result<(), Failure> {
        let mut keys: Vec<&str> = lines.iter().map(|line| line.key).collect();
        keys.push(lines::START);
        if !keys.iter().any(|key| self.selects(key)) {
            return Err(Failure::usage(format!(
                "--only matches no line; there are {}",
                keys.join(", ")
            )));
        }
        lines.retain(|line| self.selects(line.key));
        Ok(())
    }
}

/// A comparison under way.
pub(super) struct Comparison<'a> {
    args: &'a CommonArgs,
    rounds: u32,
    times: Times,
    environment: Environment,
    systems: Vec<System>,
    results: Vec<Found>,
    rows: Vec<Row>,
    /// How Kafka started.
    kafka_start: Option<Figures>,
}

struct System {
    name: &'static str,
    /// What it keeps; `None` if a topic says.
    durability: Option<&'static str>,
    process: Process,
}

/// What was found for a line, by system.
pub(super) struct Found {
    title: String,
    key: &'static str,
    metrics: Vec<Metric>,
    figures: BTreeMap<&'static str, Figures>,
}

const BARE: &str = "bare";
const ODRADEK: &str = "odradek";
const KAFKA: &str = "kafka";

impl<'a> Comparison<'a> {
    pub(super) fn new(args: &'a CommonArgs, quick: bool) -> Self {
        let (rounds, seconds, warm_up) = if quick { (3, 0.8, 0.2) } else { (5, 3.0, 1.0) };
        let seconds = args.seconds.unwrap_or(seconds);
        Self {
            args,
            rounds: args.rounds.unwrap_or(rounds),
            times: Times {
                warm_up: Duration::from_secs_f64(f64::min(warm_up, seconds)),
                measure: Duration::from_secs_f64(seconds),
            },
            environment: Environment::now(),
            systems: Vec::new(),
            results: Vec::new(),
            rows: Vec::new(),
            kafka_start: None,
        }
    }

    /// Starts the bare loops that the lines need.
    pub(super) fn start_bare(&mut self, root: &Path, lines: &[Line]) -> Result<(), Failure> {
        for durability in durabilities(lines) {
            let directory = root.join(format!("bare-{durability}"));
            self.systems.push(System {
                name: BARE,
                durability: Some(durability),
                process: Process::bare(&directory, durability == lines::FSYNC)?,
            });
        }
        Ok(())
    }

    fn start_odradek(&mut self, root: &Path, lines: &[Line]) -> Result<(), Failure> {
        for durability in durabilities(lines) {
            let directory = root.join(format!("odradek-{durability}"));
            let settings = ["log.retention.check.interval.ms=1000"];
            self.systems.push(System {
                name: ODRADEK,
                durability: Some(durability),
                process: Process::odradek(&directory, durability, &settings)?,
            });
        }
        Ok(())
    }

    fn start_kafka(&mut self, jars: &Path, root: &Path) -> Result<(), Failure> {
        output::note("starting Kafka, and warming it up");
        let process = kafka::start(jars, &root.join(KAFKA))?;
        let mut figures = Figures::default();
        figures.add(&idle(&process));
        self.kafka_start = Some(figures);
        let warm_up = Times {
            warm_up: Duration::ZERO,
            measure: KAFKA_WARM_UP,
        };
        for load in [ProduceLoad::one(1000, 100), ProduceLoad::one(10, 100)] {
            let mut running = load.open(&process.target())?;
            running.round(warm_up)?;
            running.close()?;
        }
        self.systems.push(System {
            name: KAFKA,
            durability: None,
            process,
        });
        Ok(())
    }

    /// Puts one load on all systems that take it, in turns.
    pub(super) fn run(&mut self, line: &Line) -> Result<(), Failure> {
        output::note(&format!("{}: {}", line.key, line.title()));
        let mut running: Vec<(&'static str, Target, Box<dyn Running>)> = Vec::new();
        for system in &self.systems {
            if system.takes(line) {
                let target = system.target(line);
                let open = line.load.open(&target)?;
                running.push((system.name, target, open));
            }
        }
        let mut figures: BTreeMap<&'static str, Figures> = BTreeMap::new();
        for _ in 0..self.rounds {
            for (name, target, running) in &mut running {
                let sample = round(running.as_mut(), target, self.times)?;
                figures.entry(name).or_default().add(&sample);
            }
        }
        for (_, _, running) in running {
            running.close()?;
        }
        for (name, figures) in &figures {
            self.rows.push(Row::new(
                line.load.as_ref(),
                name,
                line.durability,
                self.times,
                figures.clone(),
                self.environment.clone(),
            ));
        }
        self.results.push(Found {
            title: line.title(),
            key: line.key,
            metrics: line.metrics.clone(),
            figures,
        });
        Ok(())
    }

    /// How long Odradek takes to start, and what it then holds.
    fn run_start(&mut self, root: &Path) -> Result<(), Failure> {
        output::note("start: start on an empty directory");
        let mut figures = Figures::default();
        for number in 0..self.rounds {
            let data = root.join(format!("start-{number}"));
            figures.add(&start_round(&data, lines::FSYNC)?);
        }
        let mut by_system = BTreeMap::from([(ODRADEK, figures)]);
        if let Some(kafka) = self.kafka_start.take() {
            by_system.insert(KAFKA, kafka);
        }
        for (name, figures) in &by_system {
            self.rows.push(Row::of(
                ("start", start_parameters(0, false)),
                name,
                lines::FSYNC,
                self.times,
                figures.clone(),
                self.environment.clone(),
            ));
        }
        self.results.push(Found {
            title: "start on an empty directory".to_owned(),
            key: lines::START,
            metrics: lines::start_metrics(),
            figures: by_system,
        });
        Ok(())
    }

    /// Prints all of it, and keeps the rows.
    pub(super) fn report(self) -> Result<(), Failure> {
        let mut out = Output::stdout();
        match self.args.output {
            OutputFormat::Json => {
                for row in &self.rows {
                    out.json(&super::report::with_summary(row))?;
                }
                for entry in table::entries(&self.results) {
                    out.json(&json!({
                        "key": entry.key,
                        "metric": entry.metric,
                        "of_bare": entry.of_bare,
                        "times_kafka": entry.times_kafka,
                        "reached": entry.reached,
                    }))?;
                }
            }
            OutputFormat::Text => {
                let environment = &self.environment;
                out.line(format!(
                    "{}, {}, load average {:.2}, commit {}; {} rounds of {} s",
                    environment.machine,
                    environment.kernel,
                    environment.load_average,
                    environment.commit,
                    self.rounds,
                    self.times.measure.as_secs_f64()
                ))?;
                for line in table::text(&self.results) {
                    out.line(line)?;
                }
            }
        }
        out.flush()?;
        match &self.args.rows {
            Some(path) => row::append(path, &self.rows),
            None => Ok(()),
        }
    }
}

impl System {
    fn takes(&self, line: &Line) -> bool {
        let asked = match self.name {
            BARE => line.which.contains(&Which::Bare),
            KAFKA => line.which.contains(&Which::Kafka),
            _ => true,
        };
        asked && self.durability.is_none_or(|own| own == line.durability)
    }

    fn target(&self, line: &Line) -> Target {
        let mut target = self.process.target();
        // Kafka flushes before it answers if a topic says so.
        if self.durability.is_none() && line.durability == lines::FSYNC {
            target
                .topic_configs
                .push(("flush.messages", "1".to_owned()));
        }
        target
    }
}

fn durabilities(lines: &[Line]) -> Vec<&'static str> {
    [lines::OS, lines::FSYNC]
        .into_iter()
        .filter(|durability| lines.iter().any(|line| line.durability == *durability))
        .collect()
}
