//! Capture: source → dialect → batch → store → ack.
//!
//! One loop a source ([`pipeline`]); batches are written by short tasks ([`writer`]), at most a few at a time, and
//! commit in the order in which their messages came.

pub mod batch;
mod letter;
pub mod pipeline;
mod writer;
