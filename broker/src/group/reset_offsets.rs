//! `odradek group reset-offsets`.

use std::collections::{BTreeMap, BTreeSet};

use odradek_core::client::{OffsetSpec, TopicPartition};
use odradek_core::ids::TopicId;
use odradek_core::wire::messages::OffsetCommitRequest;
use odradek_core::wire::messages::offset_commit::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use odradek_core::wire::{ErrorCode, ResponseBody};
use serde_json::json;

use super::coordinator;
use super::description::{Committed, committed, describe, look_up};
use super::table::Table;
use crate::advice::refused;
use crate::consume::parse_time;
use crate::failure::Failure;
use crate::output::{Output, OutputFormat};
use crate::session::{ConnectArgs, Session};

/// Changes where a group goes on reading. Without --execute it only shows what it would do.
///
/// The group must have no members: they would go on from where they are, and commit that.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek group reset-offsets readers --all-topics --to-earliest
  odradek group reset-offsets readers --topic orders --to-time 2026-01-31T08:00:00Z --execute
  odradek group reset-offsets readers --topic orders:0,2 --to-offset 1200 --execute
  odradek group reset-offsets readers --topic orders --topic payments --shift-by -100 --execute

A new offset that is not in the log becomes the nearest one that is. The group need not exist: then it
comes about with these offsets.

Exit codes: 0 shown or done, 1 failed, 2 wrong usage.")]
#[command(group(clap::ArgGroup::new("target").required(true)
    .args(["to_earliest", "to_latest", "to_offset", "to_time", "shift_by"])))]
#[command(group(clap::ArgGroup::new("scope").required(true).args(["topic", "all_topics"])))]
pub(super) struct Args {
    /// Name of the group.
    group: String,
    /// Go on at the first record there is.
    #[arg(long)]
    to_earliest: bool,
    /// Go on after the last record there is.
    #[arg(long)]
    to_latest: bool,
    /// Go on at this offset.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..))]
    to_offset: Option<i64>,
    /// Go on at the first record that is not older: milliseconds, a date with or without time (UTC
    /// unless it says otherwise), or an age such as -90m (s, m, h, d).
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
    to_time: Option<i64>,
    /// Go on so many records after, or before, what is committed.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    shift_by: Option<i64>,
    /// A topic, or some of its partitions; may be repeated.
    #[arg(long, short, value_name = "TOPIC[:P,P]", value_parser = scope)]
    topic: Vec<Scope>,
    /// All topics of which the group has committed offsets.
    #[arg(long)]
    all_topics: bool,
    /// Do it.
    #[arg(long)]
    execute: bool,
    /// How to print.
    #[arg(long, value_enum, default_value_t)]
    output: OutputFormat,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// A topic, and which of its partitions if not all.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Scope {
    topic: String,
    partitions: Vec<i32>,
}

fn time(text: &str) -> Result<i64, String> {
    parse_time(text.strip_prefix('@').unwrap_or(text))
}

fn scope(text: &str) -> Result<Scope, String> {
    let (topic, partitions) = match text.split_once(':') {
        Some((topic, list)) => {
            let numbers = list.split(',').map(|number| match number.parse::<i32>() {
                Ok(number) if number >= 0 => Ok(number),
                _ => Err(format!("'{number}' is no partition: write TOPIC:0,1")),
            });
            (topic, numbers.collect::<Result<_, _>>()?)
        }
        None => (text, Vec::new()),
    };
    if topic.is_empty() {
        return Err("the topic is missing: write TOPIC or TOPIC:0,1".to_owned());
    }
    let topic = topic.to_owned();
    Ok(Scope { topic, partitions })
}

/// What changes for a partition.
struct Change {
    partition: TopicPartition,
    before: Option<i64>,
    after: i64,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let session = Session::open(&args.connect)?;
    let group = &args.group;
    if let Some(found) = describe(&session, group)?
        && !matches!(found.state.as_str(), "Empty" | "Dead")
    {
        return Err(Failure::failed(format!(
            "the offsets of '{group}' can only be reset while it has no members, and it is \
             {}; stop its members first (`odradek group describe {group}` shows them)",
            found.state
        )));
    }
    let committed = committed(&session, group)?;
    let partitions = partitions(args, &session, &committed)?;
    let plan = plan(args, &session, &committed, &partitions)?;
    if args.execute && !plan.is_empty() {
        commit(args, &session, &plan)?;
    }
    print(args, &plan)?;
    session.close();
    Ok(())
}

/// The partitions to change.
fn partitions(
    args: &Args,
    session: &Session,
    committed: &BTreeMap<TopicPartition, Committed>,
) -> Result<BTreeSet<TopicPartition>, Failure> {
    if args.all_topics {
        if committed.is_empty() {
            return Err(Failure::failed(format!(
                "'{}' has committed no offsets; name the topics with --topic",
                args.group
            )));
        }
        return Ok(committed.keys().cloned().collect());
    }
    let mut partitions = BTreeSet::new();
    for scope in &args.topic {
        let known = session.partitions(&scope.topic)?;
        if let Some(unknown) = scope.partitions.iter().find(|one| !known.contains(one)) {
            return Err(Failure::failed(format!(
                "'{}' has no partition {unknown}; its partitions are 0 to {}",
                scope.topic,
                known.len().saturating_sub(1)
            )));
        }
        let wanted = if scope.partitions.is_empty() {
            &known
        } else {
            &scope.partitions
        };
        let wanted = wanted.iter();
        partitions.extend(wanted.map(|number| TopicPartition::new(&scope.topic, *number)));
    }
    Ok(partitions)
}

