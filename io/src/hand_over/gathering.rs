//! Inputs of several connections that are handed to the core together, so that what they write goes
//! out with one call and completes in one step.
//!
//! Whoever hands in first leads: it lets the other connections that are ready have their turn, and
//! then hands over what all of them have left. Where hundreds of connections have one request each
//! under way, most requests then cost neither a lock nor a write of their own. A connection that is
//! alone would only wait for nobody: after a few turns without company nobody waits any more, but for a
//! try now and then.

use crate::sync::{Mutex, lock};

/// With fewer than so many connections in a turn, waiting costs more than it saves.
const COMPANY: u32 = 4;
/// So many turns without company, and nobody waits any more.
const LONELY_TURNS: u32 = 8;
/// Of so many turns without waiting, one waits after all.
const TURNS_PER_TRY: u32 = 64;
/// With so many inputs nobody waits for more.
const ENOUGH: usize = 256;

/// What was handed in and not yet taken.
#[derive(Debug)]
pub(crate) struct Gathering<I> {
    state: Mutex<State<I>>,
}

#[derive(Debug)]
struct State<I> {
    inputs: Vec<I>,
    /// How many have handed in what is there.
    parties: u32,
    /// Turns in a row without company, and then those without waiting.
    lonely: u32,
    /// Memory for the next turn.
    spare: Vec<I>,
}

/// What who has handed in must do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Let others have their turn, then take what is there.
    Lead,
    /// Take what is there now.
    Run,
    /// Nothing: another one takes it.
    Follow,
}

impl<I> Gathering<I> {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                inputs: Vec::new(),
                parties: 0,
                lonely: 0,
                spare: Vec::new(),
            }),
        }
    }

    /// Hands in what belongs to one connection, in its order. `patient`: whether it is small enough
    /// to wait for company.
    pub(crate) fn hand_in(&self, mut inputs: Vec<I>, patient: bool) -> Part {
        let mut state = lock(&self.state);
        let first = state.inputs.is_empty();
        if first && state.inputs.capacity() == 0 {
            state.inputs = inputs;
        } else {
            state.inputs.append(&mut inputs);
        }
        state.parties += 1;
        if !patient || state.inputs.len() >= ENOUGH {
            // If another one leads, it will find nothing.
            return Part::Run;
        }
        if !first {
            return Part::Follow;
        }
        if state.lonely < LONELY_TURNS {
            return Part::Lead;
        }
        state.lonely += 1;
        if state.lonely >= LONELY_TURNS + TURNS_PER_TRY {
            state.lonely = LONELY_TURNS - 1;
            return Part::Lead;
        }
        Part::Run
    }

    /// Takes what is there. Only under the lock of the step, so that what one connection has handed
    /// in comes before whatever it does next.
    pub(crate) fn take(&self) -> Vec<I> {
        let mut state = lock(&self.state);
        match state.parties {
            0 => return Vec::new(),
            COMPANY.. => state.lonely = 0,
            _ if state.lonely < LONELY_TURNS => state.lonely += 1,
            _ => {}
        }
        state.parties = 0;
        let spare = std::mem::take(&mut state.spare);
        std::mem::replace(&mut state.inputs, spare)
    }

    /// Gives the memory of what was taken back, empty.
    pub(crate) fn give_back(&self, inputs: Vec<I>) {
        debug_assert!(inputs.is_empty(), "what was taken is handed over");
        let mut state = lock(&self.state);
        if inputs.capacity() > state.spare.capacity() {
            state.spare = inputs;
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn the_first_leads_and_takes_what_the_others_leave() {
        let gathering = Gathering::new();
        assert_eq!(gathering.hand_in(vec![1], true), Part::Lead);
        assert_eq!(gathering.hand_in(vec![2, 3], true), Part::Follow);
        assert_eq!(gathering.take(), [1, 2, 3]);
        assert_eq!(gathering.take(), [] as [i32; 0]);
        assert_eq!(gathering.hand_in(vec![4], true), Part::Lead);
    }

    #[test]
    fn what_is_large_waits_for_nobody_and_takes_what_waits() {
        let gathering = Gathering::new();
        assert_eq!(gathering.hand_in(vec![1], true), Part::Lead);
        assert_eq!(gathering.hand_in(vec![2], false), Part::Run);
        assert_eq!(gathering.take(), [1, 2]);
        let many = (0..ENOUGH).collect();
        assert_eq!(Gathering::new().hand_in(many, true), Part::Run);
    }

    #[test]
    fn who_is_alone_stops_waiting_and_tries_again_now_and_then() {
        let gathering = Gathering::new();
        let mut led = Vec::new();
        for turn in 0..200 {
            if gathering.hand_in(vec![turn], true) == Part::Lead {
                led.push(turn);
            }
            assert_eq!(gathering.take(), [turn]);
        }
        assert_eq!(led[..8], [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(led.len(), 8 + 3, "{led:?}");
        // Company brings the patience back.
        while gathering.hand_in(vec![0], true) != Part::Lead {
            gathering.take();
        }
        for other in 1..COMPANY {
            let input = i32::try_from(other).unwrap();
            assert_eq!(gathering.hand_in(vec![input], true), Part::Follow);
        }
        gathering.take();
        for turn in 0..8 {
            assert_eq!(gathering.hand_in(vec![turn], true), Part::Lead);
            gathering.take();
        }
        assert_eq!(gathering.hand_in(vec![8], true), Part::Run);
    }
}
