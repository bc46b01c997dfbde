//! Settings of the group coordinator.

/// What `group.*` and `offset(s).*` say. Units are in the names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// `group.min.session.timeout.ms`.
    pub min_session_timeout_ms: u64,
    /// `group.max.session.timeout.ms`.
    pub max_session_timeout_ms: u64,
    /// `group.initial.rebalance.delay.ms`: how long the first rebalance of an empty group waits for
    /// more members.
    pub initial_rebalance_delay_ms: u64,
    /// `group.max.size`: members of a group.
    pub max_size: usize,
    /// `offset.metadata.max.bytes`: the metadata of one committed offset.
    pub offset_metadata_max_bytes: usize,
    /// `offsets.retention.minutes`, in milliseconds.
    pub offsets_retention_ms: u64,
    /// `offsets.retention.check.interval.ms`.
    pub offsets_retention_check_interval_ms: u64,
    /// `offsets.topic.num.partitions`, when the topic is created.
    pub topic_partitions: i32,
    /// `offsets.topic.segment.bytes`, when the topic is created.
    pub topic_segment_bytes: u64,
}

impl Default for GroupConfig {
    /// Kafka's defaults, but one partition (whose flush all groups share) and small segments.
    fn default() -> Self {
        Self {
            min_session_timeout_ms: 6_000,
            max_session_timeout_ms: 1_800_000,
            initial_rebalance_delay_ms: 3_000,
            max_size: i32::MAX as usize,
            offset_metadata_max_bytes: 4_096,
            offsets_retention_ms: 7 * 24 * 3_600_000,
            offsets_retention_check_interval_ms: 600_000,
            topic_partitions: 1,
            topic_segment_bytes: 8 << 20,
        }
    }
}
