//! Makes a failing run small: takes decisions away while the same check still fails.
//!
//! The run is given as its [`Decisions`], and every attempt is those with some left out or changed.
//! What is left of them is always what a run did, not what it was told: a fault that no longer comes,
//! or a turn that is no longer taken, is gone by itself.
//!
//! From coarse to fine: durations that need not vary, whole kinds of faults, whole clients, then
//! halves, quarters, ... single events (delta debugging). Taking a request away moves what comes after
//! it by some microseconds, and a crash that has to fall between two effects then misses: so once
//! little is left, an attempt that does not fail is made again with ends and dice that differ a
//! little, and with the crash wherever the same is being done as where it struck. Where nothing can be
//! taken away any more and much is left, the same is done with more dice; and then, as of a race that
//! needs its luck, runs without a part of the events are tried with ever other dice until one of them
//! has that luck.

use std::collections::{BTreeMap, BTreeSet};

use odradek_core::time::Mono;

use crate::choices::Subsystem;
use crate::clock::{MICROSECOND, MILLISECOND};
use crate::decisions::{Decided, Decisions, Ending};

pub use self::attempts::Attempts;

mod attempts;

/// A run that failed the check that it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What it did.
    pub decisions: Decisions,
    /// Requests of clients, without routine ones.
    pub operations: u64,
    /// Faults that struck.
    pub faults: u64,
    /// Requests of clients that are routine.
    pub routine: u64,
    /// Clients that it had.
    pub clients: usize,
}

/// How far a shrink has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Runs done.
    pub runs: u64,
    /// Requests of clients that are left.
    pub operations: u64,
    /// Faults that are left.
    pub faults: u64,
}

/// From how many events on a removal that does not fail is made again in other ways.
const FEW: usize = 40;

/// From how many on only its crash is tried elsewhere.
const SOME: usize = 120;

/// In how many ways.
const OTHER_WAYS: u64 = 10;

/// At how many of the moments at which the same is being done a crash is tried, and with how many dice of
/// what it leaves; and with how many once nothing else can be taken away.
const SAME_MOMENTS: u64 = 5;
const DICE: u64 = 4;
const MORE_DICE: u64 = 20;

/// A run smaller than this is small enough to stop looking for other ways.
const GOAL: u64 = 20;

/// How many runs of a part of the events are tried before what is left is taken for all that there
/// is.
const LUCK: u64 = 12_000;

/// What durations and dice a shrink may do without or change.
const DURATIONS: [Subsystem; 4] = [
    Subsystem::DiskLatency,
    Subsystem::NetworkLatency,
    Subsystem::Lateness,
    Subsystem::ReportDelay,
];

/// Takes away what it can. `fails` does a run with the decisions given and says what it did if the
/// check failed; `may_go_on` hears of every run.
pub fn shrink(
    failed: Failed,
    fails: impl FnMut(&Decisions) -> Option<Failed>,
    may_go_on: impl FnMut(Progress) -> bool,
) -> Failed {
    let mut shrinker = Shrinker {
        best: failed,
        fails,
        may_go_on,
        runs: 0,
        is_over: false,
        dice: DICE,
    };
    shrinker.steady();
    loop {
        let before = shrinker.standing();
        shrinker.kinds();
        shrinker.clients();
        shrinker.end_faults_early();
        shrinker.events();
        shrinker.pairs();
        if shrinker.best.size() > GOAL {
            shrinker.other_dice();
        }
        shrinker.knobs();
        let is_stuck = shrinker.standing() == before;
        if shrinker.is_over || is_stuck && !shrinker.more_dice() && !shrinker.luck() {
            return shrinker.best;
        }
    }
}

impl Failed {
    /// What counts: operations and faults.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.operations + self.faults
    }

    /// What is better when this is smaller.
    fn rank(&self) -> Rank {
        Rank {
            size: self.size(),
            events: self.decisions.events.len(),
            present: self.clients.saturating_sub(self.decisions.absent.len()),
            routine: self.routine,
        }
    }
}

/// How good a run is, the most important first; less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    size: u64,
    events: usize,
    present: usize,
    routine: u64,
}

