//! When things are to be sent in an open loop: at a fixed rate, whatever has become of those
//! before.

use std::time::{Duration, Instant};

/// So and so many a second from a start on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    start: Instant,
    per_second: f64,
}

impl Schedule {
    /// The first is due at `start`.
    pub(super) const fn new(start: Instant, per_second: f64) -> Self {
        Self { start, per_second }
    }

    /// When the n-th is due, from 0. Computed from the start each time: errors do not add up.
    pub(super) fn due(&self, n: u64) -> Instant {
        self.start + Duration::from_secs_f64(n as f64 / self.per_second)
    }

    /// How many are due by `now`.
    pub(super) fn due_by(&self, now: Instant) -> u64 {
        let Some(passed) = now.checked_duration_since(self.start) else {
            return 0;
        };
        let mut count = (passed.as_secs_f64() * self.per_second) as u64;
        // Rounding may be off by one either way; what is due is said by `due` alone.
        while self.due(count) <= now {
            count += 1;
        }
        while count > 0 && self.due(count - 1) > now {
            count -= 1;
        }
        count
    }
}

/// Waits until `when`, as exactly as the system can: with the least timer slack, on an absolute
/// time.
#[expect(
    clippy::disallowed_methods,
    reason = "a thread that paces a load and does nothing else"
)]
pub(super) fn wait_until(when: Instant) {
    let rest = when.saturating_duration_since(Instant::now());
    if !rest.is_zero() {
        std::thread::sleep(rest);
    }
}

/// Lets this thread wake up when it asked to, not up to 50 us later.
pub(super) fn be_punctual() {
    // Without it the figures are a little worse, and the bare ones too.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_due_at_the_rate_and_errors_do_not_add_up() {
        let start = Instant::now();
        let schedule = Schedule::new(start, 3.0);
        assert_eq!(schedule.due(0), start);
        assert_eq!(
            schedule.due(3_000_000),
            start + Duration::from_secs(1_000_000)
        );
    }

    #[test]
    fn what_is_due_is_what_has_a_due_time_that_has_come() {
        let start = Instant::now() + Duration::from_secs(1);
        for rate in [0.5, 1.0, 7.0, 10_000.0, 333_333.3] {
            let schedule = Schedule::new(start, rate);
            assert_eq!(schedule.due_by(start - Duration::from_millis(1)), 0);
            for n in [0, 1, 2, 3, 10, 99, 12_345] {
                let due = schedule.due(n);
                assert_eq!(schedule.due_by(due), n + 1, "{n} at {rate}");
                assert_eq!(
                    schedule.due_by(due - Duration::from_nanos(1)),
                    n,
                    "just before {n} at {rate}"
                );
            }
        }
    }

    #[test]
    fn a_stall_makes_everything_due_that_it_held_up() {
        let start = Instant::now();
        let schedule = Schedule::new(start, 1000.0);
        assert_eq!(schedule.due_by(start + Duration::from_millis(250)), 251);
    }
}
