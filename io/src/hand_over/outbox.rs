//! The responses of one connection on their way to its socket.

use std::collections::VecDeque;
use std::task::Waker;

use bytes::Bytes;
use odradek_core::ids::{ConnectionId, Position};

use crate::sync::{Mutex, lock};

/// A connection as the hand-over sees it: its queue of responses beside the host's socket.
#[derive(Debug)]
pub(crate) struct Connection<S, P> {
    /// The host's number for it.
    pub(crate) id: ConnectionId,
    /// The host's socket.
    pub(crate) socket: S,
    /// What waits to be sent.
    pub(crate) outbox: Outbox<P>,
}

/// A response with its file ranges pinned.
#[derive(Debug)]
pub(crate) struct Outgoing<P> {
    /// What is left to send.
    pub(crate) parts: VecDeque<OutgoingPart<P>>,
}

impl<P> Outgoing<P> {
    /// Bytes of it that are in memory.
    fn held_bytes(&self) -> usize {
        let held = |part: &OutgoingPart<P>| match part {
            OutgoingPart::Bytes(bytes) => bytes.len(),
            OutgoingPart::File { .. } | OutgoingPart::Lost(_) => 0,
        };
        self.parts.iter().map(held).sum()
    }
}

/// A piece of a response.
#[derive(Debug)]
pub(crate) enum OutgoingPart<P> {
    /// Bytes in memory.
    Bytes(Bytes),
    /// What is left of a range of a file.
    File {
        /// Keeps the file readable.
        pin: P,
        /// Where the rest begins.
        position: Position,
        /// How many bytes are left.
        length: u64,
        /// Whether it is known to be in the page cache, as far as that can be known.
        warm: bool,
    },
    /// A range that could not be pinned: the connection cannot go on.
    Lost(String),
}

/// No more requests are taken from a client that leaves so many bytes of answers unread. Ranges of
/// files cost nothing while they wait; what was built in memory does, and a client can have it
/// built for a few bytes.
const MAX_HELD_BYTES: usize = 1 << 20;

/// Sends responses in order, by whoever comes: the task of the connection, the task of another
/// one whose request completed this one's, or a flush thread.
///
/// ```text
///          begin_sending            end_sending
///   idle ----------------> sending -------------> idle, or full until the connection's task has
///    ^                                             |    seen the socket writable
///    +---------------------------------------------+
/// ```
///
/// Only one thread is `sending` at a time. Those that come meanwhile leave their response in the
/// queue: the sender looks again before it leaves.
#[derive(Debug)]
pub(crate) struct Outbox<P> {
    state: Mutex<State<P>>,
}

#[derive(Debug)]
struct State<P> {
    queue: VecDeque<Outgoing<P>>,
    sending: bool,
    /// The socket took no more.
    full: bool,
    /// Close once the queue is empty.
    closing: bool,
    /// Nothing goes out any more, for this reason.
    closed: Option<String>,
    /// Requests whose responses have not been sent.
    in_flight: usize,
    /// How many of them stop the task from reading more.
    max_in_flight: usize,
    /// Bytes in memory of the responses that wait, those with a sender included.
    held_bytes: usize,
    /// It has stopped for that reason.
    paused: bool,
    /// The task that serves the connection.
    task: Option<Waker>,
}

/// How far a sender came.
#[derive(Debug)]
pub(crate) enum Sent {
    /// Everything is out.
    All,
    /// The socket takes no more.
    Full,
    /// The next range is not in the page cache: someone who may block must read it first.
    Cold,
    /// The connection cannot go on.
    Broken(String),
}

/// What a sender does next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AfterSending {
    /// Look whether more came.
    Again,
    /// Nothing.
    Leave,
    /// Have the cold range read by a thread that may block, which goes on as the sender.
    ReadCold,
}

/// What the connection's task has to know before it waits.
#[derive(Debug)]
pub(crate) struct TaskView {
    /// The connection is over, for this reason.
    pub(crate) closed: Option<String>,
    /// Wait until the socket is writable, then call [`Outbox::writable`].
    pub(crate) full: bool,
    /// Too many requests are in flight: read no more until woken.
    pub(crate) paused: bool,
}

