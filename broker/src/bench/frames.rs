//! Requests encoded before the clock starts, and where in an answer the few bytes are that must
//! be looked at.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use odradek_core::effect::{Part, Response};
use odradek_core::record::{BatchBuilder, BatchFields};
use odradek_core::wire::frame::{encode_request, encode_response};
use odradek_core::wire::messages::Body;
use odradek_core::wire::messages::api_versions::ApiVersionsRequest;
use odradek_core::wire::messages::fetch::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, FetchableTopicResponse, PartitionData,
};
use odradek_core::wire::messages::produce::{
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, ProduceResponse,
    TopicProduceData, TopicProduceResponse,
};
use odradek_core::wire::{ErrorCode, Records, RequestHeader};

use crate::advice;
use crate::failure::Failure;

/// The newest versions in which topics have names.
pub(super) const PRODUCE: i16 = 9;
pub(super) const FETCH: i16 = 12;

const CLIENT_ID: &str = "odradek-bench";
/// Where the correlation id is, in a request and in an answer, their lengths counted.
const REQUEST_ID_AT: usize = 8;
const ANSWER_ID_AT: usize = 4;

/// How batches look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchShape {
    pub(super) records: u32,
    /// Bytes of each value.
    pub(super) value_bytes: u32,
}

impl BatchShape {
    /// A batch of this shape, of bytes that no one could compress.
    pub(super) fn batch(self) -> Bytes {
        let now_ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |passed| passed.as_millis());
        let now_ms = i64::try_from(now_ms).unwrap_or_default();
        let mut builder = BatchBuilder::new(usize::MAX);
        let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
        let mut value = vec![0; self.value_bytes as usize];
        for _ in 0..self.records.max(1) {
            for byte in &mut value {
                noise ^= noise << 13;
                noise ^= noise >> 7;
                noise ^= noise << 17;
                *byte = noise as u8;
            }
            let added = builder.append(now_ms, None, Some(&value), &[]);
            assert!(added, "a batch of the bench fits into the format");
        }
        builder.build(BatchFields::default())
    }
}

/// A request that is sent again and again with another correlation id.
#[derive(Clone, Debug)]
pub(super) struct RequestFrame(Vec<u8>);

