//! What a broker has to offer for letters to be sent back to it.

use async_trait::async_trait;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::dialect::Publish;

/// The broker has the message, and it went to a queue or partition. Only publishers make one.
#[derive(Debug)]
pub struct Confirmed(());

impl Confirmed {
    pub(super) fn new() -> Self {
        Self(())
    }
}

/// Why a publish is not known to have arrived.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum PublishError {
    /// The broker has it, and nobody takes it.
    #[error("{0}")]
    Unroutable(String),
    /// The broker does not take it, and said why.
    #[error("{0}")]
    Refused(String),
    /// It may have arrived or not.
    #[error("{0}")]
    InDoubt(String),
    /// Nothing was sent.
    #[error("{0}")]
    NotSent(String),
}

/// When a publish is worth its while.
#[derive(Clone, Debug)]
pub struct Patience {
    /// What has not begun by then is not sent.
    pub begin_by: Instant,
    /// What has no answer by then is in doubt.
    pub until: Instant,
    /// Cancelled when neither is waited for any longer.
    pub last_call: CancellationToken,
}

/// How to look for a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// By what is known already.
    Glance,
    /// By asking it, over a new connection if need be.
    Ask,
}

/// Sends letters to one broker, over a connection of its own. Calls may overlap, a thousand of them.
#[async_trait]
pub trait Publisher: Send + Sync {
    /// Whether the broker takes messages now. An error is why not; to look again later is all there is to do.
    async fn ready(&self, look: Look) -> Result<(), String>;

    /// Publishes a message that carries its stamp ([`crate::dialect::stamp`]), and waits for the broker's word. Not to be
    /// cancelled: an answer that nobody hears is an attempt in doubt.
    async fn publish(&self, publish: &Publish, patience: &Patience) -> Result<Confirmed, PublishError>;

    /// Says goodbye.
    async fn close(&self);
}
