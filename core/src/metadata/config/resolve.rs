//! From properties to settings: what the broker was started with, and what a topic ends up with.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::broker_keys::{BROKER_KEYS, broker_key};
use super::topic_keys::{TOPIC_KEYS, TopicKey, topic_key};
use super::{InvalidValue, Standing, nearest_key};
use crate::group::config::{GroupConfig, MigrationPolicy};
use crate::ids::NodeId;
use crate::input::Endpoint;
use crate::log::config::{Durability, LogConfig};
use crate::record::Compression;

/// What a broker is started with.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// `node.id`.
    pub node_id: NodeId,
    /// When an append counts as acknowledged.
    pub durability: Durability,
    /// What Metadata tells clients to connect to; `None` is the address each connected to.
    pub advertise: Option<Endpoint>,
    /// `broker.rack`.
    pub rack: Option<String>,
    /// `num.partitions`.
    pub num_partitions: i32,
    /// `auto.create.topics.enable`.
    pub auto_create_topics: bool,
    /// `delete.topic.enable`.
    pub delete_topics: bool,
    /// `fetch.max.bytes`.
    pub fetch_max_bytes: u32,
    /// `log.retention.check.interval.ms`.
    pub retention_check_interval_ms: u64,
    /// `max.request.partition.size.limit`.
    pub max_partitions_per_response: i32,
    /// The data directory as the operator names it: what DescribeLogDirs tells.
    pub data_dir: String,
    /// Every property that was set, by its name: what DescribeConfigs tells.
    pub properties: BTreeMap<String, String>,
    /// What topics inherit. The simulator sets fields below Kafka's minima here.
    pub log: LogConfig,
    /// Size at which the metadata log rolls, in bytes.
    pub metadata_segment_bytes: u64,
    /// `group.*` and `offset(s).*`.
    pub groups: GroupConfig,
    /// `log.cleaner.*`.
    pub cleaner: CleanerConfig,
}

/// How compacted logs are cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanerConfig {
    /// `log.cleaner.enable`.
    pub is_enabled: bool,
    /// `log.cleaner.backoff.ms`: how long to wait before a log is looked for again.
    pub backoff_ms: u64,
    /// `log.cleaner.dedupe.buffer.size`: how large the map of keys may become, in bytes.
    pub dedupe_buffer_bytes: u64,
}

impl Default for CleanerConfig {
    /// Kafka's defaults.
    fn default() -> Self {
        Self {
            is_enabled: true,
            backoff_ms: 15_000,
            dedupe_buffer_bytes: 128 << 20,
        }
    }
}

/// Why the properties were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigProblem {
    /// No such key.
    Unknown {
        /// The key.
        name: String,
        /// A known one that looks like it.
        nearest: Option<String>,
    },
    /// The value is not one for the key.
    Invalid {
        /// The key.
        name: String,
        /// Why.
        why: InvalidValue,
    },
    /// A group may not say that; in Kafka's words.
    Group(String),
}

/// A key that was accepted and has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The key.
    pub name: String,
    /// Why it has none.
    pub why: String,
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self {
            node_id: NodeId(0),
            durability: Durability::Fsync,
            advertise: None,
            rack: None,
            num_partitions: 1,
            auto_create_topics: true,
            delete_topics: true,
            fetch_max_bytes: 57_671_680,
            retention_check_interval_ms: 300_000,
            max_partitions_per_response: 2000,
            data_dir: String::new(),
            properties: BTreeMap::new(),
            log: LogConfig::default(),
            metadata_segment_bytes: 1 << 20,
            groups: GroupConfig::default(),
            cleaner: CleanerConfig::default(),
        }
    }
}

