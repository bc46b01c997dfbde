//! The mix of a seed: which features and faults it has, and how much of each.
//!
//! Each seed leaves most things out and does a few of them often, so that rare combinations come
//! up (swarm testing).

use odradek_core::group::config::{GroupConfig, MigrationPolicy};
use odradek_core::input::Endpoint;
use odradek_core::log::config::{Durability, LogConfig};
use odradek_core::metadata::config::{BrokerConfig, CleanerConfig};
use odradek_core::record::Compression;

use crate::choices::{Choices, Odds};
use crate::clock::{MICROSECOND, MILLISECOND, SECOND};
use crate::disk::faults::{DiskRates, Latency};
use crate::disk::power_loss::Tearing;
use crate::network::NetworkRates;
use crate::workload::ClientContext;

/// Everything a seed decides before the run begins.
#[derive(Clone, Debug)]
pub struct Swarm {
    /// What the broker is started with.
    pub broker: BrokerConfig,
    /// How the disk fails.
    pub disk: DiskRates,
    /// How power losses tear.
    pub tearing: Tearing,
    /// How the network fails.
    pub network: NetworkRates,
    /// How processes die.
    pub crashes: Crashes,
    /// Whether the disk is full at times: mean time between such phases, in nanoseconds.
    pub full_disk_every_ns: Option<u64>,
    /// Whether the wall clock steps: mean time between steps, in nanoseconds.
    pub wall_steps_every_ns: Option<u64>,
    /// How much faster the wall clock runs than the monotonic one, in parts per million.
    pub wall_drift_ppm: i64,
    /// The process pauses, per step.
    pub pauses: Odds,
    /// Whether frames are prepared with the codecs that the broker tells; else the step packs batches
    /// anew, where a topic keeps a codec of its own.
    pub tells_codecs: bool,
    /// What clients there are.
    pub workload: WorkloadMix,
    /// How long faults and workload last, in nanoseconds of virtual time.
    pub duration_ns: u64,
}

/// How processes die, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crashes {
    /// At most so many in a run.
    pub limit: u32,
    /// A life ends in a process crash (else a power loss).
    pub process: Odds,
    /// A life ends soon: while loading, or right after.
    pub early: Odds,
    /// Mean number of effects and completions in a life that does not end early.
    pub mean_events: u64,
    /// A life ends in a graceful stop instead.
    pub graceful: Odds,
}

/// What clients there are, and what they do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadMix {
    /// Topics that are there from the beginning: number of partitions each.
    pub topics: Vec<i32>,
    /// Producers.
    pub producers: u32,
    /// Their acks.
    pub acks: Vec<i16>,
    /// Requests that a producer has in flight.
    pub max_in_flight: usize,
    /// Largest number of records in a batch.
    pub max_records: u64,
    /// Largest value, in bytes.
    pub max_value_bytes: u64,
    /// Mean pause between two sends of a producer, in nanoseconds.
    pub pause_ns: u64,
    /// Producers with sequence numbers.
    pub idempotent: u32,
    /// Consumers.
    pub consumers: u32,
    /// A consumer's longest wait, in milliseconds.
    pub max_wait_ms: u64,
    /// Producers that are the core's client.
    pub machine_producers: u32,
    /// Consumers that are the core's client.
    pub machine_consumers: u32,
    /// Clients that ask for offsets.
    pub listers: u32,
    /// Clients that create and delete topics of their own.
    pub topic_makers: u32,
    /// Clients that look into and change what the others leave alone.
    pub administrators: u32,
    /// Clients that delete records.
    pub trimmers: u32,
    /// Clients that keep a table in a compacted topic.
    pub keepers: u32,
    /// Clients that ask for what must be refused.
    pub refused: u32,
    /// Clients that send garbage.
    pub hostile: u32,
    /// Groups.
    pub groups: GroupMix,
}

