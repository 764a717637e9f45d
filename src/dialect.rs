//! Dialects: each framework's way to say where a message came from and why it failed.
//!
//! Pure. [`read`] asks the registered dialects in a fixed order; the first that recognises the message speaks.
//! [`home`] makes the publish that sends a letter back.
//!
//! A new dialect is a file with a unit struct that implements [`Dialect`], its `mod` line, and its line in
//! [`REGISTRY`]. What dialects share is in `deaths` (RabbitMQ's own history of a message), `kafka`, `java_trace`
//! and `text`; what holds for every message whatever the dialect is in `properties`, `strip` and `ids`.

mod deaths;
#[cfg(test)]
mod fixtures;
mod home;
mod ids;
mod java_trace;
mod kafka;
mod kafka_connect;
mod ladder;
mod properties;
#[cfg(test)]
mod proptests;
mod spring_amqp;
mod spring_cloud_stream_kafka;
mod spring_cloud_stream_rabbit;
mod spring_kafka;
mod spring_kafka_retry_topic;
mod strip;
mod text;
mod x_death;

use serde_json::{Map, Value as Json};

pub use home::{Known, NoHome, Place, Publish, Target, home, stamp};
pub use ids::{correlation_id, message_id, trace_id};

use crate::{
    dead_letter::{CapturedFrom, Notes, PayloadState, Reading},
    message::{RawMessage, Text},
};

/// One framework's convention.
///
/// Both methods are pure and must hold for any bytes: a header may have any type, any length, and be missing,
/// and none of that may panic. They are also called on stored letters, by later versions of the program.
pub trait Dialect: Sync {
    /// The value of column `dialect`. Never changes once released: letters are stored under it.
    fn name(&self) -> &'static str;

    /// What this dialect understands of the message; `None` when it is not its own.
    ///
    /// Recognition comes first and must be cheap, a few header look-ups: every captured message passes here.
    /// What the message does not say stays `None`. [`Reading::dialect`] may be left out, and so may what
    /// AMQP's own properties say (event type, application, time of the original): [`read`] adds them, unless
    /// the reading says [`PayloadState::Wrapped`](crate::dead_letter::PayloadState::Wrapped), where the
    /// properties are the wrapper's.
    fn read(&self, message: &RawMessage, captured: &CapturedFrom) -> Option<Reading>;

    /// Changes the message so that the framework counts afresh: strips what it wrote when it gave up, and
    /// nothing else. What brokers write is stripped for every dialect and need not be repeated.
    ///
    /// Called only for a message that [`read`](Self::read) recognises or that was stored under this name.
    fn freshen(&self, message: &mut RawMessage);

    /// Kafka: a topic that the framework made for the group that failed and no other reads, such as a retry topic; known
    /// for the few that name it.
    fn group_topic(&self, _message: &RawMessage) -> Option<Place> {
        None
    }
}

/// Every dialect, in the order in which they are asked: envelopes, then frameworks that republish with
/// headers of their own, then task queues that ride on RabbitMQ's dead-lettering, then RabbitMQ itself.
/// A narrower dialect stands before the one it is a special case of.
static REGISTRY: &[&dyn Dialect] = &[
    &kafka_connect::KafkaConnect,
    &spring_kafka_retry_topic::SpringKafkaRetryTopic,
    &spring_kafka::SpringKafka,
    &spring_cloud_stream_kafka::SpringCloudStreamKafka,
    &spring_cloud_stream_rabbit::SpringCloudStreamRabbit,
    &spring_amqp::SpringAmqp,
    &x_death::XDeath,
];

/// Reads a message. Never fails: unknown stays unknown, and an unrecognised message has no dialect.
///
/// The first dialect that recognises the message speaks for it alone; on Kafka, where headers keep their order, the one
/// that wrote last. The others that do are named in `notes.secondary`, with what they say differently.
#[must_use]
pub fn read(message: &RawMessage, captured: &CapturedFrom) -> Reading {
    let mut readings = REGISTRY.iter().filter_map(|dialect| Some((*dialect, dialect.read(message, captured)?)));

    let mut reading = match readings.next() {
        Some((dialect, reading)) => {
            let (dialect, reading, others) = newest((dialect, reading), readings.collect(), message);
            let mut reading = Reading { dialect: Some(dialect.name()), ..reading };
            for (other, said) in others {
                let differs = differences(other.name(), &reading, &said);
                reading.notes.add("secondary", differs);
            }
            reading
        }
        None => Reading::default(),
    };
    if let Some(doubt) = deaths::oddity(message) {
        reading.notes.add("doubts", doubt);
    }
    if reading.payload_state == PayloadState::Complete && message.body.is_none() {
        reading.payload_state = null_value(message);
    }
    properties::complete(&mut reading, message);
    reading
}