struct Shrinker<F, G> {
    best: Failed,
    fails: F,
    may_go_on: G,
    runs: u64,
    is_over: bool,
    /// With how many dice a crash is tried where the same is being done.
    dice: u64,
}

impl<F, G> Shrinker<F, G>
where
    F: FnMut(&Decisions) -> Option<Failed>,
    G: FnMut(Progress) -> bool,
{
    /// Does a run; what it did, if it failed.
    fn run(&mut self, decisions: &Decisions) -> Option<Failed> {
        let progress = Progress {
            runs: self.runs,
            operations: self.best.operations,
            faults: self.best.faults,
        };
        self.is_over |= !(self.may_go_on)(progress);
        if self.is_over {
            return None;
        }
        self.runs += 1;
        (self.fails)(decisions)
    }

    /// Takes an attempt over if it fails and is no larger; whether it was.
    fn attempt(&mut self, decisions: &Decisions) -> bool {
        self.attempt_at_most(decisions, self.best.rank())
    }

    fn attempt_at_most(&mut self, decisions: &Decisions, limit: Rank) -> bool {
        match self.run(decisions) {
            Some(failed) if failed.rank() <= limit => {
                self.best = failed;
                true
            }
            _ => false,
        }
    }

    /// Takes an attempt over if it fails and is smaller; whether it was.
    fn attempt_to_improve(&mut self, decisions: &Decisions) -> bool {
        let best = self.best.rank();
        match self.run(decisions) {
            Some(failed) if failed.rank() < best => {
                self.best = failed;
                true
            }
            _ => false,
        }
    }

    /// What must change for another round to be worth it: not the dice.
    fn standing(&self) -> (Rank, BTreeMap<u64, u64>) {
        (self.best.rank(), self.best.decisions.mix.clone())
    }

    /// An attempt, and if it does not fail, the same in other ways.
    fn attempt_in_other_ways(&mut self, decisions: &Decisions) -> bool {
        if self.attempt(decisions) {
            return true;
        }
        let (limit, events) = (self.best.rank(), decisions.events.len());
        let other = |way| other_way(decisions, way);
        let moved = |way| {
            let (before, dice) = (way % SAME_MOMENTS, way / SAME_MOMENTS);
            crash_amid_the_same(decisions, |nth| nth.saturating_sub(before), dice)
        };
        let others = (0..OTHER_WAYS).filter(|_| events <= FEW).filter_map(other);
        let moved = (0..SAME_MOMENTS * self.dice)
            .filter(|_| events <= SOME)
            .filter_map(moved);
        let mut ways = others.chain(moved);
        ways.any(|way| self.attempt_at_most(&way, limit))
    }

    /// The best so far, changed.
    fn changed(&self, change: impl FnOnce(&mut Decisions)) -> Decisions {
        let mut decisions = self.best.decisions.clone();
        change(&mut decisions);
        decisions
    }

    /// The best so far without some events.
    fn without(&self, leaves: impl Fn(&Decided) -> bool) -> Decisions {
        self.changed(|decisions| decisions.events.retain(|event| !leaves(event)))
    }

    /// All durations at their means. Everything after this is easier, so it may cost something.
    fn steady(&mut self) {
        let mut limit = self.best.rank();
        limit.size += limit.size / 4;
        let all = self.changed(|decisions| decisions.steady.extend(DURATIONS));
        if self.attempt_at_most(&all, limit) {
            return;
        }
        for subsystem in DURATIONS {
            let one = self.changed(|decisions| {
                decisions.steady.insert(subsystem);
            });
            self.attempt_at_most(&one, limit);
        }
    }

    /// Whole kinds of faults.
    fn kinds(&mut self) {
        let no_faults = self.without(Decided::is_fault);
        if no_faults.events.len() < self.best.decisions.events.len() && self.attempt(&no_faults) {
            return;
        }
        let kinds: BTreeSet<Kind> = self.best.decisions.events.iter().map(Kind::of).collect();
        for kind in kinds {
            if kind != Kind::Act {
                let without = self.without(|event| Kind::of(event) == kind);
                self.attempt(&without);
            }
        }
    }

    /// Whole clients.
    fn clients(&mut self) {
        let acting = |event: &Decided| match event {
            Decided::Act { client, .. } => Some(*client),
            _ => None,
        };
        // Those too that take no turn: some do something only when faults are over.
        for client in (0..self.best.clients).rev() {
            if self.best.decisions.absent.contains(&client) {
                continue;
            }
            let mut without = self.without(|event| acting(event) == Some(client));
            without.absent.insert(client);
            self.attempt_in_other_ways(&without);
        }
    }

    /// An earlier end of faults and workload.
    fn end_faults_early(&mut self) {
        loop {
            let decisions = &self.best.decisions;
            let last = decisions.events.iter().filter_map(Decided::at).max();
            let last = last.unwrap_or_default().0 + MICROSECOND;
            let now = decisions.faults_end.0;
            let ends = [
                last,
                last + MILLISECOND,
                last + 20 * MILLISECOND,
                last + now.saturating_sub(last) / 2,
            ];
            let earlier = ends.into_iter().filter(|end| end + MILLISECOND < now);
            let earlier: Vec<u64> = earlier.collect();
            let found = earlier.into_iter().any(|end| {
                let sooner = self.changed(|decisions| decisions.faults_end = Mono(end));
                self.attempt(&sooner)
            });
            if !found {
                return;
            }
        }
    }

    /// Delta debugging over the events: ever smaller pieces are taken out.
    fn events(&mut self) {
        let mut piece = self.best.decisions.events.len().div_ceil(2);
        while piece > 0 && !self.is_over {
            let mut from = 0;
            while from < self.best.decisions.events.len() && !self.is_over {
                let without = self.changed(|decisions| {
                    let to = decisions.events.len().min(from + piece);
                    decisions.events.drain(from..to);
                });
                if !self.attempt_in_other_ways(&without) {
                    from += piece;
                }
            }
            piece /= 2;
        }
    }

    /// Two events at a time, which may be needed only for each other.
    fn pairs(&mut self) {
        let mut first = 0;
        while self.best.decisions.events.len() <= FEW
            && first < self.best.decisions.events.len()
            && !self.is_over
        {
            let mut second = first + 1;
            let mut found = false;
            while second < self.best.decisions.events.len() && !found {
                let without = self.changed(|decisions| {
                    decisions.events.remove(second);
                    decisions.events.remove(first);
                });
                found = self.attempt(&without);
                second += 1;
            }
            if !found {
                first += 1;
            }
        }
    }

    /// Other dice and other moments, for what they may make smaller by themselves.
    fn other_dice(&mut self) {
        for way in 0..4 * OTHER_WAYS {
            if let Some(other) = other_way(&self.best.decisions, way) {
                self.attempt_to_improve(&other);
            }
        }
    }

    /// From here on more dice, where much is left; whether they were fewer before.
    const fn more_dice(&mut self) -> bool {
        let are_more = self.best.size() > GOAL && self.dice < MORE_DICE;
        if are_more {
            self.dice = MORE_DICE;
        }
        are_more
    }

    /// A half to an eighth less of what clients do, with other dice, until a run fails by luck; whether
    /// one did. Only where much is left.
    fn luck(&mut self) -> bool {
        if self.best.size() <= GOAL {
            return false;
        }
        (1..=LUCK).any(|round| {
            let other = self.changed(|decisions| {
                let mut place = 0;
                // Of little that is left, half is mostly too much.
                let one_of = 2 << (round % 3);
                decisions.events.retain(|event| {
                    place += 1;
                    event.is_fault() || !mixed(round, place).is_multiple_of(one_of)
                });
                for subsystem in DURATIONS {
                    decisions.again.insert(subsystem, round);
                }
                // Steady durations leave little to luck.
                if round.is_multiple_of(2) {
                    decisions.steady.clear();
                }
            });
            // Most of them come at another time too.
            let moved = crash_amid_the_same(&other, |nth| 1 + mixed(round, 0) % nth, round);
            let other = moved.filter(|_| round % 4 > 0).unwrap_or(other);
            !self.is_over && self.attempt_to_improve(&other)
        })
    }

    /// The simplest option of every knob of the mix: the first.
    fn knobs(&mut self) {
        let mix = &self.best.decisions.mix;
        let knobs: Vec<u64> = mix
            .iter()
            .filter(|(_, option)| **option > 0)
            .map(|(knob, _)| *knob)
            .collect();
        for knob in knobs {
            let simpler = self.changed(|decisions| {
                decisions.mix.insert(knob, 0);
            });
            self.attempt(&simpler);
        }
    }
}

