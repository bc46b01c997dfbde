//! What a run is to do, and what it did: decisions that are given are looked up here, and all that
//! are taken are written down.

use std::collections::{BTreeMap, VecDeque};

use odradek_core::time::Mono;

use super::node::{Crash, When};
use super::{Event, Phase, World};
use crate::bugs::Planted;
use crate::choices::{Choices, Subsystem};
use crate::clock::MILLISECOND;
use crate::decisions::{Amid, Decided, Decisions, End, Ending, FullDisk, WallStep};
use crate::fault::Fault;
use crate::oracle::Death;
use crate::swarm::Workload;
use crate::trace::{Keep, Lane, Sign};

/// A run that is to be done.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The seed.
    pub seed: u64,
    /// What it looks at most.
    pub workload: Workload,
    /// What is planted.
    pub planted: Planted,
    /// Which steps are kept.
    pub keep: Keep,
    /// Decisions that are given, instead of the seed's.
    pub decisions: Option<&'a Decisions>,
    /// The run ends with this step.
    pub last_step: Option<u64>,
    /// The run ends after this time.
    pub last_time: Option<Mono>,
}

impl<'a> Plan<'a> {
    /// A seed, run to its end.
    #[must_use]
    pub const fn of_seed(seed: u64, workload: Workload, planted: Planted, keep: Keep) -> Self {
        Self {
            seed,
            workload,
            planted,
            keep,
            decisions: None,
            last_step: None,
            last_time: None,
        }
    }

    pub(super) fn choices(&self) -> Choices {
        match self.decisions {
            Some(decisions) => Choices::given(self.seed, decisions),
            None => Choices::new(self.seed),
        }
    }
}

/// The decisions of a run that are the world's.
#[derive(Debug, Default)]
pub(super) struct Script {
    given: Option<Given>,
    /// How many turns each client took.
    turns: BTreeMap<usize, u64>,
    /// What was decided, in the order in which it happened.
    taken: Vec<Decided>,
}

/// Given decisions that did not happen yet.
#[derive(Debug, Default)]
struct Given {
    turns: BTreeMap<usize, VecDeque<(Mono, u64)>>,
    ends: BTreeMap<u64, VecDeque<End>>,
    full: Vec<FullDisk>,
    wall: Vec<WallStep>,
}

/// What a client does when its timer comes.
enum Turn {
    /// It takes this turn.
    Take(u64),
    /// It waits.
    Wait(Mono),
}

/// The turn in which clients are told that faults are over.
const LAST_TURN: u64 = u32::MAX as u64;

impl Script {
    pub(super) fn new(decisions: Option<&Decisions>) -> Self {
        Self {
            given: decisions.map(Given::of),
            ..Self::default()
        }
    }

    /// Whether decisions are given: then what is done at each moment is counted.
    pub(super) const fn is_given(&self) -> bool {
        self.given.is_some()
    }

    fn turn(&mut self, client: usize, now: Mono, faults_end: Mono) -> Turn {
        let turn = match &mut self.given {
            None => {
                let turns = self.turns.entry(client).or_default();
                *turns += 1;
                *turns
            }
            Some(given) => {
                let turns = given.turns.entry(client).or_default();
                match turns.front() {
                    None => return Turn::Wait(faults_end),
                    Some((at, _)) if *at > now => return Turn::Wait(*at),
                    Some((_, turn)) => {
                        let turn = *turn;
                        turns.pop_front();
                        turn
                    }
                }
            }
        };
        self.taken.push(Decided::Act {
            client,
            at: now,
            turn,
        });
        Turn::Take(turn)
    }

    /// What was decided.
    pub(super) fn into_taken(self) -> Vec<Decided> {
        self.taken
    }
}

impl Given {
    fn of(decisions: &Decisions) -> Self {
        let mut given = Self::default();
        for event in &decisions.events {
            match event {
                Decided::Act { client, at, turn } => {
                    let turns = given.turns.entry(*client).or_default();
                    turns.push_back((*at, *turn));
                }
                Decided::End(end) => given.ends.entry(end.life).or_default().push_back(*end),
                Decided::FullDisk(full) => given.full.push(*full),
                Decided::WallStep(step) => given.wall.push(*step),
                // They are looked up where the dice are.
                Decided::Strike(_) => {}
            }
        }
        given
    }
}

impl World {
    /// A client's timer has come.
    pub(super) fn timer(&mut self, client: usize, tag: u64) {
        let decides = tag < crate::workload::HOST_TIMERS && client < self.clients.len();
        if decides && self.phase == Phase::Faults {
            match self.script.turn(client, self.clock.mono(), self.faults_end) {
                Turn::Take(turn) => self.choices.turn(client as u64, turn),
                Turn::Wait(until) => return self.clock.at(until, Event::Timer { client, tag }),
            }
        }
        self.with_client(client, |client, cx| client.timer(tag, cx));
    }

