//! The hash over everything that a run did.

use std::fmt::{self, Write};

/// A 128-bit hash that is fed in pieces: two lanes of multiply and rotate. It is no defence
/// against anyone who looks for collisions; it only has to tell two runs apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainedHash {
    a: u64,
    b: u64,
    /// Text that does not fill a word yet.
    part: u64,
    part_bits: u32,
}

impl ChainedHash {
    /// The hash of nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            a: 0x6a09_e667_f3bc_c908,
            b: 0xbb67_ae85_84ca_a73b,
            part: 0,
            part_bits: 0,
        }
    }

    /// All of it, as a key.
    #[must_use]
    pub const fn value(&self) -> u128 {
        (self.a as u128) << 64 | self.b as u128
    }

    /// Adds a number.
    pub const fn word(&mut self, word: u64) {
        let product = (self.a ^ word) as u128 * 0x9e37_79b9_7f4a_7c15_u128;
        self.a = (product as u64) ^ self.b.rotate_left(23);
        self.b = self.b.wrapping_mul(0xff51_afd7_ed55_8ccd) ^ (product >> 64) as u64 ^ word;
    }

    /// Adds a text.
    pub fn text(&mut self, text: fmt::Arguments<'_>) {
        // A hash does not fail to be written to.
        let _ = self.write_fmt(text);
        self.end_text();
    }

    /// Ends a text, so that the next one is another.
    const fn end_text(&mut self) {
        let (word, bits) = (self.part, self.part_bits);
        self.part = 0;
        self.part_bits = 0;
        self.word(word);
        self.word(bits as u64);
    }

    /// Adds bytes. Their number counts too, so that pieces cannot run into each other.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        self.word(u64::from_le_bytes(last));
        self.word(bytes.len() as u64);
    }
}

impl Default for ChainedHash {
    fn default() -> Self {
        Self::new()
    }
}

impl Write for ChainedHash {
    /// Formatting hands over pieces of any size, and the same text must give the same hash however
    /// it is cut: so a word is added when it is full, and the rest at the end of the text.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut bytes = text.as_bytes();
        while let Some((word, rest)) = bytes.split_first_chunk::<8>() {
            bytes = rest;
            let word = u64::from_le_bytes(*word);
            let bits = self.part_bits;
            self.word(self.part | word << bits);
            // What did not fit; a shift by all bits would be none.
            self.part = (word >> 1) >> (63 - bits);
        }
        for byte in bytes {
            self.part |= u64::from(*byte) << self.part_bits;
            self.part_bits += 8;
            if self.part_bits == 64 {
                let word = self.part;
                self.part = 0;
                self.part_bits = 0;
                self.word(word);
            }
        }
        Ok(())
    }
}

impl fmt::Display for ChainedHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.a, self.b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_hashes_the_same_however_formatting_cuts_it() {
        let text = "a text of more than two words of eight bytes";
        let of = |pieces: &[&str]| {
            let mut hash = ChainedHash::new();
            for piece in pieces {
                hash.write_str(piece).unwrap();
            }
            hash.end_text();
            hash
        };
        let whole = of(&[text]);
        for cut in 0..text.len() {
            let (head, tail) = text.split_at(cut);
            assert_eq!(of(&[head, tail]), whole, "cut at {cut}");
        }
        assert_ne!(of(&[&text[1..]]), whole);
    }

    #[test]
    fn the_hash_tells_order_and_cuts_apart() {
        let of = |pieces: &[&[u8]]| {
            let mut hash = ChainedHash::new();
            for piece in pieces {
                hash.bytes(piece);
            }
            hash
        };
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"a", b"bc"]));
        assert_ne!(of(&[b"a", b"b"]), of(&[b"b", b"a"]));
        assert_ne!(of(&[b"a"]), of(&[b"a\0"]));
    }
}