/// A number that depends on both and looks like neither.
const fn mixed(round: u64, place: u64) -> u64 {
    let mut bits = round
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(place)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits ^= bits >> 31;
    bits = bits.wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 29
}

/// What events are taken away together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Act,
    Strike(Subsystem),
    End(Ending),
    FullDisk,
    WallStep,
}

impl Kind {
    const fn of(event: &Decided) -> Self {
        match event {
            Decided::Act { .. } => Self::Act,
            Decided::Strike(strike) => Self::Strike(strike.subsystem),
            Decided::End(end) => Self::End(end.how),
            Decided::FullDisk(_) => Self::FullDisk,
            Decided::WallStep(_) => Self::WallStep,
        }
    }
}

/// The last crash at another moment of its life at which the same is being done as where it struck, with
/// other dice for what it leaves. `None` if there is no crash, or no such moment.
fn crash_amid_the_same(
    decisions: &Decisions,
    which: impl FnOnce(u64) -> u64,
    dice: u64,
) -> Option<Decisions> {
    let mut other = decisions.clone();
    let mut ends = other
        .events
        .iter_mut()
        .rev()
        .filter_map(|event| match event {
            Decided::End(end) if end.how != Ending::Stop => Some(end),
            _ => None,
        });
    let end = ends.next()?;
    let amid = end.amid.as_mut()?;
    amid.nth = which(amid.nth);
    if amid.nth == 0 {
        return None;
    }
    end.by_kind = true;
    if dice > 0 {
        for subsystem in [Subsystem::Image, Subsystem::InFlight] {
            *other.again.entry(subsystem).or_default() += dice;
        }
    }
    Some(other)
}