impl BrokerConfig {
    /// Reads Kafka's properties. Each key must be known; one that does nothing here is a warning.
    pub fn from_properties(
        properties: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(Self, Vec<Warning>), ConfigProblem> {
        let properties: BTreeMap<String, String> = properties.into_iter().collect();
        let mut warnings = Vec::new();
        for (name, value) in &properties {
            let Some(key) = broker_key(name) else {
                let known = BROKER_KEYS
                    .iter()
                    .map(|key| key.name)
                    .chain(TOPIC_KEYS.iter().map(|key| key.broker_name));
                return Err(ConfigProblem::Unknown {
                    name: name.clone(),
                    nearest: nearest_key(name, known).map(ToString::to_string),
                });
            };
            key.kind
                .check(value, key.bounds)
                .map_err(|why| ConfigProblem::Invalid {
                    name: name.clone(),
                    why,
                })?;
            if key.standing == Standing::Stored {
                warnings.push(Warning {
                    name: name.clone(),
                    why: key.documentation.to_string(),
                });
            }
        }
        let defaults = Self::default();
        let text = |name: &str| {
            properties
                .get(name)
                .map(|value| value.trim().to_string())
                .filter(|v| !v.is_empty())
        };
        let number = |name: &str| text(name).and_then(|value| value.parse::<i64>().ok());
        let flag = |name: &str, default: bool| {
            text(name).map_or(default, |value| value.eq_ignore_ascii_case("true"))
        };
        let config = Self {
            node_id: number("node.id")
                .or_else(|| number("broker.id"))
                .and_then(|id| i32::try_from(id).ok())
                .map_or(defaults.node_id, NodeId),
            rack: text("broker.rack"),
            num_partitions: narrow(number("num.partitions"), defaults.num_partitions),
            auto_create_topics: flag("auto.create.topics.enable", true),
            delete_topics: flag("delete.topic.enable", true),
            fetch_max_bytes: narrow(number("fetch.max.bytes"), defaults.fetch_max_bytes),
            retention_check_interval_ms: narrow(
                number("log.retention.check.interval.ms"),
                defaults.retention_check_interval_ms,
            ),
            max_partitions_per_response: narrow(
                number("max.request.partition.size.limit"),
                defaults.max_partitions_per_response,
            ),
            log: LogConfig {
                producer_id_expiration_ms: narrow(
                    number("producer.id.expiration.ms"),
                    defaults.log.producer_id_expiration_ms,
                ),
                ..LogConfig::default()
            }
            .with_overrides(|key| static_default(&properties, key)),
            groups: GroupConfig {
                migration_policy: properties
                    .get("group.consumer.migration.policy")
                    .and_then(|name| MigrationPolicy::from_name(name.trim()))
                    .unwrap_or(defaults.groups.migration_policy),
                ..group_config(|name| number(name))
            },
            cleaner: CleanerConfig {
                is_enabled: flag("log.cleaner.enable", defaults.cleaner.is_enabled),
                backoff_ms: narrow(
                    number("log.cleaner.backoff.ms"),
                    defaults.cleaner.backoff_ms,
                ),
                dedupe_buffer_bytes: narrow(
                    number("log.cleaner.dedupe.buffer.size"),
                    defaults.cleaner.dedupe_buffer_bytes,
                ),
            },
            properties,
            ..defaults
        };
        Ok((config, warnings))
    }
}

/// The settings of the group coordinator; `number` knows what was set.
fn group_config(number: impl Fn(&str) -> Option<i64>) -> GroupConfig {
    let defaults = GroupConfig::default();
    let minutes = number("offsets.retention.minutes").and_then(|n| u64::try_from(n).ok());
    GroupConfig {
        min_session_timeout_ms: narrow(
            number("group.min.session.timeout.ms"),
            defaults.min_session_timeout_ms,
        ),
        max_session_timeout_ms: narrow(
            number("group.max.session.timeout.ms"),
            defaults.max_session_timeout_ms,
        ),
        initial_rebalance_delay_ms: narrow(
            number("group.initial.rebalance.delay.ms"),
            defaults.initial_rebalance_delay_ms,
        ),
        max_size: narrow(number("group.max.size"), defaults.max_size),
        offset_metadata_max_bytes: narrow(
            number("offset.metadata.max.bytes"),
            defaults.offset_metadata_max_bytes,
        ),
        offsets_retention_ms: minutes.map_or(defaults.offsets_retention_ms, |minutes| {
            minutes.saturating_mul(60_000)
        }),
        offsets_retention_check_interval_ms: narrow(
            number("offsets.retention.check.interval.ms"),
            defaults.offsets_retention_check_interval_ms,
        ),
        topic_partitions: narrow(
            number("offsets.topic.num.partitions"),
            defaults.topic_partitions,
        ),
        topic_segment_bytes: narrow(
            number("offsets.topic.segment.bytes"),
            defaults.topic_segment_bytes,
        ),
        consumer_session_timeout_ms: narrow(
            number("group.consumer.session.timeout.ms"),
            defaults.consumer_session_timeout_ms,
        ),
        consumer_heartbeat_interval_ms: narrow(
            number("group.consumer.heartbeat.interval.ms"),
            defaults.consumer_heartbeat_interval_ms,
        ),
        consumer_max_size: narrow(
            number("group.consumer.max.size"),
            defaults.consumer_max_size,
        ),
        consumer_min_session_timeout_ms: narrow(
            number("group.consumer.min.session.timeout.ms"),
            defaults.consumer_min_session_timeout_ms,
        ),
        consumer_max_session_timeout_ms: narrow(
            number("group.consumer.max.session.timeout.ms"),
            defaults.consumer_max_session_timeout_ms,
        ),
        consumer_min_heartbeat_interval_ms: narrow(
            number("group.consumer.min.heartbeat.interval.ms"),
            defaults.consumer_min_heartbeat_interval_ms,
        ),
        consumer_max_heartbeat_interval_ms: narrow(
            number("group.consumer.max.heartbeat.interval.ms"),
            defaults.consumer_max_heartbeat_interval_ms,
        ),
        migration_policy: defaults.migration_policy,
    }
}

/// What the properties say about a topic config: by its broker name, or by its older names.
fn static_default(properties: &BTreeMap<String, String>, key: &TopicKey) -> Option<String> {
    let scaled = |name: &str, unit_ms: i64| {
        let value = properties.get(name)?.trim().parse::<i64>().ok()?;
        Some(
            if value < 0 {
                value
            } else {
                value.saturating_mul(unit_ms)
            }
            .to_string(),
        )
    };
    if let Some(value) = properties.get(key.broker_name) {
        return Some(value.clone());
    }
    match key.name {
        "retention.ms" => scaled("log.retention.minutes", 60_000)
            .or_else(|| scaled("log.retention.hours", 3_600_000)),
        "segment.ms" => scaled("log.roll.hours", 3_600_000),
        _ => None,
    }
}

impl BrokerConfig {
    /// What the start-up properties say about a topic config, as text.
    #[must_use]
    pub fn static_topic_default(&self, key: &TopicKey) -> Option<String> {
        static_default(&self.properties, key)
    }
}

fn narrow<T: TryFrom<i64>>(value: Option<i64>, default: T) -> T {
    value
        .and_then(|value| T::try_from(value).ok())
        .unwrap_or(default)
}

impl LogConfig {
    /// These settings with those replaced for which `value_of` has a (checked) value.
    #[must_use]
    pub fn with_overrides(mut self, mut value_of: impl FnMut(&TopicKey) -> Option<String>) -> Self {
        for key in TOPIC_KEYS {
            if let Some(value) = value_of(key) {
                self.set(key.name, &value);
            }
        }
        self
    }

