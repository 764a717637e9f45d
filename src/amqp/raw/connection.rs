//! A connection: made, shared by its channels, left.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::demux::Demux;
use super::frame::FrameReader;
use super::handshake::{Agreed, Handshake};
use super::incoming::Incoming;
use super::method::{self, CONNECTION_CLOSE};
use super::outgoing::Writing;
use super::shared::Shared;
use super::stream::{self, ReadHalf, WriteHalf};
use super::{RawChannel, RawError, TlsOptions};
use crate::amqp::uri::BrokerAddress;

/// How to connect, beside the address.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// What people see in RabbitMQ's list of connections.
    pub connection_name: String,
    /// Used when the address is `amqps`.
    pub tls: TlsOptions,
}

/// A connection to a broker, for any number of channels. It lives as long as it or one of its channels is held; the
/// last to go cuts it, which gives every unacknowledged delivery back to its queue.
#[derive(Debug)]
pub struct RawConnection {
    wire: Arc<Wire>,
}

/// What keeps a connection alive.
pub(super) struct Wire {
    pub(super) shared: Arc<Shared>,
    pub(super) agreed: Agreed,
    reading: JoinHandle<()>,
    writing: JoinHandle<()>,
}

impl RawConnection {
    /// Connects and introduces us, all `within` the time.
    pub async fn connect(
        address: &BrokerAddress,
        options: &ConnectOptions,
        within: Duration,
    ) -> Result<Self, RawError> {
        let connected = timeout(within, async {
            let halves = stream::open(address, &options.tls).await?;
            Self::over(halves, address, options).await
        });
        connected.await.map_err(|_| RawError::Deadline("connecting"))?
    }

    /// Introduces us over a stream that is there.
    pub(super) async fn over(
        (read, mut write): (ReadHalf, WriteHalf),
        address: &BrokerAddress,
        options: &ConnectOptions,
    ) -> Result<Self, RawError> {
        let mut frames = FrameReader::new(read);
        let connection_name = &options.connection_name;
        let agreed = Handshake { frames: &mut frames, writer: &mut write, address, connection_name }.run().await?;

        let shared = Arc::new(Shared::new(agreed.channel_max));
        let incoming = Incoming { frames, demux: Demux::new(shared.clone()), heartbeat_s: agreed.heartbeat_s };
        let writing = Writing::new(write, shared.clone(), &agreed);
        let (reading, writing) = (tokio::spawn(incoming.run()), tokio::spawn(writing.run()));
        Ok(Self { wire: Arc::new(Wire { shared, agreed, reading, writing }) })
    }

    /// Opens a channel. [`RawError::NoChannel`] when as many are open as the broker allows, those included that were
    /// dropped a moment ago; the connection is as good as before then.
    pub async fn open_channel(&self, within: Duration) -> Result<RawChannel, RawError> {
        RawChannel::open(self.wire.clone(), within).await
    }

    #[must_use]
    pub fn is_open(&self) -> bool {
        self.wire.shared.ended().is_none()
    }

    /// Why the broker takes nothing from us at present, if so: it is short of memory or disk space.
    #[must_use]
    pub fn blocked(&self) -> Option<String> {
        self.wire.shared.blocked()
    }

    /// The largest frame the broker accepts from us; 0 is any.
    #[must_use]
    pub fn frame_max(&self) -> u32 {
        self.wire.agreed.frame_max
    }

    /// Takes leave of the broker, for all channels. Unacknowledged deliveries go back to their queues.
    pub async fn close(self, within: Duration) -> Result<(), RawError> {
        let shared = &self.wire.shared;
        if self.is_open() {
            shared.outbox.push(closing(0, CONNECTION_CLOSE), None);
        }
        // The answer ends the connection.
        timeout(within, shared.over()).await.map_err(|_| RawError::Deadline("connection.close"))?;
        match shared.ended() {
            None | Some(RawError::ClosedByUs) => Ok(()),
            Some(reason) => Err(reason),
        }
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("agreed", &self.agreed).field("ended", &self.shared.ended()).finish()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.reading.abort();
        self.writing.abort();
        self.shared.end(RawError::ClosedByUs);
    }
}

/// `connection.close` or `channel.close`, which say the same.
pub(super) fn closing(channel: u16, name: method::Name) -> Vec<u8> {
    let (class, method) = name;
    let words: [u16; 3] = [class, method, 200];
    let mut payload: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    payload.extend_from_slice(b"\x07goodbye\0\0\0\0");
    super::frame::whole(super::frame::METHOD, channel, &payload)
}
