//! One channel's life on one queue.

use std::{num::NonZeroU16, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::prefetch::Prefetch;
use crate::{
    amqp::raw::{RawChannel, RawConsumer, RawDelivery, RawError},
    message::{Headers, Value},
    source::session::Session,
};

/// For one question to the broker.
pub(super) const ANSWER_DEADLINE: Duration = Duration::from_secs(15);

/// How often a broker is asked whether it has our acks.
pub(super) const PING_EVERY: Duration = Duration::from_secs(1);

/// A link that stood this long was no failure, though nothing may have come over it.
const SOUND_AFTER: Duration = Duration::from_secs(5);

/// How a link ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("the broker cancelled the consumer: the queue was deleted, or its leader moved")]
    Cancelled,
    #[error("{0}")]
    Raw(RawError),
    #[error("the broker does not answer to {0}")]
    Silent(&'static str),
    #[error("delivery tag {got} follows {last}: deliveries were lost on the way; none after it is acked")]
    Gap { last: u64, got: u64 },
    #[error(
        "the queue is a stream, which this version does not capture from; let the stream's letters go to a quorum queue"
    )]
    Stream,
}

impl From<RawError> for LinkError {
    fn from(error: RawError) -> Self {
        match error {
            RawError::ConsumerCancelled => Self::Cancelled,
            RawError::Deadline(what) => Self::Silent(what),
            // "invalid arg 'x-priority' for queue … of queue type rabbit_stream_queue"
            RawError::ChannelClosed { code: 406, ref text } if text.contains(PRIORITY) => Self::Stream,
            error => Self::Raw(error),
        }
    }
}

/// A link and its session.
pub(super) struct Link {
    pub(super) session: Arc<Session>,
    /// Which link of this source: tokens of another are stale.
    pub(super) number: u64,
    channel: RawChannel,
    consumer: RawConsumer,
    queue: String,
    /// The prefetch of the consumer to follow this one, which is cancelled.
    draining: Option<NonZeroU16>,
    last_tag: u64,
    acked_tag: u64,
    opened: Instant,
    /// When the broker last answered.
    pinged: Instant,
    /// What ended it, seen while taking along what was there already; to be told at the next wait.
    ended: Option<LinkError>,
}

/// The priority everybody has. Streams know no priority and refuse it; otherwise one would look like a queue into which
/// nothing comes.
const PRIORITY: &str = "x-priority";

fn arguments() -> Headers {
    std::iter::once((PRIORITY.into(), Value::I32(0))).collect()
}

impl Link {
    /// Consumes from a queue, as the only consumer the channel ever had.
    pub(super) async fn open(
        channel: RawChannel,
        queue: &str,
        prefetch: u16,
        session: Arc<Session>,
        number: u64,
    ) -> Result<Self, LinkError> {
        let consumer = channel.consume(queue, at_least_one(prefetch), &arguments(), ANSWER_DEADLINE).await?;
        Ok(Self {
            session,
            number,
            channel,
            consumer,
            queue: queue.to_owned(),
            draining: None,
            last_tag: 0,
            acked_tag: 0,
            opened: Instant::now(),
            pinged: Instant::now(),
            ended: None,
        })
    }

    /// Delivered and not yet acked.
    pub(super) fn unacked(&self) -> u64 {
        self.last_tag - self.acked_tag
    }

    /// Whether it was worth opening: the queue has become shorter by it, or it stood for a while.
    pub(super) fn was_sound(&self) -> bool {
        self.acked_tag > 0 || self.opened.elapsed() >= SOUND_AFTER
    }

    /// The next message. Cancel safe.
    pub(super) async fn next(&mut self, prefetch: &mut Prefetch) -> Result<RawDelivery, LinkError> {
        if let Some(why) = self.ended.take() {
            return Err(why);
        }
        loop {
            if let Some(received) = self.consumer.next().await? {
                return self.check(received, prefetch);
            }
            // The old consumer is drained: the next window may open. Nothing waits from here to the loop's end.
            let wanted = self.draining.take().ok_or(LinkError::Cancelled)?;
            self.consumer = self.channel.consume_soon(&self.queue, wanted, &arguments())?;
            prefetch.set(wanted.get());
        }
    }

    /// A message that is here already. What ends the link instead is told by [`Link::next`].
    pub(super) fn ready(&mut self, prefetch: &mut Prefetch) -> Option<RawDelivery> {
        let received = self.consumer.ready()?;
        self.check(received, prefetch).map_err(|why| self.ended = Some(why)).ok()
    }

    fn check(&mut self, received: RawDelivery, prefetch: &mut Prefetch) -> Result<RawDelivery, LinkError> {
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
        if self.draining.is_none() {
            self.draining = Some(at_least_one(wanted));
            self.channel.cancel(ANSWER_DEADLINE).await?;
        }
        Ok(())
    }

    /// Acks all up to `tag`.
    pub(super) async fn ack(&mut self, tag: u64) -> Result<(), LinkError> {
        self.channel.ack_up_to(tag, ANSWER_DEADLINE).await?;
        self.acked_tag = tag;
        self.session.ack_sent(tag);
        Ok(())
    }

    /// A question whose answer proves that the channel is alive and that the broker has every ack sent before.
    pub(super) async fn ping(&mut self) -> Result<(), LinkError> {
        self.channel.ping(ANSWER_DEADLINE).await?;
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
        let _ = self.channel.close(Duration::from_secs(2)).await;
        settled
    }
}

/// A prefetch of zero would be no limit.
fn at_least_one(prefetch: u16) -> NonZeroU16 {
    NonZeroU16::new(prefetch).unwrap_or(NonZeroU16::MIN)
}
