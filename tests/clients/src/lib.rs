//! What the client tests share: the program under test ([`program`]), a plain client of Kafka's
//! protocol ([`wire`]), records odd enough to find what a broker loses ([`records`]), Kafka's own
//! judge of log files ([`dump_log`]), and the power cut: a disk that remembers the order of its
//! writes ([`disk`]), served to a real filesystem ([`fuse`], [`mount`]), cut at any moment
//! ([`cut`]), for programs whose flushes work or are made to do nothing ([`flushes`]).
//!
//! Only tests use this package, so a failure of the machinery (no loop device, no `mkfs`) is a
//! panic that says what is missing, never a skip.

pub mod batch;
pub mod chance;
pub mod cut;
pub mod disk;
pub mod dump_log;
pub mod flushes;
pub mod fuse;
pub mod mount;
pub mod program;
pub mod records;
pub mod wire;
pub mod work_dir;
