//! `odradek group list`.

use std::collections::BTreeMap;

use odradek_core::client::AdminTarget;
use odradek_core::wire::messages::ListGroupsRequest;
use odradek_core::wire::{ErrorCode, ResponseBody};
use serde_json::json;

use crate::advice::refused;
use crate::failure::Failure;
use crate::output::{Output, OutputFormat};
use crate::session::{ConnectArgs, Session};

/// Lists the groups, one a line.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek group list
  odradek group list --output json | jq 'select(.state == \"Empty\") | .group'

Exit codes: 0 done, 1 failed, 2 wrong usage.")]
pub(super) struct Args {
    /// How to print: names, or objects with the state and the type.
    #[arg(long, value_enum, default_value_t)]
    output: OutputFormat,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let session = Session::open(&args.connect)?;
    let what = "cannot list the groups";
    let mut groups = BTreeMap::new();
    // Each broker knows those that it coordinates.
    for node in session.brokers()? {
        let request = ListGroupsRequest::default();
        let ResponseBody::ListGroups(response) =
            session.ask(AdminTarget::Broker(node), request, what)?
        else {
            return Err(Session::unexpected_answer());
        };
        if response.error_code != ErrorCode::NONE {
            return Err(Failure::failed(refused(what, response.error_code, None)));
        }
        for group in response.groups {
            groups.insert(group.group_id.to_string(), group);
        }
    }
    let mut out = Output::stdout();
    for (name, group) in &groups {
        if args.output == OutputFormat::Json {
            out.json(&json!({
                "group": name,
                "state": group.group_state.as_str(),
                "type": group.group_type.as_str(),
                "protocol_type": group.protocol_type.as_str(),
            }))?;
        } else {
            out.line(name)?;
        }
    }
    out.flush()?;
    session.close();
    Ok(())
}
