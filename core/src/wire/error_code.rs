//! Kafka's error codes.

use core::fmt;

/// An error code as it stands on the wire. One that is not in the table keeps its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(pub i16);

impl ErrorCode {
    /// Whether the code says that something went wrong.
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.0 != Self::NONE.0
    }
}

impl Default for ErrorCode {
    fn default() -> Self {
        Self::NONE
    }
}

/// Whether clients try again by themselves after the error.
const RETRIABLE: bool = true;
const FATAL: bool = false;

macro_rules! error_codes {
    ($($name:ident = $code:literal, $retriable:ident, $message:literal;)*) => {
        impl ErrorCode {
            $(
                #[doc = $message]
                pub const $name: Self = Self($code);
            )*

            /// Every code that Kafka 4.3 has, by number.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Kafka's name for it; `None` if the code is not in the table.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            /// Whether clients take it for a passing condition and try again.
            #[must_use]
            pub const fn is_retriable(self) -> bool {
                match self.0 {
                    $($code => $retriable,)*
                    _ => false,
                }
            }

            /// What it means, in a sentence without its full stop.
            #[must_use]
            pub const fn message(self) -> &'static str {
                match self.0 {
                    $($code => $message,)*
                    _ => "An error code that this program does not know",
                }
            }
        }
    };
}

