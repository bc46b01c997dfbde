//! `odradek bench produce`: batches on one connection or several, so many in flight.

use std::net::SocketAddr;
use std::time::Instant;

use serde_json::{Map, Value};

use super::figures::{Sample, histogram, merge, percentiles, record};
use super::frames::{BatchShape, ProduceAnswer, RequestFrame, correlation_id, refused};
use super::link::{Link, nonsense};
use super::load::{Load, Running, Target, Times, parameters};
use super::topic::{Topic, TopicPlan};
use crate::failure::Failure;

/// The load.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ProduceLoad {
    /// Records in a batch.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) records: u32,
    /// Bytes of a record's value.
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=16_000_000))]
    pub(super) bytes: u32,
    /// Requests in flight on each connection.
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) in_flight: u32,
    /// Connections, each driven by a thread.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) connections: u32,
    /// Partitions; each connection sends to one.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(i32).range(1..=100_000))]
    pub(super) partitions: i32,
}

impl ProduceLoad {
    /// One connection, five in flight: what most rows of the table are.
    pub(super) const fn one(records: u32, bytes: u32) -> Self {
        Self {
            records,
            bytes,
            in_flight: 5,
            connections: 1,
            partitions: 1,
        }
    }

    const fn shape(&self) -> BatchShape {
        BatchShape {
            records: self.records,
            value_bytes: self.bytes,
        }
    }
}

impl Load for ProduceLoad {
    fn bench(&self) -> &'static str {
        "produce"
    }

    fn parameters(&self) -> Map<String, Value> {
        parameters([
            ("records", self.records.into()),
            ("bytes", self.bytes.into()),
            ("in_flight", self.in_flight.into()),
            ("connections", self.connections.into()),
            ("partitions", self.partitions.into()),
        ])
    }

    fn title(&self) -> String {
        format!(
            "produce {} x {} B a batch, {} in flight, {}",
            self.records,
            self.bytes,
            self.in_flight,
            crate::output::counted(self.connections.into(), "connection", "connections")
        )
    }

    fn open(&self, target: &Target) -> Result<Box<dyn Running>, Failure> {
        let plan = TopicPlan {
            partitions: self.partitions,
            // What was written is of no use: files are rolled at 1 GiB and go.
            configs: vec![
                ("segment.bytes", (1_u32 << 30).to_string()),
                ("retention.bytes", (1_u32 << 30).to_string()),
                ("file.delete.delay.ms", "0".to_owned()),
            ],
        };
        let topic = Topic::create(target, &plan, self.shape())?;
        let batch = self.shape().batch();
        let batch_bytes = batch.len() as f64;
        let senders = (0..self.connections)
            .map(|number| {
                let partition = i32::try_from(number).unwrap_or_default() % self.partitions;
                Sender::connect(target.address, &topic.name, partition, batch.clone(), self)
            })
            .collect::<Result<_, _>>()?;
        Ok(Box::new(ProduceRun {
            topic,
            senders,
            records: f64::from(self.records),
            batch_bytes,
        }))
    }
}

struct ProduceRun {
    topic: Topic,
    senders: Vec<Sender>,
    records: f64,
    batch_bytes: f64,
}

impl Running for ProduceRun {
    fn round(&mut self, times: Times) -> Result<Sample, Failure> {
        let (begin, end) = times.starting_now();
        let counts: Vec<Result<Counted, Failure>> = std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .senders
                .iter_mut()
                .map(|sender| scope.spawn(move || sender.run(begin, end)))
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().expect("a sender reports, it does not panic")
            };
            threads.into_iter().map(join).collect()
        });
        let mut batches = 0.0;
        let mut latencies = histogram();
        for counted in counts {
            let counted = counted?;
            batches += counted.batches as f64 / counted.seconds;
            merge(&mut latencies, &counted.latencies)?;
        }
        let mut sample = vec![
            ("mb_per_s", batches * self.batch_bytes / 1e6),
            ("records_per_s", batches * self.records),
        ];
        percentiles(&latencies, &mut sample);
        Ok(sample)
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        let Self { topic, senders, .. } = *self;
        drop(senders);
        topic.delete()
    }
}

/// One connection.
struct Sender {
    link: Link,
    frame: RequestFrame,
    answer: ProduceAnswer,
    in_flight: u32,
    /// When each request on its way was sent, by its number.
    sent: std::collections::VecDeque<Instant>,
    next_number: u32,
    /// What is about to be sent.
    out: Vec<u8>,
}

struct Counted {
    batches: u64,
    seconds: f64,
    latencies: hdrhistogram::Histogram<u64>,
}

/// Frames up to this size are put together for one call.
const GATHER_BYTES: usize = 16 << 10;

impl Sender {
    fn connect(
        address: SocketAddr,
        topic: &str,
        partition: i32,
        batch: bytes::Bytes,
        load: &ProduceLoad,
    ) -> Result<Self, Failure> {
        Ok(Self {
            link: Link::connect(address)?,
            frame: RequestFrame::produce(topic, partition, batch),
            answer: ProduceAnswer::new(topic),
            in_flight: load.in_flight,
            sent: std::collections::VecDeque::new(),
            next_number: 0,
            out: Vec::new(),
        })
    }

    /// Keeps `in_flight` requests on their way until `end`, counts what is answered between
    /// `begin` and then, and waits for the rest.
    fn run(&mut self, begin: Instant, end: Instant) -> Result<Counted, Failure> {
        let mut latencies = histogram();
        let mut batches = 0;
        let mut first = None;
        self.send(self.in_flight)?;
        loop {
            let answers = self.receive_some(|now, sent| {
                if first.is_some() {
                    record(&mut latencies, now - sent);
                    batches += 1;
                }
            })?;
            let now = Instant::now();
            if first.is_none() && now >= begin {
                first = Some(now);
            }
            if now >= end {
                while !self.sent.is_empty() {
                    self.receive_some(|_, _| {})?;
                }
                let seconds = first.map_or(0.0, |first| (now - first).as_secs_f64());
                return Ok(Counted {
                    batches,
                    seconds: seconds.max(1e-9),
                    latencies,
                });
            }
            self.send(answers)?;
        }
    }

    fn send(&mut self, count: u32) -> Result<(), Failure> {
        let now = Instant::now();
        for _ in 0..count {
            let frame = self.frame.numbered(self.next_number);
            self.next_number = self.next_number.wrapping_add(1);
            self.sent.push_back(now);
            if frame.len() > GATHER_BYTES {
                self.link.send(frame)?;
            } else {
                self.out.extend_from_slice(frame);
            }
        }
        if !self.out.is_empty() {
            self.link.send(&self.out)?;
            self.out.clear();
        }
        Ok(())
    }

    /// Waits for an answer and takes those that came with it.
    fn receive_some(&mut self, mut each: impl FnMut(Instant, Instant)) -> Result<u32, Failure> {
        let reader = &mut self.link.reader;
        reader.fill(&mut self.link.stream)?;
        let now = Instant::now();
        let mut count = 0;
        while let Some(frame) = reader.next() {
            let oldest = self.next_number.wrapping_sub(self.sent.len() as u32);
            let sent = self.sent.pop_front().ok_or_else(nonsense)?;
            if correlation_id(frame) != Some(oldest) {
                return Err(nonsense());
            }
            self.answer
                .base_offset(frame)
                .map_err(|error| refused("a batch", error))?;
            each(now, sent);
            count += 1;
        }
        Ok(count)
    }
}
