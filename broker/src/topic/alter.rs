//! `odradek topic alter`.

use odradek_core::client::AdminTarget;
use odradek_core::wire::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsTopic,
};
use odradek_core::wire::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use odradek_core::wire::{ErrorCode, ResponseBody};
use serde_json::json;

use crate::advice::refused;
use crate::failure::Failure;
use crate::output::{Output, OutputFormat};
use crate::serve::key_value;
use crate::session::{ConnectArgs, Session};

/// Kafka's code for a topic among what has configs.
pub(super) const TOPIC_RESOURCE: i8 = 2;
const SET: i8 = 0;
const DELETE: i8 = 1;

/// Changes a topic's configs, or gives it more partitions.
///
/// Configs that are not named stay as they are. The number of partitions can only grow, and with
/// it changes which partition a key goes to.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek topic alter orders --config retention.ms=86400000 --config max.message.bytes=2000000
  odradek topic alter orders --unset retention.ms
  odradek topic alter orders --partitions 12

Exit codes: 0 changed, 1 failed, 2 wrong usage.")]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true)
    .args(["partitions", "config", "unset"])))]
pub(super) struct Args {
    /// Name of the topic.
    name: String,
    /// How many partitions it shall have.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// Set a config; may be repeated.
    #[arg(long, short, value_name = "KEY=VALUE", value_parser = key_value)]
    config: Vec<(String, String)>,
    /// Let a config have its default again; may be repeated.
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,
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
    let mut changes = Vec::new();
    // Configs first: they are checked as a whole, so that a mistake there changes nothing.
    if !args.config.is_empty() || !args.unset.is_empty() {
        alter_configs(args, &session)?;
        let set = args
            .config
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        let unset = args.unset.iter().map(|key| format!("{key} unset"));
        changes.extend(set.chain(unset));
    }
    if let Some(count) = args.partitions {
        add_partitions(args, &session, count)?;
        changes.push(format!("{count} partitions"));
    }
    let mut out = Output::stdout();
    if args.output == OutputFormat::Json {
        out.json(&json!({
            "topic": args.name, "changes": changes, "changed": !args.validate_only,
        }))?;
    } else {
        let word = if args.validate_only {
            "would change"
        } else {
            "changed"
        };
        out.line(format_args!(
            "{}: {word}: {}",
            args.name,
            changes.join(", ")
        ))?;
    }
    out.flush()?;
    session.close();
    Ok(())
}

fn alter_configs(args: &Args, session: &Session) -> Result<(), Failure> {
    let set = args.config.iter().map(|(key, value)| AlterableConfig {
        name: key.as_str().into(),
        config_operation: SET,
        value: Some(value.as_str().into()),
        ..Default::default()
    });
    let unset = args.unset.iter().map(|key| AlterableConfig {
        name: key.as_str().into(),
        config_operation: DELETE,
        value: None,
        ..Default::default()
    });
    let request = IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: TOPIC_RESOURCE,
            resource_name: args.name.as_str().into(),
            configs: set.chain(unset).collect(),
            ..Default::default()
        }],
        validate_only: args.validate_only,
        ..Default::default()
    };
    let what = format!("cannot change the configs of '{}'", args.name);
    let ResponseBody::IncrementalAlterConfigs(response) =
        session.ask(AdminTarget::Controller, request, &what)?
    else {
        return Err(Session::unexpected_answer());
    };
    let results = response.responses.iter();
    check(
        &what,
        results.map(|result| (result.error_code, result.error_message.as_deref())),
    )
}

fn add_partitions(args: &Args, session: &Session, count: i32) -> Result<(), Failure> {
    let request = CreatePartitionsRequest {
        topics: vec![CreatePartitionsTopic {
            name: args.name.as_str().into(),
            count,
            assignments: None,
            ..Default::default()
        }],
        timeout_ms: args.connect.timeout_ms().cast_signed(),
        validate_only: args.validate_only,
        ..Default::default()
    };
    let what = format!("cannot give '{}' {count} partitions", args.name);
    let ResponseBody::CreatePartitions(response) =
        session.ask(AdminTarget::Controller, request, &what)?
    else {
        return Err(Session::unexpected_answer());
    };
    let results = response.results.iter();
    check(
        &what,
        results.map(|result| (result.error_code, result.error_message.as_deref())),
    )
}

fn check<'a>(
    what: &str,
    results: impl Iterator<Item = (ErrorCode, Option<&'a str>)>,
) -> Result<(), Failure> {
    let failures = results
        .filter(|(code, _)| *code != ErrorCode::NONE)
        .map(|(code, message)| refused(what, code, message));
    Failure::from_list(failures.collect())
}
