//! What every room of the client gets handed in a step, and the waits between retries.

use alloc::string::String;

use rand_chacha::ChaCha12Rng;
use rand_core::Rng;

use super::effect::{ClientEffect, ClientEffects};
use crate::report::{Level, Report};
use crate::time::{Mono, Now};

/// The surroundings of one step.
pub(crate) struct Step<'a> {
    pub(crate) now: Now,
    pub(crate) out: &'a mut ClientEffects,
    pub(crate) rng: &'a mut ChaCha12Rng,
}

impl Step<'_> {
    /// Tells the operator.
    pub(crate) fn report(&mut self, level: Level, message: String) {
        self.out.push(ClientEffect::Report(Report {
            level,
            room: "client",
            message,
        }));
    }

    /// A number below `bound`, which is not 0. The bias of the remainder does not matter here.
    pub(crate) fn draw(&mut self, bound: usize) -> usize {
        (self.rng.next_u64() % bound.max(1) as u64) as usize
    }
}

/// How long to wait before trying again: doubling, up to a limit, give or take a fifth (KIP-580),
/// so that clients that failed together do not come back together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    pub(crate) first_ms: u32,
    pub(crate) max_ms: u32,
}

impl Backoff {
    /// When to try again after so many failures in a row, of which the last is now.
    pub(crate) fn after(self, failures: u32, step: &mut Step<'_>) -> Mono {
        let doubled = u64::from(self.first_ms) << failures.saturating_sub(1).min(20);
        let nanos = doubled.min(u64::from(self.max_ms)) * 1_000_000;
        let jitter = step.rng.next_u64() % (nanos * 2 / 5 + 1);
        Mono(step.now.mono.0.saturating_add(nanos - nanos / 5 + jitter))
    }
}

/// The earlier of two instants, where `None` is never.
pub(crate) fn earlier(a: Option<Mono>, b: Option<Mono>) -> Option<Mono> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
