//! Produce (KIP-98, KIP-516): append each partition's batch, then wait until it counts.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::prepared::RecordChecks;
use crate::broker::State;
use crate::connection::{Answer, RequestId};
use crate::context::Context;
use crate::log::producer_state::ProducerError;
use crate::log::{AppendError, AppendInfo};
use crate::partition::PartitionKey;
use crate::partition::delayed_produce::{DelayedProduce, Places};
use crate::record::batch::CheckedBatch;
use crate::record::check::{RecordsError, RecordsErrorKind};
use crate::record::compression::Tables;
use crate::record::recompress::recompress;
use crate::report::Level;
use crate::wire::messages::produce::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, ProduceRequest, ProduceResponse,
    TopicProduceResponse,
};
use crate::wire::{ErrorCode, Str};

/// With acks=-1, `min.insync.replicas` counts against the one replica there is.
const IN_SYNC_REPLICAS: i64 = 1;

pub(super) fn handle(
    state: &mut State,
    cx: &mut Context<'_>,
    id: RequestId,
    version: i16,
    request: ProduceRequest,
    checks: RecordChecks,
) {
    let mut response = ProduceResponse::default();
    let mut waiting = Places::default();
    let mut checks = checks.into_iter();
    let mut place = 0;
    let mut failed = false;
    for topic in request.topic_data {
        let topic_id = state
            .metadata
            .resolve(version >= 13, &topic.name, topic.topic_id);
        let mut partition_responses = Vec::with_capacity(topic.partition_data.len());
        for partition in topic.partition_data {
            let check = checks.next().unwrap_or(Err(RecordsError::Empty));
            let result = topic_id.map_err(Refusal::from).and_then(|topic| {
                let key = PartitionKey {
                    topic,
                    index: partition.index,
                };
                append(state, cx, key, request.acks, check).map(|info| (key, info))
            });
            let answer = match result {
                Ok((key, info)) => {
                    if request.acks != 0 {
                        waiting.insert(place);
                        if let Some(partition) = state.partitions.get_mut(&key) {
                            partition.park_produce(info.last_offset, id, place);
                        }
                    }
                    PartitionProduceResponse {
                        base_offset: info.base_offset.0,
                        log_append_time_ms: info.log_append_time.unwrap_or(-1),
                        log_start_offset: info.log_start_offset.0,
                        ..Default::default()
                    }
                }
                Err(refusal) => {
                    failed = true;
                    refusal.into_response()
                }
            };
            partition_responses.push(PartitionProduceResponse {
                index: partition.index,
                ..answer
            });
            place += 1;
        }
        response.responses.push(TopicProduceResponse {
            name: topic.name,
            topic_id: topic.topic_id,
            partition_responses,
            ..Default::default()
        });
    }
    if request.acks == 0 {
        // There is no response to put an error in; closing the connection is how Kafka tells.
        return state.answer(
            id,
            if failed {
                Answer::Close
            } else {
                Answer::Nothing
            },
        );
    }
    if waiting.is_empty() {
        return state.answer(id, response);
    }
    let deadline = cx
        .now
        .mono
        .plus_ms(u64::try_from(request.timeout_ms).unwrap_or(0));
    state.timers.set_request(deadline, id);
    state.produces.insert(
        id,
        DelayedProduce {
            response,
            waiting,
            deadline,
        },
    );
}

