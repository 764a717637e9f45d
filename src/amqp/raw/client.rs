//! The client: connecting, asking, leaving.

mod consume;
mod publish;

pub use consume::RawConsumer;
pub use publish::PublishOutcome;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::frame::FrameReader;
use super::handshake::{Agreed, Handshake};
use super::incoming::Incoming;
use super::method::{self, Arguments, CHANNEL, CONNECTION_CLOSE, Name};
use super::outgoing::{self, Outgoing};
use super::shared::{Reply, Shared, State};
use super::stream;
use super::{RawError, TlsOptions};
use crate::amqp::codec::EncodeError;
use crate::amqp::uri::BrokerAddress;

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
        register: impl FnOnce(&mut State),
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

fn frames(
    name: Name,
    arguments: impl FnOnce(&mut Arguments<'_>) -> Result<(), EncodeError>,
) -> Result<Vec<u8>, RawError> {
    let mut out = Vec::new();
    method::append(&mut out, CHANNEL, name, arguments)?;
    Ok(out)
}
