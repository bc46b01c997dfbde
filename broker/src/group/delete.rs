//! `odradek group delete`.

use odradek_core::wire::messages::DeleteGroupsRequest;
use odradek_core::wire::{ErrorCode, ResponseBody};

use super::coordinator;
use crate::advice::refused;
use crate::failure::Failure;
use crate::output::{Output, OutputFormat};
use crate::session::{ConnectArgs, Session};

/// Deletes groups with the offsets they have committed. There is no way back.
///
/// A group that has members is not deleted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek group delete readers
  odradek group delete a b c --if-exists

Exit codes: 0 deleted, 1 failed, 2 wrong usage.")]
pub(super) struct Args {
    /// Names of the groups.
    #[arg(required = true, value_name = "GROUP")]
    groups: Vec<String>,
    /// A group that does not exist is no error.
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
    let mut out = Output::stdout();
    let mut failures = Vec::new();
    for name in &args.groups {
        let what = format!("cannot delete '{name}'");
        let code = delete(&session, name, &what)?;
        let deleted = code == ErrorCode::NONE;
        let missing = code == ErrorCode::GROUP_ID_NOT_FOUND;
        if !(deleted || missing && args.if_exists) {
            failures.push(refused(&what, code, None));
        } else {
            out.deletion(args.output, "group", name, deleted)?;
        }
    }
    out.flush()?;
    session.close();
    Failure::from_list(failures)
}

fn delete(session: &Session, group: &str, what: &str) -> Result<ErrorCode, Failure> {
    let request = DeleteGroupsRequest {
        groups_names: vec![group.into()],
        ..Default::default()
    };
    let code = |response: &ResponseBody| match response {
        ResponseBody::DeleteGroups(response) => {
            response.results.first().map(|result| result.error_code)
        }
        _ => None,
    };
    let response = coordinator::ask(session, group, what, request, code)?;
    code(&response).ok_or_else(Session::unexpected_answer)
}
