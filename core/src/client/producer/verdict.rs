//! What a broker's answer means for a batch.

use alloc::string::String;

use crate::client::error::ClientError;
use crate::wire::ErrorCode;
use crate::wire::messages::produce::PartitionProduceResponse;

/// What an answer means for a batch.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It is in the log.
    Appended {
        /// `None` if the broker does not say.
        base_offset: Option<i64>,
        /// The timestamp of all its records, if the broker gave them one.
        append_time: Option<i64>,
    },
    /// It does not follow what the partition has of this producer.
    OutOfOrder(ClientError),
    /// It is too large as it is.
    TooLarge(ClientError),
    /// It is refused.
    Refused {
        error: ClientError,
        /// Whether another attempt may succeed.
        retriable: bool,
        /// Whether it may be in the log nevertheless.
        maybe_appended: bool,
    },
}

impl Verdict {
    /// What a broker says of a partition.
    pub(super) fn of(response: &PartitionProduceResponse) -> Self {
        let code = response.error_code;
        if !code.is_error() {
            return Self::Appended {
                base_offset: (response.base_offset >= 0).then_some(response.base_offset),
                append_time: (response.log_append_time_ms >= 0)
                    .then_some(response.log_append_time_ms),
            };
        }
        let error = ClientError::Broker {
            code,
            message: message(response),
        };
        match code {
            // It is there, and so long ago that its offset is forgotten.
            ErrorCode::DUPLICATE_SEQUENCE_NUMBER => {
                return Self::Appended {
                    base_offset: None,
                    append_time: None,
                };
            }
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER | ErrorCode::UNKNOWN_PRODUCER_ID => {
                return Self::OutOfOrder(error);
            }
            _ => {}
        }
        if code == ErrorCode::MESSAGE_TOO_LARGE {
            return Self::TooLarge(error);
        }
        Self::Refused {
            error,
            retriable: code.is_retriable(),
            maybe_appended: !is_refused_before_append(code),
        }
    }

    /// No answer came, or none that makes sense.
    pub(super) const fn unanswered(error: ClientError) -> Self {
        Self::Refused {
            error,
            retriable: true,
            maybe_appended: true,
        }
    }
}

/// What the broker says in words: of the first record at fault, if it names one (KIP-467).
fn message(response: &PartitionProduceResponse) -> String {
    let of_a_record = response
        .record_errors
        .iter()
        .find_map(|error| error.batch_index_error_message.as_deref());
    let message = of_a_record.or(response.error_message.as_deref());
    String::from(message.unwrap_or_default())
}

/// Whether a broker that answers so has not appended the batch.
///
/// Errors that may also come up between the append and the answer are not among them: a leader that
/// steps down meanwhile, a disk that fails at the flush (what was written may still be there once
/// it is opened again), a wait for replicas that takes too long.
const fn is_refused_before_append(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::CORRUPT_MESSAGE
            | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode::UNKNOWN_TOPIC_ID
            | ErrorCode::LEADER_NOT_AVAILABLE
            | ErrorCode::INVALID_TOPIC_EXCEPTION
            | ErrorCode::RECORD_LIST_TOO_LARGE
            | ErrorCode::MESSAGE_TOO_LARGE
            | ErrorCode::NOT_ENOUGH_REPLICAS
            | ErrorCode::INVALID_REQUIRED_ACKS
            | ErrorCode::TOPIC_AUTHORIZATION_FAILED
            | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
            | ErrorCode::INVALID_TIMESTAMP
            | ErrorCode::UNSUPPORTED_VERSION
            | ErrorCode::INVALID_REQUEST
            | ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT
            | ErrorCode::POLICY_VIOLATION
            | ErrorCode::UNSUPPORTED_COMPRESSION_TYPE
            | ErrorCode::INVALID_RECORD
            | ErrorCode::THROTTLING_QUOTA_EXCEEDED
            | ErrorCode::INVALID_PRODUCER_EPOCH
    )
}
