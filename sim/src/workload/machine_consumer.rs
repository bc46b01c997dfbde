//! A consumer that is the core's client: it looks positions up, fetches ahead, and goes on by its
//! policy where a position no longer exists.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use odradek_core::bugs::Bugs;
use odradek_core::client::{
    ClientConfig, ClientError, ClientEvent, Command, CommandId, OffsetReset, OffsetSpec, Polled,
    StartAt, TopicPartition,
};
use odradek_core::ids::{ConnectionId, Offset};

use super::machine::{bootstrap, broken, is_inexcusable};
use super::machine_reader::{Reader, as_read};
use super::seen::{ReadRecord, Seen};
use super::{Client, ClientContext};
use crate::clock::MILLISECOND;
use crate::oracle::Mark;
use crate::swarm::WorkloadMix;

/// Reads partitions that it assigns itself.
#[derive(Debug)]
pub struct MachineConsumer {
    max_wait_ms: u64,
    reader: Reader,
    assigned: Vec<TopicPartition>,
    paused: BTreeSet<TopicPartition>,
    poll: Option<(CommandId, usize)>,
    stage: Stage,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    Working,
    /// Asks where the partitions end.
    Asking(Option<CommandId>),
    /// Reads up to these ends.
    ReadingUpTo(BTreeMap<TopicPartition, Offset>),
    Closed,
}

/// The tag of the timer for the next poll.
const ACT: u64 = 0;
/// The tag of the timer for another look-up of the ends.
const ASK: u64 = 1;

impl MachineConsumer {
    /// A consumer of this mix.
    #[must_use]
    pub fn new(mix: &WorkloadMix, bugs: Bugs) -> Self {
        Self {
            max_wait_ms: mix.max_wait_ms,
            reader: Reader::new(bugs),
            assigned: Vec::new(),
            paused: BTreeSet::new(),
            poll: None,
            stage: Stage::Working,
        }
    }

    fn configure(&self, cx: &mut ClientContext<'_>) -> ClientConfig {
        let mut config = ClientConfig::new(bootstrap());
        config.client_id = format!("machine-{}", cx.client);
        config.request_timeout_ms = cx.pick(&[300, 3_000, 30_000]);
        config.retry_backoff_ms = cx.pick(&[5, 100]);
        config.reconnect_backoff_ms = cx.pick(&[5, 50]);
        config.connections_max_idle_ms = cx.pick(&[300, 540_000, 540_000]);
        config.metadata_max_age_ms = cx.pick(&[700, 300_000, 300_000]);
        config.allow_auto_create_topics = false;
        let consumer = &mut config.consumer;
        consumer.auto_offset_reset = cx.pick(&[
            OffsetReset::Earliest,
            OffsetReset::Earliest,
            OffsetReset::Latest,
            OffsetReset::None,
        ]);
        // Without any wait a reader at the end would ask without end.
        consumer.fetch_max_wait_ms = (self.max_wait_ms as u32).max(20);
        consumer.fetch_max_bytes = cx.pick(&[400, 3_000, 1 << 20]);
        consumer.max_partition_fetch_bytes = cx.pick(&[600, 2_000, 1 << 20]);
        consumer.prefetch_max_bytes = cx.pick(&[300, 5_000, 1 << 20]);
        // A broker waits for what can never come if the answer has no room for it.
        let room = consumer
            .fetch_max_bytes
            .min(consumer.max_partition_fetch_bytes)
            .min(consumer.prefetch_max_bytes as u32);
        consumer.fetch_min_bytes = cx.pick(&[1, 1, 1, room.min(2_000)]);
        consumer.enable_partition_eof = cx.chance(700_000);
        config
    }

    /// A process of the client starts.
    fn begin(&mut self, cx: &mut ClientContext<'_>) {
        let config = self.configure(cx);
        self.reader.begin(cx, &config);
        self.assign(cx);
    }

    fn assign(&mut self, cx: &mut ClientContext<'_>) {
        let reader = self.reader.id(cx.client);
        cx.saw.push(Seen::Leaves { reader });
        self.paused.clear();
        self.assigned.clear();
        let mut partitions = Vec::new();
        for _ in 0..cx.pick(&[1, 2, 4]) {
            let (topic, partition) = cx.pick_partition();
            let partition = TopicPartition::new(&topic, partition);
            if self.assigned.contains(&partition) {
                continue;
            }
            let to = Self::somewhere(cx, &partition);
            self.assigned.push(partition.clone());
            cx.saw.push(Seen::Goes {
                reader,
                partition: partition.clone(),
                to,
            });
            partitions.push((partition, to));
        }
        self.reader.command(cx, Command::Assign(partitions));
    }

