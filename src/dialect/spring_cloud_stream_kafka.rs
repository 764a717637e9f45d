//! Spring Cloud Stream's Kafka binder: coordinates as Spring Kafka writes them, under names that Spring AMQP's family
//! also begins with. The group is only in the name of the dead-letter topic.

use super::{
    Dialect,
    kafka::{self, Coordinates, Exception},
};
use crate::{
    dead_letter::{CapturedFrom, Notes, PayloadState, Reading},
    message::{RawMessage, Value},
};

const ORIGINAL: &str = "x-original-";
const EXCEPTION: &str = "x-exception-";

#[derive(Debug)]
pub(super) struct SpringCloudStreamKafka;

impl Dialect for SpringCloudStreamKafka {
    fn name(&self) -> &'static str {
        "spring-cloud-stream-kafka"
    }

    fn read(&self, message: &RawMessage, captured: &CapturedFrom) -> Option<Reading> {
        let (original, exception) = found(message)?;
        let mut notes = Notes::default();
        let origin = original.origin(ORIGINAL, &mut notes);
        original.note_last(&origin, &mut notes);
        let mut failure = exception.failure(&mut notes);
        failure.consumer = original.topic.last.and_then(|topic| group(captured, topic)).map(str::to_owned);
        failure.failed_at = kafka::written_at(message);
        // The binder sends the record's own bytes.
        let payload_state = if message.body.is_none() { PayloadState::Tombstone } else { PayloadState::Complete };
        Some(Reading { origin, failure, payload_state, notes, ..Reading::default() })
    }

    fn freshen(&self, message: &mut RawMessage) {
        message.headers.retain(|name, _| {
            let original = name.as_bytes().strip_prefix(ORIGINAL.as_bytes());
            let exception = name.as_bytes().strip_prefix(EXCEPTION.as_bytes());
            let ours = original.is_some_and(|field| {
                matches!(field, b"topic" | b"partition" | b"offset" | b"timestamp" | b"timestamp-type")
            });
            !(ours || exception.is_some_and(|field| matches!(field, b"fqcn" | b"message" | b"stacktrace")))
        });
    }
}

/// Both an original topic and an exception: each alone is a name that others use.
fn found(message: &RawMessage) -> Option<(Coordinates<'_>, Exception<'_>)> {
    message.properties.kafka()?;
    let (mut original, mut exception) = (Coordinates::default(), Exception::default());
    for (name, value) in message.headers.iter() {
        let Some(name) = name.as_bytes().strip_prefix(b"x-") else { continue };
        if let Some(field) = name.strip_prefix(b"original-") {
            original.take(field, value);
        } else if let Some(field) = name.strip_prefix(b"exception-") {
            set(&mut exception, field, value);
        }
    }
    (original.topic.first.is_some() && exception.is_some()).then_some((original, exception))
}

fn set<'a>(exception: &mut Exception<'a>, field: &[u8], value: &'a Value) {
    match field {
        b"fqcn" => exception.class = value.as_bytes(),
        b"message" => exception.message = value.as_bytes(),
        b"stacktrace" => exception.trace = value.as_bytes(),
        _ => {}
    }
}

/// The group in `error.<topic>.<group>`, the name of the dead-letter topic unless another one was configured.
fn group<'a>(captured: &'a CapturedFrom, topic: &[u8]) -> Option<&'a str> {
    let dlq = captured.topic.as_deref()?;
    let topic = std::str::from_utf8(topic).ok()?;
    let group = dlq.strip_prefix("error.")?.strip_prefix(topic)?.strip_prefix('.')?;
    (!group.is_empty()).then_some(group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Headers, KafkaProperties};

    fn message(headers: &[(&str, &str)]) -> RawMessage {
        let headers: Headers =
            headers.iter().map(|(name, value)| ((*name).into(), Value::Bytes(value.as_bytes().to_vec()))).collect();
        RawMessage::kafka(KafkaProperties::default(), None, headers, Some("{}".into()))
    }

    #[test]
    fn one_half_of_the_names_is_not_enough() {
        for headers in [&[("x-original-topic", "a")], &[("x-exception-message", "no stock")]] {
            assert_eq!(SpringCloudStreamKafka.read(&message(headers), &CapturedFrom::default()), None);
        }
    }

    #[test]
    fn the_group_is_told_only_by_the_binders_own_name_of_the_topic() {
        let message = message(&[("x-original-topic", "orders"), ("x-exception-fqcn", "a.B")]);
        for (topic, consumer) in [
            ("error.orders.billing", Some("billing")),
            ("error.orders.billing.eu", Some("billing.eu")),
            ("error.orders.", None),
            ("error.ordersx.billing", None),
            ("dead", None),
        ] {
            let captured = CapturedFrom { topic: Some(topic.into()), ..CapturedFrom::default() };
            let reading = SpringCloudStreamKafka.read(&message, &captured).unwrap();
            assert_eq!(reading.failure.consumer.as_deref(), consumer, "{topic}");
            assert_eq!(reading.failure.error_class.as_deref(), Some("a.B"));
        }
    }

    #[test]
    fn names_that_only_begin_alike_stay() {
        let mut message =
            message(&[("x-original-topic", "a"), ("x-exception-fqcn", "a.B"), ("x-original-id", "7"), ("x-a", "1")]);
        SpringCloudStreamKafka.freshen(&mut message);
        let left: Vec<_> = message.headers.iter().filter_map(|(name, _)| name.as_str()).collect();
        assert_eq!(left, ["x-original-id", "x-a"]);
    }
}
