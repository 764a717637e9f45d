//! The queue a source takes from: declared when it is ours, looked at when it is not.

use lapin::{
    Channel, ErrorKind, ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    protocol::{AMQPErrorKind, AMQPSoftError},
    types::{AMQPValue, FieldTable},
};

/// More returns than a queue will ever see. Without it RabbitMQ 4 destroys a message at its 21st; −1 means "no limit"
/// there but "none at all" on 3.10.
const DELIVERY_LIMIT: i64 = 2_000_000_000;

/// What kind of queue we declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueType {
    Quorum,
    Classic,
}

/// The queue of one source.
#[derive(Clone, Debug)]
pub struct Queue {
    pub name: String,
    /// With an exchange both are ours; without, the queue is somebody's and only consumed.
    pub exchange: Option<String>,
    pub queue_type: QueueType,
}

/// Why the queue cannot be taken from.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    #[error(
        "{what} exists with other settings than dlo would declare: {reply}. To go on: set `queue_type` as it is, or leave \
         `exchange` out of the source to consume the queue as it stands, or delete it and let dlo declare it"
    )]
    Differs { what: String, reply: String },
    #[error(
        "queue {queue:?} does not exist ({reply}); create it, or give the source an `exchange` and dlo declares both"
    )]
    Missing { queue: String, reply: String },
    #[error("the broker's user may not {action}: {reply}; `rabbitmqctl set_permissions` grants it")]
    NotAllowed { action: String, reply: String },
    #[error("the broker does not answer as it should")]
    Broker(#[from] lapin::Error),
}

impl Queue {
    /// Makes sure that the queue is there. A refusal closes `channel`.
    pub async fn prepare(&self, channel: &Channel) -> Result<(), TopologyError> {
        match &self.exchange {
            Some(exchange) => self.declare(channel, exchange).await,
            None => self.look(channel).await,
        }
    }

    async fn declare(&self, channel: &Channel, exchange: &str) -> Result<(), TopologyError> {
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        channel
            .exchange_declare(exchange.into(), ExchangeKind::Topic, durable, FieldTable::default())
            .await
            .map_err(|error| explain(error, &format!("exchange {exchange:?}"), "declare its exchange"))?;
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let what = format!("queue {:?}", self.name);
        channel
            .queue_declare(self.name.as_str().into(), durable, self.arguments())
            .await
            .map_err(|error| explain(error, &what, "declare its queue"))?;
        channel
            .queue_bind(
                self.name.as_str().into(),
                exchange.into(),
                "#".into(),
                QueueBindOptions::default(),
                FieldTable::default(),
            )
            .await
            .map_err(|error| explain(error, &what, "bind its queue"))
    }

    /// Neither a time to live nor a dead-letter exchange nor a length: what comes here stays until we have it.
    fn arguments(&self) -> FieldTable {
        let mut arguments = FieldTable::default();
        match self.queue_type {
            QueueType::Classic => {
                arguments.insert("x-queue-type".into(), AMQPValue::LongString("classic".into()));
            }
            QueueType::Quorum => {
                arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
                arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(DELIVERY_LIMIT));
            }
        }
        arguments
    }

    async fn look(&self, channel: &Channel) -> Result<(), TopologyError> {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        match channel.queue_declare(self.name.as_str().into(), passive, FieldTable::default()).await {
            Ok(_) => Ok(()),
            Err(error) => match reply(&error) {
                Some((AMQPSoftError::NOTFOUND, reply)) => {
                    Err(TopologyError::Missing { queue: self.name.clone(), reply })
                }
                // Reading needs no right to configure, which even a passive look wants: consuming will tell.
                Some((AMQPSoftError::ACCESSREFUSED, _)) => Ok(()),
                _ => Err(error.into()),
            },
        }
    }
}

fn explain(error: lapin::Error, what: &str, action: &str) -> TopologyError {
    match reply(&error) {
        Some((AMQPSoftError::PRECONDITIONFAILED, reply)) => TopologyError::Differs { what: what.to_owned(), reply },
        Some((AMQPSoftError::ACCESSREFUSED, reply)) => TopologyError::NotAllowed { action: action.to_owned(), reply },
        _ => error.into(),
    }
}

/// The broker's reply to what it refused on a channel.
#[must_use]
pub fn reply(error: &lapin::Error) -> Option<(AMQPSoftError, String)> {
    let ErrorKind::ProtocolError(error) = error.kind() else { return None };
    match error.kind() {
        AMQPErrorKind::Soft(kind) => Some((kind.clone(), error.get_message().to_string())),
        AMQPErrorKind::Hard(_) => None,
    }
}