    fn somewhere(cx: &mut ClientContext<'_>, partition: &TopicPartition) -> StartAt {
        let known = cx
            .catalog
            .high_watermarks
            .get(&(partition.topic.to_string(), partition.partition))
            .copied()
            .unwrap_or(0);
        match cx.between(0, 9) {
            0..=4 => StartAt::Spec(OffsetSpec::Earliest),
            5 => StartAt::Spec(OffsetSpec::Latest),
            6 => {
                let ago_ms = cx.between(0, 3_000) as i64;
                StartAt::Spec(OffsetSpec::Timestamp(cx.now.wall.0 - ago_ms))
            }
            7 => StartAt::Spec(OffsetSpec::MaxTimestamp),
            // Beyond the end now and then.
            _ => StartAt::Offset(Offset(cx.between(0, known as u64 + 2) as i64)),
        }
    }

    fn seek(&mut self, cx: &mut ClientContext<'_>, partition: TopicPartition, to: StartAt) {
        cx.saw.push(Seen::Goes {
            reader: self.reader.id(cx.client),
            partition: partition.clone(),
            to,
        });
        self.reader.command(cx, Command::Seek { partition, to });
    }

    fn act(&mut self, cx: &mut ClientContext<'_>) {
        if self.stage == Stage::Closed || self.poll.is_some() {
            return;
        }
        if self.stage == Stage::Working {
            if self.reader.machine.is_none() {
                self.begin(cx);
            } else {
                self.change_something(cx);
            }
        }
        // Once everything is to be read, nobody dawdles.
        let max_records = match self.stage {
            Stage::Working => cx.pick(&[1, 7, 500, 500]),
            _ => 500,
        };
        let command = Command::Poll {
            max_records,
            max_bytes: match self.stage {
                Stage::Working => cx.pick(&[1, 1_000, 1 << 20, 1 << 20]),
                _ => 1 << 20,
            },
            max_wait_ms: cx.pick(&[0, 100, 500]),
        };
        let id = self.reader.command(cx, command);
        self.poll = Some((id, max_records));
        self.listen(cx);
    }

    fn change_something(&mut self, cx: &mut ClientContext<'_>) {
        if !cx.chance(40_000) {
            return;
        }
        match cx.between(0, 9) {
            0 => {
                self.reader.die(cx);
                self.begin(cx);
            }
            1 => self.assign(cx),
            2..=4 => {
                if let Some(partition) = self.any_assigned(cx) {
                    self.paused.insert(partition.clone());
                    self.reader.command(cx, Command::Pause(vec![partition]));
                }
            }
            5 | 6 => self.resume(cx),
            _ => {
                if let Some(partition) = self.any_assigned(cx) {
                    let to = Self::somewhere(cx, &partition);
                    self.seek(cx, partition, to);
                }
            }
        }
    }

    fn any_assigned(&self, cx: &mut ClientContext<'_>) -> Option<TopicPartition> {
        let last = self.assigned.len().checked_sub(1)?;
        let index = cx.between(0, last as u64) as usize;
        self.assigned.get(index).cloned()
    }

    fn resume(&mut self, cx: &mut ClientContext<'_>) {
        let paused: Vec<TopicPartition> = std::mem::take(&mut self.paused).into_iter().collect();
        self.reader.command(cx, Command::Resume(paused));
    }

    fn listen(&mut self, cx: &mut ClientContext<'_>) {
        let Some(events) = self.reader.take_events() else {
            return;
        };
        for event in events {
            match event {
                ClientEvent::Polled { id, items } => self.polled(cx, id, items),
                ClientEvent::Offsets { id, offsets } if self.stage == Stage::Asking(Some(id)) => {
                    let ends: Option<BTreeMap<_, _>> = offsets
                        .into_iter()
                        .map(|(partition, found)| Some((partition, found.ok()?.offset?)))
                        .collect();
                    if let Some(ends) = ends {
                        self.stage = Stage::ReadingUpTo(ends);
                    } else {
                        self.stage = Stage::Asking(None);
                        cx.after(100 * MILLISECOND, ASK);
                    }
                }
                ClientEvent::Closed { .. } => self.stage = Stage::Closed,
                event => broken(cx, format!("nobody asked for this: {event}")),
            }
        }
        self.close_at_the_ends(cx);
    }

