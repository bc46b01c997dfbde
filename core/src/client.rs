//! The client: a producer, a consumer, alone or in a group, and requests of the application's own, as
//! one state machine without I/O. The real edge and the simulator drive this very type.
//!
//! [`ClientInput`] and [`ClientEffect`] are the whole interface. Inside, each room owns one
//! concern and hands facts to this one, which decides whom they concern: `network` has the
//! connections, `metadata` the brokers and leaders, `producer` and `consumer` the records, `group`
//! the consumer's place in its group, `admin` what the application asks itself.
//!
//! Unlike the broker, a client does its work on bytes (compression, checksums) inside the step: it
//! serves one application, and nobody else waits.

mod admin;
mod config;
mod connection;
mod consumer;
mod effect;
mod error;
mod group;
mod input;
mod metadata;
mod network;
mod producer;
mod step;

#[cfg(test)]
mod tests;

use alloc::vec::Vec;
use core::mem;

use rand_chacha::ChaCha12Rng;
use rand_core::SeedableRng;

pub use self::config::{
    Acks, Assignor, ClientConfig, ConsumerConfig, GroupConfig, GroupProtocol, OffsetReset,
    ProducerConfig,
};
pub use self::effect::{
    ClientEffect, ClientEffects, ClientEvent, ConsumerRecord, FoundOffset, Outcome, Polled,
};
pub use self::error::{ClientError, Timeout};
pub use self::input::{
    AdminRequest, AdminTarget, ClientInput, Command, CommandId, OffsetSpec, OffsetToCommit,
    ProducerRecord, StartAt, TopicName, TopicPartition,
};

use self::admin::Admin;
use self::consumer::Consumer;
use self::group::Group;
use self::metadata::Metadata;
use self::network::{Answer, Network, Purpose};
use self::producer::Producer;
use self::step::{Step, earlier};
use crate::bugs::Bugs;
use crate::ids::Offset;
use crate::time::{Mono, Now};

/// The state machine.
#[derive(Debug)]
pub struct Client {
    rng: ChaCha12Rng,
    state: State,
}

#[derive(Debug)]
struct State {
    network: Network,
    metadata: Metadata,
    producer: Producer,
    consumer: Consumer,
    /// If one is configured.
    group: Option<Group>,
    admin: Admin,
    phase: Phase,
    /// A buffer, empty between steps.
    answers: Vec<Answer>,
    /// The metadata that the connections follow.
    brokers_as_of: u64,
}

#[derive(Debug)]
enum Phase {
    Open,
    /// Until every record has its outcome, or it is too late.
    Closing {
        ids: Vec<CommandId>,
        until: Mono,
    },
    Closed,
}

impl Client {
    /// A client that does nothing before its first command. All its randomness (the choice among
    /// brokers and partitions, the jitter of waits) comes from `seed`.
    #[must_use]
    pub fn new(config: &ClientConfig, seed: [u8; 32]) -> Self {
        Self::with_bugs(config, seed, Bugs::NONE)
    }

    /// A client with a planted bug, to see whether the simulator finds it.
    #[must_use]
    pub fn with_bugs(config: &ClientConfig, seed: [u8; 32], bugs: Bugs) -> Self {
        Self {
            rng: ChaCha12Rng::from_seed(seed),
            state: State {
                network: Network::new(config),
                metadata: Metadata::new(config),
                producer: Producer::new(config, bugs),
                consumer: Consumer::new(config, bugs),
                group: config.group.as_ref().map(|group| Group::new(config, group)),
                admin: Admin::default(),
                phase: Phase::Open,
                answers: Vec::new(),
                brokers_as_of: 0,
            },
        }
    }

    /// One atomic step. Reads no clock and no random source but the one seeded by the host.
    pub fn handle(&mut self, now: Now, input: ClientInput, out: &mut ClientEffects) {
        let rng = &mut self.rng;
        self.state.take(&mut Step { now, out, rng }, input);
    }

    /// When the host must call back with [`ClientInput::Deadline`] if nothing else happens before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        self.state.next_deadline()
    }

    /// Whether a record would be accepted now (or refused whenever it came). If not, there is no
    /// room in `buffer.memory` until outcomes were reported, and producing it would fail with
    /// [`ClientError::BufferFull`].
    #[must_use]
    pub fn takes(&self, record: &ProducerRecord) -> bool {
        self.state.producer.takes(record.size())
    }

    /// The offset of the next record to be handed out; `None` if the partition is not assigned or
    /// its position not known yet.
    #[must_use]
    pub fn position(&self, partition: &TopicPartition) -> Option<Offset> {
        self.state.consumer.position(partition)
    }

    /// What the group assigned to this member and did not take back yet.
    pub fn assignment(&self) -> impl Iterator<Item = &TopicPartition> {
        self.state.group.iter().flat_map(Group::assignment)
    }

    /// The member's id, with its generation in a classic group or its epoch in one of KIP-848, while
    /// it is in its group.
    #[must_use]
    pub fn membership(&self) -> Option<(&str, i32)> {
        self.state.group.as_ref()?.membership()
    }

    /// The high watermark that the last fetch of an assigned partition brought.
    #[must_use]
    pub fn high_watermark(&self, partition: &TopicPartition) -> Option<Offset> {
        self.state.consumer.high_watermark(partition)
    }
}

