//! What happened, step by step, and a chained hash over all of it.
//!
//! The hash covers every input, every effect and every byte of a request and a response, in order:
//! two runs with the same hash did the same. Words are only found for it where someone wants to read
//! them: the last steps are kept for the report of a failure; a replay with `--trace` keeps all.

use std::collections::VecDeque;
use std::fmt;

use odradek_core::effect::Effect;
use odradek_core::input::Input;
use odradek_core::time::Mono;

use self::facts::Fact;
pub use self::hash::ChainedHash;
pub use self::step::{Lane, Sign, Step, json_string};

mod facts;
mod hash;
mod step;

/// The record of a run.
#[derive(Debug)]
pub struct Trace {
    hash: ChainedHash,
    steps: VecDeque<Step>,
    keep: Keep,
    /// How many there were.
    count: u64,
    /// The last step still wants its hash.
    unsealed: bool,
}

/// Which steps stay in memory.
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

impl Trace {
    /// An empty record.
    #[must_use]
    pub const fn new(keep: Keep) -> Self {
        Self {
            hash: ChainedHash::new(),
            steps: VecDeque::new(),
            keep,
            count: 0,
            unsealed: false,
        }
    }

    /// Adds an input of the broker.
    pub fn input(&mut self, at: Mono, input: &Input) {
        self.fact(at, Sign::Input, Lane::of_input(input), input);
    }

    /// Adds an effect of the broker.
    pub fn effect(&mut self, at: Mono, effect: &Effect) {
        self.fact(at, Sign::Effect, Lane::of_effect(effect), effect);
    }

    fn fact(&mut self, at: Mono, sign: Sign, lane: Lane, fact: &(impl Fact + fmt::Display)) {
        self.begin();
        self.hash.word(at.0);
        fact.feed(&mut self.hash);
        self.push(at, sign, lane, format_args!("{fact}"));
    }

    /// Adds something that happened.
    pub fn happened(&mut self, at: Mono, sign: Sign, lane: Lane, what: fmt::Arguments<'_>) {
        self.begin();
        self.hash.word(at.0);
        self.hash.text(what);
        self.push(at, sign, lane, what);
    }

    /// Adds what is only said for who reads it: other steps have what it says in the hash.
    pub fn note<T: fmt::Display>(
        &mut self,
        at: Mono,
        sign: Sign,
        lane: Lane,
        what: impl FnOnce() -> T,
    ) {
        self.begin();
        if self.keep != Keep::None {
            self.push(at, sign, lane, format_args!("{}", what()));
        }
    }

    fn begin(&mut self) {
        self.seal();
        self.count += 1;
    }

    fn push(&mut self, at: Mono, sign: Sign, lane: Lane, words: fmt::Arguments<'_>) {
        match self.keep {
            Keep::None => return,
            Keep::Last(n) => {
                while self.steps.len() >= n.max(1) {
                    self.steps.pop_front();
                }
            }
            Keep::All | Keep::Hashed => {}
        }
        self.steps.push_back(Step {
            number: self.count,
            at,
            sign,
            lane,
            words: words.to_string(),
            hash: None,
        });
        self.unsealed = self.keep == Keep::Hashed;
    }

    /// Ends the last step with the hash after it and the bytes that belong to it.
    fn seal(&mut self) {
        if std::mem::take(&mut self.unsealed)
            && let Some(step) = self.steps.back_mut()
        {
            step.hash = Some(self.hash);
        }
    }

    /// Adds bytes that no step shows.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.hash.bytes(bytes);
    }

    /// How many steps there were.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The hash so far.
    #[must_use]
    pub const fn hash(&self) -> ChainedHash {
        self.hash
    }

    /// The steps kept.
    #[must_use]
    pub fn into_steps(mut self) -> Vec<Step> {
        self.seal();
        self.steps.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(trace: &mut Trace, at: u64, what: fmt::Arguments<'_>) {
        trace.happened(Mono(at), Sign::Event, Lane::Broker, what);
    }

    #[test]
    fn the_hash_does_not_depend_on_what_is_kept() {
        let run = |keep| {
            let mut trace = Trace::new(keep);
            for i in 0..10 {
                say(&mut trace, i, format_args!("step {i} of {}", "ten"));
                trace.note(Mono(i), Sign::Sent, Lane::Client(1), || "a note");
                trace.bytes(&[1, 2, 3]);
            }
            (trace.hash(), trace.count())
        };
        assert_eq!(run(Keep::None), run(Keep::All));
        assert_eq!(run(Keep::None), run(Keep::Last(2)));
        assert_eq!(run(Keep::None), run(Keep::Hashed));
    }

    #[test]
    fn only_the_last_steps_are_kept() {
        let mut trace = Trace::new(Keep::Last(2));
        for i in 0..5 {
            say(&mut trace, 1_000_000_000, format_args!("{i}"));
        }
        let steps = trace.into_steps();
        let words: Vec<String> = steps.iter().map(ToString::to_string).collect();
        assert_eq!(words, ["1.000000s * 3", "1.000000s * 4"]);
        assert_eq!(steps[1].number, 5);
    }
}
