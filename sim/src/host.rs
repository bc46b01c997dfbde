//! The simulated host of one broker process: what `odradek-io` is to the real one.
//!
//! It carries out effects exactly within the rules at the head of
//! [`odradek_core::effect`], and uses every freedom they leave: writes of one file overlap and
//! complete in any order, flushes run beside writes, path operations race each other, responses
//! wait in their queue while files change under them.

pub mod connections;
pub mod files;

#[cfg(test)]
mod tests;
