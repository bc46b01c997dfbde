//! From a frame to a domain call and back.

use bytes::Bytes;
use core::fmt;

/// What the pure decode of a frame returned, valid or not.
#[derive(Debug)]
pub struct Prepared {}

/// Decodes a frame (without its length prefix) outside the step.
#[must_use]
pub fn prepare(_frame: Bytes) -> Prepared {
    Prepared {}
}

impl fmt::Display for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("request")
    }
}
