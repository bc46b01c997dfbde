//! The wire codec: against Kafka's own classes, against another crate, as whole frames, and
//! against hostile bytes.
#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod data;
mod frames;
mod golden;
mod hostile;
mod kafka;
mod peer;
