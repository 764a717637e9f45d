//! What a broker has to offer for letters to be sent back to it.

use async_trait::async_trait;

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

/// Sends letters to one broker, over a connection of its own. Calls may overlap.
#[async_trait]
pub trait Publisher: Send + Sync {
    /// Publishes and waits for the broker's word. Not to be cancelled: an answer that nobody hears is an attempt in
    /// doubt.
    async fn publish(&self, publish: &Publish) -> Result<Confirmed, PublishError>;

    /// Says goodbye.
    async fn close(&self);
}
