//! The identities a message carries, as text for the store's columns.
//!
//! Bytes that are no text are written so that people can search for them: 16 bytes as a UUID, others as
//! PostgreSQL writes `bytea`, `\x` and hexadecimal digits.

use std::{borrow::Cow, fmt::Write as _};

use uuid::Uuid;

use crate::message::{RawMessage, Text};

/// Column `message_id`: AMQP's property; else a header of that name; else the id of a CloudEvent.
#[must_use]
pub fn message_id(message: &RawMessage) -> Option<Cow<'_, str>> {
    let property = message.properties.amqp().and_then(|properties| properties.message_id.as_ref());
    let names = ["message_id", "message-id", "messageId", "ce_id", "cloudEvents:id", "cloudEvents_id"];
    property.and_then(readable).or_else(|| header(message, &names))
}

/// Column `correlation_id`: AMQP's property; else a header of that name.
#[must_use]
pub fn correlation_id(message: &RawMessage) -> Option<Cow<'_, str>> {
    let property = message.properties.amqp().and_then(|properties| properties.correlation_id.as_ref());
    let names = ["correlation_id", "correlation-id", "correlationId", "x-correlation-id"];
    property.and_then(readable).or_else(|| header(message, &names))
}

/// Column `trace_id`: of W3C's `traceparent`; else of B3's single header; else B3's `X-B3-TraceId`.
#[must_use]
pub fn trace_id(message: &RawMessage) -> Option<&str> {
    let text = |wanted: &str| {
        let named = message.headers.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(wanted.as_bytes()));
        named.and_then(|(_, value)| value.as_str())
    };
    let w3c = || text("traceparent")?.split('-').nth(1).filter(|id| id.len() == 32);
    let b3 = || text("b3")?.split('-').next();
    let b3_trace = || text("x-b3-traceid");
    w3c().filter(is_trace).or_else(|| b3().filter(is_trace)).or_else(|| b3_trace().filter(is_trace))
}

/// 64 or 128 bits in hexadecimal digits; all zeros means none.
fn is_trace(id: &&str) -> bool {
    matches!(id.len(), 16 | 32)
        && id.bytes().all(|byte| byte.is_ascii_hexdigit())
        && id.bytes().any(|byte| byte != b'0')
}

fn header<'a>(message: &'a RawMessage, names: &[&str]) -> Option<Cow<'a, str>> {
    let is_named = |name: &Text| names.iter().any(|wanted| name.as_bytes().eq_ignore_ascii_case(wanted.as_bytes()));
    let (_, value) = message.headers.iter().find(|(name, _)| is_named(name))?;
    match value.as_bytes() {
        Some(bytes) => readable_bytes(bytes),
        None => value.as_int().map(|number| number.to_string().into()),
    }
}

fn readable(text: &Text) -> Option<Cow<'_, str>> {
    readable_bytes(text.as_bytes())
}

fn readable_bytes(bytes: &[u8]) -> Option<Cow<'_, str>> {
    if bytes.is_empty() {
        return None;
    }
    if let Some(text) = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0')) {
        return Some(text.into());
    }
    if let Ok(uuid) = Uuid::from_slice(bytes) {
        return Some(uuid.to_string().into());
    }
    let mut hex = String::with_capacity(2 + 2 * bytes.len());
    hex.push_str("\\x");
    for byte in bytes {
        let _ = write!(hex, "{byte:02x}");
    }
    Some(hex.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{AmqpProperties, Headers, Value};

    fn with_headers(headers: &[(&str, &str)]) -> RawMessage {
        let headers: Headers =
            headers.iter().map(|(name, value)| ((*name).into(), Value::Str((*value).into()))).collect();
        RawMessage::amqp(AmqpProperties::default(), headers, "")
    }

    fn with_ids(message_id: &[u8], correlation_id: &[u8]) -> RawMessage {
        let properties = AmqpProperties {
            message_id: Some(message_id.into()),
            correlation_id: Some(correlation_id.into()),
            ..AmqpProperties::default()
        };
        RawMessage::amqp(properties, Headers::new(), "")
    }

    #[test]
    fn the_property_goes_before_a_header() {
        let mut message = with_ids(b"m-1", b"");
        message.headers.push("message_id", Value::Str("other".into()));
        message.headers.push("X-Correlation-ID", Value::Str("c-1".into()));

        assert_eq!(message_id(&message).as_deref(), Some("m-1"));
        assert_eq!(correlation_id(&message).as_deref(), Some("c-1"));
    }

    #[test]
    fn raw_bytes_are_written_for_people() {
        let uuid = [0xde, 0xad, 0xbe, 0xef, 0xff, 0xfe, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        let message = with_ids(&uuid, b"\xff\x00");

        assert_eq!(message_id(&message).as_deref(), Some("deadbeef-fffe-0001-0203-040506070809"));
        assert_eq!(correlation_id(&message).as_deref(), Some("\\xff00"));
    }

    #[test]
    fn a_trace_is_found_in_each_of_its_forms() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        let traceparent = format!("00-{id}-00f067aa0ba902b7-01");
        assert_eq!(trace_id(&with_headers(&[("traceparent", &traceparent)])), Some(id));
        assert_eq!(trace_id(&with_headers(&[("b3", &format!("{id}-00f067aa0ba902b7-1"))])), Some(id));
        assert_eq!(trace_id(&with_headers(&[("X-B3-TraceId", "00f067aa0ba902b7")])), Some("00f067aa0ba902b7"));
    }

    #[test]
    fn what_is_no_trace_id_is_none() {
        for value in ["", "0", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "00-xyz-1", "00-é"] {
            assert_eq!(trace_id(&with_headers(&[("traceparent", value), ("b3", value)])), None, "{value}");
        }
    }
}
