//! A channel: opened, asked, left.

mod consume;
mod publish;

pub use publish::{PublishFailure, PublishOutcome};

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OnceCell, oneshot};
use tokio::time::timeout;

use super::RawError;
use super::connection::Wire;
use super::method::{self, Arguments, CHANNEL_OPEN, Name};
use super::state::{Channel, Reply};
use crate::amqp::codec::EncodeError;

/// A channel of a [`super::RawConnection`], with at most one consumer at a time. All methods may overlap.
///
/// Dropping it closes it, without waiting: unacknowledged deliveries go back to their queue as soon as the broker hears
/// of it. A broker that refuses what was asked closes the channel ([`RawError::ChannelClosed`]); it is spent then.
#[derive(Debug)]
pub struct RawChannel {
    wire: Arc<Wire>,
    channel: Arc<Channel>,
    /// Confirms are switched on.
    confirming: OnceCell<()>,
    /// Held by the one publish under way that has no mark.
    unmarked: Mutex<()>,
}

impl RawChannel {
    pub(super) async fn open(wire: Arc<Wire>, within: Duration) -> Result<Self, RawError> {
        let channel = wire.shared.register()?;
        // From here on, giving up closes it.
        let opened = Self { wire, channel, confirming: OnceCell::new(), unmarked: Mutex::default() };
        opened.ask("channel.open", within, CHANNEL_OPEN, |out| out.short("reserved", b"")).await?;
        Ok(opened)
    }

    #[must_use]
    pub fn is_open(&self) -> bool {
        self.channel.lock().ended.is_none()
    }

    /// The largest frame the broker accepts from us; 0 is any.
    #[must_use]
    pub fn frame_max(&self) -> u32 {
        self.wire.agreed.frame_max
    }

    /// Closes the channel and waits until the broker has done so: then all that was unacknowledged is back in its queue.
    pub async fn close(self, within: Duration) -> Result<(), RawError> {
        let closed = self.channel.closed();
        self.channel.abandon(&self.wire.shared, RawError::ClosedByUs);
        timeout(within, closed).await.map_err(|_| RawError::Deadline("channel.close"))
    }

    /// Asks what the broker answers.
    async fn ask(
        &self,
        what: &'static str,
        within: Duration,
        name: Name,
        arguments: impl FnOnce(&mut Arguments<'_>) -> Result<(), EncodeError>,
    ) -> Result<Reply, RawError> {
        self.send(what, within, self.frames(name, arguments)?).await
    }

    /// Sends frames that are answered once, and waits for the answer.
    async fn send(&self, what: &'static str, within: Duration, frames: Vec<u8>) -> Result<Reply, RawError> {
        let answered = timeout(within, async {
            self.room().await?;
            let (sender, reply) = oneshot::channel();
            {
                // Under one lock, so that questions are answered in the order they wait.
                let mut state = self.channel.lock();
                state.ensure_open()?;
                state.replies.push_back(sender);
                self.wire.shared.outbox.push(frames, None);
            }
            reply.await.map_err(|_| self.reason())
        });
        answered.await.map_err(|_| RawError::Deadline(what))?
    }

    /// Waits until what was said before is on its way.
    async fn room(&self) -> Result<(), RawError> {
        self.wire.shared.outbox.room().await;
        self.channel.lock().ensure_open()
    }

    /// Why it ended.
    fn reason(&self) -> RawError {
        self.channel.lock().ended.clone().unwrap_or(RawError::ClosedByUs)
    }

    fn frames(
        &self,
        name: Name,
        arguments: impl FnOnce(&mut Arguments<'_>) -> Result<(), EncodeError>,
    ) -> Result<Vec<u8>, RawError> {
        let mut out = Vec::new();
        method::append(&mut out, self.channel.number, name, arguments)?;
        Ok(out)
    }
}

impl Drop for RawChannel {
    fn drop(&mut self) {
        self.channel.abandon(&self.wire.shared, RawError::ClosedByUs);
    }
}
