//! What a campaign must have seen, or it proves less than it seems to: the *sometimes* marks, every
//! kind of fault in every stage of a broker's life, and every error code that can be answered.

use odradek_core::wire::{ApiKey, ErrorCode};

use crate::campaign::Summary;
use crate::fault::Fault;
use crate::oracle::Mark;
use crate::oracle::codes::Answered;
use crate::swarm::Workload;

/// What a campaign did not see, each in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Marks.
    pub marks: Vec<String>,
    /// Of how many.
    pub marks_of: usize,
    /// Faults, and the stage in which they did not strike.
    pub faults: Vec<String>,
    /// Of how many.
    pub faults_of: usize,
    /// Error codes, and the API.
    pub codes: Vec<String>,
    /// Of how many.
    pub codes_of: usize,
}

impl Missed {
    /// How much it is.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.marks.len() + self.faults.len() + self.codes.len()
    }
}

/// The codes that the mixed workload must see. Not among them are those that come up once in
/// thousands of its runs, and those that only a request could get that no generator makes: see
/// [`workload::gaps`](crate::workload::gaps).
pub const CODES: &[(ApiKey, &[ErrorCode])] = &[
    (
        ApiKey::Produce,
        &[
            ErrorCode::CORRUPT_MESSAGE,
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::REQUEST_TIMED_OUT,
            ErrorCode::MESSAGE_TOO_LARGE,
            ErrorCode::RECORD_LIST_TOO_LARGE,
            ErrorCode::NOT_ENOUGH_REPLICAS,
            ErrorCode::INVALID_REQUIRED_ACKS,
            ErrorCode::INVALID_TIMESTAMP,
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
            ErrorCode::INVALID_PRODUCER_EPOCH,
            ErrorCode::KAFKA_STORAGE_ERROR,
            ErrorCode::INVALID_RECORD,
            ErrorCode::UNKNOWN_TOPIC_ID,
        ],
    ),
    (
        ApiKey::Fetch,
        &[
            ErrorCode::OFFSET_OUT_OF_RANGE,
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::KAFKA_STORAGE_ERROR,
            ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
            ErrorCode::FENCED_LEADER_EPOCH,
            ErrorCode::UNKNOWN_LEADER_EPOCH,
            ErrorCode::UNKNOWN_TOPIC_ID,
        ],
    ),
    (
        ApiKey::ListOffsets,
        &[
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::KAFKA_STORAGE_ERROR,
            ErrorCode::FENCED_LEADER_EPOCH,
        ],
    ),
    (
        ApiKey::Metadata,
        &[
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::LEADER_NOT_AVAILABLE,
            ErrorCode::INVALID_TOPIC_EXCEPTION,
            ErrorCode::UNKNOWN_TOPIC_ID,
        ],
    ),
    (
        ApiKey::OffsetCommit,
        &[
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
            ErrorCode::ILLEGAL_GENERATION,
            ErrorCode::UNKNOWN_MEMBER_ID,
            ErrorCode::REBALANCE_IN_PROGRESS,
            ErrorCode::UNSUPPORTED_VERSION,
            ErrorCode::FENCED_INSTANCE_ID,
            ErrorCode::STALE_MEMBER_EPOCH,
        ],
    ),
    (
        ApiKey::OffsetFetch,
        &[
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
        ],
    ),
    (
        ApiKey::FindCoordinator,
        &[ErrorCode::COORDINATOR_NOT_AVAILABLE],
    ),
    (
        ApiKey::JoinGroup,
        &[
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
            ErrorCode::INCONSISTENT_GROUP_PROTOCOL,
            ErrorCode::UNKNOWN_MEMBER_ID,
            ErrorCode::REBALANCE_IN_PROGRESS,
            ErrorCode::MEMBER_ID_REQUIRED,
            ErrorCode::GROUP_MAX_SIZE_REACHED,
            ErrorCode::FENCED_INSTANCE_ID,
            ErrorCode::INVALID_SESSION_TIMEOUT,
            ErrorCode::INVALID_GROUP_ID,
        ],
    ),
    (
        ApiKey::Heartbeat,
        &[
            ErrorCode::ILLEGAL_GENERATION,
            ErrorCode::UNKNOWN_MEMBER_ID,
            ErrorCode::REBALANCE_IN_PROGRESS,
            ErrorCode::FENCED_INSTANCE_ID,
            ErrorCode::INVALID_GROUP_ID,
        ],
    ),
    (
        ApiKey::LeaveGroup,
        &[
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode::UNKNOWN_MEMBER_ID,
            ErrorCode::INVALID_GROUP_ID,
        ],
    ),
    (
        ApiKey::SyncGroup,
        &[
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
            ErrorCode::ILLEGAL_GENERATION,
            ErrorCode::UNKNOWN_MEMBER_ID,
            ErrorCode::REBALANCE_IN_PROGRESS,
            ErrorCode::FENCED_INSTANCE_ID,
            ErrorCode::INVALID_GROUP_ID,
        ],
    ),
    (
        ApiKey::DescribeGroups,
        &[
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
            ErrorCode::GROUP_ID_NOT_FOUND,
            ErrorCode::INVALID_GROUP_ID,
        ],
    ),
    (
        ApiKey::ListGroups,
        &[ErrorCode::COORDINATOR_LOAD_IN_PROGRESS],
    ),
    (ApiKey::ApiVersions, &[ErrorCode::INVALID_REQUEST]),
    (
        ApiKey::CreateTopics,
        &[
            ErrorCode::INVALID_TOPIC_EXCEPTION,
            ErrorCode::TOPIC_ALREADY_EXISTS,
            ErrorCode::INVALID_REPLICATION_FACTOR,
            ErrorCode::INVALID_CONFIG,
            ErrorCode::POLICY_VIOLATION,
            ErrorCode::KAFKA_STORAGE_ERROR,
            ErrorCode::INVALID_PARTITIONS,
        ],
    ),
    (
        ApiKey::DeleteTopics,
        &[
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::KAFKA_STORAGE_ERROR,
            ErrorCode::UNKNOWN_TOPIC_ID,
        ],
    ),
    (
        ApiKey::DeleteRecords,
        &[
            ErrorCode::OFFSET_OUT_OF_RANGE,
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::POLICY_VIOLATION,
            ErrorCode::KAFKA_STORAGE_ERROR,
        ],
    ),
    (
        ApiKey::InitProducerId,
        &[
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ],
    ),
    (
        ApiKey::OffsetForLeaderEpoch,
        &[ErrorCode::UNKNOWN_TOPIC_OR_PARTITION],
    ),
    (
        ApiKey::DescribeConfigs,
        &[
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::INVALID_REQUEST,
        ],
    ),
    (
        ApiKey::AlterConfigs,
        &[
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::INVALID_CONFIG,
            ErrorCode::KAFKA_STORAGE_ERROR,
        ],
    ),
    (
        ApiKey::AlterReplicaLogDirs,
        &[
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::LOG_DIR_NOT_FOUND,
        ],
    ),
    (
        ApiKey::CreatePartitions,
        &[
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::INVALID_PARTITIONS,
            ErrorCode::KAFKA_STORAGE_ERROR,
            ErrorCode::REASSIGNMENT_IN_PROGRESS,
        ],
    ),
    (
        ApiKey::DeleteGroups,
        &[
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode::NON_EMPTY_GROUP,
            ErrorCode::GROUP_ID_NOT_FOUND,
        ],
    ),
    (
        ApiKey::ElectLeaders,
        &[
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::ELECTION_NOT_NEEDED,
        ],
    ),
    (
        ApiKey::IncrementalAlterConfigs,
        &[
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::INVALID_CONFIG,
            ErrorCode::KAFKA_STORAGE_ERROR,
        ],
    ),
    (
        ApiKey::AlterPartitionReassignments,
        &[
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::INVALID_REPLICA_ASSIGNMENT,
            ErrorCode::NO_REASSIGNMENT_IN_PROGRESS,
        ],
    ),
    (
        ApiKey::OffsetDelete,
        &[
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
            ErrorCode::NON_EMPTY_GROUP,
            ErrorCode::GROUP_ID_NOT_FOUND,
            ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC,
        ],
    ),
    (
        ApiKey::DescribeQuorum,
        &[ErrorCode::UNKNOWN_TOPIC_OR_PARTITION],
    ),
    (
        ApiKey::ConsumerGroupHeartbeat,
        &[
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
            ErrorCode::UNKNOWN_MEMBER_ID,
            ErrorCode::GROUP_ID_NOT_FOUND,
            ErrorCode::GROUP_MAX_SIZE_REACHED,
            ErrorCode::FENCED_MEMBER_EPOCH,
            ErrorCode::UNRELEASED_INSTANCE_ID,
            ErrorCode::INVALID_REGULAR_EXPRESSION,
            ErrorCode::UNSUPPORTED_ASSIGNOR,
        ],
    ),
    (
        ApiKey::ConsumerGroupDescribe,
        &[
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
            ErrorCode::GROUP_ID_NOT_FOUND,
        ],
    ),
    (
        ApiKey::DescribeTopicPartitions,
        &[
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::LEADER_NOT_AVAILABLE,
            ErrorCode::INVALID_TOPIC_EXCEPTION,
        ],
    ),
    (
        ApiKey::DescribeCluster,
        &[ErrorCode::MISMATCHED_ENDPOINT_TYPE],
    ),
];

