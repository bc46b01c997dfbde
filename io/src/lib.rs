//! The edge of Odradek: sockets, files and the clock, driving the pure core.
//!
//! Nothing is decided here: what a request means, when it is answered, what a disk error leads to
//! is in `odradek-core`. Where to start reading: [`driver`] runs the core's steps and carries out
//! what they ask for; `hand_over` is how that work passes between threads; `disk`, `send` and
//! `connection` do it.
//!
//! Under the feature `shuttle` only the driver and the hand-over are there, with shuttle's
//! primitives below them, for the tests that take every decision of the scheduler.
#![forbid(unsafe_code)]
#![cfg_attr(
    feature = "shuttle",
    allow(dead_code, reason = "what only the missing rooms use")
)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::disallowed_methods))]

pub mod driver;
mod hand_over;
mod id_map;
pub mod recorder;
mod sync;

#[cfg(all(target_os = "linux", not(feature = "shuttle")))]
pub mod bare;
#[cfg(not(feature = "shuttle"))]
mod buffer_pool;
#[cfg(not(feature = "shuttle"))]
pub mod client;
#[cfg(not(feature = "shuttle"))]
mod clock;
#[cfg(not(feature = "shuttle"))]
mod connection;
#[cfg(not(feature = "shuttle"))]
pub mod data_dir;
#[cfg(not(feature = "shuttle"))]
mod disk;
#[cfg(not(feature = "shuttle"))]
mod edge;
#[cfg(not(feature = "shuttle"))]
mod frame_reader;
#[cfg(not(feature = "shuttle"))]
pub mod limits;
#[cfg(not(feature = "shuttle"))]
mod reports;
#[cfg(not(feature = "shuttle"))]
mod send;
#[cfg(not(feature = "shuttle"))]
pub mod server;
#[cfg(not(feature = "shuttle"))]
pub mod test_broker;

#[cfg(test)]
mod tests;
