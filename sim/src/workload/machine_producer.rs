//! A producer that is the core's client: it batches, compresses, retries and gives up by itself.

use std::collections::BTreeMap;

use bytes::Bytes;
use odradek_core::bugs::Bugs;
use odradek_core::client::{
    Acks, ClientConfig, ClientEvent, Command, CommandId, Outcome, ProducerRecord, TopicName,
};
use odradek_core::ids::ConnectionId;
use odradek_core::record::Compression;
use odradek_core::time::Mono;

use super::machine::{Machine, bootstrap, broken, is_inexcusable};
use super::seen::{Id, Seen, borrowed, content, signature};
use super::{Client, ClientContext};
use crate::choices::{Dice, Odds, Subsystem};
use crate::clock::MILLISECOND;
use crate::oracle::Mark;
use crate::swarm::WorkloadMix;

/// Hands in records that are all different, and holds each to its outcome.
#[derive(Debug)]
pub struct MachineProducer {
    mix: WorkloadMix,
    bugs: Bugs,
    config: Option<ClientConfig>,
    machine: Option<Machine>,
    life: u64,
    last_number: u64,
    open: BTreeMap<CommandId, Open>,
    /// Flushes that are not over, and the last record before each.
    flushes: BTreeMap<CommandId, u64>,
    /// A topic that only its first record brings about.
    own_topic: Option<TopicName>,
    is_finishing: bool,
    is_closed: bool,
}

/// A record without an outcome.
#[derive(Debug)]
struct Open {
    number: u64,
    topic: TopicName,
    since: Mono,
    /// A connection was lost with a Produce in flight since it was handed in.
    was_lost: bool,
}

/// The tag of the timer for the next records.
const ACT: u64 = 0;

/// How late a deadline may be noticed, in nanoseconds.
const SLACK_NS: u64 = 20 * MILLISECOND;

impl MachineProducer {
    /// A producer of this mix.
    #[must_use]
    pub fn new(mix: &WorkloadMix, bugs: Bugs) -> Self {
        Self {
            mix: mix.clone(),
            bugs,
            config: None,
            machine: None,
            life: 0,
            last_number: 0,
            open: BTreeMap::new(),
            flushes: BTreeMap::new(),
            own_topic: None,
            is_finishing: false,
            is_closed: false,
        }
    }

    const fn id(&self, client: usize, number: u64) -> Id {
        Id {
            producer: client as u64 | self.life << 16,
            number,
        }
    }

    fn configure(&mut self, cx: &mut ClientContext<'_>) -> ClientConfig {
        let mut config = ClientConfig::new(bootstrap());
        config.client_id = format!("machine-{}", cx.client);
        config.request_timeout_ms = cx.pick(&[300, 3_000, 30_000]);
        config.retry_backoff_ms = cx.pick(&[5, 100]);
        config.reconnect_backoff_ms = cx.pick(&[5, 50]);
        config.connections_max_idle_ms = cx.pick(&[300, 540_000, 540_000]);
        config.metadata_max_age_ms = cx.pick(&[700, 300_000, 300_000]);
        config.allow_auto_create_topics = self.own_topic.is_some();
        let producer = &mut config.producer;
        producer.acks = match cx.pick(&self.mix.acks) {
            0 => Acks::None,
            1 => Acks::Leader,
            _ => Acks::All,
        };
        producer.batch_size = cx.pick(&[100, 600, 4_000, 16 << 10]);
        producer.linger_ms = cx.pick(&[0, 5, 60]);
        producer.compression = cx.pick(&Compression::ALL);
        producer.buffer_memory = cx.pick(&[8_000, 32 << 20, 32 << 20]);
        producer.max_block_ms = cx.pick(&[150, 60_000]);
        producer.delivery_timeout_ms = cx.pick(&[250, 2_000, 30_000]);
        producer.retries = cx.pick(&[u32::MAX, u32::MAX, 0, 2]);
        producer.max_request_size = cx.pick(&[1_500, 1 << 20, 1 << 20]);
        producer.max_in_flight_requests_per_connection = self.mix.max_in_flight;
        producer.max_in_flight_batches_per_partition = cx.pick(&[1, 1, 1, 5]);
        producer.enable_idempotence = cx.chance(500_000);
        config
    }

    /// A process of the client starts.
    fn begin(&mut self, cx: &mut ClientContext<'_>) {
        self.life += 1;
        let config = self.configure(cx);
        let producer = self.id(cx.client, 0).producer;
        // As the client itself sees it, by Kafka's rules.
        let idempotent = config.producer.enable_idempotence
            && config.producer.acks == Acks::All
            && config.producer.retries > 0;
        let one_at_a_time = config.producer.max_in_flight_batches_per_partition == 1;
        // Without acks nobody learns that a record must be sent again before the next one.
        let ordered = idempotent || (one_at_a_time && config.producer.acks != Acks::None);
        cx.saw.push(Seen::Producer {
            producer,
            ordered,
            idempotent,
        });
        self.machine = Some(Machine::new(cx, &config, self.bugs));
        self.config = Some(config);
        self.last_number = 0;
    }