    fn polled(&mut self, cx: &mut ClientContext<'_>, id: CommandId, items: Vec<Polled>) {
        let Some((_, max_records)) = self.poll.take_if(|(poll, _)| *poll == id) else {
            // One of an assignment before.
            return;
        };
        let reader = self.reader.id(cx.client);
        let mut records = 0;
        let mut run: Option<(TopicPartition, Vec<ReadRecord>)> = None;
        let tell = |cx: &mut ClientContext<'_>, run: Option<(TopicPartition, Vec<ReadRecord>)>| {
            if let Some((partition, records)) = run {
                cx.saw.push(Seen::Read {
                    reader,
                    partition,
                    records,
                });
            }
        };
        let mut lost = Vec::new();
        for item in items {
            match item {
                Polled::Record(record) => {
                    records += 1;
                    let same = run.as_ref().is_some_and(|(partition, _)| {
                        (&partition.topic, partition.partition) == (&record.topic, record.partition)
                    });
                    if !same {
                        tell(cx, run.take());
                        let partition = TopicPartition {
                            topic: record.topic.clone(),
                            partition: record.partition,
                        };
                        if self.paused.contains(&partition) || !self.assigned.contains(&partition) {
                            broken(cx, format!("a record of {partition}, which is not wanted"));
                        }
                        run = Some((partition, Vec::new()));
                    }
                    if let Some((_, records)) = &mut run {
                        records.push(as_read(&record));
                    }
                }
                Polled::EndOfPartition { partition, offset } => {
                    tell(cx, run.take());
                    cx.saw.push(Seen::End {
                        reader,
                        partition,
                        offset: offset.0,
                    });
                }
                Polled::Error { partition, error } => {
                    tell(cx, run.take());
                    if is_inexcusable(&error) {
                        broken(cx, format!("{partition}: {error}"));
                    }
                    if matches!(error, ClientError::OffsetOutOfRange { .. }) {
                        lost.push(partition);
                    }
                }
                other => broken(cx, format!("nobody subscribed: {other}")),
            }
        }
        tell(cx, run);
        if records > max_records {
            broken(
                cx,
                format!("{records} records, and {max_records} are wanted"),
            );
        }
        for partition in lost {
            cx.saw.push(Seen::Mark(Mark::PositionLost));
            self.seek(cx, partition, StartAt::Spec(OffsetSpec::Earliest));
        }
        let pause = if records == 0 { 20 } else { 3 };
        let pause = cx.pause(pause * MILLISECOND);
        cx.after(pause, ACT);
    }

    fn ask(&mut self, cx: &mut ClientContext<'_>) {
        if self.stage != Stage::Asking(None) {
            return;
        }
        let partitions = self
            .assigned
            .iter()
            .map(|partition| (partition.clone(), OffsetSpec::Latest))
            .collect();
        let id = self.reader.command(
            cx,
            Command::ListOffsets {
                partitions,
                timeout_ms: 10_000,
            },
        );
        self.stage = Stage::Asking(Some(id));
        self.listen(cx);
    }

    fn close_at_the_ends(&mut self, cx: &mut ClientContext<'_>) {
        let (Some(machine), Stage::ReadingUpTo(ends)) = (&mut self.reader.machine, &self.stage)
        else {
            return;
        };
        let reached = ends
            .iter()
            .all(|(partition, end)| machine.client.position(partition) >= Some(*end));
        if !reached {
            return;
        }
        machine.command(cx, Command::Close { timeout_ms: 1_000 });
        let closed = machine
            .take_events()
            .iter()
            .any(|event| matches!(event, ClientEvent::Closed { .. }));
        if !closed {
            broken(cx, "a close waits, and nothing is produced".to_owned());
        }
        self.stage = Stage::Closed;
    }
}

impl Client for MachineConsumer {
    fn start(&mut self, cx: &mut ClientContext<'_>) {
        let pause = cx.pause(50 * MILLISECOND);
        cx.after(pause, ACT);
    }

    fn timer(&mut self, tag: u64, cx: &mut ClientContext<'_>) {
        if self.reader.timer(cx, tag) {
            return self.listen(cx);
        }
        match tag {
            ACT => self.act(cx),
            ASK => self.ask(cx),
            // Of a process that is gone.
            _ => {}
        }
    }

    fn bytes(&mut self, connection: ConnectionId, bytes: Bytes, cx: &mut ClientContext<'_>) {
        self.reader.bytes(cx, connection, &bytes);
        self.listen(cx);
    }

    fn closed(&mut self, connection: ConnectionId, cx: &mut ClientContext<'_>) {
        self.reader.closed(cx, connection);
        self.listen(cx);
    }

    fn finish(&mut self, cx: &mut ClientContext<'_>) {
        if self.reader.machine.is_none() {
            self.begin(cx);
        }
        self.resume(cx);
        self.stage = Stage::Asking(None);
        self.ask(cx);
    }

    fn is_idle(&self) -> bool {
        self.stage == Stage::Closed
    }
}