/// What groups there are, and who is in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupMix {
    /// Members of classic groups.
    pub classic: u32,
    /// Members of groups that the broker assigns for.
    pub consumer: u32,
    /// Members of a classic group that are the core's client.
    pub machine_classic: u32,
    /// Members of a group that the broker assigns for, that are the core's client.
    pub machine_consumer: u32,
    /// Clients that commit and clean up without being members.
    pub committers: u32,
    /// How many groups of each kind there are.
    pub groups: u64,
    /// How often a member goes to the group that both kinds share.
    pub shared: Odds,
    /// How often a member is a static one.
    pub static_members: Odds,
    /// Mean pause between two things that a member does, in nanoseconds.
    pub pause_ns: u64,
}

impl GroupMix {
    const SHARED: &'static str = "shared";
    const SIMPLE: &'static str = "simple";

    /// Whether there are groups at all.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.classic + self.consumer + self.committers == 0
    }

    /// The group of a classic member.
    pub fn classic_group(&self, cx: &mut ClientContext<'_>) -> String {
        self.group_of(cx, "classic")
    }

    /// The group of a member for which the broker assigns.
    pub fn consumer_group(&self, cx: &mut ClientContext<'_>) -> String {
        self.group_of(cx, "consumer")
    }

    fn group_of(&self, cx: &mut ClientContext<'_>, kind: &str) -> String {
        if cx.chance(self.shared.0) {
            return Self::SHARED.to_owned();
        }
        format!("{kind}{}", cx.between(0, self.groups.max(1) - 1))
    }

    /// Every group there may be.
    #[must_use]
    pub fn all_groups(&self) -> Vec<String> {
        let kinds = ["classic", "consumer"].into_iter();
        let named = kinds.flat_map(|kind| (0..self.groups).map(move |n| format!("{kind}{n}")));
        let others = [Self::SHARED, Self::SIMPLE].map(str::to_owned);
        named.chain(others).collect()
    }

    /// Some group.
    pub fn any_group(&self, cx: &mut ClientContext<'_>) -> String {
        let mut all = self.all_groups();
        let which = cx.between(0, all.len() as u64 - 1) as usize;
        all.swap_remove(which)
    }
}

/// What a campaign looks at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workload {
    /// Everything.
    #[default]
    Mixed,
    /// Producers with sequence numbers.
    Idempotence,
    /// Compacted topics.
    Compaction,
    /// Groups and committed offsets.
    Rebalance,
    /// A disk that changes what was written to it.
    Damage,
}

impl Workload {
    /// All of them, by the names of the command line.
    pub const ALL: [(&'static str, Self); 5] = [
        ("mixed", Self::Mixed),
        ("idempotence", Self::Idempotence),
        ("compaction", Self::Compaction),
        ("rebalance", Self::Rebalance),
        ("damage", Self::Damage),
    ];

    /// The one of a name. The error names those that there are.
    pub fn by_name(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, workload)| *workload).ok_or_else(|| {
            let names = Self::names();
            format!("no workload is called {name}; there are: {names}")
        })
    }

    /// The names of all, for a person.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(|(name, _)| name).join(", ")
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, workload)| *workload == self);
        found.map_or("mixed", |(name, _)| name)
    }
}

