//! What can go wrong between us and a broker.

use std::io;
use std::sync::Arc;

use crate::amqp::codec::EncodeError;
use crate::amqp::uri::AddressError;

/// Clones, because everyone who waits on a connection hears how it ended.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RawError {
    #[error("broker closed the connection: {code} {text}")]
    ConnectionClosed { code: u16, text: String },
    #[error("broker closed the channel: {code} {text}")]
    ChannelClosed { code: u16, text: String },
    /// The queue is gone, or its leader moved.
    #[error("broker cancelled the consumer")]
    ConsumerCancelled,
    #[error("the channel has a consumer; cancel it first")]
    Consuming,
    #[error("as many channels are open as the broker allows on a connection: {0}")]
    NoChannel(u16),
    #[error("no answer to {0} in time")]
    Deadline(&'static str),
    #[error("nothing heard from the broker for {0} s")]
    HeartbeatMissed(u64),
    #[error("connection to the broker is lost: {0}")]
    Lost(Arc<io::Error>),
    /// The broker hung up while we introduced ourselves: most often it does not like our credentials.
    #[error("broker hung up during the handshake: {0}")]
    HungUp(Arc<io::Error>),
    #[error("broker breaks the protocol: {0}")]
    Protocol(&'static str),
    #[error("broker does not offer the authentication mechanism {0}")]
    Mechanism(&'static str),
    #[error("tls settings cannot be used: {0}")]
    TlsSettings(Arc<str>),
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error("properties and headers take a frame of {bytes} bytes, the broker accepts {frame_max}")]
    HeadersTooLong { bytes: usize, frame_max: u32 },
    #[error("closed from our side")]
    ClosedByUs,
}

impl RawError {
    pub(super) fn lost(error: io::Error) -> Self {
        Self::Lost(Arc::new(error))
    }
}
