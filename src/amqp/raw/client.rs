//! The calls.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::frame::{self, FrameReader, HEADER, OVERHEAD_BYTES};
use super::handshake::{Agreed, Handshake};
use super::incoming::Incoming;
use super::method::{
    self, ACK, Arguments, CANCEL, CHANNEL, CONFIRM_SELECT, CONNECTION_CLOSE, CONSUME, GET, Name, PUBLISH, QOS,
    QUEUE_DECLARE,
};
use super::outgoing::{self, Outgoing};
use super::shared::{Publish, Reply, Shared};
use super::stream;
use super::{RawDelivery, RawError, TlsOptions};
use crate::amqp::codec::{self, EncodeError};
use crate::amqp::uri::BrokerAddress;
use crate::message::{Headers, RawMessage, Text};

/// The only consumer there is.
const CONSUMER_TAG: &[u8] = b"dlo";
/// Acks and questions on their way to the socket.
const OUTGOING_MAX: usize = 64;

/// How to connect, beside the address.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// What people see in RabbitMQ's list of connections.
    pub connection_name: String,
    /// Used when the address is `amqps`.
    pub tls: TlsOptions,
}

/// What became of a message, once the broker has said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishOutcome {
    /// In a queue, or wherever the exchange routes to.
    Routed,
    /// No queue takes it.
    Returned { code: u16, text: String },
    /// The broker could not take responsibility.
    Nacked,
    /// The broker refuses such a publish: 404 is an exchange that does not exist. The client is spent.
    ChannelClosed { code: u16, text: String },
}

/// A connection with one open channel. All methods may overlap. Dropping it cuts the connection, which gives every
/// unacknowledged delivery back to its queue; [`RawClient::close`] does so in words.
#[derive(Debug)]
pub struct RawClient {
    shared: Arc<Shared>,
    writer: mpsc::Sender<Outgoing>,
    agreed: Agreed,
    /// Held by the publish under way; whether confirms are switched on.
    confirming: Mutex<bool>,
    reading: JoinHandle<()>,
    writing: JoinHandle<()>,
}

impl RawClient {
    /// Connects, introduces us and opens the channel, all `within` the time.
    pub async fn connect(
        address: &BrokerAddress,
        options: &ConnectOptions,
        within: Duration,
    ) -> Result<Self, RawError> {
        let connected = timeout(within, Self::open(address, options)).await;
        connected.map_err(|_| RawError::Deadline("connecting"))?
    }

    async fn open(address: &BrokerAddress, options: &ConnectOptions) -> Result<Self, RawError> {
        let (read, mut write) = stream::open(address, &options.tls).await?;
        let mut frames = FrameReader::new(read);
        let connection_name = &options.connection_name;
        let agreed = Handshake { frames: &mut frames, writer: &mut write, address, connection_name }.run().await?;

        let shared = Arc::new(Shared::default());
        let (writer, queue) = mpsc::channel(OUTGOING_MAX);
        let heartbeat_s = agreed.heartbeat_s;
        let incoming = Incoming { frames, shared: shared.clone(), writer: writer.clone(), heartbeat_s, content: None };
        let reading = tokio::spawn(incoming.run());
        let writing = tokio::spawn(outgoing::run(write, queue, shared.clone(), agreed.frame_max, heartbeat_s));
        Ok(Self { shared, writer, agreed, confirming: Mutex::new(false), reading, writing })
    }

    /// The largest frame the broker accepts from us; 0 is any.
    #[must_use]
    pub fn frame_max(&self) -> u32 {
        self.agreed.frame_max
    }

    /// Starts the one consumer, acknowledged by hand. `prefetch` bounds what lies unacknowledged, so it is also how many
    /// messages are held in memory. `arguments` are for the broker (`x-priority`, `x-stream-offset`).
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

