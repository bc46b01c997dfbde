//! DeleteGroups (KIP-229): groups that nobody is in go, with their offsets.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::broker::State;
use crate::connection::{Answer, RequestId};
use crate::context::Context;
use crate::group::coordinator;
use crate::ids::Offset;
use crate::wire::messages::delete_groups::{
    DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse,
};
use crate::wire::{ErrorCode, Str};

pub(super) fn handle(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    request: DeleteGroupsRequest,
) {
    let mut seen = BTreeSet::new();
    let mut asked = request.groups_names;
    asked.retain(|group| seen.insert(group.clone()));
    let mut marks: Vec<(i32, Offset)> = Vec::new();
    let mut results = Vec::with_capacity(asked.len());
    for group_id in &asked {
        let deleted = coordinator::shard_of(state, group_id).and_then(|index| {
            coordinator::delete_group(state, cx, index, group_id)?;
            Ok(index)
        });
        if let Ok(index) = deleted {
            marks.push((index, state.groups.end_of(index)));
        }
        results.push(result(group_id, deleted.err().unwrap_or_default()));
    }
    let lost = results.iter().map(|done| match done.error_code {
        ErrorCode::NONE => result(&done.group_id, ErrorCode::COORDINATOR_NOT_AVAILABLE),
        error => result(&done.group_id, error),
    });
    let lost = DeleteGroupsResponse {
        results: lost.collect(),
        ..Default::default()
    };
    let response = DeleteGroupsResponse {
        results,
        ..Default::default()
    };
    coordinator::answer_when_durable(state, id, &marks, response, || Answer::from(lost));
}

fn result(group_id: &Str, error_code: ErrorCode) -> DeletableGroupResult {
    DeletableGroupResult {
        group_id: group_id.clone(),
        error_code,
        ..Default::default()
    }
}
