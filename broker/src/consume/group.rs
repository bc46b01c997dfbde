//! `odradek consume --group`: reads as a member of a group.
//!
//! What is committed was handed to the output before: a poll says that everything which came before it
//! is written. If the output ends in the middle, the member goes back to where the last poll began.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;
use odradek_core::client::{
    Assignor, GroupConfig, GroupProtocol, OffsetReset, Polled, StartAt, TopicName, TopicPartition,
};
use odradek_core::ids::Offset;
use odradek_io::client::Consumer;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::start::From;
use super::{Args, POLL, Printer};
use crate::failure::Failure;
use crate::output::Output;
use crate::session::Session;

/// In which group to read, and how.
#[derive(Debug, clap::Args)]
pub(super) struct GroupArgs {
    /// Read as a member of this group: its members share the partitions.
    #[arg(long, short, value_name = "GROUP")]
    group: Option<String>,
    /// Read all topics whose whole name this regular expression matches, those too that are made
    /// later, instead of named ones.
    #[arg(
        long,
        value_name = "REGEX",
        requires = "group",
        conflicts_with = "topics"
    )]
    topic_regex: Option<String>,
    /// How the group divides partitions: one of its members does, or the broker (KIP-848). Once a
    /// member says `consumer` the broker does it for all, also for those that say `classic`.
    #[arg(long, value_enum, default_value_t, requires = "group")]
    protocol: ProtocolArg,
    /// The name of a static member, which keeps its partitions while it restarts. No other member of
    /// the group may have it.
    #[arg(long, value_name = "ID", requires = "group")]
    instance_id: Option<String>,
    /// In which way partitions are divided; classic: range or cooperative-sticky, consumer: uniform
    /// or range. As Kafka's clients do if nothing is said.
    #[arg(long, value_enum, requires = "group")]
    assignor: Option<AssignorArg>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ProtocolArg {
    #[default]
    Classic,
    Consumer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AssignorArg {
    Range,
    CooperativeSticky,
    Uniform,
}

/// Most records of a poll.
const POLL_RECORDS: usize = 500;

impl GroupArgs {
    /// The expression that chooses the topics.
    pub(super) const fn topic_regex(&self) -> Option<&String> {
        self.topic_regex.as_ref()
    }

    pub(super) const fn is_given(&self) -> bool {
        self.group.is_some()
    }

    fn config(&self) -> Result<GroupConfig, Failure> {
        let mut config = GroupConfig::new(self.group.clone().unwrap_or_default());
        config.instance_id.clone_from(&self.instance_id);
        match (self.protocol, self.assignor) {
            (ProtocolArg::Classic, None) => {}
            (ProtocolArg::Classic, Some(AssignorArg::Range)) => {
                config.assignors = vec![Assignor::Range];
            }
            (ProtocolArg::Classic, Some(AssignorArg::CooperativeSticky)) => {
                config.assignors = vec![Assignor::CooperativeSticky];
            }
            (ProtocolArg::Consumer, None) => config.protocol = GroupProtocol::Consumer,
            (ProtocolArg::Consumer, Some(AssignorArg::Uniform)) => {
                config.protocol = GroupProtocol::Consumer;
                config.remote_assignor = Some("uniform".to_owned());
            }
            (ProtocolArg::Consumer, Some(AssignorArg::Range)) => {
                config.protocol = GroupProtocol::Consumer;
                config.remote_assignor = Some("range".to_owned());
            }
            (ProtocolArg::Classic, Some(AssignorArg::Uniform)) => {
                return Err(Failure::usage(
                    "uniform is an assignor of --protocol consumer; the classic one has range and \
                     cooperative-sticky",
                ));
            }
            (ProtocolArg::Consumer, Some(AssignorArg::CooperativeSticky)) => {
                return Err(Failure::usage(
                    "cooperative-sticky is an assignor of --protocol classic; the other one has \
                     uniform and range",
                ));
            }
        }
        Ok(config)
    }
}

/// Runs the command as a member of a group.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = args.group.config()?;
    let reset = match args.from {
        From::Beginning => OffsetReset::Earliest,
        From::End => OffsetReset::Latest,
        _ => {
            return Err(Failure::usage(
                "with --group, --from says where to begin what the group has not read yet: \
                 beginning or end. `odradek group reset-offsets` moves a group elsewhere",
            ));
        }
    };
    let session = Session::open_with(&args.connect, |client| {
        client.consumer.auto_offset_reset = reset;
        client.group = Some(config);
    })?;
    for topic in &args.topics {
        session.partitions(topic)?;
    }
    let topics: Vec<TopicName> = args
        .topics
        .iter()
        .map(|name| name.as_str().into())
        .collect();
    let mut consumer = session.consumer();
    let mut printer = Printer::new(args, session.timeout());
    let result = session.block_on(async {
        let mut stop = Stop::listen()?;
        match args.group.topic_regex() {
            Some(expression) => consumer.subscribe_pattern(expression),
            None => consumer.subscribe(&topics),
        }
        printer.run_in_group(&mut consumer, &mut stop).await
    });
    printer.progress.clear();
    session.close_group();
    result
}

/// Ctrl-C and SIGTERM, after which the member leaves.
struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    fn listen() -> Result<Self, Failure> {
        let failed = |error| Failure::failed(format!("cannot listen for signals: {error}"));
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
        })
    }

    async fn requested(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

impl Printer<'_> {
    async fn run_in_group(
        &mut self,
        consumer: &mut Consumer,
        stop: &mut Stop,
    ) -> Result<(), Failure> {
        let mut is_stopped = false;
        while !self.is_done() && !is_stopped {
            // What is handed out and not printed would be committed all the same.
            let left = self
                .args
                .count
                .map_or(u64::MAX, |count| count - self.printed);
            consumer.max_poll_records =
                usize::try_from(left).map_or(POLL_RECORDS, |left| left.min(POLL_RECORDS));
            let items = tokio::select! {
                items = consumer.poll(POLL) => items,
                () = stop.requested() => {
                    is_stopped = true;
                    // A poll that was broken off may have been answered.
                    consumer.poll(Duration::ZERO).await
                }
            };
            if items.is_empty() {
                if Output::is_closed() {
                    return Err(Failure::OutputClosed);
                }
                continue;
            }
            let began = beginnings(&items);
            if let Err(failure) = self.print(items) {
                for (partition, offset) in began {
                    consumer.seek(partition, StartAt::Offset(offset));
                }
                return Err(failure);
            }
        }
        Ok(())
    }

    fn print(&mut self, items: Vec<Polled>) -> Result<(), Failure> {
        for item in items {
            self.take(item)?;
        }
        self.out.flush()?;
        if !crate::output::stdout_is_terminal() {
            self.progress.update(self.printed);
        }
        Ok(())
    }
}

/// The first offset of each partition among what was polled.
fn beginnings(items: &[Polled]) -> BTreeMap<TopicPartition, Offset> {
    let mut began = BTreeMap::new();
    for item in items {
        if let Polled::Record(record) = item {
            let partition = TopicPartition {
                topic: record.topic.clone(),
                partition: record.partition,
            };
            began.entry(partition).or_insert(record.offset);
        }
    }
    began
}
