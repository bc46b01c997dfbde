//! The simulator of Odradek: the same broker as in production, on a virtual clock, network and
//! disk, under a workload and the eyes of an oracle. One seed is one run, byte for byte.
//!
//! Where to start reading: [`disk`] for the fault model, [`world`] for how a run goes, [`oracle`]
//! for what is checked.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod batch;
pub mod bugs;
pub mod campaign;
pub mod case;
pub mod choices;
pub mod clock;
pub mod coverage;
pub mod decisions;
pub mod disk;
pub mod enumerate;
pub mod fault;
pub mod host;
pub mod network;
pub mod oracle;
pub mod panics;
pub mod shrink;
pub mod story;
pub mod swarm;
pub mod timeline;
pub mod trace;
pub mod twice;
pub mod workload;
pub mod world;
