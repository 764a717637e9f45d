//! The way home: what to publish, and where, to give a letter back to the consumer that failed.

use super::{read, speakers, strip};
use crate::{
    dead_letter::{CapturedFrom, LETTER_ID, Origin, REPLAY_ID},
    message::{RawMessage, Text, Value},
};

/// Where a replay is asked to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The original exchange and routing key. Where those are unknown, the queue that failed.
    Original,
    /// Only the queue that failed, through the default exchange.
    Queue,
    /// A place named in the request. A queue is the default exchange with its name as the routing key.
    Exchange { exchange: Text, routing_key: Text },
}

impl Target {
    /// A queue named in the request.
    #[must_use]
    pub fn queue(name: impl Into<Text>) -> Self {
        Self::Exchange { exchange: Text::default(), routing_key: name.into() }
    }
}

/// What to publish, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Publish {
    pub exchange: Text,
    pub routing_key: Text,
    pub message: RawMessage,
}

/// Why a letter cannot be sent to the target asked for.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NoHome {
    #[error("the queue that failed is not known for this letter; name a target")]
    UnknownQueue,
    #[error("the original exchange is not known for this letter; name a target")]
    UnknownOrigin,
}

/// The publish that sends a letter home.
///
/// `dialect`, `captured` and `origin` are what was stored; `message` is what came in, or a person's edit of
/// it. A stored origin stands, and where it is missing the message is read again: a text column cannot hold
/// every routing key, and a later version may understand more. Store an origin only as it is, never in part.
///
/// The message keeps its body, its properties and every header of its producer. It loses what brokers wrote,
/// what the dialect and every other dialect that recognises it wrote, and the headers of an earlier replay.
/// The new ones are added with [`stamp`]. Of the properties only `user_id` goes, which the broker refuses
/// from another user. `expiration` stays as delivered: the broker takes it off when it dead-letters a
/// message, and it is not restored; one that is still there was kept by the client that republished the
/// letter, is a duration that starts anew with each publish, and is as much the producer's as the body.
pub fn home(
    dialect: Option<&str>,
    mut message: RawMessage,
    captured: &CapturedFrom,
    origin: &Origin,
    target: &Target,
) -> Result<Publish, NoHome> {
    let (exchange, routing_key) = place(&message, captured, origin, target)?;

    // All are asked before the first strips: what one removes may be how another is recognised.
    let speakers: Vec<_> = speakers(dialect, &message, captured).collect();
    for speaker in speakers {
        speaker.freshen(&mut message);
    }
    if let Some(properties) = message.properties.amqp_mut() {
        properties.user_id = None;
        strip::rabbitmq(&mut message.headers);
    }
    strip::stamps(&mut message.headers);
    Ok(Publish { exchange, routing_key, message })
}

/// Marks a message as this attempt at this letter. Strings, because there are consumers that refuse a
/// message with a header of any other type.
pub fn stamp(message: &mut RawMessage, letter_id: i64, token: &str) {
    message.headers.set(LETTER_ID, Value::Str(letter_id.to_string().into()));
    message.headers.set(REPLAY_ID, Value::Str(token.into()));
}

