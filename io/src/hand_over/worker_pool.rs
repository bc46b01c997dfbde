//! Threads that may block: one pool flushes, another reads and manages files.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crate::sync::{self, Condvar, Mutex, lock, wait};

/// A bounded pool of threads with one queue. The first thread is there from the beginning, the
/// others are started when jobs wait and none is idle; all stay until the pool closes.
pub(crate) struct WorkerPool<J> {
    shared: Arc<Shared<J>>,
}

struct Shared<J> {
    name: &'static str,
    max_threads: usize,
    run: Box<dyn Fn(J) + Send + Sync>,
    state: Mutex<State<J>>,
    /// A job came, or the pool closed.
    wake: Condvar,
    /// No job is under way.
    quiet: Condvar,
}

struct State<J> {
    jobs: VecDeque<J>,
    threads: usize,
    idle: usize,
    busy: usize,
    closed: bool,
}

impl<J: Send + 'static> WorkerPool<J> {
    /// A pool whose threads call `run` with each job, and whether its first thread could be
    /// started; without one the pool does nothing.
    pub(crate) fn start(
        name: &'static str,
        max_threads: usize,
        run: impl Fn(J) + Send + Sync + 'static,
    ) -> (Self, io::Result<()>) {
        let pool = Self {
            shared: Arc::new(Shared {
                name,
                max_threads,
                run: Box::new(run),
                state: Mutex::new(State {
                    jobs: VecDeque::new(),
                    threads: 1,
                    idle: 0,
                    busy: 0,
                    closed: false,
                }),
                wake: Condvar::new(),
                quiet: Condvar::new(),
            }),
        };
        let started = pool.spawn(0);
        (pool, started)
    }

    /// Queues a job; a closed pool drops it.
    pub(crate) fn push(&self, job: J) {
        let mut state = lock(&self.shared.state);
        if state.closed {
            return;
        }
        state.jobs.push_back(job);
        if state.jobs.len() <= state.idle {
            self.shared.wake.notify_one();
            return;
        }
        if state.threads == self.shared.max_threads {
            return;
        }
        let number = state.threads;
        state.threads += 1;
        drop(state);
        if self.spawn(number).is_err() {
            // Those that are there will get to the job.
            lock(&self.shared.state).threads -= 1;
        }
    }

    /// Drops the jobs that wait, ends the threads, and returns once no job is under way. Must not
    /// be called by a job.
    pub(crate) fn close(&self) {
        self.shut();
        let mut state = lock(&self.shared.state);
        while state.busy > 0 {
            state = wait(&self.shared.quiet, state);
        }
    }

    fn spawn(&self, number: usize) -> io::Result<()> {
        let shared = self.shared.clone();
        sync::spawn(format!("{}-{number}", shared.name), move || work(&shared))
    }
}

impl<J> WorkerPool<J> {
    fn shut(&self) {
        let mut state = lock(&self.shared.state);
        state.closed = true;
        let dropped = std::mem::take(&mut state.jobs);
        self.shared.wake.notify_all();
        drop(state);
        drop(dropped);
    }
}

fn work<J>(shared: &Shared<J>) {
    let mut state = lock(&shared.state);
    while !state.closed {
        let Some(job) = state.jobs.pop_front() else {
            state.idle += 1;
            state = wait(&shared.wake, state);
            state.idle -= 1;
            continue;
        };
        state.busy += 1;
        drop(state);
        (shared.run)(job);
        state = lock(&shared.state);
        state.busy -= 1;
        if state.busy == 0 {
            shared.quiet.notify_all();
        }
    }
}

impl<J> Drop for WorkerPool<J> {
    /// The last owner of a pool may be one of its own jobs, so nothing is waited for.
    fn drop(&mut self) {
        self.shut();
    }
}
