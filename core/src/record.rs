//! Record batches v2 (KIP-98): the same bytes on the wire and on disk.

pub mod batch;
