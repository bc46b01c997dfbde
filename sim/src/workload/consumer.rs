//! A consumer: reads partitions from the beginning on, waits at their ends, jumps about.

use std::collections::BTreeMap;

use bytes::Bytes;
use odradek_core::ids::ConnectionId;
use odradek_core::wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use odradek_core::wire::{ApiKey, ErrorCode, Records, ResponseBody};

use super::session::Session;
use super::{Client, ClientContext};
use crate::batch;
use crate::clock::MILLISECOND;
use crate::swarm::WorkloadMix;

/// Fetches, one request after another.
#[derive(Debug)]
pub struct Consumer {
    max_wait_ms: u64,
    session: Session,
    positions: BTreeMap<(String, i32), i64>,
    finishing: bool,
}

impl Consumer {
    /// A consumer of this mix.
    #[must_use]
    pub fn new(mix: &WorkloadMix) -> Self {
        Self {
            max_wait_ms: mix.max_wait_ms,
            session: Session::default(),
            positions: BTreeMap::new(),
            finishing: false,
        }
    }

    fn fetch(&mut self, cx: &mut ClientContext<'_>) {
        let mut wanted: BTreeMap<String, Vec<i32>> = BTreeMap::new();
        for _ in 0..cx.pick(&[1, 1, 2, 4]) {
            let (topic, partition) = cx.pick_partition();
            let partitions = wanted.entry(topic).or_default();
            if !partitions.contains(&partition) {
                partitions.push(partition);
            }
        }
        let ids_known = wanted.keys().all(|t| cx.catalog.ids.contains_key(t));
        let mut version = Session::version(cx, ApiKey::Fetch);
        if !ids_known {
            version = version.min(12);
        }
        let jump = cx.chance(30_000);
        let mut topics = Vec::new();
        for (topic, partitions) in wanted {
            let mut list = Vec::new();
            for partition in partitions {
                let position = self
                    .positions
                    .entry((topic.clone(), partition))
                    .or_insert(0);
                if jump {
                    *position = cx.between(0, (*position).max(0) as u64 + 2) as i64;
                }
                list.push(FetchPartition {
                    partition,
                    fetch_offset: *position,
                    partition_max_bytes: cx.pick(&[1, 100, 1_000, 10_000, 1 << 20, 1 << 20]),
                    ..Default::default()
                });
            }
            topics.push(FetchTopic {
                topic: topic.as_str().into(),
                topic_id: cx.catalog.ids.get(&topic).copied().unwrap_or_default(),
                partitions: list,
                ..Default::default()
            });
        }
        let mut body = FetchRequest {
            max_wait_ms: cx.between(0, self.max_wait_ms) as i32,
            min_bytes: cx.pick(&[0, 1, 1, 1, 200, 2_000]),
            max_bytes: cx.pick(&[1, 500, 5_000, 1 << 20, 1 << 20, 1 << 20]),
            topics,
            ..Default::default()
        };
        if cx.chance(100_000) {
            body.isolation_level = 1;
        }
        if cx.chance(30_000) {
            // An epoch that is over, or one that never was.
            let epoch = cx.between(0, 3) as i32;
            for topic in &mut body.topics {
                for partition in &mut topic.partitions {
                    partition.current_leader_epoch = epoch;
                }
            }
        }
        self.session.request(cx, version, body.into(), 0, true);
    }

    fn take(&mut self, cx: &mut ClientContext<'_>, name: String, data: PartitionRead) {
        if data.high_watermark >= 0 {
            let known = cx
                .catalog
                .high_watermarks
                .entry((name.clone(), data.partition))
                .or_default();
            *known = (*known).max(data.high_watermark);
        }
        let position = self.positions.entry((name, data.partition)).or_insert(0);
        match data.error {
            ErrorCode::NONE => {
                if let Some(last) = batch::all(&data.records).last() {
                    *position = (*position).max(last.last_offset + 1);
                }
            }
            ErrorCode::OFFSET_OUT_OF_RANGE => *position = data.log_start_offset.max(0),
            _ => {}
        }
    }
}

/// What a fetch said of one partition.
#[derive(Debug)]
struct PartitionRead {
    partition: i32,
    error: ErrorCode,
    high_watermark: i64,
    log_start_offset: i64,
    records: Bytes,
}

impl Client for Consumer {
    fn start(&mut self, cx: &mut ClientContext<'_>) {
        let pause = cx.pause(20 * MILLISECOND);
        cx.after(pause, 0);
    }

    fn timer(&mut self, _: u64, cx: &mut ClientContext<'_>) {
        if !self.finishing && self.session.in_flight() == 0 {
            self.fetch(cx);
        }
    }

    fn bytes(&mut self, connection: ConnectionId, bytes: Bytes, cx: &mut ClientContext<'_>) {
        for answer in self.session.receive(cx, connection, &bytes) {
            let ResponseBody::Fetch(response) = answer.body else {
                continue;
            };
            let mut failed = response.error_code.is_error();
            for topic in response.responses {
                let name = if answer.version >= 13 {
                    cx.catalog
                        .ids
                        .iter()
                        .find(|(_, id)| **id == topic.topic_id)
                        .map(|(name, _)| name.clone())
                } else {
                    Some(topic.topic.to_string())
                };
                let Some(name) = name else { continue };
                for partition in topic.partitions {
                    failed |= partition.error_code.is_error();
                    let read = PartitionRead {
                        partition: partition.partition_index,
                        error: partition.error_code,
                        high_watermark: partition.high_watermark,
                        log_start_offset: partition.log_start_offset,
                        records: match partition.records {
                            Some(Records::Bytes(bytes)) => bytes,
                            _ => Bytes::new(),
                        },
                    };
                    self.take(cx, name.clone(), read);
                }
            }
            let mean = if failed { 50 } else { 2 };
            let mut pause = cx.pause(mean * MILLISECOND);
            if cx.chance(5_000) {
                // Gone for a while, with or without a word.
                if cx.chance(500_000) {
                    self.session.vanish(cx);
                } else {
                    self.session.close(cx);
                }
                pause += cx.pause(300 * MILLISECOND);
            } else if self.max_wait_ms == 0 {
                pause += 10 * MILLISECOND;
            }
            cx.after(pause, 0);
        }
    }

    fn closed(&mut self, connection: ConnectionId, cx: &mut ClientContext<'_>) {
        self.session.lost(connection);
        let pause = cx.pause(20 * MILLISECOND);
        cx.after(pause, 0);
    }

    fn finish(&mut self, _: &mut ClientContext<'_>) {
        self.finishing = true;
    }

    fn is_idle(&self) -> bool {
        self.session.in_flight() == 0
    }
}
