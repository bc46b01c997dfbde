//! Group commit without a broker: one flush is in flight, and what is appended meanwhile is
//! covered by the next one.

use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::disk::flush;
use crate::sync::{self, Condvar, Mutex, lock, wait};

use super::connection::{Waiting, send_all};

/// The thread that flushes, and what waits for it.
#[derive(Debug)]
pub(super) struct Flusher(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    files: Vec<Arc<File>>,
    waiting: Vec<Waiting>,
    closed: bool,
}

impl Flusher {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let work = shared.clone();
        sync::spawn("bare-flush".to_owned(), move || run(&work))?;
        Ok(Self(shared))
    }

    /// Sends these answers once `file` is flushed, which has what they acknowledge.
    pub(super) fn push(&self, file: Arc<File>, answers: impl Iterator<Item = Waiting>) {
        let mut state = lock(&self.0.state);
        let idle = state.waiting.is_empty();
        if !state
            .files
            .last()
            .is_some_and(|last| Arc::ptr_eq(last, &file))
        {
            state.files.push(file);
        }
        state.waiting.extend(answers);
        if idle {
            self.0.wake.notify_one();
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        lock(&self.0.state).closed = true;
        self.0.wake.notify_one();
    }
}

fn run(shared: &Shared) {
    let mut files: Vec<Arc<File>> = Vec::new();
    let mut waiting: Vec<Waiting> = Vec::new();
    loop {
        {
            let mut state = lock(&shared.state);
            while state.waiting.is_empty() {
                if state.closed {
                    return;
                }
                state = wait(&shared.wake, state);
            }
            std::mem::swap(&mut files, &mut state.files);
            std::mem::swap(&mut waiting, &mut state.waiting);
        }
        for file in files.drain(..) {
            if let Err(error) = flush::data(&file) {
                tracing::error!("cannot flush: {error}");
                return;
            }
        }
        join(&mut waiting);
        for answer in waiting.drain(..) {
            // A client that is gone does not wait for it.
            let _ = send_all(&answer.stream, &answer.answers);
        }
    }
}

/// Puts the answers of one connection together. With many connections each has one or two.
fn join(waiting: &mut Vec<Waiting>) {
    if let [first, rest @ ..] = waiting.as_mut_slice()
        && rest
            .iter()
            .all(|next| Arc::ptr_eq(&next.stream, &first.stream))
    {
        for next in rest {
            first.answers.append(&mut next.answers);
        }
        waiting.truncate(1);
    }
}
