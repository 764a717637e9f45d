//! Publishing, each message with its verdict.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use super::super::frame::{self, HEADER};
use super::super::method::{CONFIRM_SELECT, PUBLISH};
use super::super::{Mark, RawError};
use super::RawChannel;
use crate::amqp::codec;
use crate::message::{AmqpProperties, RawMessage, Text};

const WHAT: &str = "basic.publish";

/// What became of a message, once the broker has said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishOutcome {
    /// In a queue, or wherever the exchange routes to.
    Routed,
    /// No queue takes it.
    Returned { code: u16, text: String },
    /// The broker could not take responsibility.
    Nacked,
    /// The broker refuses such a publish: 404 is an exchange that does not exist. The channel is spent. Of several
    /// under way each hears this, and it was one of them.
    ChannelClosed { code: u16, text: String },
}

/// Why there is no verdict.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PublishFailure {
    /// Not a byte of it was sent.
    #[error("not sent: {0}")]
    NotSent(#[source] RawError),
    /// It may have arrived or not.
    #[error("in doubt: {0}")]
    InDoubt(#[source] RawError),
}

impl RawChannel {
    /// Publishes a message as `mandatory` and waits for the broker's verdict. Publishes wait for one another.
    ///
    /// When the time passes, or the future is dropped before the verdict, the message may or may not have arrived
    /// and the channel is spent: the verdict on one message must not be taken for that on the next.
    pub async fn publish(
        &self,
        exchange: &Text,
        routing_key: &Text,
        message: &RawMessage,
        within: Duration,
    ) -> Result<PublishOutcome, RawError> {
        let published = timeout(within, async {
            let _alone = self.unmarked.lock().await;
            let verdict = self.begin_publish(exchange, routing_key, message, None).await?;
            let mut in_doubt = CloseUnlessDecided { channel: self, decided: false };
            let verdict = verdict.await;
            in_doubt.decided = true;
            verdict.or_else(|_| self.refusal())
        });
        published.await.map_err(|_| RawError::Deadline(WHAT))?
    }

    /// Publishes a message as `mandatory`, or not at all when it finds no room before `begin_by`, and waits for the
    /// broker's verdict `until` a later point in time. Any number may be under way at once; they go out in the order in
    /// which they found room.
    ///
    /// When the time passes after it was sent, the message may or may not have arrived. A verdict that comes late is
    /// heard by nobody, and the channel is as good as before.
    pub async fn publish_marked(
        &self,
        exchange: &Text,
        routing_key: &Text,
        message: &RawMessage,
        mark: Mark,
        begin_by: Instant,
        until: Instant,
    ) -> Result<PublishOutcome, PublishFailure> {
        let late = RawError::Deadline(WHAT);
        if Instant::now() >= begin_by {
            return Err(PublishFailure::NotSent(late));
        }
        let begun = timeout_at(begin_by, self.begin_publish(exchange, routing_key, message, Some(mark))).await;
        let verdict = begun.unwrap_or(Err(late)).map_err(PublishFailure::NotSent)?;
        match timeout_at(until, verdict).await {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(_)) => self.refusal().map_err(PublishFailure::InDoubt),
            Err(_) => Err(PublishFailure::InDoubt(RawError::Deadline(WHAT))),
        }
    }

    /// Hands a publish to the writing task. Dropped before it is done, it has done nothing.
    async fn begin_publish(
        &self,
        exchange: &Text,
        routing_key: &Text,
        message: &RawMessage,
        mark: Option<Mark>,
    ) -> Result<oneshot::Receiver<PublishOutcome>, RawError> {
        let frames = self.encode_publish(exchange, routing_key, message)?;
        let body = message.body.clone().unwrap_or_default();
        self.confirming.get_or_try_init(|| self.confirm()).await?;
        self.room().await?;
        let mut state = self.channel.lock();
        state.ensure_open()?;
        let verdict = state.publishes.begin(mark);
        self.wire.shared.outbox.push(frames, Some((self.channel.number, body)));
        Ok(verdict)
    }

    async fn confirm(&self) -> Result<(), RawError> {
        // Who waits for a publish has a limit of its own.
        const WITHIN: Duration = Duration::from_secs(30);
        self.ask("confirm.select", WITHIN, CONFIRM_SELECT, |out| {
            out.u8(0);
            Ok(())
        })
        .await?;
        Ok(())
    }

    /// What it means that the channel ended before a verdict.
    fn refusal(&self) -> Result<PublishOutcome, RawError> {
        match self.reason() {
            RawError::ChannelClosed { code, text } => Ok(PublishOutcome::ChannelClosed { code, text }),
            reason => Err(reason),
        }
    }

    fn encode_publish(&self, exchange: &Text, key: &Text, message: &RawMessage) -> Result<Vec<u8>, RawError> {
        const MANDATORY: u8 = 1;
        const BASIC: u16 = 60;
        let mut frames = self.frames(PUBLISH, |out| {
            out.u16(0);
            out.short("exchange name", exchange.as_bytes())?;
            out.short("routing key", key.as_bytes())?;
            out.u8(MANDATORY);
            Ok(())
        })?;
        let body_bytes = message.body.as_ref().map_or(0, Bytes::len);
        let start = frames.len();
        frame::append(&mut frames, HEADER, self.channel.number, |out| {
            out.extend_from_slice(&BASIC.to_be_bytes());
            out.extend_from_slice(&0u16.to_be_bytes());
            out.extend_from_slice(&(body_bytes as u64).to_be_bytes());
            let none = AmqpProperties::default();
            codec::encode_properties(out, message.properties.amqp().unwrap_or(&none), &message.headers)
        })?;
        // A content header cannot be cut; sent anyway, it would cost the connection.
        let bytes = frames.len() - start;
        let frame_max = self.frame_max();
        if frame_max != 0 && bytes > frame_max as usize {
            return Err(RawError::HeadersTooLong { bytes, frame_max });
        }
        Ok(frames)
    }
}

/// Closes the channel when a publish without a mark is given up: its return, come late, would be taken for that of the
/// next one.
struct CloseUnlessDecided<'a> {
    channel: &'a RawChannel,
    decided: bool,
}

impl Drop for CloseUnlessDecided<'_> {
    fn drop(&mut self) {
        if !self.decided {
            let RawChannel { wire, channel, .. } = self.channel;
            channel.abandon(&wire.shared, RawError::Deadline(WHAT));
        }
    }
}