    /// Sets one topic config; a value that is none for its key changes nothing.
    fn set(&mut self, name: &str, value: &str) {
        let number = || value.trim().parse::<i64>().ok();
        let unsigned = || number().and_then(|n| u64::try_from(n).ok());
        let below_max = || unsigned().filter(|n| *n != i64::MAX as u64);
        let into = |field: &mut u64| {
            if let Some(n) = unsigned() {
                *field = n;
            }
        };
        match name {
            "segment.bytes" => into(&mut self.segment_bytes),
            "segment.ms" => into(&mut self.segment_ms),
            "segment.index.bytes" => into(&mut self.segment_index_bytes),
            "index.interval.bytes" => into(&mut self.index_interval_bytes),
            "retention.bytes" => self.retention_bytes = unsigned(),
            "retention.ms" => self.retention_ms = unsigned(),
            "file.delete.delay.ms" => into(&mut self.file_delete_delay_ms),
            "flush.messages" => self.flush_messages = below_max(),
            "flush.ms" => self.flush_ms = below_max(),
            "max.message.bytes" => {
                self.max_message_bytes = narrow(number(), self.max_message_bytes)
            }
            "compression.type" => {
                self.compression = match value {
                    "uncompressed" => Some(Compression::None),
                    codec => Compression::from_name(codec).filter(|c| *c != Compression::None),
                };
            }
            "compression.gzip.level" => self.gzip_level = narrow(number(), self.gzip_level),
            "compression.zstd.level" => self.zstd_level = narrow(number(), self.zstd_level),
            "message.timestamp.type" => self.log_append_time = value == "LogAppendTime",
            "message.timestamp.before.max.ms" => into(&mut self.timestamp_before_max_ms),
            "message.timestamp.after.max.ms" => into(&mut self.timestamp_after_max_ms),
            "delete.retention.ms" => into(&mut self.delete_retention_ms),
            "min.compaction.lag.ms" => into(&mut self.min_compaction_lag_ms),
            "max.compaction.lag.ms" => self.max_compaction_lag_ms = below_max(),
            "min.cleanable.dirty.ratio" => {
                if let Some(ppm) = millionths(value) {
                    self.min_cleanable_dirty_ppm = ppm;
                }
            }
            "cleanup.policy" => {
                self.delete = super::value::split_list(value).any(|word| word == "delete");
                self.compact = super::value::split_list(value).any(|word| word == "compact");
            }
            _ => {}
        }
    }
}

/// A decimal number between 0 and 1 in millionths: what decides knows no floats.
fn millionths(value: &str) -> Option<u32> {
    let ratio: f64 = value.trim().parse().ok()?;
    (0.0..=1.0)
        .contains(&ratio)
        .then_some((ratio * 1_000_000.0) as u32)
}

/// Checks the configs of one topic; an error names the key.
pub fn check_topic_config(name: &str, value: &str) -> Result<&'static TopicKey, ConfigProblem> {
    let Some(key) = topic_key(name) else {
        return Err(ConfigProblem::Unknown {
            name: name.to_string(),
            nearest: nearest_key(name, TOPIC_KEYS.iter().map(|key| key.name))
                .map(ToString::to_string),
        });
    };
    key.kind
        .check(value, key.bounds)
        .map_err(|why| ConfigProblem::Invalid {
            name: name.to_string(),
            why,
        })?;
    Ok(key)
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, nearest } => {
                write!(f, "unknown config '{name}'")?;
                nearest
                    .as_ref()
                    .map_or(Ok(()), |near| write!(f, "; did you mean '{near}'?"))
            }
            Self::Invalid { name, why } => write!(f, "config '{name}': {why}"),
            Self::Group(words) => f.write_str(words),
        }
    }
}

