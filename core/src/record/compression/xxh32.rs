//! xxHash, 32 bits: the checksum of the LZ4 frame format.

const PRIME_1: u32 = 0x9e37_79b1;
const PRIME_2: u32 = 0x85eb_ca77;
const PRIME_3: u32 = 0xc2b2_ae3d;
const PRIME_4: u32 = 0x27d4_eb2f;
const PRIME_5: u32 = 0x1656_67b1;

/// The checksum of bytes that come in pieces, with seed 0.
pub(super) struct Xxh32 {
    lanes: [u32; 4],
    /// What does not make a stripe of 16 yet.
    rest: [u8; 16],
    rest_len: usize,
    total: u64,
}

pub(super) fn xxh32(bytes: &[u8]) -> u32 {
    let mut hash = Xxh32::new();
    hash.update(bytes);
    hash.finish()
}

impl Xxh32 {
    pub(super) const fn new() -> Self {
        Self {
            lanes: [
                PRIME_1.wrapping_add(PRIME_2),
                PRIME_2,
                0,
                0u32.wrapping_sub(PRIME_1),
            ],
            rest: [0; 16],
            rest_len: 0,
            total: 0,
        }
    }

    pub(super) fn update(&mut self, mut bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if self.rest_len > 0 {
            let space = self.rest.get_mut(self.rest_len..).unwrap_or_default();
            let count = space.len().min(bytes.len());
            let (head, tail) = bytes.split_at(count);
            if let Some(space) = space.get_mut(..count) {
                space.copy_from_slice(head);
            }
            self.rest_len += count;
            bytes = tail;
            if self.rest_len < 16 {
                return;
            }
            let rest = self.rest;
            self.stripe(&rest);
            self.rest_len = 0;
        }
        let (stripes, rest) = bytes.as_chunks::<16>();
        for stripe in stripes {
            self.stripe(stripe);
        }
        if let Some(space) = self.rest.get_mut(..rest.len()) {
            space.copy_from_slice(rest);
        }
        self.rest_len = rest.len();
    }

    pub(super) fn finish(&self) -> u32 {
        let mut hash = if self.total >= 16 {
            let [a, b, c, d] = self.lanes;
            a.rotate_left(1)
                .wrapping_add(b.rotate_left(7))
                .wrapping_add(c.rotate_left(12))
                .wrapping_add(d.rotate_left(18))
        } else {
            PRIME_5
        };
        hash = hash.wrapping_add(self.total as u32);
        let (words, bytes) = self
            .rest
            .get(..self.rest_len)
            .unwrap_or_default()
            .as_chunks();
        for word in words {
            hash = hash
                .wrapping_add(u32::from_le_bytes(*word).wrapping_mul(PRIME_3))
                .rotate_left(17)
                .wrapping_mul(PRIME_4);
        }
        for byte in bytes {
            hash = hash
                .wrapping_add(u32::from(*byte).wrapping_mul(PRIME_5))
                .rotate_left(11)
                .wrapping_mul(PRIME_1);
        }
        hash ^= hash >> 15;
        hash = hash.wrapping_mul(PRIME_2);
        hash ^= hash >> 13;
        hash = hash.wrapping_mul(PRIME_3);
        hash ^ (hash >> 16)
    }

    fn stripe(&mut self, stripe: &[u8; 16]) {
        let (words, _) = stripe.as_chunks();
        for (lane, word) in self.lanes.iter_mut().zip(words) {
            *lane = lane
                .wrapping_add(u32::from_le_bytes(*word).wrapping_mul(PRIME_2))
                .rotate_left(13)
                .wrapping_mul(PRIME_1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sums_come_out() {
        assert_eq!(xxh32(b""), 0x02cc_5d05);
        assert_eq!(xxh32(b"a"), 0x550d_7456);
        assert_eq!(xxh32(b"abc"), 0x32d1_53ff);
        assert_eq!(
            xxh32(b"Nobody inspects the spammish repetition"),
            0xe229_3b2f
        );
    }

    #[test]
    fn pieces_sum_as_the_whole() {
        let bytes: std::vec::Vec<u8> = (0..200).map(|i| i as u8).collect();
        for piece in 1..40 {
            let mut hash = Xxh32::new();
            for piece in bytes.chunks(piece) {
                hash.update(piece);
            }
            assert_eq!(hash.finish(), xxh32(&bytes), "in pieces of {piece}");
        }
    }
}
