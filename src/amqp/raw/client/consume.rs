//! Taking messages out of queues.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::super::method::{ACK, CANCEL, CONSUME, GET, QOS, QUEUE_DECLARE};
use super::super::outgoing::Outgoing;
use super::super::shared::{Reply, Shared};
use super::super::{RawDelivery, RawError};
use super::{RawClient, frames};
use crate::message::Headers;

/// The only consumer there is.
const CONSUMER_TAG: &[u8] = b"dlo";
const UNASKED: RawError = RawError::Protocol("it answers something else than was asked");

impl RawClient {
    /// Starts the one consumer, acknowledged by hand; a second one costs the connection.
    ///
    /// `prefetch` bounds what lies unacknowledged, so it is also how many messages are held in memory. `arguments` are
    /// for the broker (`x-priority`, `x-stream-offset`).
    pub async fn consume(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
        arguments: &Headers,
        within: Duration,
    ) -> Result<RawConsumer, RawError> {
        self.qos(prefetch.get(), within).await?;
        let frames = frames(CONSUME, |out| {
            out.u16(0);
            out.short("queue name", queue.as_bytes())?;
            out.short("consumer tag", CONSUMER_TAG)?;
            out.u8(0);
            out.table(arguments)
        })?;
        let (sender, deliveries) = mpsc::channel(usize::from(prefetch.get()));
        let consumer = RawConsumer { deliveries, shared: self.shared.clone() };
        self.call("basic.consume", within, frames, |state| {
            state.consumer = Some(sender);
            state.consumer_cancelled = false;
        })
        .await?;
        Ok(consumer)
    }

    /// A question whose answer proves that the channel is alive and every ack before it has arrived.
    pub async fn ping(&self, within: Duration) -> Result<(), RawError> {
        // Setting the prefetch of consumers to come changes nothing for the one there is.
        self.qos(1, within).await
    }

    async fn qos(&self, prefetch: u16, within: Duration) -> Result<(), RawError> {
        self.ask("basic.qos", within, QOS, |out| {
            out.u32(0);
            out.u16(prefetch);
            out.u8(0);
            Ok(())
        })
        .await?;
        Ok(())
    }

    /// Stops the consumer. Deliveries already here can still be received, and all can still be acknowledged.
    pub async fn cancel(&self, within: Duration) -> Result<(), RawError> {
        self.ask("basic.cancel", within, CANCEL, |out| {
            out.short("consumer tag", CONSUMER_TAG)?;
            out.u8(0);
            Ok(())
        })
        .await?;
        self.shared.lock().consumer = None;
        Ok(())
    }

    /// Acknowledges one delivery. It is on its way when this returns; the broker does not answer.
    pub async fn ack(&self, tag: u64, within: Duration) -> Result<(), RawError> {
        self.acknowledge(tag, 0, within).await
    }

    /// Acknowledges every delivery of this client up to and with this one, received from a [`RawConsumer`] or not, so it
    /// must not be given the tag of a message that [`RawClient::get`] took beside a consumer.
    pub async fn ack_up_to(&self, tag: u64, within: Duration) -> Result<(), RawError> {
        self.acknowledge(tag, 1, within).await
    }

    async fn acknowledge(&self, tag: u64, multiple: u8, within: Duration) -> Result<(), RawError> {
        let frames = frames(ACK, |out| {
            out.u64(tag);
            out.u8(multiple);
            Ok(())
        })?;
        let permit = timeout(within, self.writer.reserve()).await.map_err(|_| RawError::Deadline("basic.ack"))?;
        let permit = permit.map_err(|_| self.shared.reason())?;
        self.shared.lock().ensure_open()?;
        permit.send(Outgoing { frames, body: None });
        Ok(())
    }

    /// Takes one message from a queue, to be acknowledged by hand, if there is one.
    pub async fn get(&self, queue: &str, within: Duration) -> Result<Option<RawDelivery>, RawError> {
        let reply = self
            .ask("basic.get", within, GET, |out| {
                out.u16(0);
                out.short("queue name", queue.as_bytes())?;
                out.u8(0);
                Ok(())
            })
            .await?;
        match reply {
            Reply::Got(delivery) => Ok(delivery.map(|delivery| *delivery)),
            _ => Err(UNASKED),
        }
    }

    /// How many messages are ready in a queue. A queue that does not exist closes the channel with 404.
    pub async fn message_count(&self, queue: &str, within: Duration) -> Result<u32, RawError> {
        const PASSIVE: u8 = 1;
        let reply = self
            .ask("queue.declare", within, QUEUE_DECLARE, |out| {
                out.u16(0);
                out.short("queue name", queue.as_bytes())?;
                out.u8(PASSIVE);
                out.table(&Headers::new())
            })
            .await?;
        match reply {
            Reply::Declared(messages) => Ok(messages),
            _ => Err(UNASKED),
        }
    }
}

/// The deliveries of a queue.
#[derive(Debug)]
pub struct RawConsumer {
    deliveries: mpsc::Receiver<RawDelivery>,
    shared: Arc<Shared>,
}

impl RawConsumer {
    /// The next delivery, or `None` when none comes `within` the time. Safe to cancel.
    ///
    /// When the consumer, the channel or the connection has ended, what is already here comes first and then, at each
    /// call, the reason.
    pub async fn recv(&mut self, within: Duration) -> Result<Option<RawDelivery>, RawError> {
        match timeout(within, self.deliveries.recv()).await {
            Err(_) => Ok(None),
            Ok(Some(delivery)) => Ok(Some(delivery)),
            Ok(None) => Err(self.ended()),
        }
    }

    fn ended(&self) -> RawError {
        let state = self.shared.lock();
        match &state.ended {
            Some(reason) => reason.clone(),
            None if state.consumer_cancelled => RawError::ConsumerCancelled,
            None => RawError::ClosedByUs,
        }
    }
}
