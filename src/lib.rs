//! Dead Letter Office: captures dead-lettered messages into PostgreSQL and sends them home again.
//!
//! Modules in reading order: a message comes in through a source, a dialect reads it, capture writes it in
//! batches through the store; replay claims rows and publishes them; http and the command line look and ask.

pub mod amqp;
pub mod app;
pub mod broker_admin;
pub mod capture;
pub mod cli;
pub mod clock;
pub mod config;
pub mod dead_letter;
pub mod dialect;
pub mod http;
pub mod kafka;
pub mod lifecycle;
pub mod message;
pub mod metrics;
pub mod policy;
pub mod replay;
pub mod source;
pub mod store;
pub mod telemetry;
