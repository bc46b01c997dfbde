//! DescribeLogDirs (KIP-113): how much of the data directory each partition takes.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use crate::broker::State;
use crate::connection::RequestId;
use crate::wire::Str;
use crate::wire::messages::describe_log_dirs::{
    DescribableLogDirTopic, DescribeLogDirsPartition, DescribeLogDirsRequest,
    DescribeLogDirsResponse, DescribeLogDirsResult, DescribeLogDirsTopic,
};

pub(super) fn handle(state: &mut State, id: RequestId, request: DescribeLogDirsRequest) {
    let asked = request.topics.as_deref().map(partitions_of);
    let mut topics: BTreeMap<Str, Vec<DescribeLogDirsPartition>> = BTreeMap::new();
    for (key, partition) in &state.partitions {
        let Some(topic) = state.metadata.image().topic_by_id(key.topic) else {
            continue;
        };
        let wanted = asked
            .as_ref()
            .is_none_or(|asked| asked.contains(&(topic.name.as_str(), key.index)));
        if wanted {
            let partitions = topics.entry(topic.name.as_str().into()).or_default();
            partitions.push(DescribeLogDirsPartition {
                partition_index: key.index,
                partition_size: i64::try_from(partition.log().size_bytes()).unwrap_or(i64::MAX),
                ..Default::default()
            });
        }
    }
    let topics = topics
        .into_iter()
        .map(|(name, partitions)| DescribeLogDirsTopic {
            name,
            partitions,
            ..Default::default()
        });
    let result = DescribeLogDirsResult {
        log_dir: state.config.data_dir.as_str().into(),
        topics: topics.collect(),
        ..Default::default()
    };
    state.answer(
        id,
        DescribeLogDirsResponse {
            results: vec![result],
            ..Default::default()
        },
    );
}

/// Every partition that is asked for, once.
fn partitions_of(topics: &[DescribableLogDirTopic]) -> BTreeSet<(&str, i32)> {
    let mut asked = BTreeSet::new();
    for topic in topics {
        asked.extend(topic.partitions.iter().map(|index| (&*topic.topic, *index)));
    }
    asked
}
