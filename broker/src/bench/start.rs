//! `odradek bench start`: from nothing to the first answer.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::environment::Environment;
use super::fetch::fill;
use super::figures::{Figures, Sample};
use super::frames::BatchShape;
use super::link::Link;
use super::load::{Times, parameters};
use super::process::{Process, resident_bytes};
use super::report::ReportArgs;
use super::row::Row;
use super::schedule::wait_until;
use super::topic::{Topic, TopicPlan};
use crate::failure::Failure;

/// Starts this program's broker again and again, until its first answer, and looks at the memory
/// it holds when it has nothing to do.
///
/// With --log-mib it finds that much log, after a clean stop or, with --crash, after a kill.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek bench start
  odradek bench start --log-mib 4096
  odradek bench start --log-mib 4096 --crash     how long recovery takes

Exit codes: 0 measured, 1 failed, 2 wrong usage.")]
pub(super) struct Args {
    /// How often.
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// How much log there is.
    #[arg(long, value_name = "MIB", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    log_mib: u32,
    /// Kill the broker before each start, after it has written the log, instead of stopping it.
    #[arg(long)]
    crash: bool,
    /// Where to put a temporary data directory [default: the system's temporary directory].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArgs,
}

/// How long a broker is left alone before its memory is looked at.
const SETTLE: Duration = Duration::from_millis(500);

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let environment = Environment::now();
    let root = temporary(args.dir.as_deref())?;
    let mut figures = Figures::default();
    for number in 0..args.rounds {
        let data = root.path().join(number.to_string());
        if args.log_mib > 0 {
            let broker = Process::odradek(&data, "fsync", &[])?;
            write_log(&broker, args.log_mib)?;
            if args.crash {
                drop(broker);
            } else {
                broker.stop()?;
            }
        }
        figures.add(&round(&data, "fsync")?);
        // The next one needs the room.
        let _ = std::fs::remove_dir_all(&data);
    }
    let of = ("start", start_parameters(args.log_mib, args.crash));
    let times = Times {
        warm_up: Duration::ZERO,
        measure: SETTLE,
    };
    let row = Row::of(of, "odradek", "fsync", times, figures, environment);
    let log = match (args.log_mib, args.crash) {
        (0, _) => "an empty directory".to_owned(),
        (mib, true) => format!("{mib} MiB of log, killed before"),
        (mib, false) => format!("{mib} MiB of log, stopped before"),
    };
    args.report.report(&format!("start on {log}"), row)
}

/// What distinguishes one start from another.
pub(super) fn start_parameters(log_mib: u32, crash: bool) -> Map<String, Value> {
    parameters([("log_mib", log_mib.into()), ("crash", crash.into())])
}

/// One start, and a clean stop.
pub(super) fn round(data: &Path, durability: &str) -> Result<Sample, Failure> {
    let broker = Process::odradek(data, durability, &[])?;
    let sample = idle(&broker);
    broker.stop()?;
    Ok(sample)
}

/// How a broker started that has had nothing to do since.
pub(super) fn idle(broker: &Process) -> Sample {
    wait_until(Instant::now() + SETTLE);
    let mut sample = vec![("start_ms", broker.started_in.as_secs_f64() * 1000.0)];
    if let Some(bytes) = resident_bytes(broker.pid()) {
        sample.push(("resident_mb", bytes as f64 / 1e6));
    }
    sample
}

/// A directory that goes when it is dropped.
pub(super) fn temporary(parent: Option<&Path>) -> Result<tempfile::TempDir, Failure> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("odradek-bench-");
    match parent {
        Some(parent) => builder.tempdir_in(parent),
        None => builder.tempdir(),
    }
    .map_err(|error| {
        Failure::failed(format!(
            "cannot make a temporary directory: {error}; --dir says where"
        ))
    })
}

fn write_log(broker: &Process, mib: u32) -> Result<(), Failure> {
    let shape = BatchShape {
        records: 100,
        value_bytes: 1000,
    };
    let plan = TopicPlan {
        partitions: 1,
        configs: vec![("retention.bytes", "-1".to_owned())],
    };
    let topic = Topic::create(&broker.target(), &plan, shape)?;
    let mut link = Link::connect(broker.address)?;
    fill(&mut link, &topic.name, shape, u64::from(mib) << 20).map(|_| ())
}
