//! What packing and unpacking work with, kept from one batch to the next.

use core::fmt;

use flate2::Decompress;
use zstd::zstd_safe::{CCtx, DCtx};

/// The tables of gzip and zstd. To make them costs more than to pack or unpack a small batch: gzip's are
/// cleared, and for zstd's the library asks the processor what it can do, three questions of which each
/// takes 4 µs in a virtual machine. What comes out does not depend on what they were used for before.
#[derive(Debug, Default)]
pub struct Tables {
    unpacking: Unpacking,
    packing: Packing,
}

impl Tables {
    /// For unpacking and for packing, which may be under way at the same time.
    pub(crate) const fn split(&mut self) -> (&mut Unpacking, &mut Packing) {
        (&mut self.unpacking, &mut self.packing)
    }
}

/// More than this is not kept, in bytes: a frame of zstd may have asked for a window of 128 MiB.
pub(super) const MOST_KEPT_BYTES: usize = 1 << 20;

/// What unpacking works with.
#[derive(Default)]
pub(crate) struct Unpacking {
    pub(super) gzip: Option<Decompress>,
    pub(super) zstd: Option<DCtx<'static>>,
}

/// What packing works with.
#[derive(Default)]
pub(crate) struct Packing {
    pub(super) zstd: Option<CCtx<'static>>,
}

impl fmt::Debug for Unpacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unpacking")
    }
}

impl fmt::Debug for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Packing")
    }
}
