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
    /// `group.consumer.session.timeout.ms`.
    pub consumer_session_timeout_ms: u64,
    /// `group.consumer.heartbeat.interval.ms`: how often members are told to heartbeat.
    pub consumer_heartbeat_interval_ms: i32,
    /// `group.consumer.max.size`: members of a consumer group.
    pub consumer_max_size: usize,
    /// `group.consumer.min.session.timeout.ms`: the least that a group's config may say.
    pub consumer_min_session_timeout_ms: u64,
    /// `group.consumer.max.session.timeout.ms`: the most.
    pub consumer_max_session_timeout_ms: u64,
    /// `group.consumer.min.heartbeat.interval.ms`: the least that a group's config may say.
    pub consumer_min_heartbeat_interval_ms: i32,
    /// `group.consumer.max.heartbeat.interval.ms`: the most.
    pub consumer_max_heartbeat_interval_ms: i32,
    /// `group.consumer.migration.policy`.
    pub migration_policy: MigrationPolicy,
}

/// Whether a group with members in it may change its protocol (KIP-848).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MigrationPolicy {
    /// Neither way.
    Disabled,
    /// A classic group becomes a consumer group when a member of that protocol joins.
    Upgrade,
    /// A consumer group becomes a classic group when only classic members are left.
    Downgrade,
    /// Both.
    #[default]
    Bidirectional,
}

impl MigrationPolicy {
    /// By Kafka's names, in any case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [
            ("disabled", Self::Disabled),
            ("upgrade", Self::Upgrade),
            ("downgrade", Self::Downgrade),
            ("bidirectional", Self::Bidirectional),
        ]
        .into_iter()
        .find(|(known, _)| name.eq_ignore_ascii_case(known))
        .map(|(_, policy)| policy)
    }

    pub(crate) const fn upgrades(self) -> bool {
        matches!(self, Self::Upgrade | Self::Bidirectional)
    }

    pub(crate) const fn downgrades(self) -> bool {
        matches!(self, Self::Downgrade | Self::Bidirectional)
    }
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
            consumer_session_timeout_ms: 45_000,
            consumer_heartbeat_interval_ms: 5_000,
            consumer_max_size: i32::MAX as usize,
            consumer_min_session_timeout_ms: 45_000,
            consumer_max_session_timeout_ms: 60_000,
            consumer_min_heartbeat_interval_ms: 5_000,
            consumer_max_heartbeat_interval_ms: 15_000,
            migration_policy: MigrationPolicy::Bidirectional,
        }
    }
}
