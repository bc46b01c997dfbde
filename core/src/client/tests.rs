//! The client against a scripted broker at the level of frames.

mod admin;
mod connecting;
mod consuming;
mod grouping;
mod hostile;
mod idempotence;
mod producing;
mod storm;
mod world;
