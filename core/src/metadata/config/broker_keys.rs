//! The configs of the broker that are no topic's default.

use super::Standing::{self, Refused, Stored, Works};
use super::topic_keys::{TOPIC_KEYS, TopicKey};
use super::value::Bounds::{self, Any, AtLeast, Between, OneOf};
use super::value::ConfigType::{self, Boolean, Double, Int, List, Long, Short, String};

/// A config of the broker.
#[derive(Clone, Copy, Debug)]
pub struct BrokerKey {
    /// Its name.
    pub name: &'static str,
    /// Type of its value.
    pub kind: ConfigType,
    /// Kafka's default (or Odradek's, where it says so); `None` is null.
    pub default: Option<&'static str>,
    /// Allowed values.
    pub bounds: Bounds,
    /// Whether it works here.
    pub standing: Standing,
    /// Whether it can be changed while the broker runs.
    pub dynamic: bool,
    /// What it does, in a sentence.
    pub documentation: &'static str,
}

/// The broker config of that name, whether its own or the default of a topic's.
#[must_use]
pub fn broker_key(name: &str) -> Option<BrokerKey> {
    BROKER_KEYS
        .iter()
        .find(|key| key.name == name)
        .copied()
        .or_else(|| {
            TOPIC_KEYS
                .iter()
                // Some are no default of the broker's and have no name there.
                .find(|key| key.broker_name == name && !name.is_empty())
                .map(BrokerKey::of_topic_default)
        })
}

impl BrokerKey {
    /// The broker's side of a topic config.
    #[must_use]
    pub const fn of_topic_default(key: &TopicKey) -> Self {
        Self {
            name: key.broker_name,
            kind: key.kind,
            default: Some(key.default),
            bounds: key.bounds,
            standing: key.standing,
            dynamic: true,
            documentation: key.documentation,
        }
    }
}

macro_rules! broker_keys {
    ($($name:literal $kind:ident $default:expr, $bounds:expr, $standing:ident, $dynamic:literal, $doc:literal;)*) => {
        /// All broker configs but those that are defaults of topic configs.
        pub static BROKER_KEYS: &[BrokerKey] = &[$(BrokerKey {
            name: $name, kind: $kind, default: $default, bounds: $bounds, standing: $standing,
            dynamic: $dynamic, documentation: $doc,
        }),*];
    };
}