    /// And ends without a word to anybody.
    fn die(&mut self, cx: &mut ClientContext<'_>) {
        if let Some(machine) = self.machine.take() {
            machine.die(cx);
        }
        if !self.open.is_empty() {
            cx.saw.push(Seen::Mark(Mark::ProducerDied));
        }
        let producer = self.id(cx.client, 0).producer;
        cx.saw.push(Seen::Abandoned { producer });
        self.open.clear();
        self.flushes.clear();
    }

    fn act(&mut self, cx: &mut ClientContext<'_>) {
        if self.is_finishing {
            return;
        }
        let topics_are_there = cx
            .catalog
            .topics
            .iter()
            .all(|(name, _)| cx.catalog.ids.contains_key(name));
        if self.own_topic.is_some() && !topics_are_there {
            // Asking for a topic would make it, and not as it should be.
            cx.after(30 * MILLISECOND, ACT);
            return;
        }
        if self.machine.is_none() {
            self.begin(cx);
        } else if cx.chance(2_000) {
            self.die(cx);
            self.begin(cx);
        }
        let burst = cx.pick(&[1, 1, 1, 1, 2, 5, 9, 25]);
        let mut dice = cx.choices.dice(Subsystem::Payload, cx.client as u64);
        for _ in 0..burst {
            let record = self.record(cx, &mut dice);
            let Some(machine) = &mut self.machine else {
                return;
            };
            // Asked first, as it should be; or not, and then it fails.
            if !machine.client.takes(&record) && !dice.chance(Odds(100_000)) {
                break;
            }
            self.last_number += 1;
            let number = self.last_number;
            let id = self.id(cx.client, number);
            cx.saw.push(Seen::Sent {
                id,
                topic: record.topic.clone(),
                partition: record.partition,
                content: content(
                    record.key.as_deref(),
                    record.value.as_deref(),
                    borrowed(&record.headers),
                ),
            });
            let Some(machine) = &mut self.machine else {
                return;
            };
            let topic = record.topic.clone();
            let command = machine.command(cx, Command::Produce(record));
            let open = Open {
                number,
                topic,
                since: cx.now.mono,
                was_lost: false,
            };
            self.open.insert(command, open);
            self.listen(cx);
        }
        if cx.chance(30_000)
            && let Some(machine) = &mut self.machine
        {
            let command = machine.command(cx, Command::Flush);
            self.flushes.insert(command, self.last_number);
            self.listen(cx);
        }
        // A burst is more than one send of a producer of raw frames.
        let pause = cx.pause(2 * self.mix.pause_ns);
        cx.after(pause, ACT);
    }

    /// The next record: the one after the last that was handed in.
    fn record(&self, cx: &mut ClientContext<'_>, dice: &mut Dice) -> ProducerRecord {
        let number = self.last_number + 1;
        let signature = Bytes::copy_from_slice(&signature(self.id(cx.client, number)));
        let (topic, partition) = match &self.own_topic {
            Some(topic) if dice.chance(Odds(200_000)) => (topic.clone(), None),
            _ => {
                let (topic, partition) = cx.pick_partition();
                let partition = dice.chance(Odds(500_000)).then_some(partition);
                (TopicName::from(topic), partition)
            }
        };
        let small = |dice: &mut Dice| Bytes::from(vec![number as u8; dice.below(5) as usize]);
        let mut record = ProducerRecord {
            topic,
            partition,
            timestamp: dice
                .chance(Odds(300_000))
                .then(|| cx.now.wall.0 - dice.below(1_000) as i64),
            key: dice.chance(Odds(400_000)).then(|| small(dice)),
            value: None,
            headers: Vec::new(),
        };
        if dice.chance(Odds(150_000)) {
            record.headers = (0..=dice.below(3))
                .map(|_| {
                    let value = dice.chance(Odds(700_000)).then(|| small(dice));
                    (small(dice), value)
                })
                .collect();
        }
        // Where it says which it is.
        match dice.below(10) {
            0 => {
                record.key = Some(signature);
                record.value = dice.chance(Odds(500_000)).then(|| small(dice));
            }
            1 => {
                record.value = dice.chance(Odds(500_000)).then(|| small(dice));
                record.headers.push((small(dice), Some(signature)));
            }
            _ => {
                let mut value = signature.to_vec();
                let filler = dice.between(0, self.mix.max_value_bytes) as usize;
                value.resize(16 + filler, number as u8);
                record.value = Some(value.into());
            }
        }
        record
    }