    /// Acknowledges every delivery up to and with this one, like [`RawClient::ack`].
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
            _ => Err(RawError::Protocol("it answers something else than was asked")),
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
            _ => Err(RawError::Protocol("it answers something else than was asked")),
        }
    }

    /// Publishes a message as `mandatory` and waits for the broker's verdict. Publishes wait for one another.
    ///
    /// When the time passes, or the future is dropped before the verdict, the message may or may not have arrived
    /// and the client is spent: the verdict on one message must not be taken for that on the next.
    pub async fn publish(
        &self,
        exchange: &Text,
        routing_key: &Text,
        message: &RawMessage,
        within: Duration,
    ) -> Result<PublishOutcome, RawError> {
        let out = self.encode_publish(exchange, routing_key, message)?;
        let published = timeout(within, self.publish_encoded(out, within)).await;
        published.map_err(|_| RawError::Deadline("basic.publish"))?
    }

    async fn publish_encoded(&self, out: Outgoing, within: Duration) -> Result<PublishOutcome, RawError> {
        let mut confirming = self.confirming.lock().await;
        if !*confirming {
            self.ask("confirm.select", within, CONFIRM_SELECT, |out| {
                out.u8(0);
                Ok(())
            })
            .await?;
            *confirming = true;
        }
        let permit = self.writer.reserve().await.map_err(|_| self.shared.reason())?;
        let (done, verdict) = oneshot::channel();
        {
            let mut state = self.shared.lock();
            state.ensure_open()?;
            state.published += 1;
            state.publish = Some(Publish { tag: state.published, returned: None, done });
            permit.send(out);
        }
        let mut in_doubt = EndUnlessDecided { shared: &self.shared, decided: false };
        let verdict = verdict.await;
        in_doubt.decided = true;
        match verdict {
            Ok(outcome) => Ok(outcome),
            Err(_) => match self.shared.reason() {
                RawError::ChannelClosed { code, text } => Ok(PublishOutcome::ChannelClosed { code, text }),
                reason => Err(reason),
            },
        }
    }

    fn encode_publish(&self, exchange: &Text, key: &Text, message: &RawMessage) -> Result<Outgoing, RawError> {
        const MANDATORY: u8 = 1;
        const BASIC: u16 = 60;
        let mut frames = frames(PUBLISH, |out| {
            out.u16(0);
            out.short("exchange name", exchange.as_bytes())?;
            out.short("routing key", key.as_bytes())?;
            out.u8(MANDATORY);
            Ok(())
        })?;
        let body = message.body.clone().unwrap_or_else(Bytes::new);
        let start = frames.len();
        frame::append(&mut frames, HEADER, CHANNEL, |out| {
            out.extend_from_slice(&BASIC.to_be_bytes());
            out.extend_from_slice(&0u16.to_be_bytes());
            out.extend_from_slice(&(body.len() as u64).to_be_bytes());
            match message.properties.amqp() {
                Some(properties) => codec::encode_properties(out, properties, &message.headers),
                None => codec::encode_properties(out, &Default::default(), &message.headers),
            }
        })?;
        // A content header cannot be cut; sent anyway, it would cost the connection.
        let bytes = frames.len() - start;
        let frame_max = self.agreed.frame_max;
        if frame_max != 0 && bytes > frame_max as usize {
            return Err(RawError::HeadersTooLong { bytes, frame_max });
        }
        debug_assert!(bytes > OVERHEAD_BYTES);
        Ok(Outgoing { frames, body: Some(body) })
    }

    /// Takes leave of the broker. Unacknowledged deliveries go back to their queue.
    pub async fn close(self, within: Duration) -> Result<(), RawError> {
        let frames = {
            let mut out = Vec::new();
            method::append(&mut out, 0, CONNECTION_CLOSE, |out| {
                out.u16(200);
                out.short("reason", b"goodbye")?;
                out.u32(0);
                Ok(())
            })?;
            out
        };
        // The answer ends the connection, which is how its waiting ends.
        match self.call("connection.close", within, frames, |_| ()).await {
            Ok(_) | Err(RawError::ClosedByUs) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Asks what the broker answers, on our channel.
    async fn ask(
        &self,
        what: &'static str,
        within: Duration,
        name: Name,
        arguments: impl FnOnce(&mut Arguments<'_>) -> Result<(), EncodeError>,
    ) -> Result<Reply, RawError> {
        self.call(what, within, frames(name, arguments)?, |_| ()).await
    }

    /// Sends frames and waits for the answer. `register` runs with them, before any answer can come.
    async fn call(
        &self,
        what: &'static str,
        within: Duration,
        frames: Vec<u8>,
        register: impl FnOnce(&mut super::shared::State),
    ) -> Result<Reply, RawError> {
        let answered = timeout(within, async {
            let permit = self.writer.reserve().await.map_err(|_| self.shared.reason())?;
            let (sender, reply) = oneshot::channel();
            {
                // Under one lock, so that questions are answered in the order they wait.
                let mut state = self.shared.lock();
                state.ensure_open()?;
                state.replies.push_back(sender);
                register(&mut state);
                permit.send(Outgoing { frames, body: None });
            }
            reply.await.map_err(|_| self.shared.reason())
        });
        answered.await.map_err(|_| RawError::Deadline(what))?
    }
}

impl Drop for RawClient {
    fn drop(&mut self) {
        self.reading.abort();
        self.writing.abort();
        self.shared.end(RawError::ClosedByUs);
    }
}

/// Ends the client when a publish is given up: its verdict, come late, would be taken for the next one's.
struct EndUnlessDecided<'a> {
    shared: &'a Shared,
    decided: bool,
}

impl Drop for EndUnlessDecided<'_> {
    fn drop(&mut self) {
        if !self.decided {
            self.shared.end(RawError::Deadline("basic.publish"));
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

fn frames(
    name: Name,
    arguments: impl FnOnce(&mut Arguments<'_>) -> Result<(), EncodeError>,
) -> Result<Vec<u8>, RawError> {
    let mut out = Vec::new();
    method::append(&mut out, CHANNEL, name, arguments)?;
    Ok(out)
}
