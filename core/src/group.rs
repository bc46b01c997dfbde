//! The group coordinator: consumer groups and their committed offsets.

mod classic;
pub mod config;
mod sessions;
