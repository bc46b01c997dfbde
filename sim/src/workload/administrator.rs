//! A client that asks and changes what the others leave alone: configs, partition counts, log
//! directories, leader epochs, the cluster.

use bytes::Bytes;
use odradek_core::ids::ConnectionId;
use odradek_core::wire::messages::alter_configs::{self, AlterConfigsRequest};
use odradek_core::wire::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use odradek_core::wire::messages::alter_replica_log_dirs::{
    AlterReplicaLogDir, AlterReplicaLogDirTopic, AlterReplicaLogDirsRequest,
};
use odradek_core::wire::messages::api_versions::ApiVersionsRequest;
use odradek_core::wire::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsTopic,
};
use odradek_core::wire::messages::describe_cluster::DescribeClusterRequest;
use odradek_core::wire::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource,
};
use odradek_core::wire::messages::describe_log_dirs::{
    DescribableLogDirTopic, DescribeLogDirsRequest,
};
use odradek_core::wire::messages::describe_quorum::{
    self, DescribeQuorumRequest, PartitionRequest,
};
use odradek_core::wire::messages::describe_topic_partitions::{
    DescribeTopicPartitionsRequest, TopicRequest,
};
use odradek_core::wire::messages::elect_leaders::{ElectLeadersRequest, TopicPartitions};
use odradek_core::wire::messages::incremental_alter_configs::{
    self, IncrementalAlterConfigsRequest,
};
use odradek_core::wire::messages::list_config_resources::ListConfigResourcesRequest;
use odradek_core::wire::messages::list_partition_reassignments::ListPartitionReassignmentsRequest;
use odradek_core::wire::messages::offset_for_leader_epoch::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use odradek_core::wire::{RequestBody, ResponseBody};

use super::session::Session;
use super::{Client, ClientContext};
use crate::clock::MILLISECOND;

/// Asks, one request after another.
#[derive(Debug, Default)]
pub struct Administrator {
    session: Session,
    /// The topic that is being given more partitions, and how many.
    growing: Option<(String, i32)>,
    is_finishing: bool,
}

/// Resource types of the config APIs.
pub const TOPIC: i8 = 2;
/// See [`TOPIC`].
pub const BROKER: i8 = 4;

/// Configs of topics that a run may change under the eyes of the oracle: none that the rebuild of an
/// index depends on. The second value of each is refused.
pub const CONFIGS: &[(&str, &[&str])] = &[
    ("max.message.bytes", &["1048588", "-1", "300", "5000"]),
    ("min.insync.replicas", &["1", "0", "2"]),
    (
        "message.timestamp.type",
        &["CreateTime", "Never", "LogAppendTime"],
    ),
    ("message.timestamp.before.max.ms", &["3600000", "x", "50"]),
    (
        "cleanup.policy",
        &["delete", "burn", "compact", "compact,delete"],
    ),
    ("segment.bytes", &["1048576", "1"]),
    ("flush.messages", &["1", "0", "3"]),
    ("flush.ms", &["1000", "x", "40"]),
    ("retention.ms", &["604800000", "x", "300"]),
    ("retention.bytes", &["-1", "x", "2000"]),
];

/// A config and a value for it, mostly one that holds nobody up.
pub fn pick_config(cx: &mut ClientContext<'_>) -> (&'static str, &'static str) {
    let (name, values) = cx.pick(CONFIGS);
    let value = if cx.chance(500_000) {
        values[0]
    } else {
        cx.pick(values)
    };
    (name, value)
}

