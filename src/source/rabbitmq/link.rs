//! One channel's life on one queue: a lapin consumer, or the raw one for messages lapin cannot hold.

use std::{num::NonZeroU16, sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt, future::BoxFuture};
use lapin::{
    Channel, Consumer, ErrorKind,
    options::{BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicQosOptions},
    protocol::{AMQPError, AMQPErrorKind, AMQPHardError, AMQPSoftError},
    types::{AMQPValue, FieldTable},
};
use tokio::time::{Instant, timeout};

use super::{prefetch::Prefetch, topology};
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
/// How often a broker is asked whether it has our acks.
pub(super) const PING_EVERY: Duration = Duration::from_secs(1);
/// Messages read the raw way before lapin is tried again.
const RESCUE_MESSAGES: u64 = 200;
const RESCUE_PREFETCH: NonZeroU16 = NonZeroU16::new(50).unwrap();
/// For lapin to tell a consumer why its channel is broken.
const REASON_DEADLINE: Duration = Duration::from_secs(1);
/// Silence after which nothing more is to be read the raw way.
const RESCUE_IDLE: Duration = Duration::from_secs(2);

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
    Lapin(lapin::Error),
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
    /// When the broker last answered.
    pinged: Instant,
    /// What ended it, seen while taking along what was there already; to be told at the next wait.
    ended: Option<LinkError>,
}

enum Client {
    Lapin(Window),
    Raw { client: RawClient, consumer: RawConsumer, left: u64 },
}

/// A lapin consumer, and the next one on the same channel when another prefetch is wanted.
struct Window {
    channel: OpenChannel,
    queue: String,
    consumer: Consumer,
    stage: Stage,
}

enum Stage {
    Open,
    /// Cancelled, to be followed by one with this prefetch; what the broker had sent still comes.
    Draining(u16),
    /// All of it came. The question is kept here, because the wait for its answer may be given up.
    Reopening(u16, BoxFuture<'static, Result<Consumer, LinkError>>),
}

/// A channel that is closed when it is dropped, and gives back what it holds: lapin's own stays open as long as the
/// consumer of a forgotten `basic.consume` does, which is for ever.
struct OpenChannel(Channel);

impl Drop for OpenChannel {
    fn drop(&mut self) {
        if let (true, Ok(runtime)) = (self.0.status().connected(), tokio::runtime::Handle::try_current()) {
            let channel = self.0.clone();
            runtime.spawn(async move { channel.close(200, "dlo lets go".into()).await });
        }
    }
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
        let channel = OpenChannel(channel);
        let consumer = consume(channel.0.clone(), queue.to_owned(), prefetch).await?;
        let window = Window { channel, queue: queue.to_owned(), consumer, stage: Stage::Open };
        Ok(Self::new(Client::Lapin(window), session, number))
    }

    /// Consumes the raw way, until it is past what lapin cannot hold.
    pub(super) async fn raw(client: RawClient, queue: &str, session: Session, number: u64) -> Result<Self, LinkError> {
        let consumer = client.consume(queue, RESCUE_PREFETCH, &Headers::new(), ANSWER_DEADLINE).await?;
        Ok(Self::new(Client::Raw { client, consumer, left: RESCUE_MESSAGES }, session, number))
    }

    fn new(client: Client, session: Session, number: u64) -> Self {
        Self {
            session: Arc::new(session),
            number,
            client,
            last_tag: 0,
            acked_tag: 0,
            pinged: Instant::now(),
            ended: None,
        }
    }

    /// Delivered and not yet acked.
    fn unacked(&self) -> u64 {
        self.last_tag - self.acked_tag
    }

    /// Whether the queue has become shorter by it.
    pub(super) fn has_progressed(&self) -> bool {
        self.acked_tag > 0
    }

