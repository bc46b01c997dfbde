//! The client that comes last: it reads every partition from its beginning to its end.

use std::collections::BTreeMap;

use bytes::Bytes;
use odradek_core::client::{OffsetReset, StartAt, TopicPartition};
use odradek_core::ids::{ConnectionId, Offset};
use odradek_core::wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use odradek_core::wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use odradek_core::wire::{ErrorCode, Records, ResponseBody};

use super::seen::{ReadRecord, Seen};
use super::session::Session;
use super::{Client, ClientContext};
use crate::batch;
use crate::clock::MILLISECOND;

/// The number of this reader.
pub const READER: u64 = u64::MAX;

/// Reads everything.
#[derive(Debug, Default)]
pub struct Verifier {
    session: Session,
    left: Vec<(String, i32)>,
    reading: Option<Reading>,
    started: bool,
    /// What was read of each partition, from which offset up to which, exclusive.
    pub read: BTreeMap<(String, i32), (i64, i64)>,
    /// Partitions and offsets that were refused because they are damaged.
    pub refused: Vec<(String, i64)>,
}

#[derive(Debug)]
struct Reading {
    topic: String,
    partition: i32,
    /// `None` until the broker has said where the log begins.
    from: Option<i64>,
    next: i64,
}

impl Verifier {
    fn ask(&mut self, cx: &mut ClientContext<'_>) {
        let Some(reading) = &self.reading else {
            match self.left.pop() {
                Some((topic, partition)) => {
                    self.reading = Some(Reading {
                        topic,
                        partition,
                        from: None,
                        next: 0,
                    });
                    self.ask(cx);
                }
                None => {
                    self.session.close(cx);
                }
            }
            return;
        };
        if reading.from.is_none() {
            let body = ListOffsetsRequest {
                replica_id: -1,
                topics: vec![ListOffsetsTopic {
                    name: reading.topic.as_str().into(),
                    partitions: vec![ListOffsetsPartition {
                        partition_index: reading.partition,
                        timestamp: -2,
                        ..Default::default()
                    }],
                    ..Default::default()
                }],
                ..Default::default()
            };
            self.session.request(cx, 5, body.into(), 0, true);
        } else {
            let body = FetchRequest {
                max_wait_ms: 0,
                min_bytes: 0,
                max_bytes: 1 << 20,
                topics: vec![FetchTopic {
                    topic: reading.topic.as_str().into(),
                    partitions: vec![FetchPartition {
                        partition: reading.partition,
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
    }

    /// Takes an answer; `false` if the same must be asked again.
    fn take(&mut self, cx: &mut ClientContext<'_>, body: ResponseBody) -> bool {
        let Some(reading) = &mut self.reading else {
            return true;
        };
        match body {
            ResponseBody::ListOffsets(response) => {
                let answer = response.topics.first().and_then(|t| t.partitions.first());
                let Some(answer) = answer.filter(|answer| !answer.error_code.is_error()) else {
                    return self.skip_damage(cx);
                };
                cx.saw.push(Seen::Goes {
                    reader: READER,
                    partition: TopicPartition::new(&reading.topic, reading.partition),
                    to: StartAt::Offset(Offset(answer.offset)),
                });
                reading.from = Some(answer.offset);
                reading.next = answer.offset;
            }
            ResponseBody::Fetch(response) => {
                let answer = response
                    .responses
                    .first()
                    .and_then(|t| t.partitions.first());
                if answer.is_some_and(|a| a.error_code == ErrorCode::OFFSET_OUT_OF_RANGE) {
                    // Retention was faster. What is left begins above what was read.
                    reading.from = None;
                    return true;
                }
                let Some(answer) = answer.filter(|answer| !answer.error_code.is_error()) else {
                    return self.skip_damage(cx);
                };
                let records = match &answer.records {
                    Some(Records::Bytes(bytes)) => bytes.clone(),
                    _ => Bytes::new(),
                };
                tell(cx, reading, &records);
                match batch::all(&records).last() {
                    Some(last) => reading.next = last.last_offset + 1,
                    None if answer.high_watermark > reading.next => cx.complaints.push(format!(
                        "{}-{}: nothing is read at {} below the high watermark {}",
                        reading.topic, reading.partition, reading.next, answer.high_watermark
                    )),
                    None => {}
                }
                if reading.next >= answer.high_watermark || records.is_empty() {
                    let from = reading.from.unwrap_or(0);
                    self.read.insert(
                        (reading.topic.clone(), reading.partition),
                        (from, reading.next),
                    );
                    self.reading = None;
                }
            }
            _ => {}
        }
        true
    }
}

impl Verifier {
    /// Goes on behind what is known to be damaged, if that is what was refused.
    fn skip_damage(&mut self, cx: &mut ClientContext<'_>) -> bool {
        let Some(reading) = &mut self.reading else {
            return true;
        };
        let directory = format!("{}-{}", reading.topic, reading.partition);
        let next = reading.next;
        let damaged = cx.catalog.unreadable.get(&directory);
        let mut damaged = damaged.into_iter().flatten();
        let Some((_, last)) = damaged.find(|(first, last)| (*first..=*last).contains(&next)) else {
            return false;
        };
        self.refused.push((directory, next));
        if *last == i64::MAX {
            self.reading = None;
            return true;
        }
        reading.next = last + 1;
        cx.saw.push(Seen::Goes {
            reader: READER,
            partition: TopicPartition::new(&reading.topic, reading.partition),
            to: StartAt::Offset(Offset(reading.next)),
        });
        true
    }
}

/// Tells the oracle of the records in an answer.
fn tell(cx: &mut ClientContext<'_>, reading: &Reading, answer: &Bytes) {
    let mut records = Vec::new();
    for batch in batch::all(answer) {
        // Its bytes were judged before they were sent; the core reads them.
        let Ok(opened) = batch::open_by_core(&answer.slice_ref(batch.bytes)) else {
            return cx.complaints.push(format!(
                "{}-{}: the batch at {} does not open",
                reading.topic, reading.partition, batch.base_offset
            ));
        };
        for record in opened.iter() {
            let Ok(record) = record else {
                return cx.complaints.push(format!(
                    "{}-{}: the batch at {} has a record that does not read",
                    reading.topic,
                    reading.partition,
                    opened.header().base_offset
                ));
            };
            if record.offset.0 < reading.next {
                continue;
            }
            let headers = || {
                record
                    .headers
                    .iter()
                    .map(|header| (header.key, header.value))
            };
            let read = ReadRecord::of(record.offset.0, record.key, record.value, headers);
            records.push(read);
        }
    }
    cx.saw.push(Seen::Read {
        reader: READER,
        partition: TopicPartition::new(&reading.topic, reading.partition),
        records,
    });
}

impl Client for Verifier {
    fn start(&mut self, cx: &mut ClientContext<'_>) {
        self.started = true;
        cx.saw.push(Seen::Reader {
            reader: READER,
            reset: OffsetReset::None,
        });
        self.left = cx
            .catalog
            .topics
            .iter()
            .flat_map(|(topic, partitions)| (0..*partitions).map(|p| (topic.clone(), p)))
            .collect();
        self.ask(cx);
    }

    fn timer(&mut self, _: u64, cx: &mut ClientContext<'_>) {
        if self.session.in_flight() == 0 && self.reading.is_some() {
            self.ask(cx);
        }
    }

    fn bytes(&mut self, connection: ConnectionId, bytes: Bytes, cx: &mut ClientContext<'_>) {
        for answer in self.session.receive(cx, connection, &bytes) {
            if self.take(cx, answer.body) {
                self.ask(cx);
            } else {
                cx.after(20 * MILLISECOND, 0);
            }
        }
    }

    fn closed(&mut self, connection: ConnectionId, cx: &mut ClientContext<'_>) {
        self.session.lost(connection);
        cx.after(20 * MILLISECOND, 0);
    }

    fn finish(&mut self, _: &mut ClientContext<'_>) {}

    fn is_idle(&self) -> bool {
        self.started
            && self.reading.is_none()
            && self.left.is_empty()
            && self.session.in_flight() == 0
    }
}
