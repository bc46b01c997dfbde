//! The bytes of requests that are in memory, over all connections.

use std::collections::BTreeMap;
use std::task::Waker;

use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering, lock};

/// A bound on request bytes in flight (`queued.max.request.bytes`).
///
/// Bytes are counted as they arrive, not as they are declared, so that a client which announces a
/// large frame and sends nothing takes nothing from the others. While the bound is exceeded nobody
/// reads from its socket, but for one connection with a half-read frame: it may go on, or frames
/// that wait for each other's rest would block all for ever. The bound is therefore exceeded by no
/// more than that frame and one read of each connection.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    used: AtomicUsize,
    /// Whether anyone is in `waiting`: what [`Budget::release`] looks at first.
    crowded: AtomicBool,
    waiting: Mutex<Waiting>,
}

/// Whether a connection may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// There is room.
    Free,
    /// There is none, but the rest of this frame may come; then
    /// [`Budget::yield_privilege`] is due.
    Privileged,
    /// Not now.
    Wait,
}

#[derive(Debug, Default)]
struct Waiting {
    wakers: BTreeMap<u64, Waker>,
    privileged: Option<u64>,
}

impl Budget {
    /// A budget of this many bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            used: AtomicUsize::new(0),
            crowded: AtomicBool::new(false),
            waiting: Mutex::new(Waiting::default()),
        }
    }

    /// Counts bytes that have arrived.
    pub(crate) fn charge(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::SeqCst);
    }

    /// The bytes are not needed any more.
    pub(crate) fn release(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let before = self.used.fetch_sub(bytes, Ordering::SeqCst);
        assert!(before >= bytes, "more request bytes released than charged");
        if self.crowded.load(Ordering::SeqCst) && before - bytes < self.limit {
            self.wake_all();
        }
    }

    /// Whether `who` may read more now; if not, `waker` is woken when it may. `half_read` says
    /// that it holds a part of a frame.
    pub(crate) fn admit(&self, who: u64, half_read: bool, waker: &Waker) -> Admission {
        if self.used.load(Ordering::SeqCst) < self.limit {
            return Admission::Free;
        }
        let mut waiting = lock(&self.waiting);
        if half_read && *waiting.privileged.get_or_insert(who) == who {
            return Admission::Privileged;
        }
        match waiting.wakers.get_mut(&who) {
            Some(known) => known.clone_from(waker),
            None => {
                waiting.wakers.insert(who, waker.clone());
            }
        }
        self.crowded.store(true, Ordering::SeqCst);
        // A release that did not see `crowded` came before this look.
        if self.used.load(Ordering::SeqCst) < self.limit {
            Admission::Free
        } else {
            Admission::Wait
        }
    }

    /// Bytes in memory.
    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::SeqCst)
    }

    /// Whether others wait for bytes to be released.
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded.load(Ordering::SeqCst)
    }

    /// `who` has read its frame, or is gone: if it was privileged, another one may be.
    pub(crate) fn yield_privilege(&self, who: u64) {
        let mut waiting = lock(&self.waiting);
        waiting.wakers.remove(&who);
        if waiting.privileged == Some(who) {
            waiting.privileged = None;
            drop(waiting);
            self.wake_all();
        }
    }

    fn wake_all(&self) {
        let mut waiting = lock(&self.waiting);
        let wakers = std::mem::take(&mut waiting.wakers);
        self.crowded.store(false, Ordering::SeqCst);
        drop(waiting);
        wakers.into_values().for_each(Waker::wake);
    }
}
