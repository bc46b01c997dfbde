//! `odradek topic list`.

use serde_json::json;

use crate::failure::Failure;
use crate::output::{Output, OutputFormat};
use crate::session::{ConnectArgs, Session};

/// Lists the topics, one a line.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek topic list
  odradek topic list --output json | jq 'select(.partitions > 1) | .topic'

Exit codes: 0 done, 1 failed, 2 wrong usage.")]
pub(super) struct Args {
    /// How to print: names, or objects with the number of partitions and the id.
    #[arg(long, value_enum, default_value_t)]
    output: OutputFormat,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let session = Session::open(&args.connect)?;
    let mut topics = session.topics(None)?;
    topics.sort_by(|a, b| a.name.cmp(&b.name));
    let mut out = Output::stdout();
    for topic in &topics {
        let name = topic.name.as_deref().unwrap_or_default();
        if args.output == OutputFormat::Json {
            out.json(&json!({
                "topic": name,
                "id": topic.topic_id.to_string(),
                "partitions": topic.partitions.len(),
                "internal": topic.is_internal,
            }))?;
        } else {
            out.line(name)?;
        }
    }
    out.flush()?;
    session.close();
    Ok(())
}
