//! A client that is left out of a run, so that the others keep their numbers.

use bytes::Bytes;
use odradek_core::ids::ConnectionId;

use super::{Client, ClientContext};

/// Does nothing.
#[derive(Debug)]
pub struct Absent;

impl Client for Absent {
    fn start(&mut self, _: &mut ClientContext<'_>) {}

    fn timer(&mut self, _: u64, _: &mut ClientContext<'_>) {}

    fn bytes(&mut self, _: ConnectionId, _: Bytes, _: &mut ClientContext<'_>) {}

    fn closed(&mut self, _: ConnectionId, _: &mut ClientContext<'_>) {}

    fn finish(&mut self, _: &mut ClientContext<'_>) {}

    fn is_idle(&self) -> bool {
        true
    }
}
