//! The client against a scripted broker at the level of frames.

mod admin;
mod connecting;
mod consuming;
mod hostile;
mod producing;
mod storm;
mod world;
