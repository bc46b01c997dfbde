//! Every random decision of a run, each with an address.
//!
//! A decision is drawn from a ChaCha stream of its own (subsystem, entity), at its ordinal in that
//! stream. So an edit elsewhere, or one decision more for another entity, leaves it as it was, and
//! a failing run can be made smaller by taking decisions away one at a time. A fault that is off
//! draws nothing.

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

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
    /// Damage done to files while nothing runs. Entity: the inode.
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
}

/// Where decisions come from.
#[derive(Debug)]
pub struct Choices {
    seed: u64,
    /// By subsystem, then by entity: most entities are small numbers.
    near: [Vec<Option<Box<Stream>>>; SUBSYSTEMS],
    far: BTreeMap<(Subsystem, u64), Box<Stream>>,
}

/// One more than the largest number of a subsystem.
const SUBSYSTEMS: usize = Subsystem::ReportDelay as usize + 1;

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
        }
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

    /// Whether something happens. Draws nothing if it never or always does.
    pub fn chance(&mut self, subsystem: Subsystem, entity: u64, odds: Odds) -> bool {
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
        exponential(self.draw(subsystem, entity), mean)
    }

    /// The numbers of a decision that needs many. It counts as one decision of its stream.
    pub fn dice(&mut self, subsystem: Subsystem, entity: u64) -> Dice {
        let seed = self.seed;
        let stream = self.stream(subsystem, entity);
        stream.ordinal += 1;
        let ordinal = stream.ordinal;
        Dice {
            random: keyed(seed, subsystem, entity, ordinal),
        }
    }

    fn stream(&mut self, subsystem: Subsystem, entity: u64) -> &mut Stream {
        let seed = self.seed;
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
}