    /// The next message. Cancel safe.
    pub(super) async fn next(&mut self, prefetch: &mut Prefetch) -> Result<Received, LinkError> {
        if let Some(why) = self.ended.take() {
            return Err(why);
        }
        let settled = self.last_tag == self.acked_tag;
        let received = match &mut self.client {
            Client::Lapin(window) => window.next(prefetch).await?,
            Client::Raw { left: 0, .. } if settled => return Err(LinkError::Rescued),
            Client::Raw { consumer, left, .. } => {
                let idle = if settled { RESCUE_IDLE } else { Duration::from_secs(3600) };
                let delivery = consumer.recv(idle).await?.ok_or(LinkError::Rescued)?;
                *left = left.saturating_sub(1);
                from_raw(delivery)
            }
        };
        self.check(received, prefetch)
    }

    /// A message that is here already. What ends the link instead is told by [`Link::next`].
    pub(super) fn ready(&mut self, prefetch: &mut Prefetch) -> Option<Received> {
        let Client::Lapin(window) = &mut self.client else {
            // One at a time is fast enough for the few.
            return None;
        };
        let received = window.ready().transpose()?;
        received.and_then(|received| self.check(received, prefetch)).map_err(|why| self.ended = Some(why)).ok()
    }

    fn check(&mut self, received: Received, prefetch: &mut Prefetch) -> Result<Received, LinkError> {
        if received.tag != self.last_tag + 1 {
            return Err(LinkError::Gap { last: self.last_tag, got: received.tag });
        }
        self.last_tag = received.tag;
        prefetch.saw(received.message.footprint());
        Ok(received)
    }

    /// Opens a window of another size once the one at hand is drained: a consumer's prefetch is fixed, and a second
    /// consumer beside the first would mix their tags.
    pub(super) async fn resize(&mut self, wanted: u16) -> Result<(), LinkError> {
        let Client::Lapin(window) = &mut self.client else { return Ok(()) };
        if matches!(window.stage, Stage::Open) {
            window.stage = Stage::Draining(wanted);
            let cancel = window.channel.0.basic_cancel(window.consumer.tag(), BasicCancelOptions::default());
            let answer = answered("basic.cancel", cancel).await;
            window.or_reason(answer).await?;
        }
        Ok(())
    }

    /// Acks all up to `tag`.
    pub(super) async fn ack(&mut self, tag: u64) -> Result<(), LinkError> {
        match &mut self.client {
            Client::Lapin(window) => {
                let ack = window.channel.0.basic_ack(tag, BasicAckOptions { multiple: true });
                let told = answered("basic.ack", ack).await;
                window.or_reason(told).await?;
            }
            Client::Raw { client, .. } => client.ack_up_to(tag, ANSWER_DEADLINE).await?,
        }
        self.acked_tag = tag;
        self.session.ack_sent(tag);
        Ok(())
    }

    /// A question whose answer proves that the channel is alive and that the broker has every ack sent before.
    pub(super) async fn ping(&mut self) -> Result<(), LinkError> {
        match &mut self.client {
            // Setting the prefetch of consumers to come changes nothing for the one there is.
            Client::Lapin(window) => {
                let answer = answered("basic.qos", window.channel.0.basic_qos(1, BasicQosOptions::default())).await;
                window.or_reason(answer).await?;
            }
            Client::Raw { client, .. } => client.ping(ANSWER_DEADLINE).await?,
        }
        self.pinged = Instant::now();
        self.session.acks_seen(self.pinged);
        Ok(())
    }

    /// Whether the broker has not been asked for some time whether it has our acks.
    pub(super) fn ping_is_due(&self) -> bool {
        self.session.has_unseen_acks() && self.pinged.elapsed() >= PING_EVERY
    }

    /// Lets go; what is not acked goes back. Says whether every ack is known to have arrived.
    pub(super) async fn close(mut self) -> bool {
        let settled = self.unacked() == 0 && self.ping().await.is_ok();
        match self.client {
            Client::Lapin(window) => {
                let closing = window.channel.0.close(200, "dlo lets go".into());
                let _ = timeout(Duration::from_secs(2), closing).await;
            }
            Client::Raw { client, .. } => drop(client.close(Duration::from_secs(2)).await),
        }
        settled
    }
}

