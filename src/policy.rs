//! What may happen to a letter: pure rules, no I/O.

pub mod moves;
pub mod target;
