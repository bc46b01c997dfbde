//! `odradek topic create`.

use odradek_core::client::AdminTarget;
use odradek_core::wire::messages::create_topics::{
    CreatableTopic, CreatableTopicConfig, CreatableTopicResult, CreateTopicsRequest,
};
use odradek_core::wire::{ErrorCode, ResponseBody};
use serde_json::json;

use crate::advice::refused;
use crate::failure::Failure;
use crate::output::{Output, OutputFormat, counted};
use crate::serve::key_value;
use crate::session::{ConnectArgs, Session};

/// Creates topics.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek topic create orders
  odradek topic create orders --partitions 6 --config retention.ms=86400000
  odradek topic create a b c --if-not-exists
  odradek topic create orders --partitions 6 --validate-only

Exit codes: 0 created, 1 failed, 2 wrong usage.")]
pub(super) struct Args {
    /// Names of the topics.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// How many partitions each has [default: the broker's num.partitions].
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// Set a config; may be repeated.
    #[arg(long, short, value_name = "KEY=VALUE", value_parser = key_value)]
    config: Vec<(String, String)>,
    /// A topic that exists already is no error, whatever its partitions and configs.
    #[arg(long)]
    if_not_exists: bool,
    /// Only say whether it would work.
    #[arg(long)]
    validate_only: bool,
    /// How to print.
    #[arg(long, value_enum, default_value_t)]
    output: OutputFormat,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let session = Session::open(&args.connect)?;
    let request = CreateTopicsRequest {
        topics: args.names.iter().map(|name| topic(args, name)).collect(),
        timeout_ms: args.connect.timeout_ms().cast_signed(),
        validate_only: args.validate_only,
        ..Default::default()
    };
    let ResponseBody::CreateTopics(response) =
        session.ask(AdminTarget::Controller, request, "cannot create topics")?
    else {
        return Err(Session::unexpected_answer());
    };
    let mut out = Output::stdout();
    let mut failures = Vec::new();
    for result in &response.topics {
        let exists = result.error_code == ErrorCode::TOPIC_ALREADY_EXISTS && args.if_not_exists;
        if result.error_code == ErrorCode::NONE || exists {
            told(args, &mut out, result, exists)?;
        } else {
            let what = format!("cannot create '{}'", result.name.as_str());
            let message = result.error_message.as_deref();
            failures.push(refused(&what, result.error_code, message));
        }
    }
    out.flush()?;
    session.close();
    Failure::from_list(failures)
}

fn topic(args: &Args, name: &str) -> CreatableTopic {
    let config = |(name, value): &(String, String)| CreatableTopicConfig {
        name: name.as_str().into(),
        value: Some(value.as_str().into()),
        ..Default::default()
    };
    CreatableTopic {
        name: name.into(),
        num_partitions: args.partitions.unwrap_or(-1),
        replication_factor: -1,
        configs: args.config.iter().map(config).collect(),
        ..Default::default()
    }
}

fn told(
    args: &Args,
    out: &mut Output,
    result: &CreatableTopicResult,
    existed: bool,
) -> Result<(), Failure> {
    let name = result.name.as_str();
    let partitions = result.num_partitions;
    if args.output == OutputFormat::Json {
        return out.json(&json!({
            "topic": name,
            "id": result.topic_id.to_string(),
            "partitions": partitions,
            "created": !existed && !args.validate_only,
            "existed": existed,
        }));
    }
    if existed {
        out.line(format_args!("{name}: exists already"))
    } else if args.validate_only {
        out.line(format_args!("{name}: would be created"))
    } else if partitions < 0 {
        out.line(format_args!("{name}: created"))
    } else {
        let partitions = counted(partitions.unsigned_abs().into(), "partition", "partitions");
        out.line(format_args!("{name}: created, {partitions}"))
    }
}
