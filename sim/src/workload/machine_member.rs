//! A member of a group that is the core's client: it joins, is assigned partitions and gives them up,
//! commits, stalls, dies, and comes back.
//!
//! Machines have groups of their own. What they send is judged by its frames like everybody's; what
//! their application hears is judged here: nothing is handed out of a partition that is not assigned,
//! and nothing of one that is revoked.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use odradek_core::bugs::Bugs;
use odradek_core::client::{
    Assignor, ClientConfig, ClientEvent, Command, CommandId, ConsumerRecord, GroupConfig,
    GroupProtocol, OffsetReset, OffsetToCommit, Polled, StartAt, TopicName, TopicPartition,
};
use odradek_core::ids::{ConnectionId, Offset};

use super::machine::{bootstrap, broken, is_inexcusable};
use super::machine_reader::{Reader, as_read};
use super::seen::Seen;
use super::{Client, ClientContext};
use crate::clock::MILLISECOND;
use crate::oracle::Mark;

/// A member of a group of machines.
#[derive(Debug)]
pub struct MachineMember {
    protocol: GroupProtocol,
    reader: Reader,
    /// What is assigned, and the next offset of what was handed out of it.
    owned: BTreeMap<TopicPartition, Option<Offset>>,
    poll: Option<CommandId>,
    commits: BTreeSet<CommandId>,
    last_commit: u64,
    is_finishing: bool,
    is_closed: bool,
}

/// What a member can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Assigned,
    Revoked,
    Lost,
    Committed,
    CommitRefused,
}

/// The tag of the timer for the next poll.
const ACT: u64 = 0;

impl MachineMember {
    /// A member by this protocol.
    #[must_use]
    pub const fn new(protocol: GroupProtocol, bugs: Bugs) -> Self {
        Self {
            protocol,
            reader: Reader::new(bugs),
            owned: BTreeMap::new(),
            poll: None,
            commits: BTreeSet::new(),
            last_commit: 0,
            is_finishing: false,
            is_closed: false,
        }
    }

    fn configure(&self, cx: &mut ClientContext<'_>) -> ClientConfig {
        let mut config = ClientConfig::new(bootstrap());
        config.client_id = format!("member-{}", cx.client);
        config.request_timeout_ms = cx.pick(&[300, 3_000]);
        config.retry_backoff_ms = cx.pick(&[5, 50]);
        config.reconnect_backoff_ms = cx.pick(&[5, 50]);
        config.metadata_max_age_ms = cx.pick(&[300, 300_000]);
        config.allow_auto_create_topics = false;
        config.consumer.auto_offset_reset = OffsetReset::Earliest;
        config.consumer.fetch_max_wait_ms = 50;
        let name = match self.protocol {
            GroupProtocol::Classic => "machines",
            GroupProtocol::Consumer => "machines848",
        };
        let mut group = GroupConfig::new(name.to_owned());
        group.protocol = self.protocol;
        // All can be cooperative, so whoever cannot be anything else finds a common assignor.
        group.assignors = cx
            .pick::<&[Assignor]>(&[&[], &[Assignor::CooperativeSticky]])
            .to_vec();
        group.instance_id = cx.chance(250_000).then(|| format!("machine-{}", cx.client));
        group.session_timeout_ms = cx.pick(&[400, 1_500]);
        group.heartbeat_interval_ms = cx.pick(&[30, 120]);
        group.max_poll_interval_ms = cx.pick(&[400, 3_000]);
        // Each commit says which it is.
        group.enable_auto_commit = false;
        config.group = Some(group);
        config
    }

    /// A process of the client starts.
    fn begin(&mut self, cx: &mut ClientContext<'_>) {
        let config = self.configure(cx);
        self.reader.begin(cx, &config);
        self.subscribe(cx);
    }

    fn subscribe(&mut self, cx: &mut ClientContext<'_>) {
        let names = cx.catalog.topics.iter();
        let names: Vec<TopicName> = names
            .map(|(name, _)| TopicName::from(name.as_str()))
            .collect();
        let up_to = cx.between(1, names.len().max(1) as u64) as usize;
        let topics = names.into_iter().take(up_to).collect();
        self.reader.command(cx, Command::Subscribe(topics));
    }

    /// And ends without a word to anybody.
    fn die(&mut self, cx: &mut ClientContext<'_>) {
        self.reader.die(cx);
        self.owned.clear();
        self.commits.clear();
        self.poll = None;
    }

    fn act(&mut self, cx: &mut ClientContext<'_>) {
        if self.is_finishing || self.poll.is_some() {
            return;
        }
        if self.reader.machine.is_none() {
            self.begin(cx);
        } else if cx.chance(20_000) {
            self.die(cx);
            self.begin(cx);
        } else if cx.chance(20_000) {
            self.subscribe(cx);
        } else if cx.chance(20_000) {
            // As long as others take it for dead.
            let pause = cx.pause(600 * MILLISECOND);
            cx.after(pause, ACT);
            return;
        }
        if cx.chance(400_000) {
            self.commit(cx);
        }
        let command = Command::Poll {
            max_records: cx.pick(&[1, 10, 500]),
            max_bytes: 1 << 20,
            max_wait_ms: cx.pick(&[0, 50, 200]),
        };
        let id = self.reader.command(cx, command);
        self.poll = Some(id);
        self.listen(cx);
    }

