//! Which partition a record goes to, as Kafka's default partitioner decides it: by the murmur2 hash
//! of its key, and without a key to one partition until a batch's worth of bytes has gone there
//! (KIP-480, KIP-794; not adapted to the brokers' speed).

use crate::client::metadata::PartitionInfo;
use crate::client::step::Step;

/// The partition for a key, among `partitions`, which is not 0.
pub(super) fn partition_for_key(key: &[u8], partitions: usize) -> usize {
    let positive = murmur2(key) & 0x7fff_ffff;
    positive as usize % partitions.max(1)
}

/// MurmurHash2 with Kafka's seed, as `org.apache.kafka.common.utils.Utils.murmur2`.
pub(super) fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;

    let mut hash = SEED ^ data.len() as u32;
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// Where the records of a topic that have no key go at present.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sticky {
    partition: Option<usize>,
    bytes: usize,
}

impl Sticky {
    /// The partition for a record of `bytes`: another one once `batch_size` bytes have gone to the
    /// last. Only partitions with a leader are chosen, if there are any. `partitions` is not empty.
    pub(super) fn partition_for(
        &mut self,
        step: &mut Step<'_>,
        partitions: &[PartitionInfo],
        bytes: usize,
        batch_size: usize,
    ) -> usize {
        let current = self
            .partition
            .filter(|current| *current < partitions.len() && self.bytes < batch_size);
        let chosen = current.unwrap_or_else(|| {
            self.bytes = 0;
            self.choose(step, partitions)
        });
        self.partition = Some(chosen);
        self.bytes = self.bytes.saturating_add(bytes);
        chosen
    }

    /// Any partition but the current one, if there is another.
    fn choose(self, step: &mut Step<'_>, partitions: &[PartitionInfo]) -> usize {
        let led = |index: &usize| {
            partitions
                .get(*index)
                .is_some_and(|partition| partition.leader.is_some())
        };
        let all = 0..partitions.len();
        let others = |index: &usize| Some(*index) != self.partition;
        let count = all.clone().filter(led).filter(others).count();
        if count > 0 {
            let nth = step.draw(count);
            if let Some(index) = all.clone().filter(led).filter(others).nth(nth) {
                return index;
            }
        }
        // Only the current one is led, or none is.
        self.partition
            .filter(led)
            .unwrap_or_else(|| step.draw(partitions.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::effect::ClientEffects;
    use crate::ids::NodeId;
    use crate::time::Now;
    use rand_chacha::ChaCha12Rng;
    use rand_core::SeedableRng;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn keys_hash_as_in_kafkas_own_tests() {
        // UtilsTest.testMurmur2 of Apache Kafka.
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()) as i32, hash, "{key}");
        }
        assert_eq!(
            partition_for_key(b"21", 7),
            (-973_932_308_i32 & i32::MAX) as usize % 7
        );
    }

    #[test]
    fn records_without_a_key_stay_together_for_a_batch_and_then_move() {
        let mut rng = ChaCha12Rng::from_seed([3; 32]);
        let mut out = ClientEffects::new();
        let mut step = Step {
            now: Now::default(),
            out: &mut out,
            rng: &mut rng,
        };
        let info = |leader| PartitionInfo {
            leader,
            leader_epoch: None,
        };
        let leader = Some(NodeId(1));
        let partitions = vec![info(leader), info(None), info(leader), info(leader)];
        let mut sticky = Sticky::default();
        let chosen: Vec<usize> = (0..400)
            .map(|_| sticky.partition_for(&mut step, &partitions, 100, 1_000))
            .collect();
        let mut seen = [0; 4];
        for (index, batch) in chosen.chunks(10).enumerate() {
            assert!(batch.iter().all(|partition| *partition == batch[0]));
            assert!(index == 0 || chosen[index * 10 - 1] != batch[0], "it moves");
            seen[batch[0]] += 1;
        }
        assert!(seen[0] > 5 && seen[2] > 5 && seen[3] > 5, "{seen:?}");
        assert_eq!(seen[1], 0, "no leader");
    }
}
