//! A client that keeps a table in a compacted topic: a few keys, written over and deleted again and
//! again. At the end it reads the topic from its beginning on and holds it against what it was told.

use std::collections::BTreeMap;

use bytes::Bytes;
use odradek_core::ids::ConnectionId;
use odradek_core::record::batch::Compression;
use odradek_core::record::builder::{BatchBuilder, BatchFields};
use odradek_core::wire::messages::create_topics::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use odradek_core::wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use odradek_core::wire::messages::produce::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use odradek_core::wire::{ApiKey, ErrorCode, Records, ResponseBody};

use super::seen::Seen;
use super::session::Session;
use super::{Client, ClientContext};
use crate::batch;
use crate::clock::MILLISECOND;
use crate::swarm::WorkloadMix;

/// A reading may be overtaken by the deletion of a tombstone that it has not come to. So many in a row
/// are not.
const MOST_READINGS: u32 = 5;

/// Keeps a table.
#[derive(Debug)]
pub struct Keeper {
    mix: WorkloadMix,
    session: Session,
    created: bool,
    /// What the next sends are, by tag: key and value of each record.
    sent: BTreeMap<u64, Vec<Row>>,
    last_tag: u64,
    last_value: u64,
    table: BTreeMap<Vec<u8>, Entry>,
    reading: Option<Reading>,
    readings: u32,
    finishing: bool,
    done: bool,
}

/// A key and its value; none deletes the key.
type Row = (Vec<u8>, Option<Vec<u8>>);

/// What is known of a key.
#[derive(Clone, Debug, Default)]
struct Entry {
    /// The last write that was acknowledged: where, and whether it deleted the key.
    acked: Option<(i64, bool)>,
    /// A deletion was sent whose outcome is not known, or was acknowledged.
    maybe_deleted: bool,
}

/// A reading from the beginning on.
#[derive(Debug, Default)]
struct Reading {
    next: i64,
    end: i64,
    /// Of each key the last offset.
    last: BTreeMap<Vec<u8>, i64>,
}

const KEYS: u64 = 7;

impl Keeper {
    /// A client of this mix.
    #[must_use]
    pub fn new(mix: &WorkloadMix) -> Self {
        Self {
            mix: mix.clone(),
            session: Session::default(),
            created: false,
            sent: BTreeMap::new(),
            last_tag: 0,
            last_value: 0,
            table: BTreeMap::new(),
            reading: None,
            readings: 0,
            finishing: false,
            done: false,
        }
    }

    fn topic(cx: &ClientContext<'_>) -> String {
        format!("kept{}", cx.client)
    }

