//! Spring Kafka's `DeadLetterPublishingRecoverer`: the record published again to a dead-letter topic, with where it was
//! read and why it failed in headers. Numbers are big-endian. `@RetryableTopic` uses the same recoverer with names of
//! its own, see [`spring_kafka_retry_topic`](super::spring_kafka_retry_topic); a letter can carry both.

use super::{
    Dialect, Place,
    kafka::{self, Coordinates, Exception, Repeated, number},
    text,
};
use crate::{
    dead_letter::{CapturedFrom, Notes, Origin, PayloadState, Reading},
    message::{RawMessage, Text, Value},
};

const DLT: &[u8] = b"kafka_dlt-";
const RETRY: &[u8] = b"kafka_";
const ORIGINAL: &[u8] = b"original-";
const EXCEPTION: &[u8] = b"exception-";
const KEY_EXCEPTION: &[u8] = b"key-exception-";
/// Only this one has the same name in both families.
const GROUP: &[u8] = b"kafka_dlt-original-consumer-group";
const DELIVERY_ATTEMPT: &[u8] = b"kafka_deliveryAttempt";
const RETRY_TOPIC: &[u8] = b"retry_topic-";
/// Java objects, never to be read.
const DESERIALIZER_EXCEPTION: &[u8] = b"springDeserializerException";

#[derive(Debug)]
pub(super) struct SpringKafka;

impl Dialect for SpringKafka {
    fn name(&self) -> &'static str {
        "spring-kafka"
    }

    fn read(&self, message: &RawMessage, _captured: &CapturedFrom) -> Option<Reading> {
        let found = Found::in_message(message)?;
        if !found.dlt.seen {
            return None;
        }
        let mut reading = found.reading(message);
        reading.failure.attempts = found.delivery_attempt.and_then(|bytes| count(bytes, &[4]));
        Some(reading)
    }

    fn freshen(&self, message: &mut RawMessage) {
        freshen(message);
    }

    fn group_topic(&self, message: &RawMessage) -> Option<Place> {
        Found::in_message(message)?.group_topic()
    }
}

/// Strips what the recoverer wrote in either family. What is left behind of `@RetryableTopic` is worst: its origin is
/// written once and never again, and its count makes the next failure skip the retries.
pub(super) fn freshen(message: &mut RawMessage) {
    message.headers.retain(|name, _| {
        let name = name.as_bytes();
        let family = name.strip_prefix(DLT).is_some()
            || name.strip_prefix(RETRY).is_some_and(|field| {
                [ORIGINAL, EXCEPTION, KEY_EXCEPTION].iter().any(|prefix| field.starts_with(prefix))
            });
        !(family
            || name.starts_with(RETRY_TOPIC)
            || name.starts_with(DESERIALIZER_EXCEPTION)
            || name == DELIVERY_ATTEMPT)
    });
}

/// What the recoverer wrote under one family of names.
#[derive(Clone, Copy, Debug, Default)]
struct Family<'a> {
    seen: bool,
    original: Coordinates<'a>,
    exception: Exception<'a>,
    key_exception: Exception<'a>,
    /// Which header told of the exception, counted from the front.
    exception_at: usize,
}

impl<'a> Family<'a> {
    fn take(&mut self, at: usize, field: &[u8], value: &'a Value) {
        if let Some(field) = field.strip_prefix(ORIGINAL) {
            // Also the type of the timestamp, and what newer versions may add.
            self.original.take(field, value);
            self.seen = true;
        } else if let Some(field) = field.strip_prefix(EXCEPTION) {
            self.seen = true;
            self.exception_at = at;
            set(&mut self.exception, field, value);
        } else if let Some(field) = field.strip_prefix(KEY_EXCEPTION) {
            self.seen = true;
            self.exception_at = at;
            set(&mut self.key_exception, field, value);
        }
    }

    /// A key that could not be read has names of its own, and yet the plain name for the cause.
    fn failed(&self) -> Exception<'a> {
        let Exception { class, cause, message, trace } = self.exception;
        let key = self.key_exception;
        if class.is_some() || trace.is_some() || !key.is_some() {
            return self.exception;
        }
        Exception { class: key.class, cause: key.cause.or(cause), message: key.message.or(message), trace: key.trace }
    }
}

fn set<'a>(exception: &mut Exception<'a>, field: &[u8], value: &'a Value) {
    match field {
        b"fqcn" => exception.class = value.as_bytes(),
        b"cause-fqcn" => exception.cause = value.as_bytes(),
        b"message" => exception.message = value.as_bytes(),
        b"stacktrace" => exception.trace = value.as_bytes(),
        _ => {}
    }
}

