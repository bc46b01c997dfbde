//! DescribeQuorum (KIP-595): the metadata log is kept by a quorum of one.

use alloc::vec;

use crate::broker::State;
use crate::connection::RequestId;
use crate::context::Context;
use crate::wire::ErrorCode;
use crate::wire::messages::describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumResponse, Listener, Node, PartitionData, ReplicaState,
    TopicData, TopicRequest,
};

const TOPIC: &str = "__cluster_metadata";

pub(super) fn handle(
    state: &mut State,
    cx: &Context<'_>,
    id: RequestId,
    request: DescribeQuorumRequest,
) {
    // As Kafka, which knows of one quorum only: the request is about that one, or all of it fails.
    let is_valid = match request.topics.as_slice() {
        [topic] => {
            *topic.topic_name == *TOPIC
                && matches!(topic.partitions.as_slice(), [asked] if asked.partition_index == 0)
        }
        _ => false,
    };
    let response = if is_valid {
        describe(state, cx, id)
    } else {
        DescribeQuorumResponse {
            topics: request.topics.into_iter().map(unknown).collect(),
            ..Default::default()
        }
    };
    state.answer(id, response);
}

fn describe(state: &State, cx: &Context<'_>, id: RequestId) -> DescribeQuorumResponse {
    let node_id = state.config.node_id.0;
    let log = state.metadata.log();
    let endpoint = state.advertised(id);
    let voter = ReplicaState {
        replica_id: node_id,
        log_end_offset: log.map_or(-1, |log| log.log_end_offset().0),
        last_fetch_timestamp: cx.now.wall.0,
        last_caught_up_timestamp: cx.now.wall.0,
        ..Default::default()
    };
    let partition = PartitionData {
        leader_id: node_id,
        leader_epoch: state.metadata.image().epoch,
        high_watermark: log.map_or(-1, |log| log.high_watermark_limit().0),
        current_voters: vec![voter],
        ..Default::default()
    };
    DescribeQuorumResponse {
        topics: vec![TopicData {
            topic_name: TOPIC.into(),
            partitions: vec![partition],
            ..Default::default()
        }],
        nodes: vec![Node {
            node_id,
            listeners: vec![Listener {
                name: "PLAINTEXT".into(),
                host: endpoint.host.into(),
                port: endpoint.port,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn unknown(topic: TopicRequest) -> TopicData {
    let partitions = topic.partitions.iter().map(|asked| PartitionData {
        partition_index: asked.partition_index,
        error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        ..Default::default()
    });
    TopicData {
        partitions: partitions.collect(),
        topic_name: topic.topic_name,
        ..Default::default()
    }
}
