//! What a client can be told, with the names and defaults of Kafka's client configs.

use alloc::string::String;
use alloc::vec::Vec;

use crate::input::Endpoint;
use crate::record::Compression;

/// Settings of a whole client. Build it from [`ClientConfig::new`] and change what differs.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// `bootstrap.servers`: where to ask for the cluster's brokers. Must not be empty.
    pub bootstrap: Vec<Endpoint>,
    /// `client.id`: the name in the header of every request.
    pub client_id: String,
    /// `request.timeout.ms`: how long an answer may take (a fetch: beyond its own waiting) before
    /// the connection counts as dead.
    pub request_timeout_ms: u32,
    /// `retry.backoff.ms`: the wait before the first retry of a request.
    pub retry_backoff_ms: u32,
    /// `retry.backoff.max.ms`: what that wait grows to, doubling at each failure.
    pub retry_backoff_max_ms: u32,
    /// `reconnect.backoff.ms`: the wait before a broker is connected to again.
    pub reconnect_backoff_ms: u32,
    /// `reconnect.backoff.max.ms`: what that wait grows to, doubling at each failure.
    pub reconnect_backoff_max_ms: u32,
    /// `socket.connection.setup.timeout.ms`: how long the host may take to connect.
    pub connection_setup_timeout_ms: u32,
    /// `connections.max.idle.ms`: after how long an unused connection is closed.
    pub connections_max_idle_ms: u32,
    /// `metadata.max.age.ms`: after how long metadata is asked for again without need.
    pub metadata_max_age_ms: u32,
    /// `allow.auto.create.topics`: whether asking for a topic may create it.
    pub allow_auto_create_topics: bool,
    /// Longest response frame that the host shall accept, in bytes.
    pub max_response_bytes: usize,
    /// Settings of the producer.
    pub producer: ProducerConfig,
    /// Settings of the consumer.
    pub consumer: ConsumerConfig,
    /// The group that the consumer is in; without it, it reads assigned partitions only.
    pub group: Option<GroupConfig>,
}

/// Settings of the producer.
#[derive(Clone, Debug)]
pub struct ProducerConfig {
    /// `enable.idempotence`: whether records are numbered, so that each is in the log once whatever is
    /// retried, and in the order of the sends (KIP-98). Needs `acks=all` and retries; without them
    /// nothing is numbered.
    pub enable_idempotence: bool,
    /// `acks`.
    pub acks: Acks,
    /// `batch.size`: size in bytes, before compression, at which a batch is sent without waiting
    /// for `linger.ms`.
    pub batch_size: usize,
    /// `linger.ms`: how long a batch waits for more records.
    pub linger_ms: u32,
    /// `compression.type`.
    pub compression: Compression,
    /// `buffer.memory`: bytes of records, before compression, that may be without an outcome.
    pub buffer_memory: usize,
    /// `max.block.ms`: how long a record may wait for its topic to become known.
    pub max_block_ms: u32,
    /// `delivery.timeout.ms`: how long after its send a record has its outcome at the latest.
    pub delivery_timeout_ms: u32,
    /// `retries`.
    pub retries: u32,
    /// `max.request.size` in bytes. One record may not be larger.
    pub max_request_size: usize,
    /// `max.in.flight.requests.per.connection`.
    pub max_in_flight_requests_per_connection: usize,
    /// How many of those may hold batches of one and the same partition, without idempotence. (With
    /// it, all of them, up to the five that a broker remembers.)
    ///
    /// With 1, the default, the records of a partition are appended in the order of their sends,
    /// whatever is retried. With more, throughput of a single partition does not depend on the
    /// round trip, but a batch that fails at the broker while the next one succeeds is appended
    /// after it. Even then nothing new is sent to the partition while one of its batches is being
    /// retried.
    pub max_in_flight_batches_per_partition: usize,
}

/// When a produce request is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acks {
    /// `acks=0`: never. A record counts as delivered once it is handed to its connection.
    None,
    /// `acks=1`: once the leader has it.
    Leader,
    /// `acks=all`: once all in-sync replicas have it.
    #[default]
    All,
}

/// Settings of the consumer.
#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    /// `auto.offset.reset`: where to go on if the position does not exist (any more).
    pub auto_offset_reset: OffsetReset,
    /// `fetch.min.bytes`.
    pub fetch_min_bytes: u32,
    /// `fetch.max.wait.ms`.
    pub fetch_max_wait_ms: u32,
    /// `fetch.max.bytes` of one response.
    pub fetch_max_bytes: u32,
    /// `max.partition.fetch.bytes` of one partition in a response.
    pub max_partition_fetch_bytes: u32,
    /// Bytes of batches that are fetched ahead of the application, over all partitions. One batch
    /// a partition may go beyond it.
    pub prefetch_max_bytes: usize,
    /// `check.crcs`.
    pub check_crcs: bool,
    /// Most bytes that the records of one batch may have once decompressed.
    pub max_decompressed_bytes: usize,
    /// Whether reaching the end of a partition is reported.
    pub enable_partition_eof: bool,
}

