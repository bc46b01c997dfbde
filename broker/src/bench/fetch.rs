//! `odradek bench fetch`: reads what is there, again and again.

use std::time::Instant;

use serde_json::{Map, Value};

use super::figures::{Sample, histogram, percentiles, record};
use super::frames::{BatchShape, FetchAnswer, FetchFrame, ProduceAnswer, RequestFrame, refused};
use super::link::{Link, nonsense};
use super::load::{Load, Running, Target, Times, parameters};
use super::topic::{Topic, TopicPlan};
use crate::failure::Failure;

/// The load.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct FetchLoad {
    /// How much a fetch takes at most.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    pub(super) fetch_bytes: u32,
    /// How much there is to read.
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) fill_mib: u32,
    /// Records in a batch.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) records: u32,
    /// Bytes of a record's value.
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=16_000_000))]
    pub(super) bytes: u32,
}

impl Load for FetchLoad {
    fn bench(&self) -> &'static str {
        "fetch"
    }

    fn parameters(&self) -> Map<String, Value> {
        parameters([
            ("fetch_bytes", self.fetch_bytes.into()),
            ("fill_mib", self.fill_mib.into()),
            ("records", self.records.into()),
            ("bytes", self.bytes.into()),
        ])
    }

    fn title(&self) -> String {
        format!("fetch {} KiB at a time", self.fetch_bytes >> 10)
    }

    fn open(&self, target: &Target) -> Result<Box<dyn Running>, Failure> {
        let shape = BatchShape {
            records: self.records,
            value_bytes: self.bytes,
        };
        let plan = TopicPlan {
            partitions: 1,
            configs: vec![
                ("segment.bytes", (1_u32 << 30).to_string()),
                ("retention.bytes", "-1".to_owned()),
                ("file.delete.delay.ms", "0".to_owned()),
            ],
        };
        let topic = Topic::create(target, &plan, shape)?;
        let records = i64::from(self.records);
        let start = topic.next_offsets.first().copied().unwrap_or_default() - records;
        let mut link = Link::connect(target.address)?;
        let end = fill(
            &mut link,
            &topic.name,
            shape,
            u64::from(self.fill_mib) << 20,
        )?;
        Ok(Box::new(FetchRun {
            frame: FetchFrame::new(&topic.name, 0, 0, self.fetch_bytes),
            answer: FetchAnswer::new(&topic.name),
            batch_bytes: shape.batch().len(),
            records,
            start,
            end,
            next: start,
            link,
            topic,
        }))
    }
}

/// Sends batches until so many bytes are there; the offset behind them.
pub(super) fn fill(
    link: &mut Link,
    topic: &str,
    shape: BatchShape,
    bytes: u64,
) -> Result<i64, Failure> {
    let mut frame = RequestFrame::produce(topic, 0, shape.batch());
    let answer = ProduceAnswer::new(topic);
    let batches = bytes.div_ceil(frame.len() as u64).max(1);
    let mut next = 0;
    for _ in 0..batches {
        link.send(frame.numbered(0))?;
        let base_offset = answer
            .base_offset(link.receive()?)
            .map_err(|error| refused("a batch", error))?;
        next = base_offset + i64::from(shape.records);
    }
    Ok(next)
}

struct FetchRun {
    topic: Topic,
    link: Link,
    frame: FetchFrame,
    answer: FetchAnswer,
    batch_bytes: usize,
    records: i64,
    start: i64,
    end: i64,
    next: i64,
}

impl Running for FetchRun {
    fn round(&mut self, times: Times) -> Result<Sample, Failure> {
        let (begin, end) = times.starting_now();
        let mut latencies = histogram();
        let mut first = None;
        let mut bytes = 0;
        loop {
            let sent = Instant::now();
            let size = self.fetch()?;
            let now = Instant::now();
            if first.is_some() {
                bytes += size;
                record(&mut latencies, now - sent);
            } else if now >= begin {
                first = Some(now);
            }
            if now >= end {
                let seconds = first.map_or(0.0, |first| (now - first).as_secs_f64());
                let rate = bytes as f64 / seconds.max(1e-9);
                let batches = rate / self.batch_bytes as f64;
                let mut sample = vec![
                    ("mb_per_s", rate / 1e6),
                    ("records_per_s", batches * self.records as f64),
                ];
                percentiles(&latencies, &mut sample);
                return Ok(sample);
            }
        }
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.topic.delete()
    }
}

impl FetchRun {
    /// One fetch, and a step ahead; how many bytes of records came.
    fn fetch(&mut self) -> Result<usize, Failure> {
        self.link.send(self.frame.at(self.next))?;
        let frame = self.link.receive()?;
        let records = self
            .answer
            .records(frame)
            .map_err(|error| refused("a fetch", error))?;
        // All batches have one size, so the first says where the last one ends.
        let first = records
            .first_chunk()
            .map(|bytes| i64::from_be_bytes(*bytes));
        let batches = (records.len() / self.batch_bytes) as i64;
        if first != Some(self.next) || batches == 0 {
            return Err(nonsense());
        }
        let size = records.len();
        self.next += batches * self.records;
        if self.next >= self.end {
            self.next = self.start;
        }
        Ok(size)
    }
}
