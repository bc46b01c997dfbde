//! The record bytes of Produce and Fetch, which the codec never looks into.

use bytes::Bytes;
use core::fmt;

use crate::effect::FileRange;

/// Record batches: bytes that came in a frame, or a range of a log file that goes out in one.
#[derive(Clone, PartialEq, Eq)]
pub enum Records {
    /// In memory. What is decoded is always this, a slice of its frame.
    Bytes(Bytes),
    /// In a log file, sent without being read here.
    File(FileRange),
}

impl Records {
    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(range) => range.length as usize,
        }
    }

    /// Whether there are no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for Records {
    fn default() -> Self {
        Self::Bytes(Bytes::new())
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{} B", bytes.len()),
            Self::File(range) => write!(f, "[{} {}+{}]", range.file, range.position, range.length),
        }
    }
}