impl core::error::Error for ConfigProblem {}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!(
            "config '{}' has no effect: {}",
            self.name, self.why
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Codec;

    fn properties(list: &[(&str, &str)]) -> Result<(BrokerConfig, Vec<Warning>), ConfigProblem> {
        BrokerConfig::from_properties(
            list.iter()
                .map(|(name, value)| ((*name).to_string(), (*value).to_string())),
        )
    }

    #[test]
    fn properties_become_settings() {
        let (config, warnings) = properties(&[
            ("num.partitions", "7"),
            ("log.segment.bytes", "2097152"),
            ("log.retention.hours", "2"),
            ("log.cleanup.policy", "compact,delete"),
            ("num.io.threads", "4"),
        ])
        .unwrap();
        assert_eq!(config.num_partitions, 7);
        assert_eq!(config.log.segment_bytes, 2_097_152);
        assert_eq!(config.log.retention_ms, Some(7_200_000));
        assert!(config.log.compact && config.log.delete);
        assert_eq!(warnings.len(), 1);
        assert_eq!(warnings[0].name, "num.io.threads");
    }

    #[test]
    fn the_cleaner_is_set_by_kafkas_names() {
        let (config, warnings) = properties(&[
            ("log.cleaner.enable", "false"),
            ("log.cleaner.backoff.ms", "7"),
            ("log.cleaner.dedupe.buffer.size", "1000"),
            ("log.cleaner.min.cleanable.ratio", "0.25"),
            ("log.cleaner.delete.retention.ms", "1"),
            ("log.cleaner.min.compaction.lag.ms", "2"),
            ("log.cleaner.max.compaction.lag.ms", "3"),
        ])
        .unwrap();
        let expected = CleanerConfig {
            is_enabled: false,
            backoff_ms: 7,
            dedupe_buffer_bytes: 1_000,
        };
        assert_eq!(config.cleaner, expected);
        assert_eq!(config.log.min_cleanable_dirty_ppm, 250_000);
        assert_eq!(config.log.delete_retention_ms, 1);
        assert_eq!(config.log.min_compaction_lag_ms, 2);
        assert_eq!(config.log.max_compaction_lag_ms, Some(3));
        assert!(warnings.is_empty());
        let default = LogConfig::default().with_overrides(|key| Some(key.default.to_string()));
        assert_eq!(default.min_cleanable_dirty_ppm, 500_000);
        assert_eq!(default.max_compaction_lag_ms, None);
        assert!(properties(&[("log.cleaner.min.cleanable.ratio", "1.5")]).is_err());
    }

    #[test]
    fn a_codec_of_the_brokers_own_is_set_by_kafkas_names() {
        let kept = |list: &[(&str, &str)]| properties(list).unwrap().0.log.kept();
        assert_eq!(kept(&[]), None);
        assert_eq!(kept(&[("compression.type", "producer")]), None);
        let codec = |list: &[(&str, &str)]| kept(list).map(|kept| kept.codec);
        let with = |compression, level| Some(Codec { compression, level });
        assert_eq!(
            codec(&[("compression.type", "uncompressed")]),
            with(Compression::None, -1)
        );
        assert_eq!(
            codec(&[
                ("compression.type", "gzip"),
                ("compression.gzip.level", "9")
            ]),
            with(Compression::Gzip, 9)
        );
        assert_eq!(
            codec(&[("compression.type", "zstd")]),
            with(Compression::Zstd, 3)
        );
        // Kafka's message format knows "none", its configs do not.
        for (name, value) in [
            ("compression.type", "none"),
            ("compression.type", "brotli"),
            ("compression.gzip.level", "0"),
            ("compression.gzip.level", "10"),
            ("compression.lz4.level", "18"),
            ("compression.zstd.level", "23"),
        ] {
            assert!(properties(&[(name, value)]).is_err(), "{name}={value}");
        }
    }

    #[test]
    fn the_finer_unit_wins() {
        let (config, _) =
            properties(&[("log.retention.hours", "2"), ("log.retention.ms", "-1")]).unwrap();
        assert_eq!(config.log.retention_ms, None);
    }

    #[test]
    fn an_unknown_key_is_an_error_that_names_the_nearest() {
        let problem = properties(&[("num.partition", "7")]).unwrap_err();
        assert_eq!(
            problem.to_string(),
            "unknown config 'num.partition'; did you mean 'num.partitions'?"
        );
        let problem = properties(&[("", "7")]).unwrap_err().to_string();
        assert!(problem.starts_with("unknown config ''"), "{problem}");
    }

    #[test]
    fn a_value_out_of_bounds_is_an_error() {
        let problem = properties(&[("log.segment.bytes", "14")]).unwrap_err();
        assert!(
            problem.to_string().contains("log.segment.bytes"),
            "{problem}"
        );
    }
}
