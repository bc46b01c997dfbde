//! The broker: one match from inputs to effects, without logic of its own.

use crate::effect::Effects;
use crate::input::Input;
use crate::time::{Mono, Now};

/// The state machine. Both hosts drive this very type.
#[derive(Debug)]
pub struct Broker {}

impl Broker {
    /// One atomic step. Reads no clock, no file, and no random source but the one seeded by the
    /// host.
    pub fn handle(&mut self, _now: Now, _input: Input, _out: &mut Effects) {}

    /// When the host must call back with [`Input::Deadline`] if nothing else happens before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        None
    }
}
