//! How a load is run: opened on a target, then round by round, so that rounds of different
//! targets can be interleaved.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use odradek_core::input::Endpoint;
use serde_json::{Map, Value};

use super::figures::{Figures, Sample};
use super::process::cpu_seconds;
use crate::address::parse_bootstrap;
use crate::failure::Failure;

/// What a load is run against.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    /// Its process, if it is one of this machine.
    pub(super) pid: Option<u32>,
    /// Whether it is a bare loop, which has no topics.
    pub(super) bare: bool,
    /// What its topics need to keep the durability that is measured.
    pub(super) topic_configs: Vec<(&'static str, String)>,
}

/// A load, before it is run.
pub(super) trait Load {
    /// Name of the bench, such as `produce`.
    fn bench(&self) -> &'static str;
    /// What distinguishes it from other runs of the same bench.
    fn parameters(&self) -> Map<String, Value>;
    /// In words.
    fn title(&self) -> String;
    /// Prepares it on a target: topics, connections, data.
    fn open(&self, target: &Target) -> Result<Box<dyn Running>, Failure>;
}

/// A load that was prepared on a target.
pub(super) trait Running {
    /// One round.
    fn round(&mut self, times: Times) -> Result<Sample, Failure>;
    /// Cleans up.
    fn close(self: Box<Self>) -> Result<(), Failure>;
}

/// How long a round is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Times {
    /// Not counted.
    pub(super) warm_up: Duration,
    /// Counted.
    pub(super) measure: Duration,
}

impl Times {
    /// From now on: when to begin to count, and when to stop.
    pub(super) fn starting_now(self) -> (Instant, Instant) {
        let begin = Instant::now() + self.warm_up;
        (begin, begin + self.measure)
    }
}

/// How many rounds there are and how long they are.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct RoundArgs {
    /// How many rounds to measure.
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,
    /// How long a round is, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds)]
    pub(super) seconds: f64,
    /// How long each round runs before it counts, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub(super) warm_up: f64,
}

impl RoundArgs {
    /// How long each round is.
    pub(super) fn times(&self) -> Times {
        Times {
            warm_up: Duration::from_secs_f64(self.warm_up),
            measure: Duration::from_secs_f64(self.seconds),
        }
    }
}

/// Reads a number of seconds.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds, up to a day".to_owned()),
    }
}

/// The broker to measure.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TargetArgs {
    /// The broker. It must be the only one of its cluster.
    #[arg(
        long,
        short,
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:9092"
    )]
    #[arg(value_parser = parse_bootstrap)]
    bootstrap: Endpoint,
    /// The broker's process, for its memory and CPU, if it runs on this machine.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// It is a bare loop (odradek bench bare), which has no topics.
    #[arg(long)]
    bare: bool,
}

impl TargetArgs {
    /// The target.
    pub(super) fn target(&self) -> Result<Target, Failure> {
        let endpoint = (self.bootstrap.host.as_str(), self.bootstrap.port);
        let address = endpoint
            .to_socket_addrs()
            .map_err(|error| error.to_string())
            .and_then(|mut found| found.next().ok_or_else(|| "no address".to_owned()))
            .map_err(|why| Failure::failed(format!("{} has no address: {why}", self.bootstrap)))?;
        Ok(Target {
            address,
            pid: self.pid,
            bare: self.bare,
            topic_configs: Vec::new(),
        })
    }
}

/// Runs all rounds of a load against one target.
pub(super) fn measure(
    load: &dyn Load,
    target: &Target,
    rounds: RoundArgs,
) -> Result<Figures, Failure> {
    let mut running = load.open(target)?;
    let mut figures = Figures::default();
    for _ in 0..rounds.rounds {
        figures.add(&round(running.as_mut(), target, rounds.times())?);
    }
    running.close()?;
    Ok(figures)
}

/// One round, with the CPU that the target used meanwhile.
pub(super) fn round(
    running: &mut dyn Running,
    target: &Target,
    times: Times,
) -> Result<Sample, Failure> {
    let begun = (Instant::now(), target.pid.and_then(cpu_seconds));
    let mut sample = running.round(times)?;
    let ended = target.pid.and_then(cpu_seconds);
    if let ((since, Some(before)), Some(after)) = (begun, ended) {
        let cores = (after - before) / since.elapsed().as_secs_f64();
        sample.push(("broker_cores", cores));
    }
    Ok(sample)
}

/// A map of parameters.
pub(super) fn parameters<const N: usize>(entries: [(&str, Value); N]) -> Map<String, Value> {
    entries
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