impl Window {
    async fn next(&mut self, prefetch: &mut Prefetch) -> Result<Received, LinkError> {
        loop {
            if let Stage::Reopening(wanted, opening) = &mut self.stage {
                let (wanted, opened) = (*wanted, opening.await);
                self.stage = Stage::Open;
                self.consumer = opened?;
                prefetch.set(wanted);
            }
            let heard = self.consumer.next().await;
            if let Some(received) = self.hear(heard)? {
                return Ok(received);
            }
        }
    }

    fn ready(&mut self) -> Result<Option<Received>, LinkError> {
        if matches!(self.stage, Stage::Reopening(..)) {
            return Ok(None);
        }
        match self.consumer.next().now_or_never() {
            Some(heard) => self.hear(heard),
            None => Ok(None),
        }
    }

    /// A question that fails says that the channel is broken; why it is, lapin tells the consumer alone.
    async fn or_reason<T>(&mut self, answer: Result<T, LinkError>) -> Result<T, LinkError> {
        let Err(LinkError::Lapin(error)) = answer else { return answer };
        let last_words = async {
            loop {
                match self.consumer.next().await {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Some(error),
                    None => return None,
                }
            }
        };
        let reason = timeout(REASON_DEADLINE, last_words).await.ok().flatten();
        Err(classify(reason.unwrap_or(error)))
    }

    /// What lapin says once only, so that whoever hears it has to act: its consumer's end as well.
    fn hear(&mut self, heard: Option<lapin::Result<lapin::message::Delivery>>) -> Result<Option<Received>, LinkError> {
        match (heard, &self.stage) {
            (Some(Ok(delivery)), _) => Ok(Some(from_lapin(delivery))),
            (Some(Err(error)), _) => Err(classify(error)),
            (None, Stage::Draining(wanted)) => {
                let opening = consume(self.channel.0.clone(), self.queue.clone(), *wanted);
                self.stage = Stage::Reopening(*wanted, opening.boxed());
                Ok(None)
            }
            (None, _) => Err(LinkError::Cancelled),
        }
    }
}

async fn consume(channel: Channel, queue: String, prefetch: u16) -> Result<Consumer, LinkError> {
    answered("basic.qos", channel.basic_qos(prefetch, BasicQosOptions::default())).await?;
    let mut arguments = FieldTable::default();
    // The priority everybody has. Streams know no priority and refuse it; otherwise one would look like a queue
    // into which nothing comes.
    arguments.insert("x-priority".into(), AMQPValue::LongInt(0));
    let consumer = channel.basic_consume(queue.into(), "".into(), BasicConsumeOptions::default(), arguments);
    match answered("basic.consume", consumer).await {
        Err(LinkError::Lapin(error)) if is_stream(&error) => Err(LinkError::Stream),
        other => other,
    }
}

/// "invalid arg 'x-priority' for queue … of queue type rabbit_stream_queue".
fn is_stream(refusal: &lapin::Error) -> bool {
    topology::reply(refusal)
        .is_some_and(|(kind, text)| kind == AMQPSoftError::PRECONDITIONFAILED && text.contains("x-priority"))
}

async fn answered<T>(what: &'static str, question: impl Future<Output = lapin::Result<T>>) -> Result<T, LinkError> {
    match timeout(ANSWER_DEADLINE, question).await {
        Ok(answer) => answer.map_err(classify),
        Err(_) => Err(LinkError::Silent(what)),
    }
}

/// Lapin gives up the whole connection over a short string that is no UTF-8 and over a frame above the agreed size.
fn classify(error: lapin::Error) -> LinkError {
    match error.kind() {
        ErrorKind::ParsingError(_) => LinkError::Unreadable(error),
        ErrorKind::ProtocolError(protocol) if is_frame_error(protocol) => LinkError::Unreadable(error),
        _ => LinkError::Lapin(error),
    }
}

fn is_frame_error(error: &AMQPError) -> bool {
    matches!(error.kind(), AMQPErrorKind::Hard(AMQPHardError::FRAMEERROR))
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
