//! Every random decision of a run, each with an address.
//!
//! A decision is drawn from a ChaCha stream of its own (subsystem, entity), at its ordinal in that
//! stream. So an edit elsewhere, or one decision more for another entity, leaves it as it was, and
//! a failing run can be made smaller by taking decisions away one at a time. A fault that is off
//! draws nothing.
//!
//! Decisions whether something happens at all (a fault, a knob of the mix) are remembered, so that a
//! run can be written down as [`Decisions`]; and they can be given, so that it can be done again with
//! some of them taken away.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use crate::decisions::{Decisions, Strike};

/// What a decision is about. The numbers are part of every seed's meaning: new ones go at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u64)]
pub enum Subsystem {
    /// The mix of a seed: features and fault rates.
    Swarm = 1,
    /// When a process crashes or loses power. Entity: the incarnation.
    Crash = 2,
    /// How long an operation on the disk takes. Entity: the inode, or the operation.
    DiskLatency = 3,
    /// Whether a write fails or is short. Entity: the inode.
    WriteFault = 4,
    /// Whether a flush fails, and how. Entity: the inode.
    FlushFault = 5,
    /// Whether a file-management operation fails. Entity: 0.
    ManageFault = 6,
    /// What a power loss leaves of the disk. Entity: the inode.
    Image = 7,
    /// What is done of an operation in flight when the process dies. Entity: its number.
    InFlight = 8,
    /// How long bytes travel. Entity: the connection.
    NetworkLatency = 9,
    /// Where a connection is cut or stalled. Entity: the connection.
    NetworkFault = 10,
    /// What a client does next. Entity: the client.
    Client = 11,
    /// What records hold. Entity: the client.
    Payload = 12,
    /// How late a deadline fires. Entity: the incarnation.
    Lateness = 13,
    /// Phases of a full disk. Entity: 0.
    FullDisk = 14,
    /// Steps of the wall clock. Entity: 0.
    WallClock = 15,
    /// Pages that the kernel evicts after a failed flush. Entity: the inode.
    Eviction = 16,
    /// Damage done to files while nothing runs. Entity: the incarnation that ended.
    Rot = 17,
    /// Graceful stops and restarts. Entity: the incarnation.
    Restart = 18,
    /// Whether a read job fails. Entity: 0.
    ReadFault = 19,
    /// The random bytes given to a broker at its start. Entity: the incarnation.
    BrokerSeed = 20,
    /// Whether a write is short. Entity: the inode.
    ShortWrite = 21,
    /// Whether the device stalls. Entity: the inode.
    DiskStall = 22,
    /// How long a completion takes to reach the broker. Entity: the incarnation.
    ReportDelay = 23,
    /// How long a node is down. Entity: the incarnation that ended.
    RestartDelay = 24,
    /// Whether the power goes right after a graceful stop. Entity: the incarnation.
    AfterStop = 25,
    /// Whether a sector turns out to be unreadable. Entity: the inode.
    LatentError = 26,
    /// Whether a read gives less than was asked for. Entity: the inode.
    ShortRead = 27,
    /// Whether a read gives what is somewhere else. Entity: the inode.
    MisdirectedRead = 28,
    /// Whether a page that is flushed ends up somewhere else. Entity: the inode.
    MisdirectedWrite = 29,
    /// Whether the process has no file descriptor left. Entity: the inode, or 0.
    Descriptors = 30,
    /// Whether the whole device stands still for seconds. Entity: 0.
    DeviceStall = 31,
    /// Whether the process pauses. Entity: the incarnation.
    Pause = 32,
    /// Damage done to files while a process runs. Entity: 0.
    RotWhileRunning = 33,
    /// Whether a client learns late that its connection was cut. Entity: the connection.
    LateClose = 34,
}

