//! `odradek bench connections`: what connections cost that do nothing.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;
use serde_json::{Map, Value};

use super::figures::Sample;
use super::frames::RequestFrame;
use super::link::Link;
use super::load::{Load, Running, Target, Times, parameters};
use super::process::resident_bytes;
use super::schedule::wait_until;
use crate::failure::Failure;

/// The load.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ConnectionsLoad {
    /// How many.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub(super) connections: u32,
}

impl Load for ConnectionsLoad {
    fn bench(&self) -> &'static str {
        "connections"
    }

    fn parameters(&self) -> Map<String, Value> {
        parameters([("connections", self.connections.into())])
    }

    fn title(&self) -> String {
        format!("{} idle connections", self.connections)
    }

    fn open(&self, target: &Target) -> Result<Box<dyn Running>, Failure> {
        // Whatever the first connection sets up for good is not what connections cost.
        served(&mut Link::connect(target.address)?)?;
        Ok(Box::new(ConnectionsRun {
            count: self.connections,
            target: target.clone(),
            before: target.pid.and_then(resident_bytes),
        }))
    }
}

struct ConnectionsRun {
    count: u32,
    target: Target,
    before: Option<u64>,
}

impl Running for ConnectionsRun {
    fn round(&mut self, _: Times) -> Result<Sample, Failure> {
        let begun = Instant::now();
        let mut streams: Vec<TcpStream> = Vec::with_capacity(self.count as usize);
        for opened in 1..self.count {
            let stream = TcpStream::connect(self.target.address).map_err(|error| {
                Failure::failed(format!(
                    "connection {opened} of {} failed: {error}; for both sides ulimit -n must be \
                     higher than that",
                    self.count
                ))
            })?;
            streams.push(stream);
        }
        let mut last = Link::connect(self.target.address)?;
        served(&mut last)?;
        let seconds = begun.elapsed().as_secs_f64();
        let mut sample = vec![("seconds", seconds)];
        let after = self.target.pid.and_then(resident_bytes);
        if let (Some(before), Some(after)) = (self.before, after) {
            let each = after.saturating_sub(before) as f64 / f64::from(self.count);
            sample.push(("kib_each", each / 1024.0));
        }
        streams.push(last.stream);
        for stream in &streams {
            // Without this they would hold their ports for a minute.
            let _ = set_socket_linger(stream, Some(Duration::ZERO));
        }
        drop(streams);
        wait_until(Instant::now() + Duration::from_millis(200));
        Ok(sample)
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}

/// Waits until a request is answered.
fn served(link: &mut Link) -> Result<(), Failure> {
    link.send(RequestFrame::ping(40).numbered(1))?;
    link.receive().map(|_| ())
}
