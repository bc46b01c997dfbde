//! What the black-box tests share: the program as a process, and a client that speaks raw frames.
//!
//! Nothing here looks into the broker: what a test knows of it comes over a socket, from a file of
//! its data directory, from its two output streams, or from `/proc`.
#![allow(
    dead_code,
    unused_imports,
    reason = "each test is a program of its own and uses a part of this"
)]

pub(crate) mod client;
pub(crate) mod data_dir;
pub(crate) mod dice;
pub(crate) mod program;
pub(crate) mod records;

pub(crate) use client::Client;
