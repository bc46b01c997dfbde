//! ElectLeaders (KIP-183, KIP-460): the only broker leads every partition, so none needs an
//! election.

use alloc::vec::Vec;

use crate::broker::State;
use crate::connection::RequestId;
use crate::metadata::image::Topic;
use crate::wire::messages::elect_leaders::{
    ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
    TopicPartitions,
};
use crate::wire::{ErrorCode, Str};

/// Kafka's numbers of the kinds of election.
const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

pub(super) fn handle(state: &mut State, id: RequestId, request: ElectLeadersRequest) {
    let is_known = [PREFERRED, UNCLEAN].contains(&request.election_type);
    let mut response = ElectLeadersResponse::default();
    if !is_known {
        response.error_code = ErrorCode::INVALID_REQUEST;
    }
    response.replica_election_results = match request.topic_partitions {
        Some(topics) => {
            let asked = topics.into_iter();
            let of_topic = |topic: TopicPartitions| ReplicaElectionResult {
                partition_result: results(state, is_known, &topic),
                topic: topic.topic,
                ..Default::default()
            };
            asked.map(of_topic).collect()
        }
        // Whoever asks for all is told of those partitions alone that got another leader, and of the
        // topics of all.
        None if is_known => {
            let all = state.metadata.image().topics();
            let without = |topic: &Topic| ReplicaElectionResult {
                topic: topic.name.as_str().into(),
                ..Default::default()
            };
            all.map(without).collect()
        }
        None => Vec::new(),
    };
    state.answer(id, response);
}

fn results(state: &State, is_known: bool, topic: &TopicPartitions) -> Vec<PartitionResult> {
    let id = state
        .metadata
        .resolve(false, &topic.topic, Default::default());
    let asked = topic.partitions.iter().map(|index| {
        let error = match id.and_then(|topic| state.existing(topic, *index)) {
            _ if !is_known => ErrorCode::INVALID_REQUEST,
            Ok(_) => ErrorCode::ELECTION_NOT_NEEDED,
            Err(error) => error,
        };
        PartitionResult {
            partition_id: *index,
            error_code: error,
            error_message: Some(Str::from_static(error.message())),
            ..Default::default()
        }
    });
    asked.collect()
}
