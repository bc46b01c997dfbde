//! The configs of a topic.

use super::Standing::{self, Refused, Stored, Works};
use super::value::Bounds::{self, Any, AtLeast, Between, BetweenOr, OneOf, Ratio};
use super::value::ConfigType::{self, Boolean, Double, Int, List, Long, String};

/// A config of a topic.
#[derive(Clone, Copy, Debug)]
pub struct TopicKey {
    /// Its name.
    pub name: &'static str,
    /// The broker's config that gives its default; empty if there is none.
    pub broker_name: &'static str,
    /// Type of its value.
    pub kind: ConfigType,
    /// Kafka's default.
    pub default: &'static str,
    /// Allowed values.
    pub bounds: Bounds,
    /// Whether it works here.
    pub standing: Standing,
    /// What it does, in a sentence.
    pub documentation: &'static str,
}

/// The topic config of that name.
#[must_use]
pub fn topic_key(name: &str) -> Option<&'static TopicKey> {
    TOPIC_KEYS.iter().find(|key| key.name == name)
}

const MAX: &str = "9223372036854775807";

macro_rules! topic_keys {
    ($($name:literal $broker:literal $kind:ident $default:expr, $bounds:expr, $standing:ident, $doc:literal;)*) => {
        /// All topic configs, sorted by name.
        pub static TOPIC_KEYS: &[TopicKey] = &[$(TopicKey {
            name: $name, broker_name: $broker, kind: $kind, default: $default, bounds: $bounds,
            standing: $standing, documentation: $doc,
        }),*];
    };
}

topic_keys! {
    "cleanup.policy" "log.cleanup.policy" List "delete", OneOf(&["compact", "delete"]), Works,
        "delete removes old segments by retention; compact keeps the last record of each key";
    "compression.gzip.level" "compression.gzip.level" Int "-1", BetweenOr(1, 9, -1), Works,
        "level of gzip, if the broker compresses; -1 is the library's choice";
    "compression.lz4.level" "compression.lz4.level" Int "9", Between(1, 17), Stored,
        "lz4 has one level here, its fastest";
    "compression.type" "compression.type" String "producer", OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]), Works,
        "how batches are stored: as the producer compressed them, or all in one way";
    "compression.zstd.level" "compression.zstd.level" Int "3", Between(-131_072, 22), Works,
        "level of zstd, if the broker compresses";
    "delete.retention.ms" "log.cleaner.delete.retention.ms" Long "86400000", AtLeast(0), Works,
        "how long the cleaner keeps tombstones";
    "file.delete.delay.ms" "log.segment.delete.delay.ms" Long "60000", AtLeast(0), Works,
        "how long the files of a deleted segment stay";
    "flush.messages" "log.flush.interval.messages" Long MAX, AtLeast(1), Works,
        "under durability os: flush before answering once so many records are unflushed";
    "flush.ms" "log.flush.interval.ms" Long MAX, AtLeast(0), Works,
        "under durability os: flush in the background once a record is unflushed for so long";
    "follower.replication.throttled.replicas" "" List "", Any, Stored,
        "replicas whose replication is throttled";
    "index.interval.bytes" "log.index.interval.bytes" Int "4096", AtLeast(0), Works,
        "bytes of log between two entries of the offset index";
    "leader.replication.throttled.replicas" "" List "", Any, Stored,
        "replicas whose replication is throttled";
    "local.retention.bytes" "log.local.retention.bytes" Long "-2", OneOf(&["-2"]), Refused,
        "tiered storage does not exist here";
    "local.retention.ms" "log.local.retention.ms" Long "-2", OneOf(&["-2"]), Refused,
        "tiered storage does not exist here";
    "max.compaction.lag.ms" "log.cleaner.max.compaction.lag.ms" Long MAX, AtLeast(1), Works,
        "how long a record may stay uncompacted";
    "max.message.bytes" "message.max.bytes" Int "1048588", AtLeast(0), Works,
        "the largest record batch accepted";
    "message.timestamp.after.max.ms" "log.message.timestamp.after.max.ms" Long "3600000", AtLeast(0), Works,
        "how far in the future a record's timestamp may lie";
    "message.timestamp.before.max.ms" "log.message.timestamp.before.max.ms" Long MAX, AtLeast(0), Works,
        "how far in the past a record's timestamp may lie";
    "message.timestamp.type" "log.message.timestamp.type" String "CreateTime", OneOf(&["CreateTime", "LogAppendTime"]), Works,
        "whose clock a record's timestamp is";
    "min.cleanable.dirty.ratio" "log.cleaner.min.cleanable.ratio" Double "0.5", Ratio, Works,
        "the share of a log that must not be cleaned yet for the cleaner to start";
    "min.compaction.lag.ms" "log.cleaner.min.compaction.lag.ms" Long "0", AtLeast(0), Works,
        "how long a record stays uncompacted";
    "min.insync.replicas" "min.insync.replicas" Int "1", AtLeast(1), Works,
        "with acks=all, how many replicas must be in sync; there is one";
    "preallocate" "log.preallocate" Boolean "false", Any, Stored,
        "whether segment files are preallocated";
    "remote.log.copy.disable" "" Boolean "false", OneOf(&["false"]), Refused,
        "tiered storage does not exist here";
    "remote.log.delete.on.disable" "" Boolean "false", OneOf(&["false"]), Refused,
        "tiered storage does not exist here";
    "remote.storage.enable" "" Boolean "false", OneOf(&["false"]), Refused,
        "tiered storage does not exist here";
    "retention.bytes" "log.retention.bytes" Long "-1", Any, Works,
        "delete the oldest segments of a partition beyond this size; -1 keeps all";
    "retention.ms" "log.retention.ms" Long "604800000", AtLeast(-1), Works,
        "delete segments whose newest record is older; -1 keeps all";
    "segment.bytes" "log.segment.bytes" Int "1073741824", AtLeast(1_048_576), Works,
        "size at which a segment is closed";
    "segment.index.bytes" "log.index.size.max.bytes" Int "10485760", AtLeast(4), Works,
        "size at which an index closes its segment";
    "segment.jitter.ms" "log.roll.jitter.ms" Long "0", AtLeast(0), Stored,
        "random share taken from segment.ms";
    "segment.ms" "log.roll.ms" Long "604800000", AtLeast(1), Works,
        "age at which a segment is closed";
    "unclean.leader.election.enable" "unclean.leader.election.enable" Boolean "false", Any, Stored,
        "whether a replica out of sync may lead";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_valid_and_the_names_are_sorted() {
        for key in TOPIC_KEYS {
            key.kind.check(key.default, key.bounds).unwrap();
        }
        assert!(TOPIC_KEYS.is_sorted_by(|a, b| a.name < b.name));
    }
}