/// Decisions that differ a little: ends a little earlier or later, the dice of power losses and
/// durations thrown again. `None` if there is nothing that this way could change.
fn other_way(decisions: &Decisions, way: u64) -> Option<Decisions> {
    let mut other = decisions.clone();
    let again = |other: &mut Decisions, subsystem, times: u64| {
        *other.again.entry(subsystem).or_default() += times;
    };
    // A few ways for the ends of processes, then a few for dice.
    let (round, way) = (way / OTHER_WAYS, way % OTHER_WAYS);
    match way {
        0..6 => {
            let mut any = false;
            for event in &mut other.events {
                match event {
                    Decided::End(end) => {
                        any = true;
                        let step = (round + 1) * [10, 100, 1_000][(way / 2) as usize] * MICROSECOND;
                        if way.is_multiple_of(2) {
                            end.at.0 = end.at.0.saturating_sub(step);
                        } else {
                            end.at.0 += step;
                        }
                    }
                    Decided::Strike(strike) if strike.ordinal > 1 => {
                        // Fewer moments at which it could strike are left.
                        any = true;
                        if way.is_multiple_of(2) {
                            strike.ordinal -= 1;
                        } else {
                            strike.ordinal += 1;
                        }
                    }
                    _ => {}
                }
            }
            any.then_some(other)
        }
        6 | 7 => {
            let mut any = false;
            for event in &mut other.events {
                if let Decided::End(end) = event {
                    any = true;
                    end.nth = if way == 6 {
                        end.nth.saturating_sub(1 + round).max(1)
                    } else {
                        end.nth + 1 + round
                    };
                }
            }
            any.then_some(other)
        }
        8 => {
            again(&mut other, Subsystem::Image, 1 + round);
            again(&mut other, Subsystem::InFlight, 1 + round);
            Some(other)
        }
        _ => {
            for subsystem in DURATIONS {
                again(&mut other, subsystem, 1 + round);
            }
            Some(other)
        }
    }
}

#[cfg(test)]
mod tests;
