//! An idempotent producer that speaks raw frames: up to five batches of a partition in flight, which
//! it sends again in order whenever their outcome is unknown. It also does what no good client does:
//! sends again what was acknowledged, leaves out sequence numbers, and comes back with an old epoch.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use odradek_core::ids::ConnectionId;
use odradek_core::record::builder::{BatchBuilder, BatchFields, ProducerFields};
use odradek_core::wire::messages::InitProducerIdRequest;
use odradek_core::wire::messages::produce::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use odradek_core::wire::{ApiKey, ErrorCode, Records, ResponseBody};

use super::seen::Seen;
use super::session::Session;
use super::{Client, ClientContext};
use crate::swarm::WorkloadMix;

/// Batches of a partition in flight, and batches that are kept to be sent once more.
const MOST: usize = 5;

/// After so many tries a batch is given up, and a new epoch begun.
const MOST_ATTEMPTS: u32 = 8;

/// Produces with sequence numbers.
#[derive(Debug)]
pub struct Idempotent {
    mix: WorkloadMix,
    session: Session,
    identity: Option<(i64, i16)>,
    lanes: BTreeMap<(String, i32), Lane>,
    sent: BTreeMap<u64, Sent>,
    last_tag: u64,
    last_record: u64,
    /// Rises with every new identity or epoch: answers to older ones say nothing.
    generation: u64,
    finishing: bool,
    timer_is_set: bool,
}

/// One partition.
#[derive(Debug, Default)]
struct Lane {
    next_sequence: i32,
    /// Not acknowledged, oldest first.
    waiting: VecDeque<Batch>,
    in_flight: usize,
    resend: bool,
    attempts: u32,
    /// Acknowledged in this epoch, oldest first.
    acked: VecDeque<Batch>,
}

#[derive(Clone, Debug)]
struct Batch {
    sequence: i32,
    bytes: Bytes,
}

#[derive(Clone, Debug)]
enum Sent {
    Init,
    Batch {
        lane: (String, i32),
        sequence: i32,
        generation: u64,
    },
    /// A retry of something acknowledged, a gap, an old epoch: the oracle knows what to expect.
    Odd,
}