    /// Tells a client that faults are over.
    pub(super) fn finish(&mut self, client: usize) {
        self.choices.turn(client as u64, LAST_TURN);
        self.with_client(client, |client, cx| client.finish(cx));
    }

    /// The next end of a life that is given; `None` if none is, or decisions are not given.
    pub(super) fn given_end(&mut self, life: u64) -> Option<Option<Crash>> {
        let given = self.script.given.as_mut()?;
        let end = given.ends.get_mut(&life).and_then(VecDeque::pop_front);
        Some(end.map(|end| Crash {
            when: match end.amid {
                Some(amid) if end.by_kind => When::Amid(amid),
                _ => When::At {
                    at: end.at,
                    nth: end.nth,
                },
            },
            death: match end.how {
                Ending::Killed => Some(Death::Process),
                Ending::PowerLoss => Some(Death::Power),
                Ending::Stop => None,
            },
        }))
    }

    /// Writes down that a life ends at this moment, the `nth` of this time.
    pub(super) fn note_end(
        &mut self,
        (life, nth): (u64, u64),
        amid: Option<Amid>,
        death: Option<Death>,
    ) {
        self.script.taken.push(Decided::End(End {
            life,
            at: self.clock.mono(),
            nth,
            how: match death {
                Some(Death::Process) => Ending::Killed,
                Some(Death::Power) => Ending::PowerLoss,
                None => Ending::Stop,
            },
            amid,
            by_kind: false,
        }));
    }

    /// Schedules the first full disk and the first step of the wall clock, or all that are given.
    pub(super) fn schedule_phases(&mut self) {
        match &self.script.given {
            None => {
                self.draw_full_disk(0);
                self.draw_wall_step();
            }
            Some(given) => {
                for full in &given.full {
                    self.clock.at(full.at, Event::Full(0, *full));
                }
                for step in &given.wall {
                    self.clock.at(step.at, Event::StepWall(*step));
                }
            }
        }
    }

    /// Draws the next time at which the disk is full, `after_ns` from now or later.
    fn draw_full_disk(&mut self, after_ns: u64) {
        let Some(mean) = self.swarm.full_disk_every_ns else {
            return;
        };
        let choices = &mut self.choices;
        let after = after_ns + choices.exponential(Subsystem::FullDisk, 0, mean);
        let at = Mono(self.clock.mono().0 + after);
        let free_bytes = choices.between(Subsystem::FullDisk, 0, 0, 4_000);
        let lasts_ns = choices.exponential(Subsystem::FullDisk, 0, 100 * MILLISECOND);
        let full = FullDisk {
            at,
            free_bytes,
            lasts_ns,
        };
        self.clock.at(at, Event::Full(0, full));
    }

    fn draw_wall_step(&mut self) {
        let Some(mean) = self.swarm.wall_steps_every_ns else {
            return;
        };
        let choices = &mut self.choices;
        let after = choices.exponential(Subsystem::WallClock, 0, mean);
        let at = Mono(self.clock.mono().0 + after);
        let by_ms = choices.pick(Subsystem::WallClock, 0, &[-3_600_000, -50, 50, 3_600_000]);
        self.clock.at(at, Event::StepWall(WallStep { at, by_ms }));
    }

    /// The disk of a node fills up.
    pub(super) fn fill_disk(&mut self, node: usize, full: FullDisk) {
        if self.phase != Phase::Faults {
            return;
        }
        self.script.taken.push(Decided::FullDisk(full));
        let free = full.free_bytes;
        self.say(
            Sign::Fault,
            Lane::Disk,
            format_args!("the disk has room for {free} more bytes"),
        );
        self.struck(node, Fault::FullDisk);
        self.nodes[node].disk.set_free_bytes(Some(free));
        self.nodes[node].faults_in_life += 1;
        self.oracle.disk_is_ill();
        self.clock.after(full.lasts_ns, Event::Room { node });
        if self.script.given.is_none() {
            self.draw_full_disk(full.lasts_ns);
        }
    }

    /// The wall clock steps.
    pub(super) fn step_wall(&mut self, step: WallStep) {
        if self.phase != Phase::Faults {
            return;
        }
        self.script.taken.push(Decided::WallStep(step));
        let by = step.by_ms;
        self.say(
            Sign::Fault,
            Lane::Broker,
            format_args!("the wall clock steps by {by} ms"),
        );
        self.struck(0, Fault::WallStep);
        self.oracle.wall_steps(by, &self.nodes[0].disk);
        self.clock.step_wall(by);
        if self.script.given.is_none() {
            self.draw_wall_step();
        }
    }
}
