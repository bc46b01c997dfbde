//! `odradek produce`: sends lines.

mod lines;

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::sync::Arc;

use bytes::Bytes;
use clap::ValueEnum;
use odradek_core::client::{Acks, Outcome, ProducerRecord, TopicName};
use odradek_core::record::Compression;
use odradek_io::client::Delivery;
use serde_json::json;
use tokio::sync::mpsc;

use crate::advice;
use crate::escape;
use crate::failure::Failure;
use crate::output::{self, Output, OutputFormat};
use crate::progress::{Progress, Unit};
use crate::session::{ConnectArgs, Session};
use lines::{Chunk, LineReader};

/// Sends records to a topic: one a line of standard input.
///
/// A line is the value. With --key-separator, what comes before the separator is the key; a line
/// without one has a null key. With --format json a line is an object as `odradek consume --format
/// json` prints it: key, value (or key_base64, value_base64), headers and timestamp are taken from
/// it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  echo hello | odradek produce greetings
  odradek produce greetings                      reads lines from the terminal until Ctrl-D
  printf 'k1:v1\\nk2:v2\\n' | odradek produce orders --key-separator :
  odradek produce orders --compression zstd --header source=import < orders.txt
  odradek consume orders --from beginning --exit-at-end --format json |
      odradek produce copy --format json

Exit codes: 0 everything was acknowledged, 1 something was not, 2 wrong usage.")]
pub(crate) struct Args {
    /// The topic; the broker may create it (auto.create.topics.enable).
    topic: String,
    /// What a line is.
    #[arg(long, value_enum, default_value_t)]
    format: LineFormat,
    /// What separates key from value; \t, \n, \0, \xNN are understood.
    #[arg(long, short = 'K', value_name = "TEXT", value_parser = separator)]
    key_separator: Option<Bytes>,
    /// The key of every record.
    #[arg(long, short, value_name = "TEXT", conflicts_with = "key_separator")]
    key: Option<String>,
    /// A header of every record; without =VALUE its value is null. May be repeated.
    #[arg(long, short = 'H', value_name = "KEY=VALUE")]
    header: Vec<String>,
    /// A key or value that is this is null.
    #[arg(long, value_name = "TEXT")]
    null_marker: Option<String>,
    /// The partition of every record [default: by the hash of the key].
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// With --format json, take the partition from each line, too.
    #[arg(long, conflicts_with = "partition")]
    keep_partitions: bool,
    /// How to compress batches.
    #[arg(long, short = 'z', value_enum, default_value_t)]
    compression: CompressionArg,
    /// Who must have a record before it counts as sent. With all, the producer is idempotent: whatever
    /// is retried, a record is there once. With 1 or 0 it is not, as with Kafka's producer.
    #[arg(long, value_enum, default_value_t)]
    acks: AcksArg,
    /// The largest line, and request, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    max_bytes: u32,
    /// Print what was sent where, when all is done.
    #[arg(long, value_enum, default_value_t)]
    output: OutputFormat,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// What a line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LineFormat {
    /// The value, perhaps with a key before it.
    #[default]
    Text,
    /// An object with key, value, headers, timestamp.
    Json,
}

/// [`Compression`] on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum CompressionArg {
    #[default]
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

/// [`Acks`] on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum AcksArg {
    /// All in-sync replicas.
    #[default]
    #[value(alias = "-1")]
    All,
    /// The leader.
    #[value(name = "1")]
    Leader,
    /// Nobody: sent is all that is known.
    #[value(name = "0")]
    None,
}

fn separator(text: &str) -> Result<Bytes, String> {
    let bytes = escape::unescape(text)?;
    if bytes.is_empty() {
        return Err("an empty separator separates nothing".to_owned());
    }
    Ok(bytes.into())
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let session = Session::open_with(&args.connect, |config| {
        config.allow_auto_create_topics = true;
        let producer = &mut config.producer;
        producer.acks = args.acks.into();
        producer.compression = args.compression.into();
        // Room for the lengths and headers around the longest line.
        producer.max_request_size = args.max_bytes as usize + (64 << 10);
        producer.buffer_memory = producer.buffer_memory.max(4 * producer.max_request_size);
        producer.batch_size = 128 << 10;
        producer.delivery_timeout_ms = args.connect.timeout_ms().saturating_mul(4).max(120_000);
    })?;
    if io::stdin().is_terminal() && output::stderr_is_terminal() {
        output::note("Type records, one a line; Ctrl-D ends.");
    }
    let lines = LineReader::start(args.max_bytes as usize)
        .map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
    let mut sender = Sender::new(args, &session);
    session.block_on(sender.run(lines));
    sender.progress.clear();
    let result = sender.finish();
    session.close();
    result
}

/// Sends records and keeps count of what became of them.
struct Sender<'a> {
    args: &'a Args,
    topic: TopicName,
    headers: Vec<(Bytes, Option<Bytes>)>,
    producer: odradek_io::client::Producer,
    /// Records on their way, by their line.
    pending: VecDeque<(u64, Delivery)>,
    /// Number of the last line.
    line: u64,
    sent: u64,
    failed: u64,
    /// The first thing that went wrong.
    first_failure: Option<String>,
    /// Records and offsets by partition.
    partitions: BTreeMap<i32, Sent>,
    progress: Progress,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    records: u64,
    offsets: Option<(i64, i64)>,
}