impl Swarm {
    /// Draws the mix of a seed.
    #[must_use]
    pub fn draw(choices: &mut Choices, workload: Workload) -> Self {
        let broker = draw_broker(choices);
        let mut swarm = Self {
            broker,
            disk: draw_disk(choices),
            tearing: Tearing {
                sector_bytes: pick(choices, 1, &[512, 512, 512, 4096, 1]),
                harsh: chance(choices, 2, 300_000),
                garbage: chance(choices, 3, 400_000),
            },
            network: draw_network(choices),
            crashes: Crashes {
                limit: pick(choices, 4, &[0, 1, 2, 2, 3, 4]),
                process: Odds(pick(choices, 5, &[0, 300_000, 500_000, 1_000_000])),
                early: Odds(pick(choices, 6, &[0, 200_000, 600_000])),
                mean_events: pick(choices, 7, &[50, 150, 500]),
                graceful: Odds(pick(choices, 8, &[0, 0, 200_000])),
            },
            full_disk_every_ns: chance(choices, 9, 150_000).then_some(250 * MILLISECOND),
            wall_steps_every_ns: chance(choices, 10, 250_000).then_some(250 * MILLISECOND),
            wall_drift_ppm: if chance(choices, 180, 100_000) {
                pick(choices, 181, &[-100_000, -5_000, 5_000, 100_000])
            } else {
                0
            },
            pauses: rate(choices, 182, 100_000, &[2_000, 10_000]),
            tells_codecs: chance(choices, 171, 500_000),
            workload: draw_workload(choices),
            duration_ns: 0,
        };
        if chance(choices, 183, 150_000) {
            // What befalls a broker while it stops is rare where stops are.
            swarm.crashes.graceful = Odds(800_000);
            swarm.crashes.limit = swarm.crashes.limit.max(4);
            swarm.crashes.early = Odds(0);
        }
        if workload == Workload::Idempotence {
            swarm.workload.idempotent = pick(choices, 96, &[1, 2, 3]);
            swarm.workload.producers = 0;
            swarm.workload.machine_producers = 0;
        }
        if workload == Workload::Compaction {
            swarm.workload.keepers = pick(choices, 160, &[1, 1, 2]);
            swarm.workload.producers = swarm.workload.producers.min(1);
            swarm.workload.machine_producers = 0;
            swarm.broker.log.segment_bytes = pick(choices, 161, &[400, 1_000, 4_000]);
            swarm.broker.cleaner.backoff_ms = pick(choices, 162, &[5, 30]);
            // Crashes in the middle of a swap, and names that persist in another order.
            swarm.tearing.harsh = chance(choices, 164, 700_000);
            swarm.crashes.limit = pick(choices, 165, &[1, 3, 6]);
            swarm.crashes.process = Odds(pick(choices, 166, &[0, 300_000]));
            swarm.crashes.mean_events = pick(choices, 167, &[150, 500]);
        }
        if workload == Workload::Mixed && chance(choices, 210, 150_000) {
            swarm.retention(choices);
        }
        if workload == Workload::Damage {
            swarm.damage(choices);
        } else if workload == Workload::Rebalance {
            swarm.rebalance(choices);
        } else if workload != Workload::Compaction && chance(choices, 100, 150_000) {
            swarm.workload.groups = draw_groups(choices);
        }
        // As many sends in a slow mix as in a fast one: what a run costs is what it does.
        let sends = pick(choices, 11, &[40, 70, 110]);
        let mix = &swarm.workload;
        let producers = u64::from(mix.producers + mix.machine_producers + mix.idempotent);
        swarm.duration_ns =
            (sends * mix.pause_ns / producers.max(1)).clamp(200 * MILLISECOND, 2 * SECOND);
        if workload == Workload::Rebalance {
            swarm.duration_ns = pick(choices, 118, &[700, 1_200, 2_000]) * MILLISECOND;
        }
        if swarm.broker.durability == Durability::Os {
            let log = &mut swarm.broker.log;
            log.flush_messages = pick(choices, 215, &[None, None, Some(1), Some(4)]);
            log.flush_ms = pick(choices, 216, &[None, None, Some(20), Some(300)]);
            // A failed flush takes what `os` has acknowledged already; that loss is legitimate, and
            // nothing could be judged after it.
            swarm.disk.flush_error = Odds(0);
            swarm.disk.turns_read_only = Odds(0);
            swarm.disk.full_flush = Odds(0);
        }
        swarm
    }
}