    fn listen(&mut self, cx: &mut ClientContext<'_>) {
        let Some(machine) = &mut self.machine else {
            return;
        };
        for event in machine.take_events() {
            match event {
                ClientEvent::Delivery { id, outcome } => self.delivered(cx, id, outcome),
                ClientEvent::Flushed { id } => match self.flushes.remove(&id) {
                    Some(up_to) if self.open.values().any(|open| open.number <= up_to) => {
                        broken(cx, format!("{id}: flushed, and not all have an outcome"));
                    }
                    Some(_) => {}
                    None => broken(cx, format!("{id}: flushed, and nobody asked")),
                },
                ClientEvent::Closed { .. } => {
                    self.is_closed = true;
                    if !self.open.is_empty() || !self.flushes.is_empty() {
                        let open = self.open.len();
                        broken(cx, format!("closed, and {open} records have no outcome"));
                    }
                }
                event => broken(cx, format!("nobody asked for this: {event}")),
            }
        }
    }

    fn delivered(&mut self, cx: &mut ClientContext<'_>, command: CommandId, outcome: Outcome) {
        let Some(open) = self.open.remove(&command) else {
            return broken(cx, format!("{command}: an outcome that nobody waits for"));
        };
        let timeout_ms = self
            .config
            .as_ref()
            .map_or(0, |config| config.producer.delivery_timeout_ms);
        let took_ns = cx.now.mono.0 - open.since.0;
        if took_ns > u64::from(timeout_ms) * MILLISECOND + SLACK_NS {
            broken(
                cx,
                format!("{command}: {outcome} after {took_ns} ns, and {timeout_ms} ms are allowed"),
            );
        }
        if let Outcome::Ok { partition, .. } = &outcome
            && self.own_topic.as_ref() == Some(&open.topic)
        {
            // Everybody may use it now.
            let topics = &mut cx.catalog.topics;
            match topics.iter_mut().find(|(name, _)| *name == *open.topic) {
                Some((_, partitions)) => *partitions = (*partitions).max(partition + 1),
                None => topics.push((open.topic.to_string(), partition + 1)),
            }
        }
        match &outcome {
            Outcome::Ok { .. } if open.was_lost => {
                cx.saw.push(Seen::Mark(Mark::LostAndDelivered));
            }
            Outcome::Ok { .. } => {}
            Outcome::Failed(error) | Outcome::Unknown(error) => {
                if is_inexcusable(error) {
                    broken(cx, format!("{command}: {outcome}"));
                }
                cx.saw.push(Seen::Mark(match outcome {
                    Outcome::Failed(_) => Mark::OutcomeFailed,
                    _ => Mark::OutcomeUnknown,
                }));
            }
        }
        let id = self.id(cx.client, open.number);
        cx.saw.push(Seen::Outcome { id, outcome });
    }
}

impl Client for MachineProducer {
    fn start(&mut self, cx: &mut ClientContext<'_>) {
        if cx.chance(200_000) {
            self.own_topic = Some(TopicName::from(format!("own{}", cx.client)));
        }
        let pause = cx.pause(10 * MILLISECOND);
        cx.after(pause, ACT);
    }

    fn timer(&mut self, tag: u64, cx: &mut ClientContext<'_>) {
        if let Some(machine) = &mut self.machine
            && machine.timer(cx, tag)
        {
            return self.listen(cx);
        }
        if tag == ACT {
            self.act(cx);
        }
    }

    fn bytes(&mut self, connection: ConnectionId, bytes: Bytes, cx: &mut ClientContext<'_>) {
        if let Some(machine) = &mut self.machine {
            machine.bytes(cx, connection, &bytes);
            self.listen(cx);
        }
    }

    fn closed(&mut self, connection: ConnectionId, cx: &mut ClientContext<'_>) {
        if let Some(machine) = &mut self.machine {
            if machine.closed(cx, connection) {
                for open in self.open.values_mut() {
                    open.was_lost = true;
                }
            }
            self.listen(cx);
        }
    }

    fn finish(&mut self, cx: &mut ClientContext<'_>) {
        self.is_finishing = true;
        // Mostly longer than any record may take.
        let timeout_ms = cx.pick(&[0, 40, 100_000, 100_000, 100_000]);
        match &mut self.machine {
            Some(machine) => {
                machine.command(cx, Command::Close { timeout_ms });
                self.listen(cx);
            }
            None => self.is_closed = true,
        }
    }

    fn is_idle(&self) -> bool {
        self.is_closed
    }
}
