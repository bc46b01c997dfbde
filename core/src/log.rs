//! The log of one partition.

pub mod config;
