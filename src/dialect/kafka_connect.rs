//! Kafka Connect's error handler for sinks: a copy of the record with the reason in headers, all of them text.
//!
//! The copy keeps the time of the original. Without `errors.deadletterqueue.context.headers.enable` there are no headers,
//! and then nothing tells a letter from any other record.

use super::{
    Dialect,
    kafka::{self, Coordinates, Exception},
    text,
};
use crate::{
    dead_letter::{CapturedFrom, Notes, PayloadState, Reading},
    message::RawMessage,
};

const PREFIX: &str = "__connect.errors.";

#[derive(Debug)]
pub(super) struct KafkaConnect;

impl Dialect for KafkaConnect {
    fn name(&self) -> &'static str {
        "kafka-connect"
    }

    fn read(&self, message: &RawMessage, _captured: &CapturedFrom) -> Option<Reading> {
        message.properties.kafka()?;
        let mut seen = false;
        let (mut original, mut exception, mut connector) = (Coordinates::default(), Exception::default(), None);
        for (name, value) in message.headers.iter() {
            let Some(field) = name.as_bytes().strip_prefix(PREFIX.as_bytes()) else { continue };
            seen = true;
            match field {
                b"connector.name" => connector = value.as_bytes(),
                b"exception.class.name" => exception.class = value.as_bytes(),
                // Null where the exception has none.
                b"exception.message" => exception.message = value.as_bytes(),
                b"exception.stacktrace" => exception.trace = value.as_bytes(),
                // Also stage, task and the class of the part that failed: the headers have them.
                field => {
                    original.take(field, value);
                }
            }
        }
        if !seen {
            return None;
        }
        let mut notes = Notes::default();
        let mut origin = original.origin(PREFIX, &mut notes);
        original.note_last(&origin, &mut notes);
        let mut failure = exception.failure(&mut notes);
        failure.consumer =
            connector.filter(|name| !name.is_empty()).map(|name| text::storable(name, "consumer", &mut notes));
        (origin.timestamp, failure.failed_at) = kafka::copied_time(message);
        let payload_state = if message.body.is_none() { PayloadState::Tombstone } else { PayloadState::Complete };
        Some(Reading { origin, failure, payload_state, notes, ..Reading::default() })
    }

    fn freshen(&self, message: &mut RawMessage) {
        message.headers.retain(|name, _| !name.as_bytes().starts_with(PREFIX.as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Headers, KafkaProperties, RecordTime, Value};

    fn letter(timestamp: RecordTime, headers: &[(&str, &str)], value: Option<&'static str>) -> RawMessage {
        let header =
            |(name, value): &(&str, &str)| (format!("{PREFIX}{name}").into(), Value::Bytes(value.as_bytes().to_vec()));
        let headers: Headers = headers.iter().map(header).collect();
        let properties = KafkaProperties { timestamp: Some(timestamp), leader_epoch: None };
        RawMessage::kafka(properties, None, headers, value.map(Into::into))
    }

    fn read(message: &RawMessage) -> Reading {
        KafkaConnect.read(message, &CapturedFrom::default()).expect("a letter of Connect")
    }

    #[test]
    fn where_the_broker_sets_the_time_it_is_that_of_the_failure() {
        let origin = &[("topic", "orders")];
        let (copied, appended) = (RecordTime::Created(1_772_610_000_000), RecordTime::Appended(1_772_610_000_001));

        let reading = read(&letter(copied, origin, Some("{}")));
        assert_eq!(reading.origin.timestamp.map(|t| t.timestamp_millis()), Some(1_772_610_000_000));
        assert_eq!(reading.failure.failed_at, None);

        let reading = read(&letter(appended, origin, Some("{}")));
        assert_eq!(reading.origin.timestamp, None);
        assert_eq!(reading.failure.failed_at.map(|t| t.timestamp_millis()), Some(1_772_610_000_001));
    }

    #[test]
    fn a_letter_that_failed_twice_has_the_first_origin_and_the_last_error() {
        let headers = [
            ("topic", "orders"),
            ("offset", "7"),
            ("exception.message", "first"),
            ("topic", "orders-dlq"),
            ("offset", "1"),
            ("exception.message", "second"),
        ];
        let reading = read(&letter(RecordTime::Created(0), &headers, Some("{}")));

        assert_eq!((reading.origin.topic, reading.origin.offset), (Some("orders".into()), Some(7)));
        assert_eq!(reading.failure.error_message.as_deref(), Some("second"));
        assert_eq!(reading.notes.to_json(), r#"{"last_origin":{"topic":"orders-dlq","offset":1}}"#);
    }

    #[test]
    fn a_null_value_is_the_records_own() {
        let reading = read(&letter(RecordTime::Created(0), &[("topic", "orders")], None));
        assert_eq!(reading.payload_state, PayloadState::Tombstone);
    }
}