type Said = (&'static dyn Dialect, Reading);

/// Which of several dialects speaks, and the others.
fn newest(first: Said, mut others: Vec<Said>, message: &RawMessage) -> (&'static dyn Dialect, Reading, Vec<Said>) {
    let mut speaker = first;
    if !others.is_empty() && message.properties.kafka().is_some() {
        let mut newest = last_written(speaker.0, message);
        for other in &mut others {
            let at = last_written(other.0, message);
            if at > newest {
                newest = at;
                std::mem::swap(&mut speaker, other);
            }
        }
    }
    (speaker.0, speaker.1, others)
}

/// How many headers there are up to the last that the dialect wrote, which is the last that it would strip.
fn last_written(dialect: &dyn Dialect, message: &RawMessage) -> usize {
    let mut stripped = RawMessage { body: None, ..message.clone() };
    dialect.freshen(&mut stripped);
    let mut kept = stripped.headers.iter().rev();
    let same = message.headers.iter().rev().take_while(|header| kept.next() == Some(*header));
    message.headers.len() - same.count()
}

/// A null that no dialect explains: with a key it deletes that key, without one it is nobody's record.
fn null_value(message: &RawMessage) -> PayloadState {
    match (message.properties.kafka(), &message.key) {
        (None, _) => PayloadState::Complete,
        (Some(_), Some(_)) => PayloadState::Tombstone,
        (Some(_), None) => PayloadState::Pointer,
    }
}

/// The dialects that recognise a message, and the one it was stored under.
fn speakers<'a>(
    stored: Option<&'a str>,
    message: &'a RawMessage,
    captured: &'a CapturedFrom,
) -> impl Iterator<Item = &'static dyn Dialect> + 'a {
    let speaks = move |dialect: &&'static dyn Dialect| {
        stored == Some(dialect.name()) || dialect.read(message, captured).is_some()
    };
    REGISTRY.iter().copied().filter(speaks)
}

/// What `other` says that `reading` does not, under the column names.
fn differences(dialect: &'static str, reading: &Reading, other: &Reading) -> Json {
    let mut found = Map::new();
    found.insert("dialect".to_owned(), dialect.into());
    let mut put = |name: &str, value: Json| {
        found.insert(name.to_owned(), value);
    };

    let (ours, theirs) = (&reading.origin, &other.origin);
    let places = [
        ("origin_exchange", &ours.exchange, &theirs.exchange),
        ("origin_routing_key", &ours.routing_key, &theirs.routing_key),
        ("origin_queue", &ours.queue, &theirs.queue),
        ("origin_topic", &ours.topic, &theirs.topic),
    ];
    for (name, our, their) in places {
        if let Some(place) = their.as_ref().filter(|_| our != their) {
            put(name, text::json(place.as_bytes()));
        }
    }

    let (ours, theirs) = (&reading.failure, &other.failure);
    let texts = [
        ("consumer", &ours.consumer, &theirs.consumer),
        ("error_class", &ours.error_class, &theirs.error_class),
        ("error_message", &ours.error_message, &theirs.error_message),
    ];
    for (name, our, their) in texts {
        // A long text is in the headers anyway; a note is for a glance.
        if let Some(value) = their.as_ref().filter(|value| our != their && value.len() <= 200) {
            put(name, value.as_str().into());
        }
    }
    if let Some(attempts) = theirs.attempts.filter(|_| ours.attempts != theirs.attempts) {
        put("attempts", attempts.into());
    }
    if let Some(failed_at) = theirs.failed_at.filter(|_| ours.failed_at != theirs.failed_at) {
        put("failed_at", failed_at.to_rfc3339().into());
    }
    Json::Object(found)
}

