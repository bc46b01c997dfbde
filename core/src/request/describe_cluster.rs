//! DescribeCluster (KIP-700): one broker, which is its own controller.

use alloc::vec;

use crate::broker::State;
use crate::connection::RequestId;
use crate::wire::ErrorCode;
use crate::wire::messages::describe_cluster::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

pub(super) fn handle(state: &mut State, id: RequestId, request: &DescribeClusterRequest) {
    if request.endpoint_type != BROKERS {
        let (error_code, words) = if request.endpoint_type == CONTROLLERS {
            let words = "The request was sent to an endpoint of type BROKER";
            (ErrorCode::MISMATCHED_ENDPOINT_TYPE, words)
        } else {
            let error = ErrorCode::UNSUPPORTED_ENDPOINT_TYPE;
            (error, error.message())
        };
        return state.answer(
            id,
            DescribeClusterResponse {
                error_code,
                error_message: Some(words.into()),
                ..Default::default()
            },
        );
    }
    let endpoint = state.advertised(id);
    let node_id = state.config.node_id.0;
    let response = DescribeClusterResponse {
        cluster_id: state.metadata.image().cluster_id.as_str().into(),
        controller_id: node_id,
        brokers: vec![DescribeClusterBroker {
            broker_id: node_id,
            host: endpoint.host.into(),
            port: i32::from(endpoint.port),
            rack: state.config.rack.as_deref().map(Into::into),
            ..Default::default()
        }],
        ..Default::default()
    };
    state.answer(id, response);
}
