//! What the generator never produces, and why.
//!
//! Versions: scripted clients draw every version that the broker serves of an API, each time anew
//! ([`Session::version`](super::session::Session::version)); the core's clients negotiate the newest.
//! A few requests keep to versions that can say what they are about (groups with static members from
//! the version that has them, fetches by topic id only where the id is known, the last reader's two).
//!
//! APIs: all that the broker serves, but for ElectLeaders, AlterReplicaLogDirs and
//! AlterPartitionReassignments where they would change something: one node has nothing to elect and
//! nowhere to move to, so they are only asked about.
//!
//! | request | what is never there | why |
//! |---|---|---|
//! | any | tagged fields that no table knows | the codec's tests have them in each message; the step never sees them |
//! | any | the same correlation id twice, or one out of turn | the broker copies it back and looks no further |
//! | Produce | `transactional_id`, batches of a transaction, control batches | transactions are not served; that they are refused is a unit test |
//! | Produce | message formats before v2 | refused by the decoder, of which `core/tests/wire` has each |
//! | Produce | two batches in one partition | Kafka refuses them since v3 of the API; hostile frames and unit tests have them |
//! | Produce | batches of megabytes | a run would be nothing else; the bounds are tests of `io` |
//! | Fetch | session ids and epochs other than 0 and -1, `forgotten_topics_data` | sessions are declined, and nothing of them is kept |
//! | Fetch | `replica_id`, `replica_state`, `cluster_id`, `rack_id`, `last_fetched_epoch`, `high_watermark` | of followers; there are none yet |
//! | Fetch, ListOffsets | `isolation_level` 1 in ListOffsets | without transactions it says what 0 says |
//! | ListOffsets | timestamps -4 to -6 | tiered storage; refused by version |
//! | ListOffsets, OffsetForLeaderEpoch | `replica_id` other than -1 | of followers |
//! | Metadata | `allow_auto_topic_creation` false where a topic is missing | it only leaves out what true does |
//! | CreateTopics | `assignments` by hand | one node: the assignment has one legal value, which is a unit test |
//! | CreateTopics, CreatePartitions, DeleteTopics, DeleteRecords | `timeout_ms` that is shorter than the disk | what is under way goes on whatever the timeout; the answer is awaited |
//! | AlterConfigs, IncrementalAlterConfigs | `append` and `subtract`, brokers and groups as resources | lists of one element each; refused where there is nothing to change |
//! | AlterConfigs, IncrementalAlterConfigs | `index.interval.bytes`, `segment.index.bytes` | the oracle works indexes out by one interval; unit tests |
//! | DescribeConfigs | loggers and client metrics | refused by type |
//! | FindCoordinator | several keys, types other than groups | one look-up each; refused by type |
//! | JoinGroup | protocol types other than `consumer`, more than two protocols | the coordinator compares them as bytes, and sees two of them differ |
//! | JoinGroup | user data; of scripted members what they own (`owned_partitions`) | handed on as bytes; the core's own members say what they own |
//! | SyncGroup | a protocol type or name that is not the group's | refused before anything; unit tests |
//! | OffsetCommit | no metadata | the oracle knows a commit by it |
//! | OffsetCommit | `retention_time_ms` | not honoured, as in Kafka since 2.1 |
//! | OffsetFetch | `require_stable` | without transactions every offset is stable |
//! | DescribeGroups, ConsumerGroupDescribe | authorized operations | there are none |
//! | ConsumerGroupHeartbeat | `rack_id` | no assignor here looks at it |
//! | Produce, AlterConfigs, DeleteTopics | `__consumer_offsets` | nobody but the broker writes there |
//! | DescribeTopicPartitions | `cursor` | a pure function of the image; unit tests page through |
//! | InitProducerId | `transactional_id`, `enable_2_pc`, `keep_prepared_txn` | transactions are not served |
//!
//! Of the connection: TLS and SASL (not served), and frames larger than the host reads, of which the
//! length alone is sent.
//!
//! # Error codes that are never answered
//!
//! The codes that were answered are counted by API (`run --coverage`); those of
//! [`coverage::CODES`](crate::coverage::CODES) must come up. These cannot:
//!
//! | code | of | why |
//! |---|---|---|
//! | UNSUPPORTED_COMPRESSION_TYPE, INVALID_TXN_STATE | Produce | batches that only a hostile client makes, and it changes bytes at random |
//! | UNSUPPORTED_VERSION | ApiVersions, ListConfigResources, ListOffsets | every version that is drawn is one that is served |
//! | TOPIC_DELETION_DISABLED | DeleteTopics | `delete.topic.enable` is always on here |
//! | REQUEST_TIMED_OUT | CreateTopics, CreatePartitions | see `timeout_ms` above |
//! | INVALID_REPLICA_ASSIGNMENT | CreateTopics, CreatePartitions | see `assignments` above |
//! | OFFSET_METADATA_TOO_LARGE, INVALID_COMMIT_OFFSET_SIZE | OffsetCommit | megabytes of metadata; unit tests |
//! | UNKNOWN_SERVER_ERROR | any | a bug of ours, which the simulator shows as a panic |