broker_keys! {
    "advertised.listeners" List None, Any, Works, false, "the address that clients are told to connect to";
    "auto.create.topics.enable" Boolean Some("true"), Any, Works, false, "create a topic when a client first asks for it";
    "background.threads" Int Some("10"), AtLeast(1), Stored, true, "threads for background work in Kafka; Odradek sizes its own";
    "broker.rack" String None, Any, Works, false, "the rack that Metadata tells";
    "connections.max.idle.ms" Long Some("600000"), Any, Works, false, "close connections that are idle, or stuck in half a request, for so long";
    "controlled.shutdown.enable" Boolean Some("true"), Any, Stored, false, "one node has nobody to hand over to";
    "default.replication.factor" Int Some("1"), Between(1, 1), Works, false, "replicas of a topic created without a number; one node holds one";
    "delete.topic.enable" Boolean Some("true"), Any, Works, false, "whether topics can be deleted";
    "fetch.max.bytes" Int Some("57671680"), AtLeast(1024), Works, false, "the most that one fetch answers with";
    "inter.broker.listener.name" String None, Any, Stored, false, "one node does not talk to others";
    "listener.security.protocol.map" String Some("PLAINTEXT:PLAINTEXT"), Any, Stored, false, "only PLAINTEXT exists here";
    "listeners" List Some("PLAINTEXT://:9092"), Any, Works, false, "where the broker listens";
    "log.cleaner.backoff.ms" Long Some("15000"), AtLeast(0), Works, false, "how long the cleaner waits before it looks for a log again";
    "log.cleaner.dedupe.buffer.size" Long Some("134217728"), AtLeast(1), Works, false, "how large the cleaner's map of keys may become; what does not fit is cleaned in the next round";
    "log.cleaner.enable" Boolean Some("true"), Any, Works, false, "whether compacted logs are cleaned";
    "log.cleaner.threads" Int Some("1"), AtLeast(0), Stored, true, "one log is cleaned at a time";
    "log.dir" String None, Any, Works, false, "the data directory, if log.dirs is not set";
    "log.dirs" List None, Any, Works, false, "the data directory";
    "log.flush.offset.checkpoint.interval.ms" Int Some("60000"), AtLeast(0), Stored, false, "recovery points are kept every 64 MiB or 5 s of flushed data";
    "log.flush.scheduler.interval.ms" Long Some("9223372036854775807"), Any, Stored, false, "flushes are not polled for";
    "log.retention.check.interval.ms" Long Some("300000"), AtLeast(1), Works, false, "how often retention looks at the logs";
    "log.retention.hours" Int Some("168"), Any, Works, false, "retention.ms in hours, if log.retention.ms is not set";
    "log.retention.minutes" Int None, Any, Works, false, "retention.ms in minutes, if log.retention.ms is not set";
    "log.roll.hours" Int Some("168"), AtLeast(1), Works, false, "segment.ms in hours, if log.roll.ms is not set";
    "max.connections" Int Some("2147483647"), AtLeast(0), Works, false, "connections beyond which new ones are refused";
    "max.connections.per.ip" Int Some("2147483647"), AtLeast(0), Stored, false, "connections of one client";
    "node.id" Int Some("0"), AtLeast(0), Works, false, "this broker's id; Odradek's default is 0";
    "broker.id" Int Some("0"), AtLeast(0), Works, false, "old name of node.id";
    "num.io.threads" Int Some("8"), AtLeast(1), Stored, true, "threads for requests in Kafka; Odradek sizes its own";
    "num.network.threads" Int Some("3"), AtLeast(1), Stored, true, "threads for sockets in Kafka; Odradek sizes its own";
    "num.partitions" Int Some("1"), AtLeast(1), Works, false, "partitions of a topic created without a number";
    "num.recovery.threads.per.data.dir" Int Some("2"), AtLeast(1), Stored, true, "threads for recovery in Kafka; Odradek sizes its own";
    "num.replica.fetchers" Int Some("1"), Any, Stored, true, "one node does not replicate";
    "offsets.topic.replication.factor" Short Some("1"), AtLeast(1), Stored, false, "one node holds one replica";
    "offsets.topic.num.partitions" Int Some("1"), Between(1, 10_000), Works, false, "partitions of the topic of groups when it is created; Odradek's default is 1, so that all groups share a flush";
    "group.consumer.assignors" List Some("uniform,range"), OneOf(&["uniform", "range"]), Stored, false, "both assignors are always there, uniform first";
    "group.consumer.heartbeat.interval.ms" Int Some("5000"), AtLeast(1), Works, false, "how often members of consumer groups are told to heartbeat";
    "group.consumer.max.size" Int Some("2147483647"), AtLeast(1), Works, false, "members of a consumer group";
    "group.consumer.migration.policy" String Some("bidirectional"), OneOf(&["disabled", "upgrade", "downgrade", "bidirectional"]), Works, false, "whether a group with members in it may change its protocol: from classic to consumer, back, or both; an empty group may always";
    "group.consumer.max.heartbeat.interval.ms" Int Some("15000"), AtLeast(1), Works, false, "the longest heartbeat interval that a group's config may say";
    "group.consumer.max.session.timeout.ms" Int Some("60000"), AtLeast(1), Works, false, "the longest session timeout that a group's config may say";
    "group.consumer.min.heartbeat.interval.ms" Int Some("5000"), AtLeast(1), Works, false, "the shortest heartbeat interval that a group's config may say";
    "group.consumer.min.session.timeout.ms" Int Some("45000"), AtLeast(1), Works, false, "the shortest session timeout that a group's config may say";
    "group.consumer.session.timeout.ms" Int Some("45000"), AtLeast(1), Works, false, "after how long without a heartbeat a member of a consumer group is given up";
    "group.initial.rebalance.delay.ms" Int Some("3000"), AtLeast(0), Works, false, "how long the first rebalance of an empty group waits for more members";
    "group.max.session.timeout.ms" Int Some("1800000"), AtLeast(1), Works, false, "the longest session timeout that a member of a classic group may ask for";
    "group.max.size" Int Some("2147483647"), AtLeast(1), Works, false, "members of a classic group";
    "group.min.session.timeout.ms" Int Some("6000"), AtLeast(1), Works, false, "the shortest session timeout that a member of a classic group may ask for";
    "offset.metadata.max.bytes" Int Some("4096"), AtLeast(0), Works, false, "the metadata of one committed offset";
    "offsets.commit.timeout.ms" Int Some("5000"), AtLeast(1), Stored, false, "a commit is answered when it is durable or lost";
    "offsets.load.buffer.size" Int Some("5242880"), AtLeast(1), Stored, false, "groups are read back 1 MiB at a time";
    "offsets.retention.check.interval.ms" Long Some("600000"), AtLeast(1), Works, false, "how often expired offsets are looked for";
    "offsets.retention.minutes" Int Some("10080"), AtLeast(1), Works, false, "how long the offsets of an empty group, and those nobody subscribes to, are kept";
    "offsets.topic.compression.codec" Int Some("0"), Between(0, 0), Refused, false, "records of groups are stored as they are";
    "offsets.topic.segment.bytes" Int Some("8388608"), AtLeast(8_388_608), Works, false, "segment size of the topic of groups when it is created; Odradek's default is 8 MiB";
    "process.roles" List Some("broker,controller"), OneOf(&["broker", "controller"]), Stored, false, "Odradek is both";
    "producer.id.expiration.check.interval.ms" Int Some("600000"), AtLeast(1), Stored, false, "how often Kafka looks for expired producers; Odradek forgets each when its time comes";
    "producer.id.expiration.ms" Int Some("86400000"), AtLeast(1), Works, false, "how long an idle idempotent producer is remembered";
    "queued.max.request.bytes" Long Some("268435456"), Any, Works, false, "bytes of requests in flight beyond which sockets are not read; Odradek's default is 256 MiB, -1 is no bound";
    "queued.max.requests" Int Some("500"), AtLeast(1), Stored, false, "requests in flight are bounded per connection and in bytes";
    "replica.fetch.max.bytes" Int Some("1048576"), AtLeast(0), Stored, false, "one node does not replicate";
    "sasl.kerberos.min.time.before.relogin" Long Some("60000"), Any, Stored, true, "there is no Kerberos here";
    "max.request.partition.size.limit" Int Some("2000"), AtLeast(1), Works, false, "partitions in one answer of DescribeTopicPartitions";
    "socket.listen.backlog.size" Int Some("16384"), AtLeast(1), Works, false, "connections that wait to be accepted; Odradek's default is 16384";
    "socket.receive.buffer.bytes" Int Some("102400"), AtLeast(-1), Stored, false, "left to the system";
    "socket.request.max.bytes" Int Some("104857600"), AtLeast(1), Works, false, "the largest request";
    "socket.send.buffer.bytes" Int Some("102400"), AtLeast(-1), Stored, false, "left to the system";
    "transaction.state.log.replication.factor" Short Some("1"), AtLeast(1), Stored, false, "there are no transactions yet";
    "transaction.state.log.min.isr" Int Some("1"), AtLeast(1), Stored, false, "there are no transactions yet";
    "controller.quorum.voters" List Some(""), Any, Stored, false, "one node is its own quorum";
    "controller.listener.names" String None, Any, Stored, false, "one node is its own quorum";
    "authorizer.class.name" String Some(""), OneOf(&[""]), Refused, false, "there is no authorizer yet";
    "metrics.sample.window.ms" Long Some("30000"), AtLeast(1), Stored, false, "Kafka's metrics do not exist here";
    "log.cleaner.io.max.bytes.per.second" Double Some("1.7976931348623157E308"), Any, Stored, true, "the cleaner works in small pieces, one at a time, and is not slowed down";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_valid() {
        for key in BROKER_KEYS {
            if let Some(default) = key.default {
                key.kind.check(default, key.bounds).unwrap();
            }
            assert!(
                !TOPIC_KEYS.iter().any(|topic| topic.broker_name == key.name),
                "{}",
                key.name
            );
        }
    }

    #[test]
    fn a_topic_default_is_a_broker_key_too() {
        assert_eq!(
            broker_key("log.segment.bytes").unwrap().default,
            Some("1073741824")
        );
        assert!(broker_key("segment.bytes").is_none());
    }
}
