//! A run as text: what went into the core and what came out, step by step.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use odradek_core::effect::Effect;
use odradek_core::time::Now;

/// Sees every step, under its lock. `I` is the guest's input type.
pub trait Recorder<I>: Send {
    /// An input is about to be handled.
    fn input(&mut self, now: Now, input: &I);
    /// An effect that the step asked for.
    fn effect(&mut self, effect: &Effect);
}

/// Keeps the one-line form of everything. Clones share the lines.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    steps: Arc<Mutex<Vec<Step>>>,
}

/// One step of a [`Transcript`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What the clocks said.
    pub now: Now,
    /// The input in one line.
    pub input: String,
    /// The effects, one line each.
    pub effects: Vec<String>,
}

impl Transcript {
    /// The steps so far.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Step>> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<I: Display> Recorder<I> for Transcript {
    fn input(&mut self, now: Now, input: &I) {
        self.lock().push(Step {
            now,
            input: input.to_string(),
            effects: Vec::new(),
        });
    }

    fn effect(&mut self, effect: &Effect) {
        if let Some(step) = self.lock().last_mut() {
            step.effects.push(effect.to_string());
        }
    }
}
