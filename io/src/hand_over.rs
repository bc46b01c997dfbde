//! How work passes between the tasks of connections, the flush threads and the sockets.
//!
//! Everything here uses only `Mutex`, `Condvar`, atomics and `Waker`, and knows neither tokio nor
//! the operating system, so that the tests of [`crate::driver`] can run it under every schedule
//! that `shuttle` comes up with. It keeps these invariants:
//!
//! - what a step puts into a queue is executed, and in the order that
//!   [`effect`](odradek_core::effect) allows;
//! - what a connection hands in reaches the core, in its order and before whatever the connection does
//!   next, whoever takes it there: it is taken under the lock of the step;
//! - a completion is reported exactly once, and those of one file in the order in which they
//!   happened, because they are taken out of the file's queue under the lock of the step;
//! - a flush never claims more than the writes that had ended when it was called;
//! - at any time at most one thread sends on a connection, and whoever leaves something behind
//!   has either seen another sender at work or woken the connection's task.
//!
//! Locks are taken in one order: the step's, then one of this module's. None of this module's is
//! held while another is taken, nor over a system call.

pub(crate) mod budget;
pub(crate) mod file_queue;
pub(crate) mod gathering;
pub(crate) mod outbox;
pub(crate) mod worker_pool;
