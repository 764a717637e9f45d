//! Questions to brokers: for metrics, for the blast radius of a replay, for doctor.

pub mod lag;
