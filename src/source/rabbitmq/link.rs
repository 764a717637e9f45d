//! One channel's life on one queue: a lapin consumer, or the raw one for messages lapin cannot hold.

use std::{num::NonZeroU16, sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt};
use lapin::{
    Channel, Consumer, ErrorKind,
    options::{BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicQosOptions},
    types::FieldTable,
};
use tokio::time::timeout;

use super::prefetch::Prefetch;
use crate::{
    amqp::{
        convert,
        raw::{RawClient, RawConsumer, RawDelivery, RawError},
    },
    message::{Headers, RawMessage, Text},
    source::session::Session,
};

/// For one question to the broker.
pub(super) const ANSWER_DEADLINE: Duration = Duration::from_secs(15);
/// Messages read the raw way before lapin is tried again.
const RESCUE_MESSAGES: u64 = 200;
const RESCUE_PREFETCH: NonZeroU16 = NonZeroU16::new(50).unwrap();

/// A message as one of the two clients read it.
pub(super) struct Received {
    pub(super) tag: u64,
    pub(super) exchange: Text,
    pub(super) routing_key: Text,
    pub(super) redelivered: bool,
    pub(super) message: RawMessage,
}

/// How a link ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("the broker cancelled the consumer: the queue was deleted, or its leader moved")]
    Cancelled,
    #[error("a message that the client library cannot read: {0}")]
    Unreadable(lapin::Error),
    #[error("{0}")]
    Lapin(#[from] lapin::Error),
    #[error("{0}")]
    Raw(#[from] RawError),
    #[error("the broker does not answer to {0}")]
    Silent(&'static str),
    #[error("delivery tag {got} follows {last}: deliveries were lost on the way; none after it is acked")]
    Gap { last: u64, got: u64 },
    #[error(
        "the queue is a stream, which this version does not capture from; let the stream's letters go to a quorum queue"
    )]
    Stream,
    /// Not a fault: the raw link has done its part.
    #[error("read past what the client library cannot hold")]
    Rescued,
}

/// A link and its session.
pub(super) struct Link {
    pub(super) session: Arc<Session>,
    /// Which link of this source: tokens of another are stale.
    pub(super) number: u64,
    client: Client,
    last_tag: u64,
    acked_tag: u64,
    alone: bool,
}

enum Client {
    Lapin { channel: Channel, consumer: Consumer, queue: String, draining: Option<u16> },
    Raw { client: RawClient, consumer: RawConsumer, left: u64 },
}

impl Link {
    /// Consumes by lapin.
    pub(super) async fn lapin(
        channel: Channel,
        queue: &str,
        prefetch: u16,
        session: Session,
        number: u64,
    ) -> Result<Self, LinkError> {
        let consumer = consume(&channel, queue, prefetch).await?;
        let client = Client::Lapin { channel, consumer, queue: queue.to_owned(), draining: None };
        Ok(Self { session: Arc::new(session), number, client, last_tag: 0, acked_tag: 0, alone: true })
    }

    /// Consumes the raw way, until it is past what lapin cannot hold.
    pub(super) async fn raw(client: RawClient, queue: &str, session: Session, number: u64) -> Result<Self, LinkError> {
        let consumer = client.consume(queue, RESCUE_PREFETCH, &Headers::new(), ANSWER_DEADLINE).await?;
        let client = Client::Raw { client, consumer, left: RESCUE_MESSAGES };
        Ok(Self { session: Arc::new(session), number, client, last_tag: 0, acked_tag: 0, alone: true })
    }

    /// Delivered and not yet acked.
    pub(super) fn unacked(&self) -> u64 {
        self.last_tag - self.acked_tag
    }

    /// The next message. Cancel safe.
    pub(super) async fn next(&mut self, prefetch: &mut Prefetch) -> Result<Received, LinkError> {
        loop {
            let received = match &mut self.client {
                Client::Lapin { consumer, draining, channel, queue } => match (consumer.next().await, &*draining) {
                    (Some(delivery), _) => from_lapin(delivery.map_err(classify)?),
                    (None, Some(wanted)) => {
                        // The old consumer is drained: the next window may open.
                        let wanted = *wanted;
                        *consumer = consume(channel, queue, wanted).await?;
                        *draining = None;
                        prefetch.set(wanted);
                        continue;
                    }
                    (None, None) => return Err(LinkError::Cancelled),
                },
                Client::Raw { consumer, left, .. } => {
                    if *left == 0 && self.last_tag == self.acked_tag {
                        return Err(LinkError::Rescued);
                    }
                    let idle = if self.last_tag == self.acked_tag {
                        Duration::from_secs(2)
                    } else {
                        Duration::from_secs(3600)
                    };
                    match consumer.recv(idle).await? {
                        Some(delivery) => {
                            *left = left.saturating_sub(1);
                            from_raw(delivery)
                        }
                        None => return Err(LinkError::Rescued),
                    }
                }
            };
            return self.check(received, prefetch);
        }
    }