    fn create(&mut self, cx: &mut ClientContext<'_>) {
        let config = |name: &str, value: &str| CreatableTopicConfig {
            name: name.into(),
            value: Some(value.into()),
            ..Default::default()
        };
        let body = CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: Self::topic(cx).as_str().into(),
                num_partitions: 1,
                replication_factor: 1,
                configs: vec![
                    config("cleanup.policy", "compact"),
                    config("min.cleanable.dirty.ratio", "0.01"),
                    config("delete.retention.ms", "40"),
                ],
                ..Default::default()
            }],
            timeout_ms: 5_000,
            ..Default::default()
        };
        let version = Session::version(cx, ApiKey::CreateTopics);
        self.session.request(cx, version, body.into(), 0, true);
    }

    fn write(&mut self, cx: &mut ClientContext<'_>) {
        let count = cx.between(1, 3);
        let mut builder = BatchBuilder::new(usize::MAX);
        let mut rows = Vec::new();
        for _ in 0..count {
            let key = format!("key{}", cx.between(0, KEYS - 1)).into_bytes();
            self.last_value += 1;
            let value = (!cx.chance(250_000)).then(|| {
                let mut value = self.last_value.to_be_bytes().to_vec();
                value.resize(8 + cx.between(0, 60) as usize, 7);
                value
            });
            let fits = builder.append(cx.now.wall.0, Some(&key), value.as_deref(), &[]);
            assert!(fits, "the batch has no limit");
            if value.is_none() {
                self.table.entry(key.clone()).or_default().maybe_deleted = true;
            }
            rows.push((key, value));
        }
        let compression = cx.pick(&[Compression::None, Compression::None, Compression::Lz4]);
        let bytes = builder.build(BatchFields {
            compression,
            ..BatchFields::default()
        });
        let body = ProduceRequest {
            acks: -1,
            timeout_ms: 30_000,
            topic_data: vec![TopicProduceData {
                name: Self::topic(cx).as_str().into(),
                partition_data: vec![PartitionProduceData {
                    index: 0,
                    records: Some(Records::Bytes(bytes)),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        self.last_tag += 1;
        self.sent.insert(self.last_tag, rows);
        self.session
            .request(cx, 9, body.into(), self.last_tag, true);
    }

    fn read(&mut self, cx: &mut ClientContext<'_>) {
        let reading = self.reading.get_or_insert_with(Reading::default);
        let body = FetchRequest {
            max_wait_ms: 0,
            min_bytes: 0,
            max_bytes: cx.pick(&[200, 2_000, 1 << 20]),
            topics: vec![FetchTopic {
                topic: Self::topic(cx).as_str().into(),
                partitions: vec![FetchPartition {
                    partition: 0,
                    fetch_offset: reading.next,
                    partition_max_bytes: 1 << 20,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        self.session.request(cx, 11, body.into(), 0, true);
    }

    fn step(&mut self, cx: &mut ClientContext<'_>) {
        let reads = if self.finishing {
            !self.done
        } else {
            self.reading.is_some() || cx.chance(150_000)
        };
        if !self.created {
            self.create(cx);
        } else if reads {
            self.read(cx);
        } else if !self.finishing {
            self.write(cx);
        }
    }

    fn acknowledged(&mut self, rows: Vec<Row>, base_offset: i64) {
        for (offset, (key, value)) in (base_offset..).zip(rows) {
            let entry = self.table.entry(key).or_default();
            if entry.acked.is_none_or(|(before, _)| before < offset) {
                entry.acked = Some((offset, value.is_none()));
            }
        }
    }

    /// Takes what a fetch said; a reading that has come to its end is judged.
    fn take(&mut self, cx: &mut ClientContext<'_>, records: &Bytes, high_watermark: i64) {
        let Some(reading) = &mut self.reading else {
            return;
        };
        for found in batch::all(records) {
            let Ok(batch) = batch::open_by_core(&records.slice_ref(found.bytes)) else {
                return cx
                    .complaints
                    .push("a batch of a compacted topic does not open".to_owned());
            };
            for record in batch.iter().map_while(Result::ok) {
                if let Some(key) = record.key {
                    reading.last.insert(key.to_vec(), record.offset.0);
                }
            }
            reading.next = reading.next.max(found.last_offset + 1);
        }
        reading.end = high_watermark;
        if reading.next < reading.end {
            return;
        }
        let Some(reading) = self.reading.take() else {
            return;
        };
        if !self.finishing {
            return;
        }
        self.readings += 1;
        let lost = self.table.iter().find_map(|(key, entry)| {
            let (offset, deleted) = entry.acked?;
            let name = String::from_utf8_lossy(key).into_owned();
            match reading.last.get(key) {
                Some(last) if *last >= offset => None,
                Some(last) => Some(format!(
                    "{name} was written at {offset}, and the last that is read of it is at {last}"
                )),
                None if deleted || entry.maybe_deleted => None,
                None => Some(format!("{name} was written at {offset}, and is not there")),
            }
        });
        match lost {
            Some(lost) if self.readings >= MOST_READINGS => {
                let topic = Self::topic(cx);
                cx.saw.push(Seen::LostKey(topic, lost));
                self.done = true;
            }
            Some(_) => {}
            None => self.done = true,
        }
    }
}

impl Client for Keeper {
    fn start(&mut self, cx: &mut ClientContext<'_>) {
        cx.after(10 * MILLISECOND, 0);
    }

    fn timer(&mut self, _: u64, cx: &mut ClientContext<'_>) {
        if self.session.in_flight() == 0 {
            self.step(cx);
        }
    }

    fn bytes(&mut self, connection: ConnectionId, bytes: Bytes, cx: &mut ClientContext<'_>) {
        for answer in self.session.receive(cx, connection, &bytes) {
            let mut failed = false;
            match answer.body {
                ResponseBody::CreateTopics(response) => {
                    self.created = response.topics.iter().all(|topic| {
                        matches!(
                            topic.error_code,
                            ErrorCode::NONE | ErrorCode::TOPIC_ALREADY_EXISTS
                        )
                    });
                    failed = !self.created;
                }
                ResponseBody::Produce(response) => {
                    let rows = self.sent.remove(&answer.tag).unwrap_or_default();
                    let result = response
                        .responses
                        .first()
                        .and_then(|topic| topic.partition_responses.first());
                    match result {
                        Some(result) if !result.error_code.is_error() => {
                            self.acknowledged(rows, result.base_offset);
                        }
                        _ => failed = true,
                    }
                }
                ResponseBody::Fetch(response) => {
                    let result = response
                        .responses
                        .first()
                        .and_then(|t| t.partitions.first());
                    match result {
                        Some(result) if !result.error_code.is_error() => {
                            let records = match &result.records {
                                Some(Records::Bytes(bytes)) => bytes.clone(),
                                _ => Bytes::new(),
                            };
                            self.take(cx, &records, result.high_watermark);
                        }
                        _ => {
                            // A power loss under `os` may have cut what was read.
                            self.reading = None;
                            failed = true;
                        }
                    }
                }
                _ => {}
            }
            let pause = match (failed, self.finishing) {
                (true, _) => 20 * MILLISECOND,
                (false, true) => MILLISECOND,
                (false, false) => cx.pause(self.mix.pause_ns / 4),
            };
            cx.after(pause, 0);
        }
    }

    fn closed(&mut self, connection: ConnectionId, cx: &mut ClientContext<'_>) {
        self.session.lost(connection);
        self.sent.clear();
        let pause = cx.pause(20 * MILLISECOND);
        cx.after(pause, 0);
    }

    fn finish(&mut self, cx: &mut ClientContext<'_>) {
        self.finishing = true;
        // From the beginning.
        self.reading = None;
        cx.after(MILLISECOND, 0);
    }

    fn is_idle(&self) -> bool {
        self.done && self.session.in_flight() == 0
    }
}
