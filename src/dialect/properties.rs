//! What AMQP's own properties say of a message whatever the dialect: when it was made, what it is, by whom.

use chrono::{DateTime, Utc};

use crate::{
    dead_letter::{Notes, PayloadState, Reading},
    message::{AmqpProperties, RawMessage, Text},
};

/// Adds what the dialect left open.
///
/// * `origin.timestamp`: the property `timestamp`.
/// * `event_type`: the property `type`, else the header `__TypeId__` of Spring's converters.
/// * `service`: the property `app_id`, the application that made the message, unless a client library wrote
///   its own name there.
pub(super) fn complete(reading: &mut Reading, message: &RawMessage) {
    // These properties are the wrapper's, not the message's.
    if reading.payload_state == PayloadState::Wrapped {
        return;
    }
    if let Some(properties) = message.properties.amqp() {
        if reading.origin.timestamp.is_none() {
            reading.origin.timestamp = timestamp(properties, &mut reading.notes);
        }
        if reading.service.is_none() {
            reading.service = application(properties).map(str::to_owned);
        }
        if reading.event_type.is_none() {
            reading.event_type = kind(properties).map(str::to_owned);
        }
    }
    if reading.event_type.is_none() {
        let type_id = message.header_str("__TypeId__").filter(|name| is_name(name));
        reading.event_type = type_id.map(str::to_owned);
    }
}

/// The end of the year 9999: what lies behind is not in seconds.
const SECONDS_MAX: u64 = 253_402_300_799;

fn timestamp(properties: &AmqpProperties, notes: &mut Notes) -> Option<DateTime<Utc>> {
    let seconds = properties.timestamp?;
    let moment = i64::try_from(seconds).ok().filter(|_| seconds <= SECONDS_MAX);
    let moment = moment.and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    if moment.is_none() {
        notes.add("doubts", format!("timestamp {seconds} is no time in seconds"));
    }
    moment
}

fn kind(properties: &AmqpProperties) -> Option<&str> {
    // The broker's mark for a body in AMQP 1.0 encoding, not a type of the application.
    properties.kind.as_ref().and_then(Text::as_sql).filter(|kind| is_name(kind) && *kind != "amqp-1.0")
}

/// Names that can only be a client library, in lower case. FastStream is the one seen to fill in `app_id`
/// itself. What AMQP 1.0 calls the group also arrives here, and nothing tells it from an application.
const LIBRARIES: [&str; 12] = [
    "amqplib",
    "bunny",
    "celery",
    "easynetq",
    "faststream",
    "kombu",
    "lapin",
    "masstransit",
    "pika",
    "rabbitmq",
    "spring-amqp",
    "taskiq",
];

fn application(properties: &AmqpProperties) -> Option<&str> {
    properties.app_id.as_ref().and_then(Text::as_sql).filter(|app| is_name(app) && !is_library(app))
}

/// `faststream` and `faststream-0.7.8` are the library; `faststream-billing` is somebody's application.
fn is_library(app_id: &str) -> bool {
    LIBRARIES.iter().any(|library| {
        let (Some(name), Some(rest)) = (app_id.get(..library.len()), app_id.get(library.len()..)) else { return false };
        let version = rest.trim_start_matches(['-', '/', '_', ' ', 'v']);
        name.eq_ignore_ascii_case(library)
            && (rest.is_empty() || (version.len() < rest.len() && version.starts_with(|c: char| c.is_ascii_digit())))
    })
}

fn is_name(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Headers, Value};

    fn completed(properties: AmqpProperties, headers: Headers) -> Reading {
        let mut reading = Reading::default();
        complete(&mut reading, &RawMessage::amqp(properties, headers, ""));
        reading
    }

    #[test]
    fn the_properties_tell_time_type_and_application() {
        let properties = AmqpProperties {
            timestamp: Some(1_796_000_000),
            kind: Some("OrderCreated".into()),
            app_id: Some("shop".into()),
            ..AmqpProperties::default()
        };

        let reading = completed(properties, Headers::new());

        assert_eq!(reading.origin.timestamp, DateTime::from_timestamp(1_796_000_000, 0));
        assert_eq!(reading.event_type.as_deref(), Some("OrderCreated"));
        assert_eq!(reading.service.as_deref(), Some("shop"));
    }

    #[test]
    fn a_timestamp_in_milliseconds_is_unknown_and_noted() {
        for timestamp in [1_796_000_000_000, u64::MAX] {
            let reading =
                completed(AmqpProperties { timestamp: Some(timestamp), ..AmqpProperties::default() }, Headers::new());
            assert_eq!(reading.origin.timestamp, None);
            assert!(reading.notes.get("doubts").is_some());
        }
    }

    #[test]
    fn a_client_librarys_own_name_is_no_application() {
        let service = |app_id: &str| {
            completed(AmqpProperties { app_id: Some(app_id.into()), ..AmqpProperties::default() }, Headers::new())
                .service
        };
        for library in ["faststream-0.7.8", "FastStream/0.6", "pika", "spring-amqp v4.1", "", " ", "a\0b"] {
            assert_eq!(service(library), None, "{library}");
        }
        for app in ["shop", "faststream-billing", "pikachu", "celery2", "fästream", "rabbitmq-bridge"] {
            assert_eq!(service(app).as_deref(), Some(app));
        }
    }

    #[test]
    fn springs_type_header_serves_where_the_property_is_missing_or_the_brokers_own() {
        let mut headers = Headers::new();
        headers.push("__TypeId__", Value::Str("com.example.OrderCreated".into()));
        for kind in [None, Some("amqp-1.0".into()), Some("".into())] {
            let reading = completed(AmqpProperties { kind, ..AmqpProperties::default() }, headers.clone());
            assert_eq!(reading.event_type.as_deref(), Some("com.example.OrderCreated"));
        }
    }

    #[test]
    fn what_the_dialect_said_stands_and_a_wrappers_properties_are_not_the_messages() {
        let properties =
            AmqpProperties { kind: Some("Error".into()), app_id: Some("bus".into()), ..AmqpProperties::default() };
        let message = RawMessage::amqp(properties, Headers::new(), "");

        let mut named = Reading { event_type: Some("charge".to_owned()), ..Reading::default() };
        complete(&mut named, &message);
        assert_eq!(named.event_type.as_deref(), Some("charge"));

        let mut wrapped = Reading { payload_state: PayloadState::Wrapped, ..Reading::default() };
        complete(&mut wrapped, &message);
        assert_eq!(wrapped.service, None);
    }
}
