//! A producer without idempotence: several requests in flight, every acks, retries that may
//! duplicate.

use std::collections::BTreeMap;

use bytes::Bytes;
use odradek_core::ids::ConnectionId;
use odradek_core::record::batch::Compression;
use odradek_core::record::builder::{BatchBuilder, BatchFields};
use odradek_core::wire::messages::produce::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use odradek_core::wire::{Records, ResponseBody};

use super::seen::Seen;
use super::session::Session;
use super::{Client, ClientContext};
use crate::batch::{self, Record};
use crate::choices::Subsystem;
use crate::swarm::WorkloadMix;

/// Produces records that are all different.
#[derive(Debug)]
pub struct Producer {
    mix: WorkloadMix,
    session: Session,
    sends: BTreeMap<u64, Send>,
    retries: Vec<Send>,
    last_tag: u64,
    last_record: u64,
    finishing: bool,
    timer_is_set: bool,
}

/// One request's worth of batches.
#[derive(Clone, Debug)]
struct Send {
    acks: i16,
    batches: Vec<(String, i32, Bytes)>,
    attempts: u32,
}

impl Producer {
    /// A producer of this mix.
    #[must_use]
    pub fn new(mix: &WorkloadMix) -> Self {
        Self {
            mix: mix.clone(),
            session: Session::default(),
            sends: BTreeMap::new(),
            retries: Vec::new(),
            last_tag: 0,
            last_record: 0,
            finishing: false,
            timer_is_set: false,
        }
    }

    fn schedule(&mut self, cx: &mut ClientContext<'_>) {
        if !self.timer_is_set {
            self.timer_is_set = true;
            let pause = cx.pause(self.mix.pause_ns);
            cx.after(pause, 0);
        }
    }

    fn new_send(&mut self, cx: &mut ClientContext<'_>) -> Send {
        let acks = cx.pick(&self.mix.acks.clone());
        let count = cx.pick(&[1, 1, 1, 2, 3]);
        let mut batches = BTreeMap::new();
        for _ in 0..count {
            let partition = cx.pick_partition();
            batches
                .entry(partition)
                .or_insert_with(|| self.new_batch(cx));
        }
        Send {
            acks,
            batches: batches
                .into_iter()
                .map(|((topic, partition), bytes)| (topic, partition, bytes))
                .collect(),
            attempts: 0,
        }
    }

    fn new_batch(&mut self, cx: &mut ClientContext<'_>) -> Bytes {
        let count = cx.between(1, self.mix.max_records);
        let mut dice = cx.choices.dice(Subsystem::Payload, cx.client as u64);
        let now = cx.now.wall.0;
        let records: Vec<Record> = (0..count)
            .map(|_| {
                self.last_record += 1;
                let mut value = vec![0; 16];
                value[..8].copy_from_slice(&(cx.client as u64).to_be_bytes());
                value[8..].copy_from_slice(&self.last_record.to_be_bytes());
                // A repeated byte compresses well, and costs little to make.
                let filler = dice.between(0, self.mix.max_value_bytes) as usize;
                value.resize(16 + filler, self.last_record as u8);
                Record {
                    // Out of order now and then.
                    timestamp: now - dice.below(1_000) as i64,
                    key: (dice.below(2) == 0).then(|| vec![self.last_record as u8; 4]),
                    value: Some(value),
                }
            })
            .collect();
        cx.saw.push(Seen::Raw {
            producer: cx.client as u64,
            up_to: self.last_record,
        });
        let compression = match dice.below(12) {
            0 => Compression::Gzip,
            1 => Compression::Snappy,
            2 => Compression::Lz4,
            3 => Compression::Zstd,
            4 => Compression::None,
            _ => return batch::build(&records).into(),
        };
        let null_header: &[(&[u8], Option<&[u8]>)] = &[(b"", None)];
        let two_headers: &[(&[u8], Option<&[u8]>)] = &[(b"one", Some(b"")), (b"one", Some(b"2"))];
        let mut builder = BatchBuilder::new(usize::MAX);
        for record in &records {
            let fits = builder.append(
                record.timestamp,
                record.key.as_deref(),
                record.value.as_deref(),
                match dice.below(4) {
                    0 => null_header,
                    1 => two_headers,
                    _ => &[],
                },
            );
            assert!(fits, "the batch has no limit");
        }
        let fields = BatchFields {
            compression,
            ..BatchFields::default()
        };
        batch::with_tables(|tables| builder.build_with(fields, tables))
    }

