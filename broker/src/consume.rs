//! `odradek consume`: prints records.

mod format;
mod group;
mod start;
mod time;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;
use odradek_core::client::{
    ClientError, ConsumerRecord, OffsetReset, OffsetSpec, Polled, StartAt, TopicPartition,
};
use odradek_core::ids::Offset;
use odradek_io::client::Consumer;

use crate::advice;
use crate::escape;
use crate::failure::Failure;
use crate::output::{self, Output};
use crate::progress::{Progress, Unit};
use crate::session::{ConnectArgs, Session};
use format::Format;
use start::From;
pub(crate) use time::parse_time;

/// Prints the records of topics, and waits for more.
///
/// Reads all partitions; records of one partition come in their order. With --group the members of the
/// group share them, each goes on where the group has committed, and what is printed is committed: by
/// itself every few seconds and when the command ends, be it by Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek consume orders                         new records, until Ctrl-C
  odradek consume orders --from beginning --exit-at-end
  odradek consume orders --from -10 --count 10   the last ten of each partition, ten in all
  odradek consume orders --from @2026-01-31T08:00:00Z --partition 2
  odradek consume orders --from @-1h --format json | jq .value
  odradek consume orders --from beginning --format '%p:%o %k=%s\\n'
  odradek consume orders payments --group readers --from beginning
  odradek consume orders --group readers --protocol consumer --instance-id reader-1
  odradek consume --group readers --topic-regex 'orders-.*'

Templates (--format with a %): %t topic, %p partition, %o offset, %T timestamp in milliseconds,
%k key, %s value, %h headers, %K and %S lengths of key and value (-1 if null), %% a percent sign;
\\n, \\t, \\r, \\0, \\\\ and \\xNN are understood.

JSON: an object a line. Bytes that are not UTF-8 are base64 under key_base64 or value_base64.

Exit codes: 0 done, or the reader of the output is gone; 1 failed; 2 wrong usage.")]
pub(crate) struct Args {
    /// The topics.
    #[arg(value_name = "TOPIC", required_unless_present = "topic_regex")]
    topics: Vec<String>,
    /// Where to begin: beginning, end, an offset, -N (N before the end), or @TIME: milliseconds, a
    /// date with or without time (UTC unless it says otherwise), or an age such as @-90m (s, m, h,
    /// d). With --group, where to begin what the group has not read yet: beginning or end.
    #[arg(long, short = 'o', value_name = "WHERE", default_value = "end")]
    #[arg(allow_hyphen_values = true)]
    from: From,
    /// Read this partition only; may be repeated.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    #[arg(conflicts_with = "group")]
    partition: Vec<i32>,
    /// End after so many records.
    #[arg(long, short, value_name = "N")]
    count: Option<u64>,
    /// End after what was there when the command began.
    #[arg(long, short, conflicts_with = "group")]
    exit_at_end: bool,
    /// How to print: text (the value and a line end), json, or a template.
    #[arg(long, short, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// In text, print the key and this before the value; \t, \0, \xNN are understood.
    #[arg(long, short = 'K', value_name = "TEXT", value_parser = text)]
    key_separator: Option<Bytes>,
    /// In text and templates, print this for a null key or value.
    #[arg(long, value_name = "TEXT", default_value = "")]
    null_marker: String,
    #[command(flatten)]
    group: group::GroupArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// How often to look whether the reader of the output is still there.
const POLL: Duration = Duration::from_millis(250);

fn text(text: &str) -> Result<Bytes, String> {
    escape::unescape(text).map(Bytes::from)
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.group.is_given() {
        return group::run(args);
    }
    let session = Session::open_with(&args.connect, |config| {
        // A position that is not there was asked for by the user, or its records went away
        // meanwhile. Going on elsewhere would hide it.
        config.consumer.auto_offset_reset = OffsetReset::None;
        config.consumer.enable_partition_eof = args.exit_at_end;
    })?;
    let partitions = partitions(args, &session)?;
    let ends = if args.exit_at_end {
        start::look_up(&session, &partitions, OffsetSpec::Latest)?
    } else {
        BTreeMap::new()
    };
    let assignment = start::positions(&session, &partitions, args.from)?;
    if args.exit_at_end && args.from == From::End {
        return Ok(());
    }
    let consumer = session.consumer();
    let mut printer = Printer::new(args, session.timeout());
    printer.open = partitions.iter().cloned().collect();
    printer.ends = ends;
    // A partition that is empty at the beginning has nothing to wait for.
    printer
        .open
        .retain(|partition| printer.ends.get(partition) != Some(&Offset(0)) || !args.exit_at_end);
    consumer.assign(assignment);
    let result = session.block_on(printer.run(&consumer));
    printer.progress.clear();
    // What was read before a failure is printed.
    let flushed = printer.out.flush();
    session.close();
    result.and(flushed)
}

/// The partitions to read.
fn partitions(args: &Args, session: &Session) -> Result<Vec<TopicPartition>, Failure> {
    let wanted: BTreeSet<i32> = args.partition.iter().copied().collect();
    let mut read = Vec::new();
    for topic in &args.topics {
        let known = session.partitions(topic)?;
        if let Some(unknown) = wanted.iter().find(|wanted| !known.contains(wanted)) {
            return Err(Failure::failed(format!(
                "'{topic}' has no partition {unknown}; its partitions are 0 to {}",
                known.len().saturating_sub(1)
            )));
        }
        let of_it = known
            .into_iter()
            .filter(|partition| wanted.is_empty() || wanted.contains(partition));
        read.extend(of_it.map(|partition| TopicPartition::new(topic, partition)));
    }
    Ok(read)
}

/// Prints what is polled until there is a reason to end.
struct Printer<'a> {
    args: &'a Args,
    out: Output,
    printed: u64,
    /// With --exit-at-end, the partitions that are not at their end yet.
    open: BTreeSet<TopicPartition>,
    /// With --exit-at-end, where each partition ends.
    ends: BTreeMap<TopicPartition, Offset>,
    /// Since when a partition has only had errors.
    failing: BTreeMap<TopicPartition, Instant>,
    timeout: Duration,
    /// When something last came.
    heard: Instant,
    progress: Progress,
}