/// What a campaign of this workload should have seen and did not.
#[must_use]
pub fn missed(summary: &Summary, workload: Workload) -> Missed {
    let marks = Mark::of(workload);
    let missed_marks = marks
        .iter()
        .filter(|mark| !summary.marks.contains_key(mark))
        .map(ToString::to_string);
    let mut missed = Missed {
        marks: missed_marks.collect(),
        marks_of: marks.len(),
        ..Missed::default()
    };
    let is_mixed = workload == Workload::Mixed;
    let is_damage = |fault: &Fault| matches!(fault, Fault::Disk(fault) if fault.is_damage());
    for fault in Fault::all() {
        let wanted = match workload {
            Workload::Mixed => !is_damage(&fault),
            Workload::Damage => is_damage(&fault),
            _ => false,
        };
        for stage in fault.stages().iter().filter(|_| wanted) {
            missed.faults_of += 1;
            if !summary.faults.contains_key(&(fault, *stage)) {
                missed.faults.push(format!("{fault} while {stage}"));
            }
        }
    }
    for (api, codes) in CODES.iter().filter(|_| is_mixed) {
        for code in *codes {
            let answered = Answered {
                api: *api,
                code: *code,
            };
            missed.codes_of += 1;
            if !summary.codes.contains_key(&answered) {
                missed.codes.push(answered.to_string());
            }
        }
    }
    missed
}
