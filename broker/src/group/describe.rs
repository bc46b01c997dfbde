//! `odradek group describe`.

use std::collections::{BTreeMap, BTreeSet};

use odradek_core::client::{OffsetSpec, TopicPartition};
use odradek_core::wire::ErrorCode;
use serde_json::{Value, json};

use super::description::{Committed, Description, Member, committed, describe, look_up};
use super::table::Table;
use crate::advice::refused;
use crate::failure::Failure;
use crate::output::{Output, OutputFormat, counted};
use crate::session::{ConnectArgs, Session};

/// Shows groups: their members with what each owns, what is committed, and how far behind that is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek group describe readers
  odradek group describe readers --output json | jq .lag
  odradek group describe readers --output json | jq '.members[] | {client_id, partitions}'

Exit codes: 0 done, 1 failed or no such group, 2 wrong usage.")]
pub(super) struct Args {
    /// Names of the groups.
    #[arg(required = true, value_name = "GROUP")]
    groups: Vec<String>,
    /// How to print.
    #[arg(long, value_enum, default_value_t)]
    output: OutputFormat,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// How far the group is with a partition.
struct Progress<'a> {
    partition: &'a TopicPartition,
    committed: Option<&'a Committed>,
    end: Option<i64>,
    owner: Option<&'a Member>,
}

impl Progress<'_> {
    fn lag(&self) -> Option<i64> {
        Some((self.end? - self.committed?.offset).max(0))
    }
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let session = Session::open(&args.connect)?;
    let mut out = Output::stdout();
    let mut failures = Vec::new();
    for name in &args.groups {
        let Some(group) = describe(&session, name)? else {
            let what = format!("cannot describe '{name}'");
            failures.push(refused(&what, ErrorCode::GROUP_ID_NOT_FOUND, None));
            continue;
        };
        let committed = committed(&session, name)?;
        let owned = group.members.iter().flat_map(|member| &member.owns);
        let all: BTreeSet<TopicPartition> = committed.keys().chain(owned).cloned().collect();
        let ends = look_up(&session, all.iter().cloned(), OffsetSpec::Latest)?;
        let progress: Vec<Progress<'_>> = all
            .iter()
            .map(|partition| Progress {
                partition,
                committed: committed.get(partition),
                end: ends.get(partition).copied().flatten(),
                owner: owner(&group, partition),
            })
            .collect();
        if args.output == OutputFormat::Json {
            out.json(&to_json(name, &group, &progress))?;
        } else {
            write_text(&mut out, name, &group, &progress)?;
        }
    }
    out.flush()?;
    session.close();
    Failure::from_list(failures)
}

fn owner<'a>(group: &'a Description, partition: &TopicPartition) -> Option<&'a Member> {
    let mut members = group.members.iter();
    members.find(|member| member.owns.contains(partition))
}

fn write_text(
    out: &mut Output,
    name: &str,
    group: &Description,
    progress: &[Progress<'_>],
) -> Result<(), Failure> {
    let members = counted(group.members.len() as u64, "member", "members");
    let assignor = match group.assignor.as_str() {
        "" => String::new(),
        assignor => format!(", assignor {assignor}"),
    };
    let (state, kind) = (&group.state, group.kind);
    out.line(format_args!(
        "{name}: {state}, {kind} protocol, {members}{assignor}"
    ))?;
    let number = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let mut table = Table::new(vec![
        "TOPIC",
        "PARTITION",
        "COMMITTED",
        "END OFFSET",
        "LAG",
        "MEMBER",
    ]);
    for one in progress {
        table.row(vec![
            one.partition.topic.to_string(),
            one.partition.partition.to_string(),
            number(one.committed.map(|committed| committed.offset)),
            number(one.end),
            number(one.lag()),
            one.owner
                .map_or_else(|| "-".to_owned(), |member| member.id.clone()),
        ]);
    }
    table.write(out)?;
    let mut table = Table::new(vec!["MEMBER", "CLIENT", "HOST", "INSTANCE", "PARTITIONS"]);
    for member in &group.members {
        table.row(vec![
            member.id.clone(),
            member.client_id.clone(),
            member.host.clone(),
            member.instance_id.clone().unwrap_or_else(|| "-".to_owned()),
            in_words(&member.owns),
        ]);
    }
    table.write(out)
}

/// `orders 0,1,2; payments 4`.
fn in_words(partitions: &BTreeSet<TopicPartition>) -> String {
    let mut topics: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for partition in partitions {
        let numbers = topics.entry(&partition.topic).or_default();
        numbers.push(partition.partition.to_string());
    }
    let topics: Vec<String> = topics
        .into_iter()
        .map(|(topic, numbers)| format!("{topic} {}", numbers.join(",")))
        .collect();
    if topics.is_empty() {
        "-".to_owned()
    } else {
        topics.join("; ")
    }
}

fn to_json(name: &str, group: &Description, progress: &[Progress<'_>]) -> Value {
    let list = |partitions: &BTreeSet<TopicPartition>| {
        let each = partitions
            .iter()
            .map(|one| json!({ "topic": one.topic.to_string(), "partition": one.partition }));
        each.collect::<Vec<_>>()
    };
    let member = |member: &Member| {
        json!({
            "member": member.id,
            "instance_id": member.instance_id,
            "client_id": member.client_id,
            "host": member.host,
            "epoch": member.epoch,
            "partitions": list(&member.owns),
            "target": member.shall_own.as_ref().map(list),
        })
    };
    let partition = |one: &Progress<'_>| {
        json!({
            "topic": one.partition.topic.to_string(),
            "partition": one.partition.partition,
            "committed": one.committed.map(|committed| committed.offset),
            "metadata": one.committed.map(|committed| committed.metadata.as_str()),
            "end_offset": one.end,
            "lag": one.lag(),
            "member": one.owner.map(|member| member.id.as_str()),
        })
    };
    json!({
        "group": name,
        "state": group.state,
        "type": group.kind,
        "assignor": group.assignor,
        "epoch": group.epoch,
        // Of what it has committed nothing for, nobody can say how far behind it is.
        "lag": progress.iter().filter_map(Progress::lag).reduce(|all, one| all + one),
        "members": group.members.iter().map(member).collect::<Vec<_>>(),
        "partitions": progress.iter().map(partition).collect::<Vec<_>>(),
    })
}