impl<'a> Sender<'a> {
    fn new(args: &'a Args, session: &Session) -> Self {
        let header = |text: &String| match text.split_once('=') {
            Some((key, value)) => (owned(key), Some(owned(value))),
            None => (owned(text), None),
        };
        Self {
            args,
            topic: Arc::from(args.topic.as_str()),
            headers: args.header.iter().map(header).collect(),
            producer: session.producer(),
            pending: VecDeque::new(),
            line: 0,
            sent: 0,
            failed: 0,
            first_failure: None,
            partitions: BTreeMap::new(),
            progress: Progress::new("sent", Unit::Records, None),
        }
    }

    /// Until the input ends or something goes wrong; then until all has its outcome.
    async fn run(&mut self, mut lines: mpsc::Receiver<Chunk>) {
        while self.first_failure.is_none() {
            tokio::select! {
                chunk = lines.recv() => match chunk {
                    Some(Ok(lines)) => self.send_all(lines).await,
                    Some(Err(error)) => {
                        self.fail(self.line + 1, &error.to_string());
                    }
                    None => break,
                },
                (line, outcome) = next_outcome(&mut self.pending) => self.told(line, outcome),
            }
        }
        self.producer.flush().await;
        while !self.pending.is_empty() {
            let (line, outcome) = next_outcome(&mut self.pending).await;
            self.told(line, outcome);
        }
    }

    async fn send_all(&mut self, lines: Vec<Bytes>) {
        for line in lines {
            self.line += 1;
            let record = match self.record(line) {
                Ok(record) => record,
                Err(why) => return self.fail(self.line, &why),
            };
            let delivery = self.producer.send(record).await;
            self.pending.push_back((self.line, delivery));
        }
    }

    fn record(&self, line: Bytes) -> Result<ProducerRecord, String> {
        let args = self.args;
        let mut record = match args.format {
            LineFormat::Json => lines::from_json(&self.topic, &line)?,
            LineFormat::Text => {
                let separator = args.key_separator.as_deref();
                let null = args.null_marker.as_deref().map(str::as_bytes);
                lines::from_text(&self.topic, line, separator, null)
            }
        };
        if let Some(key) = &args.key {
            record.key = Some(owned(key));
        }
        if !args.keep_partitions {
            record.partition = args.partition;
        }
        record.headers.extend(self.headers.iter().cloned());
        Ok(record)
    }

    fn told(&mut self, line: u64, outcome: Outcome) {
        match outcome {
            Outcome::Ok {
                partition, offset, ..
            } => {
                self.sent += 1;
                self.progress.update(self.sent);
                let sent = self.partitions.entry(partition).or_default();
                sent.records += 1;
                if let Some(offset) = offset {
                    let (first, last) = sent.offsets.unwrap_or((offset.0, offset.0));
                    sent.offsets = Some((first.min(offset.0), last.max(offset.0)));
                }
            }
            Outcome::Failed(error) => {
                let what = format!("not sent to '{}'", self.args.topic);
                self.fail(line, &advice::explain(&what, &error));
            }
            Outcome::Unknown(error) => {
                let what = format!("it is not known whether '{}' has it", self.args.topic);
                self.fail(line, &advice::explain(&what, &error));
            }
        }
    }

    fn fail(&mut self, line: u64, why: &str) {
        self.failed += 1;
        self.first_failure
            .get_or_insert_with(|| format!("line {line}: {why}"));
    }

    fn finish(&self) -> Result<(), Failure> {
        let mut out = Output::stdout();
        if self.args.output == OutputFormat::Json {
            let partition = |(partition, sent): (&i32, &Sent)| {
                json!({
                    "partition": partition,
                    "records": sent.records,
                    "first_offset": sent.offsets.map(|(first, _)| first),
                    "last_offset": sent.offsets.map(|(_, last)| last),
                })
            };
            out.json(&json!({
                "topic": self.args.topic,
                "records": self.sent,
                "failed": self.failed,
                "partitions": self.partitions.iter().map(partition).collect::<Vec<_>>(),
            }))?;
            out.flush()?;
        } else if output::stderr_is_terminal() {
            let records = output::counted(self.sent, "record", "records");
            output::note(&format!("{records} sent to {}", self.args.topic));
        }
        match &self.first_failure {
            None => Ok(()),
            Some(why) if self.failed > 1 => Err(Failure::failed(format!(
                "{why} ({} acknowledged, {} not)",
                output::counted(self.sent, "record", "records"),
                self.failed
            ))),
            Some(why) => Err(Failure::failed(format!(
                "{why} ({} acknowledged)",
                output::counted(self.sent, "record", "records")
            ))),
        }
    }
}

/// The outcome of the oldest record on its way; never, if there is none.
async fn next_outcome(pending: &mut VecDeque<(u64, Delivery)>) -> (u64, Outcome) {
    let Some((line, delivery)) = pending.front_mut() else {
        return std::future::pending().await;
    };
    let (line, outcome) = (*line, delivery.await);
    pending.pop_front();
    (line, outcome)
}

fn owned(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

impl From<CompressionArg> for Compression {
    fn from(arg: CompressionArg) -> Self {
        match arg {
            CompressionArg::None => Self::None,
            CompressionArg::Gzip => Self::Gzip,
            CompressionArg::Snappy => Self::Snappy,
            CompressionArg::Lz4 => Self::Lz4,
            CompressionArg::Zstd => Self::Zstd,
        }
    }
}

impl From<AcksArg> for Acks {
    fn from(arg: AcksArg) -> Self {
        match arg {
            AcksArg::All => Self::All,
            AcksArg::Leader => Self::Leader,
            AcksArg::None => Self::None,
        }
    }
}
