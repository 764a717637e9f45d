//! Dialects: each framework's way to say where a message came from and why it failed.
//!
//! Pure. [`read`] asks the registered dialects in a fixed order; the first that recognises the message speaks.
//! [`home`] makes the publish that sends a letter back.
//!
//! A new dialect is a file with a unit struct that implements [`Dialect`], its `mod` line, and its line in
//! [`REGISTRY`]. What every dialect needs is in `deaths` (RabbitMQ's own history of a message), `java_trace`
//! and `text`; what holds for every message whatever the dialect is in `properties`, `strip` and `ids`.

mod deaths;
#[cfg(test)]
mod fixtures;
mod home;
mod ids;
mod java_trace;
mod ladder;
mod properties;
#[cfg(test)]
mod proptests;
mod spring_amqp;
mod spring_cloud_stream_rabbit;
mod strip;
mod text;
mod x_death;

use serde_json::{Map, Value as Json};

pub use home::{NoHome, Publish, Target, home, stamp};
pub use ids::{correlation_id, message_id, trace_id};

use crate::{
    dead_letter::{CapturedFrom, Notes, Reading},
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
}

/// Every dialect, in the order in which they are asked: envelopes, then frameworks that republish with
/// headers of their own, then task queues that ride on RabbitMQ's dead-lettering, then RabbitMQ itself.
/// A narrower dialect stands before the one it is a special case of.
static REGISTRY: &[&dyn Dialect] =
    &[&spring_cloud_stream_rabbit::SpringCloudStreamRabbit, &spring_amqp::SpringAmqp, &x_death::XDeath];

/// Reads a message. Never fails: unknown stays unknown, and an unrecognised message has no dialect.
///
/// The first dialect that recognises the message speaks for it alone. The others that do are named in
/// `notes.secondary`, with what they say differently.
#[must_use]
pub fn read(message: &RawMessage, captured: &CapturedFrom) -> Reading {
    let mut readings = REGISTRY.iter().filter_map(|dialect| Some((dialect.name(), dialect.read(message, captured)?)));

    let mut reading = match readings.next() {
        Some((name, reading)) => Reading { dialect: Some(name), ..reading },
        None => Reading::default(),
    };
    for (name, other) in readings {
        let differs = differences(name, &reading, &other);
        reading.notes.add("secondary", differs);
    }
    if let Some(doubt) = deaths::oddity(message) {
        reading.notes.add("doubts", doubt);
    }
    properties::complete(&mut reading, message);
    reading
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
    use crate::message::{AmqpProperties, Headers, Value};

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
