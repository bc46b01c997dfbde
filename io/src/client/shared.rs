//! The state machine behind its lock, and what carries its effects out.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use odradek_core::client::{
    Client, ClientConfig, ClientEffect, ClientEffects, ClientEvent, ClientInput, Command,
    CommandId, Outcome, Polled, ProducerRecord,
};
use odradek_core::ids::ConnectionId;
use odradek_core::time::Mono;
use tokio::runtime::Handle;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

use super::answer::Waiter;
use super::link::{self, Link};
use crate::clock::Clock;
use crate::reports;
use crate::sync::{Mutex, lock};

/// The state machine and its surroundings.
pub(super) struct Shared {
    clock: Clock,
    runtime: Handle,
    pub(super) max_response_bytes: usize,
    state: Mutex<State>,
    /// Whether the next deadline became earlier.
    deadline: Notify,
    /// Whether outcomes were reported: there may be room in `buffer.memory`.
    room: Notify,
}

struct State {
    machine: Client,
    /// A buffer, empty between steps.
    effects: ClientEffects,
    links: HashMap<ConnectionId, Link>,
    waiters: HashMap<CommandId, Waiter>,
    last_command: u64,
    /// What was polled for somebody who no longer waited.
    returned: Vec<Polled>,
    /// What the timer sleeps until.
    sleeping_until: Option<Mono>,
    timer: Option<AbortHandle>,
}

impl Shared {
    /// Starts a client on the current runtime.
    pub(super) fn start(config: &ClientConfig, seed: [u8; 32]) -> Arc<Self> {
        let shared = Arc::new(Self {
            clock: Clock::start(),
            runtime: Handle::current(),
            max_response_bytes: config.max_response_bytes,
            state: Mutex::new(State {
                machine: Client::new(config, seed),
                effects: ClientEffects::new(),
                links: HashMap::new(),
                waiters: HashMap::new(),
                last_command: 0,
                returned: Vec::new(),
                sleeping_until: None,
                timer: None,
            }),
            deadline: Notify::new(),
            room: Notify::new(),
        });
        let timer = shared.runtime.spawn(keep_time(shared.clone()));
        lock(&shared.state).timer = Some(timer.abort_handle());
        shared
    }

    /// Drops everything: connections break, and whoever waits learns that the client is gone.
    pub(super) fn abandon(&self) {
        let state = &mut *lock(&self.state);
        if let Some(timer) = state.timer.take() {
            timer.abort();
        }
        state.links.clear();
        state.waiters.clear();
    }

    /// Something happened.
    pub(super) fn step(self: &Arc<Self>, input: ClientInput) {
        self.run(&mut lock(&self.state), input);
    }

    /// A command that is not answered.
    pub(super) fn tell(self: &Arc<Self>, command: Command) {
        let state = &mut *lock(&self.state);
        let id = state.next_command();
        self.run(state, ClientInput::Command { id, command });
    }

    /// A command, and whom to tell its answer.
    pub(super) fn ask(self: &Arc<Self>, command: Command, waiter: Waiter) {
        let state = &mut *lock(&self.state);
        let id = state.next_command();
        state.waiters.insert(id, waiter);
        self.run(state, ClientInput::Command { id, command });
    }

