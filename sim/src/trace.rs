//! What happened, as lines of text, and a chained hash over all of it.
//!
//! The hash covers every input, every effect and every byte of a request and a response, in order:
//! two runs with the same hash did the same. Words are only found for it where someone wants to read
//! them: the last lines are kept for the report of a failure; a replay with `--trace` keeps all.

use std::collections::VecDeque;
use std::fmt::{self, Write};

use odradek_core::effect::Effect;
use odradek_core::input::Input;
use odradek_core::time::Mono;

use self::facts::Fact;

mod facts;

/// The record of a run.
#[derive(Debug)]
pub struct Trace {
    hash: ChainedHash,
    lines: VecDeque<String>,
    keep: Keep,
    steps: u64,
    /// The last line still wants its hash.
    unsealed: bool,
}

/// Which lines stay in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// None: they only go into the hash. A failing seed is run again for its words.
    None,
    /// The last few, for a report.
    Last(usize),
    /// All.
    All,
    /// All, each with the hash after it, so that two runs can be compared step by step.
    Hashed,
}

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

impl Trace {
    /// An empty record.
    #[must_use]
    pub const fn new(keep: Keep) -> Self {
        Self {
            hash: ChainedHash::new(),
            lines: VecDeque::new(),
            keep,
            steps: 0,
            unsealed: false,
        }
    }

    /// Adds an input of the broker.
    pub fn input(&mut self, at: Mono, input: &Input) {
        self.fact(at, '>', input);
    }

    /// Adds an effect of the broker.
    pub fn effect(&mut self, at: Mono, effect: &Effect) {
        self.fact(at, '<', effect);
    }

    fn fact(&mut self, at: Mono, sign: char, fact: &(impl Fact + fmt::Display)) {
        self.seal();
        self.steps += 1;
        self.hash.word(at.0);
        fact.feed(&mut self.hash);
        if self.keep != Keep::None {
            self.push(format!("{at} {sign} {fact}"));
        }
    }

    /// Adds a line.
    pub fn line(&mut self, at: Mono, what: fmt::Arguments<'_>) {
        self.seal();
        self.steps += 1;
        self.hash.word(at.0);
        self.hash.text(what);
        if self.keep != Keep::None {
            self.push(format!("{at} {what}"));
        }
    }

    fn push(&mut self, line: String) {
        if let Keep::Last(n) = self.keep {
            while self.lines.len() >= n.max(1) {
                self.lines.pop_front();
            }
        }
        self.lines.push_back(line);
        self.unsealed = self.keep == Keep::Hashed;
    }

    /// Ends the last line with the hash after it and the bytes that belong to it.
    fn seal(&mut self) {
        if std::mem::take(&mut self.unsealed)
            && let Some(line) = self.lines.back_mut()
        {
            let _ = write!(line, " #{}", self.hash);
        }
    }

    /// Adds bytes that no line shows.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.hash.bytes(bytes);
    }

    /// How many lines there were.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// The hash so far.
    #[must_use]
    pub const fn hash(&self) -> ChainedHash {
        self.hash
    }

    /// The lines kept.
    #[must_use]
    pub fn into_lines(mut self) -> Vec<String> {
        self.seal();
        self.lines.into()
    }
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
        for byte in text.bytes() {
            self.part |= u64::from(byte) << self.part_bits;
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
    fn the_hash_does_not_depend_on_what_is_kept() {
        let run = |keep| {
            let mut trace = Trace::new(keep);
            for i in 0..10 {
                trace.line(Mono(i), format_args!("step {i} of {}", "ten"));
                trace.bytes(&[1, 2, 3]);
            }
            trace.hash()
        };
        assert_eq!(run(Keep::None), run(Keep::All));
        assert_eq!(run(Keep::None), run(Keep::Last(2)));
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

    #[test]
    fn only_the_last_lines_are_kept() {
        let mut trace = Trace::new(Keep::Last(2));
        for i in 0..5 {
            trace.line(Mono(1_000_000_000), format_args!("{i}"));
        }
        assert_eq!(trace.steps(), 5);
        assert_eq!(trace.into_lines(), ["1.000000s 3", "1.000000s 4"]);
    }
}
