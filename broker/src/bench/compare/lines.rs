//! The lines of the table: loads, on whom they are put, and what is to be reached.

use crate::bench::commit::CommitLoad;
use crate::bench::connections::ConnectionsLoad;
use crate::bench::fetch::FetchLoad;
use crate::bench::latency::LatencyLoad;
use crate::bench::load::Load;
use crate::bench::produce::ProduceLoad;

/// Acknowledged once flushed.
pub(crate) const FSYNC: &str = "fsync";
/// Acknowledged once in the page cache.
pub(crate) const OS: &str = "os";
/// The key of the line that is no load.
pub(crate) const START: &str = "start";

/// A line of the table.
pub(crate) struct Line {
    pub(crate) key: &'static str,
    pub(crate) load: Box<dyn Load>,
    pub(crate) durability: &'static str,
    /// On whom it is put, beside Odradek.
    pub(crate) which: &'static [Which],
    pub(crate) metrics: Vec<Metric>,
}

/// Whom to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Bare,
    Kafka,
}

/// A figure of a line, and what it is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) goal: Goal,
}

/// What is to be reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    /// Nothing: the figure is there to be seen.
    None,
    /// At least this share of the bare loop.
    ShareOfBare(f64),
    /// At most so many times the bare loop.
    TimesBare(f64),
    /// At most this.
    AtMost(f64),
    /// At least this share of Odradek's own figure in another line.
    ShareOfLine(&'static str, f64),
}

const ALL: &[Which] = &[Which::Bare, Which::Kafka];
/// The most idle connections, if the system lets two processes have so many descriptors.
const CONNECTIONS: u64 = 10_000;

impl Line {
    /// In words.
    pub(crate) fn title(&self) -> String {
        let when = match self.durability {
            FSYNC => "flushed",
            _ => "page cache",
        };
        format!("{}, {when}", self.load.title())
    }
}

/// All lines; `quick` makes what is prepared smaller.
pub(crate) fn all(quick: bool) -> Vec<Line> {
    let commit = |partitions| CommitLoad {
        connections: 500,
        bytes: 100,
        partitions,
    };
    let fetch = FetchLoad {
        fetch_bytes: 1 << 20,
        fill_mib: if quick { 256 } else { 512 },
        records: 1000,
        bytes: 100,
    };
    let latency = |rate| LatencyLoad {
        rate,
        bytes: 100,
        ping: false,
    };
    // The broker keeps half of its descriptors for files.
    let descriptors = odradek_io::limits::raise_descriptor_limit();
    let connections = CONNECTIONS.min((descriptors / 2).saturating_sub(100));
    vec![
        line(
            "produce-100",
            ProduceLoad::one(1000, 100),
            OS,
            ALL,
            rate(0.9),
        ),
        line(
            "produce-1024",
            ProduceLoad::one(1000, 1024),
            OS,
            ALL,
            rate(0.9),
        ),
        line(
            "produce-small",
            ProduceLoad::one(10, 100),
            OS,
            ALL,
            rate(0.85),
        ),
        line(
            "produce-100-flushed",
            ProduceLoad::one(1000, 100),
            FSYNC,
            ALL,
            rate(0.9),
        ),
        line(
            "produce-1024-flushed",
            ProduceLoad::one(1000, 1024),
            FSYNC,
            ALL,
            rate(0.9),
        ),
        line("commit-flushed", commit(1), FSYNC, ALL, committed()),
        line("commit", commit(1), OS, ALL, committed()),
        line(
            "commit-100-partitions",
            commit(100),
            FSYNC,
            &[],
            vec![
                metric("records_per_s", Goal::ShareOfLine("commit-flushed", 0.7)),
                metric("p50_us", Goal::None),
                metric("p99_us", Goal::None),
            ],
        ),
        line("fetch", fetch, OS, ALL, rate(0.9)),
        line("latency-10000", latency(10_000), OS, ALL, waited()),
        line("latency-1000", latency(1000), OS, ALL, waited()),
        line(
            "latency-1000-flushed",
            latency(1000),
            FSYNC,
            &[Which::Kafka],
            vec![metric("p50_us", Goal::None), metric("p99_us", Goal::None)],
        ),
        line(
            "connections",
            ConnectionsLoad {
                connections: u32::try_from(connections).unwrap_or(u32::MAX),
            },
            OS,
            &[Which::Bare],
            vec![
                metric("seconds", Goal::AtMost(1.0)),
                metric("kib_each", Goal::AtMost(10.0)),
            ],
        ),
    ]
}

/// What is to be reached by a start.
pub(crate) fn start_metrics() -> Vec<Metric> {
    vec![
        metric("start_ms", Goal::AtMost(50.0)),
        metric("resident_mb", Goal::AtMost(15.0)),
    ]
}

fn line(
    key: &'static str,
    load: impl Load + 'static,
    durability: &'static str,
    which: &'static [Which],
    metrics: Vec<Metric>,
) -> Line {
    Line {
        key,
        load: Box::new(load),
        durability,
        which,
        metrics,
    }
}

const fn metric(name: &'static str, goal: Goal) -> Metric {
    Metric { name, goal }
}

fn rate(share: f64) -> Vec<Metric> {
    vec![
        metric("mb_per_s", Goal::ShareOfBare(share)),
        metric("records_per_s", Goal::None),
    ]
}

fn committed() -> Vec<Metric> {
    vec![
        metric("records_per_s", Goal::ShareOfBare(0.9)),
        metric("p50_us", Goal::None),
        metric("p99_us", Goal::TimesBare(1.2)),
    ]
}

fn waited() -> Vec<Metric> {
    vec![
        metric("p50_us", Goal::TimesBare(1.25)),
        metric("p99_us", Goal::TimesBare(2.0)),
    ]
}