    fn send(&mut self, cx: &mut ClientContext<'_>, mut send: Send) {
        let named = cx.chance(500_000);
        let ids: Option<Vec<_>> = send
            .batches
            .iter()
            .map(|(topic, _, _)| cx.catalog.ids.get(topic).copied())
            .collect();
        let version = match &ids {
            Some(_) if !named => 13,
            // Below 7 there is no zstd.
            _ => cx.between(7, 12) as i16,
        };
        let mut topics: Vec<TopicProduceData> = Vec::new();
        for (topic, partition, bytes) in &send.batches {
            let data = PartitionProduceData {
                index: *partition,
                records: Some(Records::Bytes(bytes.clone())),
                ..Default::default()
            };
            match topics.last_mut() {
                Some(last) if last.name == topic.as_str() => last.partition_data.push(data),
                _ => topics.push(TopicProduceData {
                    name: topic.as_str().into(),
                    topic_id: cx.catalog.ids.get(topic).copied().unwrap_or_default(),
                    partition_data: vec![data],
                    ..Default::default()
                }),
            }
        }
        let body = ProduceRequest {
            acks: send.acks,
            timeout_ms: cx.pick(&[30_000, 30_000, 30_000, 100]),
            topic_data: topics,
            ..Default::default()
        };
        send.attempts += 1;
        self.last_tag += 1;
        let answered = send.acks != 0;
        self.session
            .request(cx, version, body.into(), self.last_tag, answered);
        if answered {
            self.sends.insert(self.last_tag, send);
        }
    }

    /// A send failed or its outcome is unknown: try the same bytes again, or let it be.
    fn again(&mut self, cx: &mut ClientContext<'_>, send: Send) {
        if send.attempts < 4 && cx.chance(700_000) {
            self.retries.push(send);
        }
    }
}

impl Client for Producer {
    fn start(&mut self, cx: &mut ClientContext<'_>) {
        self.schedule(cx);
    }

    fn timer(&mut self, _: u64, cx: &mut ClientContext<'_>) {
        self.timer_is_set = false;
        if self.session.in_flight() < self.mix.max_in_flight {
            if let Some(send) = self.retries.pop() {
                self.send(cx, send);
            } else if !self.finishing {
                let send = self.new_send(cx);
                self.send(cx, send);
            }
        }
        if !self.finishing && cx.chance(2_000) {
            for tag in self.session.vanish(cx) {
                self.sends.remove(&tag);
            }
        }
        if !self.finishing || !self.retries.is_empty() {
            self.schedule(cx);
        }
    }

    fn bytes(&mut self, connection: ConnectionId, bytes: Bytes, cx: &mut ClientContext<'_>) {
        for answer in self.session.receive(cx, connection, &bytes) {
            let Some(mut send) = self.sends.remove(&answer.tag) else {
                continue;
            };
            let ResponseBody::Produce(response) = answer.body else {
                continue;
            };
            let results: Vec<_> = response
                .responses
                .iter()
                .flat_map(|topic| &topic.partition_responses)
                .collect();
            if results.len() != send.batches.len() {
                cx.complaints.push(format!(
                    "a produce of {} partitions was answered for {}",
                    send.batches.len(),
                    results.len()
                ));
            }
            let mut results = results.into_iter();
            send.batches.retain(|_| {
                results
                    .next()
                    .is_some_and(|result| result.error_code.is_error())
            });
            if !send.batches.is_empty() {
                self.again(cx, send);
            }
        }
        if !self.retries.is_empty() {
            self.schedule(cx);
        }
    }

    fn closed(&mut self, connection: ConnectionId, cx: &mut ClientContext<'_>) {
        for tag in self.session.lost(connection) {
            if let Some(send) = self.sends.remove(&tag) {
                self.again(cx, send);
            }
        }
        if !self.retries.is_empty() {
            self.schedule(cx);
        }
    }

    fn finish(&mut self, cx: &mut ClientContext<'_>) {
        self.finishing = true;
        if !self.retries.is_empty() {
            self.schedule(cx);
        }
    }

    fn is_idle(&self) -> bool {
        self.session.in_flight() == 0 && self.retries.is_empty()
    }
}
