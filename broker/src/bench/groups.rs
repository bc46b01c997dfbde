//! `odradek bench groups`: what groups cost the broker, in CPU time.
//!
//! Two figures for each of the two protocols: many small groups that only heartbeat, and a rebalance
//! of one large group. The broker is one of this program's own, with `fsync`, so that its CPU time is
//! known; members share connections where the protocol lets them.

mod classic;
mod consumer;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use odradek_core::wire::messages::FindCoordinatorRequest;
use odradek_core::wire::{ErrorCode, ResponseBody};
use serde_json::json;

use self::classic::ClassicMembers;
use self::consumer::ConsumerMembers;
use super::environment::Environment;
use super::figures::{Figures, Sample};
use super::frames::BatchShape;
use super::link::{Link, nonsense};
use super::load::{Target, Times, parameters, seconds};
use super::process::{Process, cpu_seconds};
use super::report::ReportArgs;
use super::row::Row;
use super::schedule::{Schedule, wait_until};
use super::start::temporary;
use super::topic::{Topic, TopicPlan};
use crate::failure::Failure;

/// Starts this program's broker, fills it with groups, and measures its CPU time: while the members
/// of many groups heartbeat, and over a rebalance of one large group.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  odradek bench groups
  odradek bench groups --protocol consumer --groups 100 --large 200
  odradek bench groups --rounds 5 --seconds 30 --rows rows.jsonl --durability fsync

Exit codes: 0 measured, 1 failed, 2 wrong usage.")]
pub(super) struct Args {
    /// Which protocol the members speak.
    #[arg(long, value_enum, default_value_t)]
    protocol: Protocols,
    /// How many groups heartbeat.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    groups: u32,
    /// How many members each of them has.
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    members: u32,
    /// How often each member heartbeats, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds)]
    interval: f64,
    /// How many members the group has that rebalances.
    #[arg(long, value_name = "N", default_value_t = 500)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=5_000))]
    large: u32,
    /// How many rounds to measure.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// How long the members of many groups heartbeat in a round, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 9.0, value_parser = seconds)]
    seconds: f64,
    /// Where to put a temporary data directory [default: the system's temporary directory].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArgs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Protocols {
    /// JoinGroup, SyncGroup, Heartbeat.
    Classic,
    /// ConsumerGroupHeartbeat (KIP-848).
    Consumer,
    /// Both, one after the other.
    #[default]
    Both,
}

/// The members of some groups, over connections of their own.
trait Members {
    /// Everybody heartbeats once, `at` a steady pace or as fast as answers come.
    fn heartbeat_all(&mut self, at: Option<Schedule>) -> Result<(), Failure>;
    /// The assignment changes, and everybody has the new one.
    fn rebalance(&mut self) -> Result<(), Failure>;
}

/// Groups to be filled.
#[derive(Clone, Debug)]
struct Plan {
    target: Target,
    topic: String,
    prefix: String,
    groups: u32,
    members: u32,
}

/// How many groups are looked after by one thread.
const GROUPS_A_THREAD: u32 = 100;

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    for (protocol, name) in [
        (Protocols::Classic, "classic"),
        (Protocols::Consumer, "consumer"),
    ] {
        if args.protocol == protocol || args.protocol == Protocols::Both {
            let environment = Environment::now();
            let figures = measure(args, protocol)?;
            let of = parameters([
                ("protocol", name.into()),
                ("groups", args.groups.into()),
                ("members", args.members.into()),
                ("interval_s", json!(args.interval)),
                ("large", args.large.into()),
            ]);
            let times = Times {
                warm_up: Duration::ZERO,
                measure: Duration::from_secs_f64(args.seconds),
            };
            let row = Row::of(
                ("groups", of),
                "odradek",
                "fsync",
                times,
                figures,
                environment,
            );
            let title = format!(
                "{name} protocol: {} groups of {} members that heartbeat every {} s; a rebalance of \
                 {} members",
                args.groups, args.members, args.interval, args.large
            );
            args.report.report(&title, row)?;
        }
    }
    Ok(())
}

fn measure(args: &Args, protocol: Protocols) -> Result<Figures, Failure> {
    let root = temporary(args.dir.as_deref())?;
    let data = root.path().join("data");
    // Members that join at once find each other without a long wait.
    let delay = "group.initial.rebalance.delay.ms=20";
    let broker = Process::odradek(&data, "fsync", &[delay])?;
    let target = broker.target();
    let shape = BatchShape {
        records: 1,
        value_bytes: 1,
    };
    let topic = |partitions: u32| {
        let plan = TopicPlan {
            partitions: i32::try_from(partitions).unwrap_or(i32::MAX),
            ..TopicPlan::default()
        };
        Topic::create(&target, &plan, shape)
    };
    let (small, large) = (topic(args.members)?, topic(args.large)?);
    await_coordinator(&target)?;
    let plan = |topic: &Topic, prefix: &str, groups, members| Plan {
        target: target.clone(),
        topic: topic.name.clone(),
        prefix: prefix.to_owned(),
        groups,
        members,
    };
    let many = fill(&plan(&small, "small", args.groups, args.members), protocol)?;
    let mut one = open(&plan(&large, "large", 1, args.large), protocol)?;
    let mut figures = Figures::default();
    let mut many = many;
    for _ in 0..args.rounds {
        let mut sample = heartbeats(args, &mut many, broker.pid())?;
        sample.extend(rebalances(one.as_mut(), broker.pid())?);
        figures.add(&sample);
    }
    drop((many, one));
    broker.stop()?;
    Ok(figures)
}

