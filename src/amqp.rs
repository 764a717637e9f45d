//! AMQP 0-9-1: what capture and replay share about brokers that speak it.
//!
//! [`uri`] reads addresses. [`raw`] is a client of our own, on the byte-exact [`codec`], and the only one that reads
//! messages: lapin ends the connection over what its types cannot hold (a short string that is not UTF-8, a frame larger
//! than agreed on), and the process over tables that nest a few thousand levels deep. Lapin declares, asks and
//! publishes; [`convert`] moves messages between its types and [`crate::message`]. [`connection`] holds one connection
//! of each.

pub mod codec;
pub mod connection;
pub mod convert;
pub mod raw;
pub mod uri;