impl Swarm {
    /// Bytes that change on the disk, and many starts and readers that may meet them. Without
    /// groups: their offsets are records like others, and what becomes of a group that cannot be
    /// read is not judged.
    fn damage(&mut self, choices: &mut Choices) {
        self.disk.rot_at_rest = rate(choices, 190, 700_000, &[300_000, 800_000]);
        self.disk.rot_while_running = rate(choices, 191, 500_000, &[5_000, 30_000]);
        self.disk.misdirected_write = rate(choices, 192, 300_000, &[3_000, 20_000]);
        self.disk.misdirected_read = rate(choices, 193, 200_000, &[1_000, 5_000]);
        self.broker.durability = Durability::Fsync;
        self.broker.log.segment_bytes = pick(choices, 194, &[1_000, 1_000, 4_000]);
        self.crashes.limit = pick(choices, 195, &[2, 4, 6]);
        self.crashes.graceful = Odds(pick(choices, 196, &[300_000, 700_000]));
        self.crashes.mean_events = pick(choices, 197, &[150, 500, 1_000]);
        self.workload.consumers = self.workload.consumers.max(1);
        self.workload.keepers = 0;
        self.workload.listers = pick(choices, 198, &[0, 1, 1]);
    }

    /// Records that go by themselves, in topics that do not say how long they keep theirs.
    fn retention(&mut self, choices: &mut Choices) {
        let log = &mut self.broker.log;
        log.retention_ms = pick(choices, 211, &[None, Some(150), Some(600), Some(1_800)]);
        log.retention_bytes = pick(choices, 212, &[None, Some(0), Some(1_500), Some(8_000)]);
        log.segment_bytes = pick(choices, 213, &[400, 1_000, 4_000]);
    }

    /// Mostly groups: of the others only a few, for topics to move under the members.
    fn rebalance(&mut self, choices: &mut Choices) {
        self.workload.groups = draw_groups(choices);
        self.workload.producers = pick(choices, 115, &[0, 0, 1]);
        self.workload.machine_producers = 0;
        self.workload.idempotent = 0;
        self.workload.consumers = 0;
        self.workload.machine_consumers = 0;
        self.workload.listers = 0;
        self.workload.trimmers = 0;
        self.workload.administrators = pick(choices, 116, &[0, 0, 1]);
        self.workload.topic_makers = pick(choices, 117, &[0, 0, 0, 1]);
        self.workload.pause_ns = self.workload.pause_ns.max(20 * MILLISECOND);
        // What a life of a broker does here is a tenth of what it does for producers.
        self.crashes.mean_events = pick(choices, 119, &[100, 300, 900]);
    }
}

/// Each draw has an entity of its own, so that a new one moves none of the others.
fn pick<T: Copy>(choices: &mut Choices, entity: u64, from: &[T]) -> T {
    let option = choices.knob(entity, from.len() as u64);
    from[option as usize]
}

fn chance(choices: &mut Choices, entity: u64, odds: u32) -> bool {
    choices.switch(entity, Odds(odds))
}

/// The odds of a fault: off, but for a share of the seeds.
fn rate(choices: &mut Choices, entity: u64, share: u32, odds: &[u32]) -> Odds {
    let option = choices.rate(entity, Odds(share), odds.len() as u64);
    let chosen = option.checked_sub(1).map(|on| odds[on as usize]);
    Odds(chosen.unwrap_or(0))
}