    fn commit(&mut self, cx: &mut ClientContext<'_>) {
        let reached = self.owned.iter();
        let reached: Vec<(TopicPartition, Offset)> = reached
            .filter_map(|(partition, next)| Some((partition.clone(), (*next)?)))
            .collect();
        if reached.is_empty() {
            return;
        }
        self.last_commit += 1;
        let metadata = format!("{}.{}.{}", cx.client, self.reader.life, self.last_commit);
        let offsets = reached.into_iter().map(|(partition, offset)| {
            let to = OffsetToCommit {
                offset,
                leader_epoch: None,
                metadata: metadata.clone(),
            };
            (partition, to)
        });
        let command = Command::Commit {
            offsets: Some(offsets.collect()),
            timeout_ms: cx.pick(&[100, 2_000]),
        };
        let id = self.reader.command(cx, command);
        self.commits.insert(id);
        self.listen(cx);
    }

    fn listen(&mut self, cx: &mut ClientContext<'_>) {
        let Some(events) = self.reader.take_events() else {
            return;
        };
        for event in events {
            match event {
                ClientEvent::Polled { id, items } => self.polled(cx, id, items),
                ClientEvent::Committed { id, result } => {
                    if !self.commits.remove(&id) {
                        broken(cx, format!("{id}: committed, and nobody asked"));
                    }
                    match result {
                        Ok(_) => self.mark(cx, Came::Committed),
                        Err(error) if is_inexcusable(&error) => {
                            broken(cx, format!("{id}: {error}"));
                        }
                        Err(_) => self.mark(cx, Came::CommitRefused),
                    }
                }
                ClientEvent::Closed { .. } => {
                    self.is_closed = true;
                    if !self.commits.is_empty() {
                        broken(cx, "closed, and a commit has no outcome".to_owned());
                    }
                }
                event => broken(cx, format!("nobody asked for this: {event}")),
            }
        }
    }

    fn polled(&mut self, cx: &mut ClientContext<'_>, id: CommandId, items: Vec<Polled>) {
        if self.poll == Some(id) {
            self.poll = None;
            let pause = cx.pause(25 * MILLISECOND);
            cx.after(pause, ACT);
        }
        for item in items {
            match item {
                Polled::Record(record) => self.record(cx, &record),
                Polled::Assigned(partitions) => {
                    self.mark(cx, Came::Assigned);
                    for partition in partitions {
                        cx.saw.push(Seen::Goes {
                            reader: self.reader.id(cx.client),
                            partition: partition.clone(),
                            to: StartAt::Committed,
                        });
                        if self.owned.insert(partition.clone(), None).is_some() {
                            broken(cx, format!("{partition} is assigned twice"));
                        }
                    }
                }
                Polled::Revoked(partitions) => {
                    self.mark(cx, Came::Revoked);
                    for partition in partitions {
                        if self.owned.remove(&partition).is_none() {
                            broken(cx, format!("{partition} is revoked, and was not assigned"));
                        }
                    }
                }
                // Some of them may have been revoked before.
                Polled::Lost(partitions) => {
                    self.mark(cx, Came::Lost);
                    for partition in partitions {
                        self.owned.remove(&partition);
                    }
                }
                Polled::Error { error, partition } if is_inexcusable(&error) => {
                    broken(cx, format!("{partition}: {error}"));
                }
                Polled::GroupFailed(error) if is_inexcusable(&error) => {
                    broken(cx, format!("the group: {error}"));
                }
                // The group is full, or another holds the name: a while later all may be well.
                Polled::GroupFailed(_) => self.subscribe(cx),
                Polled::Error { .. } | Polled::EndOfPartition { .. } => {}
            }
        }
    }

    fn mark(&self, cx: &mut ClientContext<'_>, came: Came) {
        let mark = match (self.protocol, came) {
            (GroupProtocol::Classic, Came::Assigned) => Mark::ClassicMachineAssigned,
            (GroupProtocol::Classic, Came::Revoked) => Mark::ClassicMachineRevoked,
            (GroupProtocol::Classic, Came::Lost) => Mark::ClassicMachineFenced,
            (GroupProtocol::Classic, Came::Committed) => Mark::ClassicMachineCommitted,
            (GroupProtocol::Classic, Came::CommitRefused) => Mark::ClassicMachineCommitRefused,
            (GroupProtocol::Consumer, Came::Assigned) => Mark::ConsumerMachineAssigned,
            (GroupProtocol::Consumer, Came::Revoked) => Mark::ConsumerMachineRevoked,
            (GroupProtocol::Consumer, Came::Lost) => Mark::ConsumerMachineFenced,
            (GroupProtocol::Consumer, Came::Committed) => Mark::ConsumerMachineCommitted,
            (GroupProtocol::Consumer, Came::CommitRefused) => Mark::ConsumerMachineCommitRefused,
        };
        cx.saw.push(Seen::Mark(mark));
    }

    fn record(&mut self, cx: &mut ClientContext<'_>, record: &ConsumerRecord) {
        let partition = TopicPartition {
            topic: record.topic.clone(),
            partition: record.partition,
        };
        let Some(next) = self.owned.get_mut(&partition) else {
            return broken(
                cx,
                format!("a record of {partition}, which is not assigned"),
            );
        };
        *next = Some(record.offset.plus(1));
        cx.saw.push(Seen::Read {
            reader: self.reader.id(cx.client),
            partition,
            records: vec![as_read(record)],
        });
    }
}

impl Client for MachineMember {
    fn start(&mut self, cx: &mut ClientContext<'_>) {
        let pause = cx.pause(50 * MILLISECOND);
        cx.after(pause, ACT);
    }

    fn timer(&mut self, tag: u64, cx: &mut ClientContext<'_>) {
        if self.reader.timer(cx, tag) {
            return self.listen(cx);
        }
        if tag == ACT {
            self.act(cx);
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
        self.is_finishing = true;
        match &mut self.reader.machine {
            Some(machine) => {
                machine.command(cx, Command::Close { timeout_ms: 20_000 });
                self.listen(cx);
            }
            None => self.is_closed = true,
        }
    }

    fn is_idle(&self) -> bool {
        self.is_closed
    }
}