fn open(plan: &Plan, protocol: Protocols) -> Result<Box<dyn Members + Send>, Failure> {
    Ok(match protocol {
        Protocols::Consumer => Box::new(ConsumerMembers::open(plan)?),
        Protocols::Classic | Protocols::Both => Box::new(ClassicMembers::open(plan)?),
    })
}

/// Makes the groups, some of them at once.
fn fill(plan: &Plan, protocol: Protocols) -> Result<Vec<Box<dyn Members + Send>>, Failure> {
    let threads = plan.groups.div_ceil(GROUPS_A_THREAD);
    std::thread::scope(|scope| {
        let opening: Vec<_> = (0..threads)
            .map(|number| {
                let part = Plan {
                    prefix: format!("{}-{number}", plan.prefix),
                    groups: GROUPS_A_THREAD.min(plan.groups - number * GROUPS_A_THREAD),
                    ..plan.clone()
                };
                scope.spawn(move || open(&part, protocol))
            })
            .collect();
        opening.into_iter().map(joined).collect()
    })
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T, Failure>>) -> Result<T, Failure> {
    let ended = thread.join();
    ended.unwrap_or_else(|_| Err(Failure::failed("a thread of the bench ended by a panic")))
}

/// Everybody heartbeats for a while.
fn heartbeats(
    args: &Args,
    many: &mut [Box<dyn Members + Send>],
    pid: u32,
) -> Result<Sample, Failure> {
    let rounds = (args.seconds / args.interval.max(0.001)).round().max(1.0) as u32;
    let per_second = |groups: u32| f64::from(groups * args.members) / args.interval.max(0.001);
    let cpu = Cpu::begin(pid);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let beating: Vec<_> = (0..)
            .zip(many.iter_mut())
            .map(|(number, members)| {
                let groups = GROUPS_A_THREAD.min(args.groups - number * GROUPS_A_THREAD);
                scope.spawn(move || {
                    for round in 0..rounds {
                        let start = begun + Duration::from_secs_f64(args.interval) * round;
                        members.heartbeat_all(Some(Schedule::new(start, per_second(groups))))?;
                    }
                    wait_until(begun + Duration::from_secs_f64(args.interval) * rounds);
                    Ok(())
                })
            })
            .collect();
        beating.into_iter().try_for_each(joined)
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let count = f64::from(rounds * args.groups * args.members);
    let mut sample = vec![("heartbeats_per_s", count / seconds)];
    if let Some(used) = cpu.used() {
        sample.push(("heartbeat_cores", used / seconds));
        sample.push(("heartbeat_us", used / count * 1e6));
    }
    Ok(sample)
}

/// How many rebalances are measured as one: the clock of a process' CPU time ticks every 10 ms.
const REBALANCES: u32 = 5;

fn rebalances(one: &mut dyn Members, pid: u32) -> Result<Sample, Failure> {
    // What was not heard meanwhile is heard now, and not counted.
    one.heartbeat_all(None)?;
    let cpu = Cpu::begin(pid);
    let begun = Instant::now();
    for _ in 0..REBALANCES {
        one.rebalance()?;
    }
    let of_each = 1.0 / f64::from(REBALANCES);
    let took = begun.elapsed().as_secs_f64() * of_each;
    let mut sample = vec![("rebalance_ms", took * 1000.0)];
    if let Some(used) = cpu.used() {
        sample.push(("rebalance_cpu_ms", used * of_each * 1000.0));
    }
    Ok(sample)
}

/// CPU time of the broker since.
struct Cpu {
    pid: u32,
    before: Option<f64>,
}

impl Cpu {
    fn begin(pid: u32) -> Self {
        Self {
            pid,
            before: cpu_seconds(pid),
        }
    }

    fn used(&self) -> Option<f64> {
        Some(cpu_seconds(self.pid)? - self.before?)
    }
}

/// The first to ask has the topic of groups made.
fn await_coordinator(target: &Target) -> Result<(), Failure> {
    let mut link = Link::connect(target.address)?;
    let request = FindCoordinatorRequest {
        coordinator_keys: vec!["any".into()],
        ..Default::default()
    };
    for _ in 0..500 {
        let ResponseBody::FindCoordinator(response) = link.ask(4, &request)? else {
            return Err(nonsense());
        };
        let found = response.coordinators.first().map(|found| found.error_code);
        if found == Some(ErrorCode::NONE) {
            return Ok(());
        }
        wait_until(Instant::now() + Duration::from_millis(20));
    }
    Err(Failure::failed("the broker has no coordinator of groups"))
}