impl Subsystem {
    /// All of them.
    pub const ALL: [Self; SUBSYSTEMS - 1] = [
        Self::Swarm,
        Self::Crash,
        Self::DiskLatency,
        Self::WriteFault,
        Self::FlushFault,
        Self::ManageFault,
        Self::Image,
        Self::InFlight,
        Self::NetworkLatency,
        Self::NetworkFault,
        Self::Client,
        Self::Payload,
        Self::Lateness,
        Self::FullDisk,
        Self::WallClock,
        Self::Eviction,
        Self::Rot,
        Self::Restart,
        Self::ReadFault,
        Self::BrokerSeed,
        Self::ShortWrite,
        Self::DiskStall,
        Self::ReportDelay,
        Self::RestartDelay,
        Self::AfterStop,
        Self::LatentError,
        Self::ShortRead,
        Self::MisdirectedRead,
        Self::MisdirectedWrite,
        Self::Descriptors,
        Self::DeviceStall,
        Self::Pause,
        Self::RotWhileRunning,
        Self::LateClose,
    ];

    /// The one of a name, as [`Display`](fmt::Display) writes it.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|subsystem| subsystem.to_string() == name)
    }
}

impl fmt::Display for Subsystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Where decisions come from.
#[derive(Debug)]
pub struct Choices {
    seed: u64,
    /// By subsystem, then by entity: most entities are small numbers.
    near: [Vec<Option<Box<Stream>>>; SUBSYSTEMS],
    far: BTreeMap<(Subsystem, u64), Box<Stream>>,
    /// The decisions that are given, if the run is a case.
    given: Option<Given>,
    /// The faults that struck.
    strikes: Vec<Strike>,
    /// The knobs of the mix: which option each was set to.
    mix: BTreeMap<u64, u64>,
}

/// What a case decides, as it is looked up.
#[derive(Debug)]
struct Given {
    mix: BTreeMap<u64, u64>,
    strikes: BTreeSet<Strike>,
    steady: [bool; SUBSYSTEMS],
    /// What is added to the seed.
    again: [u64; SUBSYSTEMS],
}

/// One more than the largest number of a subsystem.
const SUBSYSTEMS: usize = Subsystem::LateClose as usize + 1;

/// Entities from this number on are looked up the slow way.
const FAR: u64 = 4_096;

/// One entity's decisions of one kind.
#[derive(Debug)]
struct Stream {
    random: ChaCha8Rng,
    ordinal: u64,
}

/// Odds in a million; zero is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Odds(pub u32);

/// The numbers of one decision that needs many, such as the image that a power loss leaves.
#[derive(Debug)]
pub struct Dice {
    random: ChaCha8Rng,
}

