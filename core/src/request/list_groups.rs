//! ListGroups (KIP-518, KIP-848): which groups there are.

use alloc::vec::Vec;

use super::describe_groups::state_name;
use crate::broker::State;
use crate::connection::{Answer, RequestId};
use crate::group::coordinator;
use crate::group::{Group, GroupKind};
use crate::ids::Offset;
use crate::wire::messages::list_groups::{ListGroupsRequest, ListGroupsResponse, ListedGroup};
use crate::wire::{ErrorCode, Str};

pub(super) fn handle(state: &mut State, id: RequestId, request: &ListGroupsRequest) {
    let refuse = |error_code| ListGroupsResponse {
        error_code,
        ..Default::default()
    };
    let mut marks: Vec<(i32, Offset)> = Vec::new();
    let mut listed = Vec::new();
    let mut error = None;
    for (index, groups) in state.groups.shards() {
        let groups = match groups {
            Ok(groups) => groups,
            Err(why) => {
                error = Some(why);
                break;
            }
        };
        marks.push((index, state.groups.end_of(index)));
        listed.extend(
            groups
                .iter()
                .filter_map(|(id, group)| list(id, group, request)),
        );
    }
    if let Some(error) = error {
        return state.answer(id, refuse(error));
    }
    let response = ListGroupsResponse {
        groups: listed,
        ..Default::default()
    };
    coordinator::answer_when_durable(state, id, &marks, response, || {
        Answer::from(refuse(ErrorCode::COORDINATOR_NOT_AVAILABLE))
    });
}

fn list(id: &Str, group: &Group, request: &ListGroupsRequest) -> Option<ListedGroup> {
    let (state, kind, protocol_type) = match &group.kind {
        GroupKind::Classic(classic) => (
            state_name(classic.state()),
            "classic",
            classic.protocol_type().cloned().unwrap_or_default(),
        ),
    };
    let passes = |filter: &[Str], value: &str| {
        filter.is_empty() || filter.iter().any(|word| word.eq_ignore_ascii_case(value))
    };
    let wanted = passes(&request.states_filter, state) && passes(&request.types_filter, kind);
    wanted.then(|| ListedGroup {
        group_id: id.clone(),
        protocol_type,
        group_state: state.into(),
        group_type: kind.into(),
        ..Default::default()
    })
}
