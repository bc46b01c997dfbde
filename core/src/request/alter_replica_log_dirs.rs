//! AlterReplicaLogDirs (KIP-113): there is one log directory, so whatever shall move there is there.

use crate::broker::State;
use crate::connection::RequestId;
use crate::wire::ErrorCode;
use crate::wire::messages::alter_replica_log_dirs::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult, AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
};

pub(super) fn handle(state: &mut State, id: RequestId, request: AlterReplicaLogDirsRequest) {
    let mut response = AlterReplicaLogDirsResponse::default();
    for dir in request.dirs {
        let is_ours = *dir.path == *state.config.data_dir;
        for topic in dir.topics {
            let known = state
                .metadata
                .resolve(false, &topic.name, Default::default());
            let partitions = topic.partitions.iter().map(|index| {
                let error = if is_ours {
                    known
                        .and_then(|topic| state.existing(topic, *index))
                        .err()
                        .unwrap_or(ErrorCode::NONE)
                } else {
                    ErrorCode::LOG_DIR_NOT_FOUND
                };
                AlterReplicaLogDirPartitionResult {
                    partition_index: *index,
                    error_code: error,
                    ..Default::default()
                }
            });
            response.results.push(AlterReplicaLogDirTopicResult {
                partitions: partitions.collect(),
                topic_name: topic.name,
                ..Default::default()
            });
        }
    }
    state.answer(id, response);
}
