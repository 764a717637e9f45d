//! A small AMQP 0-9-1 client for messages that lapin's types cannot hold.
//!
//! One connection, one channel, at most one consumer. Strings are bytes and tables go through [`super::codec`], so
//! any message the broker delivers can be read and published again. A frame may come in larger than was agreed
//! on: dead-lettering adds headers to messages that were as large as they could be, and brokers send those.
//!
//! [`RawClient`] is what to call; all its methods may overlap. Two tasks stand behind it. The reading one never waits for
//! us: a consumer's queue has room for its prefetch, which is all a broker may send, so heartbeats are noticed and
//! answers arrive while deliveries lie unread. Every wait has a limit. When one passes, what was asked for may
//! still happen; the answer is then ignored.
//!
//! Memory is bounded by prefetch times message size, and by [`frame::FRAME_BYTES_MAX`] for one frame; a body is
//! collected in one buffer of the size its header announces.

mod client;
mod content;
mod error;
mod frame;
mod handshake;
mod incoming;
mod method;
mod outgoing;
mod shared;
mod stream;

pub use client::{ConnectOptions, PublishOutcome, RawClient, RawConsumer};
pub use content::RawDelivery;
pub use error::RawError;
pub use frame::FRAME_BYTES_MAX;
pub use stream::{TlsIdentity, TlsOptions};
