//! AMQP 0-9-1: what capture and replay share about brokers that speak it.
//!
//! [`uri`] reads addresses. Messages travel by lapin, and [`convert`] moves them between its types and
//! [`crate::message`]. Lapin ends the connection over a message its types cannot hold; for those there is the
//! byte-exact [`codec`].

pub mod codec;
pub mod connection;
pub mod convert;
pub mod raw;
pub mod uri;