impl Administrator {
    fn ask(&mut self, cx: &mut ClientContext<'_>) {
        let (topic, partition) = cx.pick_partition();
        let body = match cx.between(0, 10) {
            0 => self.grow(cx, topic),
            1 | 2 => describe_configs(cx, &topic),
            3 | 4 => alter(cx, &topic),
            5 => replace(cx, &topic),
            6 => DescribeLogDirsRequest {
                topics: cx.chance(500_000).then(|| {
                    vec![DescribableLogDirTopic {
                        topic: topic.as_str().into(),
                        partitions: vec![partition],
                        ..Default::default()
                    }]
                }),
                ..Default::default()
            }
            .into(),
            7 => OffsetForLeaderEpochRequest {
                replica_id: -1,
                topics: vec![OffsetForLeaderTopic {
                    topic: topic.as_str().into(),
                    partitions: vec![OffsetForLeaderPartition {
                        partition,
                        current_leader_epoch: -1,
                        leader_epoch: cx.between(0, 6) as i32,
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            }
            .into(),
            8 => DescribeClusterRequest {
                endpoint_type: 1,
                ..Default::default()
            }
            .into(),
            9 => DescribeTopicPartitionsRequest {
                topics: if cx.chance(500_000) {
                    Vec::new()
                } else {
                    vec![TopicRequest {
                        name: topic.as_str().into(),
                        ..Default::default()
                    }]
                },
                response_partition_limit: cx.pick(&[1, 2_000]),
                cursor: None,
                ..Default::default()
            }
            .into(),
            _ => match cx.between(0, 3) {
                0 => ListConfigResourcesRequest::default().into(),
                1 => ApiVersionsRequest::default().into(),
                _ => about_one_node(cx, &topic, partition),
            },
        };
        let api = odradek_core::wire::messages::Body::api(&body);
        let version = Session::version(cx, api);
        self.session.request(cx, version, body, 0, true);
    }

    fn grow(&mut self, cx: &mut ClientContext<'_>, topic: String) -> RequestBody {
        let now = cx
            .catalog
            .topics
            .iter()
            .find(|(name, _)| *name == topic)
            .map_or(1, |(_, partitions)| *partitions);
        // No more than a few, and none at all now and then, which is an error.
        let count = cx.pick(&[now + 1, now + 1, now + 2, now, -1]).min(5);
        let validate_only = cx.chance(200_000);
        self.growing = (!validate_only && count > now).then(|| (topic.clone(), count));
        CreatePartitionsRequest {
            topics: vec![CreatePartitionsTopic {
                name: topic.as_str().into(),
                count,
                assignments: None,
                ..Default::default()
            }],
            timeout_ms: 10_000,
            validate_only,
            ..Default::default()
        }
        .into()
    }
}

fn describe_configs(cx: &mut ClientContext<'_>, topic: &str) -> RequestBody {
    let keys = cx.chance(500_000).then(|| {
        let (name, _) = cx.pick(CONFIGS);
        vec![name.into()]
    });
    let mut resources = vec![DescribeConfigsResource {
        resource_type: TOPIC,
        resource_name: topic.into(),
        configuration_keys: keys,
        ..Default::default()
    }];
    if cx.chance(200_000) {
        resources.push(DescribeConfigsResource {
            resource_type: BROKER,
            resource_name: cx.pick(&["", "0", "77"]).into(),
            configuration_keys: None,
            ..Default::default()
        });
    }
    DescribeConfigsRequest {
        resources,
        include_synonyms: cx.chance(300_000),
        include_documentation: cx.chance(300_000),
        ..Default::default()
    }
    .into()
}

/// Sets or takes back single configs.
fn alter(cx: &mut ClientContext<'_>, topic: &str) -> RequestBody {
    let (name, value) = pick_config(cx);
    let deletes = cx.chance(400_000);
    IncrementalAlterConfigsRequest {
        resources: vec![incremental_alter_configs::AlterConfigsResource {
            resource_type: TOPIC,
            resource_name: topic.into(),
            configs: vec![incremental_alter_configs::AlterableConfig {
                name: name.into(),
                config_operation: i8::from(deletes),
                value: (!deletes).then(|| value.into()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        validate_only: cx.chance(100_000),
        ..Default::default()
    }
    .into()
}

/// Sets some configs and takes all others back.
fn replace(cx: &mut ClientContext<'_>, topic: &str) -> RequestBody {
    let mut configs: Vec<alter_configs::AlterableConfig> = Vec::new();
    for _ in 0..cx.between(0, 2) {
        let (name, value) = pick_config(cx);
        if configs.iter().all(|config| config.name != *name) {
            configs.push(alter_configs::AlterableConfig {
                name: name.into(),
                value: Some(value.into()),
                ..Default::default()
            });
        }
    }
    AlterConfigsRequest {
        resources: vec![alter_configs::AlterConfigsResource {
            resource_type: TOPIC,
            resource_name: topic.into(),
            configs,
            ..Default::default()
        }],
        validate_only: cx.chance(100_000),
        ..Default::default()
    }
    .into()
}

impl Client for Administrator {
    fn start(&mut self, cx: &mut ClientContext<'_>) {
        cx.after(100 * MILLISECOND, 0);
    }

    fn timer(&mut self, _: u64, cx: &mut ClientContext<'_>) {
        if !self.is_finishing && self.session.in_flight() == 0 {
            self.ask(cx);
        }
    }

    fn bytes(&mut self, connection: ConnectionId, bytes: Bytes, cx: &mut ClientContext<'_>) {
        for answer in self.session.receive(cx, connection, &bytes) {
            if let ResponseBody::CreatePartitions(response) = &answer.body
                && let Some((topic, count)) = self.growing.take()
                && response.results.iter().all(|r| !r.error_code.is_error())
                && let Some((_, partitions)) = cx
                    .catalog
                    .topics
                    .iter_mut()
                    .find(|(name, _)| *name == topic)
            {
                *partitions = count.max(*partitions);
            }
            let pause = cx.pause(40 * MILLISECOND);
            cx.after(pause, 0);
        }
    }

    fn closed(&mut self, connection: ConnectionId, cx: &mut ClientContext<'_>) {
        self.session.lost(connection);
        cx.after(20 * MILLISECOND, 0);
    }

    fn finish(&mut self, _: &mut ClientContext<'_>) {
        self.is_finishing = true;
    }

    fn is_idle(&self) -> bool {
        self.session.in_flight() == 0
    }
}

/// What only a cluster of several nodes would have to think about.
fn about_one_node(cx: &mut ClientContext<'_>, topic: &str, partition: i32) -> RequestBody {
    // The next partition may not be there, or come into being now.
    let partition = partition + cx.pick(&[0, 0, 1]);
    match cx.between(0, 4) {
        0 => ElectLeadersRequest {
            election_type: cx.pick(&[0, 1]),
            topic_partitions: cx.chance(800_000).then(|| {
                vec![TopicPartitions {
                    topic: topic.into(),
                    partitions: vec![partition],
                    ..Default::default()
                }]
            }),
            ..Default::default()
        }
        .into(),
        1 => AlterReplicaLogDirsRequest {
            dirs: vec![AlterReplicaLogDir {
                // A simulated broker has no name for its directory.
                path: cx.pick(&["/nowhere", ""]).into(),
                topics: vec![AlterReplicaLogDirTopic {
                    name: topic.into(),
                    partitions: vec![partition],
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        }
        .into(),
        2 => DescribeQuorumRequest {
            topics: vec![describe_quorum::TopicRequest {
                topic_name: cx
                    .pick(&["__cluster_metadata", "__cluster_metadata", "other"])
                    .into(),
                partitions: vec![PartitionRequest::default()],
                ..Default::default()
            }],
            ..Default::default()
        }
        .into(),
        3 => AlterPartitionReassignmentsRequest {
            topics: vec![ReassignableTopic {
                name: topic.into(),
                partitions: vec![ReassignablePartition {
                    partition_index: partition,
                    replicas: cx.chance(800_000).then(|| vec![cx.between(0, 1) as i32]),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        }
        .into(),
        _ => ListPartitionReassignmentsRequest::default().into(),
    }
}
