//! Publishing, one message at a time, each with its verdict.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::super::RawError;
use super::super::frame::{self, HEADER};
use super::super::method::{CONFIRM_SELECT, PUBLISH};
use super::super::state::Publish;
use super::RawChannel;
use crate::amqp::codec;
use crate::message::{AmqpProperties, RawMessage, Text};

/// What became of a message, once the broker has said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishOutcome {
    /// In a queue, or wherever the exchange routes to.
    Routed,
    /// No queue takes it.
    Returned { code: u16, text: String },
    /// The broker could not take responsibility.
    Nacked,
    /// The broker refuses such a publish: 404 is an exchange that does not exist. The channel is spent.
    ChannelClosed { code: u16, text: String },
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
        let frames = self.encode_publish(exchange, routing_key, message)?;
        let body = message.body.clone().unwrap_or_default();
        let published = timeout(within, self.publish_encoded(frames, body, within)).await;
        published.map_err(|_| RawError::Deadline("basic.publish"))?
    }

    async fn publish_encoded(
        &self,
        frames: Vec<u8>,
        body: Bytes,
        within: Duration,
    ) -> Result<PublishOutcome, RawError> {
        let mut confirming = self.confirming.lock().await;
        if !*confirming {
            self.ask("confirm.select", within, CONFIRM_SELECT, |out| {
                out.u8(0);
                Ok(())
            })
            .await?;
            *confirming = true;
        }
        self.room().await?;
        let (done, verdict) = oneshot::channel();
        {
            let mut state = self.channel.lock();
            state.ensure_open()?;
            state.published += 1;
            state.publish = Some(Publish { tag: state.published, returned: None, done });
            self.wire.shared.outbox.push(frames, Some((self.channel.number, body)));
        }
        let mut in_doubt = CloseUnlessDecided { channel: self, decided: false };
        let verdict = verdict.await;
        in_doubt.decided = true;
        match verdict {
            Ok(outcome) => Ok(outcome),
            Err(_) => match self.reason() {
                RawError::ChannelClosed { code, text } => Ok(PublishOutcome::ChannelClosed { code, text }),
                reason => Err(reason),
            },
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

/// Closes the channel when a publish is given up: its verdict, come late, would be taken for the next one's.
struct CloseUnlessDecided<'a> {
    channel: &'a RawChannel,
    decided: bool,
}

impl Drop for CloseUnlessDecided<'_> {
    fn drop(&mut self) {
        if !self.decided {
            let RawChannel { wire, channel, .. } = self.channel;
            channel.abandon(&wire.shared, RawError::Deadline("basic.publish"));
        }
    }
}
