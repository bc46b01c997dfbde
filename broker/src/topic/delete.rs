//! `odradek topic delete`.

use odradek_core::client::AdminTarget;
use odradek_core::wire::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use odradek_core::wire::{ErrorCode, ResponseBody};

use crate::advice::refused;
use crate::failure::Failure;
use crate::output::{Output, OutputFormat};
use crate::session::{ConnectArgs, Session};

/// Deletes topics with everything in them. There is no way back.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek topic delete orders
  odradek topic delete a b c --if-exists

Exit codes: 0 deleted, 1 failed, 2 wrong usage.")]
pub(super) struct Args {
    /// Names of the topics.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// A topic that does not exist is no error.
    #[arg(long)]
    if_exists: bool,
    /// How to print.
    #[arg(long, value_enum, default_value_t)]
    output: OutputFormat,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let session = Session::open(&args.connect)?;
    // Which of the two lists is sent depends on the version that the broker serves.
    let request = DeleteTopicsRequest {
        topics: args
            .names
            .iter()
            .map(|name| DeleteTopicState {
                name: Some(name.as_str().into()),
                ..Default::default()
            })
            .collect(),
        topic_names: args.names.iter().map(|name| name.as_str().into()).collect(),
        timeout_ms: args.connect.timeout_ms().cast_signed(),
        ..Default::default()
    };
    let ResponseBody::DeleteTopics(response) =
        session.ask(AdminTarget::Controller, request, "cannot delete topics")?
    else {
        return Err(Session::unexpected_answer());
    };
    let mut out = Output::stdout();
    let mut failures = Vec::new();
    for result in &response.responses {
        let name = result.name.as_deref().unwrap_or_default();
        let deleted = result.error_code == ErrorCode::NONE;
        let missing = result.error_code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        let fine = deleted || (missing && args.if_exists);
        if !fine {
            let what = format!("cannot delete '{name}'");
            let message = result.error_message.as_deref();
            failures.push(refused(&what, result.error_code, message));
        } else {
            out.deletion(args.output, "topic", name, deleted)?;
        }
    }
    out.flush()?;
    session.close();
    Failure::from_list(failures)
}