error_codes! {
    UNKNOWN_SERVER_ERROR = -1, FATAL, "The broker failed in a way it has no code for";
    NONE = 0, FATAL, "No error";
    OFFSET_OUT_OF_RANGE = 1, FATAL, "The offset is below the log's start or above its end";
    CORRUPT_MESSAGE = 2, RETRIABLE, "A record batch is damaged: its checksum or its size is wrong";
    UNKNOWN_TOPIC_OR_PARTITION = 3, RETRIABLE, "There is no such topic or partition here";
    INVALID_FETCH_SIZE = 4, FATAL, "The fetch size is invalid";
    LEADER_NOT_AVAILABLE = 5, RETRIABLE, "The partition has no leader at the moment";
    NOT_LEADER_OR_FOLLOWER = 6, RETRIABLE, "This broker is not the leader, or no replica, of the partition";
    REQUEST_TIMED_OUT = 7, RETRIABLE, "The request was not done in time; whether it will be is unknown";
    BROKER_NOT_AVAILABLE = 8, FATAL, "The broker is not available";
    REPLICA_NOT_AVAILABLE = 9, RETRIABLE, "The replica is not available on this broker";
    MESSAGE_TOO_LARGE = 10, FATAL, "A record batch is larger than max.message.bytes";
    STALE_CONTROLLER_EPOCH = 11, FATAL, "The controller has moved to another broker";
    OFFSET_METADATA_TOO_LARGE = 12, FATAL, "The metadata of a committed offset is too large";
    NETWORK_EXCEPTION = 13, RETRIABLE, "The connection ended before the response came";
    COORDINATOR_LOAD_IN_PROGRESS = 14, RETRIABLE, "The coordinator is still loading its state";
    COORDINATOR_NOT_AVAILABLE = 15, RETRIABLE, "The coordinator is not available";
    NOT_COORDINATOR = 16, RETRIABLE, "This broker is not the coordinator";
    INVALID_TOPIC_EXCEPTION = 17, FATAL, "The topic's name is invalid, or clients may not write to it";
    RECORD_LIST_TOO_LARGE = 18, FATAL, "A record batch is larger than a segment";
    NOT_ENOUGH_REPLICAS = 19, RETRIABLE, "Fewer replicas are in sync than min.insync.replicas; nothing was written";
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, RETRIABLE, "Written, but to fewer replicas than min.insync.replicas";
    INVALID_REQUIRED_ACKS = 21, FATAL, "acks is none of 0, 1 and -1";
    ILLEGAL_GENERATION = 22, FATAL, "The generation id is not the group's current one";
    INCONSISTENT_GROUP_PROTOCOL = 23, FATAL, "The member shares no protocol with the group, or named none";
    INVALID_GROUP_ID = 24, FATAL, "The group id is invalid";
    UNKNOWN_MEMBER_ID = 25, FATAL, "The group has no such member";
    INVALID_SESSION_TIMEOUT = 26, FATAL, "The session timeout is outside of what the broker allows";
    REBALANCE_IN_PROGRESS = 27, FATAL, "The group is rebalancing: join again";
    INVALID_COMMIT_OFFSET_SIZE = 28, FATAL, "The offsets to commit are too large";
    TOPIC_AUTHORIZATION_FAILED = 29, FATAL, "Not authorized for the topic";
    GROUP_AUTHORIZATION_FAILED = 30, FATAL, "Not authorized for the group";
    CLUSTER_AUTHORIZATION_FAILED = 31, FATAL, "Not authorized for the cluster";
    INVALID_TIMESTAMP = 32, FATAL, "A record's timestamp is outside of what the topic allows";
    UNSUPPORTED_SASL_MECHANISM = 33, FATAL, "The SASL mechanism is not supported";
    ILLEGAL_SASL_STATE = 34, FATAL, "The request does not fit the state of the SASL exchange";
    UNSUPPORTED_VERSION = 35, FATAL, "The API is not served in this version";
    TOPIC_ALREADY_EXISTS = 36, FATAL, "A topic of this name exists already";
    INVALID_PARTITIONS = 37, FATAL, "The number of partitions is invalid";
    INVALID_REPLICATION_FACTOR = 38, FATAL, "The replication factor is below 1 or above the number of brokers";
    INVALID_REPLICA_ASSIGNMENT = 39, FATAL, "The assignment of replicas is invalid";
    INVALID_CONFIG = 40, FATAL, "A config is unknown or its value invalid";
    NOT_CONTROLLER = 41, RETRIABLE, "This node is not the controller";
    INVALID_REQUEST = 42, FATAL, "The request contradicts itself or is malformed";
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, FATAL, "The message format does not support the request";
    POLICY_VIOLATION = 44, FATAL, "The request violates a policy of the broker";
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, FATAL, "The batch does not continue the producer's sequence";
    DUPLICATE_SEQUENCE_NUMBER = 46, FATAL, "The batch was written before and is no longer remembered";
    INVALID_PRODUCER_EPOCH = 47, FATAL, "The producer's epoch is older than the newest one";
    INVALID_TXN_STATE = 48, FATAL, "The transaction's state does not allow the operation";
    INVALID_PRODUCER_ID_MAPPING = 49, FATAL, "The producer id does not belong to the transactional id";
    INVALID_TRANSACTION_TIMEOUT = 50, FATAL, "The transaction timeout is above transaction.max.timeout.ms";
    CONCURRENT_TRANSACTIONS = 51, RETRIABLE, "Another operation on the transaction is under way";
    TRANSACTION_COORDINATOR_FENCED = 52, FATAL, "A newer transaction coordinator has taken over";
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, FATAL, "Not authorized for the transactional id";
    SECURITY_DISABLED = 54, FATAL, "The broker has no security configured";
    OPERATION_NOT_ATTEMPTED = 55, FATAL, "Not tried, because another part of the request failed";
    KAFKA_STORAGE_ERROR = 56, RETRIABLE, "The disk refused to write or read the log";
    LOG_DIR_NOT_FOUND = 57, FATAL, "The broker has no such log directory";
    SASL_AUTHENTICATION_FAILED = 58, FATAL, "Authentication failed";
    UNKNOWN_PRODUCER_ID = 59, FATAL, "Nothing is known about the producer id any more";
    REASSIGNMENT_IN_PROGRESS = 60, FATAL, "The partition is being reassigned";
    DELEGATION_TOKEN_AUTH_DISABLED = 61, FATAL, "Delegation tokens are not enabled";
    DELEGATION_TOKEN_NOT_FOUND = 62, FATAL, "There is no such delegation token";
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, FATAL, "The principal may not renew the delegation token";
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, FATAL, "This connection may not ask for delegation tokens";
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, FATAL, "Not authorized for the delegation token";
    DELEGATION_TOKEN_EXPIRED = 66, FATAL, "The delegation token has expired";
    INVALID_PRINCIPAL_TYPE = 67, FATAL, "The type of principal is not supported";
    NON_EMPTY_GROUP = 68, FATAL, "The group has members";
    GROUP_ID_NOT_FOUND = 69, FATAL, "There is no such group";
    FETCH_SESSION_ID_NOT_FOUND = 70, RETRIABLE, "There is no such fetch session";
    INVALID_FETCH_SESSION_EPOCH = 71, RETRIABLE, "The fetch session's epoch is not the expected one";
    LISTENER_NOT_FOUND = 72, RETRIABLE, "The leader has no listener like the one that was asked";
    TOPIC_DELETION_DISABLED = 73, FATAL, "Topics may not be deleted here";
    FENCED_LEADER_EPOCH = 74, RETRIABLE, "The leader epoch of the request is older than the broker's";
    UNKNOWN_LEADER_EPOCH = 75, RETRIABLE, "The leader epoch of the request is newer than the broker's";
    UNSUPPORTED_COMPRESSION_TYPE = 76, FATAL, "The version of the request does not allow this compression";
    STALE_BROKER_EPOCH = 77, FATAL, "The broker has registered again since";
    OFFSET_NOT_AVAILABLE = 78, RETRIABLE, "The new leader does not know its high watermark yet";
    MEMBER_ID_REQUIRED = 79, FATAL, "Join again with the member id of this answer";
    PREFERRED_LEADER_NOT_AVAILABLE = 80, RETRIABLE, "The preferred leader is not available";
    GROUP_MAX_SIZE_REACHED = 81, FATAL, "The group is full";
    FENCED_INSTANCE_ID = 82, FATAL, "Another member has taken over the group.instance.id";
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, RETRIABLE, "No replica that may lead is available";
    ELECTION_NOT_NEEDED = 84, RETRIABLE, "The partition's leader needs no election";
    NO_REASSIGNMENT_IN_PROGRESS = 85, FATAL, "The partition is not being reassigned";
    GROUP_SUBSCRIBED_TO_TOPIC = 86, FATAL, "The group still subscribes to the topic";
    INVALID_RECORD = 87, FATAL, "A record breaks a rule of its topic";
    UNSTABLE_OFFSET_COMMIT = 88, RETRIABLE, "An offset belongs to a transaction that is still open";
    THROTTLING_QUOTA_EXCEEDED = 89, RETRIABLE, "A quota is exceeded";
    PRODUCER_FENCED = 90, FATAL, "A newer producer has the same transactional id";
    RESOURCE_NOT_FOUND = 91, FATAL, "There is no such resource";
    DUPLICATE_RESOURCE = 92, FATAL, "The request names a resource twice";
    UNACCEPTABLE_CREDENTIAL = 93, FATAL, "The credential does not meet the requirements";
    INCONSISTENT_VOTER_SET = 94, FATAL, "Sender or receiver is not among the voters";
    INVALID_UPDATE_VERSION = 95, FATAL, "The version of the update is invalid";
    FEATURE_UPDATE_FAILED = 96, FATAL, "The features could not be updated";
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, FATAL, "The principal of a forwarded request cannot be read";
    SNAPSHOT_NOT_FOUND = 98, FATAL, "There is no such snapshot";
    POSITION_OUT_OF_RANGE = 99, FATAL, "The position is outside of the snapshot";
    UNKNOWN_TOPIC_ID = 100, RETRIABLE, "There is no topic of this id here";
    DUPLICATE_BROKER_REGISTRATION = 101, FATAL, "The broker id is in use";
    BROKER_ID_NOT_REGISTERED = 102, FATAL, "No broker of this id is registered";
    INCONSISTENT_TOPIC_ID = 103, RETRIABLE, "The log belongs to a topic of another id";
    INCONSISTENT_CLUSTER_ID = 104, FATAL, "The request is meant for another cluster";
    TRANSACTIONAL_ID_NOT_FOUND = 105, FATAL, "There is no such transactional id";
    FETCH_SESSION_TOPIC_ID_ERROR = 106, RETRIABLE, "The fetch session mixes topic ids and names";
    INELIGIBLE_REPLICA = 107, FATAL, "A replica of the new in-sync set may not be in it";
    NEW_LEADER_ELECTED = 108, FATAL, "The update was made, and the leader has changed";
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, FATAL, "The offset is in tiered storage";
    FENCED_MEMBER_EPOCH = 110, FATAL, "The member is fenced: give up all partitions and join again";
    UNRELEASED_INSTANCE_ID = 111, FATAL, "Another member still holds the group.instance.id";
    UNSUPPORTED_ASSIGNOR = 112, FATAL, "The group does not support the assignor";
    STALE_MEMBER_EPOCH = 113, FATAL, "The member epoch is old: heartbeat, then try again";
    MISMATCHED_ENDPOINT_TYPE = 114, FATAL, "The request belongs to another type of endpoint";
    UNSUPPORTED_ENDPOINT_TYPE = 115, FATAL, "This type of endpoint is not supported";
    UNKNOWN_CONTROLLER_ID = 116, FATAL, "There is no controller of this id";
    UNKNOWN_SUBSCRIPTION_ID = 117, FATAL, "The telemetry subscription is unknown or out of date";
    TELEMETRY_TOO_LARGE = 118, FATAL, "The telemetry is larger than the broker accepts";
    INVALID_REGISTRATION = 119, FATAL, "The broker's registration is invalid";
    TRANSACTION_ABORTABLE = 120, FATAL, "The transaction failed: abort it and go on";
    INVALID_RECORD_STATE = 121, FATAL, "The record's state does not allow the acknowledgement";
    SHARE_SESSION_NOT_FOUND = 122, RETRIABLE, "There is no such share session";
    INVALID_SHARE_SESSION_EPOCH = 123, RETRIABLE, "The share session's epoch is not the expected one";
    FENCED_STATE_EPOCH = 124, FATAL, "The state epoch of the share group is not the expected one";
    INVALID_VOTER_KEY = 125, FATAL, "The voter's key is not that of the replica";
    DUPLICATE_VOTER = 126, FATAL, "The voter is a voter already";
    VOTER_NOT_FOUND = 127, FATAL, "There is no such voter";
    INVALID_REGULAR_EXPRESSION = 128, FATAL, "The regular expression is invalid";
    REBOOTSTRAP_REQUIRED = 129, FATAL, "The client's metadata is too old: bootstrap again";
    STREAMS_INVALID_TOPOLOGY = 130, FATAL, "The topology is invalid";
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, FATAL, "The topology's epoch is invalid";
    STREAMS_TOPOLOGY_FENCED = 132, FATAL, "The topology's epoch is out of date";
    SHARE_SESSION_LIMIT_REACHED = 133, RETRIABLE, "There are too many share sessions";
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "ERROR_{}", self.0),
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?} ({}): {}", self.0, self.message())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_rise_without_gaps() {
        for (index, code) in ErrorCode::ALL.iter().enumerate() {
            assert_eq!(
                usize::from(code.0.wrapping_add(1) as u16),
                index,
                "{code:?}"
            );
        }
    }
}
