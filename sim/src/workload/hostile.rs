//! A client that sends what no client should: random bytes, valid frames with bytes changed, cut
//! short or given a wrong length, APIs and versions that do not exist.

use bytes::{BufMut, Bytes, BytesMut};
use odradek_core::ids::ConnectionId;
use odradek_core::wire::frame::encode_request;
use odradek_core::wire::messages::api_versions::ApiVersionsRequest;
use odradek_core::wire::messages::create_topics::{CreatableTopic, CreateTopicsRequest};
use odradek_core::wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use odradek_core::wire::messages::metadata::MetadataRequest;
use odradek_core::wire::messages::produce::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use odradek_core::wire::{ApiKey, Records, RequestBody, RequestHeader};

use super::seen::Id;
use super::session::{Session, flat};
use super::{Client, ClientContext};
use crate::batch::{self, Record};
use crate::choices::Subsystem;
use crate::clock::MILLISECOND;

/// The value of every record that a hostile client gets through.
pub const VALUE: &[u8] = b"from a hostile client";

/// What its records are called.
pub const ID: Id = Id {
    producer: u64::MAX,
    number: 0,
};

/// Sends garbage, connects again, and does not care for answers.
#[derive(Debug, Default)]
pub struct Hostile {
    connection: Option<ConnectionId>,
    finishing: bool,
}

impl Hostile {
    fn frame(cx: &mut ClientContext<'_>) -> Bytes {
        let mut frame = BytesMut::from(&valid(cx)[..]);
        let mut dice = cx.choices.dice(Subsystem::Payload, cx.client as u64);
        match dice.below(7) {
            // As it is: not every request of a hostile client is bad.
            0 => {}
            // A few bytes changed, the length left alone.
            1 | 2 => {
                for _ in 0..=dice.below(4) {
                    let at = 4 + dice.below(frame.len() as u64 - 4) as usize;
                    frame[at] = dice.below(256) as u8;
                }
            }
            // Cut short inside, the length put right.
            3 => {
                let keep = dice.below(frame.len() as u64 - 4) as usize;
                frame.truncate(4 + keep);
                frame[..4].copy_from_slice(&(keep as i32).to_be_bytes());
            }
            // A length that is not.
            4 => {
                let length = dice.pick(&[-1, i32::MIN, i32::MAX, 200 << 20, 0, 3]);
                frame[..4].copy_from_slice(&length.to_be_bytes());
            }
            // A bomb: huge counts behind a valid header.
            5 => {
                let at = (12 + dice.below(30) as usize).min(frame.len());
                frame.truncate(at);
                frame.put_bytes(0x7f, 9);
                let size = frame.len() as i32 - 4;
                frame[..4].copy_from_slice(&size.to_be_bytes());
            }
            // Noise.
            _ => {
                let mut noise = vec![0; dice.below(60) as usize];
                dice.fill(&mut noise);
                frame.clear();
                frame.put_i32(noise.len() as i32);
                frame.put_slice(&noise);
            }
        }
        frame.freeze()
    }
}

/// A request that is well-formed, in a version that may not exist.
fn valid(cx: &mut ClientContext<'_>) -> Bytes {
    let (topic, partition) = cx.pick_partition();
    let body: RequestBody = match cx.between(0, 4) {
        0 => ApiVersionsRequest::default().into(),
        1 => MetadataRequest::default().into(),
        2 => FetchRequest {
            max_wait_ms: 10,
            min_bytes: 1,
            topics: vec![FetchTopic {
                topic: topic.as_str().into(),
                partitions: vec![FetchPartition {
                    partition,
                    fetch_offset: cx.pick(&[-1, 0, i64::MAX]),
                    partition_max_bytes: cx.pick(&[-1, 0, i32::MAX]),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        }
        .into(),
        3 => CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: cx
                    .pick(&["", ".", "..", "a/b", "../../etc", "hostile"])
                    .into(),
                num_partitions: cx.pick(&[0, -5, i32::MAX, 1]),
                replication_factor: cx.pick(&[0, 3, -7]),
                ..Default::default()
            }],
            ..Default::default()
        }
        .into(),
        _ => {
            let record = Record {
                timestamp: cx.now.wall.0,
                key: None,
                value: Some(VALUE.to_vec()),
            };
            let mut records = batch::build(&[record]);
            let at = cx.between(0, records.len() as u64 - 1) as usize;
            // The base offset and the epoch are the broker's to set, so changes there do no harm.
            records[at] ^= 1 << cx.between(0, 7);
            ProduceRequest {
                acks: cx.pick(&[0, 1, -1, 7]),
                timeout_ms: cx.pick(&[-1, 0, 1_000]),
                topic_data: vec![TopicProduceData {
                    name: topic.as_str().into(),
                    partition_data: vec![PartitionProduceData {
                        index: cx.pick(&[partition, -1, i32::MAX]),
                        records: Some(Records::Bytes(records.into())),
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            }
            .into()
        }
    };
    let api = odradek_core::wire::messages::Body::api(&body);
    let api_version = Session::version(cx, api);
    let header = RequestHeader {
        api_key: api.key(),
        api_version,
        correlation_id: cx.between(0, 1_000) as i32,
        client_id: None,
    };
    let mut frame = BytesMut::from(&flat(&encode_request(&header, &body))[..]);
    if cx.chance(100_000) {
        // An API or a version that nobody has.
        let key = cx.pick(&[-1, 55, 1_000, ApiKey::Fetch.key()]);
        frame[4..6].copy_from_slice(&i16::to_be_bytes(key));
        frame[6..8].copy_from_slice(&i16::to_be_bytes(cx.pick(&[-1, 99])));
    }
    frame.freeze()
}

impl Client for Hostile {
    fn start(&mut self, cx: &mut ClientContext<'_>) {
        cx.after(100 * MILLISECOND, 0);
    }

    fn timer(&mut self, _: u64, cx: &mut ClientContext<'_>) {
        if self.finishing {
            return;
        }
        let connection = *self.connection.get_or_insert_with(|| cx.connect());
        let frame = Self::frame(cx);
        cx.send(connection, frame);
        if cx.chance(300_000) {
            self.connection = None;
            if cx.chance(500_000) {
                cx.close(connection);
            } else {
                cx.vanish(connection);
            }
        }
        let pause = cx.pause(60 * MILLISECOND);
        cx.after(pause, 0);
    }

    fn bytes(&mut self, _: ConnectionId, _: Bytes, _: &mut ClientContext<'_>) {}

    fn closed(&mut self, connection: ConnectionId, _: &mut ClientContext<'_>) {
        if self.connection == Some(connection) {
            self.connection = None;
        }
    }

    fn finish(&mut self, cx: &mut ClientContext<'_>) {
        self.finishing = true;
        if let Some(connection) = self.connection.take() {
            cx.close(connection);
        }
    }

    fn is_idle(&self) -> bool {
        true
    }
}
