//! As much of Kafka's protocol as the bench speaks: Produce 9 and Fetch 12 with one partition,
//! read in place. Anything else is answered as if it had been ApiVersions 0.

use std::ops::Range;

use bytes::Bytes;
use odradek_core::effect::Part;
use odradek_core::record::check_batch_at;
use odradek_core::record::walk::{OffsetDeltas, walk_records};
use odradek_core::wire::Records;
use odradek_core::wire::frame::encode_response;
use odradek_core::wire::messages::Body;
use odradek_core::wire::messages::fetch::{FetchResponse, FetchableTopicResponse, PartitionData};
use odradek_core::wire::messages::produce::{
    PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};

/// The versions that are understood.
const PRODUCE: (u16, u16) = (0, 9);
const FETCH: (u16, u16) = (1, 12);
const BATCH_HEADER_BYTES: usize = 61;

/// What a frame asks for; ranges are within the frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    Produce {
        topic: Range<usize>,
        batch: Range<usize>,
    },
    Fetch {
        topic: Range<usize>,
        offset: i64,
        max_bytes: u64,
    },
    Other,
}

/// What a batch holds.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) records: i64,
    pub(super) bytes: u64,
}

/// Reads a frame without its length: correlation id and request.
pub(super) fn read(frame: &[u8]) -> Option<([u8; 4], Request)> {
    let mut at = Cursor { frame, at: 0 };
    let api = (at.u16()?, at.u16()?);
    let correlation_id = at.take()?;
    let request = match api {
        PRODUCE => read_produce(&mut at)?,
        FETCH => read_fetch(&mut at)?,
        _ => Request::Other,
    };
    Some((correlation_id, request))
}

fn read_produce(at: &mut Cursor<'_>) -> Option<Request> {
    at.rest_of_header()?;
    let _transactional_id = at.compact()?;
    at.skip(2 + 4)?;
    at.one_of_an_array()?;
    let topic = at.compact()?;
    at.one_of_an_array()?;
    at.skip(4)?;
    let batch = at.compact()?;
    Some(Request::Produce { topic, batch })
}

fn read_fetch(at: &mut Cursor<'_>) -> Option<Request> {
    at.rest_of_header()?;
    at.skip(3 * 4)?;
    let max_bytes = u32::from_be_bytes(at.take()?);
    at.skip(1 + 4 + 4)?;
    at.one_of_an_array()?;
    let topic = at.compact()?;
    at.one_of_an_array()?;
    at.skip(4 + 4)?;
    let offset = i64::from_be_bytes(at.take()?);
    at.skip(4 + 8)?;
    let of_partition = u32::from_be_bytes(at.take()?);
    Some(Request::Fetch {
        topic,
        offset,
        max_bytes: max_bytes.min(of_partition).into(),
    })
}

/// What every broker checks of a batch: header, CRC, each record.
pub(super) fn check(batch: &[u8]) -> Option<Checked> {
    let header = check_batch_at(batch).ok()?;
    if header.size_bytes() != batch.len() as u64 {
        return None;
    }
    walk_records(
        &header,
        OffsetDeltas::Dense,
        batch.get(BATCH_HEADER_BYTES..)?,
    )
    .ok()?;
    Some(Checked {
        records: i64::from(header.record_count),
        bytes: header.size_bytes(),
    })
}

/// Answers that are ready but for a few bytes.
#[derive(Debug, Default)]
pub(super) struct Answers {
    topic: Vec<u8>,
    produce: Vec<u8>,
    base_offset_at: usize,
    fetch: Vec<u8>,
    /// Where in it the length of the records is.
    records_at: usize,
}

/// A Fetch response ends with its records, here none, and three empty sets of tagged fields.
const FETCH_TAIL: [u8; 3] = [0; 3];

impl Answers {
    /// The answer to a produce request.
    pub(super) fn produce(
        &mut self,
        topic: &[u8],
        correlation_id: [u8; 4],
        base_offset: i64,
    ) -> &[u8] {
        self.prepare(topic);
        put(&mut self.produce, 4, correlation_id);
        put(
            &mut self.produce,
            self.base_offset_at,
            base_offset.to_be_bytes(),
        );
        &self.produce
    }

