//! Virtual time, and what is to happen when.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use odradek_core::time::{Mono, Now, Wall};

/// One microsecond of virtual time, in nanoseconds.
pub const MICROSECOND: u64 = 1_000;
/// One millisecond of virtual time, in nanoseconds.
pub const MILLISECOND: u64 = 1_000_000;
/// One second of virtual time, in nanoseconds.
pub const SECOND: u64 = 1_000_000_000;

/// Both clocks, and the queue of events. Events of the same instant come in the order in which
/// they were scheduled.
#[derive(Debug)]
pub struct Clock<E> {
    now: Mono,
    wall_offset_ms: i64,
    /// How much faster the wall clock runs than the monotonic one, in parts per million.
    wall_drift_ppm: i64,
    sequence: u64,
    queue: BinaryHeap<Scheduled>,
    /// The events, apart from the queue, which moves what it holds.
    events: Vec<Option<E>>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct Scheduled {
    at: Mono,
    sequence: u64,
    event: usize,
}

/// Where the wall clock stands when a run starts: some day in 2025.
const WALL_START_MS: i64 = 1_750_000_000_000;

impl<E> Clock<E> {
    /// A clock at the beginning of a run.
    #[must_use]
    pub fn new() -> Self {
        Self {
            now: Mono(SECOND),
            wall_offset_ms: WALL_START_MS,
            wall_drift_ppm: 0,
            sequence: 0,
            queue: BinaryHeap::new(),
            events: Vec::new(),
            free: Vec::new(),
        }
    }

    /// The monotonic time.
    #[must_use]
    pub const fn mono(&self) -> Mono {
        self.now
    }

    /// What both clocks say.
    #[must_use]
    pub const fn now(&self) -> Now {
        Now {
            mono: self.now,
            wall: Wall(self.wall_offset_ms + self.wall_elapsed_ms()),
        }
    }

    const fn wall_elapsed_ms(&self) -> i64 {
        let ns = self.now.0 as i64;
        (ns + ns / 1_000_000 * self.wall_drift_ppm) / MILLISECOND as i64
    }

    /// Lets the wall clock run faster than the monotonic one, or slower, in parts per million.
    pub const fn drift_wall(&mut self, ppm: i64) {
        self.wall_drift_ppm = ppm;
    }

    /// Steps the wall clock, either way.
    pub const fn step_wall(&mut self, by_ms: i64) {
        self.wall_offset_ms += by_ms;
    }

    /// Schedules an event `delay_ns` from now.
    pub fn after(&mut self, delay_ns: u64, event: E) {
        self.at(Mono(self.now.0.saturating_add(delay_ns)), event);
    }

    /// Schedules an event at an instant; one that has passed means now.
    pub fn at(&mut self, at: Mono, event: E) {
        self.sequence += 1;
        let event = match self.free.pop() {
            Some(place) => {
                self.events[place] = Some(event);
                place
            }
            None => {
                self.events.push(Some(event));
                self.events.len() - 1
            }
        };
        self.queue.push(Scheduled {
            at: at.max(self.now),
            sequence: self.sequence,
            event,
        });
    }

    /// Moves time to the next event and takes it.
    pub fn next_event(&mut self) -> Option<E> {
        let next = self.queue.pop()?;
        self.now = next.at;
        self.free.push(next.event);
        self.events[next.event].take()
    }

    /// When the next event is due.
    #[must_use]
    pub fn next_at(&self) -> Option<Mono> {
        self.queue.peek().map(|s| s.at)
    }
}

impl<E> Default for Clock<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl Ord for Scheduled {
    /// The heap gives the largest first, so the earliest is the largest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scheduled {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_then_of_scheduling() {
        let mut clock = Clock::new();
        clock.after(20, "late");
        clock.after(10, "first of two");
        clock.after(10, "second of two");
        clock.after(0, "at once");
        let order: Vec<_> = std::iter::from_fn(|| clock.next_event()).collect();
        assert_eq!(order, ["at once", "first of two", "second of two", "late"]);
    }

    #[test]
    fn the_wall_clock_steps_back_and_the_monotonic_one_does_not() {
        let mut clock = Clock::new();
        let before = clock.now();
        clock.step_wall(-5_000);
        clock.after(MILLISECOND, ());
        clock.next_event();
        assert_eq!(clock.now().wall.0, before.wall.0 - 4_999);
        assert_eq!(clock.now().mono, before.mono.plus_ms(1));
    }
}