fn place(
    message: &RawMessage,
    captured: &CapturedFrom,
    stored: &Origin,
    target: &Target,
) -> Result<(Text, Text), NoHome> {
    let pair = |origin: &Origin| Some((origin.exchange.clone()?, origin.routing_key.clone()?));
    let queue = |origin: &Origin| Some((Text::default(), origin.queue.clone()?));
    // What is read again completes the stored origin; it does not replace one that says something else.
    let agrees = |origin: &Origin| stored.exchange.is_none() || stored.exchange == origin.exchange;
    let again = || read(message, captured).origin;

    match target {
        Target::Exchange { exchange, routing_key } => Ok((exchange.clone(), routing_key.clone())),
        Target::Queue => queue(stored).or_else(|| queue(&again())).ok_or(NoHome::UnknownQueue),
        Target::Original => pair(stored)
            .or_else(|| Some(again()).filter(agrees).as_ref().and_then(pair))
            .or_else(|| queue(stored))
            .or_else(|| queue(&again()))
            .ok_or(NoHome::UnknownOrigin),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{AmqpProperties, Headers};

    fn plain(headers: &[(&str, &str)]) -> RawMessage {
        let headers: Headers =
            headers.iter().map(|(name, value)| ((*name).into(), Value::Str((*value).into()))).collect();
        RawMessage::amqp(AmqpProperties::default(), headers, "body")
    }

    fn rejected(exchange: &str, routing_key: &[u8], queue: &str) -> RawMessage {
        let mut table = Headers::new();
        table.push("queue", Value::Str(queue.into()));
        table.push("reason", Value::Str("rejected".into()));
        table.push("exchange", Value::Str(exchange.into()));
        table.push("routing-keys", Value::Array(vec![Value::Str(routing_key.into())]));
        let mut message = plain(&[]);
        message.headers.push("x-death", Value::Array(vec![Value::Table(table)]));
        message
    }

    fn send(message: RawMessage, origin: &Origin, target: &Target) -> Result<Publish, NoHome> {
        home(None, message, &CapturedFrom::default(), origin, target)
    }

    #[test]
    fn a_plain_letter_has_no_home_unless_a_target_is_named() {
        let origin = Origin::default();
        assert_eq!(send(plain(&[]), &origin, &Target::Original), Err(NoHome::UnknownOrigin));
        assert_eq!(send(plain(&[]), &origin, &Target::Queue), Err(NoHome::UnknownQueue));

        let publish = send(plain(&[("retry-count", "3")]), &origin, &Target::queue("orders")).unwrap();
        assert_eq!((publish.exchange, publish.routing_key), ("".into(), "orders".into()));
        assert!(publish.message.headers.contains("retry-count"));
    }

    #[test]
    fn a_routing_key_that_no_text_column_holds_comes_from_the_message() {
        let stored = Origin { exchange: Some("shop".into()), queue: Some("billing".into()), ..Origin::default() };

        let publish = send(rejected("shop", b"\xff\x00", "billing"), &stored, &Target::Original).unwrap();

        assert_eq!(publish.exchange, "shop");
        assert_eq!(publish.routing_key.as_bytes(), b"\xff\x00");
    }

    #[test]
    fn the_stored_origin_stands() {
        let stored = Origin { exchange: Some("first".into()), routing_key: Some("key".into()), ..Origin::default() };
        let publish = send(rejected("", b"billing", "billing"), &stored, &Target::Original).unwrap();
        assert_eq!((publish.exchange, publish.routing_key), ("first".into(), "key".into()));
    }

    #[test]
    fn an_origin_stored_in_part_is_not_completed_from_a_message_that_says_something_else() {
        let stored = Origin { exchange: Some("first".into()), queue: Some("billing".into()), ..Origin::default() };
        let publish = send(rejected("shop", b"created", "billing"), &stored, &Target::Original).unwrap();
        assert_eq!((publish.exchange, publish.routing_key), ("".into(), "billing".into()));
    }

    #[test]
    fn where_the_original_exchange_is_unknown_the_failed_queue_is_home() {
        let stored = Origin { queue: Some("billing".into()), ..Origin::default() };
        let publish = send(plain(&[]), &stored, &Target::Original).unwrap();
        assert_eq!((publish.exchange, publish.routing_key), ("".into(), "billing".into()));
    }

    #[test]
    fn what_brokers_wrote_goes_and_what_looks_alike_stays() {
        let message = plain(&[
            ("x-shovelled", "1"),
            ("x-shovelled-timestamp", "1"),
            ("x-received-from", "1"),
            ("x-delay", "-5000"),
            ("CC", "a"),
            ("BCC", "a"),
            ("x-delivery-count", "2"),
            ("x-acquired-count", "2"),
            ("x-stream-offset", "0"),
            ("x-opt-deaths", "0"),
            ("x-first-death-queue", "a"),
            ("x-last-death-queue", "a"),
            ("dlo-letter-id", "1"),
            ("dlo-replay-id", "t"),
            ("Cc", "a"),
            ("x-deaths", "a"),
            ("x-delayed", "a"),
            ("x-stream-filter-value", "a"),
        ]);

        let publish = send(message, &Origin::default(), &Target::queue("orders")).unwrap();

        let left: Vec<_> = publish.message.headers.iter().filter_map(|(name, _)| name.as_str()).collect();
        assert_eq!(left, ["Cc", "x-deaths", "x-delayed", "x-stream-filter-value"]);
    }

    #[test]
    fn of_the_properties_only_the_user_goes() {
        let properties = AmqpProperties {
            user_id: Some("app".into()),
            expiration: Some("60000".into()),
            message_id: Some("m-1".into()),
            kind: Some("amqp-1.0".into()),
            ..AmqpProperties::default()
        };
        let message = RawMessage::amqp(properties.clone(), Headers::new(), "body");

        let publish = send(message, &Origin::default(), &Target::queue("orders")).unwrap();

        assert_eq!(publish.message.properties.amqp(), Some(&AmqpProperties { user_id: None, ..properties }));
    }

    #[test]
    fn the_leftovers_of_every_dialect_that_recognises_the_message_go() {
        let mut message = rejected("shop", b"created", "billing");
        message.headers.push("x-original-exchange", Value::Str("shop".into()));
        message.headers.push("x-original-routingKey", Value::Str("created".into()));
        message.headers.push("tenant", Value::Str("eu-1".into()));

        let stored = Origin { queue: Some("billing".into()), ..Origin::default() };
        let publish =
            home(Some("rabbitmq-native"), message, &CapturedFrom::default(), &stored, &Target::Queue).unwrap();

        let left: Vec<_> = publish.message.headers.iter().filter_map(|(name, _)| name.as_str()).collect();
        assert_eq!(left, ["tenant"]);
    }

    #[test]
    fn a_second_stamp_replaces_the_first() {
        let mut message = plain(&[("tenant", "eu-1")]);
        stamp(&mut message, 7, "first");
        stamp(&mut message, 8, "second");
        assert_eq!(message.headers, plain(&[("tenant", "eu-1"), (LETTER_ID, "8"), (REPLAY_ID, "second")]).headers);
    }
}
