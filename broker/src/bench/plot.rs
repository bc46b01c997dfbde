//! `odradek bench plot`: pictures of the rows.

mod svg;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::row::{Row, read_all};
use crate::failure::Failure;
use crate::output::Output;
use svg::{Chart, Point, Scale};

/// Draws the rows of a file as SVG: throughput against batch size, latency against rate, throughput
/// against connections and partitions, time to recover against log size, memory against
/// connections. A point is the median of the rounds, the bar through it their spread.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek bench plot
  odradek bench plot --rows results/rows.jsonl --to results/plots

Exit codes: 0 drawn, 1 failed, 2 wrong usage.")]
pub(super) struct Args {
    /// The rows.
    #[arg(long, value_name = "FILE", default_value = "results/rows.jsonl")]
    rows: PathBuf,
    /// Where the pictures go; made if it is missing.
    #[arg(long, value_name = "DIR", default_value = "results/plots")]
    to: PathBuf,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let rows = latest(read_all(&args.rows)?);
    let failed = |path: &Path, error: std::io::Error| {
        Failure::failed(format!("cannot write {}: {error}", path.display()))
    };
    std::fs::create_dir_all(&args.to).map_err(|error| failed(&args.to, error))?;
    let mut out = Output::stdout();
    for picture in PICTURES {
        let Some(chart) = picture.draw(&rows) else {
            continue;
        };
        let path = args.to.join(format!("{}.svg", picture.name));
        std::fs::write(&path, chart.to_svg()).map_err(|error| failed(&path, error))?;
        out.line(path.display())?;
    }
    out.flush()
}

/// The last of the rows that are about the same.
fn latest(rows: Vec<Row>) -> Vec<Row> {
    let mut kept: Vec<Row> = Vec::new();
    for row in rows {
        kept.retain(|other| !other.is_about_the_same(&row));
        kept.push(row);
    }
    kept
}

/// What is drawn of which rows.
struct Picture {
    name: &'static str,
    title: &'static str,
    bench: &'static str,
    x: (X, &'static str),
    /// Metrics, and what each adds to the name of its curve.
    y: &'static [(&'static str, &'static str)],
    y_label: &'static str,
    /// Parameters that must have this value.
    given: &'static [(&'static str, f64)],
    x_scale: Scale,
    y_scale: Scale,
}

/// What a point's place on the x axis is.
enum X {
    Parameter(&'static str),
    /// Bytes of the values of a batch.
    BatchBytes,
}

const PICTURES: &[Picture] = &[
    Picture {
        name: "throughput-batch",
        title: "Produce: one connection, 5 in flight, records of 100 B",
        bench: "produce",
        x: (X::BatchBytes, "bytes of records in a batch"),
        y: &[("mb_per_s", "")],
        y_label: "MB/s",
        given: &[
            ("bytes", 100.0),
            ("in_flight", 5.0),
            ("connections", 1.0),
            ("partitions", 1.0),
        ],
        x_scale: Scale::Log,
        y_scale: Scale::Log,
    },
    Picture {
        name: "latency-rate",
        title: "Latency from producer to waiting consumer, from the scheduled time",
        bench: "latency",
        x: (
            X::Parameter("rate"),
            "records a second, each its own request",
        ),
        y: &[
            ("p50_us", " p50"),
            ("p99_us", " p99"),
            ("p999_us", " p99.9"),
        ],
        y_label: "microseconds",
        given: &[("bytes", 100.0)],
        x_scale: Scale::Log,
        y_scale: Scale::Log,
    },
    Picture {
        name: "throughput-connections",
        title: "Produce: one 100 B record in flight on each connection",
        bench: "commit",
        x: (X::Parameter("connections"), "connections"),
        y: &[("records_per_s", "")],
        y_label: "records a second",
        given: &[("bytes", 100.0), ("partitions", 1.0)],
        x_scale: Scale::Log,
        y_scale: Scale::Log,
    },
    Picture {
        name: "throughput-partitions",
        title: "Produce: 500 connections with one 100 B record each, over partitions",
        bench: "commit",
        x: (X::Parameter("partitions"), "partitions"),
        y: &[("records_per_s", "")],
        y_label: "records a second",
        given: &[("bytes", 100.0), ("connections", 500.0)],
        x_scale: Scale::Log,
        y_scale: Scale::Linear,
    },
    Picture {
        name: "start-log",
        title: "Start to the first answer, after a kill",
        bench: "start",
        x: (X::Parameter("log_mib"), "MiB of log"),
        y: &[("start_ms", "")],
        y_label: "milliseconds",
        given: &[("crash", 1.0)],
        x_scale: Scale::Log,
        y_scale: Scale::Linear,
    },
    Picture {
        name: "memory-connections",
        title: "Memory of an idle connection",
        bench: "connections",
        x: (X::Parameter("connections"), "connections"),
        y: &[("kib_each", "")],
        y_label: "KiB each",
        given: &[],
        x_scale: Scale::Log,
        y_scale: Scale::Linear,
    },
];

impl Picture {
    /// The chart, unless there is nothing to draw.
    fn draw(&self, rows: &[Row]) -> Option<Chart> {
        let mut curves: BTreeMap<String, Vec<Point>> = BTreeMap::new();
        for row in rows.iter().filter(|row| self.shows(row)) {
            for (metric, suffix) in self.y {
                let point = self.x(row).and_then(|x| {
                    let (low, high) = row.rounds.spread(metric)?;
                    let y = row.rounds.median(metric)?;
                    Some(Point { x, y, low, high })
                });
                let name = format!("{}, {}{suffix}", row.system, row.durability);
                curves.entry(name).or_default().extend(point);
            }
        }
        curves.retain(|_, points| !points.is_empty());
        for points in curves.values_mut() {
            points.sort_by(|one, other| one.x.total_cmp(&other.x));
        }
        (!curves.is_empty()).then(|| Chart {
            title: self.title,
            x_label: self.x.1,
            y_label: self.y_label,
            x_scale: self.x_scale,
            y_scale: self.y_scale,
            curves: curves.into_iter().collect(),
        })
    }

    fn shows(&self, row: &Row) -> bool {
        row.bench == self.bench
            && self
                .given
                .iter()
                .all(|(name, value)| parameter(row, name) == Some(*value))
    }

    fn x(&self, row: &Row) -> Option<f64> {
        match self.x.0 {
            X::Parameter(name) => parameter(row, name),
            X::BatchBytes => Some(parameter(row, "records")? * parameter(row, "bytes")?),
        }
    }
}

/// A parameter as a number; yes is 1.
fn parameter(row: &Row, name: &str) -> Option<f64> {
    let as_flag = || row.parameters.get(name)?.as_bool().map(f64::from);
    row.parameter(name).or_else(as_flag)
}
