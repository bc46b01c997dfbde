//! `odradek bench latency`: from a producer to a waiting consumer, at a given rate.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::figures::{Sample, histogram, percentiles, record};
use super::flow::Flow;
use super::frames::{BatchShape, RequestFrame};
use super::link::Link;
use super::load::{Load, Running, Target, Times, parameters};
use super::schedule::{Schedule, be_punctual, wait_until};
use super::topic::TopicPlan;
use crate::failure::Failure;

/// The load.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct LatencyLoad {
    /// Records a second.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) rate: u32,
    /// Bytes of a record's value.
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(super) bytes: u32,
    /// Measure round trips of ApiVersions requests of about that size instead: as many wake-ups,
    /// and nothing to do.
    #[arg(long)]
    pub(super) ping: bool,
}

impl Load for LatencyLoad {
    fn bench(&self) -> &'static str {
        if self.ping { "ping" } else { "latency" }
    }

    fn parameters(&self) -> Map<String, Value> {
        parameters([("rate", self.rate.into()), ("bytes", self.bytes.into())])
    }

    fn title(&self) -> String {
        let what = if self.ping {
            "there and back"
        } else {
            "producer to waiting consumer"
        };
        format!("{what}, {} a second of {} B", self.rate, self.bytes)
    }

    fn open(&self, target: &Target) -> Result<Box<dyn Running>, Failure> {
        if self.ping || target.bare {
            return Ok(Box::new(PingRun {
                link: Link::connect(target.address)?,
                // A record and what surrounds it in a request.
                frame: RequestFrame::ping(self.bytes as usize + 130),
                rate: f64::from(self.rate),
            }));
        }
        let plan = TopicPlan {
            partitions: 1,
            configs: vec![("file.delete.delay.ms", "0".to_owned())],
        };
        let shape = BatchShape {
            records: 1,
            value_bytes: self.bytes,
        };
        let flow = Flow::open(target, &plan, shape, f64::from(self.rate))?;
        Ok(Box::new(LatencyRun { flow }))
    }
}

struct LatencyRun {
    flow: Flow,
}

impl Running for LatencyRun {
    fn round(&mut self, times: Times) -> Result<Sample, Failure> {
        let found = self.flow.run(times)?;
        let mut sample = Sample::new();
        percentiles(&found.latencies, &mut sample);
        let seconds = times.measure.as_secs_f64().max(1e-9);
        sample.push(("records_per_s", found.received as f64 / seconds));
        sample.push(("unsent_records", found.unsent as f64));
        sample.push(("lost_records", found.lost as f64));
        Ok(sample)
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.flow.close()
    }
}

struct PingRun {
    link: Link,
    frame: RequestFrame,
    rate: f64,
}

impl Running for PingRun {
    fn round(&mut self, times: Times) -> Result<Sample, Failure> {
        let start = Instant::now() + Duration::from_millis(5);
        let begin = start + times.warm_up;
        let schedule = Schedule::new(start, self.rate);
        // All of them are sent, however late.
        let count = schedule.due_by(begin + times.measure);
        let Self { link, frame, .. } = self;
        let Link { stream, reader } = link;
        let mut sending = Link {
            stream: stream.try_clone().map_err(|error| {
                Failure::failed(format!("cannot have a second handle of a socket: {error}"))
            })?,
            reader: super::link::AnswerReader::new(),
        };
        let mut latencies = histogram();
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                be_punctual();
                let mut sent = 0;
                let mut out = Vec::new();
                while sent < count {
                    wait_until(schedule.due(sent));
                    let due = schedule.due_by(Instant::now()).min(count);
                    while sent < due {
                        out.extend_from_slice(frame.numbered(sent as u32));
                        sent += 1;
                    }
                    sending.send(&out)?;
                    out.clear();
                }
                Ok(())
            });
            let mut received = 0;
            let mut receive = || {
                while received < count {
                    reader.fill(stream)?;
                    let now = Instant::now();
                    while reader.next().is_some() {
                        let due = schedule.due(received);
                        if due >= begin {
                            record(&mut latencies, now.saturating_duration_since(due));
                        }
                        received += 1;
                    }
                }
                Ok(())
            };
            let result = receive();
            thread
                .join()
                .expect("a sender reports, it does not panic")?;
            result
        })?;
        let mut sample = Sample::new();
        percentiles(&latencies, &mut sample);
        Ok(sample)
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}