impl State {
    fn take(&mut self, step: &mut Step<'_>, input: ClientInput) {
        if matches!(self.phase, Phase::Closed) {
            if let ClientInput::Command { id, command } = input {
                refuse(step, id, command);
            }
            return;
        }
        let answers = &mut self.answers;
        // A record alone changes nothing for anybody but the producer, and there are many.
        let mut everything = true;
        match input {
            ClientInput::Connected { connection } => self.network.connected(step, connection),
            ClientInput::ConnectFailed { connection, reason } => {
                if self.network.lost(step, connection, &reason, answers) {
                    self.metadata.request_update();
                }
            }
            ClientInput::Received { connection, frame } => {
                self.network.received(step, connection, frame, answers);
            }
            ClientInput::Disconnected { connection } => {
                if self.network.lost(step, connection, "disconnected", answers) {
                    self.metadata.request_update();
                }
            }
            ClientInput::Deadline => self.network.expire(step, answers),
            ClientInput::Command {
                id,
                command: Command::Produce(record),
            } => {
                everything = false;
                self.producer.produce(step, &mut self.metadata, id, record);
            }
            ClientInput::Command { id, command } => self.command(step, id, command),
        }
        self.dispatch(step);
        self.settle(step, everything);
    }

    fn command(&mut self, step: &mut Step<'_>, id: CommandId, command: Command) {
        if matches!(self.phase, Phase::Closing { .. })
            && !matches!(command, Command::Close { .. } | Command::Flush)
        {
            refuse(step, id, command);
            return;
        }
        let metadata = &mut self.metadata;
        match command {
            Command::Produce(record) => self.producer.produce(step, metadata, id, record),
            Command::Flush => self.producer.flush(step, id),
            Command::Assign(partitions) => {
                if let Some(group) = &mut self.group {
                    group.unsubscribe(step, metadata, &mut self.consumer);
                }
                self.consumer.assign(metadata, partitions);
            }
            Command::Subscribe(topics) => match &mut self.group {
                Some(group) => group.subscribe(step, metadata, &mut self.consumer, topics),
                None => self
                    .consumer
                    .notify(Polled::GroupFailed(ClientError::NoGroup)),
            },
            Command::SubscribePattern(expression) => match &mut self.group {
                Some(group) => {
                    group.subscribe_pattern(step, metadata, &mut self.consumer, &expression);
                }
                None => self
                    .consumer
                    .notify(Polled::GroupFailed(ClientError::NoGroup)),
            },
            Command::Unsubscribe => match &mut self.group {
                Some(group) => group.unsubscribe(step, metadata, &mut self.consumer),
                None => self.consumer.clear(),
            },
            Command::Commit {
                offsets,
                timeout_ms,
            } => match &mut self.group {
                Some(group) => group.commit(step, &self.consumer, id, offsets, timeout_ms),
                None => step.out.event(ClientEvent::Committed {
                    id,
                    result: Err(ClientError::NoGroup),
                }),
            },
            Command::Seek { partition, to } => self.consumer.seek(partition, to),
            Command::Pause(partitions) => self.consumer.pause(&partitions, true),
            Command::Resume(partitions) => self.consumer.pause(&partitions, false),
            Command::Poll {
                max_records,
                max_bytes,
                max_wait_ms,
            } => self
                .consumer
                .poll(step, id, (max_records, max_bytes), max_wait_ms),
            Command::ListOffsets {
                partitions,
                timeout_ms,
            } => self
                .consumer
                .list_offsets(step, metadata, id, partitions, timeout_ms),
            Command::Admin(request) => self.admin.request(step, metadata, id, *request),
            Command::Close { timeout_ms } => self.close(step, id, timeout_ms),
        }
    }

    fn close(&mut self, step: &mut Step<'_>, id: CommandId, timeout_ms: u32) {
        let at = step.now.mono.plus_ms(timeout_ms.into());
        match &mut self.phase {
            Phase::Closing { ids, until } => {
                ids.push(id);
                *until = at.min(*until);
            }
            Phase::Open | Phase::Closed => {
                self.producer.close(step);
                if let Some(group) = &mut self.group {
                    group.unsubscribe(step, &mut self.metadata, &mut self.consumer);
                }
                self.consumer.close(step);
                self.phase = Phase::Closing {
                    ids: Vec::from([id]),
                    until: at,
                };
            }
        }
    }

