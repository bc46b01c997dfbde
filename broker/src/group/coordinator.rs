//! Asking the coordinator of a group.

use std::time::{Duration, Instant};

use odradek_core::client::AdminTarget;
use odradek_core::ids::NodeId;
use odradek_core::wire::messages::FindCoordinatorRequest;
use odradek_core::wire::{ErrorCode, RequestBody, ResponseBody};

use crate::advice::refused;
use crate::failure::Failure;
use crate::session::Session;

/// How long to wait before a coordinator that is not ready is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// Asks the coordinator of `group`; again, while it is loading or elsewhere. `code` is the error of an
/// answer, and `what` begins the message if there is none.
pub(super) fn ask(
    session: &Session,
    group: &str,
    what: &str,
    request: impl Into<RequestBody> + Clone,
    code: impl Fn(&ResponseBody) -> Option<ErrorCode>,
) -> Result<ResponseBody, Failure> {
    let begin = Instant::now();
    loop {
        let node = find(session, group, what, begin)?;
        let response = session.ask(AdminTarget::Broker(node), request.clone(), what)?;
        match code(&response) {
            None => return Err(Session::unexpected_answer()),
            Some(code) if is_passing(code) && begin.elapsed() < session.timeout() => {
                session.pause(PAUSE);
            }
            Some(code) if is_passing(code) => {
                return Err(Failure::failed(refused(what, code, None)));
            }
            Some(_) => return Ok(response),
        }
    }
}

fn find(session: &Session, group: &str, what: &str, begin: Instant) -> Result<NodeId, Failure> {
    loop {
        let request = FindCoordinatorRequest {
            key: group.into(),
            coordinator_keys: vec![group.into()],
            ..Default::default()
        };
        let ResponseBody::FindCoordinator(response) =
            session.ask(AdminTarget::Any, request, what)?
        else {
            return Err(Session::unexpected_answer());
        };
        // Which of the two forms it has depends on the version.
        let (code, node) = response
            .coordinators
            .first()
            .map_or((response.error_code, response.node_id), |one| {
                (one.error_code, one.node_id)
            });
        match code {
            ErrorCode::NONE => return Ok(NodeId(node)),
            code if code.is_retriable() && begin.elapsed() < session.timeout() => {
                session.pause(PAUSE);
            }
            code => return Err(Failure::failed(refused(what, code, None))),
        }
    }
}

const fn is_passing(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
            | ErrorCode::COORDINATOR_NOT_AVAILABLE
            | ErrorCode::NOT_COORDINATOR
    )
}