impl RequestFrame {
    /// A produce request with one batch for one partition, acks=all.
    pub(super) fn produce(topic: &str, partition: i32, batch: Bytes) -> Self {
        let request = ProduceRequest {
            acks: -1,
            timeout_ms: 30_000,
            topic_data: vec![TopicProduceData {
                name: topic.into(),
                partition_data: vec![PartitionProduceData {
                    index: partition,
                    records: Some(Records::Bytes(batch)),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        Self(request_bytes(CLIENT_ID, PRODUCE, &request))
    }

    /// An ApiVersions request of about `bytes` bytes.
    pub(super) fn ping(bytes: usize) -> Self {
        let client_id = "p".repeat(bytes.saturating_sub(14).clamp(1, 10_000));
        Self(request_bytes(&client_id, 0, &ApiVersionsRequest::default()))
    }

    /// The frame, under this correlation id.
    pub(super) fn numbered(&mut self, correlation_id: u32) -> &[u8] {
        put(&mut self.0, REQUEST_ID_AT, correlation_id.to_be_bytes());
        &self.0
    }

    /// Bytes of the frame, its length counted.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// A Fetch of one partition, at any offset.
#[derive(Clone, Debug)]
pub(super) struct FetchFrame {
    frame: Vec<u8>,
    offset_at: usize,
}

impl FetchFrame {
    /// Waits up to `max_wait_ms` for the first byte and takes `max_bytes` at most.
    pub(super) fn new(topic: &str, partition: i32, max_wait_ms: i32, max_bytes: u32) -> Self {
        let limit = i32::try_from(max_bytes).unwrap_or(i32::MAX);
        let frame = |fetch_offset| {
            let request = FetchRequest {
                max_wait_ms,
                min_bytes: 1,
                max_bytes: limit,
                topics: vec![FetchTopic {
                    topic: topic.into(),
                    partitions: vec![FetchPartition {
                        partition,
                        fetch_offset,
                        partition_max_bytes: limit,
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            };
            request_bytes(CLIENT_ID, FETCH, &request)
        };
        Self {
            offset_at: first_difference(&frame(0), &frame(-1)),
            frame: frame(0),
        }
    }

    /// The frame, from this offset on.
    pub(super) fn at(&mut self, offset: i64) -> &[u8] {
        put(&mut self.frame, self.offset_at, offset.to_be_bytes());
        &self.frame
    }
}

/// How to read the answers to [`RequestFrame::produce`] without decoding them.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProduceAnswer {
    error_at: usize,
    base_offset_at: usize,
}

impl ProduceAnswer {
    /// For a topic of this name.
    pub(super) fn new(topic: &str) -> Self {
        let frame = |error_code, base_offset| {
            let response = ProduceResponse {
                responses: vec![TopicProduceResponse {
                    name: topic.into(),
                    partition_responses: vec![PartitionProduceResponse {
                        error_code,
                        base_offset,
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            };
            bytes_of(encode_response(0, PRODUCE, &response))
        };
        let plain = frame(ErrorCode::NONE, 0);
        Self {
            error_at: first_difference(&plain, &frame(ErrorCode(-1), 0)),
            base_offset_at: first_difference(&plain, &frame(ErrorCode::NONE, -1)),
        }
    }

    /// The base offset; `frame` has its length.
    ///
    /// # Errors
    /// What the broker said.
    pub(super) fn base_offset(self, frame: &[u8]) -> Result<i64, ErrorCode> {
        match get(frame, self.error_at).map(i16::from_be_bytes) {
            Some(0) => get(frame, self.base_offset_at)
                .map(i64::from_be_bytes)
                .ok_or(ErrorCode::UNKNOWN_SERVER_ERROR),
            Some(code) => Err(ErrorCode(code)),
            None => Err(ErrorCode::UNKNOWN_SERVER_ERROR),
        }
    }
}

/// How to read the answers to a [`FetchFrame`] without decoding them.
#[derive(Clone, Copy, Debug)]
pub(super) struct FetchAnswer {
    partition_error_at: usize,
    records_at: usize,
}

/// Where the error of the whole Fetch is: behind length, id, tags and throttle time.
const FETCH_ERROR_AT: usize = 4 + 4 + 1 + 4;

impl FetchAnswer {
    /// For a topic of this name.
    pub(super) fn new(topic: &str) -> Self {
        let frame = |error_code, records: &'static [u8]| {
            let response = FetchResponse {
                responses: vec![FetchableTopicResponse {
                    topic: topic.into(),
                    partitions: vec![PartitionData {
                        error_code,
                        records: Some(Records::Bytes(Bytes::from_static(records))),
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            };
            let mut bytes = bytes_of(encode_response(0, FETCH, &response));
            put(&mut bytes, 0, [0; 4]);
            bytes
        };
        let plain = frame(ErrorCode::NONE, &[]);
        Self {
            partition_error_at: first_difference(&plain, &frame(ErrorCode(-1), &[])),
            records_at: first_difference(&plain, &frame(ErrorCode::NONE, &[1])),
        }
    }

    /// The records in a whole answer with its length.
    ///
    /// # Errors
    /// What the broker said.
    pub(super) fn records(self, frame: &[u8]) -> Result<&[u8], ErrorCode> {
        for at in [FETCH_ERROR_AT, self.partition_error_at] {
            match get(frame, at).map(i16::from_be_bytes) {
                Some(0) => {}
                Some(code) => return Err(ErrorCode(code)),
                None => return Err(ErrorCode::UNKNOWN_SERVER_ERROR),
            }
        }
        let rest = frame.get(self.records_at..).unwrap_or_default();
        let mut length = 0_usize;
        for (place, byte) in rest.iter().take(5).enumerate() {
            length |= usize::from(byte & 0x7f) << (7 * place);
            if *byte < 0x80 {
                let records = place + 1..place + 1 + length.saturating_sub(1);
                return rest.get(records).ok_or(ErrorCode::UNKNOWN_SERVER_ERROR);
            }
        }
        Err(ErrorCode::UNKNOWN_SERVER_ERROR)
    }
}

/// First offset and number of records of each whole batch, and its size.
pub(super) fn batches(mut records: &[u8]) -> impl Iterator<Item = (i64, u32, usize)> + '_ {
    std::iter::from_fn(move || {
        let base_offset = i64::from_be_bytes(get(records, 0)?);
        let size = 12 + u32::from_be_bytes(get(records, 8)?) as usize;
        let last_offset_delta = u32::from_be_bytes(get(records, 23)?);
        records = records.get(size..)?;
        Some((base_offset, last_offset_delta + 1, size))
    })
}

/// The correlation id of an answer with its length.
pub(super) fn correlation_id(answer: &[u8]) -> Option<u32> {
    get(answer, ANSWER_ID_AT).map(u32::from_be_bytes)
}

/// What a broker answers with an error.
pub(super) fn refused(what: &str, error: ErrorCode) -> Failure {
    let what = format!("the broker refused {what}");
    Failure::failed(advice::refused(&what, error, None))
}

/// A whole request frame.
pub(super) fn request_bytes(client_id: &str, version: i16, body: &impl Body) -> Vec<u8> {
    let header = RequestHeader {
        api_version: version,
        client_id: Some(client_id.into()),
        ..Default::default()
    };
    bytes_of(encode_request(&header, body))
}

fn bytes_of(response: Response) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(response.len());
    for part in response.parts {
        if let Part::Bytes(part) = part {
            bytes.extend_from_slice(&part);
        }
    }
    bytes
}

fn first_difference(one: &[u8], other: &[u8]) -> usize {
    one.iter()
        .zip(other)
        .position(|(one, other)| one != other)
        .unwrap_or(usize::MAX / 2)
}

fn get<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(place) = bytes.get_mut(at..at + N) {
        place.copy_from_slice(&value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use odradek_core::wire::RequestBody;
    use odradek_core::wire::frame::decode_request;

    const SHAPE: BatchShape = BatchShape {
        records: 3,
        value_bytes: 50,
    };

    fn decode(frame: &[u8]) -> (i32, RequestBody) {
        let frame = Bytes::copy_from_slice(&frame[4..]);
        let request = decode_request(frame).unwrap();
        (request.header.correlation_id, request.body)
    }

    #[test]
    fn a_request_is_what_it_says_under_every_number() {
        // Once: a batch is stamped when it is made.
        let batch = SHAPE.batch();
        let mut frame = RequestFrame::produce("orders", 7, batch.clone());
        let (id, body) = decode(frame.numbered(0x0102_0304));
        assert_eq!(id, 0x0102_0304);
        let RequestBody::Produce(request) = body else {
            panic!("{body:?}")
        };
        let partition = &request.topic_data[0].partition_data[0];
        assert_eq!(partition.index, 7);
        assert_eq!(partition.records, Some(Records::Bytes(batch)));
    }

    #[test]
    fn a_fetch_asks_for_the_offset_it_is_given() {
        let mut frame = FetchFrame::new("orders", 2, 500, 1 << 20);
        for offset in [0, 5, i64::MAX] {
            let (_, RequestBody::Fetch(request)) = decode(frame.at(offset)) else {
                panic!("no fetch")
            };
            assert_eq!(request.topics[0].partitions[0].fetch_offset, offset);
            assert_eq!(request.max_bytes, 1 << 20);
        }
    }

    #[test]
    fn a_ping_has_about_the_size_that_is_asked_for() {
        let mut ping = RequestFrame::ping(180);
        assert_eq!(ping.numbered(1).len(), 180);
    }

    #[test]
    fn answers_are_read_where_the_codec_writes_them() {
        let topic = "a-topic";
        let produce = |error_code, base_offset| {
            let response = ProduceResponse {
                responses: vec![TopicProduceResponse {
                    name: topic.into(),
                    partition_responses: vec![PartitionProduceResponse {
                        index: 9,
                        error_code,
                        base_offset,
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            };
            bytes_of(encode_response(0x0a0b, PRODUCE, &response))
        };
        let answer = ProduceAnswer::new(topic);
        let good = produce(ErrorCode::NONE, 0x0102_0304_0506);
        assert_eq!(answer.base_offset(&good), Ok(0x0102_0304_0506));
        assert_eq!(correlation_id(&good), Some(0x0a0b));
        let bad = produce(ErrorCode::CORRUPT_MESSAGE, -1);
        assert_eq!(answer.base_offset(&bad), Err(ErrorCode::CORRUPT_MESSAGE));
        assert!(answer.base_offset(&[0; 10]).is_err());

        let fetch = |error_code, records: Bytes| {
            let response = FetchResponse {
                responses: vec![FetchableTopicResponse {
                    topic: topic.into(),
                    partitions: vec![PartitionData {
                        error_code,
                        high_watermark: 77,
                        records: Some(Records::Bytes(records)),
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            };
            bytes_of(encode_response(1, FETCH, &response))
        };
        let answer = FetchAnswer::new(topic);
        let two = [SHAPE.batch(), SHAPE.batch()].concat();
        let frame = fetch(ErrorCode::NONE, two.clone().into());
        let records = answer.records(&frame).unwrap();
        assert_eq!(records, two);
        let size = two.len() / 2;
        // A part of a batch at the end is not one.
        let found: Vec<_> = batches(&two[..two.len() - 1]).collect();
        assert_eq!(found, [(0, 3, size)]);
        assert_eq!(batches(records).count(), 2);
        let bad = fetch(ErrorCode::OFFSET_OUT_OF_RANGE, Bytes::new());
        assert_eq!(answer.records(&bad), Err(ErrorCode::OFFSET_OUT_OF_RANGE));
    }
}
