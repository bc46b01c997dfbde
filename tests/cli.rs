//! The program's command line, as people and scripts use it.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod support;
