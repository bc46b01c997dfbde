//! The simulator.
fn main() {}