    /// What goes before and after so many bytes of records.
    pub(super) fn fetch(
        &mut self,
        topic: &[u8],
        correlation_id: [u8; 4],
        length: u64,
    ) -> (&[u8], &[u8]) {
        self.prepare(topic);
        self.fetch.truncate(self.records_at);
        let mut rest = length + 1;
        while rest >= 0x80 {
            self.fetch.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.fetch.push(rest as u8);
        let total = (self.fetch.len() - 4 + FETCH_TAIL.len()) as u64 + length;
        put(&mut self.fetch, 0, (total as u32).to_be_bytes());
        put(&mut self.fetch, 4, correlation_id);
        (&self.fetch, &FETCH_TAIL)
    }

    /// The answer to anything else: an ApiVersions response without APIs.
    pub(super) fn ping([a, b, c, d]: [u8; 4]) -> [u8; 14] {
        [0, 0, 0, 10, a, b, c, d, 0, 0, 0, 0, 0, 0]
    }

    fn prepare(&mut self, topic: &[u8]) {
        if self.topic == topic && !self.produce.is_empty() {
            return;
        }
        topic.clone_into(&mut self.topic);
        let produce = |base_offset| {
            response(
                9,
                &ProduceResponse {
                    responses: vec![TopicProduceResponse {
                        name: name(topic),
                        partition_responses: vec![PartitionProduceResponse {
                            base_offset,
                            log_start_offset: 0,
                            ..Default::default()
                        }],
                        ..Default::default()
                    }],
                    ..Default::default()
                },
            )
        };
        self.produce = produce(0);
        self.base_offset_at = produce(-1)
            .iter()
            .zip(&self.produce)
            .position(|(one, other)| one != other)
            .unwrap_or_default();
        self.fetch = response(
            12,
            &FetchResponse {
                responses: vec![FetchableTopicResponse {
                    topic: name(topic),
                    partitions: vec![PartitionData {
                        high_watermark: i64::MAX,
                        records: Some(Records::Bytes(Bytes::new())),
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            },
        );
        self.records_at = self.fetch.len() - FETCH_TAIL.len() - 1;
    }
}

fn name(topic: &[u8]) -> odradek_core::wire::Str {
    odradek_core::wire::Str::from_utf8(Bytes::copy_from_slice(topic)).unwrap_or_default()
}

fn response(version: i16, body: &impl Body) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in encode_response(0, version, body).parts {
        if let Part::Bytes(part) = part {
            bytes.extend_from_slice(&part);
        }
    }
    bytes
}

fn put<const N: usize>(into: &mut [u8], at: usize, bytes: [u8; N]) {
    if let Some(place) = into.get_mut(at..at + N) {
        place.copy_from_slice(&bytes);
    }
}

/// Reads a frame from front to back.
struct Cursor<'a> {
    frame: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.frame.get(self.at..)?.first_chunk()?;
        self.at += N;
        Some(*bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take()?))
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.at = self.at.checked_add(bytes)?;
        (self.at <= self.frame.len()).then_some(())
    }

    fn unsigned_varint(&mut self) -> Option<u32> {
        let mut value = 0;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.take()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// The client id and no tagged fields.
    fn rest_of_header(&mut self) -> Option<()> {
        let client_id = self.u16()?;
        self.skip(client_id.into())?;
        (self.unsigned_varint()? == 0).then_some(())
    }

    /// A compact string or bytes, null for an empty range.
    fn compact(&mut self) -> Option<Range<usize>> {
        let length = self.unsigned_varint()?.saturating_sub(1) as usize;
        let start = self.at;
        self.skip(length)?;
        Some(start..self.at)
    }

    /// A compact array that holds one element.
    fn one_of_an_array(&mut self) -> Option<()> {
        (self.unsigned_varint()? == 2).then_some(())
    }
}