    /// Produces a record if there is room for it; else it comes back.
    #[expect(
        clippy::result_large_err,
        reason = "the record goes back to the caller"
    )]
    pub(super) fn try_produce(
        self: &Arc<Self>,
        record: ProducerRecord,
    ) -> Result<oneshot::Receiver<Outcome>, ProducerRecord> {
        let state = &mut *lock(&self.state);
        if !state.machine.takes(&record) {
            return Err(record);
        }
        let (tell, outcome) = oneshot::channel();
        let id = state.next_command();
        state.waiters.insert(id, Waiter::Delivery(tell));
        let command = Command::Produce(record);
        self.run(state, ClientInput::Command { id, command });
        Ok(outcome)
    }

    /// Completes when outcomes were reported after it was enabled.
    pub(super) fn room(&self) -> Notified<'_> {
        self.room.notified()
    }

    /// Looks at the state machine.
    pub(super) fn read<T>(&self, look: impl FnOnce(&Client) -> T) -> T {
        look(&lock(&self.state).machine)
    }

    /// Keeps what was polled for the next poll.
    pub(super) fn give_back(&self, items: Vec<Polled>) {
        lock(&self.state).returned.extend(items);
    }

    /// What earlier polls left behind, if anything.
    pub(super) fn take_returned(&self) -> Option<Vec<Polled>> {
        let items = std::mem::take(&mut lock(&self.state).returned);
        (!items.is_empty()).then_some(items)
    }

    /// Changes a connection, if it still matters.
    pub(super) fn with_link<T>(
        &self,
        id: ConnectionId,
        change: impl FnOnce(&mut Link) -> T,
    ) -> Option<T> {
        lock(&self.state).links.get_mut(&id).map(change)
    }

    /// One step, and everything it asks for.
    fn run(self: &Arc<Self>, state: &mut State, input: ClientInput) {
        let gone = match &input {
            ClientInput::ConnectFailed { connection, .. }
            | ClientInput::Disconnected { connection } => Some(*connection),
            _ => None,
        };
        if let Some(link) = gone {
            state.links.remove(&link);
        }
        tracing::trace!(target: "odradek::client", %input);
        state
            .machine
            .handle(self.clock.now(), input, &mut state.effects);
        let mut effects = std::mem::take(&mut state.effects);
        let mut outcomes = false;
        for effect in effects.drain() {
            tracing::trace!(target: "odradek::client", %effect);
            match effect {
                ClientEffect::Connect {
                    connection,
                    endpoint,
                } => {
                    let task = link::run(self.clone(), connection, endpoint);
                    let task = self.runtime.spawn(task).abort_handle();
                    state.links.insert(connection, Link::new(task));
                }
                ClientEffect::Send { connection, frame } => {
                    if let Some(link) = state.links.get_mut(&connection) {
                        link.send(frame);
                    }
                }
                ClientEffect::Close { connection } => {
                    if let Some(rest) = state.links.remove(&connection).and_then(Link::rest) {
                        self.runtime.spawn(rest);
                    }
                }
                ClientEffect::Event(event) => {
                    outcomes |= matches!(event, ClientEvent::Delivery { .. });
                    state.tell(event);
                }
                ClientEffect::Report(report) => reports::log(&report),
            }
        }
        state.effects = effects;
        if outcomes {
            self.room.notify_waiters();
        }
        let next = state.machine.next_deadline();
        if let Some(next) = next
            && state.sleeping_until.is_none_or(|until| next < until)
        {
            state.sleeping_until = Some(next);
            self.deadline.notify_one();
        }
    }
}

impl State {
    fn next_command(&mut self) -> CommandId {
        self.last_command += 1;
        CommandId(self.last_command)
    }

    fn tell(&mut self, event: ClientEvent) {
        let (ClientEvent::Delivery { id, .. }
        | ClientEvent::Flushed { id }
        | ClientEvent::Polled { id, .. }
        | ClientEvent::Offsets { id, .. }
        | ClientEvent::Committed { id, .. }
        | ClientEvent::Answered { id, .. }
        | ClientEvent::Closed { id }) = &event;
        let Some(waiter) = self.waiters.remove(id) else {
            return;
        };
        if let Some(items) = waiter.tell(event) {
            self.returned.extend(items);
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// Brings the deadlines.
async fn keep_time(shared: Arc<Shared>) {
    /// An instant far enough to be never.
    const NEVER: Duration = Duration::from_secs(1 << 30);
    loop {
        let until = {
            let state = &mut *lock(&shared.state);
            let next = state.machine.next_deadline();
            state.sleeping_until = next;
            next
        };
        let now = shared.clock.mono();
        let wait = until.map_or(NEVER, |until| {
            Duration::from_nanos(until.0.saturating_sub(now.0))
        });
        tokio::select! {
            () = tokio::time::sleep(wait) => shared.step(ClientInput::Deadline),
            () = shared.deadline.notified() => {}
        }
    }
}

/// What is still to be sent on a connection.
pub(super) type Outgoing = VecDeque<bytes::Bytes>;