    /// Brings the answers of this step to whom they are for.
    fn dispatch(&mut self, step: &mut Step<'_>) {
        let (metadata, network) = (&mut self.metadata, &mut self.network);
        for Answer { purpose, result } in self.answers.drain(..) {
            match purpose {
                Purpose::Metadata => metadata.answered(step, result),
                Purpose::Produce(id) => self.producer.answered(step, metadata, id, result),
                Purpose::Fetch(id) => self.consumer.fetched(step, metadata, id, result),
                Purpose::ListOffsets(id) => {
                    self.consumer.offsets_listed(step, metadata, id, result);
                }
                Purpose::Admin(id) => self.admin.answered(step, id, result),
                Purpose::ProducerId => self.producer.identified(step, result),
                Purpose::Group(what, number) => {
                    if let Some(group) = &mut self.group {
                        let consumer = &mut self.consumer;
                        let which = (what, number);
                        group.answered(step, metadata, network, consumer, which, result);
                    }
                }
            }
        }
    }

    /// Lets every room do what has become possible.
    fn settle(&mut self, step: &mut Step<'_>, everything: bool) {
        let (metadata, network) = (&mut self.metadata, &mut self.network);
        if self.brokers_as_of != metadata.generation() {
            self.brokers_as_of = metadata.generation();
            network.set_brokers(step, metadata.brokers(), &mut self.answers);
            self.dispatch(step);
        }
        let (metadata, network) = (&mut self.metadata, &mut self.network);
        self.producer.settle(step, metadata, network);
        if everything {
            match &mut self.group {
                Some(group) => group.settle(step, metadata, network, &mut self.consumer),
                None => self.consumer.refuse_committed(),
            }
            self.consumer.settle(step, metadata, network);
            self.admin.settle(step, metadata, network);
        }
        // Last, since all of these may have found that they need to know more.
        metadata.settle(step, network);
        self.finish_close(step);
    }

    fn finish_close(&mut self, step: &mut Step<'_>) {
        let Phase::Closing { ids, until } = &mut self.phase else {
            return;
        };
        let group_is_settled = self.group.as_ref().is_none_or(Group::is_settled);
        if *until > step.now.mono && !(self.producer.is_settled() && group_is_settled) {
            return;
        }
        let ids = mem::take(ids);
        self.phase = Phase::Closed;
        self.producer.abort(step);
        if let Some(group) = &mut self.group {
            group.abort(step);
        }
        self.admin.close(step);
        self.network.close_all(step, &mut self.answers);
        // Everything that was asked has been answered above.
        self.answers.clear();
        for id in ids {
            step.out.event(ClientEvent::Closed { id });
        }
    }

    fn next_deadline(&self) -> Option<Mono> {
        let closing = match &self.phase {
            Phase::Open => None,
            Phase::Closing { until, .. } => Some(*until),
            Phase::Closed => return None,
        };
        [
            closing,
            self.network.deadline(),
            self.metadata.deadline(),
            self.producer.deadline(),
            self.consumer.deadline(),
            self.group
                .as_ref()
                .and_then(|group| group.deadline(&self.consumer)),
            self.admin.deadline(),
        ]
        .into_iter()
        .fold(None, earlier)
    }
}

/// Answers a command that comes too late.
fn refuse(step: &mut Step<'_>, id: CommandId, command: Command) {
    let event = match command {
        Command::Produce(_) => ClientEvent::Delivery {
            id,
            outcome: Outcome::Failed(ClientError::Closed),
        },
        Command::Flush => ClientEvent::Flushed { id },
        Command::Poll { .. } => ClientEvent::Polled {
            id,
            items: Vec::new(),
        },
        Command::ListOffsets { partitions, .. } => ClientEvent::Offsets {
            id,
            offsets: partitions
                .into_iter()
                .map(|(partition, _)| (partition, Err(ClientError::Closed)))
                .collect(),
        },
        Command::Admin(_) => ClientEvent::Answered {
            id,
            result: Err(ClientError::Closed),
        },
        Command::Close { .. } => ClientEvent::Closed { id },
        Command::Commit { .. } => ClientEvent::Committed {
            id,
            result: Err(ClientError::Closed),
        },
        Command::Assign(_)
        | Command::Subscribe(_)
        | Command::SubscribePattern(_)
        | Command::Unsubscribe
        | Command::Seek { .. }
        | Command::Pause(_)
        | Command::Resume(_) => return,
    };
    step.out.event(event);
}
