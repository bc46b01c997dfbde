//! When a member of a group acts, and whether it takes longer than it may to come to rest.

use odradek_core::time::Mono;

use super::ClientContext;
use super::seen::{Restless, Seen};
use crate::clock::SECOND;

/// How long after the end of all faults a group may take until it is stable.
pub const REST_WITHIN_NS: u64 = 30 * SECOND;

/// One timer at a time, with times of silence between.
#[derive(Debug, Default)]
pub struct Pace {
    quiet_until: Mono,
    finishing_since: Option<Mono>,
    timer_is_set: bool,
    /// It takes no more part.
    pub gave_up: bool,
    complained: bool,
}

impl Pace {
    /// Whether faults are over: from now on it is as punctual as a good client.
    #[must_use]
    pub const fn is_finishing(&self) -> bool {
        self.finishing_since.is_some()
    }

    /// Faults are over.
    pub fn finish(&mut self, cx: &ClientContext<'_>) {
        self.finishing_since = Some(cx.now.mono);
    }

    /// Says nothing for a while.
    pub fn be_quiet(&mut self, cx: &ClientContext<'_>, ms: u64) {
        if !self.is_finishing() {
            self.quiet_until = cx.now.mono.plus_ms(ms);
        }
    }

    /// Whether it may say something now.
    #[must_use]
    pub fn may_speak(&self, cx: &ClientContext<'_>) -> bool {
        cx.now.mono >= self.quiet_until || self.is_finishing()
    }

    /// Sets the timer, if it is not set: after a pause around `mean_ns`, or after `punctual_ns` once
    /// faults are over.
    pub fn schedule(&mut self, cx: &mut ClientContext<'_>, mean_ns: u64, punctual_ns: u64) {
        if self.timer_is_set || self.gave_up {
            return;
        }
        self.timer_is_set = true;
        let pause = if self.is_finishing() {
            punctual_ns
        } else {
            cx.pause(mean_ns)
        };
        cx.after(pause, 0);
    }

    /// The timer has come. Whether there is anything to be done.
    pub const fn timer_came(&mut self) -> bool {
        self.timer_is_set = false;
        !self.gave_up
    }

    /// Tells once, in time, that its group does not come to rest.
    pub fn complain(
        &mut self,
        cx: &mut ClientContext<'_>,
        group: &str,
        what: impl FnOnce() -> String,
    ) {
        let is_late = self
            .finishing_since
            .is_some_and(|since| cx.now.mono.0 > since.0 + REST_WITHIN_NS);
        if is_late && !self.complained {
            self.complained = true;
            cx.saw.push(Seen::Restless(Restless {
                group: group.to_owned(),
                is_about_the_dead: false,
                what: what(),
            }));
        }
    }
}
