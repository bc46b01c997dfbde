//! The broker: one match from inputs to effects, without logic of its own.

#[cfg(test)]
mod group_tests;
#[cfg(any(test, feature = "harness"))]
#[doc(hidden)]
pub mod harness;
pub mod inspect;
mod start;
mod state;
mod stop;
#[cfg(test)]
mod tests;

pub(crate) use start::{first_record_durable, first_record_lost};
pub(crate) use state::{State, Timers};

use rand_chacha::ChaCha12Rng;
use rand_core::SeedableRng;

use crate::bugs::Bugs;
use crate::context::{Context, Owner, Routes};
use crate::effect::Effects;
use crate::ids::FileId;
use crate::input::{Completion, Input};
use crate::log::Log;
use crate::metadata::config::BrokerConfig;
use crate::request;
use crate::time::{Mono, Now};

/// The state machine. Both hosts drive this very type.
#[derive(Debug)]
pub struct Broker {
    routes: Routes,
    state: State,
}

impl Broker {
    /// A broker that has not started: its first input is [`Input::Start`]. All its randomness
    /// (topic ids, the cluster id) comes from `seed`.
    #[must_use]
    pub fn new(config: BrokerConfig, seed: [u8; 32]) -> Self {
        Self::with_bugs(config, seed, Bugs::NONE)
    }

    /// A broker with a planted bug, for the simulator.
    #[must_use]
    pub fn with_bugs(config: BrokerConfig, seed: [u8; 32], bugs: Bugs) -> Self {
        let rng = ChaCha12Rng::from_seed(seed);
        Self {
            routes: Routes::default(),
            state: State::new(config, rng, bugs),
        }
    }

    /// One atomic step. Reads no clock, no file, and no random source but the one seeded by the
    /// host.
    pub fn handle(&mut self, now: Now, input: Input, out: &mut Effects) {
        let cx = &mut Context {
            now,
            out,
            routes: &mut self.routes,
        };
        let state = &mut self.state;
        match input {
            Input::Start => start::begin(state, cx),
            Input::Opened {
                connection,
                local,
                peer,
            } => state.connections.opened(connection, local, peer),
            Input::Request {
                connection,
                request,
            } => {
                state.connections.received(connection, request);
                state.start_requests(cx, connection);
            }
            Input::Closed { connection } => state.connection_closed(cx, connection),
            Input::Disk(completion) => complete(state, cx, completion),
            Input::Deadline => state.deadline(cx),
            Input::Stop => stop::begin(state, cx),
        }
        state.settle(cx);
    }

    /// When the host must call back with [`Input::Deadline`] if nothing else happens before.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        self.state.next_deadline()
    }
}

/// Brings a completion to whoever waits for it; nobody may, if what it was for is gone.
fn complete(state: &mut State, cx: &mut Context<'_>, completion: Completion) {
    let mut file =
        |file: FileId, cx: &mut Context<'_>, on: &mut dyn FnMut(&mut Log, &mut Context<'_>)| {
            if let Some(id) = cx.routes.log_of(file) {
                state.with_log(id, |log| on(log, cx));
            }
        };
    match completion {
        Completion::Written { file: id, up_to } => {
            file(id, cx, &mut |log, cx| log.on_written(cx, id, up_to));
        }
        Completion::WriteFailed {
            file: id,
            written,
            error,
        } => {
            file(id, cx, &mut |log, cx| {
                log.on_write_failed(cx, id, written, error.clone())
            });
        }
        Completion::Flushed { file: id, up_to } => {
            file(id, cx, &mut |log, cx| log.on_flushed(cx, id, up_to));
        }
        Completion::FlushFailed { file: id, error } => {
            file(id, cx, &mut |log, cx| {
                log.on_flush_failed(cx, id, error.clone())
            });
        }
        Completion::Managed { operation, result } => match cx.routes.take_owner(operation) {
            Some(Owner::Log(id)) => {
                state.with_log(id, |log| log.on_managed(cx, operation, result));
            }
            Some(Owner::Broker) => state.managed(cx, operation, &result),
            Some(Owner::Request(_)) | None => {}
        },
        Completion::Read { operation, result } => match cx.routes.take_owner(operation) {
            Some(Owner::Log(id)) => state.with_log(id, |log| log.on_read(cx, operation, result)),
            Some(Owner::Broker) => state.read(cx, operation, result),
            Some(Owner::Request(id)) => request::on_read(state, cx, id, result),
            None => {}
        },
    }
}
