//! AMQP 0-9-1: what capture and replay share about brokers that speak it.
//!
//! [`uri`] reads addresses. [`convert`] moves messages between lapin's types and [`crate::message`]. Lapin ends the
//! connection over a message its types cannot hold (a short string that is not UTF-8, a frame larger than agreed on),
//! and the process over one that nests a few thousand levels deep; [`raw`] is a client of our own that reads and
//! publishes those, on the byte-exact [`codec`].

pub mod codec;
pub mod connection;
pub mod convert;
pub mod raw;
pub mod uri;
