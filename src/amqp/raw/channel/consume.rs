//! Taking messages out of queues.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::super::consumer::{Deliveries, RawConsumer};
use super::super::method::{self, ACK, CANCEL, CONSUME, GET, QOS, QUEUE_DECLARE};
use super::super::state::{Consuming, Reply};
use super::super::{RawDelivery, RawError};
use super::RawChannel;
use crate::message::{Headers, Text};

const UNASKED: RawError = RawError::Protocol("it answers something else than was asked");

impl RawChannel {
    /// Starts a consumer, acknowledged by hand. [`RawError::Consuming`] while there is one; it must be cancelled first.
    ///
    /// `prefetch` bounds what lies unacknowledged, so it is also how many messages are held in memory. `arguments` are
    /// for the broker (`x-priority`, `x-stream-offset`). Giving up closes the channel.
    pub async fn consume(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
        arguments: &Headers,
        within: Duration,
    ) -> Result<RawConsumer, RawError> {
        let (consumer, started) = self.begin(queue, prefetch, arguments)?;
        let started = timeout(within, started).await.map_err(|_| RawError::Deadline("basic.consume"))?;
        started.map_err(|_| self.reason())?;
        Ok(consumer)
    }

    /// Like [`RawChannel::consume`], without waiting: what a broker has against it comes out of the consumer.
    pub fn consume_soon(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
        arguments: &Headers,
    ) -> Result<RawConsumer, RawError> {
        Ok(self.begin(queue, prefetch, arguments)?.0)
    }

    fn begin(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
        arguments: &Headers,
    ) -> Result<(RawConsumer, oneshot::Receiver<Reply>), RawError> {
        let mut frames = self.qos_frames(prefetch.get())?;
        let deliveries = Arc::new(Deliveries::new(usize::from(prefetch.get())));
        let (sender, started) = oneshot::channel();

        let mut state = self.channel.lock();
        state.ensure_open()?;
        if state.consumer.is_some() {
            return Err(RawError::Consuming);
        }
        state.consumers += 1;
        let tag = Text::from(format!("dlo-{}", state.consumers));
        method::append(&mut frames, self.channel.number, CONSUME, |out| {
            out.u16(0);
            out.short("queue name", queue.as_bytes())?;
            out.short("consumer tag", tag.as_bytes())?;
            out.u8(0);
            out.table(arguments)
        })?;
        // The answer to the prefetch says nothing that the one behind it does not.
        state.replies.extend([oneshot::channel().0, sender]);
        state.consumer = Some(Consuming { tag, deliveries: deliveries.clone() });
        self.wire.shared.outbox.push(frames, None);
        Ok((RawConsumer::new(self.wire.shared.clone(), self.channel.clone(), deliveries), started))
    }

    /// A question whose answer proves that the channel is alive and every ack before it has arrived.
    pub async fn ping(&self, within: Duration) -> Result<(), RawError> {
        // Setting the prefetch of consumers to come changes nothing for the one there is.
        self.send("basic.qos", within, self.qos_frames(1)?).await?;
        Ok(())
    }

    fn qos_frames(&self, prefetch: u16) -> Result<Vec<u8>, RawError> {
        self.frames(QOS, |out| {
            out.u32(0);
            out.u16(prefetch);
            out.u8(0);
            Ok(())
        })
    }

    /// Stops the consumer, if there is one. Deliveries already here can still be received, and all can still be
    /// acknowledged. Then another consumer may be started.
    pub async fn cancel(&self, within: Duration) -> Result<(), RawError> {
        let tag = {
            let state = self.channel.lock();
            state.ensure_open()?;
            match &state.consumer {
                Some(consumer) => consumer.tag.clone(),
                None => return Ok(()),
            }
        };
        self.ask("basic.cancel", within, CANCEL, |out| {
            out.short("consumer tag", tag.as_bytes())?;
            out.u8(0);
            Ok(())
        })
        .await?;
        Ok(())
    }

    /// Acknowledges one delivery. It is on its way when this returns; the broker does not answer.
    pub async fn ack(&self, tag: u64, within: Duration) -> Result<(), RawError> {
        self.acknowledge(tag, 0, within).await
    }

    /// Acknowledges every delivery of this channel up to and with this one, received from a [`RawConsumer`] or not, so it
    /// must not be given the tag of a message that [`RawChannel::get`] took beside a consumer.
    pub async fn ack_up_to(&self, tag: u64, within: Duration) -> Result<(), RawError> {
        self.acknowledge(tag, 1, within).await
    }

    async fn acknowledge(&self, tag: u64, multiple: u8, within: Duration) -> Result<(), RawError> {
        let frames = self.frames(ACK, |out| {
            out.u64(tag);
            out.u8(multiple);
            Ok(())
        })?;
        timeout(within, self.room()).await.map_err(|_| RawError::Deadline("basic.ack"))??;
        let state = self.channel.lock();
        state.ensure_open()?;
        self.wire.shared.outbox.push(frames, None);
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
