//! From a frame to a domain call and back: one file an API, and nothing else in it.

mod alter_configs;
mod alter_replica_log_dirs;
mod api_versions;
mod codecs;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod create_partitions;
mod create_topics;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_quorum;
mod describe_topic_partitions;
mod elect_leaders;
mod fetch;
mod find_coordinator;
mod heartbeat;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod partition_reassignments;
mod pending_topics;
mod prepared;
mod produce;
mod sync_group;

pub use codecs::Codecs;
pub use prepared::{Prepared, prepare};

pub(crate) use delete_records::{PendingDelete, records_deleted};
pub(crate) use fetch::{FetchShape, answer as answer_fetch};
pub(crate) use list_offsets::PendingListOffsets;
pub(crate) use pending_topics::{PendingTopics, expire as expire_pending_topics, topic_created};

use alloc::boxed::Box;

use crate::broker::State;
use crate::connection::{Answer, RequestId};
use crate::context::Context;
use crate::group::Reply;
use crate::input::DiskError;
use crate::partition::delayed_fetch;
use crate::read_job::ReadOutput;
use crate::report::Level;
use crate::wire::{ApiKey, RequestBody, RequestError};

/// Starts a request. Its answer may be there at once, or come with a later step.
pub(crate) fn start(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    request: Box<Prepared>,
) {
    let (request, checks) = match request.into_parts() {
        Ok(parts) => parts,
        Err(error) => return refuse(state, cx, id, &error),
    };
    let header = request.header;
    let version = header.api_version;
    match request.body {
        RequestBody::Produce(body) => produce::handle(state, cx, id, version, body, checks),
        RequestBody::Fetch(body) => fetch::handle(state, cx, id, version, body),
        RequestBody::ListOffsets(body) => list_offsets::handle(state, cx, id, version, body),
        RequestBody::Metadata(body) => metadata::handle(state, id, version, body),
        RequestBody::ApiVersions(body) => api_versions::handle(state, id, version, &body),
        RequestBody::CreateTopics(body) => create_topics::handle(state, cx, id, body),
        RequestBody::DeleteTopics(body) => delete_topics::handle(state, cx, id, version, body),
        RequestBody::DeleteRecords(body) => delete_records::handle(state, cx, id, body),
        RequestBody::OffsetForLeaderEpoch(body) => {
            offset_for_leader_epoch::handle(state, id, body);
        }
        RequestBody::DescribeConfigs(body) => describe_configs::handle(state, id, body),
        RequestBody::AlterConfigs(body) => alter_configs::handle(state, cx, id, body),
        RequestBody::IncrementalAlterConfigs(body) => {
            alter_configs::handle_incremental(state, cx, id, body);
        }
        RequestBody::DescribeLogDirs(body) => describe_log_dirs::handle(state, id, body),
        RequestBody::AlterReplicaLogDirs(body) => alter_replica_log_dirs::handle(state, id, body),
        RequestBody::ElectLeaders(body) => elect_leaders::handle(state, id, body),
        RequestBody::AlterPartitionReassignments(body) => {
            partition_reassignments::alter(state, id, body);
        }
        RequestBody::ListPartitionReassignments(_) => partition_reassignments::list(state, id),
        RequestBody::DescribeQuorum(body) => describe_quorum::handle(state, cx, id, body),
        RequestBody::CreatePartitions(body) => create_partitions::handle(state, cx, id, body),
        RequestBody::DescribeCluster(body) => describe_cluster::handle(state, id, &body),
        RequestBody::ListConfigResources(body) => {
            list_config_resources::handle(state, id, version, &body);
        }
        RequestBody::DescribeTopicPartitions(body) => {
            describe_topic_partitions::handle(state, id, body);
        }
        RequestBody::FindCoordinator(body) => find_coordinator::handle(state, id, version, body),
        RequestBody::JoinGroup(body) => {
            join_group::handle(state, cx, id, version, header.client_id, body);
        }
        RequestBody::SyncGroup(body) => sync_group::handle(state, cx, id, version, body),
        RequestBody::Heartbeat(body) => heartbeat::handle(state, cx, id, body),
        RequestBody::LeaveGroup(body) => leave_group::handle(state, cx, id, version, body),
        RequestBody::OffsetCommit(body) => offset_commit::handle(state, cx, id, version, body),
        RequestBody::OffsetFetch(body) => offset_fetch::handle(state, id, version, body),
        RequestBody::OffsetDelete(body) => offset_delete::handle(state, cx, id, body),
        RequestBody::DescribeGroups(body) => describe_groups::handle(state, id, version, body),
        RequestBody::ListGroups(body) => list_groups::handle(state, id, &body),
        RequestBody::DeleteGroups(body) => delete_groups::handle(state, cx, id, body),
        RequestBody::ConsumerGroupHeartbeat(body) => {
            consumer_group_heartbeat::handle(state, cx, id, version, header.client_id, body);
        }
        RequestBody::ConsumerGroupDescribe(body) => {
            consumer_group_describe::handle(state, id, body);
        }
        RequestBody::InitProducerId(body) => init_producer_id::handle(state, cx, id, &body),
    }
}

/// Answers what cannot be served: ApiVersions in a form that every client reads, anything else by
/// closing the connection, as Kafka does.
fn refuse(state: &mut State, cx: &mut Context<'_>, id: RequestId, error: &RequestError) {
    if let RequestError::UnsupportedVersion {
        api: ApiKey::ApiVersions,
        ..
    } = error
    {
        let body = api_versions::unsupported_version();
        return state.answer(id, body);
    }
    let connection = state.connections.connection_of(id);
    cx.report(
        Level::Warn,
        "request",
        alloc::format!(
            "refused a request and closed the connection: connection={} {error}",
            connection.unwrap_or_default()
        ),
    );
    state.answer(id, Answer::Close);
}

/// The answer to a request that may have waited in a group.
pub(crate) fn group_reply(reply: Reply, version: i16) -> Answer {
    match reply {
        Reply::Join(reply) => join_group::response(reply, version).into(),
        Reply::Sync(reply) => sync_group::response(reply).into(),
    }
}

/// A read for a request ended.
pub(crate) fn on_read(
    state: &mut State,
    cx: &mut Context<'_>,
    request: u64,
    result: Result<ReadOutput, DiskError>,
) {
    let id = RequestId(request);
    match result {
        Ok(ReadOutput::TimeLookup(found)) => list_offsets::on_read(state, cx, id, Ok(found)),
        Ok(output) => delayed_fetch::on_read(state, cx, id, Ok(output)),
        Err(error) if state.fetches.contains_key(&id) => {
            delayed_fetch::on_read(state, cx, id, Err(error));
        }
        Err(error) => list_offsets::on_read(state, cx, id, Err(error)),
    }
}
