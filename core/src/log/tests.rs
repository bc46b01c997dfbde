//! The log's promises, one situation a test.

mod append;
mod cleaner;
mod failures;
mod indexes;
mod model;
mod producers;
mod reads;
mod recovery;
mod replacement;
mod retention;