/// Settings of a member of a group. Build it from [`GroupConfig::new`] and change what differs.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// `group.id`.
    pub group_id: String,
    /// `group.instance.id`: the name of a static member (KIP-345), which keeps its partitions over a
    /// restart.
    pub instance_id: Option<String>,
    /// `group.protocol`.
    pub protocol: GroupProtocol,
    /// `partition.assignment.strategy` of the classic protocol, in order of preference; empty for
    /// Kafka's default, range before cooperative-sticky. Only if all of them are cooperative does the member keep its partitions while the group rebalances.
    pub assignors: Vec<Assignor>,
    /// `group.remote.assignor` of the consumer protocol; the broker's choice if `None`.
    pub remote_assignor: Option<String>,
    /// `client.rack`.
    pub rack: Option<String>,
    /// `session.timeout.ms` of the classic protocol: after how long without a heartbeat the
    /// coordinator takes the member for dead.
    pub session_timeout_ms: u32,
    /// `heartbeat.interval.ms` of the classic protocol. (In the other the broker says it.)
    pub heartbeat_interval_ms: u32,
    /// `max.poll.interval.ms`: after how long without a poll the member gives its place up. That is
    /// also how long the group waits for it in a rebalance.
    pub max_poll_interval_ms: u32,
    /// `enable.auto.commit`: whether what was processed is committed by itself, at intervals and
    /// before partitions are given up. Processed is what polls handed out before the last one.
    pub enable_auto_commit: bool,
    /// `auto.commit.interval.ms`.
    pub auto_commit_interval_ms: u32,
}

/// By which protocol a member is in its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupProtocol {
    /// JoinGroup and SyncGroup: one member assigns for all.
    #[default]
    Classic,
    /// ConsumerGroupHeartbeat: the broker assigns (KIP-848).
    Consumer,
}

/// How the leader of a classic group divides the partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assignor {
    /// `range`: of each topic a contiguous range to each member.
    Range,
    /// `cooperative-sticky`: evenly, and everybody keeps what they have as far as possible, also
    /// while the group rebalances (KIP-429).
    CooperativeSticky,
}

/// Where to go on if the position does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffsetReset {
    /// At the first record there is.
    Earliest,
    /// After the last record there is.
    #[default]
    Latest,
    /// Nowhere: it is an error, and the partition waits for a seek.
    None,
}

impl ClientConfig {
    /// Kafka's defaults.
    #[must_use]
    pub fn new(bootstrap: Vec<Endpoint>) -> Self {
        Self {
            bootstrap,
            client_id: String::from("odradek"),
            request_timeout_ms: 30_000,
            retry_backoff_ms: 100,
            retry_backoff_max_ms: 1_000,
            reconnect_backoff_ms: 50,
            reconnect_backoff_max_ms: 1_000,
            connection_setup_timeout_ms: 10_000,
            connections_max_idle_ms: 540_000,
            metadata_max_age_ms: 300_000,
            allow_auto_create_topics: true,
            max_response_bytes: 256 << 20,
            producer: ProducerConfig::default(),
            consumer: ConsumerConfig::default(),
            group: None,
        }
    }
}

impl GroupConfig {
    /// Kafka's defaults.
    #[must_use]
    pub const fn new(group_id: String) -> Self {
        Self {
            group_id,
            instance_id: None,
            protocol: GroupProtocol::Classic,
            assignors: Vec::new(),
            remote_assignor: None,
            rack: None,
            session_timeout_ms: 45_000,
            heartbeat_interval_ms: 3_000,
            max_poll_interval_ms: 300_000,
            enable_auto_commit: true,
            auto_commit_interval_ms: 5_000,
        }
    }
}

impl Default for ProducerConfig {
    fn default() -> Self {
        Self {
            enable_idempotence: true,
            acks: Acks::All,
            batch_size: 16 << 10,
            linger_ms: 5,
            compression: Compression::None,
            buffer_memory: 32 << 20,
            max_block_ms: 60_000,
            delivery_timeout_ms: 120_000,
            retries: u32::MAX,
            max_request_size: 1 << 20,
            max_in_flight_requests_per_connection: 5,
            max_in_flight_batches_per_partition: 1,
        }
    }
}

impl Default for ConsumerConfig {
    fn default() -> Self {
        Self {
            auto_offset_reset: OffsetReset::Latest,
            fetch_min_bytes: 1,
            fetch_max_wait_ms: 500,
            fetch_max_bytes: 50 << 20,
            max_partition_fetch_bytes: 1 << 20,
            prefetch_max_bytes: 64 << 20,
            check_crcs: true,
            max_decompressed_bytes: 100 << 20,
            enable_partition_eof: false,
        }
    }
}

impl Acks {
    /// The number on the wire.
    pub(crate) const fn on_the_wire(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }
}
