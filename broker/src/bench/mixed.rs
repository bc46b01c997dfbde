//! `odradek bench mixed`: producers and consumers together for minutes, with retention at work.

use serde_json::{Map, Value};

use super::figures::{Sample, percentiles};
use super::flow::Flow;
use super::frames::BatchShape;
use super::load::{Load, Running, Target, Times, parameters};
use super::load_args::LoadArgs;
use super::process::resident_bytes;
use super::topic::TopicPlan;
use crate::failure::Failure;

/// The load.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct MixedLoad {
    /// Records a second, over all partitions.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(super) rate: u32,
    /// Partitions, each with a producer and a consumer.
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(i32).range(1..=1000))]
    pub(super) partitions: i32,
    /// Records in a batch.
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) records: u32,
    /// Bytes of a record's value.
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(super) bytes: u32,
    /// Size of a segment; four of them are kept.
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) segment_mib: u32,
}

/// Runs the command.
pub(super) fn run(args: &LoadArgs<MixedLoad>) -> Result<(), Failure> {
    let figures = args.run()?;
    match figures.spread("lost_records") {
        Some((_, most)) if most > 0.0 => Err(Failure::failed(
            "records that were acknowledged did not reach their consumer",
        )),
        _ => Ok(()),
    }
}

impl Load for MixedLoad {
    fn bench(&self) -> &'static str {
        "mixed"
    }

    fn parameters(&self) -> Map<String, Value> {
        parameters([
            ("rate", self.rate.into()),
            ("partitions", self.partitions.into()),
            ("records", self.records.into()),
            ("bytes", self.bytes.into()),
            ("segment_mib", self.segment_mib.into()),
        ])
    }

    fn title(&self) -> String {
        format!(
            "mixed, {} records a second of {} B over {} partitions",
            self.rate, self.bytes, self.partitions
        )
    }

    fn open(&self, target: &Target) -> Result<Box<dyn Running>, Failure> {
        let segment_bytes = u64::from(self.segment_mib) << 20;
        let plan = TopicPlan {
            partitions: self.partitions,
            configs: vec![
                ("segment.bytes", segment_bytes.to_string()),
                ("retention.bytes", (4 * segment_bytes).to_string()),
                ("file.delete.delay.ms", "0".to_owned()),
            ],
        };
        let shape = BatchShape {
            records: self.records,
            value_bytes: self.bytes,
        };
        let batches = f64::from(self.rate) / f64::from(self.records);
        let per_second = batches / f64::from(self.partitions);
        Ok(Box::new(MixedRun {
            flow: Flow::open(target, &plan, shape, per_second)?,
            pid: target.pid,
        }))
    }
}

struct MixedRun {
    flow: Flow,
    pid: Option<u32>,
}

impl Running for MixedRun {
    fn round(&mut self, times: Times) -> Result<Sample, Failure> {
        let found = self.flow.run(times)?;
        let seconds = times.measure.as_secs_f64().max(1e-9);
        let mut sample = vec![("records_per_s", found.received as f64 / seconds)];
        percentiles(&found.latencies, &mut sample);
        sample.push(("unsent_records", found.unsent as f64));
        sample.push(("lost_records", found.lost as f64));
        if let Some(bytes) = self.pid.and_then(resident_bytes) {
            sample.push(("resident_mb", bytes as f64 / 1e6));
        }
        Ok(sample)
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.flow.close()
    }
}
