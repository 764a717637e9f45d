//! Our own AMQP 0-9-1 client: what reads dead letters, and publishes what lapin's types cannot hold.
//!
//! Strings are bytes and tables go through [`super::codec`], so any message the broker delivers can be read and
//! published again. A frame may come in larger than was agreed on: dead-lettering adds headers to messages that were
//! as large as they could be, and brokers send those.
//!
//! A [`RawConnection`] carries [`RawChannel`]s, each with at most one [`RawConsumer`] at a time. All their methods may
//! overlap. Two tasks stand behind a connection. The reading one never waits for us: a broker may send a consumer its
//! prefetch and no more, so heartbeats are noticed and answers arrive while deliveries lie unread. Every wait has a
//! limit, but [`RawConsumer::next`]. When one passes, what was asked for may still happen; the answer is then ignored.
//!
//! A channel that ends, by the broker's word or because it is dropped, ends alone. A connection that ends ends its
//! channels, and everyone who waits on either hears why.
//!
//! A delivery that nobody has received is never acknowledged: a consumer that is dropped before it was cancelled and
//! drained takes its channel along.
//!
//! Memory is bounded by prefetch times message size, and by [`frame::FRAME_BYTES_MAX`] for one frame; a body is
//! collected in one buffer of the size its header announces, which is believed for so much as has come.

mod channel;
mod connection;
mod consumer;
mod content;
mod demux;
mod error;
mod frame;
mod handshake;
mod incoming;
mod method;
mod outbox;
mod outgoing;
mod publishes;
mod shared;
mod state;
mod stream;
#[cfg(test)]
mod tests;

pub use channel::{PublishFailure, PublishOutcome, RawChannel};
pub use connection::{ConnectOptions, RawConnection};
pub use consumer::RawConsumer;
pub use content::RawDelivery;
pub use error::RawError;
pub use frame::FRAME_BYTES_MAX;
pub use publishes::Mark;
pub use stream::{TlsIdentity, TlsOptions};