impl<'a> Printer<'a> {
    fn new(args: &'a Args, timeout: Duration) -> Self {
        Self {
            args,
            out: Output::stdout(),
            printed: 0,
            open: BTreeSet::new(),
            ends: BTreeMap::new(),
            failing: BTreeMap::new(),
            timeout,
            heard: Instant::now(),
            progress: Progress::new("read", Unit::Records, args.count),
        }
    }

    async fn run(&mut self, consumer: &Consumer) -> Result<(), Failure> {
        while !self.is_done() {
            let items = consumer.poll(POLL).await;
            if items.is_empty() {
                self.check_silence()?;
                if Output::is_closed() {
                    return Err(Failure::OutputClosed);
                }
                continue;
            }
            self.heard = Instant::now();
            for item in items {
                self.take(item)?;
                if self.is_done() {
                    break;
                }
            }
            self.out.flush()?;
            if !output::stdout_is_terminal() {
                self.progress.update(self.printed);
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.args.count.is_some_and(|count| self.printed >= count)
            || (self.args.exit_at_end && self.open.is_empty())
    }

    fn take(&mut self, item: Polled) -> Result<(), Failure> {
        match item {
            Polled::Record(record) => self.record(&record),
            Polled::EndOfPartition { partition, .. } => {
                self.failing.remove(&partition);
                self.open.remove(&partition);
                Ok(())
            }
            Polled::Error { partition, error } => self.error(partition, &error),
            Polled::Assigned(partitions) => self.tell("assigned", &partitions),
            Polled::Revoked(partitions) => self.tell("gives up", &partitions),
            Polled::Lost(partitions) => self.tell("lost", &partitions),
            Polled::GroupFailed(error) => Err(advice::failed("cannot be in the group", &error)),
        }
    }

    /// Says what becomes of partitions, to a person.
    fn tell(&mut self, what: &str, partitions: &[TopicPartition]) -> Result<(), Failure> {
        for partition in partitions {
            self.failing.remove(partition);
        }
        if output::stderr_is_terminal() {
            self.progress.clear();
            let list: Vec<String> = partitions.iter().map(ToString::to_string).collect();
            output::note(&format!("odradek: {what}: {}", list.join(", ")));
        }
        Ok(())
    }

    fn record(&mut self, record: &ConsumerRecord) -> Result<(), Failure> {
        if !self.failing.is_empty() || !self.ends.is_empty() {
            let partition = TopicPartition {
                topic: record.topic.clone(),
                partition: record.partition,
            };
            self.failing.remove(&partition);
            if let Some(end) = self.ends.get(&partition) {
                if record.offset.plus(1) >= *end {
                    self.open.remove(&partition);
                }
                // It came after the command began.
                if record.offset >= *end {
                    return Ok(());
                }
            }
        }
        let null = self.args.null_marker.as_bytes();
        let separator = self.args.key_separator.as_deref();
        self.args
            .format
            .write(&mut self.out, record, separator, null)?;
        self.printed += 1;
        Ok(())
    }

    /// Most errors pass: a broker restarts. One that lasts, or that no time will heal, ends it.
    fn error(&mut self, partition: TopicPartition, error: &ClientError) -> Result<(), Failure> {
        let what = format!("cannot read {partition}");
        let topic = partition.topic.clone();
        let since = *self.failing.entry(partition).or_insert_with(Instant::now);
        let lasts = since.elapsed() > self.timeout;
        match error {
            ClientError::OffsetOutOfRange { .. } => Err(Failure::failed(format!(
                "{what}: {error}; `odradek topic describe {topic}` shows what is there, or begin \
                 with --from beginning"
            ))),
            ClientError::Corrupt { .. } => Err(advice::failed(&what, error)),
            _ if lasts => Err(advice::failed(&what, error)),
            _ => {
                if output::stderr_is_terminal() {
                    self.progress.clear();
                    output::note(&format!("odradek: {what}: {error}; trying again"));
                }
                Ok(())
            }
        }
    }

    /// Where an end is promised, a broker that says nothing at all must not be waited for for ever.
    fn check_silence(&self) -> Result<(), Failure> {
        if !self.args.exit_at_end || self.heard.elapsed() <= self.timeout {
            return Ok(());
        }
        let partition = self.open.first().map(ToString::to_string);
        Err(Failure::failed(format!(
            "nothing came of {} for {} s; is the broker alive? --timeout waits longer",
            partition.unwrap_or_default(),
            self.timeout.as_secs()
        )))
    }
}

/// Where each partition begins.
type Assignment = Vec<(TopicPartition, StartAt)>;
