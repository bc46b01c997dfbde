//! Which APIs there are, in which versions, and which of them the broker advertises.

use core::fmt;

use super::error_code::ErrorCode;
use super::messages::{self, Body};
use super::reader::{DecodeError, Reader};
use super::value::Value;
use super::versioned::Versioned;
use super::versions::Versions;
use super::writer::Writer;

macro_rules! apis {
    ($($(#[$doc:meta])* $api:ident = $key:literal: $request:ident, $response:ident;)*) => {
        /// The APIs that the codec knows, by Kafka's names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ApiKey {
            $($(#[$doc])* $api,)*
        }

        impl ApiKey {
            /// Every API, by rising key.
            pub const ALL: &'static [Self] = &[$(Self::$api),*];

            /// The API of a key on the wire; `None` if the codec does not know it.
            #[must_use]
            pub const fn from_key(key: i16) -> Option<Self> {
                match key {
                    $($key => Some(Self::$api),)*
                    _ => None,
                }
            }

            /// The key on the wire.
            #[must_use]
            pub const fn key(self) -> i16 {
                match self {
                    $(Self::$api => $key,)*
                }
            }

            /// The API's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$api => stringify!($api),)*
                }
            }

            /// The versions that can be decoded and answered.
            #[must_use]
            pub const fn versions(self) -> Versions {
                match self {
                    $(Self::$api => <messages::$request as Versioned>::VERSIONS,)*
                }
            }

            /// Whether `version` has compact lengths and tagged fields (KIP-482).
            #[must_use]
            pub const fn is_flexible(self, version: i16) -> bool {
                match self {
                    $(Self::$api => {
                        <messages::$request as Versioned>::FLEXIBLE.contains(version)
                    })*
                }
            }
        }

        /// A request without its header.
        #[derive(Clone, Debug, PartialEq)]
        pub enum RequestBody {
            $($(#[$doc])* $api(messages::$request),)*
        }

        impl RequestBody {
            /// Reads a request of `api`. Bytes after its end are left in the reader.
            pub fn decode(
                api: ApiKey,
                version: i16,
                reader: &mut Reader,
            ) -> Result<Self, DecodeError> {
                Ok(match api {
                    $(ApiKey::$api => Self::$api(Versioned::decode(reader, version)?),)*
                })
            }
        }

        impl Body for RequestBody {
            fn api(&self) -> ApiKey {
                match self {
                    $(Self::$api(_) => ApiKey::$api,)*
                }
            }

            fn encode_body(&self, writer: &mut Writer, version: i16) {
                match self {
                    $(Self::$api(message) => message.encode(writer, version),)*
                }
            }
        }

        /// A response without its header.
        #[derive(Clone, Debug, PartialEq)]
        pub enum ResponseBody {
            $($(#[$doc])* $api(messages::$response),)*
        }

        impl ResponseBody {
            /// Reads a response of `api`. Bytes after its end are left in the reader.
            pub fn decode(
                api: ApiKey,
                version: i16,
                reader: &mut Reader,
            ) -> Result<Self, DecodeError> {
                Ok(match api {
                    $(ApiKey::$api => Self::$api(Versioned::decode(reader, version)?),)*
                })
            }

            /// Shows every error code in it, in the order of the table's fields.
            pub fn error_codes(&self, see: &mut dyn FnMut(ErrorCode)) {
                match self {
                    $(Self::$api(message) => Value::error_codes(message, see),)*
                }
            }
        }

        impl Body for ResponseBody {
            fn api(&self) -> ApiKey {
                match self {
                    $(Self::$api(_) => ApiKey::$api,)*
                }
            }

            fn encode_body(&self, writer: &mut Writer, version: i16) {
                match self {
                    $(Self::$api(message) => message.encode(writer, version),)*
                }
            }
        }

        $(
            impl From<messages::$request> for RequestBody {
                fn from(message: messages::$request) -> Self {
                    Self::$api(message)
                }
            }

            impl From<messages::$response> for ResponseBody {
                fn from(message: messages::$response) -> Self {
                    Self::$api(message)
                }
            }
        )*
    };
}

apis! {
    /// Append record batches.
    Produce = 0: ProduceRequest, ProduceResponse;
    /// Read record batches.
    Fetch = 1: FetchRequest, FetchResponse;
    /// Find offsets by timestamp, and the ends of partitions.
    ListOffsets = 2: ListOffsetsRequest, ListOffsetsResponse;
    /// Brokers, topics and the leaders of partitions.
    Metadata = 3: MetadataRequest, MetadataResponse;
    /// Store how far a group has read.
    OffsetCommit = 8: OffsetCommitRequest, OffsetCommitResponse;
    /// How far groups have read.
    OffsetFetch = 9: OffsetFetchRequest, OffsetFetchResponse;
    /// Which broker looks after a group.
    FindCoordinator = 10: FindCoordinatorRequest, FindCoordinatorResponse;
    /// Enter a classic group.
    JoinGroup = 11: JoinGroupRequest, JoinGroupResponse;
    /// A member of a classic group is alive.
    Heartbeat = 12: HeartbeatRequest, HeartbeatResponse;
    /// Members leave a classic group.
    LeaveGroup = 13: LeaveGroupRequest, LeaveGroupResponse;
    /// The assignment of a classic group.
    SyncGroup = 14: SyncGroupRequest, SyncGroupResponse;
    /// Classic groups and their members.
    DescribeGroups = 15: DescribeGroupsRequest, DescribeGroupsResponse;
    /// The groups of the broker.
    ListGroups = 16: ListGroupsRequest, ListGroupsResponse;
    /// Which APIs the broker has, in which versions.
    ApiVersions = 18: ApiVersionsRequest, ApiVersionsResponse;
    /// Create topics.
    CreateTopics = 19: CreateTopicsRequest, CreateTopicsResponse;
    /// Delete topics.
    DeleteTopics = 20: DeleteTopicsRequest, DeleteTopicsResponse;
    /// Raise the log start offset.
    DeleteRecords = 21: DeleteRecordsRequest, DeleteRecordsResponse;
    /// A producer id and its epoch (KIP-98).
    InitProducerId = 22: InitProducerIdRequest, InitProducerIdResponse;
    /// Where a leader epoch ends (KIP-320).
    OffsetForLeaderEpoch = 23: OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse;
    /// Configs with their values, defaults and sources.
    DescribeConfigs = 32: DescribeConfigsRequest, DescribeConfigsResponse;
    /// Replace all configs of a resource.
    AlterConfigs = 33: AlterConfigsRequest, AlterConfigsResponse;
    /// Move partitions between log directories (KIP-113).
    AlterReplicaLogDirs = 34: AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse;
    /// Sizes of partitions on disk.
    DescribeLogDirs = 35: DescribeLogDirsRequest, DescribeLogDirsResponse;
    /// Add partitions to topics.
    CreatePartitions = 37: CreatePartitionsRequest, CreatePartitionsResponse;
    /// Delete groups and their offsets.
    DeleteGroups = 42: DeleteGroupsRequest, DeleteGroupsResponse;
    /// Have leaders elected (KIP-183).
    ElectLeaders = 43: ElectLeadersRequest, ElectLeadersResponse;
    /// Change single configs of a resource (KIP-339).
    IncrementalAlterConfigs = 44: IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse;
    /// Say which brokers hold partitions (KIP-455).
    AlterPartitionReassignments = 45: AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse;
    /// Reassignments under way (KIP-455).
    ListPartitionReassignments = 46: ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse;
    /// Delete single offsets of a group (KIP-496).
    OffsetDelete = 47: OffsetDeleteRequest, OffsetDeleteResponse;
    /// The quorum behind the metadata log (KIP-595).
    DescribeQuorum = 55: DescribeQuorumRequest, DescribeQuorumResponse;
    /// The brokers and the controller (KIP-700).
    DescribeCluster = 60: DescribeClusterRequest, DescribeClusterResponse;
    /// Join, stay in, and leave a consumer group (KIP-848).
    ConsumerGroupHeartbeat = 68: ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse;
    /// Consumer groups and their members (KIP-848).
    ConsumerGroupDescribe = 69: ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse;
    /// Resources that have configs (KIP-1142).
    ListConfigResources = 74: ListConfigResourcesRequest, ListConfigResourcesResponse;
    /// Topics page by page (KIP-966).
    DescribeTopicPartitions = 75: DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse;
}

impl ApiKey {
    /// The versions that ApiVersions lists.
    ///
    /// They are those that are answered, but for Produce: librdkafka silently turns compression
    /// off unless version 0 is listed, so 0 to 2 are listed and refused (as Kafka does since 4.0,
    /// KAFKA-18659).
    #[must_use]
    pub const fn advertised(self) -> Versions {
        match self {
            Self::Produce => Versions::new(0, self.versions().max),
            _ => self.versions(),
        }
    }

    /// The version of the request header: 2, with tagged fields, in flexible versions, else 1.
    #[must_use]
    pub const fn request_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) { 2 } else { 1 }
    }

    /// The version of the response header: 1, with tagged fields, in flexible versions, else 0.
    ///
    /// An ApiVersions response always has 0: a client that asks with a version the broker does
    /// not know must still be able to read the answer.
    #[must_use]
    pub const fn response_header_version(self, version: i16) -> i16 {
        match self {
            Self::ApiVersions => 0,
            _ if self.is_flexible(version) => 1,
            _ => 0,
        }
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