fn draw_broker(choices: &mut Choices) -> BrokerConfig {
    BrokerConfig {
        durability: if chance(choices, 20, 100_000) {
            Durability::Os
        } else {
            Durability::Fsync
        },
        advertise: Some(Endpoint {
            host: "sim".to_owned(),
            port: 9092,
        }),
        auto_create_topics: chance(choices, 21, 300_000),
        groups: GroupConfig {
            min_session_timeout_ms: 100,
            initial_rebalance_delay_ms: pick(choices, 120, &[0, 0, 60, 200]),
            max_size: pick(choices, 121, &[2, 100, 100, 100]),
            topic_partitions: pick(choices, 122, &[1, 1, 1, 3]),
            consumer_session_timeout_ms: pick(choices, 123, &[400, 800]),
            consumer_heartbeat_interval_ms: 50,
            consumer_max_size: pick(choices, 124, &[2, 100, 100, 100]),
            offsets_retention_ms: pick(choices, 125, &[1_000, WEEK_MS]),
            offsets_retention_check_interval_ms: pick(choices, 126, &[250, DAY_MS, DAY_MS, DAY_MS]),
            migration_policy: pick(
                choices,
                127,
                &[
                    MigrationPolicy::Bidirectional,
                    MigrationPolicy::Bidirectional,
                    MigrationPolicy::Bidirectional,
                    MigrationPolicy::Upgrade,
                    MigrationPolicy::Downgrade,
                    MigrationPolicy::Disabled,
                ],
            ),
            ..GroupConfig::default()
        },
        metadata_segment_bytes: pick(choices, 22, &[400, 2_000, 1 << 20]),
        log: LogConfig {
            segment_bytes: pick(choices, 23, &[1_000, 4_000, 16_000, 64_000]),
            segment_index_bytes: pick(choices, 24, &[48, 240, 4_096, 4_096]),
            index_interval_bytes: pick(choices, 25, &[1, 100, 500, 4_096]),
            segment_ms: pick(choices, 26, &[150, 7 * 24 * 3_600_000, 7 * 24 * 3_600_000]),
            file_delete_delay_ms: pick(choices, 27, &[0, 100, 60_000]),
            flush_beside_bytes: pick(choices, 172, &[1, 500, 8 << 10]),
            retention_ms: None,
            // Only topics that say so themselves are cleaned: what others have is read whole.
            min_cleanable_dirty_ppm: 1_000_000,
            compression: pick(
                choices,
                170,
                &[
                    None,
                    None,
                    None,
                    None,
                    None,
                    None,
                    None,
                    None,
                    None,
                    None,
                    None,
                    Some(Compression::None),
                    Some(Compression::Gzip),
                    Some(Compression::Snappy),
                    Some(Compression::Lz4),
                    Some(Compression::Zstd),
                ],
            ),
            ..LogConfig::default()
        },
        retention_check_interval_ms: pick(choices, 214, &[50, 200, 1_000]),
        cleaner: CleanerConfig {
            backoff_ms: pick(choices, 28, &[20, 100, 500]),
            dedupe_buffer_bytes: pick(choices, 29, &[60, 1_000, 1 << 20]),
            ..CleanerConfig::default()
        },
        ..BrokerConfig::default()
    }
}

/// Longer than any run.
const DAY_MS: u64 = 24 * 3_600_000;
/// Longer than any step of a run's clock, too.
const WEEK_MS: u64 = 7 * 24 * 3_600_000;

fn draw_groups(choices: &mut Choices) -> GroupMix {
    GroupMix {
        classic: pick(choices, 101, &[0, 2, 2, 3, 4]),
        consumer: pick(choices, 102, &[0, 0, 2, 2, 3]),
        committers: pick(choices, 103, &[1, 1, 1, 2]),
        groups: pick(choices, 104, &[1, 1, 1, 2]),
        shared: Odds(pick(choices, 105, &[0, 0, 0, 400_000])),
        static_members: Odds(pick(choices, 106, &[0, 0, 400_000, 1_000_000])),
        pause_ns: pick(choices, 107, &[15, 30, 30]) * MILLISECOND,
        // Two show all there is between members.
        machine_classic: pick(choices, 108, &[0, 0, 2]),
        machine_consumer: pick(choices, 109, &[0, 0, 2]),
    }
}