impl Choices {
    /// The decisions of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            near: [const { Vec::new() }; SUBSYSTEMS],
            far: BTreeMap::new(),
            given: None,
            strikes: Vec::new(),
            mix: BTreeMap::new(),
        }
    }

    /// The decisions of a case; those that it does not hold are the seed's.
    #[must_use]
    pub fn given(seed: u64, decisions: &Decisions) -> Self {
        let mut given = Given {
            mix: decisions.mix.clone(),
            strikes: decisions.strikes().collect(),
            steady: [false; SUBSYSTEMS],
            again: [0; SUBSYSTEMS],
        };
        for subsystem in &decisions.steady {
            given.steady[*subsystem as usize] = true;
        }
        for (subsystem, times) in &decisions.again {
            given.again[*subsystem as usize] = *times;
        }
        Self {
            given: Some(given),
            ..Self::new(seed)
        }
    }

    /// The faults that struck so far.
    #[must_use]
    pub fn strikes(&self) -> &[Strike] {
        &self.strikes
    }

    /// Which option each knob of the mix was set to.
    #[must_use]
    pub const fn mix(&self) -> &BTreeMap<u64, u64> {
        &self.mix
    }

    /// The seed.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The next decision of this stream, as a raw number.
    pub fn draw(&mut self, subsystem: Subsystem, entity: u64) -> u64 {
        let stream = self.stream(subsystem, entity);
        stream.ordinal += 1;
        stream.random.next_u64()
    }

    /// A knob of the mix: which of so many options, at least one, it is set to. No two decisions may
    /// share a knob.
    pub fn knob(&mut self, knob: u64, options: u64) -> u64 {
        let drawn = scale(self.draw(Subsystem::Swarm, knob), options);
        self.set_knob(knob, drawn).min(options - 1)
    }

    /// A knob of the mix that is on or off.
    pub fn switch(&mut self, knob: u64, odds: Odds) -> bool {
        let drawn = self.chance(Subsystem::Swarm, knob, odds);
        self.set_knob(knob, u64::from(drawn)) != 0
    }

    /// A knob that is off (0) but for a share of the seeds, and then set to one of so many options,
    /// counted from 1.
    pub fn rate(&mut self, knob: u64, share: Odds, options: u64) -> u64 {
        let drawn = if self.chance(Subsystem::Swarm, knob, share) {
            1 + scale(self.draw(Subsystem::Swarm, knob), options)
        } else {
            0
        };
        self.set_knob(knob, drawn).min(options)
    }

    fn set_knob(&mut self, knob: u64, drawn: u64) -> u64 {
        let given = self.given.as_ref();
        let option = given
            .and_then(|given| given.mix.get(&knob).copied())
            .unwrap_or(drawn);
        self.mix.insert(knob, option);
        option
    }

    /// Whether a fault strikes, and then the dice for how. Its streams hold nothing else, so that
    /// the ordinal of a strike counts the moments at which it could have come. Nothing is drawn, and
    /// no moment counted, while the fault is off.
    pub fn fault(&mut self, subsystem: Subsystem, entity: u64, odds: Odds) -> Option<Dice> {
        if odds.0 == 0 {
            return None;
        }
        let is_given = self.given.is_some();
        let stream = self.stream(subsystem, entity);
        let drawn = !is_given && scale(stream.random.next_u64(), 1_000_000) < u64::from(odds.0);
        stream.ordinal += 1;
        let strike = Strike {
            subsystem,
            entity,
            ordinal: stream.ordinal,
        };
        let strikes = match &self.given {
            Some(given) => given.strikes.contains(&strike),
            None => drawn,
        };
        if !strikes {
            return None;
        }
        self.strikes.push(strike);
        let random = keyed(self.seed_of(subsystem), subsystem, entity, strike.ordinal);
        Some(Dice { random })
    }

    /// A client's turn: what it decides from now on depends on the number of the turn alone, not on
    /// the turns before it, so that one of those can be left out.
    pub fn turn(&mut self, client: u64, turn: u64) {
        for subsystem in [Subsystem::Client, Subsystem::Payload] {
            let seed = self.seed_of(subsystem);
            let stream = self.stream(subsystem, client);
            // Below it, the decisions of this turn are counted.
            stream.ordinal = turn << 32;
            stream.random = keyed(seed, subsystem, client, stream.ordinal);
        }
    }

    /// What a subsystem's streams start from.
    fn seed_of(&self, subsystem: Subsystem) -> u64 {
        let again = self
            .given
            .as_ref()
            .map_or(0, |given| given.again[subsystem as usize]);
        self.seed ^ again.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn is_steady(&self, subsystem: Subsystem) -> bool {
        let given = self.given.as_ref();
        given.is_some_and(|given| given.steady[subsystem as usize])
    }

    /// Whether something happens. Draws nothing if it never or always does.
    pub fn chance(&mut self, subsystem: Subsystem, entity: u64, odds: Odds) -> bool {
        if self.is_steady(subsystem) {
            return false;
        }
        match odds.0 {
            0 => false,
            1_000_000.. => true,
            n => scale(self.draw(subsystem, entity), 1_000_000) < u64::from(n),
        }
    }

    /// A number from `low` up to and including `high`. Draws nothing if there is only one.
    pub fn between(&mut self, subsystem: Subsystem, entity: u64, low: u64, high: u64) -> u64 {
        if high <= low {
            return low;
        }
        low + scale(self.draw(subsystem, entity), high - low + 1)
    }

    /// One of these.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<T: Copy>(&mut self, subsystem: Subsystem, entity: u64, from: &[T]) -> T {
        let index = scale(self.draw(subsystem, entity), from.len() as u64);
        from[index as usize]
    }

    /// A duration that is roughly exponential around `mean`, at most sixteen times as long.
    pub fn exponential(&mut self, subsystem: Subsystem, entity: u64, mean: u64) -> u64 {
        if mean == 0 {
            return 0;
        }
        if self.is_steady(subsystem) {
            return mean;
        }
        exponential(self.draw(subsystem, entity), mean)
    }

    /// The numbers of a decision that needs many. It counts as one decision of its stream.
    pub fn dice(&mut self, subsystem: Subsystem, entity: u64) -> Dice {
        let seed = self.seed_of(subsystem);
        let stream = self.stream(subsystem, entity);
        stream.ordinal += 1;
        let ordinal = stream.ordinal;
        Dice {
            random: keyed(seed, subsystem, entity, ordinal),
        }
    }

    fn stream(&mut self, subsystem: Subsystem, entity: u64) -> &mut Stream {
        let seed = self.seed_of(subsystem);
        let new = || {
            Box::new(Stream {
                random: keyed(seed, subsystem, entity, 0),
                ordinal: 0,
            })
        };
        if entity >= FAR {
            return self.far.entry((subsystem, entity)).or_insert_with(new);
        }
        let entities = &mut self.near[subsystem as usize];
        let place = entity as usize;
        if entities.len() <= place {
            entities.resize_with(place + 1, || None);
        }
        entities[place].get_or_insert_with(new)
    }
}

