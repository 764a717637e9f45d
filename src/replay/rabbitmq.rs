//! Publishing to RabbitMQ: mandatory, with confirms, over a connection of its own.

mod lane;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};

use self::lane::{Lane, Place};
use super::{Confirmed, Look, Patience, PublishError, Publisher};
use crate::{
    amqp::{
        connection::{Broker, StandingNow},
        raw::{Mark, PublishFailure, PublishOutcome, RawChannel, RawError},
    },
    dead_letter::REPLAY_ID,
    dialect::{self, Publish},
    message::{Headers, RawMessage, Text, Value},
};

/// For the broker's word on a publish; after that it is in doubt.
const CONFIRM_DEADLINE: Duration = Duration::from_secs(30);
/// A larger message may be over the broker's limit, which costs the channel.
const LARGE_BYTES: usize = 1024 * 1024;
/// Messages that go alone, at once.
const ALONE_MAX: usize = 8;
/// Exchanges with a lane of their own. Beyond that, those that are idle are closed.
const LANES_MAX: usize = 64;

/// A [`Publisher`] for one RabbitMQ broker.
///
/// A refusal (no such exchange, no right to write) closes the channel, and with it go the verdicts on everything under
/// way there. So every exchange has a [`Lane`] of its own, whose first publish goes alone; and what a broker may refuse
/// for the message's own sake (large, with a direct reply-to) goes alone on a channel of its own. What may cost a
/// connection goes over another one.
///
/// The broker's word on a message is told from its word on another by the number of the confirm and, for a returned
/// message, by its replay token.
#[derive(Debug)]
pub struct RabbitPublisher {
    broker: Arc<Broker>,
    apart: Broker,
    lanes: Mutex<Lanes>,
    alone: Semaphore,
    suspect: Semaphore,
}

#[derive(Debug, Default)]
struct Lanes {
    by_exchange: HashMap<Text, Arc<Lane>>,
    /// Exchanges that refused one message of many. The next may be another one: there they go one at a time.
    picky: HashSet<Text>,
}

impl RabbitPublisher {
    #[must_use]
    pub fn new(broker: Arc<Broker>) -> Self {
        let apart = broker.apart();
        let (alone, suspect) = (Semaphore::new(ALONE_MAX), Semaphore::new(1));
        Self { broker, apart, lanes: Mutex::default(), alone, suspect }
    }

    fn lanes(&self) -> std::sync::MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lane(&self, exchange: &Text) -> Arc<Lane> {
        let mut lanes = self.lanes();
        if let Some(lane) = lanes.by_exchange.get(exchange) {
            return Arc::clone(lane);
        }
        if lanes.by_exchange.len() >= LANES_MAX {
            lanes.by_exchange.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
        let lane = Arc::new(if lanes.picky.contains(exchange) { Lane::narrow() } else { Lane::new() });
        lanes.by_exchange.insert(exchange.clone(), Arc::clone(&lane));
        lane
    }

    /// The lane is over; the next publish begins another.
    fn retire(&self, exchange: &Text, lane: &Arc<Lane>) {
        let mut lanes = self.lanes();
        if lanes.by_exchange.get(exchange).is_some_and(|current| Arc::ptr_eq(current, lane)) {
            lanes.by_exchange.remove(exchange);
        }
    }

    async fn in_lane(&self, publish: Addressed<'_>, patience: &Patience) -> Result<Confirmed, PublishError> {
        loop {
            let lane = self.lane(publish.exchange);
            let late = "those before it took all the time there was";
            let Place { channel, alone, _permit } =
                match before_sending(patience, late, lane.place(&self.broker)).await? {
                    Some(Ok(place)) => place,
                    Some(Err(why)) => {
                        self.retire(publish.exchange, &lane);
                        return Err(PublishError::NotSent(why));
                    }
                    None => {
                        self.retire(publish.exchange, &lane);
                        continue;
                    }
                };
            let outcome = send(channel, publish, patience).await;
            match outcome {
                Ok(PublishOutcome::ChannelClosed { code, text }) if !alone => {
                    self.retire(publish.exchange, &lane);
                    self.lanes().picky.insert(publish.exchange.clone());
                    return Err(PublishError::InDoubt(format!("another message was refused beside it: {code} {text}")));
                }
                Ok(PublishOutcome::ChannelClosed { .. }) => self.retire(publish.exchange, &lane),
                // The lane was closed before this one's turn came.
                Err(PublishFailure::NotSent(RawError::ChannelClosed { .. } | RawError::ClosedByUs)) => {
                    self.retire(publish.exchange, &lane);
                    continue;
                }
                Ok(_) => lane.widen(),
                // Its verdict may still come, and be taken for that on the next one.
                Err(_) => self.retire(publish.exchange, &lane),
            }
            return verdict(outcome);
        }
    }

    /// On a channel, or even a connection, of its own.
    async fn alone(
        &self,
        publish: Addressed<'_>,
        patience: &Patience,
        is_suspect: bool,
    ) -> Result<Confirmed, PublishError> {
        let (broker, turns) = if is_suspect { (&self.apart, &self.suspect) } else { (&*self.broker, &self.alone) };
        let not_sent = |why: &str| PublishError::NotSent(why.to_owned());
        let opened = before_sending(patience, "the broker opens no channel in time", async {
            let turn = turns.acquire().await.map_err(|_| not_sent("the publisher is closed"))?;
            let channel = broker.raw_channel().await.map_err(|error| not_sent(&error.to_string()))?;
            Ok((turn, channel))
        });
        let (_turn, channel) = opened.await??;
        let outcome = send(&channel, publish, patience).await;
        let _ = channel.close(Duration::from_secs(2)).await;
        if is_suspect {
            self.apart.close().await;
        }
        match outcome {
            // Nothing else was on the connection. A broker that is being stopped says so with 320.
            Err(PublishFailure::InDoubt(RawError::ConnectionClosed { code, text })) if is_suspect && code != 320 => {
                Err(PublishError::Refused(format!("{code} {text}")))
            }
            outcome => verdict(outcome),
        }
    }
}

/// A publish to an exchange.
#[derive(Clone, Copy)]
struct Addressed<'a> {
    exchange: &'a Text,
    routing_key: &'a Text,
    message: &'a RawMessage,
}

