#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod amqp_raw;
mod capture;
mod cli;
mod conformance;
mod faults;
mod kafka;
mod process;
mod replay;
mod schema;
mod support;