impl Idempotent {
    /// A producer of this mix.
    #[must_use]
    pub fn new(mix: &WorkloadMix) -> Self {
        Self {
            mix: mix.clone(),
            session: Session::default(),
            identity: None,
            lanes: BTreeMap::new(),
            sent: BTreeMap::new(),
            last_tag: 0,
            last_record: 0,
            generation: 0,
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

    fn tag(&mut self, sent: Sent) -> u64 {
        self.last_tag += 1;
        self.sent.insert(self.last_tag, sent);
        self.last_tag
    }

    fn init(&mut self, cx: &mut ClientContext<'_>) {
        if self.sent.values().any(|sent| matches!(sent, Sent::Init)) {
            return;
        }
        let version = Session::version(cx, ApiKey::InitProducerId);
        let body = InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: 60_000,
            ..Default::default()
        };
        let tag = self.tag(Sent::Init);
        self.session.request(cx, version, body.into(), tag, true);
    }

    /// Everything not acknowledged is given up; sequence numbers begin anew.
    fn new_generation(&mut self, identity: Option<(i64, i16)>) {
        self.identity = identity;
        self.generation += 1;
        self.lanes.clear();
    }

    /// A new epoch, as a client does that cannot go on in the old one.
    fn bump(&mut self) {
        let next = self
            .identity
            .and_then(|(id, epoch)| Some((id, epoch.checked_add(1)?)));
        self.new_generation(next);
    }

    fn new_batch(&mut self, cx: &mut ClientContext<'_>, epoch: i16, sequence: i32) -> Batch {
        let count = cx.between(1, self.mix.max_records.min(4));
        let mut builder = BatchBuilder::new(usize::MAX);
        for _ in 0..count {
            self.last_record += 1;
            let mut value = vec![0; 16];
            value[..8].copy_from_slice(&(cx.client as u64).to_be_bytes());
            value[8..].copy_from_slice(&self.last_record.to_be_bytes());
            let filler = cx.between(0, self.mix.max_value_bytes) as usize;
            value.resize(16 + filler, self.last_record as u8);
            let fits = builder.append(cx.now.wall.0, Some(b"key"), Some(&value), &[]);
            assert!(fits, "the batch has no limit");
        }
        cx.saw.push(Seen::Raw {
            producer: cx.client as u64,
            up_to: self.last_record,
        });
        let producer = self.identity.map(|(producer_id, _)| ProducerFields {
            producer_id,
            producer_epoch: epoch,
            base_sequence: sequence,
        });
        let bytes = builder.build(BatchFields {
            producer,
            ..BatchFields::default()
        });
        Batch { sequence, bytes }
    }

    fn send(&mut self, cx: &mut ClientContext<'_>, lane: &(String, i32), bytes: Bytes, sent: Sent) {
        let version = cx.between(9, 12) as i16;
        let body = ProduceRequest {
            acks: cx.pick(&[-1, -1, 1]),
            timeout_ms: cx.pick(&[30_000, 30_000, 30_000, 100]),
            topic_data: vec![TopicProduceData {
                name: lane.0.as_str().into(),
                partition_data: vec![PartitionProduceData {
                    index: lane.1,
                    records: Some(Records::Bytes(bytes)),
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let tag = self.tag(sent);
        self.session.request(cx, version, body.into(), tag, true);
    }

    fn send_batch(&mut self, cx: &mut ClientContext<'_>, lane: &(String, i32), batch: &Batch) {
        let sent = Sent::Batch {
            lane: lane.clone(),
            sequence: batch.sequence,
            generation: self.generation,
        };
        self.send(cx, lane, batch.bytes.clone(), sent);
    }

    fn produce(&mut self, cx: &mut ClientContext<'_>, key: &(String, i32), epoch: i16) {
        if !self.lanes.contains_key(key) {
            // An unknown producer may begin anywhere: just below the end of the numbers too.
            let near_end = epoch == 0 && cx.chance(300_000);
            let next_sequence = if near_end {
                i32::MAX - cx.between(0, 6) as i32
            } else {
                0
            };
            let lane = Lane {
                next_sequence,
                ..Lane::default()
            };
            self.lanes.insert(key.clone(), lane);
        }
        let lane = &self.lanes[key];
        let first = lane.acked.is_empty() && !lane.waiting.is_empty();
        // The first batch goes alone: while none is known, the broker takes any.
        if lane.waiting.len() >= MOST || lane.resend || first {
            return;
        }
        let batch = self.new_batch(cx, epoch, lane.next_sequence);
        let count = i64::from(last_offset_delta(&batch.bytes)) + 1;
        let lane = self.lanes.get_mut(key).expect("it was just seen");
        lane.next_sequence = ((i64::from(batch.sequence) + count) % (1 << 31)) as i32;
        lane.waiting.push_back(batch.clone());
        lane.in_flight += 1;
        self.send_batch(cx, key, &batch);
    }

    /// Sends again what waits, in order, once nothing of it is in flight.
    fn resend(&mut self, cx: &mut ClientContext<'_>) {
        let due = |lane: &Lane| lane.resend && lane.in_flight == 0;
        let Some(key) = self
            .lanes
            .iter()
            .find(|(_, lane)| due(lane))
            .map(|(key, _)| key.clone())
        else {
            return;
        };
        let lane = self.lanes.get_mut(&key).expect("it was just seen");
        lane.resend = false;
        lane.attempts += 1;
        if lane.attempts > MOST_ATTEMPTS {
            return self.bump();
        }
        let again: Vec<Batch> = lane.waiting.iter().cloned().collect();
        lane.in_flight = again.len();
        for batch in &again {
            self.send_batch(cx, &key, batch);
        }
    }

    /// Does something odd in a partition where the broker knows this producer.
    fn be_odd(&mut self, cx: &mut ClientContext<'_>, key: &(String, i32), epoch: i16) {
        let Some(lane) = self.lanes.get(key).filter(|lane| !lane.acked.is_empty()) else {
            return;
        };
        let next = lane.next_sequence;
        let bytes = match cx.between(0, 3) {
            0 | 1 => {
                let at = cx.between(0, lane.acked.len() as u64 - 1) as usize;
                lane.acked[at].bytes.clone()
            }
            2 => {
                // So far away that no batch of this run ever gets there: one that is late must not
                // find its turn come.
                let gap = cx.between(1_000_000, 1_000_009);
                let sequence = ((i64::from(next) + gap as i64) % (1 << 31)) as i32;
                self.new_batch(cx, epoch, sequence).bytes
            }
            _ if epoch > 0 => self.new_batch(cx, epoch - 1, 0).bytes,
            _ => return,
        };
        self.send(cx, key, bytes, Sent::Odd);
    }

    fn answered(&mut self, key: &(String, i32), sequence: i32, error: ErrorCode) {
        let Some(lane) = self.lanes.get_mut(key) else {
            return;
        };
        lane.in_flight = lane.in_flight.saturating_sub(1);
        let place = lane
            .waiting
            .iter()
            .position(|batch| batch.sequence == sequence);
        match error {
            ErrorCode::NONE => {
                let batch = place.and_then(|at| lane.waiting.remove(at));
                lane.attempts = 0;
                lane.acked.extend(batch);
                if lane.acked.len() > MOST {
                    lane.acked.pop_front();
                }
            }
            // What comes behind a batch that failed is out of order, and goes again with it. If
            // nothing is before it, the broker does not know what it acknowledged.
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER if place == Some(0) && !lane.resend => {
                self.bump();
            }
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER => lane.resend = true,
            error if error.is_retriable() || error == ErrorCode::REQUEST_TIMED_OUT => {
                lane.resend = true;
            }
            _ => self.bump(),
        }
    }

    fn lost(&mut self, tags: Vec<u64>) {
        for tag in tags {
            if let Some(Sent::Batch {
                lane, generation, ..
            }) = self.sent.remove(&tag)
                && generation == self.generation
                && let Some(lane) = self.lanes.get_mut(&lane)
            {
                lane.in_flight = lane.in_flight.saturating_sub(1);
                lane.resend = true;
            }
        }
    }
}

impl Client for Idempotent {
    fn start(&mut self, cx: &mut ClientContext<'_>) {
        self.schedule(cx);
    }

    fn timer(&mut self, _: u64, cx: &mut ClientContext<'_>) {
        self.timer_is_set = false;
        match self.identity {
            None if !self.finishing => self.init(cx),
            Some((_, epoch)) if !self.finishing => {
                let key = cx.pick_partition();
                match cx.between(0, 99) {
                    0 => self.new_generation(None),
                    1 | 2 => self.bump(),
                    3 => {
                        let tags = self.session.vanish(cx);
                        self.lost(tags);
                    }
                    4..=24 => self.be_odd(cx, &key, epoch),
                    _ => self.produce(cx, &key, epoch),
                }
            }
            _ => {}
        }
        self.resend(cx);
        if !self.finishing || !self.is_idle() {
            self.schedule(cx);
        }
    }

    fn bytes(&mut self, connection: ConnectionId, bytes: Bytes, cx: &mut ClientContext<'_>) {
        for answer in self.session.receive(cx, connection, &bytes) {
            match (self.sent.remove(&answer.tag), answer.body) {
                (Some(Sent::Init), ResponseBody::InitProducerId(response))
                    if !response.error_code.is_error() =>
                {
                    self.new_generation(Some((response.producer_id, response.producer_epoch)));
                }
                (
                    Some(Sent::Batch {
                        lane,
                        sequence,
                        generation,
                    }),
                    ResponseBody::Produce(response),
                ) => {
                    let results = response.responses.iter();
                    let result = results.flat_map(|topic| &topic.partition_responses).next();
                    match result {
                        Some(result) if generation == self.generation => {
                            self.answered(&lane, sequence, result.error_code);
                        }
                        Some(_) => {}
                        None => cx
                            .complaints
                            .push("a produce was answered for no partition".to_owned()),
                    }
                }
                _ => {}
            }
        }
    }

    fn closed(&mut self, connection: ConnectionId, _: &mut ClientContext<'_>) {
        let tags = self.session.lost(connection);
        self.lost(tags);
    }

    fn finish(&mut self, cx: &mut ClientContext<'_>) {
        self.finishing = true;
        self.schedule(cx);
    }

    fn is_idle(&self) -> bool {
        self.session.in_flight() == 0 && self.lanes.values().all(|lane| lane.waiting.is_empty())
    }
}

fn last_offset_delta(batch: &[u8]) -> i32 {
    odradek_core::record::batch::raw::last_offset_delta(batch).unwrap_or_default()
}