impl<P> Outbox<P> {
    /// An empty outbox of a connection that reads no more requests while this many are in flight
    /// (`max.in.flight` of the broker's side).
    pub(crate) fn new(max_in_flight: usize) -> Self {
        Self {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                sending: false,
                full: false,
                closing: false,
                closed: None,
                in_flight: 0,
                max_in_flight,
                held_bytes: 0,
                paused: false,
                task: None,
            }),
        }
    }

    /// A request is about to be handed to the core.
    pub(crate) fn asked(&self) {
        lock(&self.state).in_flight += 1;
    }

    /// Queues a response; called under the lock of the step.
    pub(crate) fn push(&self, response: Outgoing<P>) {
        let mut state = lock(&self.state);
        if state.closed.is_some() {
            return;
        }
        if response.parts.is_empty() {
            // Nothing to send, so nothing to wait for.
            state.answered(1);
        } else {
            state.held_bytes += response.held_bytes();
            state.queue.push_back(response);
        }
    }

    /// Takes everything that waits, and with it the right and the duty to send. `None` if there
    /// is nothing, another one is at it, or the socket is full.
    pub(crate) fn begin_sending(&self) -> Option<VecDeque<Outgoing<P>>> {
        let mut state = lock(&self.state);
        if state.sending || state.full || state.queue.is_empty() || state.closed.is_some() {
            return None;
        }
        state.sending = true;
        Some(std::mem::take(&mut state.queue))
    }

    /// Gives back what could not be sent, in order; `answered` responses went out.
    pub(crate) fn end_sending(
        &self,
        mut rest: VecDeque<Outgoing<P>>,
        answered: usize,
        sent: Sent,
    ) -> AfterSending {
        let mut state = lock(&self.state);
        if state.closed.is_some() {
            state.sending = false;
            return AfterSending::Leave;
        }
        // What was queued meanwhile comes behind the rest. Nearly always one of them is empty.
        if rest.is_empty() {
            if state.queue.is_empty() {
                state.queue = rest;
            }
        } else {
            rest.append(&mut state.queue);
            state.queue = rest;
        }
        state.held_bytes = state.queue.iter().map(Outgoing::held_bytes).sum();
        state.answered(answered);
        match sent {
            Sent::All => {
                state.sending = false;
                state.close_if_done();
                AfterSending::Again
            }
            Sent::Full => {
                state.sending = false;
                state.full = true;
                state.wake();
                AfterSending::Leave
            }
            // The right to send passes to the one who reads.
            Sent::Cold => AfterSending::ReadCold,
            Sent::Broken(reason) => {
                state.sending = false;
                state.close(reason);
                AfterSending::Leave
            }
        }
    }

    /// The one who read the cold range takes everything that waits.
    pub(crate) fn go_on_sending(&self) -> VecDeque<Outgoing<P>> {
        let mut state = lock(&self.state);
        assert!(state.sending, "a cold range is read by the sender");
        std::mem::take(&mut state.queue)
    }

    /// Close once everything queued is sent.
    pub(crate) fn close_when_sent(&self) {
        let mut state = lock(&self.state);
        state.closing = true;
        if !state.sending {
            state.close_if_done();
        }
    }

    /// Nothing goes out any more.
    pub(crate) fn close_now(&self, reason: &str) {
        let mut state = lock(&self.state);
        if state.closed.is_none() {
            state.close(reason.to_owned());
        }
    }

    /// What the connection's task must look at; `task` is woken when any of it changes.
    pub(crate) fn view(&self, task: &Waker) -> TaskView {
        let mut state = lock(&self.state);
        match &mut state.task {
            Some(known) => known.clone_from(task),
            None => state.task = Some(task.clone()),
        }
        state.paused = state.is_loaded() || state.closing;
        TaskView {
            closed: state.closed.clone(),
            full: state.full,
            paused: state.paused,
        }
    }

    /// Whether requests are in flight and all of them wait for the core, none for the socket.
    pub(crate) fn waits_for_core(&self) -> bool {
        let state = lock(&self.state);
        state.in_flight > 0 && state.queue.is_empty() && !state.sending
    }

    /// Whether so much is in flight that no more requests should be handed to the core.
    pub(crate) fn is_busy(&self) -> bool {
        let state = lock(&self.state);
        state.is_loaded() || state.closing
    }

    /// The socket takes more: the caller goes on to send.
    pub(crate) fn writable(&self) {
        lock(&self.state).full = false;
    }
}

impl<P> State<P> {
    fn answered(&mut self, responses: usize) {
        self.in_flight = self.in_flight.saturating_sub(responses);
        if self.paused && !self.is_loaded() {
            self.paused = false;
            self.wake();
        }
    }

    /// Whether the client has as much in flight as it may.
    const fn is_loaded(&self) -> bool {
        self.in_flight >= self.max_in_flight || self.held_bytes >= MAX_HELD_BYTES
    }

    fn close_if_done(&mut self) {
        if self.closing && self.queue.is_empty() && self.closed.is_none() {
            self.close("closed by the broker".to_owned());
        }
    }

    fn close(&mut self, reason: String) {
        self.closed = Some(reason);
        self.queue.clear();
        self.held_bytes = 0;
        self.wake();
    }

    fn wake(&self) {
        if let Some(task) = &self.task {
            task.wake_by_ref();
        }
    }
}