fn append(
    state: &mut State,
    cx: &mut Context<'_>,
    key: PartitionKey,
    acks: i16,
    check: Result<Vec<CheckedBatch>, RecordsError>,
) -> Result<AppendInfo, Refusal> {
    if !matches!(acks, -1..=1) {
        return Err(ErrorCode::INVALID_REQUIRED_ACKS.into());
    }
    let partition = state
        .partitions
        .get_mut(&key)
        .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    if partition.holds_groups {
        // What stands there is the broker's own state.
        return Err(ErrorCode::INVALID_TOPIC_EXCEPTION.into());
    }
    if acks == -1 && partition.min_in_sync_replicas > IN_SYNC_REPLICAS {
        return Err(ErrorCode::NOT_ENOUGH_REPLICAS.into());
    }
    let batches = check.map_err(|error| {
        cx.report(
            Level::Info,
            "produce",
            alloc::format!("refused records: partition={} {error}", partition.name),
        );
        Refusal::from(error)
    })?;
    // No transaction can have been begun: InitProducerId gives no id for one.
    if batches.iter().any(|batch| batch.header.is_transactional()) {
        return Err(ErrorCode::INVALID_TXN_STATE.into());
    }
    // They were packed outside the step, unless the topic came to keep another codec since.
    let batches = match partition.log().config().kept() {
        None => batches,
        Some(kept) => batches
            .into_iter()
            .map(|batch| recompress(batch, &kept, &mut Tables::default()))
            .collect::<Result<_, _>>()?,
    };
    let info = partition.append_as_leader(cx, &batches);
    let log = partition.log.id();
    state.touch(log);
    info.map_err(|error| {
        let records = match &error {
            AppendError::RecordWithoutKey { batch } => batches
                .get(*batch)
                .map_or_else(Vec::new, |batch| batch.facts.without_key.iter().collect()),
            _ => Vec::new(),
        };
        Refusal {
            records,
            ..Refusal::from(error)
        }
    })
}

/// Why a partition's records are not stored.
struct Refusal {
    error: ErrorCode,
    message: Option<Str>,
    /// The records at fault (KIP-467).
    records: Vec<i32>,
}

impl Refusal {
    fn into_response(self) -> PartitionProduceResponse {
        let at_fault = self.records.iter();
        let record_errors = at_fault.map(|batch_index| BatchIndexAndErrorMessage {
            batch_index: *batch_index,
            batch_index_error_message: self.message.clone(),
            ..Default::default()
        });
        PartitionProduceResponse {
            error_code: self.error,
            base_offset: -1,
            record_errors: record_errors.collect(),
            error_message: self.message,
            ..Default::default()
        }
    }
}

impl From<ErrorCode> for Refusal {
    fn from(error: ErrorCode) -> Self {
        Self {
            error,
            message: None,
            records: Vec::new(),
        }
    }
}

impl From<RecordsError> for Refusal {
    fn from(error: RecordsError) -> Self {
        Self {
            error: match error.kind() {
                RecordsErrorKind::CorruptMessage => ErrorCode::CORRUPT_MESSAGE,
                RecordsErrorKind::MessageTooLarge => ErrorCode::MESSAGE_TOO_LARGE,
                RecordsErrorKind::InvalidTimestamp => ErrorCode::INVALID_TIMESTAMP,
                RecordsErrorKind::UnsupportedCompressionType => {
                    ErrorCode::UNSUPPORTED_COMPRESSION_TYPE
                }
                RecordsErrorKind::InvalidRecord => ErrorCode::INVALID_RECORD,
            },
            message: Some(error.to_string().into()),
            records: error.record_index().into_iter().collect(),
        }
    }
}

impl From<AppendError> for Refusal {
    fn from(error: AppendError) -> Self {
        Self {
            error: match &error {
                AppendError::MessageTooLarge { .. } => ErrorCode::MESSAGE_TOO_LARGE,
                AppendError::InvalidTimestamp { .. } => ErrorCode::INVALID_TIMESTAMP,
                AppendError::RecordWithoutKey { .. } => ErrorCode::INVALID_RECORD,
                AppendError::LargerThanSegment { .. } => ErrorCode::RECORD_LIST_TOO_LARGE,
                AppendError::Producer(ProducerError::StaleEpoch { .. }) => {
                    ErrorCode::INVALID_PRODUCER_EPOCH
                }
                AppendError::Producer(ProducerError::OutOfOrder { .. }) => {
                    ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER
                }
                AppendError::Storage => ErrorCode::KAFKA_STORAGE_ERROR,
            },
            message: Some(error.to_string().into()),
            records: Vec::new(),
        }
    }
}