/// All that Spring Kafka wrote, found in one pass.
#[derive(Debug, Default)]
pub(super) struct Found<'a> {
    dlt: Family<'a>,
    retry: Family<'a>,
    group: Repeated<'a>,
    delivery_attempt: Option<&'a [u8]>,
    /// The newest number of the next attempt.
    pub(super) retry_attempts: Option<&'a [u8]>,
    /// A retry topic was passed.
    pub(super) retried: bool,
    /// The name of a type stands behind the origin: what sent the letter has encoded the value anew.
    encoded_anew: bool,
}

impl<'a> Found<'a> {
    /// `None` when there is nothing of it, which is all that most messages cost.
    pub(super) fn in_message(message: &'a RawMessage) -> Option<Self> {
        message.properties.kafka()?;
        let mut found = Self::default();
        for (at, (name, value)) in message.headers.iter().enumerate() {
            let name = name.as_bytes();
            match name.first() {
                Some(b'k') => found.take(at, name, value),
                Some(b'r') if name.starts_with(RETRY_TOPIC) => {
                    found.retried = true;
                    if name == b"retry_topic-attempts" {
                        found.retry_attempts = value.as_bytes();
                    }
                }
                Some(b'_') if name.starts_with(b"__") && name.ends_with(b"TypeId__") => {
                    found.encoded_anew |= found.dlt.seen || found.retry.seen;
                }
                _ => {}
            }
        }
        (found.dlt.seen || found.is_retry_topic()).then_some(found)
    }

    fn take(&mut self, at: usize, name: &[u8], value: &'a Value) {
        if name == GROUP {
            self.group.add(value);
        } else if name == DELIVERY_ATTEMPT {
            self.delivery_attempt = value.as_bytes();
        } else if let Some(field) = name.strip_prefix(DLT) {
            self.dlt.take(at, field, value);
        } else if let Some(field) = name.strip_prefix(RETRY) {
            self.retry.take(at, field, value);
        }
    }

    pub(super) fn is_retry_topic(&self) -> bool {
        self.retried || self.retry.seen
    }

    /// All but the attempts.
    pub(super) fn reading(&self, message: &RawMessage) -> Reading {
        let mut notes = Notes::default();
        let origin = self.origin(&mut notes);
        let newest = match (self.dlt.failed(), self.retry.failed()) {
            (dlt, retry) if !retry.is_some() => dlt,
            (dlt, _) if dlt.is_some() && self.dlt.exception_at > self.retry.exception_at => dlt,
            (_, retry) => retry,
        };
        let mut failure = newest.failure(&mut notes);
        // Names of retry topics' containers follow the group's own, which only the first failure has.
        let group = if self.is_retry_topic() { self.group.first } else { self.group.last };
        failure.consumer =
            group.filter(|group| !group.is_empty()).map(|group| text::storable(group, "consumer", &mut notes));
        failure.failed_at = kafka::written_at(message);
        Reading { origin, failure, payload_state: self.payload_state(message), notes, ..Reading::default() }
    }

    /// The names of `@RetryableTopic` are written at the first failure only, so they are the older ones.
    fn origin(&self, notes: &mut Notes) -> Origin {
        let (oldest, prefix) = match self.retry.original.topic.first {
            Some(_) => (&self.retry.original, "kafka_original-"),
            None => (&self.dlt.original, "kafka_dlt-original-"),
        };
        let origin = oldest.origin(prefix, notes);
        self.newest().note_last(&origin, notes);
        origin
    }

    fn newest(&self) -> &Coordinates<'a> {
        if self.dlt.original.topic.last.is_some() { &self.dlt.original } else { &self.retry.original }
    }

    fn payload_state(&self, message: &RawMessage) -> PayloadState {
        // A listener's letter has its group, and the record's own key and value. The handlers for Kafka Streams have no
        // group, and write neither key nor value where they do not have the record.
        match (&message.key, &message.body) {
            (None, None) if self.group.first.is_none() => PayloadState::Pointer,
            (_, None) => PayloadState::Tombstone,
            _ if self.encoded_anew => PayloadState::Lossy,
            _ => PayloadState::Complete,
        }
    }

    /// The retry topic that the record came from last, named after its topic: only this group listens there.
    pub(super) fn group_topic(&self) -> Option<Place> {
        let first = self.retry.original.topic.first.or(self.dlt.original.topic.first)?;
        let last = self.newest();
        let topic = last.topic.last?;
        let is_retry = topic.strip_prefix(first).is_some_and(|suffix| suffix.starts_with(b"-retry"));
        is_retry.then(|| Place::Topic { topic: Text::from(topic), partition: last.last_partition() })
    }
}

/// A number of attempts that can be.
pub(super) fn count(bytes: &[u8], widths: &[usize]) -> Option<i32> {
    number(bytes, widths).and_then(|number| i32::try_from(number).ok()).filter(|number| *number >= 0)
}

#[cfg(test)]
mod tests;
