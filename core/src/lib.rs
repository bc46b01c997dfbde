//! The pure state machine of Odradek.
//!
//! Everything that decides lives here: the wire codec, the log and its recovery, partitions,
//! long-polls, metadata, and the client as a state machine. There is no I/O, no clock, no
//! randomness but from a seed that the host gives, and no iteration whose order is not fixed.
//! Two hosts drive the same [`Broker`](broker::Broker): `odradek-io` with real sockets and files,
//! and `odradek-sim` with virtual ones.
//!
//! Where to start reading: [`input`] and [`effect`] are the whole interface;
//! [`broker`] is the one match from the first to the second.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod broker;
pub mod bugs;
mod checkpoint;
pub mod client;
pub mod connection;
pub mod context;
pub mod effect;
pub mod group;
pub mod ids;
pub mod input;
pub mod log;
pub mod metadata;
mod outstanding;
pub mod partition;
pub mod read_job;
pub mod record;
pub mod report;
pub mod request;
pub mod sequence;
pub mod time;
mod topic_pattern;
pub mod wire;