    /// A message that is here already.
    pub(super) fn ready(&mut self, prefetch: &mut Prefetch) -> Option<Result<Received, LinkError>> {
        let received = match &mut self.client {
            Client::Lapin { consumer, .. } => match consumer.next().now_or_never()?? {
                Ok(delivery) => from_lapin(delivery),
                Err(error) => return Some(Err(classify(error))),
            },
            // One at a time is fast enough for the few.
            Client::Raw { .. } => return None,
        };
        Some(self.check(received, prefetch))
    }

    fn check(&mut self, received: Received, prefetch: &mut Prefetch) -> Result<Received, LinkError> {
        if received.tag != self.last_tag + 1 {
            return Err(LinkError::Gap { last: self.last_tag, got: received.tag });
        }
        if received.message.headers.contains("x-stream-offset") && std::mem::take(&mut self.alone) {
            return Err(LinkError::Stream);
        }
        self.alone = false;
        self.last_tag = received.tag;
        prefetch.saw(received.message.footprint());
        Ok(received)
    }

    /// Opens a window of another size once the one at hand is drained: a consumer's prefetch is fixed, and a second
    /// consumer beside the first would mix their tags.
    pub(super) async fn resize(&mut self, wanted: u16) -> Result<(), LinkError> {
        let Client::Lapin { channel, consumer, draining, .. } = &mut self.client else { return Ok(()) };
        if draining.is_none() {
            *draining = Some(wanted);
            answered("basic.cancel", channel.basic_cancel(consumer.tag(), BasicCancelOptions::default())).await?;
        }
        Ok(())
    }

    /// Acks all up to `tag`.
    pub(super) async fn ack(&mut self, tag: u64) -> Result<(), LinkError> {
        match &self.client {
            Client::Lapin { channel, .. } => {
                answered("basic.ack", channel.basic_ack(tag, BasicAckOptions { multiple: true })).await?;
            }
            Client::Raw { client, .. } => client.ack_up_to(tag, ANSWER_DEADLINE).await?,
        }
        self.acked_tag = tag;
        self.session.ack_sent(tag);
        Ok(())
    }

    /// A question whose answer proves that the channel is alive and that the broker has every ack sent before.
    pub(super) async fn ping(&self) -> Result<(), LinkError> {
        match &self.client {
            // Setting the prefetch of consumers to come changes nothing for the one there is.
            Client::Lapin { channel, .. } => {
                answered("basic.qos", channel.basic_qos(1, BasicQosOptions::default())).await?
            }
            Client::Raw { client, .. } => client.ping(ANSWER_DEADLINE).await?,
        }
        self.session.acks_seen(tokio::time::Instant::now());
        Ok(())
    }

    /// Lets go; what is not acked goes back. Says whether every ack is known to have arrived.
    pub(super) async fn close(self) -> bool {
        let settled = self.unacked() == 0 && self.ping().await.is_ok();
        match self.client {
            Client::Lapin { channel, .. } => {
                let _ = timeout(Duration::from_secs(2), channel.close(200, "dlo lets go".into())).await;
            }
            Client::Raw { client, .. } => drop(client.close(Duration::from_secs(2)).await),
        }
        settled
    }
}

async fn consume(channel: &Channel, queue: &str, prefetch: u16) -> Result<Consumer, LinkError> {
    answered("basic.qos", channel.basic_qos(prefetch, BasicQosOptions::default())).await?;
    let consumer =
        channel.basic_consume(queue.into(), "".into(), BasicConsumeOptions::default(), FieldTable::default());
    answered("basic.consume", consumer).await
}

async fn answered<T>(what: &'static str, question: impl Future<Output = lapin::Result<T>>) -> Result<T, LinkError> {
    match timeout(ANSWER_DEADLINE, question).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(LinkError::Silent(what)),
    }
}

/// Lapin gives up the whole connection over a short string that is no UTF-8 and over a frame above the agreed size.
fn classify(error: lapin::Error) -> LinkError {
    match error.kind() {
        ErrorKind::ParsingError(_) => LinkError::Unreadable(error),
        _ => LinkError::Lapin(error),
    }
}

fn from_lapin(delivery: lapin::message::Delivery) -> Received {
    let (properties, headers) = convert::from_lapin(&delivery.properties);
    Received {
        tag: delivery.delivery_tag,
        exchange: convert::text(delivery.exchange),
        routing_key: convert::text(delivery.routing_key),
        redelivered: delivery.redelivered,
        message: RawMessage::amqp(properties, headers, delivery.data),
    }
}

fn from_raw(delivery: RawDelivery) -> Received {
    let RawDelivery { tag, exchange, routing_key, redelivered, message } = delivery;
    Received { tag, exchange, routing_key, redelivered, message }
}