impl Dice {
    /// A raw number.
    pub fn draw(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// Whether something happens; draws nothing if it never or always does.
    pub fn chance(&mut self, odds: Odds) -> bool {
        match odds.0 {
            0 => false,
            1_000_000.. => true,
            n => self.below(1_000_000) < u64::from(n),
        }
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: u64) -> u64 {
        scale(self.draw(), end)
    }

    /// A number from `low` up to and including `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        if high <= low {
            return low;
        }
        low + self.below(high - low + 1)
    }

    /// One of these.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let index = self.below(from.len() as u64);
        from[index as usize]
    }

    /// Roughly exponential around `mean`, at most sixteen times as long.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        exponential(self.draw(), mean)
    }

    /// Fills a buffer.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        self.random.fill_bytes(buffer);
    }
}

/// The address is the key, so that no two streams share a byte.
fn keyed(seed: u64, subsystem: Subsystem, entity: u64, ordinal: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    for (bytes, word) in key
        .chunks_exact_mut(8)
        .zip([seed, subsystem as u64, entity, ordinal])
    {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    ChaCha8Rng::from_seed(key)
}

/// Maps a raw number to below `end` by multiplication: no division, and no loop, so that one
/// decision is always one word.
const fn scale(raw: u64, end: u64) -> u64 {
    ((raw as u128 * end as u128) >> 64) as u64
}

/// The number of leading zeros is geometric; with a linear part between the powers it is an
/// exponential distribution without floats.
fn exponential(raw: u64, mean: u64) -> u64 {
    let zeros = u64::from(raw.leading_zeros()).min(15);
    let part = (raw & 0xffff) * mean / 0x10000;
    // An exponential halves every 0.69 means.
    (zeros * mean + part) * 69 / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_does_not_move_when_another_stream_draws_more() {
        let mut alone = Choices::new(7);
        let mut crowded = Choices::new(7);
        let expected: Vec<u64> = (0..20)
            .map(|_| alone.draw(Subsystem::FlushFault, 3))
            .collect();
        let found: Vec<u64> = (0..20)
            .map(|i| {
                for _ in 0..i {
                    crowded.draw(Subsystem::FlushFault, 4);
                    crowded.draw(Subsystem::Crash, 3);
                    crowded.dice(Subsystem::Image, 3);
                }
                crowded.draw(Subsystem::FlushFault, 3)
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_fault_that_is_off_draws_nothing() {
        let mut choices = Choices::new(7);
        let first = Choices::new(7).draw(Subsystem::WriteFault, 0);
        assert!(!choices.chance(Subsystem::WriteFault, 0, Odds(0)));
        assert!(choices.chance(Subsystem::WriteFault, 0, Odds(1_000_000)));
        assert_eq!(choices.between(Subsystem::WriteFault, 0, 5, 5), 5);
        assert_eq!(choices.draw(Subsystem::WriteFault, 0), first);
    }

    #[test]
    fn seeds_and_entities_differ() {
        let draw = |seed, entity| Choices::new(seed).draw(Subsystem::Client, entity);
        assert_ne!(draw(1, 1), draw(2, 1));
        assert_ne!(draw(1, 1), draw(1, 2));
        assert_eq!(draw(1, 1), draw(1, 1));
    }

    #[test]
    fn odds_come_out_as_asked_and_durations_average_near_their_mean() {
        let mut choices = Choices::new(1);
        let hits = (0..10_000)
            .filter(|_| choices.chance(Subsystem::Client, 0, Odds(250_000)))
            .count();
        assert!((2_300..2_700).contains(&hits), "{hits}");
        let sum: u64 = (0..10_000)
            .map(|_| choices.exponential(Subsystem::DiskLatency, 0, 1_000))
            .sum();
        assert!((900..1_200).contains(&(sum / 10_000)), "{sum}");
    }

    /// Asks fifty times whether a flush of inode 3 fails, and throws the dice of those that do.
    fn strikes(choices: &mut Choices) -> Vec<(usize, u64)> {
        (0..50)
            .filter_map(|i| {
                let dice = choices.fault(Subsystem::FlushFault, 3, Odds(200_000));
                Some((i, dice?.draw()))
            })
            .collect()
    }

    #[test]
    fn a_fault_that_is_taken_away_leaves_the_others_as_they_were() {
        let mut drawn = Choices::new(7);
        let all = strikes(&mut drawn);
        assert!(all.len() > 3);
        let kept = Decisions {
            events: drawn
                .strikes()
                .iter()
                .skip(1)
                .map(|strike| crate::decisions::Decided::Strike(*strike))
                .collect(),
            ..Decisions::default()
        };
        let mut given = Choices::given(7, &kept);
        assert_eq!(strikes(&mut given), all[1..]);
        assert_eq!(given.strikes(), &drawn.strikes()[1..]);
    }

    #[test]
    fn a_turn_decides_the_same_whatever_turns_came_before() {
        let turn = |turns: &[u64]| {
            let mut choices = Choices::new(7);
            let mut last = Vec::new();
            for turn in turns {
                choices.turn(2, *turn);
                last = (0..3).map(|_| choices.draw(Subsystem::Client, 2)).collect();
                last.push(choices.dice(Subsystem::Payload, 2).draw());
            }
            last
        };
        assert_eq!(turn(&[1, 2, 3]), turn(&[3]));
        assert_ne!(turn(&[1, 2]), turn(&[3]));
    }

    #[test]
    fn a_knob_that_is_given_is_set_to_that() {
        let decisions = Decisions {
            mix: [(5, 2), (6, 9), (7, 1)].into(),
            ..Decisions::default()
        };
        let mut choices = Choices::given(7, &decisions);
        assert_eq!(choices.knob(5, 4), 2);
        // There were more options once.
        assert_eq!(choices.knob(6, 3), 2);
        assert!(choices.switch(7, Odds(0)));
        assert_eq!(choices.rate(5, Odds(1), 4), 2);
        let drawn = Choices::new(7).knob(8, 1_000);
        assert_eq!(choices.knob(8, 1_000), drawn);
    }

    #[test]
    fn what_is_steady_takes_its_mean() {
        let decisions = Decisions {
            steady: [Subsystem::DiskLatency].into(),
            ..Decisions::default()
        };
        let mut choices = Choices::given(7, &decisions);
        assert_eq!(choices.exponential(Subsystem::DiskLatency, 1, 500), 500);
        assert_ne!(choices.exponential(Subsystem::NetworkLatency, 1, 500), 500);
    }

    #[test]
    fn every_subsystem_has_a_name_of_its_own() {
        for (number, subsystem) in Subsystem::ALL.into_iter().enumerate() {
            assert_eq!(subsystem as usize, number + 1);
            assert_eq!(Subsystem::by_name(&subsystem.to_string()), Some(subsystem));
        }
        assert_eq!(Subsystem::by_name("Weather"), None);
    }
}
