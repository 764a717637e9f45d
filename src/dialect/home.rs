//! The way home: what to publish, and where, to give a letter back to the consumer that failed.

mod place;
#[cfg(test)]
mod tests;

use super::{speakers, strip};
use crate::{
    dead_letter::{CapturedFrom, LETTER_ID, Origin, REPLAY_ID},
    message::{KafkaProperties, Properties, RawMessage, Text, Value},
};

/// A place that takes messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// RabbitMQ.
    Exchange { exchange: Text, routing_key: Text },
    /// Kafka. Without a partition, or where that is no more, the key chooses.
    Topic { topic: Text, partition: Option<i32> },
}

impl Place {
    /// A queue is the default exchange with its name as the routing key.
    #[must_use]
    pub fn queue(name: impl Into<Text>) -> Self {
        Self::Exchange { exchange: Text::default(), routing_key: name.into() }
    }
}

/// Where a replay is asked to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The original exchange and routing key, or the original topic and partition. Where the exchange is unknown, the
    /// queue that failed.
    Original,
    /// Only the consumer that failed. RabbitMQ: its queue, through the default exchange. Kafka: a topic that no other
    /// group reads, which few frameworks have.
    Queue,
    /// A place named in the request.
    At(Place),
}

impl Target {
    /// A queue named in the request.
    #[must_use]
    pub fn queue(name: impl Into<Text>) -> Self {
        Self::At(Place::queue(name))
    }
}

/// What to publish, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Publish {
    pub place: Place,
    /// A Kafka record has no timestamp here: the time of a replay is now, unless somebody sets another.
    pub message: RawMessage,
}

/// What is known of a letter beside its message.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    pub dialect: Option<&'a str>,
    pub captured: &'a CapturedFrom,
    pub origin: &'a Origin,
    /// Its null value is the record's own.
    pub is_tombstone: bool,
}

/// Why a letter cannot be sent to the target asked for.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NoHome {
    #[error("the queue that failed is not known for this letter; name a target")]
    UnknownQueue,
    #[error("the original exchange is not known for this letter; name a target")]
    UnknownExchange,
    #[error("the original topic is not known for this letter; name a target")]
    UnknownTopic,
    #[error(
        "no topic is known that only the consumer group of this letter reads; name one, or send it to the original \
         topic, which reaches every group there"
    )]
    UnknownGroupTopic,
    #[error("the letter came from RabbitMQ; name an exchange or a queue")]
    NotOnKafka,
    #[error("the letter came from Kafka; name a topic")]
    NotOnRabbitmq,
    #[error(
        "the letter only points at its record and has no value; a null in its place would delete what has the same key"
    )]
    NoValue,
}

/// The publish that sends a letter home.
///
/// `known` is what was stored; `message` is what came in, or a person's edit of it. A stored origin stands, and where it
/// is missing the message is read again: a text column cannot hold every routing key, and a later version may understand
/// more. Store an origin only as it is, never in part.
///
/// The message keeps its body, its key, its properties and every header of its producer. It loses what brokers wrote,
/// what the dialect and every other dialect that recognises it wrote, and the headers of an earlier replay.
/// The new ones are added with [`stamp`]. Of AMQP's properties only `user_id` goes, which the broker refuses
/// from another user. `expiration` stays as delivered: the broker takes it off when it dead-letters a
/// message, and it is not restored; one that is still there was kept by the client that republished the
/// letter, is a duration that starts anew with each publish, and is as much the producer's as the body.
pub fn home(known: Known<'_>, mut message: RawMessage, target: &Target) -> Result<Publish, NoHome> {
    // All are asked before the first strips: what one removes may be how another is recognised.
    let speakers: Vec<_> = speakers(known.dialect, &message, known.captured).collect();
    let place = place::find(known, &message, &speakers, target)?;

    for speaker in speakers {
        speaker.freshen(&mut message);
    }
    match &mut message.properties {
        Properties::Amqp(properties) => {
            properties.user_id = None;
            strip::rabbitmq(&mut message.headers);
        }
        Properties::Kafka(_) if message.body.is_none() && !known.is_tombstone => return Err(NoHome::NoValue),
        Properties::Kafka(properties) => *properties = KafkaProperties::default(),
    }
    strip::stamps(&mut message.headers);
    Ok(Publish { place, message })
}

/// Marks a message as this attempt at this letter. Strings, because there are consumers that refuse a
/// message with a header of any other type.
pub fn stamp(message: &mut RawMessage, letter_id: i64, token: &str) {
    let on_kafka = message.properties.kafka().is_some();
    let string = |text: String| if on_kafka { Value::Bytes(text.into_bytes()) } else { Value::Str(text.into()) };
    message.headers.set(LETTER_ID, string(letter_id.to_string()));
    message.headers.set(REPLAY_ID, string(token.to_owned()));
}
