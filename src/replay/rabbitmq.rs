//! Publishing to RabbitMQ: mandatory, with confirms, over a connection of its own.

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use lapin::{
    Channel, Confirmation, ExchangeKind,
    options::{BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions},
    types::{FieldTable, ShortString},
};
use tokio::{sync::Mutex, time::timeout};

use super::{Confirmed, PublishError, Publisher};
use crate::{
    amqp::{
        connection::Broker,
        convert,
        raw::{PublishOutcome, RawError},
    },
    dialect::Publish,
    message::RawMessage,
    source::rabbitmq::topology::reply,
};

/// For the broker's word on a publish; after that it is in doubt.
const CONFIRM_DEADLINE: Duration = Duration::from_secs(30);
/// A larger message may be over the broker's limit, which costs the channel.
const LARGE_BYTES: usize = 1024 * 1024;

/// A [`Publisher`] for one RabbitMQ broker.
///
/// A refusal closes the channel, and with it the answers to all that was published on it. So every exchange has a
/// channel of its own, whose first publish goes alone, and a message that a broker may refuse for its own sake (large,
/// or with a direct reply-to) goes alone on a channel of its own.
#[derive(Debug)]
pub struct RabbitPublisher {
    broker: Arc<Broker>,
    channels: Mutex<HashMap<ShortString, Channel>>,
}

impl RabbitPublisher {
    #[must_use]
    pub fn new(broker: Arc<Broker>) -> Self {
        Self { broker, channels: Mutex::default() }
    }

    async fn channel(&self) -> Result<Channel, PublishError> {
        let not_sent = |error: String| PublishError::NotSent(error);
        let channel = self.broker.channel().await.map_err(|error| not_sent(error.to_string()))?;
        timeout(CONFIRM_DEADLINE, channel.confirm_select(ConfirmSelectOptions::default()))
            .await
            .map_err(|_| not_sent("the broker does not answer to confirm.select".to_owned()))?
            .map_err(|error| not_sent(error.to_string()))?;
        Ok(channel)
    }

    /// The exchange's channel, and whether it was tried before.
    async fn channel_for(&self, exchange: &ShortString) -> Result<Channel, PublishError> {
        let mut channels = self.channels.lock().await;
        if let Some(channel) = channels.get(exchange).filter(|channel| channel.status().connected()) {
            return Ok(channel.clone());
        }
        let channel = self.channel().await?;
        if !exchange.as_str().is_empty() {
            let passive = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
            let look = channel.exchange_declare(exchange.clone(), ExchangeKind::Topic, passive, FieldTable::default());
            match timeout(CONFIRM_DEADLINE, look).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(refused_or(&error, PublishError::NotSent)),
                Err(_) => {
                    return Err(PublishError::NotSent("the broker does not answer to exchange.declare".to_owned()));
                }
            }
        }
        channels.insert(exchange.clone(), channel.clone());
        Ok(channel)
    }

    async fn by_lapin(
        channel: &Channel,
        exchange: ShortString,
        routing_key: ShortString,
        properties: lapin::BasicProperties,
        body: &[u8],
    ) -> Result<Confirmed, PublishError> {
        let mandatory = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let in_doubt = |why: String| PublishError::InDoubt(why);
        let sent =
            timeout(CONFIRM_DEADLINE, channel.basic_publish(exchange, routing_key, mandatory, body, properties)).await;
        let confirm = sent
            .map_err(|_| in_doubt("the broker takes nothing (connection blocked?)".to_owned()))?
            .map_err(|error| refused_or(&error, PublishError::InDoubt))?;
        match timeout(CONFIRM_DEADLINE, confirm).await {
            Err(_) => Err(in_doubt(format!("no confirm within {} s", CONFIRM_DEADLINE.as_secs()))),
            Ok(Err(error)) => Err(refused_or(&error, PublishError::InDoubt)),
            Ok(Ok(Confirmation::Ack(None))) => Ok(Confirmed::new()),
            Ok(Ok(Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned)))) => {
                Err(PublishError::Unroutable(format!("returned: {} {}", returned.reply_code, returned.reply_text)))
            }
            Ok(Ok(Confirmation::Nack(None))) => {
                Err(PublishError::Refused("the broker could not take it (nack); its log says why".to_owned()))
            }
            Ok(Ok(Confirmation::NotRequested)) => Err(in_doubt("the channel gives no confirms".to_owned())),
        }
    }

    /// For messages that lapin's types cannot hold.
    async fn raw(&self, publish: &Publish) -> Result<Confirmed, PublishError> {
        let channel = self.broker.raw_channel().await.map_err(|error| PublishError::NotSent(error.to_string()))?;
        let outcome =
            channel.publish(&publish.exchange, &publish.routing_key, &publish.message, CONFIRM_DEADLINE).await;
        match outcome {
            Ok(PublishOutcome::Routed) => Ok(Confirmed::new()),
            Ok(PublishOutcome::Returned { code, text }) => {
                Err(PublishError::Unroutable(format!("returned: {code} {text}")))
            }
            Ok(PublishOutcome::Nacked) => Err(PublishError::Refused("the broker could not take it (nack)".to_owned())),
            Ok(PublishOutcome::ChannelClosed { code, text }) => Err(PublishError::Refused(format!("{code} {text}"))),
            Err(error @ (RawError::Encode(_) | RawError::HeadersTooLong { .. })) => {
                Err(PublishError::Refused(error.to_string()))
            }
            Err(error) => Err(PublishError::InDoubt(error.to_string())),
        }
    }
}

/// A refusal with the broker's reason, or what `otherwise` makes of the error.
fn refused_or(error: &lapin::Error, otherwise: fn(String) -> PublishError) -> PublishError {
    match reply(error) {
        Some((_, reply)) => PublishError::Refused(reply),
        None => otherwise(error.to_string()),
    }
}

/// Whether the broker may refuse this message for its own sake.
fn is_risky(message: &RawMessage) -> bool {
    let reply_to = message.properties.amqp().and_then(|p| p.reply_to.as_ref());
    message.body.as_ref().map_or(0, bytes::Bytes::len) > LARGE_BYTES
        || reply_to.is_some_and(|to| to.as_bytes().starts_with(b"amq.rabbitmq.reply-to"))
        || message.properties.amqp().is_some_and(|p| p.expiration.is_some())
}

#[async_trait]
impl Publisher for RabbitPublisher {
    async fn publish(&self, publish: &Publish) -> Result<Confirmed, PublishError> {
        let names = convert::to_short(&publish.exchange).zip(convert::to_short(&publish.routing_key));
        let Some(((exchange, routing_key), properties)) = names.zip(convert::to_lapin(&publish.message)) else {
            return self.raw(publish).await;
        };
        let body = publish.message.body.as_deref().unwrap_or_default();
        if is_risky(&publish.message) {
            let channel = self.channel().await?;
            let outcome = Self::by_lapin(&channel, exchange, routing_key, properties, body).await;
            let _ = channel.close(200, "done".into()).await;
            return outcome;
        }
        let channel = self.channel_for(&exchange).await?;
        Self::by_lapin(&channel, exchange, routing_key, properties, body).await
    }

    async fn close(&self) {
        self.channels.lock().await.clear();
        self.broker.close().await;
    }
}
