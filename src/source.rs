//! Sources: where dead letters come from. This page is enough to write another broker.

pub mod kafka;
pub mod memory;
pub mod positions;
pub mod rabbitmq;
pub mod session;

use std::sync::Arc;

use async_trait::async_trait;

pub use self::{
    positions::{Partition, PositionClaim, PositionLedger},
    session::{SessionClaim, SessionLedger},
};
use crate::{
    dead_letter::{CapturedFrom, SourceInfo},
    message::RawMessage,
};

/// Says which delivery is meant when it is acked. Made by a source, given back to the same source, once.
///
/// `session` changes whenever what was handed out can no longer be acked (a new channel, a new assignment of a
/// partition). Positions ascend within a session.
#[derive(Debug, PartialEq, Eq)]
pub struct AckToken {
    pub session: u64,
    pub position: u64,
}

/// One message as a source handed it over.
#[derive(Debug)]
pub struct Delivery {
    pub message: RawMessage,
    pub captured: CapturedFrom,
    pub token: AckToken,
}

/// Why nothing more comes.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The source was closed; nothing more will come.
    #[error("source is closed")]
    Closed,
}

/// The store's account of sessions or positions cannot be reached.
#[derive(Debug, thiserror::Error)]
#[error("the store's account of this source cannot be reached")]
pub struct LedgerError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// What the store asks of the source before it commits.
#[derive(Clone, Debug)]
pub enum Claim {
    /// Nothing to check: every delivery is new.
    None,
    /// RabbitMQ: the channel that delivered them was alive when last a message was delivered again.
    Session(SessionClaim),
    /// Kafka: where each partition's position is expected to be.
    Positions(PositionClaim),
}

impl Claim {
    /// Whether [`Source::reclaim`] has to complete it before anything is written.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        matches!(self, Self::Session(claim) if claim.raise)
    }
}

/// Why there is no proof.
#[derive(Debug, thiserror::Error)]
pub enum Unclaimed {
    /// The broker has the messages again; they are to be dropped.
    #[error("the session is over")]
    SessionOver,
    /// The store cannot be asked at the moment.
    #[error(transparent)]
    Later(LedgerError),
}

/// What became of tokens given to [`Source::ack`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acked {
    /// Told to the broker.
    pub sent: usize,
    /// Of a session that is over: dropped, because the broker has those messages again.
    pub stale: usize,
}

/// One thing letters are captured from: a RabbitMQ queue, Kafka topics of one consumer group.
///
/// **Ownership.** Between `recv` and `ack` a message belongs to both sides: the broker keeps it until it is acked,
/// and gives it out again when the session ends first. Dropping a delivery without acking it is always safe.
///
/// **Back-pressure.** Not calling `recv` is the way to slow a source down. It must then hold what it has, bounded
/// by its share of the memory budget, and keep its session with the broker alive by itself, however long it takes.
///
/// **Order.** Deliveries of one session come in the order in which they are acked. The caller acks them in that
/// order and without gaps, so that a source may tell the broker "all up to here". A source may have several sessions
/// at a time (partitions); one that is over stays over.
///
/// **Overlap.** The methods take `&mut self` and are never called at the same time; a call that is not marked
/// cancel safe is run to its end.
#[async_trait]
pub trait Source: Send {
    /// What all letters of this source have in common.
    fn info(&self) -> &Arc<SourceInfo>;

    /// The next run of deliveries: waits for one, then takes along up to `max` that are there already. A run is
    /// never empty.
    ///
    /// Cancel safe: a delivery is either in a returned run or still inside the source.
    ///
    /// Connects and reconnects by itself, with back-off; an outage is a long wait, not an error.
    async fn recv(&mut self, max: usize) -> Result<Vec<Delivery>, SourceError>;

    /// Proof for the store that these deliveries, in the order received, are this source's to write. Those whose
    /// session is over are taken out first: the broker has them again. `None` when nothing is left.
    ///
    /// Called once before a batch is written, in the order of batches. Answers at once.
    async fn claim(&mut self, batch: &mut Vec<Delivery>) -> Option<Claim>;

    /// [`Source::claim`] once more, for a batch whose claim wants more proof than could be given at once, or was
    /// refused as out of date. What the new claim does not cover is to be dropped. May ask broker and store.
    async fn reclaim(&mut self, claim: Claim) -> Result<Claim, Unclaimed>;

    /// Tells the broker that these are stored. Tokens of an older session are dropped and counted, not sent.
    async fn ack(&mut self, tokens: Vec<AckToken>) -> Acked;

    /// Lets go: what was received and not acked goes back to the broker. After this `recv` says `Closed`.
    async fn close(&mut self);
}