fn plan(
    args: &Args,
    session: &Session,
    committed: &BTreeMap<TopicPartition, Committed>,
    partitions: &BTreeSet<TopicPartition>,
) -> Result<Vec<Change>, Failure> {
    let all = |spec| look_up(session, partitions.iter().cloned(), spec);
    let (starts, ends) = (all(OffsetSpec::Earliest)?, all(OffsetSpec::Latest)?);
    let at_time = match args.to_time {
        Some(ms) => all(OffsetSpec::Timestamp(ms))?,
        None => BTreeMap::new(),
    };
    let mut plan = Vec::new();
    for partition in partitions {
        let found =
            |of: &BTreeMap<TopicPartition, Option<i64>>| of.get(partition).copied().flatten();
        let (Some(start), Some(end)) = (found(&starts), found(&ends)) else {
            return Err(Failure::failed(format!(
                "cannot look up the offsets of {partition}; `odradek topic describe {}` says why",
                partition.topic
            )));
        };
        let before = committed.get(partition).map(|committed| committed.offset);
        let after = if args.to_earliest {
            start
        } else if args.to_latest {
            end
        } else if args.to_time.is_some() {
            // Nothing is that new.
            found(&at_time).unwrap_or(end)
        } else if let Some(by) = args.shift_by {
            let Some(before) = before else {
                return Err(Failure::failed(format!(
                    "'{}' has committed nothing of {partition}, so there is nothing to shift; \
                     name the partitions with --topic TOPIC:P, or use --to-earliest or --to-latest",
                    args.group
                )));
            };
            before.saturating_add(by)
        } else {
            args.to_offset.unwrap_or(end)
        };
        plan.push(Change {
            partition: partition.clone(),
            before,
            after: after.clamp(start, end),
        });
    }
    Ok(plan)
}

fn commit(args: &Args, session: &Session, plan: &[Change]) -> Result<(), Failure> {
    let names: BTreeSet<String> = plan
        .iter()
        .map(|change| change.partition.topic.to_string())
        .collect();
    let names: Vec<String> = names.into_iter().collect();
    let ids: BTreeMap<String, TopicId> = session
        .topics(Some(&names))?
        .into_iter()
        .filter_map(|topic| Some((topic.name?.to_string(), topic.topic_id)))
        .collect();
    let topic = |name: &String| OffsetCommitRequestTopic {
        name: name.as_str().into(),
        topic_id: ids.get(name).copied().unwrap_or_default(),
        partitions: plan
            .iter()
            .filter(|change| *change.partition.topic == **name)
            .map(|change| OffsetCommitRequestPartition {
                partition_index: change.partition.partition,
                committed_offset: change.after,
                committed_metadata: Some("".into()),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    // In no member's name: the coordinator takes it only while the group has none.
    let request = OffsetCommitRequest {
        group_id: args.group.as_str().into(),
        topics: names.iter().map(topic).collect(),
        ..Default::default()
    };
    let code = |response: &ResponseBody| match response {
        ResponseBody::OffsetCommit(response) => Some(
            response
                .topics
                .iter()
                .flat_map(|topic| &topic.partitions)
                .map(|partition| partition.error_code)
                .find(|code| *code != ErrorCode::NONE)
                .unwrap_or(ErrorCode::NONE),
        ),
        _ => None,
    };
    let what = format!("cannot reset the offsets of '{}'", args.group);
    let response = coordinator::ask(session, &args.group, &what, request, code)?;
    match code(&response) {
        Some(ErrorCode::NONE) => Ok(()),
        // The only way in which one who is no member can be unknown.
        Some(ErrorCode::UNKNOWN_MEMBER_ID) => Err(Failure::failed(refused(
            &what,
            ErrorCode::NON_EMPTY_GROUP,
            None,
        ))),
        Some(code) => Err(Failure::failed(refused(&what, code, None))),
        None => Err(Session::unexpected_answer()),
    }
}

fn print(args: &Args, plan: &[Change]) -> Result<(), Failure> {
    let mut out = Output::stdout();
    if args.output == OutputFormat::Json {
        let change = |change: &Change| {
            json!({
                "topic": change.partition.topic.to_string(),
                "partition": change.partition.partition,
                "committed": change.before,
                "new_offset": change.after,
            })
        };
        out.json(&json!({
            "group": args.group,
            "executed": args.execute,
            "partitions": plan.iter().map(change).collect::<Vec<_>>(),
        }))?;
        return out.flush();
    }
    if args.execute {
        out.line(format_args!("{}: offsets are reset", args.group))?;
    } else {
        out.line(format_args!(
            "{}: nothing is changed yet, --execute does it",
            args.group
        ))?;
    }
    let mut table = Table::new(vec!["TOPIC", "PARTITION", "COMMITTED", "NEW OFFSET"]);
    for change in plan {
        table.row(vec![
            change.partition.topic.to_string(),
            change.partition.partition.to_string(),
            change
                .before
                .map_or_else(|| "-".to_owned(), |n| n.to_string()),
            change.after.to_string(),
        ]);
    }
    table.write(&mut out)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_a_topic_or_some_of_its_partitions() {
        let whole = scope("orders").unwrap();
        assert_eq!(
            (whole.topic.as_str(), whole.partitions.len()),
            ("orders", 0)
        );
        assert_eq!(scope("orders:0,12").unwrap().partitions, [0, 12]);
        for wrong in ["", ":1", "orders:", "orders:-1", "orders:x"] {
            assert!(scope(wrong).is_err(), "{wrong}");
        }
    }
}
