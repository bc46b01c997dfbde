//! The primitives the hand-over is built from. Under the feature `shuttle` they are shuttle's, so
//! that its tests can take every decision of the scheduler.

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// Takes a lock of the hand-over. Whoever holds one only moves entries between collections.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .expect("no one panics while holding a lock of the hand-over")
}

/// Waits on a condition.
pub(crate) fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition
        .wait(guard)
        .expect("no one panics while holding a lock of the hand-over")
}

/// Starts a named thread that nobody joins.
pub(crate) fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    #[cfg(feature = "shuttle")]
    {
        drop(shuttle::thread::Builder::new().name(name).spawn(run)?);
    }
    #[cfg(not(feature = "shuttle"))]
    {
        drop(std::thread::Builder::new().name(name).spawn(run)?);
    }
    Ok(())
}