fn draw_disk(choices: &mut Choices) -> DiskRates {
    DiskRates {
        write_error: rate(choices, 30, 200_000, &[1_000, 10_000, 60_000]),
        short_write: rate(choices, 31, 200_000, &[1_000, 10_000, 60_000]),
        flush_error: rate(choices, 32, 350_000, &[2_000, 20_000, 100_000]),
        shows_old: rate(choices, 33, 500_000, &[500_000, 1_000_000]),
        evicts: rate(choices, 34, 500_000, &[500_000, 1_000_000]),
        manage_error: rate(choices, 35, 150_000, &[1_000, 10_000, 50_000]),
        read_error: rate(choices, 36, 100_000, &[1_000, 20_000]),
        full_flush: rate(choices, 37, 500_000, &[200_000]),
        turns_read_only: rate(choices, 200, 300_000, &[300_000, 1_000_000]),
        latent_error: rate(choices, 201, 100_000, &[5_000, 50_000]),
        short_read: rate(choices, 202, 100_000, &[10_000, 200_000]),
        no_descriptor: rate(choices, 203, 80_000, &[1_000, 10_000]),
        device_stall: rate(choices, 204, 80_000, &[5_000, 20_000]),
        // Only the workload of that name has damage.
        misdirected_read: Odds(0),
        misdirected_write: Odds(0),
        rot_at_rest: Odds(0),
        rot_while_running: Odds(0),
        latency: pick(
            choices,
            38,
            &[
                Latency::Fast,
                Latency::Fast,
                Latency::Slow,
                Latency::Bimodal,
            ],
        ),
    }
}

fn draw_network(choices: &mut Choices) -> NetworkRates {
    NetworkRates {
        latency_ns: pick(
            choices,
            40,
            &[20 * MICROSECOND, 200 * MICROSECOND, 3 * MILLISECOND],
        ),
        cut: rate(choices, 41, 400_000, &[100_000, 500_000]),
        half_open: rate(choices, 42, 300_000, &[200_000, 500_000]),
        stall: rate(choices, 43, 300_000, &[2_000, 20_000]),
        refuse: rate(choices, 44, 200_000, &[100_000]),
        slow_reader: rate(choices, 45, 300_000, &[20_000, 200_000]),
        late_close: rate(choices, 46, 150_000, &[300_000]),
    }
}

fn draw_workload(choices: &mut Choices) -> WorkloadMix {
    let topics = pick(choices, 60, &[1, 1, 2, 3]);
    // So many of them speak through the core's client; the others send raw frames.
    let producers = pick(choices, 70, &[1, 2, 3, 4]);
    let machine_producers = pick(choices, 90, &[0, 1, 1, 2, 4]).min(producers);
    let consumers = pick(choices, 76, &[0, 1, 2, 4]);
    let machine_consumers = pick(choices, 91, &[0, 1, 1, 2, 4]).min(consumers);
    WorkloadMix {
        topics: (0..topics)
            .map(|i| pick(choices, 61 + i, &[1, 1, 2, 3]))
            .collect(),
        producers: producers - machine_producers,
        machine_producers,
        idempotent: pick(choices, 95, &[0, 0, 0, 1]),
        acks: pick::<&[i16]>(
            choices,
            71,
            &[&[-1], &[-1, 1], &[-1, 1, 0], &[1], &[-1, -1, -1, 0]],
        )
        .to_vec(),
        max_in_flight: pick(choices, 72, &[1, 2, 5, 10]),
        max_records: pick(choices, 73, &[1, 3, 20]),
        max_value_bytes: pick(choices, 74, &[0, 30, 300, 3_000]),
        pause_ns: pick(choices, 75, &[2, 8, 20]) * MILLISECOND,
        consumers: consumers - machine_consumers,
        machine_consumers,
        max_wait_ms: pick(choices, 77, &[0, 50, 500, 2_000]),
        listers: pick(choices, 78, &[0, 0, 1]),
        topic_makers: pick(choices, 79, &[0, 0, 1]),
        administrators: pick(choices, 92, &[0, 0, 1]),
        trimmers: pick(choices, 80, &[0, 0, 1, 1]),
        keepers: pick(choices, 163, &[0, 0, 0, 1]),
        refused: u32::from(chance(choices, 184, 100_000)),
        hostile: pick(choices, 81, &[0, 0, 0, 1]),
        groups: GroupMix::default(),
    }
}