/// Waits for what must be there before anything is sent.
async fn before_sending<T>(patience: &Patience, late: &str, wait: impl Future<Output = T>) -> Result<T, PublishError> {
    tokio::select! {
        // In this order: what the last one leaves behind when it gives up is no place for the next.
        biased;
        () = patience.last_call.cancelled() => Err(PublishError::NotSent("dlo is being stopped".to_owned())),
        there = timeout_at(patience.begin_by, wait) => there.map_err(|_| PublishError::NotSent(late.to_owned())),
    }
}

async fn send(
    channel: &RawChannel,
    publish: Addressed<'_>,
    patience: &Patience,
) -> Result<PublishOutcome, PublishFailure> {
    let value = match publish.message.headers.get_last(REPLAY_ID) {
        Some(Value::Str(token)) => token.clone(),
        _ => Text::default(),
    };
    let mark = Mark { header: REPLAY_ID, value };
    let Addressed { exchange, routing_key, message } = publish;
    let until = patience.until.min(Instant::now() + CONFIRM_DEADLINE);
    let published = channel.publish_marked(exchange, routing_key, message, mark, patience.begin_by.min(until), until);
    let stopped = || Err(PublishFailure::InDoubt(RawError::ClosedByUs));
    patience.last_call.run_until_cancelled(published).await.unwrap_or_else(stopped)
}

/// The broker's word, where it is about this message and no other.
fn verdict(outcome: Result<PublishOutcome, PublishFailure>) -> Result<Confirmed, PublishError> {
    match outcome {
        Ok(PublishOutcome::Routed) => Ok(Confirmed::new()),
        Ok(PublishOutcome::Returned { code, text }) => {
            Err(PublishError::Unroutable(format!("returned: {code} {text}")))
        }
        Ok(PublishOutcome::Nacked) => Err(PublishError::Refused(
            "not taken by every queue it was routed to (nack): full, with overflow reject-publish, or not available"
                .to_owned(),
        )),
        Ok(PublishOutcome::ChannelClosed { code, text }) => Err(PublishError::Refused(format!("{code} {text}"))),
        Err(PublishFailure::NotSent(error @ (RawError::Encode(_) | RawError::HeadersTooLong { .. }))) => {
            Err(PublishError::Refused(error.to_string()))
        }
        Err(PublishFailure::NotSent(error)) => Err(PublishError::NotSent(error.to_string())),
        Err(PublishFailure::InDoubt(RawError::ClosedByUs)) => {
            Err(PublishError::InDoubt("dlo was stopped before the broker answered".to_owned()))
        }
        Err(PublishFailure::InDoubt(error)) => Err(PublishError::InDoubt(error.to_string())),
    }
}

/// Whether the broker may refuse this message for its own sake.
fn is_risky(message: &RawMessage) -> bool {
    let properties = message.properties.amqp();
    let reply_to = properties.and_then(|p| p.reply_to.as_ref());
    let expiration = properties.and_then(|p| p.expiration.as_ref());
    message.body.as_ref().map_or(0, bytes::Bytes::len) > LARGE_BYTES
        || reply_to.is_some_and(|to| to.as_bytes().starts_with(b"amq.rabbitmq.reply-to"))
        || expiration.is_some_and(|expiration| !is_milliseconds(expiration))
}

fn is_milliseconds(text: &Text) -> bool {
    text.as_bytes().iter().all(u8::is_ascii_digit) && text.as_str().is_some_and(|text| text.parse::<u32>().is_ok())
}

/// Whether something in the headers could not be taken apart: a broker that cannot either ends the connection.
fn is_suspect(headers: &Headers) -> bool {
    fn within(value: &Value) -> bool {
        match value {
            Value::Opaque(_) => true,
            Value::Array(values) => values.iter().any(within),
            Value::Table(headers) => is_suspect(headers),
            _ => false,
        }
    }
    headers.iter().any(|(_, value)| within(value))
}

#[async_trait]
impl Publisher for RabbitPublisher {
    async fn ready(&self, look: Look) -> Result<(), String> {
        match (self.broker.standing().await, look) {
            (StandingNow::Blocked(why), _) => Err(why),
            (StandingNow::Open, Look::Glance) => Ok(()),
            (StandingNow::Gone, Look::Glance) => Err("not connected".to_owned()),
            // A broker that opens a channel is there.
            (_, Look::Ask) => self.broker.raw_channel().await.map(drop).map_err(|error| error.to_string()),
        }
    }

    async fn publish(&self, publish: &Publish, patience: &Patience) -> Result<Confirmed, PublishError> {
        let dialect::Place::Exchange { exchange, routing_key } = &publish.place else {
            return Err(PublishError::Refused("RabbitMQ has no topics".to_owned()));
        };
        let addressed = Addressed { exchange, routing_key, message: &publish.message };
        let is_suspect = is_suspect(&publish.message.headers);
        if is_suspect || is_risky(&publish.message) {
            return self.alone(addressed, patience, is_suspect).await;
        }
        self.in_lane(addressed, patience).await
    }

    async fn close(&self) {
        self.lanes().by_exchange.clear();
        self.apart.close().await;
        self.broker.close().await;
    }
}