/// Notes headers that carry a dialect's prefix and that we do not know: a newer version of the framework, or
/// an application's extension of it.
fn note_unknown(message: &RawMessage, prefixes: &[&str], known: &[&str], notes: &mut Notes) {
    let starts = |name: &Text| prefixes.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()));
    for (name, _) in message.headers.iter() {
        if starts(name) && !known.iter().any(|known| name == known) {
            notes.add("unknown_headers", text::json(name.as_bytes()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::message::{AmqpProperties, Headers, KafkaProperties, Value};

    fn message(headers: Vec<(&str, Value)>) -> RawMessage {
        let headers: Headers = headers.into_iter().map(|(name, value)| (name.into(), value)).collect();
        RawMessage::amqp(AmqpProperties::default(), headers, "{}")
    }

    fn death(queue: &str) -> Value {
        let mut table = Headers::new();
        table.push("queue", Value::Str(queue.into()));
        table.push("reason", Value::Str("rejected".into()));
        Value::Array(vec![Value::Table(table)])
    }

    #[test]
    fn dialect_names_are_unique() {
        let names: HashSet<_> = REGISTRY.iter().map(|dialect| dialect.name()).collect();
        assert_eq!(names.len(), REGISTRY.len());
    }

    #[test]
    fn a_message_without_failure_headers_has_no_dialect_and_no_origin() {
        let captured = CapturedFrom { exchange: Some("dlx".into()), ..CapturedFrom::default() };

        let reading = read(&message(vec![("tenant", Value::Str("eu-1".into()))]), &captured);

        assert_eq!(reading, Reading::default());
    }

    #[test]
    fn an_odd_x_death_makes_a_plain_letter_and_is_noted() {
        let reading = read(&message(vec![("x-death", Value::Str("oops".into()))]), &CapturedFrom::default());

        assert_eq!(reading.dialect, None);
        assert_eq!(reading.notes.to_json(), r#"{"doubts":["x-death is no list"]}"#);
    }

    #[test]
    fn the_second_dialect_is_kept_in_the_notes_with_what_it_says_differently() {
        let message = message(vec![
            ("x-original-exchange", Value::Str("shop".into())),
            ("x-original-routingKey", Value::Str("created".into())),
            ("x-exception-message", Value::Str("no stock".into())),
            ("x-death", death("errors")),
        ]);

        let reading = read(&message, &CapturedFrom::default());

        assert_eq!(reading.dialect, Some("spring-amqp"));
        assert_eq!(
            reading.notes.get("secondary").map(Json::to_string).as_deref(),
            Some(
                r#"[{"dialect":"rabbitmq-native","origin_queue":"errors","consumer":"errors","error_message":"rejected","attempts":1}]"#
            )
        );
    }

    fn record(headers: &[(&str, &str)], key: Option<&'static str>, value: Option<&'static str>) -> RawMessage {
        let headers = headers.iter().map(|(name, text)| ((*name).into(), Value::Bytes(text.as_bytes().to_vec())));
        RawMessage::kafka(KafkaProperties::default(), key.map(Into::into), headers.collect(), value.map(Into::into))
    }

    #[test]
    fn on_kafka_the_dialect_that_wrote_last_speaks() {
        let spring = ("kafka_dlt-original-topic", "orders");
        let connect = ("__connect.errors.topic", "orders-dlt");
        let mine = ("tenant", "eu-1");

        let reading = read(&record(&[mine, spring, connect], None, Some("{}")), &CapturedFrom::default());
        assert_eq!((reading.dialect, reading.origin.topic), (Some("kafka-connect"), Some("orders-dlt".into())));
        assert_eq!(reading.notes.to_json(), r#"{"secondary":[{"dialect":"spring-kafka","origin_topic":"orders"}]}"#);

        let reading = read(&record(&[connect, mine, spring, mine], None, Some("{}")), &CapturedFrom::default());
        assert_eq!((reading.dialect, reading.origin.topic), (Some("spring-kafka"), Some("orders".into())));
    }

    #[test]
    fn the_other_brokers_headers_are_an_applications_own() {
        let rabbit = [("x-original-exchange", "shop"), ("x-original-routingKey", "created"), ("x-death", "[]")];
        let reading = read(&record(&rabbit, None, Some("{}")), &CapturedFrom::default());
        assert_eq!(reading, Reading::default());

        let kafka = message(vec![("__connect.errors.topic", Value::Str("orders".into()))]);
        assert_eq!(read(&kafka, &CapturedFrom::default()), Reading::default());
    }

    #[test]
    fn a_null_that_nobody_explains_is_a_tombstone_if_it_has_a_key() {
        let state = |key, value| read(&record(&[], key, value), &CapturedFrom::default()).payload_state;
        assert_eq!(state(Some("k"), None), PayloadState::Tombstone);
        assert_eq!(state(None, None), PayloadState::Pointer);
        assert_eq!(state(Some(""), Some("")), PayloadState::Complete);
    }

    #[test]
    fn a_header_of_a_known_family_that_we_do_not_know_is_noted() {
        let message = message(vec![
            ("x-original-exchange", Value::Str("shop".into())),
            ("x-original-routingKey", Value::Str("created".into())),
            ("x-exception-host", Value::Str("web-1".into())),
        ]);

        let reading = read(&message, &CapturedFrom::default());

        assert_eq!(
            reading.notes.get("unknown_headers").map(Json::to_string).as_deref(),
            Some(r#"["x-exception-host"]"#)
        );
    }
}
