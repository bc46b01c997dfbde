//! `odradek topic describe`.

use std::collections::BTreeMap;

use odradek_core::client::{AdminTarget, OffsetSpec, TopicPartition};
use odradek_core::wire::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
};
use odradek_core::wire::messages::metadata::{MetadataResponsePartition, MetadataResponseTopic};
use odradek_core::wire::{ErrorCode, ResponseBody};
use serde_json::json;

use super::alter::TOPIC_RESOURCE;
use crate::advice::refused;
use crate::failure::Failure;
use crate::output::{Output, OutputFormat, counted};
use crate::session::{ConnectArgs, Session};

/// Kafka's code for a config that is as the program has it.
const SOURCE_DEFAULT: i8 = 5;

/// Shows topics: partitions with their leaders and offsets, and configs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek topic describe orders
  odradek topic describe                         all topics
  odradek topic describe orders --all-configs
  odradek topic describe orders --output json | jq '[.partitions[].end_offset] | add'

Exit codes: 0 done, 1 failed or no such topic, 2 wrong usage.")]
pub(super) struct Args {
    /// Names of the topics; all if none is named.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Show configs that have their defaults, too.
    #[arg(long)]
    all_configs: bool,
    /// How to print.
    #[arg(long, value_enum, default_value_t)]
    output: OutputFormat,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// First and next offset of a partition, or why they are not known.
type Range = Result<(i64, i64), String>;

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let session = Session::open(&args.connect)?;
    let names = (!args.names.is_empty()).then_some(args.names.as_slice());
    let mut topics = session.topics(names)?;
    topics.sort_by(|a, b| a.name.cmp(&b.name));
    let mut out = Output::stdout();
    let mut failures = Vec::new();
    for topic in &topics {
        let name = topic.name.as_deref().unwrap_or_default();
        if topic.error_code != ErrorCode::NONE {
            let what = format!("cannot describe '{name}'");
            failures.push(refused(&what, topic.error_code, None));
            continue;
        }
        let configs = configs(args, &session, name)?;
        let ranges = ranges(&session, name, topic)?;
        if args.output == OutputFormat::Json {
            write_json(&mut out, name, topic, &configs, &ranges)?;
        } else {
            write_text(&mut out, name, topic, &configs, &ranges)?;
        }
    }
    out.flush()?;
    session.close();
    Failure::from_list(failures)
}

fn configs(
    args: &Args,
    session: &Session,
    name: &str,
) -> Result<Vec<DescribeConfigsResourceResult>, Failure> {
    let request = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type: TOPIC_RESOURCE,
            resource_name: name.into(),
            configuration_keys: None,
            ..Default::default()
        }],
        ..Default::default()
    };
    let what = format!("cannot read the configs of '{name}'");
    let ResponseBody::DescribeConfigs(response) = session.ask(AdminTarget::Any, request, &what)?
    else {
        return Err(Session::unexpected_answer());
    };
    let Some(result) = response.results.into_iter().next() else {
        return Err(Session::unexpected_answer());
    };
    if result.error_code != ErrorCode::NONE {
        let message = result.error_message.as_deref();
        return Err(Failure::failed(refused(&what, result.error_code, message)));
    }
    let mut configs = result.configs;
    configs.retain(|config| args.all_configs || config.config_source != SOURCE_DEFAULT);
    configs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(configs)
}

fn ranges(
    session: &Session,
    name: &str,
    topic: &MetadataResponseTopic,
) -> Result<BTreeMap<i32, Range>, Failure> {
    let all = |spec| -> Result<Vec<Result<i64, String>>, Failure> {
        let wanted = topic
            .partitions
            .iter()
            .map(|partition| (TopicPartition::new(name, partition.partition_index), spec))
            .collect();
        let found = session.offsets(wanted)?;
        let found = found.into_iter().map(|(_, found)| match found {
            Ok(found) => Ok(found.offset.map_or(-1, |offset| offset.0)),
            Err(error) => Err(error.to_string()),
        });
        Ok(found.collect())
    };
    let (starts, ends) = (all(OffsetSpec::Earliest)?, all(OffsetSpec::Latest)?);
    let indexes = topic
        .partitions
        .iter()
        .map(|partition| partition.partition_index);
    let ranges = starts
        .into_iter()
        .zip(ends)
        .map(|(start, end)| Ok((start?, end?)));
    Ok(indexes.zip(ranges).collect())
}

fn sorted(topic: &MetadataResponseTopic) -> Vec<&MetadataResponsePartition> {
    let mut partitions: Vec<_> = topic.partitions.iter().collect();
    partitions.sort_by_key(|partition| partition.partition_index);
    partitions
}

fn write_text(
    out: &mut Output,
    name: &str,
    topic: &MetadataResponseTopic,
    configs: &[DescribeConfigsResourceResult],
    ranges: &BTreeMap<i32, Range>,
) -> Result<(), Failure> {
    out.line(format_args!(
        "{name}: {}, id {}",
        counted(topic.partitions.len() as u64, "partition", "partitions"),
        topic.topic_id
    ))?;
    out.line("  PARTITION  LEADER  EPOCH  START OFFSET    END OFFSET       RECORDS")?;
    for partition in sorted(topic) {
        let (index, leader) = (partition.partition_index, partition.leader_id);
        let epoch = partition.leader_epoch;
        match ranges.get(&index) {
            Some(Ok((start, end))) => out.line(format_args!(
                "  {index:>9}  {leader:>6}  {epoch:>5}  {start:>12}  {end:>12}  {:>12}",
                end - start
            ))?,
            Some(Err(why)) => {
                out.line(format_args!("  {index:>9}  {leader:>6}  {epoch:>5}  {why}"))?;
            }
            None => {}
        }
    }
    for config in configs {
        out.line(format_args!(
            "  {}={}  ({})",
            config.name.as_str(),
            config.value.as_deref().unwrap_or("null"),
            source(config.config_source)
        ))?;
    }
    Ok(())
}

fn write_json(
    out: &mut Output,
    name: &str,
    topic: &MetadataResponseTopic,
    configs: &[DescribeConfigsResourceResult],
    ranges: &BTreeMap<i32, Range>,
) -> Result<(), Failure> {
    let partition = |partition: &MetadataResponsePartition| {
        let index = partition.partition_index;
        let (range, error) = match ranges.get(&index) {
            Some(Ok(range)) => (Some(*range), None),
            Some(Err(why)) => (None, Some(why.as_str())),
            None => (None, None),
        };
        json!({
            "partition": index,
            "leader": partition.leader_id,
            "leader_epoch": partition.leader_epoch,
            "replicas": partition.replica_nodes,
            "in_sync_replicas": partition.isr_nodes,
            "start_offset": range.map(|(start, _)| start),
            "end_offset": range.map(|(_, end)| end),
            "error": error,
        })
    };
    let config = |config: &DescribeConfigsResourceResult| {
        json!({
            "name": config.name.as_str(),
            "value": config.value.as_deref(),
            "source": source(config.config_source),
            "read_only": config.read_only,
        })
    };
    out.json(&json!({
        "topic": name,
        "id": topic.topic_id.to_string(),
        "internal": topic.is_internal,
        "partitions": sorted(topic).into_iter().map(partition).collect::<Vec<_>>(),
        "configs": configs.iter().map(config).collect::<Vec<_>>(),
    }))
}

/// Where a config's value comes from, by Kafka's codes (KIP-226).
const fn source(code: i8) -> &'static str {
    match code {
        1 => "topic",
        2 => "broker",
        3 => "all brokers",
        4 => "start of the broker",
        SOURCE_DEFAULT => "default",
        _ => "unknown",
    }
}
