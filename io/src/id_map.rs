//! A map by numbers that this process gave out itself, one after the other.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map whose keys no client chooses: they need no hash that withstands an adversary, and a step
/// looks up two of them.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Spreads numbers that follow each other (Fibonacci hashing).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write_u64(&mut self, id: u64) {
        // The map takes the low bits for the place and the high ones for a tag.
        self.0 = (self.0 ^ id)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(32);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::Hash;

    use odradek_core::ids::ConnectionId;

    use super::*;

    #[test]
    fn ids_that_follow_each_other_are_spread() {
        let places = |bits: u32, shift: u32| -> usize {
            let place = |id| {
                let mut hasher = IdHasher::default();
                ConnectionId(id).hash(&mut hasher);
                hasher.finish() >> shift & ((1 << bits) - 1)
            };
            (0..1 << bits).map(place).collect::<HashSet<u64>>().len()
        };
        // At random it would be 63 of a hundred.
        assert!(places(10, 0) > 700, "{}", places(10, 0));
        assert!(places(7, 57) > 90, "{}", places(7, 57));
    }
}
