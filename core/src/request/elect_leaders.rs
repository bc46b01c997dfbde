//! ElectLeaders (KIP-183, KIP-460): the only broker leads every partition, so none needs an
//! election.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::broker::State;
use crate::connection::RequestId;
use crate::wire::messages::elect_leaders::{
    ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
};
use crate::wire::{ErrorCode, Str};

/// Kafka's numbers of the kinds of election.
const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

pub(super) fn handle(state: &mut State, id: RequestId, request: ElectLeadersRequest) {
    let mut response = ElectLeadersResponse::default();
    if ![PREFERRED, UNCLEAN].contains(&request.election_type) {
        response.error_code = ErrorCode::INVALID_REQUEST;
        return state.answer(id, response);
    }
    // Whoever asks for all is told of those alone that got another leader.
    for topic in request.topic_partitions.unwrap_or_default() {
        let known = state
            .metadata
            .resolve(false, &topic.topic, Default::default());
        let asked: BTreeSet<i32> = topic.partitions.into_iter().collect();
        let results: Vec<PartitionResult> = asked
            .into_iter()
            .map(|index| {
                let error = known
                    .and_then(|topic| state.existing(topic, index))
                    .err()
                    .unwrap_or(ErrorCode::ELECTION_NOT_NEEDED);
                PartitionResult {
                    partition_id: index,
                    error_code: error,
                    error_message: Some(Str::from_static(error.message())),
                    ..Default::default()
                }
            })
            .collect();
        response
            .replica_election_results
            .push(ReplicaElectionResult {
                topic: topic.topic,
                partition_result: results,
                ..Default::default()
            });
    }
    state.answer(id, response);
}
